//! Flows of the lab's TCP model between a stack's: the simulator's own ends of a connection, driven among the datagrams.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};
use bbrlab_sim::agenda::{Agenda, WIDTH};
use bbrlab_sim::engine::Flow;
use bbrlab_sim::link::LinkPacket;
use bbrlab_sim::setup::Setup;
use bbrlab_sim::tcp::{AckPacket, Segment, mark};

use super::stage::{Stage, Way};
use super::store::Cargo;

/// What each flow asks to be called for.
const PARTS: usize = 2;
const SENDER: usize = 0;
const RECEIVER: usize = 1;

/// When the ends are called next, and what they have just written.
#[derive(Debug)]
pub struct Ends {
    /// Two places for each flow of the setup; those of a stack's stay empty.
    agenda: Agenda,
    out: Vec<Segment>,
    acks: Vec<AckPacket>,
    /// Flows whose hosts have been rid of a packet by their access link, with its bytes.
    pub released: Vec<(u32, u32)>,
}

impl Ends {
    pub fn new(setup: &Setup) -> Self {
        let mut agenda = Agenda::new(PARTS * setup.flows.len());
        for (index, flow) in setup.flows.iter().enumerate().filter(|(_, flow)| flow.is_tcp) {
            agenda.set(PARTS * index + SENDER, flow.start);
        }
        Self { agenda, out: Vec::new(), acks: Vec::new(), released: Vec::new() }
    }

    /// When one of them is to be called next.
    pub const fn next(&self) -> Time {
        self.agenda.earliest()
    }
}

impl<P: Clone> Stage<P> {
    /// The next moment of the ends has come.
    pub(super) fn on_tcp(&mut self, now: Time) {
        let (group, place) = self.tcp.agenda.first();
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

    /// A segment arrives at its receiver.
    pub(super) fn receive(&mut self, now: Time, index: usize, segment: &Segment, ce: bool) {
        let Some(flow) = &mut self.tally.flows[index].tcp else { return };
        let marks = if ce { segment.marks | mark::CE } else { segment.marks };
        flow.on_segment(now, &Segment { marks, ..*segment }, &mut self.tcp.acks);
        self.send_acks(now, index);
    }

    /// ACKs arrive at their sender; those that a receiver wrote at once are taken together.
    pub(super) fn take_acks(&mut self, now: Time, index: usize, first: &AckPacket) {
        self.take_ack(now, index, first);
        while let Some(datagram) = self.path.back.another_of(now, index as u32) {
            if let Some(Cargo::Ack(ack)) = self.store.take(datagram.id) {
                self.take_ack(now, index, &ack);
            }
        }
        self.emit(now, index, 0);
    }

    fn take_ack(&mut self, now: Time, index: usize, ack: &AckPacket) {
        // What is due at this very moment leaves first, as in the simulator.
        if self.tally.flows[index].tcp.as_ref().is_some_and(|flow| flow.sender.next_time() <= now) {
            self.on_sender(now, index);
        }
        let is_measuring = self.tally.is_measuring;
        let Some(flow) = &mut self.tally.flows[index].tcp else { return };
        let rtt = flow.on_ack(now, &self.setup.flows[index], ack, is_measuring, &mut self.tcp.out);
        self.tally.note_rtt(now, index, rtt);
    }

    /// A sender's start, timer, pacer or application is due.
    fn on_sender(&mut self, now: Time, index: usize) {
        let Some(flow) = &mut self.tally.flows[index].tcp else { return };
        if flow.started {
            flow.on_time(now, &mut self.tcp.out);
        } else {
            flow.start(now, &mut self.tcp.out);
        }
        self.emit(now, index, 0);
    }

    /// Tells hosts that their access links have taken packets off their hands.
    pub(super) fn release_hosts(&mut self, now: Time) {
        while let Some((index, wire_bytes)) = self.tcp.released.pop() {
            let (index, from) = (index as usize, self.tcp.out.len());
            if let Some(flow) = &mut self.tally.flows[index].tcp {
                flow.sender.on_host_dequeue(now, wire_bytes, &mut self.tcp.out);
                self.emit(now, index, from);
            }
        }
    }

    /// Sends what a sender has put into `out` from place `from` on. A drop in its host's own queue may call it again; what it
    /// emits then lies behind, and goes first.
    fn emit(&mut self, now: Time, index: usize, from: usize) {
        for place in from..self.tcp.out.len() {
            let segment = self.tcp.out[place];
            let (wire, ect) = (segment.wire_bytes(), segment.ect());
            self.enter(now, Way::There, index, Cargo::Segment(segment), wire, ect, None);
            self.release_hosts(now);
        }
        self.tcp.out.truncate(from);
        self.plan(index);
    }

    /// Sends what a receiver has just written.
    fn send_acks(&mut self, now: Time, index: usize) {
        let mss = u64::from(self.setup.flows[index].mss);
        let mut acks = std::mem::take(&mut self.tcp.acks);
        for ack in acks.drain(..) {
            let (wire, held) = (ack.wire_bytes(), ack.held_bytes(mss));
            self.enter(now, Way::Back, index, Cargo::Ack(ack), wire, false, held);
        }
        self.tcp.acks = acks;
        self.plan(index);
    }

    /// Asks both ends when they want to be called next.
    fn plan(&mut self, index: usize) {
        if let Some(flow) = &self.tally.flows[index].tcp {
            self.tcp.agenda.set(PARTS * index + SENDER, flow.sender.next_time());
            self.tcp.agenda.set(PARTS * index + RECEIVER, flow.receiver.next_time());
        }
    }
}

/// The ends of a flow of the TCP model.
pub fn ends(setup: &Setup, index: usize, ack_delay: Span) -> Option<Box<Flow>> {
    setup.flows[index].is_tcp.then(|| Box::new(Flow::new(setup, index, ack_delay)))
}
