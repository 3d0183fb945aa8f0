#![forbid(unsafe_code)]
#![warn(missing_docs)]
//! The physics of bbrlab: a path, a model of Linux TCP at both ends, and virtual time. Values in, values out.
//!
//! [`scenario`] reads what a user writes, [`setup`] is what it means, [`engine`] plays it, by a [`script`] or without, over [`link`] and [`tcp`],
//! [`record`] holds what came out.

pub mod agenda;
pub mod engine;
pub mod link;
pub mod metrics;
pub mod path;
pub mod record;
pub mod scenario;
pub mod script;
pub mod setup;
pub mod tcp;
