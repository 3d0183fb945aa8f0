//! The oracle: records the kernel's BBR and CUBIC, or our algorithms in it, call by call.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! The tap is a set of BPF programs at the entry and the exit of the kernel's own functions (`bpf/tap.bpf.c`), which record
//! the connections of one network namespace. If the kernel refuses such programs, two congestion controls in BPF take their
//! place (`bpf/tap_ops.bpf.c`). The flows run as in the backend `kernel`. Everything is held by file descriptors of this
//! process, so it is gone when the process ends, however it ends.

#[cfg(feature = "host")]
mod calls;
#[cfg(tap)]
mod record;
#[cfg(tap)]
mod tap;

use bbrlab_sim::setup::Setup;

use crate::{Error, Result};

/// Result of a recording.
#[derive(Clone, Debug)]
pub struct Recording {
    pub log: Vec<u8>,
    pub records: u64,
    /// Calls lost because the ring was full.
    pub lost: u64,
    /// Bytes received per flow.
    pub received: Vec<u64>,
}

/// Size of the ring, bytes. Ours: a quarter of a second at a million calls a second.
#[cfg(any(tap, feature = "host"))]
const RING_BYTES: u32 = 1 << 27;

/// Runs the scenario's flows with the kernel's own algorithms, or with ours, and records each call.
///
/// `situation` is the name of the scenario in the log.
pub fn record(setup: &Setup, situation: &str) -> Result<Recording> {
    let ours = setup.flows.iter().filter(|flow| flow.kernels_own().is_none()).count();
    if ours == 0 {
        return record_kernels_own(setup, situation);
    }
    if let Some(flow) = setup.flows.iter().find(|flow| flow.kernels_own().is_some()) {
        return Err(Error::MixedRecording(flow.name.clone()));
    }
    record_ours(setup, situation)
}

#[cfg(tap)]
fn record_kernels_own(setup: &Setup, situation: &str) -> Result<Recording> {
    record::record(setup, situation, RING_BYTES)
}

/// Reports the feature that this build lacks for a recording.
#[cfg(not(tap))]
fn record_kernels_own(_setup: &Setup, _situation: &str) -> Result<Recording> {
    Err(Error::NoTap)
}

#[cfg(feature = "host")]
fn record_ours(setup: &Setup, situation: &str) -> Result<Recording> {
    calls::record(setup, situation, RING_BYTES)
}

#[cfg(not(feature = "host"))]
fn record_ours(_setup: &Setup, _situation: &str) -> Result<Recording> {
    Err(Error::NoLoader)
}

/// Release of the recorded kernel.
#[cfg(any(tap, feature = "host"))]
fn running_kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {} {}", release.trim(), std::env::consts::ARCH)
}
