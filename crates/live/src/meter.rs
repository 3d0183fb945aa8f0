//! Measures TCP flows from the packets that pass: RTT of each ACK, retransmissions, unique arrivals.
//! Its input is timestamps since the start of the run and header fields, from the sender, the bottleneck and the
//! receiver; it keeps the same counters and histograms as the simulator.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::{NANOS_PER_SEC, Time};
use bbrlab_sim::metrics::QueueDelay;
use bbrlab_sim::path::SojournTime;
use bbrlab_sim::record::summary::RttStats;

use crate::probe::ProbeMeter;
use crate::ranges::Ranges;

/// Nanoseconds in a microsecond, the unit in which Linux keeps RTTs.
const MICRO: u64 = 1_000;
/// Start of unwrapped sequence numbers: numbers before the first packet observed do not underflow.
const ORIGIN: u64 = 1 << 32;

/// All flows of a run.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    flows: Vec<FlowMeter>,
    /// Queueing delay of the bottleneck during measurement, where departing packets are observed.
    pub queue_delay: Option<QueueDelay>,
    /// The same of the link of `up`.
    pub up_delay: Option<QueueDelay>,
    /// The lag probe, if the run has one.
    pub(crate) probe: Option<ProbeMeter>,
    measuring: bool,
}

/// One flow, counted since its start. Sequence numbers belong to its data direction.
#[derive(Clone, Debug, Default)]
pub struct FlowMeter {
    /// The counters.
    pub count: Count,
    /// The counters at the start of measurement.
    pub mark: Count,
    /// RTTs at the sender.
    pub rtt: RttStats,
    /// The smallest RTT sample, µs; 0 before the first.
    pub min_rtt_us: u32,
    /// Every RTT sample as (ns, µs), if requested.
    pub rtt_samples: Option<Vec<(u64, u32)>>,
    /// Unique payload bytes received in each second.
    pub bins: Vec<u64>,
    sent: Unwrapped,
    board: Outstanding,
    arrived: Ranges,
    /// First byte of the flow, once the receiver got it.
    first: Option<u64>,
}

/// Counters of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Segments sent, each one of a super-packet, retransmissions included.
    pub segments: u64,
    /// Payload bytes sent, retransmissions included.
    pub sent_bytes: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Payload bytes acknowledged, cumulatively or selectively.
    pub acked_bytes: u64,
    /// ACKs that reached the sender.
    pub acks: u64,
    /// Unique payload bytes at the receiver.
    pub received_bytes: u64,
    /// Bytes on the wire at the receiver, duplicates included.
    pub received_wire_bytes: u64,
    /// Segments at the receiver without new data.
    pub duplicates: u64,
    /// Packets offered to the bottleneck.
    pub arrivals: u64,
    /// Packets dropped by its policer or queue.
    pub drops: u64,
    /// Packets marked by its queue.
    pub marks: u64,
    /// Packets lost at random after it.
    pub lost: u64,
}

/// A 32-bit sequence space unwrapped into 64 bits around the newest number seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unwrapped {
    /// The newest number, unwrapped; 0 before the first.
    newest: u64,
    origin: u32,
}

/// Data sent and not yet cumulatively acknowledged.
#[derive(Clone, Debug, Default)]
struct Outstanding {
    /// In order of sequence.
    records: VecDeque<Record>,
    sacked: Ranges,
    una: u64,
    next: u64,
}

/// A segment or super-packet in flight.
#[derive(Clone, Copy, Debug)]
struct Record {
    from: u64,
    to: u64,
    sent_ns: u64,
    /// Retransmitted: its ACK gives no RTT sample (Karn).
    again: bool,
    sacked: bool,
}

impl Meter {
    /// Creates a meter of `flows` flows, which measures from the start unless [`Self::wait`] is called.
    pub fn new(flows: usize) -> Self {
        Self {
            flows: vec![FlowMeter::default(); flows],
            queue_delay: None,
            up_delay: None,
            probe: None,
            measuring: true,
        }
    }

    /// Announces a warm-up: distributions stay empty until [`Self::measure_from_here`].
    pub fn wait(&mut self) {
        self.measuring = false;
    }

    /// Ends the warm-up: marks the counters and starts the distributions.
    pub fn measure_from_here(&mut self, now: Time) {
        self.measuring = true;
        for delay in self.queue_delay.iter_mut().chain(&mut self.up_delay) {
            *delay = QueueDelay::starting_at(now);
        }
        for flow in &mut self.flows {
            flow.mark = flow.count;
        }
    }

    /// True once the warm-up is over.
    pub const fn is_measuring(&self) -> bool {
        self.measuring
    }

    /// Enables queueing delay: every packet that leaves the bottleneck, or the link of `up`, will be reported.
    pub fn watch_queues(&mut self) {
        self.queue_delay = Some(QueueDelay::default());
        self.up_delay = Some(QueueDelay::default());
    }

    /// Keeps every RTT sample from here on.
    pub fn keep_rtt_samples(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.rtt_samples = Some(Vec::new()));
    }

    pub fn flows(&self) -> &[FlowMeter] {
        &self.flows
    }

    /// Records `payload` bytes in `segments` segments sent by `flow`. Without payload the packet is not data.
    pub fn on_data(&mut self, now_ns: u64, flow: usize, seq: u32, payload: u32, segments: u32) {
        if let Some(flow) = self.flows.get_mut(flow)
            && payload > 0
        {
            flow.on_data(now_ns, seq, payload, segments.max(1));
        }
    }

    /// Records an ACK that reaches the sender of `flow`. Returns its RTT sample: that of the newest data that it is the
    /// first to acknowledge and that was sent once.
    // spec: Linux tcp_clean_rtx_queue (ca_rtt_us). Differs: no fallback to the timestamp option.
    pub fn on_ack(&mut self, now_ns: u64, flow: usize, ack: u32, sack_blocks: &[(u32, u32)]) -> Option<u64> {
        let measuring = self.measuring;
        let flow = self.flows.get_mut(flow)?;
        let rtt_ns = flow.on_ack(now_ns, ack, sack_blocks)?;
        flow.take_rtt(now_ns, rtt_ns, measuring);
        Some(rtt_ns)
    }

    /// Records `payload` bytes in `segments` segments (`wire_bytes` on the wire) that reach the receiver of `flow`.
    /// Returns the number of new payload bytes.
    pub fn on_arrival(
        &mut self,
        now_ns: u64,
        flow: usize,
        seq: u32,
        payload: u32,
        segments: u32,
        wire_bytes: u32,
    ) -> u64 {
        let Some(flow) = self.flows.get_mut(flow) else { return 0 };
        flow.count.received_wire_bytes += u64::from(wire_bytes);
        if payload == 0 { 0 } else { flow.on_arrival(now_ns, seq, payload, segments.max(1)) }
    }

    /// Records a packet of `flow` offered to the bottleneck; `dropped` if the policer or the queue refuses it.
    pub fn on_offered(&mut self, flow: usize, dropped: bool) {
        if let Some(flow) = self.flows.get_mut(flow) {
            flow.count.arrivals += 1;
            flow.count.drops += u64::from(dropped);
        }
    }

    /// Records that the queue drops a packet of `flow` that it had accepted.
    pub fn on_dropped_later(&mut self, flow: usize) {
        if let Some(flow) = self.flows.get_mut(flow) {
            flow.count.drops += 1;
        }
    }

    /// Records the sojourn time of a packet that leaves the bottleneck, or the link of `up`, at `at`.
    pub fn on_sojourn(&mut self, at: Time, stayed: SojournTime, is_up: bool) {
        let delay = if is_up { &mut self.up_delay } else { &mut self.queue_delay };
        if let Some(delay) = delay.as_mut().filter(|_| self.measuring) {
            delay.on_left(at, stayed.waited, stayed.service);
        }
    }

    /// Records a data packet of `flow` that leaves the bottleneck, or the link of `up`.
    pub fn on_left(&mut self, flow: usize, marked: bool, lost: bool) {
        if let Some(flow) = self.flows.get_mut(flow) {
            flow.count.marks += u64::from(marked);
            flow.count.lost += u64::from(lost);
        }
    }
}

impl FlowMeter {
    /// Payload bytes received without a gap, counted from the first byte.
    pub fn in_order_bytes(&self) -> u64 {
        self.first.map_or(0, |first| self.arrived.end_of_run(first) - first)
    }

    fn on_data(&mut self, now_ns: u64, seq: u32, payload: u32, segments: u32) {
        let from = self.sent.unwrap(seq);
        let to = from + u64::from(payload);
        self.first.get_or_insert(from);
        self.count.segments += u64::from(segments);
        self.count.sent_bytes += u64::from(payload);
        let old = self.board.send(now_ns, from, to);
        // A partly old super-packet counts its old segments, rounded up.
        self.count.retransmits += (old * u64::from(segments)).div_ceil(u64::from(payload));
    }

    fn on_ack(&mut self, now_ns: u64, ack: u32, sack_blocks: &[(u32, u32)]) -> Option<u64> {
        if self.sent.newest == 0 {
            return None;
        }
        self.count.acks += 1;
        let mut sacked = None;
        for &(from, to) in sack_blocks {
            let (from, to) = (self.sent.near(from), self.sent.near(to));
            let (bytes, newest) = self.board.sack(from, to);
            self.count.acked_bytes += bytes;
            sacked = sacked.max(newest);
        }
        let (bytes, newest) = self.board.acknowledge(self.sent.near(ack));
        self.count.acked_bytes += bytes;
        Some(now_ns.saturating_sub(sacked.or(newest)?))
    }

    fn take_rtt(&mut self, now_ns: u64, rtt_ns: u64, measuring: bool) {
        let rtt_us = u32::try_from(rtt_ns / MICRO).unwrap_or(u32::MAX);
        self.rtt.add(rtt_us, measuring);
        self.min_rtt_us = if self.min_rtt_us == 0 { rtt_us } else { self.min_rtt_us.min(rtt_us) };
        if let Some(samples) = &mut self.rtt_samples {
            samples.push((now_ns, rtt_us));
        }
    }

    fn on_arrival(&mut self, now_ns: u64, seq: u32, payload: u32, segments: u32) -> u64 {
        let from = self.sent.unwrap_once(seq);
        let first = *self.first.get_or_insert(from);
        let mut fresh = 0;
        // A SYN without data is not a first byte: nothing before it was ever sent.
        self.arrived.insert(from.max(first), from + u64::from(payload), |a, b| fresh += b - a);
        if fresh == 0 {
            self.count.duplicates += u64::from(segments);
            return 0;
        }
        self.count.received_bytes += fresh;
        let second = usize::try_from(now_ns / NANOS_PER_SEC).unwrap_or(usize::MAX);
        if second >= self.bins.len() {
            self.bins.resize(second.saturating_add(1), 0);
        }
        self.bins[second] += fresh;
        fresh
    }
}

impl Unwrapped {
    /// Returns `seq` as a 64-bit number, and moves the newest number along.
    fn unwrap(&mut self, seq: u32) -> u64 {
        let at = self.unwrap_once(seq);
        self.newest = self.newest.max(at);
        at
    }

    /// The same, but only the first number is remembered.
    fn unwrap_once(&mut self, seq: u32) -> u64 {
        if self.newest == 0 {
            self.newest = ORIGIN;
            self.origin = seq;
        }
        self.near(seq)
    }

    /// Distance of `seq`, taken from a passing packet, from the first number.
    pub(crate) fn passed(&mut self, seq: u32) -> u64 {
        self.unwrap(seq).saturating_sub(ORIGIN)
    }

    /// The same for a number that a packet only refers to; 0 before the first.
    pub(crate) fn relative(&self, seq: u32) -> u64 {
        if self.newest == 0 { 0 } else { self.near(seq).saturating_sub(ORIGIN) }
    }

    /// The 64-bit number nearest to the newest.
    fn near(&self, seq: u32) -> u64 {
        let newest = self.origin.wrapping_add((self.newest - ORIGIN) as u32);
        self.newest.saturating_add_signed(i64::from(seq.wrapping_sub(newest).cast_signed()))
    }
}

impl Outstanding {
    /// Records sent data. Returns the number of its bytes that had been sent before.
    fn send(&mut self, now_ns: u64, from: u64, to: u64) -> u64 {
        if self.next == 0 {
            (self.una, self.next) = (from, from);
        }
        let old = to.min(self.next).saturating_sub(from);
        if old > 0 {
            let first = self.records.partition_point(|record| record.to <= from);
            self.records
                .range_mut(first..)
                .take_while(|record| record.from < to)
                .for_each(|record| record.again = true);
        }
        if to > self.next {
            self.records.push_back(Record {
                from: self.next.max(from),
                to,
                sent_ns: now_ns,
                again: false,
                sacked: false,
            });
            self.next = to;
        }
        old
    }

    /// Returns the number of newly acknowledged bytes in a SACK block. Also returns the send time of the newest of
    /// them, if it was sent once.
    fn sack(&mut self, from: u64, to: u64) -> (u64, Option<u64>) {
        let (from, to) = (from.max(self.una), to.min(self.next));
        let (mut bytes, mut newest) = (0, None);
        let records = &mut self.records;
        self.sacked.insert(from, to, |a, b| {
            bytes += b - a;
            let first = records.partition_point(|record| record.to <= a);
            for record in records.range_mut(first..).take_while(|record| record.from < b) {
                if !record.again && !record.sacked {
                    newest = newest.max(Some(record.sent_ns));
                }
                record.sacked = a <= record.from && record.to <= b || record.sacked;
            }
        });
        (bytes, newest)
    }

    /// The same for a cumulative ACK. If part of it was sent twice, the ACK is ambiguous and gives no time.
    fn acknowledge(&mut self, ack: u64) -> (u64, Option<u64>) {
        let ack = ack.min(self.next);
        if ack <= self.una {
            return (0, None);
        }
        let mut bytes = 0;
        self.sacked.insert(self.una, ack, |a, b| bytes += b - a);
        self.sacked.forget_before(ack);
        self.una = ack;
        let (mut newest, mut again) = (None, false);
        while let Some(record) = self.records.front_mut().filter(|record| record.from < ack) {
            again |= record.again;
            if !record.sacked {
                newest = newest.max(Some(record.sent_ns));
            }
            if record.to > ack {
                record.from = ack;
                break;
            }
            self.records.pop_front();
        }
        (bytes, newest.filter(|_| !again && bytes > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    /// A meter of one flow that has sent `n` segments starting at `isn`, 10 ns apart.
    fn sent(isn: u32, n: u32) -> Meter {
        let mut meter = Meter::new(1);
        (0..n).for_each(|i| meter.on_data(10 * u64::from(i), 0, isn.wrapping_add(i * MSS), MSS, 1));
        meter
    }

    #[test]
    fn an_ack_tells_the_rtt_of_the_newest_segment_that_it_covers() {
        let mut meter = sent(0, 3);
        assert_eq!(meter.on_ack(1000, 0, 2 * MSS, &[]), Some(990));
        assert_eq!(meter.on_ack(1000, 0, 2 * MSS, &[]), None);
        assert_eq!(meter.on_ack(1010, 0, 3 * MSS, &[]), Some(990));
        assert_eq!(meter.flows()[0].count.acked_bytes, 3000);
    }

    #[test]
    fn a_wrapped_sequence_space_changes_nothing() {
        let isn = u32::MAX - 1500;
        let mut meter = sent(isn, 4);
        assert_eq!(meter.on_ack(1000, 0, isn.wrapping_add(4 * MSS), &[]), Some(970));
        for i in 0..4 {
            assert_eq!(meter.on_arrival(500, 0, isn.wrapping_add(i * MSS), MSS, 1, 1066), 1000);
        }
        assert_eq!(meter.flows()[0].in_order_bytes(), 4000);
        assert_eq!(meter.flows()[0].count.retransmits, 0);
    }

    #[test]
    fn more_than_four_gigabytes_are_counted_in_full() {
        let mut meter = Meter::new(1);
        let (step, n) = (1_u32 << 20, 5000);
        for i in 0..n {
            let seq = step.wrapping_mul(i);
            meter.on_data(u64::from(i), 0, seq, step, 700);
            meter.on_arrival(u64::from(i), 0, seq, step, 700, step);
            meter.on_ack(u64::from(i) + 1, 0, seq.wrapping_add(step), &[]);
        }
        let count = meter.flows()[0].count;
        assert_eq!(count.received_bytes, u64::from(step) * u64::from(n));
        assert_eq!((count.acked_bytes, count.retransmits, count.duplicates), (count.received_bytes, 0, 0));
    }

    #[test]
    fn what_was_sent_again_gives_no_sample_and_counts_as_retransmitted() {
        let mut meter = sent(0, 2);
        meter.on_data(500, 0, 0, MSS, 1);
        assert_eq!(meter.flows()[0].count.retransmits, 1);
        assert_eq!(meter.on_ack(1000, 0, MSS, &[]), None);
        assert_eq!(meter.on_ack(1000, 0, 2 * MSS, &[]), Some(990));
    }

    #[test]
    fn a_sack_block_tells_an_rtt_once() {
        let mut meter = sent(0, 4);
        assert_eq!(meter.on_ack(1000, 0, 0, &[(2 * MSS, 3 * MSS)]), Some(980));
        assert_eq!(meter.on_ack(1000, 0, 0, &[(2 * MSS, 3 * MSS)]), None);
        assert_eq!(meter.on_ack(1010, 0, 0, &[(2 * MSS, 4 * MSS)]), Some(980));
        // A retransmission fills the holes: SACKed data gives no second RTT sample.
        meter.on_data(1100, 0, 0, 2 * MSS, 2);
        assert_eq!(meter.on_ack(2000, 0, 4 * MSS, &[]), None);
        let count = meter.flows()[0].count;
        assert_eq!((count.acked_bytes, count.segments, count.retransmits), (4000, 6, 2));
    }

    #[test]
    fn a_super_packet_acknowledged_in_parts_tells_its_rtt_each_time() {
        let mut meter = Meter::new(1);
        meter.on_data(0, 0, 0, 10 * MSS, 10);
        assert_eq!(meter.on_ack(100, 0, 2 * MSS, &[]), Some(100));
        assert_eq!(meter.on_ack(200, 0, 3 * MSS, &[(5 * MSS, 6 * MSS)]), Some(200));
        assert_eq!(meter.on_ack(300, 0, 10 * MSS, &[]), Some(300));
        assert_eq!(meter.flows()[0].count.acked_bytes, 10_000);
    }

    #[test]
    fn unique_bytes_count_once_in_whatever_order_they_arrive() {
        let mut meter = sent(0, 3);
        for (seq, fresh) in [(2 * MSS, 1000), (0, 1000), (0, 0), (MSS, 1000), (MSS, 0)] {
            assert_eq!(meter.on_arrival(NANOS_PER_SEC + 1, 0, seq, MSS, 1, 1066), fresh);
        }
        let flow = &meter.flows()[0];
        assert_eq!((flow.count.received_bytes, flow.count.duplicates, flow.in_order_bytes()), (3000, 2, 3000));
        assert_eq!((flow.bins.as_slice(), flow.count.received_wire_bytes), ([0, 3000].as_slice(), 5330));
    }

    #[test]
    fn a_warm_up_is_marked_and_leaves_no_sample() {
        let mut meter = sent(0, 2);
        meter.wait();
        meter.on_ack(1000, 0, MSS, &[]);
        meter.measure_from_here(Time::ZERO);
        meter.on_ack(1010, 0, 2 * MSS, &[]);
        let flow = &meter.flows()[0];
        assert_eq!((flow.rtt.samples.count(), flow.mark.segments, flow.mark.acked_bytes), (1, 2, 1000));
    }
}
