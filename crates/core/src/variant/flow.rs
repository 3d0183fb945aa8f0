//! [`Algorithm`] for the variants of BBRv1 and for Davis.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Davis, Variant};
use crate::State;
use crate::algorithm::{Algorithm, forward_algorithm};
use crate::event::{Ack, Init};
use crate::sampler::RateSampler;
use crate::snapshot::Snapshot;
use crate::units::Rate;

// Out of line, so that the code paths of BBRv1 and CUBIC do not grow.
forward_algorithm! { out_of_line Variant () { Cpa, Acd, Quantile, Kalman, Apg } }

impl Algorithm for Davis {
    fn restart(&mut self, init: &Init) {
        Self::restart(self, init);
    }

    fn on_ack(&mut self, ack: &Ack, _sampler: &mut RateSampler) {
        Self::on_ack(self, ack);
    }

    fn on_rto(&mut self, ack: &Ack, first: bool) {
        Self::on_rto(self, ack, first);
    }

    fn on_undo(&mut self, ack: &Ack) {
        Self::on_undo(self, ack);
    }

    fn on_mss(&mut self, mss: u32) {
        Self::on_mss(self, mss);
    }

    fn cwnd(&self) -> u32 {
        self.outputs().0
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.outputs().1)
    }

    /// False: the window suffices; the rate is for bursts, and for hosts that pace every flow.
    fn needs_pacing(&self) -> bool {
        false
    }

    fn in_slow_start(&self) -> bool {
        Self::in_slow_start(self)
    }

    fn state(&self) -> State {
        Self::state(self)
    }

    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }
}
