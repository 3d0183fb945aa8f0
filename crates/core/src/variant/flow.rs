//! The variants as a controller runs them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Davis, Variant, each};
use crate::State;
use crate::event::{Ack, CaState, Init, TxStart};
use crate::flow::{Algorithm, Sealed};
use crate::sampler::RateSampler;
use crate::snapshot::Snapshot;
use crate::units::Rate;

impl Sealed for Variant {}

// Out of line: what BBRv1 and CUBIC run through must not grow by what they do not run.
impl Algorithm for Variant {
    fn restart(&mut self, init: &Init) {
        each!(self, flow => flow.restart(init));
    }

    #[inline(never)]
    fn on_tx_start(&mut self, start: &TxStart) {
        each!(self, flow => flow.on_tx_start(start));
    }

    #[inline(never)]
    fn on_ack(&mut self, ack: &Ack, sampler: &mut RateSampler) {
        each!(self, flow => Algorithm::on_ack(flow, ack, sampler));
    }

    #[inline(never)]
    fn on_ca_state(&mut self, old: CaState, new: CaState) {
        each!(self, flow => flow.on_ca_state(old, new));
    }

    #[inline(never)]
    fn on_rto(&mut self, ack: &Ack, first: bool) {
        each!(self, flow => flow.on_rto(ack, first));
    }

    #[inline(never)]
    fn on_undo(&mut self, ack: &Ack) {
        each!(self, flow => flow.on_undo(ack));
    }

    fn on_mss(&mut self, mss: u32) {
        each!(self, flow => flow.on_mss(mss));
    }

    fn set_max_pacing_rate(&mut self, most: Option<Rate>) {
        each!(self, flow => flow.set_max_pacing_rate(most));
    }

    #[inline(never)]
    fn cwnd(&self) -> u32 {
        each!(self, flow => flow.cwnd())
    }

    #[inline(never)]
    fn pacing_rate(&self) -> Option<Rate> {
        each!(self, flow => Algorithm::pacing_rate(flow))
    }

    fn min_tso_segs(&self) -> u32 {
        each!(self, flow => flow.min_tso_segs())
    }

    fn wants_app_limited(&self) -> bool {
        each!(self, flow => flow.wants_app_limited())
    }

    fn state(&self) -> State {
        each!(self, flow => flow.state())
    }

    fn snapshot(&self) -> Snapshot {
        each!(self, flow => flow.snapshot())
    }
}

impl Sealed for Davis {}

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

    /// It counts on its window; the rate is for bursts, and for hosts that pace everyone.
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
