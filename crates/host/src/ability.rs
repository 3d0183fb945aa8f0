//! Support of this machine's kernel for loading, watching and undoing. Reads, and changes nothing.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;

use crate::host_paths::{self, HostPaths};

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
    #[cfg(feature = "load")]
    parts.push(cgroups());
    parts
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
#[cfg(feature = "load")]
fn cgroups() -> Ability {
    match crate::ab::cgroup(None) {
        Ok(root) => Ability { name: "ab: cgroups", works: true, found: format!("version 2 at {}", root.display()) },
        Err(fault) => Ability { name: "ab: cgroups", works: false, found: fault.to_string() },
    }
}

fn jit() -> Ability {
    let is_on = fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").map(|text| text.trim() != "0");
    let remedy = "algorithms in BPF need the JIT; as root: sysctl net.core.bpf_jit_enable=1";
    part("load: JIT", is_on.unwrap_or(false), "on", remedy)
}

#[cfg(not(feature = "load"))]
fn of_kernel() -> Vec<Ability> {
    vec![part("load: build", false, "", "this build cannot load; build with --features host")]
}

/// Checks the kernel's own type information.
#[cfg(feature = "load")]
fn of_kernel() -> Vec<Ability> {
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::{Enum, Struct};

    libbpf_rs::set_print(None);
    let at = std::path::Path::new("/sys/kernel/btf/vmlinux");
    let Some(btf) = at.exists().then(Btf::from_vmlinux).and_then(Result::ok) else {
        let remedy = "the kernel exposes no types (/sys/kernel/btf/vmlinux); use one with CONFIG_DEBUG_INFO_BTF";
        return vec![part("load: types", false, "", remedy)];
    };
    let has_struct = |name: &str| btf.type_by_name::<Struct<'_>>(name).is_some();
    let links = btf
        .type_by_name::<Enum<'_>>("bpf_link_type")
        .is_some_and(|link| link.iter().any(|one| one.name.is_some_and(|name| name == "BPF_LINK_TYPE_STRUCT_OPS")));
    let has_member = |of: &str, member: &str| {
        btf.type_by_name::<Struct<'_>>(of)
            .is_some_and(|found| found.iter().any(|one| one.name.is_some_and(|name| name == member)))
    };
    let hook = match arguments(&btf, "cong_control") {
        Some(4) => part("load: programs", true, "cong_control has the four arguments that the programs read", ""),
        other => Ability {
            name: "load: programs",
            works: false,
            found: format!(
                "cong_control has {} arguments here, and there is no program for these; use Linux 6.10 or later",
                other.map_or("unknown".to_owned(), |count| count.to_string())
            ),
        },
    };
    vec![
        part("load: types", true, "/sys/kernel/btf/vmlinux", ""),
        part(
            "load: struct_ops",
            has_struct("bpf_struct_ops_tcp_congestion_ops"),
            "the kernel accepts congestion controls in BPF",
            "the kernel does not accept congestion controls in BPF; use Linux 6.4 or later with CONFIG_BPF_JIT",
        ),
        part(
            "load: links",
            links,
            "loaded algorithms outlive the command and can be unloaded",
            "the kernel has no links of struct_ops; use Linux 6.4 or later",
        ),
        hook,
        part(
            "watch: iterators",
            has_struct("bpf_iter__tcp"),
            "`host status --connections`; `host unload` moves live connections",
            "the kernel has no iterator over TCP sockets; use Linux 5.9 or later",
        ),
        part(
            "ab: records",
            has_struct("bpf_iter__bpf_map_elem"),
            "`ab start` lists open connections of all network namespaces",
            "the kernel has no iterator over the entries of a table; use Linux 5.9 or later",
        ),
        part(
            "CE marks counted",
            has_member("rate_sample", "delivered_ce"),
            "BBRv3 gets the number of marked packets that each ACK reports",
            "the kernel does not count marked packets; newer ones do. BBRv3 then detects marks by ECE only",
        ),
    ]
}

/// Number of arguments of a hook of the kernel's congestion controls.
#[cfg(feature = "load")]
fn arguments(btf: &libbpf_rs::btf::Btf<'_>, hook: &str) -> Option<usize> {
    use libbpf_rs::btf::ReferencesType as _;
    use libbpf_rs::btf::types::{FuncProto, Ptr, Struct};

    let ops = btf.type_by_name::<Struct<'_>>("tcp_congestion_ops")?;
    let member = ops.iter().find(|member| member.name.is_some_and(|name| name == hook))?;
    let pointer = btf.type_by_id::<Ptr<'_>>(member.ty)?;
    let function = FuncProto::try_from(pointer.referenced_type()).ok()?;
    Some(function.iter().count())
}
