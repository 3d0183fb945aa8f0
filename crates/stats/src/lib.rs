#![forbid(unsafe_code)]
//! Statistics of results, and the formats in which numbers are shown: quantiles, bootstrap intervals, sequential tests,
//! summaries of repeated runs. Where two definitions exist on purpose, their names state the difference.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod bootstrap;
pub mod number;
pub mod plural;
pub mod quantile;
pub mod sequential;
pub mod stratified;
pub mod student;
mod summary;

pub use quantile::{known_mean, mean, median};
pub use summary::summarise;

/// The README's example, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
