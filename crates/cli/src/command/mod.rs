//! One file per command: its flags and its implementation.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[cfg(feature = "parquet")]
pub mod ab;
pub mod advise;
pub mod cdn;
pub mod compare;
pub mod conform;
pub mod doctor;
pub mod emulate;
pub mod get;
pub mod host;
pub mod list;
pub mod path;
pub mod play;
pub mod policy;
pub mod record;
pub mod replay;
pub mod reproduce;
pub mod run;
pub mod score;
pub mod serve;
#[cfg(feature = "parquet")]
pub mod sweep;
#[cfg(feature = "tune")]
pub mod tune;
pub mod validate;
pub mod watch;
