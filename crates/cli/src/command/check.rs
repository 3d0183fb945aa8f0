//! `bbrlab check`: shows the capabilities of this machine, and remedies for missing ones.
//! It reads /proc, /sys and /dev, and changes nothing.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::path::Path;

use bbrlab_host::ability::{self, Part};
use bbrlab_host::enable::Machine;
use bbrlab_live::uml::launch;

use crate::grid::{Align, aligned};

/// One line of the report: mark, subject, finding with its remedy.
#[derive(Clone)]
struct Fact(Mark, &'static str, String);

#[derive(Clone, Copy)]
enum Mark {
    Yes,
    No,
    /// Neither good nor bad.
    Note,
}

/// Type information of the running kernel.
const BTF: &str = "/sys/kernel/btf/vmlinux";
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

/// Produces the whole report.
pub fn report() -> String {
    let facts = [
        build(),
        worlds(),
        kernel(),
        cores(),
        memory(),
        steal(),
        root(),
        user_namespaces(),
        network_namespaces(),
        tun(),
        bpf(),
        btf(),
        netem(),
        congestion_controls(),
        host(),
    ]
    .concat();
    let rows = facts.into_iter().map(|Fact(mark, name, found)| {
        let mark = match mark {
            Mark::Yes => "yes",
            Mark::No => "no",
            Mark::Note => "–",
        };
        vec![mark.to_owned(), name.to_owned(), found]
    });
    let mut text = aligned(&["", "what", "found"], &[Align::Left, Align::Left, Align::Text], rows);
    text.push_str("\nThe simulator (--on sim) needs none of these rights.\n");
    text
}

/// Compiled-in features, and the machine's support for them.
fn build() -> Vec<Fact> {
    let parquet = if cfg!(feature = "parquet") {
        Fact(Mark::Yes, "Parquet", "run --parquet, sweep and cdn read and write it".to_owned())
    } else {
        Fact(Mark::No, "Parquet", "not in this build; build with --features parquet".to_owned())
    };
    vec![parquet, record()]
}

/// Checks `bbrlab record`, which needs the build, the kernel and the privileges.
fn record() -> Fact {
    let lacks: Vec<&str> = [
        (cfg!(feature = "bpf"), "a build with --features bpf"),
        (may_load_bpf(), "the right to load BPF programs (root)"),
        (Path::new(BTF).exists(), "a kernel with CONFIG_DEBUG_INFO_BTF"),
    ]
    .into_iter()
    .filter_map(|(is_there, what)| (!is_there).then_some(what))
    .collect();
    if lacks.is_empty() {
        return Fact(Mark::Yes, "record", "this host's BBR and CUBIC, call by call".to_owned());
    }
    Fact(Mark::No, "record", format!("needs {}", lacks.join(", and ")))
}

fn worlds() -> Vec<Fact> {
    let missing = |name| Fact(Mark::No, name, "not in this build; use --on sim".to_owned());
    vec![Fact(Mark::Yes, "world sim", "the simulator".to_owned()), uml_world(), kernel_world(), missing("world quic")]
}

fn uml_world() -> Fact {
    match launch::kernel() {
        Ok(kernel) => {
            let hz = launch::hz(&kernel).map_or(String::new(), |hz| format!(", HZ {hz}"));
            Fact(Mark::Yes, "world uml", format!("a real Linux kernel in virtual time{hz}: {}", kernel.display()))
        }
        Err(what) => Fact(Mark::No, "world uml", what),
    }
}

fn kernel_world() -> Fact {
    let tun = Path::new("/dev/net/tun").exists();
    let how = match (tun, bbrlab_live::kernel::rights::are_enough()) {
        (false, _) => return Fact(Mark::No, "world kernel", "no /dev/net/tun; load the tun module".to_owned()),
        (true, true) => "this host's TCP behind our own link",
        (true, false) => "this host's TCP behind our own link, in a user namespace if one is permitted (below)",
    };
    Fact(Mark::Yes, "world kernel", how.to_owned())
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number(path: &str) -> Option<u64> {
    read(path)?.parse().ok()
}

fn release() -> String {
    read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned())
}

fn kernel() -> Vec<Fact> {
    vec![Fact(Mark::Note, "kernel", format!("{} on {}", release(), std::env::consts::ARCH))]
}

fn cores() -> Vec<Fact> {
    let found = match std::thread::available_parallelism() {
        Ok(cores) => format!("{cores}; --repeat and reproduce use them all"),
        Err(error) => format!("unknown: {error}"),
    };
    vec![Fact(Mark::Note, "cores", found)]
}

fn memory() -> Vec<Fact> {
    let info = read("/proc/meminfo").unwrap_or_default();
    let gib = |key: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(key))?;
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kib / 1024.0 / 1024.0)
    };
    let found = match (gib("MemTotal:"), gib("MemAvailable:")) {
        (Some(total), Some(free)) => format!("{total:.1} GiB, {free:.1} GiB available"),
        _ => "unknown: /proc/meminfo does not say".to_owned(),
    };
    vec![Fact(Mark::Note, "memory", found)]
}

/// CPU time stolen by the hypervisor since boot: it disturbs real-time measurements, but not simulations.
fn steal() -> Vec<Fact> {
    let stat = read("/proc/stat").unwrap_or_default();
    let cpu: Vec<f64> = stat
        .lines()
        .next()
        .map(|line| line.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect())
        .unwrap_or_default();
    let total: f64 = cpu.iter().sum();
    let Some(steal) = cpu.get(7).filter(|_| total > 0.0) else {
        return vec![Fact(Mark::Note, "CPU steal", "unknown: /proc/stat does not say".to_owned())];
    };
    vec![Fact(Mark::Note, "CPU steal", format!("{:.2} % since boot", 100.0 * steal / total))]
}

fn capabilities() -> u64 {
    let status = read("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

fn root() -> Vec<Fact> {
    let status = read("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1)).unwrap_or("?");
    let held = |bit: u32| capabilities() & (1 << bit) != 0;
    let named = [(CAP_NET_ADMIN, "CAP_NET_ADMIN"), (CAP_SYS_ADMIN, "CAP_SYS_ADMIN"), (CAP_BPF, "CAP_BPF")];
    let missing: Vec<&str> = named.iter().filter(|(bit, _)| !held(*bit)).map(|(_, name)| *name).collect();
    if missing.is_empty() {
        return vec![Fact(Mark::Yes, "root", format!("user id {uid}, with every capability that kernel worlds need"))];
    }
    vec![Fact(
        Mark::No,
        "root",
        format!("user id {uid}, without {}; run with sudo, or use --on sim", missing.join(", ")),
    )]
}

fn user_namespaces() -> Vec<Fact> {
    let closed = [
        ("/proc/sys/user/max_user_namespaces", 0, "sysctl user.max_user_namespaces=15000"),
        ("/proc/sys/kernel/unprivileged_userns_clone", 0, "sysctl kernel.unprivileged_userns_clone=1"),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            1,
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ];
    if !Path::new("/proc/self/ns/user").exists() {
        return vec![Fact(Mark::No, "user namespaces", "the kernel has none; use one with CONFIG_USER_NS".to_owned())];
    }
    let found = closed.iter().find(|(path, value, _)| number(path) == Some(*value));
    vec![match found {
        Some((path, value, remedy)) => {
            Fact(Mark::No, "user namespaces", format!("{path} is {value}; as root: {remedy}"))
        }
        None => Fact(Mark::Yes, "user namespaces", "open to every user, as far as /proc says".to_owned()),
    }]
}

fn network_namespaces() -> Vec<Fact> {
    let there = Path::new("/proc/self/ns/net").exists();
    vec![match number("/proc/sys/user/max_net_namespaces") {
        Some(0) => Fact(
            Mark::No,
            "network namespaces",
            "/proc/sys/user/max_net_namespaces is 0; as root: sysctl user.max_net_namespaces=15000".to_owned(),
        ),
        _ if there => Fact(Mark::Yes, "network namespaces", "in the kernel".to_owned()),
        _ => Fact(Mark::No, "network namespaces", "the kernel has none; use one with CONFIG_NET_NS".to_owned()),
    }]
}

fn tun() -> Vec<Fact> {
    vec![if Path::new("/dev/net/tun").exists() {
        Fact(Mark::Yes, "TUN device", "/dev/net/tun is there".to_owned())
    } else {
        Fact(
            Mark::No,
            "TUN device",
            "/dev/net/tun is missing; as root: modprobe tun, or give the container --device /dev/net/tun".to_owned(),
        )
    }]
}

fn may_load_bpf() -> bool {
    number("/proc/sys/kernel/unprivileged_bpf_disabled").is_some()
        && capabilities() & (1 << CAP_BPF | 1 << CAP_SYS_ADMIN) != 0
}

fn bpf() -> Vec<Fact> {
    let may = may_load_bpf();
    vec![match number("/proc/sys/kernel/unprivileged_bpf_disabled") {
        None => Fact(Mark::No, "BPF", "the kernel does not say; use one with CONFIG_BPF_SYSCALL".to_owned()),
        Some(_) if may => {
            Fact(Mark::Note, "BPF", "in the kernel, and this user may load programs; for record".to_owned())
        }
        Some(_) => {
            Fact(Mark::No, "BPF", "in the kernel, but this user may not load algorithms; run with sudo".to_owned())
        }
    }]
}

fn btf() -> Vec<Fact> {
    vec![if Path::new(BTF).exists() {
        Fact(Mark::Note, "BTF", format!("{BTF} is there; for record"))
    } else {
        Fact(Mark::No, "BTF", "/sys/kernel/btf/vmlinux is missing; use a kernel with CONFIG_DEBUG_INFO_BTF".to_owned())
    }]
}

fn netem() -> Vec<Fact> {
    let loaded = Path::new("/sys/module/sch_netem").exists();
    let dir = format!("/lib/modules/{}", release());
    let listed = |file: &str| read(&format!("{dir}/{file}")).is_some_and(|text| text.contains("sch_netem"));
    vec![if loaded {
        Fact(Mark::Yes, "netem", "loaded".to_owned())
    } else if listed("modules.builtin") || listed("modules.dep") {
        Fact(Mark::Yes, "netem", "on disk; the kernel loads it when it is first used".to_owned())
    } else {
        Fact(
            Mark::No,
            "netem",
            "not found; install the kernel's extra modules. bbrlab's own link needs none".to_owned(),
        )
    }]
}

/// Checks the parts of `bbrlab host`.
fn host() -> Vec<Fact> {
    let fact = |part: Part| Fact(if part.works { Mark::Yes } else { Mark::No }, part.name, part.found);
    let mut facts: Vec<Fact> = ability::parts().into_iter().map(fact).collect();
    facts.push(match Machine::default().has_fq() {
        true => Fact(Mark::Yes, "fq", "`host enable bbr` makes it the default qdisc, which paces".to_owned()),
        false => Fact(Mark::Note, "fq", "not found; TCP paces by itself".to_owned()),
    });
    facts
}

fn congestion_controls() -> Vec<Fact> {
    let Some(found) = read("/proc/sys/net/ipv4/tcp_available_congestion_control") else {
        return vec![Fact(Mark::Note, "TCP algorithms", "unknown: /proc/sys/net/ipv4 does not say".to_owned())];
    };
    let mark = if found.split_whitespace().any(|name| name == "bbr") { Mark::Yes } else { Mark::Note };
    let remedy = if matches!(mark, Mark::Yes) { "" } else { "; for bbr, as root: modprobe tcp_bbr" };
    vec![Fact(mark, "TCP algorithms", format!("{found}{remedy}"))]
}
