//! Scripts: changes of path and application that are triggered by the states that a flow enters. Every virtual-time backend can run one.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, State, Time};

use crate::path::PathAction;
use crate::setup::{ChangeKind, Traffic};

/// Steps of a conformance case beyond its setup, which apply to the first flow and the bottleneck.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The changes.
    pub cues: Vec<Trigger>,
    /// Records the flow's model at each ACK, and all series with it.
    pub record: bool,
}

impl Script {
    /// True if the script requires a separate delay for one flow.
    pub fn sets_flows_apart(&self) -> bool {
        use PathAction::{Change, Detour, HoldAcks};
        let apart = |what: &Action| matches!(what, Action::Path(HoldAcks(_) | Detour(_) | Change(ChangeKind::Rtt(_))));
        self.cues.iter().any(|cue| apart(&cue.what))
    }
}

/// One change and the condition that triggers it.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// State that the flow enters.
    pub entered: StateMatch,
    /// State that it leaves, if that matters.
    pub out_of: Option<StateMatch>,
    /// Number of the entry into the state that triggers the change, counted from 1.
    pub nth: u32,
    /// Delay after that entry.
    pub after: Span,
    /// Action to perform.
    pub what: Action,
}

/// State for whose entry a cue waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateMatch {
    /// One state.
    State(State),
    /// Any phase of ProbeBW, entered from a state outside it.
    ProbeBw,
}

impl Trigger {
    /// True if the last of these states is an entry that counts.
    fn is_met(&self, states: &[(Time, State)]) -> bool {
        let [before @ .., (_, state)] = states else {
            return false;
        };
        let before = before.last().map(|(_, state)| *state);
        let is_entered = match self.entered {
            StateMatch::State(wanted) => *state == wanted,
            StateMatch::ProbeBw => is_probe_bw(*state) && !before.is_some_and(is_probe_bw),
        };
        let left = |which: StateMatch| match which {
            StateMatch::State(wanted) => before == Some(wanted),
            StateMatch::ProbeBw => before.is_some_and(is_probe_bw),
        };
        is_entered && self.out_of.is_none_or(left)
    }
}

const fn is_probe_bw(state: State) -> bool {
    matches!(state, State::ProbeBwDown | State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeBwUp)
}

/// Action performed by a cue.
#[derive(Clone, Debug)]
pub enum Action {
    /// The path changes.
    Path(PathAction),
    /// The application switches to other traffic.
    Traffic(Traffic),
    /// The run ends.
    End,
}

/// A running script.
#[derive(Debug)]
pub struct ScriptRunner {
    script: Script,
    /// Number of entries of the flow's list of states processed.
    seen: usize,
    /// Due changes, unsorted since there are few.
    pending: Vec<(Time, Action)>,
}

impl ScriptRunner {
    /// Starts a script.
    pub fn new(script: &Script) -> Self {
        Self { script: script.clone(), seen: 0, pending: Vec::new() }
    }

    /// Time of the next due change.
    pub fn next(&self) -> Time {
        self.pending.iter().map(|(at, _)| *at).min().unwrap_or(Time::NEVER)
    }

    /// True if the flow's model is to be recorded.
    pub const fn records(&self) -> bool {
        self.script.record
    }

    /// True if the flow has entered a state that has not been processed.
    pub const fn is_behind(&self, states: &[(Time, State)]) -> bool {
        self.seen < states.len()
    }

    /// Processes the flow's states so far. Returns true if this made a change due.
    pub fn follow(&mut self, states: &[(Time, State)]) -> bool {
        let before = self.pending.len();
        while let Some(&(at, _)) = states.get(self.seen) {
            self.seen += 1;
            let nth = |cue: &Trigger| (1..=self.seen).filter(|entries| cue.is_met(&states[..*entries])).count();
            let now = self.script.cues.iter().filter(|cue| cue.is_met(&states[..self.seen]));
            let met = now.filter(|cue| cue.nth as usize == nth(cue));
            self.pending.extend(met.map(|cue| (at + cue.after, cue.what.clone())));
        }
        self.pending.len() > before
    }

    /// Removes the changes due by `now`, earliest first.
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

    fn at(entered: StateMatch, out_of: Option<StateMatch>, after: Span, what: Action) -> Trigger {
        Trigger { entered, out_of, nth: 1, after, what }
    }

    #[test]
    fn a_state_is_met_out_of_another_and_probe_bw_is_one() {
        let states = |names: &[State]| names.iter().map(|state| (Time::ZERO, *state)).collect::<Vec<_>>();
        let flow = states(&[State::Startup, State::ProbeBwCruise, State::ProbeBwRefill, State::ProbeRtt]);
        let entry = at(StateMatch::ProbeBw, None, Span::ZERO, Action::End);
        assert!(entry.is_met(&flow[..2]) && !entry.is_met(&flow[..3]));
        let rtt = at(StateMatch::State(State::ProbeRtt), Some(StateMatch::ProbeBw), Span::ZERO, Action::End);
        assert!(rtt.is_met(&flow) && !rtt.is_met(&states(&[State::Startup, State::ProbeRtt])));
    }
}
