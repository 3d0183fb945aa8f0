//! The data in flight of one direction of a connection, by the ACKs and SACK blocks that its sender received.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use super::signals::Lost;

/// Largest number of records of a connection. Ours: a window of 190 MB in segments of 1448 bytes.
pub const RECORDS_MAX: usize = 131_072;
/// Records searched on either side of a loss for one that arrived. Ours.
const NEIGHBOURS: usize = 64;
/// SACK blocks remembered as processed. Ours: more than an ACK holds.
const RECENT: usize = 8;
/// Origin of unwrapped sequence numbers, so that the ones before the first are positive.
const ORIGIN: u64 = 1 << 33;

/// 64-bit sequence numbers from those of 32 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwrapped {
    newest: u64,
}

impl Unwrapped {
    /// Unwraps a number that moves the newest one forward.
    pub fn sent(&mut self, seq: u32) -> u64 {
        if self.newest == 0 {
            self.newest = ORIGIN + u64::from(seq);
        }
        let at = self.near(seq);
        self.newest = self.newest.max(at);
        at
    }

    /// Returns the number nearest to the newest one.
    pub fn near(&self, seq: u32) -> u64 {
        self.newest.saturating_add_signed(i64::from(seq.wrapping_sub(self.newest as u32).cast_signed()))
    }
}

/// A frame of one segment, or of several that offload splits; its segments have consecutive numbers in the order of their sending.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Number of its first segment.
    pub number: u64,
    /// Its first byte.
    pub from: u64,
    /// Bytes of a segment.
    pub segment: u64,
}

impl Frame {
    /// Number of the segment with this byte.
    pub fn number_of(&self, byte: u64) -> u64 {
        self.number + byte.saturating_sub(self.from) / self.segment.max(1)
    }

    /// First and last number of the segments with the bytes from `from` up to the one before `to`.
    pub fn numbers_of(&self, from: u64, to: u64) -> (u64, u64) {
        (self.number_of(from), self.number_of(to.max(from + 1) - 1))
    }
}

/// A range of data in flight that was sent in one frame.
#[derive(Clone, Copy, Debug)]
struct Record {
    from: u64,
    to: u64,
    sent_ns: u64,
    frame: Frame,
    /// Clock of the file at that time.
    clock: u32,
    /// Sent more than once: an ACK of it gives no RTT (Karn).
    is_again: bool,
    is_sacked: bool,
    /// RTT of its ACK, if there is one.
    rtt_ns: u64,
}

/// RTT of an ACK: that of the newest data that it is the first to acknowledge and that was sent once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttSample {
    /// Send time of the data.
    pub sent_ns: u64,
    /// Time from its departure to the ACK.
    pub rtt_ns: u64,
    /// Bytes of its frame up to the end of the range acknowledged.
    pub lead: u64,
    /// Number of its last segment.
    pub number: u64,
}

/// The newest data that an ACK is the first to acknowledge: its send time, and what of its frame had to pass.
type Newest = Option<(u64, u64, u64)>;

/// Result of an ACK.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivered {
    /// Bytes that it is the first to acknowledge.
    pub bytes: u64,
    /// RTT, if it has one.
    pub rtt: Option<RttSample>,
    /// Data sent once that arrived after later data, bytes.
    pub reordered: u64,
    /// Largest distance by which it was overtaken, bytes.
    pub extent: u64,
}

/// Result of sending data that had been sent before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repeated {
    /// Bytes that had been acknowledged already.
    pub needless: u64,
    /// Bytes that the capture had not seen before.
    pub unseen: u64,
}

/// The data in flight.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    records: VecDeque<Record>,
    /// First byte not yet acknowledged.
    pub una: u64,
    /// One past the last byte sent.
    pub next: u64,
    /// Bytes above `una` that are selectively acknowledged.
    pub sacked: u64,
    highest_sacked: u64,
    /// The highest data acknowledged selectively before the present ACK.
    overtaker: u64,
    recent: [(u64, u64); RECENT],
    recent_at: usize,
    /// Segments that the newest ACK is the first to acknowledge: first and last number of each range.
    pub arrived: Vec<(u64, u64)>,
    /// Send time and RTT of the last data that left the records.
    front: (u64, u64),
    /// Number of times that the file's clock was set back. No RTT spans such a step.
    pub clock: u32,
    /// Shortest time from data sent once to its ACK; 0 counts too.
    pub least_ns: Option<u64>,
    /// True if records were discarded because they were too many.
    pub has_overrun: bool,
}

impl Scoreboard {
    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Bytes sent and neither acknowledged nor selectively acknowledged.
    pub const fn in_flight(&self) -> u64 {
        self.next.saturating_sub(self.una).saturating_sub(self.sacked)
    }

    /// Records data of a frame sent for the first time, from `next` on. Returns the bytes skipped.
    pub fn send(&mut self, now_ns: u64, frame: Frame, from: u64, to: u64) -> u64 {
        if self.next == 0 {
            (self.una, self.next) = (from, from);
        }
        let skipped = from.saturating_sub(self.next);
        self.make_room();
        self.records.push_back(self.record(now_ns, frame, from, to));
        self.next = to;
        skipped
    }

    /// Discards all records.
    pub fn forget(&mut self) {
        self.records = VecDeque::new();
        (self.sacked, self.recent) = (0, [(0, 0); RECENT]);
    }

    /// Records data of a frame below `next` sent again; `lost` receives each part that was neither acknowledged nor a mere repetition, and
    /// the frame in which it was lost.
    pub fn send_again(
        &mut self,
        now_ns: u64,
        frame: Frame,
        from: u64,
        to: u64,
        mut lost: impl FnMut(Lost, Frame),
    ) -> Repeated {
        let mut repeated = Repeated { needless: self.una.min(to).saturating_sub(from), unseen: 0 };
        let from = from.max(self.una);
        if from >= to {
            return repeated;
        }
        self.split(from);
        self.split(to);
        let first = self.records.partition_point(|record| record.to <= from);
        let mut known = 0;
        for nth in first..self.records.len() {
            let record = self.records[nth];
            if record.from >= to {
                break;
            }
            let bytes = record.to - record.from;
            known += bytes;
            if record.is_sacked {
                repeated.needless += bytes;
                continue;
            }
            let (before_ns, after_ns) = (self.rtt_before(nth), self.rtt_after(nth));
            let Record { sent_ns, from, to, .. } = record;
            lost(Lost { sent_ns, from, to, bytes, before_ns, after_ns }, record.frame);
            let record = &mut self.records[nth];
            let frame = Frame { number: frame.number_of(from), from, ..frame };
            (record.is_again, record.sent_ns, record.frame) = (true, now_ns, frame);
            record.clock = self.clock;
        }
        repeated.unseen = (to - from).saturating_sub(known);
        if repeated.unseen > 0 {
            self.fill(now_ns, frame, from, to);
        }
        repeated
    }

    /// Records the data of a frame below `next` that was not seen before. It may have been sent before, unseen.
    fn fill(&mut self, now_ns: u64, frame: Frame, from: u64, to: u64) {
        let (mut from, mut nth) = (from, self.records.partition_point(|record| record.to <= from));
        while from < to && self.make_room() {
            let next = self.records.get(nth).map_or((to, to), |record| (record.from.min(to), record.to));
            if from < next.0 {
                let own = Frame { number: frame.number_of(from), from, ..frame };
                let record = Record { is_again: true, ..self.record(now_ns, own, from, next.0) };
                self.records.insert(nth, record);
                nth += 1;
            }
            (from, nth) = (next.1.max(next.0), nth + 1);
        }
    }

    /// Discards all records if they are too many. Returns false if it did.
    fn make_room(&mut self) -> bool {
        let has_room = self.records.len() < RECORDS_MAX;
        if !has_room {
            self.overrun();
        }
        has_room
    }

    /// Discards all records, because they are too many.
    pub fn overrun(&mut self) {
        self.has_overrun = true;
        self.forget();
    }

    const fn record(&self, sent_ns: u64, frame: Frame, from: u64, to: u64) -> Record {
        Record { from, to, sent_ns, frame, clock: self.clock, is_again: false, is_sacked: false, rtt_ns: 0 }
    }

    /// RTT of the nearest data before record `nth` that arrived; 0 if there is none of that time.
    fn rtt_before(&self, nth: usize) -> u64 {
        let near = self.records.range(nth.saturating_sub(NEIGHBOURS)..nth).rev().find(|record| record.rtt_ns > 0);
        let near = near.map(|record| (record.sent_ns, record.rtt_ns));
        self.rtt_of_then(nth, near.unwrap_or(if nth < NEIGHBOURS { self.front } else { (0, 0) }))
    }

    /// RTT of the nearest data after record `nth` that arrived; 0 if there is none of that time.
    fn rtt_after(&self, nth: usize) -> u64 {
        let end = self.records.len().min(nth + NEIGHBOURS);
        let near = self.records.range(nth..end).find(|record| record.rtt_ns > 0);
        self.rtt_of_then(nth, near.map_or((0, 0), |record| (record.sent_ns, record.rtt_ns)))
    }

    /// RTT of neighbouring data, unless it was sent a round trip before or after record `nth`: that may have been sent again later.
    fn rtt_of_then(&self, nth: usize, (sent_ns, rtt_ns): (u64, u64)) -> u64 {
        if self.records[nth].sent_ns.abs_diff(sent_ns) < rtt_ns { rtt_ns } else { 0 }
    }

    /// Splits the record that contains byte `at`, so that one begins there.
    fn split(&mut self, at: u64) {
        let nth = self.records.partition_point(|record| record.to <= at);
        if self.records.get(nth).is_none_or(|record| record.from >= at) || !self.make_room() {
            return;
        }
        if let Some(record) = self.records.get_mut(nth) {
            let rest = Record { from: at, ..*record };
            record.to = at;
            self.records.insert(nth + 1, rest);
        }
    }

    /// Processes an ACK with its SACK blocks.
    pub fn acknowledge(&mut self, now_ns: u64, ack: u64, blocks: impl Iterator<Item = (u64, u64)>) -> Delivered {
        let mut delivered = Delivered::default();
        let mut newest: Newest = None;
        self.arrived.clear();
        // What one ACK reports has no order of its own.
        self.overtaker = self.highest_sacked;
        for (from, to) in blocks {
            self.sack(now_ns, from.max(self.una), to.min(self.next), &mut delivered, &mut newest);
        }
        let ack = ack.min(self.next);
        if ack > self.una {
            self.advance(now_ns, ack, &mut delivered, &mut newest);
        }
        delivered.rtt = newest.and_then(|(sent_ns, lead, number)| {
            let rtt_ns = now_ns.saturating_sub(sent_ns);
            self.least_ns = Some(self.least_ns.map_or(rtt_ns, |least_ns| least_ns.min(rtt_ns)));
            (rtt_ns > 0).then_some(RttSample { sent_ns, rtt_ns, lead, number })
        });
        delivered
    }

    fn sack(&mut self, now_ns: u64, from: u64, to: u64, delivered: &mut Delivered, newest: &mut Newest) {
        // A block mostly repeats what an earlier ACK reported: only its new ends need a look.
        let known = self.recent.iter().position(|&(a, b)| from < b && a < to && a < b);
        let (old_from, old_to) = known.map_or((to, to), |nth| self.recent[nth]);
        self.sack_range(now_ns, from, to.min(old_from), delivered, newest);
        self.sack_range(now_ns, from.max(old_to), to, delivered, newest);
        if from < to {
            match known {
                Some(nth) => self.recent[nth] = (from.min(old_from), to.max(old_to)),
                None => {
                    self.recent[self.recent_at] = (from, to);
                    self.recent_at = (self.recent_at + 1) % RECENT;
                }
            }
            self.highest_sacked = self.highest_sacked.max(to);
        }
    }

    fn sack_range(&mut self, now_ns: u64, from: u64, to: u64, delivered: &mut Delivered, newest: &mut Newest) {
        if from >= to {
            return;
        }
        self.split(from);
        self.split(to);
        let (highest, clock) = (self.overtaker, self.clock);
        let first = self.records.partition_point(|record| record.to <= from);
        for record in self.records.range_mut(first..).take_while(|record| record.from < to) {
            if record.is_sacked {
                continue;
            }
            let bytes = record.to - record.from;
            record.is_sacked = true;
            delivered.bytes += bytes;
            self.sacked += bytes;
            self.arrived.push(record.frame.numbers_of(record.from, record.to));
            record.arrive(now_ns, clock, newest);
            record.overtaken(highest, delivered);
        }
    }

    /// Moves `una` forward to `ack`.
    fn advance(&mut self, now_ns: u64, ack: u64, delivered: &mut Delivered, newest: &mut Newest) {
        self.split(ack);
        let highest = self.overtaker;
        let (mut is_ambiguous, mut is_first_hole) = (false, true);
        let mut own = None;
        while let Some(mut record) = self.records.front().copied().filter(|record| record.from < ack) {
            self.records.pop_front();
            let bytes = record.to - record.from;
            if record.is_sacked {
                self.sacked = self.sacked.saturating_sub(bytes);
                is_first_hole = false;
            } else {
                delivered.bytes += bytes;
                is_ambiguous |= record.is_again;
                self.arrived.push(record.frame.numbers_of(record.from, record.to));
                record.arrive(now_ns, self.clock, &mut own);
                // Beyond the first hole, data may be unreported because an ACK holds few blocks.
                if is_first_hole && !is_ambiguous {
                    record.overtaken(highest, delivered);
                }
            }
            self.front = (record.sent_ns, record.rtt_ns);
        }
        self.una = ack;
        // An ACK that covers data sent twice may have waited for it.
        if !is_ambiguous {
            *newest = (*newest).max(own);
        }
    }
}

impl Record {
    /// Notes the arrival of its data, and its RTT if it was sent once and took time by the same clock.
    fn arrive(&mut self, now_ns: u64, clock: u32, newest: &mut Newest) {
        if !self.is_again && self.clock == clock && now_ns >= self.sent_ns {
            self.rtt_ns = now_ns - self.sent_ns;
            let number = self.frame.numbers_of(self.from, self.to).1;
            *newest = (*newest).max(Some((self.sent_ns, self.to - self.frame.from, number)));
        }
    }

    /// Counts data that was sent once, and that later data had overtaken.
    fn overtaken(&self, highest: u64, delivered: &mut Delivered) {
        if !self.is_again && self.to < highest {
            delivered.reordered += self.to - self.from;
            delivered.extent = delivered.extent.max(highest - self.to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn frame(number: u64, from: u64) -> Frame {
        Frame { number, from, segment: 1000 }
    }

    /// A scoreboard of `n` segments of 1000 bytes from 10,000 on, sent 10 ns apart.
    fn sent(n: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        (0..n).for_each(|i| {
            let from = 10_000 + 1000 * i;
            board.send(10 * i, frame(i, from), from, from + 1000);
        });
        board
    }

    #[test]
    fn an_ack_has_the_rtt_of_the_newest_data_that_it_covers_first() {
        let mut board = sent(3);
        let one = board.acknowledge(1000, 12_000, std::iter::empty());
        assert_eq!((one.bytes, one.rtt.unwrap().rtt_ns, board.in_flight()), (2000, 990, 1000));
        assert_eq!(board.acknowledge(1100, 12_000, std::iter::empty()).rtt, None);
    }

    #[test]
    fn repeated_blocks_count_once_and_growing_ones_their_new_part() {
        let mut board = sent(6);
        let block = |from, to| [(from, to)].into_iter();
        assert_eq!(board.acknowledge(1000, 10_000, block(12_000, 13_000)).bytes, 1000);
        assert_eq!(board.acknowledge(1001, 10_000, block(12_000, 13_000)).bytes, 0);
        let grown = board.acknowledge(1010, 10_000, block(12_000, 14_000));
        assert_eq!((grown.bytes, grown.rtt.unwrap().rtt_ns, board.sacked), (1000, 980, 2000));
        let all = board.acknowledge(1100, 16_000, std::iter::empty());
        assert_eq!((all.bytes, board.sacked, board.in_flight(), board.len()), (4000, 0, 0, 0));
    }

    #[test]
    fn data_sent_again_is_lost_unless_it_had_arrived() {
        let mut board = sent(6);
        board.acknowledge(1000, 11_000, [(12_000, 16_000)].into_iter());
        let mut lost = Vec::new();
        let repeated = board.send_again(1100, frame(6, 10_500), 10_500, 13_000, |one, _| lost.push(one));
        assert_eq!((repeated.needless, repeated.unseen), (1500, 0));
        assert_eq!(lost.len(), 1);
        assert_eq!((lost[0].from, lost[0].to, lost[0].sent_ns), (11_000, 12_000, 10));
        assert_eq!((lost[0].before_ns, lost[0].after_ns), (1000, 980));
        assert_eq!(board.acknowledge(2000, 16_000, std::iter::empty()).rtt, None);
    }

    #[test]
    fn a_retransmission_that_is_lost_a_round_trip_later_has_not_the_rtt_of_its_neighbours() {
        let mut board = sent(6);
        board.acknowledge(1000, 11_000, [(12_000, 16_000)].into_iter());
        let mut rtts = Vec::new();
        for now_ns in [900, 1010, 5000] {
            board.send_again(now_ns, frame(6, 11_000), 11_000, 12_000, |one, _| {
                rtts.push((one.before_ns, one.after_ns))
            });
        }
        assert_eq!(rtts, [(1000, 980), (1000, 980), (0, 0)]);
    }

    #[test]
    fn data_overtaken_and_never_sent_again_is_reordered() {
        let mut board = sent(4);
        board.acknowledge(1000, 10_000, [(11_000, 13_000)].into_iter());
        let late = board.acknowledge(1005, 13_000, std::iter::empty());
        assert_eq!((late.reordered, late.extent), (1000, 2000));
    }

    #[test]
    fn a_frame_of_several_segments_is_acknowledged_in_parts() {
        let mut board = Scoreboard::default();
        board.send(5, frame(7, 10_000), 10_000, 20_000);
        let part = board.acknowledge(100, 12_000, [(15_000, 16_000)].into_iter());
        assert_eq!((part.bytes, part.rtt.unwrap().lead, part.rtt.unwrap().number), (3000, 6000, 12));
        assert_eq!(board.arrived, [(12, 12), (7, 8)]);
        let mut lost = Vec::new();
        let mut numbers = Vec::new();
        board.send_again(200, frame(17, 11_000), 12_000, 15_000, |one, frame| {
            lost.push((one.from, one.to));
            numbers.push(frame.numbers_of(one.from, one.to));
        });
        assert_eq!((lost, numbers), (vec![(12_000, 15_000)], vec![(9, 11)]));
        board.acknowledge(300, 16_000, std::iter::empty());
        assert_eq!(board.arrived, [(18, 20)], "sent again");
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut numbers = Unwrapped::default();
        let first = numbers.sent(u32::MAX - 10);
        assert_eq!(numbers.sent(20) - first, 31);
        assert_eq!(numbers.near(u32::MAX), first + 10);
    }

    #[test]
    fn the_number_of_records_is_bounded() {
        let mut board = Scoreboard::default();
        for i in 0..3 * RECORDS_MAX as u64 {
            board.send(i, frame(i, 1 + i), 1 + i, 2 + i);
            assert!(board.len() <= RECORDS_MAX);
        }
        assert!(board.has_overrun);
        let mut board = Scoreboard::default();
        let frames = RECORDS_MAX as u64 / 2;
        (0..frames).for_each(|i| _ = board.send(i, frame(i, 1 + 10 * i), 1 + 10 * i, 11 + 10 * i));
        for i in 0..frames {
            let from = 4 + 10 * (frames - 1 - i);
            board.acknowledge(frames + i, 1, [(from, from + 2)].into_iter());
            assert!(board.len() <= RECORDS_MAX);
        }
        assert!(board.has_overrun);
    }
}
