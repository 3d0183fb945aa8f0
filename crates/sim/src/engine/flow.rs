//! One flow of the TCP model: both ends and its counters. Used by the simulator and by every other virtual-time backend that
//! has such flows.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::{NANOS_PER_SEC, Rate, Span, State, Time};

use crate::apps::Reaction;
use crate::path::flow_seed;
use crate::record::summary::{FlowCounts, RttStats};
use crate::record::trace::FlowTrace;
use crate::setup::{FlowSetup, Setup};
use crate::tcp::{AckPacket, Receiver, Segment, Sender, SenderStats};

/// Counters at the start of measurement.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowBaseline {
    /// Unique payload bytes that had arrived.
    pub bytes: u64,
    /// Wire bytes that had arrived.
    pub wire_bytes: u64,
    /// Segments that had arrived twice.
    pub duplicates: u64,
    /// The sender's counters.
    pub sender: SenderStats,
    /// Arrivals and drops at the bottleneck.
    pub bottleneck: (u64, u64),
}

/// Statistics of one flow.
#[derive(Clone, Debug, Default)]
pub struct FlowStats {
    /// RTTs at the sender.
    pub rtt: RttStats,
    /// Unique payload bytes received in each second.
    pub bins: Vec<u64>,
    /// Arrivals and drops of this flow at the bottleneck.
    pub bottleneck: (u64, u64),
    /// The state at each change, with the time.
    pub states: Vec<(Time, State)>,
    /// Arrival time of the last byte of a sized flow.
    pub finished: Option<Time>,
    /// Completion times of responses.
    pub exchanges: Vec<Span>,
    /// Send time of the current request.
    request_sent: Time,
    /// Counters at the start of measurement; the receiver's are set first.
    pub mark: FlowBaseline,
    receiver_is_marked: bool,
    /// For a receiver ahead of the clock: (time, unique payload bytes received by then), oldest first.
    received: VecDeque<(Time, u64)>,
}

/// Both ends of one flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The sending end.
    pub sender: Sender,
    /// The receiving end.
    pub receiver: Receiver,
    /// Counters.
    pub stats: FlowStats,
    /// True once its SYN has been sent.
    pub started: bool,
    /// True if its data crosses the reverse direction's link.
    pub is_upload: bool,
}

impl Flow {
    /// Creates a flow of a setup, not yet started. Its requests arrive after `request_delay`, unless they cross a link.
    pub fn new(setup: &Setup, index: usize, request_delay: Option<Span>) -> Self {
        let flow = &setup.flows[index];
        let mut sender = Sender::new(index as u32, flow, flow_seed(setup.seed, index));
        sender.app.request_delay = request_delay;
        Self {
            sender,
            receiver: Receiver::new(flow.mss, flow.rwnd, flow.reads_at_once(), &flow.host),
            stats: FlowStats::default(),
            started: false,
            is_upload: flow.is_upload,
        }
    }

    /// Delivers a segment to the receiver. Returns true if it completes the requested data.
    #[inline(always)] // runs for each segment
    pub fn on_segment(&mut self, now: Time, segment: &Segment, acks: &mut Vec<AckPacket>) -> bool {
        let before = self.receiver.bytes;
        self.receiver.on_segment(now, segment, acks);
        let fresh = self.receiver.bytes - before;
        if fresh == 0 {
            return false;
        }
        self.count_arrival(now, fresh);
        self.sender.app.is_finite() && self.stats.finished.is_none() && self.take_whole(now)
    }

    #[inline]
    fn count_arrival(&mut self, now: Time, fresh: u64) {
        // The last bin is that of the current second, from its first arrival on.
        let second = self.stats.bins.len() as u64;
        if now.as_nanos() >= second * NANOS_PER_SEC {
            self.stats.bins.resize((now.as_nanos() / NANOS_PER_SEC) as usize + 1, 0);
        }
        if let Some(bin) = self.stats.bins.last_mut() {
            *bin += fresh;
        }
    }

    /// Checks whether all requested data has arrived. If so, the flow is finished or sends its next request.
    #[inline(never)]
    fn take_whole(&mut self, now: Time) -> bool {
        if self.sender.app.has_client() {
            let reaction = self.sender.app.on_bytes(now, self.receiver.in_order_bytes);
            self.stats.finished = (reaction == Reaction::Done).then_some(now);
            return reaction != Reaction::None;
        }
        if let Some(total) = self.sender.app.total() {
            if self.receiver.in_order_bytes >= total {
                self.stats.finished = Some(now);
                return true;
            }
        } else if let Some(exchange) = self.sender.app.exchange()
            && self.receiver.in_order_bytes >= exchange.end
        {
            self.stats.exchanges.push(now.since(self.stats.request_sent));
            match exchange.pause {
                Some(pause) => {
                    self.stats.request_sent = now + pause;
                    self.sender.app.ask(now + pause);
                }
                None => self.stats.finished = Some(now),
            }
            return true;
        }
        false
    }

    /// Starts the flow: the SYN leaves, and the first request with it.
    pub fn start(&mut self, now: Time, out: &mut Vec<Segment>) {
        self.started = true;
        self.stats.request_sent = now;
        self.sender.start(now, out);
    }

    /// Handles a deadline that the sender has set.
    #[inline]
    pub fn on_time(&mut self, now: Time, out: &mut Vec<Segment>) {
        self.sender.on_time(now, out);
        self.note_state(now);
    }

    /// Delivers a request that crossed a link.
    pub fn on_request(&mut self, now: Time, number: u64, out: &mut Vec<Segment>) {
        self.sender.on_request(now, number, out);
        self.note_state(now);
    }

    /// Delivers an ACK to the sender. Returns its RTT sample, except that of the handshake, which is not counted.
    #[inline]
    pub fn on_ack(
        &mut self,
        now: Time,
        setup: &FlowSetup,
        ack: &AckPacket,
        measuring: bool,
        out: &mut Vec<Segment>,
    ) -> Option<Span> {
        if ack.syn {
            if self.sender.on_syn_ack(now, setup, ack.ts_echo, out) {
                self.receiver.on_answer(ack.ts_echo);
                self.note_state(now);
            }
            return None;
        }
        let rtt = self.sender.on_ack(now, ack, out);
        self.after_ack(now, rtt, measuring);
        rtt
    }

    /// Records the RTT sample and the state after an ACK.
    #[inline(always)] // runs for each ACK
    fn after_ack(&mut self, now: Time, rtt: Option<Span>, measuring: bool) {
        if let Some(rtt) = rtt {
            self.stats.rtt.add(rtt.as_micros().min(u64::from(u32::MAX)) as u32, measuring);
        }
        self.note_state(now);
    }

    /// Records the state if it has changed.
    #[inline]
    fn note_state(&mut self, now: Time) {
        let state = self.sender.cc.state();
        if self.stats.states.last().is_none_or(|last| last.1 != state) {
            self.stats.states.push((now, state));
        }
    }

    /// Starts the measurement.
    pub fn set_mark(&mut self) {
        self.mark_receiver();
        let mark = &mut self.stats.mark;
        (mark.sender, mark.bottleneck) = (self.sender.stats, self.stats.bottleneck);
    }

    /// Starts the measurement at the receiver, if it has not started.
    #[inline]
    pub fn mark_receiver(&mut self) {
        if !self.stats.receiver_is_marked {
            self.stats.receiver_is_marked = true;
            let (mark, receiver) = (&mut self.stats.mark, &self.receiver);
            (mark.bytes, mark.wire_bytes, mark.duplicates) = (receiver.bytes, receiver.wire_bytes, receiver.duplicates);
        }
    }

    /// Records that the receiver, ahead of the clock, has got what arrives up to and including `at`.
    pub fn note_received(&mut self, at: Time) {
        self.stats.received.push_back((at, self.receiver.bytes));
    }

    /// Unique payload bytes received up to and including `now`, which does not go back.
    fn received_by(&mut self, now: Time) -> u64 {
        let received = &mut self.stats.received;
        while received.get(1).is_some_and(|(at, _)| *at <= now) {
            received.pop_front();
        }
        match received.front() {
            Some((at, bytes)) => {
                if *at <= now {
                    *bytes
                } else {
                    0
                }
            }
            None => self.receiver.bytes,
        }
    }

    /// Adds one sample to its series.
    pub fn sample(&mut self, now: Time, column: &mut FlowTrace) {
        let received_bytes = self.received_by(now);
        let (cc, stats) = (&self.sender.cc, &self.sender.stats);
        let snapshot = cc.snapshot();
        column.cwnd.push(cc.cwnd());
        column.inflight.push(self.sender.in_flight());
        column.pacing_bps.push(self.sender.pacing_rate().map_or(0, Rate::as_bits_per_sec));
        column.bw_bps.push(snapshot.bw.as_bits_per_sec());
        column.rtt_us.push(self.stats.rtt.last_us);
        column.min_rtt_us.push(snapshot.min_rtt.map_or(0, |rtt| rtt.as_micros() as u32));
        column.sent_bytes.push(stats.sent_bytes);
        column.acked_bytes.push(stats.acked_bytes);
        column.received_bytes.push(received_bytes);
        column.lost.push(stats.lost);
        column.retransmitted.push(stats.retransmits);
    }

    /// Counts since the start of measurement.
    pub fn counts(&self) -> FlowCounts<'_> {
        let stats = &self.stats;
        let (mark, sender) = (&stats.mark, &self.sender.stats);
        let snapshot = self.sender.cc.snapshot();
        let (arrivals, drops) = stats.bottleneck;
        FlowCounts {
            received_bytes: self.receiver.bytes - mark.bytes,
            received_wire_bytes: self.receiver.wire_bytes - mark.wire_bytes,
            segments: sender.segments - mark.sender.segments,
            retransmits: sender.retransmits - mark.sender.retransmits,
            duplicates: self.receiver.duplicates - mark.duplicates,
            rto: sender.rto - mark.sender.rto,
            bottleneck: Some((arrivals - mark.bottleneck.0, drops - mark.bottleneck.1)),
            rtt: &stats.rtt,
            bins: &stats.bins,
            states: &stats.states,
            finished: stats.finished,
            exchanges: &stats.exchanges,
            client: self.sender.app.client(),
            bw: snapshot.bw,
            min_rtt: snapshot.min_rtt,
        }
    }
}
