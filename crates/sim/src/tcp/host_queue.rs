//! Data that waits in the sending host: TCP small queues, and the `fq` qdisc that paces algorithms which do not require pacing.
//!
//! In front of `fq` TCP writes without a wait of its own and gives each burst a departure time; the qdisc holds the burst until then.
//! Spec: Linux 6.12 `sch_fq.c`, `tcp_output.c`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::{Span, Time};

use super::bursts::SKB_OVERHEAD;
use super::packet::Segment;
use super::sender::Sender;

/// Time within which the qdisc's timer fires. It fires at the end. Source: `fq_init`.
// Differs: another timer of the host may end it early.
const TIMER_SLACK: Span = Span::micros(10);

/// Bursts that TSQ allows in the host. Source: Linux `tcp_small_queue_check`.
const TSQ_MIN_BURSTS: u64 = 2;

/// A burst that waits.
#[derive(Clone, Copy, Debug)]
struct Burst {
    departure: Time,
    segments: u32,
    memory: u64,
}

/// Bursts of a flow in its host's `fq`, in order of departure.
#[derive(Clone, Debug, Default)]
pub(super) struct HostFq {
    bursts: VecDeque<Burst>,
    segments: VecDeque<Segment>,
    /// Memory of the bursts that wait, bytes. Linux: `sk_wmem_alloc` without its bias of 1.
    memory: u64,
    /// True if a burst was added since the last release. The qdisc runs when that happens, and on its timer.
    is_written: bool,
}

impl HostFq {
    /// True if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.bursts.is_empty()
    }

    /// Adds a burst.
    fn add(&mut self, departure: Time, payload: u64, segments: impl ExactSizeIterator<Item = Segment>) {
        debug_assert!(self.bursts.back().is_none_or(|last| last.departure <= departure));
        let memory = payload + SKB_OVERHEAD;
        self.bursts.push_back(Burst { departure, segments: segments.len() as u32, memory });
        self.segments.extend(segments);
        self.memory += memory;
        self.is_written = true;
    }

    /// Moves the bursts whose time has come to `out`. Returns true if there were any.
    // spec: Linux fq_dequeue
    fn release(&mut self, now: Time, out: &mut Vec<Segment>) -> bool {
        self.is_written = false;
        let before = out.len();
        while let Some(&burst) = self.bursts.front().filter(|burst| burst.departure <= now) {
            self.bursts.pop_front();
            self.memory -= burst.memory;
            out.extend(self.segments.drain(..burst.segments as usize));
        }
        out.len() > before
    }

    /// Time of the timer for the first burst.
    fn timer(&self) -> Time {
        self.bursts.front().map_or(Time::NEVER, |burst| burst.departure + TIMER_SLACK)
    }
}

impl Sender {
    /// Applies TCP small queues: a burst is held back while two of its size, and a millisecond of data, wait in the host.
    /// Retransmissions pass a `factor` of 2, which doubles the limit.
    // spec: Linux tcp_small_queue_check
    #[inline(always)]
    pub(super) fn blocked_by_host_queue(&mut self, segments: u32, factor: u64) -> bool {
        if !self.has_host_queue {
            return false;
        }
        self.waits_for_host_queue(segments, factor)
    }

    #[cold]
    #[inline(never)]
    fn waits_for_host_queue(&mut self, segments: u32, factor: u64) -> bool {
        let limit = factor * (TSQ_MIN_BURSTS * self.burst_bytes()).max(self.bytes_a_millisecond());
        let is_blocked = self.has_access_link && self.host_queue > limit || self.blocked_by_fq(segments, factor);
        self.tsq_blocked |= is_blocked;
        is_blocked
    }

    /// Departure time of the first burst that waits in `fq`.
    pub fn first_departure(&self) -> Option<Time> {
        self.host_fq.as_ref().and_then(|fq| fq.bursts.front()).map(|burst| burst.departure)
    }

    /// Handles a segment of this flow leaving the host's queue, or being dropped there.
    pub fn on_host_dequeue(&mut self, now: Time, wire_bytes: u32, out: &mut Vec<Segment>) {
        self.host_queue = self.host_queue.saturating_sub(u64::from(wire_bytes));
        if self.tsq_blocked && self.established {
            self.tsq_blocked = false;
            self.pump(now, out);
        }
    }

    /// Sends over QUIC or through `fq`.
    #[inline(never)]
    pub(super) fn pump_own(&mut self, now: Time, out: &mut Vec<Segment>) {
        if self.host_fq.is_some() {
            self.send_allowed(now, out);
            self.run_fq(now, out);
        } else {
            let is_woken = std::mem::replace(&mut self.pace_at, Time::NEVER) <= now;
            self.write_quic(now, is_woken, out);
        }
    }

    /// Handles the qdisc's timer if it is due. Returns true if nothing else of the sender is due.
    #[cold]
    #[inline(never)]
    pub(super) fn on_fq_timer(&mut self, now: Time, out: &mut Vec<Segment>) -> bool {
        if self.pace_at <= now && self.release_from_fq(now, out) {
            self.pump(now, out);
        }
        self.next_time() > now
    }

    /// Moves the burst just written from `out` to the qdisc.
    #[cold]
    #[inline(never)]
    pub(super) fn hold_burst(&mut self, departure: Time, payload: u64, segments: u32, out: &mut Vec<Segment>) {
        if let Some(fq) = &mut self.host_fq {
            fq.add(departure, payload, out.drain(out.len() - segments as usize..));
        }
    }

    /// Runs the qdisc if a burst was added, and repeats this while a release ends a wait for TCP small queues.
    #[cold]
    #[inline(never)]
    pub(super) fn run_fq(&mut self, now: Time, out: &mut Vec<Segment>) {
        while self.host_fq.as_ref().is_some_and(|fq| fq.is_written) && self.release_from_fq(now, out) {
            self.send_allowed(now, out);
        }
    }

    /// Sends what the windows allow: retransmissions first, then new data.
    #[cold]
    #[inline(never)]
    fn send_allowed(&mut self, now: Time, out: &mut Vec<Segment>) {
        if self.board.lost_out > self.board.retrans_out {
            self.retransmit_lost(now, out);
        }
        self.write(now, u32::MAX, out);
    }

    /// Releases the bursts whose time has come. Returns true if a burst has left and TCP small queues were waiting for that.
    // spec: Linux tcp_wfree
    fn release_from_fq(&mut self, now: Time, out: &mut Vec<Segment>) -> bool {
        let Some(fq) = &mut self.host_fq else { return false };
        let has_left = fq.release(now, out);
        self.pace_at = fq.timer();
        has_left && std::mem::take(&mut self.tsq_blocked)
    }

    /// True if the qdisc holds as much of the flow as may wait there before a burst of this many segments.
    // spec: Linux tcp_small_queue_check
    // Differs: a segment is sent again although its earlier copy still waits there (`skb_still_in_host_queue`).
    fn blocked_by_fq(&self, segments: u32, factor: u64) -> bool {
        let payload = u64::from(segments) * u64::from(self.mss);
        let limit = factor * (TSQ_MIN_BURSTS * (payload + SKB_OVERHEAD)).max(self.bytes_a_millisecond());
        // Linux's count begins at 1, so a limit that is just reached blocks.
        self.host_fq.as_ref().is_some_and(|fq| fq.memory >= limit) && !self.has_one_burst_out()
    }

    /// True if at most one burst is unacknowledged.
    // spec: Linux tcp_rtx_queue_empty_or_single_skb
    fn has_one_burst_out(&self) -> bool {
        let out = self.board.packets_out();
        out == 0 || self.board.peek(self.board.una).token == self.board.peek(self.board.una + u64::from(out) - 1).token
    }
}

#[cfg(test)]
mod tests {
    use bbrlab_core::AlgorithmConfig;

    use super::*;
    use crate::setup::FlowSetup;
    use crate::tcp::packet::AckPacket;

    /// Time of the first ACK of data, 100 ms after the first flight.
    const ACKED: Time = Time::nanos(200_000_000);

    /// A CUBIC flow behind `fq` at [`ACKED`], when the first `una` of its ten segments are acknowledged, and the segments that leave then.
    fn acked(una: u64) -> (Sender, Vec<Segment>) {
        let mut setup = FlowSetup::bulk("cubic", AlgorithmConfig::named("cubic").unwrap());
        setup.host.pacing = true;
        let mut sender = Sender::new(0, &setup, 1);
        let mut out = Vec::new();
        sender.start(Time::ZERO, &mut out);
        out.clear();
        sender.on_syn_ack(Time::nanos(100_000_000), &setup, Time::ZERO, &mut out);
        assert_eq!((out.len(), sender.next_time()), (1 + 10, sender.timer.at), "the first ten are not paced");
        out.clear();
        sender.on_ack(ACKED, &ack(una), &mut out);
        (sender, out)
    }

    fn ack(una: u64) -> AckPacket {
        AckPacket { una, window: 1 << 20, ..AckPacket::default() }
    }

    /// Time of the qdisc's timer, less its slack.
    fn before_timer(sender: &Sender) -> Time {
        Time::nanos(sender.next_time().as_nanos() - 10_000)
    }

    #[test]
    fn a_burst_leaves_when_the_timer_after_its_departure_time_fires() {
        let (mut sender, out) = acked(2);
        assert_eq!(out.iter().map(|segment| segment.seq).collect::<Vec<_>>(), [10, 11]);
        assert_eq!(sender.board.packets_out(), 8 + 4, "two more are written");
        let timer = sender.next_time();
        let departure = before_timer(&sender);
        // The RTT sample counts from the departure time.
        assert_eq!(sender.token(13).send_time().as_micros(), departure.as_micros());
        assert!(departure > ACKED + Span::millis(4));
        let mut late = Vec::new();
        sender.on_time(timer, &mut late);
        let sent: Vec<_> = late.iter().map(|segment| (segment.seq, segment.sent)).collect();
        assert_eq!(sent, [(12, departure), (13, departure)]);
    }

    #[test]
    fn a_burst_that_is_due_leaves_with_the_next_one_written() {
        let (mut sender, mut out) = acked(2);
        let departure = before_timer(&sender);
        out.clear();
        sender.on_ack(departure + Span::micros(3), &ack(4), &mut out);
        assert_eq!(out.iter().map(|segment| segment.seq).collect::<Vec<_>>(), [12, 13]);
        assert_eq!(before_timer(&sender).as_micros(), sender.token(14).send_time().as_micros());
    }

    #[test]
    fn two_bursts_wait_of_new_data_and_four_of_retransmissions() {
        let (mut sender, out) = acked(10);
        assert_eq!((out.len(), sender.board.packets_out()), (2, 6), "the window has room for 20");
        assert!(sender.blocked_by_fq(2, 1) && !sender.blocked_by_fq(2, 2));
        // The one that leaves makes room for one.
        let mut later = Vec::new();
        sender.on_time(sender.next_time(), &mut later);
        assert_eq!((later.len(), sender.board.packets_out()), (2, 8));
        for _ in 0..2 {
            sender.hold_burst(sender.wstamp, 2 * 1448, 0, &mut later);
        }
        assert!(sender.blocked_by_fq(2, 2));
    }
}
