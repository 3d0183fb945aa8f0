//! A scenario: the complete input of a run, as written in TOML, JSON or flags.
//! An error is one line with the place, the value found, and the values accepted.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod apps;
mod aqm;
pub mod arrivals;
mod classes;
mod flow;
mod flow_options;
mod flow_refusals;
mod host;
// Brackets in a key's help are optional parts, not links.
#[allow(rustdoc::broken_intra_doc_links)]
mod keys;
mod model;
mod presets;
mod read;
mod resolve;
mod schedule;
mod source;
pub mod support;
mod text;
mod units;
mod up;
mod values;

pub use crate::backend::Backend;
pub use apps::{CallSpec, PageSpec, VideoSpec};
pub use aqm::AqmSpec;
pub use arrivals::{ArrivalSpec, SizeSpec};
pub use classes::Dscp;
pub use flow::{FLOWS_MAX, FlowSpec, meant, unit_text};
pub use flow_options::{Access, Ecn, FlowOption, FlowOptions, OPTIONS as FLOW_OPTIONS, Window};
pub use keys::{KEYS, Key, KeyGroup, Scenario, key};
#[cfg(feature = "schema")]
pub use model::schema;
pub use model::{ExpectSpec, LinkSpec};
pub use presets::{PRESETS, Preset, WORKLOADS};
pub use read::{Problem, ReadError, WrongType, read, read_toml};
pub use resolve::{TraceReadError, TraceReader};
pub use schedule::{ChangedLink, Schedule, Step};
pub use source::{Locations, ScenarioError, ScenarioFile};
pub use text::{TextError, nearest};
pub use units::{BitRate, BufferSize, PACKET_BYTES, Ratio, TimeSpan, Volume};
pub use up::UpLink;
pub use values::{AckHold, DemandLink, Jitter, LossModel, TokenBucket};

#[cfg(test)]
mod tests;
