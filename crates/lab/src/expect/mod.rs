//! Measures: expressions over finished runs, used in an experiment's `expect` lines and figures. They have no clock, no
//! file access and no unbounded loop.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod columns;
pub mod csv;
mod curve;
mod engine;
mod flow;
pub mod objective;
mod population;
mod register;
mod run;
pub mod series;
#[cfg(test)]
pub(crate) mod testing;

pub use curve::Curve;
pub use engine::{Axis, Measurer, RunSet, check_syntax, parse_labels};
pub use flow::{FlowView, GroupView, LinkView, may_follow, probe_rtt_scatter_s};
pub use population::PopulationView;
pub use run::RunView;
