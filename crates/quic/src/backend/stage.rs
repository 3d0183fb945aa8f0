//! Common part of the stacks' drivers: the path with its datagrams, the lag probe, and the counters of the run.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};
use bbrlab_sim::apps::probe::Prober;
use bbrlab_sim::link::{LinkPacket, Verdict};
use bbrlab_sim::path::{ACCESS_HOP, Direction, FlowSharing, Path, PathObserver, SojournTime};
use bbrlab_sim::record::Output;
use bbrlab_sim::script::{Action, Script, ScriptRunner};
use bbrlab_sim::setup::Setup;
use bbrlab_sim::tcp::Segment;

use super::store::{Datagram, End, Payload, Store};
use super::tally::{Flow, Tally};
use super::tcp::{TcpEndpoints, ends};
use super::{ETHERNET, IP_UDP};

/// Number of progress reports per run.
const PROGRESS_REPORTS: u64 = 100;

/// A datagram that has arrived.
#[derive(Debug)]
pub struct Arrival<P> {
    /// End that sent it.
    pub from: End,
    pub flow: usize,
    pub payload: P,
    /// True if it is CE-marked.
    pub ce: bool,
}

/// The path, its datagrams, and the counters.
#[derive(Debug)]
pub struct Stage<P> {
    pub setup: Setup,
    pub(super) path: Path<Datagram, Datagram>,
    pub(super) store: Store<Payload<P>>,
    /// Endpoints of flows of the TCP model.
    pub(super) tcp: TcpEndpoints,
    pub tally: Tally,
    prober: Option<Box<Prober>>,
    pub now: Time,
    director: Option<Box<ScriptRunner>>,
    /// True if the first flow's application has changed and its driver has not been notified.
    has_news: bool,
    progress: Span,
    next_progress: Time,
}

impl<P: Clone> Stage<P> {
    pub fn new(setup: &Setup, script: Option<&Script>) -> Self {
        let apart = script.is_some_and(Script::sets_flows_apart);
        let path: Path<Datagram, Datagram> =
            Path::new(setup, FlowSharing { unknown_flows: setup.probe.is_some(), per_flow_delay: apart });
        let mut tally = Tally::new(setup, script.is_some_and(|script| script.record));
        for (index, flow) in tally.flows.iter_mut().enumerate() {
            flow.tcp = ends(setup, index, path.reverse.delay_of(index));
        }
        // Without a warm-up, what arrives at the very beginning counts too.
        if setup.warmup == Time::ZERO {
            tally.begin(Time::ZERO, &path);
        }
        let progress = Span::nanos(setup.duration.as_nanos() / PROGRESS_REPORTS + 1);
        let mut stage = Self {
            setup: setup.clone(),
            path,
            store: Store::new(),
            tcp: TcpEndpoints::new(setup),
            tally,
            prober: Prober::new(setup),
            now: Time::ZERO,
            director: script.map(|script| Box::new(ScriptRunner::new(script))),
            has_news: false,
            progress,
            next_progress: Time::ZERO + progress,
        };
        stage.note_delays();
        stage
    }

    /// Time of the next event on the path or of the next count.
    pub fn next(&self) -> Time {
        self.path.forward.next().min(self.path.reverse.next()).min(self.tcp.next()).min(self.next_control())
    }

    fn next_control(&self) -> Time {
        let warmup = if self.tally.is_measuring { Time::NEVER } else { self.setup.warmup };
        let cue = self.director.as_ref().map_or(Time::NEVER, |director| director.next());
        let probe = self.prober.as_ref().map_or(Time::NEVER, |prober| prober.next());
        let next = warmup.min(self.path.next_change()).min(cue).min(probe);
        next.min(self.tally.next_sample).min(self.next_progress)
    }

    /// True for runs with a script. Applications then write no more than is sent soon, so that a change of traffic takes effect
    /// immediately.
    pub const fn has_script(&self) -> bool {
        self.director.is_some()
    }

    /// True at the end of the run, which a script may bring forward.
    pub fn is_over(&self) -> bool {
        self.now >= self.setup.duration
    }

    /// Processes calls to the first flow's controller: records its rows, and advances the script by its states. Returns true if
    /// its application may have data to write now, after an ACK or a change by the script.
    pub fn follow(&mut self) -> bool {
        let Some(director) = self.director.as_mut().filter(|_| self.tally.flows[0].has_begun()) else { return false };
        let has_heard = self.tally.take_heard(&self.path);
        director.follow(&self.tally.flows[0].sender.lock().states);
        std::mem::take(&mut self.has_news) || has_heard
    }

    /// Performs the script's actions that are due.
    fn act(&mut self, at: Time) {
        let due = self.director.as_mut().map_or_else(Vec::new, |director| director.take(at));
        for action in due {
            match action {
                Action::Path(what) => {
                    self.path.act(at, self.setup.bottleneck, what);
                    self.note_delays();
                }
                Action::Traffic(traffic) => {
                    self.tally.flows[0].change_traffic(at, traffic);
                    self.has_news = true;
                }
                Action::End => self.setup.duration = at,
            }
        }
    }

    fn note_delays(&mut self) {
        for (index, flow) in self.tally.flows.iter_mut().enumerate() {
            flow.set_ack_delay(self.path.reverse.delay_of(index));
        }
    }

    /// Returns the stack's next datagram that arrives by `now`, after completing all earlier events, including those of TCP
    /// flows. `progress` is called with the time at intervals.
    pub fn arrival(&mut self, now: Time, progress: &mut dyn FnMut(Time)) -> Option<Arrival<P>> {
        self.now = self.now.max(now);
        loop {
            let (forward, reverse) = (self.path.forward.next(), self.path.reverse.next());
            let at = forward.min(reverse).min(self.tcp.next()).min(self.next_control());
            if at > now {
                return None;
            }
            let found = if forward == at {
                self.turn(Direction::Forward)
            } else if reverse == at {
                self.turn(Direction::Reverse)
            } else {
                if self.tcp.next() == at {
                    self.on_tcp(at);
                } else {
                    self.control(at, progress);
                }
                continue;
            };
            self.store.release_dropped();
            self.release_hosts(at);
            let Some(datagram) = found else { continue };
            let (from, flow, ce) = (datagram.from, datagram.flow as usize, datagram.ce);
            match self.store.take(datagram.id) {
                Some(Payload::Quic(payload)) => {
                    if from == End::Sender {
                        self.tally.flows[flow].counts.received_wire += u64::from(datagram.wire);
                    }
                    return Some(Arrival { from, flow, payload, ce });
                }
                Some(Payload::Segment(segment)) => self.receive(at, flow, &segment, ce),
                Some(Payload::Ack(ack)) => self.take_acks(at, flow, &ack),
                Some(Payload::Probe(probe)) => self.on_probe(at, from, &probe),
                None => {}
            }
        }
    }

    fn control(&mut self, at: Time, progress: &mut dyn FnMut(Time)) {
        if !self.tally.is_measuring && self.setup.warmup <= at {
            self.tally.begin(at, &self.path);
        }
        if self.path.next_change() <= at {
            self.path.change(at);
            self.note_delays();
            if let Some(prober) = &mut self.prober {
                prober.follow(&self.setup, at);
            }
        }
        self.act(at);
        self.send_probe(at);
        if self.tally.next_sample <= at {
            self.tally.take_sample(at, &self.path);
        }
        if self.next_progress <= at {
            progress(at);
            self.next_progress = at + self.progress;
        }
    }

    /// Sends the probe that is due.
    fn send_probe(&mut self, now: Time) {
        let Some(prober) = self.prober.as_mut().filter(|prober| prober.next() <= now) else { return };
        let probe = prober.send(now);
        self.enter(now, End::Sender, probe.flow as usize, Payload::Probe(probe), probe.wire_bytes(), false, None);
    }

    /// Handles a probe at the receiver, which echoes it, or an echo at the sender.
    fn on_probe(&mut self, now: Time, from: End, probe: &Segment) {
        let Some(prober) = &mut self.prober else { return };
        match from {
            End::Receiver => prober.on_echo(now, probe),
            End::Sender if self.setup.up.is_some() => {
                let echo = Payload::Probe(*probe);
                self.enter(now, End::Receiver, probe.flow as usize, echo, probe.wire_bytes(), false, None);
            }
            End::Sender => prober.on_arrival(now, probe, self.path.reverse.delay_of(probe.flow as usize)),
        }
    }

    /// Direction in which packets from this end of a flow travel.
    fn direction(&self, from: End, flow: usize) -> Direction {
        let is_upload = self.setup.flows.get(flow).is_some_and(|flow| flow.is_upload);
        if (from == End::Sender) == is_upload { Direction::Reverse } else { Direction::Forward }
    }

    /// Sends a datagram of this size from an endpoint.
    pub fn send(&mut self, from: End, flow: usize, payload: P, bytes: usize, ect: bool) {
        let ect = ect && self.setup.flows[flow].host.ecn;
        let wire = bytes as u32 + IP_UDP + ETHERNET;
        // The value is irrelevant: it only marks the datagram as one that may be held, by time.
        self.enter(self.now, from, flow, Payload::Quic(payload), wire, ect, Some(1));
    }

    /// Puts a packet on the path. On the reverse path it may be held as an ACK of `held` bytes.
    #[expect(clippy::too_many_arguments, reason = "a packet and its moment")]
    pub(super) fn enter(
        &mut self,
        now: Time,
        from: End,
        flow: usize,
        cargo: Payload<P>,
        wire: u32,
        ect: bool,
        held: Option<u64>,
    ) {
        let direction = self.direction(from, flow);
        let ect_1 = ect && self.setup.flows[flow].host.l4s;
        let id = self.store.put(cargo);
        let datagram = Datagram { id, flow: flow as u32, from, wire, hop: 0, ect, ect_1, ce: false };
        let mut observer = TallyObserver {
            tally: &mut self.tally,
            store: &mut self.store,
            released: &mut self.tcp.released,
            direction,
        };
        match direction {
            Direction::Forward => self.path.forward.offer(now, datagram, None, &mut observer),
            Direction::Reverse => self.path.reverse.offer(now, datagram, held, &mut observer),
        }
        self.store.release_dropped();
    }

    fn turn(&mut self, direction: Direction) -> Option<Datagram> {
        let mut observer = TallyObserver {
            tally: &mut self.tally,
            store: &mut self.store,
            released: &mut self.tcp.released,
            direction,
        };
        let turned = match direction {
            Direction::Forward => self.path.forward.poll(&mut observer),
            Direction::Reverse => self.path.reverse.poll(&mut observer),
        };
        turned.map(|(_, datagram)| datagram)
    }

    /// Returns the figures of the run on the backend `on`.
    pub fn finish(self, on: &str) -> Output {
        self.tally.finish(&self.setup, on, &self.path, self.prober.as_ref().map(|prober| prober.log()))
    }
}

/// Path observer of one direction.
struct TallyObserver<'s, P> {
    tally: &'s mut Tally,
    store: &'s mut Store<Payload<P>>,
    released: &'s mut Vec<(u32, u32)>,
    direction: Direction,
}

impl<P> TallyObserver<'_, P> {
    /// Records that a packet has left its host's own queue, which TCP hosts require.
    fn on_released(&mut self, datagram: &Datagram) {
        if datagram.hop == ACCESS_HOP
            && self.tally.flows.get(datagram.flow as usize).is_some_and(|flow| flow.tcp.is_some())
        {
            self.released.push((datagram.flow, datagram.wire));
        }
    }
}

impl<P> PathObserver<Datagram> for TallyObserver<'_, P> {
    fn on_offered(&mut self, _now: Time, datagram: &Datagram, verdict: Verdict, is_bottleneck: bool) {
        let dropped = verdict != Verdict::Queued;
        if let Some(counts) = self.tally.counts_of(datagram) {
            counts.gone += u64::from(dropped);
            counts.arrivals += u64::from(is_bottleneck);
            counts.drops += u64::from(is_bottleneck && dropped);
        }
        if !is_bottleneck && dropped {
            self.on_released(datagram);
        }
    }

    fn on_dropped_later(&mut self, flow: u32, is_bottleneck: bool) {
        // Only the flow is known; what crosses the link in the other direction is its ACKs.
        let is_reverse = self.direction == Direction::Reverse;
        let flow = self.tally.flows.get_mut(flow as usize).filter(|flow| flow.is_upload == is_reverse);
        if let Some(Flow { counts, .. }) = flow {
            counts.gone += 1;
            counts.drops += u64::from(is_bottleneck);
        }
    }

    fn on_departed(
        &mut self,
        at: Time,
        datagram: &mut Datagram,
        stayed: SojournTime,
        _lost: bool,
        is_bottleneck: bool,
    ) {
        if !is_bottleneck {
            return self.on_released(datagram);
        }
        if self.tally.is_measuring {
            self.tally.queue_delay(self.direction).on_left(at, stayed.waited, stayed.service);
        }
    }

    fn on_lost(&mut self, datagram: &Datagram) {
        if let Some(counts) = self.tally.counts_of(datagram) {
            counts.gone += 1;
        }
        self.store.release(datagram.id);
    }

    fn on_duplicated(&mut self, datagram: &Datagram) {
        self.store.hold(datagram.id);
    }
}
