//! BBR-ACD: loss reduces the window only where the RTT indicates congestion. Three editions, two of them after the authors' code.
//! Spec: Mahmud, Kim, Lubna, Cho, Electronics 9(1) 2020, 136; the rules of its public Linux and ns-3 code, in our words.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::bbr1::{AckContext, Base, Bbr1Params, Hooks, HooksInit, Shrink, UNIT};
use crate::event::CaState;
use crate::params::{Change, ParamSpec, edition, params};
use crate::wide;

params! {
    /// BBR-ACD's parameters beyond BBRv1's.
    AcdParams {
        /// Largest difference at which two consecutive RTTs count as equal.
        same_rtt: Micros = 1_000, 0, 1_000_000, "BBR-ACD for Linux 4.14";
        /// Number of consecutive equal RTTs above the smallest from which there is congestion.
        same_count: Count = 2, 1, 1000, "BBR-ACD for Linux 4.14";
        /// Ratio of RTT to smallest RTT from which there is congestion at once.
        rtt_gain: Gain = 512, 257, 25600, "BBR-ACD for Linux 4.14";
        /// A loss counts only if the RTT shows congestion.
        detect: Switch = 1, 0, 1, "BBR-ACD for Linux 4.14";
        /// The reduction lasts as long as the recovery; off: a round.
        whole_recovery: Switch = 0, 0, 1, "BBR-ACD for Linux 4.14";
        /// Every ACK during the reduction halves the window; off: only the first one.
        every_ack: Switch = 1, 0, 1, "BBR-ACD for Linux 4.14";
        /// Maximum window after a halving, in BDP.
        window_gain: Gain = 256, 64, 2560, "BBR-ACD for Linux 4.14";
        /// Halve the larger of the window and inflight plus newly acknowledged packets; off: the window.
        halve_in_flight: Switch = 0, 0, 1, "BBR-ACD for Linux 4.14";
        /// cwnd gain of 1 from a reduction until the mode changes.
        keep_gain: Switch = 0, 0, 1, "BBR-ACD for Linux 4.14";
        /// ProbeRTT ends with the window from before it; off: the window grows from the floor.
        restore_window: Switch = 0, 0, 1, "BBR-ACD for Linux 4.14: nothing reads its restore_cwnd";
    }
}

/// Number of parameters.
const N: usize = AcdParams::SPECS.len();

/// The authors' ns-3 code: its detector's result is overwritten, so every recovery counts, and for its whole length.
pub(super) static NS3: [ParamSpec; N] = edition(AcdParams::SPECS, NS3_CHANGES);
const NS3_CHANGES: &[Change] = &[
    ("detect", 0, "BBR-ACD for ns-3: its flag is overwritten"),
    ("whole_recovery", 1, "BBR-ACD for ns-3"),
    ("halve_in_flight", 1, "BBR-ACD for ns-3"),
    ("keep_gain", 1, "BBR-ACD for ns-3"),
    ("restore_window", 1, "BBR-ACD for ns-3"),
];

/// A possible meaning of the paper: one halving per recovery.
pub(super) static ONCE: [ParamSpec; N] = edition(AcdParams::SPECS, ONCE_CHANGES);
const ONCE_CHANGES: &[Change] = &[("every_ack", 0, "ours"), ("restore_window", 1, "ours: as in Linux 4.14")];

/// Hooks of BBR-ACD.
#[derive(Clone, Debug)]
pub struct Acd {
    p: AcdParams,
    /// RTT of the last ACK, µs; `u32::MAX` if that ACK had none.
    last_rtt_us: u32,
    same: u32,
    congested: bool,
    /// True once this recovery has reduced the window.
    reduced: bool,
    /// True from a reduction until the mode changes.
    holds_gain: bool,
}

impl Acd {
    pub(crate) const fn new(p: &AcdParams) -> Self {
        Self { p: *p, last_rtt_us: 0, same: 0, congested: false, reduced: false, holds_gain: false }
    }
}

impl HooksInit for Acd {
    type Params = AcdParams;
    const BLANK: Self = Self::new(&AcdParams::BLANK);

    fn begin(&mut self, params: &AcdParams, _base: &Bbr1Params) {
        *self = Self::new(params);
    }
}

impl Hooks for Acd {
    fn restart(&mut self) {
        *self = Self::new(&self.p);
    }

    fn base(&self) -> Base {
        Base::Linux4_14
    }

    /// Detects a standing queue: an RTT above the smallest that does not change.
    fn observe(&mut self, seen: &AckContext<'_>) {
        if seen.ack.ca_state < CaState::Recovery {
            self.reduced = false;
        }
        if seen.ack.rs.acked_sacked == 0 {
            return; // the authors' code calls the detector only where the window may change
        }
        let min_rtt_us = seen.min_rtt_us.unwrap_or(u64::MAX);
        // The authors' code stores a missing RTT, −1, in an unsigned number of 32 bits, and adds and subtracts `same_rtt` without
        // a check for overflow: after a missing RTT, or below `same_rtt`, no RTT counts as equal.
        let rtt_us = seen.ack.rs.rtt_us.map_or(u32::MAX, |rtt_us| u32::try_from(rtt_us).unwrap_or(u32::MAX));
        let is_above = seen.ack.rs.rtt_us.is_some_and(|rtt_us| rtt_us > min_rtt_us);
        let (low, high) =
            (self.last_rtt_us.wrapping_sub(self.p.same_rtt), self.last_rtt_us.wrapping_add(self.p.same_rtt));
        self.same = if is_above && low <= rtt_us && rtt_us <= high { self.same.saturating_add(1) } else { 0 };
        self.last_rtt_us = rtt_us;
        let is_far = is_above
            && wide::times::<256>(u64::from(rtt_us)) > wide::saturating_mul(min_rtt_us, u64::from(self.p.rtt_gain));
        self.congested = self.same >= self.p.same_count || is_far;
    }

    fn enter_mode(&mut self) {
        self.holds_gain = false;
    }

    fn restores_after_probe_rtt(&self) -> bool {
        self.p.restore_window == 1
    }

    fn cwnd_gain(&self, gain: u32) -> u32 {
        if self.holds_gain { UNIT } else { gain }
    }

    fn begins_conservation(&self) -> bool {
        self.p.detect == 0 || self.congested
    }

    /// Leaves the window alone at the start of a recovery: losses have been deducted.
    fn first_window(&self, cwnd: u32, _conserved: u32) -> u32 {
        cwnd
    }

    fn conserves(&self, conservation: bool, state: CaState) -> bool {
        conservation || (self.p.whole_recovery == 1 && state == CaState::Recovery)
    }

    fn shrink(&mut self) -> Shrink {
        let is_due = self.p.every_ack == 1 || !self.reduced;
        self.reduced = true;
        self.holds_gain = self.p.keep_gain == 1;
        let halved = Shrink::Halve { max: self.p.window_gain, is_of_inflight: self.p.halve_in_flight == 1 };
        if is_due { halved } else { Shrink::Hold }
    }
}
