//! CUBIC's window function in Linux's fixed point; RFC 9438's rules are parameters where they differ.
//! Spec: RFC 9438; Linux 6.12 `tcp_cubic.c`. The window itself belongs to `loss_based`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::event::{Ack, TxStart};
#[cfg(feature = "unstable-internals")]
use crate::hystart::HyStartInternals;
use crate::hystart::{HyStart, HyStartPlusPlus};
use crate::params::params;
use crate::shared::last_moment_of;
use crate::units::{MICROS_PER_SEC, Time};
use crate::wide;

/// Unit of β. Source: Linux `BICTCP_BETA_SCALE`.
const BETA_SCALE: u64 = 1024;
/// Time unit of the cubic function: 1/1024 s. Source: Linux `BICTCP_HZ` = 10.
const TIME_SHIFT: u32 = 10;
/// The window may grow by at most half per round: one packet for two ACKed. Source: Linux; RFC 9438 target ≤ 1.5 cwnd.
const MIN_ACKS_PER_INCREASE: u64 = 2;
/// Growth without a known maximum: 5 % per round. Source: Linux `bictcp_update`.
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
        /// Lower the recorded maximum further if the previous maximum was not reached.
        fast_convergence: Switch = 1, 0, 1, "RFC 9438 §4.7; Linux 6.12 fast_convergence";
        /// Never be slower than Reno would be.
        tcp_friendliness: Switch = 1, 0, 1, "RFC 9438 §4.3; Linux 6.12 tcp_friendliness";
        /// RFC 9438's rules where Linux differs: Reno-friendly slope 1 from the window before the reduction on, cubic target of a smoothed RTT ahead instead of the smallest, exact cube root.
        rfc9438: Switch = 0, 0, 1, "RFC 9438 §4.2, §4.3";
        /// HyStart ends slow start before loss does.
        hystart: Switch = 1, 0, 1, "Linux 6.12 hystart";
        /// HyStart++ instead of HyStart.
        hystart_plus_plus: Switch = 0, 0, 1, "RFC 9406";
        /// Halve the window of an idle flow once per time-out, as in RFC 2861.
        slow_start_after_idle: Switch = 1, 0, 1, "Linux 6.12 tcp_slow_start_after_idle";
        /// Ticks of the kernel's clock a second, in which the cubic function counts time.
        hz: Count = 250, 1, 10_000, "Debian's CONFIG_HZ";
    }
}

/// Detector that may end slow start.
#[derive(Clone, Copy, Debug)]
enum SlowStart {
    Plain,
    HyStart(HyStart),
    PlusPlus(HyStartPlusPlus),
}

/// State of a CUBIC flow under the names of Linux's `struct bictcp`, for comparison with a real kernel.
#[cfg(feature = "unstable-internals")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CubicInternals {
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
    /// HyStart's state, where Linux's own HyStart runs.
    pub hystart: Option<HyStartInternals>,
}

/// State of CUBIC.
#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    p: CubicParams,
    /// ACKs for one more packet.
    count: u64,
    last_max_cwnd: u32,
    /// The window before the last reduction (RFC 9438's `cwnd_prior`), unchanged by fast convergence.
    prior_cwnd: u32,
    last_cwnd: u32,
    last_tick: u64,
    origin: u32,
    k: u64,
    delay_min_us: u64,
    /// Tick at which the present epoch started; 0 for none.
    epoch_start: u64,
    acked_in_epoch: u64,
    reno_cwnd: u64,
    slow_start: SlowStart,
    now: CubicCache,
}

/// The present tick, and the range of time for which it has been computed; empty at first.
#[derive(Clone, Copy, Debug)]
struct CubicCache {
    tick: u64,
    from: Time,
    to: Time,
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
            prior_cwnd: 0,
            last_cwnd: 0,
            last_tick: 0,
            origin: 0,
            k: 0,
            delay_min_us: 0,
            epoch_start: 0,
            acked_in_epoch: 0,
            reno_cwnd: 0,
            slow_start,
            now: CubicCache { tick: 0, from: Time::NEVER, to: Time::ZERO },
        }
    }

    /// Returns a flow with the same parameters and empty state.
    pub(crate) fn renewed(&self, now: Time) -> Self {
        Self::new(&self.p, now)
    }

    /// Ticks since time 0, never 0: the host's own, else by `now`.
    fn tick(&self, now: Time, host: Option<u64>) -> u64 {
        host.unwrap_or_else(|| self.ticks(now.as_micros()) + 1)
    }

    /// The tick at an ACK, without a division as long as the tick lasts.
    fn tick_of(&mut self, ack: &Ack) -> u64 {
        if ack.tick.is_some() || ack.now < self.now.from || ack.now > self.now.to {
            let tick = self.tick(ack.now, ack.tick);
            if ack.tick.is_none() {
                self.now = CubicCache { tick, from: ack.now, to: last_moment_of(tick.saturating_sub(1), self.p.hz) };
            }
            return tick;
        }
        self.now.tick
    }

    /// Ticks in a span, rounded down. Whole seconds are converted separately, so that no time overflows.
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
        let rtt_us = rtt_us.max(1);
        let is_least = self.delay_min_us == 0 || rtt_us < self.delay_min_us;
        if !is_least && !in_slow_start {
            return false; // the case for most ACKs: no new information
        }
        if self.epoch_start != 0 {
            let since_epoch = self.tick_of(ack).saturating_sub(self.epoch_start);
            if since_epoch < self.ticks(IGNORE_RTT_US) {
                return false;
            }
        }
        if is_least {
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

    /// Returns the packets by which slow start grows for `acked` of them, with or without a pacing host.
    pub(crate) fn slow_start_step(&mut self, acked: u32, paced: bool) -> u32 {
        match &mut self.slow_start {
            SlowStart::PlusPlus(hystart) => hystart.step(acked, paced),
            _ => acked,
        }
    }

    /// Returns the number of ACKed packets needed for growth by one packet.
    // spec: Linux bictcp_update
    pub(crate) fn acks_per_increase(&mut self, ack: &Ack, cwnd: u32, acked: u32) -> u32 {
        self.acked_in_epoch += u64::from(acked);
        let tick = self.tick_of(ack);
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
            self.count = self.cubic_count(tick, cwnd, self.ahead_us(ack));
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
            let factor = (1u64 << (10 + 3 * TIME_SHIFT)) / (u64::from(self.p.scale) * 10).max(1);
            let cube = wide::saturating_mul(factor, u64::from(self.last_max_cwnd - cwnd));
            self.k = if self.p.rfc9438 != 0 { cube_root(cube) } else { linux_cube_root(cube) };
            self.origin = self.last_max_cwnd;
        }
    }

    /// Lookahead on the curve: growth over the next RTT leads to the window at that time.
    // spec: RFC 9438 §4.2, a smoothed RTT; Linux bictcp_update, the smallest.
    fn ahead_us(&self, ack: &Ack) -> u64 {
        match ack.srtt {
            Some(srtt) if self.p.rfc9438 != 0 => srtt.as_micros(),
            _ => self.delay_min_us,
        }
    }

    /// Returns the ACKs needed for one more packet by the cubic function, `ahead_us` from now.
    fn cubic_count(&self, tick: u64, cwnd: u32, ahead_us: u64) -> u64 {
        let hz = u64::from(self.p.hz).max(1);
        let rtt_ticks = self.ticks(ahead_us.saturating_add(MICROS_PER_SEC / hz - 1));
        let t = ((tick.saturating_sub(self.epoch_start) + rtt_ticks) << TIME_SHIFT) / hz;
        // Beyond 2^36 (two years) the curve is above any window.
        let offset = t.abs_diff(self.k).min(1 << 36);
        let scaled = u64::from(self.p.scale) * 10 * offset;
        let (square_high, square_low) = wide::mul(offset, offset);
        let (high, low) = wide::mul(scaled, square_low);
        let delta = wide::shr((high + scaled * square_high, low), 10 + 3 * TIME_SHIFT);
        let origin = u64::from(self.origin);
        let target = if t < self.k { origin.saturating_sub(delta) } else { origin.saturating_add(delta) };
        let cwnd = u64::from(cwnd);
        let count = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if self.last_max_cwnd == 0 { count.min(ACKS_PER_INCREASE_UNKNOWN) } else { count }
    }

    /// Sets a floor under the growth: the window that Reno would have by now.
    fn reno_friendliness(&mut self, cwnd: u32) {
        let cwnd = u64::from(cwnd);
        // One packet for every cwnd·(1+β)/(3(1−β)) ACKed, in eighths as Linux rounds it (15/8).
        let beta = u64::from(self.p.beta);
        let eighths = 8 * (BETA_SCALE + beta) / 3 / BETA_SCALE.saturating_sub(beta).max(1);
        let reached = self.p.rfc9438 != 0 && self.reno_cwnd >= u64::from(self.prior_cwnd);
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

    /// Returns the threshold after a loss at this window.
    // spec: Linux cubictcp_recalc_ssthresh; RFC 9438 §4.6, §4.7
    pub(crate) fn recalc_ssthresh(&mut self, cwnd: u32) -> u32 {
        if let SlowStart::PlusPlus(hystart) = &mut self.slow_start {
            hystart.end();
        }
        self.epoch_start = 0;
        self.prior_cwnd = cwnd;
        let beta = u64::from(self.p.beta);
        self.last_max_cwnd = if cwnd < self.last_max_cwnd && self.p.fast_convergence != 0 {
            (u64::from(cwnd) * (BETA_SCALE + beta) / (2 * BETA_SCALE)) as u32
        } else {
            cwnd
        };
        ((u64::from(cwnd) * beta / BETA_SCALE) as u32).max(2)
    }

    /// Returns the complete state.
    #[cfg(feature = "unstable-internals")]
    pub(crate) const fn internals(&self) -> CubicInternals {
        CubicInternals {
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
                SlowStart::HyStart(hystart) => Some(hystart.internals()),
                _ => None,
            },
        }
    }

    /// Resets everything but the parameters after a time-out.
    // spec: Linux cubictcp_state
    pub(crate) fn on_rto(&mut self, ack: &Ack) {
        // The window before the reduction was set together with it, and is no part of the curve.
        *self = Self { prior_cwnd: self.prior_cwnd, ..Self::new(&self.p, ack.now) };
        match &mut self.slow_start {
            SlowStart::Plain => {}
            SlowStart::HyStart(hystart) => hystart.begin_round(ack),
            SlowStart::PlusPlus(hystart) => hystart.end(),
        }
    }

    /// Excludes idle time from the time since the loss.
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

/// Cube roots of 0 to 63 in 1/64, less a bias that the rounding of [`linux_cube_root`] compensates.
/// Source: the values of Linux `cubic_root`.
const CUBE_ROOTS: [u8; 64] = [
    0, 54, 54, 54, 118, 118, 118, 118, 123, 129, 134, 138, 143, 147, 151, 156, 157, 161, 164, 168, 170, 173, 176, 179,
    181, 185, 187, 190, 192, 194, 197, 199, 200, 202, 204, 206, 209, 211, 213, 215, 217, 219, 221, 222, 224, 225, 227,
    229, 231, 232, 234, 236, 237, 239, 240, 242, 244, 245, 246, 248, 250, 251, 252, 254,
];

/// The kernel's cube root: a table and one Newton step, some 0.2 % off. K, and so the curve, inherits that error.
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

/// Newton steps that suffice for every root of 64 bits: from at most twice the root, the error squares. A bound, so that BPF's
/// verifier sees that the loop ends.
const NEWTON_STEPS: u32 = 8;

/// Integer cube root, rounded down.
fn cube_root(value: u64) -> u64 {
    if value == 0 {
        return 0;
    }
    // Newton's method from above: the start is at least the root, so the sequence falls until it reaches the root.
    let bits = 64 - value.leading_zeros();
    let mut root = 1u64 << bits.div_ceil(3);
    for _ in 0..NEWTON_STEPS {
        let next = (2 * root + value / (root * root).max(1)) / 3;
        if next >= root {
            return root;
        }
        root = next;
    }
    root
}

#[cfg(test)]
mod tests;
