//! BBRv3's allowance for aggregated ACKs: the volume acknowledged beyond what the bandwidth estimate explains.
//! It has no influence on the bandwidth estimate.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::rules::{AckFilter, Rules};
use super::{BW_SHIFT, Bbr3, scaled};
use crate::estimators::MinMax;
use crate::event::Ack;
use crate::shared::Rounds;
use crate::wide;

/// An epoch that delivered this many packets ends. Source: Linux `bbr_ack_epoch_acked_reset_thresh`.
const EPOCH_ACKED_RESET: u64 = 1 << 20;

/// The epoch and the filter: the draft's windowed maximum, or the kernel's two buckets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    interval_start_us: u64,
    pub(super) delivered: u64,
    filter: MinMax,
    bucket: [u64; 2],
    /// True while the second bucket is being filled.
    fills_second: bool,
    rounds: u32,
    /// Draft: `BBR.extra_acked`.
    pub(super) extra_acked: u64,
}

impl Aggregation {
    pub(super) const NONE: Self = Self {
        interval_start_us: 0,
        delivered: 0,
        filter: MinMax::EMPTY,
        bucket: [0; 2],
        fills_second: false,
        rounds: 0,
        extra_acked: 0,
    };

    /// Starts an epoch.
    #[inline]
    pub(super) const fn restart(&mut self, now_us: u64) {
        self.interval_start_us = now_us;
        self.delivered = 0;
    }

    /// Adds volume acknowledged at `now_us`; returns the part of the epoch's volume that the bandwidth `bw` does not explain.
    #[inline]
    fn extra<R: Rules>(&mut self, bw: u64, newly_acked: u64, now_us: u64) -> u64 {
        let interval_us = now_us.saturating_sub(self.interval_start_us);
        let mut expected = wide::mul_shr(bw, interval_us, BW_SHIFT);
        let has_end = matches!(R::ACK_FILTER, AckFilter::Buckets);
        let is_long = has_end && self.delivered.saturating_add(newly_acked) >= EPOCH_ACKED_RESET;
        if self.delivered <= expected || is_long {
            self.restart(now_us);
            expected = 0;
        }
        self.delivered = self.delivered.saturating_add(newly_acked);
        if has_end {
            self.delivered = self.delivered.min(EPOCH_ACKED_RESET - 1);
        }
        self.delivered.saturating_sub(expected)
    }

    #[inline]
    fn take<R: Rules>(&mut self, extra: u64, window: u32, rounds: &Rounds) {
        if matches!(R::ACK_FILTER, AckFilter::Buckets) {
            self.take_into_buckets(extra, window, rounds.start);
        } else if rounds.start || extra >= self.filter.third() {
            // Within a round, only a value among the three best changes the draft's filter.
            self.extra_acked = self.filter.running_max(u64::from(window), rounds.count, extra);
        }
    }

    const fn newest(&mut self) -> &mut u64 {
        let [first, second] = &mut self.bucket;
        if self.fills_second { second } else { first }
    }

    /// The two buckets by the kernel's index.
    #[cfg(any(feature = "unstable-internals", test))]
    pub(super) const fn buckets(&self) -> [u64; 2] {
        self.bucket
    }

    /// Enters a value into two buckets of `window` rounds each.
    const fn take_into_buckets(&mut self, extra: u64, window: u32, round_start: bool) {
        if round_start {
            self.rounds += 1;
            if self.rounds >= window {
                self.rounds = 0;
                self.fills_second = !self.fills_second;
                *self.newest() = 0;
            }
        }
        let newest = self.newest();
        if extra > *newest {
            *newest = extra;
        }
        self.extra_acked = if self.bucket[0] > self.bucket[1] { self.bucket[0] } else { self.bucket[1] };
    }
}

impl<R: Rules> Bbr3<R> {
    // spec: #bbrextraacked UpdateACKAggregation; Linux bbr_update_ack_aggregation
    #[inline]
    pub(super) fn update_ack_aggregation(&mut self, ack: &Ack) {
        if self.p.extra_acked_gain == 0 || !self.seen.has_data || ack.rs.acked_sacked == 0 {
            return;
        }
        let bw = self.bw();
        let extra = self.aggregation.extra::<R>(bw, ack.rs.acked_sacked, ack.delivered_time_us).min(self.out.cwnd);
        let window =
            if self.full_pipe.reached { self.p.extra_acked_filter_len } else { self.p.extra_acked_startup_len };
        self.aggregation.take::<R>(extra, window, &self.model.rounds);
    }

    /// Returns the volume to allow beyond the BDP.
    // spec: #computing-bbrmaxinflight UpdateMaxInflight; Linux bbr_ack_aggregation_cwnd, which caps it by time
    pub(super) fn extra_acked(&self) -> u64 {
        let extra = scaled(self.aggregation.extra_acked, self.p.extra_acked_gain);
        if self.p.extra_acked_max == 0 {
            return extra;
        }
        extra.min(wide::mul_shr(self.bw(), self.p.extra_acked_max.into(), BW_SHIFT))
    }
}
