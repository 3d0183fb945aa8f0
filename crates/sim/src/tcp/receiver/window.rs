//! The receive window: fixed, or autotuned as in Linux 6.12 (`tcp_input.c`).
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};

use super::super::undo::stamp;
use crate::setup::Rwnd;

/// Receive space at the start of autotuning; one segment of it is reserved. Source: Linux `tcp_rmem[1]` / 2,
/// `tcp_init_buffer_space`.
const INITIAL: u64 = 64 << 10;
/// Largest window until the buffer first grows. Source: Linux `tcp_rmem[1]`, 128 KiB.
const INITIAL_CLAMP: u64 = Rwnd::of_buffer(128 << 10);
/// Segments of the first round. Source: Linux `TCP_INIT_CWND`.
const INITIAL_ROUND: u64 = 10;

/// The advertised window.
#[derive(Clone, Debug)]
pub(in super::super) struct Window {
    /// Bytes advertised now. Source: Linux `rcv_ssthresh`.
    pub now: u64,
    tuning: Option<Box<Tuning>>,
}

/// State of autotuning.
#[derive(Clone, Copy, Debug)]
struct Tuning {
    /// Largest window.
    limit: u64,
    /// Bound of the window by the present buffer. Source: Linux `window_clamp`.
    clamp: u64,
    /// Bytes of the largest round so far. Source: Linux `rcvq_space.space`.
    round: u64,
    /// In-order bytes and time at the start of this round.
    mark: (u64, Time),
    /// Smoothed RTT as the receiver sees it, µs. Source: Linux `rcv_rtt_est`.
    rtt_us: u64,
    /// RTT of the handshake, and the shortest delay of a segment, µs.
    base_us: u64,
    shortest_us: u64,
    /// Time of the newest sample of the RTT.
    sampled: Time,
}

impl Window {
    pub(super) fn new(kind: Rwnd, mss: u64) -> Self {
        let limit = match kind {
            Rwnd::Unlimited => return Self { now: u64::MAX, tuning: None },
            Rwnd::Fixed(bytes) => return Self { now: bytes, tuning: None },
            Rwnd::Auto(limit) => limit,
        };
        let now = INITIAL.saturating_sub(mss).min(limit);
        let tuning = Tuning {
            limit,
            clamp: INITIAL_CLAMP.min(limit),
            round: (INITIAL_ROUND * mss).min(now).max(1),
            mark: (0, Time::ZERO),
            rtt_us: 0,
            base_us: 0,
            shortest_us: u64::MAX,
            sampled: Time::ZERO,
        };
        Self { now, tuning: Some(Box::new(tuning)) }
    }

    /// Starts the first round after a handshake of this RTT.
    pub(super) fn start(&mut self, now: Time, rtt: Span) {
        if let Some(tuning) = &mut self.tuning {
            tuning.mark.1 = now;
            tuning.base_us = rtt.as_micros();
            tuning.rtt_us = tuning.base_us;
        }
    }

    /// Grows for a segment that arrived. Returns true if it did, after which the next ACK is sent at once.
    #[inline]
    pub(super) fn grow(&mut self, now: Time, sent: Time, mss: u64, out_of_order: u64) -> bool {
        let Some(tuning) = &mut self.tuning else { return false };
        let before = self.now;
        self.now = tuning.grown(before, now, sent, mss, out_of_order);
        self.now > before
    }

    /// Window that fits into the buffer beside this many bytes out of order, and whether less than half of the buffer is free. The
    /// buffer of a fixed window always has room.
    // spec: Linux __tcp_select_window
    pub(super) fn beside(&self, out_of_order: u64, mss: u64) -> (u64, bool) {
        let Some(tuning) = &self.tuning else { return (self.now, false) };
        let free = tuning.clamp.saturating_sub(out_of_order);
        let is_scarce = free < tuning.clamp / 2;
        let is_full = is_scarce && (free < tuning.clamp / 16 || free < mss);
        (if is_full { 0 } else { free.min(self.now) }, is_scarce)
    }

    /// Adapts the buffer to this number of bytes received in order.
    #[inline]
    pub(super) fn adjust(&mut self, now: Time, in_order_bytes: u64, mss: u64) {
        if let Some(tuning) = &mut self.tuning {
            tuning.adjust(now, in_order_bytes, mss);
        }
    }
}

impl Tuning {
    /// Window after a segment sent at `sent`, which takes room in the buffer itself, as do the bytes out of order.
    // spec: Linux tcp_grow_window. Differs: short segments grow the window too.
    #[inline(never)]
    fn grown(&mut self, window: u64, now: Time, sent: Time, mss: u64, out_of_order: u64) -> u64 {
        self.measure_rtt(now, sent);
        window.max(self.clamp.saturating_sub(mss + out_of_order).min(window + 2 * mss))
    }

    /// Samples the RTT once for each tick of the timestamp option.
    // spec: Linux tcp_rcv_rtt_update. Differs: the handshake's RTT plus the delay beyond the shortest on the forward path, since
    // segments carry no echo.
    fn measure_rtt(&mut self, now: Time, sent: Time) {
        let took_us = now.since(sent).as_micros();
        self.shortest_us = self.shortest_us.min(took_us);
        if stamp(self.sampled) == stamp(now) {
            return;
        }
        self.sampled = now;
        let sample = self.base_us + took_us - self.shortest_us;
        self.rtt_us = if sample < self.rtt_us { sample } else { self.rtt_us - self.rtt_us / 8 + sample / 8 };
    }

    /// Enlarges the buffer after a round with more data than any before: room for twice that data, and for the growth to go on.
    // spec: Linux tcp_rcv_space_adjust
    #[inline(never)]
    fn adjust(&mut self, now: Time, in_order_bytes: u64, mss: u64) {
        if now.since(self.mark.1).as_micros() < self.rtt_us {
            return;
        }
        let copied = in_order_bytes - self.mark.0;
        self.mark = (in_order_bytes, now);
        if copied <= self.round {
            return;
        }
        let steady = 2 * copied + 16 * mss;
        let growth = u128::from(steady) * u128::from(copied - self.round) / u128::from(self.round);
        let wanted = steady.saturating_add(2 * u64::try_from(growth).unwrap_or(u64::MAX / 2));
        self.clamp = self.clamp.max(wanted.min(self.limit));
        self.round = copied;
    }
}
