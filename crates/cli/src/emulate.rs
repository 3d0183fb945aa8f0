//! `bbrlab emulate`: any command behind the link.
//! In: flags and a command line. Out: the command's own streams and exit status. Never: a line on its standard output.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::Write;
use std::process::ExitCode;

use bbrlab_core::AlgorithmConfig;
use bbrlab_lab::scenario::Sourced;
use bbrlab_lab::setup::Setup;
use bbrlab_live::flows::kernel_cc;
use bbrlab_live::kernel::emulate::{Direction, Job, emulate as run};
use bbrlab_live::kernel::errand::Errand;
use bbrlab_live::kernel::tun::Offload;
use bbrlab_live::kernel::{bench, rights};

use crate::args::{DataWay, EmulateArgs, OffloadKind};
use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::run::trace_reader;
use crate::{Failure, print};

/// Runs the command, and passes its exit status on.
pub fn emulate(args: &EmulateArgs) -> Result<ExitCode, Failure> {
    if args.bench {
        return bench();
    }
    let setup = setup(args)?;
    let json = args.json.as_deref().map(|path| Target::check("--json", path)).transpose()?;
    if let Some(status) = rights::obtain()? {
        return Ok(exit(status));
    }
    let report = run(Job {
        setup,
        direction: match args.data.unwrap_or(DataWay::Both) {
            DataWay::Both => Direction::Both,
            DataWay::Down => Direction::Down,
            DataWay::Up => Direction::Up,
        },
        offload: args.offload.map(|kind| match kind {
            OffloadKind::Packets => Offload::Packets,
            OffloadKind::Tso => Offload::SuperPackets,
        }),
        cc: args.cc.as_deref().map(cc).transpose()?,
        errand: Errand { command: args.command.clone(), server: args.server.clone() },
    })?;
    if !report.self_check.clean {
        // Where standard error cannot be written there is nobody to warn.
        let _ = writeln!(std::io::stderr(), "bbrlab: emulate: {}", report.self_check.line());
    }
    if let Some(json) = json {
        let text = serde_json::to_string_pretty(&report).map_err(|error| format!("--json: {error}"))?;
        outputs::commit(json.write(|to| writeln!(to, "{text}"))?.into_iter().collect())?;
    }
    Ok(exit(report.status))
}

/// Seconds of each transfer of the bench.
const BENCH_SECONDS: u64 = 6;

fn bench() -> Result<ExitCode, Failure> {
    if let Some(status) = rights::obtain()? {
        return Ok(exit(status));
    }
    let mut rows = Vec::new();
    bench::table(BENCH_SECONDS, &mut |row| rows.push(row.to_vec()))?;
    print(&aligned(&bench::COLUMNS, &[Align::Left; 8], rows))?;
    Ok(ExitCode::SUCCESS)
}

fn setup(args: &EmulateArgs) -> Result<Setup, Failure> {
    let mut sourced = Sourced::default();
    args.path.overrides().try_for_each(|(key, text)| sourced.set(key, text))?;
    if let Some(seed) = &args.seed {
        sourced.set("seed", seed)?;
    }
    // What changes the path may change it as late as it likes: there is no end.
    sourced.set("duration", "1000000s")?;
    sourced.set("sample", "0s")?;
    sourced.resolve(&trace_reader)
}

/// The kernel's name of a congestion control, given by ours or by its own.
fn cc(name: &str) -> Result<String, Failure> {
    match AlgorithmConfig::named(name) {
        Some(algorithm) => kernel_cc(&algorithm).map(str::to_owned).map_err(|fault| format!("--cc: {fault}")),
        None => Ok(name.to_owned()),
    }
}

fn exit(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status & 0xff).unwrap_or(2))
}
