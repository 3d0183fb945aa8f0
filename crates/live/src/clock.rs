//! The only clock of the live worlds: CLOCK_MONOTONIC, in nanoseconds.
//! Wall-clock time, which jumps, is used only where the kernel stamps packets with it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since some moment before this process began.
#[inline]
pub fn now_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_MONOTONIC)
}

/// Processor time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Wall-clock time in nanoseconds, as the kernel stamps the arrival of packets.
pub fn wall_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_REALTIME)
}

#[inline]
fn nanoseconds(clock: ClockId) -> u64 {
    // The call fails for an unknown clock only, and these are always there.
    clock_gettime(clock)
        .map_or(0, |time| time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned())
}
