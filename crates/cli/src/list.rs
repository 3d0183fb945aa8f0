//! `bbrlab list`: what there is, with one line each and its source.
//! In: what to list. Out: text. Never: an algorithm that this build cannot run.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{ALGORITHMS, Unit};
use bbrlab_sim::scenario::{FlowSpec, unit_text};

use crate::Failure;
use crate::args::{ListArgs, ListWhat};
use crate::grid::{Align, aligned};

/// The list as text.
pub fn list(args: &ListArgs) -> Result<String, Failure> {
    match args.what.clone().unwrap_or(ListWhat::Algorithms) {
        ListWhat::Algorithms => Ok(algorithms()),
        ListWhat::Experiments { experiments } => crate::reproduce::list(experiments.as_deref()),
        ListWhat::Parameters { algorithm } => parameters(&algorithm),
        ListWhat::Schema => schema(),
        ListWhat::Worlds => Ok(worlds()),
    }
}

fn algorithms() -> String {
    let rows =
        ALGORITHMS.iter().map(|info| vec![info.name.to_owned(), info.summary.to_owned(), info.source.to_owned()]);
    aligned(&["algorithm", "what it is", "source"], &[Align::Left, Align::Text, Align::Text], rows)
}

fn parameters(algorithm: &str) -> Result<String, Failure> {
    let flow = FlowSpec::of(algorithm).map_err(|error| error.to_string())?;
    let rows = flow.algorithm.parameters().map(|(spec, value)| {
        let shown = |value| unit_text(spec.unit, value);
        let range = if spec.unit == Unit::Switch {
            "on, off".to_owned()
        } else {
            format!("{} … {}", shown(spec.min), shown(spec.max))
        };
        vec![
            spec.name.to_owned(),
            spec.unit.name().to_owned(),
            shown(value),
            range,
            format!("{} [{}]", spec.meaning.trim(), spec.source),
        ]
    });
    let align = [Align::Left, Align::Left, Align::Right, Align::Left, Align::Text];
    Ok(aligned(&["parameter", "unit", "default", "range", "what it does [source of the default]"], &align, rows))
}

/// What each world makes of each key, option and flag.
fn worlds() -> String {
    let align = [Align::Left, Align::Text, Align::Text, Align::Text];
    aligned(&["key, option or flag", "--on sim", "--on uml", "--on kernel"], &align, bbrlab_live::worlds::rows())
}

/// The scenario language as JSON Schema, one line feed at the end.
fn schema() -> Result<String, Failure> {
    let schema = bbrlab_sim::scenario::schema();
    serde_json::to_string_pretty(&schema).map(|text| text + "\n").map_err(|error| format!("schema: {error}"))
}
