#![forbid(unsafe_code)]
//! Scenario to simulation to trace to metrics to verdict: bbrlab's deterministic laboratory.
//!
//! [`scenario`] reads what a user writes, [`setup`] is what it means, [`sim`] runs it over [`link`] and [`tcp`],
//! [`trace`] and [`result`] hold what came out, [`report`] draws it.

pub mod advise;
pub mod agree;
pub mod cdn;
pub mod conform;
pub mod expect;
pub mod experiment;
pub mod export;
pub mod link;
pub mod measured;
pub mod metrics;
pub mod objective;
pub mod paths;
pub mod product;
pub mod replay;
pub mod report;
pub mod result;
pub mod scenario;
pub mod setup;
pub mod sim;
mod ss;
pub mod sweep;
pub mod tcp;
pub mod trace;
pub mod tune;
pub mod when;

/// The code of `docs/host-it.md`, compiled and run as tests: here, because a package of core alone does not have that page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/host-it.md")]
struct HostIt;
