//! The oracle: the kernel's own BBR and CUBIC, or our algorithms in it, recorded call by call while they carry a scenario's flows.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! The tap is two congestion controls in BPF (`bpf/tap.bpf.c`) under names of this process alone. The flows run as in
//! the world `kernel`, but by these names. All of it hangs on file descriptors of this process, so that it is gone when the process is, however it ends.

#[cfg(feature = "host")]
mod calls;
#[cfg(tap)]
mod record;
#[cfg(tap)]
mod tap;

use bbrlab_sim::setup::Setup;

use crate::kernel::ours::kernels_own;

/// What a recording brought.
#[derive(Clone, Debug)]
pub struct Recording {
    pub log: Vec<u8>,
    pub records: u64,
    /// Calls that the ring had no room for.
    pub lost: u64,
    /// Bytes that each flow's receiver got.
    pub received: Vec<u64>,
}

/// How much the ring holds before records are lost, bytes. Ours: a quarter of a second at a million calls a second.
#[cfg(any(tap, feature = "host"))]
const RING_BYTES: u32 = 1 << 27;

/// Carries the scenario's flows over the kernel's own algorithms, or over ours, each call of them recorded. `situation` is its name in
/// the log.
pub fn record(setup: &Setup, situation: &str) -> Result<Recording, String> {
    let ours = setup.flows.iter().filter(|flow| kernels_own(flow).is_none()).count();
    if ours == 0 {
        return record_kernels_own(setup, situation);
    }
    if let Some(flow) = setup.flows.iter().find(|flow| kernels_own(flow).is_some()) {
        return Err(format!(
            "flow {}: it is the kernel's own and others are ours, and a log is of one or the other; add program=bbrlab",
            flow.name
        ));
    }
    record_ours(setup, situation)
}

#[cfg(tap)]
fn record_kernels_own(setup: &Setup, situation: &str) -> Result<Recording, String> {
    record::record(setup, situation, RING_BYTES)
}

/// Says what this build lacks for a recording.
#[cfg(not(tap))]
fn record_kernels_own(_setup: &Setup, _situation: &str) -> Result<Recording, String> {
    Err("this build has no BPF tap; install clang and libelf's headers (on Debian: apt-get install clang libelf-dev \
         zlib1g-dev make pkg-config) and build with `cargo build --release -p bbrlab --features bpf`"
        .to_owned())
}

#[cfg(feature = "host")]
fn record_ours(setup: &Setup, situation: &str) -> Result<Recording, String> {
    calls::record(setup, situation, RING_BYTES)
}

#[cfg(not(feature = "host"))]
fn record_ours(_setup: &Setup, _situation: &str) -> Result<Recording, String> {
    Err("this build cannot load our kernel programs; build with --features host".to_owned())
}

/// The kernel that is recorded.
#[cfg(any(tap, feature = "host"))]
fn running_kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {} {}", release.trim(), std::env::consts::ARCH)
}
