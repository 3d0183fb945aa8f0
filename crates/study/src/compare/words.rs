//! A comparison in words.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_stats::number::{or_dash, rounded, signed_percent};
use bbrlab_stats::plural::counted;

use super::{Comparison, Estimate, Line, MEASURES, Measure, Outcome, PAIRS_MIN};

/// Maximum measures in one list of the answer; all are in the table. Ours.
const LISTED_MAX: usize = 3;

/// A value in the measure's unit; a dash if no run has one.
pub fn value(measure: &Measure, value: f64) -> String {
    or_dash(value, |value| format!("{} {}", rounded(value * measure.scale, 4), measure.unit).trim_end().to_owned())
}

/// A difference in the measure's unit; of a share in percentage points.
pub(super) fn difference(measure: &Measure, value: f64) -> String {
    let scaled = value * measure.scale;
    let sign = if scaled < 0.0 { "−" } else { "+" };
    let unit = if measure.is_share { "points" } else { measure.unit };
    format!("{sign}{} {unit}", rounded(scaled.abs(), 3)).trim_end().to_owned()
}

/// True if a difference is shown in the measure's unit.
fn is_absolute(measure: &Measure, estimate: &Estimate) -> bool {
    estimate.difference.is_known() && (measure.is_absolute || !estimate.relative.is_known())
}

/// The difference as a reader looks for it.
pub(super) fn change(measure: &Measure, estimate: &Estimate) -> String {
    if is_absolute(measure, estimate) {
        return difference(measure, estimate.difference.middle);
    }
    if estimate.relative.is_known() {
        format!("{} %", signed_percent(estimate.relative.middle))
    } else {
        "–".to_owned()
    }
}

/// Its interval, in the same form.
pub(super) fn interval(measure: &Measure, estimate: &Estimate) -> String {
    let (one, scale) = match is_absolute(measure, estimate) {
        true => (estimate.difference, measure.scale),
        false => (estimate.relative, 100.0),
    };
    if !one.low.is_finite() {
        return String::new();
    }
    let end = |value: f64| {
        let scaled = value * scale;
        format!("{}{}", if scaled < 0.0 { "−" } else { "+" }, rounded(scaled.abs(), 3))
    };
    format!("{} to {}", end(one.low), end(one.high))
}

/// Change, interval and outcome of an estimate, as a table shows them.
pub fn cells(measure: &Measure, estimate: &Estimate) -> [String; 3] {
    let outcome = match estimate.outcome {
        Outcome::Better => "better",
        Outcome::Worse => "worse",
        Outcome::NoDifference => "no clear difference",
        Outcome::NotJudged => "too few runs",
        Outcome::Incomplete => &format!("{} without a value", counted(estimate.missing, "run")),
    };
    [change(measure, estimate), interval(measure, estimate), outcome.to_owned()]
}

/// The measures of a side with one outcome, each with its change.
fn listed(found: &Comparison, side: usize, outcome: Outcome, with_change: bool) -> Vec<String> {
    let of = |line: &Line| {
        let measure = &MEASURES[line.measure];
        let estimate = &line.sides[side];
        (estimate.outcome == outcome).then(|| match with_change {
            true => format!("{} {}", measure.name, change(measure, estimate)),
            false => measure.name.to_owned(),
        })
    };
    let mut all: Vec<String> = found.main_lines().filter_map(of).collect();
    let more = all.len().saturating_sub(LISTED_MAX);
    if more > 1 {
        all.truncate(LISTED_MAX);
        all.push(format!("and {more} more"));
    }
    all
}

/// The answer in one sentence for each side but the first.
pub fn answer(found: &Comparison) -> String {
    let base = &found.sides[0].name;
    let of = |nth: usize| {
        let own = &found.sides[nth].name;
        let few = listed(found, nth, Outcome::NotJudged, true);
        let (better, worse) = (listed(found, nth, Outcome::Better, true), listed(found, nth, Outcome::Worse, true));
        let same = listed(found, nth, Outcome::NoDifference, false);
        let incomplete = listed(found, nth, Outcome::Incomplete, false);
        let mut parts = Vec::new();
        for (word, all) in [
            ("better", better),
            ("worse", worse),
            ("no clear difference", same),
            ("not judged, too few runs", few),
            ("not judged, as some runs have no value", incomplete),
        ] {
            if !all.is_empty() {
                parts.push(format!("{word}: {}", all.join(", ")));
            }
        }
        format!("{own} against {base}: {}.", parts.join("; "))
    };
    (1..found.sides.len()).map(of).collect::<Vec<_>>().join(" ")
}

/// Returns the caveats that are printed above the figures.
pub fn notes(found: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    let pairs = found.pairs();
    if pairs < PAIRS_MIN {
        notes.push(format!(
            "{} {}: a difference may be chance. Repeat with at least {PAIRS_MIN} seeds (--repeat 10).",
            counted(pairs, if found.is_paired { "pair" } else { "run" }),
            if found.is_paired { "of runs with equal seeds" } else { "of each" },
        ));
    } else if !found.is_paired {
        notes.push(
            "The sides have no seed in common, so their runs are compared as independent ones; intervals are wider."
                .to_owned(),
        );
    }
    if found.left_out > 0 {
        notes.push(format!("{} left out: not every side has it.", counted(found.left_out, "case")));
    }
    notes
}
