//! Feeds random events with random values to every algorithm, and stops at the first broken guarantee.
//! usage: storm EVENTS [SEED]. Overflow checks and debug assertions are on with
//! `RUSTFLAGS="-Cdebug-assertions -Coverflow-checks" cargo run --release -p bbrlab-core --example storm -- 100000000 1`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[path = "storm/events.rs"]
mod events;
#[path = "storm/random.rs"]
mod random;

use bbrlab_core::{ALGORITHMS, AlgorithmConfig};
use events::Storm;
use random::Random;

/// Events per connection.
const LIFE: u64 = 4_096;

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
            let mut source = Random::new(seed, part);
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
