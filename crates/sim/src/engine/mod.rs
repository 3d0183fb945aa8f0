//! The simulator: virtual time, the link model, and a model of Linux TCP at both ends.
//! The same setup produces the same bytes.
//!
//! Every source of events (the path, each flow's two ends) has one place in a timer tree, so a packet costs at most three events
//! regardless of the number in flight. For equal times the path comes before the flows, and those in their order.
//!
//! Where a packet's fate is known when it is offered, its departure is no event; on a constant path its arrival is none
//! either: the receiver is then ahead of the clock, and its counters are read as of a time (`Flow::received_by`).
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod capture;
mod control;
mod flow;
#[doc(hidden)]
pub mod observe;
mod observers;
mod record;
mod stepper;
mod summary;
mod up;
pub mod watch;

use bbrlab_core::{Span, Time};

use crate::apps::probe::Prober;
use crate::metrics::QueueDelay;
use crate::path::{FlowSharing, Path, PathObserver};
use crate::record::Output;
use crate::record::packets::Tap;
use crate::record::summary::LinkBaseline;
use crate::script::{Script, ScriptRunner};
use crate::setup::{FlowSetup, Setup, Traffic};
use crate::tcp::{AckPacket, Segment};
use crate::timer_tree::{TimerTree, WIDTH};
use capture::Capture;
pub use flow::Flow;
use observers::{QueueObserver, observer};
use record::Recorder;
pub use stepper::Stepper;
use up::Up;

/// Event sources per flow.
const FLOW_SOURCES: usize = 2;
/// Number of progress reports per run.
const PROGRESS_REPORTS: u64 = 100;
const SENDER: usize = 0;
const RECEIVER: usize = 1;

/// Runs a scenario to its end.
pub fn run(setup: &Setup) -> Output {
    let mut simulation = Simulation::new(setup, None);
    simulation.plan_ahead();
    simulation.run();
    simulation.finish()
}

/// Runs a scenario to its end and calls `progress` with the simulated time about a hundred times.
pub fn run_with(setup: &Setup, progress: &mut dyn FnMut(Time)) -> Output {
    let mut simulation = Simulation::new(setup, None);
    simulation.plan_ahead();
    simulation.report_progress(progress);
    simulation.run();
    simulation.finish()
}

/// Runs a scenario to its end. Also returns, for each flow, the completion times of its responses.
pub fn run_exchanges(setup: &Setup) -> (Output, Vec<Vec<Span>>) {
    let mut simulation = Simulation::new(setup, None);
    simulation.plan_ahead();
    simulation.run();
    let exchanges = simulation.flows.iter_mut().map(|flow| std::mem::take(&mut flow.stats.exchanges)).collect();
    (simulation.finish(), exchanges)
}

/// Runs a scenario to its end event by event, without planning ahead. The result is the same; for tests.
#[doc(hidden)]
pub fn run_by_events(setup: &Setup) -> Output {
    let mut simulation = Simulation::new(setup, None);
    simulation.run();
    simulation.finish()
}

/// Runs a scenario with a script, which may end it before the setup's duration.
pub fn run_scripted(setup: &Setup, script: &Script) -> Output {
    let mut simulation = Simulation::new(setup, Some(script));
    simulation.run();
    simulation.finish()
}

/// Runs a scenario to its end under an observer. For this project's own tests.
#[doc(hidden)]
pub fn run_observed(setup: &Setup, observer: &mut dyn observe::Observer) -> Output {
    let mut simulation = Simulation::new(setup, None);
    simulation.observer = Some(observer);
    simulation.run();
    simulation.observe_end();
    simulation.finish()
}

struct Simulation<'a> {
    setup: &'a Setup,
    now: Time,
    path: Path<Segment, AckPacket>,
    /// Deadlines: two places for each flow, then `control`.
    timers: TimerTree,
    flows: Vec<Flow>,
    recorder: Recorder,
    observer: Option<&'a mut dyn observe::Observer>,
    director: Option<Box<ScriptRunner>>,
    /// Time up to which events are handled; a script may reduce it.
    horizon: Time,
    capture: Option<Box<Capture>>,
    prober: Option<Box<Prober>>,
    /// Segments just emitted by a sender.
    out: Vec<Segment>,
    /// ACKs just written by a receiver.
    acks: Vec<AckPacket>,
    /// True if segments are delivered when they are offered, ahead of the clock.
    delivers_ahead: bool,
    /// The reverse direction's link, if it has one.
    up: Option<Box<Up>>,
    /// (flow, bytes) dequeued by access links since the last poll.
    released: Vec<(u32, u32)>,
    queue_delay: QueueDelay,
    measuring: bool,
    mark: LinkBaseline,
    events: u64,
    control: usize,
    /// Number of flows whose list of objects is not finished.
    lists: usize,
    /// True once the last of these lists is finished.
    is_over: bool,
}

impl<'a> Simulation<'a> {
    fn new(setup: &'a Setup, script: Option<&Script>) -> Self {
        let per_flow_delay = script.is_some_and(Script::sets_flows_apart);
        Self::shared(setup, script, FlowSharing { unknown_flows: false, per_flow_delay })
    }

    fn shared(setup: &'a Setup, script: Option<&Script>, users: FlowSharing) -> Self {
        assert!(
            setup.flows.iter().all(|flow| flow.peer.is_none()),
            "a stack's own congestion control runs in its stack"
        );
        let users = FlowSharing { unknown_flows: setup.probe.is_some(), ..users };
        let path: Path<Segment, AckPacket> = Path::new(setup, users);
        let flow = |index| Flow::new(setup, index, setup.up.is_none().then(|| path.reverse.delay_of(index)));
        let flows: Vec<Flow> = (0..setup.flows.len()).map(flow).collect();
        let control = flows.len();
        let mut simulation = Self {
            setup,
            now: Time::ZERO,
            path,
            timers: TimerTree::new(FLOW_SOURCES * control + 1),
            flows,
            recorder: Recorder::new(setup),
            observer: None,
            director: script.map(|script| Box::new(ScriptRunner::new(script))),
            horizon: Time::ZERO,
            capture: Capture::new(setup),
            prober: Prober::new(setup),
            out: Vec::new(),
            acks: Vec::new(),
            delivers_ahead: false,
            up: Up::new(setup),
            released: Vec::new(),
            queue_delay: QueueDelay::starting_at(setup.warmup),
            measuring: setup.warmup == Time::ZERO,
            mark: LinkBaseline::default(),
            events: 0,
            control,
            lists: setup.flows.iter().filter(|flow| is_list(flow)).count(),
            is_over: false,
        };
        for (index, flow) in setup.flows.iter().enumerate() {
            simulation.timers.set(simulation.source(index, SENDER), flow.start);
        }
        simulation.plan_control();
        simulation
    }

    /// Plans ahead what is known when a packet is offered. Packets are recorded in the order of events, so a capture forbids
    /// it; so does a run that may end early.
    fn plan_ahead(&mut self) {
        if self.up.is_none() && self.capture.is_none() && self.lists == 0 && self.path.plan_ahead() {
            let has_access = self.setup.flows.iter().any(|flow| flow.access.is_some());
            self.delivers_ahead = !has_access && self.path.forward.is_constant() && self.path.reverse.is_constant();
        }
    }

    /// Runs to the end.
    fn run(&mut self) {
        self.run_until(self.setup.duration);
        if !self.is_over {
            self.now = self.horizon;
        }
    }

    /// Runs almost to the end, in equal steps, and reports each.
    fn report_progress(&mut self, progress: &mut dyn FnMut(Time)) {
        let duration = self.setup.duration;
        let step = Span::nanos(duration.as_nanos() / PROGRESS_REPORTS);
        let mut until = Time::ZERO + step;
        while until < duration && step > Span::ZERO {
            self.run_until(until);
            progress(until);
            until += step;
        }
    }

    /// Handles every event up to and including `until`.
    fn run_until(&mut self, until: Time) {
        self.horizon = until;
        loop {
            let (forward, reverse) = (self.path.forward.next(), self.path.reverse.next());
            let at = forward.min(reverse).min(self.timers.earliest());
            if at > self.horizon || self.is_over {
                return;
            }
            debug_assert!(at >= self.now, "time ran backwards");
            self.now = at;
            self.events += 1;
            if forward == at {
                self.on_forward_path();
            } else if reverse == at {
                self.on_reverse_path();
            } else {
                let (group, place) = self.timers.first();
                let source = WIDTH * group + place;
                let index = source / FLOW_SOURCES;
                if index == self.control {
                    self.on_control();
                } else if source % FLOW_SOURCES == SENDER {
                    self.on_sender(index);
                } else {
                    self.on_receiver(index);
                }
            }
        }
    }

    /// Place in the timer tree of one of a flow's sources.
    const fn source(&self, flow: usize, part: usize) -> usize {
        FLOW_SOURCES * flow + part
    }

    /// Moves a packet on the forward path, or delivers it to its receiver.
    #[inline]
    fn on_forward_path(&mut self) {
        if let Some((_, segment)) = self.path.forward.poll(observer!(self)) {
            if segment.is_ack() {
                self.take_ack_from_link(&segment);
            } else {
                self.receive(&segment);
            }
        } else if !self.released.is_empty() {
            self.release_hosts();
        }
    }

    /// Delivers ACKs to their sender; those written together by a receiver are taken together.
    fn on_reverse_path(&mut self) {
        if self.up.is_some() {
            return self.on_up();
        }
        let Some((_, ack)) = self.path.reverse.poll(&mut ()) else { return };
        let flow = ack.flow;
        self.take_ack(flow as usize, &ack);
        while let Some(ack) = self.path.reverse.poll_flow(self.now, flow) {
            self.take_ack(flow as usize, &ack);
        }
        self.after_acks(flow);
    }

    /// Sends what ACKs have allowed.
    #[inline(always)] // runs for each ACK
    fn after_acks(&mut self, flow: u32) {
        let next = self.emit(flow as usize, 0);
        self.timers.set_by(self.source(flow as usize, SENDER), next);
    }

    /// Notifies hosts that their access links have dequeued packets.
    #[cold]
    fn release_hosts(&mut self) {
        while let Some((flow, wire_bytes)) = self.released.pop() {
            self.release_host(flow as usize, wire_bytes);
        }
    }

    #[cold]
    fn release_host(&mut self, index: usize, wire_bytes: u32) {
        let from = self.out.len();
        self.flows[index].sender.on_host_dequeue(self.now, wire_bytes, &mut self.out);
        observe::sent(&mut self.observer, self.now, index, &self.flows[index].sender, &self.out[from..]);
        let next = self.emit(index, from);
        self.timers.set(self.source(index, SENDER), next);
    }

    /// Offers the segments in `out` from place `from` on to the path. Returns the sender's next deadline.
    #[inline]
    fn emit(&mut self, index: usize, from: usize) -> Time {
        if self.out.len() > from {
            self.offer_all(index, from);
        }
        self.flows[index].sender.next_time()
    }

    // A drop in the host's own queue may call the sender again. Segments that it emits then are stored behind, and leave first.
    #[inline(never)]
    fn offer_all(&mut self, index: usize, from: usize) {
        if let Some(capture) = &mut self.capture {
            capture.on_sent(self.now, &self.out[from..]);
        }
        if self.delivers_ahead {
            self.deliver_ahead(index, from);
        } else if self.up.is_some() && self.setup.flows[index].is_upload {
            self.offer_up(index, from);
        } else if self.setup.flows[index].access.is_some() {
            for place in from..self.out.len() {
                self.path.forward.offer(self.now, self.out[place], None, observer!(self));
                if !self.released.is_empty() {
                    self.release_hosts();
                }
            }
        } else {
            self.path.forward.offer_burst(self.now, &self.out[from..], observer!(self));
        }
        self.out.truncate(from);
    }

    /// Offers the segments in `out` from place `from` on to a constant path, and delivers them to their receiver at the times at
    /// which they arrive.
    #[inline(always)] // runs for each burst
    fn deliver_ahead(&mut self, index: usize, from: usize) {
        let Self { setup, flows, path, out, acks, queue_delay, .. } = self;
        let flow = &mut flows[index];
        let mut observer = QueueObserver { queue_delay, measured: (setup.warmup, setup.duration) };
        let refused = path.forward.send_burst(self.now, &out[from..], &mut observer, |segment, at| {
            if at > setup.duration {
                return;
            }
            // A timer due at this moment is handled after the arrival.
            while flow.receiver.next_time() < at {
                let due = flow.receiver.next_time();
                flow.receiver.on_timer(due, acks);
                acks.drain(..).for_each(|ack| path.reverse.send(due, ack.of(index)));
            }
            if at > setup.warmup {
                flow.mark_receiver();
            }
            flow.on_segment(at, segment, acks);
            if setup.sample.is_some() {
                flow.note_received(at);
            }
            acks.drain(..).for_each(|ack| path.reverse.send(at, ack.of(index)));
        });
        let counts = &mut flow.stats.bottleneck;
        *counts = (counts.0 + (out.len() - from) as u64, counts.1 + refused);
        self.timers.set_by(FLOW_SOURCES * index + RECEIVER, flow.receiver.next_time());
    }

    /// Delivers a segment to its receiver.
    #[inline(always)] // runs for each segment
    fn receive(&mut self, segment: &Segment) {
        let index = segment.flow as usize;
        let Some(flow) = self.flows.get_mut(index) else { return self.receive_probe(segment) };
        let has_progressed = flow.on_segment(self.now, segment, &mut self.acks);
        let receiver = flow.receiver.next_time();
        if has_progressed {
            self.note_progress(index);
        }
        if let Some(capture) = &mut self.capture {
            capture.on_segment(self.now, segment, Tap::Receiver);
        }
        self.timers.set_by(self.source(index, RECEIVER), receiver);
        if !self.acks.is_empty() {
            self.send_acks(self.now, index);
        }
    }

    /// Handles a flow that received all of its data or a response. It may request the next response, or be the last flow to finish.
    #[cold]
    fn note_progress(&mut self, index: usize) {
        let flow = &self.flows[index];
        let sender = flow.sender.next_time();
        if flow.stats.finished.is_some() && is_list(&self.setup.flows[index]) {
            self.lists -= 1;
            self.is_over = self.lists == 0;
        }
        self.timers.set_by(self.source(index, SENDER), sender);
    }

    /// Defers a source that was called early, which is not counted as an event.
    #[cold]
    fn put_off(&mut self, index: usize, part: usize, due: Time) {
        self.events -= 1;
        self.timers.set(self.source(index, part), due);
    }

    /// Handles a receiver's deadline in the timer tree, which may be earlier than its real one.
    fn on_receiver(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let due = flow.receiver.next_time();
        if due > self.now {
            self.put_off(index, RECEIVER, due);
            return;
        }
        flow.receiver.on_timer(self.now, &mut self.acks);
        let receiver = flow.receiver.next_time();
        self.timers.set(self.source(index, RECEIVER), receiver);
        self.send_acks(self.now, index);
    }

    /// Sends the ACKs that a receiver wrote at `at`, unless they are lost.
    fn send_acks(&mut self, at: Time, index: usize) {
        if self.up.is_some() {
            return self.send_acks_over_links(at, index);
        }
        let (holds, mss) = (self.path.reverse.holds_acks(), u64::from(self.setup.flows[index].mss));
        for ack in &mut self.acks {
            let mut lost = false;
            *ack = ack.of(index);
            let held = if holds { ack.held_bytes(mss) } else { None };
            self.path.reverse.offer(at, *ack, held, &mut LossObserver(&mut lost));
            if let Some(capture) = &mut self.capture {
                capture.on_ack_sent(at, index, ack, lost);
            }
        }
        self.acks.clear();
    }

    /// Delivers an ACK to its sender.
    fn take_ack(&mut self, index: usize, ack: &AckPacket) {
        // Segments due at this moment leave first: a host needs some time to process an ACK.
        if self.flows[index].sender.next_time() <= self.now {
            self.on_sender(index);
        }
        if let Some(capture) = &mut self.capture {
            capture.on_ack_arrived(self.now, index, ack);
        }
        let flow = &mut self.flows[index];
        let before = self.out.len();
        let rtt = flow.on_ack(self.now, &self.setup.flows[index], ack, self.measuring, &mut self.out);
        self.recorder.on_ack(self.now, index, rtt);
        observe::sent(&mut self.observer, self.now, index, &flow.sender, &self.out[before..]);
        if self.director.is_some() {
            self.direct(index, self.out.len() - before, true);
        }
    }

    /// Handles a sender's timer, pacer or application, unless its deadline is later than that in the timer tree.
    fn on_sender(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        if flow.started {
            let due = flow.sender.next_time();
            if due > self.now {
                self.put_off(index, SENDER, due);
                return;
            }
            flow.on_time(self.now, &mut self.out);
        } else {
            flow.start(self.now, &mut self.out);
        }
        observe::sent(&mut self.observer, self.now, index, &flow.sender, &self.out);
        if self.director.is_some() {
            self.direct(index, self.out.len(), false);
        }
        let next = self.emit(index, 0);
        self.timers.set(self.source(index, SENDER), next);
        if self.up.is_some() {
            self.send_requests(index);
        }
    }

    /// Updates the delays of requests, which equal those of ACKs unless requests cross a link.
    fn note_delays(&mut self) {
        for (index, flow) in self.flows.iter_mut().enumerate() {
            flow.sender.app.request_delay = self.up.is_none().then(|| self.path.reverse.delay_of(index));
        }
    }
}

/// Path observer that records the loss of a packet.
struct LossObserver<'a>(&'a mut bool);

impl PathObserver<AckPacket> for LossObserver<'_> {
    #[inline]
    fn on_lost(&mut self, _ack: &AckPacket) {
        *self.0 = true;
    }
}

/// True if the flow carries a list of objects and the last one ends the run.
const fn is_list(flow: &FlowSetup) -> bool {
    matches!(flow.traffic, Traffic::Objects(_))
}

#[cfg(test)]
mod tests;
