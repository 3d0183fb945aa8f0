//! Sessions: a scenario's runs on any backend, their verdicts and the result document.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod expect;

use std::sync::Arc;

use bbrlab_core::Time;
use bbrlab_sim::record::Output;
use bbrlab_sim::record::packets::Packets;
use bbrlab_sim::record::result::{Expectation, RunResult};
use bbrlab_sim::scenario::{Scenario, ScenarioFile, TraceReader};
use bbrlab_sim::setup::{Capture, Setup};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::{BoxError, Error, Result};

/// A backend that runs scenarios.
pub trait Runner: Sync {
    /// Returns true if concurrent runs would disturb each other.
    fn is_real_time(&self) -> bool;
    /// Runs one setup, the resolved form of `scenario`. `progress` is called now and then with the run's time.
    fn run(&self, scenario: &Scenario, setup: &Setup, progress: &mut dyn FnMut(Time)) -> Result<Output, BoxError>;
}

/// A scenario with all defaults resolved, and one setup for each of its seeds.
#[derive(Clone, Debug)]
pub struct Session {
    pub scenario: Scenario,
    /// Setups of the runs, in seed order.
    pub setups: Vec<Arc<Setup>>,
}

/// One finished run.
#[derive(Clone, Debug)]
pub struct Finished<T> {
    /// Metrics and verdicts.
    pub result: RunResult,
    /// Time series of the first run; those of the others are dropped after `keep` returns.
    pub output: Option<Output>,
    /// Value returned by `keep`.
    pub kept: T,
}

impl Session {
    /// Checks a scenario and resolves each of its runs; `read` returns the text of a delivery trace.
    pub fn of(sourced: &ScenarioFile, read: &TraceReader<'_>) -> Result<Self> {
        let mut one = sourced.clone();
        // Resolving the first setup also checks the number of repetitions.
        let mut setups = vec![Arc::new(one.resolve(read)?)];
        for nth in 1..sourced.scenario.repeat {
            one.scenario.seed = sourced.scenario.seed.wrapping_add(nth.into());
            setups.push(Arc::new(one.resolve(read)?));
        }
        let scenario = sourced.scenario.filled();
        expect::check(&scenario.expect)?;
        Ok(Self { scenario, setups })
    }

    /// Sets the packet capture of all runs.
    pub fn set_capture(&mut self, capture: Capture) {
        for setup in &mut self.setups {
            Arc::make_mut(setup).capture = capture;
        }
    }

    /// Executes all runs, in parallel where the backend allows it. `keep` receives each output and its run's number
    /// while the series and packets are still available; `progress` is called a few times per run.
    pub fn run<T: Send>(
        &self,
        runner: &dyn Runner,
        progress: &(dyn Fn() + Sync),
        keep: &(dyn Fn(usize, &Setup, &Output) -> Result<T, BoxError> + Sync),
    ) -> Result<Vec<Finished<T>>> {
        let one = |(index, setup): (usize, &Arc<Setup>)| {
            let own = Scenario { seed: setup.seed, repeat: 1, ..self.scenario.clone() };
            let mut output = runner.run(&own, setup, &mut |_| progress()).map_err(Error::Backend)?;
            output.result.describe(&own).map_err(|source| Error::Encode { what: "scenario", source })?;
            let (mut output, expectations) = expect::evaluate(&self.scenario.expect, setup, output)?;
            output.result.expect = expectations;
            let kept = keep(index, setup, &output).map_err(Error::Backend)?;
            let result = output.result.clone();
            output.packets = Packets::default();
            Ok(Finished { result, output: (index == 0).then_some(output), kept })
        };
        if runner.is_real_time() {
            return self.setups.iter().enumerate().map(one).collect();
        }
        self.setups.par_iter().enumerate().map(one).collect()
    }

    /// Returns the verdicts of the single run, or those on the medians of several.
    pub fn expectations<T>(&self, finished: &[Finished<T>]) -> Vec<Expectation> {
        match finished {
            [only] => only.result.expect.clone(),
            _ => expect::medians(&self.scenario.expect, finished.iter().map(|one| &one.result)),
        }
    }

    /// Builds the result document: the single run's own, or a summary of several that contains each of them.
    pub fn document<T>(&self, finished: &[Finished<T>], wall_s: f64) -> Result<Value> {
        let values = finished
            .iter()
            .map(|one| serde_json::to_value(&one.result))
            .collect::<Result<Vec<Value>, _>>()
            .map_err(|source| Error::Encode { what: "result", source })?;
        if let [only] = values.as_slice() {
            return Ok(only.clone());
        }
        let first = &finished[0].result;
        Ok(json!({
            "schema": first.schema,
            "scenario": serde_json::to_value(&self.scenario).map_err(|source| Error::Encode { what: "scenario", source })?,
            "on": first.on,
            "seed": self.scenario.seed,
            "version": first.version,
            "wall_s": wall_s,
            "summary": bbrlab_stats::summarise(&values, self.scenario.seed),
            "expect": self.expectations(finished),
            "runs": values,
        }))
    }
}
