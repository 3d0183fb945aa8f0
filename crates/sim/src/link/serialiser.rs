//! The serialiser: sends bits in series at a given rate.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Rate, Span, Time};

/// Units of work per byte. A unit is the amount that a rate of 1 bit/s sends in a nanosecond.
const WORK_PER_BYTE: u64 = 8 * NANOS_PER_SEC;

/// Shortest packet, in nanoseconds, that takes a whole number of them: rounding changes its rate by at most 1 in 10,000. Ours.
const SHORTEST_WHOLE: u64 = 10_000;

/// Sends one packet after another. A packet takes a whole number of nanoseconds, rounded down, as in Linux's HTB
/// (`psched_l2t_ns`), so that a departure and the arrival that it clocks coincide exactly. Packets shorter than
/// [`SHORTEST_WHOLE`] are rounded up, and `credit` carries the rounding over to the next one, so that a busy link loses no
/// capacity to it (at 100 Gbit/s it would be .7 %).
#[derive(Clone, Debug)]
pub(super) struct Serialiser {
    rate: Rate,
    /// Work that fits between the exact and the rounded end of the packet in service; below one nanosecond's.
    credit: u64,
    /// End of the packet in service; [`Time::NEVER`] without one, or at rate zero.
    end: Time,
    /// Remaining work of the packet in service, valid while the rate is zero.
    stalled: u64,
    /// Size, nanoseconds and remainder of the last division, cached because most packets have one size.
    memo: (u32, u64, u64),
}

impl Serialiser {
    pub fn new(rate: Rate) -> Self {
        Self { rate, credit: 0, end: Time::NEVER, stalled: 0, memo: (0, 0, 0) }
    }

    pub fn rate(&self) -> Rate {
        self.rate
    }

    #[inline]
    pub fn end(&self) -> Time {
        self.end
    }

    /// Records that no packet is in service from now on.
    #[inline]
    pub fn rest(&mut self) {
        self.end = Time::NEVER;
        self.credit = 0;
        self.stalled = 0;
    }

    /// Starts a packet at `now`, which is the end of the previous one or follows a [`Self::rest`]. Returns its end.
    #[inline]
    pub fn start(&mut self, now: Time, wire_bytes: u32) -> Time {
        if self.memo.0 != wire_bytes {
            self.divide(wire_bytes);
        }
        let (_, nanos, rest) = self.memo;
        if self.rate.as_bits_per_sec() == 0 {
            self.stalled = u64::from(wire_bytes) * WORK_PER_BYTE;
            self.end = Time::NEVER;
        } else if rest > self.credit {
            self.end = now + Span::nanos(nanos + 1);
            self.credit = self.rate.as_bits_per_sec() - (rest - self.credit);
        } else {
            self.end = now + Span::nanos(nanos);
            self.credit -= rest;
        }
        self.end
    }

    /// Changes the rate; the remaining bits of the packet in service (`busy`) leave at the new one.
    pub fn set_rate(&mut self, now: Time, rate: Rate, busy: bool) {
        if busy {
            let left = self.work_left(now);
            self.stalled = left;
            self.end = if rate.as_bits_per_sec() == 0 {
                Time::NEVER
            } else {
                now + Span::nanos(left.div_ceil(rate.as_bits_per_sec()))
            };
            let rest = left.checked_rem(rate.as_bits_per_sec()).unwrap_or(0);
            self.credit = if rest == 0 { 0 } else { rate.as_bits_per_sec() - rest };
        }
        self.rate = rate;
        self.memo = (0, 0, 0);
    }

    /// Resumes service of a packet with `bytes` left to send.
    pub fn resume(&mut self, now: Time, bytes: u64) {
        let rate = self.rate;
        self.rate = Rate::bits_per_sec(0);
        self.stalled = bytes * WORK_PER_BYTE;
        self.set_rate(now, rate, true);
    }

    fn work_left(&self, now: Time) -> u64 {
        if self.rate.as_bits_per_sec() == 0 {
            return self.stalled;
        }
        // At most the packet's own work, which fits.
        self.end.since(now).as_nanos().saturating_mul(self.rate.as_bits_per_sec()).saturating_sub(self.credit)
    }

    #[cold]
    fn divide(&mut self, wire_bytes: u32) {
        debug_assert!(wire_bytes < 1 << 31, "a packet of {wire_bytes} bytes is no packet");
        let work = u64::from(wire_bytes) * WORK_PER_BYTE;
        let rate = self.rate.as_bits_per_sec().max(1);
        let (nanos, rest) = (work / rate, work % rate);
        self.memo = (wire_bytes, nanos, if nanos < SHORTEST_WHOLE { rest } else { 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_takes_its_bits_over_the_rate() {
        let mut serialiser = Serialiser::new(Rate::bits_per_sec(10_000_000));
        assert_eq!(serialiser.start(Time::nanos(7), 1514), Time::nanos(7 + 1_211_200));
    }

    #[test]
    fn every_packet_of_a_slow_link_takes_the_same_time() {
        let rate = Rate::bits_per_sec(26_195_000);
        let mut serialiser = Serialiser::new(rate);
        let mut now = Time::ZERO;
        for packets in 1..=1_000 {
            now = serialiser.start(now, 1514);
            assert_eq!(now, Time::nanos(packets * 462_378), "462,378.99 ns rounded down");
        }
    }

    #[test]
    fn rounding_does_not_add_up_over_a_busy_period() {
        let mut serialiser = Serialiser::new(Rate::bits_per_sec(100_000_000_000));
        let mut now = Time::ZERO;
        for _ in 0..1_000_000 {
            now = serialiser.start(now, 1514);
        }
        assert_eq!(now, Time::nanos(121_120_000));
    }

    #[test]
    fn mixed_sizes_end_at_the_exact_sum_rounded_up() {
        let rate = Rate::bits_per_sec(7_777_777_777);
        let mut serialiser = Serialiser::new(rate);
        let (mut now, mut bytes) = (Time::ZERO, 0);
        for i in 0..10_000 {
            let size = 64 + (i * 37) % 1450;
            now = serialiser.start(now, size);
            bytes += u64::from(size);
            assert_eq!(now, Time::ZERO + rate.time_for(bytes));
        }
    }

    #[test]
    fn a_rate_change_mid_packet_sends_the_rest_at_the_new_rate() {
        let mut serialiser = Serialiser::new(Rate::bits_per_sec(8_000));
        assert_eq!(serialiser.start(Time::ZERO, 1000), Time::nanos(NANOS_PER_SEC));
        serialiser.set_rate(Time::nanos(NANOS_PER_SEC / 4), Rate::bits_per_sec(16_000), true);
        assert_eq!(serialiser.end(), Time::nanos(NANOS_PER_SEC / 4 + 375_000_000));
    }

    #[test]
    fn a_rate_change_keeps_the_fraction_of_a_nanosecond() {
        let mut serialiser = Serialiser::new(Rate::bits_per_sec(3_000_000_000));
        serialiser.start(Time::ZERO, 125);
        serialiser.set_rate(Time::nanos(101), Rate::bits_per_sec(7_000_000_000), true);
        // 303 bits are sent, 697 leave at 7 bit/ns, then 4000 more: exactly 671 ns. Without the fraction it would be 672.
        for _ in 0..4 {
            serialiser.start(serialiser.end(), 125);
        }
        assert_eq!(serialiser.end(), Time::nanos(101 + 671));
    }

    #[test]
    fn a_packet_waits_out_a_rate_of_zero_and_goes_on_where_it_stopped() {
        let mut serialiser = Serialiser::new(Rate::bits_per_sec(8_000));
        serialiser.start(Time::ZERO, 1000);
        serialiser.set_rate(Time::nanos(NANOS_PER_SEC / 2), Rate::bits_per_sec(0), true);
        assert_eq!(serialiser.end(), Time::NEVER);
        serialiser.set_rate(Time::nanos(10 * NANOS_PER_SEC), Rate::bits_per_sec(8_000), true);
        assert_eq!(serialiser.end(), Time::nanos(10 * NANOS_PER_SEC + NANOS_PER_SEC / 2));
    }
}
