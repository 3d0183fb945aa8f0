//! `bbrlab emulate`: runs any command behind the link.
//! Standard output, standard error and the exit status are those of the command.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use bbrlab_core::AlgorithmConfig;
use bbrlab_live::kernel::command::CommandSpec;
use bbrlab_live::kernel::emulate::{Direction, EmulateRequest, emulate as run};
use bbrlab_live::kernel::tun::Offload;
use bbrlab_live::kernel::{bench, rights};
use bbrlab_live::uml::emulate as uml;
use bbrlab_live::uml::launch::{self, Kernels};
use bbrlab_sim::backend::kernel_cc;
use bbrlab_sim::scenario::{Backend, Scenario, ScenarioFile};
use bbrlab_sim::setup::Setup;

use crate::args::{EmulateKeys, KeyArgs};
use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::scenario::trace_reader;
use crate::{Error, print};
use clap::Args;
use std::path::PathBuf;

/// Flags of `bbrlab emulate`.
#[derive(Debug, Args)]
#[command(after_help = "The command finds the server's address in BBRLAB_SERVER_IP and its own in BBRLAB_CLIENT_IP \
        (IPv6: …_IP6); so does the server. Exit status: the command's own; 2 if the link could not be set up, 126 or 127 if \
        the command could not run.\n\n\
        Examples:\n  \
        bbrlab emulate --rate 20mbit --rtt 60ms --server 'python3 -m http.server 8000' -- \\\n    \
            sh -c 'curl -O http://$BBRLAB_SERVER_IP:8000/file'\n  \
        bbrlab emulate --rate 5mbit --loss 1% --data down --cc bbr1 --server 'iperf3 -s -1' -- bash\n  \
        bbrlab emulate --on uml --rate 10mbit --data down --server 'python3 -m http.server 8000' -- \\\n    \
            sh -c 'curl -o /dev/null http://$BBRLAB_SERVER_IP:8000/file'\n\n\
        With --on uml everything runs in virtual time: a sleep of a minute ends at once. The command's standard input is \
        empty, and the link has IPv4 only.")]
pub struct EmulateArgs {
    #[command(flatten)]
    pub keys: KeyArgs<EmulateKeys>,

    /// Shell command line of a server at the other end of the link; the command starts once the server listens
    #[arg(long, value_name = "CMD", help_heading = "Run")]
    pub server: Option<String>,
    /// Direction of the bottleneck; with down or up, the other direction carries only ACKs [default: both]
    #[arg(long, value_name = "DIRECTION", help_heading = "Run")]
    pub data: Option<DataDirection>,
    /// Congestion control of both ends, as in bbr1, cubic or the kernel's own name for it [default: the kernel's]
    #[arg(long, value_name = "CC", help_heading = "Run")]
    pub cc: Option<String>,
    /// Size of the packets that hosts hand to the link: single packets, or super-packets (TSO) that the link segments
    /// [default: packets below 1.5 Gbit/s]
    #[arg(long, value_name = "KIND", help_heading = "Run")]
    pub offload: Option<OffloadKind>,
    /// Write the counts of each link as JSON, with the emulator's self-check and a description of the machine
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Benchmark the emulator on this machine, and print a table
    #[arg(long, conflicts_with_all = ["server", "data", "cc", "offload"], help_heading = "Run")]
    pub bench: bool,
    /// Kernel at both ends: kernel, this host's, in real time; uml, a User Mode Linux in virtual time
    #[arg(long, value_name = "BACKEND", default_value = "kernel", help_heading = "Run")]
    pub on: EmulateOn,
    /// With --on uml: use this host's clock, for programs whose results depend on the speed of the CPU [default:
    /// virtual time, in which computing takes no time]
    #[arg(long, help_heading = "Run")]
    pub real_time: bool,
    /// With --on uml: let the command write to this host's files [default: they are read-only, and /tmp is empty]
    #[arg(long, help_heading = "Run")]
    pub rw: bool,
    /// The command and its arguments
    #[arg(last = true, required_unless_present = "bench", value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

/// Backend of an emulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EmulateOn {
    /// This host's kernel
    Kernel,
    /// User Mode Linux
    Uml,
}

/// Direction of the data.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum DataDirection {
    /// Each direction has its own bottleneck
    Both,
    /// From the server to the command
    Down,
    /// From the command to the server
    Up,
}

/// Size of the packets that hosts hand to the link.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum OffloadKind {
    /// Packets of one MTU
    Packets,
    /// Super-packets of up to 64 kB
    Tso,
}

/// Runs the command, and returns its exit status.
pub fn emulate(args: &EmulateArgs) -> Result<ExitCode, Error> {
    if args.bench {
        return bench();
    }
    let (setup, scenario) = setup(args)?;
    let json = args.json.as_deref().map(|path| Target::check("--json", path)).transpose()?;
    let direction = match args.data.unwrap_or(DataDirection::Both) {
        DataDirection::Both => Direction::Both,
        DataDirection::Down => Direction::Down,
        DataDirection::Up => Direction::Up,
    };
    if args.on == EmulateOn::Uml {
        return in_uml(args, &setup, &scenario, direction, json);
    }
    for (flag, given) in [("--real-time", args.real_time), ("--rw", args.rw)] {
        if given {
            return Err(Error::UmlOnly(flag));
        }
    }
    if let Some(status) = rights::obtain()? {
        return Ok(exit(status));
    }
    let report = run(EmulateRequest {
        setup,
        direction,
        offload: args.offload.map(|kind| match kind {
            OffloadKind::Packets => Offload::Packets,
            OffloadKind::Tso => Offload::SuperPackets,
        }),
        cc: args.cc.as_deref().map(cc).transpose()?,
        command: CommandSpec { command: args.command.clone(), server: args.server.clone() },
    })?;
    if !report.self_check.clean {
        // If standard error cannot be written there is no one to warn.
        let _ = writeln!(std::io::stderr(), "bbrlab: emulate: {}", report.self_check.line());
    }
    if let Some(json) = json {
        let text = serde_json::to_string_pretty(&report).map_err(Error::encode("--json"))?;
        outputs::commit(json.write(|to| writeln!(to, "{text}"))?.into_iter().collect())?;
    }
    Ok(exit(report.status))
}

/// Runs the command inside User Mode Linux.
fn in_uml(
    args: &EmulateArgs,
    setup: &Setup,
    scenario: &Scenario,
    direction: Direction,
    json: Option<Target>,
) -> Result<ExitCode, Error> {
    if args.offload.is_some() {
        let rule = "--on uml has the kernel segment before its path; leave it out";
        return Err(Error::Rule { place: "emulate: --offload", rule });
    }
    uml::refuse(setup, direction).map_err(Error::on(Backend::Uml))?;
    let kernels = Kernels::find().map_err(Error::on(Backend::Uml))?;
    let kernel = kernels.of(setup).map_err(Error::on(Backend::Uml))?;
    let bytes = |text: &OsStr| text.as_bytes().to_vec();
    let directory = std::env::current_dir().map_err(Error::io("emulate: this directory"))?;
    let done = launch::emulate(
        kernel,
        &uml::CommandSpec {
            scenario: serde_json::to_string(scenario).map_err(Error::encode("scenario"))?,
            direction,
            cc: args.cc.as_deref().map(cc).transpose()?,
            command: args.command.iter().map(|word| bytes(word)).collect(),
            server: args.server.clone(),
            directory: bytes(directory.as_os_str()),
            environment: std::env::vars_os().map(|(name, value)| (bytes(&name), bytes(&value))).collect(),
            writable: args.rw,
            real_time: args.real_time,
        },
        setup.seed,
    )?;
    if let Some(ran) = done.guest_s {
        let clock = if args.real_time { "real" } else { "virtual" };
        // If standard error cannot be written there is no one to inform.
        let _ = writeln!(std::io::stderr(), "bbrlab: emulate: {ran:.3} s of {clock} time");
    }
    if let Some(json) = json {
        let text = serde_json::to_string_pretty(&done).map_err(Error::encode("--json"))?;
        outputs::commit(json.write(|to| writeln!(to, "{text}"))?.into_iter().collect())?;
    }
    Ok(exit(done.status))
}

/// Duration of each transfer of the benchmark, seconds.
const BENCH_SECONDS: u64 = 6;

fn bench() -> Result<ExitCode, Error> {
    if let Some(status) = rights::obtain()? {
        return Ok(exit(status));
    }
    let mut rows = Vec::new();
    bench::table(BENCH_SECONDS, &mut |row| rows.push(row.to_vec()))?;
    print(&aligned(&bench::COLUMNS, &[Align::Left; 8], rows))?;
    Ok(ExitCode::SUCCESS)
}

/// The path, resolved and as written in the report.
fn setup(args: &EmulateArgs) -> Result<(Setup, Scenario), Error> {
    let mut sourced = ScenarioFile::default();
    args.keys.overrides().try_for_each(|(key, text)| crate::scenario::set(&mut sourced, key, text))?;
    // A schedule may change the path at any time: there is no end.
    sourced.set("duration", "1000000s")?;
    sourced.set("sample", "0s")?;
    Ok((sourced.resolve(&trace_reader)?, sourced.scenario.filled()))
}

/// Resolves a congestion control, given by our name or the kernel's, to the kernel's name.
fn cc(name: &str) -> Result<String, Error> {
    match AlgorithmConfig::named(name) {
        Some(algorithm) => kernel_cc(&algorithm).map(str::to_owned).map_err(Error::flag("--cc")),
        None => Ok(name.to_owned()),
    }
}

fn exit(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status & 0xff).unwrap_or(2))
}
