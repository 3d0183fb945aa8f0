//! `bbrlab get`: flags and output; `bbrlab_http::get` downloads.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[cfg(feature = "quic")]
mod fetch;
#[cfg(feature = "quic")]
mod shown;

use std::path::PathBuf;

use bbrlab_sim::scenario::TimeSpan;
use clap::Args;

use crate::{Error, Verdict};

/// Arguments of `bbrlab get`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bbrlab get http://127.0.0.1:8080/file\n  \
        bbrlab get --spki oYxl…= https://127.0.0.1:4433/file\n  \
        bbrlab get --insecure --repeat 5 --json https://127.0.0.1:4433/bytes/100MB\n\n\
        http:// is HTTP/1.1 on TCP, https:// is HTTP/3 on QUIC. A partial download is in NAME.part.")]
pub struct GetArgs {
    /// URLs to fetch
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<String>,
    /// Write the content of a single URL to this file, - for standard output [default: its last path segment, in this
    /// directory]
    #[arg(short, long, value_name = "FILE", conflicts_with = "repeat", help_heading = "Files")]
    pub output: Option<PathBuf>,
    /// Fetch each URL N times over new connections; discard the data
    #[arg(long, value_name = "N", value_parser = crate::args::number::<u32>(1..=100_000), help_heading = "Run")]
    pub repeat: Option<u32>,
    /// Number of concurrent transfers, each over its own connection
    #[arg(short = 'P', long, value_name = "N", default_value = "1", value_parser = crate::args::number::<u32>(1..=1000), help_heading = "Run")]
    pub parallel: u32,
    /// Congestion control of this end, which sends little: on QUIC as in `bbrlab serve --cc`, on TCP as in its --tcp-cc
    /// [default: bbr3 on QUIC, the kernel's on TCP]
    #[arg(long, value_name = "CC", help_heading = "Run")]
    pub cc: Option<String>,
    /// Maximum time without data from the server
    #[arg(long, value_name = "TIME", default_value = "30s", help_heading = "Run")]
    pub patience: TimeSpan,
    /// Trust the server whose key has this SHA-256 hash, as printed by `bbrlab serve`
    #[arg(long, value_name = "HASH", conflicts_with_all = ["insecure", "ca"], help_heading = "Trust")]
    pub spki: Option<String>,
    /// Trust these certificate authorities, or exactly this certificate, in PEM [default: the system's authorities]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = "Trust")]
    pub ca: Option<PathBuf>,
    /// Trust any server
    #[arg(long, help_heading = "Trust")]
    pub insecure: bool,
    /// Log the packets and the recovery of each QUIC connection to this directory as qlog: NAME.qlog in qvis's dialect,
    /// NAME.sqlog in the drafts' dialect
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub qlog: Option<PathBuf>,
    /// Print the measurements as JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Runs the downloads that the arguments request.
#[cfg(feature = "quic")]
pub fn run(args: &GetArgs) -> Result<Verdict, Error> {
    fetch::run(args)
}

/// Reports the missing feature.
#[cfg(not(feature = "quic"))]
pub fn run(_args: &GetArgs) -> Result<Verdict, Error> {
    Err(Error::NoQuic("get".to_owned()))
}
