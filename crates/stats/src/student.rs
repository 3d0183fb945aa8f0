//! Student's t: 95 % intervals of the means of a few values. The percentile bootstrap of five values misses the mean in about one
//! of five cases.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::quantile::mean;

/// The 97.5 % quantile of Student's t, for 1 to 30 degrees of freedom.
const QUANTILES: [f64; 30] = [
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448,
    2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484,
    2.0452, 2.0423,
];
/// The 97.5 % quantile of the normal distribution, the limit of the above.
const NORMAL: f64 = 1.959_964;

/// The 97.5 % quantile for this many degrees of freedom, rounded down up to 30.
// spec: the first terms of the Cornish-Fisher expansion above
fn quantile(freedom: f64) -> f64 {
    if let Some(quantile) = QUANTILES.get((freedom as usize).saturating_sub(1)) {
        return *quantile;
    }
    let (first, third, fifth) = (NORMAL, NORMAL.powi(3), NORMAL.powi(5));
    first + (third + first) / (4.0 * freedom) + (5.0 * fifth + 16.0 * third + 3.0 * first) / (96.0 * freedom * freedom)
}

/// Variance of the mean of these values.
fn variance_of_mean(values: &[f64]) -> f64 {
    let (n, middle) = (values.len() as f64, mean(values));
    values.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / (n - 1.0) / n
}

/// Returns the 95 % interval of the mean of two values or more; NaN of fewer.
pub fn interval_of_mean(values: &[f64]) -> (f64, f64) {
    if values.len() < 2 {
        return (f64::NAN, f64::NAN);
    }
    let half = quantile(values.len() as f64 - 1.0) * variance_of_mean(values).sqrt();
    (mean(values) - half, mean(values) + half)
}

/// Returns the 95 % interval of the difference of two independent samples' means, the second less the first; each has two values
/// or more, else NaN.
// spec: Welch 1947, with Satterthwaite's degrees of freedom
pub fn interval_of_difference(first: &[f64], second: &[f64]) -> (f64, f64) {
    if first.len() < 2 || second.len() < 2 {
        return (f64::NAN, f64::NAN);
    }
    let (a, b) = (variance_of_mean(first), variance_of_mean(second));
    let spread = a * a / (first.len() as f64 - 1.0) + b * b / (second.len() as f64 - 1.0);
    let freedom = if spread > 0.0 { (a + b).powi(2) / spread } else { 1.0 };
    let (middle, half) = (mean(second) - mean(first), quantile(freedom) * (a + b).sqrt());
    (middle - half, middle + half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::normal;
    use bbrlab_core::Rng;

    #[test]
    fn intervals_of_means_are_those_of_tables() {
        // Mean 3, variance 2.5, t of four degrees of freedom.
        let (low, high) = interval_of_mean(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((low - 1.0367).abs() < 1e-3 && (high - 4.9633).abs() < 1e-3, "{low} {high}");
        assert!((quantile(60.0) - 2.0003).abs() < 1e-3 && (quantile(31.0) - 2.0395).abs() < 1e-3);
        assert_eq!(interval_of_mean(&[2.0; 6]), (2.0, 2.0));
        assert!(interval_of_mean(&[2.0]).0.is_nan());
    }

    #[test]
    fn of_equal_samples_about_one_interval_in_twenty_excludes_zero() {
        let mut rng = Rng::new(3);
        for (n, m) in [(5, 5), (6, 20), (10, 10)] {
            let mut missed = [0; 2];
            for _ in 0..4_000 {
                let mut draw = |count: usize| (0..count).map(|_| normal(&mut rng)).collect::<Vec<f64>>();
                let (first, second) = (draw(n), draw(m));
                let zero = |(low, high): (f64, f64)| u32::from(low > 0.0 || high < 0.0);
                missed[0] += zero(interval_of_mean(&first));
                missed[1] += zero(interval_of_difference(&first, &second));
            }
            assert!(missed.iter().all(|missed| (140..=260).contains(missed)), "{n} {m}: {missed:?} of 4000");
        }
    }
}
