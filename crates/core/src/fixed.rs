//! A constant window without pacing: the yardstick that shows what a path does by itself (figure 1 of the BBR paper).
//! In: nothing. Out: its window. Never: a reaction.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::State;
use crate::event::{Ack, Bounds, Snapshot};
use crate::params::params;
use crate::units::Rate;

params! {
    /// The parameters of a constant window.
    FixedParams {
        /// The window.
        cwnd: Packets = 10, 1, 100_000_000, "ours: the initial window of RFC 6928";
    }
}

/// A flow with a constant window.
#[derive(Clone, Debug)]
pub struct Fixed {
    cwnd: u32,
}

impl Fixed {
    pub(crate) const fn new(params: &FixedParams) -> Self {
        Self { cwnd: params.cwnd }
    }

    pub(crate) const fn on_ack(&mut self, _ack: &Ack) {}

    pub(crate) const fn on_rto(&mut self, _ack: &Ack, _first: bool) {}

    pub(crate) const fn on_undo(&mut self, _ack: &Ack) {}

    pub(crate) const fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// No rate of its own: bursts of one packet.
    pub(crate) const fn pacing_rate(&self) -> Rate {
        Rate(8)
    }

    pub(crate) const fn state(&self) -> State {
        State::CongestionAvoidance
    }

    pub(crate) const fn snapshot(&self) -> Snapshot {
        Snapshot {
            state: self.state(),
            bw: Rate(0),
            min_rtt: None,
            pacing_gain: 0,
            cwnd_gain: 0,
            ssthresh: u32::MAX,
            round_count: 0,
            full_bw_reached: true,
            lt_use_bw: false,
            extra_acked: 0,
            bounds: Bounds::NONE,
            undo: Bounds::NONE,
        }
    }
}
