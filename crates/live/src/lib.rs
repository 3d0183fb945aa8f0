//! Scenarios on real kernels: all privileges and all `unsafe` code of the project live here.
//!
//! A scenario comes in as the same [`bbrlab_sim::setup::Setup`] that the simulator takes, and the same
//! [`bbrlab_sim::record::Output`] comes out, so metrics, expectations and reports never know who spoke.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod capture;
pub mod clock;
mod columns;
pub mod ethtool;
pub mod flows;
#[cfg(feature = "host")]
pub mod hook;
pub mod kernel;
pub mod leftovers;
pub mod measure;
pub mod memory;
pub mod meter;
pub mod oracle;
pub mod ranges;
mod reading;
pub mod sock_diag;
pub mod socket;
pub mod tcp_info;
pub mod uml;
pub mod watch;
pub mod wire;
pub mod worlds;
mod writing;
