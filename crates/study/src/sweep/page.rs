//! A sweep's report: lines over each numeric axis, heat maps over pairs of them, comparison of two algorithms.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Cells, Metric, Sweep};
use crate::comparison::{self, Better, Candidate, Forest, MeasureRow, ratio_cells};
use bbrlab_report::{Axis, Figure, Heat, Number, Panel, Report, Scale, Section, Series, Style, Table};
use bbrlab_stats::number::significant;
use bbrlab_stats::plural::counted;

/// Metrics shown by default.
pub const SHOWN: [Metric; 3] = [Metric::FirstGoodputBps, Metric::QueueP50Ms, Metric::FirstRetransmitRatio];
/// Maximum pairs of axes with heat maps. Ours: three axes make three pairs.
const PAIRS_MAX: usize = 3;
/// Number of metrics, and of compared values, in the summary numbers. Ours.
const NUMBERS_OF: usize = 2;
const NUMBERS_EACH: usize = 3;
/// Maximum rows of the table of combinations; all are in `runs.parquet`. Ours.
const ROWS_MAX: usize = 2_000;

/// Index of the compared axis, if any: the first axis of names, usually the algorithms.
fn compared(sweep: &Sweep) -> Option<usize> {
    let axes = sweep.product().axes();
    let is_name = |axis: &usize| {
        let points = &axes[*axis].1;
        points.len() > 1 && points.iter().any(|point| super::axis::number(&point.label).is_none())
    };
    (0..axes.len()).find(is_name)
}

/// Returns index and label of the compared axis's baseline: the requested value, else `cubic`, else the first. `Err`
/// lists the available labels.
pub fn baseline(sweep: &Sweep, asked: Option<&str>) -> Result<Option<(usize, String)>, Vec<String>> {
    let labels: Vec<String> = match compared(sweep) {
        Some(axis) => sweep.product().axes()[axis].1.iter().map(|point| point.label.clone()).collect(),
        None => Vec::new(),
    };
    let place = |name: &str| labels.iter().position(|label| label == name);
    let found = match asked {
        Some(name) => Some(place(name).ok_or_else(|| labels.clone())?),
        None => place("cubic").or_else(|| (!labels.is_empty()).then_some(0)),
    };
    Ok(found.map(|found| (found, labels[found].clone())))
}

/// Builds the report of a sweep. `base` is the index of the baseline on the compared axis.
pub fn page(sweep: &Sweep, cells: &Cells, shown: &[Metric], base: Option<usize>, title: &str) -> Report {
    let axes = sweep.product().axes();
    let is_numeric = |axis: usize| {
        let points = &axes[axis].1;
        points.len() > 1 && points.iter().all(|point| super::axis::number(&point.label).is_some())
    };
    let numeric: Vec<usize> = (0..axes.len()).filter(|&axis| is_numeric(axis)).collect();
    let names = compared(sweep);
    let mut lines: Vec<Figure> = numeric.iter().map(|&axis| lines(sweep, cells, axis, names, shown)).collect();
    let ratios = names.zip(base).and_then(|(axis, base)| forest(sweep, cells, axis, base, shown));
    // The figure of the ratios comes with their table.
    let table_of_ratios =
        ratios.as_ref().and(names.zip(base)).map(|(axis, base)| against(sweep, cells, axis, base, shown));
    let lead: Vec<Figure> = ratios.into_iter().chain(lines.drain(..lines.len().min(1))).collect();
    let mut heats = Vec::new();
    let pairs = numeric.iter().enumerate().flat_map(|(nth, &a)| numeric[nth + 1..].iter().map(move |&b| (a, b)));
    for (a, b) in pairs.take(PAIRS_MAX) {
        for &which in shown {
            heats.extend(maps(sweep, cells, (a, b), (names, base), which));
        }
    }
    let pairs_are_none = heats.is_empty();
    let seeds = sweep.spec().repeat;
    let subtitle = format!(
        "{}: {}{}. Each value below is a median over the axes that its picture leaves out.",
        counted(sweep.len(), "run"),
        counted(sweep.product().len(), "combination"),
        if seeds == 1 { String::new() } else { format!(" with {seeds} seeds each") }
    );
    Report {
        title: title.to_owned(),
        subtitle,
        numbers: numbers(sweep, cells, names, shown),
        lead,
        sections: table_of_ratios.into_iter().chain([Section {
            id: "sweep".to_owned(),
            title: "Effect of the axes".to_owned(),
            claim: format!(
                "Each value is the median over the seeds, and over all values of the axes that a picture leaves out.{}",
                match (names, base) {
                    (Some(axis), Some(base)) if !pairs_are_none =>
                        format!(" Ratios are to {} = {}.", axes[axis].0, axes[axis].1[base].label),
                    _ => String::new(),
                }
            ),
            figures: lines,
            heats,
            runs_table: Some(table(sweep, cells, shown)),
            ..Section::default()
        }])
        .collect(),
        ..Report::default()
    }
}

/// Forest plot: ratios of each compared value to the baseline, of the metrics that can be better; `None` if there is no other value.
fn forest(sweep: &Sweep, cells: &Cells, axis: usize, base: usize, shown: &[Metric]) -> Option<Figure> {
    let points = &sweep.product().axes()[axis].1;
    let judged: Vec<(Metric, Better)> = shown.iter().filter_map(|&metric| Some((metric, metric.better()?))).collect();
    let candidate = |value: usize| Candidate {
        name: points[value].label.clone(),
        color_key: points[value].label.clone(),
        estimates: judged
            .iter()
            .map(|&(metric, _)| cells.ratio(sweep, axis, (value, base), metric))
            .enumerate()
            .collect(),
    };
    let candidates: Vec<Candidate<usize>> = (0..points.len())
        .filter(|&value| value != base)
        .map(candidate)
        .filter(|one| one.estimates.iter().any(|(_, ratio)| ratio.is_known()))
        .collect();
    let rows = judged.iter().map(|&(metric, better)| (short_name(metric), better)).collect();
    let marks = "the median over the combinations of all other axes (fewer than six have no interval)";
    (!candidates.is_empty()).then(|| Forest::against("ratios", &points[base].label, marks, rows, candidates).figure())
}

/// Table of every shown metric that can be better: each compared value beside the baseline.
fn against(sweep: &Sweep, cells: &Cells, axis: usize, base: usize, shown: &[Metric]) -> Section {
    let points = &sweep.product().axes()[axis].1;
    let others: Vec<usize> = (0..points.len()).filter(|&value| value != base).collect();
    let row = |metric: Metric, better: Better| {
        let value = |value: usize| significant(cells.median(sweep, &[(axis, value)], metric) * metric.scale(), 4);
        let cells_of = |of: usize| ratio_cells(&cells.ratio(sweep, axis, (of, base), metric), better);
        MeasureRow {
            name: format!("{}, {}", short_name(metric), metric.unit()),
            better,
            control: value(base),
            candidates: others.iter().map(|&of| (value(of), cells_of(of))).collect(),
        }
    };
    let names: Vec<String> = others.iter().map(|&value| points[value].label.clone()).collect();
    let rows = shown.iter().filter_map(|&metric| Some(row(metric, metric.better()?)));
    Section {
        id: "against".to_owned(),
        title: format!("Against {}", points[base].label),
        claim: "The change is the median ratio over pairs of combinations that differ in nothing else; it need not be the ratio of the \
                medians beside it. Fewer than six pairs have no interval."
            .to_owned(),
        runs_table: Some(comparison::table("median", &points[base].label, &names, rows)),
        ..Section::default()
    }
}

/// Medians over the whole sweep for each compared value.
fn numbers(sweep: &Sweep, cells: &Cells, names: Option<usize>, shown: &[Metric]) -> Vec<Number> {
    let mut numbers = Vec::new();
    for &which in shown.iter().take(NUMBERS_OF) {
        for (fixed, label) in labels(sweep, names).into_iter().take(NUMBERS_EACH) {
            let fixed: Vec<(usize, usize)> = fixed.into_iter().collect();
            let value = significant(cells.median(sweep, &fixed, which) * which.scale(), 4);
            numbers.push(Number {
                label: if names.is_some() { format!("{}, {label}", short_name(which)) } else { short_name(which) },
                value: format!("{value} {}", which.unit()),
                note: "median over the sweep".to_owned(),
                color_key: names.map(|_| label),
            });
        }
    }
    numbers
}

fn labels(sweep: &Sweep, names: Option<usize>) -> Vec<(Option<(usize, usize)>, String)> {
    match names {
        None => vec![(None, "all".to_owned())],
        Some(axis) => {
            let points = &sweep.product().axes()[axis].1;
            points.iter().enumerate().map(|(value, point)| (Some((axis, value)), point.label.clone())).collect()
        }
    }
}

fn short_name(which: Metric) -> String {
    which.name().trim_start_matches("first_").trim_end_matches("_bps").trim_end_matches("_ms").replace('_', " ")
}

/// Unit of an axis whose first value has this label, and the factor for conversion.
fn unit(label: &str) -> (&'static str, f64) {
    match label.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim() {
        "bit" | "kbit" | "mbit" | "gbit" | "tbit" => ("Mbit/s", 1e-6),
        "ns" | "us" | "ms" | "s" => ("ms", 1e3),
        "%" => ("%", 1.0),
        "bdp" => ("BDP", 1.0),
        _ => ("", 1.0),
    }
}

fn lines(sweep: &Sweep, cells: &Cells, axis: usize, names: Option<usize>, shown: &[Metric]) -> Figure {
    let (name, points) = &sweep.product().axes()[axis];
    let (unit, scale) = unit(&points[0].label);
    let series = |which: Metric| {
        let one = |(fixed, label): (Option<(usize, usize)>, String)| Series {
            color_key: Some(label.clone()),
            name: label,
            style: Style::Line,
            x: points.iter().map(|point| point.x * scale).collect(),
            y: (0..points.len())
                .map(|value| {
                    let fixed: Vec<(usize, usize)> = fixed.into_iter().chain([(axis, value)]).collect();
                    cells.median(sweep, &fixed, which) * which.scale()
                })
                .collect(),
            ..Series::default()
        };
        labels(sweep, names).into_iter().map(one).collect()
    };
    let spread = points.iter().all(|point| point.x > 0.0)
        && points.iter().map(|point| point.x).fold(0.0, f64::max)
            > 20.0 * points.iter().map(|point| point.x).fold(f64::INFINITY, f64::min);
    Figure {
        id: format!("over-{name}"),
        title: format!("Over {name}"),
        how_to_read: format!(
            "Medians over all other axes, from {} to {}.",
            points[0].label,
            points[points.len() - 1].label
        ),
        x: Axis { label: name.clone(), unit: unit.to_owned(), log: spread, ..Axis::default() },
        panels: shown
            .iter()
            .map(|&which| Panel {
                y: Axis { label: short_name(which), unit: which.unit().to_owned(), ..Axis::default() },
                series: series(which),
            })
            .collect(),
        ..Figure::default()
    }
}

/// Maps of each compared value, and of its ratio to the baseline.
fn maps(
    sweep: &Sweep,
    cells: &Cells,
    (a, b): (usize, usize),
    (names, base): (Option<usize>, Option<usize>),
    which: Metric,
) -> Vec<Heat> {
    let axes = sweep.product().axes();
    let texts = |axis: usize| axes[axis].1.iter().map(|point| point.label.clone()).collect::<Vec<String>>();
    let grid = |fixed: Option<(usize, usize)>| -> Vec<Vec<f64>> {
        let row = |y: usize| {
            let cell = |x: usize| {
                let fixed: Vec<(usize, usize)> = fixed.into_iter().chain([(a, x), (b, y)]).collect();
                cells.median(sweep, &fixed, which) * which.scale()
            };
            (0..axes[a].1.len()).map(cell).collect()
        };
        (0..axes[b].1.len()).map(row).collect()
    };
    let heat = |title: String, unit: &str, scale: Scale, cells: Vec<Vec<f64>>| Heat {
        title,
        x: axes[a].0.clone(),
        y: axes[b].0.clone(),
        xs: texts(a),
        ys: texts(b),
        unit: unit.to_owned(),
        scale,
        cells,
    };
    let all = labels(sweep, names);
    let grids: Vec<Vec<Vec<f64>>> = all.iter().map(|(fixed, _)| grid(*fixed)).collect();
    let mut maps: Vec<Heat> = all
        .iter()
        .zip(&grids)
        .map(|((_, label), cells)| {
            heat(format!("{}: {label}", short_name(which)), which.unit(), Scale::FromZero, cells.clone())
        })
        .collect();
    if let Some((base, against)) = base.and_then(|base| Some((base, grids.get(base)?))) {
        let others = grids.iter().zip(&all).enumerate().filter(|(place, _)| *place != base);
        for (own, (_, label)) in others.map(|(_, other)| other) {
            let ratio = own.iter().zip(against).map(|(own, other)| own.iter().zip(other).map(|(a, b)| a / b).collect());
            let title = format!("{}: {label} over {}", short_name(which), all[base].1);
            maps.push(heat(title, "×", Scale::AroundOne, ratio.collect()));
        }
    }
    maps
}

fn table(sweep: &Sweep, cells: &Cells, shown: &[Metric]) -> Table {
    let axes = sweep.product().axes();
    let columns = axes.iter().map(|(name, _)| name.clone());
    let figures = shown.iter().map(|&which| format!("{}, {}", short_name(which), which.unit()));
    let row = |combination: usize| {
        let labels = sweep.product().points(combination).into_iter().map(|point| point.label.clone());
        let values = shown.iter().map(|&which| significant(cells.get(combination, which) * which.scale(), 4));
        labels.chain(values).collect()
    };
    Table { columns: columns.chain(figures).collect(), rows: (0..cells.len().min(ROWS_MAX)).map(row).collect() }
}

/// Metrics shown by default.
pub fn shown_by_default() -> Vec<Metric> {
    SHOWN.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_cubic_unless_another_value_is_named() {
        let sweep = super::super::tests::sweep();
        assert_eq!(baseline(&sweep, None), Ok(Some((1, "cubic".to_owned()))));
        assert_eq!(baseline(&sweep, Some("bbr1")), Ok(Some((0, "bbr1".to_owned()))));
        assert_eq!(baseline(&sweep, Some("reno")), Err(vec!["bbr1".to_owned(), "cubic".to_owned()]));
    }
}
