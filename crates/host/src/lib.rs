#![forbid(unsafe_code)]
//! Loads bbrlab's algorithms into this host's kernel under a name, watches them, and undoes it.
//!
//! This is the only crate that changes a host. Each change is recorded before it is made ([`journal`]), so that the
//! next command completes or rolls back an interrupted one. The kernel's state is always read from the kernel, never
//! from memory.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[cfg(feature = "ab")]
pub mod ab;
pub mod ability;
pub mod clock;
pub mod enable;
mod error;
pub mod host_paths;
#[cfg(feature = "load")]
pub mod interface;
pub mod journal;
pub mod kernel;
pub mod objects;
pub mod policy;
pub mod rights;
pub mod telemetry;

#[cfg(feature = "load")]
pub mod manage;
#[cfg(feature = "load")]
mod namespaces;
#[cfg(feature = "load")]
pub mod program;
#[cfg(feature = "load")]
mod registration;
#[cfg(feature = "load")]
mod sockets;

#[cfg(feature = "load")]
pub use error::Advice;
pub use error::{Error, Result, TrialError, can_not};
