//! Backends of a scenario: the simulator, a real kernel, or a QUIC stack.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;
use bbrlab_lab::{BoxError, session};
use bbrlab_live::backends;
use bbrlab_live::kernel::run::Provenance;
use bbrlab_live::kernel::{self, rights};
use bbrlab_live::uml::guest;
use bbrlab_live::uml::launch::{self, Kernels};
use bbrlab_sim::engine;
use bbrlab_sim::record::Output;
use bbrlab_sim::record::result::RunResult;
use bbrlab_sim::scenario::{Backend, Scenario, ScenarioFile};
use bbrlab_sim::setup::Setup;

use crate::Error;
use crate::scenario::trace_reader;
use bbrlab_live::clock::Stopwatch;

/// A backend, ready to run scenarios.
pub struct Runner {
    backend: Backend,
    /// Kernels of User Mode Linux; none for other backends.
    kernels: Kernels,
}

impl Runner {
    /// Opens a backend, if this machine supports it.
    pub fn of(backend: Backend) -> Result<Self, Error> {
        let mut kernels = Kernels::default();
        match backend {
            Backend::Sim => crate::start_threads()?,
            Backend::Uml => kernels = Kernels::find().map_err(Error::on(backend))?,
            Backend::Kernel => {
                // It was run again, with the required privileges.
                if let Some(status) = rights::obtain().map_err(Error::on(backend))? {
                    std::process::exit(status);
                }
            }
            Backend::Quic(_) if cfg!(feature = "quic") => crate::start_threads()?,
            Backend::Quic(_) => return Err(Error::NoQuicBackend(backend)),
        }
        Ok(Self { backend, kernels })
    }

    /// Rejects a setup that the backend cannot run; the backend itself need not be available.
    pub fn check(backend: Backend, setup: &Setup) -> Result<(), Error> {
        backends::check(backend, setup).map_err(Error::on(backend))
    }

    /// The simulator, for comparisons.
    pub fn simulator() -> Self {
        Self { backend: Backend::Sim, kernels: Kernels::default() }
    }

    /// The opened backend.
    pub const fn backend(&self) -> Backend {
        self.backend
    }
}

impl session::Runner for Runner {
    fn is_real_time(&self) -> bool {
        self.backend.info().is_real_time
    }

    fn run(&self, scenario: &Scenario, setup: &Setup, progress: &mut dyn FnMut(Time)) -> Result<Output, BoxError> {
        let watch = Stopwatch::start();
        let mut output = self.play(scenario, setup, progress)?;
        output.result.wall_s = watch.seconds();
        Ok(output)
    }
}

impl Runner {
    fn play(&self, scenario: &Scenario, setup: &Setup, progress: &mut dyn FnMut(Time)) -> Result<Output, Error> {
        match self.backend {
            Backend::Sim => Ok(engine::run_with(setup, progress)),
            Backend::Uml => {
                let job = serde_json::to_string(scenario).map_err(Error::encode("scenario"))?;
                let kernel = self.kernels.of(setup).map_err(Error::on(self.backend))?;
                Ok(launch::run(kernel, &job, setup)?.output)
            }
            Backend::Kernel => {
                let (mut output, provenance) = kernel::run::run(setup, progress)?;
                output.result.provenance =
                    Some(serde_json::to_value(&provenance).map_err(Error::encode("self-check"))?);
                Ok(output)
            }
            #[cfg(feature = "quic")]
            Backend::Quic(stack) => Ok(bbrlab_quic::backend::run(stack, setup, progress)?),
            #[cfg(not(feature = "quic"))]
            Backend::Quic(_) => unreachable!("opened only in builds with QUIC"),
        }
    }
}

/// Warning for the user of a result that the machine disturbed in every attempt.
pub fn warning(result: &RunResult) -> Option<String> {
    let provenance: Provenance = serde_json::from_value(result.provenance.clone()?).ok()?;
    let check = provenance.self_check;
    let tries = check.attempts;
    (!check.clean)
        .then(|| format!("seed {}: the machine disturbed this run, {tries} times: {}", result.seed, check.line()))
}

/// Runs the first process inside User Mode Linux.
pub fn uml_guest(directory: &str) -> ! {
    guest::main(directory, |job| {
        let sourced = ScenarioFile::from_json(job, "job")?;
        Ok(sourced.resolve(&trace_reader)?)
    })
}
