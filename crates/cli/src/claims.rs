//! Claims and their verdicts, as tables, documents and rows of a page.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write;
use std::path::Path;

use bbrlab_lab::experiment::{self, Experiment, ExperimentOutcome, HeldCounts, measured, notes, verdict};
use bbrlab_stats::plural::{counted, verb};

use crate::Error;
use crate::grid::{Align, aligned};

/// Lists the experiments with their claims' sources, for `bbrlab list experiments`.
pub fn list(dir: Option<&Path>) -> Result<String, Error> {
    let rows = load_experiments(dir)?.into_iter().map(|e| {
        let runs = e.run_count().to_string();
        vec![e.id, e.title, runs, e.source]
    });
    let align = [Align::Left, Align::Text, Align::Right, Align::Text];
    Ok(aligned(&["id", "title", "runs", "source"], &align, rows))
}

pub fn load_experiments(dir: Option<&Path>) -> Result<Vec<Experiment>, Error> {
    match dir {
        Some(dir) => Ok(experiment::load_dir(dir)?),
        None => Ok(experiment::embedded()),
    }
}

/// Formats the rows of claims as text.
pub fn shown(outcomes: &[ExperimentOutcome]) -> String {
    let rows = outcomes.iter().flat_map(|outcome| {
        outcome.rows.iter().map(|row| {
            let (word, ..) = verdict(row);
            vec![
                outcome.id.clone(),
                word.to_owned(),
                row.what.clone(),
                measured(row),
                row.expected.clone(),
                notes(row).unwrap_or_default(),
            ]
        })
    });
    let align = [Align::Left, Align::Left, Align::Text, Align::Right, Align::Text, Align::Text];
    let mut text = aligned(&["id", "verdict", "what", "measured", "expected", "note"], &align, rows);
    let count =
        |which: &str| outcomes.iter().flat_map(|outcome| &outcome.rows).filter(|row| verdict(row).0 == which).count();
    let held = HeldCounts::of(outcomes);
    let _ = write!(
        text,
        "\n{}: {} ({held}), {} (explained), {}",
        counted(outcomes.len(), "claim"),
        if held.total() == 1 {
            "1 expectation holds".to_owned()
        } else {
            format!("{} expectations hold", held.total())
        },
        verb(count("misses (explained)"), "misses", "miss"),
        verb(count("FAILS"), "fails", "fail"),
    );
    match count("not here") {
        0 => text.push('\n'),
        n => {
            let _ = writeln!(text, ", {} another backend", verb(n, "needs", "need"));
        }
    }
    text
}
