//! Statistics of one time series over a window: level crossing, plateau, period. NaN if the window is
//! empty.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ops::Range;

/// Indices of the samples with `from_s <= t < to_s`.
pub fn window(t_s: &[f64], from_s: f64, to_s: f64) -> Range<usize> {
    let start = t_s.partition_point(|t| *t < from_s);
    let end = t_s.partition_point(|t| *t < to_s);
    start..end.max(start)
}

/// Value at a given time, linear between samples, constant outside them.
pub fn at(t_s: &[f64], y: &[f64], moment_s: f64) -> f64 {
    let next = t_s.partition_point(|t| *t <= moment_s);
    match (next.checked_sub(1), y.get(next)) {
        (None, first) => first.copied().unwrap_or(f64::NAN),
        (Some(last), None) => y.get(last).copied().unwrap_or(f64::NAN),
        (Some(before), Some(after)) => {
            if t_s[before] >= moment_s {
                return y[before]; // also if the next value is NaN
            }
            let span = t_s[next] - t_s[before];
            let part = if span > 0.0 { (moment_s - t_s[before]) / span } else { 0.0 };
            y[before] + (after - y[before]) * part
        }
    }
}

/// Growth of a cumulative counter within an interval.
pub fn growth(t_s: &[f64], counter: &[f64], from_s: f64, to_s: f64) -> f64 {
    at(t_s, counter, to_s) - at(t_s, counter, from_s)
}

/// Last value strictly before a given time; NaN if there is none.
pub fn before(t_s: &[f64], y: &[f64], moment_s: f64) -> f64 {
    let next = t_s.partition_point(|t| *t < moment_s);
    next.checked_sub(1).and_then(|last| y.get(last)).copied().unwrap_or(f64::NAN)
}

/// Number of values above a level.
pub fn count_above(values: &[f64], level: f64) -> f64 {
    values.iter().filter(|v| **v > level).count() as f64
}

/// Number of values at or below a level.
pub fn count_below(values: &[f64], level: f64) -> f64 {
    values.iter().filter(|v| **v <= level).count() as f64
}

pub fn min(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::min).unwrap_or(f64::NAN)
}

pub fn max(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::max).unwrap_or(f64::NAN)
}

/// Jain's fairness index; 1 for no or all-zero values.
pub fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|v| v * v).sum();
    if squares > 0.0 { sum * sum / (values.len() as f64 * squares) } else { 1.0 }
}

/// First time, not before `after_s`, at which the series is at or above `level`; NaN if never.
pub fn first_above(t_s: &[f64], y: &[f64], level: f64, after_s: f64) -> f64 {
    first(t_s, y, after_s, |v| v >= level)
}

/// First time, not before `after_s`, at which the series is at or below `level`; NaN if never.
pub fn first_below(t_s: &[f64], y: &[f64], level: f64, after_s: f64) -> f64 {
    first(t_s, y, after_s, |v| v <= level)
}

/// Last time within `from_s..to_s` at which the series is at or above `level`; NaN if it never is.
pub fn last_above(t_s: &[f64], y: &[f64], level: f64, from_s: f64, to_s: f64) -> f64 {
    window(t_s, from_s, to_s).rev().find(|i| y[*i] >= level).map_or(f64::NAN, |i| t_s[i])
}

fn first(t_s: &[f64], y: &[f64], after_s: f64, holds: impl Fn(f64) -> bool) -> f64 {
    t_s.iter().zip(y).find(|(t, v)| **t >= after_s && holds(**v)).map_or(f64::NAN, |(t, _)| *t)
}

/// Start and length of the longest uninterrupted interval within `from_s..to_s` in which the series is at or above
/// `level`; the length is 0 if it never is.
pub fn longest_above(t_s: &[f64], y: &[f64], level: f64, from_s: f64, to_s: f64) -> (f64, f64) {
    let (mut best, mut open): ((f64, f64), Option<f64>) = ((f64::NAN, 0.0), None);
    let mut close = |start: f64, end: f64| {
        if end - start > best.1 {
            best = (start, end - start);
        }
    };
    let range = window(t_s, from_s, to_s);
    for i in range.clone() {
        match (open, y[i] >= level) {
            (None, true) => open = Some(t_s[i]),
            (Some(start), false) => {
                close(start, t_s[i]);
                open = None;
            }
            _ => {}
        }
    }
    if let (Some(start), Some(last)) = (open, range.last()) {
        close(start, t_s[last]);
    }
    best
}

/// Mean time between consecutive events within `from_s..to_s`; NaN for fewer than two.
pub fn mean_period(events_s: &[f64], from_s: f64, to_s: f64) -> f64 {
    let range = window(events_s, from_s, to_s);
    match (events_s[range.clone()].first(), events_s[range.clone()].last()) {
        (Some(first), Some(last)) if range.len() > 1 => (last - first) / (range.len() - 1) as f64,
        _ => f64::NAN,
    }
}

/// Thins a series to at most `points` points, keeping the minimum and maximum of each bucket.
pub fn decimate(x: &[f64], y: &[f64], points: usize) -> (Vec<f64>, Vec<f64>) {
    let len = x.len().min(y.len());
    if len <= points || points < 2 {
        return (x[..len].to_vec(), y[..len].to_vec());
    }
    let stretches = points / 2;
    let mut kept = Vec::with_capacity(points);
    for stretch in 0..stretches {
        let range = stretch * len / stretches..(stretch + 1) * len / stretches;
        let lowest = range.clone().min_by(|a, b| y[*a].total_cmp(&y[*b]));
        let highest = range.max_by(|a, b| y[*a].total_cmp(&y[*b]));
        if let (Some(lowest), Some(highest)) = (lowest, highest) {
            kept.push(lowest.min(highest));
            if lowest != highest {
                kept.push(lowest.max(highest));
            }
        }
    }
    (kept.iter().map(|i| x[*i]).collect(), kept.iter().map(|i| y[*i]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: [f64; 5] = [0.0, 1.0, 2.0, 3.0, 4.0];

    #[test]
    fn a_window_holds_its_start_and_not_its_end() {
        assert_eq!(window(&T, 1.0, 3.0), 1..3);
        assert_eq!(window(&T, 9.0, 3.0), 5..5);
    }

    #[test]
    fn a_value_between_samples_is_on_the_line_between_them() {
        let y = [0.0, 10.0, 20.0, 20.0, 20.0];
        assert_eq!(at(&T, &y, 0.5), 5.0);
        assert_eq!(at(&T, &y, -1.0), 0.0);
        assert_eq!(at(&T, &y, 99.0), 20.0);
        assert!(at(&[], &[], 1.0).is_nan());
    }

    #[test]
    fn growth_is_the_difference_of_a_counter() {
        assert_eq!(growth(&T, &[0.0, 10.0, 30.0, 60.0, 100.0], 1.0, 3.0), 50.0);
    }

    #[test]
    fn jain_is_one_for_equals_and_one_over_n_for_a_monopoly() {
        assert_eq!(jain(&[2.0, 2.0, 2.0]), 1.0);
        assert_eq!(jain(&[6.0, 0.0, 0.0]), 1.0 / 3.0);
        assert_eq!(jain(&[0.0, 0.0]), 1.0);
    }

    #[test]
    fn a_crossing_before_the_given_moment_does_not_count() {
        let y = [5.0, 1.0, 5.0, 1.0, 1.0];
        assert_eq!(first_above(&T, &y, 5.0, 0.5), 2.0);
        assert_eq!(first_below(&T, &y, 1.0, 1.5), 3.0);
        assert!(first_above(&T, &y, 6.0, 0.0).is_nan());
    }

    #[test]
    fn the_last_crossing_is_looked_for_within_the_window() {
        let y = [5.0, 1.0, 5.0, 1.0, 5.0];
        assert_eq!(last_above(&T, &y, 5.0, 0.0, 4.0), 2.0);
        assert!(last_above(&T, &y, 6.0, 0.0, 9.0).is_nan());
    }

    #[test]
    fn a_plateau_is_the_longest_uninterrupted_stretch() {
        let y = [5.0, 1.0, 5.0, 5.0, 1.0];
        assert_eq!(longest_above(&T, &y, 5.0, 0.0, 9.0), (2.0, 2.0));
        assert_eq!(longest_above(&T, &y, 6.0, 0.0, 9.0).1, 0.0);
    }

    #[test]
    fn a_plateau_that_lasts_to_the_end_of_the_window_ends_there() {
        assert_eq!(longest_above(&T, &[0.0, 5.0, 5.0, 5.0, 5.0], 5.0, 0.0, 3.5), (1.0, 2.0));
    }

    #[test]
    fn a_period_needs_two_events() {
        assert_eq!(mean_period(&[0.0, 1.0, 3.0, 4.0], 0.5, 9.0), 1.5);
        assert!(mean_period(&[1.0], 0.0, 9.0).is_nan());
    }

    #[test]
    fn thinning_keeps_every_extreme() {
        let x: Vec<f64> = (0..10_000).map(f64::from).collect();
        let mut y = vec![1.0; 10_000];
        y[4321] = 9.0;
        y[77] = -9.0;
        let (thin_x, thin_y) = decimate(&x, &y, 200);
        assert!(thin_x.len() <= 200 && thin_x.is_sorted());
        assert_eq!((max(&thin_y), min(&thin_y)), (9.0, -9.0));
    }
}
