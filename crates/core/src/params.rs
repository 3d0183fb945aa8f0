//! Every tunable constant as a named parameter: unit, default, range, source, and its value from text.
//! A value is read from text as a checked integer, never through a float.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub use crate::bbr1::Bbr1Params;
pub use crate::bbr3::{Bbr3Params, LabParams, QueueParams};
pub use crate::cubic::CubicParams;
pub use crate::dctcp::DctcpParams;
pub use crate::fixed::FixedParams;
pub use crate::loss_based::RenoParams;
pub use crate::prague::PragueParams;
#[cfg(feature = "variants")]
pub use crate::variant::{AcdParams, ApgParams, CpaParams, DavisParams, KalmanParams, QuantileParams, VariantParams};

mod table;

pub use table::MAX_PARAMS;
pub(crate) use table::collect;

use core::fmt;

/// Unit of a parameter's integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// A factor in 1/256; text is a decimal factor: `1.25`.
    Gain,
    /// A share in 1/256; text is a decimal share or per cent: `0.2`, `19.5%`.
    Share,
    /// A factor in 1/25600, which holds whole per cent and the kernel's 256ths exactly; text as for [`Self::Gain`].
    FineGain,
    /// A share in 1/25600; text as for [`Self::Share`].
    FineShare,
    /// Microseconds; text carries its unit: `10s`, `200ms`, `5us`.
    Micros,
    /// Packet-timed round trips.
    Rounds,
    /// Packets (full segments).
    Packets,
    /// Bytes per second.
    BytesPerSec,
    /// A plain number.
    Count,
    /// A switch: `on` or `off`.
    Switch,
}

/// Fixed-point unit of [`Unit::FineGain`] and [`Unit::FineShare`]: the smallest multiple of both 256 and 100.
pub(crate) const FINE: u32 = 25_600;

impl Unit {
    /// The unit as `bbrlab list parameters` shows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gain | Self::FineGain => "factor",
            Self::Share | Self::FineShare => "share",
            Self::Micros => "time",
            Self::Rounds => "rounds",
            Self::Packets => "packets",
            Self::BytesPerSec => "bytes/s",
            Self::Count => "count",
            Self::Switch => "on/off",
        }
    }

    /// A value in the form in which users write it: [`AlgorithmConfig::set`](crate::AlgorithmConfig::set) reads the same integer from it.
    pub fn text(self, value: u32) -> impl fmt::Display {
        ValueText { unit: self, value }
    }

    /// Suffix of a range whose values do not name their unit.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Rounds => " rounds",
            Self::Packets => " packets",
            Self::BytesPerSec => " bytes/s",
            _ => "",
        }
    }
}

struct ValueText {
    unit: Unit,
    value: u32,
}

impl fmt::Display for ValueText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            // This many digits distinguish neighbouring 256ths, and 25600ths.
            Unit::Gain | Unit::Share => write_decimal(f, self.value, 256, 10_000),
            Unit::FineGain | Unit::FineShare => write_decimal(f, self.value, FINE, 1_000_000),
            Unit::Micros => {
                let (scale, unit) = match self.value {
                    us if us % 1_000_000 == 0 => (1_000_000, "s"),
                    us if us % 1_000 == 0 => (1_000, "ms"),
                    _ => (1, "us"),
                };
                write!(f, "{}{unit}", self.value / scale)
            }
            Unit::Switch => f.write_str(if self.value == 0 { "off" } else { "on" }),
            Unit::Rounds | Unit::Packets | Unit::BytesPerSec | Unit::Count => write!(f, "{}", self.value),
        }
    }
}

/// `value` / `scale` to the nearest 1/`places` (a power of ten), without trailing zeros.
fn write_decimal(f: &mut fmt::Formatter<'_>, value: u32, scale: u32, places: u64) -> fmt::Result {
    let scale = u64::from(scale);
    let rounded = (u64::from(value) * places + scale / 2) / scale;
    write!(f, "{}", rounded / places)?;
    let (mut rest, mut place) = (rounded % places, places / 10);
    if rest > 0 {
        f.write_str(".")?;
    }
    while rest > 0 && place > 0 {
        write!(f, "{}", rest / place)?;
        rest %= place;
        place /= 10;
    }
    Ok(())
}

/// One parameter of an algorithm.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ParamSpec {
    /// Name, as in `--flow bbr1,NAME=VALUE`.
    pub name: &'static str,
    /// Unit of its integer.
    pub unit: Unit,
    /// Default value.
    pub default: u32,
    /// Smallest legal value.
    pub min: u32,
    /// Largest legal value.
    pub max: u32,
    /// Source of the default.
    pub source: &'static str,
    /// Effect, in one sentence.
    pub meaning: &'static str,
}

/// Reason for rejecting a parameter. Worded to follow "NAME: VALUE is": `out of range; write 1 to 10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParamError {
    /// No parameter of the algorithm has that name.
    Unknown,
    /// The text is not a value of the parameter's unit.
    Malformed(Unit),
    /// The value is outside its range.
    OutOfRange {
        /// The parameter's unit.
        unit: Unit,
        /// Smallest legal value, in that unit.
        min: u32,
        /// Largest legal value.
        max: u32,
    },
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "not a parameter of this algorithm",
            Self::Malformed(Unit::Gain | Unit::FineGain) => "not a factor; write a decimal number, such as 1.25",
            Self::Malformed(Unit::Share | Unit::FineShare) => {
                "not a share; write a decimal number or per cent, such as 0.02 or 2%"
            }
            Self::Malformed(Unit::Micros) => "not a time; write a number with s, ms or us, such as 200ms",
            Self::Malformed(Unit::Rounds) => "not a number of rounds; write one such as 10",
            Self::Malformed(Unit::Packets) => "not a number of packets; write one such as 10",
            Self::Malformed(Unit::BytesPerSec) => "not a number of bytes a second; write one such as 500000",
            Self::Malformed(Unit::Count) => "not a number; write one such as 10",
            Self::Malformed(Unit::Switch) => "neither on nor off; write one of them",
            Self::OutOfRange { unit, min, max } => {
                return write!(f, "out of range; write {} to {}{}", unit.text(*min), unit.text(*max), unit.suffix());
            }
        })
    }
}

impl core::error::Error for ParamError {}

/// Reads `text` as a value of `spec`, rounded to the nearest unit.
pub(crate) fn parse(spec: &ParamSpec, text: &str) -> Result<u32, ParamError> {
    let malformed = ParamError::Malformed(spec.unit);
    let value = match spec.unit {
        Unit::Gain => decimal(text, 256).ok_or(malformed)?,
        Unit::Share => match text.strip_suffix('%') {
            Some(percent) => decimal(percent, 256).ok_or(malformed)?.div_ceil(50).div_ceil(2),
            None => decimal(text, 256).ok_or(malformed)?,
        },
        Unit::FineGain => decimal(text, u64::from(FINE)).ok_or(malformed)?,
        Unit::FineShare => match text.strip_suffix('%') {
            Some(percent) => decimal(percent, u64::from(FINE / 100)).ok_or(malformed)?,
            None => decimal(text, u64::from(FINE)).ok_or(malformed)?,
        },
        Unit::Micros => micros(text).ok_or(malformed)?,
        Unit::Switch => match text {
            "on" | "true" | "1" => 1,
            "off" | "false" | "0" => 0,
            _ => return Err(malformed),
        },
        Unit::Rounds | Unit::Packets | Unit::BytesPerSec | Unit::Count => decimal(text, 1).ok_or(malformed)?,
    };
    match u32::try_from(value) {
        Ok(value) if (spec.min..=spec.max).contains(&value) => Ok(value),
        _ => Err(ParamError::OutOfRange { unit: spec.unit, min: spec.min, max: spec.max }),
    }
}

/// A time with its unit, in microseconds.
fn micros(text: &str) -> Option<u64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let scale = match &text[split..] {
        "s" => 1_000_000,
        "ms" => 1_000,
        "us" => 1,
        _ => return None,
    };
    decimal(&text[..split], scale)
}

/// A decimal number times `scale`, rounded to the nearest integer. One below zero or beyond 64 bits becomes the largest, which is
/// outside every range, so that the user gets an error that names the range.
fn decimal(text: &str, scale: u64) -> Option<u64> {
    if let Some(magnitude) = text.strip_prefix('-') {
        return magnitude_of(magnitude, scale).map(|value| if value == 0 { 0 } else { u64::MAX });
    }
    magnitude_of(text, scale)
}

fn magnitude_of(text: &str, scale: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for digit in whole.bytes() {
        value = value.saturating_mul(10).saturating_add(u64::from(digit_of(digit)?));
    }
    let (mut fraction, mut unit): (u64, u64) = (0, 1);
    for digit in part.bytes() {
        let digit = u64::from(digit_of(digit)?);
        // Nine digits are finer than any unit here; the rest cannot change the rounding.
        if unit < 1_000_000_000 {
            fraction = fraction * 10 + digit;
            unit *= 10;
        }
    }
    let fraction = (fraction * scale + unit / 2) / unit;
    Some(value.saturating_mul(scale).saturating_add(fraction))
}

fn digit_of(byte: u8) -> Option<u8> {
    byte.is_ascii_digit().then(|| byte - b'0')
}

/// Declares a struct of `u32` parameters together with the table that describes them.
macro_rules! params {
    (
        $(#[$meta:meta])*
        $name:ident {
            $( $(#[doc = $doc:literal])+ $field:ident : $unit:ident = $default:expr, $min:expr, $max:expr, $source:literal; )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: u32, )+
        }

        impl $name {
            /// The parameters, in the order of the fields.
            pub const SPECS: &'static [$crate::params::ParamSpec] = &[
                $( $crate::params::ParamSpec {
                    name: stringify!($field),
                    unit: $crate::params::Unit::$unit,
                    default: $default,
                    min: $min,
                    max: $max,
                    source: $source,
                    meaning: concat!($($doc),+),
                }, )+
            ];

            /// Values for a flow that will be initialised in place.
            #[allow(dead_code, reason = "not every flow is")]
            pub(crate) const BLANK: Self = Self { $( $field: 0, )+ };

            /// Sets one parameter from text.
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), $crate::params::ParamError> {
                let fields = [$( &mut self.$field, )+];
                for (spec, field) in Self::SPECS.iter().zip(fields) {
                    if spec.name == name {
                        *field = $crate::params::parse(spec, text)?;
                        return Ok(());
                    }
                }
                Err($crate::params::ParamError::Unknown)
            }

            /// Replaces the values with the defaults of another table of the same names, as [`edition`] makes it.
            #[allow(dead_code, reason = "most algorithms have one edition")]
            pub(crate) fn with_defaults(mut self, specs: &[$crate::params::ParamSpec]) -> Self {
                let fields = [$( &mut self.$field, )+];
                for (spec, field) in specs.iter().zip(fields) {
                    *field = spec.default;
                }
                self
            }

            /// Reads values from a table, starting at `from`, in the order of [`Self::SPECS`]. For a host that has no text to
            /// parse, such as a kernel's BPF program. They are not checked; [`crate::AlgorithmConfig::values`] makes such a table.
            #[inline]
            pub const fn from_values(table: &[u32; $crate::params::MAX_PARAMS], from: usize) -> Self {
                let mut at = from;
                $(
                    let $field = if at < table.len() { table[at] } else { 0 };
                    at += 1;
                )+
                let _ = at;
                Self { $( $field, )+ }
            }

            /// The present values, in the order of [`Self::SPECS`].
            pub fn values(&self) -> impl Iterator<Item = u32> + use<> {
                [$( self.$field, )+].into_iter()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )+ }
            }
        }
    };
}
pub(crate) use params;

/// A difference between an edition and the base parameters: name, default, source.
pub(crate) type Change = (&'static str, u32, &'static str);

/// The table `base` with some defaults and sources replaced. A name that `base` lacks does not compile.
pub(crate) const fn edition<const N: usize>(base: &[ParamSpec], changes: &[Change]) -> [ParamSpec; N] {
    let mut table = [base[0]; N];
    let mut i = 0;
    while i < N {
        table[i] = base[i];
        i += 1;
    }
    let mut c = 0;
    while c < changes.len() {
        let (name, default, source) = changes[c];
        let mut at = 0;
        while !same(table[at].name, name) {
            at += 1;
        }
        table[at].default = default;
        table[at].source = source;
        c += 1;
    }
    table
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

#[cfg(test)]
mod tests;
