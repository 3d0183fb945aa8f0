#![forbid(unsafe_code)]
//! Scenario to simulation to trace to metrics to verdict.

pub mod link;
pub mod report;
pub mod result;
pub mod setup;
pub mod trace;
