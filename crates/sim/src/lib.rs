#![forbid(unsafe_code)]
#![warn(missing_docs)]
//! The physics of bbrlab: a path, a model of Linux TCP at both ends, and virtual time. Values in, values out.
//!
//! [`scenario`] parses the user's input, [`setup`] is its resolved form, and [`engine`] runs it over [`link`] and [`tcp`],
//! optionally driven by a [`script`]. [`record`] holds the results.

pub mod apps;
pub mod backend;
pub mod engine;
mod error;
pub mod link;
pub mod metrics;
pub mod path;
pub mod record;
pub mod scenario;
pub mod script;
pub mod setup;
pub mod tcp;
pub mod timer_tree;

pub use error::{Error, Result};

/// The README's example, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
