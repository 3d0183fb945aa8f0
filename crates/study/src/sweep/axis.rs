//! Syntax of an axis in a flag: `rate=1mbit,10mbit`, or `rate=1mbit..1gbit:7` for seven logarithmically spaced values.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_stats::number::significant;
use toml::Value;

use crate::product::Vary;
use crate::{Error, Result};
use bbrlab_sim::scenario::key;

/// Units by kind, with their multiples; a plain number and a percentage are their own unit.
const UNITS: [(&str, f64); 9] = [
    ("bit", 1.0),
    ("kbit", 1e3),
    ("mbit", 1e6),
    ("gbit", 1e9),
    ("tbit", 1e12),
    ("ns", 1e-9),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
];
/// Digits of a range's values: the fewest that keep its steps even and its ends exact. Ours: short labels come first,
/// and from 15 digits on a written number would not read back.
const DIGITS: std::ops::RangeInclusive<i32> = 3..=15;
/// Maximum rounding of a value between the ends, as a share of a step. Ours: too little for steps to look uneven.
const ROUNDING: f64 = 0.05;
/// Maximum values of a range. Ours: a guard against a slip.
const VALUES_MAX: usize = 10_000;

/// Parses `NAME=VALUES`. Values are separated by commas, or by semicolons if a value contains a comma.
pub fn parse(text: &str) -> Result<Vary> {
    let (name, values) = text.split_once('=').ok_or_else(|| Error::AxisForm(text.to_owned()))?;
    if name.trim().is_empty() {
        return Err(Error::AxisName(text.to_owned()));
    }
    let separator = if values.contains(';') { ';' } else { ',' };
    let texts = values.split(separator).map(str::trim).filter(|value| !value.is_empty());
    vary(name.trim(), texts.map(|text| Value::String(text.to_owned())))
}

/// Builds an axis from values; ranges are expanded, and each value gets its numeric position.
pub fn vary(name: &str, values: impl IntoIterator<Item = Value>) -> Result<Vary> {
    let mut all = Vec::new();
    for value in values {
        match value.as_str().map(range).transpose()?.flatten() {
            Some(range) => all.extend(range.into_iter().map(Value::String)),
            None => all.push(value),
        }
    }
    let key = key(name).filter(|key| key.is_flag()).map(|key| key.name.to_owned());
    let values = all.into_iter().map(|value| point(value, key.as_deref())).collect();
    Ok(Vary { name: name.to_owned(), key: None, values })
}

/// Converts the value to a table with its numeric position, so that `1mbit` lies left of `1gbit`.
fn point(value: Value, key: Option<&str>) -> Value {
    let label = match &value {
        Value::String(text) => text.clone(),
        Value::Table(_) => return value,
        other => other.to_string(),
    };
    let mut table = toml::Table::new();
    if let Some(x) = number(&label) {
        table.insert("x".to_owned(), Value::Float(x));
    }
    if let Some(key) = key {
        let set = if key == "flow" { Value::Array(vec![value]) } else { value };
        table.insert(key.to_owned(), set);
    }
    // Run names consist of axis=label, so a label must not contain these characters.
    table.insert("label".to_owned(), Value::String(label.replace(',', ";").replace('=', ":")));
    Value::Table(table)
}

/// Numeric value of a text: 10^7 for `10mbit`, 0.04 for `40ms`, 1 for `1%` and `1bdp`.
pub fn number(text: &str) -> Option<f64> {
    let (value, unit) = split(text)?;
    Some(value * UNITS.iter().find(|(name, _)| *name == unit).map_or(1.0, |(_, scale)| *scale))
}

fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim()))
}

/// Expands `LOW..HIGH:COUNT` (logarithmic) or `LOW..HIGH:COUNTlin` (linear); `None` for anything else.
fn range(text: &str) -> Result<Option<Vec<String>>> {
    let Some((low, rest)) = text.split_once("..") else { return Ok(None) };
    if rest.starts_with('.') {
        return Err(Error::ThreeDots { text: text.to_owned(), example: "1mbit..1gbit:7" });
    }
    let Some((high, count)) = rest.split_once(':') else {
        return Err(Error::NoCount(text.to_owned()));
    };
    let (count, linear) = count.strip_suffix("lin").map_or((count, false), |count| (count, true));
    let count: usize = count
        .parse()
        .ok()
        .filter(|count| (2..=VALUES_MAX).contains(count))
        .ok_or_else(|| Error::Count { text: text.to_owned(), count: count.to_owned(), max: VALUES_MAX })?;
    let ends = [low, high].map(|end| split(end.trim()));
    let [Some((a, unit_a)), Some((b, unit_b))] = ends else {
        return Err(Error::End(text.to_owned()));
    };
    let scale = |unit: &str| UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
    let in_a = match (scale(unit_a), scale(unit_b)) {
        _ if unit_a == unit_b => b,
        (Some(of_a), Some(of_b)) if is_rate(unit_a) == is_rate(unit_b) => b * of_b / of_a,
        _ => return Err(Error::Units { text: text.to_owned(), low: unit_a.to_owned(), high: unit_b.to_owned() }),
    };
    if !linear && (a <= 0.0 || in_a <= 0.0) {
        return Err(Error::Zero { text: text.to_owned(), count });
    }
    let value = |index: usize| {
        let share = index as f64 / (count - 1) as f64;
        if linear { a + (in_a - a) * share } else { a * (in_a / a).powf(share) }
    };
    let texts = |digits: i32| -> Vec<String> { (0..count).map(|index| significant(value(index), digits)).collect() };
    let tells_all = |texts: &Vec<String>| {
        texts.iter().enumerate().all(|(index, text)| {
            let (exact, is_end) = (value(index), index == 0 || index == count - 1);
            let step = value(index.max(1)) - value(index.max(1) - 1);
            let room = if is_end { 1e-12 * exact.abs() } else { ROUNDING * step.abs() };
            step != 0.0 && text.parse().is_ok_and(|text: f64| (text - exact).abs() <= room)
        })
    };
    let texts = DIGITS.map(texts).find(tells_all);
    let texts = texts.ok_or_else(|| Error::TooNear { text: text.to_owned(), count })?;
    Ok(Some(texts.into_iter().map(|text| text + unit_a).collect()))
}

fn is_rate(unit: &str) -> bool {
    unit.ends_with("bit")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Vec<String> {
        let label = |value: &Value| value["label"].as_str().unwrap().to_owned();
        parse(text).unwrap().values.iter().map(label).collect()
    }

    #[test]
    fn a_list_is_taken_as_it_stands() {
        assert_eq!(labels("rate=1mbit, 10mbit"), ["1mbit", "10mbit"]);
        assert_eq!(labels("flow=bbr1,size=1MB;cubic"), ["bbr1;size:1MB", "cubic"]);
    }

    #[test]
    fn a_range_is_even_by_ratio_unless_told() {
        assert_eq!(labels("rate=1mbit..1gbit:4"), ["1mbit", "10mbit", "100mbit", "1000mbit"]);
        assert_eq!(labels("rtt=5ms..0.08s:3"), ["5ms", "20ms", "80ms"]);
        assert_eq!(labels("loss=0%..2%:3lin"), ["0%", "1%", "2%"]);
        assert_eq!(labels("rate=1mbit..8mbit:4"), ["1mbit", "2mbit", "4mbit", "8mbit"]);
    }

    #[test]
    fn a_range_takes_the_digits_that_keep_its_steps_even_and_its_ends() {
        assert_eq!(labels("rtt=100ms..101ms:5lin"), ["100ms", "100.25ms", "100.5ms", "100.75ms", "101ms"]);
        assert_eq!(labels("rate=1.2345mbit..2mbit:2"), ["1.2345mbit", "2mbit"]);
        let many = labels("rtt=1ms..1s:999");
        assert!(many.windows(2).all(|pair| pair[0] != pair[1]), "{many:?}");
    }

    #[test]
    fn a_value_stands_for_its_number_in_basic_units() {
        assert_eq!(
            ["10mbit", "40ms", "2%", "1.5bdp", "bbr1"].map(number),
            [Some(1e7), Some(0.04), Some(2.0), Some(1.5), None]
        );
    }

    #[test]
    fn a_slip_in_a_range_is_named() {
        for (text, what) in [
            ("rate", "no values"),
            ("rate=1mbit..2mbit", "lacks the number of values"),
            ("rate=1mbit..2mbit:1", "number of values"),
            ("rate=1mbit..2ms:3", "different kinds"),
            ("loss=0%..1%:3", "no ratio from or to 0"),
            ("rate=a..b:3", "not a number"),
            ("rate=1mbit..1mbit:3", "too near"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
