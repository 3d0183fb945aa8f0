//! DCTCP's estimate of the share of marked packets, by which Reno's window shrinks.
//! Spec: RFC 8257; Linux 6.12 `tcp_dctcp.c`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::params::params;

/// Unit of α: 1024 stands for 1. Source: Linux `DCTCP_MAX_ALPHA`.
const ALPHA_MAX: u32 = 1024;

params! {
    /// DCTCP's parameters.
    DctcpParams {
        /// Weight of a round in α: 2^-g.
        shift_g: Count = 4, 0, 10, "RFC 8257 §3.3, g = 1/16; Linux 6.12 dctcp_shift_g";
        /// α of a new flow, in 1/1024.
        alpha_on_init: Count = 1024, 0, 1024, "RFC 8257 §3.3; Linux 6.12 dctcp_alpha_on_init";
        /// Halve the window of an idle flow once per time-out, as in RFC 2861.
        slow_start_after_idle: Switch = 1, 0, 1, "Linux 6.12 tcp_slow_start_after_idle";
    }
}

/// Share of marked packets, smoothed over rounds.
#[derive(Clone, Debug)]
pub(crate) struct Dctcp {
    shift_g: u32,
    alpha_on_init: u32,
    alpha: u32,
    /// Marked packets of this round.
    marked: u64,
    /// Packets delivered before this round.
    delivered: u64,
    /// The round ends when this packet is acknowledged.
    round_end: u64,
}

impl Dctcp {
    pub fn new(params: &DctcpParams, delivered: u64) -> Self {
        Self {
            shift_g: params.shift_g,
            alpha_on_init: params.alpha_on_init,
            alpha: params.alpha_on_init.min(ALPHA_MAX),
            marked: 0,
            delivered,
            round_end: 0,
        }
    }

    /// Estimator for another path.
    pub fn renewed(&self, delivered: u64) -> Self {
        Self { alpha: self.alpha_on_init.min(ALPHA_MAX), marked: 0, delivered, round_end: 0, ..*self }
    }

    pub const fn on_marks(&mut self, packets: u64) {
        self.marked = self.marked.saturating_add(packets);
    }

    /// Updates α once per round.
    // spec: Linux dctcp_update_alpha
    pub fn end_round(&mut self, una: u64, next: u64, delivered: u64) {
        if una < self.round_end {
            return;
        }
        let decay = match self.alpha >> self.shift_g {
            0 => self.alpha, // a small α decays at once
            decay => decay,
        };
        self.alpha -= decay;
        if self.marked > 0 {
            let packets = delivered.saturating_sub(self.delivered).max(1);
            let share = (self.marked.min(packets) << (10 - self.shift_g)) / packets;
            self.alpha = (self.alpha + share as u32).min(ALPHA_MAX);
        }
        (self.marked, self.delivered, self.round_end) = (0, delivered, next);
    }

    /// Window after a mark.
    // spec: Linux dctcp_ssthresh
    pub fn after_mark(&self, cwnd: u32) -> u32 {
        cwnd - ((u64::from(cwnd) * u64::from(self.alpha)) >> 11) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(dctcp: &mut Dctcp, nth: u64, marked: u64) {
        dctcp.on_marks(marked);
        dctcp.end_round(nth * 100, nth * 100 + 100, nth * 100);
    }

    #[test]
    fn without_marks_alpha_decays_by_a_sixteenth_a_round_and_ends_at_zero() {
        let mut dctcp = Dctcp::new(&DctcpParams::default(), 0);
        round(&mut dctcp, 1, 0);
        assert_eq!(dctcp.alpha, 1024 - 64);
        (2..100).for_each(|nth| round(&mut dctcp, nth, 0));
        assert_eq!((dctcp.alpha, dctcp.after_mark(100)), (0, 100));
    }

    #[test]
    fn with_all_packets_marked_the_window_halves_and_with_a_tenth_it_loses_a_twentieth() {
        let mut dctcp = Dctcp::new(&DctcpParams::default(), 0);
        (1..100).for_each(|nth| round(&mut dctcp, nth, 100));
        assert!(dctcp.after_mark(100) <= 53, "{}", dctcp.after_mark(100));
        (100..300).for_each(|nth| round(&mut dctcp, nth, 10));
        assert!((95..=97).contains(&dctcp.after_mark(100)), "{}", dctcp.after_mark(100));
    }
}
