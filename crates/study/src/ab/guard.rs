//! Guardrails: an arm is stopped if it is worse than the control by more than a stated margin, with statistical
//! confidence.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;

use bbrlab_stats::sequential::{always_valid, two_sided};
use bbrlab_stats::stratified::{Cell, Mean, mean, overlap_weights};
use serde::{Deserialize, Serialize};

use super::{ArmCounts, BUCKETS, Row};

/// Probability, over the whole test and all guards, of stopping an arm that is no worse than the control. Ours.
const ALPHA: f64 = 0.05;
const GUARDS: f64 = 3.0;
/// Minimum connections, and clusters of them, in an arm and in the control. Ours: with fewer a variance is a guess.
const LEAST: usize = 50;
/// Minimum segments of a connection that counts for retransmission and goodput. Ours.
const SEGMENTS_LEAST: u64 = 10;
/// Number of handshake checks that share `ALPHA`: each is a test of its own. Ours: one check per second for a week.
const LOOKS: f64 = 604_800.0;

/// Margins by which an arm may be worse than the control.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Allowed increase in the mean share of retransmitted segments.
    pub retransmits: f64,
    /// Allowed relative decrease in mean (geometric) goodput.
    pub goodput: f64,
    /// Allowed increase in the share of failed handshakes.
    pub handshakes: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { retransmits: 0.02, goodput: 0.2, handshakes: 0.02 }
    }
}

/// Metric that got worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardMetric {
    Retransmits,
    Goodput,
    Handshakes,
}

/// An arm to be stopped, with the reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alarm {
    pub arm: usize,
    pub what: GuardMetric,
    pub own: f64,
    pub control: f64,
    pub margin: f64,
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (own, control, margin) = (self.own, self.control, 100.0 * self.margin);
        match self.what {
            GuardMetric::Retransmits => write!(
                f,
                "retransmits {:.2} % of its segments, the control {:.2} %; the margin is {margin} points",
                100.0 * own,
                100.0 * control
            ),
            GuardMetric::Goodput => write!(
                f,
                "has a goodput of {:.2} Mbit/s, the control of {:.2} (geometric means); the margin is {margin} %",
                own / 1e6,
                control / 1e6
            ),
            GuardMetric::Handshakes => write!(
                f,
                "fails in {:.2} % of its handshakes, the control in {:.2} %; the margin is {margin} points",
                100.0 * own,
                100.0 * control
            ),
        }
    }
}

/// Values of one metric, summed per arm and bucket, the unit of assignment.
#[derive(Clone, Debug)]
struct Totals(Vec<Vec<(f64, f64)>>);

impl Totals {
    fn new(arms: usize) -> Self {
        Self(vec![vec![(0.0, 0.0); BUCKETS]; arms])
    }

    fn add(&mut self, row: &Row, value: f64) {
        if let Some((count, sum)) =
            self.0.get_mut(usize::from(row.arm)).and_then(|own| own.get_mut(usize::from(row.bucket)))
        {
            *count += 1.0;
            *sum += value;
        }
    }

    fn count(&self, arm: usize) -> usize {
        self.0[arm].iter().map(|(count, _)| *count as usize).sum()
    }
}

/// Counts of one split. Within it, chance alone chose between the arms.
#[derive(Clone, Debug)]
struct Epoch {
    number: u32,
    retransmits: Totals,
    goodput: Totals,
    /// The kernel's counters when the split began, and when they were last read.
    before: Vec<ArmCounts>,
    now: Vec<ArmCounts>,
}

/// Guardrails of a running test. Arms are compared within each split, and the splits are combined: see
/// [`bbrlab_stats::stratified`]. Memory grows with the number of splits, not of connections.
#[derive(Clone, Debug)]
pub struct Guards {
    limits: Limits,
    tick_ns: u64,
    arms: usize,
    epochs: Vec<Epoch>,
}

impl Guards {
    pub fn new(limits: Limits, arms: usize, tick_ns: u64) -> Self {
        let mut guards = Self { limits, tick_ns, arms, epochs: Vec::new() };
        guards.begin_split(1);
        guards
    }

    /// Begins a new split. A connection counts where it began, by the epoch in its record.
    pub fn begin_split(&mut self, epoch: u32) {
        let counts = self.epochs.last().map_or_else(|| vec![ArmCounts::default(); self.arms], |last| last.now.clone());
        self.epochs.push(Epoch {
            number: epoch,
            retransmits: Totals::new(self.arms),
            goodput: Totals::new(self.arms),
            before: counts.clone(),
            now: counts,
        });
    }

    /// Takes the kernel's counters since the start of the test.
    pub fn count(&mut self, counts: &[ArmCounts]) {
        if let Some(epoch) = self.epochs.last_mut() {
            epoch.now = counts.to_vec();
        }
    }

    /// Adds a record. Each connection counts once, by its first record.
    pub fn add(&mut self, row: &Row) {
        if row.nth != 1 || row.is_refused || row.is_overridden || row.data_segs_out < SEGMENTS_LEAST {
            return;
        }
        let tick_ns = self.tick_ns;
        let Some(epoch) = self.epochs.iter_mut().rev().find(|epoch| epoch.number == row.epoch) else { return };
        if let Some(ratio) = row.retransmit_ratio() {
            epoch.retransmits.add(row, ratio);
        }
        if row.bytes_acked > 0 {
            epoch.goodput.add(row, (row.bytes_acked as f64 * 8.0 / row.busy_s(tick_ns)).ln());
        }
    }

    /// Means of an arm and of the control over the splits that had both.
    fn means(&self, arm: usize, metric: fn(&Epoch) -> &Totals) -> [Mean; 2] {
        let totals: Vec<&Totals> = self.epochs.iter().map(metric).collect();
        let counts: Vec<[usize; 2]> = totals.iter().map(|totals| [totals.count(arm), totals.count(0)]).collect();
        let weights = overlap_weights(&counts);
        [arm, 0].map(|side| {
            let cells = totals.iter().enumerate().flat_map(|(stratum, totals)| {
                let cell = move |(cluster, &(count, sum))| Cell { stratum, cluster, count, sum };
                totals.0[side].iter().enumerate().map(cell)
            });
            mean(cells, &weights, BUCKETS)
        })
    }

    /// Returns the arms that are worse than the control by more than their margins.
    pub fn alarms(&self) -> Vec<Alarm> {
        let mut alarms = Vec::new();
        for arm in 1..self.arms {
            let limits = self.limits;
            let [own, control] = self.means(arm, |epoch| &epoch.retransmits);
            if self.is_worse(own.mean - control.mean, limits.retransmits, own, control) {
                let (own, control, margin) = (own.mean, control.mean, limits.retransmits);
                alarms.push(Alarm { arm, what: GuardMetric::Retransmits, own, control, margin });
            }
            let [own, control] = self.means(arm, |epoch| &epoch.goodput);
            if self.is_worse(control.mean - own.mean, -(1.0 - limits.goodput).ln(), own, control) {
                let (own, control, margin) = (own.mean.exp(), control.mean.exp(), limits.goodput);
                alarms.push(Alarm { arm, what: GuardMetric::Goodput, own, control, margin });
            }
            alarms.extend(self.handshakes(arm));
        }
        alarms
    }

    /// Returns true if the harm exceeds the margin and its always-valid interval lies above zero.
    fn is_worse(&self, harm: f64, margin: f64, own: Mean, control: Mean) -> bool {
        let has_enough = |mean: Mean| mean.clusters >= LEAST && mean.values >= LEAST as f64;
        if !has_enough(own) || !has_enough(control) {
            return false;
        }
        let alpha = ALPHA / GUARDS / (self.arms - 1) as f64;
        let error = own.error.hypot(control.error);
        harm > margin && harm > always_valid(error, own.clusters + control.clusters, alpha)
    }

    /// Compares handshake failures; handshakes in progress count as failed in every arm alike. The variance is that of
    /// equal shares in each split, as in the test of Cochran, Mantel and Haenszel.
    fn handshakes(&self, arm: usize) -> Option<Alarm> {
        let sides: Vec<[(f64, f64); 2]> = (self.epochs.iter())
            .map(|epoch| [arm, 0].map(|side| failures(epoch.before.get(side), epoch.now.get(side))))
            .collect();
        let counts: Vec<[usize; 2]> = sides.iter().map(|both| both.map(|(tried, _)| tried as usize)).collect();
        let weights = overlap_weights(&counts);
        let counted = || weights.iter().zip(&sides).filter(|(weight, _)| **weight > 0.0);
        let tried = |side: usize| counted().map(|(_, both)| both[side].0).sum::<f64>();
        if tried(0) < LEAST as f64 || tried(1) < LEAST as f64 {
            return None;
        }
        let share = |side: usize| counted().map(|(weight, both)| weight * both[side].1 / both[side].0).sum::<f64>();
        let variance = counted().map(|(weight, [(tried, failed), (control_tried, control_failed)])| {
            let pooled = (failed + control_failed) / (tried + control_tried);
            weight * weight * pooled * (1.0 - pooled) * (1.0 / tried + 1.0 / control_tried)
        });
        let (own, control, error) = (share(0), share(1), variance.sum::<f64>().sqrt());
        let harm = own - control;
        let alpha = ALPHA / GUARDS / LOOKS / (self.arms - 1) as f64;
        let is_sure = error > 0.0 && two_sided(harm / error) < alpha;
        let margin = self.limits.handshakes;
        (harm > margin && is_sure).then_some(Alarm { arm, what: GuardMetric::Handshakes, own, control, margin })
    }
}

/// Handshakes tried and failed between two readings. None failed if more ended than began: some were in progress.
fn failures(before: Option<&ArmCounts>, now: Option<&ArmCounts>) -> (f64, f64) {
    let since = |of: fn(&ArmCounts) -> u64| now.map_or(0, of).saturating_sub(before.map_or(0, of)) as f64;
    let (tried, established) = (since(|counts| counts.tried), since(|counts| counts.established));
    (tried, (tried - established).max(0.0))
}

#[cfg(test)]
mod tests {
    use bbrlab_core::Rng;

    use super::*;

    /// Feeds connections of 1 MB with retransmitted shares random around `lost` per 1,000 and times random around
    /// `busy_us`.
    fn feed(guards: &mut Guards, arm: u8, count: u64, lost: u64, busy_us: u64, rng: &mut Rng) {
        for _ in 0..count {
            guards.add(&Row {
                id: rng.next_u64(),
                arm,
                epoch: guards.epochs.last().map_or(0, |epoch| epoch.number),
                bucket: rng.below(BUCKETS as u64) as u16,
                nth: 1,
                bytes_acked: 1_000_000,
                busy_us: busy_us / 2 + rng.below(busy_us),
                data_segs_out: 1_000,
                retrans_segs: rng.below(2 * lost + 1),
                ..Row::default()
            });
        }
    }

    fn guards() -> Guards {
        Guards::new(Limits::default(), 3, 4_000_000)
    }

    #[test]
    fn an_arm_that_loses_far_more_or_is_far_slower_is_stopped_soon_and_the_other_is_not() {
        let (mut guards, mut rng) = (guards(), Rng::new(1));
        for arm in 0..3 {
            feed(&mut guards, arm, 40, 1, 500_000, &mut rng);
        }
        assert_eq!(guards.alarms(), [], "too few to say");
        feed(&mut guards, 0, 300, 1, 500_000, &mut rng);
        feed(&mut guards, 1, 300, 60, 500_000, &mut rng);
        feed(&mut guards, 2, 300, 1, 1_500_000, &mut rng);
        let alarms = guards.alarms();
        assert_eq!(
            alarms.iter().map(|alarm| (alarm.arm, alarm.what)).collect::<Vec<_>>(),
            [(1, GuardMetric::Retransmits), (2, GuardMetric::Goodput)]
        );
        assert!(alarms[0].to_string().contains("the margin is 2 points"), "{}", alarms[0]);
    }

    #[test]
    fn a_harm_within_its_margin_stops_nothing_however_sure_it_is() {
        let (mut guards, mut rng) = (guards(), Rng::new(2));
        feed(&mut guards, 0, 20_000, 1, 500_000, &mut rng);
        feed(&mut guards, 1, 20_000, 15, 550_000, &mut rng);
        assert_eq!(guards.alarms(), []);
    }

    /// Goal: of two identical arms, one is stopped in at most 5 of 100 tests, checked continuously and without a
    /// margin.
    #[test]
    fn equal_arms_are_hardly_ever_stopped() {
        let limits = Limits { retransmits: 0.0, goodput: 0.0, handshakes: 0.0 };
        let mut stopped = 0;
        for seed in 0..100 {
            let (mut guards, mut rng) = (Guards::new(limits, 2, 4_000_000), Rng::new(seed));
            let is_stopped = (0..20).any(|_| {
                feed(&mut guards, 0, 50, 20, 500_000, &mut rng);
                feed(&mut guards, 1, 50, 20, 500_000, &mut rng);
                !guards.alarms().is_empty()
            });
            stopped += u32::from(is_stopped);
        }
        assert!(stopped <= 5, "{stopped} of 100");
    }

    #[test]
    fn handshakes_that_fail_stop_an_arm_and_a_few_that_are_under_way_do_not() {
        let counts = |tried, established| ArmCounts { tried, established, ..ArmCounts::default() };
        let of = |own: ArmCounts| {
            let mut guards = guards();
            guards.count(&[counts(10_000, 9_950), own, counts(0, 0)]);
            guards.alarms()
        };
        assert_eq!(of(counts(1_000, 990)), []);
        assert_eq!(of(counts(40, 0)), []);
        let alarms = of(counts(1_000, 800));
        assert_eq!((alarms.len(), alarms[0].arm, alarms[0].what), (1, 1, GuardMetric::Handshakes));
        // More connections than handshakes: some were in progress when the test began.
        assert_eq!(of(counts(1_000, 1_010)), []);
    }

    #[test]
    fn later_records_of_a_connection_and_short_ones_count_nothing() {
        let mut guards = guards();
        let row = Row { epoch: 1, nth: 1, data_segs_out: 1_000, retrans_segs: 500, bytes_acked: 9, ..Row::default() };
        for other in [
            Row { nth: 2, ..row.clone() },
            Row { data_segs_out: 9, ..row.clone() },
            Row { is_overridden: true, ..row.clone() },
            Row { arm: 7, ..row.clone() },
            Row { epoch: 2, ..row.clone() },
        ] {
            guards.add(&other);
        }
        assert_eq!(guards.epochs[0].retransmits.count(0), 0);
        guards.add(&row);
        assert_eq!(guards.epochs[0].retransmits.count(0), 1);
    }
}
