//! HyStart (Linux's classic form) and HyStart++ (RFC 9406), which end slow start on rising delay, before loss.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::event::Ack;
use crate::units::{MICROS_PER_SEC, Time};

/// Window below which neither detector acts. Source: Linux `hystart_low_window`.
const LOW_WINDOW: u32 = 16;
/// Largest gap between ACKs of one train, µs. Source: Linux `hystart_ack_delta_us`.
const ACK_DELTA_US: u64 = 2_000;
/// RTT samples needed for a round's minimum. Source: Linux `HYSTART_MIN_SAMPLES`; RFC 9406 N_RTT_SAMPLE.
const MIN_SAMPLES: u32 = 8;
/// Bounds on the tolerated rise of delay, µs. Source: Linux `HYSTART_DELAY_MIN/MAX`; RFC 9406 MIN/MAX_RTT_THRESH.
const DELAY_BOUNDS_US: (u64, u64) = (4_000, 16_000);
/// Largest burst of the sender, in bytes; an ACK train may be longer by its duration. Source: Linux `hystart_ack_delay`.
const GSO_MAX_SIZE: u64 = 65_536;
/// Divisor of the growth in conservative slow start. Source: RFC 9406 CSS_GROWTH_DIVISOR.
const CSS_GROWTH_DIVISOR: u32 = 4;
/// Packets by which a sender that does not pace may grow per ACK. Source: RFC 9406 L.
const UNPACED_LIMIT: u32 = 8;
/// Rounds of conservative slow start. Source: RFC 9406 CSS_ROUNDS.
const CSS_ROUNDS: u32 = 5;

/// State of HyStart under the names of Linux's `struct bictcp`.
#[cfg(feature = "unstable-internals")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HyStartInternals {
    /// `sample_cnt`.
    pub sample_cnt: u32,
    /// `found`.
    pub found: bool,
    /// `round_start`, µs.
    pub round_start_us: u64,
    /// `end_seq`, in the host's unit.
    pub end_seq: u64,
    /// `last_ack`, µs.
    pub last_ack_us: u64,
    /// `curr_rtt`, µs; `u64::MAX` before any sample of the round.
    pub curr_rtt_us: u64,
}

/// Linux's HyStart: ACK train and delay increase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HyStart {
    round_start_us: u64,
    last_ack_us: u64,
    end_seq: u64,
    round_min_us: u64,
    samples: u32,
    found: bool,
}

impl HyStart {
    pub(crate) const fn new(now: Time) -> Self {
        let now_us = now.as_micros();
        Self {
            round_start_us: now_us,
            last_ack_us: now_us,
            end_seq: 0,
            round_min_us: u64::MAX,
            samples: 0,
            found: false,
        }
    }

    /// Returns the complete state.
    #[cfg(feature = "unstable-internals")]
    pub(crate) const fn internals(&self) -> HyStartInternals {
        HyStartInternals {
            sample_cnt: self.samples,
            found: self.found,
            round_start_us: self.round_start_us,
            end_seq: self.end_seq,
            last_ack_us: self.last_ack_us,
            curr_rtt_us: self.round_min_us,
        }
    }

    // spec: Linux bictcp_hystart_reset. `found` is false here: once found, no further round searches.
    pub(crate) const fn begin_round(&mut self, ack: &Ack) {
        let now_us = ack.now.as_micros();
        *self = Self { end_seq: ack.next, ..Self::new(Time::micros(now_us)) };
    }

    // spec: Linux hystart_update
    pub(crate) fn on_rtt(&mut self, ack: &Ack, rtt_us: u64, delay_min_us: u64, cwnd: u32, pacing_rate: u64) -> bool {
        if self.found {
            return false;
        }
        if ack.una > self.end_seq {
            self.begin_round(ack);
        }
        if cwnd < LOW_WINDOW {
            return false;
        }
        let now_us = ack.now.as_micros();
        if now_us.saturating_sub(self.last_ack_us) <= ACK_DELTA_US {
            self.last_ack_us = now_us;
            let burst_us = (GSO_MAX_SIZE * 4 * MICROS_PER_SEC).checked_div(pacing_rate).unwrap_or(0).min(1_000);
            let mut threshold = delay_min_us + burst_us;
            if !ack.paced {
                threshold >>= 1; // a train half a round long fills the pipe; pacing alone may stretch it that far
            }
            self.found |= now_us.saturating_sub(self.round_start_us) > threshold;
        }
        self.round_min_us = self.round_min_us.min(rtt_us);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
        } else {
            let rise = (delay_min_us >> 3).clamp(DELAY_BOUNDS_US.0, DELAY_BOUNDS_US.1);
            self.found |= self.round_min_us > delay_min_us + rise;
        }
        self.found
    }
}

/// RFC 9406: delay increase enters conservative slow start, which confirms it or goes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HyStartPlusPlus {
    window_end: u64,
    last_round_min_us: u64,
    round_min_us: u64,
    samples: u32,
    /// In conservative slow start: the RTT at its start, and the rounds spent in it.
    css: Option<(u64, u32)>,
    remainder: u32,
    done: bool,
}

impl Default for HyStartPlusPlus {
    fn default() -> Self {
        Self {
            window_end: 0,
            last_round_min_us: u64::MAX,
            round_min_us: u64::MAX,
            samples: 0,
            css: None,
            remainder: 0,
            done: false,
        }
    }
}

impl HyStartPlusPlus {
    // spec: RFC 9406 §4.2
    pub(crate) fn on_rtt(&mut self, ack: &Ack, rtt_us: u64) -> bool {
        if self.done {
            return false;
        }
        if ack.una > self.window_end && self.begin_round(ack) {
            self.end();
            return true;
        }
        self.round_min_us = self.round_min_us.min(rtt_us);
        self.samples = self.samples.saturating_add(1);
        if self.samples < MIN_SAMPLES || self.last_round_min_us == u64::MAX {
            return false;
        }
        match self.css {
            None => {
                let rise = (self.last_round_min_us >> 3).clamp(DELAY_BOUNDS_US.0, DELAY_BOUNDS_US.1);
                if self.round_min_us >= self.last_round_min_us + rise {
                    self.css = Some((self.round_min_us, 0));
                }
            }
            Some((baseline, _)) if self.round_min_us < baseline => self.css = None,
            Some(_) => {}
        }
        false
    }

    /// Starts a round; true if conservative slow start has lasted long enough.
    fn begin_round(&mut self, ack: &Ack) -> bool {
        self.window_end = ack.next;
        self.last_round_min_us = self.round_min_us;
        self.round_min_us = u64::MAX;
        self.samples = 0;
        if let Some((_, rounds)) = &mut self.css {
            *rounds += 1;
            return *rounds >= CSS_ROUNDS;
        }
        false
    }

    /// Ends the initial slow start; a later one is not monitored.
    // spec: RFC 9406 §4.3
    pub(crate) const fn end(&mut self) {
        self.done = true;
        self.css = None;
    }

    /// Returns the growth for `acked` packets.
    // spec: RFC 9406 §4.2
    pub(crate) fn step(&mut self, acked: u32, paced: bool) -> u32 {
        if self.done {
            return acked;
        }
        let acked = if paced { acked } else { acked.min(UNPACED_LIMIT) };
        if self.css.is_none() {
            return acked;
        }
        let total = self.remainder.saturating_add(acked);
        self.remainder = total % CSS_GROWTH_DIVISOR;
        total / CSS_GROWTH_DIVISOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimators::RateSample;

    fn ack(now_us: u64, una: u64, next: u64) -> Ack {
        Ack { now: Time::micros(now_us), una, next, rs: RateSample::default(), ..Ack::default() }
    }

    #[test]
    fn hystart_leaves_on_an_ack_train_of_half_a_round() {
        let mut hystart = HyStart::new(Time::ZERO);
        hystart.begin_round(&ack(1_000_000, 0, 100));
        let left_at =
            (0..40).find(|i| hystart.on_rtt(&ack(1_000_000 + i * 1_000, 0, 100), 40_000, 40_000, 32, 1 << 30));
        assert_eq!(left_at, Some(21));
    }

    #[test]
    fn hystarts_bounds_are_still_flat_and_still_no_train() {
        let leaves = |rtt_us: u64| {
            let mut hystart = HyStart::new(Time::ZERO);
            (0..20).any(|i| hystart.on_rtt(&ack(100_000 + i * 5_000, 0, 100), rtt_us, 40_000, 32, 1_000_000))
        };
        assert_eq!((leaves(45_000), leaves(45_001)), (false, true));
        let mut hystart = HyStart::new(Time::ZERO);
        hystart.begin_round(&ack(1_000_000, 0, 100));
        // No burst at such a rate, and a paced train may take the whole of 40 ms.
        let paced = |ms: u64| Ack { paced: true, ..ack(1_000_000 + ms * 1_000, 0, 100) };
        let left_at = (0..60).find(|ms| hystart.on_rtt(&paced(*ms), 40_000, 40_000, 32, 1 << 40));
        assert_eq!(left_at, Some(41));
    }

    /// Runs (samples, µs of RTT) for each round; returns the flow, and the round in which slow start ended.
    fn plus_plus(rounds: &[(u64, u64)]) -> (HyStartPlusPlus, Option<usize>) {
        let mut hystart = HyStartPlusPlus::default();
        let mut left = None;
        for (round, &(samples, rtt_us)) in rounds.iter().enumerate() {
            let next = round as u64 * 100;
            for _ in 0..samples {
                if hystart.on_rtt(&ack(0, next + 1, next + 100), rtt_us) {
                    left = left.or(Some(round));
                }
            }
        }
        (hystart, left)
    }

    /// True if the last of these rounds is spent in conservative slow start.
    fn is_careful(rounds: &[(u64, u64)]) -> bool {
        plus_plus(rounds).0.css.is_some()
    }

    #[test]
    fn a_rise_of_an_eighth_between_4_and_16_ms_begins_conservative_slow_start() {
        for (before, rise) in [(80_000, 10_000), (8_000, 4_000), (400_000, 16_000)] {
            assert!(is_careful(&[(8, before), (8, before + rise)]), "{before}");
            assert!(!is_careful(&[(8, before), (8, before + rise - 1)]), "{before}");
        }
    }

    #[test]
    fn a_round_is_judged_by_its_least_rtt_from_the_eighth_sample_on() {
        assert!(!is_careful(&[(8, 40_000), (7, 90_000)]));
        assert!(is_careful(&[(8, 40_000), (8, 90_000)]));
        assert!(!is_careful(&[(8, 90_000)]), "there is no round before the first");
        let (mut hystart, _) = plus_plus(&[(8, 40_000), (1, 40_000)]);
        for _ in 0..8 {
            hystart.on_rtt(&ack(0, 101, 200), 90_000);
        }
        assert!(hystart.css.is_none(), "one sample of the round was low");
    }

    #[test]
    fn a_round_ends_when_what_was_sent_at_its_beginning_is_acknowledged() {
        let mut hystart = HyStartPlusPlus::default();
        hystart.on_rtt(&ack(0, 1, 100), 40_000);
        hystart.on_rtt(&ack(0, 100, 200), 50_000);
        assert_eq!((hystart.samples, hystart.window_end), (2, 100));
        hystart.on_rtt(&ack(0, 101, 200), 50_000);
        assert_eq!((hystart.samples, hystart.window_end, hystart.last_round_min_us), (1, 200, 40_000));
    }

    #[test]
    fn conservative_slow_start_grows_by_a_quarter_and_keeps_the_rest() {
        let (mut hystart, _) = plus_plus(&[(8, 40_000), (8, 90_000)]);
        assert_eq!([3, 3, 3, 3, 9].map(|acked| hystart.step(acked, true)), [0, 1, 1, 1, 2]);
    }

    #[test]
    fn an_unpaced_sender_grows_by_eight_packets_an_ack_at_most() {
        let mut hystart = HyStartPlusPlus::default();
        assert_eq!([(8, false), (9, false), (9, true)].map(|(acked, paced)| hystart.step(acked, paced)), [8, 8, 9]);
        let (mut careful, _) = plus_plus(&[(8, 40_000), (8, 90_000)]);
        assert_eq!([(40, false), (40, true)].map(|(acked, paced)| careful.step(acked, paced)), [2, 10]);
    }

    #[test]
    fn after_the_initial_slow_start_growth_is_that_of_plain_slow_start() {
        let (mut hystart, _) = plus_plus(&[(8, 40_000), (8, 90_000)]);
        hystart.end();
        assert_eq!(hystart.step(40, false), 40);
        for round in 2..20 {
            assert!(!hystart.on_rtt(&ack(0, round * 100 + 1, round * 100 + 100), 40_000 + round * 20_000));
        }
        assert_eq!(hystart.step(40, false), 40);
    }

    #[test]
    fn conservative_slow_start_goes_back_when_delay_falls_below_where_it_began() {
        let slow = [(8, 40_000), (8, 90_000)];
        assert!(is_careful(&[slow[0], slow[1], (8, 90_000)]));
        assert!(!is_careful(&[slow[0], slow[1], (8, 89_999)]));
    }

    #[test]
    fn five_rounds_of_conservative_slow_start_end_it_for_good() {
        let mut rounds = [(8, 90_000); 8];
        rounds[0].1 = 40_000;
        // It begins in round 1; the fifth round after that starts with round 6.
        assert_eq!(plus_plus(&rounds[..6]).1, None);
        let (mut hystart, left) = plus_plus(&rounds);
        assert_eq!(left, Some(6));
        assert!(hystart.done && !hystart.on_rtt(&ack(0, 9_999, 10_000), 90_000), "once");
    }
}
