//! BBRv1's bandwidth: rounds, the windowed maximum, and the long-term estimate that detects policers.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::hooks::{Hooks, NewRate};
use super::{BW_UNIT, Bbr1, Mode};
use crate::event::Ack;
use crate::wide;

/// The longest sampling interval, as a multiple of the shortest. Source: Linux `bbr_lt_bw_sampling` (4 · min_rtts).
const LT_INTERVAL_MAX: u32 = 4;

/// Long-term bandwidth sampling (the kernel's `lt_*`).
#[derive(Clone, Copy, Debug)]
pub(super) struct LongTerm {
    pub(super) bw: u64,
    pub(super) in_use: bool,
    pub(super) is_sampling: bool,
    pub(super) round_count: u32,
    pub(super) last_stamp_ms: u64,
    pub(super) last_delivered: u64,
    pub(super) last_lost: u64,
}

impl LongTerm {
    pub(super) const EMPTY: Self = Self {
        bw: 0,
        in_use: false,
        is_sampling: false,
        round_count: 0,
        last_stamp_ms: 0,
        last_delivered: 0,
        last_lost: 0,
    };

    pub(super) const fn in_use(&self) -> bool {
        self.in_use
    }

    pub(super) const fn begin_interval(&mut self, delivered_time_us: u64, delivered: u64, lost: u64) {
        self.last_stamp_ms = delivered_time_us / 1_000;
        self.last_delivered = delivered;
        self.last_lost = lost;
        self.round_count = 0;
    }

    // spec: Linux bbr_reset_lt_bw_sampling
    pub(super) const fn reset(&mut self, ack: &Ack) {
        self.bw = 0;
        self.in_use = false;
        self.is_sampling = false;
        self.begin_interval(ack.delivered_time_us, ack.delivered, ack.lost);
    }
}

impl<V: Hooks> Bbr1<V> {
    /// The bandwidth in use, packets/µs · 2^24.
    // spec: Linux bbr_bw
    #[inline]
    pub(super) fn bw(&self) -> u64 {
        if self.lt.in_use { self.lt.bw } else { self.path_bw() }
    }

    /// The bandwidth without the policer's rate: the windowed maximum, or a variant's replacement for it.
    // spec: Linux bbr_max_bw
    #[inline]
    pub(super) fn path_bw(&self) -> u64 {
        self.part.bandwidth(self.max_bw.get(), self.full_bw_reached)
    }

    /// Updates rounds and bandwidth; true if the ACK brought a rate.
    // spec: Linux bbr_update_bw
    #[inline]
    pub(super) fn update_bw(&mut self, ack: &Ack) -> bool {
        self.rounds.start = false;
        let (Some(delivered), Some(interval_us)) = (ack.rs.delivered, ack.rs.interval_us) else {
            return false;
        };
        self.rounds.update(ack.rs.prior_delivered, ack.delivered);
        if self.rounds.start {
            self.packet_conservation = false;
        }
        self.lt_bw_sampling(ack, ack.rs.losses > 0, ack.rs.is_app_limited);
        let bw = wide::times::<BW_UNIT>(delivered) / interval_us.max(1);
        if !ack.rs.is_app_limited || bw >= self.max_bw.get() {
            self.max_bw.running_max(u64::from(self.p.bw_window), self.rounds.count, bw);
        }
        self.part.on_rate(&NewRate {
            bw,
            max: self.max_bw.get(),
            pipe_full: self.full_bw_reached,
            round: self.rounds.count,
            ack,
        });
        true
    }

    /// Detects a policer by a steady rate with heavy loss over several rounds; its rate is then used without probing.
    /// A time-out counts as an ACK with losses.
    // spec: Linux bbr_lt_bw_sampling
    pub(super) fn lt_bw_sampling(&mut self, ack: &Ack, has_losses: bool, is_app_limited: bool) {
        if self.p.lt_bw == 0 {
            return;
        }
        if self.lt.in_use {
            self.count_lt_rounds_in_use(ack);
            return;
        }
        if !self.lt.is_sampling {
            // The interval begins at a loss: before it, a policer's token bucket may have been full.
            if !has_losses {
                return;
            }
            self.lt.begin_interval(ack.delivered_time_us, ack.delivered, ack.lost);
            self.lt.is_sampling = true;
        }
        if is_app_limited {
            self.lt.reset(ack);
            return;
        }
        if self.rounds.start {
            self.lt.round_count += 1;
        }
        if self.lt.round_count < self.p.lt_interval_min {
            return;
        }
        if self.lt.round_count > LT_INTERVAL_MAX * self.p.lt_interval_min {
            self.lt.reset(ack);
            return;
        }
        // The interval ends at a loss, when the token bucket is empty again.
        if !has_losses {
            return;
        }
        self.end_lt_interval(ack);
    }

    fn count_lt_rounds_in_use(&mut self, ack: &Ack) {
        if !matches!(self.mode, Mode::ProbeBw { .. }) || !self.rounds.start {
            return;
        }
        self.lt.round_count += 1;
        if self.lt.round_count >= self.p.lt_bw_max {
            self.lt.reset(ack);
            self.enter_probe_bw(ack.delivered_time_us);
        }
    }

    pub(super) fn end_lt_interval(&mut self, ack: &Ack) {
        let lost = ack.lost.saturating_sub(self.lt.last_lost);
        let delivered = ack.delivered.saturating_sub(self.lt.last_delivered);
        if delivered == 0
            || wide::times::<256>(lost) < wide::saturating_mul(u64::from(self.p.lt_loss_threshold), delivered)
        {
            return;
        }
        let elapsed_ms = (ack.delivered_time_us / 1_000).saturating_sub(self.lt.last_stamp_ms);
        if elapsed_ms < 1 {
            return;
        }
        if elapsed_ms >= u64::from(u32::MAX) / 1_000 {
            self.lt.reset(ack);
            return;
        }
        let bw = wide::times::<BW_UNIT>(delivered) / (elapsed_ms * 1_000).max(1);
        self.lt_bw_interval_done(bw, ack);
    }

    /// Ends an interval; two consistent intervals indicate a policer.
    // spec: Linux bbr_lt_bw_interval_done
    pub(super) fn lt_bw_interval_done(&mut self, bw: u64, ack: &Ack) {
        if self.lt.bw > 0 {
            let difference = bw.abs_diff(self.lt.bw);
            let close =
                wide::times::<256>(difference) <= wide::saturating_mul(u64::from(self.p.lt_bw_ratio), self.lt.bw);
            let margin = self.p.pacing_margin;
            if close || self.rate_bytes_per_sec(difference, super::UNIT, margin) <= u64::from(self.p.lt_bw_diff) {
                self.lt.bw = bw.midpoint(self.lt.bw);
                self.lt.in_use = true;
                self.pacing_gain = super::UNIT;
                self.lt.round_count = 0;
                return;
            }
        }
        self.lt.bw = bw;
        self.lt.begin_interval(ack.delivered_time_us, ack.delivered, ack.lost);
    }
}
