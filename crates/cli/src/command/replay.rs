//! `bbrlab replay`: compares a kernel's recorded decisions with core's, call by call.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bbrlab_replay::{Difference, Header, Report, replay_bytes};
use bbrlab_stats::plural::counted;
use clap::Args;

use crate::grid::{Align, aligned};
use crate::{Error, Verdict, inputs, print};

type Counts = BTreeMap<&'static str, u64>;

/// Arguments of `bbrlab replay`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 every output is equal, or depends on an input that the tap cannot record, and is counted; \
    1 an output differs, or the log has lost calls; 2 a file is not such a log."
)]
pub struct ReplayArgs {
    /// Logs written by `bbrlab record`, or of the calls into google/bbr v3, plain or compressed with xz
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print JSON instead of the table
    #[arg(long)]
    pub json: bool,
}

/// Replays the logs.
pub fn run(args: &ReplayArgs) -> Result<Verdict, Error> {
    let mut done = Vec::new();
    for file in &args.files {
        let (header, report) = one(file).map_err(Error::at(inputs::name(file)))?;
        done.push((file.display().to_string(), header, report));
    }
    let is_equal = done.iter().all(|(_, _, report)| report.is_equal());
    let text = if args.json { format!("{:#}\n", bbrlab_replay::json(&done)) } else { table(&done) };
    print(&text)?;
    Ok(if is_equal { Verdict::Holds } else { Verdict::Fails })
}

fn one(file: &Path) -> Result<(Header, Report), Error> {
    Ok(replay_bytes(&inputs::log(file)?)?)
}

fn table(done: &[(String, Header, Report)]) -> String {
    let verdict = |report: &Report| if report.is_equal() { "equal" } else { "DIFFERENT" };
    let rows = done.iter().map(|(file, header, report)| {
        vec![
            Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            verdict(report).to_owned(),
            report.flows.to_string(),
            report.acks.to_string(),
            report.outputs.to_string(),
            header.kernel.clone(),
        ]
    });
    let heads = ["log", "", "flows", "ACKs", "outputs", "kernel"];
    let aligns = [Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Text];
    let mut text = aligned(&heads, &aligns, rows);
    let sum = |of: fn(&Report) -> u64| done.iter().map(|(_, _, report)| of(report)).sum::<u64>();
    text.push_str(&format!(
        "\n{}, {} of them ACKs; {} compared bit by bit.\n",
        counted(sum(|report| report.calls), "call"),
        sum(|report| report.acks),
        counted(sum(|report| report.outputs), "output")
    ));
    let seen: Vec<String> =
        summed(done, |report| &report.events).map(|(name, count)| format!("{name} {count}")).collect();
    text.push_str(&format!("Covered: {}.\n", seen.join(", ")));
    for (name, calls) in summed(done, |report| &report.explained) {
        text.push_str(&format!(
            "{} {} on an input that the tap cannot record: {name}.\n",
            counted(calls, "call"),
            if calls == 1 { "depends" } else { "depend" }
        ));
    }
    for (file, _, report) in done {
        if report.lost > 0 {
            text.push_str(&format!("{}: the tap lost {}; record it again\n", file, counted(report.lost, "call")));
        }
        if let Some(difference) = &report.difference {
            text.push_str(&described(file, difference));
        }
    }
    text
}

/// Counts by name, summed over all logs.
fn summed(done: &[(String, Header, Report)], of: fn(&Report) -> &Counts) -> impl Iterator<Item = (&'static str, u64)> {
    let mut all = Counts::new();
    for (name, count) in done.iter().flat_map(|(_, _, report)| of(report)) {
        *all.entry(name).or_default() += count;
    }
    all.into_iter()
}

fn described(file: &str, difference: &Difference) -> String {
    let Difference { record, unit, flow, output, kernel, core, context } = difference;
    format!(
        "\n{file}: connection {flow}, {unit} {record}: {output} is {kernel} in the kernel, {core} in core\n  {}\n",
        context.join("\n  ")
    )
}
