//! This host's kernel as a world: our own namespaces, the link model between two TUN devices, real time.
//! Nothing of the host is changed.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod bench;
pub mod check;
pub mod emulate;
pub mod emulator;
pub mod errand;
pub mod iface;
pub mod ns;
pub mod ours;
pub mod packet;
pub mod relay;
pub mod rights;
pub mod run;
pub mod trial;
pub mod tun;
pub mod world;

/// What went wrong: one line with where, what it held and what would do.
pub type Fault = String;
