#![forbid(unsafe_code)]
//! Evaluation of simulated runs: claims with verdicts, conformance, populations, advice and reports, on top of
//! [`bbrlab_sim`].

pub mod ab;
pub mod cdn;
pub mod choose;
pub mod conform;
pub mod expect;
pub mod experiment;
pub mod measured;
pub mod paths;
pub mod product;
mod quotes;
pub mod session;
mod ss;
pub mod sweep;
pub mod validate;

/// The code of `docs/host-it.md`, compiled and run as doctests. It is here because a package of core alone lacks that
/// page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/host-it.md")]
struct HostIt;
