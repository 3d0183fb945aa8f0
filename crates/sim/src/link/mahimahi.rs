//! mahimahi's delivery traces: one integer per line, the millisecond of one opportunity to send 1500 bytes.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;

use bbrlab_core::{NANOS_PER_SEC, Rate, Span, Time};

/// Capacity of one opportunity in bytes. Source: mahimahi's trace format.
pub(super) const OPPORTUNITY_BYTES: u64 = 1500;

/// Maximum number of opportunities in a trace. Ours: 200 s at 1 Gbit/s, 64 MiB of memory.
const MAX_OPPORTUNITIES: usize = 1 << 24;

/// Maximum size of a trace file in bytes. Ours: ten per line.
const MAX_BYTES: usize = 10 * MAX_OPPORTUNITIES;

/// Length to which an error cuts an invalid line.
const SHOWN_CHARS: usize = 24;

/// A delivery trace: opportunities at these times, repeated endlessly from the last one on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryTrace {
    /// Milliseconds, not decreasing, the last above zero; 32 bits hold 49 days.
    times_ms: Vec<u32>,
}

/// An invalid delivery trace. Its text names the place, the value found and the values accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceError {
    /// No line contains a number.
    Empty,
    /// The bytes are not text.
    Binary {
        /// Offset of the first byte that is not valid in a text.
        offset: usize,
        /// The byte at that offset.
        byte: u8,
    },
    /// The trace exceeds the limits of this parser.
    TooLong,
    /// A line does not contain an integer.
    NotAnInteger {
        /// Number of the line, from 1.
        line: usize,
        /// Content of the line, shortened and escaped.
        held: String,
    },
    /// The time of a line is before that of the previous line.
    Decreasing {
        /// Number of the line, from 1.
        line: usize,
        /// Milliseconds of this line.
        ms: u32,
        /// Milliseconds of the previous line.
        before_ms: u32,
    },
    /// Every line contains 0, so the trace has no length.
    NoDuration,
}

impl DeliveryTrace {
    /// Parses a trace: one integer per line; empty lines and blanks around the number are ignored.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        if text.len() > MAX_BYTES {
            return Err(TraceError::TooLong);
        }
        let mut times_ms: Vec<u32> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_matches([' ', '\t', '\r', '\u{feff}']);
            if line.is_empty() {
                continue;
            }
            let ms = line.parse().map_err(|_| TraceError::NotAnInteger { line: index + 1, held: shown(line) })?;
            let before_ms = times_ms.last().copied().unwrap_or(0);
            if ms < before_ms {
                return Err(TraceError::Decreasing { line: index + 1, ms, before_ms });
            }
            if times_ms.len() == MAX_OPPORTUNITIES {
                return Err(TraceError::TooLong);
            }
            times_ms.push(ms);
        }
        match times_ms.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoDuration),
            Some(_) => Ok(Self { times_ms }),
        }
    }

    /// Parses a trace from a file's bytes, and refuses anything but text (a compressed file, a capture).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TraceError> {
        if bytes.len() > MAX_BYTES {
            return Err(TraceError::TooLong);
        }
        let control = |byte: u8| byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t');
        if let Some(offset) = bytes.iter().position(|&byte| control(byte)) {
            return Err(TraceError::Binary { offset, byte: bytes[offset] });
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(text),
            Err(error) => {
                let offset = error.valid_up_to();
                Err(TraceError::Binary { offset, byte: bytes[offset] })
            }
        }
    }

    /// Time after which the trace repeats: its last timestamp, as in mahimahi.
    pub fn period(&self) -> Span {
        Span::millis(self.times_ms.last().copied().unwrap_or(1).into())
    }

    /// Number of opportunities in a period.
    pub fn opportunities(&self) -> usize {
        self.times_ms.len()
    }

    /// Capacity over one period, rounded down: the rate to which BDP-sized buffers refer.
    pub fn mean_rate(&self) -> Rate {
        let bits = self.times_ms.len() as u128 * u128::from(8 * OPPORTUNITY_BYTES);
        let rate = bits * u128::from(NANOS_PER_SEC) / u128::from(self.period().as_nanos());
        Rate::bits_per_sec(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Number of opportunities in 0..=`now`, repetitions included.
    pub fn count_until(&self, now: Time) -> u64 {
        let period = self.period().as_nanos();
        let into_ms = (now.as_nanos() % period) / 1_000_000;
        let within = self.times_ms.partition_point(|&ms| u64::from(ms) <= into_ms);
        (now.as_nanos() / period) * self.times_ms.len() as u64 + within as u64
    }

    /// Time of opportunity `nth`, counted from 0 through all repetitions.
    pub(super) fn time_of(&self, nth: u64) -> Time {
        let len = self.times_ms.len() as u64;
        let within = Span::millis(self.times_ms[(nth % len) as usize].into());
        Time::nanos((nth / len).saturating_mul(self.period().as_nanos())) + within
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "it holds no line with a number; a delivery trace has one integer (ms) a line"),
            Self::Binary { offset, byte } => write!(
                f,
                "byte {offset} is 0x{byte:02x}, so this is not a text file; a delivery trace is a text file with one integer (ms) a line"
            ),
            Self::TooLong => write!(
                f,
                "it holds more than {MAX_OPPORTUNITIES} lines or {MAX_BYTES} bytes; a shorter trace repeats by itself"
            ),
            Self::NotAnInteger { line, held } => {
                write!(f, "line {line}: \"{held}\" is not a whole number of milliseconds from 0 to {}", u32::MAX)
            }
            Self::Decreasing { line, ms, before_ms } => write!(
                f,
                "line {line}: {ms} ms comes after {before_ms} ms; timestamps must not decrease (sort the file: sort -n)"
            ),
            Self::NoDuration => {
                write!(f, "every line holds 0, so the trace has no length; its last timestamp must be above 0")
            }
        }
    }
}

impl std::error::Error for TraceError {}

fn shown(line: &str) -> String {
    let mut held: String = line.chars().take(SHOWN_CHARS).flat_map(char::escape_default).collect();
    if line.chars().nth(SHOWN_CHARS).is_some() {
        held.push('…');
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_1_is_12_mbit_per_second() {
        let trace = DeliveryTrace::parse("1\n").unwrap();
        assert_eq!(trace.mean_rate(), Rate::bits_per_sec(12_000_000));
        assert_eq!(trace.period(), Span::millis(1));
    }

    #[test]
    fn opportunities_repeat_from_the_last_timestamp_on() {
        let trace = DeliveryTrace::parse("0\n2\n2\n5\n").unwrap();
        let times: Vec<u64> = (0..9).map(|nth| trace.time_of(nth).as_nanos() / 1_000_000).collect();
        assert_eq!(times, [0, 2, 2, 5, 5, 7, 7, 10, 10]);
    }

    #[test]
    fn counting_opportunities_agrees_with_listing_them() {
        let trace = DeliveryTrace::parse("0\n2\n2\n5\n").unwrap();
        for ms in 0..40 {
            for now in [Time::nanos(ms * 1_000_000), Time::nanos(ms * 1_000_000 + 999_999)] {
                let listed = (0..1000).filter(|&nth| trace.time_of(nth) <= now).count() as u64;
                assert_eq!(trace.count_until(now), listed, "at {now:?}");
            }
        }
    }

    #[test]
    fn blanks_empty_lines_and_windows_line_ends_are_ignored() {
        assert_eq!(DeliveryTrace::parse("\u{feff}1\r\n\r\n 2 \n\n"), DeliveryTrace::parse("1\n2"));
    }

    #[test]
    fn errors_name_the_line_and_what_it_held() {
        assert_eq!(DeliveryTrace::parse("\n \n"), Err(TraceError::Empty));
        assert_eq!(DeliveryTrace::parse("0\n0\n"), Err(TraceError::NoDuration));
        let decreasing = DeliveryTrace::parse("5\n\n4\n").unwrap_err();
        assert_eq!(decreasing, TraceError::Decreasing { line: 3, ms: 4, before_ms: 5 });
        let word = DeliveryTrace::parse("1\n2.5 \"ms\"\n").unwrap_err();
        assert!(word.to_string().starts_with(r#"line 2: "2.5 \"ms\"" is not a whole number"#), "{word}");
        let long = DeliveryTrace::parse(&"x".repeat(1000)).unwrap_err();
        assert!(long.to_string().len() < 120, "{long}");
        for bad in ["-1", "4294967296", "1 2"] {
            assert!(matches!(DeliveryTrace::parse(bad), Err(TraceError::NotAnInteger { line: 1, .. })), "{bad}");
        }
    }

    #[test]
    fn binary_files_are_refused_with_the_offset() {
        assert_eq!(DeliveryTrace::from_bytes(b"1\n2\n"), DeliveryTrace::parse("1\n2\n"));
        assert_eq!(DeliveryTrace::from_bytes(&[b'1', 0x1f, 0x8b]), Err(TraceError::Binary { offset: 1, byte: 0x1f }));
        assert_eq!(DeliveryTrace::from_bytes(&[b'1', b'\n', 0xff]), Err(TraceError::Binary { offset: 2, byte: 0xff }));
    }
}
