//! The page of a scorecard.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_report::{Axis, Figure, Heat, Number, Panel, Report, Scale, Section, Series, Style, Table};
use bbrlab_stats::plural::counted;

use super::write::{facts, number, sentences, table};
use super::{Better, Line, Scorecard, Standing};

/// Builds the page.
pub fn page(card: &Scorecard) -> Report {
    let plan = &card.plan;
    let mut sections = vec![overview(card)];
    sections.extend((0..plan.criteria.len()).map(|at| section(card, at)));
    Report {
        title: format!("{}: {}", plan.card.title, plan.subjects.join(", ")),
        subtitle: answer(card),
        numbers: numbers(card),
        lead: vec![standing_figure(card)],
        sections,
        ..Report::default()
    }
}

/// The result in one sentence for each subject.
fn answer(card: &Scorecard) -> String {
    let algorithms = card.plan.algorithms();
    let subjects = card.plan.subjects.iter().enumerate().map(|(nth, name)| {
        let of = |standing| card.count(nth, standing);
        let references =
            card.plan.references_of(nth).into_iter().map(|at| algorithms[at]).collect::<Vec<_>>().join(", ");
        format!(
            "{name}: better than each of {references} on {} of {}, worse than each on {}.",
            of(Standing::Best),
            counted(card.lines.len(), "measure"),
            of(Standing::Worst)
        )
    });
    subjects.collect::<Vec<_>>().join(" ")
}

fn numbers(card: &Scorecard) -> Vec<Number> {
    let subjects = card.plan.subjects.iter().enumerate().flat_map(|(nth, name)| {
        let all = card.lines.len();
        let one = |standing: Standing, label: &str| Number {
            label: format!("{name}: {label} every reference"),
            value: card.count(nth, standing).to_string(),
            note: format!("of {}", counted(all, "measure")),
            color_key: Some(name.clone()),
        };
        [one(Standing::Best, "better than"), one(Standing::Worst, "worse than")]
    });
    subjects.take(6).collect()
}

/// Mean of a line relative to the best algorithm's, 1 for the best; NaN if it has none.
fn relative(line: &Line, better: Better, algorithm: usize) -> f64 {
    let known = line.means.iter().map(|mean| mean.middle).filter(|mean| mean.is_finite());
    let own = line.means[algorithm].middle;
    match better {
        Better::More => own / known.fold(f64::NAN, f64::max),
        // A floor, so that a mean of nearly nothing does not make all others look equally bad.
        Better::Less => {
            let largest = known.clone().fold(f64::NAN, f64::max);
            let floor = largest / 100.0;
            (known.fold(f64::NAN, f64::min) + floor) / (own + floor)
        }
    }
}

/// All measures of all algorithms on one axis.
fn standing_figure(card: &Scorecard) -> Figure {
    let plan = &card.plan;
    let names = card.lines.iter().map(|line| {
        let section = line.criterion.map_or("all", |at| plan.criteria[at].section.as_str());
        format!("{section} {}", plan.measure(line).what)
    });
    let series = plan.algorithms().into_iter().enumerate().map(|(nth, name)| {
        let better = |line: &Line| plan.measure(line).better;
        Series {
            name: name.to_owned(),
            style: Style::Points,
            x: card.lines.iter().map(|line| relative(line, better(line), nth)).collect(),
            y: (0..card.lines.len()).map(|row| row as f64).collect(),
            color_key: Some(name.to_owned()),
            ..Series::default()
        }
    });
    Figure {
        id: "all".to_owned(),
        title: "Every measure".to_owned(),
        how_to_read: "Each mark is an algorithm's mean as a share of the best one's: the best is at 1, and half as good (half the goodput, twice \
                      the delay) at 0.5."
            .to_owned(),
        x: Axis { label: "share of the best".to_owned(), min: Some(0.0), max: Some(1.05), ..Axis::default() },
        panels: vec![Panel { y: Axis { names: names.collect(), ..Axis::default() }, series: series.collect() }],
        ..Figure::default()
    }
}

fn overview(card: &Scorecard) -> Section {
    let (columns, rows) = table(card);
    Section {
        id: "table".to_owned(),
        title: "Table".to_owned(),
        claim: format!(
            "Means over cases and {} each. A subject is better or worse than a reference if the 95 % interval of the difference in \
             pairs of equal case and seed excludes zero and the difference is at least 2 %. RFC 9743 sets no thresholds: the references \
             show what is in use.",
            counted(u64::from(card.plan.repeat), "seed")
        ),
        runs_table: Some(Table { columns, rows }),
        ..Section::default()
    }
}

fn section(card: &Scorecard, at: usize) -> Section {
    let criterion = &card.plan.criteria[at];
    let lines: Vec<&Line> = card.lines.iter().filter(|line| line.criterion == Some(at)).collect();
    let mut text = vec![criterion.asks.clone()];
    text.extend(lines.iter().flat_map(|line| sentences(card, line)));
    if criterion.facts {
        text.extend(card.plan.subjects.iter().map(|name| facts(name)));
    }
    text.retain(|paragraph| !paragraph.is_empty());
    Section {
        id: format!("c{}", criterion.section.replace('.', "-")),
        title: format!("{} {}", criterion.section, criterion.title),
        claim: text.join("\n\n"),
        heats: criterion
            .measure
            .iter()
            .enumerate()
            .filter(|_| criterion.case.len() > 5)
            .map(|(nth, _)| heat(card, at, nth))
            .collect(),
        runs_table: (!criterion.case.is_empty()).then(|| cases(card, at)),
        ..Section::default()
    }
}

/// Median over the seeds of a case.
fn median_of(card: &Scorecard, at: usize, case: usize, algorithm: usize, measure: usize) -> f64 {
    match &card.values[at][case][algorithm].seeds {
        Ok(seeds) => bbrlab_stats::median(&mut seeds.iter().map(|values| values[measure]).collect::<Vec<_>>()),
        Err(_) => f64::NAN,
    }
}

fn heat(card: &Scorecard, at: usize, measure: usize) -> Heat {
    let criterion = &card.plan.criteria[at];
    let of = &criterion.measure[measure];
    let algorithms = card.plan.algorithms();
    Heat {
        title: of.what.clone(),
        x: "algorithm".to_owned(),
        y: "case".to_owned(),
        xs: algorithms.iter().map(|&name| name.to_owned()).collect(),
        ys: criterion.case.iter().map(|case| case.name.clone()).collect(),
        unit: of.unit.clone(),
        scale: Scale::FromZero,
        cells: (0..criterion.case.len())
            .map(|case| (0..algorithms.len()).map(|algorithm| median_of(card, at, case, algorithm, measure)).collect())
            .collect(),
    }
}

fn cases(card: &Scorecard, at: usize) -> Table {
    let criterion = &card.plan.criteria[at];
    let algorithms = card.plan.algorithms();
    let mut columns = vec!["Case".to_owned(), "Measure".to_owned()];
    columns.extend(algorithms.iter().map(|&name| name.to_owned()));
    let mut rows = Vec::new();
    for (case, of) in criterion.case.iter().enumerate() {
        for (measure, named) in criterion.measure.iter().enumerate() {
            let mut cells = vec![if measure == 0 { of.name.clone() } else { String::new() }, named.what.clone()];
            for algorithm in 0..algorithms.len() {
                cells.push(match &card.values[at][case][algorithm].seeds {
                    Ok(_) => number(median_of(card, at, case, algorithm, measure), &named.unit),
                    Err(reason) => format!("not run: {reason}"),
                });
            }
            rows.push(cells);
        }
    }
    Table { columns, rows }
}
