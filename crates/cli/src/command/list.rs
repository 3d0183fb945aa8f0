//! `bbrlab list`: algorithms, experiments, parameters and backends, one line each with its source.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{ALGORITHMS, params::Unit};
use bbrlab_sim::backend::BACKENDS;
use bbrlab_sim::scenario::{FlowSpec, unit_text};

use crate::grid::{Align, aligned, wrapped};
use crate::{Failure, claims};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Arguments of `bbrlab list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Things to list [default: algorithms]
    #[command(subcommand)]
    pub what: Option<ListWhat>,
}

/// Subcommands of `bbrlab list`.
#[derive(Clone, Debug, Subcommand)]
pub enum ListWhat {
    /// Algorithms, with one line each and their source
    Algorithms,
    /// Experiments, with their claims' sources
    Experiments {
        /// Read them from this directory instead of the built-in ones
        #[arg(long, value_name = "DIR")]
        experiments: Option<PathBuf>,
    },
    /// An algorithm's parameters: unit, default, range, source and meaning
    Parameters {
        /// Name of the algorithm
        algorithm: String,
    },
    /// Support of each backend for every key, flow option and flag
    Backends,
    /// The scenario language as JSON Schema
    Schema,
}

/// Formats the list as text.
pub fn list(args: &ListArgs) -> Result<String, Failure> {
    match args.what.clone().unwrap_or(ListWhat::Algorithms) {
        ListWhat::Algorithms => Ok(algorithms()),
        ListWhat::Experiments { experiments } => claims::list(experiments.as_deref()),
        ListWhat::Parameters { algorithm } => parameters(&algorithm),
        ListWhat::Schema => schema(),
        ListWhat::Backends => Ok(backends()),
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

/// Maximum line length of a listing that wraps its own lines. Ours: that of a page of code.
const LINE: usize = 100;
/// A non-breaking space: no line ends at it.
const NO_BREAK: &str = "\u{a0}";
/// Width of the backends' names, including the spaces before them.
const INDENT: usize = 22;

/// Support of each backend for every key, option and flag. Those that all support equally come first, then each of the
/// others with the refused values.
fn backends() -> String {
    let rows = bbrlab_live::backends::rows();
    let is_same = |row: &&Vec<String>| row[1..].iter().all(|cell| cell == "same");
    // No line ends within a key: its blanks do not break.
    let alike: Vec<String> = rows.iter().filter(is_same).map(|row| row[0].replace(' ', NO_BREAK)).collect();
    let mut text = "The same in every backend:\n".to_owned();
    for line in wrapped(&alike.join(", "), LINE - 2) {
        text += &format!("  {}\n", line.replace(NO_BREAK, " "));
    }
    text += "\nThe same in every backend but these:\n";
    for row in rows.iter().filter(|row| !is_same(row)) {
        text += &format!("{}\n", row[0]);
        let mut left: Vec<(Vec<&str>, &str)> = Vec::new();
        for (backend, cell) in BACKENDS.iter().map(|info| info.name).zip(&row[1..]).filter(|(_, cell)| *cell != "same")
        {
            match left.iter_mut().find(|(_, other)| other == cell) {
                Some((backends, _)) => backends.push(backend),
                None => left.push((vec![backend], cell)),
            }
        }
        for (backends, cell) in left {
            for (nth, line) in wrapped(cell, LINE - INDENT).iter().enumerate() {
                let name = if nth == 0 { backends.join(", ") } else { String::new() };
                text += &format!("  {name:<width$}{line}\n", width = INDENT - 2);
            }
        }
    }
    text
}

/// The scenario language as JSON Schema, with one final line feed.
fn schema() -> Result<String, Failure> {
    let schema = bbrlab_sim::scenario::schema();
    serde_json::to_string_pretty(&schema).map(|text| text + "\n").map_err(|error| format!("schema: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_worlds_has_every_key_and_no_line_that_a_screen_cuts() {
        let text = backends();
        assert!(text.lines().all(|line| line.chars().count() <= LINE), "{text}");
        for row in bbrlab_live::backends::rows() {
            assert!(text.contains(&row[0]) && row.len() == BACKENDS.len() + 1, "{row:?}");
        }
    }
}
