//! Analysis of a test's records: split check, statistics of each arm, and comparisons with the control.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use bbrlab_core::Rng;
use bbrlab_stats::bootstrap::{RESAMPLES, ends};
use bbrlab_stats::sequential::{always_valid, two_sided};
use bbrlab_stats::stratified::{MANY, Sample, Values, overlap_weights};
use rayon::prelude::*;

use super::cells::{Cells, Reading};
use super::record::STATES;
use super::segment::{self, Family, Prefixes, Segment};
use super::shared::{Comovement, End, comovement};
use super::soundness::{Exclusion, Ratio, exclusion, ratio};
use super::survey::Survey;
use super::{AssignmentUnit, Experiment, Records};
use crate::comparison::{Interval, quantiles};
use crate::judgement::Judgement;

/// First seed stream of the bootstrap.
const STREAM: u64 = 0x6162_0000_0000_0000;
/// One minus the confidence of intervals.
const ALPHA: f64 = 0.05;
/// Standard errors between no effect and one that is found in 80 of 100 tests at that confidence.
const DETECTABLE: f64 = 1.96 + 0.84;
/// Minimum units of each arm in a comparison. Ours: with fewer an interval is a guess.
pub(super) const UNITS_LEAST: usize = 10;
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
    /// Each arm's [`quantiles`] for the figures: completion times in ms, throughputs in Mbit/s. Of one split, the one that says
    /// most: values of different splits are not comparable.
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
    /// From summaries, in which values are counted in bins.
    pub is_summarised: bool,
}

/// Bytes of values that are held at a time, unless one family has more. Ours: with them the analysis stays below 2 GB.
const HELD: u64 = 512 << 20;

/// Analyses the newest record of each connection. `seed` is that of the bootstrap. The records are read once for counts and totals,
/// then for the classes: once if there are few, once for each family of classes if there are very many.
///
/// # Errors
/// The records cannot be read.
pub fn judge<R: Records + ?Sized>(
    test: &Experiment,
    records: &R,
    prefixes: &Prefixes,
    seed: u64,
) -> Result<Findings, R::Error> {
    let survey = Survey::of(test, records, prefixes)?;
    let families = segment::families(test, &survey, prefixes);
    let mut conclusion = Conclusion::new(test, &survey, seed);
    let ends = read(test, records, &survey, &families, |cells| conclusion.add(cells))?;
    let shared = comovement(test, ends, seed);
    Ok(conclusion.findings(shared, !prefixes.is_empty()))
}

/// Reads the records' values, and passes those of each family, and of the ranges of age, to `each`. Returns the connections' ends.
pub(super) fn read<R: Records + ?Sized>(
    test: &Experiment,
    records: &R,
    survey: &Survey,
    families: &[Family<'_>],
    mut each: impl FnMut(&Cells),
) -> Result<Vec<End>, R::Error> {
    // The last one stands for the ranges of age.
    let families: Vec<_> = families.iter().map(Some).chain([None]).collect();
    let at_once = (HELD / (survey.compared * Cells::bytes_of_value(test)).max(1)).max(1);
    let at_once = usize::try_from(at_once).unwrap_or(usize::MAX).min(families.len());
    let (mut ends, mut room) = (Vec::new(), Vec::new());
    for first in (0..families.len()).step_by(at_once) {
        let some = &families[first..families.len().min(first + 2 * at_once)];
        let reading = Reading::new(test, survey, some, at_once.min(some.len()), first == 0);
        if first == 0 {
            room.push(reading.room_of_all());
        }
        let gathered = reading.run(records, &room)?;
        (ends, room) = (if first == 0 { gathered.ends } else { ends }, gathered.next);
        gathered.cells.iter().for_each(&mut each);
    }
    Ok(ends)
}

/// Findings while the families are compared, one after the other. The first has all connections.
pub(super) struct Conclusion<'a> {
    test: &'a Experiment,
    survey: &'a Survey,
    seed: u64,
    shown: Option<u32>,
    without_peer: u64,
    lines: Vec<Comparison>,
    values: Vec<[Vec<f64>; 2]>,
}

impl<'a> Conclusion<'a> {
    pub fn new(test: &'a Experiment, survey: &'a Survey, seed: u64) -> Self {
        let (shown, without_peer) = splits(survey);
        Self { test, survey, seed, shown, without_peer, lines: Vec::new(), values: Vec::new() }
    }

    /// Compares the arms in the segments of a family.
    pub fn add(&mut self, cells: &Cells) {
        let Self { test, shown, .. } = *self;
        if self.values.is_empty() {
            let of = |arm: usize| [false, true].map(|is_large| drawn(test, cells, is_large, arm, shown));
            self.values = (0..test.arms.len()).map(of).collect();
        }
        self.lines.extend(compare_all(test, cells, self.seed));
    }

    pub fn findings(mut self, shared: Vec<Comovement>, has_classes: bool) -> Findings {
        let Self { test, survey, .. } = self;
        correct(&mut self.lines);
        let outlasting = || survey.outlasting as f64 / (survey.bytes as f64).max(1.0);
        Findings {
            arms: (0..test.arms.len()).map(|arm| whole(test, survey, arm)).collect(),
            ratio: ratio(test, survey),
            exclusion: exclusion(test, survey),
            shared,
            lines: self.lines,
            values: self.values,
            shown_epoch: self.shown,
            connections: survey.connections as usize,
            without_peer: self.without_peer as usize,
            unclassed: has_classes.then_some(survey.unclassed as usize),
            outlasting: (test.by == AssignmentUnit::Time).then(outlasting),
            is_summarised: false,
        }
    }
}

/// Returns the epoch of the split that says most about the arms, if several say anything, and the number of connections under
/// splits that say nothing.
fn splits(survey: &Survey) -> (Option<u32>, u64) {
    let counts = survey.splits.iter().map(|(&epoch, shares)| (epoch, shares.iter().map(|share| share.kept).collect()));
    let mut counts: BTreeMap<u32, Vec<u64>> = counts.collect();
    // The weight of a split in a comparison, as in the gains.
    let weight = |own: &[u64]| -> f64 {
        let control = own[0] as f64;
        own[1..].iter().map(|&arm| control * arm as f64 / (control + arm as f64).max(1.0)).sum()
    };
    let without_peer = counts.values().filter(|own| weight(own) == 0.0).flatten().sum();
    counts.retain(|_, own| weight(own) > 0.0);
    let most = counts.iter().max_by(|a, b| weight(a.1).total_cmp(&weight(b.1))).map(|(epoch, _)| *epoch);
    (most.filter(|_| counts.len() > 1), without_peer)
}

/// An arm's quantiles for the figure of all connections, or of those under the split that is shown.
fn drawn(test: &Experiment, all: &Cells, is_large: bool, arm: usize, shown: Option<u32>) -> Vec<f64> {
    let is_shown = |place: &usize| shown.is_none_or(|epoch| test.splits[*place].epoch == epoch);
    let own = all.of(0, is_large, arm);
    let own: Vec<&Values> =
        (0..own.len()).filter(is_shown).map(|place| &own[place]).filter(|values| !values.is_empty()).collect();
    if let [one] = own.as_slice() {
        return quantiles(one.len(), |place| one.at(place));
    }
    let mut together: Vec<f64> = own.iter().flat_map(|values| values.iter()).collect();
    together.sort_unstable_by(f64::total_cmp);
    quantiles(together.len(), |place| together[place])
}

/// Metric of large or small connections, with the range of sizes.
pub const fn judged_by(is_large: bool) -> &'static str {
    if is_large { "throughput, from 3 MB" } else { "completion, below 3 MB" }
}

/// Compares each arm with the control in each class of a family.
fn compare_all(test: &Experiment, cells: &Cells, seed: u64) -> Vec<Comparison> {
    let sizes = (0..cells.segments.len()).flat_map(|class| [false, true].map(|is_large| (class, is_large)));
    let all: Vec<(usize, bool, usize)> =
        sizes.flat_map(|(class, is_large)| (1..test.arms.len()).map(move |arm| (class, is_large, arm))).collect();
    let one = |(class, is_large, arm): (usize, bool, usize)| {
        let sides = [cells.of(class, is_large, arm), cells.of(class, is_large, 0)];
        let is_empty = sides.iter().all(|side| side.iter().all(Values::is_empty));
        (!is_empty).then(|| compare(test, &cells.segments[class], is_large, arm, sides, seed))
    };
    all.into_par_iter().filter_map(one).collect()
}

/// Compares an arm with the control, both in the splits that had both.
fn compare(
    test: &Experiment,
    class: &Segment,
    is_large: bool,
    arm: usize,
    of: [&[Values]; 2],
    seed: u64,
) -> Comparison {
    let counts: Vec<[usize; 2]> = of[0].iter().zip(of[1]).map(|(own, control)| [own.len(), control.len()]).collect();
    let weights = overlap_weights(&counts);
    let [own, control] = of.map(|strata| Sample::new(strata, &weights, Cells::clusters(test)));
    let (own_mean, control_mean) = (own.log_mean(), control.log_mean());
    // A shorter time counts as a gain, like a higher throughput.
    let sign = if is_large { 1.0 } else { -1.0 };
    let log_gain = sign * (own.median() / control.median()).ln();
    let has_enough = own.clusters >= UNITS_LEAST && control.clusters >= UNITS_LEAST;
    let (mut low, mut high, mut error) = (f64::NAN, f64::NAN, f64::NAN);
    if has_enough {
        let mut rng = Rng::derive(seed, STREAM + arm as u64);
        let mut logs: Vec<f64> = resamples(&own, &control, &mut rng).into_iter().map(|log| sign * log).collect();
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
fn resamples(own: &Sample<'_>, control: &Sample<'_>, rng: &mut Rng) -> Vec<f64> {
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

fn whole(test: &Experiment, survey: &Survey, arm: usize) -> ArmSummary {
    let own = &survey.arms[arm];
    let counts = test.counts.arms.get(arm).filter(|counts| counts.tried > 0);
    let in_states: u64 = own.states_us.iter().sum();
    ArmSummary {
        label: test.arms[arm].label.clone(),
        connections: own.connections as usize,
        open: own.open as usize,
        refused: own.refused as usize,
        overridden: own.overridden as usize,
        no_record: counts.map_or(0, |counts| counts.established.saturating_sub(own.connections)),
        bytes: own.bytes,
        retransmit_ratio: own.retransmitted as f64 / own.segments as f64,
        min_rtt_ms: own.min_rtt_us.median(),
        srtt_ms: own.srtt_us.median(),
        limited: own.limited_us as f64 / own.busy_us as f64,
        state_shares: (in_states > 0).then(|| own.states_us.map(|us| us as f64 / in_states as f64)),
        handshakes_failed: counts.map(|counts| 1.0 - (counts.established as f64 / counts.tried as f64).min(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_stats::bootstrap::normal;

    use crate::ab::testing::{experiment, judge};
    use crate::ab::{BUCKETS, Row, SegmentBy, Shares};

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
