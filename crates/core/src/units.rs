//! Units as types: time, length of time and rate, each one integer with its unit in the name.
//! Each function documents its rounding.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

use crate::wide;

/// Nanoseconds in a second.
pub const NANOS_PER_SEC: u64 = 1_000_000_000;
/// Microseconds in a second.
pub const MICROS_PER_SEC: u64 = 1_000_000;

/// A point in time, in nanoseconds since the host's own time 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

/// A data rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Time {
    /// The host's time 0.
    pub const ZERO: Self = Self(0);
    /// Later than every event.
    pub const NEVER: Self = Self(u64::MAX);

    /// A point in time given in nanoseconds.
    pub const fn nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the host's time 0.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// A point in time given in microseconds.
    pub const fn micros(us: u64) -> Self {
        Self(wide::times::<1_000>(us))
    }

    /// Whole microseconds, rounded down, as Linux keeps its TCP clock (`tcp_mstamp`).
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// The time since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// A span of zero.
    pub const ZERO: Self = Self(0);

    /// A span given in nanoseconds.
    pub const fn nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// A span given in microseconds.
    pub const fn micros(us: u64) -> Self {
        Self(wide::times::<1_000>(us))
    }

    /// A span given in milliseconds.
    pub const fn millis(ms: u64) -> Self {
        Self(wide::times::<1_000_000>(ms))
    }

    /// A span given in seconds.
    pub const fn secs(s: u64) -> Self {
        Self(wide::times::<NANOS_PER_SEC>(s))
    }

    /// Whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

impl Rate {
    /// A rate given in bits per second.
    pub const fn bits_per_sec(bits: u64) -> Self {
        Self(bits)
    }

    /// Bits per second.
    pub const fn as_bits_per_sec(self) -> u64 {
        self.0
    }

    /// A rate given in bytes per second.
    pub const fn bytes_per_sec(bytes: u64) -> Self {
        Self(wide::times::<8>(bytes))
    }

    /// Whole bytes per second, rounded down, the unit of Linux's `sk_pacing_rate`.
    pub const fn as_bytes_per_sec(self) -> u64 {
        self.0 / 8
    }

    /// Time that `bytes` take at this rate, rounded up to a nanosecond; forever at a zero rate.
    pub const fn time_for(self, bytes: u64) -> Span {
        if self.0 == 0 {
            return Span(u64::MAX);
        }
        // 64 bits hold the product up to 2 GB; beyond that the widening costs little in comparison.
        if bytes < (1 << 31) {
            return Span((bytes * 8 * NANOS_PER_SEC).div_ceil(self.0));
        }
        Span(wide::mul_div_ceil(bytes, 8 * NANOS_PER_SEC, self.0))
    }

    /// The bytes that fit into `span` at this rate, rounded down.
    pub const fn bytes_in(self, span: Span) -> u64 {
        wide::mul_div(self.0, span.0, 8 * NANOS_PER_SEC)
    }
}

impl From<Duration> for Span {
    /// Exact up to 584 years; longer durations saturate.
    fn from(duration: Duration) -> Self {
        let whole = wide::saturating_mul(duration.as_secs(), NANOS_PER_SEC);
        Self(whole.saturating_add(duration.subsec_nanos().into()))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_nanos(span.0)
    }
}

impl From<Duration> for Time {
    /// The time this long after the host's time 0, as `Instant::elapsed` of that instant returns it.
    fn from(since_start: Duration) -> Self {
        Self(Span::from(since_start).0)
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub for Time {
    type Output = Span;
    fn sub(self, earlier: Self) -> Span {
        self.since(earlier)
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialisation_time_rounds_up_and_never_divides_by_zero() {
        assert_eq!(Rate(10_000_000).time_for(1514), Span(1_211_200));
        assert_eq!(Rate(3).time_for(1), Span(2_666_666_667));
        assert_eq!(Rate(0).time_for(1), Span(u64::MAX));
        assert_eq!(Rate(8).time_for(u64::MAX), Span(u64::MAX));
    }

    #[test]
    fn bytes_in_a_span_is_the_inverse_of_time_for() {
        let rate = Rate(10_000_000);
        assert_eq!(rate.bytes_in(rate.time_for(1514)), 1514);
    }

    #[test]
    fn spans_and_moments_convert_to_and_from_the_standard_duration() {
        let span = Span::micros(1_500_001);
        assert_eq!(Duration::from(span), Duration::from_micros(1_500_001));
        assert_eq!(Span::from(Duration::from(span)), span);
        assert_eq!(Time::from(Duration::from_millis(7)), Time::micros(7_000));
        assert_eq!(Span::from(Duration::MAX), Span(u64::MAX));
        assert_eq!(Span::from(Duration::from(Span(u64::MAX))), Span(u64::MAX));
    }

    #[test]
    fn the_span_to_a_later_time_is_zero() {
        assert_eq!(Time(5).since(Time(7)), Span::ZERO);
        assert_eq!(Time::NEVER + Span::secs(1), Time::NEVER);
    }
}
