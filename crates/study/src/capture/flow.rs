//! One direction of a TCP connection: its data, the ACKs of that data, and the limits of the sender.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::headers::{Options, Segment, flag};
use super::policer::{STEPS_MAX, Step};
use super::queue::{Fate, Packet, Queue};
use super::scoreboard::{Frame, Scoreboard, Unwrapped};
use super::signals::{AckSignal, Signals};
use super::sizes::{MTU_MAX, Sizes};
use super::vantage::Echoes;

/// Segment size if neither the handshake nor a segment shows it. Source: Ethernet with timestamps.
const MSS_DEFAULT: u64 = 1448;
/// Bytes of a SYN with its headers, as Linux sends it.
const SYN_BYTES: u64 = 74;
/// Bytes of TCP options in each segment with timestamps.
const TIMESTAMP_BYTES: u64 = 12;
/// Pause with nothing in flight from which the sender counts as idle. Ours: longer than a host takes to send.
const IDLE_NS: u64 = 1_000_000;
/// Largest number of window reductions kept. Ours.
const REDUCTIONS_MAX: usize = 1024;
/// Smallest window at a loss whose reduction is kept, in segments: rounding dominates below. Ours.
const REDUCTION_SEGMENTS: u64 = 16;
/// In-flight data, in segments, of BBRv1's ProbeRTT. Source: draft-cardwell-iccrg-bbr-congestion-control-00, 4.3.4.3.
const PROBE_RTT_SEGMENTS: u64 = 5;
/// Shortest and longest dip that counts as ProbeRTT. Source: the same, 200 ms and a round.
const DIP_NS: (u64, u64) = (150_000_000, 1_000_000_000);
/// Largest number of dips kept. Ours.
const DIPS_MAX: usize = 256;

/// Options that one end announced in its SYN.
#[derive(Clone, Copy, Debug, Default)]
pub struct Announced {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Window scale.
    pub scale: Option<u8>,
    /// True if its SYN was seen.
    pub has_syn: bool,
    /// True if that SYN was cut before a window scale.
    pub is_cut: bool,
}

impl Announced {
    fn of(options: &Options) -> Self {
        let is_cut = options.is_cut && options.scale.is_none();
        Self { mss: options.mss, scale: options.scale, has_syn: true, is_cut }
    }

    /// True if the scale of the window is known.
    const fn has_scale(&self) -> bool {
        self.has_syn && !self.is_cut
    }
}

/// Counters of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Data packets captured.
    pub packets: u64,
    /// Payload bytes sent, retransmissions included.
    pub sent: u64,
    /// Payload bytes acknowledged.
    pub delivered: u64,
    /// Payload bytes retransmitted.
    pub again: u64,
    /// Retransmitted bytes that had been acknowledged, or that a duplicate report covers.
    pub needless: u64,
    /// Bytes that overtook others, and the largest distance in bytes.
    pub reordered: u64,
    /// Largest distance by which data was overtaken, bytes.
    pub extent: u64,
    /// Bytes that the capture lacks.
    pub missing: u64,
    /// Bytes seen for the first time below newer ones.
    pub filled: u64,
    /// Sum of the bytes in flight after each data packet.
    pub in_flight: u64,
    /// Largest payload of a frame.
    pub largest: u64,
    /// Time with nothing in flight.
    pub idle_ns: u64,
    /// Time in which the receive window allowed nothing more.
    pub window_ns: u64,
    /// Bytes of headers of a frame.
    pub headers: u64,
    /// ACKs that echo congestion experienced, or data marked so.
    pub marks: u64,
    /// ACKs of new data.
    pub acks: u64,
}

impl Counters {
    /// Subtracts the sums of an earlier moment. Maxima and times stay as they are.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            packets: self.packets - before.packets,
            sent: self.sent - before.sent,
            delivered: self.delivered - before.delivered,
            again: self.again - before.again,
            needless: self.needless - before.needless,
            acks: self.acks - before.acks,
            ..*self
        }
    }
}

/// One window reduction: in flight at the loss, and after the recovery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// Bytes in flight when the loss was found.
    pub before: u64,
    /// Bytes in flight at the end of the recovery.
    pub after: u64,
}

/// Recovery in progress, or the round trip after it: each ends when `until` is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    until: u64,
    before: u64,
    /// Most in flight in the round trip after it.
    after: u64,
    has_ended: bool,
}

/// A period with little in flight.
#[derive(Clone, Copy, Debug)]
struct Dip {
    since_ns: u64,
    from: u64,
    has_loss: bool,
}

/// Data of one direction.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// The data in flight.
    pub board: Scoreboard,
    /// Signals; none before the first data.
    pub signals: Option<Box<Signals>>,
    /// Counters.
    pub counters: Counters,
    /// The link's queue.
    pub queue: Queue,
    /// The first packets whose fate is known, in the order of their sending.
    pub steps: Vec<Step>,
    /// True if there was no memory for both.
    has_no_packets: bool,
    /// Segments sent.
    segments: u64,
    /// Time of the newest packet among `steps`.
    pub settled_ns: u64,
    /// Options of the data's sender.
    pub own: Announced,
    /// Options of its receiver.
    pub peer: Announced,
    /// Times of its first data and of the last ACK.
    pub first_ns: Option<u64>,
    /// Time of the last ACK of new data.
    pub last_ns: u64,
    /// RTT of the newest ACK of new data, if it has one.
    pub newest_rtt_ns: Option<u64>,
    /// RTT of the handshake as the capture shows it to this end.
    pub handshake_ns: Option<u64>,
    /// Smallest amount of data in flight after a packet was sent, bytes; known once the first data of the capture is acknowledged.
    pub least_in_flight: Option<u64>,
    /// Window reductions.
    pub reductions: Vec<Reduction>,
    /// Start times of dips in the data in flight.
    pub dips: Vec<u64>,
    has_timestamps: bool,
    /// Echoes of the receiver's timestamps.
    pub echoes: Echoes,
    /// Sizes of frames and of ACKs' steps, for a connection without SYNs.
    sizes: Sizes,
    numbers: Unwrapped,
    window: u64,
    window_full_since: Option<u64>,
    emptied_ns: Option<u64>,
    recovery: Option<Recovery>,
    dip: Option<Dip>,
    usual: u64,
}

impl Flow {
    /// Segment size: by the SYNs, less the timestamp option; without them by the sizes of frames and of ACKs' steps.
    pub fn mss(&self) -> u64 {
        let options = if self.has_timestamps { TIMESTAMP_BYTES } else { 0 };
        let announced = self.own.mss.into_iter().chain(self.peer.mss).min().map(u64::from);
        let seen = self.counters.largest;
        match announced.filter(|mss| *mss > options + 100) {
            // Frames show a smaller MTU on the way, if the largest is full-sized without offload.
            Some(mss) if seen >= mss - options || seen < 500 => mss - options,
            Some(mss) => seen.min(mss - options),
            None => self.sizes.segment().unwrap_or(if (1..=MTU_MAX).contains(&seen) { seen } else { MSS_DEFAULT }),
        }
    }

    /// Frame bytes per payload byte, once offload has split the frames.
    pub fn wire_ratio(&self) -> f64 {
        1.0 + self.counters.headers as f64 / self.mss() as f64
    }

    /// Handles a clock set back: no interval spans that time.
    fn on_clock(&mut self, now_ns: u64, clock: u32) {
        if self.board.clock == clock {
            return;
        }
        self.board.clock = clock;
        self.echoes.on_clock();
        if let Some(signals) = &mut self.signals {
            signals.on_clock();
        }
        if self.first_ns.is_some() && !self.has_no_packets {
            // A packet of unknown fate: none of the queue's spans holds one.
            self.queue.on_sent(self.segments, now_ns, 0);
            self.segments += 1;
        }
        (self.emptied_ns, self.window_full_since, self.dip) = (None, None, None);
    }

    /// Handles a packet of the data's sender.
    pub fn on_data(&mut self, now_ns: u64, segment: &Segment) {
        self.on_clock(now_ns, segment.clock);
        self.has_timestamps |= segment.options.has_timestamp;
        if segment.has(flag::SYN) {
            self.own = Announced::of(&segment.options);
        }
        if segment.payload == 0 {
            return;
        }
        self.echoes.on_data(now_ns, segment);
        // A SYN's own number comes before its data.
        let seq = segment.seq.wrapping_add(u32::from(segment.has(flag::SYN)));
        let (from, payload) = (self.numbers.sent(seq), u64::from(segment.payload));
        let to = from + payload;
        self.numbers.sent(seq.wrapping_add(segment.payload));
        let counters = &mut self.counters;
        counters.packets += 1;
        counters.sent += payload;
        counters.largest = counters.largest.max(payload);
        counters.headers = counters.headers.max(segment.headers.into());
        counters.marks += u64::from(segment.is_marked);
        self.first_ns.get_or_insert(now_ns);
        self.count_size(payload);
        if let Some(since) = self.emptied_ns.take() {
            let idle = now_ns.saturating_sub(since);
            let idle = if idle >= IDLE_NS { idle } else { 0 };
            self.counters.idle_ns = self.counters.idle_ns.saturating_add(idle);
        }
        self.signals.get_or_insert_default().on_sent(now_ns, payload);
        let frame = self.on_frame(now_ns, from, payload);
        let next = self.board.next;
        if next > 0 && from < next {
            self.on_repeated(now_ns, frame, from, to.min(next));
        }
        if to > next {
            let skipped = self.board.send(now_ns, frame, from.max(next), to);
            self.counters.missing += skipped;
        }
        self.settle(false);
        let in_flight = self.board.in_flight();
        self.counters.in_flight = self.counters.in_flight.saturating_add(in_flight);
        if self.counters.acks > 0 {
            self.least_in_flight = Some(self.least_in_flight.map_or(in_flight, |least| least.min(in_flight)));
        }
        if let Some(recovery) = self.recovery.as_mut().filter(|recovery| recovery.has_ended) {
            recovery.after = recovery.after.max(in_flight);
        }
        self.watch_window(now_ns);
        self.watch_dip(now_ns);
    }

    /// Counts the size of a frame or of an ACK's step, for a connection without SYNs.
    fn count_size(&mut self, size: u64) {
        if self.own.mss.or(self.peer.mss).is_none() {
            self.sizes.add(size);
        }
    }

    /// Records the RTT of the handshake.
    pub fn on_handshake(&mut self, rtt_ns: u64) {
        self.handshake_ns = Some(rtt_ns);
        self.queue.on_handshake(rtt_ns, SYN_BYTES);
    }

    /// Gives the queue the segments of a frame.
    fn on_frame(&mut self, now_ns: u64, from: u64, payload: u64) -> Frame {
        let frame = Frame { number: self.segments, from, segment: self.mss() };
        let (first, last) = frame.numbers_of(from, from + payload);
        self.segments = last + 1;
        let has_enough = self.steps.len() >= STEPS_MAX && self.queue.is_decided();
        if !self.has_no_packets && !has_enough {
            let headers = self.counters.headers;
            for number in first..=last {
                let bytes = (payload - (number - first) * frame.segment).min(frame.segment);
                self.queue.on_sent(number, now_ns, bytes + headers);
            }
        }
        frame
    }

    /// Takes over packets whose fate is known.
    fn settle(&mut self, is_last: bool) {
        let Self { queue, steps, settled_ns, counters, .. } = self;
        queue.settle(is_last, |packet, rtt_ns| add_step(steps, settled_ns, packet, rtt_ns, counters.headers));
    }

    /// Number of packets in memory.
    pub fn packets(&self) -> usize {
        self.queue.len() + self.steps.len()
    }

    /// Discards all packets.
    pub fn forget_packets(&mut self) {
        (self.queue, self.steps, self.has_no_packets) = (Queue::default(), Vec::new(), true);
    }

    /// Handles data below the highest sent.
    fn on_repeated(&mut self, now_ns: u64, frame: Frame, from: u64, to: u64) {
        let mss = self.mss();
        let Self { board, signals, counters, queue, .. } = self;
        let in_flight = board.next.saturating_sub(board.una);
        let mut has_lost = false;
        let repeated = board.send_again(now_ns, frame, from, to, |lost, frame| {
            has_lost = true;
            let (first, last) = frame.numbers_of(lost.from, lost.to);
            (first..=last).for_each(|number| _ = queue.on_fate(number, Fate::Lost(lost.before_ns)));
            signals.get_or_insert_default().on_lost(&lost, mss);
        });
        counters.filled += repeated.unseen;
        counters.missing = counters.missing.saturating_sub(repeated.unseen);
        counters.needless += repeated.needless;
        counters.again += (to - from).saturating_sub(repeated.unseen);
        if has_lost {
            // A loss in the round trip after a recovery leaves that one without a measurement.
            if self.recovery.is_none_or(|recovery| recovery.has_ended) {
                self.recovery = Some(Recovery { until: board.next, before: in_flight, after: 0, has_ended: false });
            }
            if let Some(dip) = &mut self.dip {
                dip.has_loss = true;
            }
        }
    }

    /// Handles a packet of the data's receiver.
    pub fn on_ack(&mut self, now_ns: u64, segment: &Segment) {
        self.on_clock(now_ns, segment.clock);
        if segment.has(flag::SYN) {
            self.peer = Announced::of(&segment.options);
        }
        if !segment.has(flag::ACK) {
            return;
        }
        self.echoes.on_ack(now_ns, segment);
        let scale = match (self.own.has_syn, self.own.scale, self.peer.scale) {
            // Both ends must offer scaling; a SYN's own window is never scaled.
            (true, Some(_), Some(scale)) if !segment.has(flag::SYN) => scale,
            _ => 0,
        };
        self.window = u64::from(segment.window) << scale;
        if self.board.next == 0 {
            return;
        }
        self.acknowledge(now_ns, segment);
        self.watch_window(now_ns);
        self.watch_dip(now_ns);
    }

    fn acknowledge(&mut self, now_ns: u64, segment: &Segment) {
        let mss = self.mss();
        let ack = self.numbers.near(segment.ack);
        let una = self.board.una;
        let blocks = segment.sack().iter().map(|&(a, b)| (self.numbers.near(a), self.numbers.near(b)));
        let duplicate = duplicate(ack, blocks.clone());
        if let Some((from, to)) = duplicate
            && to > from
            && to - from <= self.counters.largest.max(mss)
            && let Some(signals) = &mut self.signals
            && signals.withdraw(from, to, mss)
        {
            self.counters.needless += to - from;
        }
        let skip = usize::from(duplicate.is_some());
        let had_holes = self.board.sacked > 0;
        let delivered = self.board.acknowledge(now_ns, ack, blocks.skip(skip));
        for &(first, last) in &self.board.arrived {
            (first..=last).for_each(|number| _ = self.queue.on_fate(number, Fate::Arrived));
        }
        if let Some(rtt) = delivered.rtt {
            self.queue.on_ack(rtt.number, now_ns);
        }
        self.settle(false);
        if ack > una {
            self.count_size(ack - una);
        }
        if ack > una && self.board.una == self.board.next {
            self.emptied_ns = Some(now_ns);
        }
        self.watch_recovery(mss);
        if delivered.bytes == 0 {
            return;
        }
        self.last_ns = now_ns;
        let counters = &mut self.counters;
        counters.acks += 1;
        counters.delivered += delivered.bytes;
        counters.reordered += delivered.reordered;
        counters.extent = counters.extent.max(delivered.extent);
        let lead = delivered.rtt.map(|rtt| rtt.lead.div_ceil(mss) as usize);
        let rtt = delivered.rtt.map(|rtt| (rtt.sent_ns, rtt.rtt_ns));
        self.newest_rtt_ns = rtt.map(|(_, rtt_ns)| rtt_ns);
        let signal =
            AckSignal { now_ns, bytes: delivered.bytes, rtt, lead, mss, has_holes: had_holes || self.board.sacked > 0 };
        self.signals.get_or_insert_default().on_ack(&signal);
    }

    /// Measures the window after a recovery: the most in flight during the round trip that follows.
    fn watch_recovery(&mut self, mss: u64) {
        let Some(recovery) = &mut self.recovery else { return };
        if self.board.una < recovery.until {
            return;
        }
        if !recovery.has_ended {
            (recovery.has_ended, recovery.until) = (true, self.board.next);
            return;
        }
        if recovery.before >= REDUCTION_SEGMENTS * mss && self.reductions.len() < REDUCTIONS_MAX {
            self.reductions.push(Reduction { before: recovery.before, after: recovery.after });
        }
        self.recovery = None;
    }

    /// True if the receive window is known: both SYNs show its scale.
    pub const fn has_window(&self) -> bool {
        self.own.has_scale() && self.peer.has_scale()
    }

    /// Accounts for the time in which the receive window has no room for a segment.
    fn watch_window(&mut self, now_ns: u64) {
        let out = self.board.next.saturating_sub(self.board.una);
        let is_full = self.has_window() && out > 0 && out + self.mss() > self.window;
        match (is_full, self.window_full_since) {
            (true, None) => self.window_full_since = Some(now_ns),
            (false, Some(since)) => {
                self.counters.window_ns = self.counters.window_ns.saturating_add(now_ns.saturating_sub(since));
                self.window_full_since = None;
            }
            _ => {}
        }
    }

    /// Notes periods with hardly anything in flight, as BBRv1's ProbeRTT causes.
    fn watch_dip(&mut self, now_ns: u64) {
        let (in_flight, mss) = (self.board.in_flight(), self.mss());
        let is_low = in_flight <= PROBE_RTT_SEGMENTS * mss;
        match self.dip {
            None if is_low && self.usual > 2 * PROBE_RTT_SEGMENTS * mss => {
                let has_loss = self.recovery.is_some_and(|recovery| !recovery.has_ended);
                self.dip = Some(Dip { since_ns: now_ns, from: self.board.next, has_loss });
            }
            Some(dip) if !is_low => {
                let lasted = now_ns.saturating_sub(dip.since_ns);
                // An idle sender sends nothing in its dip.
                let has_sent = self.board.next > dip.from + PROBE_RTT_SEGMENTS * mss;
                if (DIP_NS.0..=DIP_NS.1).contains(&lasted) && has_sent && !dip.has_loss && self.dips.len() < DIPS_MAX {
                    self.dips.push(dip.since_ns);
                }
                self.dip = None;
            }
            _ => {}
        }
        // A slow mean: a dip of a few round trips changes it little.
        self.usual = if is_low { self.usual } else { (self.usual * 63 + in_flight) / 64 };
    }

    /// Ends the connection.
    pub fn finish(&mut self) {
        if let Some(signals) = &mut self.signals {
            signals.finish();
            if let Some(rtt_ns) = self.handshake_ns {
                signals.on_handshake(rtt_ns, SYN_BYTES);
            }
        }
        self.settle(true);
        if let Some(since) = self.window_full_since.take() {
            self.counters.window_ns = self.counters.window_ns.saturating_add(self.last_ns.saturating_sub(since));
        }
        self.board.forget();
    }
}

/// Adds a packet to the first ones.
pub fn add_step(steps: &mut Vec<Step>, settled_ns: &mut u64, packet: &Packet, rtt_ns: Option<u64>, headers: u64) {
    if steps.len() >= STEPS_MAX || packet.fate == Fate::Unknown {
        return;
    }
    let after_ns = packet.sent_ns.saturating_sub(*settled_ns);
    *settled_ns = packet.sent_ns;
    let bytes = packet.bytes.saturating_sub(headers) as f64;
    let is_lost = packet.fate != Fate::Arrived;
    let is_first = is_lost && steps.last().is_none_or(|step| step.lost == 0.0);
    steps.push(Step {
        after_s: after_ns as f64 / 1e9,
        passed: if is_lost { 0.0 } else { bytes },
        lost: if is_lost { bytes } else { 0.0 },
        weight: if is_first { 1.0 } else { 0.0 },
        rtt_s: rtt_ns.unwrap_or(0) as f64 / 1e9,
    });
}

/// Returns the range that an ACK reports as received twice: below its number, or within its second block.
// spec: RFC 2883 4
fn duplicate(ack: u64, mut blocks: impl Iterator<Item = (u64, u64)>) -> Option<(u64, u64)> {
    let first = blocks.next()?;
    let is_below = first.1 <= ack;
    let is_within = blocks.next().is_some_and(|(from, to)| from <= first.0 && first.1 <= to);
    (is_below || is_within).then_some(first)
}
