//! Published claims and the draft's test cases.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bbrlab_core::Time;
use bbrlab_lab::BoxError;
use bbrlab_lab::conform::{self as draft, Subject};
use bbrlab_lab::experiment::{self, Experiment};
use bbrlab_lab::score as scorecards;
use bbrlab_lab::session::Runner;
use bbrlab_sim::record::Output;
use bbrlab_sim::scenario::{FlowSpec, Scenario};
use bbrlab_sim::setup::Setup;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::external::{FIXED, PythonControl};
use crate::run::Simulator;
use crate::{error, interrupt};

/// Steps per run of a scorecard, between which it can be cancelled. Ours: such a step takes some milliseconds.
const SCORE_STEPS: u64 = 200;

/// Names of the published claims.
#[pyfunction]
pub fn claims() -> Vec<String> {
    experiment::embedded().into_iter().map(|one| one.id).collect()
}

/// Numbers of the draft's test cases.
#[pyfunction]
pub fn case_numbers() -> Vec<u64> {
    draft::cases().iter().map(|case| u64::from(case.number)).collect()
}

/// Runs claims, all without names. Returns the document of `bbrlab reproduce --json`.
#[pyfunction]
pub fn reproduce(py: Python<'_>, ids: Vec<String>, seed: u64) -> PyResult<String> {
    let all = experiment::embedded();
    if let Some(unknown) = ids.iter().find(|id| all.iter().all(|one| one.id != **id)) {
        let known: Vec<&str> = all.iter().map(|one| one.id.as_str()).collect();
        return Err(error::scenario("claim", &format!("no claim {unknown:?}; there are {}", known.join(", "))));
    }
    let chosen: Vec<Experiment> = all.into_iter().filter(|one| ids.is_empty() || ids.contains(&one.id)).collect();
    let outcomes = interrupt::run(py, |is_interrupted| {
        let runner = |scenario: &Scenario, setup: &Setup| {
            if is_interrupted.load(Ordering::Relaxed) {
                return Err(experiment::RunError::Failed("cancelled".into()));
            }
            experiment::simulator(scenario, setup)
        };
        experiment::run_all(&chosen, seed, &runner, &|_, _| ())
    })?;
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>().map_err(|fault| error::lab(&fault))?;
    Ok(format!("{:#}", experiment::json(&outcomes, seed)))
}

/// Runs the draft's test cases, all without numbers, with these algorithms over the grid of cells, or over the named ones. Returns
/// the document of `bbrlab conform --json`.
#[pyfunction]
pub fn conform(py: Python<'_>, algorithms: Vec<String>, numbers: Vec<u32>, cells: Vec<String>) -> PyResult<String> {
    for algorithm in &algorithms {
        FlowSpec::of(algorithm).map_err(|fault| error::scenario("algorithm", &fault.to_string()))?;
    }
    let cells = match cells.as_slice() {
        [] => draft::grid(),
        named => {
            let read = |text: &String| text.parse::<draft::Cell>();
            named
                .iter()
                .map(read)
                .collect::<Result<_, _>>()
                .map_err(|fault| error::scenario("cell", &fault.to_string()))?
        }
    };
    let mut cases = draft::cases();
    if let Some(unknown) =
        numbers.iter().find(|number| cases.iter().all(|case| u64::from(case.number) != u64::from(**number)))
    {
        return Err(error::scenario("case", &format!("no case {unknown}; there are 1 to {}", cases.len())));
    }
    cases
        .retain(|case| numbers.is_empty() || numbers.iter().any(|number| u64::from(*number) == u64::from(case.number)));
    let subjects: Vec<Subject> = algorithms.iter().map(|name| Subject::simulated(name, cells.clone())).collect();
    let outcomes = interrupt::run(py, |is_interrupted: &AtomicBool| {
        let one = |case| {
            if is_interrupted.load(Ordering::Relaxed) {
                return None;
            }
            Some(draft::run_all(std::slice::from_ref(case), &subjects, None, &|| ()))
        };
        cases.iter().map(one).collect::<Option<Vec<_>>>()
    })?;
    let outcomes = outcomes.ok_or_else(|| PyKeyboardInterrupt::new_err(()))?;
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>().map_err(|fault| error::lab(&fault))?;
    let mut all: Vec<_> = outcomes.into_iter().flatten().collect();
    all.sort_by_key(|one| algorithms.iter().position(|name| *name == one.algorithm));
    Ok(format!("{:#}", draft::json(&all)))
}

/// The simulator, with objects of a class in place of the algorithm `fixed`.
struct WithClass<'a> {
    simulator: Simulator<'a>,
    class: Option<Py<PyAny>>,
    is_failed: &'a Arc<AtomicBool>,
    /// First exception of the class.
    raised: Mutex<Option<PyErr>>,
}

impl WithClass<'_> {
    fn keep(&self, fault: PyErr) {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
        self.is_failed.store(true, Ordering::Relaxed);
    }
}

impl Runner for WithClass<'_> {
    fn is_real_time(&self) -> bool {
        false
    }

    fn run(&self, scenario: &Scenario, setup: &Setup, progress: &mut dyn FnMut(Time)) -> Result<Output, BoxError> {
        let Some(class) = &self.class else { return self.simulator.run(scenario, setup, progress) };
        let mut setup = setup.clone();
        let handles = Python::attach(|py| PythonControl::replace_fixed(py, &mut setup, class, self.is_failed))
            .map_err(|fault| {
                let line = fault.to_string();
                self.keep(fault);
                line
            })?;
        let output = self.simulator.run(scenario, &setup, progress);
        if let Some(fault) = handles.iter().find_map(PythonControl::take_error) {
            self.keep(fault);
        }
        output
    }
}

/// Runs a scorecard, of all criteria without sections, beside the usual references without any. `class` stands for the algorithm
/// `fixed`, and gets its own name. Returns the document of `bbrlab score --json`.
#[pyfunction]
#[pyo3(signature = (algorithms, references, card, sections, set, repeat, class))]
#[expect(clippy::too_many_arguments, reason = "they are the arguments of the function in Python")]
pub fn score(
    py: Python<'_>,
    algorithms: Vec<String>,
    references: Vec<String>,
    card: &str,
    sections: Vec<String>,
    set: u64,
    repeat: u32,
    class: Option<(String, Py<PyAny>)>,
) -> PyResult<String> {
    let plan = scorecards::Plan::of(card, &sections, &algorithms, &references, set, repeat.max(1))
        .map_err(|fault| error::scenario("score", &fault.to_string()))?;
    let is_failed = Arc::new(AtomicBool::new(false));
    let (name, class) = class.unzip();
    let raised = Mutex::new(None);
    let found = interrupt::run(py, |is_interrupted: &AtomicBool| {
        let simulator = Simulator { steps: SCORE_STEPS, is_interrupted, is_failed: &is_failed };
        let runner = WithClass { simulator, class, is_failed: &is_failed, raised };
        let found = scorecards::run(plan, &runner, &|_| None, &|| ());
        (found, runner.raised)
    })?;
    let (found, raised) = found;
    if let Some(fault) = raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(fault);
    }
    let mut found = found.map_err(|fault| error::lab(&fault))?;
    if let Some(name) = name {
        let all = found.plan.subjects.iter_mut().chain(&mut found.plan.references);
        all.filter(|one| *one == FIXED).for_each(|one| one.clone_from(&name));
    }
    Ok(format!("{:#}", scorecards::json(&found)))
}
