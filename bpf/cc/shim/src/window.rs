//! C functions for algorithms that set a window and leave pacing to the host: Davis, CUBIC, Reno and DCTCP.
//! For the last three the host also reduces the window by itself.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::{CongestionOps, Flow, Input, Output, Parameters, Telemetry, export, same_events};
use bbrlab_core::{
    CaState, Init, Rate,
    algorithms::{Ack, Algorithm, Davis, HostWindow, LossBased, TxStart},
    estimators::FlightSample,
    params::{CubicParams, DavisParams, DctcpParams, RenoParams},
};

impl CongestionOps for Davis {
    #[inline(always)]
    fn init(&mut self, parameters: &Parameters, init: &Init) {
        *self = Self::new(&DavisParams::from_values(parameters, 0), init);
    }
    #[inline(always)]
    fn on_ack(&mut self, ack: &Ack, _flight: &FlightSample) {
        Self::on_ack(self, ack);
    }
    same_events!();
    #[inline(always)]
    fn outputs(&self) -> Output {
        let (cwnd, rate) = Self::outputs(self);
        let state = Algorithm::state(self) as u32;
        Output { pacing_rate: rate.as_bytes_per_sec(), cwnd, min_burst: 1, state, ..Output::default() }
    }
}

#[cfg(feature = "davis")]
export!(Davis: davis_bytes davis_init davis_ack davis_ca_state davis_rto davis_undo davis_tx_start davis_mss davis_max_rate davis_telemetry);

/// CUBIC. It shares a type with Reno and DCTCP; each has its own `init`.
#[repr(transparent)]
pub struct Cubic(LossBased);
/// Reno.
#[repr(transparent)]
pub struct Reno(LossBased);
/// DCTCP.
#[repr(transparent)]
pub struct Dctcp(LossBased);

macro_rules! hosted {
    ($algorithm:ident, $new:ident, $params:ident, { $($own:item)* }) => {
        impl CongestionOps for $algorithm {
            #[inline(always)]
            fn init(&mut self, parameters: &Parameters, init: &Init) {
                self.0 = LossBased::$new(&$params::from_values(parameters, 0), init);
            }
            // Takes over the host's changes to the window since the last call.
            #[inline(always)]
            fn read(&mut self, input: &Input) {
                let window = HostWindow { cwnd: input.cwnd, cwnd_count: input.cwnd_count, ssthresh: input.ssthresh };
                self.0.set_window(window, Rate::bytes_per_sec(input.pacing_rate));
            }
            #[inline(always)]
            fn on_ack(&mut self, ack: &Ack, _flight: &FlightSample) {
                self.0.on_cong_avoid(ack);
            }
            $($own)*
            fn on_undo(&mut self, _ack: &Ack) {}
            #[inline(always)]
            fn on_tx_start(&mut self, start: &TxStart) {
                self.0.on_hosted_tx_start(start);
            }
            #[inline(always)]
            fn on_mss(&mut self, mss: u32) {
                self.0.on_mss(mss);
            }
            #[inline(always)]
            fn threshold(&mut self) -> u32 {
                self.0.recalc_ssthresh()
            }
            #[inline(always)]
            fn outputs(&self) -> Output {
                let window = self.0.window();
                Output {
                    cwnd: window.cwnd,
                    cwnd_count: window.cwnd_count,
                    ssthresh: window.ssthresh,
                    state: self.0.state() as u32,
                    min_burst: 2,
                    ..Output::default()
                }
            }
            #[inline(always)]
            fn telemetry(&self, into: &mut Telemetry) {
                into.fill(&self.0.snapshot());
            }
        }
    };
    ($algorithm:ident: $rtt:ident $threshold:ident) => {
        /// Handles an RTT measurement; for DCTCP an ACK's marks.
        #[unsafe(no_mangle)]
        pub extern "C" fn $rtt(flow: &mut Flow<$algorithm>) {
            flow.with_ack(|algorithm, _, ack, flight| algorithm.on_rtt(ack, flight));
        }
        /// Slow-start threshold after a loss.
        #[unsafe(no_mangle)]
        pub extern "C" fn $threshold(flow: &mut Flow<$algorithm>) {
            let mut threshold = 0;
            flow.with(|algorithm, _| threshold = algorithm.threshold());
            flow.output.ssthresh = threshold;
        }
    };
}

/// CUBIC and Reno: they ignore a change of the recovery state, and handle a time-out and each RTT.
macro_rules! by_loss {
    ($algorithm:ident, $new:ident, $params:ident) => {
        hosted!($algorithm, $new, $params, {
            fn on_ca_state(&mut self, _old: CaState, _new: CaState) {}
            #[inline(always)]
            fn on_rto(&mut self, ack: &Ack, _first: bool) {
                self.0.on_loss_state(ack);
            }
            #[inline(always)]
            fn on_rtt(&mut self, ack: &Ack, _flight: &FlightSample) {
                self.0.on_pkts_acked(ack);
            }
        });
    };
}

by_loss!(Cubic, cubic, CubicParams);
by_loss!(Reno, reno, RenoParams);

hosted!(Dctcp, dctcp, DctcpParams, {
    #[inline(always)]
    fn on_ca_state(&mut self, old: CaState, new: CaState) {
        if new == CaState::Recovery && old != CaState::Recovery {
            self.0.on_hosted_loss();
        }
    }
    #[inline(always)]
    fn on_rto(&mut self, _ack: &Ack, _first: bool) {
        self.0.on_hosted_loss();
    }
    #[inline(always)]
    fn on_rtt(&mut self, ack: &Ack, flight: &FlightSample) {
        self.0.on_in_ack_event(ack, flight.delivered_ce.into());
    }
});

#[cfg(feature = "cubic")]
export!(Cubic: cubic_bytes cubic_init cubic_ack cubic_ca_state cubic_rto cubic_undo cubic_tx_start cubic_mss cubic_max_rate cubic_telemetry);
#[cfg(feature = "cubic")]
hosted!(Cubic: cubic_rtt cubic_threshold);
#[cfg(feature = "reno")]
export!(Reno: reno_bytes reno_init reno_ack reno_ca_state reno_rto reno_undo reno_tx_start reno_mss reno_max_rate reno_telemetry);
#[cfg(feature = "reno")]
hosted!(Reno: reno_rtt reno_threshold);
#[cfg(feature = "dctcp")]
export!(Dctcp: dctcp_bytes dctcp_init dctcp_ack dctcp_ca_state dctcp_rto dctcp_undo dctcp_tx_start dctcp_mss dctcp_max_rate dctcp_telemetry);
#[cfg(feature = "dctcp")]
hosted!(Dctcp: dctcp_rtt dctcp_threshold);
