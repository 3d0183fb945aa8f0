//! The sorted places compared with a list that is sorted again for each quantile.
// SPDX-License-Identifier: Apache-2.0 OR MIT

extern crate std;

use std::vec::Vec;

use super::*;
use crate::Rng;

/// A naive implementation: a list in order of arrival, sorted again for each quantile.
struct Plainly {
    samples: Vec<(u32, u64)>,
    stride: u32,
    skipped: u32,
}

impl Plainly {
    fn take(&mut self, bw: u32, round: u64, p: &QuantileParams) -> bool {
        self.skipped += 1;
        if self.skipped < self.stride {
            return false;
        }
        self.skipped = 0;
        let size = p.samples as usize;
        if self.samples.len() >= size {
            if p.sample_rounds > 0 {
                let mut index = 0;
                self.samples.retain(|_| (index, index += 1).0 % 2 == 1);
                self.stride *= 2;
            } else {
                self.samples.remove(0);
            }
        } else if self.stride > 1 && self.samples.len() < size / 4 {
            self.stride /= 2;
        }
        self.samples.push((bw, round));
        true
    }

    fn quantile(&self, quantile: u32) -> u64 {
        let mut sorted: Vec<u32> = self.samples.iter().map(|(bw, _)| *bw).collect();
        sorted.sort_unstable();
        sorted.get((sorted.len().max(1) - 1) * quantile as usize / 256).copied().map_or(0, u64::from)
    }
}

#[test]
fn the_quantile_is_that_of_a_list_sorted_anew() {
    let mut rng = Rng::new(5);
    for _ in 0..60 {
        let rounds = if rng.below(3) == 0 { 0 } else { 1 + rng.below(100) as u32 };
        let p = QuantileParams {
            quantile: 1 + rng.below(256) as u32,
            sample_rounds: rounds,
            samples: 4 + rng.below(97) as u32,
        };
        let (mut round, spread) = (rng.below(1_000), 1 + rng.below(1 << 32));
        let a_round = 1 + rng.below(200);
        let mut sorted = Reservoir::EMPTY;
        let mut plain = Plainly { samples: Vec::new(), stride: 1, skipped: 0 };
        for step in 0..5_000 {
            if rng.below(a_round) == 0 {
                let passed = 1 + rng.below(3) * rng.below(60);
                round += passed;
                if rounds > 0 && passed > u64::from(rounds) {
                    sorted.clear();
                    plain.samples.clear();
                } else if rounds > 0 {
                    sorted.expire(round, rounds);
                    plain.samples.retain(|(_, then)| round - then <= u64::from(rounds));
                }
            }
            // Every length, the largest possible value, and equal ones.
            let bw = u32::try_from(rng.below(spread + 1)).unwrap_or(u32::MAX) >> rng.below(8);
            assert_eq!(sorted.take(bw, round, &p), plain.take(bw, round, &p));
            assert_eq!(sorted.len as usize, plain.samples.len(), "step {step} of {p:?}");
            assert_eq!(sorted.quantile(p.quantile), plain.quantile(p.quantile), "step {step} of {p:?}");
        }
    }
}

#[test]
fn the_largest_rate_is_a_sample_and_none_is_0() {
    let mut samples = Reservoir::EMPTY;
    assert_eq!(samples.quantile(128), 0);
    samples.take(u32::MAX, 255, &QuantileParams::default());
    assert_eq!(samples.quantile(256), u64::from(u32::MAX));
}
