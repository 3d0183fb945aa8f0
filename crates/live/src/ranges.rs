//! A set of byte ranges, for receivers and SACK scoreboards.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

/// Disjoint half-open ranges in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(VecDeque<(u64, u64)>);

impl Ranges {
    /// Adds `from..to`, and passes each part that was not yet present to `fresh`, in ascending order.
    pub fn insert(&mut self, from: u64, to: u64, mut fresh: impl FnMut(u64, u64)) {
        if from >= to {
            return;
        }
        if let Some(last) = self.0.back_mut()
            && last.1 == from
        {
            last.1 = to; // in order, the usual case
            fresh(from, to);
            return;
        }
        // The ranges that touch `from..to` have the indices first..past.
        let first = self.0.partition_point(|range| range.1 < from);
        let past = self.0.partition_point(|range| range.0 <= to);
        let mut at = from;
        for &(start, end) in self.0.range(first..past) {
            if at < start {
                fresh(at, start.min(to));
            }
            at = at.max(end);
        }
        if at < to {
            fresh(at, to);
        }
        self.merge(first, past, from, to);
    }

    /// Removes everything before `until`.
    pub fn forget_before(&mut self, until: u64) {
        while let Some(first) = self.0.front_mut() {
            if first.1 > until {
                first.0 = first.0.max(until);
                return;
            }
            self.0.pop_front();
        }
    }

    /// End of the range that covers `at`; `at` itself if none does.
    pub fn end_of_run(&self, at: u64) -> u64 {
        let place = self.0.partition_point(|range| range.1 <= at);
        self.0.get(place).map_or(at, |&(start, end)| if start <= at { end } else { at })
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn merge(&mut self, first: usize, past: usize, from: u64, to: u64) {
        if first >= past {
            self.0.insert(first, (from, to));
            return;
        }
        let end = self.0[past - 1].1.max(to);
        self.0[first] = (self.0[first].0.min(from), end);
        self.0.drain(first + 1..past);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(ranges: &mut Ranges, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut fresh = Vec::new();
        ranges.insert(from, to, |a, b| fresh.push((a, b)));
        fresh
    }

    #[test]
    fn only_what_was_missing_is_fresh() {
        let mut ranges = Ranges::default();
        assert_eq!(insert(&mut ranges, 10, 20), [(10, 20)]);
        assert_eq!(insert(&mut ranges, 30, 40), [(30, 40)]);
        assert_eq!(insert(&mut ranges, 5, 50), [(5, 10), (20, 30), (40, 50)]);
        assert_eq!(insert(&mut ranges, 12, 44), []);
        assert_eq!(ranges.end_of_run(5), 50);
    }

    #[test]
    fn neighbours_become_one() {
        let mut ranges = Ranges::default();
        for (from, to) in [(20, 30), (0, 10), (10, 20), (40, 50), (30, 40)] {
            insert(&mut ranges, from, to);
        }
        assert_eq!(ranges, Ranges([(0, 50)].into()));
    }

    #[test]
    fn what_is_forgotten_is_fresh_again() {
        let mut ranges = Ranges::default();
        insert(&mut ranges, 0, 10);
        insert(&mut ranges, 20, 30);
        ranges.forget_before(25);
        assert_eq!(ranges, Ranges([(25, 30)].into()));
        assert_eq!(ranges.end_of_run(20), 20);
        assert_eq!(insert(&mut ranges, 0, 30), [(0, 25)]);
    }

    #[test]
    fn random_inserts_agree_with_a_table_of_bytes() {
        let mut rng = bbrlab_core::Rng::new(7);
        let (mut ranges, mut table) = (Ranges::default(), [false; 200]);
        for _ in 0..300 {
            let from = rng.below(190);
            let to = from + rng.below(10);
            let fresh: u64 = insert(&mut ranges, from, to).iter().map(|part| part.1 - part.0).sum();
            let missing = (from..to).filter(|&at| !std::mem::replace(&mut table[at as usize], true)).count();
            assert_eq!(fresh, missing as u64);
        }
    }
}
