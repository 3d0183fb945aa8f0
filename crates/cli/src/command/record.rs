//! `bbrlab record`: records the congestion control of a scenario's flows on this host's kernel, call by call.
//! The flows use the kernel's own BBR and CUBIC, or our algorithms.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::PathBuf;

use bbrlab_live::oracle;
use bbrlab_stats::plural::counted;
use clap::Args;

use crate::args::{KeyArgs, RecordKeys};
use crate::outputs::{self, Target};
use crate::scenario::{load, trace_reader};
use crate::{Error, Verdict, print};

/// Arguments of `bbrlab record`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bbrlab record --rate 10mbit --rtt 40ms --flow bbr1 --duration 5s --out steady.tap\n  \
        bbrlab record --flow bbr3-linux --flow bbr1,program=bbrlab --duration 5s --out ours.tap\n  \
        bbrlab record scenario.toml --out scenario.tap && bbrlab replay scenario.tap\n\n\
        A log contains either the kernel's own algorithms (bbr1, cubic) or ours (all others, and flows with program=bbrlab).\n\
        Recording needs the right to load BPF programs and to create network namespaces (root), a build with --features bpf,\n\
        and Linux 6.1 or later with BTF. It leaves nothing behind on the host.")]
pub struct RecordArgs {
    /// Scenario in TOML; flags override it
    pub file: Option<PathBuf>,
    /// Log file to write
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    #[command(flatten)]
    pub keys: KeyArgs<RecordKeys>,
}

/// Records the scenario from the arguments.
pub fn run(args: &RecordArgs) -> Result<Verdict, Error> {
    let out = Target::check("--out", &args.out)?;
    let sourced = load(args.file.as_deref(), args.keys.overrides(), &args.keys.flows())?;
    let (setup, situation) = (sourced.resolve(&trace_reader)?, sourced.scenario.filled().name);
    let recording = oracle::record(&setup, &situation)?;
    outputs::commit(out.write(|file| file.write_all(&recording.log))?.into_iter().collect())?;
    let received: Vec<String> = setup
        .flows
        .iter()
        .zip(&recording.received)
        .map(|(flow, bytes)| {
            let seconds = setup.duration.since(flow.start).as_nanos() as f64 / 1e9;
            format!("{} {:.2} Mbit/s", flow.name, *bytes as f64 * 8e-6 / seconds.max(1e-9))
        })
        .collect();
    let size = recording.log.len() as f64 / 1e3;
    if out.is_stdout() {
        return Ok(Verdict::Holds);
    }
    print(&format!("{} in {size:.1} kB; received {}\n", counted(recording.records, "call"), received.join(", ")))?;
    if recording.lost > 0 {
        return Err(Error::TapLost(recording.lost));
    }
    Ok(Verdict::Holds)
}
