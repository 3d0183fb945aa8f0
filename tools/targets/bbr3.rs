//! BBRv3 behind the face: the draft's and the kernel's, whole ACKs and the steps of one by itself.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::{Face, Flow, Input, Output, ca_state};
use bbrlab_core::{
    Ack, Bbr3, Bbr3Params, CaState, Draft06, FlightSample, Init, Linux, Rate, Rules, Span, Time, TxStart,
};

impl<R: Rules> Face for Bbr3<R> {
    #[inline(always)]
    fn init(&mut self, init: &Init) {
        Self::init(self, &Bbr3Params::default(), init);
    }
    #[inline(always)]
    fn on_ack(&mut self, ack: &Ack, flight: &FlightSample) {
        Self::on_ack(self, ack, flight);
    }
    #[inline(always)]
    fn on_ca_state(&mut self, old: CaState, new: CaState) {
        Self::on_ca_state(self, old, new);
    }
    #[inline(always)]
    fn on_rto(&mut self, ack: &Ack, first: bool) {
        Self::on_rto(self, ack, first);
    }
    #[inline(always)]
    fn on_undo(&mut self, ack: &Ack) {
        Self::on_undo(self, ack);
    }
    #[inline(always)]
    fn on_tx_start(&mut self, start: &TxStart) {
        Self::on_tx_start(self, start);
    }
    #[inline(always)]
    fn on_mss(&mut self, mss: u32) {
        Self::on_mss(self, mss);
    }
    #[inline(always)]
    fn outputs(&self) -> Output {
        Output {
            pacing_rate: self.pacing_rate().as_bytes_per_sec(),
            cwnd: self.cwnd(),
            min_burst: self.min_tso_segs(),
            mark_app_limited: self.wants_app_limited().into(),
            state: self.state() as u32,
        }
    }
}

impl<R: Rules> Flow<Bbr3<R>> {
    /// The ACK that the steps then share.
    #[inline(always)]
    fn begin_ack(&mut self) {
        self.input.fill(&mut self.ack);
        self.input.fill_flight(&mut self.flight);
    }

    #[inline(always)]
    fn step(&mut self, step: impl FnOnce(&mut Bbr3<R>, &Ack, &FlightSample)) {
        // SAFETY: the memory was zero, or an algorithm has begun in it; both are values of it.
        step(unsafe { self.algorithm.assume_init_mut() }, &self.ack, &self.flight);
    }

    #[inline(always)]
    fn end_ack(&mut self) {
        self.with(|_, _| {});
    }
}

/// What only BBRv3 has of events, and its steps.
macro_rules! more {
    ($flow:ty: $($name:ident => |$algorithm:ident, $input:ident| $event:expr;)+) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(flow: &mut Flow<$flow>) {
                flow.with(|$algorithm, $input: &Input| $event);
            }
        )+
    };
    ($flow:ty, $begin:ident $round:ident $signals:ident $startup:ident $cycle:ident $rtt:ident $outputs:ident) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $begin(flow: &mut Flow<$flow>) {
            flow.begin_ack();
        }
        more!(step $flow: $round step_round, $signals step_signals, $startup step_startup, $cycle step_cycle, $rtt step_rtt);
        #[unsafe(no_mangle)]
        pub extern "C" fn $outputs(flow: &mut Flow<$flow>) {
            flow.step(|bbr, ack, flight| bbr.step_outputs(ack, flight));
            flow.end_ack();
        }
    };
    (step $flow:ty: $($name:ident $step:ident),+) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(flow: &mut Flow<$flow>) {
                flow.step(|bbr, ack, flight| bbr.$step(ack, flight));
            }
        )+
    };
}

#[cfg(bbr3)]
mod draft {
    use super::*;
    type Draft = Bbr3<Draft06>;
    face!(Draft: bbr3_init bbr3_ack bbr3_ca_state bbr3_rto bbr3_undo bbr3_tx_start bbr3_mss);
    more!(Draft, bbr3_begin bbr3_round bbr3_signals bbr3_startup bbr3_cycle bbr3_rtt bbr3_outputs);
    more! { Draft:
        bbr3_lost => |bbr, input| bbr.on_lost_packet(&input.lost());
        bbr3_loss => |bbr, input| bbr.on_loss(input.delivered);
        bbr3_tlp_ack => |bbr, _input| bbr.on_tlp_ack();
        bbr3_tlp_recovery => |bbr, input| bbr.on_tlp_recovery(Time::nanos(input.now_ns), input.delivered, input.marked(0));
        bbr3_mark => |bbr, input| bbr.on_congestion_mark(input.packets.into());
        bbr3_max_rate => |bbr, input| bbr.set_max_pacing_rate(Some(Rate::bytes_per_sec(input.max_rate)));
        bbr3_ack_frequency => |bbr, input| bbr.set_ack_frequency(input.packets, Span::micros(input.span_us));
        bbr3_draw => |bbr, input| bbr.set_next_draw(input.rounds, Span::micros(input.span_us));
        bbr3_prior_cwnd => |bbr, input| bbr.set_prior_cwnd(input.packets);
    }
}

#[cfg(bbr3_linux)]
mod linux {
    use super::*;
    type Kernel = Bbr3<Linux>;
    face!(Kernel: bbr3_linux_init bbr3_linux_ack bbr3_linux_ca_state bbr3_linux_rto bbr3_linux_undo bbr3_linux_tx_start bbr3_linux_mss);
    more!(Kernel, bbr3_linux_begin bbr3_linux_round bbr3_linux_signals bbr3_linux_startup bbr3_linux_cycle bbr3_linux_rtt bbr3_linux_outputs);
    more! { Kernel:
        bbr3_linux_lost => |bbr, input| bbr.on_lost_packet(&input.lost());
        bbr3_linux_loss => |bbr, input| bbr.on_loss(input.delivered);
        bbr3_linux_tlp_ack => |bbr, _input| bbr.on_tlp_ack();
        bbr3_linux_tlp_recovery => |bbr, input| bbr.on_tlp_recovery(Time::nanos(input.now_ns), input.delivered, input.marked(0));
        bbr3_linux_mark => |bbr, input| bbr.on_congestion_mark(input.packets.into());
        bbr3_linux_max_rate => |bbr, input| bbr.set_max_pacing_rate(Some(Rate::bytes_per_sec(input.max_rate)));
        bbr3_linux_ack_frequency => |bbr, input| bbr.set_ack_frequency(input.packets, Span::micros(input.span_us));
        bbr3_linux_draw => |bbr, input| bbr.set_next_draw(input.rounds, Span::micros(input.span_us));
        bbr3_linux_prior_cwnd => |bbr, input| bbr.set_prior_cwnd(input.packets);
    }
}
