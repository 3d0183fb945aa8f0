//! The compiled algorithms: one object each, built by `bpf/cc`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{ALGORITHMS, AlgorithmConfig};

use crate::{Error, Result};

macro_rules! objects {
    ($($name:literal $file:literal)+) => {
        /// Algorithms with a kernel program, by their names in core, each with its object.
        pub const OBJECTS: &[(&str, &[u8])] = &[
            $( ($name, include_bytes!(concat!("../../../bpf/cc/objects/", $file, ".bpf.o"))), )+
        ];
    };
}

objects! {
    "bbr1" "bbr1"
    "bbr2" "bbr2"
    "bbr3" "bbr3"
    "bbr3-linux" "bbr3_linux"
    "bbr-lab" "bbr_lab"
    "bbr-cpa" "cpa"
    "acd-linux" "acd"
    "bbr-s" "bbrs"
    "davis" "davis"
    "cubic" "cubic"
    "reno" "reno"
    "dctcp" "dctcp"
    "prague" "prague"
}

/// The kernel's own BBR behind the same hooks, as a reference for measurements.
#[cfg(feature = "load")]
pub(crate) static KERNEL_BBR: &[u8] = include_bytes!("../../../bpf/cc/objects/kernel_bbr.bpf.o");

/// Program that moves sockets from one congestion control to another.
#[cfg(feature = "load")]
pub(crate) static SWITCH: &[u8] = include_bytes!("../../../bpf/cc/objects/switch.bpf.o");

/// Program of a policy.
#[cfg(feature = "load")]
pub(crate) static POLICY: &[u8] = include_bytes!("../../../bpf/cc/objects/policy.bpf.o");

/// Program of an A/B test.
#[cfg(all(feature = "ab", feature = "load"))]
pub(crate) static AB: &[u8] = include_bytes!("../../../bpf/cc/objects/ab.bpf.o");

/// The object of an algorithm.
pub fn object(algorithm: &str) -> Option<&'static [u8]> {
    OBJECTS.iter().find(|(name, _)| *name == algorithm).map(|(_, bytes)| *bytes)
}

/// Parses an algorithm that has a kernel program, with its parameters, as in `bbr3,startup_cwnd_gain=2`.
pub fn parse(text: &str) -> Result<AlgorithmConfig> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    let config = AlgorithmConfig::named(name).filter(|config| object(config.name()).is_some());
    let mut config = config.ok_or_else(|| Error::NoProgram(name.to_owned()))?;
    for part in parts {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| Error::NotAParameter { algorithm: name.to_owned(), part: part.to_owned() })?;
        if key == "hz" {
            return Err(Error::KernelsOwn("hz"));
        }
        config.set(key, value).map_err(|source| Error::Parameter {
            algorithm: name.to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
            source,
        })?;
    }
    Ok(config)
}

/// Returns true for the name of one of Linux's own congestion controls that we have too.
pub fn is_kernels_own(name: &str) -> bool {
    ALGORITHMS.iter().any(|info| info.linux_name == Some(name))
}

/// Converts an algorithm's name to one that the kernel accepts.
pub fn kernel_name(algorithm: &str) -> String {
    if is_kernels_own(algorithm) { format!("bbrlab_{algorithm}") } else { algorithm.replace('-', "_") }
}
