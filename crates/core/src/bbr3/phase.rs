//! States of BBRv2 and BBRv3 with the data that only each needs, their legal transitions, and their gains.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::rules::Rules;
use super::{Bbr3, Bbr3Params, INFINITY, UNIT};
use crate::state::{Cause, State};

/// State of the flow (draft: `BBR.state`), with the data that only this state needs. In the order of [`State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Startup,
    /// The round in which Drain began (draft: `BBR.drain_start_round`).
    Drain {
        start_round: u64,
    },
    /// Number of doublings with which the probe begins.
    ProbeBwRefill {
        up_rounds: u32,
    },
    ProbeBwUp(Growth),
    ProbeBwDown,
    ProbeBwCruise,
    /// Draft: `BBR.probe_rtt_done_stamp`, in ticks, and `BBR.probe_rtt_round_done`.
    ProbeRtt {
        done_stamp: Option<u64>,
        round_done: bool,
    },
}

/// Growth of the long-term bound in a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Growth {
    /// Draft: `BBR.bw_probe_up_rounds`.
    pub(super) rounds: u32,
    /// Draft: `BBR.bw_probe_up_acked`.
    pub(super) acked: u64,
    /// Draft: `BBR.probe_up_acked_per_inc`.
    pub(super) acked_per_inc: u64,
}

/// Largest number of doublings of a probe's growth. Source: draft RaiseInflightLongtermSlope.
const UP_ROUNDS_MAX: u32 = 30;

impl Growth {
    /// A probe that is about to begin with this number of doublings.
    pub(super) const fn from(rounds: u32) -> Self {
        Self { rounds, acked: 0, acked_per_inc: INFINITY }
    }

    // spec: #probebw-algorithm-details RaiseInflightLongtermSlope
    pub(super) fn raise_inflight_longterm_slope(&mut self, cwnd: u64, smss: u64) {
        let growth_this_round = self.rounds.min(UP_ROUNDS_MAX);
        self.rounds = (growth_this_round + 1).min(UP_ROUNDS_MAX);
        self.acked_per_inc = (cwnd >> growth_this_round).max(smss);
    }

    /// Takes a newly acknowledged volume; returns the number of packets by which the bound grows.
    pub(super) const fn take(&mut self, acked: u64) -> u64 {
        self.acked = self.acked.saturating_add(acked);
        if self.acked < self.acked_per_inc || self.acked_per_inc == 0 {
            return 0;
        }
        let increments = self.acked / self.acked_per_inc;
        self.acked -= increments * self.acked_per_inc;
        increments
    }
}

impl Phase {
    /// Name of the state.
    #[inline]
    pub(super) const fn state(&self) -> State {
        match self {
            Self::Startup => State::Startup,
            Self::Drain { .. } => State::Drain,
            Self::ProbeBwRefill { .. } => State::ProbeBwRefill,
            Self::ProbeBwUp(_) => State::ProbeBwUp,
            Self::ProbeBwDown => State::ProbeBwDown,
            Self::ProbeBwCruise => State::ProbeBwCruise,
            Self::ProbeRtt { .. } => State::ProbeRtt,
        }
    }

    pub(super) const fn is_startup(&self) -> bool {
        matches!(self, Self::Startup)
    }

    pub(super) const fn is_up(&self) -> bool {
        matches!(self, Self::ProbeBwUp(_))
    }

    pub(super) const fn is_probe_rtt(&self) -> bool {
        matches!(self, Self::ProbeRtt { .. })
    }

    // spec: #probebw-algorithm-details IsInAProbeBWState
    pub(super) const fn is_in_a_probe_bw_state(&self) -> bool {
        matches!(self, Self::ProbeBwDown | Self::ProbeBwCruise | Self::ProbeBwRefill { .. } | Self::ProbeBwUp(_))
    }

    // spec: #probebw-algorithm-details IsProbingBW
    pub(super) const fn is_probing_bw(&self) -> bool {
        matches!(self, Self::Startup | Self::ProbeBwRefill { .. } | Self::ProbeBwUp(_))
    }
}

/// True if `cause` leads from one state to the other.
const fn is_legal(from: State, to: State, cause: Cause) -> bool {
    use State::{Drain, ProbeBwCruise, ProbeBwDown, ProbeBwRefill, ProbeBwUp, ProbeRtt, Startup};
    match (from, to) {
        (Startup, Drain) => matches!(cause, Cause::Plateau | Cause::Loss | Cause::Marks),
        (Drain, ProbeBwDown) => matches!(cause, Cause::Drained | Cause::DrainedLongEnough),
        (ProbeBwDown, ProbeBwCruise) => matches!(cause, Cause::Drained | Cause::ProbeRttDone),
        (ProbeBwDown | ProbeBwCruise, ProbeBwRefill) => {
            matches!(cause, Cause::ProbeTimer | Cause::RenoCoexistence | Cause::ProbeAgain | Cause::Marks | Cause::Undo)
        }
        (ProbeBwRefill, ProbeBwRefill) => matches!(cause, Cause::Undo),
        (ProbeBwRefill, ProbeBwUp) => matches!(cause, Cause::Refilled),
        (ProbeBwUp, ProbeBwDown) => {
            matches!(cause, Cause::Plateau | Cause::Loss | Cause::Marks | Cause::Precaution | Cause::PhaseOver)
        }
        (ProbeRtt, Startup | ProbeBwDown) => matches!(cause, Cause::ProbeRttDone),
        (Startup | Drain | ProbeBwDown | ProbeBwCruise | ProbeBwRefill | ProbeBwUp, ProbeRtt) => {
            matches!(cause, Cause::MinRttExpired)
        }
        (Drain | ProbeBwDown | ProbeBwCruise | ProbeBwRefill | ProbeBwUp, Startup) => matches!(cause, Cause::Undo),
        _ => false,
    }
}

/// The gains in use, and the state to which they belong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gains {
    of: State,
    /// Draft: `BBR.pacing_gain`.
    pub(super) pacing: u32,
    /// Draft: `BBR.cwnd_gain`.
    pub(super) cwnd: u32,
}

impl Gains {
    pub(super) const NONE: Self = Self { of: State::Startup, pacing: 0, cwnd: 0 };

    // spec: #summary-of-control-behavior-in-the-state-machine. Decision: that table decides; the draft's StartProbeBW_* set no gain.
    pub(super) const fn of<R: Rules>(of: State, p: &Bbr3Params) -> Self {
        let (pacing, cwnd) = match of {
            State::Drain => (p.drain_pacing_gain, p.startup_cwnd_gain),
            State::ProbeBwDown => (p.probe_down_pacing_gain, p.default_cwnd_gain),
            State::ProbeBwCruise | State::ProbeBwRefill => (UNIT, p.default_cwnd_gain),
            State::ProbeBwUp => (p.probe_up_pacing_gain, p.probe_up_cwnd_gain),
            // Linux leaves the smaller window to the cap that follows.
            State::ProbeRtt => (UNIT, if R::PROBE_RTT_GAIN { p.probe_rtt_cwnd_gain } else { UNIT }),
            _ => (p.startup_pacing_gain, p.startup_cwnd_gain),
        };
        Self { of, pacing, cwnd }
    }
}

impl<R: Rules> Bbr3<R> {
    /// Changes the state.
    #[inline(never)]
    pub(super) fn enter(&mut self, to: Phase, cause: Cause) {
        debug_assert!(
            is_legal(self.phase.state(), to.state(), cause),
            "{:?} does not follow {:?} because of {cause:?}",
            to.state(),
            self.phase.state()
        );
        self.phase = to;
        self.cause = cause;
        if to.is_in_a_probe_bw_state() {
            self.out.try_fast_path = false;
        }
        if R::GAINS_AT_ONCE {
            self.update_gains();
        }
    }

    /// Sets the gains of the present state, unless they are already in use.
    #[inline]
    pub(super) fn update_gains(&mut self) {
        let state = self.phase.state();
        if self.gains.of as u8 != state as u8 {
            self.gains = Gains::of::<R>(state, &self.p);
        }
    }
}
