//! The only clock of the live backends: CLOCK_MONOTONIC, in nanoseconds.
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

#[inline]
fn nanoseconds(clock: ClockId) -> u64 {
    // The call fails only for an unknown clock, and these always exist.
    clock_gettime(clock)
        .map_or(0, |time| time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned())
}
