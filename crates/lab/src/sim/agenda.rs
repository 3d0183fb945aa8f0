//! The agenda: one next moment for each source of events, and the earliest of them, in O(log sources).
//! In: a source's new moment. Out: the earliest source; ties go to the lower number, so that runs repeat. Never: an entry a packet.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

/// A tournament tree over a fixed number of sources.
#[derive(Clone, Debug)]
pub struct Agenda {
    /// Each node's earliest moment with its source; the leaves are the second half.
    nodes: Vec<(Time, u32)>,
    leaves: usize,
}

impl Agenda {
    /// An agenda for `sources` sources, all without a moment.
    pub fn new(sources: usize) -> Self {
        let leaves = sources.next_power_of_two().max(2);
        let mut nodes = vec![(Time::NEVER, 0); 2 * leaves];
        for (index, node) in nodes.iter_mut().enumerate() {
            // An inner node without moments is won by its leftmost leaf.
            let mut leftmost = index.max(1);
            while leftmost < leaves {
                leftmost *= 2;
            }
            node.1 = (leftmost - leaves) as u32;
        }
        Self { nodes, leaves }
    }

    /// The earliest moment and its source.
    pub fn first(&self) -> (Time, usize) {
        (self.nodes[1].0, self.nodes[1].1 as usize)
    }

    /// Sets a source's moment; [`Time::NEVER`] for none.
    pub fn set(&mut self, source: usize, at: Time) {
        let mut index = self.leaves + source;
        if self.nodes[index].0 == at {
            return;
        }
        self.nodes[index].0 = at;
        while index > 1 {
            index /= 2;
            let (left, right) = (self.nodes[2 * index], self.nodes[2 * index + 1]);
            let winner = if right.0 < left.0 { right } else { left };
            if self.nodes[index] == winner {
                return; // what lies above does not change either
            }
            self.nodes[index] = winner;
        }
    }
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

    /// Goal: the agenda agrees with a search over all sources after any sequence of settings.
    #[test]
    fn the_first_is_always_the_earliest() {
        let mut rng = Rng::new(1);
        let mut agenda = Agenda::new(13);
        let mut truth = [Time::NEVER; 13];
        for _ in 0..10_000 {
            let source = rng.below(13) as usize;
            let at = if rng.below(4) == 0 { Time::NEVER } else { Time(rng.below(50)) };
            truth[source] = at;
            agenda.set(source, at);
            let earliest = *truth.iter().min().unwrap();
            let first = truth.iter().position(|&t| t == earliest).unwrap();
            assert_eq!(agenda.first(), (earliest, first));
        }
    }
}
