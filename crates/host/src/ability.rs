//! Support of this machine's kernel for loading, watching and undoing. Reads, and changes nothing.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;

use crate::host_paths::{self, HostPaths};
#[cfg(feature = "load")]
use crate::interface::Interface;

/// One capability of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ability {
    /// Its purpose.
    pub name: &'static str,
    /// True if it works here.
    pub works: bool,
    /// The state found and, if it does not work, the remedy.
    pub found: String,
}

fn part(name: &'static str, works: bool, here: &str, otherwise: &str) -> Ability {
    Ability { name, works, found: if works { here } else { otherwise }.to_owned() }
}

/// Checks every capability.
pub fn parts() -> Vec<Ability> {
    let rights = match host_paths::check() {
        Ok(()) => Ability { name: "load: rights", works: true, found: "this user may load and register".to_owned() },
        Err(fault) => Ability { name: "load: rights", works: false, found: fault.to_string() },
    };
    let mut parts = vec![rights, pins()];
    parts.extend(of_kernel());
    parts.push(jit());
    #[cfg(all(feature = "ab", feature = "load"))]
    parts.push(cgroups());
    parts
}

/// The first capability of the kernel that a loaded algorithm needs and that is missing, in one phrase.
#[cfg(feature = "load")]
pub(crate) fn missing() -> Option<String> {
    of_kernel().into_iter().find(|part| !part.works && part.name.starts_with("load: ")).map(|part| part.found)
}

/// Checks the place for pins, which outlive the command.
fn pins() -> Ability {
    let known =
        fs::read_to_string("/proc/filesystems").is_ok_and(|text| text.lines().any(|line| line.ends_with("\tbpf")));
    let here = if HostPaths::default().is_bpffs_mounted() {
        "/sys/fs/bpf is mounted"
    } else {
        "/sys/fs/bpf is not mounted; `host load` mounts it and `host unload` unmounts it"
    };
    part("load: pins", known, here, "the kernel has no file system of pins; use one with CONFIG_BPF_SYSCALL")
}

/// Checks the cgroup that a test's program attaches to.
#[cfg(all(feature = "ab", feature = "load"))]
fn cgroups() -> Ability {
    match crate::ab::cgroup(None) {
        Ok(root) => Ability { name: "ab: cgroups", works: true, found: format!("version 2 at {}", root.display()) },
        Err(fault) => Ability { name: "ab: cgroups", works: false, found: fault.to_string() },
    }
}

fn jit() -> Ability {
    // Only the first network namespace has the file.
    let setting = fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").ok();
    let remedy = "algorithms in BPF need the JIT; as root: sysctl net.core.bpf_jit_enable=1";
    let shown = if setting.is_some() { "on" } else { "not visible in this network namespace" };
    part("load: JIT", setting.is_none_or(|text| text.trim() != "0"), shown, remedy)
}

#[cfg(not(feature = "load"))]
fn of_kernel() -> Vec<Ability> {
    vec![part("load: build", false, "", "this build cannot load; build with --features host")]
}

/// Checks the kernel's interface of congestion controls.
#[cfg(feature = "load")]
fn of_kernel() -> Vec<Ability> {
    let Some(kernel) = Interface::of_kernel() else {
        let remedy = "the kernel exposes no types (/sys/kernel/btf/vmlinux); use one with CONFIG_DEBUG_INFO_BTF";
        return vec![part("load: types", false, "", remedy)];
    };
    let registration = match kernel.has_links {
        true => "loaded algorithms are links, which outlive the command",
        false => "loaded algorithms stay registered through their pinned map: the kernel has no links of struct_ops",
    };
    let hook = Ability {
        name: "load: programs",
        works: [2, 4].contains(&kernel.cong_control),
        found: match kernel.cong_control {
            0 => "the kernel's types have no cong_control; use Linux 6.1 or later".to_owned(),
            count => format!("cong_control has {count} arguments; the programs need 2 or 4"),
        },
    };
    vec![
        part("load: types", true, "/sys/kernel/btf/vmlinux", ""),
        part(
            "load: struct_ops",
            kernel.has_struct_ops,
            "the kernel accepts congestion controls in BPF",
            "the kernel does not accept congestion controls in BPF; use Linux 6.1 or later with CONFIG_BPF_JIT",
        ),
        part(
            "load: BPF",
            kernel.has_bpf_of_6_1,
            "programs may set the pacing rate",
            "programs may not set the pacing rate; use Linux 6.1 or later",
        ),
        part("load: registration", true, registration, ""),
        hook,
        part(
            "watch: iterators",
            kernel.has_socket_iterator,
            "`host status --connections`; `host unload` moves live connections",
            "the kernel has no iterator over TCP sockets; use Linux 5.9 or later",
        ),
        part(
            "ab: open connections",
            kernel.has_casts,
            "`ab start` also records open connections, in all network namespaces",
            "`ab start` records connections when they close; for open ones use Linux 6.2 or later",
        ),
        part(
            "CE marks counted",
            kernel.counts_marks,
            "BBRv3 gets the number of marked packets that each ACK reports",
            "the kernel does not count marked packets; newer ones do. BBRv3 then detects marks by ECE only",
        ),
        part(
            "accurate ECN",
            kernel.has_accurate_ecn,
            "Prague can be loaded",
            "Prague cannot be loaded; use Linux 7.0 or later",
        ),
    ]
}
