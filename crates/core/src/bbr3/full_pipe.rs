//! BBRv3's search for a full pipe: bandwidth that stops growing, or congestion, in Startup and in each probe.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::rules::{LossEvents, Plateau, Rules};
use super::{Bbr3, scaled};
use crate::event::Ack;
use crate::sampler::FlightSample;
use crate::shared;
use crate::state::Cause;

/// State of the search for a full pipe.
#[derive(Clone, Copy, Debug)]
pub(super) struct FullPipe {
    /// Draft: `BBR.full_bw`, `BBR.full_bw_count`.
    pub(super) plateau: shared::FullPipe,
    /// Draft: `BBR.full_bw_now`.
    pub(super) now: bool,
    /// Draft: `BBR.full_bw_reached`.
    pub(super) reached: bool,
    /// Cause of the last finding.
    pub(super) cause: Cause,
}

impl FullPipe {
    pub(super) const NONE: Self =
        Self { plateau: shared::FullPipe { bw: 0, count: 0 }, now: false, reached: false, cause: Cause::Plateau };

    // spec: #exiting-acceleration-based-on-bandwidth-plateau ResetFullBW
    pub(super) const fn reset_full_bw(&mut self) {
        self.plateau = shared::FullPipe { bw: 0, count: 0 };
        self.now = false;
    }

    /// Restarts the search for a plateau from this rate.
    pub(super) const fn restart(&mut self, rate: u64) {
        self.reset_full_bw();
        self.plateau.bw = rate;
    }

    /// Takes a rate; it counts towards a plateau only if `is_round`.
    fn take(&mut self, rate: u64, growth: u32, rounds: u32, is_round: bool) {
        if self.plateau.grew(rate, scaled(self.plateau.bw, growth)) || !is_round {
            return;
        }
        self.now = self.plateau.is_full(rounds);
        if self.now && !self.reached {
            self.reached = true;
            self.cause = Cause::Plateau;
        }
    }
}

impl<R: Rules> Bbr3<R> {
    // spec: #exiting-acceleration-based-on-bandwidth-plateau CheckFullBWReached
    // Decision: a sample without a rate is no evidence; the prose means samples, the pseudo-code would count its 0 as a plateau.
    // Linux takes a higher rate as baseline at any ACK, and counts at rounds; v2alpha tests the maximum, and only in Startup.
    #[inline]
    pub(super) fn check_full_bw_reached(&mut self, ack: &Ack, flight: &FlightSample) {
        // Linux tests full_bw_reached, not the state: losses count in ProbeRTT too.
        if matches!(R::LOSS_EVENTS, LossEvents::AcksWithLoss) && !self.full_pipe.reached {
            self.check_startup_high_loss(ack, flight);
        }
        if !self.model.rounds.start && !matches!(R::PLATEAU, Plateau::EverySample) {
            return; // nearly every ACK
        }
        let of_maximum = matches!(R::PLATEAU, Plateau::RoundMaximum);
        let is_done = if of_maximum { self.full_pipe.reached } else { self.full_pipe.now };
        if is_done || ack.rs.is_app_limited || !self.seen.has_data || self.seen.delivery_rate == 0 {
            return;
        }
        let rate = if of_maximum { self.model.max_bw() } else { self.seen.delivery_rate };
        self.full_pipe.take(rate, self.p.full_bw_growth, self.p.full_bw_rounds, self.model.rounds.start);
    }
}
