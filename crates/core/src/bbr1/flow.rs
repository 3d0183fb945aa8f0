//! Adapter that runs BBRv1 and its variants in a controller.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Bbr1, Hooks};
use crate::State;
use crate::algorithm::Algorithm;
use crate::event::{Ack, CaState, Init, TxStart};
use crate::sampler::RateSampler;
use crate::snapshot::Snapshot;
use crate::units::Rate;

impl<V: Hooks> Algorithm for Bbr1<V> {
    fn restart(&mut self, init: &Init) {
        Self::restart(self, init);
    }

    fn on_tx_start(&mut self, start: &TxStart) {
        Self::on_tx_start(self, start);
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack, sampler: &mut RateSampler) {
        self.part_mut().note_send_elapsed(sampler);
        Self::on_ack(self, ack);
    }

    fn on_ca_state(&mut self, old: CaState, new: CaState) {
        Self::on_ca_state(self, old, new);
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

    #[inline]
    fn min_tso_segs(&self) -> u32 {
        Self::min_tso_segs(self)
    }

    #[inline]
    fn wants_app_limited(&self) -> bool {
        Self::wants_app_limited(self)
    }

    fn state(&self) -> State {
        Self::state(self)
    }

    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }
}
