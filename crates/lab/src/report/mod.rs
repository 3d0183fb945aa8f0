//! A report as one HTML page that opens anywhere, offline.
//! In: a [`Report`]. Out: the page as text; equal reports give equal bytes. Never: a file, a clock, a network.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod model;

pub use model::*;
