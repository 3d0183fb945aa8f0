//! Parameter search for a population of paths: tunes an algorithm's constants and judges them on held-out paths.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod page;

use bbrlab_core::{
    Rng,
    params::{ParamSpec, Unit},
};
use moors::Nsga2Builder;
use moors::duplicates::CloseDuplicatesCleaner;
use moors::operators::{GaussianMutation, RandomSamplingFloat, SimulatedBinaryCrossover};
use ndarray::{Array1, Array2, ArrayView1};
use rayon::prelude::*;
use serde::Serialize;

use crate::choose::objective::{Objective, Terms};
use crate::comparison::Interval;
use crate::paths::{Conditions, Population};
use crate::sweep::Row;
use crate::{Error, Result};
use bbrlab_sim::scenario::{FlowSpec, unit_text};
use bbrlab_stats::bootstrap::interval_of_mean;
use bbrlab_stats::mean;

pub use page::{Answer, differences, percent, rows, verdict, warning};

/// Objectives to minimise, each from 0 (best) to 1: goodput shortfall, delay, retransmissions, others' shortfall.
pub const TERMS: [&str; 4] = ["goodput shortfall", "added delay", "retransmitted", "loss to competing flows"];
/// Largest difference of a term that counts as none: the variation between two seeds. Ours.
pub const SAME: f64 = 0.005;
/// Search range of a parameter: from its default over this to its default times this, within its limits. A share, such
/// as a loss threshold, gets a much wider range, for it may be off by orders of magnitude. Ours.
const REACH: f64 = 3.0;
const REACH_OF_SHARES: f64 = 10.0;
/// Search limit of a parameter with default 0, as a share of its maximum: its unit's usual size. Ours.
const FROM_ZERO: f64 = 0.1;

/// Parameters tuned by default: the constants that decide between goodput, delay and loss.
pub const USUAL: [(&str, &[&str]); 2] = [
    ("bbr1", &["pacing_gain_up", "pacing_gain_down", "cwnd_gain", "bw_window", "pacing_margin", "lt_bw"]),
    (
        "bbr3",
        &["loss_thresh", "beta", "headroom", "probe_up_pacing_gain", "probe_down_pacing_gain", "default_cwnd_gain"],
    ),
];

mod bounds {
    moors::impl_constraints_fn!(UnitBox, lower_bound = 0.0, upper_bound = 1.0);
}

/// Size of the search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Budget {
    /// Settings of one generation.
    pub settings: usize,
    /// Generations.
    pub generations: usize,
    /// Paths on which each setting is run.
    pub paths: u64,
    /// Held-out paths that judge the outcome.
    pub held_out: u64,
}

/// One parameter and its search range.
#[derive(Clone, Copy, Debug)]
struct SearchRange {
    spec: &'static ParamSpec,
    low: f64,
    high: f64,
}

impl SearchRange {
    fn new(spec: &'static ParamSpec, default: u32) -> Self {
        let (min, max) = (f64::from(spec.min), f64::from(spec.max));
        if spec.unit == Unit::Switch {
            return Self { spec, low: 0.0, high: 1.0 };
        }
        let at = f64::from(default);
        let reach = if matches!(spec.unit, Unit::Share | Unit::FineShare) { REACH_OF_SHARES } else { REACH };
        let (low, high) = if default == 0 { (min, max * FROM_ZERO) } else { (at / reach, at * reach) };
        Self { spec, low: low.clamp(min, max), high: high.clamp(min, max) }
    }

    /// Maps a position from 0 to 1 to a value: on a logarithmic scale if both ends allow it.
    fn value(&self, gene: f64) -> u32 {
        let gene = gene.clamp(0.0, 1.0);
        let value = if self.low > 0.0 {
            self.low * (self.high / self.low).powf(gene)
        } else {
            self.low + (self.high - self.low) * gene
        };
        (value.round() as u32).clamp(self.spec.min, self.spec.max)
    }

    fn text(&self, gene: f64) -> String {
        unit_text(self.spec.unit, self.value(gene))
    }
}

/// One setting of the Pareto front.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Flow in the syntax of `--flow`.
    pub flow: String,
    /// Means over the paths of the search, in the order of [`TERMS`].
    pub terms: [f64; TERMS.len()],
    /// Mean score on those paths.
    pub score: f64,
}

/// Comparison of the outcome with another setting on held-out paths.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The other setting in the syntax of `--flow`.
    pub flow: String,
    /// Its means, in the order of [`TERMS`].
    pub terms: [f64; TERMS.len()],
    /// Its mean score.
    pub score: f64,
    /// The outcome's term minus the other's, path by path: mean with interval. Below 0 is better.
    pub difference: Vec<Interval>,
    /// The outcome's score minus the other's, path by path: mean with interval. Above 0 is better.
    pub score_gain: Interval,
    /// Terms in which the outcome is significantly better.
    pub better: Vec<&'static str>,
    /// Terms in which it is significantly worse.
    pub worse: Vec<&'static str>,
}

/// Result of the search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tuned {
    /// Algorithm.
    pub cc: String,
    /// Chosen setting: parameter and value.
    pub parameters: Vec<(String, String)>,
    /// Chosen setting in the syntax of `--flow`.
    pub flow: String,
    /// Its means on held-out paths.
    pub terms: [f64; TERMS.len()],
    /// Its mean score on held-out paths.
    pub score: f64,
    /// Pareto front on the paths of the search: no setting is better than another in every term.
    pub front: Vec<Setting>,
    /// Comparison with the defaults.
    pub against: Vec<Comparison>,
    /// Size of the search.
    pub budget: Budget,
}

/// Returns the terms of one run.
fn terms(row: &Row) -> [f64; TERMS.len()] {
    let terms = Terms::of(&row.figures);
    // A flow without goodput gets no credit for low delay.
    if terms.0[Terms::GOODPUT] > 0.0 { terms.0.map(|term| 1.0 - term) } else { [1.0; TERMS.len()] }
}

/// Runs a flow on paths `from..to` of the population; one row per path.
fn runs(population: &Population, flow: &str, paths: std::ops::Range<u64>, seed: u64) -> Result<Vec<Row>> {
    let one = |nth: u64| population.draw(seed, nth).run(&Conditions::default(), flow, seed.wrapping_add(nth));
    paths.into_par_iter().map(one).collect()
}

fn means(rows: &[Row]) -> [f64; TERMS.len()] {
    let all: Vec<[f64; TERMS.len()]> = rows.iter().map(terms).collect();
    std::array::from_fn(|term| all.iter().map(|one| one[term]).sum::<f64>() / all.len() as f64)
}

fn score(rows: &[Row], objective: Objective) -> f64 {
    rows.iter().map(|row| objective.of(row)).sum::<f64>() / rows.len() as f64
}

/// Returns the parameters to search: the named ones, or the usual ones of the algorithm.
fn knobs(cc: &str, names: &[String]) -> Result<Vec<SearchRange>> {
    let spec = FlowSpec::of(cc)?;
    let at = || Error::at::<Error>("--parameters");
    let all: Vec<(&'static ParamSpec, u32)> = spec.algorithm.parameters().collect();
    let usual = USUAL.iter().find(|(known, _)| cc == *known || cc.starts_with(&format!("{known}-")));
    let names: Vec<String> = match (names, usual) {
        ([], Some((_, usual))) => usual.iter().map(|name| (*name).to_owned()).collect(),
        ([], None) => {
            let known = all.iter().map(|(spec, _)| spec.name).collect();
            return Err(at()(Error::NameParameters { cc: cc.to_owned(), known }));
        }
        (names, _) => names.to_vec(),
    };
    if let Some((_, twice)) = names.iter().enumerate().find(|(nth, name)| names[..*nth].contains(name)) {
        return Err(at()(Error::Twice(twice.clone())));
    }
    let knob = |name: &String| {
        let found = all.iter().find(|(spec, _)| spec.name == name);
        found
            .map(|(spec, value)| SearchRange::new(spec, *value))
            .ok_or_else(|| at()(Error::UnknownParameter { cc: cc.to_owned(), name: name.clone() }))
    };
    names.iter().map(knob).collect()
}

fn flow_of(cc: &str, knobs: &[SearchRange], genes: ArrayView1<'_, f64>) -> String {
    let options = knobs.iter().zip(genes).map(|(knob, gene)| format!(",{}={}", knob.spec.name, knob.text(*gene)));
    std::iter::once(cc.to_owned()).chain(options).collect()
}

/// Setting of `cc` with every default search parameter at the same place of its range, from 0 to 1.
pub fn setting_at(cc: &str, place: f64) -> Result<String> {
    let knobs = knobs(cc, &[])?;
    let genes = Array1::from_elem(knobs.len(), place);
    Ok(flow_of(cc, &knobs, genes.view()))
}

/// Searches for a setting of `cc` that suits the population.
pub fn tune(
    population: &Population,
    cc: &str,
    names: &[String],
    objective: Objective,
    budget: Budget,
    seed: u64,
    tick: &(dyn Fn() + Sync),
) -> Result<Tuned> {
    let knobs = knobs(cc, names)?;
    let seen = 0..budget.paths;
    let unseen = budget.paths..budget.paths + budget.held_out;
    // A setting that cannot run gets the worst value; the flow parser has checked every value.
    let fitness = |genes: &Array2<f64>| {
        let rows: Vec<[f64; TERMS.len()]> = genes
            .rows()
            .into_iter()
            .map(|genes| {
                tick();
                runs(population, &flow_of(cc, &knobs, genes), seen.clone(), seed).map_or([1.0; 4], |rows| means(&rows))
            })
            .collect();
        Array2::from_shape_fn((rows.len(), TERMS.len()), |(row, term)| rows[row][term])
    };
    let mut search = Nsga2Builder::default()
        .sampler(RandomSamplingFloat::new(0.0, 1.0))
        .crossover(SimulatedBinaryCrossover::new(10.0))
        .mutation(GaussianMutation::new(0.3, 0.15))
        .duplicates_cleaner(CloseDuplicatesCleaner::new(1e-4))
        .fitness_fn(fitness)
        .constraints_fn(bounds::UnitBox)
        .num_vars(knobs.len())
        .population_size(budget.settings)
        .num_offsprings(budget.settings)
        .num_iterations(budget.generations)
        .mutation_rate(0.4)
        .crossover_rate(0.9)
        .keep_infeasible(false)
        .verbose(false)
        .seed(seed)
        .build()
        .map_err(|error| Error::Search(error.into()))?;
    search.run().map_err(|error| Error::Search(error.into()))?;
    let found = search.population.ok_or(Error::NothingFound("it ended without a setting"))?.best();
    let mut front: Vec<Setting> = found
        .genes
        .rows()
        .into_iter()
        .map(|genes| {
            let flow = flow_of(cc, &knobs, genes);
            let rows = runs(population, &flow, seen.clone(), seed)?;
            Ok(Setting { terms: means(&rows), score: score(&rows, objective), flow })
        })
        .collect::<Result<_>>()?;
    front.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.flow.cmp(&b.flow)));
    front.dedup_by(|a, b| a.flow == b.flow);
    let mut defaults = vec![cc.to_owned()];
    defaults.extend(["bbr1", "bbr3", "cubic"].into_iter().filter(|other| *other != cc).map(str::to_owned));
    let chosen = choose(&front, population, &defaults[..defaults.len() - 1], &seen, seed)?;
    let own = runs(population, &chosen.flow, unseen.clone(), seed)?;
    let mut rng = Rng::new(seed);
    let against = defaults
        .iter()
        .map(|flow| {
            let rows = runs(population, flow, unseen.clone(), seed)?;
            tick();
            Ok(compare(flow, &own, &rows, objective, &mut rng))
        })
        .collect::<Result<_>>()?;
    let parameters = chosen.flow.split(',').skip(1).filter_map(|option| option.split_once('='));
    Ok(Tuned {
        cc: cc.to_owned(),
        parameters: parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        flow: chosen.flow.clone(),
        terms: means(&own),
        score: score(&own, objective),
        front: front.clone(),
        against,
        budget,
    })
}

/// Returns the highest-scoring setting that is nowhere worse than BBR's defaults, or else the highest-scoring one.
fn choose<'a>(
    front: &'a [Setting],
    population: &Population,
    defaults: &[String],
    seen: &std::ops::Range<u64>,
    seed: u64,
) -> Result<&'a Setting> {
    let known: Vec<[f64; TERMS.len()]> =
        defaults.iter().map(|flow| Ok(means(&runs(population, flow, seen.clone(), seed)?))).collect::<Result<_>>()?;
    let nowhere_worse = |setting: &&Setting| {
        known.iter().all(|terms| setting.terms.iter().zip(terms).all(|(own, other)| *own <= other + SAME))
    };
    front.iter().find(nowhere_worse).or_else(|| front.first()).ok_or(Error::NothingFound("the front is empty"))
}

fn compare(flow: &str, own: &[Row], other: &[Row], objective: Objective, rng: &mut Rng) -> Comparison {
    let difference: Vec<Interval> = (0..TERMS.len())
        .map(|term| {
            let pairs: Vec<f64> = own.iter().zip(other).map(|(a, b)| terms(a)[term] - terms(b)[term]).collect();
            mean_interval(&pairs, rng)
        })
        .collect();
    let scores: Vec<f64> = own.iter().zip(other).map(|(a, b)| objective.of(a) - objective.of(b)).collect();
    let named = |is: &dyn Fn(&Interval) -> bool| {
        TERMS.into_iter().zip(&difference).filter(|(_, d)| is(d)).map(|(name, _)| name).collect::<Vec<_>>()
    };
    Comparison {
        flow: flow.to_owned(),
        terms: means(other),
        score: score(other, objective),
        score_gain: mean_interval(&scores, rng),
        better: named(&|d| d.high < -SAME),
        worse: named(&|d| d.low > SAME),
        difference,
    }
}

/// Mean with its 95 % bootstrap interval.
fn mean_interval(values: &[f64], rng: &mut Rng) -> Interval {
    let (low, high) = interval_of_mean(values, rng);
    Interval { middle: mean(values), low, high }
}
