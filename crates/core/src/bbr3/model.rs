//! BBRv3's model of the path's bandwidth: rounds, the windowed maximum, and the delivery of the last round.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::shared::Rounds;

/// Measurements of the path's bandwidth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub(super) rounds: Rounds,
    /// The maxima of the previous cycle and of this one.
    max_bw_filter: [u64; 2],
    max_bw: u64,
    /// Draft: `BBR.bw_latest`.
    pub(super) bw_latest: u64,
    /// Draft: `BBR.inflight_latest`.
    pub(super) inflight_latest: u64,
    /// True if this ACK answers a tail-loss probe.
    pub(super) is_tlp_ack: bool,
}

impl Model {
    pub(super) const NONE: Self = Self {
        rounds: Rounds { count: 0, next_delivered: 0, start: false },
        max_bw_filter: [0; 2],
        max_bw: 0,
        bw_latest: 0,
        inflight_latest: 0,
        is_tlp_ack: false,
    };

    /// Draft: `BBR.max_bw`: the largest rate of this ProbeBW cycle and the previous one.
    #[inline]
    pub(super) const fn max_bw(&self) -> u64 {
        self.max_bw
    }

    #[cfg(any(feature = "unstable-internals", test))]
    pub(super) const fn max_bw_filter(&self) -> [u64; 2] {
        self.max_bw_filter
    }

    pub(super) const fn set_max_bw_filter(&mut self, slots: [u64; 2]) {
        self.max_bw_filter = slots;
        self.max_bw = if slots[0] > slots[1] { slots[0] } else { slots[1] };
    }

    // spec: #bbr-round-count UpdateRound. Decision: RS.prior_delivered for the P.delivered that it names; before all else, as in Linux.
    #[inline]
    pub(super) const fn update_round(&mut self, has_data: bool, prior_delivered: u64, delivered: u64) {
        self.rounds.start = false;
        if has_data {
            self.rounds.update(prior_delivered, delivered);
        }
    }

    // spec: #updating-the-bbrmaxbw-max-filter UpdateMaxBw
    #[inline]
    pub(super) const fn update_max_bw(&mut self, delivery_rate: u64, is_app_limited: bool) {
        if delivery_rate > self.max_bw_filter[1] && (delivery_rate >= self.max_bw || !is_app_limited) {
            self.max_bw_filter[1] = delivery_rate;
            if delivery_rate > self.max_bw {
                self.max_bw = delivery_rate;
            }
        }
    }

    /// Drops the samples of the previous ProbeBW cycle, once the present one has given its own.
    // spec: #tracking-time-for-the-bbrmaxbw-max-filter AdvanceMaxBwFilter
    // Decision: two slots, as in the text (a windowed filter of length 2 would hold three cycles); a cycle without samples drops nothing.
    pub(super) const fn advance_max_bw_filter(&mut self) {
        if self.max_bw_filter[1] != 0 {
            self.set_max_bw_filter([self.max_bw_filter[1], 0]);
        }
    }

    /// Keeps the larger of the last round's samples; the rest of the draft's UpdateLatestDeliverySignals is with the rounds of loss.
    #[inline]
    pub(super) fn take_latest(&mut self, delivery_rate: u64, delivered: u64) {
        self.bw_latest = self.bw_latest.max(delivery_rate);
        self.inflight_latest = self.inflight_latest.max(delivered);
    }

    /// Starts a new round, with this sample as its only one.
    pub(super) const fn restart_latest(&mut self, delivery_rate: u64, delivered: u64) {
        self.bw_latest = delivery_rate;
        self.inflight_latest = delivered;
    }
}
