//! An algorithm in the kernel: its object opened with its parameters, verified, and registered under a name.
//! What is not pinned ends with the process.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;
use std::path::Path;

use bbrlab_core::AlgorithmConfig;
use libbpf_rs::{Link, MapCore as _, MapMut, Object, ObjectBuilder, OpenObject, ProgramInput};
use nix::time::{ClockId, clock_getres, clock_gettime};

use crate::objects::object;

/// Longest name of a congestion control, with its final zero. Source: Linux `TCP_CA_NAME_MAX`.
pub const NAME_MAX: usize = 16;
/// The programs and maps by their names in `bpf/cc`.
const TRIAL: &str = "trial_event";
const SETTINGS: &str = ".rodata.settings";

/// Why the kernel does not run an algorithm of ours: one line.
pub type Fault = String;

/// An algorithm whose programs the kernel has verified.
#[derive(Debug)]
pub struct Loaded {
    object: Object,
}

/// Nanoseconds of a tick of the kernel's clock, which its coarse clocks show.
pub fn tick_ns() -> u64 {
    let _ = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE);
    match clock_getres(ClockId::CLOCK_MONOTONIC_COARSE) {
        Ok(span) => span.tv_nsec() as u64,
        Err(_) => 4_000_000,
    }
}

/// The parameters as the kernel's program reads them: the algorithm's, with this kernel's own clock.
pub fn values(config: &AlgorithmConfig, tick_ns: u64) -> [u32; bbrlab_core::MAX_PARAMS] {
    let mut values = config.values();
    let hz = config.parameters().position(|(spec, value)| spec.name == "hz" && value != 0);
    if let Some(place) = hz {
        values[place] = (1_000_000_000 / tick_ns.max(1)) as u32;
    }
    values
}

impl Loaded {
    /// Has the kernel verify an algorithm's programs; `name` is what it will be registered by.
    pub fn new(config: &AlgorithmConfig, name: &str, with_trial: bool) -> Result<Self, Fault> {
        if std::env::var_os("BBRLAB_LIBBPF").is_some() {
            libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Info, |_, m| eprint!("{m}"))));
        } else {
            libbpf_rs::set_print(None);
        }
        let bytes = object(config.name()).ok_or_else(|| format!("{}: no kernel program of it", config.name()))?;
        let mut open = ObjectBuilder::default().open_memory(bytes).map_err(|error| format!("object: {error}"))?;
        prepare(&mut open, config, name, with_trial)?;
        let object = open.load().map_err(|error| format!("{error}"))?;
        Ok(Self { object })
    }

    /// The kernel object.
    pub fn object(&self) -> &Object {
        &self.object
    }
}

fn prepare(open: &mut OpenObject, config: &AlgorithmConfig, name: &str, with_trial: bool) -> Result<(), Fault> {
    for mut program in open.progs_mut() {
        if program.name() == TRIAL {
            program.set_autoload(with_trial);
        }
    }
    for mut map in open.maps_mut() {
        let label = map.name().to_string_lossy().into_owned();
        if label == "trial_flow" {
            map.set_autocreate(with_trial).map_err(|error| format!("{error}"))?;
        }
        if label.ends_with(SETTINGS) {
            let place = map.initial_value_mut().ok_or("no settings")?;
            let tick = tick_ns();
            for (to, from) in place.chunks_exact_mut(4).zip(values(config, tick)) {
                to.copy_from_slice(&from.to_ne_bytes());
            }
            place[256..264].copy_from_slice(&tick.to_ne_bytes());
        }
        if label == "cc" {
            let place = map.initial_value_mut().ok_or("no algorithm")?;
            place[..NAME_MAX].fill(0);
            for (to, from) in place[..NAME_MAX - 1].iter_mut().zip(name.bytes()) {
                *to = from;
            }
        }
    }
    Ok(())
}
