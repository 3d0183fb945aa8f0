//! BBR-CPA: congestion is predicted from the RTT's trend, ProbeRTT lasts as long as the queue, bandwidth is an average.
//! A reconstruction.
//! By default, BBRv1's timer does not start ProbeRTT.
//! Spec: Yang, Liang, Wu, J. Shenyang Aerospace Univ. 41(1) 2024; it gives no θ, no S, no window and no drained test.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::bbr1::{AckContext, Bbr1Params, Hooks, HooksInit, NewRate};
use crate::event::Ack;
use crate::minmax::MinMax;
use crate::params::params;
use crate::wide;

/// Largest number of rounds in an average; a power of two, so that an index can be masked.
const ROUNDS_MAX: u32 = 32;

params! {
    /// BBR-CPA's parameters beyond BBRv1's.
    CpaParams {
        /// Ratio of RTT to smallest RTT from which an ACK counts as congested (θ); below 1.25 the flow's own probes count.
        theta: Gain = 384, 257, 2560, "ours: 1.5; the paper names no value";
        /// An ACK counts as congested only if its RTT exceeds the smallest by this much.
        theta_floor: Micros = 2_000, 0, 1_000_000, "ours; the paper has none";
        /// Congested ACKs in a row that make the flow congested (S).
        samples: Count = 8, 1, 4096, "ours; the paper names no value";
        /// The congested ACKs in a row must also span half an RTT.
        half_round: Switch = 0, 0, 1, "ours; the paper counts ACKs alone";
        /// Prediction of congestion also outside ProbeBW.
        detect_everywhere: Switch = 0, 0, 1, "ours: Startup must queue to find the rate";
        /// Prediction of congestion; off: to test the other rules without it.
        detect: Switch = 1, 0, 1, "Yang 2024, section 2.1";
        /// BBRv1's ProbeRTT every 10 s as well.
        timer: Switch = 0, 0, 1, "Yang 2024, section 2.1: replaced";
        /// Pacing gain of ProbeRTT.
        probe_rtt_pacing_gain: Gain = 192, 16, 256, "ours: ProbeBW's draining gain; the paper says lowered";
        /// Window of ProbeRTT in BDP, at least the floor; 0 for the floor alone, as in BBRv1.
        probe_rtt_cwnd_gain: Gain = 192, 0, 512, "ours; the paper sends more than BBRv1 while draining";
        /// Ratio of RTT to smallest RTT at which the queue counts as drained.
        theta_exit: Gain = 384, 257, 2560, "ours: θ; the paper has no test";
        /// Maximum time in ProbeRTT, in units of the smallest RTT.
        stay_max: Count = 10, 1, 1000, "ours; the paper has none";
        /// Minimum rounds between two ProbeRTTs.
        rounds_between: Rounds = 1, 0, 1000, "ours; the paper has none";
        /// The estimate is an average; off: BBRv1's maximum.
        mean: Switch = 1, 0, 1, "Yang 2024, section 2.3";
        /// Rounds whose largest rates are averaged.
        mean_window: Rounds = 10, 1, 32, "ours: BBRv1's window; the paper names none";
    }
}

/// The largest rate of each recent round.
#[derive(Clone, Copy, Debug)]
struct RoundRates {
    best: [u64; ROUNDS_MAX as usize],
    filled: u32,
    newest: u32,
    round: u64,
    mean: u64,
}

impl RoundRates {
    const EMPTY: Self = Self { best: [0; ROUNDS_MAX as usize], filled: 0, newest: 0, round: 0, mean: 0 };

    fn take(&mut self, bw: u64, round: u64, window: u32) {
        let window = window.clamp(1, ROUNDS_MAX);
        if self.filled == 0 || self.round != round {
            self.round = round;
            self.newest = if self.filled == 0 || self.newest + 1 >= window { 0 } else { self.newest + 1 };
            self.filled = (self.filled + 1).min(window);
            // Opaque, so that the compiler keeps the bound: verifiers before Linux 6.8 do not derive it from a comparison of
            // two registers.
            self.best[(core::hint::black_box(self.newest) % ROUNDS_MAX) as usize] = bw;
        } else if bw > self.best[(self.newest % ROUNDS_MAX) as usize] {
            self.best[(self.newest % ROUNDS_MAX) as usize] = bw;
        } else {
            return;
        }
        // Unused places hold zero, so that all can be summed.
        let sum = self.best.iter().fold(0_u64, |sum, bw| sum.saturating_add(*bw));
        self.mean = sum / u64::from(self.filled.max(1));
    }
}

/// Hooks of BBR-CPA.
#[derive(Clone, Debug)]
pub struct Cpa {
    p: CpaParams,
    /// The smallest RTT of the period (the paper's m_RTT), and the time at which it was last met, µs; the
    /// period is RTprop's window.
    min_rtt_us: u64,
    met_us: u64,
    period_us: u64,
    /// The smallest RTT of the last period, which takes its place.
    recent_min: MinMax,
    rates: RoundRates,
    /// Consecutive congested ACKs, and the time of the first, µs.
    row: u32,
    row_since_us: u64,
    congested: bool,
    entered_us: u64,
    /// The round in which ProbeRTT last ended.
    left_round: Option<u64>,
}

impl Cpa {
    /// True for an RTT above θ times the smallest.
    const fn is_above(&self, theta: u32, rtt_us: u64, min_rtt_us: u64) -> bool {
        wide::times::<256>(rtt_us) > wide::saturating_mul(min_rtt_us, theta as u64)
            && rtt_us.saturating_sub(min_rtt_us) > self.p.theta_floor as u64
    }

    /// Counts consecutive congested ACKs; a single one may be a network fault.
    fn count(&mut self, seen: &AckContext<'_>, rtt_us: u64, min_rtt_us: u64) {
        if !self.is_above(self.p.theta, rtt_us, min_rtt_us) {
            self.row = 0;
            return;
        }
        let now_us = seen.ack.now.as_micros();
        if self.row == 0 {
            self.row_since_us = now_us;
        }
        self.row = self.row.saturating_add(1);
        let is_long = self.p.half_round == 0 || now_us.saturating_sub(self.row_since_us) >= rtt_us / 2;
        let is_rested = self.left_round.is_none_or(|left| seen.round >= left + u64::from(self.p.rounds_between));
        self.congested = self.row >= self.p.samples && is_long && is_rested;
    }
}

impl HooksInit for Cpa {
    type Params = CpaParams;
    const BLANK: Self = Self {
        p: CpaParams::BLANK,
        min_rtt_us: 0,
        met_us: 0,
        period_us: 0,
        recent_min: MinMax::EMPTY,
        rates: RoundRates::EMPTY,
        row: 0,
        row_since_us: 0,
        congested: false,
        entered_us: 0,
        left_round: None,
    };

    fn begin(&mut self, params: &CpaParams, base: &Bbr1Params) {
        #[rustfmt::skip]
        let Self {
            p, min_rtt_us, met_us, period_us, recent_min, rates, row, row_since_us, congested, entered_us, left_round,
        } = self;
        *p = *params;
        (*min_rtt_us, *met_us, *period_us) = (u64::MAX, 0, u64::from(base.min_rtt_window));
        (*recent_min, *rates) = (MinMax::EMPTY, RoundRates::EMPTY);
        (*row, *row_since_us, *congested, *entered_us, *left_round) = (0, 0, false, 0, None);
    }
}

impl Hooks for Cpa {
    fn restart(&mut self) {
        let (p, period_us) = (self.p, self.period_us);
        *self = Self { p, period_us, min_rtt_us: u64::MAX, ..Self::BLANK };
    }

    /// Averages only the rates of a full pipe. While the rate doubles, the average is far below the last one, and growth would stall.
    fn on_rate(&mut self, new: &NewRate<'_>) {
        if !new.pipe_full || new.ack.rs.is_app_limited {
            return;
        }
        let bw = if self.rates.filled == 0 { new.max } else { new.bw };
        self.rates.take(bw, new.round, self.p.mean_window);
    }

    fn bandwidth(&self, max: u64, pipe_full: bool) -> u64 {
        if self.p.mean == 0 || !pipe_full || self.rates.filled == 0 { max } else { self.rates.mean }
    }

    /// The smallest RTT of the period, which ends with it; otherwise a longer route would count as congestion forever.
    fn min_rtt(&mut self, now_us: u64, rtt_us: u64) -> Option<u64> {
        let rtt_us = rtt_us.max(1);
        let recent = match self.recent_min.get() {
            0 => self.recent_min.reset(now_us, rtt_us),
            _ => self.recent_min.running_min(self.period_us, now_us, rtt_us),
        };
        if rtt_us <= self.min_rtt_us || now_us > self.met_us.saturating_add(self.period_us) {
            self.min_rtt_us = recent.min(rtt_us);
            self.met_us = now_us;
        }
        Some(self.min_rtt_us)
    }

    fn observe(&mut self, seen: &AckContext<'_>) {
        self.congested = false;
        let (Some(rtt_us), Some(min_rtt_us)) = (seen.ack.rs.rtt_us, seen.min_rtt_us) else {
            return;
        };
        let is_watching = seen.phase.is_some() || (self.p.detect_everywhere == 1 && !seen.in_probe_rtt);
        if is_watching && self.p.detect == 1 {
            self.count(seen, rtt_us, min_rtt_us);
        } else {
            self.row = 0;
        }
    }

    fn wants_probe_rtt(&mut self, expired: bool) -> bool {
        self.congested || (expired && self.p.timer == 1)
    }

    fn enter_probe_rtt(&mut self, ack: &Ack) {
        self.entered_us = ack.now.as_micros();
        self.row = 0;
    }

    /// True after one RTT below the threshold, of a packet sent since ProbeRTT began.
    fn is_drained(&mut self, seen: &AckContext<'_>) -> Option<bool> {
        let stay_us = seen.ack.now.as_micros().saturating_sub(self.entered_us);
        let theta = self.p.theta_exit.min(self.p.theta);
        let is_low = match (seen.ack.rs.rtt_us, seen.min_rtt_us) {
            (Some(rtt_us), Some(min_rtt_us)) => stay_us >= rtt_us && !self.is_above(theta, rtt_us, min_rtt_us),
            _ => false,
        };
        let stay_max = wide::saturating_mul(seen.min_rtt_us.unwrap_or(0), u64::from(self.p.stay_max));
        let is_over = is_low || stay_us > stay_max;
        if is_over {
            self.left_round = Some(seen.round);
        }
        Some(is_over)
    }

    fn probe_rtt_pacing_gain(&self) -> u32 {
        self.p.probe_rtt_pacing_gain
    }

    fn probe_rtt_cwnd_gain(&self) -> u32 {
        self.p.probe_rtt_cwnd_gain
    }
}
