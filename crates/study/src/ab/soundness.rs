//! Soundness of a test: the arms' shares of connections, and of those left out.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_stats::sequential::{chi_squared_tail, two_sided};
use bbrlab_stats::stratified::{Cell, mean, overlap_weights};

use super::cells::Cells;
use super::judge::UNITS_LEAST;
use super::survey::{Share, Survey};
use super::{AssignmentUnit, BUCKETS, Experiment};

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
        let mut seen: Vec<u64> = shares.iter().map(|share| share.count(test.by)).collect();
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

/// Test of whether the arms differ in the share that was left out, over all splits.
pub(super) fn exclusion(test: &Experiment, survey: &Survey) -> Exclusion {
    let mut sums = vec![[0_u64; 2]; test.arms.len()];
    for split in &test.splits {
        let shares = survey.splits.get(&split.epoch).map_or(&[][..], Vec::as_slice);
        for (sum, share) in sums.iter_mut().zip(shares) {
            *sum = [sum[0] + share.kept, sum[1] + share.left_out];
        }
    }
    let shares = sums.iter().map(|[kept, left_out]| *left_out as f64 / ((kept + left_out) as f64).max(1.0));
    let p = if test.by == AssignmentUnit::Connection { by_connection(test, survey) } else { by_unit(test, survey) };
    Exclusion { shares: shares.collect(), p }
}

/// Chi-squared test over connections.
fn by_connection(test: &Experiment, survey: &Survey) -> f64 {
    let (mut chi_squared, mut freedom) = (0.0, 0);
    for change in &test.splits {
        let shares = survey.splits.get(&change.epoch).map_or(&[][..], Vec::as_slice);
        let (kept, left_out) =
            shares.iter().fold((0.0, 0.0), |sum, share| (sum.0 + share.kept as f64, sum.1 + share.left_out as f64));
        if kept == 0.0 || left_out == 0.0 {
            continue;
        }
        let all = |share: &Share| (share.kept + share.left_out) as f64;
        let present = shares.iter().map(|share| (share.left_out as f64, all(share))).filter(|(_, all)| *all > 0.0);
        let share = left_out / (kept + left_out);
        chi_squared +=
            present.clone().map(|(own, all)| (own - all * share).powi(2) / (all * share * (1.0 - share))).sum::<f64>();
        freedom += present.count() - 1;
    }
    chi_squared_tail(chi_squared, freedom)
}

/// Test of each arm against the control, with errors over units of assignment and a correction for the number of arms.
///
/// Connections of one unit are left out together: chi-squared would count each as evidence.
fn by_unit(test: &Experiment, survey: &Survey) -> f64 {
    let share = |stratum: usize, arm: usize| survey.splits.get(&test.splits[stratum].epoch)?.get(arm);
    let count = |stratum: usize, arm: usize| share(stratum, arm).map_or(0, |share| share.kept + share.left_out);
    let strata = 0..test.splits.len();
    let of_arm = |arm: usize| {
        let counts: Vec<[usize; 2]> =
            strata.clone().map(|stratum| [arm, 0].map(|side| count(stratum, side) as usize)).collect();
        let weights = overlap_weights(&counts);
        let [own, control] = [arm, 0].map(|side| {
            let of_split = |stratum: usize| {
                let first = test.host_of(test.splits[stratum].epoch) * BUCKETS;
                let units = share(stratum, side).map_or(&[][..], |share| &share.units).iter().enumerate();
                units.map(move |(unit, &[kept, left_out])| Cell {
                    stratum,
                    cluster: first + unit,
                    count: (kept + left_out) as f64,
                    sum: left_out as f64,
                })
            };
            mean(strata.clone().flat_map(of_split), &weights, Cells::clusters(test))
        });
        if own.clusters.min(control.clusters) < UNITS_LEAST {
            return 1.0;
        }
        let (difference, error) = (own.mean - control.mean, own.error.hypot(control.error));
        if difference == 0.0 { 1.0 } else { two_sided(difference / error) }
    };
    let arms = test.arms.len();
    ((1..arms).map(of_arm).fold(1.0, f64::min) * (arms - 1) as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::testing::{experiment, judge};
    use crate::ab::{Prefixes, Row, Table};

    /// Connections of 400 client networks, nine each. `is_left_out` is a network's, by its number and arm.
    fn rows(test: &Experiment, is_left_out: impl Fn(u64, u8) -> bool) -> Vec<Row> {
        let table = Table::new(&test.splits[0].shares);
        let row = |id: u64| {
            let network = id / 9;
            let bucket = (network * 7919 % BUCKETS as u64) as u16;
            let arm = table.arm(bucket).unwrap_or(0);
            let is_overridden = is_left_out(network, arm);
            Row {
                id,
                arm,
                bucket,
                epoch: 1,
                nth: 1,
                is_overridden,
                bytes_acked: 9_000,
                busy_us: 9_000,
                data_segs_out: 7,
                ..Row::default()
            }
        };
        (0..3_600).map(row).collect()
    }

    #[test]
    fn connections_of_one_unit_that_are_left_out_together_are_one_observation() {
        let mut test = experiment(&["cubic", "bbr3"], "50,50");
        let found = |test: &Experiment, rows: &[Row]| judge(test, rows, &Prefixes::default(), 1).exclusion;
        // Three networks of one arm, whose applications choose their algorithm: chance.
        let few = rows(&test, |network, arm| network < 6 && arm == 1);
        assert_eq!(few.iter().filter(|row| row.is_overridden).count(), 27);
        assert!(found(&test, &few).differs());
        test.by = AssignmentUnit::ClientPrefix;
        let together = found(&test, &few);
        assert!(!together.differs() && together.p > 0.01, "{together:?}");
        // A tenth of the networks of one arm; and all.
        for every in [10, 1] {
            let many = rows(&test, |network, arm| arm == 1 && network % every == 0);
            let apart = found(&test, &many);
            assert!(apart.differs() && apart.shares[0] == 0.0, "{every}: {apart:?}");
        }
        // The same share of both.
        let both = found(&test, &rows(&test, |network, _| network % 20 == 0));
        assert!(!both.differs(), "{both:?}");
        // Nothing.
        assert_eq!(found(&test, &rows(&test, |_, _| false)).p, 1.0);
    }
}
