//! The only clock of the real backends, of the host and of the command: CLOCK_MONOTONIC, in nanoseconds. No simulation reads it.
//! Wall-clock time, which can jump, is used only where the kernel stamps packets with it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since an arbitrary point before this process started.
#[inline]
pub fn now_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Wall-clock time in nanoseconds, as used by the kernel to stamp arriving packets.
pub fn wall_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_REALTIME)
}

/// A running stopwatch.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(u64);

impl Stopwatch {
    pub fn start() -> Self {
        Self(now_ns())
    }

    /// Seconds since the start.
    pub fn seconds(self) -> f64 {
        now_ns().saturating_sub(self.0) as f64 / 1e9
    }
}

#[inline]
fn nanoseconds(clock: ClockId) -> u64 {
    // The call fails only for an unknown clock, and these always exist.
    clock_gettime(clock)
        .map_or(0, |time| time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned())
}
