//! Common parts of all scenario values: exact decimals, option lists, and serde through text.
//! Every value parses back from its own text.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;

/// A parse error: one line with the text found and the values accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError(pub String);

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TextError {}

/// Implements serde and JSON Schema through a type's `FromStr` and `Display`; bare numbers are read as their digits.
macro_rules! as_text {
    ($type:ident, $what:literal, [$($example:literal),+]) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = from.deserialize_any($crate::scenario::text::TextVisitor($what))?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": ["string", "number"], "description": $what, "examples": [$($example),+] })
            }
        }
    };
}
pub(super) use as_text;

/// Visitor that reads a string or a number as text.
pub(super) struct TextVisitor(pub(super) &'static str);

impl serde::de::Visitor<'_> for TextVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

/// Parses a non-negative decimal times `scale`, rounded to the nearest integer; `None` if it is not a decimal or too large.
pub(super) fn decimal(text: &str, scale: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && part.is_empty()) || !digits(whole) || !digits(part) {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Eighteen places are finer than every unit here; further digits matter only for ties.
    let part = &part[..part.len().min(18)];
    let unit = 10_u128.pow(u32::try_from(part.len()).ok()?);
    let fraction: u128 = if part.is_empty() { 0 } else { part.parse().ok()? };
    let scale = u128::from(scale);
    let value = whole.checked_mul(scale)?.checked_add((fraction * scale + unit / 2) / unit)?;
    u64::try_from(value).ok()
}

/// Formats `value` in units of `unit` (a power of ten), exactly.
pub(super) fn exact(value: u64, unit: u64) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let places = unit.ilog10() as usize;
    format!("{whole}.{rest:0places$}").trim_end_matches('0').to_owned()
}

/// Splits `10mbit` into `10` and `mbit`.
pub(super) fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()))
}

/// Parses a finite, non-negative decimal without an exponent.
pub(super) fn float(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value: f64 = if plain { text.parse().ok()? } else { return None };
    value.is_finite().then_some(value)
}

/// A `key=value` or bare `key` of an option list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OptionPair {
    pub(super) key: String,
    pub(super) value: Option<String>,
}

impl fmt::Display for OptionPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

/// Splits `a=1,b,c=2` at `separators`; no empty pieces.
pub(super) fn pairs(text: &str, separators: &[char], what: &str) -> Result<Vec<OptionPair>, TextError> {
    text.split(separators)
        .map(|piece| match piece.trim() {
            "" => Err(TextError(format!("{text:?} holds an empty option; write {what}"))),
            piece => Ok(match piece.split_once('=') {
                Some((key, value)) => OptionPair { key: key.trim().to_owned(), value: Some(value.trim().to_owned()) },
                None => OptionPair { key: piece.to_owned(), value: None },
            }),
        })
        .collect()
}

/// Finds the known word nearest to `word`. Its Levenshtein distance is at most a third of the length, or 2.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(2))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.chars().count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_and_refuse_what_is_no_decimal() {
        assert_eq!(decimal("1.5", 1_000_000), Some(1_500_000));
        assert_eq!(decimal(".5", 10), Some(5));
        assert_eq!(decimal("0.0000000004", 1_000_000_000), Some(0));
        for text in ["", ".", "-1", "+1", "1e3", "1.2.3", "NaN", "inf", "99999999999999999999", "1_000"] {
            assert_eq!(decimal(text, 1), None, "{text}");
        }
    }

    #[test]
    fn exact_text_drops_trailing_zeros_only() {
        assert_eq!(exact(1_500_000, 1_000_000), "1.5");
        assert_eq!(exact(10_000_000, 1_000_000), "10");
        assert_eq!(exact(1_000_001, 1_000_000), "1.000001");
    }

    #[test]
    fn the_nearest_word_is_offered_only_when_it_is_near() {
        assert_eq!(nearest("pacing_gain_upp", ["pacing_gain_up", "lt_bw"]), Some("pacing_gain_up"));
        assert_eq!(nearest("zebra", ["pacing_gain_up", "lt_bw"]), None);
    }
}
