//! Rules for a receiver's reads and the window that it offers.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::os::fd::OwnedFd;

use bbrlab_sim::setup::{FlowSetup, Rwnd, Traffic};

use crate::socket;

/// Minimum number of bytes for which a bulk receiver wakes.
const LOW_WATER_LEAST: u64 = 128 << 10;
/// Unread bytes allowed for all receivers together.
const WAITING: u64 = 256 << 20;
/// Window of a receiver that is never the limit: far above any BDP, below the limit of its buffer.
const WINDOW: i32 = 256 << 20;

/// Unread bytes allowed for each of `flows` receivers, where a single one may have `max`.
pub fn share(max: u64, flows: usize) -> u64 {
    (WAITING / flows.max(1) as u64).clamp(LOW_WATER_LEAST, max)
}

/// Bytes that must have arrived before the receiver reads. It reads its first segment at once: see [`settle_window`].
pub fn low_water(flow: &FlowSetup, low_water: u64, read: u64) -> i32 {
    if read == 0 {
        return 1;
    }
    let max = match flow.traffic {
        _ if flow.reads_at_once() => 1,
        Traffic::Size(bytes) => low_water.min(bytes.saturating_sub(read)),
        _ => low_water,
    };
    i32::try_from(max.max(1)).unwrap_or(i32::MAX)
}

/// Maximum bytes that the receiver reads.
///
/// A bulk receiver leaves one byte. If it emptied the socket, the kernel would acknowledge a segment whose ACK still
/// waits for the next (`tcp_cleanup_rbuf`), as no slower receiver would.
pub fn max_read(flow: &FlowSetup, low_water: u64, read: u64) -> usize {
    let waits_for = self::low_water(flow, low_water, read);
    match flow.traffic {
        Traffic::Bulk if waits_for > 1 => waits_for as usize - 1,
        _ => usize::MAX >> 1,
    }
}

/// Limits the window from the SYN-ACK on, through the listener; its connections inherit the limit.
///
/// A window never shrinks, and the kernel offers much more as soon as it has measured the first segment
/// (`tcp_measure_rcv_mss`).
pub fn bound_window(setup: &FlowSetup, listener: &OwnedFd) -> io::Result<()> {
    match setup.rwnd {
        Rwnd::Fixed(_) => settle_window(setup, listener),
        Rwnd::Unlimited | Rwnd::Auto(_) => Ok(()),
    }
}

/// Gives a receiver its full window at once.
///
/// While a window grows the kernel acknowledges every segment (`tcp_grow_window`), and a window of a gigabyte would
/// grow forever. Call it again after the first segment, which makes the kernel recompute the window
/// (`tcp_measure_rcv_mss`).
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
            let sourced = bbrlab_sim::scenario::ScenarioFile::from_toml(&format!("flow = ['{text}']"), "test");
            sourced.unwrap().scenario.resolve().unwrap().flows[0].clone()
        };
        assert_eq!(max_read(&flow("cubic"), 8 << 20, 1448), (8 << 20) - 1);
        for (text, read) in [("cubic", 0), ("cubic,size=1MB", 1448), ("cubic,request=1MB/1s", 1448)] {
            assert_eq!(max_read(&flow(text), 8 << 20, read), usize::MAX >> 1, "{text} {read}");
        }
    }
}
