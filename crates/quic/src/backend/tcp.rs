//! Flows of the simulator's TCP model next to a stack's: the simulator's own endpoints, driven between the datagrams.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};
use bbrlab_sim::engine::Flow;
use bbrlab_sim::link::LinkPacket;
use bbrlab_sim::setup::Setup;
use bbrlab_sim::tcp::{AckPacket, Segment, mark};
use bbrlab_sim::timer_tree::{TimerTree, WIDTH};

use super::stage::Stage;
use super::store::{End, Payload};

/// Sources of deadlines per flow.
const PARTS: usize = 2;
const SENDER: usize = 0;
const RECEIVER: usize = 1;

/// Deadlines of the endpoints, and the packets that they have just written.
#[derive(Debug)]
pub struct TcpEndpoints {
    /// Two places for each flow of the setup; those of a stack's flows stay empty.
    timers: TimerTree,
    out: Vec<Segment>,
    acks: Vec<AckPacket>,
    /// (flow, bytes) dequeued by access links since the last poll.
    pub released: Vec<(u32, u32)>,
}

impl TcpEndpoints {
    pub fn new(setup: &Setup) -> Self {
        let mut timers = TimerTree::new(PARTS * setup.flows.len());
        for (index, flow) in setup.flows.iter().enumerate().filter(|(_, flow)| flow.is_tcp) {
            timers.set(PARTS * index + SENDER, flow.start);
        }
        Self { timers, out: Vec::new(), acks: Vec::new(), released: Vec::new() }
    }

    /// Time of the next deadline.
    pub const fn next(&self) -> Time {
        self.timers.earliest()
    }
}

impl<P: Clone> Stage<P> {
    /// Handles the next deadline of an endpoint.
    pub(super) fn on_tcp(&mut self, now: Time) {
        let (group, place) = self.tcp.timers.first();
        let source = WIDTH * group + place;
        let index = source / PARTS;
        if source % PARTS == SENDER {
            self.on_sender(now, index);
        } else {
            let Some(flow) = &mut self.tally.flows[index].tcp else { return };
            flow.receiver.on_timer(now, &mut self.tcp.acks);
            self.send_acks(now, index);
        }
    }

    /// Delivers a segment to its receiver.
    pub(super) fn receive(&mut self, now: Time, index: usize, segment: &Segment, ce: bool) {
        let Some(flow) = &mut self.tally.flows[index].tcp else { return };
        let marks = if ce { segment.marks | mark::CE } else { segment.marks };
        flow.on_segment(now, &Segment { marks, ..*segment }, &mut self.tcp.acks);
        self.send_acks(now, index);
    }

    /// Delivers ACKs to their sender; those written together by a receiver are taken together.
    pub(super) fn take_acks(&mut self, now: Time, index: usize, first: &AckPacket) {
        self.take_ack(now, index, first);
        // An upload's ACKs share the downloads' links with data, and come one by one.
        while !self.setup.flows[index].is_upload
            && let Some(datagram) = self.path.reverse.poll_flow(now, index as u32)
        {
            if let Some(Payload::Ack(ack)) = self.store.take(datagram.id) {
                self.take_ack(now, index, &ack);
            }
        }
        self.emit(now, index, 0);
    }

    fn take_ack(&mut self, now: Time, index: usize, ack: &AckPacket) {
        // Segments due at this moment leave first, as in the simulator.
        if self.tally.flows[index].tcp.as_ref().is_some_and(|flow| flow.sender.next_time() <= now) {
            self.on_sender(now, index);
        }
        let is_measuring = self.tally.is_measuring;
        let Some(flow) = &mut self.tally.flows[index].tcp else { return };
        if ack.is_request {
            return flow.on_request(now, ack.una, &mut self.tcp.out);
        }
        let rtt = flow.on_ack(now, &self.setup.flows[index], ack, is_measuring, &mut self.tcp.out);
        self.tally.note_rtt(now, index, rtt);
    }

    /// Handles a sender's start, timer, pacer or application.
    fn on_sender(&mut self, now: Time, index: usize) {
        let Some(flow) = &mut self.tally.flows[index].tcp else { return };
        if flow.started {
            flow.on_time(now, &mut self.tcp.out);
        } else {
            flow.start(now, &mut self.tcp.out);
        }
        let requests = flow.sender.app.take_requests();
        self.emit(now, index, 0);
        for number in requests {
            let request = AckPacket::of_request(number, index, &self.setup.flows[index].host);
            let (wire, ect) = (request.wire_bytes(), request.ect());
            self.enter(now, End::Receiver, index, Payload::Ack(request), wire, ect, None);
        }
    }

    /// Notifies hosts that their access links have dequeued packets.
    pub(super) fn release_hosts(&mut self, now: Time) {
        while let Some((index, wire_bytes)) = self.tcp.released.pop() {
            let (index, from) = (index as usize, self.tcp.out.len());
            if let Some(flow) = &mut self.tally.flows[index].tcp {
                flow.sender.on_host_dequeue(now, wire_bytes, &mut self.tcp.out);
                self.emit(now, index, from);
            }
        }
    }

    /// Sends the segments in `out` from place `from` on. A drop in the host's own queue may call the sender again. Segments
    /// that it emits then are stored behind, and leave first.
    fn emit(&mut self, now: Time, index: usize, from: usize) {
        for place in from..self.tcp.out.len() {
            let segment = self.tcp.out[place];
            let (wire, ect) = (segment.wire_bytes(), segment.ect());
            self.enter(now, End::Sender, index, Payload::Segment(segment), wire, ect, None);
            self.release_hosts(now);
        }
        self.tcp.out.truncate(from);
        self.plan(index);
    }

    /// Sends the ACKs just written by a receiver.
    fn send_acks(&mut self, now: Time, index: usize) {
        let mss = u64::from(self.setup.flows[index].mss);
        let mut acks = std::mem::take(&mut self.tcp.acks);
        for ack in acks.drain(..) {
            let (wire, held) = (ack.wire_bytes(), ack.held_bytes(mss));
            self.enter(now, End::Receiver, index, Payload::Ack(ack), wire, false, held);
        }
        self.tcp.acks = acks;
        self.plan(index);
    }

    /// Updates the deadlines of both ends.
    fn plan(&mut self, index: usize) {
        if let Some(flow) = &self.tally.flows[index].tcp {
            self.tcp.timers.set(PARTS * index + SENDER, flow.sender.next_time());
            self.tcp.timers.set(PARTS * index + RECEIVER, flow.receiver.next_time());
        }
    }
}

/// Creates the endpoints of a flow of the TCP model.
pub fn ends(setup: &Setup, index: usize, ack_delay: Span) -> Option<Box<Flow>> {
    let request_delay = setup.up.is_none().then_some(ack_delay);
    setup.flows[index].is_tcp.then(|| Box::new(Flow::new(setup, index, request_delay)))
}
