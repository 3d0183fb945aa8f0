//! Adapter that runs Reno and CUBIC in a controller.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::LossBased;
use crate::State;
use crate::algorithm::Algorithm;
use crate::event::{Ack, CaState, Init, TxStart};
use crate::sampler::RateSampler;
use crate::snapshot::Snapshot;
use crate::units::Rate;

impl Algorithm for LossBased {
    fn restart(&mut self, init: &Init) {
        Self::restart(self, init);
    }

    #[inline]
    fn on_sent(&mut self, packets: u32) {
        Self::on_sent(self, packets);
    }

    fn on_tx_start(&mut self, start: &TxStart) {
        Self::on_tx_start(self, start);
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack, _sampler: &mut RateSampler) {
        Self::on_ack(self, ack);
    }

    fn on_ca_state(&mut self, _old: CaState, new: CaState) {
        Self::on_ca_state(self, new);
    }

    fn on_recovery_by_timer(&mut self, ack: &Ack) {
        self.reduce(ack);
    }

    fn on_rto(&mut self, ack: &Ack, first: bool) {
        Self::on_rto(self, ack, first);
    }

    fn on_undo(&mut self, ack: &Ack) {
        Self::on_undo(self, ack);
    }

    fn on_cwnd_unused(&mut self, used: u32) {
        Self::on_cwnd_unused(self, used);
    }

    fn on_mss(&mut self, mss: u32) {
        Self::on_mss(self, mss);
    }

    fn set_max_pacing_rate(&mut self, max: Option<Rate>) {
        Self::set_max_pacing_rate(self, max);
    }

    #[inline]
    fn cwnd(&self) -> u32 {
        Self::cwnd(self)
    }

    #[inline]
    fn pacing_rate(&self) -> Option<Rate> {
        Some(Self::pacing_rate(self))
    }

    fn needs_pacing(&self) -> bool {
        false
    }

    /// True: a mark starts a reduction like a loss, through the host's recovery state.
    fn supports_ecn(&self) -> bool {
        true
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
