//! `bbrlab list`: what there is, with one line each and its source.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{ALGORITHMS, params::Unit};
use bbrlab_sim::scenario::{FlowSpec, unit_text};

use crate::grid::{Align, aligned};
use crate::{Failure, claims};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Arguments of `bbrlab list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// What to list [default: algorithms]
    #[command(subcommand)]
    pub what: Option<ListWhat>,
}

/// What `bbrlab list` lists.
#[derive(Clone, Debug, Subcommand)]
pub enum ListWhat {
    /// Algorithms, with one line each and their source
    Algorithms,
    /// Experiments, with their claims' sources
    Experiments {
        /// Take them from this directory instead of the ones built in
        #[arg(long, value_name = "DIR")]
        experiments: Option<PathBuf>,
    },
    /// An algorithm's parameters: unit, default, range, source and meaning
    Parameters {
        /// The algorithm
        algorithm: String,
    },
    /// What each world does with every key, flow option and flag
    Worlds,
    /// The scenario language as JSON Schema
    Schema,
}

/// The list as text.
pub fn list(args: &ListArgs) -> Result<String, Failure> {
    match args.what.clone().unwrap_or(ListWhat::Algorithms) {
        ListWhat::Algorithms => Ok(algorithms()),
        ListWhat::Experiments { experiments } => claims::list(experiments.as_deref()),
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

/// What each world does with each key, option and flag.
fn worlds() -> String {
    let align = [Align::Left, Align::Text, Align::Text, Align::Text, Align::Text, Align::Text];
    aligned(
        &["key, option or flag", "--on sim", "--on uml", "--on kernel", "--on quic:s2n", "--on quic:noq"],
        &align,
        bbrlab_live::worlds::rows(),
    )
}

/// The scenario language as JSON Schema, one line feed at the end.
fn schema() -> Result<String, Failure> {
    let schema = bbrlab_sim::scenario::schema();
    serde_json::to_string_pretty(&schema).map(|text| text + "\n").map_err(|error| format!("schema: {error}"))
}
