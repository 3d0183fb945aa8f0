//! The agenda: one next moment for each source of events, and the earliest of them, in O(log sources).
//! In: a source's new moment. Out: the earliest source; ties go to the lower number, so that runs repeat. Never: an entry a packet.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

/// Children of a node: few enough to scan in a handful of instructions, many enough to keep the tree flat.
const WIDTH: usize = 8;

/// A tree of minima over a fixed number of sources.
#[derive(Clone, Debug)]
pub struct Agenda {
    /// The sources' moments, then the minima of each eight of them, and so on up to one group of eight.
    levels: Vec<Vec<[u64; WIDTH]>>,
}

impl Agenda {
    /// An agenda for `sources` sources, all without a moment.
    pub fn new(sources: usize) -> Self {
        let mut levels = Vec::new();
        let mut groups = sources.div_ceil(WIDTH).max(1);
        levels.push(vec![[u64::MAX; WIDTH]; groups]);
        while groups > 1 {
            groups = groups.div_ceil(WIDTH);
            levels.push(vec![[u64::MAX; WIDTH]; groups]);
        }
        Self { levels }
    }

    /// The earliest moment and its source.
    pub fn first(&self) -> (Time, usize) {
        let mut index = 0;
        let mut earliest = u64::MAX;
        for level in self.levels.iter().rev() {
            let group = &level[index];
            earliest = minimum(group);
            index = index * WIDTH + first_at(group, earliest);
        }
        (Time(earliest), index)
    }

    /// Sets a source's moment; [`Time::NEVER`] for none.
    pub fn set(&mut self, source: usize, at: Time) {
        let (mut index, mut new) = (source, at.0);
        for level in &mut self.levels {
            let group = &mut level[index / WIDTH];
            let old = group[index % WIDTH];
            if old == new {
                return;
            }
            let before = minimum(group);
            group[index % WIDTH] = new;
            let after = if new <= before { new } else { minimum(group) };
            if after == before {
                return; // what lies above does not change
            }
            (index, new) = (index / WIDTH, after);
        }
    }
}

/// The smallest of a group.
#[inline]
fn minimum(group: &[u64; WIDTH]) -> u64 {
    let pairs = [group[0].min(group[1]), group[2].min(group[3]), group[4].min(group[5]), group[6].min(group[7])];
    pairs[0].min(pairs[1]).min(pairs[2].min(pairs[3]))
}

/// The first place of a value that the group holds.
#[inline]
fn first_at(group: &[u64; WIDTH], value: u64) -> usize {
    let mut place = 0;
    while place < WIDTH - 1 && group[place] != value {
        place += 1;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_core::Rng;

    #[test]
    fn ties_go_to_the_lower_source() {
        let mut agenda = Agenda::new(5);
        agenda.set(4, Time(7));
        agenda.set(2, Time(7));
        assert_eq!(agenda.first(), (Time(7), 2));
    }

    /// Goal: the agenda agrees with a search over all sources after any sequence of settings, at every depth of the tree.
    #[test]
    fn the_first_is_always_the_earliest() {
        for sources in [1, 8, 13, 64, 65, 600] {
            let mut rng = Rng::new(1);
            let mut agenda = Agenda::new(sources);
            let mut truth = vec![Time::NEVER; sources];
            for _ in 0..5_000 {
                let source = rng.below(sources as u64) as usize;
                let at = if rng.below(4) == 0 { Time::NEVER } else { Time(rng.below(50)) };
                truth[source] = at;
                agenda.set(source, at);
                let earliest = *truth.iter().min().unwrap();
                let first = truth.iter().position(|&t| t == earliest).unwrap();
                assert_eq!(agenda.first(), (earliest, first));
            }
        }
    }
}
