//! A measure along an axis of an experiment: half-point, cliff, spread, order. Booleans count as 1 and 0.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::series;
use bbrlab_stats::known_mean;
use bbrlab_stats::quantile::interpolated_percentile;

/// One measured value for each value of an axis, sorted by x.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Numeric values of the axis.
    pub x: Vec<f64>,
    /// Measured values.
    pub y: Vec<f64>,
}

impl Curve {
    /// Builds a sorted curve through these points; several points at one x are replaced by their median.
    pub fn new(mut points: Vec<(f64, f64)>) -> Self {
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut curve = Self::default();
        for group in points.chunk_by(|a, b| a.0 == b.0) {
            let values: Vec<f64> = group.iter().map(|(_, y)| *y).collect();
            curve.x.push(group[0].0);
            curve.y.push(interpolated_percentile(&values, 50.0));
        }
        curve
    }

    /// Value at x, linear between points, constant outside them.
    pub fn at(&self, x: f64) -> f64 {
        series::at(&self.x, &self.y, x)
    }

    /// Value at the first point; NaN without any.
    pub fn first(&self) -> f64 {
        self.y.first().copied().unwrap_or(f64::NAN)
    }

    /// The part of the curve with `from <= x <= to`.
    pub fn between(&self, from: f64, to: f64) -> Self {
        let kept = self.x.iter().zip(&self.y).filter(|(x, _)| (from..=to).contains(*x));
        let (x, y) = kept.map(|(x, y)| (*x, *y)).unzip();
        Self { x, y }
    }

    /// First x at which the piecewise linear curve falls to `level`; NaN if it never does.
    pub fn falls_to(&self, level: f64) -> f64 {
        self.meets(|y| y <= level, level)
    }

    /// First x at which the piecewise linear curve rises to `level`; NaN if it never does.
    pub fn rises_to(&self, level: f64) -> f64 {
        self.meets(|y| y >= level, level)
    }

    fn meets(&self, reached: impl Fn(f64) -> bool, level: f64) -> f64 {
        let Some(i) = self.y.iter().position(|y| reached(*y)) else { return f64::NAN };
        let Some(before) = i.checked_sub(1) else { return self.x[i] };
        let rise = self.y[i] - self.y[before];
        let part = if rise == 0.0 { 1.0 } else { (level - self.y[before]) / rise };
        self.x[before] + (self.x[i] - self.x[before]) * part
    }

    /// X at which the curve falls to half of its first value: the middle of a cliff.
    pub fn half_point(&self) -> f64 {
        self.falls_to(self.first() / 2.0)
    }

    /// (largest − smallest) / smallest.
    pub fn spread(&self) -> f64 {
        let smallest = series::min(&self.y);
        (series::max(&self.y) - smallest) / smallest
    }

    /// 1 if no value exceeds its predecessor by more than `tolerance`, else 0.
    pub fn falling(&self, tolerance: f64) -> f64 {
        f64::from(u8::from(self.y.windows(2).all(|w| w[1] <= w[0] + tolerance)))
    }

    /// 1 if no value falls below its predecessor by more than `tolerance`, else 0.
    pub fn rising(&self, tolerance: f64) -> f64 {
        f64::from(u8::from(self.y.windows(2).all(|w| w[1] >= w[0] - tolerance)))
    }

    /// Slope of the least-squares line.
    pub fn slope(&self) -> f64 {
        let (mean_x, mean_y) = (known_mean(&self.x), known_mean(&self.y));
        let pairs = self.x.iter().zip(&self.y);
        let (above, below) = pairs.fold((0.0, 0.0), |(above, below), (x, y)| {
            (above + (x - mean_x) * (y - mean_y), below + (x - mean_x) * (x - mean_x))
        });
        above / below
    }

    /// This curve divided by another, at this curve's points.
    pub fn over(&self, other: &Self) -> Self {
        Self { x: self.x.clone(), y: self.x.iter().zip(&self.y).map(|(x, y)| y / other.at(*x)).collect() }
    }

    /// This curve minus another, at this curve's points.
    pub fn minus(&self, other: &Self) -> Self {
        Self { x: self.x.clone(), y: self.x.iter().zip(&self.y).map(|(x, y)| y - other.at(*x)).collect() }
    }

    /// The largest distance of a value from zero.
    pub fn max_abs(&self) -> f64 {
        self.y.iter().map(|y| y.abs()).reduce(f64::max).unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cliff() -> Curve {
        Curve::new(vec![(10.0, 90.0), (0.0, 100.0), (20.0, 10.0), (30.0, 0.0)])
    }

    #[test]
    fn points_are_sorted_and_repetitions_give_their_median() {
        let curve = Curve::new(vec![(2.0, 5.0), (1.0, 9.0), (1.0, 1.0), (1.0, 2.0)]);
        assert_eq!(curve, Curve { x: vec![1.0, 2.0], y: vec![2.0, 5.0] });
    }

    #[test]
    fn the_half_point_lies_on_the_line_between_two_points() {
        assert_eq!(cliff().half_point(), 15.0);
        assert!(cliff().between(0.0, 10.0).half_point().is_nan());
    }

    #[test]
    fn a_curve_meets_a_level_from_the_side_that_is_asked_for() {
        let curve = Curve::new(vec![(0.0, 0.0), (1.0, 4.0), (2.0, 0.0)]);
        assert_eq!(curve.rises_to(2.0), 0.5);
        assert_eq!(curve.between(1.0, 2.0).falls_to(2.0), 1.5);
    }

    #[test]
    fn order_forgives_no_more_than_the_tolerance() {
        let curve = Curve::new(vec![(0.0, 3.0), (1.0, 2.0), (2.0, 2.5)]);
        assert_eq!(curve.falling(0.5), 1.0);
        assert_eq!(curve.falling(0.4), 0.0);
        assert_eq!(curve.rising(1.0), 1.0);
        assert_eq!(curve.rising(0.9), 0.0);
    }

    #[test]
    fn spread_is_relative_to_the_smallest() {
        assert_eq!(Curve::new(vec![(0.0, 2.0), (1.0, 3.0)]).spread(), 0.5);
    }

    #[test]
    fn slope_of_a_line_is_its_slope() {
        assert_eq!(Curve::new(vec![(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).slope(), 2.0);
    }

    #[test]
    fn curves_are_compared_at_the_points_of_the_first() {
        let line = Curve::new(vec![(0.0, 100.0), (30.0, 70.0)]);
        assert_eq!(cliff().minus(&line).y, [0.0, 0.0, -70.0, -70.0]);
        assert_eq!(cliff().minus(&line).max_abs(), 70.0);
        assert_eq!(cliff().over(&line).y[1], 1.0);
    }
}
