//! Means, medians and quantiles of samples.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// Arithmetic mean; NaN for none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Arithmetic mean of the values that are not NaN; NaN if there are none.
pub fn known_mean(values: &[f64]) -> f64 {
    let present = values.iter().filter(|v| !v.is_nan());
    let (count, sum) = present.fold((0u32, 0.0), |(count, sum), v| (count + 1, sum + v));
    if count == 0 { f64::NAN } else { sum / f64::from(count) }
}

/// Returns the median, NaN for none. Sorts `values`.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    median_of_sorted(values)
}

/// Returns the median of sorted values, NaN for none.
pub fn median_of_sorted(values: &[f64]) -> f64 {
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// Nearest-rank quantile of sorted values: the one at rank ⌈q·n⌉ of n; NaN for none.
pub fn nearest_rank(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

/// Quantile of sorted values at the position nearest to q·(n − 1), counted from 0; NaN for none.
pub fn nearest_position(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((q * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Percentile `q` (0 to 100) of unsorted values, linear between order statistics; NaN values are left out.
pub fn interpolated_percentile(values: &[f64], q: f64) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    sorted.sort_by(f64::total_cmp);
    let rank = q.clamp(0.0, 100.0) / 100.0 * last as f64;
    let (below, part) = (rank.floor() as usize, rank.fract());
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * part
}

/// Returns the 95 % interval of the median of sorted values, without resampling. Its ends are two of the values, chosen by
/// rank. `None` for fewer than six values: even their smallest and largest enclose the median in less than 95 % of samples.
/// Source: Conover, "Practical Nonparametric Statistics", section 3.2.
pub fn rank_interval_of_median(sorted: &[f64]) -> Option<(f64, f64)> {
    let n = sorted.len() as f64;
    let below = (n / 2.0 - 0.98 * n.sqrt()).floor();
    (sorted.len() >= 6).then(|| {
        let below = below.max(0.0) as usize;
        (sorted[below], sorted[sorted.len() - 1 - below])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_by_ranks_holds_the_median_in_95_of_100() {
        assert_eq!(rank_interval_of_median(&[1.0; 5]), None);
        assert_eq!(rank_interval_of_median(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), Some((1.0, 6.0)));
        let mut rng = bbrlab_core::Rng::new(7);
        let mut holds = |n: usize| {
            let mut values: Vec<f64> = (0..n).map(|_| rng.below(1_000_001) as f64).collect();
            values.sort_by(f64::total_cmp);
            rank_interval_of_median(&values).is_some_and(|(low, high)| low <= 5e5 && 5e5 <= high)
        };
        for n in [10, 40, 200] {
            let held = (0..2_000).filter(|_| holds(n)).count();
            assert!((1_880..=1_980).contains(&held), "{n}: {held}");
        }
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert!(median(&mut []).is_nan());
    }

    #[test]
    fn the_three_quantiles_differ_as_their_names_state() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!([0.25, 0.26, 1.0].map(|q| nearest_rank(&sorted, q)), [1.0, 2.0, 4.0]);
        assert_eq!([0.25, 0.26, 1.0].map(|q| nearest_position(&sorted, q)), [2.0, 2.0, 4.0]);
        let shuffled = [4.0, 1.0, 3.0, 2.0];
        assert_eq!([0.0, 25.0, 50.0, 100.0].map(|q| interpolated_percentile(&shuffled, q)), [1.0, 1.75, 2.5, 4.0]);
        assert!(nearest_rank(&[], 0.5).is_nan() && nearest_position(&[], 0.5).is_nan());
        assert!(interpolated_percentile(&[], 50.0).is_nan());
    }

    #[test]
    fn a_known_mean_leaves_out_what_is_missing() {
        assert_eq!((known_mean(&[1.0, f64::NAN, 3.0]), mean(&[1.0, 3.0])), (2.0, 2.0));
        assert!(known_mean(&[f64::NAN]).is_nan() && mean(&[1.0, f64::NAN]).is_nan());
    }
}
