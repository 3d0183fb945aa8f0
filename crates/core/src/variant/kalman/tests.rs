//! The Kalman filter compared with the same equations in floating point, and on series with a known true value.
// SPDX-License-Identifier: Apache-2.0 OR MIT

extern crate std;

use std::vec::Vec;

use super::super::normal::tests::{density, share_below};
use super::*;
use crate::Rng;

/// One packet per millisecond, in the filter's fixed point.
const PER_MS: f64 = ((BW_UNIT / 1_000) << FRACTION) as f64;

/// The filter's equations with doubles and exact functions.
struct Reference {
    p: KalmanParams,
    x: f64,
    variance: f64,
    noise: f64,
    drift: f64,
    innovation: f64,
    updates: u32,
}

impl Reference {
    fn new(p: &KalmanParams) -> Self {
        Self { p: *p, x: 0.0, variance: 0.0, noise: 0.0, drift: 0.0, innovation: 0.0, updates: 0 }
    }

    fn square_of(x: f64, share: u32) -> f64 {
        (x * f64::from(share) / f64::from(FINE)).powi(2)
    }

    fn update(&mut self, y: f64, bound: f64) {
        self.updates += 1;
        if self.updates == 1 {
            self.x = y;
            self.variance = Self::square_of(y, self.p.noise);
            self.noise = self.variance;
            self.drift = Self::square_of(y, self.p.drift);
            self.innovation = self.noise;
            return;
        }
        let variance = self.variance + self.drift;
        let deviation = self.noise.sqrt();
        let z = ((bound - self.x) / deviation).clamp(-4.0, 6.0);
        let (share, mean) = (share_below(z), density(z) / share_below(z));
        let expected = share * (self.x - deviation * mean) + (1.0 - share) * bound;
        let explained = variance * share * share;
        let total = explained + self.noise * (1.0 - z * mean - mean * mean).clamp(1.0 / 64.0, 1.0);
        let gain = (variance * share / total).min(2.0);
        let innovation = y - expected;
        self.x = (self.x + gain * innovation).max(1.0);
        self.variance = variance * (1.0 - gain * share).max(0.0);
        let keep = f64::from(self.p.forgetting) / f64::from(FINE);
        self.innovation = self.innovation * keep + innovation * innovation * (1.0 - keep);
        if self.updates > self.p.settle {
            let within =
                |value: f64, floor, cap| value.clamp(Self::square_of(self.x, floor), Self::square_of(self.x, cap));
            self.drift = within(gain * gain * self.innovation, self.p.drift_floor, self.p.drift_cap);
            let mean_cut = z * (1.0 - share) - share * mean;
            let square = share - z * share * mean + z * z * (1.0 - share);
            let narrowed = (square - mean_cut * mean_cut).clamp(1.0 / 16.0, 1.0);
            self.noise = within((self.innovation - explained) / narrowed, self.p.noise_floor, self.p.noise_cap);
        }
    }
}

/// A nearly normal number, mean 0, deviation 1: the sum of twelve uniform numbers.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0
}

/// Feeds both filters `steps` measurements of a path of `rate(step)` packets/ms with `noise`, while sending at `sending(estimate)`.
fn both(steps: u32, noise: f64, rate: impl Fn(u32) -> f64, sending: impl Fn(f64) -> f64) -> (Filter, Vec<f64>, f64) {
    let p = KalmanParams::default();
    let (mut filter, mut reference, mut rng) = (Filter::new(&p), Reference::new(&p), Rng::new(5));
    let (mut estimates, mut worst) = (Vec::new(), 0.0_f64);
    for step in 0..steps {
        let bound = sending(filter.x as f64 / PER_MS) * PER_MS;
        let y = (rate(step) * (1.0 + noise * normal(&mut rng)) * PER_MS).min(bound).max(1.0);
        let (y, bound) = (y.round(), bound.round().max(1.0));
        filter.update(y as i128, Some(bound as i128));
        reference.update(y, bound);
        worst = worst.max((filter.x as f64 / reference.x - 1.0).abs());
        estimates.push(filter.x as f64 / PER_MS);
    }
    (filter, estimates, worst)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn the_integers_follow_the_equations_in_floating_point() {
    for (noise, sending) in [(0.05, 10.0), (0.2, 10.0), (0.2, 1.1), (0.1, 0.8), (0.3, 0.95)] {
        let (_, _, worst) = both(2_000, noise, |_| 1.0, |_| sending);
        assert!(worst < 0.02, "noise {noise}, sending {sending}: {worst}");
    }
}

#[test]
fn without_a_bound_in_reach_the_estimate_is_the_mean_of_noisy_samples() {
    let (_, estimates, _) = both(4_000, 0.2, |_| 1.0, |_| 10.0);
    assert!((mean(&estimates[500..]) - 1.0).abs() < 0.02, "{}", mean(&estimates[500..]));
    let spread = estimates[500..].iter().map(|x| (x - 1.0).powi(2)).sum::<f64>() / 3_500.0;
    assert!(spread.sqrt() < 0.1, "half of the samples' deviation at most: {}", spread.sqrt());
}

#[test]
fn samples_cut_off_at_the_send_rate_do_not_bias_the_estimate() {
    let (_, estimates, _) = both(4_000, 0.2, |_| 1.0, |_| 1.0);
    let found = mean(&estimates[500..]);
    let naive = 1.0 - 0.2 * density(0.0);
    assert!((found - 1.0).abs() < 0.05 && naive < 0.93, "{found} against a plain mean of {naive}");
}

#[test]
fn sending_at_the_estimate_on_a_wider_path_lets_the_estimate_grow() {
    let (_, estimates, _) = both(4_000, 0.1, |_| 4.0, |x| if x == 0.0 { 1.0 } else { 0.99 * x });
    assert!(*estimates.last().unwrap() > 3.0, "{:?}", estimates.last());
}

#[test]
fn a_path_that_halves_is_followed_within_a_hundred_acks() {
    let (_, estimates, _) = both(1_100, 0.1, |step| if step < 1_000 { 1.0 } else { 0.5 }, |_| 2.0);
    assert!((estimates[999] - 1.0).abs() < 0.15 && (estimates[1_099] - 0.5).abs() < 0.1, "{}", estimates[1_099]);
}

#[test]
fn no_measurement_wraps_the_filter_or_leaves_it_without_a_rate() {
    let (p, mut rng) = (KalmanParams::default(), Rng::new(9));
    let mut filter = Filter::new(&p);
    for _ in 0..20_000 {
        let value = |rng: &mut Rng| scaled(rng.next_u64() >> rng.below(64));
        let (y, bound) = (value(&mut rng), value(&mut rng));
        filter.update(y.min(bound), (rng.below(4) > 0).then_some(bound));
        assert!((1..=RATE_MAX).contains(&filter.x) && filter.variance > 0 && filter.noise > 0 && filter.drift > 0);
    }
}
