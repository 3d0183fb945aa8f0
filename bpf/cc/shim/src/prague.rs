//! C functions for TCP Prague.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::{CongestionOps, Output, Parameters, Telemetry, export, same_events};
use bbrlab_core::{
    CaState, Init, Rate,
    algorithms::{Ack, Algorithm, Prague, TxStart},
    estimators::FlightSample,
    params::PragueParams,
};

impl CongestionOps for Prague {
    #[inline(always)]
    fn init(&mut self, parameters: &Parameters, init: &Init) {
        *self = Self::new(&PragueParams::from_values(parameters, 0), init);
    }
    #[inline(always)]
    fn on_ack(&mut self, ack: &Ack, flight: &FlightSample) {
        Algorithm::on_congestion_mark(self, flight.delivered_ce.into());
        Self::on_ack(self, ack);
    }
    same_events!();
    #[inline(always)]
    fn outputs(&self) -> Output {
        let rate = Algorithm::pacing_rate(self).unwrap_or_default();
        Output { ssthresh: self.ssthresh(), ..Output::of(self, rate) }
    }
}

#[cfg(feature = "prague")]
export!(Prague: prague_bytes prague_init prague_ack prague_ca_state prague_rto prague_undo prague_tx_start prague_mss prague_max_rate prague_telemetry);
