//! BBR-ACD: loss reduces the window only where the RTT indicates congestion. Three editions, two of them after the authors' code.
//! Spec: Mahmud, Kim, Lubna, Cho, Electronics 9(1) 2020, 136; the rules of its public Linux and ns-3 code, in our words.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::bbr1::{AckContext, Bbr1Params, Hooks, HooksInit, Shrink};
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
    }
}

/// Number of parameters.
const N: usize = AcdParams::SPECS.len();

/// The authors' ns-3 code: its detector's result is overwritten, so every recovery counts, and for its whole length.
pub(super) static NS3: [ParamSpec; N] = edition(AcdParams::SPECS, NS3_CHANGES);
const NS3_CHANGES: &[Change] =
    &[("detect", 0, "BBR-ACD for ns-3: its flag is overwritten"), ("whole_recovery", 1, "BBR-ACD for ns-3")];

/// A possible meaning of the paper: one halving per recovery.
pub(super) static ONCE: [ParamSpec; N] = edition(AcdParams::SPECS, &[("every_ack", 0, "ours")]);

/// Hooks of BBR-ACD.
#[derive(Clone, Debug)]
pub struct Acd {
    p: AcdParams,
    last_rtt_us: u64,
    same: u32,
    congested: bool,
    /// True once this recovery has reduced the window.
    reduced: bool,
}

impl Acd {
    pub(crate) const fn new(p: &AcdParams) -> Self {
        Self { p: *p, last_rtt_us: 0, same: 0, congested: false, reduced: false }
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

    /// Detects a standing queue: an RTT above the smallest that does not change.
    fn observe(&mut self, seen: &AckContext<'_>) {
        if seen.ack.ca_state < CaState::Recovery {
            self.reduced = false;
        }
        let (Some(rtt_us), Some(min_rtt_us)) = (seen.ack.rs.rtt_us, seen.min_rtt_us) else {
            return;
        };
        let is_same = rtt_us > min_rtt_us && rtt_us.abs_diff(self.last_rtt_us) <= u64::from(self.p.same_rtt);
        self.same = if is_same { self.same.saturating_add(1) } else { 0 };
        self.last_rtt_us = rtt_us;
        let is_far = wide::times::<256>(rtt_us) > wide::saturating_mul(min_rtt_us, u64::from(self.p.rtt_gain));
        self.congested = self.same >= self.p.same_count || is_far;
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
        if is_due { Shrink::Halve { max: self.p.window_gain } } else { Shrink::Hold }
    }
}
