//! Adapter that runs BBRv1 and its variants in a controller.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Bbr1, Hooks};
use crate::State;
use crate::algorithm::{Algorithm, own_methods};
use crate::event::{Ack, CaState, Init, TxStart};
use crate::sampler::RateSampler;
use crate::snapshot::Snapshot;
use crate::units::Rate;

impl<V: Hooks> Algorithm for Bbr1<V> {
    #[inline]
    fn on_ack(&mut self, ack: &Ack, sampler: &mut RateSampler) {
        self.part_mut().note_send_elapsed(sampler);
        Self::on_ack(self, ack);
    }

    /// True unless a variant conserves packets for the whole of recovery. BBRv1 conserves them for one round, so with episodes of one
    /// round each its window would never grow. Google's QUIC has the same rule.
    fn continues_recovery(&self) -> bool {
        !self.part.conserves(false, CaState::Recovery)
    }

    #[inline]
    fn pacing_rate(&self) -> Option<Rate> {
        Some(Self::pacing_rate(self))
    }

    own_methods! {
        mut {
            restart(init: &Init);
            on_tx_start(start: &TxStart);
            on_ca_state(old: CaState, new: CaState);
            on_rto(ack: &Ack, first: bool);
            on_undo(ack: &Ack);
            on_mss(mss: u32);
            set_max_pacing_rate(max: Option<Rate>);
        }
        read {
            #[inline]
            cwnd() -> u32;
            #[inline]
            min_tso_segs() -> u32;
            #[inline]
            wants_app_limited() -> bool;
            state() -> State;
            snapshot() -> Snapshot;
        }
    }
}
