//! Memory-saving statistics: log-linear histograms, jitter, fairness, convergence.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use bbrlab_core::{NANOS_PER_SEC, Span, State, Time};

use crate::record::result::{Distribution, FlowResult, Group};

/// Buckets per octave; a value is off by at most 1/512 of itself.
const SUB_BUCKETS: u64 = 256;
const SUB_BITS: u32 = SUB_BUCKETS.ilog2();

/// A histogram of non-negative integers with relative precision 1/512.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u32>,
    n: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Vec::new(), n: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Histogram {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let index = Self::index(value);
        if index >= self.counts.len() {
            self.grow(index);
        }
        self.counts[index] = self.counts[index].saturating_add(1);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.n += 1;
        self.sum += u128::from(value);
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        self.counts.resize(index + 1, 0);
    }

    #[inline]
    fn index(value: u64) -> usize {
        if value < 2 * SUB_BUCKETS {
            return value as usize;
        }
        let shift = value.ilog2() - SUB_BITS;
        ((u64::from(shift) << SUB_BITS) + (value >> shift)) as usize
    }

    /// Midpoint of a bucket.
    fn value(index: usize) -> f64 {
        let index = index as u64;
        if index < 2 * SUB_BUCKETS {
            return index as f64;
        }
        let shift = index / SUB_BUCKETS - 1;
        let base = index - shift * SUB_BUCKETS;
        ((base << shift) as f64) + ((1u64 << shift) as f64 - 1.0) / 2.0
    }

    /// Number of values.
    pub const fn count(&self) -> u64 {
        self.n
    }

    /// Returns the `q`-quantile (0 to 1), nearest rank; 0 without values.
    pub fn quantile(&self, q: f64) -> f64 {
        self.quantiles([q])[0]
    }

    /// Returns several quantiles, smallest first, in one pass.
    fn quantiles<const N: usize>(&self, qs: [f64; N]) -> [f64; N] {
        let mut found = [0.0; N];
        if self.n == 0 {
            return found;
        }
        let ranks = qs.map(|q| ((q * self.n as f64).ceil() as u64).clamp(1, self.n));
        let (mut place, mut seen) = (0, 0);
        for index in Self::index(self.min)..self.counts.len() {
            seen += u64::from(self.counts[index]);
            while place < N && seen >= ranks[place] {
                found[place] = Self::value(index).clamp(self.min as f64, self.max as f64);
                place += 1;
            }
        }
        // Saturated counts sum to less than the number of values.
        found[place..].fill(self.max as f64);
        found
    }

    /// Largest value; 0 without values.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, more)| *own = own.saturating_add(*more));
        (self.n, self.sum) = (self.n + other.n, self.sum + other.sum);
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
    }

    /// Returns the mean of the lowest `share` (above 0, up to 1) of the values of all parts, in which each part weighs the same;
    /// 0 without values.
    pub fn trimmed_mean(parts: &[&Self], share: f64) -> f64 {
        let (mut kept, mut sum) = (0.0, 0.0);
        let most = share * parts.iter().filter(|part| part.n > 0).count() as f64;
        let buckets = parts.iter().map(|part| part.counts.len()).max().unwrap_or(0);
        for index in 0..buckets {
            for part in parts {
                let count = part.counts.get(index).copied().unwrap_or(0);
                if count > 0 {
                    let taken = (f64::from(count) / part.n as f64).min(most - kept);
                    sum += taken * Self::value(index).clamp(part.min as f64, part.max as f64);
                    kept += taken;
                }
            }
        }
        if kept > 0.0 { sum / kept } else { 0.0 }
    }

    /// Returns the mean; 0 without values.
    pub fn mean(&self) -> f64 {
        if self.n == 0 { 0.0 } else { self.sum as f64 / self.n as f64 }
    }

    /// Returns the distribution, each value times `scale`.
    pub fn distribution(&self, scale: f64) -> Distribution {
        let [p50, p95, p99] = self.quantiles([0.5, 0.95, 0.99]);
        Distribution {
            min: (self.n > 0).then_some(self.min as f64 * scale),
            mean: self.mean() * scale,
            p50: p50 * scale,
            p95: p95 * scale,
            p99: p99 * scale,
            max: self.max as f64 * scale,
        }
    }
}

/// A link's queueing delay over time. At each moment it is the wait of the packet being sent, or 0 if that had not waited. Its
/// mean is the mean backlog before the serialiser over the link's rate, since each packet adds its serialisation time times its
/// wait to both. Samples of the backlog on a grid therefore give the same mean.
#[derive(Clone, Debug, Default)]
pub struct QueueDelay {
    /// Time in nanoseconds for which each bucket's delay lasted.
    lasted: Vec<u64>,
    /// Sum of delay times duration, ns².
    area: u128,
    /// Time with any delay, ns.
    busy: u64,
    max: u64,
    from: Time,
    last: Time,
}

impl QueueDelay {
    /// Starts measuring at `from`.
    pub fn starting_at(from: Time) -> Self {
        Self { from, last: from, ..Self::default() }
    }

    /// Records that a packet left the link at `at` after `waited` and its serialisation time `service`. The latter is zero
    /// where a link follows a delivery trace: there the wait itself lasts up to the departure.
    #[inline]
    pub fn on_left(&mut self, at: Time, waited: Span, service: Span) {
        let lasted = at.since(self.last).as_nanos().min((waited + service).as_nanos());
        self.last = at;
        self.add(waited, lasted);
    }

    /// Adds a delay that lasted for some nanoseconds.
    #[inline]
    pub fn add(&mut self, waited: Span, lasted: u64) {
        let delay = waited.as_nanos();
        if delay == 0 {
            return; // a time without waiting packets
        }
        let index = Histogram::index(delay);
        if index >= self.lasted.len() {
            self.grow(index);
        }
        self.lasted[index] += lasted;
        self.area += u128::from(delay) * u128::from(lasted);
        self.busy += lasted;
        self.max = self.max.max(delay);
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        self.lasted.resize(index + 1, 0);
    }

    /// Adds the delays of another part of the same time.
    pub fn merge(&mut self, other: &Self) {
        self.lasted.resize(self.lasted.len().max(other.lasted.len()), 0);
        self.lasted.iter_mut().zip(&other.lasted).for_each(|(own, more)| *own += more);
        (self.area, self.busy) = (self.area + other.area, self.busy + other.busy);
        self.max = self.max.max(other.max);
    }

    /// Returns the distribution over the time up to `until`, each value times `scale`.
    pub fn distribution(&self, until: Time, scale: f64) -> Distribution {
        let all = until.since(self.from).as_nanos().max(self.busy);
        if all == 0 {
            return Distribution::default();
        }
        let quantile = |q: f64| {
            let rank = (q * all as f64) as u64;
            let mut seen = all - self.busy;
            if seen >= rank {
                return 0.0;
            }
            for (index, lasted) in self.lasted.iter().enumerate() {
                seen += lasted;
                if seen >= rank {
                    return Histogram::value(index).min(self.max as f64) * scale;
                }
            }
            self.max as f64 * scale
        };
        let min = self.lasted.iter().position(|lasted| *lasted > 0).map_or(0.0, Histogram::value);
        Distribution {
            min: Some(if all > self.busy { 0.0 } else { min * scale }),
            mean: self.area as f64 / all as f64 * scale,
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: self.max as f64 * scale,
        }
    }
}

/// Jain's fairness index of non-negative shares; 1 for none.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// Jain's index from which flows count as converged.
pub const CONVERGED: f64 = 0.95;

/// First second from which Jain's index of `bins` stays at or above 0.95; `None` if never. `bins` has one row per flow and one
/// column per second. Seconds in `excluded` do not count, nor do those with fewer than two flows. A flow is present from the
/// first to before the second of its `lives`.
pub fn convergence_s(bins: &[Vec<f64>], lives: &[(usize, usize)], seconds: usize, excluded: &[bool]) -> Option<f64> {
    let last_start = lives.iter().map(|life| life.0).max().unwrap_or(0);
    let mut since = None;
    for second in last_start..seconds {
        if excluded.get(second).copied().unwrap_or(false) {
            continue;
        }
        let there = bins.iter().zip(lives).filter(|(_, life)| (life.0..life.1).contains(&second));
        let shares: Vec<f64> = there.map(|(row, _)| row.get(second).copied().unwrap_or(0.0)).collect();
        if shares.len() < 2 {
            continue;
        }
        if jain(&shares) >= CONVERGED {
            since.get_or_insert(second as f64);
        } else {
            since = None;
        }
    }
    since
}

/// Converts a time to seconds, for people.
pub fn secs(time: Time) -> f64 {
    time.as_nanos() as f64 / NANOS_PER_SEC as f64
}

/// Marks the seconds in which some flow was in ProbeRTT, or refilled the pipe right after it.
pub fn probe_rtt_seconds<'a>(flows: impl Iterator<Item = &'a [(Time, State)]>, seconds: usize) -> Vec<bool> {
    let mut excluded = vec![false; seconds];
    for states in flows {
        for (index, &(from, state)) in states.iter().enumerate() {
            if state == State::ProbeRtt {
                let until = states.get(index + 1).map_or(from, |next| next.0);
                let (first, last) =
                    ((from.as_nanos() / NANOS_PER_SEC) as usize, (until.as_nanos() / NANOS_PER_SEC) as usize);
                for second in excluded.iter_mut().take(last + 1).skip(first) {
                    *second = true;
                }
            }
        }
    }
    excluded
}

/// Time spent in each state; the phases of the gain cycle are also summed as `probe_bw`.
pub fn state_times(states: &[(Time, State)], end: Time) -> BTreeMap<String, f64> {
    let mut times = BTreeMap::new();
    for (index, &(from, state)) in states.iter().enumerate() {
        let until = states.get(index + 1).map_or(end, |next| next.0).min(end);
        let span = secs(until) - secs(from.min(until));
        *times.entry(state.name().to_string()).or_insert(0.0) += span;
        if state.name().starts_with("probe_bw") {
            *times.entry("probe_bw".to_string()).or_insert(0.0) += span;
        }
    }
    times
}

/// Groups the flows by algorithm over one interval.
pub fn groups(flows: &[FlowResult], [from_s, to_s]: [f64; 2]) -> Vec<Group> {
    let total: u64 = flows.iter().map(|flow| flow.bytes).sum();
    let mut groups: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for flow in flows {
        let group = groups.entry(&flow.cc).or_default();
        group.0 += 1;
        group.1 += flow.bytes;
    }
    groups
        .into_iter()
        .map(|(cc, (flows, bytes))| Group {
            cc: cc.into(),
            flows,
            goodput_bps: if to_s > from_s { bytes as f64 * 8.0 / (to_s - from_s) } else { 0.0 },
            share: if total > 0 { bytes as f64 / total as f64 } else { 0.0 },
        })
        .collect()
}

/// FNV-1a with 64 bits: short and stable; it need not be cryptographic.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use bbrlab_core::Rng;

    use super::*;

    #[test]
    fn quantiles_are_within_one_part_in_five_hundred() {
        let mut histogram = Histogram::default();
        for value in 1..=1_000_000u64 {
            histogram.add(value);
        }
        for q in [0.01, 0.5, 0.95, 0.99] {
            let truth = q * 1_000_000.0;
            assert!((histogram.quantile(q) / truth - 1.0).abs() < 1.0 / 500.0, "{q}");
        }
    }

    #[test]
    fn small_values_are_exact() {
        let mut histogram = Histogram::default();
        for value in [3, 3, 400] {
            histogram.add(value);
        }
        assert_eq!((histogram.quantile(0.5), histogram.quantile(1.0)), (3.0, 400.0));
    }

    /// A queue that lasts one second in ten counts a tenth, however many packets pass in that second.
    #[test]
    fn queueing_delay_is_weighted_by_time() {
        let at = |ms| Time::ZERO + Span::millis(ms);
        let mut delay = QueueDelay::starting_at(Time::ZERO);
        (1..=1000).for_each(|i| delay.on_left(at(i), Span::millis(50), Span::millis(1)));
        delay.on_left(at(9_000), Span::ZERO, Span::millis(1));
        let over = delay.distribution(at(10_000), 1e-6);
        assert!((over.mean - 5.0).abs() < 1e-9 && over.max == 50.0, "{over:?}");
        assert_eq!((over.min, over.p50, over.p95), (Some(0.0), 0.0, 50.0));
    }

    /// The area under the backlog over the rate is the sum of each packet's wait times its serialisation time.
    #[test]
    fn its_mean_is_the_mean_backlog_over_the_rate() {
        use crate::link::{Buffer, testing};
        let mut link = testing::drop_tail(12_000_000, Buffer::Packets(100));
        let mut delay = QueueDelay::default();
        let (mut waiting, mut last) = (0.0, Time::ZERO);
        let mut rng = Rng::new(7);
        let mut next = Time::ZERO;
        for _ in 0..2_000 {
            let now = next;
            next = now + Span::micros(rng.below(2_000));
            while link.next_departure() <= now {
                let at = link.next_departure();
                waiting += (at.since(last).as_nanos() * u64::from(link.queue_packets() - 1)) as f64;
                last = at;
                let left = link.depart(at).unwrap();
                delay.on_left(at, left.queue_delay, left.service);
            }
            waiting += (now.since(last).as_nanos() * u64::from(link.queue_packets().saturating_sub(1))) as f64;
            last = now;
            link.offer(now, testing::packet(1500));
        }
        while link.next_departure() != Time::NEVER {
            let at = link.next_departure();
            waiting += (at.since(last).as_nanos() * u64::from(link.queue_packets() - 1)) as f64;
            last = at;
            let left = link.depart(at).unwrap();
            delay.on_left(at, left.queue_delay, left.service);
        }
        // A packet of 1500 bytes takes a millisecond.
        let backlog_ms = waiting / last.as_nanos() as f64;
        assert!((delay.distribution(last, 1e-6).mean - backlog_ms).abs() < 1e-6 && backlog_ms > 1.0, "{backlog_ms}");
    }

    #[test]
    fn jain_is_one_for_equals_and_one_over_n_for_a_monopoly() {
        assert_eq!(jain(&[2.0, 2.0, 2.0]), 1.0);
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), 0.25);
    }

    #[test]
    fn convergence_begins_after_the_last_unfair_second() {
        let bins = vec![vec![9.0, 9.0, 5.0, 5.0, 5.0], vec![1.0, 1.0, 5.0, 0.0, 5.0]];
        let lives = [(0, 5), (0, 5)];
        assert_eq!(convergence_s(&bins, &lives, 5, &[]), Some(4.0));
        assert_eq!(convergence_s(&bins, &lives, 5, &[false, false, false, true, false]), Some(2.0));
        assert_eq!(convergence_s(&bins[..1], &lives[..1], 5, &[]), None);
    }

    #[test]
    fn a_flow_that_has_ended_is_no_unfairness() {
        let bins = vec![vec![5.0, 5.0, 9.0, 9.0], vec![5.0, 5.0, 1.0, 0.0]];
        assert_eq!(convergence_s(&bins, &[(0, 4), (0, 4)], 4, &[]), None);
        assert_eq!(convergence_s(&bins, &[(0, 4), (0, 2)], 4, &[]), Some(0.0));
    }
}
