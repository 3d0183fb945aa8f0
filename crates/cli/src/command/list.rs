//! `bbrlab list`: algorithms, experiments, parameters and backends, one line each with its source.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{ALGORITHMS, params::Unit};
use bbrlab_sim::backend::{Backend, Stack};
use bbrlab_sim::scenario::support::{self, Support};
use bbrlab_sim::scenario::{FLOW_OPTIONS, FlowSpec, KEYS, PRESETS, Preset, WORKLOADS, unit_text};

use crate::args::summary;
use crate::grid::{Align, aligned, wrapped};
use crate::{Error, claims};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Maximum characters of a preset's value. Ours.
const VALUE_SHOWN: usize = 60;

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
    /// Keys of a scenario, which are also the flags of `run`, and options of a flow
    Keys {
        /// As tables in Markdown
        #[arg(long)]
        markdown: bool,
    },
    /// Typical paths by name: keys, sources and validity
    Paths,
    /// Workloads by name: flows, sources and validity
    Workloads,
    /// The scenario language as JSON Schema
    Schema,
}

/// Formats the list as text.
pub fn list(args: &ListArgs) -> Result<String, Error> {
    match args.what.clone().unwrap_or(ListWhat::Algorithms) {
        ListWhat::Algorithms => Ok(algorithms()),
        ListWhat::Experiments { experiments } => claims::list(experiments.as_deref()),
        ListWhat::Parameters { algorithm } => parameters(&algorithm),
        ListWhat::Schema => schema(),
        ListWhat::Paths => Ok(presets(&PRESETS)),
        ListWhat::Workloads => Ok(presets(&WORKLOADS)),
        ListWhat::Backends => Ok(backends()),
        ListWhat::Keys { markdown } => Ok(if markdown { keys_as_markdown() } else { keys() }),
    }
}

fn algorithms() -> String {
    let rows =
        ALGORITHMS.iter().map(|info| vec![info.name.to_owned(), info.summary.to_owned(), info.source.to_owned()]);
    aligned(&["algorithm", "description", "source"], &[Align::Left, Align::Text, Align::Text], rows)
}

fn presets(presets: &[Preset]) -> String {
    let mut text = String::new();
    for preset in presets {
        text += &format!("{}: {}\n", preset.name, preset.title);
        // Of a long schedule, its beginning.
        let shown = |(key, value): &(String, String)| match value.char_indices().nth(VALUE_SHOWN) {
            Some((end, _)) => format!("{key} = {}…", &value[..end]),
            None => format!("{key} = {value}"),
        };
        let keys = preset.keys.iter().map(shown).collect::<Vec<_>>().join(", ");
        for (name, value) in [("keys", &keys), ("source", &preset.source), ("valid for", &preset.valid)] {
            text += &format!("  {name:9}  {value}\n");
        }
    }
    text
}

fn parameters(algorithm: &str) -> Result<String, Error> {
    let flow = FlowSpec::of(algorithm)?;
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
    Ok(aligned(&["parameter", "unit", "default", "range", "description [source of the default]"], &align, rows))
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
    let (same, others): (Vec<Support>, Vec<Support>) = support::table().partition(|row| row.refused.is_empty());
    // No line ends within a key: its blanks do not break.
    let same: Vec<String> = same.iter().map(|row| row.key.replace(' ', NO_BREAK)).collect();
    let mut text = "The same in every backend:\n".to_owned();
    for line in wrapped(&same.join(", "), LINE - 2) {
        text += &format!("  {}\n", line.replace(NO_BREAK, " "));
    }
    text += "\nThe same in every backend but these:\n";
    for row in others {
        text += &format!("{}\n", row.key);
        for refusal in row.refused {
            let stacks = Stack::ALL.map(Backend::Quic);
            let has_all = stacks.iter().all(|stack| refusal.on.contains(stack));
            let others = refusal.on.iter().filter(|backend| !has_all || !stacks.contains(backend));
            let names: Vec<&str> = others.map(|backend| backend.name()).chain(has_all.then_some("quic:*")).collect();
            let cell = format!("refuses {}: {}", refusal.values, refusal.why);
            for (nth, line) in wrapped(&cell, LINE - INDENT).iter().enumerate() {
                let name = if nth == 0 { names.join(", ") } else { String::new() };
                text += &format!("  {name:<width$}{line}\n", width = INDENT - 2);
            }
        }
    }
    text
}

/// All keys of a scenario and all options of a flow, for a terminal.
fn keys() -> String {
    let keys = KEYS.iter().map(|key| {
        let value = if key.is_flag() { key.value } else { "[[table]]" };
        vec![key.name.to_owned(), value.to_owned(), key.default.to_owned(), summary(key.help)]
    });
    let options =
        FLOW_OPTIONS.iter().map(|option| vec![option.name.to_owned(), option.value.to_owned(), summary(option.help)]);
    let (left, text) = (Align::Left, Align::Text);
    format!(
        "{}\nOptions of a flow, as in --flow bbr1,rtt=80ms:\n{}",
        aligned(&["key", "value", "default", "meaning"], &[left, left, left, text], keys),
        aligned(&["option", "value", "meaning"], &[left, left, text], options)
    )
}

/// The same as tables in Markdown, as in `docs/running.md`.
fn keys_as_markdown() -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{}`", cell(text)) };
    let mut text = "| flag | meaning | default |\n|---|---|---|\n".to_owned();
    for key in KEYS.iter().filter(|key| key.is_flag()) {
        let flag = format!("--{} {}", key.name.replace('_', "-"), key.value);
        text += &format!("| {} | {} | {} |\n", code(&flag), cell(&summary(key.help)), cell(key.default));
    }
    text += "\n| option of `--flow` | meaning |\n|---|---|\n";
    for option in FLOW_OPTIONS {
        text +=
            &format!("| {} | {} |\n", code(&format!("{}={}", option.name, option.value)), cell(&summary(option.help)));
    }
    text
}

/// The scenario language as JSON Schema, with one final line feed.
fn schema() -> Result<String, Error> {
    let schema = bbrlab_sim::scenario::schema();
    serde_json::to_string_pretty(&schema).map(|text| text + "\n").map_err(Error::encode("schema"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_backends_has_every_key_and_no_line_that_a_screen_cuts() {
        let text = backends();
        assert!(text.lines().all(|line| line.chars().count() <= LINE), "{text}");
        for row in support::table() {
            assert!(text.contains(&row.key), "{row:?}");
        }
    }

    /// To regenerate it, replace the text between the marks by the output of `bbrlab list keys --markdown`.
    #[test]
    fn the_tables_of_keys_in_docs_are_the_ones_that_the_command_prints() {
        let page = include_str!("../../../../docs/running.md");
        let kept = page.split_once("<!-- list keys -->\n").and_then(|(_, rest)| rest.split_once("<!-- end -->"));
        assert_eq!(kept.map(|(kept, _)| kept), Some(keys_as_markdown().as_str()), "renew docs/running.md");
    }
}
