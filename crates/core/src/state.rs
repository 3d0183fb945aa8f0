//! States of the algorithms, under the draft's and Linux's names, and the causes of transitions.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// State of an algorithm, for traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum State {
    /// BBR: doubling every round trip until the pipe is full.
    Startup,
    /// BBR: emptying the queue that Startup built.
    Drain,
    /// BBRv2 and later: filling the pipe before probing.
    ProbeBwRefill,
    /// BBR: probing for more bandwidth (gain above 1).
    ProbeBwUp,
    /// BBR: draining what probing queued (gain below 1).
    ProbeBwDown,
    /// BBR: sending at the estimate (gain 1).
    ProbeBwCruise,
    /// BBR: measuring the path's own delay.
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
    /// Every state, in the order in which a flow enters them.
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

/// Cause of an algorithm's present state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The connection, or its path, is new.
    #[default]
    Begin,
    /// Bandwidth stopped growing.
    Plateau,
    /// Loss above the tolerated share.
    Loss,
    /// Congestion marks.
    Marks,
    /// The queue has drained.
    Drained,
    /// Drain reached its time limit.
    DrainedLongEnough,
    /// The time of the wait for the next probe is over.
    ProbeTimer,
    /// The rounds of the wait for the next probe are over: those of Reno's sawtooth.
    RenoCoexistence,
    /// A precautionary probe went well, so another follows.
    ProbeAgain,
    /// The pipe was refilled for a round.
    Refilled,
    /// The probe reached the volume that was too high the last time.
    Precaution,
    /// A phase of the gain cycle reached its length.
    PhaseOver,
    /// No RTT sample was as low for the length of the filter.
    MinRttExpired,
    /// ProbeRTT is over.
    ProbeRttDone,
    /// The losses were spurious.
    Undo,
    /// The RTT's trend indicates a queue.
    Queue,
    /// A recovery, or a reduction for marks, began.
    RecoveryBegan,
    /// A recovery or reduction ended.
    RecoveryOver,
    /// A retransmission time-out, or persistent congestion.
    Timeout,
    /// The slow-start threshold was reached.
    Threshold,
    /// The window was idle for longer than a time-out.
    Idle,
}

impl Cause {
    /// Name of the cause in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Plateau => "plateau",
            Self::Loss => "loss",
            Self::Marks => "marks",
            Self::Drained => "drained",
            Self::DrainedLongEnough => "drained_long_enough",
            Self::ProbeTimer => "probe_timer",
            Self::RenoCoexistence => "reno_coexistence",
            Self::ProbeAgain => "probe_again",
            Self::Refilled => "refilled",
            Self::Precaution => "precaution",
            Self::PhaseOver => "phase_over",
            Self::MinRttExpired => "min_rtt_expired",
            Self::ProbeRttDone => "probe_rtt_done",
            Self::Undo => "undo",
            Self::Queue => "queue",
            Self::RecoveryBegan => "recovery_began",
            Self::RecoveryOver => "recovery_over",
            Self::Timeout => "timeout",
            Self::Threshold => "threshold",
            Self::Idle => "idle",
        }
    }
}
