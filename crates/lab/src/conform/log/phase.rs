//! BBR's phases under the names that implementations give them. An ambiguous name is no phase.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::State;

/// A phase that a log can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// One of BBR's states.
    Known(State),
    /// ProbeBW without its sub-phase.
    ProbeBw,
}

impl Phase {
    /// Parses a name such as `ProbeBW_UP`, `probe_bw_up`, `BbrProbeBwCruise` or `ProbeBw(Up)`; `None` if it is not a
    /// phase of BBR.
    pub fn named(name: &str) -> Option<Self> {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
        let plain = plain.to_ascii_lowercase();
        let has = |part: &str| plain.contains(part);
        let state = if has("startup") {
            State::Startup
        } else if has("probertt") {
            State::ProbeRtt
        } else if has("drain") {
            State::Drain
        } else if has("refill") {
            State::ProbeBwRefill
        } else if has("cruise") {
            State::ProbeBwCruise
        } else if plain.ends_with("down") {
            State::ProbeBwDown
        } else if plain.ends_with("up") && has("probe") {
            State::ProbeBwUp
        } else if has("probebw") {
            return Some(Self::ProbeBw);
        } else {
            return None;
        };
        Some(Self::Known(state))
    }

    /// Returns the phase with these gains, as `ss` shows them for Linux's BBRs.
    pub fn of_gains(pacing: f64, cwnd: f64) -> Option<Self> {
        let near = |a: f64, b: f64| (a - b).abs() < 0.02;
        let state = if pacing > 2.0 {
            State::Startup
        } else if near(pacing, 0.35) || near(pacing, 0.5) {
            State::Drain
        } else if near(pacing, 1.25) {
            State::ProbeBwUp
        } else if near(pacing, 0.75) || near(pacing, 0.9) {
            State::ProbeBwDown
        } else if near(pacing, 1.0) && (near(cwnd, 1.0) || near(cwnd, 0.5)) {
            State::ProbeRtt
        } else if near(pacing, 1.0) {
            return Some(Self::ProbeBw);
        } else {
            return None;
        };
        Some(Self::Known(state))
    }

    /// Returns the state, if it is fully determined.
    pub const fn state(self) -> Option<State> {
        match self {
            Self::Known(state) => Some(state),
            Self::ProbeBw => None,
        }
    }

    /// Returns true for every part of ProbeBW.
    pub const fn is_probe_bw(self) -> bool {
        matches!(
            self,
            Self::ProbeBw
                | Self::Known(State::ProbeBwRefill | State::ProbeBwUp | State::ProbeBwDown | State::ProbeBwCruise)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_many_stacks_mean_the_same_phases() {
        for name in ["ProbeBW_UP", "probe_bw_up", "ProbeBw(Up)", "BBR_ST_PROBE_BW_UP", "PROBE_UP"] {
            assert_eq!(Phase::named(name), Some(Phase::Known(State::ProbeBwUp)), "{name}");
        }
        assert_eq!(Phase::named("bbr_startup"), Some(Phase::Known(State::Startup)));
        assert_eq!(Phase::named("PROBE_RTT"), Some(Phase::Known(State::ProbeRtt)));
        assert_eq!(Phase::named("ProbeBw"), Some(Phase::ProbeBw));
        assert_eq!(Phase::named("slow_start"), None);
        assert_eq!(Phase::named("congestion_avoidance"), None);
    }

    #[test]
    fn gains_tell_the_phase_where_they_can() {
        assert_eq!(Phase::of_gains(2.88672, 2.88672), Some(Phase::Known(State::Startup)));
        assert_eq!(Phase::of_gains(1.0, 2.0), Some(Phase::ProbeBw));
        assert_eq!(Phase::of_gains(1.0, 1.0), Some(Phase::Known(State::ProbeRtt)));
        assert_eq!(Phase::of_gains(0.0, 0.0), None);
    }
}
