//! Soundness of a test: the arms' shares of connections, and of those left out.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_stats::sequential::chi_squared_tail;

use super::Experiment;
use super::survey::Survey;

/// Significance level of the sample ratio check, the usual one: Fabijan et al., "Diagnosing Sample Ratio Mismatch in
/// Online Controlled Experiments", KDD 2019.
const MISMATCH: f64 = 0.001;
/// Sample ratio check of the split.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// Observed units of each arm.
    pub seen: Vec<u64>,
    pub expected: Vec<f64>,
    pub chi_squared: f64,
    pub freedom: usize,
    /// Probability of a deviation at least this large by chance.
    pub p: f64,
}

impl Ratio {
    pub fn is_mismatch(&self) -> bool {
        self.p < MISMATCH
    }
}

/// Test that the arms' shares of excluded connections are equal.
#[derive(Clone, Debug, PartialEq)]
pub struct Exclusion {
    /// Share left out of each arm: refused, overridden, or without data.
    pub shares: Vec<f64>,
    /// Probability of a difference at least this large by chance.
    pub p: f64,
}

impl Exclusion {
    pub fn differs(&self) -> bool {
        self.p < MISMATCH
    }
}

/// Chi-squared test over all splits that were in force: a change of shares is no mismatch.
pub(super) fn ratio(test: &Experiment, survey: &Survey) -> Ratio {
    let arms = test.arms.len();
    let mut all = Ratio { seen: vec![0; arms], expected: vec![0.0; arms], chi_squared: 0.0, freedom: 0, p: 1.0 };
    for change in &test.splits {
        let shares = survey.splits.get(&change.epoch).map_or(&[][..], Vec::as_slice);
        let mut seen: Vec<u64> = shares.iter().map(|share| share.units(test.by)).collect();
        seen.resize(arms, 0);
        let total: u64 = seen.iter().sum();
        let shares: u32 = change.shares.0.iter().sum();
        let mut cells = 0;
        for (arm, &share) in change.shares.0.iter().enumerate().take(arms) {
            let expected = total as f64 * f64::from(share) / f64::from(shares.max(1));
            all.seen[arm] += seen[arm];
            all.expected[arm] += expected;
            if expected > 0.0 {
                all.chi_squared += (seen[arm] as f64 - expected).powi(2) / expected;
                cells += 1;
            } else if seen[arm] > 0 {
                all.chi_squared = f64::INFINITY;
            }
        }
        if total > 0 {
            all.freedom += usize::saturating_sub(cells, 1);
        }
    }
    all.p = if all.chi_squared.is_infinite() { 0.0 } else { chi_squared_tail(all.chi_squared, all.freedom) };
    all
}

/// Chi-squared test of whether the arms differ in the share that was left out, over all splits.
pub(super) fn exclusion(test: &Experiment, survey: &Survey) -> Exclusion {
    let arms = test.arms.len();
    let (mut chi_squared, mut freedom) = (0.0, 0);
    let mut sums = vec![[0_u64; 2]; arms];
    for change in &test.splits {
        let shares = survey.splits.get(&change.epoch).map_or(&[][..], Vec::as_slice);
        let mut counts: Vec<[u64; 2]> = shares.iter().map(|share| [share.kept, share.left_out]).collect();
        counts.resize(arms, [0; 2]);
        sums.iter_mut().zip(&counts).for_each(|(sum, own)| (0..2).for_each(|side| sum[side] += own[side]));
        let total = |side: usize| counts.iter().map(|own| own[side]).sum::<u64>() as f64;
        let (kept, left_out) = (total(0), total(1));
        if kept == 0.0 || left_out == 0.0 {
            continue;
        }
        let present = counts.iter().map(|own| (own[1] as f64, (own[0] + own[1]) as f64)).filter(|(_, all)| *all > 0.0);
        let share = left_out / (kept + left_out);
        chi_squared +=
            present.clone().map(|(own, all)| (own - all * share).powi(2) / (all * share * (1.0 - share))).sum::<f64>();
        freedom += present.count() - 1;
    }
    let shares = sums.iter().map(|[kept, left_out]| *left_out as f64 / ((kept + left_out) as f64).max(1.0));
    Exclusion { shares: shares.collect(), p: chi_squared_tail(chi_squared, freedom) }
}
