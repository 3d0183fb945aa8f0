//! Percentile bootstrap (Efron 1979): 95 % intervals from resamples drawn with replacement.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Rng;

use crate::quantile::{mean, median};

/// Number of bootstrap resamples. Ours: enough for two steady digits of a 95 % interval.
pub const RESAMPLES: usize = 2000;

/// Fills `to` with values drawn with replacement.
pub fn resampled(from: &[f64], to: &mut [f64], rng: &mut Rng) {
    for slot in to {
        *slot = from[usize::try_from(rng.below(from.len() as u64)).unwrap_or(0)];
    }
}

/// Returns the 95 % interval of a statistic. `draw` computes it from a new resample at each call.
pub fn interval_of(draw: impl FnMut() -> f64) -> (f64, f64) {
    let mut drawn: Vec<f64> = std::iter::repeat_with(draw).take(RESAMPLES).collect();
    drawn.sort_by(f64::total_cmp);
    ends(&drawn)
}

/// Both ends of the central 95 % of sorted resamples.
pub fn ends(sorted: &[f64]) -> (f64, f64) {
    let n = sorted.len();
    (sorted[n / 40], sorted[n - 1 - n / 40])
}

/// Returns the 95 % interval of the median of sorted values.
pub fn interval_of_median(sorted: &[f64], rng: &mut Rng) -> (f64, f64) {
    let n = sorted.len();
    if n < 2 || sorted[0] == sorted[n - 1] {
        return (sorted.first().copied().unwrap_or(f64::NAN), sorted.last().copied().unwrap_or(f64::NAN));
    }
    let mut resample = vec![0.0; n];
    interval_of(|| {
        resampled(sorted, &mut resample, rng);
        median(&mut resample)
    })
}

/// Returns the 95 % interval of the mean.
pub fn interval_of_mean(values: &[f64], rng: &mut Rng) -> (f64, f64) {
    let mut resample = values.to_vec();
    interval_of(|| {
        resampled(values, &mut resample, rng);
        mean(&resample)
    })
}

/// Returns the 95 % interval of the ratio of two independent samples' medians.
pub fn interval_of_median_ratio(above: &[f64], below: &[f64], rng: &mut Rng) -> (f64, f64) {
    let (mut a, mut b) = (above.to_vec(), below.to_vec());
    interval_of(|| {
        resampled(above, &mut a, rng);
        resampled(below, &mut b, rng);
        median(&mut a) / median(&mut b)
    })
}

/// Draws a standard normal number by the Box–Muller transform.
pub fn normal(rng: &mut Rng) -> f64 {
    let mut uniform = || (rng.below(1 << 53) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_contain_the_statistic_and_repeat() {
        let values: Vec<f64> = (1..=101).map(f64::from).collect();
        let of = |seed| {
            let rng = &mut Rng::new(seed);
            [
                interval_of_median(&values, rng),
                interval_of_mean(&values, rng),
                interval_of_median_ratio(&values, &values, rng),
            ]
        };
        for ((low, high), truth) in of(1).into_iter().zip([51.0, 51.0, 1.0]) {
            assert!(low < truth && truth < high, "{low} {truth} {high}");
        }
        assert_eq!(of(1), of(1));
    }

    #[test]
    fn equal_values_have_an_interval_without_width() {
        assert_eq!(interval_of_median(&[3.0, 3.0], &mut Rng::new(1)), (3.0, 3.0));
        assert!(interval_of_median(&[], &mut Rng::new(1)).0.is_nan());
    }
}
