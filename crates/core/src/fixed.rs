//! A constant window without pacing: a reference that shows the behaviour of the path alone (figure 1 of the BBR paper).
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::algorithm::Algorithm;
use crate::event::{Ack, Init};
use crate::params::params;
use crate::sampler::RateSampler;
use crate::snapshot::Snapshot;
use crate::units::Rate;

params! {
    /// The parameters of a constant window.
    FixedParams {
        /// The window.
        cwnd: Packets = 10, 1, 100_000_000, "ours: the initial window of RFC 6928";
    }
}

/// A flow with a constant window, or with the window and rate that its host sets.
#[derive(Clone, Debug)]
pub struct Fixed {
    cwnd: u32,
    pacing_rate: Option<Rate>,
}

impl Fixed {
    pub(crate) const fn new(params: &FixedParams, _init: &Init) -> Self {
        Self { cwnd: params.cwnd, pacing_rate: None }
    }

    /// Sets the window, at least one packet, and the pacing rate.
    pub(crate) fn set(&mut self, cwnd: u32, pacing_rate: Option<Rate>) {
        (self.cwnd, self.pacing_rate) = (cwnd.max(1), pacing_rate);
    }
}

impl Algorithm for Fixed {
    fn restart(&mut self, _init: &Init) {}

    fn on_ack(&mut self, _ack: &Ack, _sampler: &mut RateSampler) {}

    fn on_rto(&mut self, _ack: &Ack, _first: bool) {}

    fn cwnd(&self) -> u32 {
        self.cwnd
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_rate
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot { full_bw_reached: true, ..Snapshot::of(self.state()) }
    }
}
