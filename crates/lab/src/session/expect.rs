//! A scenario's own `[[expect]]` tables: checked before the run and evaluated after it. A value that cannot be measured
//! fails.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::expect::{Measurer, RunSet, RunView, check_syntax};
use crate::{Error, Result};
use bbrlab_sim::record::Output;
use bbrlab_sim::record::result::{Expectation, RunResult};
use bbrlab_sim::scenario::ExpectSpec;
use bbrlab_sim::setup::Setup;

/// Rejects expectations that can never be satisfied or measured.
pub fn check(specs: &[ExpectSpec]) -> Result<()> {
    for (index, spec) in specs.iter().enumerate() {
        let at = || Error::at::<Error>(format!("expect {}", index + 1));
        check_syntax(&spec.measure).map_err(|error| at()(Error::at("measure")(error)))?;
        if spec.min.is_none() && spec.max.is_none() {
            return Err(at()(Error::Rule("neither min nor max is written; write one of them")));
        }
    }
    Ok(())
}

/// Evaluates the expectations of one run; returns the run as well.
pub fn evaluate(specs: &[ExpectSpec], setup: &Arc<Setup>, output: Output) -> Result<(Output, Vec<Expectation>)> {
    if specs.is_empty() {
        return Ok((output, Vec::new()));
    }
    let output = Arc::new(output);
    let view = RunView::new("run", Arc::clone(setup), Arc::clone(&output));
    let runs = BTreeMap::from([("run".to_owned(), view)]);
    let measurer = Measurer::new(Arc::new(RunSet { runs, ..RunSet::default() }));
    let mut verdicts = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        let measured = measurer.measure(&spec.measure);
        verdicts.push(verdict(spec, measured.map_err(Error::at(format!("expect {}: measure", index + 1)))?));
    }
    drop(measurer);
    Ok((Arc::unwrap_or_clone(output), verdicts))
}

/// Evaluates the expectations on the medians of several runs.
pub fn medians<'a>(specs: &[ExpectSpec], runs: impl Iterator<Item = &'a RunResult>) -> Vec<Expectation> {
    let runs: Vec<&RunResult> = runs.collect();
    let median = |index: usize| {
        let mut values: Vec<f64> = runs.iter().filter_map(|run| Some(run.expect.get(index)?.measured)).collect();
        if values.iter().any(|value| value.is_nan()) { f64::NAN } else { bbrlab_stats::median(&mut values) }
    };
    specs.iter().enumerate().map(|(index, spec)| verdict(spec, median(index))).collect()
}

fn verdict(spec: &ExpectSpec, measured: f64) -> Expectation {
    // A comparison with NaN is false, so an unmeasured value fails.
    let holds = spec.min.is_none_or(|min| measured >= min) && spec.max.is_none_or(|max| measured <= max);
    let bounds = match (spec.min, spec.max) {
        (Some(min), Some(max)) => format!("{min} … {max}"),
        (Some(min), None) => format!("≥ {min}"),
        (None, Some(max)) => format!("≤ {max}"),
        (None, None) => String::new(),
    };
    let expected = if spec.expected.is_empty() { bounds } else { spec.expected.clone() };
    let what = if spec.what.is_empty() { &spec.measure } else { &spec.what };
    Expectation { id: spec.id.clone(), what: what.clone(), expected, measured, holds }
}
