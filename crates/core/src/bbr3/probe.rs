//! BBRv3's ProbeBW: down, cruise, refill, up; the time and extent of probes, and their effect on the model.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::loss::InflightTooHigh;
use super::phase::{Growth, Phase};
use super::rules::{ProbeEnd, ProbeWait, Rules};
use super::{Bbr3, INFINITY, UNIT};
use crate::event::Ack;
use crate::rng::Rng;
use crate::sampler::FlightSample;
use crate::state::Cause;
use crate::units::{Span, Time};
use crate::wide;

/// Stage of a probe whose ACKs are arriving (draft: `BBR.ack_phase`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// Data that outlasts the states of a cycle.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) ack_phase: AckPhase,
    /// Draft: `BBR.is_bw_probe_sample`: ACKs and losses are of packets sent in a probe.
    pub(super) is_bw_probe_sample: bool,
    /// Draft: `BBR.prev_probe_too_high`.
    pub(super) prev_probe_too_high: bool,
    /// Draft: `BBR.prev_probe_precautionary`.
    pub(super) prev_probe_precautionary: bool,
    /// Draft: `BBR.rounds_since_probe_up`.
    pub(super) rounds_since_probe_up: u64,
    /// Draft: `BBR.bw_probe_wait`.
    pub(super) bw_probe_wait: Span,
    /// Draft: `BBR.cycle_stamp`.
    pub(super) cycle_stamp: Time,
    rng: Rng,
    /// Values drawn by the host, for the next wait.
    given: Option<(u64, Span)>,
}

impl Probe {
    pub(super) const NONE: Self = Self {
        ack_phase: AckPhase::Init,
        is_bw_probe_sample: false,
        prev_probe_too_high: false,
        prev_probe_precautionary: false,
        rounds_since_probe_up: 0,
        bw_probe_wait: Span::ZERO,
        cycle_stamp: Time::ZERO,
        rng: Rng::new(0),
        given: None,
    };

    pub(super) fn init(&mut self, seed: u64) {
        *self = Self { rng: Rng::derive(seed, 0x0062_6272_0033), ..Self::NONE };
    }
}

/// Creates a span without the 128 bits that a saturating product takes.
const fn micros(us: u64) -> Span {
    const MOST: u64 = u64::MAX / 1_000;
    Span::nanos(if us < MOST { us * 1_000 } else { MOST * 1_000 })
}

impl<R: Rules> Bbr3<R> {
    /// Sets the next wait for a probe, instead of the value from the seed: for a host with its own random numbers. `rounds` is
    /// the number already counted when the wait begins, `wait` is its whole length.
    pub const fn set_next_draw(&mut self, rounds: u64, wait: Span) {
        self.probe.given = Some((rounds, wait));
    }

    // spec: #probebw-algorithm-details EnterProbeBW
    pub(super) fn enter_probe_bw(&mut self, now: Time, delivered: u64, cause: Cause) {
        self.start_probe_bw_down(now, delivered, cause);
    }

    // spec: #probebw-algorithm-details StartProbeBW_DOWN
    #[inline(never)]
    pub(super) fn start_probe_bw_down(&mut self, now: Time, delivered: u64, cause: Cause) {
        self.reset_congestion_signals();
        self.pick_probe_wait();
        self.probe.cycle_stamp = now;
        self.probe.ack_phase = AckPhase::ProbeStopping;
        self.model.rounds.begin(delivered);
        self.enter(Phase::ProbeBwDown, cause);
    }

    // spec: #probebw-algorithm-details StartProbeBW_CRUISE; Linux bbr_start_bw_probe_cruise, which keeps the short-term
    // bound below the other
    pub(super) fn start_probe_bw_cruise(&mut self, cause: Cause) {
        if R::CRUISE_LOWERS_SHORTTERM && self.bounds.inflight_shortterm != INFINITY {
            self.bounds.inflight_shortterm = self.bounds.inflight_shortterm.min(self.bounds.inflight_longterm);
        }
        self.enter(Phase::ProbeBwCruise, cause);
    }

    // spec: #probebw-algorithm-details StartProbeBW_REFILL; `up_rounds` above 0 only after marks, in Linux
    #[inline(never)]
    pub(super) fn start_probe_bw_refill(&mut self, delivered: u64, up_rounds: u32, cause: Cause) {
        self.bounds.reset_short_term_model();
        self.probe.prev_probe_precautionary = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.model.rounds.begin(delivered);
        self.enter(Phase::ProbeBwRefill { up_rounds }, cause);
    }

    // spec: #probebw-algorithm-details StartProbeBW_UP
    #[inline(never)]
    fn start_probe_bw_up(&mut self, ack: &Ack, up_rounds: u32) {
        self.probe.is_bw_probe_sample = true;
        self.probe.ack_phase = AckPhase::ProbeStarting;
        self.model.rounds.begin(ack.delivered);
        match R::PROBE_END {
            ProbeEnd::TimeAndVolume => self.probe.cycle_stamp = ack.now,
            ProbeEnd::Plateau => self.full_pipe.restart(self.seen.delivery_rate),
        }
        let mut growth = Growth::from(up_rounds);
        growth.raise_inflight_longterm_slope(self.out.cwnd, self.smss());
        self.begin_queue_probe(ack.rs.prior_in_flight);
        self.enter(Phase::ProbeBwUp(growth), Cause::Refilled);
    }

    // spec: #design-considerations-for-choosing-constant-parameters PickProbeWait
    pub(super) fn pick_probe_wait(&mut self) {
        if let Some((rounds, wait)) = self.probe.given.take() {
            (self.probe.rounds_since_probe_up, self.probe.bw_probe_wait) = (rounds, wait);
            return;
        }
        self.probe.rounds_since_probe_up = self.probe.rng.below(u64::from(self.p.bw_probe_rand_rounds));
        let (base, range) = (u64::from(self.p.bw_probe_wait_base), u64::from(self.p.bw_probe_wait_rand));
        let wait_us = match R::PROBE_WAIT {
            ProbeWait::ByVolume => {
                let packets = self.bdp_multiple(self.model.max_bw(), UNIT) / self.smss().max(1);
                wide::saturating_mul(packets, self.min_rtt.min_rtt_us).max(base).min(base + range)
            }
            ProbeWait::Random(with_end) => base + self.probe.rng.below(range + u64::from(with_end)),
        };
        self.probe.bw_probe_wait = micros(wait_us);
    }

    // spec: #probebw-algorithm-details UpdateProbeBWCyclePhase
    #[inline]
    pub(super) fn update_probe_bw_cycle_phase(&mut self, ack: &Ack, flight: &FlightSample) {
        if !self.full_pipe.reached || !self.seen.has_data && R::CYCLE_NEEDS_DATA {
            return;
        }
        if self.adapt_long_term_model(ack, flight) {
            return;
        }
        match self.phase {
            // The two states in which a flow spends nearly all of its life.
            Phase::ProbeBwCruise => {
                self.is_time_to_probe_bw(ack);
            }
            Phase::ProbeBwDown => {
                if !self.is_time_to_probe_bw(ack) && self.is_time_to_cruise(ack) {
                    self.start_probe_bw_cruise(Cause::Drained);
                }
            }
            Phase::ProbeBwRefill { up_rounds } => {
                if self.model.rounds.start {
                    self.start_probe_bw_up(ack, up_rounds);
                }
            }
            Phase::ProbeBwUp(_) => {
                if let Some(cause) = self.is_time_to_go_down(ack) {
                    self.probe.prev_probe_too_high = false;
                    self.start_probe_bw_down(ack.now, ack.delivered, cause);
                }
            }
            Phase::Startup | Phase::Drain { .. } | Phase::ProbeRtt { .. } => {}
        }
    }

    /// Adapts the long-term bound; true if the state has changed.
    // spec: #probebw-algorithm-details AdaptLongTermModel
    #[inline]
    fn adapt_long_term_model(&mut self, ack: &Ack, flight: &FlightSample) -> bool {
        if self.model.rounds.start {
            if self.probe.ack_phase == AckPhase::ProbeStarting {
                self.probe.ack_phase = AckPhase::ProbeFeedback;
            } else if self.probe.ack_phase == AckPhase::ProbeStopping && self.end_probe_feedback(ack) {
                return true;
            }
        }
        if self.is_inflight_too_high(ack, flight) {
            self.end_probe(ack, flight);
            return false;
        }
        if self.bounds.inflight_longterm == INFINITY {
            return false;
        }
        self.bounds.inflight_longterm = self.bounds.inflight_longterm.max(flight.tx_in_flight.into());
        if self.phase.is_up() {
            self.probe_inflight_longterm_upward(ack);
        }
        false
    }

    /// Ends a probe because the ACK's total of losses or marks is too high. The draft has judged each lost packet by itself;
    /// Linux also judges the round as a whole.
    #[inline(never)]
    fn end_probe(&mut self, ack: &Ack, flight: &FlightSample) {
        if self.probe.is_bw_probe_sample && (R::ACK_JUDGES_LOSS || flight.delivered_ce > 0) {
            self.handle_inflight_too_high(&InflightTooHigh {
                now: ack.now,
                delivered: ack.delivered,
                tx_in_flight: flight.tx_in_flight.into(),
                is_app_limited: ack.rs.is_app_limited,
                cause: self.cause_of_congestion(flight),
            });
        }
    }

    /// Handles the last samples of a probe. True: it stopped as a precaution and went well, so another follows at once.
    // Decision: the draft's `return true` belongs to that case only, as its indentation and Linux have it.
    #[inline(never)]
    fn end_probe_feedback(&mut self, ack: &Ack) -> bool {
        self.probe.is_bw_probe_sample = false;
        self.probe.ack_phase = AckPhase::Init;
        if !self.phase.is_in_a_probe_bw_state() {
            return false;
        }
        if !ack.rs.is_app_limited {
            self.model.advance_max_bw_filter();
        }
        let again = self.probe.prev_probe_precautionary && !self.probe.prev_probe_too_high;
        if again {
            self.start_probe_bw_refill(ack.delivered, 0, Cause::ProbeAgain);
        }
        again
    }

    // spec: #design-considerations-for-choosing-constant-parameters IsTimeToProbeBW
    #[inline]
    fn is_time_to_probe_bw(&mut self, ack: &Ack) -> bool {
        let by_marks = if self.ecn.eligible { self.ecn_reprobe_rounds(ack) } else { 0 };
        let cause = if by_marks > 0 {
            Cause::Marks
        } else if self.has_elapsed_in_phase(ack.now, self.probe.bw_probe_wait) {
            Cause::ProbeTimer
        } else if self.is_reno_coexistence_probe_time() {
            Cause::RenoCoexistence
        } else {
            return false;
        };
        self.begin_probe(ack, by_marks, cause);
        true
    }

    #[inline(never)]
    fn begin_probe(&mut self, ack: &Ack, up_rounds: u32, cause: Cause) {
        self.end_queue_cycle();
        self.end_cycle_early(ack);
        self.start_probe_bw_refill(ack.delivered, up_rounds, cause);
    }

    /// Ages the maximum of bandwidth if the cycle ends before the round after its probe.
    // Decision: test case 16 expects the maximum to fall after two cycles. The pseudo-code, and Linux, would keep it for ever on a
    // path of a packet, and where a queue makes rounds so long that ProbeRTT interrupts every probe.
    pub(super) fn end_cycle_early(&mut self, ack: &Ack) {
        let is_unfinished = self.phase.is_in_a_probe_bw_state() && self.probe.ack_phase != AckPhase::Init;
        if is_unfinished && R::ADVANCES_UNFINISHED_CYCLE && !ack.rs.is_app_limited {
            self.model.advance_max_bw_filter();
        }
    }

    // spec: #probebw-algorithm-details HasElapsedInPhase
    #[inline]
    fn has_elapsed_in_phase(&self, now: Time, interval: Span) -> bool {
        let began = self.probe.cycle_stamp;
        if R::CYCLE_IN_MICROS {
            return now.as_micros() > began.as_micros().saturating_add(interval.as_micros());
        }
        now > began + interval
    }

    // spec: #design-considerations-for-choosing-constant-parameters IsRenoCoexistenceProbeTime
    // Decision: rounds are compared with packets; the draft's TargetInflight is in bytes, always more than 63.
    #[inline]
    fn is_reno_coexistence_probe_time(&self) -> bool {
        let rounds = self.probe.rounds_since_probe_up;
        if self.is_too_early_for_renos_probe(rounds) {
            return false;
        }
        // Whole packets of the target, at most as many as the rounds, which are few: at most 10^6 by the first condition.
        rounds >= u64::from(self.p.bw_probe_max_rounds)
            || self.target_inflight() < (rounds + 1).wrapping_mul(self.smss())
    }

    // spec: #probebw-algorithm-details IsTimeToCruise
    #[inline(never)]
    fn is_time_to_cruise(&self, ack: &Ack) -> bool {
        let inflight = if R::CRUISE_BY_PRIOR_FLIGHT { self.prior_inflight(ack) } else { ack.in_flight };
        inflight <= self.inflight_with_headroom() && inflight <= self.inflight(self.model.max_bw(), UNIT)
    }

    /// Returns the volume in flight before this ACK, from which Linux subtracts what the pacer still holds.
    fn prior_inflight(&self, ack: &Ack) -> u64 {
        if R::CYCLE_SEES_PACER { self.in_net_at_edt(ack, ack.rs.prior_in_flight) } else { ack.rs.prior_in_flight }
    }

    // spec: #probebw-algorithm-details IsTimeToGoDown; v2alpha bbr_update_cycle_phase, which has no plateau test
    #[inline(never)]
    fn is_time_to_go_down(&mut self, ack: &Ack) -> Option<Cause> {
        // Decision: before this ACK, as in Linux; after it at least a packet is missing from the window, which the bound caps.
        // Decision: the bound is reached when no further packet fits, since a host that sends whole packets rarely hits a bound in bytes.
        let inflight = self.prior_inflight(ack);
        let is_reached = inflight.saturating_add(self.smss()) > self.bounds.inflight_longterm;
        if self.probe.prev_probe_too_high && is_reached {
            self.probe.prev_probe_precautionary = true;
            return Some(Cause::Precaution);
        }
        if self.has_probed_a_queue() {
            return Some(Cause::Plateau);
        }
        if matches!(R::PROBE_END, ProbeEnd::TimeAndVolume) {
            let at_least = micros(self.min_rtt.min_rtt_us);
            let is_over = self.has_elapsed_in_phase(ack.now, at_least)
                && inflight >= self.inflight(self.model.max_bw(), self.gains.pacing);
            return is_over.then_some(Cause::PhaseOver);
        }
        if ack.cwnd_limited && self.out.cwnd >= self.bounds.inflight_longterm {
            self.full_pipe.restart(self.seen.delivery_rate);
            return None;
        }
        self.full_pipe.now.then_some(Cause::Plateau)
    }

    // spec: #probebw-algorithm-details ProbeInflightLongtermUpward
    #[inline(never)]
    fn probe_inflight_longterm_upward(&mut self, ack: &Ack) {
        let (cwnd, smss) = (self.out.cwnd, self.smss());
        let Phase::ProbeBwUp(growth) = &mut self.phase else {
            return;
        };
        if !ack.cwnd_limited || cwnd < self.bounds.inflight_longterm {
            if !R::PROBE_CREDIT_LASTS {
                growth.acked = 0;
            }
            return;
        }
        let increments = growth.take(ack.rs.acked_sacked);
        if increments > 0 {
            let grown = wide::saturating_mul(increments, smss);
            self.bounds.inflight_longterm = self.bounds.inflight_longterm.saturating_add(grown);
            self.out.try_fast_path = false;
        }
        if self.model.rounds.start {
            growth.raise_inflight_longterm_slope(cwnd, smss);
        }
    }
}
