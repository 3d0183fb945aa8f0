//! Analysis of a test's records: split check, statistics of each arm, and comparisons with the control.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use bbrlab_core::Rng;
use bbrlab_stats::bootstrap::{RESAMPLES, ends};
use bbrlab_stats::median;
use bbrlab_stats::sequential::{always_valid, two_sided};
use bbrlab_stats::stratified::{self, Cell, MANY, Sample, Value, overlap_weights};

use super::record::STATES;
use super::segment::{self, AgeShare, Prefixes, Segment, SegmentBy};
use super::shared::{Comovement, comovement};
use super::soundness::{Exclusion, Ratio, exclusion, ratio};
use super::{AssignmentUnit, BUCKETS, Experiment, Row};
use crate::cdn::LARGE;
use crate::comparison::Interval;
use crate::judgement::Judgement;

/// First seed stream of the bootstrap.
const STREAM: u64 = 0x6162_0000_0000_0000;
/// One minus the confidence of intervals.
const ALPHA: f64 = 0.05;
/// Standard errors between no effect and one that is found in 80 of 100 tests at that confidence.
const DETECTABLE: f64 = 1.96 + 0.84;
/// Minimum units of each arm in a comparison. Ours: with fewer an interval is a guess.
const UNITS_LEAST: usize = 10;
/// Maximum number of values read by all resamples together. Ours: about a second.
const READS: usize = 200_000_000;

/// Totals of one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmSummary {
    pub label: String,
    pub connections: usize,
    /// Connections still open in their last record.
    pub open: usize,
    /// Connections on which the kernel refused the arm's algorithm. Not compared.
    pub refused: usize,
    /// Connections whose application chose another algorithm. Not compared.
    pub overridden: usize,
    /// Connections that began and have no record: it was lost, or they were open when the test was killed.
    pub no_record: u64,
    pub bytes: u64,
    /// Retransmitted over sent segments, summed over all connections.
    pub retransmit_ratio: f64,
    /// Medians over connections, ms.
    pub min_rtt_ms: f64,
    pub srtt_ms: f64,
    /// Share of busy time limited by the receiver's window or the send buffer.
    pub limited: f64,
    /// Share of handshakes that did not complete, by the kernel's counters.
    pub handshakes_failed: Option<f64>,
    /// Shares of connection time in each of BBR's states, for an algorithm that counts them.
    pub state_shares: Option<[f64; STATES]>,
}

/// One comparison of an arm with the control.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Segment of the compared connections.
    pub class: Segment,
    /// Compared by throughput; otherwise by completion time.
    pub is_large: bool,
    pub arm: usize,
    /// Medians: Mbit/s, or ms.
    pub own: f64,
    pub control: f64,
    /// Relative gain: 0.1 is a tenth faster.
    pub gain: f64,
    /// 95 % bootstrap interval of the gain.
    pub low: f64,
    pub high: f64,
    /// Gain of geometric means, with an interval that stays valid under continuous monitoring.
    pub mean_gain: f64,
    pub always_low: f64,
    pub always_high: f64,
    /// Probability of such a gain by chance, corrected for the number of comparisons (Holm 1979).
    pub p: f64,
    /// Minimum detectable gain: found in 80 of 100 tests with this number of connections.
    pub detectable: f64,
    /// Connections of the arm and of the control.
    pub counts: [usize; 2],
    /// Units of assignment of the arm and of the control.
    pub units: [usize; 2],
}

impl Comparison {
    /// Gain and its interval.
    pub const fn interval(&self) -> Interval {
        Interval { middle: self.gain, low: self.low, high: self.high }
    }

    /// Its outcome.
    pub fn judgement(&self) -> Judgement {
        if self.units.iter().any(|&units| units < UNITS_LEAST) || !self.gain.is_finite() {
            Judgement::TooFew
        } else if self.p >= ALPHA {
            Judgement::NoDifference
        } else if self.gain > 0.0 {
            Judgement::Faster
        } else {
            Judgement::Slower
        }
    }
}

/// Result of the analysis.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    pub arms: Vec<ArmSummary>,
    /// Of the compared connections.
    pub ratio: Ratio,
    pub exclusion: Exclusion,
    /// Evidence of bottlenecks shared by the arms, where there were enough connections to tell.
    pub shared: Vec<Comovement>,
    pub lines: Vec<Comparison>,
    /// Each arm's values for the figures, sorted: completion times in ms, throughputs in Mbit/s. Of one split, the one
    /// that says most: values of different splits are not comparable.
    pub values: Vec<[Vec<f64>; 2]>,
    /// The epoch of that split, if connections of several could be compared.
    pub shown_epoch: Option<u32>,
    pub connections: usize,
    /// Connections that ran their arm's algorithm under a split with no other arm.
    pub without_peer: usize,
    /// Compared connections of clients outside every network of the file; `None` without a file.
    pub unclassed: Option<usize>,
    /// With assignment by time: share of bytes of connections that lasted longer than a slot.
    pub outlasting: Option<f64>,
}

/// Analyses the newest record of each connection. `seed` is that of the bootstrap.
pub fn judge(test: &Experiment, all: &[Row], prefixes: &Prefixes, seed: u64) -> Findings {
    let rows = newest(all);
    let compared: Vec<&Row> = rows.iter().copied().filter(|row| is_compared(row)).collect();
    let stratum_of = strata(test);
    let mut lines = Vec::new();
    let mut compare_arms = |class: &Segment, is_large: bool, of: &dyn Fn(usize) -> Vec<Value>| {
        let control = of(0);
        for arm in 1..test.arms.len() {
            let own = of(arm);
            if !(own.is_empty() && control.is_empty()) {
                lines.push(compare(test, class, is_large, arm, [own, control.clone()], seed));
            }
        }
    };
    for (class, takes) in segment::classes(test, &compared, prefixes) {
        for is_large in [false, true] {
            compare_arms(&class, is_large, &|arm| {
                let own = |row: &&&Row| usize::from(row.arm) == arm && takes(row) && is_judged(row, is_large);
                let value = |row: &&Row| {
                    let stratum = stratum_of(row.epoch)?;
                    Some(Value {
                        stratum,
                        cluster: unit(test, row.epoch, row.bucket),
                        value: value(test, row, is_large),
                    })
                };
                compared.iter().filter(own).filter_map(value).collect()
            });
        }
    }
    for ((name, from, below), parts) in segment::AGES.into_iter().zip(segment::ages(test, all, is_compared)) {
        compare_arms(&Segment::new(name, SegmentBy::Age, from, below), true, &|arm| {
            let own = parts.iter().filter(|part| usize::from(part.arm) == arm);
            let value = |part: &AgeShare| {
                let stratum = stratum_of(part.epoch)?;
                Some(Value { stratum, cluster: unit(test, part.epoch, part.bucket), value: part.throughput })
            };
            own.filter_map(value).collect()
        });
    }
    correct(&mut lines);
    let (shown, without_peer) = splits(test, &compared);
    let is_shown = |row: &Row| shown.is_none_or(|epoch| row.epoch == epoch);
    let values = |arm: usize| {
        [false, true].map(|is_large| {
            let is_own = |row: &&&Row| usize::from(row.arm) == arm && is_shown(row) && is_judged(row, is_large);
            let own = compared.iter().filter(is_own);
            let mut values: Vec<f64> = own.map(|row| value(test, row, is_large)).collect();
            values.sort_by(f64::total_cmp);
            values
        })
    };
    Findings {
        arms: (0..test.arms.len()).map(|arm| whole(test, &rows, arm)).collect(),
        ratio: ratio(test, &compared),
        exclusion: exclusion(test, &rows),
        shared: comovement(test, &compared, seed),
        lines,
        values: (0..test.arms.len()).map(values).collect(),
        shown_epoch: shown,
        connections: rows.len(),
        without_peer,
        unclassed: (!prefixes.is_empty()).then(|| prefixes.outside(&compared)),
        outlasting: (test.by == AssignmentUnit::Time).then(|| outlasting(test, &compared)),
    }
}

/// Returns the epoch of the split that says most about the arms, if several say anything, and the number of connections under
/// splits that say nothing.
fn splits(test: &Experiment, rows: &[&Row]) -> (Option<u32>, usize) {
    let mut counts: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for row in rows {
        let own = counts.entry(row.epoch).or_insert_with(|| vec![0; test.arms.len()]);
        if let Some(count) = own.get_mut(usize::from(row.arm)) {
            *count += 1;
        }
    }
    // The weight of a split in a comparison, as in the gains.
    let weight = |own: &[usize]| -> f64 {
        let control = own[0] as f64;
        own[1..].iter().map(|&arm| control * arm as f64 / (control + arm as f64).max(1.0)).sum()
    };
    let without_peer = counts.values().filter(|own| weight(own) == 0.0).flatten().sum();
    counts.retain(|_, own| weight(own) > 0.0);
    let most = counts.iter().max_by(|a, b| weight(a.1).total_cmp(&weight(b.1))).map(|(epoch, _)| *epoch);
    (most.filter(|_| counts.len() > 1), without_peer)
}

fn outlasting(test: &Experiment, rows: &[&Row]) -> f64 {
    let slot_us = (test.slot_s * 1e6) as u64;
    let bytes = |rows: &mut dyn Iterator<Item = &&Row>| rows.map(|row| row.bytes_acked).sum::<u64>() as f64;
    bytes(&mut rows.iter().filter(|row| row.lasted_us > slot_us)) / bytes(&mut rows.iter()).max(1.0)
}

/// Returns the place of a split among the test's, by its epoch. Within one split, chance alone chose between the arms.
fn strata(test: &Experiment) -> impl Fn(u32) -> Option<usize> {
    let places: BTreeMap<u32, usize> =
        test.splits.iter().enumerate().map(|(place, change)| (change.epoch, place)).collect();
    move |epoch| places.get(&epoch).copied()
}

/// Number of a bucket's unit of assignment; each host has its own.
fn unit(test: &Experiment, epoch: u32, bucket: u16) -> usize {
    test.host_of(epoch) * BUCKETS + usize::from(bucket).min(BUCKETS - 1)
}

/// Keeps the last of several records of a connection.
fn newest(rows: &[Row]) -> Vec<&Row> {
    let mut newest: BTreeMap<(u64, u64, u32), &Row> = BTreeMap::new();
    for row in rows {
        let known = newest.entry((row.begun_unix_ns, row.id, row.epoch)).or_insert(row);
        if row.nth > known.nth {
            *known = row;
        }
    }
    newest.into_values().collect()
}

/// Returns true for a connection that ran its arm's algorithm and sent data.
pub(super) const fn is_compared(row: &Row) -> bool {
    !row.is_refused && !row.is_overridden && row.data_segs_out > 0 && row.bytes_acked > 0
}

/// Metric of large or small connections, with the range of sizes.
pub const fn judged_by(is_large: bool) -> &'static str {
    if is_large { "throughput, from 3 MB" } else { "completion, below 3 MB" }
}

/// Selects by metric: large connections count by throughput; small ones by completion, so they must have ended.
const fn is_judged(row: &Row, is_large: bool) -> bool {
    if is_large { row.bytes_acked >= LARGE } else { row.bytes_acked < LARGE && !row.is_open }
}

/// Returns throughput in Mbit/s, or completion time in ms.
fn value(test: &Experiment, row: &Row, is_large: bool) -> f64 {
    let busy_s = row.busy_s(test.tick_ns);
    if is_large { row.bytes_acked as f64 * 8e-6 / busy_s } else { busy_s * 1e3 }
}

/// Numbers the units of assignment: connections, or the buckets that represent prefixes or slots. Returns how many numbers
/// there are.
fn number_units(test: &Experiment, values: &mut [Value]) -> usize {
    if test.by != AssignmentUnit::Connection {
        return BUCKETS * test.hosts.len().max(1);
    }
    values.iter_mut().enumerate().for_each(|(at, value)| value.cluster = at);
    values.len()
}

/// Compares an arm with the control, both in the splits that had both.
fn compare(
    test: &Experiment,
    class: &Segment,
    is_large: bool,
    arm: usize,
    mut of: [Vec<Value>; 2],
    seed: u64,
) -> Comparison {
    let mut counts = vec![[0; 2]; test.splits.len()];
    for (side, values) in of.iter().enumerate() {
        values.iter().for_each(|value| counts[value.stratum][side] += 1);
    }
    let weights = overlap_weights(&counts);
    let sides = of.each_mut().map(|values| {
        let units = number_units(test, values);
        let log = |own: &Value| Cell { stratum: own.stratum, cluster: own.cluster, count: 1.0, sum: own.value.ln() };
        (Sample::new(values, &weights, units), stratified::mean(values.iter().map(log), &weights, units))
    });
    let [(own, own_mean), (control, control_mean)] = &sides;
    // A shorter time counts as a gain, like a higher throughput.
    let sign = if is_large { 1.0 } else { -1.0 };
    let log_gain = sign * (own.median() / control.median()).ln();
    let has_enough = own.clusters >= UNITS_LEAST && control.clusters >= UNITS_LEAST;
    let (mut low, mut high, mut error) = (f64::NAN, f64::NAN, f64::NAN);
    if has_enough {
        let mut rng = Rng::derive(seed, STREAM + arm as u64);
        let mut logs: Vec<f64> = resamples(own, control, &mut rng).into_iter().map(|log| sign * log).collect();
        logs.sort_by(f64::total_cmp);
        let n = logs.len();
        let (lower, upper) = ends(&logs);
        (low, high) = (lower.exp() - 1.0, upper.exp() - 1.0);
        let mean = logs.iter().sum::<f64>() / n as f64;
        error = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1) as f64).sqrt();
    }
    let mean_gain = sign * (own_mean.mean - control_mean.mean);
    let half = always_valid(own_mean.error.hypot(control_mean.error), own.clusters + control.clusters, ALPHA);
    let p = if error > 0.0 { two_sided(log_gain / error) } else { 1.0 };
    Comparison {
        class: class.clone(),
        is_large,
        arm,
        own: own.median(),
        control: control.median(),
        gain: log_gain.exp() - 1.0,
        low,
        high,
        mean_gain: mean_gain.exp() - 1.0,
        always_low: (mean_gain - half).exp() - 1.0,
        always_high: (mean_gain + half).exp() - 1.0,
        p,
        detectable: (DETECTABLE * error).exp() - 1.0,
        counts: [own.len(), control.len()],
        units: [own.clusters, control.clusters],
    }
}

/// Log ratios of the two medians, over resamples of both.
fn resamples(own: &Sample, control: &Sample, rng: &mut Rng) -> Vec<f64> {
    let reads = [own, control].map(|sample| if sample.clusters == sample.len() { MANY } else { sample.len() });
    let count = (READS / (reads[0] + reads[1]).max(1)).clamp(200, RESAMPLES);
    let mut times = Vec::new();
    let mut one = || (own.resampled(&mut times, rng) / control.resampled(&mut times, rng)).ln();
    (0..count).map(|_| one()).collect()
}

/// Applies Holm's correction: the k-th smallest of m probabilities times m − k + 1, never below those before it.
fn correct(lines: &mut [Comparison]) {
    let mut order: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].judgement().is_judged()).collect();
    order.sort_by(|&a, &b| lines[a].p.total_cmp(&lines[b].p));
    let mut min: f64 = 0.0;
    for (nth, &at) in order.iter().enumerate() {
        min = min.max((lines[at].p * (order.len() - nth) as f64).min(1.0));
        lines[at].p = min;
    }
}

fn whole(test: &Experiment, rows: &[&Row], arm: usize) -> ArmSummary {
    let own: Vec<&Row> = rows.iter().copied().filter(|row| usize::from(row.arm) == arm).collect();
    let sum = |of: fn(&Row) -> u64| own.iter().map(|row| of(row)).sum::<u64>() as f64;
    let middle = |of: fn(&Row) -> u64| {
        let mut values: Vec<f64> = own.iter().map(|row| of(row) as f64 / 1e3).filter(|ms| *ms > 0.0).collect();
        median(&mut values)
    };
    let counts = test.counts.arms.get(arm).filter(|counts| counts.tried > 0);
    ArmSummary {
        label: test.arms[arm].label.clone(),
        connections: own.len(),
        open: own.iter().filter(|row| row.is_open).count(),
        refused: own.iter().filter(|row| row.is_refused).count(),
        overridden: own.iter().filter(|row| row.is_overridden && !row.is_refused).count(),
        no_record: counts.map_or(0, |counts| counts.established.saturating_sub(own.len() as u64)),
        bytes: own.iter().map(|row| row.bytes_acked).sum(),
        retransmit_ratio: sum(|row| row.retrans_segs) / sum(|row| row.data_segs_out),
        min_rtt_ms: middle(|row| row.min_rtt_us),
        srtt_ms: middle(|row| row.srtt_us),
        limited: sum(|row| row.rwnd_limited_us + row.sndbuf_limited_us) / sum(|row| row.busy_us),
        state_shares: state_shares(&own),
        handshakes_failed: counts.map(|counts| 1.0 - (counts.established as f64 / counts.tried as f64).min(1.0)),
    }
}

fn state_shares(rows: &[&Row]) -> Option<[f64; STATES]> {
    let mut sums = [0.0; STATES];
    for times in rows.iter().filter_map(|row| row.state_us) {
        sums.iter_mut().zip(times).for_each(|(sum, us)| *sum += us as f64);
    }
    let total: f64 = sums.iter().sum();
    (total > 0.0).then(|| sums.map(|sum| sum / total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_stats::bootstrap::normal;

    use crate::ab::Shares;
    use crate::ab::testing::experiment;

    /// Draws connections of 1 MB over varying paths; arm 1 takes `factor` of the time.
    fn draw(test: &Experiment, seed: u64, count: u64, factor: f64) -> Vec<Row> {
        let mut rng = Rng::new(seed);
        let table = crate::ab::Table::new(&test.splits[0].shares);
        (0..count)
            .map(|id| {
                let bucket = rng.below(BUCKETS as u64) as u16;
                let arm = table.arm(bucket).unwrap_or(0);
                let path = (0.5 + normal(&mut rng) * 0.4).exp();
                let busy_s = path * if arm == 1 { factor } else { 1.0 };
                Row {
                    id,
                    arm,
                    bucket,
                    epoch: 1,
                    nth: 1,
                    port: 443,
                    bytes_acked: 1_000_000,
                    busy_us: (busy_s * 1e6) as u64,
                    data_segs_out: 700,
                    retrans_segs: 7,
                    min_rtt_us: 20_000,
                    srtt_us: 30_000,
                    ..Row::default()
                }
            })
            .collect()
    }

    fn first(test: &Experiment, rows: &[Row]) -> Comparison {
        judge(test, rows, &Prefixes::default(), 1).lines[0].clone()
    }

    #[test]
    fn a_gain_is_found_with_its_size_and_named() {
        let test = experiment(&["cubic", "bbr3"], "50,50");
        let line = first(&test, &draw(&test, 1, 4_000, 0.8));
        assert!((line.gain - 0.25).abs() < 0.06 && line.low < 0.25 && line.high > 0.25, "{line:?}");
        assert_eq!((line.judgement(), line.class.name.as_str(), line.is_large), (Judgement::Faster, "all", false));
        assert!(line.always_low > 0.0 && line.always_low < line.mean_gain && line.mean_gain < line.always_high);
        assert!(line.detectable > 0.02 && line.detectable < 0.12, "{line:?}");
    }

    /// Goal: the interval covers the true gain in at least 93 of 100 tests, and A/A finds nothing in at least 93 of
    /// 100.
    #[test]
    fn intervals_cover_the_truth_and_a_test_of_the_same_finds_nothing() {
        for (count, truth) in [(300, 0.25), (3_000, 0.25), (300, 0.0)] {
            let (mut covered, mut quiet, mut always) = (0, 0, 0);
            for seed in 0..100 {
                let arms = if truth > 0.0 { ["cubic", "bbr3"] } else { ["cubic", "cubic"] };
                let test = experiment(&arms, "50,50");
                let line = first(&test, &draw(&test, 1_000 + seed, count, 1.0 / (1.0 + truth)));
                covered += u32::from((line.low..=line.high).contains(&truth));
                always += u32::from((line.always_low..=line.always_high).contains(&truth));
                quiet += u32::from(line.judgement() == Judgement::NoDifference);
            }
            println!("{count} connections, gain {truth}: covered {covered}, always {always}, quiet {quiet}");
            assert!(covered >= 93 && always >= 95, "{count}, {truth}: {covered} and {always}");
            assert!(truth > 0.0 || quiet >= 93, "{quiet}");
        }
    }

    /// Goal: units assigned together are resampled together. Two of three connections of a prefix repeat the first
    /// one's path.
    #[test]
    fn connections_of_one_prefix_are_no_independent_values() {
        let mut test = experiment(&["cubic", "bbr3"], "50,50");
        let mut rows = draw(&test, 5, 300, 1.0);
        let copies: Vec<Row> = rows
            .iter()
            .flat_map(|row| (1..=8).map(move |copy| Row { id: row.id + copy * 10_000, ..row.clone() }))
            .collect();
        rows.extend(copies);
        let apart = first(&test, &rows);
        test.by = AssignmentUnit::ClientPrefix;
        let together = first(&test, &rows);
        assert!((together.high - together.low) > 2.0 * (apart.high - apart.low), "{apart:?} {together:?}");
        assert!(together.units[0] + together.units[1] <= 300 && apart.units[0] + apart.units[1] == 2_700);
    }

    #[test]
    fn a_split_that_is_not_what_was_asked_is_seen_and_one_that_was_changed_is_not() {
        let mut test = experiment(&["cubic", "bbr3"], "50,50");
        let mut rows = draw(&test, 2, 4_000, 1.0);
        assert!(!judge(&test, &rows, &Prefixes::default(), 1).ratio.is_mismatch());
        let lossy: Vec<Row> = rows.iter().filter(|row| row.arm == 0 || row.id % 8 > 0).cloned().collect();
        let found = judge(&test, &lossy, &Prefixes::default(), 1).ratio;
        assert!(found.is_mismatch() && found.freedom == 1, "{found:?}");
        // A second epoch with a 90:10 split.
        test.splits.push(crate::ab::Change {
            epoch: 2,
            shares: Shares::parse("90,10", 2).unwrap(),
            ..test.splits[0].clone()
        });
        let second = Experiment { splits: vec![test.splits[1].clone()], ..test.clone() };
        rows.extend(draw(&second, 3, 4_000, 1.0).into_iter().map(|row| Row { epoch: 2, begun_unix_ns: 1, ..row }));
        let both = judge(&test, &rows, &Prefixes::default(), 1).ratio;
        assert!(!both.is_mismatch() && both.freedom == 2, "{both:?}");
        assert!((both.expected[1] - 2_400.0).abs() < 1.0);
    }

    #[test]
    fn of_several_records_the_last_counts_and_open_ones_are_no_completions() {
        let test = experiment(&["cubic", "bbr3"], "50,50");
        let row = Row {
            id: 1,
            epoch: 1,
            nth: 1,
            is_open: true,
            bytes_acked: 1_000,
            data_segs_out: 1,
            busy_us: 9,
            ..Row::default()
        };
        let rows = [row.clone(), Row { nth: 3, bytes_acked: 9_000_000, ..row.clone() }, Row { nth: 2, ..row.clone() }];
        let found = judge(&test, &rows, &Prefixes::default(), 1);
        assert_eq!((found.connections, found.arms[0].bytes, found.arms[0].open), (1, 9_000_000, 1));
        assert_eq!((found.lines[0].is_large, found.lines[0].judgement()), (true, Judgement::TooFew));
        let is_whole = |line: &Comparison| line.class.over != SegmentBy::Age;
        assert_eq!(found.lines.iter().filter(|line| is_whole(line)).count(), 1);
        assert!(!judge(&test, &[row], &Prefixes::default(), 1).lines.iter().any(is_whole));
    }

    #[test]
    fn connections_that_did_not_have_their_arm_are_counted_and_not_compared() {
        let test = experiment(&["cubic", "bbr3"], "50,50");
        let mut rows = draw(&test, 4, 400, 1.0);
        rows.iter_mut().filter(|row| row.arm == 1).take(30).for_each(|row| row.is_overridden = true);
        let found = judge(&test, &rows, &Prefixes::default(), 1);
        assert_eq!((found.arms[1].overridden, found.arms[1].refused), (30, 0));
        assert_eq!(found.lines[0].counts[0], found.arms[1].connections - 30);
        assert!(found.exclusion.differs() && found.exclusion.shares[0] == 0.0, "{:?}", found.exclusion);
        rows.iter_mut().filter(|row| row.arm == 0).take(30).for_each(|row| row.is_refused = true);
        assert!(!judge(&test, &rows, &Prefixes::default(), 1).exclusion.differs());
    }

    #[test]
    fn probabilities_are_corrected_for_their_number() {
        let test = experiment(&["cubic", "bbr3"], "50,50");
        let line = first(&test, &draw(&test, 1, 4_000, 0.8));
        let mut lines = [0.04, 0.01, 0.03].map(|p| Comparison { p, ..line.clone() });
        correct(&mut lines);
        assert_eq!(lines.map(|line| (line.p * 100.0).round()), [6.0, 3.0, 6.0]);
    }
}
