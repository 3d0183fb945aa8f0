//! Comparison of two arms over strata: periods within each of which chance alone decided between them.
//!
//! Where the shares of the arms change during a test, time confounds them: most of one arm's connections may come from
//! a busy hour. So each arm's values are compared within a stratum, and the strata are combined with overlap weights
//! (Li, Morgan and Zaslavsky, "Balancing Covariates via Propensity Score Weighting", JASA 113, 2018): a stratum with n₁
//! and n₀ values weighs n₁·n₀ / (n₁ + n₀) in both arms. Of all such weights these give the mean difference its smallest
//! variance where values vary equally, and a stratum of one arm alone weighs nothing. With one stratum every statistic
//! is the usual one.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Rng;

use crate::bootstrap::normal;

/// Number of independent values from which the median of a resample is drawn as a rank. Ours: the ranks' distribution
/// is then normal to three digits.
pub const MANY: usize = 500;
/// Minimum values of each arm in a stratum that is compared. Ours: with fewer its mean is a guess.
pub const VALUES_LEAST: usize = 10;

/// Weights of strata that add up to one, from the number of values of both arms in each. Strata with fewer than
/// [`VALUES_LEAST`] of an arm count only if all are like that. All zero if no stratum has values of both.
pub fn overlap_weights(counts: &[[usize; 2]]) -> Vec<f64> {
    let from = |least: usize| -> Vec<f64> {
        let weight = |&[own, control]: &[usize; 2]| {
            let (a, b) = (own as f64, control as f64);
            if own.min(control) < least { 0.0 } else { a * b / (a + b) }
        };
        counts.iter().map(weight).collect()
    };
    let enough = from(VALUES_LEAST);
    let weights = if enough.iter().any(|weight| *weight > 0.0) { enough } else { from(1) };
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| if total > 0.0 { weight / total } else { 0.0 }).collect()
}

/// Number and total of the values of one arm, stratum and cluster. A cluster is a unit of assignment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    pub stratum: usize,
    pub cluster: usize,
    pub count: f64,
    pub sum: f64,
}

/// A mean with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    pub mean: f64,
    /// NaN for fewer than two clusters.
    pub error: f64,
    /// Number of clusters with a value in a stratum that counts.
    pub clusters: usize,
    pub values: f64,
}

/// Weighted mean of one arm; clusters are numbered below `clusters`. Its error is that of a ratio of totals over clusters,
/// linearised: a cluster deviates from the mean by what its values deviate from the means of their strata.
pub fn mean(cells: impl Iterator<Item = Cell> + Clone, weights: &[f64], clusters: usize) -> Mean {
    let counted = || cells.clone().filter(|cell| cell.count > 0.0 && weights[cell.stratum] > 0.0);
    let mut strata = vec![(0.0, 0.0); weights.len()];
    for cell in counted() {
        let (count, sum) = &mut strata[cell.stratum];
        *count += cell.count;
        *sum += cell.sum;
    }
    let own = || weights.iter().zip(&strata).filter(|(weight, _)| **weight > 0.0);
    let mean: f64 = own().map(|(weight, (count, sum))| weight * sum / count).sum();
    let values: f64 = own().map(|(_, (count, _))| count).sum();
    let mut deviations = vec![None; clusters];
    for cell in counted() {
        let (count, sum) = strata[cell.stratum];
        let deviation = weights[cell.stratum] * (cell.sum - sum / count * cell.count) / count;
        *deviations[cell.cluster].get_or_insert(0.0) += deviation;
    }
    let squares: f64 = deviations.iter().flatten().map(|deviation: &f64| deviation * deviation).sum();
    let clusters = deviations.iter().flatten().count();
    let k = clusters as f64;
    let error = if clusters < 2 { f64::NAN } else { (k / (k - 1.0) * squares).sqrt() };
    Mean { mean: if values > 0.0 { mean } else { f64::NAN }, error, clusters, values }
}

/// Values of one arm in the strata that count, sorted, each with its stratum and cluster.
#[derive(Clone, Debug)]
pub struct Sample {
    values: Vec<f64>,
    strata: Vec<usize>,
    clusters_of: Vec<usize>,
    /// Clusters with a value.
    pub clusters: usize,
    weights: Vec<f64>,
    /// Sums of the values' weights, up to each value.
    cumulated: Vec<f64>,
    /// Standard error of the median's rank, as a share of all weight.
    rank_error: f64,
}

/// One value with its stratum and cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    pub stratum: usize,
    pub cluster: usize,
    pub value: f64,
}

impl Sample {
    /// Takes the values of the strata that weigh anything. Clusters are numbered below `clusters`.
    pub fn new(all: &[Value], weights: &[f64], clusters: usize) -> Self {
        let mut own: Vec<Value> = all.iter().copied().filter(|value| weights[value.stratum] > 0.0).collect();
        own.sort_by(|a, b| a.value.total_cmp(&b.value));
        let mut numbers = vec![usize::MAX; clusters];
        let mut count = 0;
        let mut number = |value: &Value| {
            let place = &mut numbers[value.cluster];
            if *place == usize::MAX {
                *place = count;
                count += 1;
            }
            *place
        };
        let clusters_of: Vec<usize> = own.iter().map(&mut number).collect();
        let mut sample = Self {
            values: own.iter().map(|value| value.value).collect(),
            strata: own.iter().map(|value| value.stratum).collect(),
            clusters_of,
            clusters: count,
            weights: weights.to_vec(),
            cumulated: Vec::new(),
            rank_error: 0.0,
        };
        let each = sample.weight_of_a_value(&sample.counts(|_| 1));
        let mut sum = 0.0;
        let add = |stratum: &usize| {
            sum += each[*stratum];
            sum
        };
        sample.cumulated = sample.strata.iter().map(add).collect();
        sample.rank_error = sample.error_of_rank();
        sample
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Values in each stratum, each counted as often as `times` says of its place.
    fn counts(&self, times: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut counts = vec![0; self.weights.len()];
        self.strata.iter().enumerate().for_each(|(at, &stratum)| counts[stratum] += times(at));
        counts
    }

    /// Weight of one value in each stratum, relative to the first that has any: with one stratum all weigh 1.
    fn weight_of_a_value(&self, counts: &[u64]) -> Vec<f64> {
        let each = || self.weights.iter().zip(counts);
        let of = |(&weight, &count): (&f64, &u64)| if count == 0 { 0.0 } else { weight / count as f64 };
        let first = each().map(of).find(|weight| *weight > 0.0).unwrap_or(1.0);
        each().map(|pair| of(pair) / first).collect()
    }

    fn total(&self) -> f64 {
        self.cumulated.last().copied().unwrap_or(0.0)
    }

    /// Weighted median: the value at half of all weight, or between the two that meet there. NaN for none.
    pub fn median(&self) -> f64 {
        let half = self.total() / 2.0;
        let at = self.cumulated.partition_point(|&sum| sum < half);
        let Some(&value) = self.values.get(at) else { return f64::NAN };
        let next = self.values.get(at + 1).filter(|_| self.cumulated[at] == half);
        next.map_or(value, |&next| f64::midpoint(value, next))
    }

    /// Of independent values, by the binomial variance of the share of each stratum below the median.
    fn error_of_rank(&self) -> f64 {
        let counts = self.counts(|_| 1);
        let half = self.total() / 2.0;
        let middle = self.cumulated.partition_point(|&sum| sum < half);
        let below = self.counts(|at| u64::from(at <= middle));
        let share = |stratum: usize| below[stratum] as f64 / counts[stratum] as f64;
        let strata = || (0..self.weights.len()).filter(|&stratum| counts[stratum] > 0);
        // Together the strata have one half of their weight below the median, up to the one value at which it lies.
        let excess: f64 = strata().map(|stratum| self.weights[stratum] * share(stratum)).sum::<f64>() - 0.5;
        let variance = strata().map(|stratum| {
            let below = (share(stratum) - excess).clamp(0.0, 1.0);
            self.weights[stratum].powi(2) * below * (1.0 - below) / counts[stratum] as f64
        });
        variance.sum::<f64>().sqrt()
    }

    /// Median of a resample of clusters with all their values. The strata keep their weights. `times` is room that is reused.
    pub fn resampled(&self, times: &mut Vec<u32>, rng: &mut Rng) -> f64 {
        let n = self.values.len();
        if self.clusters == n && n >= MANY {
            let rank = self.total() * (0.5 + normal(rng) * self.rank_error);
            return self.values[self.cumulated.partition_point(|&sum| sum <= rank).min(n - 1)];
        }
        times.clear();
        times.resize(self.clusters, 0);
        for _ in 0..self.clusters {
            times[rng.below(self.clusters as u64) as usize] += 1;
        }
        let drawn = |at: usize| u64::from(times[self.clusters_of[at]]);
        let counts = self.counts(drawn);
        let each = self.weight_of_a_value(&counts);
        let total: f64 = each.iter().zip(&counts).map(|(weight, &count)| weight * count as f64).sum();
        let mut seen = 0.0;
        for (at, value) in self.values.iter().enumerate() {
            seen += each[self.strata[at]] * drawn(at) as f64;
            if 2.0 * seen >= total {
                return *value;
            }
        }
        self.values.last().copied().unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::median;

    fn value(stratum: usize, cluster: usize, value: f64) -> Value {
        Value { stratum, cluster, value }
    }

    fn cells(values: &[Value]) -> Vec<Cell> {
        let cell =
            |value: &Value| Cell { stratum: value.stratum, cluster: value.cluster, count: 1.0, sum: value.value };
        values.iter().map(cell).collect()
    }

    #[test]
    fn strata_weigh_by_what_both_arms_have_and_one_of_one_arm_alone_weighs_nothing() {
        let weights = overlap_weights(&[[10, 990], [500, 500], [0, 700], [9, 900]]);
        assert!((weights[0] - 9.9 / 259.9).abs() < 1e-12 && (weights[1] - 250.0 / 259.9).abs() < 1e-12, "{weights:?}");
        assert_eq!(weights[2..], [0.0, 0.0]);
        assert_eq!(overlap_weights(&[[3, 3]]), [1.0]);
        assert_eq!(overlap_weights(&[[3, 0]]), [0.0]);
        assert_eq!(overlap_weights(&[[30, 12]]), [1.0]);
    }

    #[test]
    fn values_of_one_cluster_do_not_count_as_many() {
        let (mut apart, mut together) = (Vec::new(), Vec::new());
        let mut rng = Rng::new(1);
        for cluster in 0..100 {
            let same = normal(&mut rng);
            for copy in 0..10 {
                apart.push(value(0, cluster * 10 + copy, normal(&mut rng)));
                together.push(value(0, cluster, same));
            }
        }
        let of = |values: &[Value]| mean(cells(values).into_iter(), &[1.0], 1_000);
        assert!((of(&apart).error - 0.0316).abs() < 0.003, "{:?}", of(&apart));
        assert!((of(&together).error - 0.1).abs() < 0.03, "{:?}", of(&together));
        assert_eq!((of(&together).clusters, of(&together).values), (100, 1_000.0));
        assert!(of(&[]).mean.is_nan());
    }

    /// One stratum: the plain median, at odd and even numbers of values.
    #[test]
    fn of_one_stratum_the_median_is_the_usual_one() {
        for n in [1, 2, 3, 10, 11, 600, 601] {
            let mut rng = Rng::new(n);
            let mut plain: Vec<f64> = (0..n).map(|_| normal(&mut rng)).collect();
            let own: Vec<Value> = plain.iter().enumerate().map(|(at, &own)| value(0, at, own)).collect();
            let sample = Sample::new(&own, &[1.0], own.len());
            assert_eq!(sample.median(), median(&mut plain), "{n}");
            assert!((sample.rank_error - 0.5 / (n as f64).sqrt()).abs() < 1e-12, "{n}");
        }
        assert!(Sample::new(&[], &[1.0], 0).median().is_nan());
    }

    /// Goal: the drawn rank has the spread that resampling of values in their strata has.
    #[test]
    fn many_values_have_the_spread_of_a_real_resample() {
        let mut rng = Rng::new(7);
        let own: Vec<Value> = (0..2_000)
            .map(|at| value(usize::from(at >= 600), at, normal(&mut rng) + if at >= 600 { 1.0 } else { 0.0 }))
            .collect();
        let sample = Sample::new(&own, &[0.4, 0.6], own.len());
        // Two values in each cluster that are no clusters: not drawn as ranks.
        let slow = Sample { clusters: own.len() + 1, ..sample.clone() };
        let spread = |sample: &Sample| {
            let (mut rng, mut times) = (Rng::new(1), Vec::new());
            let drawn: Vec<f64> = (0..2_000).map(|_| sample.resampled(&mut times, &mut rng)).collect();
            let middle = drawn.iter().sum::<f64>() / drawn.len() as f64;
            (drawn.iter().map(|own| (own - middle).powi(2)).sum::<f64>() / drawn.len() as f64).sqrt()
        };
        let (fast, slow) = (spread(&sample), spread(&slow));
        assert!((fast / slow - 1.0).abs() < 0.1, "{fast} {slow}");
    }
}
