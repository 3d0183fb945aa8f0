//! Measured downloads over HTTP/1.1 on TCP and HTTP/3 on QUIC.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod file;
mod http1;
mod http3;
mod transfer;
mod trust;
mod url;

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use transfer::{FinishedDownload, Settings};
pub use trust::{Anchor, Trust};
pub use url::Url;

use crate::serve::tcp;
use crate::{Error, Result};
use file::Destination;
use transfer::fetch;

/// RTT as measured at one end, in ms.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rtt {
    pub min: f64,
    pub smoothed: f64,
}

/// Receiver of a download's progress.
pub trait Progress: Send + Sync + 'static {
    /// Adds bytes that are expected.
    fn expect(&self, more: u64);
    /// Adds bytes that were received.
    fn add(&self, more: u64);
}

/// Downloads of a command.
#[derive(Clone, Debug)]
pub struct Downloads {
    /// URLs with their destinations.
    pub wanted: Vec<(Url, Destination)>,
    /// Number of downloads of each URL.
    pub rounds: usize,
    /// Maximum concurrent transfers.
    pub parallel: usize,
}

/// Runs the downloads, and returns the results in the order of the requests.
pub fn run(
    downloads: Downloads,
    settings: Settings,
    progress: Arc<impl Progress>,
) -> Result<Vec<Result<FinishedDownload>>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|source| Error::Threads { command: "get", source })?;
    let results = runtime.block_on(all(downloads, &Arc::new(settings), &progress));
    runtime.shutdown_background();
    Ok(results)
}

/// Rejects a name that neither protocol supports, before anything is sent.
pub fn check_cc(cc: &str, urls: &[Url]) -> Result<()> {
    if urls.iter().any(Url::is_quic) {
        bbrlab_quic::s2n::Named::new(cc)?;
    }
    if !urls.iter().all(Url::is_quic) {
        tcp::kernels(cc).map_err(|error| Error::Flag { flag: "--cc", source: Box::new(error) })?;
    }
    Ok(())
}

/// Runs the transfers, each in a task of its own.
async fn all(
    downloads: Downloads,
    settings: &Arc<Settings>,
    progress: &Arc<impl Progress>,
) -> Vec<Result<FinishedDownload>> {
    let Downloads { wanted, rounds, parallel } = downloads;
    let places = Arc::new(Semaphore::new(parallel));
    let mut tasks = JoinSet::new();
    let mut results = Vec::new();
    for (index, (url, place)) in wanted.iter().flat_map(|one| std::iter::repeat_n(one, rounds)).enumerate() {
        // Waits here, so that a hundred thousand pending transfers need no memory.
        let Ok(turn) = Arc::clone(&places).acquire_owned().await else { break };
        let (url, place, settings, progress) = (url.clone(), place.clone(), Arc::clone(settings), Arc::clone(progress));
        tasks.spawn(async move {
            let done = fetch(&url, &place, &settings, &*progress).await;
            drop(turn);
            (index, done)
        });
        while let Some(Ok(one)) = tasks.try_join_next() {
            results.push(one);
        }
    }
    while let Some(Ok(one)) = tasks.join_next().await {
        results.push(one);
    }
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, done)| done).collect()
}
