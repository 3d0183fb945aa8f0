//! BBRv3's response to loss: the volume in flight that each loss shows to be too high.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::rules::{LossEvents, Rules, Saves, TooHigh};
use super::{Bbr3, FINE, INFINITY, scaled};
use crate::State;
use crate::event::{Ack, Lost};
use crate::sampler::FlightSample;
use crate::state::Cause;
use crate::units::Time;
use crate::wide;

/// Evidence that more was in flight than the path can hold.
// A single argument, since a BPF function has at most five.
#[derive(Clone, Copy, Debug)]
pub(super) struct InflightTooHigh {
    pub(super) now: Time,
    pub(super) delivered: u64,
    /// Volume in flight at that time.
    pub(super) tx_in_flight: u64,
    pub(super) is_app_limited: bool,
    pub(super) cause: Cause,
}

impl<R: Rules> Bbr3<R> {
    // spec: #probing-for-bandwidth-in-probebw NoteLoss
    pub(super) fn note_loss(&mut self, delivered: u64) {
        self.bounds.note_loss(delivered);
        // In a later loss of the round too, which may begin a new episode.
        if matches!(R::SAVES, Saves::FirstSign) {
            self.save_once();
        }
        self.ecn.loss_in_cycle = true;
    }

    /// Handles losses that were reported without naming the packets.
    pub fn on_loss(&mut self, delivered: u64) {
        self.note_loss(delivered);
        if matches!(R::LOSS_EVENTS, LossEvents::Gaps) {
            self.bounds.note_event(u32::MAX);
        }
    }

    /// Handles packets that were marked lost together.
    // spec: #probing-for-bandwidth-in-probebw HandleLostPacket; Linux bbr_skb_marked_lost
    pub fn on_lost_packet(&mut self, lost: &Lost) {
        self.note_loss(lost.delivered);
        if matches!(R::LOSS_EVENTS, LossEvents::Gaps) {
            self.bounds.note_gap(lost.seq, lost.packets);
        }
        if self.probe.is_bw_probe_sample && self.is_loss_too_high(lost.tx_in_flight, lost.lost) {
            self.handle_inflight_too_high(&InflightTooHigh {
                now: lost.now,
                delivered: lost.delivered,
                tx_in_flight: self.inflight_at_loss(lost.tx_in_flight, lost.lost, lost.volume),
                is_app_limited: lost.is_app_limited,
                cause: Cause::Loss,
            });
        }
    }

    /// Handles an ACK of a tail-loss probe: what the path delivered before it is kept.
    // spec: google/bbr v3 is_acking_tlp_retrans_seq
    pub const fn on_tlp_ack(&mut self) {
        self.model.is_tlp_ack = true;
    }

    /// Handles a tail-loss probe that repaired a loss which no ACK would have reported.
    // spec: Linux bbr_run_loss_probe_recovery. Decision: also by the draft, whose prose names TLP recovery and whose pseudo-code does not.
    pub fn on_tlp_recovery(&mut self, now: Time, delivered: u64, is_app_limited: bool) {
        if !R::HEARS_TAIL_PROBES {
            return;
        }
        self.note_loss(delivered);
        let tx_in_flight = self.model.inflight_latest.saturating_add(self.smss());
        if self.probe.is_bw_probe_sample && self.is_loss_too_high(tx_in_flight, self.smss()) {
            let cause = Cause::Loss;
            self.handle_inflight_too_high(&InflightTooHigh { now, delivered, tx_in_flight, is_app_limited, cause });
        }
    }

    // spec: #probing-for-bandwidth-in-probebw IsInflightTooHigh
    #[inline(never)]
    pub(super) fn is_loss_too_high(&self, tx_in_flight: u64, lost: u64) -> bool {
        if R::NON_SACK_RULE && !self.host.has_selective_acks {
            return lost > 0;
        }
        lost > scaled(tx_in_flight, self.loss_thresh()) && (R::JUDGES_UNKNOWN_FLIGHT || tx_in_flight != 0)
    }

    /// The same for an ACK, including its marks.
    #[inline]
    pub(super) fn is_inflight_too_high(&self, ack: &Ack, flight: &FlightSample) -> bool {
        (flight.lost > 0 && self.is_loss_too_high(flight.tx_in_flight.into(), flight.lost.into()))
            || (flight.delivered_ce > 0 && self.are_marks_too_many(ack, flight))
    }

    /// Cause of an inflight that was too high at this ACK: loss if its losses alone suffice, else marks.
    pub(super) fn cause_of_congestion(&self, flight: &FlightSample) -> Cause {
        let by_loss = flight.lost > 0 && self.is_loss_too_high(flight.tx_in_flight.into(), flight.lost.into());
        if by_loss { Cause::Loss } else { Cause::Marks }
    }

    /// Returns the volume in flight when losses passed the threshold, somewhere within the volume `size` that was lost together.
    // spec: #probing-for-bandwidth-in-probebw InflightAtLoss; Linux bbr_inflight_hi_from_lost_skb
    // Decision: as in Linux, no part of the packet fits if earlier losses had passed the threshold; the draft would subtract.
    pub(super) fn inflight_at_loss(&self, tx_in_flight: u64, lost: u64, size: u64) -> u64 {
        if !R::PREFIX_WITHIN_LOSS && (tx_in_flight < size || lost < size) {
            return INFINITY;
        }
        let inflight_prev = tx_in_flight.saturating_sub(size);
        let lost_prev = lost.saturating_sub(size);
        let (thresh, unit) = (u64::from(self.loss_thresh()), u64::from(FINE));
        let budget = wide::saturating_mul(inflight_prev, thresh).div_ceil(unit);
        let room = wide::saturating_mul(budget.saturating_sub(lost_prev), unit);
        let lost_prefix = room / unit.saturating_sub(thresh).max(1);
        let lost_prefix = if R::PREFIX_WITHIN_LOSS { lost_prefix.min(size) } else { lost_prefix };
        inflight_prev.saturating_add(lost_prefix)
    }

    // spec: #probing-for-bandwidth-in-probebw HandleInflightTooHigh
    #[inline(never)]
    pub(super) fn handle_inflight_too_high(&mut self, found: &InflightTooHigh) {
        self.probe.prev_probe_too_high = true;
        self.probe.is_bw_probe_sample = false;
        if !found.is_app_limited {
            let bound = match R::TOO_HIGH {
                TooHigh::BetaOfFlight => scaled(found.tx_in_flight, self.p.beta),
                TooHigh::FlightOrTarget => found.tx_in_flight.max(scaled(self.target_inflight(), self.p.beta)),
            };
            self.bounds.inflight_longterm = bound.max(self.smss());
        }
        if self.phase.is_up() {
            self.undo.state = Some(State::ProbeBwUp);
            self.start_probe_bw_down(found.now, found.delivered, found.cause);
        }
    }
}
