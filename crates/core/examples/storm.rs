//! Feeds random events with random values to every algorithm, and stops at the first broken guarantee.
//! usage: storm EVENTS [SEED]. Overflow checks and debug assertions are on with
//! `RUSTFLAGS="-Cdebug-assertions -Coverflow-checks" cargo run --release -p bbrlab-core --example storm -- 100000000 1`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[path = "storm/events.rs"]
mod events;

use bbrlab_core::{ALGORITHMS, AlgorithmConfig, Rng};
use events::{Source, Storm};

/// Events per connection.
const LIFE: u64 = 4_096;

/// Range of the values in one connection.
#[derive(Clone, Copy)]
enum Values {
    /// As on a real path: times up to some milliseconds, sizes up to some thousand bytes.
    Plain,
    /// Any value, small ones as often as huge ones.
    Wild,
}

struct Random {
    rng: Rng,
    values: Values,
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

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("usage: storm EVENTS [SEED]"));
    let events = arguments.next().expect("usage: storm EVENTS [SEED]");
    let seed = arguments.next().unwrap_or(1);
    if !cfg!(debug_assertions) {
        eprintln!("storm: debug assertions are off; see the usage at the head of examples/storm.rs");
    }
    let share = events / ALGORITHMS.len() as u64;
    for (index, info) in ALGORITHMS.iter().enumerate() {
        let config = AlgorithmConfig::named(info.name).expect("a listed algorithm");
        let mut done = 0;
        let mut connection = 0;
        while done < share {
            let part = (index as u64) << 40 | connection;
            let values = if connection % 2 == 0 { Values::Plain } else { Values::Wild };
            let mut source = Random { rng: Rng::derive(seed, part), values };
            let mut storm = Storm::new(&config, &mut source);
            for _ in 0..LIFE {
                storm.step(&mut source);
            }
            done += LIFE;
            connection += 1;
        }
        println!("{:<14} {done} events, {connection} connections", info.name);
    }
    println!("no promise broken (seed {seed})");
}
