//! This host's kernel as a backend: namespaces of our own, the link model between two TUN devices, real time.
//! Nothing on the host is changed.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod bench;
pub mod command;
pub mod emulate;
pub mod emulator;
pub mod iface;
pub mod ns;
pub mod ours;
pub mod packet;
pub mod relay;
pub mod rights;
pub mod run;
pub mod self_check;
pub mod testbed;
pub mod trial;
pub mod tun;
