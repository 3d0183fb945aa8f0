//! BBRv3's allowance for aggregated ACKs: how much more is acknowledged than the bandwidth estimate explains.
//! In: volumes delivered over an epoch. Out: `extra_acked`. Never: an influence on the bandwidth estimate.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{BW_UNIT, Bbr3, Sample, scaled};
use crate::MinMax;

/// An epoch that delivered this many packets ends. Source: Linux `bbr_ack_epoch_acked_reset_thresh`.
const EPOCH_ACKED_RESET: u64 = 1 << 20;

/// The epoch and the filter: the draft's windowed maximum, or the kernel's two buckets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    interval_start_us: u64,
    pub(super) delivered: u64,
    filter: MinMax,
    bucket: [u64; 2],
    rounds: u32,
    /// Draft: `BBR.extra_acked`.
    pub(super) extra_acked: u64,
}

impl Aggregation {
    pub(super) const fn new(now_us: u64) -> Self {
        Self {
            interval_start_us: now_us,
            delivered: 0,
            filter: MinMax::EMPTY,
            bucket: [0; 2],
            rounds: 0,
            extra_acked: 0,
        }
    }

    pub(super) const fn restart(&mut self, now_us: u64) {
        self.interval_start_us = now_us;
        self.delivered = 0;
    }
}

impl Bbr3 {
    // spec: #bbrextraacked UpdateACKAggregation; Linux bbr_update_ack_aggregation
    pub(super) fn update_ack_aggregation(&mut self, rs: &Sample<'_>) {
        if self.p.extra_acked_gain == 0 || !rs.has_data || rs.newly_acked == 0 {
            return;
        }
        let bw = self.bw();
        let epoch = &mut self.aggregation;
        let interval_us = rs.ack.delivered_time_us.saturating_sub(epoch.interval_start_us);
        let mut expected = bw.saturating_mul(interval_us) / BW_UNIT;
        let is_long = self.edition.is_kernel() && epoch.delivered.saturating_add(rs.newly_acked) >= EPOCH_ACKED_RESET;
        if epoch.delivered <= expected || is_long {
            epoch.restart(rs.ack.delivered_time_us);
            expected = 0;
        }
        epoch.delivered = epoch.delivered.saturating_add(rs.newly_acked);
        let window = if self.full_bw_reached { self.p.extra_acked_filter_len } else { self.p.extra_acked_startup_len };
        if self.edition.is_kernel() {
            epoch.delivered = epoch.delivered.min(EPOCH_ACKED_RESET - 1);
            let extra = epoch.delivered.saturating_sub(expected).min(self.cwnd);
            self.take_into_buckets(extra, window);
            return;
        }
        let extra = epoch.delivered.saturating_sub(expected).min(self.cwnd);
        // Within a round only a value among the three best changes the draft's filter.
        if self.rounds.start || extra >= epoch.filter.third() {
            epoch.extra_acked = epoch.filter.running_max(u64::from(window), self.rounds.count, extra);
        }
    }

    /// Two buckets of `window` rounds each.
    const fn take_into_buckets(&mut self, extra: u64, window: u32) {
        let filter = &mut self.aggregation;
        if self.rounds.start {
            filter.rounds += 1;
            if filter.rounds >= window {
                filter.rounds = 0;
                filter.bucket = [filter.bucket[1], 0];
            }
        }
        if extra > filter.bucket[1] {
            filter.bucket[1] = extra;
        }
        filter.extra_acked = if filter.bucket[0] > filter.bucket[1] { filter.bucket[0] } else { filter.bucket[1] };
    }

    /// Volume to allow beyond the BDP.
    // spec: #computing-bbrmaxinflight UpdateMaxInflight; Linux bbr_ack_aggregation_cwnd, which caps it by time
    pub(super) fn extra_acked(&self) -> u64 {
        let extra = scaled(self.aggregation.extra_acked, self.p.extra_acked_gain);
        if self.p.extra_acked_max == 0 {
            return extra;
        }
        extra.min(self.bw().saturating_mul(u64::from(self.p.extra_acked_max)) / BW_UNIT)
    }
}
