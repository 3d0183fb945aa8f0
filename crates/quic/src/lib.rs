#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(
    feature = "backend",
    allow(clippy::duplicate_mod, reason = "one event loop for noq and quinn, whose types have the same names")
)]
#![doc = include_str!("../README.md")]
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod algorithm;
#[cfg(feature = "backend")]
pub mod backend;
mod error;
#[cfg(feature = "noq")]
pub mod noq;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "s2n")]
pub mod s2n;
#[cfg(any(feature = "s2n", feature = "noq", feature = "quinn"))]
mod settings;

#[cfg(all(test, any(feature = "s2n", feature = "noq", feature = "quinn")))]
mod random_transport;

pub use algorithm::algorithm;
#[cfg(feature = "backend")]
pub use error::StackError;
pub use error::{Error, Result};

/// Nanoseconds of a duration, without the products of 128 bits that `Duration::as_nanos` needs.
#[cfg(any(feature = "noq", feature = "quinn"))]
const fn nanos(duration: std::time::Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(bbrlab_core::NANOS_PER_SEC);
    whole.saturating_add(duration.subsec_nanos() as u64)
}
