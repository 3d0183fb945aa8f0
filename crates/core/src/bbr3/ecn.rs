//! Congestion marks in BBRv3: Google's response to a shallow threshold, and the draft's rule that marks count as congestion.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::rules::{Marks, Rules};
use super::{Bbr3, FINE, scaled};
use crate::event::{Ack, CaState};
use crate::sampler::FlightSample;
use crate::state::Cause;
use crate::wide;

/// The kernel's shares are in 256ths.
const PER_256TH: u64 = FINE as u64 / 256;

/// State of the response to marks.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "Linux's state is that")]
pub(super) struct Ecn {
    /// True once this flow has been on a path short enough for Google's response.
    pub(super) eligible: bool,
    /// Mean share of marks, in 1/25600.
    pub(super) alpha: u32,
    /// Packets delivered when the mean was last taken.
    pub(super) delivered: u64,
    /// Packets reported as marked since then.
    marked: u64,
    startup_rounds: u32,
    pub(super) in_round: bool,
    pub(super) in_cycle: bool,
    pub(super) loss_in_cycle: bool,
}

impl Ecn {
    /// Linux `bbr_ecn_alpha_init`: a flow that starts into congestion should react at once.
    pub(super) const NONE: Self = Self {
        eligible: false,
        alpha: FINE,
        delivered: 0,
        marked: 0,
        startup_rounds: 0,
        in_round: false,
        in_cycle: false,
        loss_in_cycle: false,
    };

    pub(super) const fn forget_cycle(&mut self) {
        self.in_round = false;
        self.in_cycle = false;
        self.loss_in_cycle = false;
    }

    /// Returns the share of a bound left after a marked round, in 1/25600, in whole 256ths.
    pub(super) const fn left(&self, factor: u32) -> u32 {
        let cut = scaled(self.alpha as u64 / PER_256TH, factor) * PER_256TH;
        if cut > FINE as u64 { 0 } else { FINE - cut as u32 }
    }

    /// Takes the share of marks of `newly` packets, in 256ths, into the mean.
    fn take(&mut self, newly: u64, gain: u32) -> u64 {
        // At most all of them, whatever the host reports.
        let ratio = (self.marked.min(newly).min(u64::from(u32::MAX)) << 8) / newly.max(1);
        let gain = u64::from(gain) / PER_256TH;
        let old = (256_u64.saturating_sub(gain) * (u64::from(self.alpha) / PER_256TH)) >> 8;
        let alpha = old + (wide::saturating_mul(gain, ratio) >> 8);
        self.alpha = (alpha.min(256) * PER_256TH) as u32; // at most FINE
        self.marked = 0;
        ratio
    }

    /// True after this number of consecutive rounds with at least that share.
    fn is_startup_over(&mut self, ratio: u64, thresh: u32, rounds: u32) -> bool {
        let is_high = ratio * PER_256TH >= u64::from(thresh);
        self.startup_rounds = if is_high { self.startup_rounds.saturating_add(1) } else { 0 };
        self.startup_rounds >= rounds
    }
}

impl<R: Rules> Bbr3<R> {
    /// Handles packets reported with a congestion mark; called before the ACK that reports them.
    pub const fn on_congestion_mark(&mut self, packets: u64) {
        self.ecn.marked = self.ecn.marked.saturating_add(packets);
    }

    /// Treats a round with marks as a round with loss: it begins with its first mark, and an undo takes it back.
    // spec: draft #ecn: marks MUST count as congestion. Decision: a mark is noted like a loss, and an ACK with marks is one loss event.
    #[inline(never)]
    pub(super) fn take_marks_as_loss(&mut self, delivered: u64) {
        if self.p.ecn != 0 {
            self.note_loss(delivered);
            self.bounds.note_event(u32::MAX);
        }
    }

    /// Updates the ECN state before the ACK's rate is used, also on an ACK without a rate, as in the kernel.
    // spec: google/bbr v3 bbr_main; v2alpha accepts a path as eligible only where it reacts
    #[inline]
    pub(super) fn update_ecn(&mut self, ack: &Ack, flight: &FlightSample) {
        if self.p.ecn == 0 {
            return;
        }
        if self.model.rounds.start {
            self.update_ecn_alpha(ack.delivered);
        }
        self.ecn.in_round |= (self.ecn.eligible || R::MARKS_ON_ANY_PATH) && flight.is_ece;
    }

    /// Notes loss and marks as the kernel's last step of an ACK: they belong to the cycle that the ACK may have begun.
    // spec: google/bbr v3 bbr_main
    #[inline]
    pub(super) const fn note_cycle(&mut self, flight: &FlightSample) {
        self.ecn.in_cycle |= flight.delivered_ce > 0;
        self.ecn.loss_in_cycle |= flight.lost > 0;
    }

    // spec: google/bbr v3 bbr_update_ecn_alpha, in its 256ths, each part rounded down; v2alpha updates the mean on every path
    #[inline(never)]
    fn update_ecn_alpha(&mut self, delivered: u64) {
        let is_short = self.p.ecn_max_rtt == 0 || self.min_rtt.min_rtt_us <= u64::from(self.p.ecn_max_rtt);
        self.ecn.eligible |= is_short && self.p.ecn_factor > 0;
        let newly = delivered.saturating_sub(self.ecn.delivered);
        if newly == 0 || !(self.ecn.eligible || R::MARKS_ON_ANY_PATH) {
            return;
        }
        let ratio = self.ecn.take(newly, self.p.ecn_alpha_gain);
        self.ecn.delivered = delivered;
        self.check_ecn_too_high_in_startup(ratio);
    }

    // spec: Linux bbr_check_ecn_too_high_in_startup
    fn check_ecn_too_high_in_startup(&mut self, ratio: u64) {
        if self.full_pipe.reached || !self.ecn.eligible || self.p.full_ecn_cnt == 0 || self.p.ecn_thresh == 0 {
            return;
        }
        if self.ecn.is_startup_over(ratio, self.p.ecn_thresh, self.p.full_ecn_cnt) {
            self.leave_startup_by_congestion(Cause::Marks);
        }
    }

    /// Returns the volume of packets delivered since the newest one was sent and reported with a mark.
    pub(super) const fn marked_volume(&self, flight: &FlightSample) -> u64 {
        (flight.delivered_ce as u64).wrapping_mul(self.smss()) // both below 2^32
    }

    /// True if the share of marks shows that probing went too far.
    // spec: Linux bbr_is_inflight_too_high. Decision: in the draft's edition a marked packet counts as a lost one here.
    #[inline(never)]
    pub(super) fn are_marks_too_many(&self, ack: &Ack, flight: &FlightSample) -> bool {
        if self.p.ecn == 0 {
            return false;
        }
        let marked = self.marked_volume(flight);
        if matches!(R::MARKS, Marks::Loss) {
            let lost = u64::from(flight.lost).saturating_add(marked);
            return lost > scaled(flight.tx_in_flight.into(), self.p.loss_thresh);
        }
        let max = scaled(ack.rs.delivered.unwrap_or(0), self.p.ecn_thresh);
        let is_above = marked > max || (R::MARKS_AT_THRESHOLD && marked == max);
        self.ecn.eligible && self.p.ecn_thresh > 0 && is_above
    }

    /// Number of doublings with which a new probe may begin after a cycle with marks and without loss; 0 for no such probe.
    // spec: Linux bbr_check_time_to_probe_bw
    #[inline(never)]
    pub(super) fn ecn_reprobe_rounds(&self, ack: &Ack) -> u32 {
        let wanted = self.ecn.eligible && self.ecn.in_cycle && !self.ecn.loss_in_cycle && self.p.ecn_reprobe_gain > 0;
        if !wanted || ack.ca_state != CaState::Open {
            return 0;
        }
        let first = scaled(self.bounds.inflight_longterm.min(u64::from(u32::MAX)), self.p.ecn_reprobe_gain);
        63 - (first | 2).leading_zeros() // the logarithm, at least 1
    }
}
