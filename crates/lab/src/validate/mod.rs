//! Agreement between the simulator and a real kernel or QUIC stack: the same scenario in both, compared metric by
//! metric, with limits.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod packets;
pub mod random;

use bbrlab_core::Rng;
use serde::Serialize;

use bbrlab_sim::record::result::{Distribution, RunResult};
use bbrlab_stats::bootstrap::interval_of_median_ratio;
use bbrlab_stats::quantile::nearest_rank;
use bbrlab_stats::{known_mean, median};

/// Metrics compared between runs.
pub const FIGURES: [&str; 9] = [
    "goodput, Mbit/s",
    "RTT p50, ms",
    "RTT p95, ms",
    "queue p50, ms",
    "retransmitted, %",
    "share of the first, %",
    "fct, s",
    "probe p50, ms",
    "probe p95, ms",
];
/// Index of goodput in [`FIGURES`].
pub const GOODPUT: usize = 0;
/// Index of the median RTT.
pub const RTT_P50: usize = 1;
/// Index of retransmissions.
pub const RETRANSMITTED: usize = 4;
/// Index of the lag probe's median RTT.
pub const PROBE_P50: usize = 7;
/// Minimum share of retransmissions that is compared, in %.
const RETRANSMITTED_FROM: f64 = 0.1;

/// One run's metrics, in the order of [`FIGURES`]; NaN where a run has none.
pub type Measured = [f64; FIGURES.len()];

/// Returns the metrics of one run.
pub fn measured(result: &RunResult) -> Measured {
    let flows = &result.flows;
    let rtts = |of: fn(&Distribution) -> f64| flows.iter().map(|flow| flow.rtt(of)).collect::<Vec<f64>>();
    let bytes: f64 = flows.iter().map(|flow| flow.bytes as f64).sum();
    // Flows are weighted by the bytes they carried.
    let again: f64 = flows.iter().map(|flow| flow.retransmit_ratio * flow.bytes as f64).sum();
    let probe = result.probe.as_ref().and_then(|probe| probe.rtt_ms.as_ref());
    let fct: Vec<f64> = flows.iter().filter_map(|flow| flow.fct_s).collect();
    [
        result.total_goodput_bps() / 1e6,
        known_mean(&rtts(|rtt| rtt.p50)),
        known_mean(&rtts(|rtt| rtt.p95)),
        result.bottleneck.queue_ms.p50,
        if bytes > 0.0 { 100.0 * again / bytes } else { 0.0 },
        if result.groups.len() > 1 { 100.0 * result.groups[0].share } else { f64::NAN },
        if fct.len() == flows.len() { fct.iter().sum::<f64>() / fct.len() as f64 } else { f64::NAN },
        probe.map_or(f64::NAN, |rtt| rtt.p50),
        probe.map_or(f64::NAN, |rtt| rtt.p95),
    ]
}

/// One metric of one scenario on both backends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Median in the simulator.
    pub sim: f64,
    /// Median on the real kernel.
    pub real: f64,
    /// Simulator over real kernel.
    pub ratio: f64,
    /// 95 % bootstrap interval of the ratio.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// One scenario on both backends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    pub name: String,
    /// Metrics in the order of [`FIGURES`].
    pub figures: Vec<Compared>,
}

impl Cell {
    /// True if either backend has this metric.
    fn has(&self, figure: usize) -> bool {
        let Compared { sim, real, .. } = self.figures[figure];
        !sim.is_nan() || !real.is_nan()
    }
}

/// Compares the runs of one scenario.
pub fn compare(name: &str, sim: &[Measured], real: &[Measured], seed: u64) -> Cell {
    let column = |runs: &[Measured], figure: usize| runs.iter().map(|run| run[figure]).collect::<Vec<f64>>();
    let mut rng = Rng::new(seed);
    let figures =
        (0..FIGURES.len()).map(|figure| ratio(&column(sim, figure), &column(real, figure), &mut rng)).collect();
    Cell { name: name.to_owned(), figures }
}

fn ratio(sim: &[f64], real: &[f64], rng: &mut Rng) -> Compared {
    let middle = |values: &[f64]| median(&mut values.to_vec());
    let (s, r) = (middle(sim), middle(real));
    let (low, high) = interval_of_median_ratio(sim, real, rng);
    Compared { sim: s, real: r, ratio: s / r, low, high }
}

/// Limits for the simulator's deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Median |ratio − 1| of goodput.
    pub goodput: f64,
    /// Median |ratio − 1| of the median RTT, and of the lag probe's.
    pub rtt: f64,
    /// |ratio − 1| of each in 90 % of the scenarios.
    pub max: f64,
    /// Ratio of retransmissions in either direction, where they are above 0.1 %.
    pub retransmitted: f64,
}

/// Limits against a kernel in virtual time, without noise.
pub const UML: Limits = Limits { goodput: 0.02, rtt: 0.04, max: 0.08, retransmitted: 1.4 };
/// Limits against a kernel in real time, where its self-check is clean.
pub const KERNEL: Limits = Limits { goodput: 0.03, rtt: 0.05, max: 0.10, retransmitted: 1.4 };

/// Limits against a QUIC stack: its own loss recovery and pacing, and packets of another size.
pub const QUIC: Limits = Limits { goodput: 0.05, rtt: 0.05, max: 0.10, retransmitted: 2.0 };

/// One requirement on all scenarios together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Description of the requirement.
    pub what: String,
    /// Maximum allowed.
    pub limit: f64,
    /// Measured value.
    pub measured: f64,
    pub holds: bool,
    /// Scenarios with the largest deviations.
    pub worst: Vec<String>,
}

/// Share of the scenarios that must meet the wider limit.
const MOST: f64 = 0.9;
/// Number of worst scenarios listed.
const WORST: usize = 3;

/// Judges all scenarios together.
pub fn judge(cells: &[Cell], limits: Limits) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut deviations = |figure: usize, name: &str, limit: f64, cells: &[&Cell]| {
        let off = off(cells, figure);
        rows.push(row(format!("{name}: median |ratio − 1|"), limit, quantile(&off, 0.5), &off));
        rows.push(row(format!("{name}: |ratio − 1| of 90 % of the scenarios"), limits.max, quantile(&off, MOST), &off));
    };
    let all: Vec<&Cell> = cells.iter().collect();
    deviations(GOODPUT, "goodput", limits.goodput, &all);
    deviations(RTT_P50, "RTT p50", limits.rtt, &all);
    let probed: Vec<&Cell> = cells.iter().filter(|cell| cell.has(PROBE_P50)).collect();
    if !probed.is_empty() {
        deviations(PROBE_P50, "probe p50", limits.rtt, &probed);
    }
    let counted = || cells.iter().filter(|cell| cell.figures[RETRANSMITTED].real > RETRANSMITTED_FROM);
    // Medians of a few runs vary widely if losses are few; only a deviation outside the interval counts.
    let certain = |one: &Compared| if one.low > 1.0 { one.low } else { 1.0 / one.high.min(1.0) };
    let mut again: Vec<(f64, &str)> =
        counted().map(|cell| (certain(&cell.figures[RETRANSMITTED]), cell.name.as_str())).collect();
    again.sort_by(|a, b| a.0.total_cmp(&b.0));
    let worst = again.last().map_or(1.0, |last| last.0);
    let what =
        "retransmissions above 0.1 %: largest ratio in either direction, by the end of its 95 % interval that is nearer to 1".to_owned();
    rows.push(row(what, limits.retransmitted, worst, &again));
    rows
}

/// Returns |ratio − 1| of a metric with its scenario, smallest first.
fn off<'c>(cells: &[&'c Cell], figure: usize) -> Vec<(f64, &'c str)> {
    let mut off: Vec<(f64, &str)> =
        cells.iter().map(|cell| ((cell.figures[figure].ratio - 1.0).abs(), cell.name.as_str())).collect();
    off.sort_by(|a, b| a.0.total_cmp(&b.0));
    off
}

/// Nearest-rank quantile; a scenario without the metric counts as infinitely far off.
fn quantile(off: &[(f64, &str)], q: f64) -> f64 {
    let off: Vec<f64> = off.iter().map(|(off, _)| if off.is_nan() { f64::INFINITY } else { *off }).collect();
    nearest_rank(&off, q)
}

fn row(what: String, limit: f64, measured: f64, off: &[(f64, &str)]) -> Row {
    let worst = off.iter().rev().take(WORST).map(|(off, name)| format!("{name} ({off:.3})")).collect();
    Row { what, limit, measured, holds: measured <= limit, worst }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(name: &str, goodput: f64, rtt: f64, again: (f64, f64)) -> Cell {
        let run = |x: f64, y: f64, z: f64| [x, y, y, 1.0, z, f64::NAN, f64::NAN, f64::NAN, f64::NAN];
        compare(name, &[run(goodput, rtt, again.0)], &[run(1.0, 1.0, again.1)], 1)
    }

    #[test]
    fn equal_results_of_both_backends_hold() {
        let rows = judge(&[cell("a", 1.0, 1.0, (2.0, 2.0)), cell("b", 1.0, 1.0, (0.0, 0.0))], UML);
        assert!(rows.iter().all(|row| row.holds), "{rows:?}");
    }

    #[test]
    fn a_median_that_is_off_is_told_with_its_worst_scenarios() {
        let rows = judge(&[cell("a", 1.03, 1.0, (0.0, 0.0)), cell("b", 0.9, 1.0, (0.0, 0.0))], UML);
        let held: Vec<bool> = rows.iter().map(|row| row.holds).collect();
        assert_eq!(held, [false, false, true, true, true]);
        assert!(rows[0].worst[0].starts_with("b (0.100)"), "{:?}", rows[0]);
    }

    #[test]
    fn one_scenario_in_ten_may_be_far_off_but_not_two() {
        let near = |n: usize| (0..n).map(|i| cell(&format!("near{i}"), 1.0, 1.0, (0.0, 0.0))).collect::<Vec<_>>();
        let far = cell("far", 1.5, 1.5, (0.0, 0.0));
        assert!(judge(&[near(9), vec![far.clone()]].concat(), UML).iter().all(|row| row.holds));
        assert!(!judge(&[near(8), vec![far.clone(), far]].concat(), UML)[1].holds);
    }

    #[test]
    fn a_ratio_of_retransmissions_that_chance_explains_is_no_fault() {
        let run = |again: f64| [1.0, 1.0, 1.0, 1.0, again, f64::NAN, f64::NAN, f64::NAN, f64::NAN];
        let scattered = compare("a", &[run(0.2), run(0.4), run(0.6)], &[run(0.2), run(0.2), run(0.5)], 1);
        let row = judge(&[scattered], UML).remove(4);
        assert!(row.holds && row.worst == ["a (1.000)"], "{row:?}");
        let apart = compare("a", &[run(0.4), run(0.5), run(0.6)], &[run(0.2), run(0.2), run(0.21)], 1);
        assert!(!judge(&[apart], UML)[4].holds);
    }

    #[test]
    fn retransmissions_count_either_way_but_only_where_there_are_some() {
        assert!(!judge(&[cell("a", 1.0, 1.0, (1.0, 2.0))], UML)[4].holds);
        assert!(!judge(&[cell("a", 1.0, 1.0, (2.0, 1.0))], UML)[4].holds);
        assert!(judge(&[cell("a", 1.0, 1.0, (0.05, 0.01))], UML)[4].holds);
    }

    #[test]
    fn a_probe_is_judged_where_there_is_one_and_a_backend_without_it_is_off() {
        let probed = |sim: f64, real: f64| {
            let run = |rtt: f64| [1.0, 1.0, 1.0, 1.0, 0.0, f64::NAN, f64::NAN, rtt, rtt];
            judge(&[compare("a", &[run(sim)], &[run(real)], 1), cell("b", 1.0, 1.0, (0.0, 0.0))], UML)
        };
        let held = |rows: &[Row]| rows.iter().map(|row| row.holds).collect::<Vec<_>>();
        assert_eq!(held(&probed(f64::NAN, f64::NAN)), [true; 5]);
        assert_eq!(held(&probed(1.02, 1.0)), [true; 7]);
        for (sim, real) in [(1.1, 1.0), (1.0, f64::NAN)] {
            assert_eq!(held(&probed(sim, real)), [true, true, true, true, false, false, true]);
        }
    }
}
