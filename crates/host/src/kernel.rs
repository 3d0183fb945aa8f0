//! Congestion control settings of this kernel and network namespace. Read-only except for [`set_default`].
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::path::Path;

use bbrlab_core::{AlgorithmConfig, params::MAX_PARAMS};
use nix::time::{ClockId, clock_getres};

use crate::{Error, Result};

const SYSCTLS: &str = "/proc/sys/net/ipv4";
/// Linux's usual tick, used if the clock's resolution cannot be read.
const TICK_NS: u64 = 4_000_000;

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).map_err(Error::file(path))
}

/// The congestion control of new connections in this network namespace.
pub fn default() -> Result<String> {
    read(&Path::new(SYSCTLS).join("tcp_congestion_control"))
}

/// Sets the congestion control of new connections in this network namespace.
pub fn set_default(name: &str) -> Result<()> {
    let path = Path::new(SYSCTLS).join("tcp_congestion_control");
    fs::write(&path, name).map_err(Error::file(&path))
}

/// Lists every registered congestion control.
pub fn available() -> Result<Vec<String>> {
    let text = read(&Path::new(SYSCTLS).join("tcp_available_congestion_control"))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// The queueing discipline of new devices; `fq` paces, with others TCP paces by itself.
pub fn default_qdisc() -> Option<String> {
    read(Path::new("/proc/sys/net/core/default_qdisc")).ok()
}

/// The kernel's release.
pub fn release() -> String {
    read(Path::new("/proc/sys/kernel/osrelease")).unwrap_or_else(|_| "unknown".to_owned())
}

/// Tick of the kernel's clock in nanoseconds: the resolution of its coarse clocks.
pub fn tick_ns() -> u64 {
    match clock_getres(ClockId::CLOCK_MONOTONIC_COARSE) {
        Ok(span) => u64::try_from(span.tv_nsec()).unwrap_or(TICK_NS).max(1),
        Err(_) => TICK_NS,
    }
}

/// Encodes the parameters for the kernel's program, with this kernel's tick rate.
pub fn parameters(config: &AlgorithmConfig, tick_ns: u64) -> [u32; MAX_PARAMS] {
    let mut values = config.values();
    // Algorithms that count no ticks have 0, and keep it.
    if let Some(place) = config.parameters().position(|(spec, value)| spec.name == "hz" && value != 0) {
        values[place] = (1_000_000_000 / tick_ns.max(1)) as u32;
    }
    values
}

/// Parameters that differ from the defaults, in the user's notation.
pub fn changed(config: &AlgorithmConfig) -> Vec<(String, String)> {
    let plain = AlgorithmConfig::named(config.name()).unwrap_or(*config);
    let both = config.parameters().zip(plain.parameters());
    both.filter(|((_, now), (_, then))| now != then)
        .map(|((spec, now), _)| (spec.name.to_owned(), spec.unit.text(now).to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tick_rate_stands_among_the_parameters_of_what_counts_ticks() {
        let config = AlgorithmConfig::named("bbr1").unwrap();
        let place = config.parameters().position(|(spec, _)| spec.name == "hz").unwrap();
        assert_eq!(parameters(&config, 1_000_000)[place], 1_000);
        assert_eq!(parameters(&config, 10_000_000)[place], 100);
        let exact = AlgorithmConfig::named("bbr3").unwrap();
        assert_eq!(parameters(&exact, 1_000_000), exact.values());
    }

    #[test]
    fn only_what_was_changed_is_named() {
        let mut config = AlgorithmConfig::named("bbr3-linux").unwrap();
        assert!(changed(&config).is_empty());
        config.set("probe_rtt_interval", "10s").unwrap();
        assert_eq!(changed(&config), [("probe_rtt_interval".to_owned(), "10s".to_owned())]);
    }
}
