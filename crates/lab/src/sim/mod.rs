//! The simulator: virtual time, the link model, and a model of Linux TCP at both ends.
//! In: a [`Setup`]. Out: an [`Output`]; same setup, same bytes. Never: a clock, randomness of its own, a thread.
//!
//! Every source of events (a link, each flow's two ends and two directions) has one place in the agenda, so a packet
//! costs three events however many are in flight.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod agenda;
mod flow;
#[doc(hidden)]
pub mod observe;
mod record;
mod summary;

use bbrlab_core::{Rng, Span, Time};

use crate::link::{Aqm, Link, LinkConfig, LinkPacket, LinkStats, Loss, LossModel, Service, Verdict};
use crate::metrics::Histogram;
use crate::result::RunResult;
use crate::setup::{AccessSetup, ChangeKind, Setup};
use crate::tcp::{AckPacket, Segment};
use crate::trace::Trace;
use agenda::Agenda;
use flow::{ACCESS_HOP, Flow};
use record::Recorder;

/// Sources of events of one flow.
const FLOW_SOURCES: usize = 4;
const FORWARD: usize = 0;
const BACK: usize = 1;
const SENDER: usize = 2;
const RECEIVER: usize = 3;

/// What a run leaves behind.
#[derive(Clone, Debug)]
pub struct Output {
    /// The figures.
    pub result: RunResult,
    /// The series, where the setup asked for them.
    pub trace: Trace,
}

/// Runs a scenario to its end.
pub fn run(setup: &Setup) -> Output {
    run_with(setup, &mut |_| {})
}

/// Runs a scenario to its end; `progress` hears the simulated time about a hundred times.
pub fn run_with(setup: &Setup, progress: &mut dyn FnMut(Time)) -> Output {
    let mut world = World::new(setup);
    world.run(progress);
    world.finish()
}

/// Runs a scenario to its end, watched from inside. For this project's own tests.
#[doc(hidden)]
pub fn run_observed(setup: &Setup, observer: &mut dyn observe::Observer) -> Output {
    let mut world = World::new(setup);
    world.observer = Some(observer);
    world.run(&mut |_| {});
    world.observe_end();
    world.finish()
}

/// A link's counters at the moment when measuring begins.
#[derive(Clone, Copy, Debug, Default)]
struct LinkMark {
    stats: LinkStats,
    capacity: u64,
}

struct World<'a> {
    setup: &'a Setup,
    now: Time,
    agenda: Agenda,
    links: Vec<Link<Segment>>,
    flows: Vec<Flow>,
    ack_loss: LossModel,
    recorder: Recorder,
    observer: Option<&'a mut dyn observe::Observer>,
    /// Segments that a sender has just emitted.
    out: Vec<Segment>,
    /// ACKs that a receiver has just written.
    acks: Vec<AckPacket>,
    dropped: Vec<u32>,
    /// Index of the next change of the schedule.
    next_change: usize,
    queue_delay: Histogram,
    measuring: bool,
    mark: LinkMark,
    events: u64,
    control: usize,
    first_flow: usize,
}

impl<'a> World<'a> {
    fn new(setup: &'a Setup) -> Self {
        let mut links: Vec<_> =
            setup.links.iter().enumerate().map(|(i, c)| Link::new(c, seed(setup.seed, 1_000_000 + i))).collect();
        let mut flows = Vec::with_capacity(setup.flows.len());
        for (index, flow) in setup.flows.iter().enumerate() {
            let access = flow.access.map(|access| {
                links.push(Link::new(&access_link(&access), seed(setup.seed, 2_000_000 + index)));
                links.len() - 1
            });
            flows.push(Flow::new(index, flow, &setup.path, access, seed(setup.seed, 3_000_000 + index)));
        }
        let first_flow = links.len();
        let control = first_flow + FLOW_SOURCES * flows.len();
        let mut world = Self {
            setup,
            now: Time::ZERO,
            agenda: Agenda::new(control + 1),
            links,
            flows,
            ack_loss: LossModel::new(setup.path.ack_loss, seed(setup.seed, 4_000_000)),
            recorder: Recorder::new(setup),
            observer: None,
            out: Vec::new(),
            acks: Vec::new(),
            dropped: Vec::new(),
            next_change: 0,
            queue_delay: Histogram::default(),
            measuring: false,
            mark: LinkMark::default(),
            events: 0,
            control,
            first_flow,
        };
        for (index, flow) in setup.flows.iter().enumerate() {
            world.agenda.set(first_flow + FLOW_SOURCES * index + SENDER, flow.start);
        }
        world.plan_control();
        world
    }

    fn run(&mut self, progress: &mut dyn FnMut(Time)) {
        let step = Span(self.setup.duration.0 / 100);
        let mut report_at = Time::ZERO + step;
        loop {
            let (at, source) = self.agenda.first();
            if at > self.setup.duration {
                break;
            }
            debug_assert!(at >= self.now, "source {source} ran backwards from {:?} to {at:?}", self.now);
            self.now = at;
            self.events += 1;
            if source < self.first_flow {
                self.on_departure(source);
            } else if source < self.control {
                let index = (source - self.first_flow) / FLOW_SOURCES;
                match (source - self.first_flow) % FLOW_SOURCES {
                    FORWARD => self.on_arrival(index),
                    BACK => self.on_ack(index),
                    SENDER => self.on_sender(index),
                    _ => self.on_receiver(index),
                }
            } else {
                self.on_control();
            }
            if at >= report_at {
                report_at = at + step;
                progress(at);
            }
        }
        self.now = self.setup.duration;
    }

    const fn source(&self, flow: usize, part: usize) -> usize {
        self.first_flow + FLOW_SOURCES * flow + part
    }

    /// A link's serialiser has finished a packet.
    fn on_departure(&mut self, link: usize) {
        let departure = self.links[link].depart(self.now);
        self.agenda.set(link, self.links[link].next_departure());
        if let Some(departure) = departure {
            let segment = departure.packet;
            let index = segment.flow as usize;
            if link == self.setup.bottleneck && self.measuring {
                self.queue_delay.add(departure.queue_delay.0);
            }
            if segment.hop == ACCESS_HOP {
                self.release_host(index, segment.wire_bytes());
            }
            if !departure.lost {
                self.forward(departure.at, segment);
            }
        }
        self.note_drops(link);
    }

    /// Drops that a queue decided on later than at the packet's arrival.
    fn note_drops(&mut self, link: usize) {
        self.links[link].take_dropped(&mut self.dropped);
        while let Some(flow) = self.dropped.pop() {
            if link == self.setup.bottleneck {
                self.flows[flow as usize].stats.bottleneck.1 += 1;
            }
        }
    }

    /// Sends a packet that left a link on to the next one, or to its receiver.
    fn forward(&mut self, at: Time, mut segment: Segment) {
        let index = segment.flow as usize;
        let route = self.flows[index].route;
        segment.hop = if segment.hop == ACCESS_HOP { route.0 } else { segment.hop + 1 };
        if segment.hop < route.1 {
            self.offer(segment);
            return;
        }
        self.flows[index].forward.push(at, segment);
        let next = self.flows[index].forward.next();
        self.agenda.set(self.source(index, FORWARD), next);
    }

    /// Offers a packet to the link that it meets next.
    fn offer(&mut self, segment: Segment) {
        let index = segment.flow as usize;
        let link = match segment.hop {
            ACCESS_HOP => self.flows[index].access.unwrap_or(0),
            hop => usize::from(hop),
        };
        let verdict = self.links[link].offer(self.now, segment);
        if link == self.setup.bottleneck {
            let counts = &mut self.flows[index].stats.bottleneck;
            counts.0 += 1;
            counts.1 += u64::from(verdict != Verdict::Queued);
        }
        self.agenda.set(link, self.links[link].next_departure());
        self.note_drops(link);
        if verdict != Verdict::Queued && segment.hop == ACCESS_HOP {
            self.release_host(index, segment.wire_bytes());
        }
    }

    fn release_host(&mut self, index: usize, wire_bytes: u32) {
        let mut out = std::mem::take(&mut self.out);
        self.flows[index].sender.on_host_dequeue(self.now, wire_bytes, &mut out);
        self.observe_sent(index, &out);
        self.emit(index, out);
    }

    /// Offers what a sender has emitted, and notes when it wants to be called next.
    fn emit(&mut self, index: usize, mut out: Vec<Segment>) {
        for segment in out.drain(..) {
            self.recorder.on_sent(self.now, &segment);
            self.offer(segment);
        }
        // Drops in the host's own queue may have called the sender again; keep the larger buffer.
        if out.capacity() > self.out.capacity() {
            self.out = out;
        }
        let next = self.flows[index].sender.next_time();
        self.agenda.set(self.source(index, SENDER), next);
    }

    /// Segments arrive at a receiver.
    fn on_arrival(&mut self, index: usize) {
        while let Some((_, segment)) = self.flows[index].forward.pop(self.now) {
            let mut acks = std::mem::take(&mut self.acks);
            self.flows[index].on_segment(self.now, &segment, &mut acks);
            self.send_acks(index, acks);
        }
        let next = self.flows[index].forward.next();
        self.agenda.set(self.source(index, FORWARD), next);
        let receiver = self.flows[index].receiver.next_time();
        self.agenda.set(self.source(index, RECEIVER), receiver);
        if self.flows[index].sender.app.exchange().is_some() {
            let sender = self.flows[index].sender.next_time();
            self.agenda.set(self.source(index, SENDER), sender);
        }
    }

    fn on_receiver(&mut self, index: usize) {
        let mut acks = std::mem::take(&mut self.acks);
        self.flows[index].receiver.on_timer(self.now, &mut acks);
        self.send_acks(index, acks);
        let next = self.flows[index].receiver.next_time();
        self.agenda.set(self.source(index, RECEIVER), next);
    }

    /// Sends what a receiver has just written.
    fn send_acks(&mut self, index: usize, mut acks: Vec<AckPacket>) {
        if acks.is_empty() {
            self.acks = acks;
            return;
        }
        for ack in acks.drain(..) {
            if self.ack_loss.is_none() || !self.ack_loss.lose() {
                self.flows[index].back.push(self.now, ack, self.setup.flows[index].mss);
            }
        }
        self.acks = acks;
        let next = self.flows[index].back.next();
        self.agenda.set(self.source(index, BACK), next);
    }

    /// ACKs arrive at a sender.
    fn on_ack(&mut self, index: usize) {
        let mut out = std::mem::take(&mut self.out);
        while let Some(ack) = self.flows[index].back.pop(self.now) {
            let before = out.len();
            let flow = &mut self.flows[index];
            if ack.syn {
                let setup = &self.setup.flows[index];
                if let Some(rtt) = flow.sender.on_syn_ack(self.now, setup, ack.ts_echo, &mut out) {
                    flow.receiver.on_handshake(self.now, rtt);
                    flow.note_state(self.now);
                }
            } else {
                let rtt = flow.sender.on_ack(self.now, &ack, &mut out);
                flow.after_ack(self.now, rtt, self.measuring);
                self.recorder.on_ack(self.now, index, &ack, rtt);
            }
            self.observe_sent(index, &out[before..]);
        }
        let next = self.flows[index].back.next();
        self.agenda.set(self.source(index, BACK), next);
        self.emit(index, out);
    }

    /// A sender's timer, pacer or application is due.
    fn on_sender(&mut self, index: usize) {
        let mut out = std::mem::take(&mut self.out);
        let flow = &mut self.flows[index];
        if flow.started {
            flow.sender.on_time(self.now, &mut out);
            flow.note_state(self.now);
        } else {
            flow.begin(self.now);
            flow.sender.start(self.now, &mut out);
        }
        self.observe_sent(index, &out);
        self.emit(index, out);
    }

    /// The end of warm-up, a change of the path, a sample of the series.
    fn on_control(&mut self) {
        if !self.measuring && self.now >= self.setup.warmup {
            self.measuring = true;
            for flow in &mut self.flows {
                flow.set_mark();
            }
            let link = &self.links[self.setup.bottleneck];
            self.mark = LinkMark { stats: *link.stats(), capacity: link.capacity_bytes_until(self.now) };
        }
        while let Some(change) = self.setup.schedule.get(self.next_change).filter(|change| change.at <= self.now) {
            let change = *change;
            self.next_change += 1;
            self.apply(change.link, change.what);
        }
        if self.recorder.next() <= self.now {
            self.recorder.sample(self.now, &self.flows, &self.links[..self.setup.links.len()]);
        }
        self.plan_control();
    }

    fn plan_control(&mut self) {
        let warmup = if self.measuring { Time::NEVER } else { self.setup.warmup };
        let change = self.setup.schedule.get(self.next_change).map_or(Time::NEVER, |change| change.at);
        self.agenda.set(self.control, warmup.min(change).min(self.recorder.next()));
    }

    fn apply(&mut self, link: usize, what: ChangeKind) {
        match what {
            ChangeKind::Rate(rate) => self.links[link].set_rate(self.now, rate),
            ChangeKind::Buffer(buffer) => self.links[link].set_buffer(buffer),
            ChangeKind::Loss(loss) => self.links[link].set_loss(loss),
            ChangeKind::AckLoss(loss) => self.ack_loss.set(loss),
            ChangeKind::Rtt(rtt) => {
                for (index, flow) in self.flows.iter_mut().enumerate() {
                    flow.set_path_rtt(&self.setup.flows[index], rtt);
                }
            }
        }
        self.agenda.set(link, self.links[link].next_departure());
    }
}

/// A seed of its own for each part of the world.
fn seed(seed: u64, part: usize) -> u64 {
    Rng::derive(seed, part as u64).next_u64()
}

/// An access link: drop-tail, nothing else.
fn access_link(access: &AccessSetup) -> LinkConfig {
    LinkConfig {
        service: Service::Rate(access.rate),
        buffer: access.buffer,
        aqm: Aqm::DropTail,
        policer: None,
        loss: Loss::None,
    }
}

#[cfg(test)]
mod tests;
