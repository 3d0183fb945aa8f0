//! Summary of a study: the answer in a sentence, in numbers, and as a picture.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::summary::{SummaryLine, lines};
use super::{Gain, Segment, Study};
use crate::judgement::Judgement;
use bbrlab_report::{Axis, Figure, Number, Panel, Series, Style};
use bbrlab_stats::number::{hundredths, signed_percent};
use bbrlab_stats::plural::counted;

/// Counts, in a sentence, the classes in which each algorithm is faster.
pub(super) fn answer(study: &Study) -> String {
    let lines = lines(study);
    let control = &study.design.algorithms[study.control()];
    let of = |arm: usize| {
        let own: Vec<&SummaryLine> = lines.iter().filter(|line| line.arm == arm).collect();
        let count = |outcome| own.iter().filter(|line| line.paired.judgement() == outcome).count();
        format!(
            "{} is faster than {control} in {} of {} and slower in {}",
            study.design.algorithms[arm],
            count(Judgement::Faster),
            counted(own.len(), "comparison"),
            count(Judgement::Slower)
        )
    };
    let all: Vec<String> = (0..study.control()).map(of).collect();
    format!("{}; what is left out is too close to call or has too few users.", all.join("; "))
}

/// Largest gain, largest loss and retransmitted share of each algorithm.
pub(super) fn numbers(study: &Study) -> Vec<Number> {
    let lines = lines(study);
    let mut numbers = Vec::new();
    for arm in 0..study.control() {
        let own = || lines.iter().filter(|line| line.arm == arm && line.paired.gain.is_finite());
        let name = &study.design.algorithms[arm];
        let by = |a: &&SummaryLine, b: &&SummaryLine| a.paired.gain.total_cmp(&b.paired.gain);
        for (what, line) in [("most", own().max_by(by)), ("least", own().min_by(by))] {
            numbers.extend(line.map(|line| Number {
                label: format!("{name} gains {what}"),
                value: format!("{} %", signed_percent(line.paired.gain)),
                note: format!("{}, {}", study.design.classes[line.class].label(), judged(line)),
                color_key: Some(name.clone()),
            }));
        }
    }
    for (arm, name) in study.design.algorithms.iter().enumerate() {
        numbers.push(Number {
            label: format!("Retransmitted by {name}"),
            value: format!("{} %", hundredths(100.0 * study.retransmit_ratio(arm, &Segment::default()))),
            note: "over all objects".to_owned(),
            color_key: Some(name.clone()),
        });
    }
    numbers
}

const fn judged(line: &SummaryLine) -> &'static str {
    if line.is_large { "throughput" } else { "completion" }
}

/// Forest plot of every class's gain, for the same users and as an A/B split would measure it.
pub(super) fn forest(study: &Study) -> Figure {
    let lines = lines(study);
    let mut rows: Vec<(usize, bool)> = lines.iter().map(|line| (line.class, line.is_large)).collect();
    rows.dedup();
    rows.sort_unstable();
    rows.dedup();
    let place =
        |line: &SummaryLine| rows.iter().position(|&row| row == (line.class, line.is_large)).unwrap_or(0) as f64;
    let label = |&(class, is_large): &(usize, bool)| {
        let judged = if is_large { "throughput" } else { "completion" };
        format!("{}, {judged}", study.design.classes[class].label())
    };
    let several = study.control() > 1;
    let mut series = Vec::new();
    for (arm, algorithm) in study.design.algorithms[..study.control()].iter().enumerate() {
        let own: Vec<&SummaryLine> = lines.iter().filter(|line| line.arm == arm).collect();
        for (nth, (kind, shift)) in [("same users", -0.15), ("A/B split", 0.15)].into_iter().enumerate() {
            if several && nth > 0 {
                break;
            }
            let of = |line: &SummaryLine| if nth == 0 { line.paired } else { line.split };
            let shift = if several { (arm as f64 - (study.control() - 1) as f64 / 2.0) * 0.22 } else { shift };
            let part = |part: fn(&Gain) -> f64| own.iter().map(|line| 1.0 + part(&of(line))).collect::<Vec<f64>>();
            series.push(Series {
                name: format!("{algorithm}, {kind}"),
                style: Style::Points,
                x: part(|gain| gain.gain),
                y: own.iter().map(|line| place(line) + shift).collect(),
                low: part(|gain| gain.low),
                high: part(|gain| gain.high),
                color_key: Some(if nth == 0 { algorithm.clone() } else { format!("{algorithm} split") }),
            });
        }
    }
    let none = Series {
        name: "no gain".to_owned(),
        style: Style::Reference,
        x: vec![1.0, 1.0],
        y: vec![-0.5, rows.len() as f64 - 0.5],
        ..Series::default()
    };
    Figure {
        id: "cdn-gains".to_owned(),
        title: format!("How much faster than {}", study.design.algorithms[study.control()]),
        how_to_read:
            "Each mark is the median gain over the users of a class, its bar the 95 % interval. Right of the line is \
                      faster."
                .to_owned(),
        x: Axis {
            label: format!("times as fast as {}", study.design.algorithms[study.control()]),
            log: true,
            ..Axis::default()
        },
        panels: vec![Panel {
            y: Axis { names: rows.iter().map(label).collect(), ..Axis::default() },
            series: std::iter::once(none).chain(series).collect(),
        }],
        ..Figure::default()
    }
}
