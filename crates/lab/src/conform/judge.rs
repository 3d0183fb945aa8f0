//! Holds a finished run to a case's demands.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::sync::Arc;

use super::file::{Case, Check, Number};
use super::{Seen, Verdict};
use crate::expect::{Measurer, RunSet, RunView};

/// What a demand's bounds are called where it has none: a question that must be answered by yes.
pub(super) const YES: &str = "yes";

pub(super) fn judge(case: &Case, algorithm: &str, run: &RunView, values: &[(String, f64)]) -> Vec<Seen> {
    let runs = BTreeMap::from([(String::new(), run.clone())]);
    let measurer = Measurer::new(Arc::new(RunSet { runs, ..RunSet::default() }));
    let mut values = values.to_vec();
    for named in &case.lets {
        // A moment that never came leaves nothing to measure from.
        let value = measurer.measure_with(&named.value, Some(run), &values).unwrap_or(f64::NAN);
        values.push((named.name.clone(), value));
    }
    let asked = case.check.iter().filter(|check| check.is_for(algorithm));
    asked.map(|check| seen(check, &measurer, run, &values)).collect()
}

impl Check {
    fn is_for(&self, algorithm: &str) -> bool {
        let draft = if algorithm == "bbr3-draft06" { "bbr3" } else { algorithm };
        self.only.as_ref().is_none_or(|only| only.iter().any(|name| name == draft))
    }
}

/// What cannot be measured fails, and says why.
fn seen(check: &Check, measurer: &Measurer, run: &RunView, values: &[(String, f64)]) -> Seen {
    let (measured, expected, verdict, reason) = match weighed(check, measurer, run, values) {
        Ok(Some((measured, expected, holds))) => {
            (measured, expected, if holds { Verdict::Holds } else { Verdict::Fails }, None)
        }
        Ok(None) => (f64::NAN, String::new(), Verdict::NotApplicable, check.otherwise.clone()),
        Err(error) => (f64::NAN, YES.to_owned(), Verdict::Fails, Some(error)),
    };
    Seen { what: check.what.clone(), expected, measured, unit: check.unit.clone(), verdict, reason }
}

/// What was measured, the bounds in words, and whether it lies within them; nothing where the rule does not ask.
fn weighed(
    check: &Check,
    measurer: &Measurer,
    run: &RunView,
    values: &[(String, f64)],
) -> Result<Option<(f64, String, bool)>, String> {
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
