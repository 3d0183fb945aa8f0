//! Decision guide between algorithms: the best one of each cell of a sweep, gain maps, and a decision tree with its
//! accuracy.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use linfa::Dataset;
use linfa::traits::{Fit, Predict};
use linfa_trees::{DecisionTree, SplitQuality, TreeNode};
use ndarray::{Array1, Array2};

use crate::choose::objective::Objective;
use crate::sweep::{Cells, Metric, Sweep, axis};
use crate::{Error, Result};
use bbrlab_report::{Heat, Scale, Section, Tree};
use bbrlab_stats::number::significant;

/// Relative difference up to which the algorithm later in the axis wins; the last one is the control. Ours.
const TIE: f64 = 0.02;
/// Depth of the tree. Ours: small enough for a reader to follow.
const DEPTH: usize = 5;
/// Minimum share of the cells in a leaf. Ours.
const LEAF: f64 = 0.01;
/// Folds of the cross-validation.
const FOLDS: usize = 5;

/// Dimensionless features of the tree, with their wording in a question.
const FEATURES: [(&str, &str, bool); 4] = [
    ("buffer", "buffer", true),
    ("loss", "random loss", false),
    ("bdp", "BDP", true),
    ("others", "competing flows", false),
];

/// One cell: the path as features, and the score of each algorithm there.
struct Case {
    features: [f64; FEATURES.len()],
    score: Vec<f64>,
    best: usize,
}

/// Section that shows the best region of each value of the axis `name`.
pub fn section(sweep: &Sweep, cells: &Cells, name: &str) -> Result<Section> {
    let objective = Objective::named("balanced")?;
    let axes = sweep.product().axes();
    let at = axes.iter().position(|(axis, _)| axis == name).ok_or_else(|| {
        let known = axes.iter().map(|(axis, _)| axis.clone()).collect();
        Error::at("--tree")(Error::UnknownAxis { name: name.to_owned(), known })
    })?;
    let labels: Vec<String> = axes[at].1.iter().map(|point| point.label.clone()).collect();
    if labels.len() < 2 {
        return Err(Error::at("--tree")(Error::OneValue(name.to_owned())));
    }
    let cases = cases(sweep, cells, at, objective);
    let all: Vec<usize> = (0..cases.len()).collect();
    let tree = grow(&cases, &all)?;
    let (right, kept, baseline) = validated(&cases)?;
    let counts = count(&cases, &all, labels.len());
    let is_good = right > baseline;
    let share = |label: usize| format!("{} {:.0} %", labels[label], 100.0 * counts[label] as f64 / cases.len() as f64);
    let wins: Vec<String> = (0..labels.len()).map(share).collect();
    Ok(Section {
        id: "when".to_owned(),
        title: "Best choice by region".to_owned(),
        claim: format!(
            "Number of cells in which each is best, out of {}: {}. Judged by goodput within the fair share, delay, retransmissions and \
             what is left to others ({}: ours); where two are within {:.0} %, {} is taken. {}",
            cases.len(),
            wins.join(", "),
            objective.name,
            100.0 * TIE,
            labels[labels.len() - 1],
            judged(right, kept, baseline, &labels[commonest(&counts)]),
        ),
        source: "our own grid; tree by linfa-trees (Gini), from buffer/BDP, loss, BDP in packets and competitors"
            .to_owned(),
        tree: is_good.then(|| drawn(tree.root_node(), &cases, &all, &labels)),
        heats: heats(sweep, &cases, at, &labels),
        ..Section::default()
    })
}

/// Describes the result of cross-validation.
fn judged(right: f64, kept: f64, baseline: f64, commonest: &str) -> String {
    let (right_percent, always) = (100.0 * right, 100.0 * baseline);
    if right <= baseline {
        return format!(
            "No tree is drawn: over cells that it has not seen, one would choose right in {right_percent:.1} %, and always \
             {commonest} is right in {always:.1} % ({FOLDS}-fold cross-validation). Vary more values of buffer, loss, rate or \
             rivals to see a rule."
        );
    }
    format!(
        "The tree chooses right in {right_percent:.1} % of the cells that it has not seen ({FOLDS}-fold cross-validation; always \
         {commonest}: {always:.1} %), and keeps {:.1} % of the score of the best choice in hindsight.",
        100.0 * kept
    )
}

fn commonest(counts: &[usize]) -> usize {
    (0..counts.len()).max_by_key(|&label| counts[label]).unwrap_or(0)
}

fn cases(sweep: &Sweep, cells: &Cells, at: usize, objective: Objective) -> Vec<Case> {
    let axes = sweep.product().axes();
    let stride: usize = axes[at + 1..].iter().map(|(_, points)| points.len()).product();
    let values = axes[at].1.len();
    let first = (0..cells.len()).filter(|combination| (combination / stride).is_multiple_of(values));
    let case = |combination: usize| {
        let score: Vec<f64> =
            (0..values).map(|value| objective.score(cells.figures(combination + value * stride))).collect();
        let max = score.iter().copied().fold(0.0, f64::max);
        let best = (0..values).rev().find(|&value| score[value] >= max * (1.0 - TIE)).unwrap_or(values - 1);
        let get = |metric: Metric| cells.get(combination, metric);
        let others = get(Metric::Flows) - get(Metric::FirstFlows);
        let features =
            [get(Metric::BufferBdp).max(1e-6).ln(), get(Metric::Loss), get(Metric::BdpPackets).max(1e-6).ln(), others];
        Case { features, score, best }
    };
    first.map(case).collect()
}

fn count(cases: &[Case], of: &[usize], labels: usize) -> Vec<usize> {
    let mut counts = vec![0; labels];
    of.iter().for_each(|&case| counts[cases[case].best] += 1);
    counts
}

fn table(cases: &[Case], of: &[usize]) -> Array2<f64> {
    Array2::from_shape_fn((of.len(), FEATURES.len()), |(row, column)| cases[of[row]].features[column])
}

fn grow(cases: &[Case], of: &[usize]) -> Result<DecisionTree<f64, usize>> {
    let targets = Array1::from_iter(of.iter().map(|&case| cases[case].best));
    let leaf = (of.len() as f64 * LEAF).max(1.0) as f32;
    DecisionTree::params()
        .split_quality(SplitQuality::Gini)
        .max_depth(Some(DEPTH))
        .min_weight_leaf(leaf)
        .min_weight_split(2.0 * leaf)
        .fit(&Dataset::new(table(cases, of), targets))
        .map_err(Error::Tree)
}

/// Cross-validates on unseen cells: share chosen right, share of the best score kept, and the result of always choosing
/// the commonest.
fn validated(cases: &[Case]) -> Result<(f64, f64, f64)> {
    let (mut right, mut kept, mut max, mut baseline) = (0, 0.0, 0.0, 0);
    for fold in 0..FOLDS.min(cases.len()) {
        // Strides through the grid, so that each fold holds some of every region.
        let (unseen, seen): (Vec<usize>, Vec<usize>) = (0..cases.len())
            .partition(|case| bbrlab_sim::metrics::fnv1a(&case.to_le_bytes()) % FOLDS as u64 == fold as u64);
        if unseen.is_empty() || seen.is_empty() {
            continue;
        }
        let chosen = grow(cases, &seen)?.predict(&table(cases, &unseen));
        let counts = count(cases, &seen, cases[0].score.len());
        let commonest = commonest(&counts);
        for (&case, &choice) in unseen.iter().zip(&chosen) {
            right += usize::from(choice == cases[case].best);
            baseline += usize::from(commonest == cases[case].best);
            kept += cases[case].score[choice];
            max += cases[case].score.iter().copied().fold(0.0, f64::max);
        }
    }
    let n = cases.len() as f64;
    Ok((right as f64 / n, kept / max, baseline as f64 / n))
}

/// Tree with the cells that reach each leaf.
fn drawn(node: &TreeNode<f64, usize>, cases: &[Case], of: &[usize], labels: &[String]) -> Tree {
    let answer = || {
        let counts = count(cases, of, labels.len());
        let best = (0..counts.len()).max_by_key(|&label| counts[label]).unwrap_or(0);
        let share = 100.0 * counts[best] as f64 / of.len().max(1) as f64;
        Tree::Answer { text: labels[best].clone(), detail: format!("best in {share:.0} % of {} cells", of.len()) }
    };
    let (feature, value, _) = node.split();
    let children = node.children();
    let (Some(Some(left)), Some(Some(right))) = (children.first(), children.get(1)) else { return answer() };
    let (below, above): (Vec<usize>, Vec<usize>) = of.iter().partition(|&&case| cases[case].features[feature] < value);
    let (yes, no) = (drawn(left, cases, &below, labels), drawn(right, cases, &above, labels));
    match (&yes, &no) {
        // A split that changes only the odds does not help a reader.
        (Tree::Answer { text: a, .. }, Tree::Answer { text: b, .. }) if a == b => answer(),
        _ => Tree::Ask { question: question(feature, value), yes: Box::new(yes), no: Box::new(no) },
    }
}

fn question(feature: usize, value: f64) -> String {
    let (name, says, is_log) = FEATURES[feature];
    let value = if is_log { value.exp() } else { value };
    match name {
        "buffer" => format!("{says} < {} BDP", significant(round(value), 4)),
        "loss" => format!("{says} < {} %", significant(round(100.0 * value), 4)),
        "bdp" => format!("{says} < {} packets", significant(round(value), 4)),
        _ => format!("fewer than {} {says}", value.ceil()),
    }
}

/// Rounds to two digits: a threshold between two values of a grid is no more precise.
fn round(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let scale = 10f64.powi(1 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// Maps of each algorithm's score relative to the last one, over pairs of the numeric axes.
fn heats(sweep: &Sweep, cases: &[Case], at: usize, labels: &[String]) -> Vec<Heat> {
    let axes = sweep.product().axes();
    let is_shown = |&nth: &usize| {
        nth != at && axes[nth].1.len() > 1 && axes[nth].1.iter().all(|point| axis::number(&point.label).is_some())
    };
    let shown: Vec<usize> = (0..axes.len()).filter(is_shown).collect();
    let others: Vec<usize> = (0..axes.len()).filter(|&nth| nth != at).collect();
    // Value of a case on an axis: cases count through the remaining axes, the last one fastest.
    let value = |case: usize, axis: usize| {
        let after = others.iter().filter(|&&nth| nth > axis).map(|&nth| axes[nth].1.len()).product::<usize>();
        case / after % axes[axis].1.len()
    };
    let base = labels.len() - 1;
    let mut heats = Vec::new();
    for (nth, &x) in shown.iter().enumerate() {
        for &y in &shown[nth + 1..] {
            for (label, text) in labels.iter().enumerate().take(base) {
                let gain = |(row, column): (usize, usize)| {
                    let here = (0..cases.len()).filter(|&case| value(case, x) == column && value(case, y) == row);
                    let mut gains: Vec<f64> =
                        here.map(|case| cases[case].score[label] / cases[case].score[base].max(1e-9)).collect();
                    if gains.is_empty() { f64::NAN } else { bbrlab_stats::median(&mut gains) }
                };
                let texts = |axis: usize| axes[axis].1.iter().map(|point| point.label.clone()).collect();
                heats.push(Heat {
                    title: format!("score of {text} over {}", labels[base]),
                    x: axes[x].0.clone(),
                    y: axes[y].0.clone(),
                    xs: texts(x),
                    ys: texts(y),
                    unit: "×".to_owned(),
                    scale: Scale::AroundOne,
                    cells: (0..axes[y].1.len())
                        .map(|row| (0..axes[x].1.len()).map(|column| gain((row, column))).collect())
                        .collect(),
                });
            }
        }
    }
    heats
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred cells in which the first algorithm is best below one BDP of buffer.
    fn cases_by_buffer() -> Vec<Case> {
        (0..100)
            .map(|nth| {
                let (buffer, loss) = (0.1 * f64::from(1 + nth % 20), 0.01 * f64::from(nth / 20));
                let best = usize::from(buffer >= 1.0);
                let score = if best == 0 { vec![0.9, 0.5] } else { vec![0.5, 0.9] };
                Case { features: [buffer.ln(), loss, 3.0, 0.0], score, best }
            })
            .collect()
    }

    #[test]
    fn a_tree_finds_the_rule_that_is_there_and_says_it_in_words() {
        let cases = cases_by_buffer();
        let all: Vec<usize> = (0..cases.len()).collect();
        let tree = grow(&cases, &all).unwrap();
        let labels = ["bbr1".to_owned(), "cubic".to_owned()];
        let Tree::Ask { question, yes, no } = drawn(tree.root_node(), &cases, &all, &labels) else {
            panic!("no question")
        };
        assert!(question.starts_with("buffer < 0.9"), "{question}");
        assert!(matches!(*yes, Tree::Answer { ref text, .. } if text == "bbr1"));
        assert!(matches!(*no, Tree::Answer { ref text, ref detail } if text == "cubic" && detail.contains("100 %")));
    }

    #[test]
    fn a_tree_that_is_no_better_than_the_commonest_answer_is_not_drawn_and_that_is_said() {
        let text = judged(0.44, 0.9, 0.67, "cubic");
        assert!(
            text.starts_with("No tree is drawn") && text.contains("44.0 %") && text.contains("always cubic"),
            "{text}"
        );
        assert!(judged(0.9, 0.99, 0.67, "cubic").starts_with("The tree chooses right in 90.0 %"));
    }

    #[test]
    fn cross_validation_counts_cells_that_were_not_seen() {
        let (right, kept, baseline) = validated(&cases_by_buffer()).unwrap();
        assert!(right > 0.95 && kept > 0.95 && (0.4..0.7).contains(&baseline), "{right} {kept} {baseline}");
    }
}
