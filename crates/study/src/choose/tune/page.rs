//! Words, tables and page of a tuning.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;

use bbrlab_report::model::Provenance;
use bbrlab_report::{Axis, Figure, Number, Panel, Report, Section, Series, Style, Table};
use serde_json::{Value, json};

use super::{Comparison, SAME, Setting, TERMS, Tuned};
use crate::choose::objective::Objective;
use crate::comparison::{Candidate, Forest};
use crate::paths::Population;

/// A tuning and what it rests on.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The outcome.
    pub tuned: &'a Tuned,
    /// Population of paths.
    pub population: &'a Population,
    /// Objective that chose from the front.
    pub objective: Objective,
    /// Seed.
    pub seed: u64,
}

impl Answer<'_> {
    /// Returns the parameter file that `--flow CC,params=FILE` takes: algorithm, values, and their origin.
    pub fn file(&self, version: &str) -> String {
        let Self { tuned, population, .. } = self;
        let mut text = format!(
            "# Tuned by bbrlab {version} for {:?}, objective {}, seed {}. Use: bbrlab run --flow {},params=THIS\n\
             {}cc = \"{}\"\n\n[parameters]\n",
            if population.name.is_empty() { "a population" } else { &population.name },
            self.objective.name,
            self.seed,
            tuned.cc,
            warning(population.has_rivals()).map_or(String::new(), |warning| format!("# {warning}\n")),
            tuned.cc
        );
        for (name, value) in &tuned.parameters {
            let _ = writeln!(text, "{name} = \"{value}\"");
        }
        text
    }

    /// Returns the document of `bbrlab tune --json`.
    pub fn json(&self, version: &str) -> Value {
        json!({
            "schema": 1, "version": version, "seed": self.seed, "population": self.population, "objective": self.objective,
            "terms": TERMS, "warning": warning(self.population.has_rivals()), "tuned": self.tuned,
        })
    }

    /// Returns the page; the caller adds its command, and the name of the population's file to the facts.
    pub fn report(&self, version: &str) -> Report {
        let Self { tuned, population, objective, seed } = self;
        let heads = |first: &str, last: &[&str]| -> Vec<String> {
            [first].into_iter().chain(TERMS).chain(last.iter().copied()).map(str::to_owned).collect()
        };
        let front = |setting: &Setting| {
            let cells = setting.terms.iter().map(|term| percent(*term));
            [vec![setting.flow.clone()], cells.collect(), vec![format!("{:.3}", setting.score)]].concat()
        };
        let points = |x: usize, y: usize| Figure {
            id: format!("front-{x}-{y}"),
            title: format!("The front: {} against {}", TERMS[y], TERMS[x]),
            how_to_read: "Each mark is a setting; lower and further left is better.".to_owned(),
            x: axis(TERMS[x]),
            panels: vec![Panel {
                y: axis(TERMS[y]),
                series: std::iter::once(series("front", "front", tuned.front.iter().map(|one| &one.terms), x, y))
                    .chain(
                        tuned.against.iter().map(|one| series(&one.flow, &one.flow, std::iter::once(&one.terms), x, y)),
                    )
                    .chain([series(&format!("{}, tuned", tuned.cc), "tuned", std::iter::once(&tuned.terms), x, y)])
                    .collect(),
            }],
            ..Figure::default()
        };
        let section = |id: &str, title: &str, claim: String, figures, table| Section {
            id: id.to_owned(),
            title: title.to_owned(),
            claim,
            figures,
            runs_table: Some(table),
            ..Section::default()
        };
        Report {
            title: if population.name.is_empty() {
                format!("{}, tuned", tuned.cc)
            } else {
                format!("{} tuned for {}", tuned.cc, population.name)
            },
            subtitle: warning(population.has_rivals())
                .into_iter()
                .map(str::to_owned)
                .chain([verdict(tuned)])
                .collect::<Vec<_>>()
                .join(" "),
            provenance: Provenance::of_facts([
                ("objective", objective.name.to_owned()),
                ("settings tried", (tuned.budget.settings * (tuned.budget.generations + 1)).to_string()),
                ("judged on", format!("{} unseen paths", tuned.budget.held_out)),
                ("ran in", "the simulator".to_owned()),
                ("seed", seed.to_string()),
                ("version", format!("bbrlab {version}")),
            ]),
            numbers: numbers(tuned),
            lead: vec![forest(tuned)],
            sections: vec![
                section(
                    "tuned",
                    "On unseen paths",
                    format!("The setting: {}", tuned.flow),
                    vec![points(0, 1), points(0, 2)],
                    Table { columns: heads("algorithm", &["score"]), rows: rows(tuned) },
                ),
                section(
                    "gain",
                    "Differences, in percentage points",
                    "Mean over the unseen paths with its 95 % interval; below 0 is better.".to_owned(),
                    Vec::new(),
                    Table { columns: heads("", &[]), rows: differences(tuned) },
                ),
                section(
                    "front",
                    "The settings of the front",
                    "On the paths of the search; no setting is better than another in every term.".to_owned(),
                    Vec::new(),
                    Table { columns: heads("setting", &["score"]), rows: tuned.front.iter().map(front).collect() },
                ),
            ],
            ..Report::default()
        }
    }
}

/// True if the result is nowhere worse than the defaults of BBR, and better than each in some respect.
fn dominates(tuned: &Tuned) -> bool {
    let mut bbr = tuned.against.iter().filter(|one| one.flow != "cubic");
    bbr.all(|one| one.worse.is_empty() && !one.better.is_empty())
}

/// Compares the scores with those of untuned algorithms: the most important result of a tuning.
fn beside_plain(tuned: &Tuned) -> String {
    let points = |one: &Comparison| format!("{:.3} against {:.3}", one.score, tuned.score);
    let best = tuned.against.iter().max_by(|a, b| a.score.total_cmp(&b.score));
    let better = best.filter(|one| one.score > tuned.score);
    if let Some(one) = better.filter(|one| one.score_gain.high < 0.0) {
        return format!(
            "Use default {} instead: it scores higher on unseen paths than the tuned {}, {}.",
            one.flow,
            tuned.cc,
            points(one)
        );
    }
    if let Some(one) = better {
        return format!(
            "Default {} scores no lower on unseen paths than the tuned {}, {}: tuning does not pay off here.",
            one.flow,
            tuned.cc,
            points(one)
        );
    }
    match best.filter(|one| one.score_gain.low <= 0.0) {
        Some(one) => format!(
            "It scores higher than every default on unseen paths, but the difference from {} ({}) may be chance.",
            one.flow,
            points(one)
        ),
        None => "On unseen paths it scores significantly higher than every default.".to_owned(),
    }
}

pub fn verdict(tuned: &Tuned) -> String {
    format!("{} {}", beside_plain(tuned), term_by_term(tuned))
}

/// Limitation of an answer without competing flows.
pub const fn warning(has_rivals: bool) -> Option<&'static str> {
    if has_rivals {
        return None;
    }
    Some(
        "Warning: no path had a rival, so the search may have found settings that take the whole link from other \
         flows. Tune with rivals (rivals = \"0..2\" in the population, without --no-rivals) before you use these.",
    )
}

fn term_by_term(tuned: &Tuned) -> String {
    let names: Vec<&str> =
        tuned.against.iter().filter(|one| one.flow != "cubic").map(|one| one.flow.as_str()).collect();
    if dominates(tuned) {
        return format!(
            "On unseen paths it is worse than {} in no term by certainly more than {} points, and better than each in at least one.",
            names.join(" and "),
            points(SAME)
        );
    }
    let gives: Vec<String> = tuned
        .against
        .iter()
        .filter(|one| one.flow != "cubic")
        .map(|one| {
            let list = |terms: &[&str]| match terms {
                [] => format!("nothing by certainly more than {} points", points(SAME)),
                terms => terms.join(", "),
            };
            format!("against {}: better in {}, worse in {}", one.flow, list(&one.better), list(&one.worse))
        })
        .collect();
    format!("No setting of the front is better in every term. This one, {}.", gives.join("; "))
}

fn points(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

pub fn percent(value: f64) -> String {
    format!("{:.1} %", 100.0 * value)
}

pub fn rows(tuned: &Tuned) -> Vec<Vec<String>> {
    let row = |name: &str, terms: &[f64], score: f64| {
        let cells = terms.iter().map(|term| percent(*term));
        [vec![name.to_owned()], cells.collect(), vec![format!("{score:.3}")]].concat()
    };
    std::iter::once(row("tuned", &tuned.terms, tuned.score))
        .chain(tuned.against.iter().map(|one| row(&one.flow, &one.terms, one.score)))
        .collect()
}

pub fn differences(tuned: &Tuned) -> Vec<Vec<String>> {
    let row = |one: &Comparison| {
        let cells = one
            .difference
            .iter()
            .map(|d| format!("{:+.1} ({:+.1}…{:+.1})", 100.0 * d.middle, 100.0 * d.low, 100.0 * d.high));
        std::iter::once(format!("tuned less {}", one.flow)).chain(cells).collect()
    };
    tuned.against.iter().map(row).collect()
}

/// Score of each setting on unseen paths.
fn numbers(tuned: &Tuned) -> Vec<Number> {
    let one = |name: String, key: &str, score: f64, note: &str| Number {
        label: format!("Score of {name}"),
        value: format!("{score:.3}"),
        note: note.to_owned(),
        color_key: Some(key.to_owned()),
    };
    let own = one(format!("{}, tuned", tuned.cc), "tuned", tuned.score, "maximum 1");
    let against = tuned.against.iter().map(|other| one(other.flow.clone(), &other.flow, other.score, ""));
    std::iter::once(own).chain(against).collect()
}

/// Forest plot of the tuned setting minus each of the others, term by term, with intervals.
fn forest(tuned: &Tuned) -> Figure {
    let candidate = |other: &Comparison| Candidate {
        name: format!("against {}", other.flow),
        color_key: other.flow.clone(),
        estimates: other.difference.iter().map(|one| one.as_percent()).enumerate().collect(),
    };
    Forest {
        id: "differences",
        title: "The tuned setting beside the defaults, on unseen paths".to_owned(),
        how_to_read: "Each mark is the mean difference over the paths, its bar the 95 % interval. Left of the line the tuned setting is better."
            .to_owned(),
        x: Axis { label: "tuned less default".to_owned(), unit: "percentage points".to_owned(), ..Axis::default() },
        same: (0.0, "no difference".to_owned()),
        rows: TERMS.map(str::to_owned).to_vec(),
        candidates: tuned.against.iter().map(candidate).collect(),
    }
    .figure()
}

fn axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), unit: "%".to_owned(), ..Axis::default() }
}

fn series<'a>(
    name: &str,
    key: &str,
    of: impl Iterator<Item = &'a [f64; TERMS.len()]> + Clone,
    x: usize,
    y: usize,
) -> Series {
    Series {
        name: name.to_owned(),
        style: Style::Points,
        x: of.clone().map(|terms| 100.0 * terms[x]).collect(),
        y: of.map(|terms| 100.0 * terms[y]).collect(),
        color_key: Some(key.to_owned()),
        ..Series::default()
    }
}
