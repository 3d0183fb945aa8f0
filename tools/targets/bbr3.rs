//! BBRv3 behind the face: the draft's and the kernel's.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::{Face, Flow, Input, Output, ca_state};
use bbrlab_core::{Ack, Bbr3, Bbr3Params, CaState, Edition, FlightSample, Init, TxStart};

/// One type for each, so that each begins by itself.
#[repr(transparent)]
pub struct Draft(Bbr3);
#[repr(transparent)]
pub struct Linux(Bbr3);

macro_rules! bbr3 {
    ($algorithm:ident, $edition:expr) => {
        impl Face for $algorithm {
            #[inline(always)]
            fn init(&mut self, init: &Init) {
                self.0 = Bbr3::new(&Bbr3Params::default(), $edition, init);
            }
            #[inline(always)]
            fn on_ack(&mut self, ack: &Ack) {
                self.0.on_ack(ack, &FlightSample::default());
            }
            #[inline(always)]
            fn on_ca_state(&mut self, old: CaState, new: CaState) {
                self.0.on_ca_state(old, new);
            }
            #[inline(always)]
            fn on_rto(&mut self, ack: &Ack, first: bool) {
                self.0.on_rto(ack, first);
            }
            #[inline(always)]
            fn on_undo(&mut self, ack: &Ack) {
                self.0.on_undo(ack);
            }
            #[inline(always)]
            fn on_tx_start(&mut self, start: &TxStart) {
                self.0.on_tx_start(start);
            }
            #[inline(always)]
            fn on_mss(&mut self, mss: u32) {
                self.0.on_mss(mss);
            }
            #[inline(always)]
            fn outputs(&self) -> Output {
                Output {
                    pacing_rate: self.0.pacing_rate().as_bytes_per_sec(),
                    cwnd: self.0.cwnd(),
                    min_burst: 1,
                    mark_app_limited: self.0.wants_app_limited().into(),
                    state: self.0.state() as u32,
                }
            }
        }
    };
}

bbr3!(Draft, Edition::Draft06);
bbr3!(Linux, Edition::Linux);

#[cfg(bbr3)]
face!(Draft: bbr3_init bbr3_ack bbr3_ca_state bbr3_rto bbr3_undo bbr3_tx_start bbr3_mss);
#[cfg(bbr3_linux)]
face!(Linux: bbr3_linux_init bbr3_linux_ack bbr3_linux_ca_state bbr3_linux_rto bbr3_linux_undo bbr3_linux_tx_start bbr3_linux_mss);
