//! Views of flows and links of a finished run, for expectations.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, State, Time};

use super::run::RunView;
use super::series;
use crate::{Error, Result};
use bbrlab_sim::record::result::FlowResult;

/// One flow of a run.
#[derive(Clone, Debug)]
pub struct FlowView {
    pub run: RunView,
    /// Index of the flow in the scenario.
    pub index: usize,
}

/// A group of flows of a run.
#[derive(Clone, Debug)]
pub struct GroupView {
    pub run: RunView,
    /// Indices of the flows.
    pub flows: Vec<usize>,
}

/// One link of a run.
#[derive(Clone, Debug)]
pub struct LinkView {
    pub run: RunView,
    /// Index of the link in the scenario.
    pub index: usize,
}

impl FlowView {
    /// Returns the flow's metrics.
    pub fn result(&self) -> Result<&FlowResult> {
        let flows = &self.run.output.result.flows;
        flows.get(self.index).ok_or_else(|| Error::NoFlow {
            run: self.run.name.to_string(),
            index: self.index as i64,
            count: flows.len(),
        })
    }

    /// Returns a column of the flow's time series.
    pub fn column(&self, name: &str) -> Result<Vec<f64>> {
        self.run.flow_column(self.index, name)
    }

    /// Time at which the sender first marked a segment lost; NaN if never.
    pub fn first_loss_s(&self) -> Result<f64> {
        Ok(series::first_above(&self.run.t_s, &self.column("lost")?, 1.0, 0.0))
    }

    /// Start times of the flow's visits to a state.
    pub fn state_starts(&self, state: &str) -> Result<Vec<f64>> {
        Ok(self.run.intervals(self.index, state)?.iter().map(|(start, _)| *start).collect())
    }

    /// Start time of visit `which` (from 0) to a state; NaN if there were fewer.
    pub fn state_start_s(&self, state: &str, which: usize) -> Result<f64> {
        Ok(self.state_starts(state)?.get(which).copied().unwrap_or(f64::NAN))
    }

    /// End time of visit `which` to a state; NaN if there were fewer.
    pub fn state_end_s(&self, state: &str, which: usize) -> Result<f64> {
        Ok(self.run.intervals(self.index, state)?.get(which).map_or(f64::NAN, |(_, end)| *end))
    }

    /// Name of the state before (or after) visit `which` to a state; empty if there is none.
    pub fn neighbour(&self, state: &str, which: usize, after: bool) -> Result<&'static str> {
        let begins = self.state_start_s(state, which)?;
        let states = &self.run.output.trace.flows[self.index].states;
        let Some(first) = states.iter().position(|(at, s)| seconds(*at) == begins && s.name().starts_with(state))
        else {
            return Ok("");
        };
        let stay = states[first..].iter().take_while(|(_, s)| s.name().starts_with(state)).count();
        let place = if after { Some(first + stay) } else { first.checked_sub(1) };
        Ok(place.and_then(|place| states.get(place)).map_or("", |(_, s)| s.name()))
    }

    /// Index of the visit to `state` that is the `which`-th (from 0) to follow `before`; one past the last if there is
    /// none.
    pub fn stay_after(&self, state: &str, before: &str, which: usize) -> Result<usize> {
        let stays = self.run.intervals(self.index, state)?.len();
        let mut met = 0;
        for stay in 0..stays {
            if self.neighbour(state, stay, false)?.starts_with(before) {
                met += 1;
                if met > which {
                    return Ok(stay);
                }
            }
        }
        Ok(stays)
    }

    /// Index of the visit to `state` that is the `which`-th (from 0) to precede `after`; one past the last if there is
    /// none.
    pub fn stay_before(&self, state: &str, after: &str, which: usize) -> Result<usize> {
        let stays = self.run.intervals(self.index, state)?.len();
        let mut met = 0;
        for stay in 0..stays {
            if self.neighbour(state, stay, true)?.starts_with(after) {
                met += 1;
                if met > which {
                    return Ok(stay);
                }
            }
        }
        Ok(stays)
    }

    /// Packet-timed rounds that the flow spent in a state within an interval; NaN if one of its ends is.
    pub fn rounds_in(&self, state: &str, from_s: f64, to_s: f64) -> Result<f64> {
        if from_s.is_nan() || to_s.is_nan() {
            return Ok(f64::NAN);
        }
        let rounds = self.column("round")?;
        let stays = self.run.intervals(self.index, state)?;
        let cut = stays.into_iter().map(|(start, end)| (start.max(from_s), end.min(to_s)));
        let last = |t: f64| rounds.get(self.run.t_s.partition_point(|at| *at <= t).saturating_sub(1)).copied();
        Ok(cut
            .filter(|(start, end)| start < end)
            .map(|(start, end)| last(end).unwrap_or(f64::NAN) - last(start).unwrap_or(f64::NAN))
            .sum())
    }

    /// Number of transitions that the draft's diagram does not have.
    pub fn stray_transitions(&self) -> f64 {
        let states = &self.run.output.trace.flows[self.index].states;
        states.windows(2).filter(|pair| !may_follow(pair[0].1, pair[1].1)).count() as f64
    }

    /// Start time of the last visit to a state; NaN if there was none.
    pub fn state_last_s(&self, state: &str) -> Result<f64> {
        Ok(self.state_starts(state)?.last().copied().unwrap_or(f64::NAN))
    }

    /// Time that the flow spent in a state within an interval.
    pub fn state_time_s(&self, state: &str, from_s: f64, to_s: f64) -> Result<f64> {
        let stays = self.run.intervals(self.index, state)?;
        Ok(stays.iter().map(|(start, end)| (end.min(to_s) - start.max(from_s)).max(0.0)).sum())
    }

    /// Number of times that the flow entered a state within an interval.
    pub fn state_count(&self, state: &str, from_s: f64, to_s: f64) -> Result<f64> {
        Ok(series::window(&self.state_starts(state)?, from_s, to_s).len() as f64)
    }

    /// Mean time between entries into a state within an interval.
    pub fn state_period_s(&self, state: &str, from_s: f64, to_s: f64) -> Result<f64> {
        Ok(series::mean_period(&self.state_starts(state)?, from_s, to_s))
    }
}

fn seconds(at: Time) -> f64 {
    at.as_nanos() as f64 / NANOS_PER_SEC as f64
}

/// Returns true if BBR may change from one state to the other.
// spec: draft-ietf-ccwg-bbr #state-transition-diagram, with ProbeRTT from any state; #probebw-algorithm-details;
// #handling-spurious-loss-recovery returns to Startup, or to REFILL
pub fn is_drawn(from: State, to: State) -> bool {
    use State::{Drain, ProbeBwCruise, ProbeBwDown, ProbeBwRefill, ProbeBwUp, ProbeRtt, Startup};
    match (from, to) {
        (ProbeRtt, Startup | ProbeBwDown | ProbeBwCruise) => true,
        // Leaving ProbeRTT takes two steps that count as one, and the next step may be merged as well.
        (ProbeRtt, ProbeBwRefill) => true,
        (_, ProbeRtt) => true,
        (Startup, Drain) | (Drain, ProbeBwDown) => true,
        (ProbeBwDown, ProbeBwCruise | ProbeBwRefill) | (ProbeBwCruise, ProbeBwRefill) => true,
        (ProbeBwRefill, ProbeBwUp) | (ProbeBwUp, ProbeBwDown) => true,
        // Undo of a spurious loss.
        (Drain | ProbeBwDown | ProbeBwCruise | ProbeBwRefill | ProbeBwUp, Startup) => true,
        _ => false,
    }
}

/// Returns true if a trace may show one state after the other: a state that ends with the ACK that begins it is never
/// recorded.
pub fn may_follow(from: State, to: State) -> bool {
    use State::{Drain, ProbeBwDown, Startup};
    let by = |middle: State| is_drawn(from, middle) && is_drawn(middle, to);
    is_drawn(from, to) || by(ProbeBwDown) || (from == Startup && (by(Drain) || is_drawn(ProbeBwDown, to)))
}

/// Largest distance from a flow's visit to ProbeRTT after `from_s` to the nearest visit of each other flow. Small if
/// the flows probe together.
pub fn probe_rtt_scatter_s(run: &RunView, flows: &[usize], from_s: f64, to_s: f64) -> Result<f64> {
    let mut starts: Vec<Vec<f64>> = Vec::new();
    for flow in flows {
        starts.push(FlowView { run: run.clone(), index: *flow }.state_starts("probe_rtt")?);
    }
    let mut worst = f64::NAN;
    for one in &starts {
        for start in &one[series::window(one, from_s, to_s)] {
            for other in &starts {
                let nearest = other.iter().map(|o| (o - start).abs()).reduce(f64::min).unwrap_or(f64::INFINITY);
                worst = nearest.max(worst);
            }
        }
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::testing;

    fn first() -> FlowView {
        FlowView { run: testing::two_flows(), index: 0 }
    }

    #[test]
    fn the_first_loss_is_when_the_counter_first_moves() {
        assert_eq!(first().first_loss_s().unwrap(), 2.0);
    }

    #[test]
    fn stays_in_a_state_are_found_by_number_and_from_the_end() {
        assert_eq!(first().state_start_s("probe_bw_up", 0).unwrap(), 1.0);
        assert_eq!(first().state_last_s("probe_bw_up").unwrap(), 2.75);
        assert!(first().state_start_s("probe_bw_up", 2).unwrap().is_nan());
    }

    #[test]
    fn a_visit_to_a_state_is_found_by_its_neighbours() {
        let flow = first();
        assert_eq!(flow.neighbour("probe_rtt", 0, false).unwrap(), flow.neighbour("probe_bw_up", 0, true).unwrap());
        assert_eq!(flow.neighbour("probe_rtt", 0, true).unwrap(), "probe_bw_up");
        assert_eq!(flow.stay_after("probe_bw_up", "probe_rtt", 0).unwrap(), 1);
        assert_eq!(flow.stay_before("probe_rtt", "probe_bw", 0).unwrap(), 0);
        assert_eq!(flow.stay_before("probe_rtt", "drain", 0).unwrap(), 1, "one past the last");
        assert_eq!(flow.neighbour("startup", 7, true).unwrap(), "");
    }

    #[test]
    fn the_drafts_diagram_has_probe_rtt_from_anywhere_and_no_way_back_from_up_to_cruise() {
        assert!(is_drawn(State::Drain, State::ProbeRtt) && is_drawn(State::ProbeRtt, State::ProbeBwCruise));
        assert!(
            is_drawn(State::ProbeBwDown, State::ProbeBwRefill) && !is_drawn(State::ProbeBwUp, State::ProbeBwCruise)
        );
        assert!(may_follow(State::Drain, State::ProbeBwCruise) && may_follow(State::Startup, State::ProbeBwRefill));
        assert!(!may_follow(State::ProbeBwUp, State::Drain) && !may_follow(State::Startup, State::ProbeBwUp));
        assert!(!is_drawn(State::Startup, State::ProbeBwUp) && !is_drawn(State::ProbeBwCruise, State::ProbeBwUp));
    }

    #[test]
    fn time_in_a_state_is_cut_to_the_window() {
        assert_eq!(first().state_time_s("probe_rtt", 0.0, 4.0).unwrap(), 0.25);
        assert_eq!(first().state_time_s("probe_bw", 2.0, 3.0).unwrap(), 0.75);
    }

    #[test]
    fn entries_are_counted_within_the_window_only() {
        assert_eq!(first().state_count("probe_bw_up", 0.0, 2.0).unwrap(), 1.0);
        assert_eq!(first().state_count("probe_bw_up", 0.0, 4.0).unwrap(), 2.0);
    }

    #[test]
    fn the_period_of_a_state_is_from_entry_to_entry() {
        assert_eq!(first().state_period_s("probe_bw_up", 0.0, 4.0).unwrap(), 1.75);
    }

    #[test]
    fn a_flow_that_never_probes_is_infinitely_far_from_one_that_does() {
        let run = testing::two_flows();
        assert_eq!(probe_rtt_scatter_s(&run, &[0], 0.0, 4.0).unwrap(), 0.0);
        assert_eq!(probe_rtt_scatter_s(&run, &[0, 1], 0.0, 4.0).unwrap(), f64::INFINITY);
        assert!(probe_rtt_scatter_s(&run, &[0], 3.0, 4.0).unwrap().is_nan());
    }

    #[test]
    fn a_flow_that_is_not_there_is_refused() {
        let none = FlowView { run: testing::two_flows(), index: 7 };
        assert!(none.result().unwrap_err().to_string().contains("no flow 7"));
        assert!(none.state_starts("drain").is_err());
    }
}
