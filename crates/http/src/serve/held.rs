//! Bound of the memory that responses over QUIC hold in the stack: data not yet sent, or sent and not yet acknowledged.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Bytes that all connections may hold before each is limited to [`OWN`]: 128 MiB, sixteen full send buffers. Ours.
const TOTAL: u64 = 128 << 20;
/// Bytes that a connection may hold in any case, two blocks of a body: 10 Mbit/s at 100 ms. Ours.
const OWN: u64 = 128 << 10;

/// Sum over all connections of an endpoint.
#[derive(Clone, Debug, Default)]
pub struct Total(Arc<AtomicU64>);

/// Bytes that one connection holds.
#[derive(Debug, Default)]
pub struct Held {
    total: Total,
    counts: Mutex<Counts>,
    shrunk: Notify,
}

#[derive(Debug, Default)]
struct Counts {
    unsent: u64,
    in_flight: u64,
}

impl Counts {
    const fn sum(&self) -> u64 {
        self.unsent + self.in_flight
    }
}

impl Held {
    /// Creates the count of a connection that holds nothing.
    pub fn of(total: &Total) -> Self {
        Self { total: total.clone(), counts: Mutex::default(), shrunk: Notify::default() }
    }

    /// Records data passed to the stack.
    pub fn queued(&self, bytes: usize) {
        self.update(|counts| counts.unsent += bytes as u64);
    }

    /// Records data sent for the first time. It includes frame heads, which were not counted as queued.
    pub fn sent(&self, bytes: usize) {
        self.update(|counts| counts.unsent = counts.unsent.saturating_sub(bytes as u64));
    }

    /// Records the bytes in flight.
    pub fn in_flight(&self, bytes: u64) {
        self.update(|counts| counts.in_flight = bytes);
    }

    /// Returns once the connection may pass more data to the stack.
    pub async fn room(&self) {
        loop {
            let shrunk = self.shrunk.notified();
            let own = self.counts.lock().unwrap_or_else(PoisonError::into_inner).sum();
            if own < OWN || self.total.0.load(Ordering::Relaxed) < TOTAL {
                return;
            }
            shrunk.await;
        }
    }

    fn update(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let before = counts.sum();
        change(&mut counts);
        let after = counts.sum();
        // Both wrap, so that a difference may be negative.
        self.total.0.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        if after < before {
            self.shrunk.notify_waiters();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.update(|counts| *counts = Counts::default());
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn has_room(held: &Held) -> bool {
        pin!(held.room()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_full_total_limits_each_connection_to_its_own_share() {
        let total = Total::default();
        let (large, small) = (Held::of(&total), Held::of(&total));
        large.queued(TOTAL as usize);
        assert!(!has_room(&large) && has_room(&small));
        small.queued(OWN as usize);
        assert!(!has_room(&small));
        small.sent(OWN as usize + 50);
        assert!(has_room(&small));
        small.in_flight(OWN);
        assert!(!has_room(&small));
        drop(large);
        assert!(has_room(&small));
        drop(small);
        assert_eq!(total.0.load(Ordering::Relaxed), 0);
    }
}
