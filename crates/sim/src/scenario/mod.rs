//! A scenario: the complete input of a run, as written in TOML, JSON or flags.
//! An error is one line with the place, the value found, and the values accepted.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod aqm;
pub mod arrivals;
mod flow;
mod model;
mod resolve;
mod schedule;
mod source;
mod table;
mod text;
mod units;
mod values;

pub use crate::backend::Backend;
pub use aqm::AqmSpec;
pub use arrivals::{ArrivalSpec, SizeSpec};
pub use flow::{Access, FLOWS_MAX, FlowOptions, FlowSpec, KEYS as FLOW_KEYS, Window, meant, unit_text};
#[cfg(feature = "schema")]
pub use model::schema;
pub use model::{ExpectSpec, KEYS, LinkSpec, Scenario};
pub use resolve::TraceReader;
pub use schedule::{Schedule, Step};
pub use source::{Locations, ScenarioError, ScenarioFile, explain};
pub use text::{TextError, nearest};
pub use units::{BitRate, BufferSize, PACKET_BYTES, Ratio, TimeSpan, Volume};
pub use values::{AckHold, DemandLink, Jitter, LossModel, TokenBucket};

#[cfg(test)]
mod tests;
