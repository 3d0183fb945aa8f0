//! CUBIC's window function, Linux's fixed point, with RFC 9438's rules where they differ as parameters.
//! In: the window, the time, RTT samples. Out: how many ACKs one more packet takes, and the threshold after a loss.
//! Spec: RFC 9438; Linux 6.12 `tcp_cubic.c`. Never: the window itself, which is `loss_based`'s.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::event::{Ack, TxStart};
use crate::hystart::{HyStart, HyStartInside, HyStartPlusPlus};
use crate::params::params;
use crate::units::{MICROS_PER_SEC, Time};

/// β's unit. Source: Linux `BICTCP_BETA_SCALE`.
const BETA_SCALE: u64 = 1024;
/// The cubic function counts time in 1/1024 s. Source: Linux `BICTCP_HZ` = 10.
const TIME_SHIFT: u32 = 10;
/// The window may grow by half in a round at most: one packet for two ACKed. Source: Linux; RFC 9438 target ≤ 1.5 cwnd.
const MIN_ACKS_PER_INCREASE: u64 = 2;
/// Without a known maximum: 5 % a round. Source: Linux `bictcp_update`.
const ACKS_PER_INCREASE_UNKNOWN: u64 = 20;
/// RTT samples right after a reduction describe the old queue. Source: Linux `cubictcp_acked` (HZ).
const IGNORE_RTT_US: u64 = MICROS_PER_SEC;

params! {
    /// CUBIC's parameters.
    CubicParams {
        /// Share of the window kept at a loss, in 1/1024 (717/1024 = 0.70).
        beta: Count = 717, 512, 1000, "Linux 6.12 beta; RFC 9438 0.7";
        /// Steepness of the cubic function: C in 1/1024 · 10 (41 makes C = 0.4).
        scale: Count = 41, 1, 1024, "Linux 6.12 bic_scale; RFC 9438 C = 0.4";
        /// Give up part of the maximum when the last one was not reached.
        fast_convergence: Switch = 1, 0, 1, "RFC 9438 §4.7; Linux 6.12 fast_convergence";
        /// Never be slower than Reno would be.
        tcp_friendliness: Switch = 1, 0, 1, "RFC 9438 §4.3; Linux 6.12 tcp_friendliness";
        /// RFC 9438's rules where Linux differs: Reno-friendly slope 1 once the old maximum is reached, cubic target of one RTT ahead.
        rfc9438: Switch = 0, 0, 1, "RFC 9438 §4.3, §4.4";
        /// HyStart ends slow start before loss does.
        hystart: Switch = 1, 0, 1, "Linux 6.12 hystart";
        /// HyStart++ instead of HyStart.
        hystart_plus_plus: Switch = 0, 0, 1, "RFC 9406";
        /// Halve an idle window once every time-out, as RFC 2861 says.
        slow_start_after_idle: Switch = 1, 0, 1, "Linux 6.12 tcp_slow_start_after_idle";
        /// Ticks of the kernel's clock a second, in which the cubic function counts time.
        hz: Count = 250, 1, 10_000, "Debian's CONFIG_HZ";
    }
}

/// How slow start is watched.
#[derive(Clone, Copy, Debug)]
enum SlowStart {
    Plain,
    HyStart(HyStart),
    PlusPlus(HyStartPlusPlus),
}

/// Everything a CUBIC flow remembers, by the names of Linux's `struct bictcp`, for a comparison with a real kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CubicInside {
    /// `cnt`.
    pub cnt: u64,
    /// `last_max_cwnd`.
    pub last_max_cwnd: u32,
    /// `last_cwnd`.
    pub last_cwnd: u32,
    /// `last_time`, ticks.
    pub last_time: u64,
    /// `bic_origin_point`.
    pub origin_point: u32,
    /// `bic_K`, 1/1024 s.
    pub k: u64,
    /// `delay_min`, µs.
    pub delay_min_us: u64,
    /// `epoch_start`, ticks; 0 for none.
    pub epoch_start: u64,
    /// `ack_cnt`.
    pub ack_cnt: u64,
    /// `tcp_cwnd`.
    pub tcp_cwnd: u64,
    /// HyStart's part, where Linux's own HyStart runs.
    pub hystart: Option<HyStartInside>,
}

/// CUBIC's memory.
#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    p: CubicParams,
    /// ACKs for one more packet.
    count: u64,
    last_max_cwnd: u32,
    last_cwnd: u32,
    last_tick: u64,
    origin: u32,
    k: u64,
    delay_min_us: u64,
    /// Tick of the present epoch's start; 0 for none.
    epoch_start: u64,
    acked_in_epoch: u64,
    reno_cwnd: u64,
    slow_start: SlowStart,
}

impl Cubic {
    pub(crate) fn new(params: &CubicParams, now: Time) -> Self {
        let slow_start = match (params.hystart, params.hystart_plus_plus) {
            (_, 1) => SlowStart::PlusPlus(HyStartPlusPlus::default()),
            (1, _) => SlowStart::HyStart(HyStart::new(now)),
            _ => SlowStart::Plain,
        };
        Self {
            p: *params,
            count: 0,
            last_max_cwnd: 0,
            last_cwnd: 0,
            last_tick: 0,
            origin: 0,
            k: 0,
            delay_min_us: 0,
            epoch_start: 0,
            acked_in_epoch: 0,
            reno_cwnd: 0,
            slow_start,
        }
    }

    /// Ticks since the start of time, never 0: the host's own, else by `now`.
    fn tick(&self, now: Time, host: Option<u64>) -> u64 {
        host.unwrap_or_else(|| self.ticks(now.as_micros()) + 1)
    }

    /// Ticks in a span, rounded down. Whole seconds apart, so that no time overflows.
    fn ticks(&self, span_us: u64) -> u64 {
        let hz = u64::from(self.p.hz);
        (span_us / MICROS_PER_SEC) * hz + (span_us % MICROS_PER_SEC) * hz / MICROS_PER_SEC
    }

    /// Takes the ACK's RTT; true if slow start should end here.
    // spec: Linux cubictcp_acked
    pub(crate) fn on_rtt(&mut self, ack: &Ack, cwnd: u32, in_slow_start: bool, pacing_rate: u64) -> bool {
        let Some(rtt_us) = ack.rs.rtt_us else {
            return false;
        };
        let ignore = self.ticks(IGNORE_RTT_US);
        if self.epoch_start != 0 && self.tick(ack.now, ack.tick).saturating_sub(self.epoch_start) < ignore {
            return false;
        }
        let rtt_us = rtt_us.max(1);
        if self.delay_min_us == 0 || rtt_us < self.delay_min_us {
            self.delay_min_us = rtt_us;
        }
        if !in_slow_start {
            return false;
        }
        match &mut self.slow_start {
            SlowStart::Plain => false,
            SlowStart::HyStart(hystart) => hystart.on_rtt(ack, rtt_us, self.delay_min_us, cwnd, pacing_rate),
            SlowStart::PlusPlus(hystart) => hystart.on_rtt(ack, rtt_us),
        }
    }

    /// By how many packets slow start grows for `acked` of them.
    pub(crate) const fn slow_start_step(&mut self, acked: u32) -> u32 {
        match &mut self.slow_start {
            SlowStart::PlusPlus(hystart) => hystart.step(acked),
            _ => acked,
        }
    }

    /// How many ACKed packets one more packet takes now.
    // spec: Linux bictcp_update
    pub(crate) fn acks_per_increase(&mut self, ack: &Ack, cwnd: u32, acked: u32) -> u32 {
        self.acked_in_epoch += u64::from(acked);
        let tick = self.tick(ack.now, ack.tick);
        let hz = u64::from(self.p.hz);
        if self.last_cwnd == cwnd && tick.saturating_sub(self.last_tick) <= hz / 32 {
            return clamp_count(self.count);
        }
        if self.epoch_start == 0 || tick != self.last_tick {
            self.last_cwnd = cwnd;
            self.last_tick = tick;
            if self.epoch_start == 0 {
                self.begin_epoch(tick, cwnd, acked);
            }
            self.count = self.cubic_count(tick, cwnd);
        }
        if self.p.tcp_friendliness != 0 {
            self.reno_friendliness(cwnd);
        }
        self.count = self.count.max(MIN_ACKS_PER_INCREASE);
        clamp_count(self.count)
    }

    fn begin_epoch(&mut self, tick: u64, cwnd: u32, acked: u32) {
        self.epoch_start = tick;
        self.acked_in_epoch = u64::from(acked);
        self.reno_cwnd = u64::from(cwnd);
        if self.last_max_cwnd <= cwnd {
            self.k = 0;
            self.origin = cwnd;
        } else {
            // K = cbrt(distance / C), in 1/1024 s.
            let factor = (1u64 << (10 + 3 * TIME_SHIFT)) / (u64::from(self.p.scale) * 10);
            let cube = factor.saturating_mul(u64::from(self.last_max_cwnd - cwnd));
            self.k = if self.p.rfc9438 != 0 { cube_root(cube) } else { linux_cube_root(cube) };
            self.origin = self.last_max_cwnd;
        }
    }

    /// ACKs for one more packet by the cubic function.
    fn cubic_count(&self, tick: u64, cwnd: u32) -> u64 {
        let hz = u64::from(self.p.hz);
        let rtt_ticks = self.ticks(self.delay_min_us.saturating_add(MICROS_PER_SEC / hz - 1));
        let t = ((tick.saturating_sub(self.epoch_start) + rtt_ticks) << TIME_SHIFT) / hz;
        let offset = u128::from(t.abs_diff(self.k));
        let scale = u128::from(self.p.scale) * 10;
        // Beyond 2^36 (two years) the curve is above any window.
        let offset = offset.min(1 << 36);
        let delta = (scale * offset * offset * offset) >> (10 + 3 * TIME_SHIFT);
        let delta = u64::try_from(delta).unwrap_or(u64::MAX);
        let origin = u64::from(self.origin);
        let target = if t < self.k { origin.saturating_sub(delta) } else { origin.saturating_add(delta) };
        let cwnd = u64::from(cwnd);
        let count = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if self.last_max_cwnd == 0 { count.min(ACKS_PER_INCREASE_UNKNOWN) } else { count }
    }

    /// The window that Reno would have by now sets a floor under the growth.
    fn reno_friendliness(&mut self, cwnd: u32) {
        let cwnd = u64::from(cwnd);
        // One packet for every cwnd·(1+β)/(3(1−β)) ACKed, in eighths as Linux rounds it (15/8).
        let beta = u64::from(self.p.beta);
        let eighths = 8 * (BETA_SCALE + beta) / 3 / (BETA_SCALE - beta);
        let reached = self.p.rfc9438 != 0 && self.reno_cwnd >= u64::from(self.last_max_cwnd);
        let step = (if reached { cwnd } else { (cwnd * eighths) >> 3 }).max(1);
        if self.acked_in_epoch > step {
            let steps = (self.acked_in_epoch - 1) / step;
            self.acked_in_epoch -= steps * step;
            self.reno_cwnd += steps;
        }
        if self.reno_cwnd > cwnd {
            self.count = self.count.min(cwnd / (self.reno_cwnd - cwnd));
        }
    }

    /// The threshold after a loss at this window.
    // spec: Linux cubictcp_recalc_ssthresh; RFC 9438 §4.6, §4.7
    pub(crate) fn recalc_ssthresh(&mut self, cwnd: u32) -> u32 {
        self.epoch_start = 0;
        let beta = u64::from(self.p.beta);
        self.last_max_cwnd = if cwnd < self.last_max_cwnd && self.p.fast_convergence != 0 {
            (u64::from(cwnd) * (BETA_SCALE + beta) / (2 * BETA_SCALE)) as u32
        } else {
            cwnd
        };
        ((u64::from(cwnd) * beta / BETA_SCALE) as u32).max(2)
    }

    /// Everything it remembers.
    pub(crate) const fn inside(&self) -> CubicInside {
        CubicInside {
            cnt: self.count,
            last_max_cwnd: self.last_max_cwnd,
            last_cwnd: self.last_cwnd,
            last_time: self.last_tick,
            origin_point: self.origin,
            k: self.k,
            delay_min_us: self.delay_min_us,
            epoch_start: self.epoch_start,
            ack_cnt: self.acked_in_epoch,
            tcp_cwnd: self.reno_cwnd,
            hystart: match &self.slow_start {
                SlowStart::HyStart(hystart) => Some(hystart.inside()),
                _ => None,
            },
        }
    }

    /// A time-out forgets everything but the parameters.
    // spec: Linux cubictcp_state
    pub(crate) fn on_rto(&mut self, ack: &Ack) {
        *self = Self::new(&self.p, ack.now);
        if let SlowStart::HyStart(hystart) = &mut self.slow_start {
            hystart.begin_round(ack);
        }
    }

    /// Idle time does not count as time since the loss.
    // spec: Linux cubictcp_cwnd_event
    pub(crate) fn on_tx_start(&mut self, start: &TxStart) {
        if self.epoch_start == 0 {
            return;
        }
        let now = self.tick(start.now, start.tick);
        let idle = self.ticks(start.idle.as_micros());
        self.epoch_start = (self.epoch_start + idle).min(now);
    }
}

fn clamp_count(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Cube roots of 0 to 63 in 1/64, less a bias that the rounding of [`linux_cube_root`] takes back.
/// Source: Linux `cubic_root`, whose values they are.
const CUBE_ROOTS: [u8; 64] = [
    0, 54, 54, 54, 118, 118, 118, 118, 123, 129, 134, 138, 143, 147, 151, 156, 157, 161, 164, 168, 170, 173, 176, 179,
    181, 185, 187, 190, 192, 194, 197, 199, 200, 202, 204, 206, 209, 211, 213, 215, 217, 219, 221, 222, 224, 225, 227,
    229, 231, 232, 234, 236, 237, 239, 240, 242, 244, 245, 246, 248, 250, 251, 252, 254,
];

/// The kernel's cube root: a table and one step of Newton's, some 0.2 % off. K, and so the curve, inherits that.
// spec: Linux cubic_root
fn linux_cube_root(value: u64) -> u64 {
    let table = |index: u64| u64::from(CUBE_ROOTS[(index & 63) as usize]);
    let bits = u64::BITS - value.leading_zeros();
    if bits < 7 {
        return (table(value) + 35) >> 6;
    }
    let third = ((bits * 84) >> 8) - 1;
    let guess = ((table(value >> (third * 3)) + 10) << third) >> 6;
    let quotient = value / (guess * (guess - 1)).max(1);
    ((2 * guess + (quotient & u64::from(u32::MAX))) * 341) >> 10
}

/// Integer cube root, rounded down.
fn cube_root(value: u64) -> u64 {
    if value == 0 {
        return 0;
    }
    // Newton from above: the start is at least the root, so the sequence falls until it is the root.
    let bits = 64 - value.leading_zeros();
    let mut root = 1u64 << bits.div_ceil(3);
    loop {
        let next = (2 * root + value / (root * root)) / 3;
        if next >= root {
            return root;
        }
        root = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: as near as the kernel says of its own.
    #[test]
    fn the_kernels_cube_root_is_within_half_a_per_cent_for_large_values() {
        for exact in [100u64, 1000, 4_321, 65_535, 1_000_000] {
            let root = linux_cube_root(exact * exact * exact);
            assert!(root.abs_diff(exact) * 200 <= exact, "{root} for {exact}");
        }
        assert_eq!([0, 1, 8, 27, 63].map(linux_cube_root), [0, 1, 2, 3, 4]);
        assert_eq!([64, 100, 127, 128].map(linux_cube_root), [4, 5, 5, 5], "Newton's step from here on");
    }

    #[test]
    fn the_cube_root_is_rounded_down_and_exact_on_cubes() {
        for root in [1u64, 2, 3, 10, 1000, 65_535, 2_000_000] {
            assert_eq!(cube_root(root * root * root), root);
            assert_eq!(cube_root(root * root * root - 1), root - 1);
        }
        assert_eq!(cube_root(u64::MAX), 2_642_245);
    }

    /// Closed form: K = cbrt(Wmax(1−β)/C); 1000 packets at β = .7, C = .4 take 9.09 s to come back.
    #[test]
    fn the_window_returns_to_its_maximum_after_k_seconds() {
        let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
        let cwnd = cubic.recalc_ssthresh(1000);
        let ack = Ack { now: Time::micros(1_000_000), ..Ack::default() };
        cubic.acks_per_increase(&ack, cwnd, 1);
        let k_ms = cubic.k * 1000 / 1024;
        assert!((9_050..=9_120).contains(&k_ms), "{k_ms}");
    }

    #[test]
    fn fast_convergence_gives_part_of_an_unreached_maximum_away() {
        let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
        cubic.recalc_ssthresh(1000);
        cubic.recalc_ssthresh(900);
        assert_eq!(cubic.last_max_cwnd, 900 * (1024 + 717) / 2048);
    }

    fn at(us: u64) -> Ack {
        Ack { now: Time::micros(us), ..Ack::default() }
    }

    fn with_rtt(us: u64, rtt_us: u64) -> Ack {
        Ack { rs: crate::RateSample { rtt_us: Some(rtt_us), ..crate::RateSample::default() }, ..at(us) }
    }

    #[test]
    fn an_epoch_may_begin_with_time_itself() {
        let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
        cubic.acks_per_increase(&at(0), 10, 1);
        assert_ne!(cubic.epoch_start, 0, "0 stands for none");
    }

    #[test]
    fn the_least_delay_is_kept_and_the_first_second_of_an_epoch_teaches_none() {
        let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
        let mut least_after = |us: u64, rtt_us: u64| {
            cubic.on_rtt(&with_rtt(us, rtt_us), 10, false, 0);
            cubic.delay_min_us
        };
        assert_eq!(
            [(1, 50_000), (2, 60_000), (3, 40_000)].map(|(us, rtt)| least_after(us, rtt)),
            [50_000, 50_000, 40_000]
        );
        cubic.acks_per_increase(&at(1_000_000), 10, 1);
        let mut least_after = |us: u64, rtt_us: u64| {
            cubic.on_rtt(&with_rtt(us, rtt_us), 10, false, 0);
            cubic.delay_min_us
        };
        let tick_us = MICROS_PER_SEC / u64::from(CubicParams::default().hz);
        let last_ignored = 1_000_000 + IGNORE_RTT_US / tick_us * tick_us - tick_us;
        assert_eq!(least_after(last_ignored, 30_000), 40_000);
        assert_eq!(least_after(last_ignored + tick_us, 30_000), 30_000);
    }

    #[test]
    fn slow_start_grows_by_all_that_is_acknowledged() {
        for (hystart, hystart_plus_plus) in [(0, 0), (1, 0), (0, 1)] {
            let params = CubicParams { hystart, hystart_plus_plus, ..CubicParams::default() };
            assert_eq!(Cubic::new(&params, Time::ZERO).slow_start_step(7), 7);
        }
    }

    #[test]
    fn the_curve_is_looked_up_32_times_a_second_while_the_window_stands_still() {
        let params = CubicParams { tcp_friendliness: 0, ..CubicParams::default() };
        let mut cubic = Cubic::new(&params, Time::ZERO);
        cubic.recalc_ssthresh(1_000);
        let mut count = |ms: u64, cwnd: u32| cubic.acks_per_increase(&at(ms * 1_000), cwnd, 1);
        let first = count(1_000, 700);
        let pause = 1_000 * (u64::from(params.hz) / 32) / u64::from(params.hz);
        assert_eq!(count(1_000 + pause, 700), first);
        assert_ne!(count(1_000 + pause + 1_000 / u64::from(params.hz), 700), first);
        let moved = count(1_100, 701);
        assert_ne!(count(1_104, 702), moved, "a window that moved is looked up at the next tick");
    }

    #[test]
    fn the_curve_is_that_of_a_round_trip_ahead_in_whole_ticks_rounded_up() {
        let tick_us = MICROS_PER_SEC / u64::from(CubicParams::default().hz);
        let count = |delay_min_us: u64| {
            let cubic = Cubic {
                k: 100_000,
                origin: 1_000_000,
                last_max_cwnd: 1_000_000,
                delay_min_us,
                epoch_start: 1,
                ..Cubic::new(&CubicParams::default(), Time::ZERO)
            };
            cubic.cubic_count(1, 627_000)
        };
        assert_eq!((count(1), count(tick_us - 1)), (count(tick_us), count(tick_us)));
        assert_ne!(count(0), count(1));
        assert_ne!(count(tick_us), count(tick_us + 1));
    }

    #[test]
    fn growth_is_hystart_plus_pluss_where_that_is_chosen() {
        let params = CubicParams { hystart: 0, hystart_plus_plus: 1, ..CubicParams::default() };
        let mut cubic = Cubic::new(&params, Time::ZERO);
        for round in 0..2 {
            for _ in 0..8 {
                let ack = Ack { una: round * 100 + 1, next: round * 100 + 100, ..with_rtt(0, 40_000 + round * 50_000) };
                cubic.on_rtt(&ack, 10, true, 0);
            }
        }
        assert_eq!(cubic.slow_start_step(8), 2);
    }

    #[test]
    fn a_loss_begins_an_epoch_even_within_a_tick() {
        let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
        cubic.acks_per_increase(&at(1_000_000), 100, 1);
        let cwnd = cubic.recalc_ssthresh(100);
        cubic.acks_per_increase(&at(1_000_000), cwnd, 1);
        assert_ne!(cubic.epoch_start, 0);
    }

    #[test]
    fn k_is_the_kernels_root_unless_rfc_9438_is_asked_for() {
        let k = |rfc9438: u32| {
            let mut cubic = Cubic::new(&CubicParams { rfc9438, ..CubicParams::default() }, Time::ZERO);
            let cwnd = cubic.recalc_ssthresh(1_000);
            cubic.acks_per_increase(&at(1_000_000), cwnd, 1);
            cubic.k
        };
        let cube = (1u64 << 40) / 410 * 300;
        assert_eq!((k(0), k(1)), (linux_cube_root(cube), cube_root(cube)));
        assert_ne!(k(0), k(1));
    }

    /// `acked` packets of an epoch at a window of 100: packets left over, Reno's window, ACKs for one more.
    fn friendly(acked: u64, rfc9438: u32, last_max_cwnd: u32) -> (u64, u64, u64) {
        let params = CubicParams { rfc9438, ..CubicParams::default() };
        let new = Cubic::new(&params, Time::ZERO);
        let mut cubic = Cubic { count: 1_000, reno_cwnd: 100, acked_in_epoch: acked, last_max_cwnd, ..new };
        cubic.reno_friendliness(100);
        (cubic.acked_in_epoch, cubic.reno_cwnd, cubic.count)
    }

    #[test]
    fn reno_would_gain_a_packet_for_15_eighths_of_a_window() {
        assert_eq!(friendly(187, 0, 1_000), (187, 100, 1_000));
        assert_eq!(friendly(188, 0, 1_000), (1, 101, 100));
        assert_eq!(friendly(374, 0, 1_000), (187, 101, 100));
        assert_eq!(friendly(376, 0, 1_000), (2, 102, 50));
        assert_eq!(friendly(376, 1, 1_000), (2, 102, 50), "the maximum is not reached yet");
        assert_eq!(friendly(376, 0, 100), (2, 102, 50), "Linux never asks");
        assert_eq!(friendly(376, 1, 100), (76, 103, 33), "as Reno from its old maximum on");
        assert_eq!(friendly(376, 1, 101), (2, 102, 50));
    }

    #[test]
    fn a_maximum_that_was_reached_again_is_kept_whole() {
        let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
        cubic.recalc_ssthresh(1_000);
        cubic.recalc_ssthresh(1_000);
        assert_eq!(cubic.last_max_cwnd, 1_000);
    }

    #[test]
    fn a_time_out_forgets_the_curve_and_begins_a_round_of_hystart() {
        let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
        cubic.recalc_ssthresh(1_000);
        cubic.acks_per_increase(&at(1_000_000), 700, 1);
        cubic.on_rto(&Ack { next: 77, ..at(2_000_000) });
        let inside = cubic.inside();
        assert_eq!((inside.last_max_cwnd, inside.epoch_start, (inside.k, inside.cnt)), (0, 0, (0, 0)));
        assert_eq!(inside.hystart.map(|hystart| (hystart.end_seq, hystart.round_start_us)), Some((77, 2_000_000)));
    }
}
