//! BBRv3's Startup and Drain: doubling until bandwidth stops growing or loss is high, then emptying the queue that built up.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::phase::Phase;
use super::rules::{LossEvents, Marks, Rules, StartupBound};
use super::{Bbr3, UNIT};
use crate::State;
use crate::event::{Ack, CaState};
use crate::sampler::FlightSample;
use crate::state::Cause;

impl<R: Rules> Bbr3<R> {
    // spec: #startup-dynamics EnterStartup
    pub(super) fn enter_startup(&mut self, cause: Cause) {
        self.enter(Phase::Startup, cause);
    }

    // spec: #drain EnterDrain; Linux bbr_check_drain, which also resets the signals of Startup
    fn enter_drain(&mut self) {
        self.enter(Phase::Drain { start_round: self.model.rounds.count }, self.full_pipe.cause);
        if R::DRAIN_FORGETS_SIGNALS {
            self.reset_congestion_signals();
        }
    }

    // spec: #startup-dynamics CheckStartupDone. Linux checks losses before it checks for a plateau.
    // Decision: losses are checked in every state unless the pipe was full before this ACK, as in Linux, so also in a ProbeRTT that
    // interrupts Startup; the draft has no such guard, and would take each round of high loss in ProbeBW for the end of Startup.
    #[inline]
    pub(super) fn check_startup_done(&mut self, ack: &Ack, flight: &FlightSample) {
        if !self.full_pipe.reached || self.phase.is_startup() {
            self.check_startup(ack, flight);
        }
        if matches!(R::LOSS_EVENTS, LossEvents::Gaps) && self.bounds.loss_round_start {
            self.bounds.loss_events_in_round = 0;
        }
    }

    #[inline(never)]
    fn check_startup(&mut self, ack: &Ack, flight: &FlightSample) {
        if matches!(R::LOSS_EVENTS, LossEvents::Gaps) {
            self.check_startup_high_loss(ack, flight);
        }
        if self.full_pipe.reached && self.phase.is_startup() {
            self.enter_drain();
        }
    }

    // spec: #exiting-startup-based-on-packet-loss CheckStartupHighLoss. Decision: the draft has only prose; this is what Linux
    // bbr_check_loss_too_high_in_startup does at the end of a round of loss, but with gaps in the sequence where Linux
    // counts ACKs with loss.
    #[inline(never)]
    pub(super) fn check_startup_high_loss(&mut self, ack: &Ack, flight: &FlightSample) {
        let counts_acks = matches!(R::LOSS_EVENTS, LossEvents::AcksWithLoss);
        if counts_acks && ack.rs.losses > 0 {
            self.bounds.note_ack_with_loss();
        }
        // Decision: marks start no fast recovery, so those that the draft's edition treats as losses need none.
        let by_marks = matches!(R::MARKS, Marks::Loss) && self.p.ecn != 0 && flight.delivered_ce > 0;
        let in_recovery = ack.ca_state == CaState::Recovery || by_marks;
        let is_high = if R::NON_SACK_RULE && !self.host.has_selective_acks {
            ack.rs.losses > 0 || self.bounds.is_loss_in_round
        } else {
            // A round of loss begins with its first loss, so recovery has then lasted for a whole round.
            self.bounds.loss_round_start
                && self.p.startup_full_loss_cnt > 0
                && self.bounds.loss_events_in_round >= self.p.startup_full_loss_cnt
                && self.is_inflight_too_high(ack, flight)
        };
        if in_recovery && is_high && self.model.max_bw() > 0 {
            let cause = if by_marks { self.cause_of_congestion(flight) } else { Cause::Loss };
            self.leave_startup_by_congestion(cause);
        } else if counts_acks && self.bounds.loss_round_start {
            self.bounds.loss_events_in_round = 0;
        }
    }

    /// Leaves Startup because of loss (or marks): the long-term bound becomes what was delivered.
    #[inline(never)]
    pub(super) fn leave_startup_by_congestion(&mut self, cause: Cause) {
        self.undo.state = Some(State::Startup);
        self.full_pipe.reached = true;
        self.full_pipe.cause = cause;
        // Decision: both flags, as in the draft's second test case.
        self.full_pipe.now = matches!(R::STARTUP_BOUND, StartupBound::BdpOrLatest);
        let (bdp, latest) = match R::STARTUP_BOUND {
            StartupBound::BdpOrLatest => (self.bdp_multiple(self.bw(), UNIT), self.model.inflight_latest),
            StartupBound::InflightOrLatest => (self.inflight(self.model.max_bw(), UNIT), self.model.inflight_latest),
            StartupBound::Inflight => (self.inflight(self.model.max_bw(), UNIT), 0),
        };
        // Decision: never below the smallest window.
        self.bounds.inflight_longterm = bdp.max(latest).max(self.host.min_pipe_cwnd());
    }

    // spec: #drain CheckDrainDone
    // Decision: Inflight(1.0) is of max_bw, as in Linux, not of a bound that losses in Startup have lowered meanwhile.
    // Decision: "> start + 3", as in the pseudo-code: three whole rounds even if Drain began in the middle of one.
    #[inline]
    pub(super) fn check_drain_done(&mut self, ack: &Ack) {
        if let Phase::Drain { start_round } = self.phase {
            self.check_drain(ack, start_round);
        }
    }

    #[inline(never)]
    fn check_drain(&mut self, ack: &Ack, start_round: u64) {
        let rounds = u64::from(self.p.drain_rounds);
        if self.in_net_at_edt(ack, ack.in_flight) <= self.inflight(self.model.max_bw(), UNIT) {
            self.enter_probe_bw(ack.now, ack.delivered, Cause::Drained);
        } else if rounds > 0 && self.model.rounds.count > start_round.saturating_add(rounds) {
            self.enter_probe_bw(ack.now, ack.delivered, Cause::DrainedLongEnough);
        }
    }
}
