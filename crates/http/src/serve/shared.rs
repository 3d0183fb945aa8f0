//! State shared by all connections of a server.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use hyper::{StatusCode, http};
use tokio::sync::Semaphore;

use super::site::Site;

/// State shared by all connections.
#[derive(Debug)]
pub struct Shared {
    pub site: Site,
    pub connections: usize,
    pub patience: Duration,
    /// Congestion control of QUIC.
    pub cc: String,
    /// Semaphore for responses over QUIC.
    pub answers: Semaphore,
    pub log: bool,
}

impl Shared {
    /// Prints a log line, if enabled. A closed standard output does not end the server.
    pub fn note(&self, from: SocketAddr, protocol: &str, request: &http::request::Parts, status: StatusCode) {
        if self.log {
            let (method, path) = (&request.method, request.uri.path());
            let _ = writeln!(io::stdout(), "{from} {protocol} {method} {path} {}", status.as_u16());
        }
    }
}
