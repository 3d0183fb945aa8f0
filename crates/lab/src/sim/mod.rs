//! The simulator: virtual time, the link model, and a model of Linux TCP at both ends.
//! In: a [`Setup`]. Out: an [`Output`]; same setup, same bytes. Never: a clock, randomness of its own, a thread.
//!
//! Every source of events (a link, each flow's two ends and two directions) has one place in the agenda, so a packet
//! costs three events however many are in flight.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod agenda;
mod capture;
mod flow;
mod inside;
mod lanes;
#[doc(hidden)]
pub mod observe;
mod record;
pub mod script;
mod summary;

use bbrlab_core::{Rng, Span, Time};

use crate::export::pcap::{Packets, Tap};
use crate::link::{Link, LinkConfig, LinkPacket, LinkStats, LossModel, Verdict};
use crate::metrics::Histogram;
use crate::result::RunResult;
use crate::setup::{FlowSetup, Setup, Traffic};
use crate::tcp::{AckPacket, Segment};
use crate::trace::Trace;
use agenda::Agenda;
use capture::Capture;
use flow::{ACCESS_HOP, Flow};
use lanes::Lane;
use record::Recorder;
use script::{Director, Script};

/// Sources of events of one flow: a whole group of the agenda, so that they settle together.
const FLOW_SOURCES: usize = agenda::WIDTH;
/// How often a run tells how far it is.
const PROGRESS_REPORTS: u64 = 100;
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
    /// The packets, where the setup asked for them.
    pub packets: Packets,
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

/// Runs a scenario to its end; beside the output stand, for each flow, the completion times of its responses.
pub fn run_exchanges(setup: &Setup) -> (Output, Vec<Vec<Span>>) {
    let mut world = World::new(setup);
    world.run(&mut |_| {});
    let exchanges = world.flows.iter_mut().map(|flow| std::mem::take(&mut flow.stats.exchanges)).collect();
    (world.finish(), exchanges)
}

/// Runs a scenario by a script; it ends when the script says so, at the latest with the setup's duration.
pub fn run_scripted(setup: &Setup, script: &Script) -> Output {
    let mut world = World::new(setup);
    world.follow(script);
    world.run(&mut |_| {});
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
    /// What many flows share: links first, then two places for each lane from `first_lane` on. At the same moment it
    /// comes before the flows'.
    shared: Agenda,
    /// A group for each flow, then `control`.
    agenda: Agenda,
    links: Vec<Link<Segment>>,
    lanes: Vec<Lane>,
    flows: Vec<Flow>,
    ack_loss: LossModel,
    recorder: Recorder,
    observer: Option<&'a mut dyn observe::Observer>,
    director: Option<Box<Director>>,
    /// Events up to here are handled; a script may bring the end nearer.
    horizon: Time,
    capture: Option<Box<Capture>>,
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
    first_lane: usize,
    bottleneck: usize,
    /// Flows with a list of objects that is not yet through.
    lists: usize,
    /// The last of these lists is through.
    is_over: bool,
}

impl<'a> World<'a> {
    fn new(setup: &'a Setup) -> Self {
        let mut links: Vec<_> =
            setup.links.iter().enumerate().map(|(i, c)| Link::new(c, seed(setup.seed, 1_000_000 + i))).collect();
        let mut flows = Vec::with_capacity(setup.flows.len());
        for (index, flow) in setup.flows.iter().enumerate() {
            let access = flow.access.map(|access| {
                links.push(Link::new(
                    &LinkConfig::drop_tail(access.rate, access.buffer),
                    seed(setup.seed, 2_000_000 + index),
                ));
                links.len() - 1
            });
            flows.push(Flow::new(index, flow, &setup.path, access, seed(setup.seed, 3_000_000 + index)));
        }
        let lanes = lanes::assign(setup, &mut flows);
        let (first_lane, control) = (links.len(), flows.len());
        let mut world = Self {
            setup,
            now: Time::ZERO,
            shared: Agenda::new(first_lane + 2 * lanes.len()),
            agenda: Agenda::new(FLOW_SOURCES * (control + 1)),
            links,
            lanes,
            flows,
            ack_loss: LossModel::new(setup.path.ack_loss, seed(setup.seed, 4_000_000)),
            recorder: Recorder::new(setup),
            observer: None,
            director: None,
            horizon: Time::ZERO,
            capture: Capture::new(setup),
            out: Vec::new(),
            acks: Vec::new(),
            dropped: Vec::new(),
            next_change: 0,
            queue_delay: Histogram::default(),
            measuring: false,
            mark: LinkMark::default(),
            events: 0,
            control,
            first_lane,
            bottleneck: setup.bottleneck,
            lists: setup.flows.iter().filter(|flow| is_list(flow)).count(),
            is_over: false,
        };
        for (index, flow) in setup.flows.iter().enumerate() {
            world.agenda.set(world.source(index, SENDER), flow.start);
        }
        world.plan_control();
        world
    }

    fn run(&mut self, progress: &mut dyn FnMut(Time)) {
        let duration = self.setup.duration;
        let step = Span::nanos(duration.as_nanos() / PROGRESS_REPORTS);
        let mut until = Time::ZERO + step;
        while until < duration && step > Span::ZERO {
            self.run_until(until);
            if self.horizon < until {
                return; // by the script
            }
            progress(until);
            until += step;
        }
        self.run_until(duration);
        if !self.is_over {
            self.now = self.horizon;
        }
    }

    /// Lets a script direct the run.
    fn follow(&mut self, script: &Script) {
        let director = Director::new(script);
        if !director.may_share_lanes() {
            self.flows.iter_mut().for_each(|flow| flow.lane = None);
        }
        self.director = Some(Box::new(director));
    }

    /// Handles every event up to and at `until`.
    fn run_until(&mut self, until: Time) {
        self.horizon = until;
        loop {
            let at = self.shared.earliest().min(self.agenda.earliest());
            if at > self.horizon || self.is_over {
                return;
            }
            debug_assert!(at >= self.now, "time ran backwards");
            self.now = at;
            self.events += 1;
            if self.shared.earliest() == at {
                let (group, place) = self.shared.first();
                let source = agenda::WIDTH * group + place;
                if source < self.first_lane {
                    self.on_departure(source)
                } else {
                    self.on_lane(source - self.first_lane)
                }
                continue;
            }
            let (index, place) = self.agenda.first();
            if index == self.control {
                self.on_control();
                continue;
            }
            match place {
                FORWARD => self.on_arrival(index),
                BACK => self.on_ack(index),
                SENDER => self.on_sender(index),
                _ => self.on_receiver(index),
            }
        }
    }

    /// The place in the agenda of one of a flow's sources.
    const fn source(&self, flow: usize, part: usize) -> usize {
        FLOW_SOURCES * flow + part
    }

    /// A link's serialiser has finished a packet.
    fn on_departure(&mut self, index: usize) {
        let link = &mut self.links[index];
        let departure = link.depart(self.now);
        let (next, drops) = (link.next_departure(), link.has_dropped());
        self.shared.set(index, next);
        if let Some(mut departure) = departure {
            let segment = &mut departure.packet;
            if index == self.bottleneck
                && let Some(capture) = &mut self.capture
            {
                capture.on_segment(self.now, segment, Tap::BottleneckOut);
            }
            if index == self.bottleneck && self.measuring {
                self.queue_delay.add(departure.queue_delay.as_nanos());
            }
            if segment.hop == ACCESS_HOP {
                self.release_host(segment.flow as usize, segment.wire_bytes());
            }
            if !departure.lost {
                self.forward(departure.at, segment);
            }
        }
        if drops {
            self.note_drops(index);
        }
    }

    /// Drops that a queue decided on later than at the packet's arrival.
    #[cold]
    fn note_drops(&mut self, link: usize) {
        self.links[link].take_dropped(&mut self.dropped);
        while let Some(flow) = self.dropped.pop() {
            if link == self.bottleneck {
                self.flows[flow as usize].stats.bottleneck.1 += 1;
            }
        }
    }

    /// Sends a packet that left a link on to the next one, or to its receiver.
    #[inline]
    fn forward(&mut self, at: Time, segment: &mut Segment) {
        let index = segment.flow as usize;
        let flow = &mut self.flows[index];
        segment.hop = if segment.hop == ACCESS_HOP { flow.route.0 } else { segment.hop + 1 };
        if segment.hop < flow.route.1 {
            self.offer(*segment);
            return;
        }
        if let Some(lane) = flow.lane {
            let line = &mut self.lanes[lane].forward;
            let is_next = line.is_empty(); // on a lane nothing overtakes
            line.push(at, *segment);
            if is_next {
                self.shared.set(self.first_lane + 2 * lane, line.next());
            }
            return;
        }
        flow.forward.push(at, *segment);
        let next = flow.forward.next();
        self.agenda.set(self.source(index, FORWARD), next);
    }

    /// Offers a packet to the link that it meets next.
    #[inline(never)] // most packets meet one link, and come in bursts
    fn offer(&mut self, segment: Segment) {
        let flow = &mut self.flows[segment.flow as usize];
        let index = match segment.hop {
            ACCESS_HOP => flow.access.unwrap_or(0),
            hop => usize::from(hop),
        };
        let link = &mut self.links[index];
        let due = link.next_departure();
        let verdict = link.offer(self.now, segment);
        if index == self.bottleneck {
            if let Some(capture) = &mut self.capture {
                capture.on_segment(self.now, &segment, Tap::BottleneckIn);
            }
            let counts = &mut flow.stats.bottleneck;
            counts.0 += 1;
            counts.1 += u64::from(verdict != Verdict::Queued);
        }
        let (next, drops) = (link.next_departure(), link.has_dropped());
        if next != due {
            self.shared.set(index, next);
        }
        if drops {
            self.note_drops(index);
        }
        if verdict != Verdict::Queued && segment.hop == ACCESS_HOP {
            self.release_host(segment.flow as usize, segment.wire_bytes());
        }
    }

    #[cold]
    fn release_host(&mut self, index: usize, wire_bytes: u32) {
        let from = self.out.len();
        self.flows[index].sender.on_host_dequeue(self.now, wire_bytes, &mut self.out);
        observe::sent(&mut self.observer, self.now, index, &self.flows[index].sender, &self.out[from..]);
        let next = self.emit(index, from);
        self.agenda.set(self.source(index, SENDER), next);
    }

    /// Offers what a sender has put into `out` from place `from` on. Returns when it wants to be called next.
    #[inline]
    fn emit(&mut self, index: usize, from: usize) -> Time {
        if self.out.len() > from {
            self.offer_all(index, from);
        }
        self.flows[index].sender.next_time()
    }

    // Drops in the host's own queue may call the sender again; what it emits then lies behind, and goes first.
    #[inline(never)]
    fn offer_all(&mut self, index: usize, from: usize) {
        if let Some(capture) = &mut self.capture {
            capture.on_sent(self.now, &self.out[from..]);
        }
        if self.capture.is_some() || self.out[from].hop == ACCESS_HOP {
            (from..self.out.len()).for_each(|place| self.offer(self.out[place]));
        } else {
            self.offer_burst(index, from);
        }
        self.out.truncate(from);
    }

    /// What [`Self::offer`] does, for all that a flow has just emitted: it meets the same link.
    #[inline]
    fn offer_burst(&mut self, index: usize, from: usize) {
        let hop = usize::from(self.out[from].hop);
        let link = &mut self.links[hop];
        let due = link.next_departure();
        let mut refused = 0;
        for segment in &self.out[from..] {
            refused += u64::from(link.offer(self.now, *segment) != Verdict::Queued);
        }
        let (next, drops) = (link.next_departure(), link.has_dropped());
        if hop == self.bottleneck {
            let counts = &mut self.flows[index].stats.bottleneck;
            counts.0 += (self.out.len() - from) as u64;
            counts.1 += refused;
        }
        if next != due {
            self.shared.set(hop, next);
        }
        if drops {
            self.note_drops(hop);
        }
    }

    /// The next segment or ACK on a lane arrives; lanes have their segments at even places.
    fn on_lane(&mut self, place: usize) {
        let lane = &mut self.lanes[place / 2];
        if place.is_multiple_of(2) {
            if let Some(&segment) = lane.forward.arrived(self.now) {
                lane.forward.drop_front();
                self.shared.set(self.first_lane + place, lane.forward.next());
                self.receive(&segment);
            }
            return;
        }
        let Some(&(index, _)) = lane.back.arrived(self.now) else {
            return;
        };
        // ACKs that a receiver wrote at once are taken together.
        while let Some(&(flow, ack)) = self.lanes[place / 2].back.arrived(self.now)
            && flow == index
        {
            self.lanes[place / 2].back.drop_front();
            self.take_ack(index, &ack);
        }
        self.shared.set(self.first_lane + place, self.lanes[place / 2].back.next());
        let sender = self.emit(index, 0);
        self.agenda.set_by(self.source(index, SENDER), sender);
    }

    /// Segments arrive at the receiver of a flow that shares no lane.
    #[inline(never)]
    fn on_arrival(&mut self, index: usize) {
        while let Some((_, segment)) = self.flows[index].forward.pop(self.now) {
            self.receive(&segment);
        }
        let next = self.flows[index].forward.next();
        self.agenda.set(self.source(index, FORWARD), next);
    }

    /// A segment arrives at its receiver.
    #[inline(always)] // each segment does
    fn receive(&mut self, segment: &Segment) {
        let index = segment.flow as usize;
        let flow = &mut self.flows[index];
        let has_progressed = flow.on_segment(self.now, segment, &mut self.acks);
        let receiver = flow.receiver.next_time();
        if has_progressed {
            self.note_progress(index);
        }
        if let Some(capture) = &mut self.capture {
            capture.on_segment(self.now, segment, Tap::Receiver);
        }
        self.agenda.set_by(self.source(index, RECEIVER), receiver);
        if !self.acks.is_empty() {
            self.send_acks(index);
        }
    }

    /// A flow got all of its data, or of a response: it may have asked for the next one, or been the last that had to end.
    #[cold]
    fn note_progress(&mut self, index: usize) {
        let flow = &self.flows[index];
        let sender = flow.sender.next_time();
        if flow.stats.finished.is_some() && is_list(&self.setup.flows[index]) {
            self.lists -= 1;
            self.is_over = self.lists == 0;
        }
        self.agenda.set_by(self.source(index, SENDER), sender);
    }

    /// A source was called early: no event at all.
    #[cold]
    fn put_off(&mut self, index: usize, part: usize, due: Time) {
        self.events -= 1;
        self.agenda.set(self.source(index, part), due);
    }

    /// A receiver's moment in the agenda has come; its own may lie behind it.
    fn on_receiver(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let due = flow.receiver.next_time();
        if due > self.now {
            self.put_off(index, RECEIVER, due);
            return;
        }
        flow.receiver.on_timer(self.now, &mut self.acks);
        let receiver = flow.receiver.next_time();
        self.agenda.set(self.source(index, RECEIVER), receiver);
        self.send_acks(index);
    }

    /// Sends what a receiver has just written, unless it is lost.
    fn send_acks(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let mut lane = flow.lane.map(|lane| (lane, &mut self.lanes[lane].back));
        let is_next = lane.as_ref().is_none_or(|(_, line)| line.is_empty()); // on a lane nothing overtakes
        for ack in &self.acks {
            let lost = !self.ack_loss.is_none() && self.ack_loss.lose();
            if let Some(capture) = &mut self.capture {
                capture.on_ack_sent(self.now, index, ack, lost);
            }
            if lost {
                continue;
            }
            match &mut lane {
                Some((_, line)) => line.push(self.now, (index, *ack)),
                None => flow.back.push(self.now, *ack),
            }
        }
        self.acks.clear();
        if !is_next {
            return;
        }
        match lane {
            Some((lane, line)) => self.shared.set(self.first_lane + 2 * lane + 1, line.next()),
            None => {
                let next = flow.back.next();
                self.agenda.set(self.source(index, BACK), next);
            }
        }
    }

    /// ACKs arrive at the sender of a flow that shares no lane.
    fn on_ack(&mut self, index: usize) {
        while let Some(ack) = self.flows[index].back.pop(self.now) {
            self.take_ack(index, &ack);
        }
        let back = self.flows[index].back.next();
        let sender = self.emit(index, 0);
        self.agenda.set(self.source(index, BACK), back);
        self.agenda.set_by(self.source(index, SENDER), sender);
    }

    /// An ACK arrives at its sender.
    fn take_ack(&mut self, index: usize, ack: &AckPacket) {
        // What is due at this very moment leaves first: a host needs some time for an ACK.
        if self.flows[index].sender.next_time() <= self.now {
            self.on_sender(index);
        }
        if let Some(capture) = &mut self.capture {
            capture.on_ack_arrived(self.now, index, ack);
        }
        let flow = &mut self.flows[index];
        let before = self.out.len();
        if ack.syn {
            let setup = &self.setup.flows[index];
            if let Some(rtt) = flow.sender.on_syn_ack(self.now, setup, ack.ts_echo, &mut self.out) {
                flow.receiver.on_handshake(self.now, rtt);
                flow.note_state(self.now);
            }
        } else {
            let rtt = flow.sender.on_ack(self.now, ack, &mut self.out);
            flow.after_ack(self.now, rtt, self.measuring);
            self.recorder.on_ack(self.now, index, rtt);
        }
        observe::sent(&mut self.observer, self.now, index, &flow.sender, &self.out[before..]);
        if self.director.is_some() {
            self.direct(index, self.out.len() - before, true);
        }
    }

    /// A sender's timer, pacer or application is due, if its moment does not lie behind that in the agenda.
    fn on_sender(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        if flow.started {
            let due = flow.sender.next_time();
            if due > self.now {
                self.put_off(index, SENDER, due);
                return;
            }
            flow.sender.on_time(self.now, &mut self.out);
            flow.note_state(self.now);
        } else {
            flow.begin(self.now);
            flow.sender.start(self.now, &mut self.out);
        }
        observe::sent(&mut self.observer, self.now, index, &flow.sender, &self.out);
        if self.director.is_some() {
            self.direct(index, self.out.len(), false);
        }
        let next = self.emit(index, 0);
        self.agenda.set(self.source(index, SENDER), next);
    }
}

/// Whether the flow carries a list of objects, with the last of which a run ends.
const fn is_list(flow: &FlowSetup) -> bool {
    matches!(flow.traffic, Traffic::Objects(_))
}

/// A seed of its own for each part of the world.
fn seed(seed: u64, part: usize) -> u64 {
    Rng::derive(seed, part as u64).next_u64()
}

#[cfg(test)]
mod tests;
