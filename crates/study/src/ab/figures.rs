//! Figures of the A/B report.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::judge::judged;
use super::{Comparison, Experiment, Findings, SegmentBy};
use crate::cdn::speed_unit;
use bbrlab_report::{Axis, Figure, Panel, Series, Style};
use bbrlab_stats::quantile::nearest_rank;

/// Maximum points of a distribution's curve. Ours: about one per column of a screen.
const POINTS: usize = 300;

/// Forest plot: the gain and confidence interval of each comparison.
pub fn forest(test: &Experiment, found: &Findings) -> Figure {
    let is_shown = |line: &&Comparison| {
        line.judgement().is_judged() && !matches!(line.class.over, SegmentBy::Time | SegmentBy::Age)
    };
    let known: Vec<&Comparison> = found.lines.iter().filter(is_shown).collect();
    let name = |line: &&Comparison| {
        format!("{}, {}", line.class.name, if line.is_large { "throughput" } else { "completion" })
    };
    let mut names: Vec<String> = Vec::new();
    known.iter().map(name).for_each(|name| {
        if !names.contains(&name) {
            names.push(name);
        }
    });
    let arms = test.arms.len() - 1;
    let series = (1..test.arms.len()).map(|arm| {
        let own: Vec<&&Comparison> = known.iter().filter(|line| line.arm == arm).collect();
        let shift = (arm as f64 - 1.0 - (arms as f64 - 1.0) / 2.0) * 0.22;
        let place = |line: &&&Comparison| names.iter().position(|one| *one == name(line)).unwrap_or(0) as f64 + shift;
        let part = |part: fn(&Comparison) -> f64| own.iter().map(|line| 1.0 + part(line)).collect::<Vec<f64>>();
        Series {
            name: test.arms[arm].label.clone(),
            style: Style::Points,
            x: part(|line| line.gain),
            y: own.iter().map(place).collect(),
            low: part(|line| line.low),
            high: part(|line| line.high),
            color_key: Some(test.arms[arm].label.clone()),
        }
    });
    let none = Series {
        name: "no gain".to_owned(),
        style: Style::Reference,
        x: vec![1.0, 1.0],
        y: vec![-0.5, names.len() as f64 - 0.5],
        ..Series::default()
    };
    let series = std::iter::once(none).chain(series).collect();
    Figure {
        id: "ab-gains".to_owned(),
        title: format!("How much faster than {}", test.arms[0].label),
        how_to_read: "Each mark is the ratio of the medians, its bar the 95 % interval. Right of the line is faster."
            .to_owned(),
        x: Axis { label: format!("times as fast as {}", test.arms[0].label), log: true, ..Axis::default() },
        panels: vec![Panel { y: Axis { names, ..Axis::default() }, series }],
        ..Figure::default()
    }
}

/// Plots the gain over the ranges of one quantity; `None` if fewer than two ranges have enough connections of an arm.
pub fn by_range(test: &Experiment, found: &Findings, over: SegmentBy) -> Option<Figure> {
    let mut panels = Vec::new();
    for is_large in [false, true] {
        let mut all: Vec<Series> = Vec::new();
        for arm in 1..test.arms.len() {
            let is_own = |line: &&Comparison| line.arm == arm && line.is_large == is_large && line.class.over == over;
            let own: Vec<&Comparison> = found.lines.iter().filter(is_own).collect();
            let is_known = |line: &Comparison| line.judgement().is_judged();
            if own.iter().filter(|line| is_known(line)).count() < 2 {
                continue;
            }
            // A range with too few connections leaves a gap.
            let part = |of: fn(&Comparison) -> f64| -> Vec<f64> {
                own.iter().map(|line| if is_known(line) { 100.0 * of(line) } else { f64::NAN }).collect()
            };
            all.push(Series {
                name: test.arms[arm].label.clone(),
                style: Style::Line,
                x: own.iter().map(|line| line.class.middle()).collect(),
                y: part(|line| line.gain),
                low: part(|line| line.low),
                high: part(|line| line.high),
                color_key: Some(test.arms[arm].label.clone()),
            });
        }
        if let Some(first) = all.first().map(|series| series.x.clone()) {
            let none = Series {
                name: "no gain".to_owned(),
                style: Style::Reference,
                y: vec![0.0; first.len()],
                x: first,
                ..Series::default()
            };
            let judged = if over == SegmentBy::Age { "throughput" } else { judged(is_large) };
            let y = Axis { label: format!("gain, {judged}"), unit: "%".to_owned(), ..Axis::default() };
            all.insert(0, none);
            panels.push(Panel { y, series: all });
        }
    }
    if panels.is_empty() {
        return None;
    }
    let x = Axis {
        label: over.name().to_owned(),
        unit: over.unit().0.to_owned(),
        log: over != SegmentBy::Time,
        ..Axis::default()
    };
    Some(Figure {
        id: format!("ab-over-{}", over.name().to_lowercase()),
        title: format!("Gain over {}", over.name()),
        how_to_read: "Each mark is the gain in one range, at its middle, with its 95 % interval: above 0 is faster. A gap has too few connections."
            .to_owned(),
        x,
        panels,
        ..Figure::default()
    })
}

/// Plots the cumulative distribution of connections for every arm.
pub fn distribution(found: &Findings, is_large: bool) -> Option<Figure> {
    let of = |(arm, values): (&super::judge::ArmSummary, &[Vec<f64>; 2])| {
        let values = &values[usize::from(is_large)];
        let count = values.len().min(POINTS);
        let share = |nth: usize| (nth + 1) as f64 / count as f64;
        Series {
            name: arm.label.clone(),
            style: Style::Step,
            x: (0..count).map(|nth| nearest_rank(values, share(nth))).collect(),
            y: (0..count).map(|nth| 100.0 * share(nth)).collect(),
            color_key: Some(arm.label.clone()),
            ..Series::default()
        }
    };
    let series: Vec<Series> = found.arms.iter().zip(&found.values).map(of).filter(|one| !one.x.is_empty()).collect();
    if series.is_empty() {
        return None;
    }
    let (what, read) = if is_large {
        ("throughput", "A curve farther right is faster.")
    } else {
        ("completion time", "A curve farther left is faster.")
    };
    Some(Figure {
        id: format!("ab-distribution-{}", if is_large { "large" } else { "small" }),
        title: format!("Distribution of {what}, connections {}", if is_large { "from 3 MB" } else { "below 3 MB" }),
        how_to_read: read.to_owned(),
        x: Axis { label: what.to_owned(), unit: speed_unit(is_large).to_owned(), log: true, ..Axis::default() },
        panels: vec![Panel {
            y: Axis { label: "connections up to it".to_owned(), unit: "%".to_owned(), ..Axis::default() },
            series,
        }],
        ..Figure::default()
    })
}
