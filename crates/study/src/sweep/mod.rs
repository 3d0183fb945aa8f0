//! Sweeps: any scenario over any axes, in independent blocks of runs. Rows are the same for any number of threads or
//! shards.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod axis;
mod cells;
mod page;
mod row;

pub use cells::Cells;
pub use page::{baseline, page, shown_by_default};
pub use row::{Metric, Row, loss};

use std::sync::Arc;

use serde::Serialize;

use crate::product::{Product, Vary};
use crate::{Error, Result};
use bbrlab_sim::record::Output;
use bbrlab_sim::scenario::{Backend, Scenario, ScenarioFile};
use bbrlab_sim::setup::Setup;

/// Number of blocks of a sweep, if it has enough runs: the unit lost in an interruption and distributed to shards.
/// Ours.
const BLOCKS: usize = 256;
/// Maximum runs of a block. Ours: a block then stays under a second of short runs.
const BLOCK_MAX: usize = 256;
/// Maximum runs of a sweep.
const RUNS_MAX: usize = 100_000_000;

/// Specification of a sweep: equal specifications are equal sweeps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spec {
    /// Base scenario of all runs.
    pub scenario: toml::Table,
    /// The axes: name and values.
    pub axes: Vec<(String, Vec<toml::Value>)>,
    /// Number of seeds of each combination.
    pub repeat: u32,
    /// First seed.
    pub seed: u64,
    /// Version that runs it.
    pub version: String,
    /// Identifier of the build: another build may give other results.
    pub build: String,
}

/// A validated sweep.
#[derive(Clone, Debug)]
pub struct Sweep {
    spec: Spec,
    product: Product,
}

impl Sweep {
    /// Checks the axes, and resolves the first run with each value of each axis and the last run, so that nearly all errors appear
    /// before the work begins.
    pub fn new(scenario: toml::Table, axes: &[Vary], (version, build): (&str, &str)) -> Result<Self> {
        let mut scenario = scenario;
        let whole = |value: Option<toml::Value>, key: &str, default: u64| match value {
            None => Ok(default),
            Some(toml::Value::Integer(value)) => {
                u64::try_from(value).map_err(|_| Error::at(key)(Error::Negative(value)))
            }
            Some(other) => {
                other.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| Error::at(key)(Error::NotWhole(other)))
            }
        };
        let repeat = whole(scenario.remove("repeat"), "repeat", 1)?;
        let repeat = u32::try_from(repeat).ok().filter(|repeat| (1..=10_000).contains(repeat));
        let spec = Spec {
            repeat: repeat.ok_or(Error::Repeat)?,
            seed: whole(scenario.remove("seed"), "seed", 1)?,
            axes: axes.iter().map(|vary| (vary.name.clone(), vary.values.clone())).collect(),
            version: version.to_owned(),
            build: build.to_owned(),
            scenario,
        };
        for (key, _) in &spec.axes {
            if key == "seed" || key == "repeat" {
                return Err(Error::SeedAxis(key.clone()));
            }
        }
        let product = Product::new(&spec.scenario, axes)?;
        let texts = serde_json::to_string(&(&spec.scenario, &spec.axes)).unwrap_or_default();
        for (name, points) in product.axes() {
            if points.iter().all(|point| !point.sets_anything()) && !texts.contains(&format!("{{{name}}}")) {
                return Err(Error::NoEffect(name.clone()));
            }
        }
        let sweep = Self { spec, product };
        if sweep.product.len().saturating_mul(sweep.spec.repeat as usize) > RUNS_MAX {
            return Err(Error::TooManyRuns { max: RUNS_MAX });
        }
        let repeat = sweep.spec.repeat as usize;
        let mut stride = 1;
        for (_, points) in sweep.product.axes().iter().rev() {
            (0..points.len()).try_for_each(|nth| sweep.setup(nth * stride * repeat).map(drop))?;
            stride *= points.len();
        }
        sweep.setup(sweep.len() - 1)?;
        Ok(sweep)
    }

    /// Returns the specification.
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the axes' names and values.
    pub const fn product(&self) -> &Product {
        &self.product
    }

    /// Number of runs.
    pub fn len(&self) -> usize {
        self.product.len() * self.spec.repeat as usize
    }

    /// Always false, since every axis has values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Combination of run number `index`: seeds vary fastest.
    pub const fn combination(&self, index: usize) -> usize {
        index / self.spec.repeat as usize
    }

    /// Returns the scenario and setup of run number `index`.
    pub fn setup(&self, index: usize) -> Result<(Scenario, Arc<Setup>)> {
        let planned = self.product.run(self.combination(index))?;
        let at = || Error::at::<Error>(&planned.name);
        let mut scenario: Scenario =
            ScenarioFile::from_table(planned.scenario).map_err(|error| at()(Error::Table(error)))?.scenario;
        if scenario.on != Backend::Sim {
            return Err(at()(Error::SweepsSimulator));
        }
        scenario.seed = self.spec.seed.wrapping_add((index % self.spec.repeat as usize) as u64);
        let sourced = ScenarioFile::from(scenario);
        let setup = sourced
            .resolve(&|_| Err("a sweep has no trace files; write a rate".into()))
            .map_err(|error| at()(error.into()))?;
        Ok((sourced.scenario.filled(), Arc::new(setup)))
    }

    /// Runs in a block; the last one may have fewer.
    pub fn block_len(&self) -> usize {
        self.len().div_ceil(BLOCKS).clamp(1, BLOCK_MAX)
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.len().div_ceil(self.block_len())
    }

    /// Returns the runs of block number `block`.
    pub fn block(&self, block: usize) -> std::ops::Range<usize> {
        let first = block * self.block_len();
        first..(first + self.block_len()).min(self.len())
    }

    /// Executes run number `index` in the simulator.
    pub fn run(&self, index: usize) -> Result<Row> {
        Ok(self.run_with_series(index)?.0)
    }

    /// Like [`Self::run`], and returns the full output.
    pub fn run_with_series(&self, index: usize) -> Result<(Row, Arc<Setup>, Output)> {
        let (scenario, setup) = self.setup(index)?;
        let output = bbrlab_sim::engine::run(&setup);
        Ok((Row::new(&scenario, &setup, &output.result), setup, output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn sweep() -> Sweep {
        let base = "rate = '5mbit'\nrtt = '20ms'\nduration = '500ms'\nflow = ['{cc}']\nrepeat = 2\n";
        let axes = [axis::parse("cc=bbr1,cubic").unwrap(), axis::parse("loss=0%,1%,2%").unwrap()];
        Sweep::new(toml::from_str(base).unwrap(), &axes, ("test", "")).unwrap()
    }

    #[test]
    fn a_run_is_the_same_whenever_and_alone_it_is_done() {
        let sweep = sweep();
        assert_eq!((sweep.len(), sweep.blocks()), (12, 12));
        let all: Vec<String> = (0..12).map(|index| sweep.run(index).unwrap().to_string()).collect();
        let back: Vec<String> = (0..12).rev().map(|index| sweep.run(index).unwrap().to_string()).collect();
        assert!(all.iter().eq(back.iter().rev()));
        let mut ids: Vec<&str> = all.iter().map(|row| row.split(',').next().unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 12, "each run has an id of its own");
    }

    #[test]
    fn every_run_stands_in_exactly_one_block() {
        let base = "rate = '5mbit'\nduration = '500ms'\nflow = ['bbr1']\nrepeat = 3\n";
        let axes = [axis::parse("rtt=1ms..1s:999").unwrap()];
        let sweep = Sweep::new(toml::from_str(base).unwrap(), &axes, ("test", "")).unwrap();
        let runs: Vec<usize> = (0..sweep.blocks()).flat_map(|block| sweep.block(block)).collect();
        assert!(runs.into_iter().eq(0..2997));
    }

    #[test]
    fn slips_are_named() {
        let base: toml::Table = toml::from_str("rate = '5mbit'\nflow = ['bbr1']").unwrap();
        for (axis, what) in [("rtt=1ms,long", "long"), ("seed=1,2", "seeds"), ("nothing=1,2", "nothing")] {
            let error = Sweep::new(base.clone(), &[axis::parse(axis).unwrap()], ("test", "")).unwrap_err().to_string();
            assert!(error.contains(what), "{axis}: {error}");
        }
    }
}
