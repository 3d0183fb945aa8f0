//! Adapter that runs BBRv2 and BBRv3 in a controller.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Bbr3, Rules};
use crate::State;
use crate::algorithm::Algorithm;
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

    fn on_tx_start(&mut self, start: &TxStart) {
        Self::on_tx_start(self, start);
    }

    fn needs_on_lost(&self) -> bool {
        true
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.on_lost_packet(lost);
    }

    fn on_tlp_ack(&mut self) {
        Self::on_tlp_ack(self);
    }

    fn on_tlp_recovery(&mut self, now: Time, delivered: u64, is_app_limited: bool) {
        Self::on_tlp_recovery(self, now, delivered, is_app_limited);
    }

    fn on_congestion_mark(&mut self, packets: u64) {
        Self::on_congestion_mark(self, packets);
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack, sampler: &mut RateSampler) {
        Self::on_ack(self, ack, &sampler.flight(&ack.rs));
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

    fn on_ack_frequency(&mut self, packets: u32, max_ack_delay: Span) {
        self.set_ack_frequency(packets, max_ack_delay);
    }

    fn set_max_pacing_rate(&mut self, max: Option<Rate>) {
        Self::set_max_pacing_rate(self, max);
    }

    #[inline]
    fn cwnd(&self) -> u32 {
        Self::cwnd(self)
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

    #[inline]
    fn min_tso_segs(&self) -> u32 {
        Self::min_tso_segs(self)
    }

    #[inline]
    fn wants_app_limited(&self) -> bool {
        Self::wants_app_limited(self)
    }

    /// spec: draft-ietf-ccwg-bbr #detecting-application-limited-phases; google/bbr's kernel
    fn wants_app_limited_checks(&self) -> bool {
        true
    }

    /// True for the kernel's editions only where the route enables ECN.
    fn supports_ecn(&self) -> bool {
        self.p.ecn != 0
    }

    fn state(&self) -> State {
        Self::state(self)
    }

    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }
}
