//! Random numbers: SplitMix64, small, seeded by the host, the same on every machine.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::wide;

/// A SplitMix64 generator (Steele, Lea, Flood 2014): one 64-bit state, period 2^64.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator whose stream depends on `seed` alone.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates a generator for part `index` of the object that `seed` stands for, independent of the other parts.
    pub fn derive(seed: u64, index: u64) -> Self {
        let mut rng = Self(seed ^ index.wrapping_mul(0xd1b5_4a32_d192_ed03));
        rng.next_u64();
        Self(rng.next_u64())
    }

    /// The next 64 uniform bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A uniform integer in `0..n` (multiply-shift; the bias is below n/2^64). Zero for `n` = 0.
    pub const fn below(&mut self, n: u64) -> u64 {
        wide::mul(self.next_u64(), n).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_stream_and_other_parts_differ() {
        let (mut a, mut b, mut c) = (Rng::derive(1, 2), Rng::derive(1, 2), Rng::derive(1, 3));
        let first = a.next_u64();
        assert_eq!(first, b.next_u64());
        assert_ne!(first, c.next_u64());
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut rng = Rng::new(7);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[rng.below(7) as usize] = true;
        }
        assert_eq!(seen, [true; 7]);
    }
}
