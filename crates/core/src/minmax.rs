//! Windowed maximum and minimum with three samples (Kathleen Nichols), as Linux's `lib/win_minmax.c` behaves.
//! Time may be in any unit, rounds too. Only three samples are kept, so the extreme is approximate.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// A value with the time at which it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    time: u64,
    value: u64,
}

/// The best, second best and third best value of a sliding window; "best" is largest or smallest, by the method used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinMax {
    best: [Sample; 3],
    /// Until this time, by this window, a value that is worse than the third best changes nothing.
    quiet_until: u64,
    window: u64,
}

impl MinMax {
    /// A filter without values; returns 0.
    pub const EMPTY: Self = Self { best: [Sample { time: 0, value: 0 }; 3], quiet_until: 0, window: 0 };

    /// The best value of the window.
    pub const fn get(&self) -> u64 {
        self.best[0].value
    }

    /// The third-best value of the window: a worse one changes nothing until time passes.
    pub const fn third(&self) -> u64 {
        self.best[2].value
    }

    /// The three samples kept as (time, value), best first.
    pub const fn samples(&self) -> [(u64, u64); 3] {
        let [a, b, c] = self.best;
        [(a.time, a.value), (b.time, b.value), (c.time, c.value)]
    }

    /// Replaces all samples with this value.
    pub const fn reset(&mut self, time: u64, value: u64) -> u64 {
        *self = Self { best: [Sample { time, value }; 3], ..Self::EMPTY };
        value
    }

    /// Takes a value into a windowed maximum and returns the maximum.
    pub fn running_max(&mut self, window: u64, time: u64, value: u64) -> u64 {
        self.running(window, time, value, |new, old| new >= old)
    }

    /// Takes a value into a windowed minimum and returns the minimum.
    pub fn running_min(&mut self, window: u64, time: u64, value: u64) -> u64 {
        self.running(window, time, value, |new, old| new <= old)
    }

    #[inline]
    fn running(&mut self, window: u64, time: u64, value: u64, beats: impl Fn(u64, u64) -> bool) -> u64 {
        // Rarely true where time is counted in rounds.
        // A sample that is third best has already taken the place of all that are no better.
        let is_new = beats(value, self.best[2].value) && self.best[2] != (Sample { time, value });
        if is_new || time > self.quiet_until || window != self.window {
            self.take(window, time, value, beats);
            self.quiet_until = self.next_change(window);
            self.window = window;
        }
        self.best[0].value
    }

    #[inline(never)]
    fn take(&mut self, window: u64, time: u64, value: u64, beats: impl Fn(u64, u64) -> bool) {
        let nothing_in_window = time.saturating_sub(self.best[2].time) > window;
        if nothing_in_window || beats(value, self.best[0].value) {
            self.reset(time, value);
            return;
        }
        let new = Sample { time, value };
        if beats(value, self.best[1].value) {
            self.best[1] = new;
            self.best[2] = new;
        } else if beats(value, self.best[2].value) {
            self.best[2] = new;
        }
        self.age(window, new);
    }

    /// The last time before the first at which [`Self::age`] would change something.
    const fn next_change(&self, window: u64) -> u64 {
        let [first, second, third] = self.best;
        let wait = if second.time == first.time {
            window / 4
        } else if third.time == second.time {
            window / 2
        } else {
            window
        };
        first.time.saturating_add(wait)
    }

    /// Drops samples that left the window, and keeps the second and third choice from being too near the first in time.
    fn age(&mut self, window: u64, new: Sample) {
        let age = new.time.saturating_sub(self.best[0].time);
        if age > window {
            self.best = [self.best[1], self.best[2], new];
            if new.time.saturating_sub(self.best[0].time) > window {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if self.best[1].time == self.best[0].time {
            // A quarter of the window passed without a second choice: take it from the second quarter.
            if age > window / 4 {
                self.best[1] = new;
                self.best[2] = new;
            }
        } else if self.best[2].time == self.best[1].time && age > window / 2 {
            self.best[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_leaves_after_its_window() {
        let mut filter = MinMax::default();
        filter.running_max(10, 0, 100);
        for round in 1..=10 {
            assert_eq!(filter.running_max(10, round, 50), 100, "round {round}");
        }
        assert_eq!(filter.running_max(10, 11, 50), 50);
    }

    #[test]
    fn a_larger_value_replaces_the_maximum_at_once() {
        let mut filter = MinMax::default();
        filter.running_max(10, 0, 100);
        assert_eq!(filter.running_max(10, 1, 101), 101);
    }

    #[test]
    fn the_minimum_mirrors_the_maximum() {
        let mut filter = MinMax::default();
        filter.reset(0, u64::MAX);
        filter.running_min(10, 0, 40);
        assert_eq!(filter.running_min(10, 5, 60), 40);
        assert_eq!(filter.running_min(10, 11, 60), 60);
    }

    /// Goal: the estimate is never above the true windowed maximum, and never below the newest value.
    #[test]
    fn the_estimate_lies_between_the_newest_value_and_the_true_maximum() {
        let mut rng = crate::Rng::new(3);
        let mut filter = MinMax::default();
        let mut seen: [u64; 200] = [0; 200];
        for round in 0..200_usize {
            seen[round] = rng.below(1000) + 1;
            let estimate = filter.running_max(10, round as u64, seen[round]);
            let truth = seen[round.saturating_sub(10)..=round].iter().max().unwrap();
            assert!(seen[round] <= estimate && estimate <= *truth);
        }
    }

    /// Goal: skipped values would have changed nothing, whatever the input: equal values, constant times, another window.
    #[test]
    fn values_that_are_not_taken_would_have_changed_nothing() {
        let mut rng = crate::Rng::new(5);
        let (mut filter, mut patient) = (MinMax::default(), MinMax::default());
        let (mut time, mut window, mut is_max) = (0, 10, true);
        for _ in 0..200_000 {
            time += rng.below(8) / 5 * (1 + rng.below(4));
            if rng.below(1000) == 0 {
                (window, is_max) = (rng.below(20), rng.below(2) == 0);
                filter.reset(time, 4);
                patient.reset(time, 4);
            }
            let value = rng.below(8);
            patient.window = u64::MAX; // it takes every value
            let taken = [&mut filter, &mut patient].map(|filter| match is_max {
                true => filter.running_max(window, time, value),
                false => filter.running_min(window, time, value),
            });
            assert_eq!((taken[0], filter.samples()), (taken[1], patient.samples()), "at {time}, a window of {window}");
        }
    }

    /// By hand after `minmax_subwin_update`: a window of 8, whose quarter is 2 and whose half is 4.
    #[test]
    fn second_and_third_choice_come_from_later_parts_of_the_window() {
        let mut filter = MinMax::default();
        filter.reset(0, 100);
        let steps = [
            (2, 50, [(0, 100), (0, 100), (0, 100)]), // at most a quarter has passed
            (3, 40, [(0, 100), (3, 40), (3, 40)]),
            (4, 30, [(0, 100), (3, 40), (3, 40)]), // at most half
            (5, 20, [(0, 100), (3, 40), (5, 20)]),
            (6, 35, [(0, 100), (3, 40), (6, 35)]), // better than the third
            (7, 40, [(0, 100), (7, 40), (7, 40)]), // as good as the second, and newer
            (8, 1, [(0, 100), (7, 40), (8, 1)]),
            (9, 5, [(7, 40), (9, 5), (9, 5)]), // the first has left the window
            (17, 3, [(9, 5), (9, 5), (17, 3)]),
            (18, 1, [(17, 3), (18, 1), (18, 1)]), // the first two have
            (27, 0, [(27, 0), (27, 0), (27, 0)]), // all have
        ];
        for (time, value, samples) in steps {
            assert_eq!(filter.running_max(8, time, value), samples[0].1, "at {time}");
            assert_eq!(filter.samples(), samples, "at {time}");
            assert_eq!(filter.third(), samples[2].1);
        }
    }
}
