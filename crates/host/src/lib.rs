#![forbid(unsafe_code)]
#![doc = "bbrlab's algorithms in this host's kernel."]
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod objects;
#[cfg(feature = "load")]
pub mod program;
