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
use crate::quantile::median_of_sorted;

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

/// One value with its stratum and cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    pub stratum: usize,
    pub cluster: usize,
    pub value: f64,
}

/// The values of one arm in one stratum, sorted, each with its cluster.
#[derive(Clone, Debug)]
struct Stratum {
    weight: f64,
    values: Vec<f64>,
    clusters_of: Vec<usize>,
}

/// Values of one arm in the strata that count. Values are positive.
#[derive(Clone, Debug)]
pub struct Sample {
    strata: Vec<Stratum>,
    values: usize,
    /// Clusters with a value.
    pub clusters: usize,
}

impl Sample {
    /// Takes the values of the strata that weigh anything. Clusters are numbered below `clusters`.
    pub fn new(all: &[Value], weights: &[f64], clusters: usize) -> Self {
        let mut own: Vec<Value> = all.iter().copied().filter(|value| weights[value.stratum] > 0.0).collect();
        own.sort_by(|a, b| a.stratum.cmp(&b.stratum).then(a.value.total_cmp(&b.value)));
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
        let strata = own.chunk_by(|a, b| a.stratum == b.stratum).map(|same| Stratum {
            weight: weights[same[0].stratum],
            values: same.iter().map(|value| value.value).collect(),
            clusters_of: same.iter().map(&mut number).collect(),
        });
        let strata = strata.collect();
        Self { strata, values: own.len(), clusters: count }
    }

    pub const fn len(&self) -> usize {
        self.values
    }

    pub const fn is_empty(&self) -> bool {
        self.values == 0
    }

    /// The median of one stratum; of several, the weighted geometric mean of their medians. Values of different strata are
    /// not put together: a median between two strata would be that of neither. NaN for none.
    pub fn median(&self) -> f64 {
        self.combined(|stratum| median_of_sorted(&stratum.values))
    }

    fn combined(&self, mut median: impl FnMut(&Stratum) -> f64) -> f64 {
        match self.strata.as_slice() {
            [] => f64::NAN,
            [one] => median(one),
            several => several.iter().map(|one| one.weight * median(one).ln()).sum::<f64>().exp(),
        }
    }

    /// The same of a resample of clusters with all their values. `times` is room that is reused.
    pub fn resampled(&self, times: &mut Vec<u32>, rng: &mut Rng) -> f64 {
        if self.clusters == self.values {
            // Each value is a cluster of its own: every stratum is resampled by itself.
            return self.combined(|stratum| {
                let n = stratum.values.len();
                if n >= MANY {
                    // The median's rank in the resample, divided by n, is the median of n uniform values: normal around
                    // one half.
                    let rank = n as f64 * (0.5 + normal(rng) / (2.0 * (n as f64).sqrt()));
                    return stratum.values[(rank.max(0.0) as usize).min(n - 1)];
                }
                draw(times, n, rng);
                stratum.median_of(|at| times[at])
            });
        }
        draw(times, self.clusters, rng);
        self.combined(|stratum| stratum.median_of(|at| times[stratum.clusters_of[at]]))
    }
}

/// Counts of each of `n` in `n` draws with replacement.
fn draw(times: &mut Vec<u32>, n: usize, rng: &mut Rng) {
    times.clear();
    times.resize(n, 0);
    for _ in 0..n {
        times[rng.below(n as u64) as usize] += 1;
    }
}

impl Stratum {
    /// Median where each value counts as often as `times` says of its place; the plain one where none counts.
    fn median_of(&self, times: impl Fn(usize) -> u32) -> f64 {
        let total: u64 = (0..self.values.len()).map(|at| u64::from(times(at))).sum();
        let mut seen = 0;
        for (at, value) in self.values.iter().enumerate() {
            seen += u64::from(times(at));
            if seen > 0 && 2 * seen >= total {
                return *value;
            }
        }
        median_of_sorted(&self.values)
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
            let mut plain: Vec<f64> = (0..n).map(|_| normal(&mut rng).exp()).collect();
            let own: Vec<Value> = plain.iter().enumerate().map(|(at, &own)| value(0, at, own)).collect();
            let sample = Sample::new(&own, &[1.0], own.len());
            assert_eq!(sample.median(), median(&mut plain), "{n}");
        }
        assert!(Sample::new(&[], &[1.0], 0).median().is_nan());
    }

    /// Two strata whose values are far apart: the median lies in neither gap nor mode, and varies as those of the strata.
    #[test]
    fn strata_far_apart_do_not_widen_the_spread() {
        let mut rng = Rng::new(7);
        let scale = |at: usize| if at.is_multiple_of(2) { 0.1 } else { 10.0 };
        let own: Vec<Value> =
            (0..800).map(|at| value(at % 2, at, scale(at) * (0.4 * normal(&mut rng)).exp())).collect();
        let sample = Sample::new(&own, &[0.5, 0.5], own.len());
        assert!((sample.median().ln()).abs() < 0.05, "{}", sample.median());
        let spread = |sample: &Sample| {
            let (mut rng, mut times) = (Rng::new(1), Vec::new());
            let logs: Vec<f64> = (0..2_000).map(|_| sample.resampled(&mut times, &mut rng).ln()).collect();
            let middle = logs.iter().sum::<f64>() / logs.len() as f64;
            (logs.iter().map(|own| (own - middle).powi(2)).sum::<f64>() / logs.len() as f64).sqrt()
        };
        // The error of a normal median, 1.25 σ / √n, of two strata of 400.
        let wanted = 1.253 * 0.4 / 400_f64.sqrt() / 2_f64.sqrt();
        assert!((spread(&sample) / wanted - 1.0).abs() < 0.25, "{} {wanted}", spread(&sample));
        let clustered: Vec<Value> = own.iter().map(|own| value(own.stratum, own.cluster / 4, own.value)).collect();
        let clustered = Sample::new(&clustered, &[0.5, 0.5], 200);
        assert!((spread(&clustered) / wanted - 1.0).abs() < 0.25, "{} {wanted}", spread(&clustered));
    }
}
