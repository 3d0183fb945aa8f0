//! The states in which an algorithm can be, by the draft's and Linux's names, and what moves it from one to the next.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// What an algorithm is doing, for traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
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

/// Why an algorithm is in the state that it is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The connection, or its path, is new.
    #[default]
    Begin,
    /// Bandwidth stopped growing.
    Plateau,
    /// More was lost than the path's share of loss.
    Loss,
    /// Congestion marks.
    Marks,
    /// The queue is gone.
    Drained,
    /// Draining took as long as it may.
    DrainedLongEnough,
    /// The wait for the next probe is over: the time of it.
    ProbeTimer,
    /// The wait for the next probe is over: as many rounds as Reno's sawtooth takes.
    RenoCoexistence,
    /// A cautious probe went well, so that another one follows.
    ProbeAgain,
    /// The pipe was refilled for a round.
    Refilled,
    /// The probe reached the volume that was too much the last time.
    Precaution,
    /// A phase of the gain cycle lasted as long as it should.
    PhaseOver,
    /// No RTT sample was as low for the length of the filter.
    MinRttExpired,
    /// ProbeRTT is over.
    ProbeRttDone,
    /// What was taken for a loss was none.
    Undo,
    /// The RTT's trend shows a queue.
    Queue,
    /// A recovery, or a reduction for marks, began.
    RecoveryBegan,
    /// It ended.
    RecoveryOver,
    /// A retransmission time-out, or persistent congestion.
    Timeout,
    /// The threshold of slow start was reached.
    Threshold,
    /// The window was idle for longer than a time-out.
    Idle,
}

impl Cause {
    /// Its name in traces.
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
