//! Figures of the A/B report.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::judge::judged_by;
use super::{Comparison, Experiment, Findings, SegmentBy};
use crate::comparison::{
    Better, Candidate, Forest, Interval, cumulative_of, distribution_help, gains_over, judged, share_axis, value_axis,
};
use bbrlab_report::{Axis, Figure, Panel, Series};

/// Forest plot: the gain and confidence interval of each comparison.
pub fn forest(test: &Experiment, found: &Findings) -> Figure {
    let is_shown = |line: &&Comparison| {
        line.judgement().is_judged() && !matches!(line.class.over, SegmentBy::Time | SegmentBy::Age)
    };
    let known: Vec<&Comparison> = found.lines.iter().filter(is_shown).collect();
    let name = |line: &Comparison| format!("{}, {}", line.class.name, judged(line.is_large));
    let mut rows: Vec<String> = Vec::new();
    for row in known.iter().map(|line| name(line)) {
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let place = |line: &Comparison| rows.iter().position(|row| *row == name(line)).unwrap_or(0);
    let candidate = |arm: usize| Candidate {
        name: test.arms[arm].label.clone(),
        color_key: test.arms[arm].label.clone(),
        estimates: (known.iter().filter(|line| line.arm == arm))
            .map(|line| (place(line), line.interval().as_ratio()))
            .collect(),
    };
    let candidates = (1..test.arms.len()).map(candidate).collect();
    let labels = rows.iter().map(|row| (row.clone(), Better::More)).collect();
    Forest::against("ab-gains", &test.arms[0].label, "the median speed", labels, candidates).figure()
}

/// Plots the gain over the ranges of one quantity; `None` if fewer than two ranges have enough connections of an arm.
pub fn by_range(test: &Experiment, found: &Findings, over: SegmentBy) -> Option<Figure> {
    let panel = |is_large: bool| {
        let estimate = |line: &Comparison| {
            let gain = if line.judgement().is_judged() { line.interval() } else { Interval::NONE };
            (line.class.middle(), gain)
        };
        let candidate = |arm: usize| {
            let is_own = |line: &&Comparison| line.arm == arm && line.is_large == is_large && line.class.over == over;
            Candidate {
                name: test.arms[arm].label.clone(),
                color_key: test.arms[arm].label.clone(),
                estimates: found.lines.iter().filter(is_own).map(estimate).collect(),
            }
        };
        let judged = if over == SegmentBy::Age { "throughput" } else { judged_by(is_large) };
        gains_over(&format!("gain, {judged}"), (1..test.arms.len()).map(candidate).collect())
    };
    let panels: Vec<Panel> = [false, true].into_iter().filter_map(panel).collect();
    (!panels.is_empty()).then(|| Figure {
        id: format!("ab-over-{}", over.name().to_lowercase()),
        title: format!("Gain over {}", over.name()),
        how_to_read: "Each mark is the gain in one range, at its middle, with its 95 % interval: above 0 is faster. A gap has too few connections."
            .to_owned(),
        x: Axis {
            label: over.name().to_owned(),
            unit: over.unit().0.to_owned(),
            log: over != SegmentBy::Time,
            ..Axis::default()
        },
        panels,
        ..Figure::default()
    })
}

/// Plots the cumulative distribution of connections for every arm.
pub fn distribution(test: &Experiment, found: &Findings, is_large: bool) -> Option<Figure> {
    let arms = found.arms.iter().zip(&found.values);
    let series: Vec<Series> = (arms.map(|(arm, values)| (&arm.label, &values[usize::from(is_large)])))
        .filter(|(_, values)| !values.is_empty())
        .map(|(label, values)| cumulative_of(label, values.clone()))
        .collect();
    let x = value_axis(is_large, true);
    (!series.is_empty()).then(|| Figure {
        id: format!("ab-distribution-{}", if is_large { "large" } else { "small" }),
        title: format!(
            "Distribution of {}, connections {}",
            x.label,
            if is_large { "from 3 MB" } else { "below 3 MB" }
        ),
        how_to_read: match test.splits.iter().find(|change| Some(change.epoch) == found.shown_epoch) {
            None => distribution_help(is_large).to_owned(),
            Some(split) => {
                format!("{} Connections under the split {} alone.", distribution_help(is_large), split.shares.text())
            }
        },
        panels: vec![Panel { y: share_axis("connections up to it"), series }],
        x,
        ..Figure::default()
    })
}
