//! The extension module `bbrlab._bbrlab`: scenarios as JSON in, results as JSON and Arrow out. `python/bbrlab` is its face.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod controller;
mod env;
mod error;
mod evidence;
mod external;
mod interrupt;
mod run;
mod study;
mod table;

use bbrlab_core::ALGORITHMS;
use bbrlab_core::params::Unit;
use bbrlab_sim::scenario::{FLOW_OPTIONS, FlowSpec, KEYS, ScenarioFile, unit_text};
use bbrlab_study::sweep::Metric;
use pyo3::prelude::*;
use serde_json::{Value, json};

/// Algorithms as JSON: a list of objects.
#[pyfunction]
fn algorithms() -> String {
    let one = |info: &bbrlab_core::AlgorithmInfo| {
        json!({
            "name": info.name,
            "aliases": info.aliases,
            "summary": info.summary,
            "source": info.source,
            "needs_pacing": info.needs_pacing,
            "counts_bytes": info.counts_bytes,
            "linux_name": info.linux_name,
        })
    };
    Value::from(ALGORITHMS.iter().map(one).collect::<Vec<_>>()).to_string()
}

/// An algorithm's parameters as JSON: a list of objects.
#[pyfunction]
fn parameters(algorithm: &str) -> PyResult<String> {
    let flow = FlowSpec::of(algorithm).map_err(|error| error::scenario("flow", &error.to_string()))?;
    let rows = flow.algorithm.parameters().map(|(spec, value)| {
        let shown = |value| unit_text(spec.unit, value);
        let range =
            if spec.unit == Unit::Switch { json!(["off", "on"]) } else { json!([shown(spec.min), shown(spec.max)]) };
        json!({
            "name": spec.name,
            "unit": spec.unit.name(),
            "default": shown(value),
            "range": range,
            "meaning": spec.meaning.trim(),
            "source": spec.source,
        })
    });
    Ok(Value::from(rows.collect::<Vec<_>>()).to_string())
}

/// Lines of documentation without the blank after their slashes.
fn trimmed(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| line.trim().to_owned()).collect()
}

/// Keys of a scenario and options of a flow as JSON.
#[pyfunction]
fn keys() -> String {
    let keys: Vec<Value> = KEYS
        .iter()
        .map(
            |key| json!({ "name": key.name, "value": key.value, "default": key.default, "meaning": trimmed(key.help) }),
        )
        .collect();
    let options: Vec<Value> = FLOW_OPTIONS
        .iter()
        .map(|option| json!({ "name": option.name, "value": option.value, "meaning": trimmed(option.help) }))
        .collect();
    json!({ "keys": keys, "flow_options": options }).to_string()
}

/// A scenario in TOML as JSON, checked. `name` stands in errors.
#[pyfunction]
fn scenario_of_toml(text: &str, name: &str) -> PyResult<String> {
    let file = ScenarioFile::from_toml(text, name).map_err(|error| error::sim(&error))?;
    serde_json::to_string(&file.scenario).map_err(|error| error::internal(&error.to_string()))
}

#[pymodule]
fn _bbrlab(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("FIGURES", Metric::ALL.iter().map(|one| one.name()).collect::<Vec<_>>())?;
    error::register(module)?;
    module.add_function(wrap_pyfunction!(algorithms, module)?)?;
    module.add_function(wrap_pyfunction!(parameters, module)?)?;
    module.add_function(wrap_pyfunction!(keys, module)?)?;
    module.add_function(wrap_pyfunction!(scenario_of_toml, module)?)?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(run::check, module)?)?;
    module.add_function(wrap_pyfunction!(evidence::claims, module)?)?;
    module.add_function(wrap_pyfunction!(evidence::case_numbers, module)?)?;
    module.add_function(wrap_pyfunction!(evidence::reproduce, module)?)?;
    module.add_function(wrap_pyfunction!(evidence::conform, module)?)?;
    module.add_function(wrap_pyfunction!(evidence::score, module)?)?;
    module.add_function(wrap_pyfunction!(study::advise, module)?)?;
    module.add_function(wrap_pyfunction!(study::tune, module)?)?;
    module.add_function(wrap_pyfunction!(study::cdn, module)?)?;
    module.add_function(wrap_pyfunction!(study::cdn_count, module)?)?;
    module.add_function(wrap_pyfunction!(study::cdn_part, module)?)?;
    module.add_function(wrap_pyfunction!(study::cdn_conclude, module)?)?;
    module.add_function(wrap_pyfunction!(study::replay, module)?)?;
    #[cfg(target_os = "linux")]
    module.add_function(wrap_pyfunction!(study::ab_report, module)?)?;
    #[cfg(target_os = "linux")]
    module.add_function(wrap_pyfunction!(study::ab_summary, module)?)?;
    module.add_class::<study::Answer>()?;
    module.add_class::<run::Run>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<controller::Controller>()?;
    module.add_class::<controller::Token>()?;
    module.add_class::<external::Ack>()?;
    module.add_class::<external::Sent>()?;
    module.add_class::<external::Timeout>()?;
    module.add_class::<env::Envs>()?;
    Ok(())
}
