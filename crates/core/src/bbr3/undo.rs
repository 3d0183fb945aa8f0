//! BBRv3's saved state from before an episode of loss: the window, the bounds, the state.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::bounds::Limits;
use super::phase::Phase;
use super::rules::{Rules, Saves, Timeout};
use super::{Bbr3, INFINITY};
use crate::State;
use crate::event::{Ack, CaState};
use crate::snapshot;
use crate::state::Cause;

/// State restored after a spurious recovery (draft: `BBR.undo_*`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// The state that the losses of this episode ended.
    pub(super) state: Option<State>,
    bw_shortterm: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
    /// True once this episode has been saved.
    pub(super) is_saved: bool,
    /// Draft: `BBR.prior_cwnd`.
    pub(super) prior_cwnd: u64,
}

impl Undo {
    pub(super) const NONE: Self = Self {
        state: None,
        bw_shortterm: 0,
        inflight_shortterm: 0,
        inflight_longterm: 0,
        is_saved: false,
        prior_cwnd: 0,
    };

    // spec: #saving-state-on-loss-recovery SaveStateUponLoss
    const fn save_state_upon_loss(&mut self, bounds: &Limits) {
        self.state = None;
        self.bw_shortterm = bounds.bw_shortterm;
        self.inflight_shortterm = bounds.inflight_shortterm;
        self.inflight_longterm = bounds.inflight_longterm;
        self.is_saved = true;
    }

    /// Restores the larger of present and saved bounds.
    fn give_back(&self, bounds: &mut Limits) {
        bounds.bw_shortterm = bounds.bw_shortterm.max(self.bw_shortterm);
        bounds.inflight_shortterm = bounds.inflight_shortterm.max(self.inflight_shortterm);
        bounds.inflight_longterm = bounds.inflight_longterm.max(self.inflight_longterm);
    }
}

impl<R: Rules> Bbr3<R> {
    /// Handles a change of the host's recovery state from `old` to `new`.
    // spec: #modulating-cwnd-in-loss-recovery OnEnterFastRecovery, and the restoring of cwnd on leaving
    pub fn on_ca_state(&mut self, old: CaState, new: CaState) {
        let reduces = |state| matches!(state, CaState::Recovery | CaState::Cwr);
        if reduces(new) && !reduces(old) {
            match R::SAVES {
                Saves::Reduction => self.save(),
                Saves::FirstSign if new == CaState::Recovery => self.save_once(),
                Saves::FirstSign => {}
            }
        }
        let is_over = old >= CaState::Recovery && new < CaState::Recovery;
        if is_over {
            self.undo.is_saved = false;
        }
        // Linux tests the state left by the last ACK or time-out, whatever the host's state in between.
        let was_loss = self.prev_ca_state == CaState::Loss && new != CaState::Loss;
        let gives_back = if R::RESTORES_AFTER_RECOVERY { is_over } else { was_loss };
        if gives_back {
            self.out.try_fast_path = false;
            self.restore_cwnd();
        }
    }

    /// Handles a retransmission time-out, after the host has marked the lost packets. `first` of this loss episode.
    // spec: #modulating-cwnd-in-loss-recovery OnEnterRTO; Linux bbr_set_state(TCP_CA_Loss). Decision: "+ 1" is one packet.
    pub fn on_rto(&mut self, ack: &Ack, first: bool) {
        match R::SAVES {
            Saves::Reduction if first => self.save(),
            Saves::Reduction => {}
            Saves::FirstSign => {
                if first && self.prev_ca_state >= CaState::Recovery {
                    self.undo.is_saved = false; // a new episode
                }
                self.save_once();
            }
        }
        self.prev_ca_state = CaState::Loss;
        self.out.cwnd = ack.in_flight.saturating_add(self.smss()).min(self.host.cwnd_clamp());
        let before = match R::TIMEOUT {
            Timeout::WindowOnly => return,
            Timeout::LargerWindowBounds => {
                self.full_pipe.reset_full_bw();
                self.out.cwnd.max(self.undo.prior_cwnd)
            }
            Timeout::PriorWindowBounds => {
                self.full_pipe.plateau.bw = 0;
                self.undo.prior_cwnd
            }
        };
        if !self.phase.is_probing_bw() && self.bounds.inflight_shortterm == INFINITY {
            self.bounds.inflight_shortterm = before;
        }
    }

    /// Saves the window and the state for an undo, at the first sign of the episode.
    // Decision: once an episode. The draft saves in each round with loss and again on entering recovery, which loses
    // the state to return to.
    pub(super) fn save_once(&mut self) {
        if !self.undo.is_saved {
            self.save();
        }
    }

    fn save(&mut self) {
        self.save_cwnd();
        self.undo.save_state_upon_loss(&self.bounds);
    }

    /// Bounds that an undo would restore.
    pub(super) fn undo_bounds(&self) -> snapshot::Bounds {
        let undo = &self.undo;
        if undo.is_saved {
            self.shown(undo.bw_shortterm, undo.inflight_shortterm, undo.inflight_longterm)
        } else {
            snapshot::Bounds::default()
        }
    }

    /// Ends an episode that never became a recovery, once its round is over.
    #[inline]
    pub(super) fn forget_old_episode(&mut self, ca_state: CaState) {
        if self.bounds.loss_round_start && ca_state < CaState::Recovery {
            self.undo.is_saved = false;
        }
    }

    /// Handles an undo: the losses of this episode were spurious.
    // spec: #handling-spurious-loss-recovery HandleSpuriousLossDetection; Linux bbr_undo_cwnd, which returns to no state
    pub fn on_undo(&mut self, ack: &Ack) {
        if R::UNDO_SETS_WINDOW {
            self.out.cwnd = self.smss();
        }
        self.restore_cwnd();
        self.out.try_fast_path = false;
        self.bounds.is_loss_in_round = false;
        self.full_pipe.reset_full_bw();
        self.undo.give_back(&mut self.bounds);
        let ended = self.undo.state.take();
        if !R::UNDO_RETURNS {
            return;
        }
        if ended == Some(State::Startup) && !self.phase.is_startup() {
            self.full_pipe.reached = false;
        }
        match ended {
            _ if self.phase.is_probe_rtt() => {}
            Some(State::Startup) if !self.phase.is_startup() => self.enter_startup(Cause::Undo),
            Some(State::ProbeBwUp) if !matches!(self.phase, Phase::ProbeBwUp(_)) => {
                self.start_probe_bw_refill(ack.delivered, 0, Cause::Undo);
            }
            _ => {}
        }
    }

    // spec: #modulating-cwnd-in-loss-recovery SaveCwnd
    pub(super) fn save_cwnd(&mut self) {
        let is_good = self.prev_ca_state < CaState::Recovery && !self.phase.is_probe_rtt();
        let before = if is_good { 0 } else { self.undo.prior_cwnd };
        self.undo.prior_cwnd = self.out.cwnd.max(before);
    }

    // spec: #modulating-cwnd-in-loss-recovery RestoreCwnd
    pub(super) fn restore_cwnd(&mut self) {
        self.out.cwnd = self.out.cwnd.max(self.undo.prior_cwnd).min(self.host.cwnd_clamp());
    }
}
