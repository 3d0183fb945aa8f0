#![forbid(unsafe_code)]
//! Populations of paths, users and connections, and the choices that they decide: A/B tests, sweeps, advice, tuning.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod ab;
pub mod capture;
pub mod cdn;
pub mod choose;
pub mod compare;
pub mod comparison;
mod error;
pub mod judgement;
pub mod measured;
pub mod paths;
mod policy_file;
pub mod product;
pub mod qlog;
pub mod quotes;
pub mod ss;
pub mod sweep;

pub use error::{Error, Result};
