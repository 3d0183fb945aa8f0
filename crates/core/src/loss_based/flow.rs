//! Adapter that runs Reno, CUBIC and DCTCP in a controller.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Growth, LossBased};
use crate::State;
use crate::algorithm::{Algorithm, own_methods};
use crate::event::{Ack, CaState, Init, TxStart};
use crate::sampler::RateSampler;
use crate::snapshot::Snapshot;
use crate::units::Rate;

impl Algorithm for LossBased {
    #[inline]
    fn on_ack(&mut self, ack: &Ack, _sampler: &mut RateSampler) {
        Self::on_ack(self, ack);
    }

    fn on_ca_state(&mut self, _old: CaState, new: CaState) {
        Self::on_ca_state(self, new);
    }

    fn on_congestion_mark(&mut self, packets: u64) {
        Self::on_congestion_mark(self, packets);
    }

    fn on_marked_round(&mut self, una: u64, next: u64, delivered: u64) {
        if let Growth::Dctcp(dctcp) = &mut self.growth {
            dctcp.end_round(una, next, delivered);
        }
    }

    fn on_recovery_by_timer(&mut self, ack: &Ack) {
        self.reduce(ack);
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

    own_methods! {
        mut {
            restart(init: &Init);
            #[inline]
            on_sent(packets: u32);
            on_tx_start(start: &TxStart);
            on_rto(ack: &Ack, first: bool);
            on_undo(ack: &Ack);
            on_reduction_stopped();
            on_cwnd_unused(used: u32);
            on_mss(mss: u32);
            set_max_pacing_rate(max: Option<Rate>);
        }
        read {
            #[inline]
            cwnd() -> u32;
            in_slow_start() -> bool;
            state() -> State;
            snapshot() -> Snapshot;
        }
    }
}
