//! BBRv3's minimum RTT: a filter of ten seconds, and one of five that times ProbeRTT.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::rules::{EqualRtt, Rules};
use super::{Bbr3, INFINITY};
use crate::event::{Ack, Init};
use crate::shared::last_moment_of;
use crate::units::{MICROS_PER_SEC, Time};
use crate::wide;

/// Both filters. Stamps and lengths are in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    /// Draft: `BBR.min_rtt`, µs; INFINITY for none.
    pub(super) min_rtt_us: u64,
    /// Draft: `BBR.min_rtt_stamp`.
    pub(super) min_rtt_stamp: u64,
    min_rtt_filter_len: u64,
    /// Draft: `BBR.probe_rtt_min_delay`, µs.
    pub(super) probe_rtt_min_delay_us: u64,
    /// Draft: `BBR.probe_rtt_min_stamp`.
    pub(super) probe_rtt_min_stamp: u64,
    probe_rtt_interval: u64,
    /// Draft: `BBR.probe_rtt_expired`.
    pub(super) probe_rtt_expired: bool,
    /// Until this time, by the flow's own clock, a sample that is no lower changes nothing.
    pub(super) quiet_until: Time,
}

impl MinRtt {
    pub(super) const NONE: Self = Self {
        min_rtt_us: INFINITY,
        min_rtt_stamp: 0,
        min_rtt_filter_len: 0,
        probe_rtt_min_delay_us: INFINITY,
        probe_rtt_min_stamp: 0,
        probe_rtt_interval: 0,
        probe_rtt_expired: false,
        quiet_until: Time::ZERO,
    };

    /// Initialises the filters with the RTT of the handshake.
    pub(super) fn init(&mut self, init: &Init, tick: u64, interval: u64, filter_len: u64) {
        self.min_rtt_us = init.min_rtt.or(init.srtt).map_or(INFINITY, |rtt| rtt.as_micros().max(1));
        self.probe_rtt_min_delay_us = self.min_rtt_us;
        self.min_rtt_stamp = tick;
        self.probe_rtt_min_stamp = tick;
        self.probe_rtt_interval = interval;
        self.min_rtt_filter_len = filter_len;
        self.probe_rtt_expired = false;
        self.quiet_until = Time::ZERO;
    }

    // spec: #probertt-logic UpdateMinRTT; Linux bbr_update_min_rtt, which rejects a delayed ACK once its filter has expired
    fn update<R: Rules>(&mut self, tick: u64, rtt_us: Option<u64>, is_ack_delayed: bool) {
        self.probe_rtt_expired = tick > self.probe_rtt_min_stamp.wrapping_add(self.probe_rtt_interval);
        if let Some(rtt_us) = rtt_us.filter(|us| *us <= self.probe_rtt_min_delay_us || self.probe_rtt_expired) {
            let is_believed = R::BELIEVES_DELAYED_ACKS || !is_ack_delayed;
            // v2alpha also renews the stamp of an equal one.
            let is_equal = matches!(R::EQUAL_RTT, EqualRtt::RenewsBothFilters) && rtt_us == self.probe_rtt_min_delay_us;
            if rtt_us < self.probe_rtt_min_delay_us || is_equal || (self.probe_rtt_expired && is_believed) {
                self.probe_rtt_min_delay_us = rtt_us;
                self.probe_rtt_min_stamp = tick;
            }
        }
        let min_rtt_expired = tick > self.min_rtt_stamp.wrapping_add(self.min_rtt_filter_len);
        // Linux also renews the stamp of an equal one.
        let is_equal = !matches!(R::EQUAL_RTT, EqualRtt::KeepsStamp) && self.probe_rtt_min_delay_us == self.min_rtt_us;
        if self.probe_rtt_min_delay_us < self.min_rtt_us || is_equal || min_rtt_expired {
            self.min_rtt_us = self.probe_rtt_min_delay_us;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }

    /// True if this RTT sample changes nothing: it is neither lower nor an equal one that renews a stamp.
    #[inline]
    fn changes_nothing<R: Rules>(&self, ack: &Ack) -> bool {
        let renews = matches!(R::EQUAL_RTT, EqualRtt::RenewsBothFilters);
        let is_lower = match ack.rs.rtt_us {
            Some(us) => us < self.probe_rtt_min_delay_us || (renews && us == self.probe_rtt_min_delay_us),
            None => false,
        };
        ack.now <= self.quiet_until && !is_lower && ack.tick.is_none()
    }

    /// Sets the stamp when something other than an RTT sample renews it.
    pub(super) const fn set_probe_rtt_min_stamp(&mut self, tick: u64) {
        self.probe_rtt_min_stamp = tick;
        self.quiet_until = Time::ZERO;
    }
}

impl<R: Rules> Bbr3<R> {
    /// The kernel's tick count, to which these stamps are rounded: the host's own, else by `now`; microseconds where `hz` is 0.
    #[inline]
    pub(super) const fn tick(&self, now: Time, host: Option<u64>) -> u64 {
        if self.p.hz == 0 {
            return now.as_micros();
        }
        match host {
            Some(tick) => tick,
            None => wide::saturating_mul(now.as_micros(), self.p.hz as u64) / MICROS_PER_SEC,
        }
    }

    /// A span in ticks, rounded up as `msecs_to_jiffies` does.
    pub(super) const fn ticks(&self, span_us: u32) -> u64 {
        if self.p.hz == 0 { span_us as u64 } else { (span_us as u64 * self.p.hz as u64).div_ceil(MICROS_PER_SEC) }
    }

    // spec: #probertt-logic UpdateMinRTT
    #[inline]
    pub(super) fn update_min_rtt(&mut self, ack: &Ack) {
        if self.min_rtt.changes_nothing::<R>(ack) {
            self.min_rtt.probe_rtt_expired = false;
        } else {
            self.take_rtt(ack);
        }
    }

    #[inline(never)]
    fn take_rtt(&mut self, ack: &Ack) {
        let tick = self.tick(ack.now, ack.tick);
        let filters = &mut self.min_rtt;
        filters.update::<R>(tick, ack.rs.rtt_us, ack.rs.is_ack_delayed);
        let short = filters.probe_rtt_min_stamp.saturating_add(filters.probe_rtt_interval);
        let long = filters.min_rtt_stamp.saturating_add(filters.min_rtt_filter_len);
        filters.quiet_until = last_moment_of(short.min(long), self.p.hz);
    }
}
