//! A sweep's rows by combination: medians over the seeds, and medians over the axes that a figure leaves out.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Metric, Row, Sweep};
use crate::comparison::Interval;
use bbrlab_stats::median;
use bbrlab_stats::quantile::{median_of_sorted, rank_interval_of_median};

/// Medians over the seeds, one per combination and metric.
#[derive(Clone, Debug)]
pub struct Cells {
    repeat: usize,
    /// Rows of the combination that is being filled.
    open: Vec<Row>,
    values: Vec<[f64; Metric::COUNT]>,
}

impl Cells {
    /// Creates an empty collection.
    pub fn new(sweep: &Sweep) -> Self {
        Self { repeat: sweep.spec().repeat as usize, open: Vec::new(), values: Vec::new() }
    }

    /// Adds the next row.
    pub fn push(&mut self, row: Row) {
        self.open.push(row);
        if self.open.len() == self.repeat {
            let middle = |place: usize| {
                let mut values: Vec<f64> =
                    self.open.iter().map(|row| row.figures[place]).filter(|value| !value.is_nan()).collect();
                if values.is_empty() { f64::NAN } else { median(&mut values) }
            };
            self.values.push(std::array::from_fn(middle));
            self.open.clear();
        }
    }

    /// Number of complete combinations.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns a metric of one combination.
    pub fn get(&self, combination: usize, metric: Metric) -> f64 {
        self.values[combination][metric as usize]
    }

    /// Returns all metrics of one combination.
    pub fn figures(&self, combination: usize) -> &[f64] {
        &self.values[combination]
    }

    /// Median of a metric over all combinations with these values; `fixed` is (axis, value) by number.
    pub fn median(&self, sweep: &Sweep, fixed: &[(usize, usize)], metric: Metric) -> f64 {
        let matches =
            |combination: &usize| fixed.iter().all(|&(axis, value)| place(sweep, *combination, axis) == value);
        let mut values: Vec<f64> = (0..self.values.len())
            .filter(matches)
            .map(|combination| self.values[combination][metric as usize])
            .filter(|value| !value.is_nan())
            .collect();
        if values.is_empty() { f64::NAN } else { median(&mut values) }
    }

    /// Median ratio of a metric between two values of an axis, over the combinations that differ in nothing else. Two zeros are
    /// equal; any other number is infinitely more than zero.
    pub fn ratio(&self, sweep: &Sweep, axis: usize, (value, base): (usize, usize), metric: Metric) -> Interval {
        let distance = stride(sweep, axis);
        let own = (0..self.values.len()).filter(|&combination| place(sweep, combination, axis) == value);
        let pair = |combination: usize| {
            let other = combination + base * distance - value * distance;
            let (own, base) = (self.get(combination, metric), self.values.get(other)?[metric as usize]);
            Some(if own == 0.0 && base == 0.0 { 1.0 } else { own / base })
        };
        let mut ratios: Vec<f64> = own.filter_map(pair).filter(|ratio| !ratio.is_nan()).collect();
        if ratios.is_empty() {
            return Interval::NONE;
        }
        ratios.sort_by(f64::total_cmp);
        let (low, high) = rank_interval_of_median(&ratios).unwrap_or((f64::NAN, f64::NAN));
        Interval { middle: median_of_sorted(&ratios), low, high }
    }
}

/// Distance between combinations that differ by one step of an axis.
fn stride(sweep: &Sweep, axis: usize) -> usize {
    sweep.product().axes()[axis + 1..].iter().map(|(_, points)| points.len()).product()
}

/// Index of a combination's value on an axis.
fn place(sweep: &Sweep, combination: usize, axis: usize) -> usize {
    combination / stride(sweep, axis) % sweep.product().axes()[axis].1.len()
}

#[cfg(test)]
mod tests {
    use super::super::tests::sweep;
    use super::*;

    /// Two algorithms by three losses by two seeds; each goodput is the run's number.
    fn cells() -> (Sweep, Cells) {
        let sweep = sweep();
        let mut cells = Cells::new(&sweep);
        let mut row = sweep.run(0).unwrap();
        for index in 0..sweep.len() {
            row.figures[Metric::GoodputBps as usize] = index as f64;
            cells.push(row.clone());
        }
        (sweep, cells)
    }

    #[test]
    fn a_ratio_is_between_combinations_that_differ_in_one_value() {
        let (sweep, cells) = cells();
        // By loss the medians are 0.5, 2.5, 4.5 of the first algorithm and 6.5, 8.5, 10.5 of the second.
        let ratio = cells.ratio(&sweep, 0, (1, 0), Metric::GoodputBps);
        assert_eq!(ratio.middle, 8.5 / 2.5);
        assert!(ratio.low.is_nan() && ratio.high.is_nan(), "three combinations have no interval");
        assert_eq!(cells.ratio(&sweep, 0, (0, 0), Metric::GoodputBps).middle, 1.0);
    }

    /// Goal: pairs whose base has none, as of retransmissions, count; without them the median is of the other pairs.
    #[test]
    fn a_ratio_to_zero_counts_as_infinite_and_two_zeros_as_equal() {
        let (sweep, mut cells) = cells();
        let metric = Metric::FirstRetransmitRatio as usize;
        for (combination, value) in [0.0, 0.0, 0.1, 0.2, 0.3, 0.1].into_iter().enumerate() {
            cells.values[combination][metric] = value;
        }
        assert_eq!(cells.ratio(&sweep, 0, (1, 0), Metric::FirstRetransmitRatio).middle, f64::INFINITY);
        cells.values[3][metric] = 0.0;
        cells.values[4][metric] = 0.0;
        assert_eq!(cells.ratio(&sweep, 0, (1, 0), Metric::FirstRetransmitRatio).middle, 1.0);
    }

    #[test]
    fn seeds_of_a_combination_give_one_median() {
        let (_, cells) = cells();
        let seen: Vec<f64> = (0..cells.len()).map(|combination| cells.get(combination, Metric::GoodputBps)).collect();
        assert_eq!(seen, [0.5, 2.5, 4.5, 6.5, 8.5, 10.5]);
    }

    #[test]
    fn what_a_picture_leaves_out_is_a_median_over_it() {
        let (sweep, cells) = cells();
        assert_eq!(cells.median(&sweep, &[(0, 1)], Metric::GoodputBps), 8.5);
        assert_eq!(cells.median(&sweep, &[(1, 0)], Metric::GoodputBps), 3.5);
        assert_eq!(cells.median(&sweep, &[(0, 0), (1, 2)], Metric::GoodputBps), 4.5);
    }
}
