//! [`Algorithm`] for the variants of BBRv1 and for Davis.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Davis, Variant};
use crate::State;
use crate::algorithm::{Algorithm, forward_algorithm, own_methods};
use crate::event::{Ack, Init};
use crate::sampler::RateSampler;
use crate::snapshot::Snapshot;
use crate::units::Rate;

// Out of line, so that the code paths of BBRv1 and CUBIC do not grow.
forward_algorithm! { out_of_line Variant () { Cpa, Acd, Quantile, Kalman, Apg } }

impl Algorithm for Davis {
    fn on_ack(&mut self, ack: &Ack, _sampler: &mut RateSampler) {
        Self::on_ack(self, ack);
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

    own_methods! {
        mut {
            restart(init: &Init);
            on_rto(ack: &Ack, first: bool);
            on_undo(ack: &Ack);
            on_mss(mss: u32);
        }
        read {
            in_slow_start() -> bool;
            state() -> State;
            snapshot() -> Snapshot;
        }
    }
}
