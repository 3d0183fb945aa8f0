//! Watching a run while it is simulated: each packet's way over the bottleneck, and every flow's model.
//! Watching does not influence the run.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{CaState, Rate, Snapshot, Span, Time};

use super::Flow;
use crate::record::trace::ModelSample;
use crate::tcp::{AckPacket, Segment};

/// Event of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A segment left its sender's host.
    Sent,
    /// A segment entered the bottleneck.
    Queued,
    /// The bottleneck refused a segment that had arrived, which follows its `Queued`.
    Refused,
    /// The bottleneck's queue dropped a segment of this flow that it had accepted; `seq` is not known.
    DroppedLater,
    /// A segment left the bottleneck.
    Departed,
    /// A segment was lost at random behind the bottleneck, which follows its `Departed`.
    Lost,
    /// A segment arrived at its receiver.
    Arrived,
    /// An ACK left the receiver.
    AckSent,
    /// An ACK was lost at random, which follows its `AckSent`.
    AckLost,
    /// An ACK arrived at the sender.
    AckArrived,
}

/// Event of one packet, with what identifies the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEvent {
    /// Time of the event.
    pub at: Time,
    /// Index of the flow.
    pub flow: u32,
    /// The event.
    pub stage: Stage,
    /// Sequence number of a segment, counted in segments; of an ACK, the first segment that has not arrived.
    pub seq: u64,
    /// Time at which a segment was sent; of an ACK, the timestamp that it echoes.
    pub sent: Time,
    /// Marks of a segment (`tcp::mark`); of an ACK, 1 if it reports a hole.
    pub marks: u8,
}

/// Recorder of packet events between two calls of its reader.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    events: Vec<PacketEvent>,
    /// Segments of the burst under way that the bottleneck refused.
    refused: Vec<Segment>,
    last: Time,
}

impl Watch {
    pub(super) fn on_segment(&mut self, at: Time, segment: &Segment, stage: Stage) {
        let Segment { seq, sent, flow, marks, .. } = *segment;
        self.add(PacketEvent { at, flow, stage, seq, sent, marks });
    }

    pub(super) fn on_ack(&mut self, at: Time, flow: usize, ack: &AckPacket, stage: Stage) {
        let has_hole = ack.sack[0] != (0, 0);
        let flow = u32::try_from(flow).unwrap_or(u32::MAX);
        self.add(PacketEvent { at, flow, stage, seq: ack.una, sent: ack.ts_echo, marks: u8::from(has_hole) });
    }

    pub(super) fn on_refused(&mut self, segment: &Segment) {
        self.refused.push(*segment);
    }

    /// Reports the refusals of a burst, once all of its segments have been reported.
    pub(super) fn note_refused(&mut self, at: Time) {
        for segment in std::mem::take(&mut self.refused) {
            self.on_segment(at, &segment, Stage::Refused);
        }
    }

    pub(super) fn on_dropped_later(&mut self, flow: u32) {
        let at = self.last;
        self.add(PacketEvent { at, flow, stage: Stage::DroppedLater, seq: 0, sent: Time::ZERO, marks: 0 });
    }

    fn add(&mut self, event: PacketEvent) {
        self.last = event.at;
        self.events.push(event);
    }

    /// Returns the events since the last call, in their order.
    pub(super) fn take(&mut self) -> Vec<PacketEvent> {
        std::mem::take(&mut self.events)
    }
}

/// State of one flow at one moment.
#[derive(Clone, Debug)]
pub struct FlowView {
    /// Congestion window, packets.
    pub cwnd: u32,
    /// Packets in flight.
    pub in_flight: u32,
    /// Pacing rate, if the flow is paced.
    pub pacing: Option<Rate>,
    /// The algorithm's model.
    pub snapshot: Snapshot,
    /// The algorithm's model with the draft's names.
    pub model: ModelSample,
    /// Loss-recovery state.
    pub ca_state: CaState,
    /// The newest RTT sample, µs; 0 before the first.
    pub rtt_us: u32,
    /// Smoothed RTT.
    pub srtt: Option<Span>,
    /// Minimum RTT of the connection.
    pub min_rtt: Option<Span>,
    /// Packets sent, retransmissions included.
    pub sent: u64,
    /// Packets retransmitted.
    pub retransmits: u64,
    /// Packets marked lost.
    pub lost: u64,
    /// Payload bytes acknowledged.
    pub acked_bytes: u64,
    /// Unique payload bytes that arrived.
    pub received_bytes: u64,
    /// Propagation delay on the forward path.
    pub forward: Span,
    /// Propagation delay on the reverse path.
    pub reverse: Span,
}

impl FlowView {
    pub(super) fn of(flow: &Flow, forward: Span, reverse: Span) -> Self {
        let (sender, cc, stats) = (&flow.sender, &flow.sender.cc, &flow.sender.stats);
        let in_flight = sender.in_flight();
        Self {
            cwnd: cc.cwnd(),
            in_flight,
            pacing: sender.pacing_rate(),
            snapshot: cc.snapshot(),
            model: ModelSample::of(cc, in_flight.into(), stats.undos as f64, stats.rto as f64),
            ca_state: cc.ca_state(),
            rtt_us: flow.stats.rtt.last_us,
            srtt: cc.rtt().smoothed(),
            min_rtt: cc.rtt().min(),
            sent: stats.segments,
            retransmits: stats.retransmits,
            lost: stats.lost,
            acked_bytes: stats.acked_bytes,
            received_bytes: flow.receiver.bytes,
            forward,
            reverse,
        }
    }
}
