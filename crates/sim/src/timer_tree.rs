//! A timer tree: one deadline for each source of events, and the earliest deadline in O(log sources).
//! Ties go to the lower number, so that runs are reproducible.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

/// Sources in a group, and children of a node.
pub const WIDTH: usize = 4;

/// A tree of minima over a fixed number of sources. The root is group 1; the minimum of any other group `g` is stored in group
/// `g / WIDTH` at place `g % WIDTH`.
#[derive(Clone, Debug)]
pub struct TimerTree {
    groups: Vec<[u64; WIDTH]>,
    /// First group that holds sources.
    leaves: usize,
    /// Minimum of the root.
    earliest: u64,
}

impl TimerTree {
    /// Creates a tree of `sources` sources without deadlines.
    pub fn new(sources: usize) -> Self {
        let mut leaves = 1;
        while leaves * WIDTH < sources {
            leaves *= WIDTH;
        }
        Self { groups: vec![[u64::MAX; WIDTH]; leaves + sources.div_ceil(WIDTH)], leaves, earliest: u64::MAX }
    }

    /// Earliest deadline.
    #[inline]
    pub const fn earliest(&self) -> Time {
        Time::nanos(self.earliest)
    }

    /// Source of the earliest deadline as group and place: source `WIDTH` · group + place.
    #[inline]
    pub fn first(&self) -> (usize, usize) {
        let mut group = 1;
        while group < self.leaves {
            group = WIDTH * group + first_at(&self.groups[group], self.earliest);
        }
        (group - self.leaves, first_at(&self.groups[group], self.earliest))
    }

    /// Sets a source's deadline; [`Time::NEVER`] for none.
    #[inline]
    pub fn set(&mut self, source: usize, at: Time) {
        let group = self.leaves + source / WIDTH;
        let moment = &mut self.groups[group][source % WIDTH];
        if *moment != at.as_nanos() {
            *moment = at.as_nanos();
            self.settle(group);
        }
    }

    /// Sets a source's deadline unless it has an earlier one. For sources that may be called early and then report their real
    /// deadline: a timer postponed with every packet costs one early call and no walk up the tree.
    #[inline]
    pub fn set_by(&mut self, source: usize, at: Time) {
        let group = self.leaves + source / WIDTH;
        let moment = &mut self.groups[group][source % WIDTH];
        if at.as_nanos() < *moment {
            *moment = at.as_nanos();
            self.settle(group);
        }
    }

    /// Propagates a group's minimum upwards as far as it changes anything.
    #[inline]
    fn settle(&mut self, mut group: usize) {
        let mut earliest = minimum(&self.groups[group]);
        while group > 1 {
            let place = group % WIDTH;
            group /= WIDTH;
            let slots = &mut self.groups[group];
            if slots[place] == earliest {
                return;
            }
            slots[place] = earliest;
            earliest = minimum(slots);
        }
        self.earliest = earliest;
    }
}

/// Returns the smallest value of a group.
#[inline]
fn minimum(group: &[u64; WIDTH]) -> u64 {
    group[0].min(group[1]).min(group[2].min(group[3]))
}

/// Returns the first place of a value in the group.
#[inline]
fn first_at(group: &[u64; WIDTH], value: u64) -> usize {
    if group[0] == value {
        0
    } else if group[1] == value {
        1
    } else if group[2] == value {
        2
    } else {
        3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_core::Rng;

    #[test]
    fn ties_go_to_the_lower_source() {
        let mut agenda = TimerTree::new(5);
        agenda.set(4, Time::nanos(7));
        agenda.set(2, Time::nanos(7));
        assert_eq!((agenda.earliest(), agenda.first()), (Time::nanos(7), (0, 2)));
    }

    /// Goal: the tree agrees with a search over all sources after any sequence of settings, at every depth.
    #[test]
    fn the_first_is_always_the_earliest() {
        for sources in [1, 4, 5, 13, 16, 17, 64, 65, 600] {
            let mut rng = Rng::new(1);
            let mut agenda = TimerTree::new(sources);
            let mut truth = vec![Time::NEVER; sources];
            for _ in 0..5_000 {
                let source = rng.below(sources as u64) as usize;
                let at = if rng.below(4) == 0 { Time::NEVER } else { Time::nanos(rng.below(50)) };
                truth[source] = at;
                agenda.set(source, at);
                let earliest = *truth.iter().min().unwrap();
                let first = truth.iter().position(|&t| t == earliest).unwrap();
                assert_eq!((agenda.earliest(), agenda.first()), (earliest, (first / WIDTH, first % WIDTH)));
            }
        }
    }

    #[test]
    fn set_by_only_moves_a_deadline_earlier() {
        let mut agenda = TimerTree::new(100);
        agenda.set_by(70, Time::nanos(9));
        agenda.set_by(70, Time::nanos(12));
        agenda.set_by(3, Time::nanos(11));
        assert_eq!((agenda.earliest(), agenda.first()), (Time::nanos(9), (70 / WIDTH, 70 % WIDTH)));
        agenda.set(70, Time::nanos(12));
        assert_eq!((agenda.earliest(), agenda.first()), (Time::nanos(11), (0, 3)));
    }
}
