//! Random values for a storm, from a seed.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::events::Source;
use bbrlab_core::Rng;

/// Range of the values in one connection.
#[derive(Clone, Copy, Debug)]
enum Values {
    /// As on a real path: times up to some milliseconds, sizes up to some thousand bytes.
    Plain,
    /// Any value, small ones as often as huge ones.
    Wild,
}

/// Random values of a connection.
#[derive(Debug)]
pub struct Random {
    rng: Rng,
    values: Values,
}

impl Random {
    /// Values of this connection: plain for even numbers, wild for odd ones.
    pub fn new(seed: u64, connection: u64) -> Self {
        let values = if connection % 2 == 0 { Values::Plain } else { Values::Wild };
        Self { rng: Rng::derive(seed, connection), values }
    }
}

impl Source for Random {
    fn u8(&mut self) -> u8 {
        self.rng.next_u64() as u8
    }

    fn u64(&mut self) -> u64 {
        let value = self.rng.next_u64();
        match self.values {
            Values::Plain => match value & 3 {
                0 => value >> 62,
                1 | 2 => value >> 53,
                _ => value >> 42,
            },
            Values::Wild => match value & 0x3f {
                0 => u64::MAX,
                1 => u32::MAX.into(),
                2 => 1 << 63,
                _ => value >> (value >> 6 & 63),
            },
        }
    }
}
