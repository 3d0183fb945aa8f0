//! A server of files and bytes over HTTP/1.1 on TCP and HTTP/3 on QUIC, with a selectable congestion control. A client's
//! use of memory, connections and time is bounded.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod activity;
mod body;
pub mod certificate;
mod held;
pub(crate) mod http3;
pub mod qlog;
pub mod sender;
mod shared;
mod site;
pub mod tcp;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bbrlab_live::memory;
use bbrlab_quic::s2n::Named;
use tokio::sync::Semaphore;

use crate::{BoxError, Error, Result};
use qlog::Logs;
use shared::Shared;
use site::Site;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory of the files that are served.
    pub root: Option<PathBuf>,
    /// Maximum size of generated content, bytes; 0 serves none.
    pub memory_bytes: u64,
    /// Listening address of HTTP/1.1.
    pub tcp: Option<SocketAddr>,
    /// Congestion control of TCP; `None` is the kernel's default.
    pub tcp_cc: Option<String>,
    /// Listening address of HTTP/3.
    pub quic: Option<SocketAddr>,
    /// Congestion control of QUIC.
    pub cc: String,
    /// Files of the certificate chain and of its key; `None` generates a certificate.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Maximum concurrent connections on each of TCP and QUIC.
    pub connections: usize,
    /// Time in which a connection must move data.
    pub patience: Duration,
    /// Directory of qlogs.
    pub qlog: Option<PathBuf>,
    /// Prints a line for each response.
    pub log: bool,
}

/// Interval between looks at the memory that is held. Ours.
const LOOK: Duration = Duration::from_secs(10);
/// Growth of the memory held since it was last given back, from which it is again: 16 MiB. Ours.
const GROWN_PAGES: u64 = 4096;
/// Looks at which memory is given back after such a growth: connections that are idle end within a minute.
const LOOKS: u32 = 7;

/// Gives the memory of a load back once no response is under way.
async fn give_memory_back(shared: Arc<Shared>) {
    let mut kept = memory::resident_pages().unwrap_or(0);
    let mut looks = tokio::time::interval(LOOK);
    let mut due = 0;
    loop {
        looks.tick().await;
        if memory::resident_pages().is_some_and(|now| now > kept + GROWN_PAGES) {
            due = LOOKS;
        }
        let is_idle = shared.answers.available_permits() == http3::ANSWERS;
        if due > 0 && is_idle {
            due -= 1;
            memory::give_back();
            kept = memory::resident_pages().unwrap_or(kept);
        }
    }
}

/// Opens files and sockets, passes the text of their addresses to `announce`, and serves until the process ends.
pub fn run(settings: &Settings, announce: impl FnOnce(&str) -> Result<(), BoxError>) -> Result<()> {
    let root = settings.root.as_deref();
    let site = Site::new(root, settings.memory_bytes)
        .map_err(|source| Error::Root { path: settings.root.clone().unwrap_or_default(), source })?;
    let shared = Arc::new(Shared {
        site,
        connections: settings.connections,
        patience: settings.patience,
        cc: settings.cc.clone(),
        answers: Semaphore::new(http3::ANSWERS),
        log: settings.log,
    });
    let cc = Named::new(&settings.cc)?;
    let logs = Logs::of(settings.qlog.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|source| Error::Threads { command: "serve", source })?;
    runtime.block_on(async {
        let mut said = String::new();
        let tcp = settings.tcp.map(|at| tcp::listen(at, settings.tcp_cc.as_deref())).transpose()?;
        if let Some(listener) = &tcp {
            let at = listener.local_addr().map_err(|source| Error::LocalAddress { flag: "--tcp", source })?;
            said += &format!("http://{at}/ on TCP, {}\n", tcp::controlled(listener));
        }
        let quic = match settings.quic {
            None => None,
            Some(at) => {
                let certificate = match &settings.certificate {
                    Some((chain, key)) => certificate::read(chain, key)?,
                    None => certificate::make(at.ip())?,
                };
                let hash = certificate::spki_hash(&certificate.chain[0]);
                let hash = hash.map_err(|_| Error::FirstCertificate)?;
                let server = http3::listen(at, cc, certificate, settings.patience, logs)?;
                let at = server.local_addr().map_err(|source| Error::LocalAddress { flag: "--quic", source })?;
                said += &format!("https://{at}/ on QUIC, {}; --spki {hash}\n", settings.cc);
                Some(server)
            }
        };
        announce(&said).map_err(Error::Announce)?;
        tokio::spawn(give_memory_back(Arc::clone(&shared)));
        let serving = [
            tcp.map(|listener| tokio::spawn(tcp::serve(listener, Arc::clone(&shared)))),
            quic.map(|server| tokio::spawn(http3::serve(server, Arc::clone(&shared)))),
        ];
        for task in serving.into_iter().flatten() {
            task.await?;
        }
        Ok(())
    })
}
