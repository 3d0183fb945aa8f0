//! Tests the advice on known paths. The adviser receives only the data that an operator would have.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Rng;
use bbrlab_stats::mean;
use rayon::prelude::*;
use serde::Serialize;

use super::{Question, Request, advise, best};
use crate::Result;
use crate::choose::objective::Objective;
use crate::measured::{Connection, evidence};
use crate::paths::{Conditions, Path, Population};
use crate::sweep::{Metric, Row};

/// Separates the seeds of the true paths from those of the adviser.
const APART: u64 = 1 << 40;
/// Runs of each true path.
const RUNS: u64 = 3;
/// Distance from the best score within which an advice is right. Ours: a change costs more.
const CLOSE: f64 = 0.03;
/// Number of paths of a measured set.
const PATHS_MIN: u64 = 8;
const PATHS_MAX: u64 = 40;
/// Length of a measured connection. Ours: a large download.
const SECONDS: f64 = 30.0;

/// Quality of the advice on `paths` imprecisely known paths: the choice's score relative to the best in hindsight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AdviceQuality {
    /// Paths judged.
    pub paths: u64,
    /// Mean score of the recommended candidates, relative to the best single choice for each path.
    pub kept: f64,
    /// The same for always keeping the current algorithm.
    pub unchanged: f64,
    /// Share of the paths, or sets, on which the recommendation was the best choice, or within 3 % of it.
    pub right: f64,
    /// Share of them with a clear winner.
    pub clear: f64,
    /// Share of the sets on which the best choice for the connections that show a rate was right: more is luck. None if no sets were judged.
    pub possible: Option<f64>,
}

/// Draws paths, gives the adviser only ranges around each true value, and judges the choice with other random numbers.
/// For rivals the adviser gets their number and the possible algorithms, not the actual ones.
pub fn judge(
    truth: &Population,
    flows: &[String],
    objective: Objective,
    (paths, draws): (u64, u64),
    seed: u64,
    tick: &(dyn Fn() + Sync),
) -> Result<AdviceQuality> {
    let one = |nth: u64| -> Result<Scores> {
        let path = truth.draw(seed ^ APART, nth);
        let known = Population::of(path.roughly(truth.rival_flows()));
        let seed = seed.wrapping_add(nth * 1000);
        let conditions = &Conditions::default();
        let question = Question { population: &known, conditions, flows, objective, draws, seed };
        let advice = advise(&question, &|| ())?;
        let truths = flows.iter().map(|flow| truth_of(&path, flow, objective, nth)).collect::<Result<Vec<f64>>>()?;
        tick();
        Ok(Scores::of(&truths, advice.choice))
    };
    let all: Vec<Scores> = (0..paths).into_par_iter().map(one).collect::<Result<_, _>>()?;
    Ok(quality(&all))
}

/// Draws sets of 8 to 40 paths, simulates the current algorithm on each path, and gives the adviser only what `ss` would show on the
/// server. A tenth of the connections are limited by their application and do not show the rate of their path. Rivals are not in
/// the measurement.
pub fn judge_measured(
    truth: &Population,
    flows: &[String],
    objective: Objective,
    sets: u64,
    seed: u64,
    tick: &(dyn Fn() + Sync),
) -> Result<AdviceQuality> {
    let one = |nth: u64| -> Result<Scores> {
        let mut rng = Rng::derive(seed ^ APART, nth);
        let count = PATHS_MIN + rng.below(PATHS_MAX - PATHS_MIN + 1);
        let paths: Vec<Path> = (0..count).map(|path| truth.draw(seed ^ APART, nth * PATHS_MAX + path)).collect();
        let conditions = &Conditions::default();
        let connections = (paths.iter().enumerate())
            .map(|(place, path)| {
                let row = path.run(conditions, &flows[0], APART + (nth << 20) + place as u64)?;
                Ok(connection(&row, &flows[0], place, rng.below(10) == 0))
            })
            .collect::<Result<Vec<Connection>>>()?;
        let evidence = evidence(&connections);
        let request = Request {
            evidence: Some(("its connections".to_owned(), evidence)),
            current: Some(flows[0].clone()),
            algorithms: flows[1..].to_vec(),
            objective: Some(objective.name.to_owned()),
            seed: seed.wrapping_add(nth),
            ..Request::default()
        };
        let advice = request.prepare()?.answer(&|| ())?.advice;
        let (mut truths, mut shown) = (vec![0.0; flows.len()], vec![0.0; flows.len()]);
        for (place, path) in paths.iter().enumerate() {
            for (nth_flow, flow) in flows.iter().enumerate() {
                let score = truth_of(path, flow, objective, (nth << 20) + place as u64)? / paths.len() as f64;
                truths[nth_flow] += score;
                shown[nth_flow] += if connections[place].is_app_limited { 0.0 } else { score };
            }
        }
        tick();
        // Without a clear winner nothing is changed.
        let choice = if advice.is_clear() { advice.choice } else { 0 };
        let is_possible = Scores::of(&truths, best(&shown)).right;
        Ok(Scores { is_clear: advice.is_clear(), is_possible: Some(is_possible), ..Scores::of(&truths, choice) })
    };
    let all: Vec<Scores> = (0..sets).into_par_iter().map(one).collect::<Result<_, _>>()?;
    Ok(quality(&all))
}

/// A connection with what a kernel would have counted.
fn connection(row: &Row, flow: &str, nth: usize, is_app_limited: bool) -> Connection {
    let rate_bps = row.get(Metric::FirstGoodputBps);
    let sent = rate_bps / 8.0 * SECONDS;
    Connection {
        ends: Some((format!("10.0.0.1:{nth}"), format!("10.1.{}.{}:443", nth / 250, nth % 250))),
        cc: Some(flow.to_owned()),
        rate_bps: Some(rate_bps).filter(|_| !is_app_limited),
        is_app_limited,
        min_rtt_s: Some(row.get(Metric::RttBaseMs) / 1e3),
        rtt_s: Some(row.get(Metric::FirstRttP50Ms) / 1e3),
        sent: Some(sent),
        again: Some(sent * row.get(Metric::FirstRetransmitRatio)),
    }
}

/// Mean score of an algorithm over several runs of a true path.
fn truth_of(path: &Path, flow: &str, objective: Objective, nth: u64) -> Result<f64> {
    let conditions = &Conditions::default();
    let runs = (0..RUNS).map(|run| path.run(conditions, flow, APART + nth * RUNS + run).map(|row| objective.of(&row)));
    Ok(mean(&runs.collect::<Result<Vec<f64>>>()?))
}

/// Scores of the recommendation, of the current algorithm and of the best one, and the correctness of the advice.
struct Scores {
    got: f64,
    unchanged: f64,
    max: f64,
    right: bool,
    is_clear: bool,
    is_possible: Option<bool>,
}

impl Scores {
    fn of(truths: &[f64], choice: usize) -> Self {
        let max = truths.iter().copied().fold(0.0, f64::max);
        let got = truths[choice];
        Self { got, unchanged: truths[0], max, right: got >= max * (1.0 - CLOSE), is_clear: true, is_possible: None }
    }
}

fn quality(all: &[Scores]) -> AdviceQuality {
    let sum = |of: fn(&Scores) -> f64| all.iter().map(of).sum::<f64>();
    let share = |of: fn(&Scores) -> bool| all.iter().filter(|one| of(one)).count() as f64 / all.len() as f64;
    let max = sum(|one| one.max);
    AdviceQuality {
        paths: all.len() as u64,
        kept: sum(|one| one.got) / max,
        unchanged: sum(|one| one.unchanged) / max,
        right: share(|one| one.right),
        clear: share(|one| one.is_clear),
        possible: all[0].is_possible.is_some().then(|| share(|one| one.is_possible == Some(true))),
    }
}
