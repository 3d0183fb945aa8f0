//! Summary of a study: the answer in a sentence, in numbers, and as a picture.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::summary::{SummaryLine, lines};
use super::{Gain, Segment, Study};
use crate::comparison::{Better, Candidate, Forest, judged};
use crate::judgement::Judgement;
use bbrlab_report::{Figure, Number};
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
                note: format!("{}, {}", study.design.classes[line.class].label(), judged(line.is_large)),
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

/// Forest plot of every class's gain, for the same users and as an A/B split would measure it.
pub(super) fn forest(study: &Study) -> Figure {
    let lines = lines(study);
    let control = &study.design.algorithms[study.control()];
    let mut rows: Vec<(usize, bool)> = lines.iter().map(|line| (line.class, line.is_large)).collect();
    rows.sort_unstable();
    rows.dedup();
    let label =
        |&(class, is_large): &(usize, bool)| format!("{}, {}", study.design.classes[class].label(), judged(is_large));
    let place = |line: &SummaryLine| rows.iter().position(|&row| row == (line.class, line.is_large)).unwrap_or(0);
    let candidate = |arm: usize, kind: &str, key: String, of: fn(&SummaryLine) -> Gain| {
        let own = lines.iter().filter(|line| line.arm == arm);
        Candidate {
            name: format!("{}, {kind}", study.design.algorithms[arm]),
            color_key: key,
            estimates: own.map(|line| (place(line), of(line).interval().as_ratio())).collect(),
        }
    };
    let mut candidates: Vec<Candidate<usize>> = (0..study.control())
        .map(|arm| candidate(arm, "same users", study.design.algorithms[arm].clone(), |line| line.paired))
        .collect();
    if study.control() == 1 {
        let key = format!("{} split", study.design.algorithms[0]);
        candidates.push(candidate(0, "A/B split", key, |line| line.split));
    }
    let labels = rows.iter().map(|row| (label(row), Better::More)).collect();
    Forest::against("cdn-gains", control, "the median speed over the users of a class", labels, candidates).figure()
}
