//! `bbrlab host`: loads our algorithms into this host's kernel, watches them, and undoes it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;

use bbrlab_core::AlgorithmConfig;
use bbrlab_host::enable::{Change, EnableOptions as WantedAtBoot, Machine, check_program};
use bbrlab_host::objects::{is_kernels_own, kernel_name};
use bbrlab_host::{kernel, objects};
use clap::{Args, Subcommand};

use super::policy::{PolicyArgs, policy};
use crate::{Error, Verdict, print};

/// Arguments of `bbrlab host`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        sudo bbrlab host load bbr3-linux\n  \
        sudo bbrlab host status --connections\n  \
        sudo bbrlab host unload bbr3_linux\n\n\
        Loading needs Linux 6.1 or later with BTF, and root. The next command rolls back an interrupted one.")]
pub struct HostArgs {
    #[command(subcommand)]
    what: HostCommand,
}

#[derive(Debug, Subcommand)]
enum HostCommand {
    /// Load an algorithm, test it with a transfer, and make it available to any program
    Load(LoadArgs),
    /// Unload an algorithm; its connections continue with the default
    Unload(UnloadArgs),
    /// Show loaded algorithms, their users, and the default of new connections
    Status(StatusArgs),
    /// Make a congestion control the default, also after a reboot
    Enable(EnableArgs),
    /// Undo the changes of `enable`
    Disable(DisableArgs),
    /// Decide which new connections get which congestion control, by client, port, cgroup and RTT
    Policy(PolicyArgs),
}

#[derive(Debug, Args)]
struct LoadArgs {
    /// Algorithm with its parameters, as in bbr3-linux or bbr3-linux,beta=0.6
    algorithm: String,
    /// Name by which programs select it [default: the algorithm's with _ for -; prefixed with bbrlab_ if the kernel has that name]
    #[arg(long)]
    name: Option<String>,
    /// Make it the default for new connections
    #[arg(long)]
    default: bool,
}

#[derive(Debug, Args)]
struct UnloadArgs {
    /// Name under which it is loaded
    name: String,
    /// Give its connections this time to end by themselves, as in 30s, before they are moved
    #[arg(long, value_name = "TIME")]
    drain: Option<String>,
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// Show each connection of this network namespace, with its algorithm's state
    #[arg(long)]
    connections: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct EnableArgs {
    /// The kernel's bbr, cubic or reno, or one of our algorithms with its parameters
    #[arg(default_value = "bbr")]
    algorithm: String,
    /// Name under which one of our algorithms is loaded [default: the algorithm's]
    #[arg(long)]
    name: Option<String>,
    /// Print every change without making it
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct DisableArgs {
    /// Print every change without making it
    #[arg(long)]
    dry_run: bool,
}

/// Runs the requested subcommand.
pub fn host(args: &HostArgs) -> Result<Verdict, Error> {
    match &args.what {
        HostCommand::Load(args) => load(args),
        HostCommand::Unload(args) => unload(args),
        HostCommand::Status(args) => status(args),
        HostCommand::Enable(args) => enable(args),
        HostCommand::Disable(args) => disable(args),
        HostCommand::Policy(args) => policy(args),
    }
}

#[cfg(feature = "host")]
pub use loaded::with;

#[cfg(not(feature = "host"))]
mod loaded {
    use super::*;

    pub fn load(_config: &AlgorithmConfig, _name: &str, _as_default: bool) -> Result<Verdict, Error> {
        Err(Error::NoLoader)
    }

    pub fn unload(_name: &str, _drain: Option<std::time::Duration>) -> Result<Verdict, Error> {
        Err(Error::NoLoader)
    }

    pub fn recover() -> Result<(), Error> {
        Ok(())
    }

    pub fn all_in_bpf() -> Vec<String> {
        Vec::new()
    }

    pub fn policy() -> String {
        String::new()
    }

    pub fn document(_with_connections: bool) -> Result<serde_json::Value, Error> {
        Ok(serde_json::json!([]))
    }
}

#[cfg(feature = "host")]
mod loaded {
    use std::time::Duration;

    use bbrlab_host::host_paths::HostPaths;
    use bbrlab_host::manage::{Host, LoadRequest};
    use bbrlab_host::telemetry;

    pub use bbrlab_host::program::all_in_bpf;

    use super::*;

    pub fn with<T>(work: impl FnOnce(&Host<'_>) -> Result<T, bbrlab_host::Error>) -> Result<T, Error> {
        let steps = std::cell::Cell::new(0);
        let before = |_: &str| {
            steps.set(steps.get() + 1);
            die_at(steps.get());
        };
        let trial = |name: &str| bbrlab_live::kernel::trial::transfer(name).map_err(Into::into);
        Ok(work(&Host { places: HostPaths::default(), trial: &trial, before: &before })?)
    }

    /// Simulates a killed command in tests: builds with debug assertions die before the step that `BBRLAB_DIE_AT` numbers.
    fn die_at(step: u32) {
        #[cfg(debug_assertions)]
        if std::env::var("BBRLAB_DIE_AT").is_ok_and(|at| at == step.to_string()) {
            let me = std::process::id().to_string();
            let _ = std::process::Command::new("kill").args(["-KILL", &me]).status();
            std::thread::sleep(Duration::from_secs(10));
        }
        let _ = step;
    }

    pub fn load(config: &AlgorithmConfig, name: &str, as_default: bool) -> Result<Verdict, Error> {
        with(|host| host.load(&LoadRequest { config: *config, name: name.to_owned(), as_default }))?;
        let how = if as_default {
            "new connections use it".to_owned()
        } else {
            format!("choose it with setsockopt(TCP_CONGESTION, \"{name}\")")
        };
        // Both take more than their share where marks are meant for Reno.
        let caution = match config.name() {
            "dctcp" => {
                "It needs DCTCP at both ends, and switches that mark above a threshold: use it inside a data centre.\n"
            }
            "prague" => {
                "Its data carries ECT(0); an L4S link wants ECT(1): docs/l4s.md. Behind one queue with classic ECN it starves others.\n"
            }
            _ => "",
        };
        print(&format!(
            "{name} is loaded and carried a test transfer; {how}. Undo: bbrlab host unload {name}\n{caution}"
        ))
    }

    pub fn unload(name: &str, drain: Option<Duration>) -> Result<Verdict, Error> {
        let undone = with(|host| host.unload(name, drain))?;
        let mut text = format!("{name} is unloaded; {} sockets moved to the default", undone.moved);
        if drain.is_some() {
            let _ = write!(text, ", {} connections ended before", undone.drained);
        }
        if undone.left > 0 {
            let _ = write!(text, "; {} sockets keep it until they close", undone.left);
        }
        print(&format!("{text}\n"))
    }

    pub fn recover() -> Result<(), Error> {
        with(|host| host.recover_if_idle()).map(|_| ())
    }

    /// A line on the policy in force.
    pub fn policy() -> String {
        match bbrlab_host::policy::in_force(&HostPaths::default()) {
            Ok(Some(force)) => {
                let rules = bbrlab_stats::plural::counted(force.described.policy.rules.len(), "rule");
                let how = if force.is_attached { "in force" } else { "NOT in force" };
                format!("policy     {rules} {how} on {}; bbrlab host policy status\n", force.described.cgroup)
            }
            _ => String::new(),
        }
    }

    pub fn document(with_connections: bool) -> Result<serde_json::Value, Error> {
        let all = with(|host| host.status())?;
        let mut rows = Vec::new();
        for one in all {
            let pins = HostPaths::default().pins_of(&one.entry.name);
            let mut row = serde_json::to_value(&one)?;
            if with_connections {
                let told = telemetry::connections(&pins.join("connections"))?;
                row["each"] = serde_json::to_value(told)?;
            }
            rows.push(row);
        }
        Ok(rows.into())
    }
}

fn load(args: &LoadArgs) -> Result<Verdict, Error> {
    let config = objects::parse(&args.algorithm)?;
    let name = args.name.clone().unwrap_or_else(|| kernel_name(config.name()));
    loaded::load(&config, &name, args.default)
}

fn unload(args: &UnloadArgs) -> Result<Verdict, Error> {
    let drain = args.drain.as_deref().map(|text| {
        let time: bbrlab_sim::scenario::TimeSpan = text.parse().map_err(Error::flag("--drain"))?;
        Ok::<_, Error>(std::time::Duration::from_secs_f64(time.as_secs()))
    });
    loaded::unload(&args.name, drain.transpose()?)
}

fn status(args: &StatusArgs) -> Result<Verdict, Error> {
    loaded::recover()?;
    let ours = loaded::document(args.connections)?;
    let (default, available) = (kernel::default()?, kernel::available()?);
    let (qdisc, in_bpf) = (kernel::default_qdisc(), loaded::all_in_bpf());
    if args.json {
        let whole = serde_json::json!({
            "schema": 1,
            "kernel": kernel::release(),
            "default": default,
            "available": available,
            "in_bpf": in_bpf,
            "default_qdisc": qdisc,
            "loaded": ours,
        });
        return print(&format!("{whole:#}\n"));
    }
    let mut text = String::new();
    let names: Vec<&str> = ours.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect();
    let not_ours = available.iter().map(String::as_str).filter(|name| !names.contains(name));
    let (others, theirs): (Vec<&str>, Vec<&str>) = not_ours.partition(|name| in_bpf.iter().any(|one| one == name));
    let of_tests = arms_of_tests();
    let (tested, others): (Vec<&str>, Vec<&str>) =
        others.into_iter().partition(|name| of_tests.iter().any(|one| one == name));
    let _ = writeln!(text, "default    {default}");
    let _ = writeln!(text, "kernel's   {} (Linux {})", theirs.join(", "), kernel::release());
    if !tested.is_empty() {
        let _ = writeln!(text, "in tests   {} (loaded by bbrlab ab start)", tested.join(", "));
    }
    if !others.is_empty() {
        let _ = writeln!(text, "others'    {} (BPF that bbrlab did not load)", others.join(", "));
    }
    text += &loaded::policy();
    let _ = writeln!(text, "pacing     {}", pacing(qdisc.as_deref()));
    for one in ours.as_array().into_iter().flatten() {
        text.push_str(&shown(one));
    }
    if names.is_empty() {
        text.push_str("loaded     nothing of bbrlab's; bbrlab host load bbr3-linux\n");
    }
    if default != "bbr" && theirs.contains(&"bbr") {
        text.push_str(
            "\nTo turn the kernel's own BBR on, and see each change first: bbrlab host enable bbr --dry-run\n",
        );
    }
    print(&text)
}

/// Names of what running A/B tests have loaded.
#[cfg(feature = "parquet")]
fn arms_of_tests() -> Vec<String> {
    use bbrlab_host::ab::{Entry, Folder};
    let folders = Entry::all().into_iter().map(|entry| Folder(entry.out)).filter(Folder::runs);
    let arms = folders.filter_map(|folder| folder.experiment().ok()).flat_map(|test| test.arms);
    arms.filter(|arm| arm.is_loaded_for_it).map(|arm| arm.name).collect()
}

#[cfg(not(feature = "parquet"))]
const fn arms_of_tests() -> Vec<String> {
    Vec::new()
}

/// Describes the pacing of a flow's packets, as far as the default qdisc of new devices shows it.
fn pacing(qdisc: Option<&str>) -> String {
    match qdisc {
        Some("fq") => "fq on new devices, TCP itself elsewhere".to_owned(),
        Some(other) => format!("TCP itself (new devices get {other})"),
        None => "TCP itself, unless a device has fq".to_owned(),
    }
}

fn shown(one: &serde_json::Value) -> String {
    let word = |key: &str| one[key].as_str().unwrap_or("?").to_owned();
    let count = |key: &str| one[key].as_u64().map_or("unknown".to_owned(), |count| count.to_string());
    let mut text = format!("loaded     {}", word("name"));
    let parameters = one["parameters"].as_array().into_iter().flatten();
    let changed: String = parameters
        .map(|pair| format!(",{}={}", pair[0].as_str().unwrap_or("?"), pair[1].as_str().unwrap_or("?")))
        .collect();
    let _ = write!(text, ": {}{changed}, by bbrlab {}; ", word("algorithm"), word("version"));
    let _ = write!(text, "{} connections, {} listeners", count("connections"), count("listeners"));
    let _ = writeln!(text, "; {} begun since", count("begun"));
    if one["is_registered"] == false {
        let _ = writeln!(
            text,
            "           the kernel no longer has it; bbrlab host unload {} removes the rest",
            word("name")
        );
    }
    for each in one["each"].as_array().into_iter().flatten() {
        let number = |key: &str| each[key].as_f64().unwrap_or(0.0);
        let _ = writeln!(
            text,
            "  {} > {}  {}  bw {:.2} Mbit/s  pacing {:.2} Mbit/s  cwnd {}  in flight {}  min RTT {:.2} ms  lost {}",
            each["local"].as_str().unwrap_or("?"),
            each["remote"].as_str().unwrap_or("?"),
            each["state"].as_str().unwrap_or("?"),
            number("bw_bps") / 1e6,
            number("pacing_bps") / 1e6,
            number("cwnd"),
            number("in_flight"),
            number("min_rtt_us") / 1e3,
            number("lost"),
        );
    }
    text
}

fn enable(args: &EnableArgs) -> Result<Verdict, Error> {
    let ours = if is_kernels_own(&args.algorithm) {
        None
    } else {
        let config = objects::parse(&args.algorithm)?;
        let program = std::env::current_exe().map_err(Error::io("its own program"))?;
        check_program(&program)?;
        Some((args.name.clone().unwrap_or_else(|| kernel_name(config.name())), program))
    };
    let machine = Machine::default();
    let wanted = WantedAtBoot { algorithm: args.algorithm.clone(), ours: ours.clone() };
    let changes = machine.plan(&wanted)?;
    let mut text: String = changes.iter().map(Change::lines).collect();
    if let Some((name, _)) = &ours {
        let _ = writeln!(text, "load {} as {name}, and make it the default", args.algorithm);
    }
    if args.dry_run {
        return print(&format!(
            "{text}\nNothing was changed. Without --dry-run these changes are made; `bbrlab host disable` undoes them.\n"
        ));
    }
    if let Some((name, _)) = &ours {
        // First, because loading includes a test: an algorithm that does not work here is not made permanent.
        loaded::load(&objects::parse(&args.algorithm)?, name, true)?;
    }
    if let Err(what) = machine.enable(&changes) {
        if let Some((name, _)) = &ours {
            loaded::unload(name, None)?;
        }
        return Err(what.into());
    }
    print(&format!("{text}\nDone; `bbrlab host disable` undoes it.\n"))
}

fn disable(args: &DisableArgs) -> Result<Verdict, Error> {
    let machine = Machine::default();
    let changes = machine.enabled()?;
    if changes.is_empty() {
        return print("Nothing is enabled by bbrlab.\n");
    }
    let unit = changes.iter().find_map(|change| match change {
        Change::Link { path, .. } => Some(path.file_stem()?.to_str()?.strip_prefix("bbrlab-")?.to_owned()),
        _ => None,
    });
    let shown = |change: &Change| format!("undo: {}", change.lines());
    if args.dry_run {
        let all: String = changes.iter().rev().map(shown).collect();
        return print(&format!("{all}\nNothing was changed.\n"));
    }
    let left = machine.disable()?;
    let line = |change: &Change| {
        if left.contains(change) {
            format!("left as it is, changed since by somebody else: {}\n", change.subject())
        } else {
            shown(change)
        }
    };
    let undone: String = changes.iter().rev().map(line).collect();
    if let Some(name) = unit {
        loaded::unload(&name, None)?;
    }
    print(&format!("{undone}\nDone.\n"))
}
