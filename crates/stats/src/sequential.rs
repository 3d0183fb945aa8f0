//! Intervals that stay valid under continuous monitoring, and tails of distributions.
//!
//! The interval is the asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform
//! central limit theory and asymptotic confidence sequences", Annals of Statistics 52(6), 2024 (arXiv:2103.06476),
//! theorem 2.2. It holds at every number of units at once, so a test may be read, and ended, at any moment.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// Number of units at which the interval is narrowest relative to a fixed-sample one. Ours: about when a test is first
/// read.
const TUNED_FOR: f64 = 1_000.0;

/// Half-width of an interval that holds the mean at all times at once, except with probability `alpha`.
pub fn always_valid(error: f64, units: usize, alpha: f64) -> f64 {
    let t = units as f64;
    let rho2 = (-2.0 * alpha.ln() + (-2.0 * alpha.ln()).ln() + 1.0) / TUNED_FOR;
    let mix = t * rho2 + 1.0;
    error * (2.0 * mix / (t * rho2) * (mix.sqrt() / alpha).ln()).sqrt()
}

/// Probability that a normal value lies farther out than `z` on either side.
pub fn two_sided(z: f64) -> f64 {
    libm::erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// Upper tail of the chi-squared distribution at `x`, in closed form for whole degrees of freedom (Abramowitz and
/// Stegun 26.4.4-5).
pub fn chi_squared_tail(x: f64, freedom: usize) -> f64 {
    if freedom == 0 || x <= 0.0 {
        return 1.0;
    }
    let half = x / 2.0;
    let (mut term, mut sum, first) = if freedom.is_multiple_of(2) {
        ((-half).exp(), (-half).exp(), 1.0)
    } else {
        let term = (-half).exp() * half.sqrt() / (std::f64::consts::PI.sqrt() / 2.0);
        let head = libm::erfc(half.sqrt());
        if freedom == 1 {
            return head;
        }
        (term, head + term, 1.5)
    };
    let steps = if freedom.is_multiple_of(2) { freedom / 2 - 1 } else { (freedom - 3) / 2 };
    for step in 0..steps {
        term *= half / (first + step as f64);
        sum += term;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use bbrlab_core::Rng;

    use super::*;
    use crate::bootstrap::normal;

    #[test]
    fn tails_are_those_of_the_tables() {
        for (x, freedom, tail) in [
            (3.841, 1, 0.05),
            (5.991, 2, 0.05),
            (7.815, 3, 0.05),
            (9.488, 4, 0.05),
            (11.070, 5, 0.05),
            (24.322, 7, 0.001),
            (13.816, 2, 0.001),
        ] {
            let found = chi_squared_tail(x, freedom);
            assert!((found / tail - 1.0).abs() < 2e-3, "{x} at {freedom}: {found}");
        }
        assert!((two_sided(1.959_964) - 0.05).abs() < 1e-6);
        assert_eq!(chi_squared_tail(0.0, 3), 1.0);
    }

    /// Goal: checking after every tenth unit and stopping at the first difference is wrong in at most 5 of 100 tests,
    /// while the usual interval would be wrong in many.
    #[test]
    fn continuous_looks_find_no_difference_where_there_is_none() {
        let (mut wrong, mut usual) = (0, 0);
        for seed in 0..400 {
            let mut rng = Rng::new(seed);
            let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
            let (mut is_wrong, mut is_usual) = (false, false);
            for _ in 0..300 {
                for _ in 0..10 {
                    let value = normal(&mut rng);
                    (n, sum, squares) = (n + 1.0, sum + value, squares + value * value);
                }
                let (mean, error) = (sum / n, ((squares - sum * sum / n) / (n - 1.0) / n).sqrt());
                is_wrong |= n >= 50.0 && f64::abs(mean) > always_valid(error, n as usize, 0.05);
                is_usual |= n >= 50.0 && f64::abs(mean) > 1.96 * error;
            }
            wrong += u32::from(is_wrong);
            usual += u32::from(is_usual);
        }
        assert!(wrong <= 20 && usual > 80, "{wrong} and {usual} of 400");
    }
}
