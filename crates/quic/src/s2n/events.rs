//! Publication of our controllers' state as s2n-quic events.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::time::Duration;

use bbrlab_core::{Controller, State};
use num_rational::Ratio;
use s2n_quic::provider::congestion_controller::Publisher;
use s2n_quic_core::event::builder::BbrState;
use s2n_quic_core::recovery::bandwidth::Bandwidth;

/// Values published last.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastPublished {
    state: Option<State>,
    pacing_bytes_per_s: Option<u64>,
}

/// Converts a state to s2n-quic's; a state that BBR does not have gives `None`.
const fn known(state: State) -> Option<BbrState> {
    Some(match state {
        State::Startup => BbrState::Startup,
        State::Drain => BbrState::Drain,
        State::ProbeBwDown => BbrState::ProbeBwDown,
        State::ProbeBwCruise => BbrState::ProbeBwCruise,
        State::ProbeBwRefill => BbrState::ProbeBwRefill,
        State::ProbeBwUp => BbrState::ProbeBwUp,
        State::ProbeRtt => BbrState::ProbeRtt,
        _ => return None,
    })
}

impl LastPublished {
    /// Publishes the values that have changed.
    pub fn update(&mut self, cc: &Controller, publisher: &mut impl Publisher) {
        let state = cc.state();
        if self.state != Some(state) {
            self.state = Some(state);
            if let Some(state) = known(state) {
                publisher.on_bbr_state_changed(state);
            }
        }
        let Some(rate) = cc.pacing_rate().filter(|_| cc.needs_pacing()) else { return };
        let rate = rate.as_bytes_per_sec();
        if self.pacing_bytes_per_s != Some(rate) {
            self.pacing_bytes_per_s = Some(rate);
            let burst = u32::try_from(cc.send_quantum()).unwrap_or(u32::MAX);
            let gain = Ratio::new(cc.snapshot().pacing_gain.into(), 256);
            publisher.on_pacing_rate_updated(Bandwidth::new(rate, Duration::from_secs(1)), burst, gain);
        }
    }
}
