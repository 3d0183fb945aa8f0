//! Judgement: each algorithm's mean of a measure, and its difference to each reference, in pairs of equal case and seed.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_study::compare::{Outcome, independent, of_mean};
use bbrlab_study::comparison::Interval;
use serde::Serialize;

use super::{Better, Measured, Plan};

/// Smallest difference that counts, relative to the larger of both means. Ours: what nobody would act on is no difference.
const MATERIAL: f64 = 0.02;

/// Place of an algorithm among the references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Better than each reference.
    Best,
    /// Worse than each reference.
    Worst,
    /// Neither.
    Among,
    /// Without enough pairs, or without a reference.
    NotJudged,
}

impl Standing {
    /// Text in tables.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Best => "better than every reference",
            Self::Worst => "worse than every reference",
            Self::Among => "among the references",
            Self::NotJudged => "not judged",
        }
    }
}

/// A measure of a criterion for all algorithms.
#[derive(Clone, Debug)]
pub struct Line {
    /// Index of the criterion; `None` for the mean over all criteria, if they have the same measures.
    pub criterion: Option<usize>,
    /// Index of the measure.
    pub measure: usize,
    /// Mean of each algorithm over the cases and seeds that all have, with its interval; missing if it has none.
    pub means: Vec<Interval>,
    /// For each subject, its difference to each reference: subject − reference.
    pub differences: Vec<Vec<(Interval, Outcome)>>,
    /// Place of each subject.
    pub standings: Vec<Standing>,
}

/// Values of one algorithm by case and seed; `None` where a case was not run or gave no value.
fn values(cases: &[Vec<Measured>], algorithm: usize, measure: usize, repeat: usize) -> Vec<Option<f64>> {
    let of_case = |case: &Vec<Measured>| match &case[algorithm].seeds {
        Ok(seeds) => seeds.iter().map(|values| Some(values[measure]).filter(|value| value.is_finite())).collect(),
        Err(_) => vec![None; repeat],
    };
    cases.iter().flat_map(of_case).collect()
}

/// Values of each case.
fn by_case(values: &[Option<f64>], repeat: usize) -> Vec<Vec<f64>> {
    values.chunks(repeat).map(|seeds| seeds.iter().copied().flatten().collect()).collect()
}

fn outcome(difference: Interval, larger: f64, better: Better) -> Outcome {
    if !difference.low.is_finite() {
        Outcome::NotJudged
    } else if (difference.low <= 0.0 && difference.high >= 0.0) || difference.middle.abs() < MATERIAL * larger {
        Outcome::NoDifference
    } else if (difference.middle > 0.0) == (better == Better::More) {
        Outcome::Better
    } else {
        Outcome::Worse
    }
}

/// Judges all measures.
pub(super) fn lines(plan: &Plan, of: &[Vec<Vec<Measured>>]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (criterion, cases) in of.iter().enumerate() {
        let measures = 0..plan.criteria[criterion].measure.len();
        lines.extend(measures.map(|measure| line(plan, Some(criterion), measure, cases)));
    }
    let measures = plan.shared_measures();
    if !measures.is_empty() {
        let all: Vec<Vec<Measured>> = of.concat();
        lines.extend((0..measures.len()).map(|measure| line(plan, None, measure, &all)));
    }
    lines
}

/// Judges one measure over some cases.
fn line(plan: &Plan, criterion: Option<usize>, measure: usize, cases: &[Vec<Measured>]) -> Line {
    let count = plan.algorithms().len();
    let better = plan.criteria[criterion.unwrap_or(0)].measure[measure].better;
    let all: Vec<Vec<Option<f64>>> =
        (0..count).map(|algorithm| values(cases, algorithm, measure, plan.repeat as usize)).collect();
    // Means of different cases would not compare.
    let compared: Vec<&Vec<Option<f64>>> = all.iter().filter(|own| own.iter().any(Option::is_some)).collect();
    let is_shared = |at: usize| compared.iter().all(|own| own.get(at).is_some_and(Option::is_some));
    let repeat = plan.repeat as usize;
    let shared = |own: &Vec<Option<f64>>| -> Vec<Option<f64>> {
        own.iter().enumerate().map(|(at, value)| value.filter(|_| is_shared(at))).collect()
    };
    let means: Vec<Interval> = all.iter().map(|own| of_mean(&independent(by_case(&shared(own), repeat)))).collect();
    let mut differences = Vec::new();
    for subject in 0..plan.subjects.len() {
        let to = |reference: usize| {
            let pairs = all[subject].iter().zip(&all[reference]);
            let apart: Vec<Option<f64>> = pairs.map(|(own, other)| Some((*own)? - (*other)?)).collect();
            let difference = of_mean(&independent(by_case(&apart, repeat)));
            let larger = means[subject].middle.abs().max(means[reference].middle.abs());
            (difference, outcome(difference, larger, better))
        };
        differences.push(plan.references_of(subject).into_iter().map(to).collect::<Vec<_>>());
    }
    let standings = differences.iter().map(|to| standing(to)).collect();
    Line { criterion, measure, means, differences, standings }
}

fn standing(differences: &[(Interval, Outcome)]) -> Standing {
    let all = |of: Outcome| differences.iter().all(|(_, outcome)| *outcome == of);
    if differences.is_empty() || differences.iter().any(|(_, outcome)| *outcome == Outcome::NotJudged) {
        Standing::NotJudged
    } else if all(Outcome::Better) {
        Standing::Best
    } else if all(Outcome::Worse) {
        Standing::Worst
    } else {
        Standing::Among
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_needs_an_interval_beside_zero_and_a_difference_that_matters() {
        let of = |middle: f64, half: f64| Interval { middle, low: middle - half, high: middle + half };
        assert_eq!(outcome(of(1.0, 0.5), 10.0, Better::More), Outcome::Better);
        assert_eq!(outcome(of(1.0, 0.5), 10.0, Better::Less), Outcome::Worse);
        assert_eq!(outcome(of(1.0, 1.5), 10.0, Better::More), Outcome::NoDifference);
        assert_eq!(outcome(of(0.1, 0.05), 10.0, Better::More), Outcome::NoDifference);
        assert_eq!(outcome(of(f64::NAN, 0.0), 10.0, Better::More), Outcome::NotJudged);
    }

    #[test]
    fn a_subject_is_best_or_worst_only_against_all_references() {
        let one = |outcome| (Interval::NONE, outcome);
        assert_eq!(standing(&[one(Outcome::Better), one(Outcome::Better)]), Standing::Best);
        assert_eq!(standing(&[one(Outcome::Better), one(Outcome::NoDifference)]), Standing::Among);
        assert_eq!(standing(&[one(Outcome::Worse), one(Outcome::Worse)]), Standing::Worst);
        assert_eq!(standing(&[]), Standing::NotJudged);
    }
}
