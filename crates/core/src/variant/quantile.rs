//! BBR-S of 2021 for video: bandwidth is a quantile of recent samples, because a burst absorbed by a router inflates a
//! maximum. A reconstruction.
//! Application-limited samples do not count.
//! Spec: Vargas et al., WWW'21, by its abstract; the median by Yang et al. 2024, the 85th percentile by the code of the former.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::bbr1::{Bbr1Params, Hooks, HooksInit, NewRate};
use crate::params::{Change, ParamSpec, edition, params};

/// Largest number of samples kept.
const SAMPLES_MAX: usize = 100;
/// Rounds with samples needed before a quantile counts. Source: ours.
const ROUNDS_MIN: u64 = 3;

params! {
    /// The parameters of BBR-S beyond BBRv1's.
    QuantileParams {
        /// The share of samples below the estimate.
        quantile: Share = 128, 1, 256, "Yang 2024, section 3.2: the median";
        /// Rounds for which a sample is kept; 0: until newer samples replace it.
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

/// No sample: larger than every sample.
const NONE: u64 = u64::MAX;

/// 1 if true, else 0, without a branch; `a` is below 2^31.
#[inline]
const fn is_less(a: u32, b: u8) -> u64 {
    (a.wrapping_sub(b as u32) >> 31) as u64
}

/// The last samples by size, thinned evenly when there are too many.
///
/// Each change is one pass over all places, whatever they hold: BPF's verifier can follow that, there is no second copy
/// to sort, and the quantile is read at its place.
#[derive(Clone, Debug)]
struct Reservoir {
    /// The smallest first, then places without a sample. Each holds its rate in packets/µs · 2^24, in 32 bits as in the kernel;
    /// the low 8 bits of its round; its number among the samples, wrapping in 8 bits.
    sorted: [u64; SAMPLES_MAX],
    len: u32,
    /// Number of the oldest sample.
    oldest: u8,
    /// One sample in `stride` is kept; and the number since the last one kept.
    stride: u32,
    skipped: u32,
}

impl Reservoir {
    const EMPTY: Self = Self { sorted: [NONE; SAMPLES_MAX], len: 0, oldest: 0, stride: 1, skipped: 0 };

    const fn place(bw: u32, round: u64, number: u8) -> u64 {
        (bw as u64) << 16 | (round as u8 as u64) << 8 | number as u64
    }

    fn clear(&mut self) {
        self.sorted = [NONE; SAMPLES_MAX];
        self.len = 0;
    }

    /// Drops the samples for which `drops` is 1, given their round and their age rank, 0 for the oldest. `renumbered` is the new
    /// rank of the others. There is no branch, because BPF's verifier would follow both outcomes for each sample; it bounds the
    /// index to which a sample moves by the sum of those kept.
    fn retain(&mut self, drops: impl Fn(u8, u8) -> u64, renumbered: impl Fn(u8) -> u8) {
        let mut kept = 0_u64;
        for from in 0..SAMPLES_MAX {
            let sample = core::mem::replace(&mut self.sorted[from], NONE);
            let rank = (sample as u8).wrapping_sub(self.oldest);
            let dropped = sample >> 63 | drops((sample >> 8) as u8, rank);
            let number = self.oldest.wrapping_add(renumbered(rank));
            // A dropped sample becomes `NONE`, and the next one takes its place.
            if let Some(place) = self.sorted.get_mut(kept as usize) {
                *place = sample & !0xff | u64::from(number) | 0_u64.wrapping_sub(dropped);
            }
            kept += dropped ^ 1;
        }
        self.len = kept as u32;
    }

    /// Drops samples older than `rounds` rounds.
    fn expire(&mut self, round: u64, rounds: u32) {
        let before = self.len;
        self.retain(|then, _| is_less(rounds, (round as u8).wrapping_sub(then)), |rank| rank);
        // Samples arrive in the order of rounds: those dropped were the oldest.
        self.oldest = self.oldest.wrapping_add((before - self.len) as u8);
    }

    /// Drops the oldest sample.
    fn shift(&mut self) {
        self.retain(|_, rank| is_less(rank.into(), 1), |rank| rank);
        self.oldest = self.oldest.wrapping_add(1);
    }

    /// Keeps every second sample.
    fn thin(&mut self) {
        self.retain(|_, rank| u64::from(rank & 1 ^ 1), |rank| rank / 2);
        self.stride = self.stride.saturating_mul(2);
    }

    /// Takes a sample unless it is thinned out.
    fn take(&mut self, bw: u32, round: u64, p: &QuantileParams) -> bool {
        self.skipped += 1;
        if self.skipped < self.stride {
            return false;
        }
        self.skipped = 0;
        let size = p.samples.clamp(1, SAMPLES_MAX as u32);
        if self.len >= size {
            if p.sample_rounds > 0 {
                self.thin();
            } else {
                self.shift();
            }
        } else if self.stride > 1 && self.len < size / 4 {
            self.stride /= 2;
        }
        let mut carried = Self::place(bw, round, self.oldest.wrapping_add(self.len as u8));
        for place in &mut self.sorted {
            (*place, carried) = ((*place).min(carried), (*place).max(carried));
        }
        self.len += 1;
        true
    }

    /// The sample at `quantile`/256 of all; the lower one of two.
    fn quantile(&self, quantile: u32) -> u64 {
        let index = self.len.saturating_sub(1) * quantile.min(256) / 256;
        match self.sorted.get(index as usize) {
            Some(&sample) if sample != NONE => sample >> 16,
            _ => 0,
        }
    }
}

/// Hooks of BBR-S by a quantile.
#[derive(Clone, Debug)]
pub struct Quantile {
    p: QuantileParams,
    samples: Reservoir,
    round: Option<u64>,
    rounds_seen: u64,
    value: u64,
}

impl HooksInit for Quantile {
    type Params = QuantileParams;
    const BLANK: Self =
        Self { p: QuantileParams::BLANK, samples: Reservoir::EMPTY, round: None, rounds_seen: 0, value: 0 };

    fn begin(&mut self, params: &QuantileParams, _base: &Bbr1Params) {
        let Self { p, samples, round, rounds_seen, value } = self;
        *p = *params;
        let Reservoir { sorted, len, oldest, stride, skipped } = samples;
        *sorted = [NONE; SAMPLES_MAX];
        (*len, *oldest, *stride, *skipped) = (0, 0, 1, 0);
        (*round, *rounds_seen, *value) = (None, 0, 0);
    }
}

impl Hooks for Quantile {
    fn restart(&mut self) {
        let p = self.p;
        self.begin(&p, &Bbr1Params::BLANK);
    }

    fn on_rate(&mut self, new: &NewRate<'_>) {
        if new.ack.rs.is_app_limited {
            return;
        }
        if self.round != Some(new.round) {
            // A round without samples cannot be recognised by low bits alone: samples older than they can express are dropped at once.
            let passed = self.round.map_or(0, |round| new.round - round);
            if self.p.sample_rounds > 0 && passed > u64::from(self.p.sample_rounds) {
                self.samples.clear();
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

    /// Returns the maximum in Startup, since a doubling rate would not double with the quantile.
    fn bandwidth(&self, max: u64, pipe_full: bool) -> u64 {
        if pipe_full { self.growing_bandwidth(max) } else { max }
    }

    /// Returns the quantile: the pipe is full when it stops growing, which a burst does not hide.
    fn growing_bandwidth(&self, max: u64) -> u64 {
        if self.rounds_seen < ROUNDS_MIN || self.samples.len == 0 || self.value == 0 { max } else { self.value }
    }
}

#[cfg(test)]
mod tests;
