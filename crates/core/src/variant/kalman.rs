//! BBR-S of 2021 for fast-varying links: bandwidth by a Kalman filter; measured rates are capped by the sending rate. A reconstruction.
//! Spec: Chiariotti et al., IEEE Access 9, 2021, by its abstract: an adaptive Tobit Kalman filter; equations and numbers are ours.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::normal::{ONE, below, hazard};
use crate::bbr1::{BW_UNIT, Hooks, NewRate};
use crate::params::{FINE, params};
use crate::sampler::RateSampler;

params! {
    /// BBR-S's parameters beyond BBRv1's, for its Kalman filter.
    KalmanParams {
        /// Initial standard deviation of a measurement and of the estimate, as a share of the first rate.
        noise: FineShare = 6_400, 1, 25_600, "ours: 25 %";
        /// Initial standard deviation of the path's rate between two ACKs, as a share of the first rate.
        drift: FineShare = 512, 1, 25_600, "ours: 2 %";
        /// Weight of the old average of squared innovations after an ACK.
        forgetting: FineShare = 24_832, 0, 25_599, "ours: 0.97";
        /// Number of ACKs after which noise and drift adapt to the innovations.
        settle: Count = 32, 1, 10_000, "ours";
        /// Smallest deviation of a measurement, as a share of the estimate.
        noise_floor: FineShare = 512, 1, 25_600, "ours: 2 %";
        /// Largest deviation of a measurement, as a share of the estimate.
        noise_cap: FineShare = 12_800, 1, 25_600, "ours: 50 %";
        /// Smallest drift, as a share of the estimate.
        drift_floor: FineShare = 51, 1, 25_600, "ours: 0.2 %";
        /// Largest drift, as a share of the estimate.
        drift_cap: FineShare = 2_560, 1, 25_600, "ours: 10 %";
        /// Maximum of the estimate, as a factor of the windowed maximum.
        over_max: Gain = 320, 256, 2560, "ours: 1.25";
    }
}

/// Fraction bits of a rate in the filter.
const FRACTION: u32 = 8;
/// The gain of an innovation is in 1/2^32.
const GAIN_BITS: u32 = 32;
/// Largest gain: where nearly all measurements are capped, each carries little information. Source: ours.
const GAIN_MAX: i128 = 2 << GAIN_BITS;
/// Largest rate in the filter, 2^40: a square times a fraction stays within 127 bits. Source: the kernel's 32 bits of a rate.
const RATE_MAX: i128 = (u32::MAX as i128) << FRACTION;

/// A scalar Kalman filter whose measurements are capped at a bound that is given with each.
#[derive(Clone, Copy, Debug)]
struct Filter {
    p: KalmanParams,
    /// The estimate, packets/µs · 2^32.
    x: i128,
    /// Variances of the estimate, the measurement and the drift.
    variance: i128,
    noise: i128,
    drift: i128,
    /// Average of squared innovations.
    innovation: i128,
    updates: u32,
}

/// The square of `share`/25600 of `x`.
const fn square_of(x: i128, share: u32) -> i128 {
    let part = x * share as i128 / FINE as i128;
    part * part
}

impl Filter {
    const fn new(p: &KalmanParams) -> Self {
        Self { p: *p, x: 0, variance: 0, noise: 0, drift: 0, innovation: 0, updates: 0 }
    }

    fn begin(&mut self, y: i128) {
        self.x = y.max(1);
        self.variance = square_of(y, self.p.noise).max(1);
        self.noise = self.variance;
        self.drift = square_of(y, self.p.drift).max(1);
        self.innovation = self.noise;
        self.updates = 1;
    }

    /// Takes `y`: the path's rate plus noise, or `bound` if that is less.
    fn update(&mut self, y: i128, bound: Option<i128>) {
        if self.updates == 0 {
            return self.begin(y);
        }
        let variance = self.variance + self.drift;
        let deviation = i128::try_from(self.noise.unsigned_abs().isqrt()).unwrap_or(i128::MAX).max(1);
        let one = i128::from(ONE);
        // Distance of the bound above the estimate; from it the share of uncapped measurements, their mean and variance.
        let z = bound.map_or(8 * one, |bound| (bound - self.x) * one / deviation).clamp(-8 * one, 8 * one);
        let (share, mean_below) = (i128::from(below(z as i64)), i128::from(hazard(z as i64)));
        let z = z.max(-4 * one);
        let uncut = self.x - deviation * mean_below / one;
        let expected = (share * uncut + (one - share) * bound.unwrap_or(0)) / one;
        let shrink = (one - z * mean_below / one - mean_below * mean_below / one).clamp(one / 64, one);
        let explained = variance * share / one * share / one;
        let total = (explained + self.noise * shrink / one).max(1);
        let gain = (((variance * share / one) << GAIN_BITS) / total).min(GAIN_MAX);
        let innovation = y - expected;
        self.x = (self.x + ((gain * innovation) >> GAIN_BITS)).clamp(1, RATE_MAX);
        let left = (1_i128 << GAIN_BITS) - gain * share / one;
        self.variance = ((variance * left.max(0)) >> GAIN_BITS).max(1);
        // The bound narrows the innovations; this is the variance that remains of one.
        let mean = (z * (one - share) - share * mean_below) / one;
        let square = share - z * share / one * mean_below / one + z * z / one * (one - share) / one;
        let narrowed = (square - mean * mean / one).clamp(one / 16, one);
        self.adapt(innovation, explained, gain, narrowed);
    }

    /// Adapts noise and drift to the recent innovations.
    fn adapt(&mut self, innovation: i128, explained: i128, gain: i128, narrowed: i128) {
        let (keep, all) = (i128::from(self.p.forgetting), i128::from(FINE));
        let square = innovation * innovation;
        self.innovation = ((self.innovation * keep + square * (all - keep)) / all).max(1);
        self.updates = self.updates.saturating_add(1);
        if self.updates <= self.p.settle {
            return;
        }
        let within = |value: i128, floor: u32, cap: u32| {
            let (low, high) = (square_of(self.x, floor).max(1), square_of(self.x, cap).max(1));
            value.clamp(low.min(high), high)
        };
        let unexplained = (self.innovation - explained) * i128::from(ONE) / narrowed;
        let noise = within(unexplained, self.p.noise_floor, self.p.noise_cap);
        let moved = (((gain * gain) >> GAIN_BITS) * self.innovation) >> GAIN_BITS;
        self.drift = within(moved, self.p.drift_floor, self.p.drift_cap);
        self.noise = noise;
    }
}

/// Hooks of BBR-S by a Kalman filter.
#[derive(Clone, Debug)]
pub struct Kalman {
    filter: Filter,
    send_elapsed_us: u64,
    /// The recent windowed maximum; the estimate may exceed it by at most a set factor.
    max: i128,
}

impl Kalman {
    pub(crate) const fn new(p: &KalmanParams) -> Self {
        Self { filter: Filter::new(p), send_elapsed_us: 0, max: RATE_MAX }
    }
}

/// Converts a rate to the filter's fixed point.
fn scaled(bw: u64) -> i128 {
    i128::from(bw.min(u64::from(u32::MAX))) << FRACTION
}

impl Hooks for Kalman {
    /// Takes the time needed to send the volume of the next rate sample.
    fn note_send_elapsed(&mut self, sampler: &RateSampler) {
        self.send_elapsed_us = sampler.send_elapsed_us();
    }

    fn restart(&mut self) {
        *self = Self::new(&self.filter.p);
    }

    fn on_rate(&mut self, new: &NewRate<'_>) {
        if new.ack.rs.is_app_limited || !new.pipe_full {
            return;
        }
        // The sending rate is the largest rate that can be measured.
        let bound = match (new.ack.rs.delivered, self.send_elapsed_us) {
            (Some(delivered), 1..) => Some(scaled(delivered.saturating_mul(BW_UNIT) / self.send_elapsed_us)),
            _ => None,
        };
        let first = if self.filter.updates == 0 { new.max } else { new.bw };
        self.filter.update(scaled(first), bound);
        self.max = (scaled(new.max) * i128::from(self.filter.p.over_max) / 256).max(1);
        self.filter.x = self.filter.x.min(self.max);
    }

    /// Returns the maximum in Startup: an average of a doubling rate would keep it from doubling.
    fn bandwidth(&self, max: u64, pipe_full: bool) -> u64 {
        if !pipe_full || self.filter.updates == 0 {
            return max;
        }
        u64::try_from(self.filter.x >> FRACTION).unwrap_or(0).max(1)
    }
}

#[cfg(test)]
mod tests;
