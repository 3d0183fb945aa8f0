//! The seed of random scenarios.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// Default seed.
const SEED: u64 = 20_160_901;

/// Returns `BBRLAB_SEED`: a number, or the first 16 hexadecimal digits of a commit.
pub fn seed() -> u64 {
    let Ok(text) = std::env::var("BBRLAB_SEED") else {
        return SEED;
    };
    let hex = &text[..text.len().min(16)];
    text.parse().or_else(|_| u64::from_str_radix(hex, 16)).unwrap_or_else(|_| {
        panic!("BBRLAB_SEED held {text:?}; write a number or a commit hash in hex");
    })
}
