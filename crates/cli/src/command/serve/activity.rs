//! Ends connections that hold a place and move nothing: slow requests, slow readers, idle and vanished clients.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a connection must move in the time it has. Ours: it keeps a path of 300 bit/s, and no client that reads a byte at a time.
const LEAST: u64 = 1_000;

/// What a connection has moved.
#[derive(Debug, Default)]
pub struct Activity(AtomicU64);

impl Activity {
    /// Bytes went on their way.
    pub fn moved(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A whole request came.
    pub fn asked(&self) {
        self.0.fetch_add(LEAST, Ordering::Relaxed);
    }

    /// Returns once `patience` went by with too little.
    pub async fn stalls(&self, patience: Duration) {
        loop {
            let before = self.0.load(Ordering::Relaxed);
            tokio::time::sleep(patience).await;
            if self.0.load(Ordering::Relaxed) - before < LEAST {
                return;
            }
        }
    }
}
