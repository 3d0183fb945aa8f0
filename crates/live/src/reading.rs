//! When a receiver reads, and the window that it offers.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::os::fd::OwnedFd;

use bbrlab_sim::setup::{FlowSetup, Rwnd, Traffic};

use crate::socket;

/// A bulk receiver wakes for no less than this.
const LOW_WATER_LEAST: u64 = 128 << 10;
/// What all receivers together let wait.
const WAITING: u64 = 256 << 20;
/// Window of a receiver that is never the limit: far above any BDP, below what its buffer would allow.
const WINDOW: i32 = 256 << 20;

/// How much each of `flows` receivers lets wait, of which one alone would let `most` wait.
pub fn share(most: u64, flows: usize) -> u64 {
    (WAITING / flows.max(1) as u64).clamp(LOW_WATER_LEAST, most)
}

/// How much must have arrived before the receiver reads. It reads its first segment at once: see [`settle_window`].
pub fn low_water(flow: &FlowSetup, low_water: u64, read: u64) -> i32 {
    if read == 0 {
        return 1;
    }
    let most = match flow.traffic {
        _ if flow.reads_at_once() => 1,
        Traffic::Size(bytes) => low_water.min(bytes.saturating_sub(read)),
        _ => low_water,
    };
    i32::try_from(most.max(1)).unwrap_or(i32::MAX)
}

/// How much the receiver reads at most. A bulk receiver leaves a byte: one that finds its socket empty makes the kernel
/// acknowledge a segment whose ACK still waits for the next (`tcp_cleanup_rbuf`), as no receiver that is slower would.
pub fn most(flow: &FlowSetup, low_water: u64, read: u64) -> usize {
    let waits_for = self::low_water(flow, low_water, read);
    match flow.traffic {
        Traffic::Bulk if waits_for > 1 => waits_for as usize - 1,
        _ => usize::MAX >> 1,
    }
}

/// A window that is fixed stands from the first answer on: it never shrinks, and the kernel offers much more as soon as it has
/// measured the first segment (`tcp_measure_rcv_mss`). What the listener may offer, its connections may as well.
pub fn bound_window(setup: &FlowSetup, listener: &OwnedFd) -> io::Result<()> {
    match setup.rwnd {
        Rwnd::Fixed(_) => settle_window(setup, listener),
        Rwnd::Unlimited | Rwnd::Auto(_) => Ok(()),
    }
}

/// Gives a receiver its window at once. A window that still grows makes the kernel acknowledge every segment
/// (`tcp_grow_window`), and one of a gigabyte would grow forever. To be called again after the first segment, which
/// makes the kernel compute its window again (`tcp_measure_rcv_mss`).
pub fn settle_window(setup: &FlowSetup, fd: &OwnedFd) -> io::Result<()> {
    let bytes = match setup.rwnd {
        Rwnd::Unlimited => WINDOW,
        Rwnd::Fixed(bytes) => i32::try_from(bytes).unwrap_or(i32::MAX),
        Rwnd::Auto(_) => return Ok(()),
    };
    socket::set_int(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trap: a bulk receiver that empties its socket, or a sized one that leaves its last byte unread.
    #[test]
    fn a_bulk_receiver_leaves_a_byte_and_no_other_does() {
        let flow = |text: &str| {
            let sourced = bbrlab_sim::scenario::Sourced::from_toml(&format!("flow = ['{text}']"), "test");
            sourced.unwrap().scenario.resolve().unwrap().flows[0].clone()
        };
        assert_eq!(most(&flow("cubic"), 8 << 20, 1448), (8 << 20) - 1);
        for (text, read) in [("cubic", 0), ("cubic,size=1MB", 1448), ("cubic,request=1MB/1s", 1448)] {
            assert_eq!(most(&flow(text), 8 << 20, read), usize::MAX >> 1, "{text} {read}");
        }
    }
}
