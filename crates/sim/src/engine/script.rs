//! Control of a run: the schedule, and a script: changes of path and application at moments that the flow itself decides, by the
//! states that it enters.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, State, Time};

use super::World;
use crate::link::AckAggregation;
use crate::setup::{Change, ChangeKind, Traffic};

/// What a conformance case does besides its setup. It is about the first flow and the bottleneck.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The changes.
    pub cues: Vec<Cue>,
    /// The flow's model is recorded at each ACK, and with it all series.
    pub record: bool,
}

impl Script {
    /// Whether a flow needs a delay of its own for it.
    pub(super) fn sets_flows_apart(&self) -> bool {
        let apart =
            |what: &Action| matches!(what, Action::HoldAcks(_) | Action::Detour(_) | Action::Path(ChangeKind::Rtt(_)));
        self.cues.iter().any(|cue| apart(&cue.what))
    }
}

/// One change and its moment.
#[derive(Clone, Debug)]
pub struct Cue {
    /// The state that the flow enters …
    pub entered: Entered,
    /// … out of this, if it matters …
    pub out_of: Option<Entered>,
    /// … for this time, counted from 1 …
    pub nth: u32,
    /// … and so long ago.
    pub after: Span,
    /// What happens.
    pub what: Action,
}

/// What a cue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// One state.
    State(State),
    /// Any part of ProbeBW, out of what is none.
    ProbeBw,
}

impl Cue {
    /// Whether the last of these states is an entry that counts.
    fn is_met(&self, states: &[(Time, State)]) -> bool {
        let [before @ .., (_, state)] = states else {
            return false;
        };
        let before = before.last().map(|(_, state)| *state);
        let is_entered = match self.entered {
            Entered::State(wanted) => *state == wanted,
            Entered::ProbeBw => is_probe_bw(*state) && !before.is_some_and(is_probe_bw),
        };
        let left = |which: Entered| match which {
            Entered::State(wanted) => before == Some(wanted),
            Entered::ProbeBw => before.is_some_and(is_probe_bw),
        };
        is_entered && self.out_of.is_none_or(left)
    }
}

const fn is_probe_bw(state: State) -> bool {
    matches!(state, State::ProbeBwDown | State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeBwUp)
}

/// What a cue does.
#[derive(Clone, Debug)]
pub enum Action {
    /// A change of the path, as a schedule knows it.
    Path(ChangeKind),
    /// The bottleneck loses each packet whose number this divides; 0 ends that.
    LoseEvery(u32),
    /// The application writes otherwise.
    Traffic(Traffic),
    /// ACKs are held from now on.
    HoldAcks(AckAggregation),
    /// Data takes a way that is longer by this; what is sent after its end overtakes.
    Detour(Span),
    /// The run is over.
    End,
}

/// A script at work.
#[derive(Debug)]
pub(super) struct Director {
    script: Script,
    /// How many entries of the flow's list of states have been seen.
    seen: usize,
    /// Due changes, in no order: there are few.
    pending: Vec<(Time, Action)>,
}

impl Director {
    pub(super) fn new(script: &Script) -> Self {
        Self { script: script.clone(), seen: 0, pending: Vec::new() }
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Time {
        self.pending.iter().map(|(at, _)| *at).min().unwrap_or(Time::NEVER)
    }

    /// The flow's states up to now; true if that made something due.
    fn follow(&mut self, states: &[(Time, State)]) -> bool {
        let before = self.pending.len();
        while let Some(&(at, _)) = states.get(self.seen) {
            self.seen += 1;
            let nth = |cue: &Cue| (1..=self.seen).filter(|entries| cue.is_met(&states[..*entries])).count();
            let now = self.script.cues.iter().filter(|cue| cue.is_met(&states[..self.seen]));
            let met = now.filter(|cue| cue.nth as usize == nth(cue));
            self.pending.extend(met.map(|cue| (at + cue.after, cue.what.clone())));
        }
        self.pending.len() > before
    }

    /// What is due by `now`, first things first.
    fn take(&mut self, now: Time) -> Vec<Action> {
        let mut due: Vec<(Time, Action)> = self.pending.iter().filter(|(at, _)| *at <= now).cloned().collect();
        self.pending.retain(|(at, _)| *at > now);
        due.sort_by_key(|(at, _)| *at);
        due.into_iter().map(|(_, action)| action).collect()
    }
}

impl World<'_> {
    /// The end of warm-up, a change of the path, a sample of the series.
    pub(super) fn on_control(&mut self) {
        if !self.measuring && self.now >= self.setup.warmup {
            self.measuring = true;
            self.queue_delay.begin(self.now);
            for flow in &mut self.flows {
                flow.set_mark();
            }
            let link = self.path.there.bottleneck();
            self.mark = super::LinkMark { stats: *link.stats(), capacity: link.capacity_bytes_until(self.now) };
        }
        if self.path.next_change() <= self.now {
            self.path.change(self.now);
            self.note_delays();
        }
        if self.director.is_some() {
            self.act();
        }
        if self.recorder.next() <= self.now {
            self.recorder.sample(self.now, &self.flows, self.path.there.links());
        }
        self.plan_control();
    }

    pub(super) fn plan_control(&mut self) {
        let warmup = if self.measuring { Time::NEVER } else { self.setup.warmup };
        let change = self.path.next_change();
        let cue = self.director.as_ref().map_or(Time::NEVER, |director| director.next());
        self.agenda.set(super::FLOW_SOURCES * self.control, warmup.min(change).min(cue).min(self.recorder.next()));
    }

    fn apply(&mut self, change: Change) {
        self.path.apply(self.now, change);
        self.note_delays();
    }

    /// The first flow has heard an ACK or acted; `emitted` of its segments have not left yet.
    #[cold]
    pub(super) fn direct(&mut self, index: usize, emitted: usize, is_ack: bool) {
        if index != 0 {
            return;
        }
        let Some(director) = &mut self.director else {
            return;
        };
        let flow = &self.flows[0];
        let entered = director.seen < flow.stats.states.len();
        let idle_restart = !is_ack && emitted > 0 && flow.sender.in_flight() as usize == emitted;
        if director.script.record && (is_ack || entered || idle_restart) {
            self.recorder.sample_inside(self.now, &self.flows, self.path.there.links(), emitted);
        }
        if director.follow(&flow.stats.states) {
            self.plan_control();
        }
    }

    /// Does what the script asks for now.
    pub(super) fn act(&mut self) {
        let due = self.director.as_mut().map_or_else(Vec::new, |director| director.take(self.now));
        for action in due {
            match action {
                Action::Path(what) => self.apply(Change { at: self.now, link: self.setup.bottleneck, what }),
                Action::LoseEvery(n) => self.path.there.lose_every(n),
                Action::HoldAcks(mode) => self.path.back.hold_acks_of(0, mode),
                Action::Detour(longer) => self.path.there.set_detour_of(0, longer),
                Action::End => self.horizon = self.now,
                Action::Traffic(traffic) => {
                    self.flows[0].sender.change_traffic(self.now, traffic, &mut self.out);
                    self.direct(0, self.out.len(), false);
                    let next = self.emit(0, 0);
                    self.agenda.set(self.source(0, super::SENDER), next);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bbrlab_core::{AlgorithmConfig, Rate};

    use super::*;
    use crate::engine::run_scripted;
    use crate::link::Buffer;
    use crate::setup::{FlowSetup, Setup};

    fn setup() -> Setup {
        let flow = FlowSetup::bulk("bbr3", AlgorithmConfig::named("bbr3").unwrap());
        Setup::one_link(
            Rate::bits_per_sec(20_000_000),
            Span::millis(20),
            Buffer::Packets(400),
            Span::secs(5),
            vec![flow],
        )
    }

    fn at(entered: Entered, out_of: Option<Entered>, after: Span, what: Action) -> Cue {
        Cue { entered, out_of, nth: 1, after, what }
    }

    #[test]
    fn a_run_ends_when_its_script_says_so() {
        let cue = at(Entered::State(State::Drain), None, Span::millis(7), Action::End);
        let output = run_scripted(&setup(), &Script { cues: vec![cue], record: true });
        let states = &output.trace.flows[0].states;
        let drain = states.iter().find(|(_, state)| *state == State::Drain).unwrap().0;
        let last = *output.trace.t_ns.last().unwrap();
        assert!(last <= (drain + Span::millis(7)).as_nanos() && last > drain.as_nanos(), "{last} {drain:?}");
        assert_eq!(output.trace.flows[0].inside.len(), output.trace.t_ns.len());
    }

    #[test]
    fn a_state_is_met_out_of_another_and_probe_bw_is_one() {
        let states = |names: &[State]| names.iter().map(|state| (Time::ZERO, *state)).collect::<Vec<_>>();
        let flow = states(&[State::Startup, State::ProbeBwCruise, State::ProbeBwRefill, State::ProbeRtt]);
        let entry = at(Entered::ProbeBw, None, Span::ZERO, Action::End);
        assert!(entry.is_met(&flow[..2]) && !entry.is_met(&flow[..3]));
        let rtt = at(Entered::State(State::ProbeRtt), Some(Entered::ProbeBw), Span::ZERO, Action::End);
        assert!(rtt.is_met(&flow) && !rtt.is_met(&states(&[State::Startup, State::ProbeRtt])));
    }

    #[test]
    fn losses_and_silence_begin_when_their_state_does() {
        let up = |after: u64, what| at(Entered::State(State::ProbeBwUp), None, Span::millis(after), what);
        let silence = Action::Traffic(Traffic::Rate { rate: Rate::bits_per_sec(0), tick: Span::secs(100), unit: 1 });
        let cues = vec![up(0, Action::LoseEvery(10)), up(40, Action::LoseEvery(0)), up(60, silence)];
        let output = run_scripted(&setup(), &Script { cues, record: true });
        let flow = &output.trace.flows[0];
        let up = flow.states.iter().find(|(_, state)| *state == State::ProbeBwUp).unwrap().0;
        let place = output.trace.t_ns.partition_point(|t| *t < up.as_nanos());
        assert!(flow.lost[place] == 0 && *flow.lost.last().unwrap() > 0);
        assert!(
            *flow.inflight.last().unwrap() == 0
                && *output.trace.t_ns.last().unwrap() < (up + Span::millis(500)).as_nanos()
        );
    }
}
