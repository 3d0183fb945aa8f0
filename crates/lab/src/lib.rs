#![forbid(unsafe_code)]
//! Evidence from runs: claims with verdicts, conformance, sessions on any backend, and the simulator beside real kernels.

pub mod conform;
mod error;
pub mod expect;
pub mod experiment;
pub mod population;
pub mod score;
pub mod session;
pub mod validate;

/// The code of `docs/host-it.md`, compiled and run as doctests. It is here because a package of core alone lacks that
/// page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/host-it.md")]
struct HostIt;

pub use error::{BoxError, Error, Result};
