//! Holds a finished run to a case's demands.
//! In: a case, a run, the cell's variables. Out: one [`Seen`] a demand. Never: a demand that is dropped in silence.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::sync::Arc;

use super::file::{Case, Check, Number};
use super::{Seen, Verdict};
use crate::expect::{Measurer, RunSet, RunView};

/// What a demand's bounds are called where it has none: a question that must be answered by yes.
pub(super) const YES: &str = "yes";

pub(super) fn judge(
    case: &Case,
    algorithm: &str,
    run: &RunView,
    values: &[(String, f64)],
) -> Result<Vec<Seen>, String> {
    let runs = BTreeMap::from([(String::new(), run.clone())]);
    let measurer = Measurer::new(Arc::new(RunSet { runs, ..RunSet::default() }));
    let mut values = values.to_vec();
    for named in &case.lets {
        let is_whole = values.iter().all(|(_, value)| !value.is_nan());
        let value = match measurer.measure_with(&named.value, Some(run), &values) {
            Err(_) if !is_whole => f64::NAN,
            other => other?,
        };
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

fn seen(check: &Check, measurer: &Measurer, run: &RunView, values: &[(String, f64)]) -> Result<Seen, String> {
    // A moment that never came leaves nothing to measure from: that is an answer, not a fault of the file.
    let is_whole = values.iter().all(|(_, value)| !value.is_nan());
    let value = |text: &str| match measurer.measure_with(text, Some(run), values) {
        Err(_) if !is_whole => Ok(f64::NAN),
        other => other,
    };
    let bound = |bound: &Option<Number>| match bound {
        None => Ok(None),
        Some(Number::Plain(number)) => Ok(Some(*number)),
        Some(Number::Expression(text)) => value(text).map(Some),
    };
    if let Some(rule) = &check.rule
        && value(rule)? == 0.0
    {
        return Ok(Seen {
            what: check.what.clone(),
            expected: String::new(),
            measured: f64::NAN,
            unit: check.unit.clone(),
            verdict: Verdict::NotApplicable,
            reason: check.otherwise.clone(),
        });
    }
    let (min, max, measured) = (bound(&check.min)?, bound(&check.max)?, value(&check.measure)?);
    let (holds, expected) = match (min, max) {
        (None, None) => (measured == 1.0, YES.to_owned()),
        _ => {
            let holds = min.is_none_or(|min| measured >= min) && max.is_none_or(|max| measured <= max);
            (holds && !measured.is_nan(), crate::experiment::bounds_text(min, max, &check.unit))
        }
    };
    let verdict = if holds { Verdict::Holds } else { Verdict::Fails };
    Ok(Seen { what: check.what.clone(), expected, measured, unit: check.unit.clone(), verdict, reason: None })
}
