//! The oracle: the kernel's own BBR and CUBIC, recorded call by call while they carry a scenario's flows.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! The tap is two congestion controls in BPF (`bpf/tap.bpf.c`) under names of this process alone. The flows run as in
//! the world `kernel`, but by these names. All of it hangs on file descriptors of this process, so that it is gone when the process is, however it ends.

#[cfg(tap)]
mod record;
#[cfg(tap)]
mod tap;

use bbrlab_sim::setup::Setup;

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
#[cfg(tap)]
const RING_BYTES: u32 = 1 << 27;

/// Carries the scenario's flows over the tapped kernel. `situation` is its name in the log.
#[cfg(tap)]
pub fn record(setup: &Setup, situation: &str) -> Result<Recording, String> {
    record::record(setup, situation, RING_BYTES)
}

/// Says what this build lacks for a recording.
#[cfg(not(tap))]
pub fn record(_setup: &Setup, _situation: &str) -> Result<Recording, String> {
    Err("this build has no BPF tap; install clang and libelf's headers (on Debian: apt-get install clang libelf-dev \
         zlib1g-dev make pkg-config) and build with `cargo build --release -p bbrlab --features bpf`"
        .to_owned())
}
