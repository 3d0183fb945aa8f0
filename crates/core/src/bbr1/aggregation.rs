//! BBRv1's allowance for aggregated ACKs: the volume acknowledged beyond what the bandwidth estimate explains.
//! It has no influence on the bandwidth estimate.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::hooks::Hooks;
use super::{BW_UNIT, Bbr1};
use crate::event::Ack;
use crate::wide;

/// An epoch that delivered this many packets ends, so that counts stay small. Source: Linux `bbr_ack_epoch_acked_reset_thresh`.
const EPOCH_ACKED_RESET: u64 = 1 << 20;

/// The filter: two buckets of `extra_acked_window` rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    pub(super) epoch_start_us: u64,
    pub(super) epoch_acked: u64,
    pub(super) bucket: [u32; 2],
    pub(super) current: usize,
    pub(super) rounds: u32,
}

impl Aggregation {
    pub(super) const fn new(now_us: u64) -> Self {
        Self { epoch_start_us: now_us, epoch_acked: 0, bucket: [0; 2], current: 0, rounds: 0 }
    }

    pub(super) const fn restart_epoch(&mut self, now_us: u64) {
        self.epoch_start_us = now_us;
        self.epoch_acked = 0;
    }

    pub(super) fn extra_acked(&self) -> u32 {
        self.bucket[0].max(self.bucket[1])
    }
}

impl<V: Hooks> Bbr1<V> {
    /// Updates the allowance from an ACK with a rate sample.
    // spec: Linux bbr_update_ack_aggregation
    #[inline]
    pub(super) fn update_ack_aggregation(&mut self, ack: &Ack) {
        if self.p.extra_acked_gain == 0 || ack.rs.acked_sacked == 0 {
            return;
        }
        let bw = self.bw();
        let filter = &mut self.aggregation;
        if self.rounds.start {
            filter.rounds += 1;
            if filter.rounds >= self.p.extra_acked_window {
                filter.rounds = 0;
                filter.current ^= 1;
                filter.bucket[filter.current & 1] = 0;
            }
        }
        let epoch_us = ack.delivered_time_us.saturating_sub(filter.epoch_start_us);
        let mut expected = wide::saturating_mul(bw, epoch_us) / BW_UNIT;
        if filter.epoch_acked <= expected || filter.epoch_acked + ack.rs.acked_sacked >= EPOCH_ACKED_RESET {
            filter.restart_epoch(ack.delivered_time_us);
            expected = 0;
        }
        filter.epoch_acked = (filter.epoch_acked + ack.rs.acked_sacked).min(EPOCH_ACKED_RESET - 1);
        let extra = (filter.epoch_acked - expected).min(u64::from(self.cwnd)) as u32;
        let slot = &mut filter.bucket[filter.current & 1];
        *slot = (*slot).max(extra);
    }

    /// Packets to allow beyond the cwnd target.
    // spec: Linux bbr_ack_aggregation_cwnd
    pub(super) fn ack_aggregation_cwnd(&self) -> u64 {
        if self.p.extra_acked_gain == 0 || !self.full_bw_reached {
            return 0;
        }
        let cap = wide::saturating_mul(self.bw(), u64::from(self.p.extra_acked_max)) / BW_UNIT;
        let extra = (u64::from(self.p.extra_acked_gain) * u64::from(self.aggregation.extra_acked())) >> 8;
        extra.min(cap)
    }
}
