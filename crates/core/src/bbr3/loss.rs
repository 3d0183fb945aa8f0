//! BBRv3 and loss: what each lost packet says of the volume that fits, time-outs, and the undoing of what was no loss.
//! In: packets lost, the host's recovery events. Out: `inflight_longterm`, and the state before a mistake. Never: a retransmission.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Bbr3, Edition, FINE, INFINITY, Phase, Sample, scaled};
use crate::event::{Ack, Bounds, CaState, Lost};
use crate::units::Time;

/// What a spurious recovery gives back (draft: `BBR.undo_*`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// The state that this episode's losses ended.
    pub(super) state: Option<Phase>,
    bw_shortterm: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
    /// This episode has been saved.
    is_saved: bool,
}

impl Bbr3 {
    // spec: #probing-for-bandwidth-in-probebw NoteLoss
    fn note_loss(&mut self, delivered: u64) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = delivered;
            if !self.edition.is_kernel() {
                self.save_state_once();
            }
        }
        self.is_loss_in_round = true;
        self.ecn.loss_in_cycle = true;
    }

    /// Losses were reported without saying of which packets.
    pub fn on_loss(&mut self, delivered: u64) {
        self.note_loss(delivered);
        self.loss_events_in_round += u32::from(!self.edition.is_kernel());
    }

    /// One packet was marked lost.
    // spec: #probing-for-bandwidth-in-probebw HandleLostPacket; Linux bbr_skb_marked_lost
    pub fn on_lost_packet(&mut self, lost: &Lost) {
        self.note_loss(lost.delivered);
        // Neighbours in the sequence are one gap, whatever their number: a burst is one event.
        if !self.edition.is_kernel() && Some(lost.seq) != self.last_lost_seq.checked_add(1) {
            self.loss_events_in_round = self.loss_events_in_round.saturating_add(1);
        }
        self.last_lost_seq = lost.seq;
        if !self.is_bw_probe_sample {
            return;
        }
        let (tx_in_flight, newly_lost) = (self.volume(lost.tx_in_flight.into()), self.volume(lost.lost.into()));
        if self.is_loss_too_high(tx_in_flight, newly_lost) {
            let at_loss = self.inflight_at_loss(tx_in_flight, newly_lost);
            self.handle_inflight_too_high(lost.now, lost.delivered, at_loss, lost.is_app_limited);
            self.update_gains_at_once();
        }
    }

    /// This ACK answers a tail loss probe: what the path delivered before it is worth remembering.
    // spec: google/bbr v3 is_acking_tlp_retrans_seq
    pub const fn on_tlp_ack(&mut self) {
        self.is_tlp_ack = true;
    }

    /// A tail loss probe repaired a loss of which no ACK would have told.
    // spec: Linux bbr_run_loss_probe_recovery. Decision: also by the draft, whose prose names TLP recovery and whose pseudo-code does not.
    pub fn on_tlp_recovery(&mut self, now: Time, delivered: u64, is_app_limited: bool) {
        if self.edition.is_v2() {
            return; // v2alpha's host does not tell
        }
        self.note_loss(delivered);
        if !self.is_bw_probe_sample {
            return;
        }
        let tx_in_flight = self.inflight_latest.saturating_add(self.smss);
        if self.is_loss_too_high(tx_in_flight, self.smss) {
            self.handle_inflight_too_high(now, delivered, tx_in_flight, is_app_limited);
            self.update_gains_at_once();
        }
    }

    /// A new state between two ACKs. Linux takes its gains with the next one.
    fn update_gains_at_once(&mut self) {
        if !self.edition.is_kernel() {
            self.update_gains();
        }
    }

    // spec: #probing-for-bandwidth-in-probebw IsInflightTooHigh
    #[inline(never)]
    fn is_loss_too_high(&self, tx_in_flight: u64, lost: u64) -> bool {
        if !self.has_selective_acks {
            return lost > 0;
        }
        // Linux does not judge a flight that it does not know.
        lost > scaled(tx_in_flight, self.p.loss_thresh) && !(self.edition.is_kernel() && tx_in_flight == 0)
    }

    /// The same for an ACK, with the marks that it brings.
    #[inline]
    pub(super) fn is_inflight_too_high(&self, rs: &Sample<'_>) -> bool {
        (rs.flight.lost > 0 && self.is_loss_too_high(rs.tx_in_flight(), rs.lost()))
            || (rs.flight.delivered_ce > 0 && self.are_marks_too_many(rs))
    }

    /// How much was in flight when losses passed the threshold, somewhere within this packet.
    // spec: #probing-for-bandwidth-in-probebw InflightAtLoss; Linux bbr_inflight_hi_from_lost_skb
    // Decision: as Linux has it, no part of the packet fits if earlier losses had passed the threshold; the draft would subtract.
    pub(super) fn inflight_at_loss(&self, tx_in_flight: u64, lost: u64) -> u64 {
        let inflight_prev = tx_in_flight.saturating_sub(self.smss);
        let lost_prev = lost.saturating_sub(self.smss);
        let budget = inflight_prev.saturating_mul(u64::from(self.p.loss_thresh)).div_ceil(u64::from(FINE));
        let room = budget.saturating_sub(lost_prev).saturating_mul(u64::from(FINE));
        let lost_prefix = room / u64::from(FINE - self.p.loss_thresh).max(1);
        inflight_prev.saturating_add(lost_prefix.min(self.smss))
    }

    // spec: #probing-for-bandwidth-in-probebw HandleInflightTooHigh
    #[inline(never)]
    pub(super) fn handle_inflight_too_high(
        &mut self,
        now: Time,
        delivered: u64,
        tx_in_flight: u64,
        is_app_limited: bool,
    ) {
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !is_app_limited {
            let bound = if self.edition == Edition::Ietf100 {
                // Ours: once a trigger, the slides' factor is taken off what was in flight.
                scaled(tx_in_flight, self.p.beta)
            } else {
                tx_in_flight.max(scaled(self.target_inflight(), self.p.beta))
            };
            self.inflight_longterm = bound.max(self.smss);
        }
        if self.state == Phase::ProbeBwUp {
            self.undo.state = Some(Phase::ProbeBwUp);
            self.start_probe_bw_down(now, delivered);
        }
    }

    /// The host's recovery state `old` becomes `new`.
    // spec: #modulating-cwnd-in-loss-recovery OnEnterFastRecovery, and the restoring of cwnd on leaving
    pub fn on_ca_state(&mut self, old: CaState, new: CaState) {
        let reduces = |state| matches!(state, CaState::Recovery | CaState::Cwr);
        if reduces(new) && !reduces(old) {
            if self.edition.is_kernel() {
                self.save_cwnd();
                self.save_state_upon_loss();
            } else if new == CaState::Recovery {
                self.save_state_once();
            }
        }
        let restores = if self.edition.is_kernel() { old == CaState::Loss } else { old >= CaState::Recovery };
        if old >= CaState::Recovery && new < CaState::Recovery {
            self.undo.is_saved = false;
            if restores {
                self.try_fast_path = false;
                self.restore_cwnd();
            }
        }
    }

    /// A retransmission time-out, after the host has marked what it lost. `first` of this loss episode.
    // spec: #modulating-cwnd-in-loss-recovery OnEnterRTO; Linux bbr_set_state(TCP_CA_Loss). Decision: "+ 1" is one packet.
    pub fn on_rto(&mut self, ack: &Ack, first: bool) {
        if self.edition.is_kernel() {
            if first {
                self.save_cwnd();
                self.save_state_upon_loss();
            }
        } else {
            if first && self.prev_ca_state >= CaState::Recovery {
                self.undo.is_saved = false; // an episode of its own
            }
            self.save_state_once();
        }
        self.prev_ca_state = CaState::Loss;
        let in_flight = self.volume(ack.in_flight.into());
        self.cwnd = in_flight.saturating_add(self.smss).min(self.cwnd_clamp);
        self.note_cwnd();
        if !self.edition.is_kernel() {
            return;
        }
        // spec: google/bbr bbr_set_state; v2alpha keeps the count of rounds, and takes the window before alone
        let is_v2 = self.edition.is_v2();
        if is_v2 {
            self.full_bw.bw = 0;
        } else {
            self.reset_full_bw();
        }
        if !self.is_probing_bw() && self.inflight_shortterm == INFINITY {
            self.inflight_shortterm = if is_v2 { self.prior_cwnd } else { self.cwnd.max(self.prior_cwnd) };
        }
    }

    /// Saves the window and what undoes this episode, at its first sign.
    // Decision: once an episode. The draft saves in each round with loss and again on entering recovery, which forgets the state to return to.
    fn save_state_once(&mut self) {
        if !self.undo.is_saved {
            self.save_cwnd();
            self.save_state_upon_loss();
        }
    }

    // spec: #saving-state-on-loss-recovery SaveStateUponLoss
    const fn save_state_upon_loss(&mut self) {
        self.undo = Undo {
            state: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
            is_saved: true,
        };
    }

    /// What an undo would give back.
    pub(super) fn undo_bounds(&self) -> Bounds {
        let undo = &self.undo;
        if undo.is_saved {
            self.bounds(undo.bw_shortterm, undo.inflight_shortterm, undo.inflight_longterm)
        } else {
            Bounds::NONE
        }
    }

    /// An episode that never became a recovery is over with its round.
    pub(super) fn forget_old_episode(&mut self, ca_state: CaState) {
        if self.loss_round_start && ca_state < CaState::Recovery {
            self.undo.is_saved = false;
        }
    }

    /// The losses of this episode turned out not to be any.
    // spec: #handling-spurious-loss-recovery HandleSpuriousLossDetection; Linux bbr_undo_cwnd, which returns to no state
    // Linux puts the window back to what it was, also where recovery had let it grow beyond.
    pub fn on_undo(&mut self, ack: &Ack) {
        if self.edition.is_kernel() {
            self.cwnd = self.smss;
        }
        self.restore_cwnd();
        self.try_fast_path = false;
        self.is_loss_in_round = false;
        self.reset_full_bw();
        self.bw_shortterm = self.bw_shortterm.max(self.undo.bw_shortterm);
        self.bound_bw_for_model();
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo.inflight_longterm);
        let state = self.undo.state.take();
        if self.edition.is_kernel() {
            return;
        }
        let in_probe_rtt = matches!(self.state, Phase::ProbeRtt { .. });
        match state {
            Some(Phase::Startup) if self.state != Phase::Startup => {
                self.full_bw_reached = false;
                if !in_probe_rtt {
                    self.enter_startup();
                }
            }
            Some(Phase::ProbeBwUp) if self.state != Phase::ProbeBwUp && !in_probe_rtt => {
                self.start_probe_bw_refill(ack.delivered, 0);
            }
            _ => {}
        }
        self.update_gains();
    }

    // spec: #modulating-cwnd-in-loss-recovery SaveCwnd
    pub(super) fn save_cwnd(&mut self) {
        if self.prev_ca_state < CaState::Recovery && !matches!(self.state, Phase::ProbeRtt { .. }) {
            self.prior_cwnd = self.cwnd;
        } else {
            self.prior_cwnd = self.prior_cwnd.max(self.cwnd);
        }
    }

    // spec: #modulating-cwnd-in-loss-recovery RestoreCwnd
    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd).min(self.cwnd_clamp);
        self.note_cwnd();
    }
}
