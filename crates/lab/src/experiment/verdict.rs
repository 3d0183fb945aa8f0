//! Evaluation of an expectation over the finished runs, giving rows with verdicts.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::file::{Bound, Expect, Middle, Status};
use super::{Row, Verdict};
use crate::Result;
use crate::expect::{Curve, Measurer};
use bbrlab_stats::number::significant;

/// The bounds of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    min: Option<f64>,
    max: Option<f64>,
}

impl Bounds {
    /// Returns the tightest of the author's bounds for row number `index`.
    fn of(expect: &Expect, index: usize) -> Self {
        let at = |bound: &Option<Bound>| bound.as_ref().and_then(|b| b.at(index));
        let (mut min, mut max) = (at(&expect.min), at(&expect.max));
        if let Some(near) = at(&expect.near) {
            let (low, high) = match (expect.within, expect.factor) {
                (Some(within), None) => (near - within, near + within),
                (None, Some(factor)) => (near / factor, near * factor),
                (Some(within), Some(factor)) => {
                    ((near - within).max(near / factor), (near + within).min(near * factor))
                }
                (None, None) => (near, near),
            };
            min = Some(min.map_or(low, |m| m.max(low)));
            max = Some(max.map_or(high, |m| m.min(high)));
        }
        Self { min, max }
    }

    /// Returns true if the value is within the bounds; NaN never is.
    fn hold(self, value: f64) -> bool {
        !value.is_nan() && self.min.is_none_or(|m| value >= m) && self.max.is_none_or(|m| value <= m)
    }

    fn text(self, unit: &str) -> String {
        bounds_text(self.min, self.max, unit)
    }
}

/// Formats bounds in words.
pub fn bounds_text(min: Option<f64>, max: Option<f64>, unit: &str) -> String {
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    match (min, max) {
        (Some(min), Some(max)) => format!("{}…{}{unit}", significant(min, 4), significant(max, 4)),
        (Some(min), None) => format!("≥ {}{unit}", significant(min, 4)),
        (None, Some(max)) => format!("≤ {}{unit}", significant(max, 4)),
        (None, None) => "nothing".into(),
    }
}

/// Note of a row that holds although it is marked as a miss at every seed.
pub const STALE_MARK: &str = "marked as an explained miss, but it holds";
/// Note of a row that holds although the file marks it as dependent on the seed.
pub const HOLDS_BY_CHANCE: &str = "holds with this seed, misses with others";

/// Conditions under which the marks of a file are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarkPolicy {
    /// False on a backend that lacks some of the runs.
    pub(super) is_whole: bool,
    /// True where the marks were made, in the simulator with all seeds: a marked row that holds fails.
    pub(super) is_strict: bool,
}

/// Evaluates the rows of one expectation. If runs are missing, a row that cannot be measured is marked so.
pub(super) fn rows(expect: &Expect, measurer: &Measurer, judging: MarkPolicy) -> Result<Vec<Row>> {
    let row = |index: usize, label: &str, measured: f64| row(expect, index, label, measured, judging.is_strict);
    let verdict = |index: usize, label: &str, measured: Result<f64>| match measured {
        Ok(measured) => Ok(row(index, label, measured)),
        Err(_) if !judging.is_whole => Ok(Row { verdict: Verdict::NotHere, note: None, ..row(index, label, f64::NAN) }),
        Err(error) => Err(error),
    };
    let Some(axis) = &expect.each else {
        return Ok(vec![verdict(0, "", measurer.measure(&expect.measure))?]);
    };
    let labels: Vec<String> = match &expect.at {
        Some(labels) => labels.clone(),
        None => measurer.runs().axis(axis)?.values.iter().map(|(label, _)| label.clone()).collect(),
    };
    let mut rows = Vec::new();
    for (index, label) in labels.iter().enumerate() {
        let comma = if expect.fixed.is_empty() { "" } else { "," };
        let name = format!("{}{comma}{axis}={label}", expect.fixed);
        let measured = match measurer.runs().run(&name) {
            Ok(run) => measurer.measure_of(&expect.measure, run),
            Err(_) => over_free_axes(expect, measurer, axis, &name),
        };
        rows.push(verdict(index, label, measured)?);
    }
    Ok(rows)
}

/// Median or mean over the runs of the axes that neither `each` nor `where` fixes.
fn over_free_axes(expect: &Expect, measurer: &Measurer, axis: &str, name: &str) -> Result<f64> {
    let runs = measurer.along(axis, name, &expect.measure)?;
    Ok(match expect.free {
        Middle::Median => Curve::new(runs).first(),
        Middle::Mean => runs.iter().map(|(_, value)| value).sum::<f64>() / runs.len() as f64,
    })
}

fn row(expect: &Expect, index: usize, label: &str, measured: f64, is_strict: bool) -> Row {
    let bounds = Bounds::of(expect, index);
    let what = match &expect.each {
        Some(axis) => format!("{}, {axis} {label}", expect.what),
        None => expect.what.clone(),
    };
    let is_ours = expect.ours.has(label);
    let range = format!("{}{}", bounds.text(&expect.unit), if is_ours { ", ours" } else { "" });
    let expected = match &expect.expected {
        Some(text) => format!("{text} ({range})"),
        None => range,
    };
    let (verdict, note) = verdict(mark(expect, label), bounds.hold(measured), is_strict);
    Row { what, expected, is_ours, measured, unit: expect.unit.clone(), grade: expect.grade, verdict, note }
}

/// Returns the author's mark on the row of this label, with its reason.
fn mark<'a>(expect: &'a Expect, label: &str) -> Option<(Status, &'a String)> {
    let of_all = expect.status.zip(expect.reason.as_ref());
    let short = || expect.short.get(label).map(|reason| (Status::FallsShort, reason));
    let varies = || expect.varies.get(label).map(|reason| (Status::Varies, reason));
    of_all.or_else(short).or_else(varies)
}

/// Judges a row; one that depends on the seed counts as missed with every seed, so that the verdict does not vary.
fn verdict(mark: Option<(Status, &String)>, holds: bool, is_strict: bool) -> (Verdict, Option<String>) {
    let missed = |reason: &String| Verdict::FallsShort { reason: reason.clone() };
    match (mark, holds) {
        (None, true) => (Verdict::Holds, None),
        (None, false) => (Verdict::Fails, None),
        (Some((_, reason)), false) => (missed(reason), None),
        (Some((Status::Varies, reason)), true) => (missed(reason), Some(HOLDS_BY_CHANCE.into())),
        (Some((Status::FallsShort, _)), true) if is_strict => (Verdict::Fails, Some(STALE_MARK.into())),
        (Some((Status::FallsShort, _)), true) => (Verdict::Holds, Some(STALE_MARK.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect(text: &str) -> Expect {
        toml::from_str(&format!("what='w'\nmeasure='1'\n{text}")).unwrap()
    }

    fn verdict(text: &str, measured: f64) -> Verdict {
        row(&expect(text), 0, "", measured, true).verdict
    }

    #[test]
    fn a_value_on_its_bound_holds_and_one_beyond_fails() {
        assert_eq!(verdict("min=1\nmax=2", 2.0), Verdict::Holds);
        assert_eq!(verdict("min=1\nmax=2", 2.001), Verdict::Fails);
        assert_eq!(verdict("near=10\nwithin=1", 9.0), Verdict::Holds);
        assert_eq!(verdict("near=10\nfactor=2", 4.9), Verdict::Fails);
    }

    #[test]
    fn what_could_not_be_measured_fails() {
        assert_eq!(verdict("min=0", f64::NAN), Verdict::Fails);
    }

    #[test]
    fn a_marked_row_that_holds_fails_where_the_marks_were_made_and_is_noted_elsewhere() {
        let marked = expect("min=1\nstatus='falls short'\nreason='known'");
        let at = |measured: f64, is_strict: bool| {
            let row = row(&marked, 0, "", measured, is_strict);
            (row.verdict, row.note)
        };
        assert_eq!(at(0.0, true), (Verdict::FallsShort { reason: "known".into() }, None));
        assert_eq!(at(2.0, true), (Verdict::Fails, Some(STALE_MARK.into())));
        assert_eq!(at(2.0, false), (Verdict::Holds, Some(STALE_MARK.into())));
    }

    #[test]
    fn a_row_that_varies_with_the_seed_has_one_verdict_with_all() {
        for text in ["min=1\nstatus='varies'\nreason='known'", "min=1\nvaries.''='known'"] {
            let at = |measured: f64| row(&expect(text), 0, "", measured, true);
            let missed = Verdict::FallsShort { reason: "known".into() };
            assert_eq!((at(0.0).verdict, at(0.0).note), (missed.clone(), None));
            assert_eq!((at(2.0).verdict, at(2.0).note.as_deref()), (missed, Some(HOLDS_BY_CHANCE)));
        }
    }

    #[test]
    fn a_bound_of_ours_is_marked_row_by_row() {
        let at = |label: &str| {
            let row = row(&expect("each='loss'\nmax=20\nunit='%'\nours=['20%']"), 0, label, 1.0, true);
            (row.is_ours, row.expected)
        };
        assert_eq!(at("20%"), (true, "≤ 20 %, ours".into()));
        assert_eq!(at("25%"), (false, "≤ 20 %".into()));
        assert!(row(&expect("max=20\nours=true"), 0, "", 1.0, true).is_ours);
    }

    /// Trap: a real kernel's mark that hid a failure in the simulator.
    #[test]
    fn a_kernel_s_mark_counts_on_a_kernel_only() {
        let text = "id='X'\ntitle='t'\nsource='s'\nclaim='c'\n[scenario]\nduration='1s'\n\
                    [[expect]]\nwhat='w'\nmeasure='1'\nmin=2\nkernel_short={ ''='known' }\n";
        let mut experiment = crate::experiment::parse(text, "test").unwrap();
        let verdict =
            |experiment: &crate::experiment::Experiment| row(&experiment.file.expect[0], 0, "", 1.0, true).verdict;
        assert_eq!(verdict(&experiment), Verdict::Fails);
        experiment.on_a_kernel();
        assert_eq!(verdict(&experiment), Verdict::FallsShort { reason: "known".into() });
    }

    #[test]
    fn the_tightest_of_several_bounds_counts() {
        assert_eq!(verdict("near=10\nwithin=5\nmin=9", 8.0), Verdict::Fails);
    }

    #[test]
    fn bounds_are_shown_to_four_digits() {
        assert_eq!(row(&expect("min=0.95\nmax=123.456\nunit='ms'"), 0, "", 1.0, true).expected, "0.95…123.5 ms");
        assert_eq!(significant(609.0, 4), "609");
        assert_eq!(significant(0.000_5, 4), "0.0005");
    }
}
