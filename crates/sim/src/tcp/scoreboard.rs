//! The sender's scoreboard: a ring with one record per segment, and bit maps of SACKed and lost segments.
//! No ACK costs a scan over the window.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;
use std::ops::Range;

use bbrlab_core::PacketToken;

use super::packet::SACK_BLOCKS;

/// Marks on a record.
pub mod flag {
    /// Selectively acknowledged.
    pub const SACKED: u8 = 1;
    /// Marked lost.
    pub const LOST: u8 = 2;
    /// A retransmission of it is in flight.
    pub const RETRANS: u8 = 4;
    /// Has been retransmitted at least once.
    pub const EVER_RETRANS: u8 = 8;
}

/// The sender's record of one segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    /// Controller token of its newest transmission.
    pub token: PacketToken,
    /// Payload bytes.
    pub len: u16,
    /// Marks, from [`flag`].
    pub flags: u8,
    /// Segments that follow it in the same super-packet, at most 255.
    pub rest: u8,
    /// Nanoseconds of its first transmission after the token's microsecond.
    pub sent_ns: u16,
}

/// Smallest ring: a multiple of 64, so that a word of a bit map never wraps.
const MIN_CAPACITY: usize = 64;

/// Ring of the records between `una` and `next`.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    records: Vec<Record>,
    sacked_bits: Vec<u64>,
    /// Lost and not yet retransmitted.
    pending_bits: Vec<u64>,
    mask: u64,
    /// Oldest unacknowledged segment.
    pub una: u64,
    /// Next new segment.
    pub next: u64,
    /// SACKed segments.
    pub sacked_out: u32,
    /// Segments marked lost.
    pub lost_out: u32,
    /// Retransmissions in flight.
    pub retrans_out: u32,
    /// Payload bytes of the SACKed segments, of the lost ones, and of the retransmissions in flight.
    pub sacked_bytes: u64,
    pub lost_bytes: u64,
    pub retrans_bytes: u64,
    /// One past the highest SACKed segment.
    pub highest_sacked: u64,
    /// Lower bound of the pending segments.
    pending_from: u64,
    /// Blocks of the last ACK that had any; all SACKed, so the next ACK need not scan them again.
    known: [(u64, u64); SACK_BLOCKS],
    /// Transmissions in order of time: (segment, send time µs). Superseded entries are skipped.
    pub sent_log: VecDeque<(u64, u64)>,
}

impl Default for Scoreboard {
    fn default() -> Self {
        Self {
            records: vec![Record::default(); MIN_CAPACITY],
            sacked_bits: vec![0; MIN_CAPACITY / 64],
            pending_bits: vec![0; MIN_CAPACITY / 64],
            mask: MIN_CAPACITY as u64 - 1,
            una: 0,
            next: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            sacked_bytes: 0,
            lost_bytes: 0,
            retrans_bytes: 0,
            highest_sacked: 0,
            pending_from: 0,
            known: [(0, 0); SACK_BLOCKS],
            sent_log: VecDeque::new(),
        }
    }
}

impl Scoreboard {
    /// Segments sent but not cumulatively acknowledged.
    pub const fn packets_out(&self) -> u32 {
        (self.next - self.una) as u32
    }

    /// Segments in flight, as in Linux `tcp_packets_in_flight`.
    pub const fn in_flight(&self) -> u32 {
        self.packets_out() + self.retrans_out - self.sacked_out - self.lost_out
    }

    /// Reads the record of a segment between `una` and `next`.
    pub fn peek(&self, seq: u64) -> &Record {
        debug_assert!(self.una <= seq && seq < self.next);
        &self.records[(seq & self.mask) as usize]
    }

    /// Adds the next new segment, which `rest` more follow in the same super-packet.
    pub fn push(&mut self, token: PacketToken, sent_ns: u16, len: u16, rest: u32) -> u64 {
        if u64::from(self.packets_out()) > self.mask {
            self.grow();
        }
        let seq = self.next;
        self.next += 1;
        self.records[(seq & self.mask) as usize] = Record { token, len, flags: 0, rest: rest.min(255) as u8, sent_ns };
        seq
    }

    /// Doubles the ring and redistributes its records.
    fn grow(&mut self) {
        let old_mask = self.mask;
        let capacity = self.records.len() * 2;
        let mut records = vec![Record::default(); capacity];
        self.mask = capacity as u64 - 1;
        self.sacked_bits = vec![0; capacity / 64];
        self.pending_bits = vec![0; capacity / 64];
        for seq in self.una..self.next {
            let record = self.records[(seq & old_mask) as usize];
            let index = (seq & self.mask) as usize;
            records[index] = record;
            if record.flags & flag::SACKED != 0 {
                self.sacked_bits[index / 64] |= 1 << (index % 64);
            }
            if record.flags & (flag::LOST | flag::RETRANS) == flag::LOST {
                self.pending_bits[index / 64] |= 1 << (index % 64);
            }
        }
        self.records = records;
    }

    /// Marks a segment SACKed and returns its previous flags. It must not be SACKed yet.
    pub fn mark_sacked(&mut self, seq: u64) -> u8 {
        let index = (seq & self.mask) as usize;
        let before = self.records[index].flags;
        debug_assert!(before & flag::SACKED == 0);
        self.clear_loss(index, before);
        self.sacked_bytes += u64::from(self.records[index].len);
        self.records[index].flags = (before | flag::SACKED) & !(flag::LOST | flag::RETRANS);
        self.sacked_bits[index / 64] |= 1 << (index % 64);
        self.sacked_out += 1;
        self.highest_sacked = self.highest_sacked.max(seq + 1);
        before
    }

    /// Marks the unmarked segments from `first` up to `to` SACKed. Returns their number and their bytes.
    pub fn sack_plain(&mut self, first: u64, to: u64) -> (u64, u64) {
        let (mut seq, mut bytes) = (first, 0);
        while seq < to {
            let index = (seq & self.mask) as usize;
            let record = &mut self.records[index];
            if record.flags != 0 {
                break;
            }
            record.flags = flag::SACKED;
            bytes += u64::from(record.len);
            self.sacked_bits[index / 64] |= 1 << (index % 64);
            seq += 1;
        }
        self.sacked_bytes += bytes;
        self.sacked_out += (seq - first) as u32;
        self.highest_sacked = self.highest_sacked.max(seq);
        (seq - first, bytes)
    }

    /// Replaces the tokens of these segments.
    pub fn set_tokens(&mut self, range: Range<u64>, token: PacketToken) {
        for seq in range {
            self.records[(seq & self.mask) as usize].token = token;
        }
    }

    /// Marks a segment lost (again). It must be in flight.
    pub fn mark_lost(&mut self, seq: u64) {
        let index = (seq & self.mask) as usize;
        let record = &mut self.records[index];
        let flags = record.flags;
        debug_assert!(flags & flag::SACKED == 0);
        let len = u64::from(record.len);
        if flags & flag::RETRANS != 0 {
            self.retrans_out -= 1;
            self.retrans_bytes -= len;
        }
        if flags & flag::LOST == 0 {
            self.lost_out += 1;
            self.lost_bytes += len;
        }
        record.flags = (flags | flag::LOST) & !flag::RETRANS;
        self.pending_bits[index / 64] |= 1 << (index % 64);
        self.pending_from = self.pending_from.min(seq);
    }

    /// Records a retransmission of this segment with its token, which `rest` more follow in the same super-packet.
    pub fn mark_retransmitted(&mut self, seq: u64, token: PacketToken, rest: u64) {
        let index = (seq & self.mask) as usize;
        let record = &mut self.records[index];
        if record.flags & flag::RETRANS == 0 {
            self.retrans_out += 1;
            self.retrans_bytes += u64::from(record.len);
        }
        record.rest = rest.min(255) as u8;
        record.flags |= flag::RETRANS | flag::EVER_RETRANS;
        record.token = token;
        self.pending_bits[index / 64] &= !(1 << (index % 64));
    }

    /// Records that a tail loss probe repeated this segment. The repetition does not count as in flight.
    // spec: Linux __tcp_retransmit_skb
    pub fn mark_probed(&mut self, seq: u64, token: PacketToken, rest: u64) {
        let record = &mut self.records[(seq & self.mask) as usize];
        record.rest = rest.min(255) as u8;
        record.flags |= flag::EVER_RETRANS;
        record.token = token;
    }

    /// Clears the mark of a retransmission in flight after it proved unnecessary.
    pub fn unmark_retransmitted(&mut self, seq: u64) {
        let index = (seq & self.mask) as usize;
        let record = &mut self.records[index];
        if record.flags & flag::RETRANS == 0 {
            return;
        }
        self.retrans_out -= 1;
        self.retrans_bytes -= u64::from(record.len);
        record.flags &= !flag::RETRANS;
        if record.flags & flag::LOST != 0 {
            self.pending_bits[index / 64] |= 1 << (index % 64);
            self.pending_from = self.pending_from.min(seq);
        }
    }

    /// Clears the loss mark of a segment.
    pub fn unmark_lost(&mut self, seq: u64) {
        let index = (seq & self.mask) as usize;
        let flags = self.records[index].flags;
        if flags & flag::LOST != 0 {
            self.lost_out -= 1;
            self.lost_bytes -= u64::from(self.records[index].len);
            self.records[index].flags &= !flag::LOST;
            self.pending_bits[index / 64] &= !(1 << (index % 64));
        }
    }

    fn clear_loss(&mut self, index: usize, flags: u8) {
        let len = u64::from(self.records[index].len);
        if flags & flag::LOST != 0 {
            self.lost_out -= 1;
            self.lost_bytes -= len;
            self.pending_bits[index / 64] &= !(1 << (index % 64));
        }
        if flags & flag::RETRANS != 0 {
            self.retrans_out -= 1;
            self.retrans_bytes -= len;
        }
    }

    /// Removes the oldest segment and returns its record.
    pub fn pop_acked(&mut self) -> Record {
        let index = (self.una & self.mask) as usize;
        let record = self.records[index];
        // Most segments carry no mark.
        if record.flags & (flag::SACKED | flag::LOST | flag::RETRANS) != 0 {
            self.clear_loss(index, record.flags);
            if record.flags & flag::SACKED != 0 {
                self.sacked_out -= 1;
                self.sacked_bytes -= u64::from(record.len);
                self.sacked_bits[index / 64] &= !(1 << (index % 64));
            }
        }
        self.una += 1;
        record
    }

    /// Removes the oldest segments before `until` that never carried a mark. Returns their number, their bytes and the send
    /// time (µs) of the first. The last one remains readable as [`Self::last_popped`].
    #[inline]
    pub fn pop_plain(&mut self, until: u64) -> (u64, u64, u64) {
        let first = self.una;
        let (mut seq, mut bytes) = (first, 0);
        while seq < until {
            let record = &self.records[(seq & self.mask) as usize];
            if record.flags != 0 {
                break;
            }
            bytes += u64::from(record.len);
            seq += 1;
        }
        self.una = seq;
        (seq - first, bytes, self.records[(first & self.mask) as usize].token.send_us())
    }

    /// Removes the oldest segments before `until` that are SACKed. Returns their number and their bytes. The last one remains
    /// readable as [`Self::last_popped`].
    #[inline]
    pub fn pop_sacked(&mut self, until: u64) -> (u64, u64) {
        let first = self.una;
        let (mut seq, mut bytes) = (first, 0);
        while seq < until {
            let index = (seq & self.mask) as usize;
            let record = &self.records[index];
            if record.flags & flag::SACKED == 0 {
                break;
            }
            debug_assert!(
                record.flags & (flag::LOST | flag::RETRANS) == 0,
                "what is SACKed is neither lost nor in flight"
            );
            bytes += u64::from(record.len);
            self.sacked_bits[index / 64] &= !(1 << (index % 64));
            seq += 1;
        }
        self.una = seq;
        self.sacked_out -= (seq - first) as u32;
        self.sacked_bytes -= bytes;
        (seq - first, bytes)
    }

    /// Record removed last.
    #[inline]
    pub fn last_popped(&self) -> &Record {
        &self.records[(self.una.wrapping_sub(1) & self.mask) as usize]
    }

    /// Position from which to scan the block that begins at `from`. It skips the part that an earlier ACK reported at this place.
    // Linux keeps such blocks too (`recv_sack_cache`): blocks grow long, and only their end is new.
    pub fn skip_known(&self, place: usize, from: u64) -> u64 {
        let holds = |block: &&(u64, u64)| block.0 <= from && from < block.1;
        // Sorted by sequence, most blocks keep their place.
        let known = self.known.get(place).filter(holds).or_else(|| self.known.iter().find(holds));
        let at = known.map_or(from, |block| block.1);
        debug_assert!(self.next_unsacked(from, at.min(self.next)).is_none(), "a known block is not SACKed");
        at
    }

    /// Records these blocks as entirely SACKed.
    pub const fn set_known(&mut self, blocks: [(u64, u64); SACK_BLOCKS]) {
        self.known = blocks;
    }

    /// First segment in `from..to` that is not SACKed.
    pub fn next_unsacked(&self, from: u64, to: u64) -> Option<u64> {
        find(&self.sacked_bits, self.mask, from, to, true)
    }

    /// First lost segment awaiting retransmission.
    pub fn next_pending(&mut self) -> Option<u64> {
        if self.lost_out <= self.retrans_out {
            return None;
        }
        let found = find(&self.pending_bits, self.mask, self.pending_from.max(self.una), self.next, false);
        self.pending_from = found.unwrap_or(self.next);
        found
    }

    /// First lost segments awaiting retransmission that still form one super-packet, and so are retransmitted together. At most
    /// `limit`, at least one.
    // Linux splits a super-packet at SACK boundaries, and never merges two again.
    pub fn next_pending_run(&mut self, limit: u32) -> Option<Range<u64>> {
        let first = self.next_pending()?;
        let burst = self.peek(first).token;
        let mut end = first + 1;
        while end < self.next && end - first < u64::from(limit) && self.is_pending(end) && self.peek(end).token == burst
        {
            end += 1;
        }
        Some(first..end)
    }

    /// Payload bytes of these segments.
    pub fn bytes_of(&self, run: Range<u64>) -> u64 {
        run.map(|seq| u64::from(self.peek(seq).len)).sum()
    }

    fn is_pending(&self, seq: u64) -> bool {
        let index = (seq & self.mask) as usize;
        self.pending_bits[index / 64] & (1 << (index % 64)) != 0
    }

    /// Drops acknowledged segments from the log's front.
    pub fn trim_log(&mut self) {
        while self.sent_log.front().is_some_and(|&(seq, _)| seq < self.una) {
            self.sent_log.pop_front();
        }
    }

    /// Reinserts a transmission into the log at its place after its loss mark was cleared.
    pub fn relog(&mut self, seq: u64, sent_us: u64) {
        let at = self.sent_log.partition_point(|&(other, sent)| (sent, other) < (sent_us, seq));
        if self.sent_log.get(at) != Some(&(seq, sent_us)) {
            self.sent_log.insert(at, (seq, sent_us));
        }
    }

    /// True if a log entry is the newest transmission of a segment still in flight.
    pub fn is_current(&self, seq: u64, sent_us: u64) -> bool {
        if seq < self.una {
            return false;
        }
        let record = self.peek(seq);
        let waiting = record.flags & (flag::LOST | flag::RETRANS) == flag::LOST;
        record.flags & flag::SACKED == 0 && !waiting && record.token.send_us() == sent_us
    }
}

/// First index in `from..to` whose bit is set (`invert`: clear). The ring has `mask` + 1 bits and is searched a word at a time.
fn find(bits: &[u64], mask: u64, from: u64, to: u64, invert: bool) -> Option<u64> {
    let mut seq = from;
    while seq < to {
        let index = (seq & mask) as usize;
        let word = if invert { !bits[index / 64] } else { bits[index / 64] };
        let word = word >> (index % 64);
        if word != 0 {
            let found = seq + u64::from(word.trailing_zeros());
            return (found < to).then_some(found);
        }
        seq += 64 - (index % 64) as u64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(n: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        for _ in 0..n {
            board.push(PacketToken::default(), 0, 1448, 0);
        }
        board
    }

    #[test]
    fn counters_follow_linux_through_loss_retransmission_and_sack() {
        let mut board = board(10);
        board.mark_lost(0);
        assert_eq!(board.in_flight(), 9);
        board.mark_retransmitted(0, PacketToken::default(), 0);
        assert_eq!(board.in_flight(), 10);
        board.mark_sacked(0);
        assert_eq!((board.in_flight(), board.lost_out, board.retrans_out, board.sacked_out), (9, 0, 0, 1));
    }

    #[test]
    fn pending_segments_come_in_sequence_order_and_a_lost_retransmission_comes_back() {
        let mut board = board(200);
        for seq in [150, 3, 70] {
            board.mark_lost(seq);
        }
        for seq in [3, 70, 150] {
            assert_eq!(board.next_pending(), Some(seq));
            board.mark_retransmitted(seq, PacketToken::default(), 0);
        }
        assert_eq!(board.next_pending(), None);
        board.mark_lost(70);
        assert_eq!(board.next_pending(), Some(70));
    }

    #[test]
    fn a_run_ends_where_its_burst_or_its_loss_does() {
        let mut board = Scoreboard::default();
        let mut sampler = bbrlab_core::estimators::RateSampler::new(bbrlab_core::Time::ZERO);
        for burst in 0..3 {
            let now = bbrlab_core::Time::nanos(burst * 1_000_000);
            let token = sampler.on_sent(now, 0, false, false);
            for _ in 0..40 {
                board.push(token, 0, 1448, 0);
            }
        }
        // One hole spans the border of two bursts, another is split by a SACK; words of the bit maps end at 64.
        (30..50).chain(55..100).filter(|seq| *seq != 70).for_each(|seq| board.mark_lost(seq));
        let mut runs = Vec::new();
        while let Some(run) = board.next_pending_run(25) {
            run.clone().for_each(|seq| board.mark_retransmitted(seq, PacketToken::default(), 0));
            runs.push((run.start, run.end));
        }
        assert_eq!(runs, [(30, 40), (40, 50), (55, 70), (71, 80), (80, 100)]);
        // The pending segments were retransmitted together the last time.
        (32..45).for_each(|seq| board.mark_lost(seq));
        assert_eq!(board.next_pending_run(8), Some(32..40));
        assert_eq!(board.next_pending_run(0), Some(32..33));
    }

    #[test]
    fn marks_survive_the_growth_of_the_ring() {
        let mut board = board(60);
        for _ in 0..50 {
            board.pop_acked();
        }
        board.mark_sacked(55);
        board.mark_lost(52);
        for _ in 0..500 {
            board.push(PacketToken::default(), 0, 1448, 0);
        }
        assert_eq!(board.next_unsacked(55, 60), Some(56));
        assert_eq!(board.next_pending(), Some(52));
    }

    #[test]
    fn popping_clears_every_mark() {
        let mut board = board(3);
        board.mark_sacked(1);
        board.mark_lost(0);
        board.mark_retransmitted(0, PacketToken::default(), 0);
        for _ in 0..3 {
            board.pop_acked();
        }
        assert_eq!((board.in_flight(), board.sacked_out, board.lost_out, board.retrans_out), (0, 0, 0, 0));
    }
}
