//! A scorecard as text rows, sentences and JSON.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::ALGORITHMS;
use bbrlab_stats::number::significant;
use bbrlab_study::compare::Outcome;
use serde_json::{Value, json};

use super::{Better, Line, Scorecard};

/// Significant digits of a value.
const DIGITS: i32 = 3;

/// Formats a value with its unit.
pub fn number(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    format!("{} {unit}", significant(value, DIGITS)).trim_end().to_owned()
}

/// Rows of the table: section, measure, one value per algorithm, the standing of each subject.
pub fn table(card: &Scorecard) -> (Vec<String>, Vec<Vec<String>>) {
    let mut head = vec!["criterion".to_owned(), "measure, mean".to_owned(), "better".to_owned()];
    head.extend(card.plan.algorithms().iter().map(|&name| name.to_owned()));
    head.extend(card.plan.subjects.iter().map(|name| format!("{name} is")));
    let rows = card.lines.iter().map(|line| {
        let (measure, title) = (card.plan.measure(line), card.plan.title(line));
        let better = if measure.better == Better::More { "more" } else { "less" };
        let what =
            if measure.unit.is_empty() { measure.what.clone() } else { format!("{}, {}", measure.what, measure.unit) };
        let mut cells = vec![if line.measure == 0 { title } else { String::new() }, what, better.to_owned()];
        cells.extend(line.means.iter().map(|mean| number(mean.middle, "")));
        cells.extend(line.standings.iter().map(|standing| standing.text().to_owned()));
        cells
    });
    (head, rows.collect())
}

/// A sentence for each subject on each line.
pub fn sentences(card: &Scorecard, line: &Line) -> Vec<String> {
    let measure = card.plan.measure(line);
    let algorithms = card.plan.algorithms();
    let subjects = card.plan.subjects.iter().enumerate();
    let sentence = |(nth, name): (usize, &String)| {
        let own = number(line.means[nth].middle, &measure.unit);
        let named = |wanted: Outcome| {
            let found = line.differences[nth].iter().zip(card.plan.references_of(nth));
            let found = found.filter(|((_, outcome), _)| *outcome == wanted);
            let text =
                |(_, at): (&_, usize)| format!("{} ({})", algorithms[at], number(line.means[at].middle, &measure.unit));
            found.map(text).collect::<Vec<_>>().join(", ")
        };
        let mut text = format!("{name}: {} {own}", measure.what);
        for (outcome, word) in
            [(Outcome::Better, "better than"), (Outcome::NoDifference, "like"), (Outcome::Worse, "worse than")]
        {
            let names = named(outcome);
            if !names.is_empty() {
                text += &format!("; {word} {names}");
            }
        }
        text + "."
    };
    subjects.map(sentence).collect()
}

/// Facts about an algorithm from its implementation.
pub(super) fn facts(algorithm: &str) -> String {
    let name = algorithm.split(',').next().unwrap_or_default();
    let Some(info) = ALGORITHMS.iter().find(|info| info.name == name) else {
        return format!("{algorithm}: nothing is known of its implementation.");
    };
    let paces = if info.needs_pacing { "needs pacing" } else { "does not need pacing" };
    let counts = if info.counts_bytes { "bytes" } else { "packets" };
    format!(
        "{algorithm}: {paces}, counts {counts}, changes the sender alone and needs no support of receivers or routers. Its rules: {}.",
        info.source
    )
}

fn interval(of: &bbrlab_study::comparison::Interval) -> Value {
    json!({ "mean": of.middle, "low": of.low, "high": of.high })
}

/// The scorecard as a JSON document.
pub fn json(card: &Scorecard) -> Value {
    let plan = &card.plan;
    let algorithms = plan.algorithms();
    let case = |criterion: usize, nth: usize| {
        let values =
            card.values[criterion][nth].iter().zip(&algorithms).map(|(measured, name)| match &measured.seeds {
                Ok(seeds) => json!({ "algorithm": name, "values": seeds }),
                Err(reason) => json!({ "algorithm": name, "not_run": reason }),
            });
        json!({ "name": plan.criteria[criterion].case[nth].name, "runs": values.collect::<Vec<_>>() })
    };
    let line = |line: &Line| {
        let measure = plan.measure(line);
        let subjects = plan.subjects.iter().enumerate().map(|(nth, name)| {
            let to = line.differences[nth].iter().zip(plan.references_of(nth));
            let to = to.map(|((difference, outcome), at)| {
                json!({ "reference": algorithms[at], "difference": interval(difference), "outcome": outcome })
            });
            json!({ "algorithm": name, "standing": line.standings[nth], "against": to.collect::<Vec<_>>() })
        });
        json!({
            "what": measure.what,
            "unit": measure.unit,
            "value": measure.value,
            "better": if measure.better == Better::More { "more" } else { "less" },
            "means": line.means.iter().zip(&algorithms).map(|(mean, name)| {
                let mut value = interval(mean);
                value["algorithm"] = (*name).into();
                value
            }).collect::<Vec<_>>(),
            "subjects": subjects.collect::<Vec<_>>(),
        })
    };
    let criteria = plan.criteria.iter().enumerate().map(|(at, criterion)| {
        json!({
            "section": criterion.section,
            "title": criterion.title,
            "measures": card.lines.iter().filter(|of| of.criterion == Some(at)).map(line).collect::<Vec<_>>(),
            "cases": (0..criterion.case.len()).map(|nth| case(at, nth)).collect::<Vec<_>>(),
        })
    });
    json!({
        "schema": 1,
        "card": plan.card.name,
        "set": plan.set,
        "repeat": plan.repeat,
        "on": plan.on.name(),
        "subjects": plan.subjects,
        "references": plan.references,
        "criteria": criteria.collect::<Vec<_>>(),
        "all": card.lines.iter().filter(|of| of.criterion.is_none()).map(line).collect::<Vec<_>>(),
    })
}
