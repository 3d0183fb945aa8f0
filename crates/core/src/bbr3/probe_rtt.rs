//! BBRv3's ProbeRTT: inflight is held low for a moment, to measure the path's own delay.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::Bbr3;
use super::phase::Phase;
use super::probe::AckPhase;
use super::rules::Rules;
use crate::event::Ack;
use crate::state::Cause;
use crate::units::Time;

impl<R: Rules> Bbr3<R> {
    // spec: #probertt-logic CheckProbeRTT
    #[inline]
    pub(super) fn check_probe_rtt(&mut self, ack: &Ack) {
        if self.min_rtt.probe_rtt_expired && !self.idle_restart && !self.phase.is_probe_rtt() {
            self.enter_probe_rtt(ack);
        }
        self.mark_app_limited = self.phase.is_probe_rtt();
        if self.mark_app_limited {
            self.handle_probe_rtt(ack);
        }
        if ack.rs.delivered.unwrap_or(0) > 0 {
            self.idle_restart = false;
        }
    }

    // spec: #probertt-logic EnterProbeRTT, and what CheckProbeRTT does after it
    #[inline(never)]
    fn enter_probe_rtt(&mut self, ack: &Ack) {
        self.end_cycle_early(ack);
        self.enter(Phase::ProbeRtt { done_stamp: None, round_done: false }, Cause::MinRttExpired);
        // The state comes first, as in the draft and in Linux: a window saved by recovery is kept if it is larger.
        self.save_cwnd();
        self.probe.ack_phase = AckPhase::ProbeStopping;
        self.model.rounds.begin(ack.delivered);
    }

    /// Starts both waits, a time and a round, once the queue has drained.
    // spec: #probertt-logic HandleProbeRTT
    #[inline(never)]
    fn handle_probe_rtt(&mut self, ack: &Ack) {
        let (max, start) = (self.probe_rtt_cwnd(), self.model.rounds.start);
        let done = self.tick(ack.now, ack.tick).saturating_add(self.ticks(self.p.probe_rtt_duration));
        let Phase::ProbeRtt { done_stamp, round_done } = &mut self.phase else {
            return;
        };
        if done_stamp.is_none() {
            if ack.in_flight <= max {
                (*done_stamp, *round_done) = (Some(done), false);
                self.model.rounds.begin(ack.delivered);
            }
            return;
        }
        *round_done |= start;
        if *round_done {
            self.check_probe_rtt_done(ack.now, ack.tick, ack.delivered);
        }
    }

    // spec: #probertt-logic CheckProbeRTTDone
    pub(super) fn check_probe_rtt_done(&mut self, now: Time, host_tick: Option<u64>, delivered: u64) {
        let Phase::ProbeRtt { done_stamp: Some(done), .. } = self.phase else {
            return;
        };
        let tick = self.tick(now, host_tick);
        if tick <= done {
            return;
        }
        self.min_rtt.set_probe_rtt_min_stamp(tick);
        self.restore_cwnd();
        self.exit_probe_rtt(now, delivered);
    }

    // spec: #exiting-probertt ExitProbeRTT
    fn exit_probe_rtt(&mut self, now: Time, delivered: u64) {
        self.bounds.reset_short_term_model();
        self.note_probe_rtt();
        if self.full_pipe.reached {
            self.start_probe_bw_down(now, delivered, Cause::ProbeRttDone);
            self.start_probe_bw_cruise(Cause::ProbeRttDone);
        } else {
            self.enter_startup(Cause::ProbeRttDone);
        }
    }

    // spec: #modulating-cwnd-in-probertt ProbeRTTCwnd. Decision: the pseudo-code's half BDP, not the four packets of the text above it.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp_multiple(self.bw(), self.p.probe_rtt_cwnd_gain).max(self.host.min_pipe_cwnd())
    }
}
