//! BBRv3's bounds: short-term ones set by a round with loss, the long-term one found by probes, and the rounds of loss.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::rules::{Marks, Rules};
use super::{Bbr3, INFINITY, scaled};
use crate::event::Ack;
use crate::sampler::FlightSample;

/// Linux counts loss events in four bits.
const LOSS_EVENTS_MAX: u32 = 15;

/// Bounds that congestion has set, and the loss state from which they are derived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Draft: `BBR.bw_shortterm`.
    pub(super) bw_shortterm: u64,
    /// Draft: `BBR.inflight_shortterm`.
    pub(super) inflight_shortterm: u64,
    /// Draft: `BBR.inflight_longterm`.
    pub(super) inflight_longterm: u64,
    /// Draft: `BBR.loss_round_delivered`.
    pub(super) loss_round_delivered: u64,
    /// Draft: `BBR.loss_round_start`.
    pub(super) loss_round_start: bool,
    /// Draft: `BBR.is_loss_in_round`.
    pub(super) is_loss_in_round: bool,
    pub(super) loss_events_in_round: u32,
    /// End of the gap in the sequence that the last loss made.
    gap_end: u64,
}

impl Limits {
    pub(super) const NONE: Self = Self {
        bw_shortterm: INFINITY,
        inflight_shortterm: INFINITY,
        inflight_longterm: INFINITY,
        loss_round_delivered: 0,
        loss_round_start: false,
        is_loss_in_round: false,
        loss_events_in_round: 0,
        gap_end: INFINITY,
    };

    /// Resets the bounds; the first round of loss begins once the first flight is acknowledged.
    pub(super) const fn init(&mut self, delivered: u64) {
        *self = Self::NONE;
        self.loss_round_delivered = delivered.saturating_add(1);
    }

    /// Notes a loss. The first of a round marks its beginning.
    // spec: #probing-for-bandwidth-in-probebw NoteLoss
    pub(super) const fn note_loss(&mut self, delivered: u64) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = delivered;
        }
        self.is_loss_in_round = true;
    }

    /// Counts a gap in the sequence: neighbouring packets lost from `seq` on are one event, whatever their number.
    pub(super) const fn note_gap(&mut self, seq: u64, packets: u32) {
        if seq != self.gap_end {
            self.loss_events_in_round = self.loss_events_in_round.saturating_add(1);
        }
        let packets = if packets == 0 { 1 } else { packets };
        self.gap_end = seq.saturating_add(packets as u64);
    }

    /// Counts a loss at an unknown place in the sequence, or an ACK with losses or marks.
    pub(super) fn note_event(&mut self, max: u32) {
        self.loss_events_in_round = self.loss_events_in_round.saturating_add(1).min(max);
    }

    pub(super) fn note_ack_with_loss(&mut self) {
        self.note_event(LOSS_EVENTS_MAX);
    }

    /// Advances the rounds of loss, as in the draft's UpdateLatestDeliverySignals.
    #[inline]
    pub(super) const fn update_loss_round(&mut self, prior_delivered: u64, delivered: u64) {
        if prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = delivered;
            self.loss_round_start = true;
        }
    }

    // spec: #when-not-probing-for-bandwidth InitLowerBounds
    fn init_lower_bounds(&mut self, max_bw: u64, cwnd: u64) {
        if self.bw_shortterm == INFINITY {
            self.bw_shortterm = max_bw;
        }
        self.init_inflight_shortterm(cwnd);
    }

    const fn init_inflight_shortterm(&mut self, cwnd: u64) {
        if self.inflight_shortterm == INFINITY {
            self.inflight_shortterm = cwnd;
        }
    }

    // spec: #when-not-probing-for-bandwidth LossLowerBounds
    fn loss_lower_bounds(&mut self, bw_latest: u64, inflight_latest: u64, beta: u32) {
        self.bw_shortterm = bw_latest.max(scaled(self.bw_shortterm, beta));
        self.inflight_shortterm = inflight_latest.max(scaled(self.inflight_shortterm, beta));
    }

    // spec: #when-not-probing-for-bandwidth ResetShortTermModel
    pub(super) const fn reset_short_term_model(&mut self) {
        self.bw_shortterm = INFINITY;
        self.inflight_shortterm = INFINITY;
    }

    // spec: #probebw-algorithm-details InflightWithHeadroom
    #[inline]
    pub(super) fn inflight_with_headroom(&self, headroom: u32, smss: u64, min_pipe_cwnd: u64) -> u64 {
        if self.inflight_longterm == INFINITY {
            return INFINITY;
        }
        let headroom = scaled(self.inflight_longterm, headroom).max(smss);
        self.inflight_longterm.saturating_sub(headroom).max(min_pipe_cwnd)
    }
}

impl<R: Rules> Bbr3<R> {
    // spec: #when-not-probing-for-bandwidth UpdateLatestDeliverySignals
    #[inline]
    pub(super) fn update_latest_delivery_signals(&mut self, ack: &Ack) {
        self.bounds.loss_round_start = false;
        if self.seen.has_data {
            self.model.take_latest(self.seen.delivery_rate, ack.rs.delivered.unwrap_or(0));
            self.bounds.update_loss_round(ack.rs.prior_delivered, ack.delivered);
        }
    }

    // spec: #when-not-probing-for-bandwidth AdvanceLatestDeliverySignals
    #[inline]
    pub(super) const fn advance_latest_delivery_signals(&mut self, ack: &Ack) {
        // A probe that repaired a loss shows how much the path delivered before: that is kept for another round (Linux).
        if self.bounds.loss_round_start && !self.model.is_tlp_ack && !R::FORGETS_SIGNALS_EARLY {
            self.forget_latest(ack);
        }
        self.model.is_tlp_ack = false;
    }

    const fn forget_latest(&mut self, ack: &Ack) {
        let delivered = match ack.rs.delivered {
            Some(delivered) => delivered,
            None => 0,
        };
        self.model.restart_latest(self.seen.delivery_rate, delivered);
    }

    // spec: #when-not-probing-for-bandwidth UpdateCongestionSignals
    #[inline]
    pub(super) fn update_congestion_signals(&mut self, ack: &Ack, flight: &FlightSample) {
        if !self.seen.has_data {
            return;
        }
        self.model.update_max_bw(self.seen.delivery_rate, ack.rs.is_app_limited);
        if matches!(R::MARKS, Marks::Loss) && flight.is_ece {
            self.take_marks_as_loss(ack.delivered);
        }
        if R::ACK_LOSSES_MARK_ROUND {
            self.bounds.is_loss_in_round |= ack.rs.losses > 0;
        }
        if self.bounds.loss_round_start {
            self.end_loss_round(ack);
        }
    }

    #[inline(never)]
    fn end_loss_round(&mut self, ack: &Ack) {
        if self.is_loss_random(ack) {
            self.bounds.is_loss_in_round = false;
        }
        self.adapt_lower_bounds_from_congestion();
        self.bounds.is_loss_in_round = false;
        self.ecn.in_round = false;
        if R::FORGETS_SIGNALS_EARLY {
            self.forget_latest(ack);
        }
    }

    // spec: #when-not-probing-for-bandwidth ResetCongestionSignals
    pub(super) const fn reset_congestion_signals(&mut self) {
        self.bounds.is_loss_in_round = false;
        self.model.restart_latest(0, 0);
        self.ecn.forget_cycle();
    }

    // spec: #when-not-probing-for-bandwidth AdaptLowerBoundsFromCongestion; Linux bbr_adapt_lower_bounds
    fn adapt_lower_bounds_from_congestion(&mut self) {
        if self.phase.is_probing_bw() {
            return;
        }
        let (bw_by_marks, inflight_by_marks) = self.ecn_lower_bounds();
        let (max_bw, bw_latest, inflight_latest) =
            (self.model.max_bw(), self.model.bw_latest, self.model.inflight_latest);
        let bounds = &mut self.bounds;
        if bounds.is_loss_in_round {
            bounds.init_lower_bounds(max_bw, self.out.cwnd);
            bounds.loss_lower_bounds(bw_latest, inflight_latest, self.p.beta);
        }
        // At least one unit, as in Linux: a zero rate would never be measured again.
        bounds.bw_shortterm = bounds.bw_shortterm.min(bw_by_marks).max(1);
        bounds.inflight_shortterm = bounds.inflight_shortterm.min(inflight_by_marks);
    }

    /// Returns the short-term rate and volume left by a round of marks; no bounds without marks.
    // spec: google/bbr v3 bbr_ecn_lower_bounds, bbr_ecn_cut; v2alpha cuts the rate as well
    // Differs: v2alpha also has a bound on the rate from marks while probing (bw_hi); ours has none.
    pub(super) fn ecn_lower_bounds(&mut self) -> (u64, u64) {
        if !self.ecn.in_round || !self.ecn.eligible || self.p.ecn_factor == 0 {
            return (INFINITY, INFINITY);
        }
        let left = self.ecn.left(self.p.ecn_factor);
        let (bounds, mut bw) = (&mut self.bounds, INFINITY);
        bounds.init_inflight_shortterm(self.out.cwnd);
        if R::MARKS_CUT_RATE {
            bounds.init_lower_bounds(self.model.max_bw(), self.out.cwnd);
            bw = scaled(bounds.bw_shortterm, left).max(1);
        }
        (bw, scaled(bounds.inflight_shortterm, left))
    }

    // spec: #probebw-algorithm-details InflightWithHeadroom
    #[inline]
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        self.bounds.inflight_with_headroom(self.p.headroom, self.smss(), self.host.min_pipe_cwnd())
    }
}
