//! Which algorithm for these paths: each candidate on the same drawn paths with the same dice, judged and compared.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Rng;
use rayon::prelude::*;
use serde::Serialize;

use crate::objective::Objective;
use crate::paths::{Path, Population};
use crate::sweep::{Metric, Row};
use bbrlab_sim::metrics::{RESAMPLES, median, resampled};

/// Of two that are worth nearly the same, the one in use is kept: a change has a price too. Ours.
pub const WORTH_A_CHANGE: f64 = 0.02;
/// From so sure on, a choice is called sure. Ours.
pub const SURE: f64 = 0.95;

/// What is shown of a candidate: a name, a unit, the metric (none: what is left to others), what it is scaled by.
pub const SHOWN: [(&str, &str, Option<Metric>, f64); 5] = [
    ("goodput", "Mbit/s", Some(Metric::FirstGoodputBps), 1e-6),
    ("RTT p50", "ms", Some(Metric::FirstRttP50Ms), 1.0),
    ("RTT p95", "ms", Some(Metric::FirstRttP95Ms), 1.0),
    ("retransmitted", "%", Some(Metric::FirstRetransmitRatio), 100.0),
    ("others' goodput", "Mbit/s", None, 1e-6),
];
/// Place of the others' goodput in [`SHOWN`].
pub const OTHERS: usize = 4;

/// A figure with its 95 % bootstrap interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Median or mean, as said.
    pub middle: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// One candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// As `--flow` takes it.
    pub flow: String,
    /// Mean worth over the paths.
    pub worth: f64,
    /// Medians, in the order of [`SHOWN`]; NaN where there is none.
    pub figures: Vec<f64>,
    /// Ratio to the one in use, path by path: the median with its interval, in the order of [`SHOWN`].
    pub gain: Vec<Interval>,
    /// In so large a share of the resampled populations it is the best.
    pub wins: f64,
}

/// What is advised.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The candidates, the one in use first.
    pub candidates: Vec<Candidate>,
    /// Which of them to take.
    pub choice: usize,
    /// How sure that is: share of the resampled populations in which the choice is the same.
    pub sure: f64,
    /// The paths that were drawn.
    pub paths: Vec<Path>,
    /// What each candidate was worth on each path.
    pub worths: Vec<Vec<f64>>,
}

/// Compares candidates on `draws` paths; the first is the one in use.
pub fn advise(
    population: &Population,
    flows: &[String],
    objective: Objective,
    draws: u64,
    seed: u64,
    tick: &(dyn Fn() + Sync),
) -> Result<Advice, String> {
    let paths: Vec<Path> = (0..draws).map(|nth| population.draw(seed, nth)).collect();
    let rows: Vec<Vec<Row>> = flows
        .iter()
        .map(|flow| {
            let one = |(nth, path): (usize, &Path)| {
                let row = path.run(flow, seed.wrapping_add(nth as u64));
                tick();
                row
            };
            paths.par_iter().enumerate().map(one).collect::<Result<Vec<Row>, String>>()
        })
        .collect::<Result<_, _>>()?;
    let worths: Vec<Vec<f64>> = rows.iter().map(|rows| rows.iter().map(|row| objective.of(row)).collect()).collect();
    let mut rng = Rng::new(seed);
    let (choice, wins, sure) = chosen(&worths, &mut rng);
    let candidates = flows
        .iter()
        .enumerate()
        .map(|(nth, flow)| Candidate {
            flow: flow.clone(),
            worth: mean(&worths[nth]),
            figures: (0..SHOWN.len()).map(|which| median(&mut figures(&rows[nth], which))).collect(),
            gain: (0..SHOWN.len())
                .map(|which| ratio(&figures(&rows[nth], which), &figures(&rows[0], which), &mut rng))
                .collect(),
            wins: wins[nth],
        })
        .collect();
    Ok(Advice { candidates, choice, sure, paths, worths })
}

/// A figure of all rows, in the unit that is shown.
fn figures(rows: &[Row], which: usize) -> Vec<f64> {
    let (.., metric, scale) = SHOWN[which];
    let value = |row: &Row| {
        if let Some(metric) = metric {
            return row.get(metric) * scale;
        }
        let others = (row.get(Metric::GoodputBps) - row.get(Metric::FirstGoodputBps)) * scale;
        if row.get(Metric::Flows) > row.get(Metric::FirstFlows) { others } else { f64::NAN }
    };
    rows.iter().map(value).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The candidate of the largest mean worth, unless the one in use is about as good.
pub fn best(means: &[f64]) -> usize {
    let best = (0..means.len()).max_by(|&a, &b| means[a].total_cmp(&means[b])).unwrap_or(0);
    if means[best] <= means[0] * (1.0 + WORTH_A_CHANGE) { 0 } else { best }
}

/// The choice, how often each would be chosen in resampled populations, and how often this one.
fn chosen(worths: &[Vec<f64>], rng: &mut Rng) -> (usize, Vec<f64>, f64) {
    let choice = best(&worths.iter().map(|worths| mean(worths)).collect::<Vec<_>>());
    let n = worths[0].len();
    let indices: Vec<f64> = (0..n).map(|index| index as f64).collect();
    let mut drawn = indices.clone();
    let mut wins = vec![0.0; worths.len()];
    for _ in 0..RESAMPLES {
        resampled(&indices, &mut drawn, rng);
        let means: Vec<f64> =
            worths.iter().map(|worths| drawn.iter().map(|&index| worths[index as usize]).sum::<f64>()).collect();
        wins[best(&means)] += 1.0 / RESAMPLES as f64;
    }
    let sure = wins[choice];
    (choice, wins, sure)
}

/// The median of the ratios, path by path, with its interval.
fn ratio(own: &[f64], base: &[f64], rng: &mut Rng) -> Interval {
    let ratios: Vec<f64> =
        own.iter().zip(base).map(|(own, base)| own / base).filter(|ratio| ratio.is_finite()).collect();
    if ratios.is_empty() {
        return Interval { middle: f64::NAN, low: f64::NAN, high: f64::NAN };
    }
    let mut sorted = ratios;
    let middle = median(&mut sorted);
    let (low, high) = bbrlab_sim::metrics::interval(&sorted, rng);
    Interval { middle, low, high }
}

/// How good the advice is: on `paths` paths known only roughly, what the choice is worth there, over the best in hindsight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Paths judged.
    pub paths: u64,
    /// Mean worth of what was advised, over that of the best single choice for each path.
    pub kept: f64,
    /// The same for always keeping the one in use.
    pub unchanged: f64,
    /// Share of the paths on which the advice was the best choice, or within [`WORTH_A_CHANGE`] of it.
    pub right: f64,
}

/// Draws paths, tells the adviser of each only ranges around the truth, and judges the choice with dice of its own.
pub fn judge(
    truth: &Population,
    flows: &[String],
    objective: Objective,
    (paths, draws): (u64, u64),
    seed: u64,
    tick: &(dyn Fn() + Sync),
) -> Result<Judged, String> {
    /// Dice of the truth: none that the adviser has thrown.
    const APART: u64 = 1 << 40;
    /// Runs of the truth of each path.
    const RUNS: u64 = 3;
    /// What was advised, what is in use, and the best are worth; whether the advice was right.
    struct One {
        got: f64,
        unchanged: f64,
        most: f64,
        right: bool,
    }
    let one = |nth: u64| -> Result<One, String> {
        let path = truth.draw(seed ^ APART, nth);
        let known = Population::of(path.roughly());
        let advice = advise(&known, flows, objective, draws, seed.wrapping_add(nth * 1000), &|| ())?;
        let truths: Vec<f64> = flows
            .iter()
            .map(|flow| {
                let runs = (0..RUNS).map(|run| path.run(flow, APART + nth * RUNS + run).map(|row| objective.of(&row)));
                Ok(mean(&runs.collect::<Result<Vec<f64>, String>>()?))
            })
            .collect::<Result<_, String>>()?;
        let most = truths.iter().copied().fold(0.0, f64::max);
        tick();
        let got = truths[advice.choice];
        Ok(One { got, unchanged: truths[0], most, right: got >= most * (1.0 - WORTH_A_CHANGE) })
    };
    let all: Vec<One> = (0..paths).into_par_iter().map(one).collect::<Result<_, _>>()?;
    let sum = |of: fn(&One) -> f64| all.iter().map(of).sum::<f64>();
    let most = sum(|one| one.most);
    Ok(Judged {
        paths,
        kept: sum(|one| one.got) / most,
        unchanged: sum(|one| one.unchanged) / most,
        right: all.iter().filter(|one| one.right).count() as f64 / paths as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::{Kind, KindSpec};

    fn population(rate: &str, buffer: &str, loss: &str) -> Population {
        let spec = KindSpec {
            rate: rate.to_owned(),
            rtt: "40ms".to_owned(),
            buffer: buffer.to_owned(),
            loss: loss.to_owned(),
            rivals: "0".to_owned(),
            weight: 1.0,
        };
        Population::of(Kind::parse(&spec).unwrap())
    }

    fn flows() -> Vec<String> {
        ["cubic", "bbr1"].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_lossy_path_wants_bbr_and_says_by_how_much() {
        let throughput = Objective::named("throughput").unwrap();
        let advice = advise(&population("5mbit", "1bdp", "2%"), &flows(), throughput, 3, 1, &|| ()).unwrap();
        let bbr1 = &advice.candidates[1];
        assert_eq!(advice.choice, 1);
        assert!(bbr1.gain[0].low > 1.3 && advice.sure > SURE && bbr1.gain[OTHERS].middle.is_nan(), "{bbr1:?}");
    }

    #[test]
    fn what_is_as_good_stays_as_it_is() {
        let throughput = Objective::named("throughput").unwrap();
        let advice = advise(&population("5mbit", "4bdp", "0%"), &flows(), throughput, 3, 1, &|| ()).unwrap();
        assert_eq!(advice.choice, 0, "{advice:?}");
        assert_eq!(best(&[1.0, 1.019]), 0);
        assert_eq!(best(&[1.0, 1.03]), 1);
    }

    #[test]
    fn the_same_question_gets_the_same_answer() {
        let balanced = Objective::named("balanced").unwrap();
        let ask = || advise(&population("2mbit..5mbit", "0.5bdp..2bdp", "0%..1%"), &flows(), balanced, 4, 9, &|| ());
        assert_eq!(format!("{:?}", ask().unwrap()), format!("{:?}", ask().unwrap()));
    }
}
