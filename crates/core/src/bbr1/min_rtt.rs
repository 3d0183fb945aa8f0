//! BBRv1's RTprop filter, and ProbeRTT, which keeps it accurate.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::hooks::{AckContext, Base, Hooks};
use super::{Bbr1, Mode};
use crate::event::Ack;
use crate::shared::last_moment_of;
use crate::state::Cause;
use crate::units::{MICROS_PER_SEC, Time};
use crate::wide;

impl<V: Hooks> Bbr1<V> {
    /// The kernel's tick count, to which these stamps are rounded: the host's own, else by `now`; microseconds where `hz` is 0.
    pub(super) const fn tick(&self, now: Time, host: Option<u64>) -> u64 {
        match host {
            Some(tick) => tick,
            None if self.p.hz == 0 => now.as_micros(),
            None => wide::saturating_mul(now.as_micros(), self.p.hz as u64) / MICROS_PER_SEC,
        }
    }

    /// A span in ticks, rounded up as `msecs_to_jiffies` does.
    pub(super) const fn ticks(&self, span_us: u32) -> u64 {
        if self.p.hz == 0 {
            return span_us as u64;
        }
        (span_us as u64 * self.p.hz as u64).div_ceil(MICROS_PER_SEC)
    }

    /// Restarts the filter's window at this tick, and computes its end by the flow's own clock once rather than at each ACK.
    pub(super) const fn stamp_min_rtt(&mut self, tick: u64) {
        self.min_rtt_tick = tick;
        self.min_rtt_until = last_moment_of(tick.saturating_add(self.min_rtt_window_ticks), self.p.hz);
    }

    #[inline]
    fn has_min_rtt_expired(&self, ack: &Ack) -> bool {
        match ack.tick {
            Some(tick) => tick > self.min_rtt_tick + self.min_rtt_window_ticks,
            None => ack.now > self.min_rtt_until,
        }
    }

    // spec: Linux bbr_update_min_rtt
    pub(super) fn update_min_rtt(&mut self, ack: &Ack) {
        let expired = self.has_min_rtt_expired(ack);
        if let Some(rtt_us) = ack.rs.rtt_us {
            let of_part = self.part.min_rtt(ack.now.as_micros(), rtt_us);
            let is_new = match of_part {
                Some(min) => rtt_us <= min,
                None if self.part.base() == Base::Linux6_12 => {
                    self.min_rtt_us.is_none_or(|min| rtt_us < min) || (expired && !ack.rs.is_ack_delayed)
                }
                None => expired || self.min_rtt_us.is_none_or(|min| rtt_us <= min),
            };
            if is_new {
                self.stamp_min_rtt(self.tick(ack.now, ack.tick));
                self.min_rtt_us = Some(rtt_us);
            }
            self.min_rtt_us = of_part.or(self.min_rtt_us);
        }
        self.part.observe(&self.seen(ack));
        if self.part.wants_probe_rtt(expired) && !self.idle_restart && !matches!(self.mode, Mode::ProbeRtt { .. }) {
            // As in the kernel, the mode comes first, so that a window saved in recovery is kept if it is larger.
            self.enter(Mode::ProbeRtt { done_at: None, round_done: false });
            self.cause = if expired { Cause::MinRttExpired } else { Cause::Queue };
            self.part.enter_probe_rtt(ack);
            self.save_cwnd();
        }
        self.mark_app_limited = matches!(self.mode, Mode::ProbeRtt { .. });
        if self.mark_app_limited {
            let tick = self.tick(ack.now, ack.tick);
            match self.part.is_drained(&self.seen(ack)) {
                None => self.hold_probe_rtt(ack, tick),
                Some(false) => {}
                Some(true) => self.finish_probe_rtt(tick, ack.delivered_time_us),
            }
        }
        if ack.rs.delivered.is_some_and(|delivered| delivered > 0) {
            self.idle_restart = false;
        }
    }

    /// The view of an ACK passed to a variant's part.
    #[inline]
    fn seen<'a>(&self, ack: &'a Ack) -> AckContext<'a> {
        let phase = match self.mode {
            Mode::ProbeBw { phase, .. } => Some(phase),
            _ => None,
        };
        AckContext {
            ack,
            min_rtt_us: self.min_rtt_us,
            bw: self.bw(),
            round: self.rounds.count,
            phase,
            in_probe_rtt: matches!(self.mode, Mode::ProbeRtt { .. }),
        }
    }

    /// Starts both waits, 200 ms and a round, once the queue has drained.
    fn hold_probe_rtt(&mut self, ack: &Ack, tick: u64) {
        let Mode::ProbeRtt { done_at, round_done } = &mut self.mode else {
            return;
        };
        match done_at {
            None if ack.in_flight <= u64::from(self.p.cwnd_min) => {
                *round_done = false;
                self.rounds.begin(ack.delivered);
                let hold = self.ticks(self.p.probe_rtt_time);
                self.mode = Mode::ProbeRtt { done_at: Some(tick + hold), round_done: false };
            }
            None => {}
            Some(_) => {
                *round_done |= self.rounds.start;
                if *round_done {
                    self.check_probe_rtt_done(tick, ack.delivered_time_us);
                }
            }
        }
    }

    // spec: Linux bbr_check_probe_rtt_done
    pub(super) fn check_probe_rtt_done(&mut self, tick: u64, delivered_time_us: u64) {
        let Mode::ProbeRtt { done_at: Some(done_at), .. } = self.mode else {
            return;
        };
        if tick <= done_at {
            return;
        }
        self.finish_probe_rtt(tick, delivered_time_us);
    }

    fn finish_probe_rtt(&mut self, tick: u64, delivered_time_us: u64) {
        self.stamp_min_rtt(tick);
        if self.part.restores_after_probe_rtt() {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
        }
        self.leave_probe_rtt(delivered_time_us);
    }
}
