//! BBRv3 and congestion marks: Google's response to a shallow threshold, and the draft's demand that marks count as congestion.
//! In: marks reported. Out: a lower `inflight_shortterm`, the end of Startup or of a probe. Never: loss.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Bbr3, FINE, INFINITY, Phase, Sample, scaled};
use crate::event::CaState;

/// The kernel's shares are in 256ths.
const PER_256TH: u64 = FINE as u64 / 256;

/// What is known of marks.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "Linux's state is that")]
pub(super) struct Ecn {
    /// This flow has been on a path short enough for Google's response.
    pub(super) eligible: bool,
    /// Mean share of marks, in 1/25600.
    pub(super) alpha: u32,
    /// Packets delivered when the mean was last taken.
    pub(super) delivered: u64,
    /// Packets reported marked since then.
    marked: u64,
    startup_rounds: u32,
    pub(super) in_round: bool,
    pub(super) in_cycle: bool,
    pub(super) loss_in_cycle: bool,
}

impl Default for Ecn {
    /// Linux `bbr_ecn_alpha_init`: a flow that starts into congestion should react at once.
    fn default() -> Self {
        Self {
            eligible: false,
            alpha: FINE,
            delivered: 0,
            marked: 0,
            startup_rounds: 0,
            in_round: false,
            in_cycle: false,
            loss_in_cycle: false,
        }
    }
}

impl Ecn {
    pub(super) const fn forget_cycle(&mut self) {
        self.in_round = false;
        self.in_cycle = false;
        self.loss_in_cycle = false;
    }
}

impl Bbr3 {
    /// Packets were reported with a congestion mark, before the ACK is told.
    pub fn on_congestion_mark(&mut self, packets: u64) {
        self.ecn.marked = self.ecn.marked.saturating_add(packets);
    }

    /// A round with marks is a round with loss, in the draft's edition.
    // spec: draft #ecn: marks MUST count as congestion. Decision: to the short-term bounds a marked round is one with loss.
    #[inline]
    pub(super) fn take_marks_as_loss(&mut self, rs: &Sample<'_>) {
        if !self.edition.is_kernel() && rs.flight.is_ece && self.p.ecn != 0 {
            self.is_loss_in_round = true;
        }
    }

    /// The kernel looks at marks before the rate of the ACK has told it anything, also on an ACK without a rate.
    // spec: google/bbr v3 bbr_main; v2alpha believes a path only where it reacts
    #[inline(never)]
    pub(super) fn update_ecn(&mut self, rs: &Sample<'_>) {
        if self.p.ecn == 0 {
            return;
        }
        if self.rounds.start {
            self.update_ecn_alpha(rs.ack.delivered);
        }
        self.ecn.in_round |= (self.ecn.eligible || self.edition.is_v2()) && rs.flight.is_ece;
    }

    /// The kernel ends an ACK with this: what it brought belongs to the cycle that it may have begun.
    // spec: google/bbr v3 bbr_main
    #[inline(never)]
    pub(super) const fn note_cycle(&mut self, rs: &Sample<'_>) {
        self.ecn.in_cycle |= rs.delivered_ce() > 0;
        self.ecn.loss_in_cycle |= rs.lost() > 0;
    }

    // spec: google/bbr v3 bbr_update_ecn_alpha, in its 256ths, each part rounded down; v2alpha takes the mean on every path
    #[inline(never)]
    fn update_ecn_alpha(&mut self, delivered: u64) {
        let is_short = self.p.ecn_max_rtt == 0 || self.min_rtt_us <= u64::from(self.p.ecn_max_rtt);
        self.ecn.eligible |= is_short && self.p.ecn_factor > 0;
        let newly = delivered.saturating_sub(self.ecn.delivered);
        if newly == 0 || !(self.ecn.eligible || self.edition.is_v2()) {
            return;
        }
        // No more than all of them, whatever the host told.
        let ratio = (self.ecn.marked.min(newly).min(u64::from(u32::MAX)) << 8) / newly;
        let gain = u64::from(self.p.ecn_alpha_gain) / PER_256TH;
        let alpha = (((256 - gain) * u64::from(self.ecn.alpha) / PER_256TH) >> 8) + ((gain * ratio) >> 8);
        self.ecn.alpha = u32::try_from(alpha.min(256) * PER_256TH).unwrap_or(FINE);
        self.ecn.delivered = delivered;
        self.ecn.marked = 0;
        self.check_ecn_too_high_in_startup(ratio * PER_256TH);
    }

    // spec: Linux bbr_check_ecn_too_high_in_startup
    fn check_ecn_too_high_in_startup(&mut self, ratio: u64) {
        if self.full_bw_reached || !self.ecn.eligible || self.p.full_ecn_cnt == 0 || self.p.ecn_thresh == 0 {
            return;
        }
        let is_high = ratio >= u64::from(self.p.ecn_thresh);
        self.ecn.startup_rounds = if is_high { self.ecn.startup_rounds + 1 } else { 0 };
        if self.ecn.startup_rounds >= self.p.full_ecn_cnt {
            self.leave_startup_by_congestion();
        }
    }

    /// Whether the share of marks says that probing went too far.
    // spec: Linux bbr_is_inflight_too_high. Decision: in the draft's edition a marked packet is as good as a lost one here.
    #[inline(never)]
    pub(super) fn are_marks_too_many(&self, rs: &Sample<'_>) -> bool {
        if self.p.ecn == 0 {
            return false;
        }
        if !self.edition.is_kernel() {
            return rs.lost().saturating_add(rs.delivered_ce()) > scaled(rs.tx_in_flight(), self.p.loss_thresh);
        }
        let most = scaled(rs.delivered, self.p.ecn_thresh);
        let is_above = rs.delivered_ce() > most || (self.edition.is_v2() && rs.delivered_ce() == most);
        self.ecn.eligible && self.p.ecn_thresh > 0 && is_above
    }

    /// What a round of marks leaves of the short-term rate and volume; no bounds without marks.
    // spec: google/bbr v3 bbr_ecn_lower_bounds, bbr_ecn_cut; v2alpha cuts the rate as well
    // Differs: v2alpha also knows a bound on the rate from marks while probing (bw_hi); ours has none.
    pub(super) fn ecn_lower_bounds(&mut self) -> (u64, u64) {
        if !self.ecn.in_round || !self.ecn.eligible || self.p.ecn_factor == 0 {
            return (INFINITY, INFINITY);
        }
        if self.inflight_shortterm == INFINITY {
            self.inflight_shortterm = self.cwnd;
        }
        let cut = scaled(u64::from(self.ecn.alpha) / PER_256TH, self.p.ecn_factor) * PER_256TH;
        let left = FINE - cut.min(FINE.into()) as u32;
        let mut bw = INFINITY;
        if self.edition.is_v2() {
            if self.bw_shortterm == INFINITY {
                self.bw_shortterm = self.max_bw();
            }
            bw = scaled(self.bw_shortterm, left).max(1);
        }
        (bw, scaled(self.inflight_shortterm, left))
    }

    /// After a cycle with marks and without loss: how many doublings a new probe may begin with; 0 for no such probe.
    // spec: Linux bbr_check_time_to_probe_bw
    #[inline(never)]
    pub(super) fn ecn_reprobe_rounds(&self, rs: &Sample<'_>) -> u32 {
        let wanted = self.ecn.eligible && self.ecn.in_cycle && !self.ecn.loss_in_cycle && self.p.ecn_reprobe_gain > 0;
        if !wanted || rs.ack.ca_state != CaState::Open || self.state == Phase::Startup {
            return 0;
        }
        let first = scaled(self.inflight_longterm.min(u64::from(u32::MAX)), self.p.ecn_reprobe_gain);
        first.max(2).ilog2()
    }
}
