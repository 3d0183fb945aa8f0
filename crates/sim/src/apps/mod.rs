//! Applications whose users feel the network: what they send, and the figures by which they are judged.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod call;
mod client;
pub mod page;
pub mod probe;
pub mod video;

pub use client::{Client, Reaction};
