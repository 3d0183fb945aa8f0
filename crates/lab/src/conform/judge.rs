//! Checks of a finished run against a case's requirements.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::sync::Arc;

use super::file::{Case, Check, Number};
use super::{CheckResult, Verdict};
use crate::Result;
use crate::expect::{Measurer, RunSet, RunView};

/// Expected value of a check without bounds: a yes-or-no question.
pub(super) const YES: &str = "yes";

/// Columns that the run left empty, each with the reason.
pub(super) type EmptyColumns = Vec<(&'static str, String)>;

pub(super) fn judge(
    case: &Case,
    algorithm: &str,
    run: &RunView,
    values: &[(String, f64)],
    unseen: &EmptyColumns,
) -> Vec<CheckResult> {
    let runs = BTreeMap::from([(String::new(), run.clone())]);
    let measurer = Measurer::new(Arc::new(RunSet { runs, ..RunSet::default() }));
    let mut values = values.to_vec();
    let mut blind: Vec<(&str, &str)> = Vec::new();
    for named in &case.lets {
        // A trigger that never occurred leaves nothing to measure from.
        let value = measurer.measure_with(&named.value, Some(run), &values).unwrap_or(f64::NAN);
        values.push((named.name.clone(), value));
        blind.extend(blindness(&named.value, unseen, &blind).map(|reason| (named.name.as_str(), reason)));
    }
    let asked = case.check.iter().filter(|check| check.is_for(algorithm));
    asked
        .map(|check| match check.expressions().find_map(|text| blindness(text, unseen, &blind)) {
            Some(reason) => check.not_seen(reason),
            None => seen(check, &measurer, run, &values),
        })
        .collect()
}

/// Marks every check of a case on an algorithm as not applicable, for one reason.
pub(super) fn none_seen(case: &Case, algorithm: &str, reason: &str) -> Vec<CheckResult> {
    case.check.iter().filter(|check| check.is_for(algorithm)).map(|check| check.not_seen(reason)).collect()
}

/// Reason why an expression cannot be measured: it uses an empty column, directly or through another value.
fn blindness<'u>(text: &str, unseen: &'u EmptyColumns, blind: &[(&str, &'u str)]) -> Option<&'u str> {
    let asks =
        |column: &str| text.contains(&format!("\"{column}\"")) || (column == "round" && text.contains("rounds_in("));
    let words = || text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let of_column = unseen.iter().find(|(column, _)| asks(column)).map(|(_, reason)| reason.as_str());
    of_column.or_else(|| blind.iter().find(|(name, _)| words().any(|word| word == *name)).map(|(_, reason)| *reason))
}

impl Check {
    fn is_for(&self, algorithm: &str) -> bool {
        let draft = if algorithm == "bbr3-draft06" { "bbr3" } else { algorithm };
        self.only.as_ref().is_none_or(|only| only.iter().any(|name| name == draft))
    }

    /// Expressions that the check evaluates.
    pub(super) fn expressions(&self) -> impl Iterator<Item = &str> {
        let bounds = [&self.min, &self.max].into_iter().flatten().filter_map(Number::expression);
        bounds.chain(self.rule.as_deref()).chain([self.measure.as_str()])
    }

    fn not_seen(&self, reason: &str) -> CheckResult {
        CheckResult {
            what: self.what.clone(),
            expected: String::new(),
            measured: f64::NAN,
            unit: self.unit.clone(),
            verdict: Verdict::NotApplicable,
            reason: Some(reason.to_owned()),
        }
    }
}

/// Evaluates a check; a value that cannot be measured fails with the reason.
fn seen(check: &Check, measurer: &Measurer, run: &RunView, values: &[(String, f64)]) -> CheckResult {
    let (measured, expected, verdict, reason) = match weighed(check, measurer, run, values) {
        Ok(Some((measured, expected, holds))) => {
            (measured, expected, if holds { Verdict::Holds } else { Verdict::Fails }, None)
        }
        Ok(None) => (f64::NAN, String::new(), Verdict::NotApplicable, check.otherwise.clone()),
        Err(error) => (f64::NAN, YES.to_owned(), Verdict::Fails, Some(error.to_string())),
    };
    CheckResult { what: check.what.clone(), expected, measured, unit: check.unit.clone(), verdict, reason }
}

/// Returns the measured value, the bounds in words, and true if they hold; `None` if the rule excludes the cell.
fn weighed(
    check: &Check,
    measurer: &Measurer,
    run: &RunView,
    values: &[(String, f64)],
) -> Result<Option<(f64, String, bool)>> {
    let value = |text: &str| measurer.measure_with(text, Some(run), values);
    let bound = |bound: &Option<Number>| match bound {
        None => Ok(None),
        Some(Number::Plain(number)) => Ok(Some(*number)),
        Some(Number::Expression(text)) => value(text).map(Some),
    };
    if let Some(rule) = &check.rule
        && value(rule)? == 0.0
    {
        return Ok(None);
    }
    let (min, max, measured) = (bound(&check.min)?, bound(&check.max)?, value(&check.measure)?);
    if min.is_none() && max.is_none() {
        return Ok(Some((measured, YES.to_owned(), measured == 1.0)));
    }
    let holds = !measured.is_nan() && min.is_none_or(|min| measured >= min) && max.is_none_or(|max| measured <= max);
    Ok(Some((measured, crate::experiment::bounds_text(min, max, &check.unit), holds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_column_disables_exactly_the_expressions_that_use_it() {
        let unseen = vec![("round", "no rounds".to_owned()), ("undos", "no undos".to_owned())];
        let blind = [("known", "no undos")];
        let of = |text: &str| blindness(text, &unseen, &blind);
        assert_eq!(of("f.at(\"round\", 1)"), Some("no rounds"));
        assert_eq!(of("f.rounds_in(\"drain\", 0, 1)"), Some("no rounds"));
        assert_eq!(of("f.at(\"cwnd\", known)"), Some("no undos"));
        assert_eq!(of("f.at(\"cwnd\", unknown_known)"), None);
        assert_eq!(of("f.at(\"rounds_since_probe\", 1)"), None);
    }
}
