//! Every tunable constant as a named parameter: unit, default, range, source, and its value from text.
//! In: a name and a value as text. Out: a checked integer. Never: a float.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// What a parameter's integer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Bytes a second.
    BytesPerSec,
    /// A plain number.
    Count,
    /// A switch: `on` or `off`.
    Switch,
}

/// What [`Unit::FineGain`] and [`Unit::FineShare`] count in: the smallest multiple of 256 and of 100 that is one of both.
pub const FINE: u32 = 25_600;

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
}

/// One parameter of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// Its name, as in `--flow bbr1,NAME=VALUE`.
    pub name: &'static str,
    /// What its integer counts.
    pub unit: Unit,
    /// Its default.
    pub default: u32,
    /// Smallest legal value.
    pub min: u32,
    /// Largest legal value.
    pub max: u32,
    /// Where the default comes from.
    pub source: &'static str,
    /// What it does, in one sentence.
    pub meaning: &'static str,
}

/// Why a parameter was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamError {
    /// The algorithm has no parameter of that name.
    Unknown,
    /// The text is not a value of the parameter's unit.
    Malformed(Unit),
    /// The value is outside its range (smallest, largest, in the parameter's integer unit).
    OutOfRange(Unit, u32, u32),
}

/// Reads `text` as a value of `spec`, rounded to the nearest unit.
pub fn parse(spec: &ParamSpec, text: &str) -> Result<u32, ParamError> {
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
        _ => Err(ParamError::OutOfRange(spec.unit, spec.min, spec.max)),
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

/// A non-negative decimal number times `scale`, rounded to the nearest integer.
fn decimal(text: &str, scale: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for digit in whole.bytes() {
        value = value.checked_mul(10)?.checked_add(u64::from(digit_of(digit)?))?;
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
    value.checked_mul(scale)?.checked_add(fraction)
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
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: u32, )+
        }

        impl $name {
            /// The parameters, in the order of the fields.
            pub const SPECS: &'static [$crate::ParamSpec] = &[
                $( $crate::ParamSpec {
                    name: stringify!($field),
                    unit: $crate::Unit::$unit,
                    default: $default,
                    min: $min,
                    max: $max,
                    source: $source,
                    meaning: concat!($($doc),+),
                }, )+
            ];

            /// Sets one parameter from text.
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), $crate::ParamError> {
                let fields = [$( &mut self.$field, )+];
                for (spec, field) in Self::SPECS.iter().zip(fields) {
                    if spec.name == name {
                        *field = $crate::params::parse(spec, text)?;
                        return Ok(());
                    }
                }
                Err($crate::ParamError::Unknown)
            }

            /// These parameters with the defaults of another table of the same names, as [`edition`] makes it.
            #[allow(dead_code, reason = "most algorithms have one edition")]
            pub(crate) fn with_defaults(mut self, specs: &[$crate::ParamSpec]) -> Self {
                let fields = [$( &mut self.$field, )+];
                for (spec, field) in specs.iter().zip(fields) {
                    *field = spec.default;
                }
                self
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

/// Where an edition of an algorithm differs from the one that its parameters describe: name, default, source.
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
mod tests {
    use super::*;

    fn spec(unit: Unit) -> ParamSpec {
        ParamSpec { name: "x", unit, default: 1, min: 0, max: u32::MAX, source: "", meaning: "" }
    }

    #[test]
    fn gains_are_read_to_the_nearest_256th() {
        assert_eq!(parse(&spec(Unit::Gain), "1.25"), Ok(320));
        assert_eq!(parse(&spec(Unit::Gain), "1.1"), Ok(282));
        assert_eq!(parse(&spec(Unit::Gain), ".5"), Ok(128));
    }

    #[test]
    fn fine_gains_and_shares_hold_per_cent_and_256ths_exactly() {
        assert_eq!(parse(&spec(Unit::FineGain), "2.77"), Ok(70_912));
        assert_eq!(parse(&spec(Unit::FineShare), "2%"), Ok(512));
        assert_eq!(parse(&spec(Unit::FineShare), "0.02"), Ok(512));
        assert_eq!(parse(&spec(Unit::FineShare), "1.953125%"), Ok(5 * 100));
    }

    #[test]
    fn an_edition_changes_what_it_names_and_nothing_else() {
        const BASE: [ParamSpec; 2] = [
            ParamSpec { name: "a", unit: Unit::Count, default: 1, min: 0, max: 9, source: "s", meaning: "m" },
            ParamSpec { name: "ab", unit: Unit::Count, default: 2, min: 0, max: 9, source: "s", meaning: "m" },
        ];
        const OTHER: [ParamSpec; 2] = edition(&BASE, &[("ab", 7, "t")]);
        assert_eq!((OTHER[0].default, OTHER[1].default, OTHER[1].source), (1, 7, "t"));
    }

    #[test]
    fn times_carry_their_unit() {
        assert_eq!(parse(&spec(Unit::Micros), "1.5ms"), Ok(1500));
        assert_eq!(parse(&spec(Unit::Micros), "10s"), Ok(10_000_000));
        assert_eq!(parse(&spec(Unit::Micros), "10"), Err(ParamError::Malformed(Unit::Micros)));
    }

    #[test]
    fn shares_are_read_as_a_factor_or_as_per_cent() {
        assert_eq!(parse(&spec(Unit::Share), "0.5"), Ok(128));
        assert_eq!(parse(&spec(Unit::Share), "50%"), Ok(128));
    }

    #[test]
    fn nonsense_is_refused_and_never_wraps() {
        for text in ["", ".", "-1", "1e3", "NaN", "99999999999999999999", "1.2.3", "1x"] {
            assert!(parse(&spec(Unit::Gain), text).is_err(), "{text}");
        }
    }
}
