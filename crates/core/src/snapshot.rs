//! Read-only view of an algorithm's model, for traces, tests and monitoring.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::state::{Cause, State};
use crate::units::{Rate, Span};

/// Bounds that an algorithm has set after congestion (BBRv2 and later); `None` where there is no such bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// Draft: `BBR.bw_shortterm`, of payload; Linux `bw_lo`.
    pub bw_shortterm: Option<Rate>,
    /// Draft: `BBR.inflight_shortterm`, bytes; Linux `inflight_lo`.
    pub inflight_shortterm: Option<u64>,
    /// Draft: `BBR.inflight_longterm`, bytes; Linux `inflight_hi`.
    pub inflight_longterm: Option<u64>,
}

/// Read-only view of an algorithm's model. Reading it has no side effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// State of the algorithm.
    pub state: State,
    /// Cause of the last transition.
    pub cause: Cause,
    /// Bandwidth estimate in bit/s of payload; 0 where the algorithm has none.
    pub bw: Rate,
    /// Minimum RTT.
    pub min_rtt: Option<Span>,
    /// Pacing gain in 1/256; 0 where the algorithm has none.
    pub pacing_gain: u32,
    /// cwnd gain in 1/256; 0 where the algorithm has none.
    pub cwnd_gain: u32,
    /// Slow-start threshold, packets; `u32::MAX` where there is none.
    pub ssthresh: u32,
    /// Packet-timed rounds so far.
    pub round_count: u64,
    /// True if the pipe counts as full.
    pub full_bw_reached: bool,
    /// True if a policed rate is in use (BBRv1).
    pub lt_use_bw: bool,
    /// Allowance for aggregated ACKs, packets.
    pub extra_acked: u32,
    /// The bounds in force.
    pub bounds: Bounds,
    /// The bounds that an undo would restore; none where no episode has been saved.
    pub undo: Bounds,
}

impl Snapshot {
    /// Returns a snapshot of an algorithm in this state that has no model.
    pub const fn of(state: State) -> Self {
        const NONE: Bounds = Bounds { bw_shortterm: None, inflight_shortterm: None, inflight_longterm: None };
        Self {
            state,
            cause: Cause::Begin,
            bw: Rate::bits_per_sec(0),
            min_rtt: None,
            pacing_gain: 0,
            cwnd_gain: 0,
            ssthresh: u32::MAX,
            round_count: 0,
            full_bw_reached: false,
            lt_use_bw: false,
            extra_acked: 0,
            bounds: NONE,
            undo: NONE,
        }
    }
}
