//! BBRv3's minimum RTT, and ProbeRTT, which keeps it honest.
//! In: RTT samples and inflight. Out: `min_rtt`, and the way into and out of ProbeRTT. Never: a rate.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{AckPhase, Bbr3, Phase, Sample};
use crate::units::{MICROS_PER_SEC, Time};

impl Bbr3 {
    /// The kernel's tick count, to which it rounds these stamps: the host's own, else by `now`; microseconds where `hz` is 0.
    pub(super) const fn tick(&self, now: Time, host: Option<u64>) -> u64 {
        if self.p.hz == 0 {
            return now.as_micros();
        }
        match host {
            Some(tick) => tick,
            None => now.as_micros().saturating_mul(self.p.hz as u64) / MICROS_PER_SEC,
        }
    }

    /// A span in ticks, rounded up as `msecs_to_jiffies` does.
    pub(super) const fn ticks(&self, span_us: u32) -> u64 {
        if self.p.hz == 0 { span_us as u64 } else { (span_us as u64 * self.p.hz as u64).div_ceil(MICROS_PER_SEC) }
    }

    // spec: #probertt-logic UpdateMinRTT; Linux bbr_update_min_rtt, which does not believe a delayed ACK once its filter has expired
    pub(super) fn update_min_rtt(&mut self, rs: &Sample<'_>) {
        let tick = self.tick(rs.ack.now, rs.ack.tick);
        self.probe_rtt_expired = tick > self.probe_rtt_min_stamp + self.probe_rtt_interval;
        if let Some(rtt_us) = rs.ack.rs.rtt_us
            && (rtt_us <= self.probe_rtt_min_delay_us || self.probe_rtt_expired)
        {
            let is_believed = !(self.edition.is_kernel() && rs.ack.rs.is_ack_delayed);
            // v2alpha also renews the stamp of an equal one.
            if rtt_us < self.probe_rtt_min_delay_us
                || (self.edition.is_v2() && rtt_us == self.probe_rtt_min_delay_us)
                || (self.probe_rtt_expired && is_believed)
            {
                self.probe_rtt_min_delay_us = rtt_us;
                self.probe_rtt_min_stamp = tick;
            }
        }
        let min_rtt_expired = tick > self.min_rtt_stamp + self.min_rtt_filter_len;
        // Linux also renews the stamp of an equal one.
        let is_equal = self.edition.is_kernel() && self.probe_rtt_min_delay_us == self.min_rtt_us;
        if self.probe_rtt_min_delay_us < self.min_rtt_us || is_equal || min_rtt_expired {
            self.min_rtt_us = self.probe_rtt_min_delay_us;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }

    // spec: #probertt-logic CheckProbeRTT
    pub(super) fn check_probe_rtt(&mut self, rs: &Sample<'_>) {
        if self.probe_rtt_expired && !self.idle_restart && !matches!(self.state, Phase::ProbeRtt { .. }) {
            self.enter_probe_rtt();
            // The state first, as draft and Linux have it: a window that recovery saved is kept if it is larger.
            self.save_cwnd();
            self.ack_phase = AckPhase::ProbeStopping;
            self.rounds.begin(rs.ack.delivered);
        }
        self.mark_app_limited = matches!(self.state, Phase::ProbeRtt { .. });
        if self.mark_app_limited {
            self.handle_probe_rtt(rs);
        }
        if rs.delivered > 0 {
            self.idle_restart = false;
        }
    }

    // spec: #probertt-logic EnterProbeRTT
    const fn enter_probe_rtt(&mut self) {
        self.set_state(Phase::ProbeRtt { done_stamp: None, round_done: false });
    }

    /// Both waits, a time and a round, begin once the queue is gone.
    // spec: #probertt-logic HandleProbeRTT
    #[inline(never)]
    fn handle_probe_rtt(&mut self, rs: &Sample<'_>) {
        let Phase::ProbeRtt { done_stamp, round_done } = self.state else {
            return;
        };
        if done_stamp.is_none() {
            if rs.inflight <= self.probe_rtt_cwnd() {
                let done = self.tick(rs.ack.now, rs.ack.tick) + self.ticks(self.p.probe_rtt_duration);
                self.set_state(Phase::ProbeRtt { done_stamp: Some(done), round_done: false });
                self.rounds.begin(rs.ack.delivered);
            }
            return;
        }
        let round_done = round_done || self.rounds.start;
        self.set_state(Phase::ProbeRtt { done_stamp, round_done });
        if round_done {
            self.check_probe_rtt_done(rs.ack.now, rs.ack.tick, rs.ack.delivered);
        }
    }

    // spec: #probertt-logic CheckProbeRTTDone
    pub(super) fn check_probe_rtt_done(&mut self, now: Time, host_tick: Option<u64>, delivered: u64) {
        let Phase::ProbeRtt { done_stamp: Some(done), .. } = self.state else {
            return;
        };
        let tick = self.tick(now, host_tick);
        if tick <= done {
            return;
        }
        self.probe_rtt_min_stamp = tick;
        self.restore_cwnd();
        self.exit_probe_rtt(now, delivered);
    }

    // spec: #exiting-probertt ExitProbeRTT
    fn exit_probe_rtt(&mut self, now: Time, delivered: u64) {
        self.reset_short_term_model();
        if self.full_bw_reached {
            self.start_probe_bw_down(now, delivered);
            self.start_probe_bw_cruise();
        } else {
            self.enter_startup();
        }
    }

    // spec: #modulating-cwnd-in-probertt ProbeRTTCwnd. Decision: the pseudo-code's half BDP, not the four packets of the text above it.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp_multiple(self.bw(), self.p.probe_rtt_cwnd_gain).max(self.min_pipe_cwnd)
    }
}
