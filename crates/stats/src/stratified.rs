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

/// The values of one arm in one stratum. Values are positive.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Each is a cluster of its own.
    Apart(Vec<f64>),
    /// Each with its cluster.
    Clustered(Vec<Clustered>),
    /// Counted in bins; each is a cluster of its own.
    Binned(Bins),
}

/// A value with its cluster, in twelve bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clustered([u32; 3]);

impl Clustered {
    #[inline]
    pub const fn new(value: f64, cluster: u32) -> Self {
        let bits = value.to_bits();
        Self([(bits >> 32) as u32, bits as u32, cluster])
    }

    #[inline]
    const fn value(self) -> f64 {
        f64::from_bits((self.0[0] as u64) << 32 | self.0[1] as u64)
    }

    #[inline]
    const fn cluster(self) -> usize {
        self.0[2] as usize
    }
}

/// Counted values: how many lie in each bin, and the sums of their logarithms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bins {
    /// Ends of each bin with a value, ascending, and the number of values up to its higher one.
    bins: Vec<([f64; 2], usize)>,
    log_sum: f64,
    log_squares: f64,
}

impl Bins {
    /// Takes the ends and counts of bins in ascending order, and the sums of the values' logarithms and of their squares.
    pub fn new(counts: impl IntoIterator<Item = ([f64; 2], usize)>, log_sum: f64, log_squares: f64) -> Self {
        let mut all = 0;
        let mut below = |(ends, count): ([f64; 2], usize)| {
            all += count;
            (ends, all)
        };
        Self {
            bins: counts.into_iter().filter(|(_, count)| *count > 0).map(&mut below).collect(),
            log_sum,
            log_squares,
        }
    }

    fn len(&self) -> usize {
        self.bins.last().map_or(0, |(_, count)| *count)
    }

    /// The value at a place: those of a bin are taken to be spread evenly over it.
    fn at(&self, place: usize) -> f64 {
        let nth = self.bins.partition_point(|(_, until)| *until <= place).min(self.bins.len() - 1);
        let before = nth.checked_sub(1).map_or(0, |before| self.bins[before].1);
        let ([low, high], until) = self.bins[nth];
        low + (high - low) * ((place - before) as f64 + 0.5) / (until - before) as f64
    }
}

impl Values {
    pub fn len(&self) -> usize {
        match self {
            Self::Apart(values) => values.len(),
            Self::Clustered(values) => values.len(),
            Self::Binned(bins) => bins.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sorts them; equal values in the order of their clusters.
    pub fn sort(&mut self) {
        match self {
            Self::Apart(values) => values.sort_unstable_by(f64::total_cmp),
            Self::Clustered(values) => {
                values.sort_unstable_by(|a, b| a.value().total_cmp(&b.value()).then(a.cluster().cmp(&b.cluster())))
            }
            Self::Binned(_) => {}
        }
    }

    /// The value at a place.
    pub fn at(&self, place: usize) -> f64 {
        match self {
            Self::Apart(values) => values[place],
            Self::Clustered(values) => values[place].value(),
            Self::Binned(bins) => bins.at(place),
        }
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = f64> {
        (0..self.len()).map(|place| self.at(place))
    }

    fn median(&self) -> f64 {
        match self.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => self.at(n / 2),
            n => f64::midpoint(self.at(n / 2 - 1), self.at(n / 2)),
        }
    }

    /// Median where the value at a place counts as often as `times` says; the plain one where none counts.
    fn median_of_places(&self, times: &[u32]) -> f64 {
        let total = times.iter().copied().map(u64::from).sum();
        let all = times.iter().enumerate();
        first_half(all.map(|(place, &times)| (place, times)), 0, total)
            .map_or_else(|| self.median(), |place| self.at(place))
    }
}

/// First item at which the counts, with those `before`, reach half of the total.
fn first_half<T>(items: impl Iterator<Item = (T, u32)>, before: u64, total: u64) -> Option<T> {
    let mut seen = before;
    for (item, times) in items {
        seen += u64::from(times);
        if seen > 0 && 2 * seen >= total {
            return Some(item);
        }
    }
    None
}

/// A sorted stratum with its weight.
#[derive(Clone, Debug)]
struct Stratum<'a> {
    weight: f64,
    values: &'a Values,
    middle: Middle,
}

/// The middle of a large clustered stratum. A resample's median nearly always lies in it, and then the other values count only by
/// their numbers.
#[derive(Clone, Debug, Default)]
struct Middle {
    places: std::ops::Range<usize>,
    /// Each cluster that is present, with the numbers of its values below the middle and in all.
    clusters: Vec<(u32, u32, u32)>,
}

/// Minimum values of a stratum whose middle is looked at first. Ours: fewer are read as fast as the clusters' numbers.
const MIDDLE_LEAST: usize = 1 << 16;

impl Middle {
    fn of(values: &Values, clusters: usize) -> Self {
        let Values::Clustered(pairs) = values else { return Self::default() };
        let n = pairs.len();
        if n < MIDDLE_LEAST {
            return Self::default();
        }
        let places = n / 2 - n / 16..n / 2 + n / 16;
        let mut counts = vec![(0_u32, 0_u32); clusters];
        for (place, one) in pairs.iter().enumerate() {
            let (below, all) = &mut counts[one.cluster()];
            *below += u32::from(place < places.start);
            *all += 1;
        }
        let present = counts.into_iter().enumerate().filter(|(_, (_, all))| *all > 0);
        Self { places, clusters: present.map(|(cluster, (below, all))| (cluster as u32, below, all)).collect() }
    }
}

impl Stratum<'_> {
    /// Median where each cluster counts as often as `times` says; the plain one where none counts.
    fn median_of_clusters(&self, times: &[u32]) -> f64 {
        let Values::Clustered(pairs) = self.values else { return self.values.median() };
        let counted =
            |places: std::ops::Range<usize>| pairs[places].iter().map(|one| (one.value(), times[one.cluster()]));
        let middle = &self.middle;
        if !middle.places.is_empty() {
            let sum = |count: fn(&(u32, u32, u32)) -> u32| {
                let own = middle.clusters.iter().map(|one| u64::from(times[one.0 as usize]) * u64::from(count(one)));
                own.sum::<u64>()
            };
            let (below, total) = (sum(|one| one.1), sum(|one| one.2));
            let is_before = below > 0 && 2 * below >= total;
            if let Some(value) = first_half(counted(middle.places.clone()), below, total).filter(|_| !is_before) {
                return value;
            }
        }
        let total = counted(0..pairs.len()).map(|(_, times)| u64::from(times)).sum();
        first_half(counted(0..pairs.len()), 0, total).unwrap_or_else(|| self.values.median())
    }
}

/// Values of one arm in the strata that count.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    strata: Vec<Stratum<'a>>,
    values: usize,
    /// Clusters with a value.
    pub clusters: usize,
    /// Those clusters; empty if each value is one.
    present: Vec<u32>,
    /// Clusters are numbered below this.
    numbers: usize,
}

impl<'a> Sample<'a> {
    /// Takes the sorted values of the strata that weigh anything. Clusters are numbered below `clusters`.
    pub fn new(all: &'a [Values], weights: &[f64], clusters: usize) -> Self {
        let own = all.iter().zip(weights).filter(|(values, weight)| **weight > 0.0 && !values.is_empty());
        let own = own.map(|(values, &weight)| Stratum { weight, values, middle: Middle::of(values, clusters) });
        let strata: Vec<Stratum<'_>> = own.collect();
        let values = strata.iter().map(|stratum| stratum.values.len()).sum();
        let mut present = Vec::new();
        let mut is_present = vec![false; clusters];
        for stratum in &strata {
            if let Values::Clustered(pairs) = stratum.values {
                for one in pairs {
                    if !std::mem::replace(&mut is_present[one.cluster()], true) {
                        present.push(one.cluster() as u32);
                    }
                }
            }
        }
        let is_apart = strata.iter().all(|stratum| !matches!(stratum.values, Values::Clustered(_)));
        let count = if is_apart { values } else { present.len() };
        Self { strata, values, clusters: count, present, numbers: clusters }
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
        self.combined(|stratum| stratum.values.median())
    }

    fn combined(&self, mut median: impl FnMut(&Stratum<'_>) -> f64) -> f64 {
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
                    return stratum.values.at((rank.max(0.0) as usize).min(n - 1));
                }
                draw(times, n, rng);
                stratum.values.median_of_places(times)
            });
        }
        times.clear();
        times.resize(self.numbers, 0);
        for _ in 0..self.clusters {
            times[self.present[rng.below(self.clusters as u64) as usize] as usize] += 1;
        }
        self.combined(|stratum| stratum.median_of_clusters(times))
    }

    /// Weighted mean of the values' logarithms, as [`mean`] gives it.
    pub fn log_mean(&self) -> Mean {
        let weights: Vec<f64> = self.strata.iter().map(|stratum| stratum.weight).collect();
        if self.clusters < self.values {
            let cell = |stratum: usize, one: &Clustered| Cell {
                stratum,
                cluster: one.cluster(),
                count: 1.0,
                sum: one.value().ln(),
            };
            let cells = self.strata.iter().enumerate().flat_map(|(at, stratum)| {
                let pairs = if let Values::Clustered(pairs) = stratum.values { pairs.as_slice() } else { &[] };
                pairs.iter().map(move |one| cell(at, one))
            });
            return mean(cells, &weights, self.numbers);
        }
        let (mut all, mut squares) = (0.0, 0.0);
        for Stratum { weight, values, .. } in &self.strata {
            let count = values.len() as f64;
            let (own, deviations) = match values {
                Values::Binned(bins) => {
                    let own = bins.log_sum / count;
                    (own, (bins.log_squares - count * own * own).max(0.0))
                }
                Values::Apart(_) | Values::Clustered(_) => {
                    let own = values.iter().map(f64::ln).sum::<f64>() / count;
                    (own, values.iter().map(|value| (value.ln() - own).powi(2)).sum())
                }
            };
            all += weight * own;
            squares += (weight / count).powi(2) * deviations;
        }
        let k = self.values as f64;
        let error = if self.values < 2 { f64::NAN } else { (k / (k - 1.0) * squares).sqrt() };
        Mean { mean: if self.values > 0 { all } else { f64::NAN }, error, clusters: self.values, values: k }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::median;

    #[derive(Clone, Copy)]
    struct Value {
        stratum: usize,
        cluster: usize,
        value: f64,
    }

    fn value(stratum: usize, cluster: usize, value: f64) -> Value {
        Value { stratum, cluster, value }
    }

    /// Sorted values by stratum.
    fn strata(all: &[Value], count: usize) -> Vec<Values> {
        let mut strata = vec![Vec::new(); count];
        all.iter().for_each(|one| strata[one.stratum].push(Clustered::new(one.value, one.cluster as u32)));
        let mut strata: Vec<Values> = strata.into_iter().map(Values::Clustered).collect();
        strata.iter_mut().for_each(Values::sort);
        strata
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
            let own = strata(&own, 1);
            let sample = Sample::new(&own, &[1.0], plain.len());
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
        let apart = strata(&own, 2);
        let sample = Sample::new(&apart, &[0.5, 0.5], own.len());
        assert!((sample.median().ln()).abs() < 0.05, "{}", sample.median());
        let spread = |sample: &Sample<'_>| {
            let (mut rng, mut times) = (Rng::new(1), Vec::new());
            let logs: Vec<f64> = (0..2_000).map(|_| sample.resampled(&mut times, &mut rng).ln()).collect();
            let middle = logs.iter().sum::<f64>() / logs.len() as f64;
            (logs.iter().map(|own| (own - middle).powi(2)).sum::<f64>() / logs.len() as f64).sqrt()
        };
        // The error of a normal median, 1.25 σ / √n, of two strata of 400.
        let wanted = 1.253 * 0.4 / 400_f64.sqrt() / 2_f64.sqrt();
        assert!((spread(&sample) / wanted - 1.0).abs() < 0.25, "{} {wanted}", spread(&sample));
        let clustered: Vec<Value> = own.iter().map(|own| value(own.stratum, own.cluster / 4, own.value)).collect();
        let clustered = strata(&clustered, 2);
        let clustered = Sample::new(&clustered, &[0.5, 0.5], 200);
        assert!((spread(&clustered) / wanted - 1.0).abs() < 0.25, "{} {wanted}", spread(&clustered));
    }

    /// Clusters of very different sizes and levels: some resamples have their median outside the middle.
    #[test]
    fn the_middle_of_a_stratum_gives_the_median_of_the_whole() {
        let mut rng = Rng::new(3);
        let levels: Vec<f64> = (0..40).map(|_| 1.5 * normal(&mut rng)).collect();
        let draw = |_| {
            let cluster = (rng.below(40) * rng.below(40) / 40) as usize;
            value(0, cluster, (levels[cluster] + 0.1 * normal(&mut rng)).exp())
        };
        let own: Vec<Value> = (0..MIDDLE_LEAST + 9).map(draw).collect();
        let own = strata(&own, 1);
        let with = Sample::new(&own, &[1.0], 40);
        let mut without = with.clone();
        without.strata[0].middle = Middle::default();
        let medians = |sample: &Sample<'_>| {
            let (mut rng, mut times) = (Rng::new(5), Vec::new());
            (0..300).map(|_| sample.resampled(&mut times, &mut rng)).collect::<Vec<f64>>()
        };
        let found = medians(&with);
        assert_eq!(found, medians(&without));
        let middle = &with.strata[0].middle.places;
        let inside = own[0].at(middle.start)..own[0].at(middle.end);
        let outside = found.iter().filter(|median| !inside.contains(median)).count();
        assert!((10..290).contains(&outside), "{outside}");
    }

    /// Tolerance: three standard errors. At the median a bin is 1 % wide and holds about 110 values, so the standard error of a
    /// value interpolated in it is at most 0.5 % / √110 = 0.05 %.
    #[test]
    fn counted_values_have_the_median_and_mean_of_the_values() {
        let mut rng = Rng::new(4);
        let mut own: Vec<f64> = (0..20_000).map(|_| (0.7 * normal(&mut rng)).exp()).collect();
        own.sort_by(f64::total_cmp);
        let end = |bin: f64| 1.01_f64.powf(bin);
        let counts = own.chunk_by(|a, b| (a.ln() / end(1.0).ln()).floor() == (b.ln() / end(1.0).ln()).floor());
        let counts = counts.map(|same| {
            let bin = (same[0].ln() / end(1.0).ln()).floor();
            ([end(bin), end(bin + 1.0)], same.len())
        });
        let logs = own.iter().map(|value| value.ln());
        let bins = Bins::new(counts, logs.clone().sum(), logs.map(|log| log * log).sum());
        let (binned, exact) = ([Values::Binned(bins)], [Values::Apart(own)]);
        let [binned, exact] = [&binned, &exact].map(|strata| Sample::new(strata, &[1.0], 0));
        assert_eq!((binned.len(), binned.clusters), (20_000, 20_000));
        assert!((binned.median() / exact.median() - 1.0).abs() < 0.0015, "{} {}", binned.median(), exact.median());
        let (mut first, mut second, mut times) = (Rng::new(8), Rng::new(8), Vec::new());
        for _ in 0..100 {
            let ratio = binned.resampled(&mut times, &mut first) / exact.resampled(&mut times, &mut second);
            assert!((ratio - 1.0).abs() < 0.0015, "{ratio}");
        }
        let (found, wanted) = (binned.log_mean(), exact.log_mean());
        assert!((found.mean - wanted.mean).abs() < 1e-9 && (found.error - wanted.error).abs() < 1e-9);
        assert!(Sample::new(&[Values::Binned(Bins::default())], &[1.0], 0).median().is_nan());
    }

    #[test]
    fn the_mean_of_values_apart_is_that_of_clusters_of_one() {
        let mut rng = Rng::new(9);
        let own: Vec<Value> = (0..50).map(|at| value(at % 2, at, normal(&mut rng).exp())).collect();
        let logs =
            own.iter().map(|one| Cell { stratum: one.stratum, cluster: one.cluster, count: 1.0, sum: one.value.ln() });
        let wanted = mean(logs, &[0.25, 0.75], 50);
        let clustered = strata(&own, 2);
        let apart: Vec<Values> = clustered.iter().map(|values| Values::Apart(values.iter().collect())).collect();
        for strata in [&clustered, &apart] {
            let found = Sample::new(strata, &[0.25, 0.75], 50).log_mean();
            assert!(
                (found.mean - wanted.mean).abs() < 1e-12 && (found.error - wanted.error).abs() < 1e-12,
                "{found:?}"
            );
            assert_eq!((found.clusters, found.values), (50, 50.0));
        }
    }
}
