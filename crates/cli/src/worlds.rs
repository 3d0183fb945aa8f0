//! Backends of a scenario: the simulator, a real kernel, or a QUIC stack.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::PathBuf;

use bbrlab_core::Time;
use bbrlab_lab::session;
use bbrlab_live::kernel::run::Provenance;
use bbrlab_live::kernel::{self, rights};
use bbrlab_live::uml::{guest, launch};
use bbrlab_live::worlds;
use bbrlab_sim::engine;
use bbrlab_sim::record::Output;
use bbrlab_sim::record::packets::Tap;
use bbrlab_sim::record::result::RunResult;
use bbrlab_sim::scenario::{On, Scenario, Sourced};
use bbrlab_sim::setup::Setup;
#[cfg(feature = "quic")]
use bbrlab_sim::setup::Stack;

use crate::Failure;
use crate::clock::Watch;
use crate::scenario::trace_reader;

/// A backend that can run scenarios in this build.
pub enum World {
    /// Virtual time, simulated sender.
    Sim,
    /// Virtual time, a real Linux kernel.
    Uml(PathBuf),
    /// Real time, this host's kernel.
    Kernel,
    /// Virtual time, a QUIC stack.
    #[cfg(feature = "quic")]
    Quic(Stack),
}

impl World {
    /// Opens the backend that a scenario names, if this machine supports it.
    pub fn of(on: On) -> Result<Self, Failure> {
        match on {
            On::Sim => crate::start_threads().map(|()| Self::Sim),
            On::Uml => launch::kernel().map(Self::Uml).map_err(|what| format!("--on uml: {what}")),
            On::Kernel => match rights::obtain().map_err(|what| format!("--on kernel: {what}"))? {
                None => Ok(Self::Kernel),
                // It was run again, with the required privileges.
                Some(status) => std::process::exit(status),
            },
            On::S2n | On::Noq => Self::quic(on),
        }
    }

    #[cfg(feature = "quic")]
    fn quic(on: On) -> Result<Self, Failure> {
        let stack = on.stack().ok_or_else(|| format!("--on {}: it is no QUIC stack", on.name()))?;
        crate::start_threads().map(|()| Self::Quic(stack))
    }

    #[cfg(not(feature = "quic"))]
    fn quic(on: On) -> Result<Self, Failure> {
        Err(format!("--on {}: this build has no QUIC; build with the feature quic, or write --on sim", on.name()))
    }

    /// Rejects a setup that the backend cannot run; the backend itself need not be available.
    pub fn check(on: On, setup: &Setup) -> Result<(), Failure> {
        let world = match on {
            On::Sim => worlds::World::Sim,
            On::Uml => worlds::World::Uml,
            On::Kernel => worlds::World::Kernel,
            On::S2n => worlds::World::S2n,
            On::Noq => worlds::World::Noq,
        };
        worlds::check(world, setup).map_err(|what| format!("--on {}: {what}", world.name()))
    }

    /// Capture points for packets.
    pub const fn taps(&self) -> &'static [Tap] {
        match self {
            Self::Sim => &Tap::ALL,
            Self::Uml(_) | Self::Kernel => &[Tap::Sender],
            #[cfg(feature = "quic")]
            Self::Quic(_) => &[Tap::Sender],
        }
    }

    /// True if packets are recorded for a qlog too: recording does not delay the run.
    pub const fn logs_packets(&self) -> bool {
        matches!(self, Self::Sim)
    }
}

impl session::World for World {
    fn is_real_time(&self) -> bool {
        matches!(self, Self::Kernel)
    }

    fn run(&self, scenario: &Scenario, setup: &Setup, progress: &mut dyn FnMut(Time)) -> Result<Output, Failure> {
        let watch = Watch::start();
        let mut output = self.play(scenario, setup, progress)?;
        output.result.wall_s = watch.seconds();
        Ok(output)
    }
}

impl World {
    fn play(&self, scenario: &Scenario, setup: &Setup, progress: &mut dyn FnMut(Time)) -> Result<Output, Failure> {
        match self {
            Self::Sim => Ok(engine::run_with(setup, progress)),
            Self::Uml(kernel) => {
                let job = serde_json::to_string(scenario).map_err(|error| format!("scenario: {error}"))?;
                launch::run(kernel, &job, setup).map(|ran| ran.output)
            }
            #[cfg(feature = "quic")]
            Self::Quic(stack) => bbrlab_quic::world::run(*stack, setup, progress),
            Self::Kernel => {
                let (mut output, provenance) = kernel::run::run(setup, progress)?;
                output.result.world =
                    Some(serde_json::to_value(&provenance).map_err(|error| format!("self-check: {error}"))?);
                Ok(output)
            }
        }
    }
}

/// Warning for the user of a result that the machine disturbed in every attempt.
pub fn warning(result: &RunResult) -> Option<String> {
    let provenance: Provenance = serde_json::from_value(result.world.clone()?).ok()?;
    let check = provenance.self_check;
    let tries = check.attempts;
    (!check.clean)
        .then(|| format!("seed {}: the machine disturbed this run, {tries} times: {}", result.seed, check.line()))
}

/// Runs the first process inside User Mode Linux.
pub fn uml_guest(directory: &str) -> ! {
    guest::main(directory, |job| {
        let sourced = Sourced::from_json(job, "job")?;
        sourced.resolve(&trace_reader)
    })
}
