//! C functions for BBRv3 (the draft's and the kernel's) the kernel's v2, and bbr-lab: whole ACKs, or one step at a time.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::{CongestionOps, Flow, Input, Output, Parameters, Telemetry, export, mark, same_events};
use bbrlab_core::{
    CaState, Init, Rate, Span, Time,
    algorithms::{Ack, Algorithm, Bbr3, Rules, TxStart},
    estimators::FlightSample,
};

impl<R: Rules> CongestionOps for Bbr3<R> {
    #[inline(always)]
    fn init(&mut self, parameters: &Parameters, init: &Init) {
        self.init_with_values(parameters, init);
    }
    #[inline(always)]
    fn on_ack(&mut self, ack: &Ack, flight: &FlightSample) {
        Self::on_ack(self, ack, flight);
    }
    #[inline(always)]
    fn outputs(&self) -> Output {
        Output::of(self, self.pacing_rate())
    }
    same_events!();
    #[inline(always)]
    fn on_lost(&mut self, input: &Input) {
        self.on_lost_packet(&input.lost());
    }
    #[inline(always)]
    fn on_tlp_ack(&mut self) {
        Self::on_tlp_ack(self);
    }
    #[inline(always)]
    fn on_tlp_recovery(&mut self, input: &Input) {
        Self::on_tlp_recovery(self, Time::nanos(input.now_ns), input.delivered, input.marked(mark::APP_LIMITED));
    }
}

/// Defines the events and steps that only BBRv2 and BBRv3 have.
macro_rules! more {
    ($flow:ty: $($name:ident => |$algorithm:ident, $input:ident| $event:expr;)+) => {
        $(
            /// An event that only BBRv2 and BBRv3 handle.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(flow: &mut Flow<$flow>) {
                flow.with(|$algorithm, $input: &Input| $event);
            }
        )+
    };
    ($flow:ty, $round:ident $signals:ident $startup:ident $cycle:ident $rtt:ident $outputs:ident) => {
        more!(step $flow: $round step_round, $signals step_signals, $startup step_startup, $cycle step_cycle, $rtt step_rtt);
        /// The last step of an ACK.
        #[unsafe(no_mangle)]
        pub extern "C" fn $outputs(flow: &mut Flow<$flow>) {
            flow.step(|bbr, ack, flight| bbr.step_outputs(ack, flight));
            flow.end_ack();
        }
    };
    (step $flow:ty: $($name:ident $step:ident),+) => {
        $(
            /// A step of an ACK.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(flow: &mut Flow<$flow>) {
                flow.step(|bbr, ack, flight| bbr.$step(ack, flight));
            }
        )+
    };
}

/// Defines all functions of one edition.
macro_rules! edition {
    ($rules:ident: $bytes:ident $init:ident $ack:ident $ca_state:ident $rto:ident $undo:ident $tx_start:ident $mss:ident $max_rate:ident
     $telemetry:ident, $round:ident $signals:ident $startup:ident $cycle:ident $rtt:ident $outputs:ident, $lost:ident
     $loss:ident $tlp_ack:ident $tlp_recovery:ident $mark:ident $ack_frequency:ident $draw:ident $prior_cwnd:ident) => {
        export!(Bbr3<bbrlab_core::algorithms::$rules>: $bytes $init $ack $ca_state $rto $undo $tx_start $mss $max_rate $telemetry);
        more!(Bbr3<bbrlab_core::algorithms::$rules>, $round $signals $startup $cycle $rtt $outputs);
        more! { Bbr3<bbrlab_core::algorithms::$rules>:
            $lost => |bbr, input| CongestionOps::on_lost(bbr, input);
            $loss => |bbr, input| bbr.on_loss(input.delivered);
            $tlp_ack => |bbr, _input| bbr.on_tlp_ack();
            $tlp_recovery => |bbr, input| CongestionOps::on_tlp_recovery(bbr, input);
            $mark => |bbr, input| bbr.on_congestion_mark(input.packets.into());
            $ack_frequency => |bbr, input| bbr.set_ack_frequency(input.packets, Span::micros(input.span_us));
            $draw => |bbr, input| bbr.set_next_draw(input.rounds, Span::micros(input.span_us));
            $prior_cwnd => |bbr, input| bbr.set_prior_cwnd(input.packets);
        }
    };
}

#[cfg(feature = "bbr3")]
edition! { Draft06: bbr3_bytes bbr3_init bbr3_ack bbr3_ca_state bbr3_rto bbr3_undo bbr3_tx_start bbr3_mss bbr3_max_rate
bbr3_telemetry, bbr3_round bbr3_signals bbr3_startup bbr3_cycle bbr3_rtt bbr3_outputs, bbr3_lost
bbr3_loss bbr3_tlp_ack bbr3_tlp_recovery bbr3_mark bbr3_ack_frequency bbr3_draw bbr3_prior_cwnd }

#[cfg(feature = "bbr3_linux")]
edition! { LinuxV3: bbr3_linux_bytes bbr3_linux_init bbr3_linux_ack bbr3_linux_ca_state bbr3_linux_rto bbr3_linux_undo
bbr3_linux_tx_start bbr3_linux_mss bbr3_linux_max_rate
bbr3_linux_telemetry, bbr3_linux_round bbr3_linux_signals bbr3_linux_startup bbr3_linux_cycle bbr3_linux_rtt
bbr3_linux_outputs, bbr3_linux_lost
bbr3_linux_loss bbr3_linux_tlp_ack bbr3_linux_tlp_recovery bbr3_linux_mark bbr3_linux_ack_frequency bbr3_linux_draw
bbr3_linux_prior_cwnd }

#[cfg(feature = "bbr2")]
edition! { LinuxV2: bbr2_bytes bbr2_init bbr2_ack bbr2_ca_state bbr2_rto bbr2_undo bbr2_tx_start bbr2_mss bbr2_max_rate
bbr2_telemetry, bbr2_round bbr2_signals bbr2_startup bbr2_cycle bbr2_rtt bbr2_outputs, bbr2_lost
bbr2_loss bbr2_tlp_ack bbr2_tlp_recovery bbr2_mark bbr2_ack_frequency bbr2_draw bbr2_prior_cwnd }

#[cfg(feature = "bbr_lab")]
edition! { Lab: bbr_lab_bytes bbr_lab_init bbr_lab_ack bbr_lab_ca_state bbr_lab_rto bbr_lab_undo bbr_lab_tx_start bbr_lab_mss
bbr_lab_max_rate bbr_lab_telemetry, bbr_lab_round bbr_lab_signals bbr_lab_startup bbr_lab_cycle bbr_lab_rtt bbr_lab_outputs,
bbr_lab_lost bbr_lab_loss bbr_lab_tlp_ack bbr_lab_tlp_recovery bbr_lab_mark bbr_lab_ack_frequency bbr_lab_draw bbr_lab_prior_cwnd }

// The steps of an ACK in smaller parts.
#[cfg(feature = "bbr_lab")]
more!(step Bbr3<bbrlab_core::algorithms::Lab>: bbr_lab_min_rtt step_min_rtt, bbr_lab_probe_rtt step_probe_rtt,
    bbr_lab_plan step_plan, bbr_lab_bound step_bound);
/// The last part of an ACK.
#[cfg(feature = "bbr_lab")]
#[unsafe(no_mangle)]
pub extern "C" fn bbr_lab_window(flow: &mut Flow<Bbr3<bbrlab_core::algorithms::Lab>>) {
    flow.step(|bbr, ack, flight| bbr.step_window(ack, flight));
    flow.end_ack();
}
