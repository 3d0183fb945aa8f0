//! Choice of an algorithm or of its parameters: the score of a run, algorithms for given paths, a parameter search, a
//! decision tree.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod advise;
pub mod objective;
#[cfg(feature = "tune")]
pub mod tune;
#[cfg(feature = "tree")]
pub mod when;
