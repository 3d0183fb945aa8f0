//! The tap as programs at the entry and the exit of the kernel's functions. The flows use the kernel's own algorithms.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use libbpf_rs::OpenObject;
use libbpf_rs::btf::{Btf, types::Struct};

use super::{Loaded, TapConfig, Tapped, fault, open, refused, set_ring};
use crate::{Error, Result};

/// The programs, compiled by the build script.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tap.bpf.o"));
/// The hook for the start of sending, from Linux 7.1 on; before, it is an event of `cwnd_event`.
const TX_START: &str = "cwnd_event_tx_start";
/// Error for a kernel whose types lack TCP's.
const NO_HOOKS: &str =
    "the kernel's types have no tcp_congestion_ops; use one with CONFIG_INET and CONFIG_DEBUG_INFO_BTF";

/// Loads the programs of these algorithms, and attaches them.
pub fn load(config: TapConfig<'_>) -> Result<Loaded> {
    let mut unloaded = open(OBJECT)?;
    prepare(&mut unloaded, config)?;
    let object = unloaded.load().map_err(refused)?;
    let links = object.progs_mut().filter(|program| program.autoload());
    let links = links.map(|program| program.attach_trace()).collect::<Result<_, _>>().map_err(refused)?;
    Ok(Loaded { _links: links, object })
}

/// Sets sizes and the network, and selects the programs, before loading.
fn prepare(unloaded: &mut OpenObject, config: TapConfig<'_>) -> Result<()> {
    set_ring(unloaded, config.ring_bytes)?;
    for mut map in unloaded.maps_mut() {
        if map.name() == "connections" {
            map.set_max_entries(config.connections.max(1)).map_err(fault("the tap's table of connections"))?;
        } else if map.name() == ".rodata.settings" {
            let value = map.initial_value_mut().and_then(|value| value.get_mut(..size_of::<u32>()));
            value.ok_or(Error::NoPart("the tap has no settings"))?.copy_from_slice(&config.network.to_ne_bytes());
        }
    }
    let has_tx_start = has_tx_start()?;
    for mut program in unloaded.progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        let function = section.rsplit('/').next().unwrap_or_default();
        let is_called = config.algorithms.iter().any(|algorithm| calls(*algorithm, function));
        program.set_autoload(is_called && is_of_kernel(function, has_tx_start));
    }
    Ok(())
}

/// True if the algorithm's hooks include the kernel's `function`.
fn calls(algorithm: Tapped, function: &str) -> bool {
    match algorithm {
        Tapped::Bbr => function.starts_with("bbr_"),
        Tapped::Cubic => function.starts_with("cubictcp_") || function == "tcp_reno_undo_cwnd",
    }
}

/// True unless the function is that of the other hook for the start of sending.
fn is_of_kernel(function: &str, has_tx_start: bool) -> bool {
    !function.contains("cwnd_event") || function.ends_with(TX_START) == has_tx_start
}

/// True if the kernel has a hook of its own for the start of sending.
fn has_tx_start() -> Result<bool> {
    let types = Btf::from_vmlinux().map_err(refused)?;
    let hooks = types.type_by_name::<Struct<'_>>("tcp_congestion_ops").ok_or(Error::NoPart(NO_HOOKS))?;
    Ok(hooks.iter().any(|hook| hook.name.is_some_and(|name| name == TX_START)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hook_for_the_start_of_sending_is_traced() {
        for algorithm in ["bbr", "cubictcp"] {
            let (event, hook) = (format!("{algorithm}_cwnd_event"), format!("{algorithm}_cwnd_event_tx_start"));
            assert!(is_of_kernel(&event, false) && !is_of_kernel(&event, true));
            assert!(is_of_kernel(&hook, true) && !is_of_kernel(&hook, false));
        }
        assert!(is_of_kernel("bbr_main", true) && is_of_kernel("bbr_main", false));
    }

    /// Goal: no program of the tap is forgotten, and none belongs to two algorithms.
    #[test]
    fn every_program_is_of_one_algorithm() {
        let source = include_str!("../../../../../bpf/tap.bpf.c");
        let traced = source.lines().filter_map(|line| line.strip_prefix("TRACED(").or(line.strip_prefix("EXITS(")));
        let functions: Vec<&str> = traced.filter_map(|line| Some(line.split_once(',')?.0)).collect();
        assert_eq!(functions.len(), 15, "{functions:?}");
        for function in functions {
            assert_ne!(calls(Tapped::Bbr, function), calls(Tapped::Cubic, function), "{function}");
        }
    }
}
