//! The states in which an algorithm can be, by the draft's and Linux's names.
//! In: nothing. Out: names for traces and ribbons. Never: behaviour.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// What an algorithm is doing, for traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// BBR: doubling every round trip until the pipe is full.
    Startup,
    /// BBR: emptying the queue that Startup made.
    Drain,
    /// BBRv2 and later: filling the pipe before probing.
    ProbeBwRefill,
    /// BBR: probing for more bandwidth (gain above 1).
    ProbeBwUp,
    /// BBR: draining what probing queued (gain below 1).
    ProbeBwDown,
    /// BBR: sending at the estimate (gain 1).
    ProbeBwCruise,
    /// BBR: looking for the path's own delay.
    ProbeRtt,
    /// Loss-based: slow start.
    SlowStart,
    /// Loss-based: congestion avoidance.
    CongestionAvoidance,
    /// Loss-based: fast recovery or window reduction.
    Recovery,
    /// Loss-based: after a retransmission time-out.
    Loss,
}

impl State {
    /// Every state, in the order in which a flow meets them.
    pub const ALL: &'static [Self] = &[
        Self::Startup,
        Self::Drain,
        Self::ProbeBwRefill,
        Self::ProbeBwUp,
        Self::ProbeBwDown,
        Self::ProbeBwCruise,
        Self::ProbeRtt,
        Self::SlowStart,
        Self::CongestionAvoidance,
        Self::Recovery,
        Self::Loss,
    ];

    /// The state's name in results and traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::ProbeBwRefill => "probe_bw_refill",
            Self::ProbeBwUp => "probe_bw_up",
            Self::ProbeBwDown => "probe_bw_down",
            Self::ProbeBwCruise => "probe_bw_cruise",
            Self::ProbeRtt => "probe_rtt",
            Self::SlowStart => "slow_start",
            Self::CongestionAvoidance => "congestion_avoidance",
            Self::Recovery => "recovery",
            Self::Loss => "loss",
        }
    }
}
