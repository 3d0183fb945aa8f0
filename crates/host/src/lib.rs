#![forbid(unsafe_code)]
//! bbrlab's algorithms in this host's kernel: loaded under a name, watched, and undone.
//!
//! The only crate that changes a host. What it changes is written down before it is changed ([`journal`]), so that a command that
//! was killed is finished or undone by the next one. What the kernel holds is read from the kernel, never from memory.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[cfg(feature = "load")]
pub mod ab;
pub mod ability;
pub mod enable;
mod fault;
pub mod journal;
pub mod kernel;
pub mod objects;
pub mod places;
pub mod telemetry;

#[cfg(feature = "load")]
pub mod manage;
#[cfg(feature = "load")]
mod namespaces;
#[cfg(feature = "load")]
pub mod program;
#[cfg(feature = "load")]
mod sockets;

pub use fault::Fault;
