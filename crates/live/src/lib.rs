//! Runs scenarios on real kernels. All privileged and all `unsafe` code of the project is in this crate.
//!
//! It takes the same [`bbrlab_sim::setup::Setup`] as the simulator and returns the same [`bbrlab_sim::record::Output`],
//! so metrics, expectations and reports do not depend on the backend.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod backends;
pub mod capture;
mod columns;
mod error;
pub mod ethtool;
pub mod flows;
#[cfg(feature = "host")]
pub mod hook;
pub mod kernel;
pub mod leftovers;
pub mod link_report;
pub mod measure;
pub mod memory;
pub mod meter;
pub mod oracle;
mod probe;
pub mod ranges;
mod recv_socket;
mod send_socket;
pub mod sock_diag;
pub mod socket;
pub mod tcp_info;
pub mod uml;
pub mod watch;
pub mod wire;

pub use bbrlab_host::clock;
pub use error::{Error, Result};
