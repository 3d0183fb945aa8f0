//! Round-trip time estimation with Linux's rules (`tcp_rtt_estimator`; RFC 6298 with a floor under the variance).
//! Exponential back-off is the host's task.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::minmax::MinMax;
use crate::units::{Span, Time};

/// Smallest allowance for variance in the time-out. Source: Linux `TCP_RTO_MIN` (HZ/5).
const RTO_MIN_US: u64 = 200_000;
/// Largest time-out. Source: Linux `TCP_RTO_MAX`.
const RTO_MAX_US: u64 = 120_000_000;
/// Time-out before any sample. Source: RFC 6298; Linux `TCP_TIMEOUT_INIT`.
const RTO_INITIAL_US: u64 = 1_000_000;
/// Window of the minimum. Source: Linux `tcp_min_rtt_wlen`.
const MIN_RTT_WINDOW_US: u64 = 300_000_000;

/// RTT estimator. All its arithmetic is Linux's fixed point.
#[derive(Clone, Debug, Default)]
pub struct RttEstimator {
    /// 8 · smoothed RTT, µs; 0 before the first sample.
    srtt8_us: u64,
    /// 4 · mean deviation, µs.
    mdev4_us: u64,
    mdev4_max_us: u64,
    rttvar4_us: u64,
    /// Sequence that ends the round; the deviation's maximum is taken once per round.
    round_end: u64,
    min: MinMax,
}

impl RttEstimator {
    /// Takes a sample into the minimum: the newest packet's, which the receiver did not delay.
    // spec: Linux tcp_update_rtt_min
    #[inline]
    pub fn on_min_sample(&mut self, now: Time, rtt: Span) {
        let rtt_us = rtt.as_micros().max(1);
        if self.min.get() == 0 {
            self.min.reset(now.as_micros(), rtt_us);
        } else {
            self.min.running_min(MIN_RTT_WINDOW_US, now.as_micros(), rtt_us);
        }
    }

    /// Takes a sample into mean and deviation: the oldest packet's. `una` and `next` are the oldest unacknowledged and
    /// the next new sequence, in any unit.
    #[inline]
    pub fn on_sample(&mut self, now: Time, rtt: Span, una: u64, next: u64) {
        let rtt_us = rtt.as_micros().max(1);
        if self.srtt8_us == 0 {
            if self.min.get() == 0 {
                self.min.reset(now.as_micros(), rtt_us);
            }
            self.srtt8_us = rtt_us << 3;
            self.mdev4_us = rtt_us << 1;
            self.rttvar4_us = self.mdev4_us.max(RTO_MIN_US);
            self.mdev4_max_us = self.rttvar4_us;
            self.round_end = next;
            return;
        }
        self.update_deviation(rtt_us);
        if una > self.round_end {
            if self.mdev4_max_us < self.rttvar4_us {
                self.rttvar4_us -= (self.rttvar4_us - self.mdev4_max_us) >> 2;
            }
            self.round_end = next;
            self.mdev4_max_us = RTO_MIN_US;
        }
    }

    fn update_deviation(&mut self, rtt_us: u64) {
        let mean = self.srtt8_us >> 3;
        let (error, falling) = (rtt_us.abs_diff(mean), rtt_us < mean);
        self.srtt8_us = (self.srtt8_us + rtt_us - mean).max(1);
        let deviation = self.mdev4_us >> 2;
        if error >= deviation {
            // A falling RTT should not inflate the time-out (Eifel): its weight is an eighth.
            let growth = error - deviation;
            self.mdev4_us += if falling { growth >> 3 } else { growth };
        } else {
            self.mdev4_us -= deviation - error;
        }
        if self.mdev4_us > self.mdev4_max_us {
            self.mdev4_max_us = self.mdev4_us;
            self.rttvar4_us = self.rttvar4_us.max(self.mdev4_max_us);
        }
    }

    /// Smoothed RTT; `None` before the first sample.
    pub const fn smoothed(&self) -> Option<Span> {
        // No sample exceeds what 64 bits of nanoseconds hold, and neither does their mean.
        if self.srtt8_us == 0 { None } else { Some(Span::nanos((self.srtt8_us >> 3).wrapping_mul(1_000))) }
    }

    /// Smoothed RTT with its full precision, an eighth of a microsecond; `None` before the first sample.
    pub const fn smoothed_exactly(&self) -> Option<Span> {
        if self.srtt8_us == 0 { None } else { Some(Span::nanos(self.srtt8_us.saturating_mul(125))) }
    }

    /// Smallest RTT of the last five minutes; `None` before the first sample.
    pub const fn min(&self) -> Option<Span> {
        if self.srtt8_us == 0 { None } else { Some(Span::micros(self.min.get())) }
    }

    /// The same in µs; 0 before the first sample.
    #[inline]
    pub(crate) const fn min_us(&self) -> u64 {
        if self.srtt8_us == 0 { 0 } else { self.min.get() }
    }

    /// The retransmission time-out without back-off.
    pub fn rto(&self) -> Span {
        if self.srtt8_us == 0 {
            return Span::micros(RTO_INITIAL_US);
        }
        Span::micros(((self.srtt8_us >> 3) + self.rttvar4_us).min(RTO_MAX_US))
    }

    /// The largest time-out that back-off may reach.
    pub const RTO_MAX: Span = Span::micros(RTO_MAX_US);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_any_sample_the_time_out_is_one_second() {
        assert_eq!(RttEstimator::default().rto(), Span::secs(1));
    }

    #[test]
    fn a_constant_rtt_leaves_a_time_out_of_rtt_plus_200_ms() {
        let mut rtt = RttEstimator::default();
        for i in 0..1000 {
            rtt.on_sample(Time::micros(i * 40_000), Span::millis(40), i * 10, i * 10 + 10);
        }
        assert_eq!(rtt.smoothed(), Some(Span::millis(40)));
        let rto_ms = rtt.rto().as_micros() / 1000;
        assert!((240..=245).contains(&rto_ms), "{rto_ms}");
    }

    #[test]
    fn the_minimum_expires_after_five_minutes() {
        let mut rtt = RttEstimator::default();
        rtt.on_sample(Time::ZERO, Span::millis(10), 0, 1);
        rtt.on_min_sample(Time::nanos(0) + Span::secs(100), Span::millis(30));
        assert_eq!(rtt.min(), Some(Span::millis(10)));
        rtt.on_min_sample(Time::nanos(0) + Span::secs(301), Span::millis(30));
        assert_eq!(rtt.min(), Some(Span::millis(30)));
    }
}
