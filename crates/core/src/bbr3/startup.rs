//! BBRv3's Startup and Drain: doubling until bandwidth stops growing or loss is high, then emptying the queue that made.
//! In: one sample an ACK. Out: `full_bw_reached`, and the way into ProbeBW. Never: a window.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Bbr3, Edition, Phase, Sample, UNIT, scaled};
use crate::event::CaState;
use crate::shared::FullPipe;

/// Linux counts losses in four bits.
const LOSS_EVENTS_MAX: u32 = 15;

impl Bbr3 {
    // spec: #startup-dynamics EnterStartup
    pub(super) const fn enter_startup(&mut self) {
        self.set_state(Phase::Startup);
    }

    // spec: #drain EnterDrain; Linux bbr_check_drain, which also forgets the signals of Startup
    const fn enter_drain(&mut self) {
        self.set_state(Phase::Drain { start_round: self.rounds.count });
        if self.edition.is_kernel() {
            self.reset_congestion_signals();
        }
    }

    // spec: #exiting-acceleration-based-on-bandwidth-plateau ResetFullBW
    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = FullPipe::default();
        self.full_bw_now = false;
    }

    // spec: #exiting-acceleration-based-on-bandwidth-plateau CheckFullBWReached
    // Decision: a sample without a rate is no evidence; the prose speaks of samples, the pseudo-code would count its 0 as a plateau.
    // Linux takes a higher rate as baseline at any ACK, and counts at rounds; v2alpha tests the maximum, and in Startup only.
    #[inline]
    pub(super) fn check_full_bw_reached(&mut self, rs: &Sample<'_>) {
        if !self.rounds.start && self.edition == Edition::Draft06 {
            return; // nearly every ACK
        }
        // Linux asks for full_bw_reached, not for the state: losses count in ProbeRTT too.
        if self.edition.is_kernel() && !self.full_bw_reached {
            self.check_startup_high_loss(rs);
        }
        if !self.rounds.start && self.edition != Edition::Linux {
            return;
        }
        let is_done = if self.edition.is_v2() { self.full_bw_reached } else { self.full_bw_now };
        if is_done || rs.ack.rs.is_app_limited || !rs.has_data || rs.delivery_rate == 0 {
            return;
        }
        let rate = if self.edition.is_v2() { self.max_bw() } else { rs.delivery_rate };
        if self.full_bw.grew(rate, scaled(self.full_bw.bw, self.p.full_bw_growth)) || !self.rounds.start {
            return;
        }
        self.full_bw_now = self.full_bw.is_full(self.p.full_bw_rounds);
        self.full_bw_reached |= self.full_bw_now;
    }

    // spec: #startup-dynamics CheckStartupDone. Linux looks at losses before it looks for a plateau.
    pub(super) fn check_startup_done(&mut self, rs: &Sample<'_>) {
        if self.state == Phase::Startup {
            if !self.edition.is_kernel() {
                self.check_startup_high_loss(rs);
            }
            if self.full_bw_reached {
                self.enter_drain();
            }
        }
        if self.loss_round_start {
            self.loss_events_in_round = 0;
        }
    }

    // spec: #exiting-startup-based-on-packet-loss CheckStartupHighLoss. Decision: the draft has its prose only; this is what Linux
    // bbr_check_loss_too_high_in_startup does at the end of a round of loss, but for gaps in the sequence where Linux counts ACKs with loss.
    #[inline(never)]
    fn check_startup_high_loss(&mut self, rs: &Sample<'_>) {
        if self.edition.is_kernel() && rs.ack.rs.losses > 0 {
            self.loss_events_in_round = (self.loss_events_in_round + 1).min(LOSS_EVENTS_MAX);
        }
        let in_recovery = rs.ack.ca_state == CaState::Recovery;
        let is_high = if self.has_selective_acks {
            // A round of loss begins with its first loss, so recovery has then lasted for a whole round.
            self.loss_round_start
                && self.p.startup_full_loss_cnt > 0
                && self.loss_events_in_round >= self.p.startup_full_loss_cnt
                && self.is_inflight_too_high(rs)
        } else {
            rs.ack.rs.losses > 0 || self.is_loss_in_round
        };
        if in_recovery && is_high && self.max_bw() > 0 {
            self.leave_startup_by_congestion();
        }
    }

    /// Loss (or marks) say that the pipe is full: what is known to fit is what was delivered.
    #[inline(never)]
    pub(super) fn leave_startup_by_congestion(&mut self) {
        self.undo.state = Some(Phase::Startup);
        self.full_bw_reached = true;
        // Decision: both flags, as the draft's second test case has it.
        self.full_bw_now = !self.edition.is_kernel();
        let bdp = if self.edition.is_kernel() {
            self.inflight(self.max_bw(), UNIT)
        } else {
            self.bdp_multiple(self.bw(), UNIT)
        };
        let latest = if self.edition.is_v2() { 0 } else { self.inflight_latest };
        // Decision: never below the smallest window.
        self.inflight_longterm = bdp.max(latest).max(self.min_pipe_cwnd);
    }

    // spec: #drain CheckDrainDone
    // Decision: Inflight(1.0) is of max_bw, as in Linux, not of a bound that the losses of Startup have lowered meanwhile.
    // Decision: "> start + 3", as the pseudo-code has it: three whole rounds also where Drain began in the middle of one.
    pub(super) fn check_drain_done(&mut self, rs: &Sample<'_>) {
        let Phase::Drain { start_round } = self.state else {
            return;
        };
        let is_long =
            self.p.drain_rounds > 0 && self.rounds.count > start_round.saturating_add(u64::from(self.p.drain_rounds));
        if is_long || self.in_net_at_edt(rs, rs.inflight) <= self.inflight(self.max_bw(), UNIT) {
            self.enter_probe_bw(rs.ack.now, rs.ack.delivered);
        }
    }
}
