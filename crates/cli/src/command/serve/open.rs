//! Opens the files and sockets of `bbrlab serve`, prints its addresses, and serves until it is interrupted.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bbrlab_quic::s2n::Named;
use hyper::{StatusCode, http};
use tokio::sync::Semaphore;

use super::qlog::Logs;
use super::site::Site;
use super::{ServeArgs, certificate, http3, tcp};
use crate::{Failure, Verdict, print};

/// Default listening address.
const TCP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
const QUIC: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4433);
/// Minimum of `--patience`: a path may be silent for a while.
const PATIENCE_MIN: Duration = Duration::from_millis(100);

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
    log: bool,
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

/// Describes a failure to open a socket, with the remedy.
pub fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "something else listens there; name another port".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this host has no such address; name one of its own".to_owned(),
        io::ErrorKind::PermissionDenied => "this port needs root; name one from 1024 on".to_owned(),
        _ => error.to_string(),
    }
}

/// Serves until it is interrupted.
pub fn run(args: &ServeArgs) -> Result<Verdict, Failure> {
    let memory = args.memory.map_or(0, |size| size.0);
    if args.root.is_none() && memory == 0 {
        return Err("serve: nothing to serve; give --root DIR, --memory SIZE or both".to_owned());
    }
    let patience = Duration::from_nanos(args.patience.0);
    if patience < PATIENCE_MIN {
        return Err(format!("--patience: \"{}\" is too short; write 100ms or more", args.patience));
    }
    let site = Site::new(args.root.as_deref(), memory).map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::NotFound => "it does not exist".to_owned(),
            io::ErrorKind::NotADirectory => "it is not a directory".to_owned(),
            _ => error.to_string(),
        };
        format!("--root: {}: {what}", args.root.as_deref().unwrap_or("".as_ref()).display())
    })?;
    let shared = Arc::new(Shared {
        site,
        connections: args.connections as usize,
        patience,
        cc: args.cc.clone(),
        answers: Semaphore::new(http3::ANSWERS),
        log: args.log,
    });
    let (tcp, quic) = match (args.tcp, args.quic) {
        (None, None) => (Some(TCP), Some(QUIC)),
        (tcp, quic) => (tcp.map(|at| at.0), quic.map(|at| at.0)),
    };
    let cc = Named::new(&args.cc).map_err(|error| format!("--cc: {error}"))?;
    let logs = Logs::of(args.qlog.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("serve: threads: {error}"))?;
    runtime.block_on(async {
        let mut said = String::new();
        let tcp = tcp.map(|at| tcp::listen(at, args.tcp_cc.as_deref())).transpose()?;
        if let Some(listener) = &tcp {
            let at = listener.local_addr().map_err(|error| format!("--tcp: {error}"))?;
            said += &format!("http://{at}/ on TCP, {}\n", tcp::controlled(listener));
        }
        let quic = match quic {
            None => None,
            Some(at) => {
                let certificate = match (&args.cert, &args.key) {
                    (Some(chain), Some(key)) => certificate::read(chain, key)?,
                    _ => certificate::make(at.ip())?,
                };
                let hash = certificate::spki_hash(&certificate.chain[0]);
                let hash = hash.map_err(|_| "--cert: its first certificate cannot be read".to_owned())?;
                let server = http3::listen(at, cc, certificate, patience, logs)?;
                let at = server.local_addr().map_err(|error| format!("--quic: {error}"))?;
                said += &format!("https://{at}/ on QUIC, {}; --spki {hash}\n", args.cc);
                Some(server)
            }
        };
        print(&said)?;
        let serving = [
            tcp.map(|listener| tokio::spawn(tcp::serve(listener, Arc::clone(&shared)))),
            quic.map(|server| tokio::spawn(http3::serve(server, Arc::clone(&shared)))),
        ];
        for task in serving.into_iter().flatten() {
            task.await.map_err(|error| format!("serve: {error}"))?;
        }
        Ok(Verdict::Holds)
    })
}
