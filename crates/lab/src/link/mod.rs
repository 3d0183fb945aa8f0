//! The sans-IO link model.
// SPDX-License-Identifier: Apache-2.0 OR MIT
mod config;
mod mahimahi;
pub use config::*;
pub use mahimahi::DeliveryTrace;
