//! The choice of an algorithm, or of its parameters: what a run scores, which algorithm suits which paths, a search over
//! parameters, a decision tree.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod advise;
pub mod objective;
#[cfg(feature = "tune")]
pub mod tune;
pub mod when;
