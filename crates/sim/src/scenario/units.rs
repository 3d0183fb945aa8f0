//! Units as written in a scenario: `10mbit`, `40ms`, `64KiB`, `1.5bdp`, `1%`.
//! Every value parses back from its own text.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::str::FromStr;

use bbrlab_core::{NANOS_PER_SEC, Rate, Span, Time};

use super::text::{TextError, as_text, decimal, exact, float, split_unit};

/// Bytes on the wire of a full packet: 1500 bytes of IP plus an Ethernet header.
pub const PACKET_BYTES: u64 = 1514;

/// Smallest rate accepted: a byte per second.
const RATE_MIN: u64 = 8;
/// Largest rate accepted: 10 Tbit/s.
const RATE_MAX: u64 = 10_000_000_000_000;
/// Longest time accepted: 10^7 s, about four months.
const SECONDS_MAX: u64 = 10_000_000;
/// Largest volume accepted: 10^15 bytes.
const BYTES_MAX: u64 = 1_000_000_000_000_000;

/// A data rate in bits per second, written with a decimal prefix: `10mbit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BitRate(pub u64);

/// A length of time in nanoseconds: `40ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan(pub u64);

/// A volume in bytes: `64KiB`, `500MB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Volume(pub u64);

/// A share between 0 and 1: `1%`, `0.001`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Ratio(pub f64);

/// A queue limit as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BufferSize {
    /// Packets: `41p`.
    Packets(u64),
    /// Bytes: `64KiB`.
    Bytes(Volume),
    /// Multiples of rate times round-trip time: `1.5bdp`.
    Bdp(f64),
    /// Drain time at the link's rate: `250ms`.
    Drain(TimeSpan),
}

const RATES: [(&str, u64); 5] =
    [("tbit", 1_000_000_000_000), ("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];
const TIMES: [(&str, u64); 4] = [("s", NANOS_PER_SEC), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
/// Units of long times, accepted on input but never used for output.
const LONG_TIMES: [(&str, u64); 2] = [("h", 3_600 * NANOS_PER_SEC), ("min", 60 * NANOS_PER_SEC)];
const VOLUMES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, unit) = split_unit(text);
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    decimal(number, *scale)
}

/// Formats `value` exactly in the largest decimal unit in which it is at least 1.
fn largest_unit(value: u64, units: &[(&str, u64)]) -> String {
    let (name, unit) = units.iter().find(|(_, unit)| value >= *unit).unwrap_or(&units[0]);
    format!("{}{name}", exact(value, *unit))
}

impl FromStr for BitRate {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let lower = text.to_ascii_lowercase();
        let bits = scaled(lower.strip_suffix("/s").unwrap_or(&lower), &RATES).ok_or_else(|| {
            TextError(format!(
                "{text:?} is not a rate; write a number with bit, kbit, mbit, gbit or tbit, as in 10mbit"
            ))
        })?;
        if !(RATE_MIN..=RATE_MAX).contains(&bits) {
            return Err(TextError(format!("{text:?} is out of range; rates go from 8bit to 10tbit a second")));
        }
        Ok(Self(bits))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&largest_unit(self.0, &RATES))
    }
}

impl FromStr for TimeSpan {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let nanos = match text.trim() {
            "0" => 0,
            text => scaled(text, &TIMES).or_else(|| scaled(text, &LONG_TIMES)).ok_or_else(|| {
                TextError(format!("{text:?} is not a time; write a number with h, min, s, ms, us or ns, as in 40ms"))
            })?,
        };
        if nanos > SECONDS_MAX * NANOS_PER_SEC {
            return Err(TextError(format!("{text:?} is too long; at most 10000000s")));
        }
        Ok(Self(nanos))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&largest_unit(self.0, &TIMES))
    }
}

impl FromStr for Volume {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let bytes = scaled(text, &VOLUMES).ok_or_else(|| {
            TextError(format!(
                "{text:?} is not a volume; write a number with B, kB, MB, GB, KiB, MiB or GiB, as in 500MB"
            ))
        })?;
        if !(1..=BYTES_MAX).contains(&bytes) {
            return Err(TextError(format!("{text:?} is out of range; volumes go from 1B to 1000TB")));
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimal = largest_unit(self.0, &VOLUMES[4..]);
        let binary = VOLUMES[..4].iter().find(|(_, unit)| self.0 != 0 && self.0.is_multiple_of(*unit));
        match binary.map(|(name, unit)| format!("{}{name}", self.0 / unit)) {
            Some(binary) if binary.len() < decimal.len() => f.write_str(&binary),
            _ => f.write_str(&decimal),
        }
    }
}

impl Ratio {
    /// True if the text is a number, with or without a per cent sign; it may be out of range.
    pub fn is_written(text: &str) -> bool {
        Self::number(text).is_some()
    }

    fn number(text: &str) -> Option<f64> {
        match text.trim().strip_suffix('%') {
            Some(percent) => float(percent).map(|percent| percent / 100.0),
            None => float(text.trim()),
        }
    }
}

impl FromStr for Ratio {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        match Self::number(text) {
            Some(value) if (0.0..=1.0).contains(&value) => Ok(Self(value)),
            Some(_) => Err(TextError(format!("{text:?} is out of range; a share lies between 0% and 100%"))),
            None => Err(TextError(format!("{text:?} is not a share; write per cent or a fraction, as in 1% or 0.01"))),
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = format!("{}%", self.0 * 100.0);
        // A percentage reads better, provided that it yields the same bits without rounding noise.
        if percent.len() <= 7 && percent.parse() == Ok(*self) {
            return f.write_str(&percent);
        }
        write!(f, "{}", self.0)
    }
}

impl FromStr for BufferSize {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let no_buffer = || {
            TextError(format!(
                "{text:?} is not a buffer size; write packets, bytes, BDPs or drain time, as in 41p, 64KiB, 1.5bdp or 250ms"
            ))
        };
        let (number, unit) = split_unit(text);
        let size = match unit {
            "p" => Self::Packets(decimal(number, 1).filter(|_| !number.contains('.')).ok_or_else(no_buffer)?),
            "bdp" => Self::Bdp(float(number).ok_or_else(no_buffer)?),
            "s" | "ms" | "us" | "ns" => Self::Drain(text.parse().map_err(|_| no_buffer())?),
            _ if VOLUMES.iter().any(|(name, _)| *name == unit) => Self::Bytes(text.parse()?),
            _ => return Err(no_buffer()),
        };
        let absurd = match size {
            Self::Packets(packets) => !(1..=BYTES_MAX / PACKET_BYTES).contains(&packets),
            Self::Bytes(bytes) => bytes.0 < PACKET_BYTES,
            Self::Bdp(bdps) => bdps == 0.0 || bdps > 1e6,
            Self::Drain(time) => time.0 == 0,
        };
        if absurd {
            return Err(TextError(format!("{text:?} holds no packet or too many; write at least 1p or 1514B")));
        }
        Ok(size)
    }
}

impl fmt::Display for BufferSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Bdp(bdps) => write!(f, "{bdps}bdp"),
            Self::Drain(time) => write!(f, "{time}"),
        }
    }
}

impl BitRate {
    /// Converts it to the core's type.
    pub const fn rate(self) -> Rate {
        Rate::bits_per_sec(self.0)
    }
}

impl TimeSpan {
    /// Creates a span from milliseconds.
    pub const fn millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// Creates a span from seconds.
    pub const fn secs(s: u64) -> Self {
        Self(s * NANOS_PER_SEC)
    }

    /// Converts it to a duration.
    pub const fn span(self) -> Span {
        Span::nanos(self.0)
    }

    /// Converts it to a time after the start of the run.
    pub const fn time(self) -> Time {
        Time::nanos(self.0)
    }

    /// Converts it to seconds.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }
}

as_text!(BitRate, "a rate in bit, kbit, mbit, gbit or tbit a second (powers of 1000)", ["10mbit", "128kbit"]);
as_text!(TimeSpan, "a time in h, min, s, ms, us or ns", ["40ms", "1.5s"]);
as_text!(Volume, "a volume in B, kB, MB, GB, KiB, MiB or GiB", ["500MB", "64KiB"]);
as_text!(Ratio, "a share as per cent or as a fraction of 1", ["1%", "0.001"]);
as_text!(BufferSize, "a queue limit in packets, bytes, BDPs or drain time", ["41p", "64KiB", "1.5bdp", "250ms"]);

#[cfg(test)]
mod tests {
    use super::*;

    fn shown<T: FromStr<Err = TextError> + fmt::Display>(text: &str) -> String {
        text.parse::<T>().map_or_else(|error| error.to_string(), |value| value.to_string())
    }

    #[test]
    fn values_are_shown_in_their_largest_unit() {
        assert_eq!(shown::<BitRate>("1500kbit"), "1.5mbit");
        assert_eq!(shown::<BitRate>("10Mbit"), "10mbit");
        assert_eq!(shown::<BitRate>("20Mbit/s"), "20mbit");
        assert_eq!(shown::<TimeSpan>("1h"), "3600s");
        assert_eq!(shown::<TimeSpan>("1.5min"), "90s");
        assert_eq!(shown::<TimeSpan>("0.04s"), "40ms");
        assert_eq!(shown::<TimeSpan>("0"), "0s");
        assert_eq!(shown::<Volume>("65536B"), "64KiB");
        assert_eq!(shown::<Volume>("0.5GB"), "500MB");
        assert_eq!(shown::<Ratio>("0.001"), "0.1%");
        assert_eq!(shown::<Ratio>("0.1234567891"), "0.1234567891");
        assert_eq!(shown::<BufferSize>("1.50bdp"), "1.5bdp");
    }

    #[test]
    fn a_buffer_of_five_hundredths_of_a_bdp_is_no_packet_count() {
        assert!("1.5p".parse::<BufferSize>().is_err());
        assert_eq!("41p".parse(), Ok(BufferSize::Packets(41)));
    }
}
