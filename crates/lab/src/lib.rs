#![forbid(unsafe_code)]
//! Scenario to simulation to trace to metrics to verdict.

pub mod expect;
pub mod experiment;
pub mod link;
pub mod result;
pub mod setup;
pub mod trace;
