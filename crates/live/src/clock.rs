//! The only clock of the live worlds: CLOCK_MONOTONIC, in nanoseconds.
//! In: nothing. Out: moments. Never: wall-clock time, which jumps, but where the kernel stamps packets with it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since some moment before this process began.
#[inline]
pub fn now_ns() -> u64 {
    // The call fails for an unknown clock only, and this one is always there.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned())
}

/// Wall-clock time in nanoseconds, as the kernel stamps the arrival of packets.
pub fn wall_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_REALTIME)
        .map_or(0, |time| time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned())
}
