//! Closes connections that occupy a slot and move no data: slow requests, slow readers, idle and vanished clients.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes that a connection must move within its patience. Ours: a path of 300 bit/s passes, a client that reads a byte at a time does not.
const LEAST: u64 = 1_000;

/// Bytes moved by a connection.
#[derive(Debug, Default)]
pub struct Activity(AtomicU64);

impl Activity {
    /// Records bytes sent or received.
    pub fn moved(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Records a complete request.
    pub fn asked(&self) {
        self.0.fetch_add(LEAST, Ordering::Relaxed);
    }

    /// Returns once a period of `patience` has passed with too little activity.
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
