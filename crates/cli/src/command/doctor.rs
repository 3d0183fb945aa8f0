//! `bbrlab doctor`: shows the capabilities of this machine, and remedies for missing ones.
//! It reads /proc, /sys and /dev, and changes nothing.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::Path;
use std::{fs, io};

use bbrlab_host::ability::{self, Ability};
use bbrlab_host::enable::Machine;
use bbrlab_live::kernel::rights;
use bbrlab_live::uml::launch::{self, Kernels};
use bbrlab_sim::backend::Backend;

use crate::grid::{Align, aligned};

/// One line of the report: mark, subject, finding with its remedy.
#[derive(Clone)]
struct Fact(Support, String, String);

#[derive(Clone, Copy)]
enum Support {
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
        backends(),
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
            Support::Yes => "yes",
            Support::No => "no",
            Support::Note => "–",
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
        fact(Support::Yes, "Parquet", "run --parquet, sweep and cdn read and write it".to_owned())
    } else {
        fact(Support::No, "Parquet", "not in this build; build with --features parquet".to_owned())
    };
    vec![parquet, record()]
}

/// Checks `bbrlab record`, which needs the build, the kernel and the privileges.
fn record() -> Fact {
    let symbols = read("/proc/kallsyms").unwrap_or_default();
    let bbr = symbols.lines().find(|line| line.split_whitespace().nth(2) == Some("bbr_main"));
    let is_module = bbr.is_some_and(|line| line.ends_with(']'));
    let lacks: Vec<&str> = [
        (cfg!(feature = "bpf"), "a build with --features bpf"),
        (may_load_bpf(), "the right to load BPF programs (root)"),
        (Path::new(BTF).exists(), "a kernel with CONFIG_DEBUG_INFO_BTF"),
        (bbr.is_some(), "the kernel's bbr (modprobe tcp_bbr)"),
        (
            !is_module || Path::new("/sys/kernel/btf/tcp_bbr").exists(),
            "types of the module tcp_bbr (Linux 5.11 or later)",
        ),
    ]
    .into_iter()
    .filter_map(|(is_there, what)| (!is_there).then_some(what))
    .collect();
    if lacks.is_empty() {
        return fact(Support::Yes, "record", "this host's BBR and CUBIC, call by call".to_owned());
    }
    fact(Support::No, "record", format!("needs {}", lacks.join(", and ")))
}

fn backends() -> Vec<Fact> {
    Backend::ALL.into_iter().map(backend).collect()
}

fn backend(backend: Backend) -> Fact {
    let found = match backend {
        Backend::Sim => Ok(backend.info().summary.to_owned()),
        Backend::Uml => Kernels::find()
            .and_then(|kernels| kernels.usual().map(Path::to_owned))
            .map(|kernel| {
                let hz = launch::hz(&kernel).map_or(String::new(), |hz| format!(", HZ {hz}"));
                format!("{}{hz}: {}", backend.info().summary, kernel.display())
            })
            .map_err(|error| error.to_string()),
        Backend::Kernel => can_open_tun().map(|()| match rights::are_enough() {
            true => "this host's TCP behind an emulated link".to_owned(),
            false => {
                "this host's TCP behind an emulated link, in a user namespace if one is permitted (below)".to_owned()
            }
        }),
        Backend::Quic(_) if cfg!(feature = "quic") => Ok(backend.info().summary.to_owned()),
        Backend::Quic(_) => Err("not in this build; `make build` includes it".to_owned()),
    };
    match found {
        Ok(how) => fact(Support::Yes, format!("backend {backend}"), how),
        Err(why) => fact(Support::No, format!("backend {backend}"), why),
    }
}

fn fact(support: Support, subject: impl Into<String>, finding: String) -> Fact {
    Fact(support, subject.into(), finding)
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
    vec![fact(Support::Note, "kernel", format!("{} on {}", release(), std::env::consts::ARCH))]
}

fn cores() -> Vec<Fact> {
    let found = match std::thread::available_parallelism() {
        Ok(cores) => format!("{cores}; --repeat and reproduce use them all"),
        Err(error) => format!("unknown: {error}"),
    };
    vec![fact(Support::Note, "cores", found)]
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
        _ => "unknown: not in /proc/meminfo".to_owned(),
    };
    vec![fact(Support::Note, "memory", found)]
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
        return vec![fact(Support::Note, "CPU steal", "unknown: not in /proc/stat".to_owned())];
    };
    vec![fact(Support::Note, "CPU steal", format!("{:.2} % since boot", 100.0 * steal / total))]
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
        return vec![fact(
            Support::Yes,
            "root",
            format!("user id {uid}, with every capability that kernel backends need"),
        )];
    }
    vec![fact(
        Support::No,
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
        return vec![fact(
            Support::No,
            "user namespaces",
            "the kernel has none; use one with CONFIG_USER_NS".to_owned(),
        )];
    }
    let found = closed.iter().find(|(path, value, _)| number(path) == Some(*value));
    vec![match found {
        Some((path, value, remedy)) => {
            fact(Support::No, "user namespaces", format!("{path} is {value}; as root: {remedy}"))
        }
        None => fact(Support::Yes, "user namespaces", "open to every user, according to /proc".to_owned()),
    }]
}

fn network_namespaces() -> Vec<Fact> {
    let there = Path::new("/proc/self/ns/net").exists();
    vec![match number("/proc/sys/user/max_net_namespaces") {
        Some(0) => fact(
            Support::No,
            "network namespaces",
            "/proc/sys/user/max_net_namespaces is 0; as root: sysctl user.max_net_namespaces=15000".to_owned(),
        ),
        _ if there => fact(Support::Yes, "network namespaces", "in the kernel".to_owned()),
        _ => fact(Support::No, "network namespaces", "the kernel has none; use one with CONFIG_NET_NS".to_owned()),
    }]
}

/// Opens the TUN device for reading and writing, which changes nothing; an error names the remedy.
fn can_open_tun() -> Result<(), String> {
    match fs::File::options().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("/dev/net/tun is missing; as root: modprobe tun, or give the container --device /dev/net/tun"
                .to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(format!("/dev/net/tun: {error}; as root: chmod 666 /dev/net/tun"))
        }
        Err(error) => Err(format!("/dev/net/tun: {error}; as root: modprobe tun")),
    }
}

fn tun() -> Vec<Fact> {
    vec![match can_open_tun() {
        Ok(()) => fact(Support::Yes, "TUN device", "/dev/net/tun can be opened".to_owned()),
        Err(why) => fact(Support::No, "TUN device", why),
    }]
}

fn may_load_bpf() -> bool {
    number("/proc/sys/kernel/unprivileged_bpf_disabled").is_some()
        && capabilities() & (1 << CAP_BPF | 1 << CAP_SYS_ADMIN) != 0
}

fn bpf() -> Vec<Fact> {
    let may = may_load_bpf();
    vec![match number("/proc/sys/kernel/unprivileged_bpf_disabled") {
        None => fact(Support::No, "BPF", "unknown; use a kernel with CONFIG_BPF_SYSCALL".to_owned()),
        Some(_) if may => {
            fact(Support::Note, "BPF", "in the kernel, and this user may load programs; for record".to_owned())
        }
        Some(_) => {
            fact(Support::No, "BPF", "in the kernel, but this user may not load algorithms; run with sudo".to_owned())
        }
    }]
}

fn btf() -> Vec<Fact> {
    vec![if Path::new(BTF).exists() {
        fact(Support::Note, "BTF", format!("{BTF} exists; for record"))
    } else {
        fact(
            Support::No,
            "BTF",
            "/sys/kernel/btf/vmlinux is missing; use a kernel with CONFIG_DEBUG_INFO_BTF".to_owned(),
        )
    }]
}

fn netem() -> Vec<Fact> {
    let loaded = Path::new("/sys/module/sch_netem").exists();
    let dir = format!("/lib/modules/{}", release());
    let listed = |file: &str| read(&format!("{dir}/{file}")).is_some_and(|text| text.contains("sch_netem"));
    vec![if loaded {
        fact(Support::Yes, "netem", "loaded".to_owned())
    } else if listed("modules.builtin") || listed("modules.dep") {
        fact(Support::Yes, "netem", "on disk; the kernel loads it when it is first used".to_owned())
    } else {
        fact(
            Support::No,
            "netem",
            "not found; install the kernel's extra modules. bbrlab's own link needs none".to_owned(),
        )
    }]
}

/// Checks the parts of `bbrlab host`.
fn host() -> Vec<Fact> {
    let of = |part: Ability| fact(if part.works { Support::Yes } else { Support::No }, part.name, part.found);
    let mut facts: Vec<Fact> = ability::parts().into_iter().map(of).collect();
    facts.push(match Machine::default().has_fq() {
        true => fact(Support::Yes, "fq", "`host enable bbr` makes it the default qdisc, which paces".to_owned()),
        false => fact(Support::Note, "fq", "not found; TCP paces by itself".to_owned()),
    });
    facts
}

fn congestion_controls() -> Vec<Fact> {
    let Some(found) = read("/proc/sys/net/ipv4/tcp_available_congestion_control") else {
        return vec![fact(Support::Note, "TCP algorithms", "unknown: not in /proc/sys/net/ipv4".to_owned())];
    };
    let mark = if found.split_whitespace().any(|name| name == "bbr") { Support::Yes } else { Support::Note };
    let remedy = if matches!(mark, Support::Yes) { "" } else { "; for bbr, as root: modprobe tcp_bbr" };
    vec![fact(mark, "TCP algorithms", format!("{found}{remedy}"))]
}
