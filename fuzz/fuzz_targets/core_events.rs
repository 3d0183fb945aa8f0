//! Arbitrary events in any order with any values, and arbitrary parameters.
//! Every algorithm keeps a window of at least a packet, a rate and a quantum.
//! `crates/core/examples/storm.rs` runs the same events without libFuzzer.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![no_main]

#[path = "../../crates/core/examples/storm/events.rs"]
mod events;

use bbrlab_core::{ALGORITHMS, AlgorithmConfig};
use events::{Source, Storm};
use libfuzzer_sys::fuzz_target;

struct Bytes<'a>(&'a [u8]);

impl Source for Bytes<'_> {
    fn u8(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, [].as_slice()), |(first, rest)| (*first, rest));
        self.0 = rest;
        first
    }

    fn u64(&mut self) -> u64 {
        let size = self.u8();
        match size {
            0xff => u64::MAX,
            0xfe => u64::from(u32::MAX),
            0xfd => 1 << 63,
            _ => (0..size % 9).fold(0, |value, _| value << 8 | u64::from(self.u8())),
        }
    }
}

fn config(bytes: &mut Bytes<'_>) -> AlgorithmConfig {
    let name = ALGORITHMS[usize::from(bytes.u8()) % ALGORITHMS.len()].name;
    let mut config = AlgorithmConfig::named(name).expect("a listed algorithm exists");
    let specs: Vec<_> = config.parameters().collect();
    for _ in 0..bytes.u8() % 8 {
        let (spec, _) = specs[usize::from(bytes.u8()) % specs.len()];
        let value = spec.min + bytes.u32() % (spec.max - spec.min).saturating_add(1).max(1);
        // Accepted or refused; both are fine.
        let _ = config.set(spec.name, &bbrlab_sim::scenario::unit_text(spec.unit, value));
    }
    config
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes(data);
    let config = config(&mut bytes);
    let mut storm = Storm::new(&config, &mut bytes);
    while !bytes.0.is_empty() {
        storm.step(&mut bytes);
    }
});
