#![forbid(unsafe_code)]
//! HTTP with a selectable congestion control, over TCP and QUIC: a server with bounded clients, and measured downloads.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[cfg(feature = "quic")]
mod error;
#[cfg(feature = "quic")]
pub mod get;
#[cfg(feature = "quic")]
pub mod serve;

#[cfg(feature = "quic")]
pub use error::{BoxError, Error, Result};
