//! Page of an advice: each candidate compared with the algorithm in use, and the runs behind it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_report::model::Provenance;
use bbrlab_report::{Number, Report, Section, Table};
use bbrlab_stats::number::significant;

use super::request::Answer;
use super::source::{Source, sources};
use super::text::{
    checked, compared as compared_figures, figures, footnote, headline, number, ratio, verdict, warnings, why,
};
use super::{Advice, Figure};
use crate::comparison::{Better, Forest, Interval, MeasureRow, ratio_cells};
use crate::{comparison, paths};

/// Returns the page, without its command.
pub fn report(answer: &Answer, version: &str) -> Report {
    let Answer { advice, objective, said, seed, .. } = answer;
    let objective = *objective;
    let columns =
        ["path", "rate, Mbit/s", "RTT, ms", "buffer, ms", "loss, %", "competitors"].map(str::to_owned).to_vec();
    let flows = advice.candidates.iter().map(|one| format!("score of {}", one.flow));
    let row = |(nth, path): (usize, &paths::Path)| {
        let known = [
            (nth + 1) as f64,
            path.rate_bps / 1e6,
            path.rtt_s * 1e3,
            path.buffer_bytes * 8e3 / path.rate_bps,
            100.0 * path.loss,
            path.rivals.len() as f64,
        ];
        let worths = advice.worths.iter().map(|worths| worths[nth]);
        known.into_iter().chain(worths).map(|value| significant(value, 4)).collect()
    };
    let table = Table {
        columns: columns.into_iter().chain(flows).collect(),
        rows: advice.paths.iter().enumerate().map(row).collect(),
    };
    Report {
        title: verdict(advice),
        subtitle: format!("{} {}", headline(advice, objective), why(advice)),
        provenance: Provenance::of_facts([
            ("in use now", advice.candidates[0].flow.clone()),
            ("objective", objective.name.to_owned()),
            ("paths drawn", advice.paths.len().to_string()),
            ("ran in", "the simulator".to_owned()),
            ("seed", seed.to_string()),
            ("version", format!("bbrlab {version}")),
        ]),
        numbers: numbers(advice),
        lead: vec![forest(advice)],
        sections: notes(advice, said)
            .into_iter()
            .chain([
                Section {
                    id: "advice".to_owned(),
                    title: format!("Against {}", advice.candidates[0].flow),
                    claim: footnote(advice, objective).trim_end().to_owned(),
                    runs_table: Some(against(advice)),
                    ..Section::default()
                },
                Section {
                    id: "runs".to_owned(),
                    title: "Runs behind the advice".to_owned(),
                    claim: "Each path was run with each algorithm and the same random numbers.".to_owned(),
                    runs_table: Some(table),
                    ..Section::default()
                },
            ])
            .collect(),
        ..Report::default()
    }
}

/// Table of the score and every figure: each candidate beside the algorithm in use.
fn against(advice: &Advice) -> Table {
    let (current, others) = (&advice.candidates[0], &advice.candidates[1..]);
    let row = |name: &str,
               better,
               value: &dyn Fn(&super::Candidate) -> String,
               gain: &dyn Fn(&super::Candidate) -> Interval| {
        MeasureRow {
            name: name.to_owned(),
            better,
            control: value(current),
            candidates: others.iter().map(|one| (value(one), ratio_cells(&gain(one), better))).collect(),
        }
    };
    let score = row("score", Better::More, &|one| format!("{:.3}", one.score), &|one| one.score_gain);
    let figure = |nth: usize| {
        let figure = Figure::ALL[nth];
        let better = if figure.is_gain() { Better::More } else { Better::Less };
        let name = format!("{}, {}", figure.name(), figure.unit());
        row(&name, better, &|one| number(one.figures[nth]), &|one| one.gain[nth])
    };
    let names: Vec<String> = others.iter().map(|one| one.flow.clone()).collect();
    comparison::table("mean", &current.flow, &names, std::iter::once(score).chain(figures(advice).map(figure)))
}

/// Sections for the warnings, the commands to install the choice, and the measurement; each only if there is any.
fn notes(advice: &Advice, said: &[String]) -> Vec<Section> {
    let section = |id: &str, title: &str, paragraphs: Vec<String>, commands: Vec<String>| Section {
        id: id.to_owned(),
        title: title.to_owned(),
        claim: paragraphs.join("\n\n"),
        commands,
        ..Section::default()
    };
    let own = |(nth, source): (usize, Source)| {
        section(&format!("source-{}", nth + 1), source.title, vec![capital(&source.text)], source.commands)
    };
    let warnings = warnings(advice);
    let mut all: Vec<Section> = sources(advice).into_iter().enumerate().map(own).collect();
    if !warnings.is_empty() {
        all.insert(0, section("warnings", "Warnings", warnings.iter().map(|line| capital(line)).collect(), Vec::new()));
    }
    if let Some(line) = checked(advice) {
        all.push(section("checked", "Simulation and measurement", vec![format!("{line}.")], Vec::new()));
    }
    if !said.is_empty() {
        all.push(section("inferred", "Inferred from the measurement", said.to_vec(), Vec::new()));
    }
    all
}

/// Capitalises the text as the start of a sentence, except for an algorithm's name.
fn capital(text: &str) -> String {
    let is_name = ["bbr", "cubic", "reno", "prague", "dctcp"].iter().any(|name| text.starts_with(name));
    let mut letters = text.chars();
    match letters.next().filter(|_| !is_name) {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => text.to_owned(),
    }
}

/// Mean figures of each candidate.
fn numbers(advice: &Advice) -> Vec<Number> {
    let of = |figure: usize| {
        let (name, unit) = (Figure::ALL[figure].name(), Figure::ALL[figure].unit());
        advice.candidates.iter().enumerate().map(move |(nth, one)| Number {
            label: format!("{name}, {}", one.flow),
            value: format!("{} {unit}", number(one.figures[figure])),
            note: match nth {
                0 => "in use now".to_owned(),
                _ => ratio(&one.gain[figure]),
            },
            color_key: Some(one.flow.clone()),
        })
    };
    of(compared_figures(advice)[0].0).chain(of(2)).collect()
}

/// A row of the figure: its name, the better direction, and a candidate's ratio.
type Row = (&'static str, Better, fn(&super::Candidate) -> Interval);

/// Forest plot of the score and every figure: each candidate's ratio to the one in use, with intervals.
fn forest(advice: &Advice) -> bbrlab_report::Figure {
    let others = &advice.candidates[1..];
    let first: Row = match advice.is_application {
        true => ("quality", Better::More, |one| one.gain[7]),
        false => ("goodput", Better::More, |one| one.gain[0]),
    };
    let rows: [Row; 5] = [
        ("score", Better::More, |one| one.score_gain),
        first,
        ("RTT p50", Better::Less, |one| one.gain[2]),
        ("retransmitted", Better::Less, |one| one.gain[5]),
        ("rivals get", Better::More, |one| one.gain[6]),
    ];
    let is_known = |(name, _, of): &Row| *name == "score" || others.iter().any(|one| of(one).is_known());
    let known: Vec<Row> = rows.into_iter().filter(is_known).collect();
    let candidate = |one: &super::Candidate| comparison::Candidate {
        name: one.flow.clone(),
        color_key: one.flow.clone(),
        estimates: known.iter().enumerate().map(|(row, (_, _, of))| (row, of(one))).collect(),
    };
    let rows = known.iter().map(|(name, better, _)| ((*name).to_owned(), *better)).collect();
    let candidates = others.iter().map(candidate).collect();
    Forest::against("ratios", &advice.candidates[0].flow, "the mean over the paths", rows, candidates).figure()
}
