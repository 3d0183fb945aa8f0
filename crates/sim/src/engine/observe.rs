//! Observation of a run by tests: each emission, and internal counters at the end.
//! Observing does not influence the run.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rate, Time};

use super::Simulation;
use super::flow::Flow;
use crate::link::LinkStats;
use crate::tcp::packet::mark;
use crate::tcp::{Segment, Sender};

/// One emission of a flow at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Current time.
    pub now: Time,
    /// Index of the flow.
    pub flow: usize,
    /// Data segments in this emission.
    pub segments: u32,
    /// Number of retransmissions among them.
    pub retransmits: u32,
    /// Payload bytes of these segments.
    pub bytes: u64,
    /// Data segments emitted by the flow before.
    pub segments_before: u64,
    /// Segments in flight now, these included.
    pub in_flight: u32,
    /// Congestion window now.
    pub cwnd: u32,
    /// Pacing rate, where it is enforced.
    pub pacing: Option<Rate>,
    /// Largest burst, payload bytes.
    pub burst_bytes: u64,
    /// Tail loss probes and timeouts so far.
    pub by_timer: u64,
}

/// Final counters of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowEnd {
    /// Payload bytes sent, retransmissions included.
    pub sent_bytes: u64,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Payload bytes acknowledged or SACKed.
    pub acked_bytes: u64,
    /// Unique payload bytes that arrived.
    pub received_bytes: u64,
    /// In-order payload bytes that arrived.
    pub in_order_bytes: u64,
    /// Payload bytes written by the application.
    pub written_bytes: u64,
    /// Segments sent but not cumulatively acknowledged.
    pub packets_out: u32,
    /// Time of the sender's next action by itself.
    pub sender_next: Time,
    /// Departure time of the first burst that waits in the host's `fq`, if one does.
    pub held: Option<Time>,
    /// Time of the receiver's next action by itself.
    pub receiver_next: Time,
    /// True if a packet of this flow is in transit outside the links.
    pub on_the_way: bool,
    /// True if the connection was established.
    pub established: bool,
    /// Arrival time of the last new byte.
    pub finished: Option<Time>,
}

/// Callbacks for the events of a run.
pub trait Observer: Send {
    /// Called when a flow emitted data.
    fn sent(&mut self, _sent: &Sent) {}
    /// Called at the end with a link's counters and the number of packets that it holds.
    fn link_end(&mut self, _index: usize, _stats: &LinkStats, _queued: u32) {}
    /// Called at the end for each flow.
    fn flow_end(&mut self, _index: usize, _end: &FlowEnd) {}
}

/// Reports a sender's emission to the observer, if there is one.
#[inline]
pub(super) fn sent(
    observer: &mut Option<&mut dyn Observer>,
    now: Time,
    index: usize,
    sender: &Sender,
    out: &[Segment],
) {
    if let Some(observer) = observer {
        report_sent(*observer, now, index, sender, out);
    }
}

#[cold]
fn report_sent(observer: &mut dyn Observer, now: Time, index: usize, sender: &Sender, out: &[Segment]) {
    let data = || out.iter().filter(|segment| segment.marks & mark::NO_DATA == 0);
    let segments = data().count() as u32;
    if segments == 0 {
        return;
    }
    observer.sent(&Sent {
        now,
        flow: index,
        segments,
        retransmits: data().filter(|segment| segment.marks & mark::RETRANSMIT != 0).count() as u32,
        bytes: data().map(|segment| u64::from(segment.len)).sum(),
        segments_before: sender.stats.segments - u64::from(segments),
        in_flight: sender.in_flight(),
        cwnd: sender.cc.cwnd(),
        pacing: sender.pacing_rate(),
        burst_bytes: sender.largest_burst(),
        by_timer: sender.stats.probes + sender.stats.rto,
    });
}

impl Simulation<'_> {
    /// Reports the final counters to the observer, if there is one.
    pub(super) fn observe_end(&mut self) {
        let Some(observer) = &mut self.observer else {
            return;
        };
        for (index, link) in self.path.forward.all_links().iter().enumerate() {
            observer.link_end(index, link.stats(), link.queue_packets());
        }
        for link in self.path.reverse.links() {
            observer.link_end(self.path.forward.all_links().len(), link.stats(), link.queue_packets());
        }
        for (index, flow) in self.flows.iter().enumerate() {
            let on_the_way = self.path.forward.has_in_transit(index) || self.path.reverse.has_in_transit(index);
            observer.flow_end(index, &flow_end(flow, on_the_way));
        }
    }
}

fn flow_end(flow: &Flow, on_the_way: bool) -> FlowEnd {
    let sender = &flow.sender;
    FlowEnd {
        sent_bytes: sender.stats.sent_bytes,
        retransmits: sender.stats.retransmits,
        acked_bytes: sender.stats.acked_bytes,
        received_bytes: flow.receiver.bytes,
        in_order_bytes: flow.receiver.in_order_bytes,
        written_bytes: sender.app.written,
        packets_out: sender.packets_out(),
        sender_next: sender.next_time(),
        held: sender.first_departure(),
        receiver_next: flow.receiver.next_time(),
        on_the_way,
        established: sender.is_established(),
        finished: flow.stats.finished,
    }
}
