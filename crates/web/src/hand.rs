//! A flow whose rate a person sets. Its inputs are kept with their times, so that a run can be repeated.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::{Arc, Mutex, PoisonError};

use bbrlab_core::{Rate, Time};
use bbrlab_sim::tcp::{AckEvent, ExternalControl, Steering};

/// Window of a flow that is steered by its rate alone. Ours: more than the largest path of the page holds.
const CWND: u32 = 20_000;
/// Rate before the first input. Ours: slow enough for a modem.
const RATE_FIRST: Rate = Rate::bits_per_sec(1_000_000);
/// Range of rates, bit/s. The smallest sends a packet in a tenth of a second, so that a new rate takes effect by then.
const RATE_RANGE: (f64, f64) = (100_000.0, 100e9);

/// Inputs: times and rates, in the order of their times.
#[derive(Clone, Debug, Default)]
pub struct Inputs(Arc<Mutex<Vec<(Time, Rate)>>>);

impl Inputs {
    /// Adds an input. One of an earlier time than the last replaces those after it.
    pub fn add(&self, at: Time, rate_bps: f64) {
        let rate = if rate_bps.is_finite() { rate_bps.clamp(RATE_RANGE.0, RATE_RANGE.1) } else { RATE_RANGE.0 };
        let mut inputs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inputs.retain(|(known, _)| *known < at);
        inputs.push((at, Rate::bits_per_sec(rate as u64)));
    }

    fn at(&self, now: Time) -> Steering {
        let inputs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = inputs.partition_point(|(at, _)| *at <= now);
        let rate = known.checked_sub(1).and_then(|last| inputs.get(last)).map_or(RATE_FIRST, |(_, rate)| *rate);
        Steering { cwnd: CWND, pacing_rate: Some(rate) }
    }
}

/// The simulator's end of a hand.
pub struct Hand(pub Inputs);

impl ExternalControl for Hand {
    fn on_start(&mut self, now: Time, _mss: u32) -> Steering {
        self.0.at(now)
    }

    fn on_ack(&mut self, ack: &AckEvent) -> Steering {
        self.0.at(ack.now)
    }

    fn on_sent(&mut self, now: Time, _packets: u32, _inflight: u32) -> Option<Steering> {
        Some(self.0.at(now))
    }
}
