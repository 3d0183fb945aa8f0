#![forbid(unsafe_code)]
//! The evidence: claims with verdicts, conformance, populations, choice and reports, over what [`bbrlab_sim`] plays.

pub mod ab;
pub mod agree;
pub mod cdn;
pub mod choose;
pub mod conform;
pub mod expect;
pub mod experiment;
pub mod export;
pub mod measured;
pub mod paths;
pub mod product;
mod quotes;
pub mod report;
pub mod session;
mod ss;
pub mod sweep;
pub mod words;

/// The code of `docs/host-it.md`, compiled and run as tests: here, because a package of core alone does not have that page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/host-it.md")]
struct HostIt;
