//! Adapter that runs BBRv2 and BBRv3 in a controller.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Bbr3, Rules};
use crate::State;
use crate::algorithm::{Algorithm, own_methods};
use crate::event::{Ack, CaState, Init, Lost, TxStart};
use crate::sampler::RateSampler;
use crate::snapshot::Snapshot;
use crate::units::{Rate, Span, Time};

impl<R: Rules> Algorithm for Bbr3<R> {
    #[inline]
    fn counts_bytes(&self) -> bool {
        !R::COUNTS_PACKETS
    }

    fn restart(&mut self, init: &Init) {
        let params = self.p;
        self.init(&params, init);
    }

    fn needs_on_lost(&self) -> bool {
        true
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.on_lost_packet(lost);
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack, sampler: &mut RateSampler) {
        Self::on_ack(self, ack, &sampler.flight(&ack.rs));
    }

    fn on_ack_frequency(&mut self, packets: u32, max_ack_delay: Span) {
        self.set_ack_frequency(packets, max_ack_delay);
    }

    #[inline]
    fn cwnd_bytes(&self, _mss: u32) -> u64 {
        Self::cwnd_bytes(self)
    }

    #[inline]
    fn pacing_rate(&self) -> Option<Rate> {
        Some(Self::pacing_rate(self))
    }

    #[inline]
    fn own_quantum(&self) -> Option<u64> {
        self.send_quantum()
    }

    /// spec: draft-ietf-ccwg-bbr #detecting-application-limited-phases; google/bbr's kernel
    fn wants_app_limited_checks(&self) -> bool {
        true
    }

    /// True for the kernel's editions only where the route enables ECN.
    fn supports_ecn(&self) -> bool {
        self.p.ecn != 0
    }

    own_methods! {
        mut {
            on_tx_start(start: &TxStart);
            on_tlp_ack();
            on_tlp_recovery(now: Time, delivered: u64, is_app_limited: bool);
            on_congestion_mark(packets: u64);
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
