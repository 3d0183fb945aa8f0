//! Runs side by side: measures of each, and the difference of each to the first with an interval over pairs of equal seeds.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod page;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use bbrlab_stats::student;
use bbrlab_stats::{mean, median};
use serde::Serialize;
use serde_json::Value;

use crate::comparison::{Better, Interval};
use crate::sweep::{Metric, Row};

pub use page::{Overview, page};
pub use words::{answer, cells, notes, value};

/// Minimum number of pairs for an interval. Ours: of fewer, the spread is hardly known.
pub const PAIRS_MIN: usize = 5;
/// Smallest relative difference that counts, and the smallest one of a share. Ours: what nobody would act on is no difference.
const MATERIAL: f64 = 0.01;
const MATERIAL_SHARE: f64 = 0.001;

/// A compared quantity. "First" are the flows of a scenario's first `flow`, "others" the rest.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Key in the JSON document.
    pub key: &'static str,
    /// Name on the page.
    pub name: &'static str,
    /// Display unit.
    pub unit: &'static str,
    /// Factor from the stored value to the display unit.
    pub scale: f64,
    pub better: Better,
    /// True for shares, whose differences are percentage points.
    pub is_share: bool,
    /// True if its differences are read in its unit, not in per cent of the first side.
    pub is_absolute: bool,
    get: fn(&Row) -> f64,
}

const fn measure(
    key: &'static str,
    name: &'static str,
    (unit, scale): (&'static str, f64),
    better: Better,
    get: fn(&Row) -> f64,
) -> Measure {
    let (is_share, is_absolute) = (matches!(unit.as_bytes(), b"%"), !matches!(unit.as_bytes(), b"Mbit/s"));
    Measure { key, name, unit, scale, better, is_share, is_absolute, get }
}

const MBPS: (&str, f64) = ("Mbit/s", 1e-6);
const MS: (&str, f64) = ("ms", 1.0);
const PERCENT: (&str, f64) = ("%", 100.0);

/// All measures, the most asked for first.
pub const MEASURES: [Measure; 12] = [
    measure("goodput_bps", "goodput", MBPS, Better::More, |row| row.get(Metric::FirstGoodputBps)),
    measure("others_goodput_bps", "goodput of the others", MBPS, Better::More, others),
    measure("queue_p50_ms", "median queueing delay", MS, Better::Less, |row| row.get(Metric::QueueP50Ms)),
    measure("queue_p95_ms", "p95 queueing delay", MS, Better::Less, |row| row.get(Metric::QueueP95Ms)),
    measure("rtt_p50_ms", "median RTT", MS, Better::Less, |row| row.get(Metric::FirstRttP50Ms)),
    measure("rtt_p95_ms", "p95 RTT", MS, Better::Less, |row| row.get(Metric::FirstRttP95Ms)),
    measure("retransmit_ratio", "retransmitted", PERCENT, Better::Less, |row| row.get(Metric::FirstRetransmitRatio)),
    measure("drop_ratio", "dropped at the link", PERCENT, Better::Less, |row| row.get(Metric::DropRatio)),
    measure("utilisation", "link used", PERCENT, Better::More, |row| row.get(Metric::Utilisation)),
    measure("fct_s", "completion time", ("s", 1.0), Better::Less, |row| row.get(Metric::FirstFctS)),
    measure("jain", "fairness (Jain)", ("", 1.0), Better::More, several),
    measure("convergence_s", "fair after", ("s", 1.0), Better::Less, |row| row.get(Metric::ConvergenceS)),
];

/// Goodput of the flows after the first `flow`; NaN without any.
fn others(row: &Row) -> f64 {
    if row.get(Metric::Flows) > row.get(Metric::FirstFlows) {
        row.get(Metric::GoodputBps) - row.get(Metric::FirstGoodputBps)
    } else {
        f64::NAN
    }
}

/// Jain's index; NaN of a single flow.
fn several(row: &Row) -> f64 {
    if row.get(Metric::Flows) > 1.0 { row.get(Metric::Jain) } else { f64::NAN }
}

/// Runs of one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Name, equal in all sides that have it; empty if there is only one.
    pub name: String,
    /// The scenario as resolved.
    pub scenario: Value,
    /// One row per seed.
    pub rows: Vec<Row>,
}

/// One of the things compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    pub name: String,
    /// Algorithm that gives it its colour.
    pub color_key: String,
    /// Version of bbrlab that ran it.
    pub version: String,
    pub cases: Vec<Case>,
}

/// Outcome of a comparison to the first side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Better,
    Worse,
    /// The interval contains zero, or the difference is too small to matter.
    NoDifference,
    /// Too few pairs for an interval.
    NotJudged,
    /// A run of one side lacks a value that its counterpart has, as a transfer that did not end.
    Incomplete,
}

/// A measure of one side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Median over the seeds, and cases.
    pub median: f64,
    /// Mean difference to the first side over the pairs, in the measure's unit. With several cases it is missing but of shares:
    /// they have different scales.
    pub difference: Interval,
    /// The same relative to the first side.
    pub relative: Interval,
    /// Number of pairs.
    pub pairs: usize,
    /// Number of runs without a value whose counterpart has one.
    pub missing: usize,
    pub outcome: Outcome,
}

/// One measure over all sides, of one case or of all.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Number of the case; `None`: all of several.
    pub case: Option<usize>,
    /// Number in [`MEASURES`].
    pub measure: usize,
    /// One per side; the first has no difference.
    pub sides: Vec<Estimate>,
}

/// Sides with their differences.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    pub sides: Vec<Side>,
    /// Names of the cases that all sides have.
    pub cases: Vec<String>,
    /// Cases that some side lacks.
    pub left_out: usize,
    pub lines: Vec<Line>,
    /// Scenario keys whose values differ, each with the sides' values.
    pub differing: Vec<(String, Vec<String>)>,
    /// False if the sides have no seed in common: their runs are then compared as independent ones.
    pub is_paired: bool,
}

/// Values of one side and one case, by seed.
type BySeed = BTreeMap<u64, f64>;

impl Comparison {
    /// Compares the sides; `None` if no case is common to all of them.
    pub fn new(mut sides: Vec<Side>) -> Option<Self> {
        let first = sides.first()?;
        let has = |side: &Side, name: &str| side.cases.iter().any(|case| case.name == name);
        let cases: Vec<String> = (first.cases.iter().map(|case| case.name.clone()))
            .filter(|name| sides.iter().all(|side| has(side, name)))
            .collect();
        if cases.is_empty() {
            return None;
        }
        let all: BTreeSet<&str> = sides.iter().flat_map(|side| &side.cases).map(|case| &*case.name).collect();
        let left_out = all.len() - cases.len();
        for side in &mut sides {
            let found = |name: &String| side.cases.iter().find(|case| case.name == *name).cloned();
            side.cases = cases.iter().filter_map(found).collect();
        }
        let seeds =
            |side: &Side, case: usize| side.cases[case].rows.iter().map(|row| row.seed).collect::<BTreeSet<_>>();
        let is_paired = (0..cases.len()).all(|case| {
            let own = seeds(&sides[0], case);
            sides.iter().all(|side| !own.is_disjoint(&seeds(side, case)))
        });
        let differing = differing(&sides);
        let mut lines = Vec::new();
        let chosen: Vec<Option<usize>> = match cases.len() {
            1 => vec![Some(0)],
            count => std::iter::once(None).chain((0..count).map(Some)).collect(),
        };
        for case in chosen {
            for measure in 0..MEASURES.len() {
                lines.extend(line(&sides, case, measure, is_paired));
            }
        }
        Some(Self { sides, cases, left_out, lines, differing, is_paired })
    }

    /// The lines of one case, or of all.
    pub fn lines_of(&self, case: Option<usize>) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.case == case)
    }

    /// The lines that sum the comparison up.
    pub fn main_lines(&self) -> impl Iterator<Item = &Line> {
        self.lines_of(if self.cases.len() == 1 { Some(0) } else { None })
    }

    /// Largest number of pairs behind a difference.
    pub fn pairs(&self) -> usize {
        self.lines.iter().flat_map(|line| &line.sides).map(|side| side.pairs).max().unwrap_or(0)
    }
}

fn values(side: &Side, case: usize, measure: usize) -> BySeed {
    let rows = side.cases[case].rows.iter();
    rows.map(|row| (row.seed, (MEASURES[measure].get)(row))).filter(|(_, value)| value.is_finite()).collect()
}

/// One line; `None` if no side has a value of the measure.
fn line(sides: &[Side], case: Option<usize>, measure: usize, is_paired: bool) -> Option<Line> {
    let cases: Vec<usize> = match case {
        Some(case) => vec![case],
        None => (0..sides[0].cases.len()).collect(),
    };
    let of_side = |side: &Side| cases.iter().map(|&case| values(side, case, measure)).collect::<Vec<BySeed>>();
    let base = of_side(&sides[0]);
    let mut estimates = Vec::new();
    for (nth, side) in sides.iter().enumerate() {
        let own = of_side(side);
        let mut flat: Vec<f64> = own.iter().flat_map(|case| case.values().copied()).collect();
        let mut estimate = Estimate {
            median: if flat.is_empty() { f64::NAN } else { median(&mut flat) },
            difference: Interval::NONE,
            relative: Interval::NONE,
            pairs: 0,
            missing: 0,
            outcome: Outcome::NotJudged,
        };
        if nth > 0 {
            estimate.missing = cases.iter().map(|&case| missing([&sides[0], side], case, measure, is_paired)).sum();
            differ(&mut estimate, &base, &own, MEASURES[measure].is_share, is_paired);
            judge(&mut estimate, &MEASURES[measure]);
        }
        estimates.push(estimate);
    }
    let has_value = |estimate: &Estimate| !estimate.median.is_nan();
    estimates.iter().any(has_value).then_some(Line { case, measure, sides: estimates })
}

/// Number of runs of two sides without a value whose counterpart, the run of the same seed or any of the other side, has one.
fn missing(sides: [&Side; 2], case: usize, measure: usize, is_paired: bool) -> usize {
    let [base, own] = sides.map(|side| values(side, case, measure));
    let runs = sides.map(|side| side.cases[case].rows.iter().map(|row| row.seed).collect::<BTreeSet<u64>>());
    if is_paired {
        return runs[0].intersection(&runs[1]).filter(|seed| base.contains_key(seed) != own.contains_key(seed)).count();
    }
    if base.is_empty() && own.is_empty() { 0 } else { runs[0].len() + runs[1].len() - base.len() - own.len() }
}

/// Differences of one case: of each pair, or, without common seeds, of the means; and the first side's mean.
struct Apart {
    differences: Vec<f64>,
    level: f64,
    pairs: usize,
}

impl Apart {
    fn new(base: &BySeed, own: &BySeed, is_paired: bool) -> Self {
        if !is_paired {
            let (level, other) = (mean_of(base.values()), mean_of(own.values()));
            let has_both = !base.is_empty() && !own.is_empty();
            let differences = if has_both { vec![other - level] } else { Vec::new() };
            return Self { differences, level, pairs: base.len().min(own.len()) };
        }
        let pairs: Vec<(f64, f64)> = base.iter().filter_map(|(seed, a)| Some((*a, *own.get(seed)?))).collect();
        let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
        Self { level: mean_of(pairs.iter().map(|(a, _)| a)), pairs: differences.len(), differences }
    }
}

fn mean_of<'a>(values: impl Iterator<Item = &'a f64>) -> f64 {
    mean(&values.copied().collect::<Vec<_>>())
}

/// Fills in the differences between two sides.
fn differ(estimate: &mut Estimate, base: &[BySeed], own: &[BySeed], is_share: bool, is_paired: bool) {
    let cases: Vec<Apart> = base.iter().zip(own).map(|(base, own)| Apart::new(base, own, is_paired)).collect();
    estimate.pairs = cases.iter().map(|case| case.pairs).sum();
    if let [case] = &cases[..] {
        estimate.difference = if is_paired { of_mean(&case.differences) } else { of_independent(&base[0], &own[0]) };
        estimate.relative = relative_to(case.level, estimate.difference);
        return;
    }
    let of = |scale: &dyn Fn(&Apart) -> f64| {
        let scaled = |case: &Apart| case.differences.iter().map(|one| one / scale(case)).collect::<Vec<_>>();
        of_mean(&independent(cases.iter().map(scaled).collect()))
    };
    estimate.relative = of(&|case| case.level);
    if is_share {
        estimate.difference = of(&|_| 1.0);
    }
}

/// Values that an interval takes for independent: each case's mean, as runs of one case resemble each other; of fewer than
/// `PAIRS_MIN` cases all values, which describe these cases only. Infinite ones are left out.
pub fn independent(cases: Vec<Vec<f64>>) -> Vec<f64> {
    let finite = |values: Vec<f64>| values.into_iter().filter(|value| value.is_finite()).collect::<Vec<_>>();
    let cases: Vec<Vec<f64>> = cases.into_iter().map(finite).filter(|values| !values.is_empty()).collect();
    if cases.len() < PAIRS_MIN { cases.concat() } else { cases.iter().map(|values| mean(values)).collect() }
}

/// A difference relative to a level; missing without a level.
fn relative_to(level: f64, difference: Interval) -> Interval {
    if level == 0.0 {
        return Interval::NONE;
    }
    let Interval { middle, low, high } = difference;
    Interval { middle: middle / level, low: low / level, high: high / level }
}

/// Difference of the means of independent samples, of a single case.
fn of_independent(base: &BySeed, own: &BySeed) -> Interval {
    let (a, b): (Vec<f64>, Vec<f64>) = (base.values().copied().collect(), own.values().copied().collect());
    let (low, high) = match a.len().min(b.len()) {
        ..PAIRS_MIN => (f64::NAN, f64::NAN),
        _ => student::interval_of_difference(&a, &b),
    };
    Interval { middle: mean(&b) - mean(&a), low, high }
}

/// Mean with its interval; without enough values the interval is missing.
pub fn of_mean(values: &[f64]) -> Interval {
    if values.is_empty() {
        return Interval::NONE;
    }
    let (low, high) = match values.len() {
        ..PAIRS_MIN => (f64::NAN, f64::NAN),
        _ => student::interval_of_mean(values),
    };
    Interval { middle: mean(values), low, high }
}

fn judge(estimate: &mut Estimate, measure: &Measure) {
    let by = if estimate.difference.is_known() { estimate.difference } else { estimate.relative };
    estimate.outcome = if estimate.missing > 0 {
        Outcome::Incomplete
    } else if !by.low.is_finite() {
        Outcome::NotJudged
    } else if (by.low <= 0.0 && by.high >= 0.0) || !is_material(estimate, measure) {
        Outcome::NoDifference
    } else if (by.middle > 0.0) == (measure.better == Better::More) {
        Outcome::Better
    } else {
        Outcome::Worse
    };
}

fn is_material(estimate: &Estimate, measure: &Measure) -> bool {
    let absolute = estimate.difference.middle.abs();
    if measure.is_share && absolute.is_finite() {
        return absolute >= MATERIAL_SHARE;
    }
    // Without a level to compare with, as of a queue that was empty, any difference counts.
    !estimate.relative.is_known() || estimate.relative.middle.abs() >= MATERIAL
}

/// Keys of the scenarios whose values differ between the sides; the seeds are compared as pairs.
fn differing(sides: &[Side]) -> Vec<(String, Vec<String>)> {
    let flat: Vec<BTreeMap<String, String>> = sides
        .iter()
        .map(|side| {
            let mut keys = BTreeMap::new();
            if let Some(case) = side.cases.first() {
                flatten("", &case.scenario, &mut keys);
            }
            keys.insert("version".to_owned(), side.version.clone());
            keys
        })
        .collect();
    let names: BTreeSet<&String> = flat.iter().flat_map(BTreeMap::keys).collect();
    let value =
        |keys: &BTreeMap<String, String>, name: &String| keys.get(name).cloned().unwrap_or_else(|| "–".to_owned());
    let rows = names.into_iter().filter(|name| !["seed", "name", "title"].contains(&name.as_str()));
    let rows = rows.map(|name| (name.clone(), flat.iter().map(|keys| value(keys, name)).collect::<Vec<_>>()));
    rows.filter(|(_, values)| values.iter().any(|value| *value != values[0])).collect()
}

fn flatten(path: &str, value: &Value, to: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                flatten(&if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, value, to);
            }
        }
        Value::Array(items) if items.iter().all(|item| item.is_string() || item.is_number()) => {
            let shown = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            to.insert(path.to_owned(), items.iter().map(shown).collect::<Vec<_>>().join("; "));
        }
        Value::Null => {}
        Value::String(text) => drop(to.insert(path.to_owned(), text.clone())),
        other => drop(to.insert(path.to_owned(), other.to_string())),
    }
}

/// The comparison as a JSON document.
pub fn json(found: &Comparison) -> Value {
    let line = |line: &Line| {
        let measure = &MEASURES[line.measure];
        let side = |(nth, estimate): (usize, &Estimate)| {
            let name = &found.sides[nth].name;
            if nth == 0 {
                return serde_json::json!({ "side": name, "median": estimate.median });
            }
            let mut value = serde_json::to_value(estimate).unwrap_or_default();
            value["side"] = name.clone().into();
            value
        };
        serde_json::json!({
            "case": line.case.map(|case| found.cases[case].clone()),
            "measure": measure.key,
            "better": if measure.better == Better::More { "more" } else { "less" },
            "sides": line.sides.iter().enumerate().map(side).collect::<Vec<_>>(),
        })
    };
    let side = |side: &Side| {
        let seeds: BTreeSet<u64> = side.cases.iter().flat_map(|case| &case.rows).map(|row| row.seed).collect();
        serde_json::json!({ "name": side.name, "version": side.version, "seeds": seeds })
    };
    serde_json::json!({
        "schema": 1,
        "answer": answer(found),
        "notes": notes(found),
        "sides": found.sides.iter().map(side).collect::<Vec<_>>(),
        "cases": found.cases,
        "paired": found.is_paired,
        "differing": found.differing.iter().map(|(key, values)| serde_json::json!({ "key": key, "values": values })).collect::<Vec<_>>(),
        "lines": found.lines.iter().map(line).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
