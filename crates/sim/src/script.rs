//! A script: changes of path and application at moments that the flow itself decides, by the states that it enters. Every
//! world in virtual time can play one.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, State, Time};

use crate::path::PathAction;
use crate::setup::{ChangeKind, Traffic};

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
    pub fn sets_flows_apart(&self) -> bool {
        use PathAction::{Change, Detour, HoldAcks};
        let apart = |what: &Action| matches!(what, Action::Path(HoldAcks(_) | Detour(_) | Change(ChangeKind::Rtt(_))));
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
    /// The path changes.
    Path(PathAction),
    /// The application writes otherwise.
    Traffic(Traffic),
    /// The run is over.
    End,
}

/// A script at work.
#[derive(Debug)]
pub struct Director {
    script: Script,
    /// How many entries of the flow's list of states have been seen.
    seen: usize,
    /// Due changes, in no order: there are few.
    pending: Vec<(Time, Action)>,
}

impl Director {
    /// Before anything has happened.
    pub fn new(script: &Script) -> Self {
        Self { script: script.clone(), seen: 0, pending: Vec::new() }
    }

    /// When something is due next.
    pub fn next(&self) -> Time {
        self.pending.iter().map(|(at, _)| *at).min().unwrap_or(Time::NEVER)
    }

    /// The flow's model is to be recorded.
    pub const fn records(&self) -> bool {
        self.script.record
    }

    /// The flow has entered a state that has not been followed yet.
    pub const fn is_behind(&self, states: &[(Time, State)]) -> bool {
        self.seen < states.len()
    }

    /// The flow's states up to now; true if that made something due.
    pub fn follow(&mut self, states: &[(Time, State)]) -> bool {
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
    pub fn take(&mut self, now: Time) -> Vec<Action> {
        let mut due: Vec<(Time, Action)> = self.pending.iter().filter(|(at, _)| *at <= now).cloned().collect();
        self.pending.retain(|(at, _)| *at > now);
        due.sort_by_key(|(at, _)| *at);
        due.into_iter().map(|(_, action)| action).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(entered: Entered, out_of: Option<Entered>, after: Span, what: Action) -> Cue {
        Cue { entered, out_of, nth: 1, after, what }
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
}
