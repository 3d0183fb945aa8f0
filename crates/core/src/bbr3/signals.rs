//! BBRv3's signals: rounds, the windowed maximum of bandwidth, the last round's delivery, and the short-term bounds that loss sets.
//! In: rate samples. Out: `max_bw`, `bw_shortterm`, `inflight_shortterm`. Never: a change of state.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Bbr3, INFINITY, Phase, Sample, scaled};

impl Bbr3 {
    /// Draft: `BBR.max_bw`: the largest rate of this ProbeBW cycle and the one before.
    pub(super) const fn max_bw(&self) -> u64 {
        self.max_bw
    }

    /// Draft: `BBR.bw`.
    #[inline]
    pub(super) const fn bw(&self) -> u64 {
        self.bw
    }

    /// Whoever changes one of the two bounds says so here.
    // spec: #when-not-probing-for-bandwidth BoundBWForModel
    pub(super) const fn bound_bw_for_model(&mut self) {
        self.bw = if self.max_bw < self.bw_shortterm { self.max_bw } else { self.bw_shortterm };
    }

    // spec: #when-not-probing-for-bandwidth UpdateLatestDeliverySignals
    pub(super) fn update_latest_delivery_signals(&mut self, rs: &Sample<'_>) {
        self.loss_round_start = false;
        if !rs.has_data {
            return;
        }
        self.bw_latest = self.bw_latest.max(rs.delivery_rate);
        self.inflight_latest = self.inflight_latest.max(rs.delivered);
        if rs.ack.rs.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = rs.ack.delivered;
            self.loss_round_start = true;
        }
    }

    // spec: #when-not-probing-for-bandwidth AdvanceLatestDeliverySignals
    pub(super) const fn advance_latest_delivery_signals(&mut self, rs: &Sample<'_>) {
        // A probe that repaired a loss says how much the path delivered before: that is worth another round (Linux).
        if self.loss_round_start && !self.is_tlp_ack && !self.edition.is_v2() {
            self.bw_latest = rs.delivery_rate;
            self.inflight_latest = rs.delivered;
        }
        self.is_tlp_ack = false;
    }

    // spec: #when-not-probing-for-bandwidth UpdateCongestionSignals
    pub(super) fn update_congestion_signals(&mut self, rs: &Sample<'_>) {
        if !rs.has_data {
            return;
        }
        self.update_max_bw(rs);
        self.take_marks_as_loss(rs);
        if !self.loss_round_start {
            return;
        }
        self.adapt_lower_bounds_from_congestion();
        self.is_loss_in_round = false;
        self.ecn.in_round = false;
        if self.edition.is_v2() {
            // v2alpha forgets the last round before anything else has seen it.
            self.bw_latest = rs.delivery_rate;
            self.inflight_latest = rs.delivered;
        }
    }

    // spec: #bbr-round-count UpdateRound. Decision: RS.prior_delivered for the P.delivered that it names; before all else, as in Linux.
    #[inline]
    pub(super) fn update_round(&mut self, rs: &Sample<'_>) {
        self.rounds.start = false;
        if rs.has_data {
            self.rounds.update(rs.ack.rs.prior_delivered, rs.ack.delivered);
        }
        if self.rounds.start {
            self.rounds_since_probe_up = self.rounds_since_probe_up.saturating_add(1);
        }
    }

    // spec: #updating-the-bbrmaxbw-max-filter UpdateMaxBw
    #[inline]
    fn update_max_bw(&mut self, rs: &Sample<'_>) {
        let is_of_the_path = rs.delivery_rate >= self.max_bw() || !rs.ack.rs.is_app_limited;
        if is_of_the_path && rs.delivery_rate > self.max_bw_filter[1] {
            self.max_bw_filter[1] = rs.delivery_rate;
            self.max_bw = self.max_bw.max(rs.delivery_rate);
            self.bound_bw_for_model();
        }
    }

    /// A ProbeBW cycle has given its samples: forget those of the one before.
    // spec: #tracking-time-for-the-bbrmaxbw-max-filter AdvanceMaxBwFilter
    // Decision: two slots, as the text says (a windowed filter of length 2 would hold three cycles); a cycle without samples forgets nothing.
    pub(super) const fn advance_max_bw_filter(&mut self) {
        if self.max_bw_filter[1] != 0 {
            self.max_bw_filter = [self.max_bw_filter[1], 0];
            self.max_bw = self.max_bw_filter[0];
            self.bound_bw_for_model();
        }
    }

    // spec: #when-not-probing-for-bandwidth ResetCongestionSignals
    pub(super) const fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
        self.ecn.forget_cycle();
    }

    // spec: #when-not-probing-for-bandwidth AdaptLowerBoundsFromCongestion; Linux bbr_adapt_lower_bounds
    #[inline(never)]
    fn adapt_lower_bounds_from_congestion(&mut self) {
        if self.is_probing_bw() {
            return;
        }
        let (bw_by_marks, inflight_by_marks) = self.ecn_lower_bounds();
        if self.is_loss_in_round {
            self.init_lower_bounds();
            self.loss_lower_bounds();
        }
        self.bw_shortterm = self.bw_shortterm.min(bw_by_marks);
        self.bound_bw_for_model();
        self.inflight_shortterm = self.inflight_shortterm.min(inflight_by_marks);
    }

    // spec: #when-not-probing-for-bandwidth InitLowerBounds
    fn init_lower_bounds(&mut self) {
        if self.bw_shortterm == INFINITY {
            self.bw_shortterm = self.max_bw();
        }
        if self.inflight_shortterm == INFINITY {
            self.inflight_shortterm = self.cwnd;
        }
    }

    // spec: #when-not-probing-for-bandwidth LossLowerBounds
    fn loss_lower_bounds(&mut self) {
        // At least one unit, as in Linux: a rate of nothing would never be measured again.
        self.bw_shortterm = self.bw_latest.max(scaled(self.bw_shortterm, self.p.beta)).max(1);
        self.inflight_shortterm = self.inflight_latest.max(scaled(self.inflight_shortterm, self.p.beta));
    }

    // spec: #when-not-probing-for-bandwidth ResetShortTermModel
    pub(super) const fn reset_short_term_model(&mut self) {
        self.bw_shortterm = INFINITY;
        self.inflight_shortterm = INFINITY;
        self.bound_bw_for_model();
    }

    // spec: #probebw-algorithm-details IsProbingBW
    pub(super) const fn is_probing_bw(&self) -> bool {
        matches!(self.state, Phase::Startup | Phase::ProbeBwRefill | Phase::ProbeBwUp)
    }
}
