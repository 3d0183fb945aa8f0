//! A real Linux kernel in virtual time: User Mode Linux, whose clock jumps from event to event.
//!
//! The kernel is a program ([`launch`]). Its first process is this very command ([`guest`]), which builds the path of
//! [`plan`] from the kernel's own devices and disciplines. It then drives real connections over that path, or runs any
//! command behind it ([`emulate`]).
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod devices;
mod disk_space;
mod dualpi2;
pub mod emulate;
pub mod guest;
pub mod launch;
mod packets;
pub mod plan;
mod qdisc;
mod tap;
