//! C functions for BBRv1 and the variants that replace parts of it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::{CongestionOps, Flow, Output, Parameters, Telemetry, export, same_events};
use bbrlab_core::concrete::{BbrAcd, BbrApg, BbrCpa, BbrS};
use bbrlab_core::{
    CaState, Init, Rate,
    algorithms::{Ack, Algorithm, Bbr1, TxStart},
    estimators::FlightSample,
    params::{AcdParams, ApgParams, Bbr1Params, CpaParams, QuantileParams},
};

macro_rules! bbr1 {
    ($algorithm:ty, $parameters:ident, $init:expr) => {
        impl CongestionOps for $algorithm {
            #[inline(always)]
            fn init(&mut self, $parameters: &Parameters, init: &Init) {
                #[allow(clippy::redundant_closure_call)]
                ($init)(self, init);
            }
            #[inline(always)]
            fn on_ack(&mut self, ack: &Ack, _flight: &FlightSample) {
                Self::on_ack(self, ack);
            }
            #[inline(always)]
            fn outputs(&self) -> Output {
                Output::of(self, self.pacing_rate())
            }
            same_events!();
        }
    };
    // A variant's own parameters come before BBRv1's.
    ($algorithm:ty, $part:ident) => {
        bbr1!($algorithm, parameters, |flow: &mut $algorithm, init: &Init| {
            let base = Bbr1Params::from_values(parameters, $part::SPECS.len());
            flow.init(&base, &$part::from_values(parameters, 0), init);
        });
    };
}

/// Defines one function for each step of an ACK.
macro_rules! steps {
    ($algorithm:ty: $bandwidth:ident $mode:ident $outputs:ident) => {
        /// The first step of an ACK.
        #[unsafe(no_mangle)]
        pub extern "C" fn $bandwidth(flow: &mut Flow<$algorithm>) {
            flow.step(|bbr, ack, _| bbr.step_bandwidth(ack));
        }
        /// A step of an ACK.
        #[unsafe(no_mangle)]
        pub extern "C" fn $mode(flow: &mut Flow<$algorithm>) {
            flow.step(|bbr, ack, _| bbr.step_mode(ack));
        }
        /// The last step of an ACK.
        #[unsafe(no_mangle)]
        pub extern "C" fn $outputs(flow: &mut Flow<$algorithm>) {
            flow.step(|bbr, ack, _| bbr.step_outputs(ack));
            flow.end_ack();
        }
    };
}

bbr1!(Bbr1, parameters, |flow: &mut Bbr1, init: &Init| flow.init(&Bbr1Params::from_values(parameters, 0), &(), init));
bbr1!(BbrCpa, CpaParams);
bbr1!(BbrAcd, AcdParams);
bbr1!(BbrS, QuantileParams);
bbr1!(BbrApg, ApgParams);

#[cfg(feature = "bbr1")]
export!(Bbr1: bbr1_bytes bbr1_init bbr1_ack bbr1_ca_state bbr1_rto bbr1_undo bbr1_tx_start bbr1_mss bbr1_max_rate bbr1_telemetry);
#[cfg(feature = "cpa")]
export!(BbrCpa: cpa_bytes cpa_init cpa_ack cpa_ca_state cpa_rto cpa_undo cpa_tx_start cpa_mss cpa_max_rate cpa_telemetry);
#[cfg(feature = "acd")]
export!(BbrAcd: acd_bytes acd_init acd_ack acd_ca_state acd_rto acd_undo acd_tx_start acd_mss acd_max_rate acd_telemetry);
#[cfg(feature = "bbrs")]
export!(BbrS: bbrs_bytes bbrs_init bbrs_ack bbrs_ca_state bbrs_rto bbrs_undo bbrs_tx_start bbrs_mss bbrs_max_rate bbrs_telemetry);
#[cfg(feature = "apg")]
export!(BbrApg: apg_bytes apg_init apg_ack apg_ca_state apg_rto apg_undo apg_tx_start apg_mss apg_max_rate apg_telemetry);
#[cfg(feature = "bbr1")]
steps!(Bbr1: bbr1_bandwidth bbr1_mode bbr1_outputs);
#[cfg(feature = "cpa")]
steps!(BbrCpa: cpa_bandwidth cpa_mode cpa_outputs);
#[cfg(feature = "acd")]
steps!(BbrAcd: acd_bandwidth acd_mode acd_outputs);
#[cfg(feature = "bbrs")]
steps!(BbrS: bbrs_bandwidth bbrs_mode bbrs_outputs);
#[cfg(feature = "apg")]
steps!(BbrApg: apg_bandwidth apg_mode apg_outputs);
