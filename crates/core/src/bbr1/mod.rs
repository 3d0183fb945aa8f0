//! BBRv1.
// SPDX-License-Identifier: Apache-2.0 OR MIT
mod params;
pub use params::Bbr1Params;
