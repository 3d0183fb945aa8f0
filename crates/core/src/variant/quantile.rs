//! BBR-S of 2021 for video: bandwidth is a quantile of recent samples, because a burst that a router absorbs inflates a maximum. A reconstruction.
//! In: rate samples. Out: the estimate. Never: a sample that the application limited.
//! Spec: Vargas et al., WWW'21, by its abstract; the median by Yang et al. 2024, the 85th percentile by the code of the former.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::bbr1::{NewRate, Part};
use crate::params::{Change, ParamSpec, edition, params};

/// Samples kept at most.
const SAMPLES_MAX: usize = 100;
/// Rounds that must have brought samples before a quantile counts. Source: ours.
const ROUNDS_MIN: u64 = 3;

params! {
    /// The parameters of BBR-S beyond BBRv1's.
    QuantileParams {
        /// The share of samples below the estimate.
        quantile: Share = 128, 1, 256, "Yang 2024, section 3.2: the median";
        /// Rounds that samples stay; 0 for until newer ones take their place.
        sample_rounds: Rounds = 10, 0, 100, "ours: BBRv1's window; the papers name none";
        /// Samples kept at most. Where rounds bring more, every second is kept, every fourth, and so on.
        samples: Count = 100, 4, 100, "ours";
    }
}

/// The 85th percentile of the last 100 samples.
pub(super) static P85: [ParamSpec; QuantileParams::SPECS.len()] = edition(QuantileParams::SPECS, P85_CHANGES);
const P85_CHANGES: &[Change] = &[
    ("quantile", 218, "BBR-S's code: 0.85"),
    ("sample_rounds", 0, "BBR-S's code: counts samples, not rounds"),
    ("samples", 100, "BBR-S's code"),
];

/// The last samples in their order, thinned evenly where they are too many.
#[derive(Clone, Debug)]
struct Reservoir {
    /// Packets/µs · 2^24, as the kernel keeps it: in 32 bits.
    bw: [u32; SAMPLES_MAX],
    /// Low bits of the round that brought each.
    round: [u8; SAMPLES_MAX],
    len: usize,
    /// One sample in so many is kept, and how many came since.
    stride: u32,
    skipped: u32,
}

impl Reservoir {
    /// Drops what `rounds` rounds have passed since.
    fn expire(&mut self, round: u64, rounds: u32) {
        let is_old = |then: &u8| u32::from((round as u8).wrapping_sub(*then)) > rounds;
        let gone = self.round[..self.len].iter().take_while(|then| is_old(then)).count();
        self.bw.copy_within(gone..self.len, 0);
        self.round.copy_within(gone..self.len, 0);
        self.len -= gone;
    }

    /// Keeps every second one.
    fn thin(&mut self) {
        for i in 0..self.len / 2 {
            self.bw[i] = self.bw[2 * i + 1];
            self.round[i] = self.round[2 * i + 1];
        }
        self.len /= 2;
        self.stride = self.stride.saturating_mul(2);
    }

    /// Takes a sample if it is its turn.
    fn take(&mut self, bw: u32, round: u64, p: &QuantileParams) -> bool {
        self.skipped += 1;
        if self.skipped < self.stride {
            return false;
        }
        self.skipped = 0;
        let size = (p.samples as usize).clamp(1, SAMPLES_MAX);
        if self.len >= size {
            if p.sample_rounds > 0 {
                self.thin();
            } else {
                self.bw.copy_within(1..size, 0);
                self.round.copy_within(1..size, 0);
                self.len = size - 1;
            }
        } else if self.stride > 1 && self.len < size / 4 {
            self.stride /= 2;
        }
        self.bw[self.len] = bw;
        self.round[self.len] = round as u8;
        self.len += 1;
        true
    }

    /// The sample below or at which lies `quantile`/256 of all; the lower one of two.
    fn quantile(&self, quantile: u32) -> u64 {
        let mut sorted = self.bw;
        let sorted = &mut sorted[..self.len];
        let Some(last) = sorted.len().checked_sub(1) else {
            return 0;
        };
        let index = last * (quantile as usize).min(256) / 256;
        u64::from(*sorted.select_nth_unstable(index).1)
    }
}

/// What BBR-S replaces.
#[derive(Clone, Debug)]
pub struct Quantile {
    p: QuantileParams,
    samples: Reservoir,
    round: Option<u64>,
    rounds_seen: u64,
    value: u64,
}

impl Quantile {
    pub(crate) const fn new(p: &QuantileParams) -> Self {
        let samples = Reservoir { bw: [0; SAMPLES_MAX], round: [0; SAMPLES_MAX], len: 0, stride: 1, skipped: 0 };
        Self { p: *p, samples, round: None, rounds_seen: 0, value: 0 }
    }
}

impl Part for Quantile {
    fn on_rate(&mut self, new: &NewRate<'_>) {
        if new.ack.rs.is_app_limited {
            return;
        }
        if self.round != Some(new.round) {
            // A round without samples cannot be told by low bits alone: what is older than those reach goes at once.
            let passed = self.round.map_or(0, |round| new.round - round);
            if self.p.sample_rounds > 0 && passed > u64::from(self.p.sample_rounds) {
                self.samples.len = 0;
            } else if self.p.sample_rounds > 0 {
                self.samples.expire(new.round, self.p.sample_rounds);
            }
            self.round = Some(new.round);
            self.rounds_seen += 1;
        }
        let bw = u32::try_from(new.bw).unwrap_or(u32::MAX);
        if self.samples.take(bw, new.round, &self.p) {
            self.value = self.samples.quantile(self.p.quantile);
        }
    }

    /// Startup paces by the maximum, or a doubling rate would not double.
    fn bandwidth(&self, max: u64, pipe_full: bool) -> u64 {
        if pipe_full { self.growing_bandwidth(max) } else { max }
    }

    /// The pipe is full when the quantile stops growing: a burst does not hide that.
    fn growing_bandwidth(&self, max: u64) -> u64 {
        if self.rounds_seen < ROUNDS_MIN || self.samples.len == 0 || self.value == 0 { max } else { self.value }
    }
}
