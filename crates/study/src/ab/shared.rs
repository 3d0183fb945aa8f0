//! Do the arms share bottlenecks? Connections that share a queue see it grow and shrink together.
//!
//! The measure is the rise of a connection's RTT over the least that its client's network had; a short connection in a
//! queue has no other RTT than that with the queue. Each connection of the control is paired with the
//! connection of another arm that ended closest in time, and the correlation of their rises is compared with the same
//! after one side was moved in time. Both count as deviations from a straight line through half a minute, so that slow
//! changes, such as those of a day, do not count.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use bbrlab_core::Rng;
use serde::{Deserialize, Serialize};

use super::{AssignmentUnit, Client, Experiment, Row};

/// Seed stream of the moves in time.
const STREAM: u64 = 0x6162_7368_0000_0000;
/// Largest distance in time of a pair. Ours: a queue keeps its length for some round trips.
const NEAR_US: u64 = 1_000_000;
/// Pairs of a block, and the time that it may take. Ours: many times as long as a queue keeps its length.
const BLOCK_LEAST: usize = 6;
const BLOCK_MOST: usize = 1_000;
const BLOCK_US: u64 = 30_000_000;
/// Minimum number of pairs, and the most that are looked at.
const PAIRS_LEAST: usize = 50;
const PAIRS_MOST: usize = 20_000;
/// Number of moves in time, and the share of them that may correlate as much.
const MOVES: usize = 999;
const ALPHA: f64 = 0.01;

/// Kinds of compared pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Between {
    /// Clients of one network.
    SameNetwork,
    /// Clients of different networks.
    Networks,
}

/// Correlation of the RTTs of connections that ended together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comovement {
    pub between: Between,
    pub pairs: usize,
    pub correlation: f64,
    /// Probability of a correlation at least this large by chance.
    pub p: f64,
}

impl Comovement {
    /// True if the arms share bottlenecks.
    pub fn is_shared(&self) -> bool {
        self.p <= ALPHA && self.correlation > 0.0
    }
}

/// The rises of two connections that ended together, and when.
#[derive(Clone, Copy)]
struct Pair {
    at_us: u64,
    rises: [f64; 2],
}

/// Fields of a record that an [`End`] takes.
pub(super) const FIELDS: &[&str] =
    &["id", "arm", "epoch", "begun_unix_ns", "lasted_us", "client", "min_rtt_us", "srtt_us"];
/// Connections that are looked at, and the time from which a part of them is taken together. Ours: the pairs are a hundredth.
const ENDS_MOST: u64 = 2_000_000;
const WINDOW_US: u64 = 60_000_000;

/// The end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    at_us: u64,
    /// Makes the order of ends definite.
    key: (u64, u64, u32),
    client: Client,
    is_control: bool,
    min_rtt_us: u64,
    srtt_us: u64,
}

impl End {
    /// The end of a connection; of very many connections, only if it is in one of the minutes that are looked at.
    pub fn of(row: &Row, connections: u64) -> Option<Self> {
        let at_us = row.begun_unix_ns / 1_000 + row.lasted_us;
        let every = connections.div_ceil(ENDS_MOST).max(1);
        (at_us / WINDOW_US).is_multiple_of(every).then_some(Self {
            at_us,
            key: (row.begun_unix_ns, row.id, row.epoch),
            client: row.client,
            is_control: row.arm == 0,
            min_rtt_us: row.min_rtt_us,
            srtt_us: row.srtt_us,
        })
    }
}

/// An end with the rise of its RTT.
#[derive(Clone, Copy)]
struct Rise {
    at_us: u64,
    client: Client,
    is_control: bool,
    rise: f64,
}

/// Levels at which a test can look for shared bottlenecks.
pub(super) const fn levels(test: &Experiment) -> &[Between] {
    match test.by {
        AssignmentUnit::Connection => &[Between::SameNetwork, Between::Networks],
        AssignmentUnit::ClientPrefix => &[Between::Networks],
        AssignmentUnit::Time => &[],
    }
}

/// Looks for shared bottlenecks among the ends of compared connections; empty where there are too few pairs, or the arms never met.
pub(super) fn comovement(test: &Experiment, mut ends: Vec<End>, seed: u64) -> Vec<Comovement> {
    let mut least: BTreeMap<Client, u64> = BTreeMap::new();
    for end in ends.iter().filter(|end| end.min_rtt_us > 0) {
        let own = least.entry(end.client).or_insert(end.min_rtt_us);
        *own = end.min_rtt_us.min(*own);
    }
    ends.sort_unstable_by_key(|end| (end.at_us, end.key));
    let rise = |end: &End| {
        let least_us = *least.get(&end.client)?;
        let End { at_us, client, is_control, .. } = *end;
        (end.srtt_us > 0).then(|| Rise { at_us, client, is_control, rise: (end.srtt_us as f64 / least_us as f64).ln() })
    };
    let ends: Vec<Rise> = ends.iter().filter_map(rise).collect();
    let of = |&between: &Between| {
        let blocks = match between {
            Between::SameNetwork => {
                let mut networks: BTreeMap<Client, Vec<&Rise>> = BTreeMap::new();
                ends.iter().for_each(|end| networks.entry(end.client).or_default().push(end));
                // In the order of their texts, in which the first ones are taken if there are too many.
                let mut networks: Vec<(String, Vec<&Rise>)> =
                    networks.into_iter().map(|(client, own)| (client.to_string(), own)).collect();
                networks.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                networks.iter().flat_map(|(_, own)| pairs(own, |_, _| true)).collect()
            }
            Between::Networks => {
                let all: Vec<&Rise> = ends.iter().collect();
                pairs(&all, |a, b| a.client != b.client)
            }
        };
        correlate(between, blocks, seed)
    };
    levels(test).iter().filter_map(of).collect()
}

/// Pairs each connection of the control with the nearest one of another arm, each used once, in blocks of neighbours.
fn pairs(ends: &[&Rise], may_pair: impl Fn(&Rise, &Rise) -> bool) -> Vec<Vec<Pair>> {
    let mut blocks: Vec<Vec<Pair>> = Vec::new();
    let mut is_used = vec![false; ends.len()];
    for (at, own) in ends.iter().enumerate().filter(|(_, end)| end.is_control) {
        let distance = |other: &usize| ends[*other].at_us.abs_diff(own.at_us);
        let is_free = |other: &usize| !ends[*other].is_control && !is_used[*other] && may_pair(own, ends[*other]);
        let is_near = |other: &usize| distance(other) <= NEAR_US;
        let before = (0..at).rev().take_while(is_near).find(is_free);
        let after = (at + 1..ends.len()).take_while(is_near).find(is_free);
        let Some(other) = before.into_iter().chain(after).min_by_key(distance) else { continue };
        is_used[other] = true;
        let pair = Pair { at_us: own.at_us, rises: [own.rise, ends[other].rise] };
        match blocks.last_mut().filter(|block| block.len() < BLOCK_MOST && pair.at_us - block[0].at_us <= BLOCK_US) {
            Some(block) => block.push(pair),
            None => blocks.push(vec![pair]),
        }
    }
    blocks.retain(|block| block.len() >= BLOCK_LEAST);
    blocks
}

/// Deviations of one side of a block from a straight line, by least squares.
fn deviations(block: &[Pair], side: usize) -> Vec<f64> {
    let n = block.len() as f64;
    let time = |pair: &Pair| (pair.at_us - block[0].at_us) as f64 / 1e6;
    let mean_time = block.iter().map(time).sum::<f64>() / n;
    let mean = block.iter().map(|pair| pair.rises[side]).sum::<f64>() / n;
    let variance: f64 = block.iter().map(|pair| (time(pair) - mean_time).powi(2)).sum();
    let covariance: f64 = block.iter().map(|pair| (time(pair) - mean_time) * (pair.rises[side] - mean)).sum();
    let slope = if variance > 0.0 { covariance / variance } else { 0.0 };
    block.iter().map(|pair| pair.rises[side] - mean - slope * (time(pair) - mean_time)).collect()
}

fn correlate(between: Between, mut blocks: Vec<Vec<Pair>>, seed: u64) -> Option<Comovement> {
    let mut pairs = 0;
    blocks.retain(|block| {
        pairs += block.len();
        pairs <= PAIRS_MOST
    });
    let pairs: usize = blocks.iter().map(Vec::len).sum();
    if pairs < PAIRS_LEAST {
        return None;
    }
    let sides: Vec<[Vec<f64>; 2]> = blocks.iter().map(|block| [0, 1].map(|side| deviations(block, side))).collect();
    let squares = |side: usize| sides.iter().flat_map(|both| &both[side]).map(|value| value * value).sum::<f64>();
    let scale = (squares(0) * squares(1)).sqrt();
    if scale == 0.0 {
        return None;
    }
    // One side of each block moved by a number of places.
    let product = |by: &mut dyn FnMut(usize) -> usize| -> f64 {
        let of = |[own, other]: &[Vec<f64>; 2]| {
            let moved = by(own.len());
            let other = other.iter().cycle().skip(moved);
            own.iter().zip(other).map(|(own, other)| own * other).sum::<f64>()
        };
        sides.iter().map(of).sum::<f64>() / scale
    };
    let correlation = product(&mut |_| 0);
    let mut rng = Rng::derive(seed, STREAM);
    let mut any = |n: usize| rng.below(n as u64) as usize;
    let as_large = (0..MOVES).filter(|_| product(&mut any) >= correlation).count();
    Some(Comovement { between, pairs, correlation, p: (1 + as_large) as f64 / (1 + MOVES) as f64 })
}

#[cfg(test)]
mod tests {
    use bbrlab_stats::bootstrap::normal;

    use super::*;
    use crate::ab::testing::experiment;

    /// Connections of 0.2 s over ten minutes, of `networks` client networks, alternating between the arms by chance. The queue
    /// of a link varies from second to second; `links` says which one a network's connection of an arm has.
    fn draw(networks: u64, seed: u64, links: impl Fn(u64, u8) -> u64) -> Vec<Row> {
        const SECONDS: usize = 600;
        let mut rng = Rng::new(seed);
        let mut queues: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        let mut rows = Vec::new();
        for id in 0..2_000 {
            let at_us = rng.below(SECONDS as u64 * 1_000_000);
            let (network, arm) = (rng.below(networks), rng.below(2) as u8);
            let queue = queues.entry(links(network, arm)).or_insert_with(|| {
                let mut last = 0.0;
                let mut next = || {
                    last = 0.8 * last + 0.6 * normal(&mut rng);
                    last
                };
                (0..SECONDS).map(|_| next()).collect()
            });
            // Slow, and common to all: an evening.
            let slow = (at_us as f64 / 6e8 * std::f64::consts::TAU).sin();
            let rise = 0.3 * queue[(at_us / 1_000_000) as usize] + 0.2 * normal(&mut rng) + slow;
            rows.push(Row {
                id,
                arm,
                epoch: 1,
                begun_unix_ns: at_us * 1_000,
                lasted_us: 200_000,
                client: format!("192.0.{network}.0/24").parse().unwrap(),
                min_rtt_us: 20_000,
                srtt_us: (20_000.0 * (1.5 + rise).exp()) as u64,
                ..Row::default()
            });
        }
        rows
    }

    fn ends(rows: &[Row]) -> Vec<End> {
        rows.iter().filter_map(|row| End::of(row, rows.len() as u64)).collect()
    }

    /// How many of 40 tests find a shared bottleneck, at each level.
    fn found(networks: u64, links: impl Fn(u64, u8) -> u64 + Copy) -> [usize; 2] {
        let test = experiment(&["cubic", "bbr3"], "50,50");
        let mut counts = [0; 2];
        for seed in 0..40 {
            let rows = draw(networks, seed, links);
            for one in comovement(&test, ends(&rows), seed) {
                counts[one.between as usize] += usize::from(one.is_shared());
            }
        }
        counts
    }

    /// Goal: found in at least 80 of 100 tests where it is, and in at most 5 where it is not.
    #[test]
    fn a_shared_bottleneck_is_found_and_said_to_be_of_a_network_or_of_all() {
        let each_its_own = found(4, |network, arm| 2 * network + u64::from(arm));
        let of_a_network = found(4, |network, _| network);
        let of_all = found(4, |_, _| 0);
        println!("own links {each_its_own:?}, a link a network {of_a_network:?}, one link {of_all:?}, of 40");
        assert!(each_its_own.iter().all(|&count| count <= 2), "{each_its_own:?}");
        assert!(of_a_network[0] >= 32 && of_a_network[1] <= 2, "{of_a_network:?}");
        assert!(of_all.iter().all(|&count| count >= 32), "{of_all:?}");
    }

    #[test]
    fn too_few_pairs_say_nothing() {
        let mut test = experiment(&["cubic", "bbr3"], "50,50");
        let rows = draw(1, 1, |_, _| 0);
        assert_eq!(comovement(&test, ends(&rows[..20]), 1), []);
        test.by = AssignmentUnit::Time;
        assert_eq!(comovement(&test, ends(&rows), 1), []);
    }

    #[test]
    fn of_very_many_connections_some_minutes_are_taken_whole() {
        let row = |minute: u64| Row { begun_unix_ns: minute * 60_000_000_000, ..Row::default() };
        let taken = |connections: u64| (0..120).filter(|&minute| End::of(&row(minute), connections).is_some()).count();
        assert_eq!([taken(1), taken(ENDS_MOST), taken(ENDS_MOST + 1), taken(50 * ENDS_MOST)], [120, 120, 60, 3]);
    }
}
