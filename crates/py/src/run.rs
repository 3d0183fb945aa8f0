//! Runs of the simulator.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bbrlab_core::{Span, Time};
use bbrlab_lab::BoxError;
use bbrlab_lab::session::{Finished, Runner, Session};
use bbrlab_report::Provenance;
use bbrlab_sim::engine::Stepper;
use bbrlab_sim::link::Service;
use bbrlab_sim::record::Output;
use bbrlab_sim::record::packets::{Packets, Tap};
use bbrlab_sim::record::result::RunResult;
use bbrlab_sim::scenario::{Backend, Scenario, ScenarioFile};
use bbrlab_sim::setup::{Capture, Setup};
use bbrlab_study::sweep::{Metric, Row};
use pyo3::prelude::*;

use crate::external::PythonControl;
use crate::table::Table;
use crate::{error, interrupt};

/// Steps per run, between which it can be cancelled: at least this many, and more for a run of more packets than these per step.
/// Ours: such a step takes some 20 ms.
const STEPS_MIN: u64 = 1_000;
const PACKETS_STEP: f64 = 30_000.0;
/// Bits of a full packet, for the estimate of a run's size.
const PACKET_BITS: f64 = 1514.0 * 8.0;

/// The simulator, which stops on a signal or after an exception of a callback.
pub(crate) struct Simulator<'a> {
    pub steps: u64,
    pub is_interrupted: &'a AtomicBool,
    pub is_failed: &'a AtomicBool,
}

impl Runner for Simulator<'_> {
    fn is_real_time(&self) -> bool {
        false
    }

    fn run(&self, _: &Scenario, setup: &Setup, progress: &mut dyn FnMut(Time)) -> Result<Output, BoxError> {
        let mut stepper = Stepper::ahead(setup);
        let step = Span::nanos((setup.duration.as_nanos() / self.steps).max(1));
        while !stepper.is_over() {
            if self.is_interrupted.load(Ordering::Relaxed) || self.is_failed.load(Ordering::Relaxed) {
                return Err("the run was cancelled".into());
            }
            stepper.step_until(stepper.now() + step);
            progress(stepper.now());
        }
        Ok(stepper.finish())
    }
}

/// A finished run, or several with successive seeds.
#[pyclass(frozen, module = "bbrlab")]
pub struct Run {
    session: Session,
    finished: Vec<Finished<Packets>>,
    document: String,
}

fn read(json: &str) -> PyResult<Session> {
    let file = ScenarioFile::from_json(json, "").map_err(|fault| error::sim(&fault))?;
    if file.scenario.filled().on != Backend::Sim {
        return Err(error::scenario("on", "only sim runs in Python; use the command for other backends"));
    }
    let trace = |path: &str| fs::read_to_string(path).map_err(|fault| format!("{path:?}: {fault}").into());
    Session::of(&file, &trace).map_err(|fault| error::lab(&fault))
}

/// Packets that the links of all runs can carry.
fn packets(session: &Session) -> f64 {
    let rate = |setup: &Arc<Setup>| {
        let links = setup.links.iter().map(|link| match &link.service {
            Service::Rate(rate) => rate.as_bits_per_sec() as f64,
            Service::Trace(trace) => trace.mean_rate().as_bits_per_sec() as f64,
            Service::Demand(demand) => demand.max.as_bits_per_sec() as f64,
        });
        links.fold(0.0, f64::max) * setup.duration.as_nanos() as f64 / 1e9 / PACKET_BITS
    };
    session.setups.iter().map(rate).sum()
}

/// Checks a scenario in JSON. Returns it with every default filled in.
#[pyfunction]
pub fn check(json: &str) -> PyResult<String> {
    let session = read(json)?;
    serde_json::to_string(&session.scenario).map_err(|fault| error::internal(&fault.to_string()))
}

/// Runs a scenario in JSON. `external` are (index of a flow, Python algorithm); `record_packets` is a limit, 0 for none.
/// `progress` is called with the share that is done.
#[pyfunction]
#[pyo3(signature = (json, external, record_packets, packets_max, progress))]
pub fn run(
    py: Python<'_>,
    json: &str,
    external: Vec<(usize, Py<PyAny>)>,
    record_packets: usize,
    packets_max: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Run> {
    let mut session = read(json)?;
    let planned = packets(&session);
    if planned > packets_max {
        let line = format!(
            "the run carries up to {:.0} million packets, about {:.0} s of CPU; shorten it, or pass packets_max",
            planned / 1e6,
            planned * 6e-7
        );
        return Err(error::scenario("duration", &line));
    }
    if record_packets > 0 {
        session.set_capture(Capture::On { limit: record_packets, taps: &Tap::ALL });
    }
    let is_failed = Arc::new(AtomicBool::new(false));
    let controls = PythonControl::attach(py, &mut session, external, &is_failed)?;
    let raised = Mutex::new(None);
    let done = AtomicUsize::new(0);
    let runs = session.setups.len();
    let steps = STEPS_MIN.max((planned / runs as f64 / PACKETS_STEP) as u64);
    let total = runs.saturating_mul(usize::try_from(steps).unwrap_or(usize::MAX));
    let tick = || {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(progress) = progress.as_ref().filter(|_| done.is_multiple_of(total / 100))
            && let Err(fault) = Python::attach(|py| progress.call1(py, (done as f64 / total as f64,)))
        {
            raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
            is_failed.store(true, Ordering::Relaxed);
        }
    };
    let keep = |_: usize, _: &Setup, output: &Output| Ok(output.packets.clone());
    let finished = interrupt::run(py, |is_interrupted| {
        session.run(&Simulator { steps, is_interrupted, is_failed: &is_failed }, &tick, &keep)
    })?;
    let raised = raised.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(raised) = raised.or_else(|| controls.iter().find_map(PythonControl::take_error)) {
        return Err(raised);
    }
    let finished = finished.map_err(|fault| error::lab(&fault))?;
    let document = session.document(&finished, 0.0).map_err(|fault| error::lab(&fault))?;
    let document = serde_json::to_string_pretty(&document).map_err(|fault| error::internal(&fault.to_string()))?;
    Ok(Run { session, finished, document })
}

impl Run {
    fn first(&self) -> PyResult<(&Output, &Setup)> {
        let output = self.finished.first().and_then(|one| one.output.as_ref());
        output
            .zip(self.session.setups.first().map(AsRef::as_ref))
            .ok_or_else(|| error::internal("a run without an output"))
    }
}

#[pymethods]
impl Run {
    /// The result document of the command, as JSON.
    #[getter]
    fn document(&self) -> &str {
        &self.document
    }

    /// The figures of the first run that a row of `bbrlab sweep` has, by their names there; None where it has none.
    fn figures(&self) -> PyResult<Vec<(&'static str, Option<f64>)>> {
        let (_, setup) = self.first()?;
        let row = Row::new(&self.session.scenario, setup, &self.finished[0].result);
        Ok(Metric::ALL.iter().map(|one| (one.name(), Some(row.get(*one)).filter(|value| value.is_finite()))).collect())
    }

    /// Series of the flows of the first run.
    fn trace(&self) -> PyResult<Table> {
        let (output, setup) = self.first()?;
        Table::of_flows(&output.trace, setup)
    }

    /// Series of its links.
    fn links(&self) -> PyResult<Table> {
        Table::of_links(&self.first()?.0.trace)
    }

    /// Its packets, if they were recorded.
    fn packets(&self) -> PyResult<Table> {
        let none = Packets::default();
        Table::of_packets(self.finished.first().map_or(&none, |one| &one.kept))
    }

    /// The report of the command, as one HTML page.
    fn html(&self, command: &str) -> PyResult<String> {
        let (output, setup) = self.first()?;
        let provenance = Provenance {
            command: command.to_owned(),
            facts: vec![("version".to_owned(), format!("bbrlab {}", env!("CARGO_PKG_VERSION")))],
        };
        let page = if self.finished.len() == 1 {
            bbrlab_report::for_run(&output.result, &output.trace, Some(setup), provenance)
        } else {
            let results: Vec<&RunResult> = self.finished.iter().map(|one| &one.result).collect();
            let document: serde_json::Value =
                serde_json::from_str(&self.document).map_err(|fault| error::internal(&fault.to_string()))?;
            let expectations = self.session.expectations(&self.finished);
            bbrlab_report::for_runs(
                &results,
                &document["summary"],
                &expectations,
                (&output.trace, Some(setup)),
                provenance,
            )
        };
        Ok(bbrlab_report::render(&page))
    }
}
