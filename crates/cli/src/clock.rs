//! The command's only clock: durations for `wall_s` and progress bars, and the date of certificates.
//! Simulations never read it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::time::Instant;

/// A running stopwatch.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "wall-clock time is this type's purpose; it never enters a run")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since the start.
    pub fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// The date, for certificates.
#[cfg(feature = "quic")]
#[expect(clippy::disallowed_methods, reason = "a certificate is valid for a while; no run sees it")]
pub fn today() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
