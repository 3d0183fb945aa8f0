//! The page of a comparison.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_report::{Figure, Number, Panel, Report, Section, Style, Table, for_run};
use bbrlab_sim::record::result::RunResult;
use bbrlab_sim::record::trace::Trace;
use bbrlab_sim::setup::Setup;

use super::words::{answer, change, interval, notes, value};
use super::{Comparison, Estimate, Line, MEASURES};
use crate::comparison::{self, Candidate, Forest, MeasureRow};

/// Maximum numbers on the first screen. Ours.
const NUMBERS_MAX: usize = 6;

/// A side's first run with its series.
pub type Overview<'a> = (&'a RunResult, &'a Trace, &'a Setup);

/// Builds the page. `overviews` has the series of each side, or is empty.
pub fn page(found: &Comparison, overviews: &[Overview<'_>], title: &str) -> Report {
    let mut sections = vec![Section {
        id: "measures".to_owned(),
        title: "Every measure".to_owned(),
        claim: notes(found).join("\n\n"),
        runs_table: Some(table(found, if found.cases.len() == 1 { Some(0) } else { None })),
        ..Section::default()
    }];
    if found.cases.len() > 1 {
        sections.extend((0..found.cases.len()).map(|case| Section {
            id: format!("case-{case}"),
            title: found.cases[case].clone(),
            runs_table: Some(table(found, Some(case))),
            ..Section::default()
        }));
    }
    sections.push(differences(found));
    Report {
        title: title.to_owned(),
        subtitle: answer(found),
        numbers: numbers(found),
        lead: forest(found).into_iter().chain(over_time(found, overviews)).collect(),
        sections,
        ..Report::default()
    }
}

/// The first judged measures.
fn numbers(found: &Comparison) -> Vec<Number> {
    let mut numbers = Vec::new();
    for line in found.main_lines() {
        for (side, estimate) in found.sides.iter().zip(&line.sides).skip(1) {
            let measure = &MEASURES[line.measure];
            let mut note = format!("{} → {}", value(measure, line.sides[0].median), value(measure, estimate.median));
            let interval = interval(measure, estimate);
            if !interval.is_empty() {
                note = format!("95 % interval {interval}; {note}");
            }
            let label = match found.sides.len() {
                2 => measure.name.to_owned(),
                _ => format!("{}: {}", side.name, measure.name),
            };
            numbers.push(Number {
                label,
                value: change(measure, estimate),
                note,
                color_key: Some(side.color_key.clone()),
            });
        }
    }
    numbers.truncate(NUMBERS_MAX);
    numbers
}

/// Ratios of all measures to the first side, so turned that right of the line is better. `None` without any interval.
fn forest(found: &Comparison) -> Option<Figure> {
    let is_drawn = |line: &&Line| line.sides[1..].iter().any(|side| side.relative.low.is_finite());
    let lines: Vec<&Line> = found.main_lines().filter(is_drawn).collect();
    let base = &found.sides[0].name;
    let candidate = |nth: usize| Candidate {
        name: found.sides[nth].name.clone(),
        color_key: found.sides[nth].color_key.clone(),
        estimates: lines.iter().map(|line| line.sides[nth].relative.as_ratio()).enumerate().collect(),
    };
    let row = |line: &&Line| (MEASURES[line.measure].name.to_owned(), MEASURES[line.measure].better);
    let marks =
        if found.is_paired { "the mean of pairs of runs with the same seed" } else { "the mean of independent runs" };
    (!lines.is_empty()).then(|| {
        let candidates = (1..found.sides.len()).map(candidate).collect();
        Forest::against("differences", base, marks, lines.iter().map(row).collect(), candidates).figure()
    })
}

fn table(found: &Comparison, case: Option<usize>) -> Table {
    let row = |line: &Line| {
        let measure = &MEASURES[line.measure];
        let candidate = |estimate: &Estimate| (value(measure, estimate.median), super::cells(measure, estimate));
        MeasureRow {
            name: measure.name.to_owned(),
            better: measure.better,
            control: value(measure, line.sides[0].median),
            candidates: line.sides[1..].iter().map(candidate).collect(),
        }
    };
    let names: Vec<String> = found.sides[1..].iter().map(|side| side.name.clone()).collect();
    comparison::table("median", &found.sides[0].name, &names, found.lines_of(case).map(row))
}

/// The keys that differ.
fn differences(found: &Comparison) -> Section {
    let columns = std::iter::once("Key".to_owned()).chain(found.sides.iter().map(|side| side.name.clone())).collect();
    let rows = found
        .differing
        .iter()
        .map(|(key, values)| std::iter::once(key.clone()).chain(values.iter().cloned()).collect::<Vec<_>>());
    let claim = match found.differing.is_empty() {
        true => "Nothing: the scenarios are equal.".to_owned(),
        false => String::new(),
    };
    Section {
        id: "scenarios".to_owned(),
        title: "What differs in the scenarios".to_owned(),
        claim,
        runs_table: (!found.differing.is_empty()).then(|| Table { columns, rows: rows.collect() }),
        ..Section::default()
    }
}

/// Goodput, RTT and queue of the sides' first runs on the same axes.
fn over_time(found: &Comparison, overviews: &[Overview<'_>]) -> Option<Figure> {
    let figures: Vec<Figure> = overviews
        .iter()
        .map(|(result, trace, setup)| for_run(result, trace, Some(setup), Default::default()).lead.into_iter().next())
        .collect::<Option<_>>()?;
    let mut figures = figures.into_iter().zip(&found.sides).enumerate();
    let (_, (mut whole, first)) = figures.next()?;
    whole.ribbons.iter_mut().for_each(|ribbon| ribbon.name = format!("{}: {}", first.name, ribbon.name));
    whole.panels.iter_mut().for_each(|panel| rename(panel, &first.name, &first.color_key, true));
    for (_, (figure, side)) in figures {
        whole.ribbons.extend(figure.ribbons.into_iter().map(|mut ribbon| {
            ribbon.name = format!("{}: {}", side.name, ribbon.name);
            ribbon
        }));
        for (panel, mut own) in whole.panels.iter_mut().zip(figure.panels) {
            // Panels of the same quantity may have chosen other units: they are brought to that of the first.
            rescale(&mut own, &panel.y.unit);
            rename(&mut own, &side.name, &side.color_key, false);
            panel.series.extend(own.series);
        }
    }
    whole.id = "over-time".to_owned();
    whole.title = "Goodput, delay and queue of the first seed".to_owned();
    whole.how_to_read =
        "The same quantities of each side, on the same axes. The first flow is a full line, others are dashed."
            .to_owned();
    Some(whole)
}

/// Gives a side's series its name and colour; what belongs to the path stays once, and keeps its own.
fn rename(panel: &mut Panel, name: &str, color_key: &str, keeps_path: bool) {
    let is_path = |style: Style| matches!(style, Style::Reference | Style::Area);
    if !keeps_path {
        panel.series.retain(|series| !is_path(series.style));
    }
    for (nth, series) in panel.series.iter_mut().filter(|series| !is_path(series.style)).enumerate() {
        series.name = format!("{name}: {}", series.name);
        series.color_key = Some(color_key.to_owned());
        if nth > 0 {
            series.style = Style::Dashed;
        }
    }
}

fn rescale(panel: &mut Panel, unit: &str) {
    let bits = |unit: &str| match unit {
        "bit/s" => Some(1.0),
        "kbit/s" => Some(1e3),
        "Mbit/s" => Some(1e6),
        "Gbit/s" => Some(1e9),
        _ => None,
    };
    if let (Some(from), Some(to)) = (bits(&panel.y.unit), bits(unit)) {
        panel.series.iter_mut().flat_map(|series| &mut series.y).for_each(|y| *y *= from / to);
    }
}
