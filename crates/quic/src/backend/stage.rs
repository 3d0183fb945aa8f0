//! Common part of both stacks' drivers: the path with its datagrams, and the counters of the run.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};
use bbrlab_sim::link::Verdict;
use bbrlab_sim::path::{ACCESS_HOP, FlowSharing, Path, PathObserver, SojournTime};
use bbrlab_sim::record::Output;
use bbrlab_sim::script::{Action, Script, ScriptRunner};
use bbrlab_sim::setup::Setup;

use super::store::{Datagram, Direction, Payload, Store};
use super::tally::Tally;
use super::tcp::{TcpEndpoints, ends};
use super::{ETHERNET, IP_UDP};

/// Number of progress reports per run.
const PROGRESS_REPORTS: u64 = 100;

/// A datagram that has arrived.
#[derive(Debug)]
pub struct Arrival<P> {
    pub direction: Direction,
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
            Path::new(setup, FlowSharing { unknown_flows: false, per_flow_delay: apart });
        let mut tally = Tally::new(setup, script.is_some_and(|script| script.record));
        for (index, flow) in tally.flows.iter_mut().enumerate() {
            flow.tcp = ends(setup, index, path.reverse.delay_of(index));
        }
        let progress = Span::nanos(setup.duration.as_nanos() / PROGRESS_REPORTS + 1);
        let mut stage = Self {
            setup: setup.clone(),
            path,
            store: Store::new(),
            tcp: TcpEndpoints::new(setup),
            tally,
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
        warmup.min(self.path.next_change()).min(self.tally.next_sample).min(self.next_progress).min(cue)
    }

    /// True for runs with a script. Applications then write no more than is sent soon, so that a change of traffic takes effect
    /// immediately.
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
        let has_heard = self.tally.take_heard(self.path.forward.links());
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
            let (direction, found) = if forward == at {
                (Direction::There, self.turn(Direction::There))
            } else if reverse == at {
                (Direction::Back, self.turn(Direction::Back))
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
            let (flow, ce) = (datagram.flow as usize, datagram.ce);
            match self.store.take(datagram.id) {
                Some(Payload::Quic(payload)) => {
                    if direction == Direction::There {
                        self.tally.flows[flow].counts.received_wire += u64::from(datagram.wire);
                    }
                    return Some(Arrival { direction, flow, payload, ce });
                }
                Some(Payload::Segment(segment)) => self.receive(at, flow, &segment, ce),
                Some(Payload::Ack(ack)) => self.take_acks(at, flow, &ack),
                None => {}
            }
        }
    }

    fn control(&mut self, at: Time, progress: &mut dyn FnMut(Time)) {
        if !self.tally.is_measuring && self.setup.warmup <= at {
            self.tally.begin(at, self.path.forward.bottleneck());
        }
        if self.path.next_change() <= at {
            self.path.change(at);
            self.note_delays();
        }
        self.act(at);
        if self.tally.next_sample <= at {
            self.tally.take_sample(at, self.path.forward.links());
        }
        if self.next_progress <= at {
            progress(at);
            self.next_progress = at + self.progress;
        }
    }

    /// Sends a datagram of this size from an endpoint.
    pub fn send(&mut self, direction: Direction, flow: usize, payload: P, bytes: usize, ect: bool) {
        let ect = ect && self.setup.flows[flow].host.ecn;
        let wire = bytes as u32 + IP_UDP + ETHERNET;
        // The value is irrelevant: it only marks the datagram as one that may be held, by time.
        self.enter(self.now, direction, flow, Payload::Quic(payload), wire, ect, Some(1));
    }

    /// Puts a packet on the path. On the reverse path it may be held as an ACK of `held` bytes.
    #[expect(clippy::too_many_arguments, reason = "a packet and its moment")]
    pub(super) fn enter(
        &mut self,
        now: Time,
        direction: Direction,
        flow: usize,
        cargo: Payload<P>,
        wire: u32,
        ect: bool,
        held: Option<u64>,
    ) {
        let ect_1 = ect && self.setup.flows[flow].host.l4s;
        let datagram = Datagram { id: self.store.put(cargo), flow: flow as u32, wire, hop: 0, ect, ect_1, ce: false };
        let mut observer = TallyObserver {
            tally: &mut self.tally,
            store: &mut self.store,
            released: &mut self.tcp.released,
            direction,
        };
        match direction {
            Direction::There => self.path.forward.offer(now, datagram, None, &mut observer),
            Direction::Back => self.path.reverse.offer(now, datagram, held, &mut observer),
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
            Direction::There => self.path.forward.poll(&mut observer),
            Direction::Back => self.path.reverse.poll(&mut observer),
        };
        turned.map(|(_, datagram)| datagram)
    }

    /// Returns the figures of the run on the backend `on`.
    pub fn finish(self, on: &str) -> Output {
        self.tally.finish(&self.setup, on, self.setup.duration, &self.path.forward)
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
        if datagram.hop == ACCESS_HOP && self.tally.flows[datagram.flow as usize].tcp.is_some() {
            self.released.push((datagram.flow, datagram.wire));
        }
    }
}

impl<P> PathObserver<Datagram> for TallyObserver<'_, P> {
    fn on_offered(&mut self, _now: Time, datagram: &Datagram, verdict: Verdict, is_bottleneck: bool) {
        let counts = &mut self.tally.flows[datagram.flow as usize].counts;
        let dropped = verdict != Verdict::Queued;
        counts.gone += u64::from(dropped);
        if is_bottleneck {
            counts.arrivals += 1;
            counts.drops += u64::from(dropped);
        } else if dropped {
            self.on_released(datagram);
        }
    }

    fn on_dropped_later(&mut self, flow: u32, is_bottleneck: bool) {
        let counts = &mut self.tally.flows[flow as usize].counts;
        counts.gone += 1;
        counts.drops += u64::from(is_bottleneck);
    }

    fn on_departed(
        &mut self,
        at: Time,
        datagram: &mut Datagram,
        stayed: SojournTime,
        _lost: bool,
        is_bottleneck: bool,
    ) {
        if is_bottleneck && self.tally.is_measuring {
            self.tally.queue_delay.on_left(at, stayed.waited, stayed.service);
        } else if !is_bottleneck {
            self.on_released(datagram);
        }
    }

    fn on_lost(&mut self, datagram: &Datagram) {
        self.tally.flows[datagram.flow as usize].counts.gone += u64::from(self.direction == Direction::There);
        self.store.release(datagram.id);
    }

    fn on_duplicated(&mut self, datagram: &Datagram) {
        self.store.hold(datagram.id);
    }
}
