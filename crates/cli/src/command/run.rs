//! `bbrlab run`: runs one scenario, once or with several seeds, and writes its table and files.
//! Nothing is written for a scenario that could not run.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::Write;
use std::path::PathBuf;

use bbrlab_lab::BoxError;
use bbrlab_lab::session::{Finished, Session};
use bbrlab_sim::backend::Backend;
use bbrlab_sim::record::Output;
use bbrlab_sim::record::result::{Expectation, RunResult};
use bbrlab_sim::setup::Setup;
use clap::Args;
use serde_json::Value;

use crate::args::{AllKeys, KeyArgs, TraceArgs};
use crate::command::compare;
use crate::outputs::{self, PendingFile, Target};
use crate::progress::Progress;
use crate::provenance::provenance;
use crate::runner::{self, Runner};
use crate::scenario::{load, trace_reader};
use crate::traces::Traces;
use crate::{Error, Verdict, print, table};
use bbrlab_live::clock::Stopwatch;

/// Flags of `bbrlab run`; each of the first group is also a key of the scenario file.
#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:\n  \
        bbrlab run --rate 10mbit --rtt 40ms --buffer 1bdp --flow bbr1 --flow cubic@5s\n  \
        bbrlab run scenario.toml --seed 2 --report report.html --pcap sender.pcapng\n  \
        bbrlab run --flow \"bbr3 | cubic\" --flow reno --repeat 10\n\n\
        Units: rates bit, kbit, mbit, gbit (powers of 1000); times ns, us, ms, s; volumes B, kB, MB, GB, KiB, MiB, GiB.")]
pub struct RunArgs {
    /// Scenario in TOML, or the JSON of an earlier result; flags override it
    pub file: Option<PathBuf>,

    #[command(flatten)]
    pub keys: KeyArgs<AllKeys>,

    /// Write the result as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub traces: TraceArgs,
    /// Print no table
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// Progress reports per run of the simulator.
const TICKS_A_RUN: usize = 100;

/// Destinations of the results.
struct Outputs {
    json: Option<Target>,
    report: Option<Target>,
    traces: Traces,
}

/// Outputs kept from a run: its trace files, not yet renamed, and warnings for the user.
type KeptOutputs = (Vec<PendingFile>, Option<String>);

/// Runs the command.
pub fn run(args: &RunArgs) -> Result<Verdict, Error> {
    let alternatives = compare::alternatives(&args.keys.flows())?;
    if !alternatives.is_empty() {
        return compared(args, alternatives);
    }
    let sourced = load(args.file.as_deref(), args.keys.overrides(), &args.keys.flows())?;
    let on = sourced.scenario.filled().on;
    let mut session = Session::of(&sourced, &trace_reader)?;
    session.setups.iter().try_for_each(|setup| Runner::check(on, setup))?;
    let runner = Runner::of(on)?;
    let results = Outputs::check(args, session.setups.len(), &runner)?;
    session.set_capture(results.traces.capture);
    session.setups.iter().try_for_each(|setup| Runner::check(on, setup))?;
    let watch = Stopwatch::start();
    let doing = if on == Backend::Sim { "simulating" } else { "running" };
    let progress = Progress::new(doing, session.setups.len() * TICKS_A_RUN);
    let keep = |index: usize, setup: &Setup, output: &Output| -> Result<KeptOutputs, BoxError> {
        let files = results.traces.write(index, setup, output)?;
        Ok((files, results.traces.missing(setup, output).or_else(|| runner::warning(&output.result))))
    };
    let mut finished = session.run(&runner, &|| progress.tick(), &keep)?;
    drop(progress);
    let expectations = session.expectations(&finished);
    let document = session.document(&finished, watch.seconds())?;
    results.write(&document, &expectations, &mut finished, session.setups.first().map(AsRef::as_ref))?;
    for warning in finished.iter().filter_map(|one| one.kept.1.as_ref()) {
        // If standard error cannot be written there is no one to warn.
        let _ = writeln!(std::io::stderr(), "bbrlab: {warning}");
    }
    let holds = expectations.iter().all(|expectation| expectation.holds);
    if !args.quiet && !outputs::take_stdout(results.targets()) {
        print(&shown(&document, &finished, &expectations))?;
    }
    Ok(if holds { Verdict::Holds } else { Verdict::Fails })
}

/// Runs the scenario with each alternative of a flow, and compares them.
fn compared(args: &RunArgs, alternatives: Vec<(String, Vec<String>)>) -> Result<Verdict, Error> {
    if args.traces.are_asked() {
        let rule = "alternatives of a flow are compared in --json and --report; for traces run each alone";
        return Err(Error::Rule { place: "--flow", rule });
    }
    let load =
        |(name, flows): (String, Vec<String>)| Ok((name, load(args.file.as_deref(), args.keys.overrides(), &flows)?));
    let scenarios = alternatives.into_iter().map(load).collect::<Result<_, Error>>()?;
    compare::of_scenarios(scenarios, args.json.as_deref(), args.report.as_deref())
}

fn shown(document: &Value, finished: &[Finished<KeptOutputs>], expectations: &[Expectation]) -> String {
    let style = table::Style::of_stdout();
    let mut text = match (finished, finished.first().and_then(|one| one.output.as_ref())) {
        ([only], Some(output)) => table::run(&only.result, &output.trace, style),
        ([only], None) => table::run(&only.result, &Default::default(), style),
        _ => table::repeated(document, style),
    };
    text.push_str(&table::expectations(expectations, style));
    text
}

impl Outputs {
    fn check(args: &RunArgs, runs: usize, runner: &Runner) -> Result<Self, Error> {
        let outputs = Self {
            json: Target::asked("--json", args.json.as_deref())?,
            report: Target::asked("--report", args.report.as_deref())?,
            traces: Traces::check(&args.traces, runs, runner.backend().info())?,
        };
        let all: Vec<&Target> = outputs.targets().collect();
        outputs::check_distinct(all.iter().copied())?;
        if let Some(target) = all.iter().find(|target| args.file.as_deref().is_some_and(|file| target.is(file))) {
            let rule = "it names the scenario's own file; name another";
            return Err(Error::Rule { place: target.flag(), rule });
        }
        Ok(outputs)
    }

    fn targets(&self) -> impl Iterator<Item = &Target> {
        self.json.iter().chain(&self.report).chain(self.traces.targets())
    }

    /// Writes the remaining outputs, and gives all files their names.
    fn write(
        &self,
        document: &Value,
        expectations: &[Expectation],
        finished: &mut [Finished<KeptOutputs>],
        setup: Option<&Setup>,
    ) -> Result<(), Error> {
        let mut files = Vec::new();
        let first = finished.first().and_then(|one| one.output.as_ref());
        if let (Some(report), Some(output)) = (&self.report, first) {
            let page = match finished.len() {
                1 => bbrlab_report::for_run(&output.result, &output.trace, setup, provenance(&[])),
                _ => {
                    let results: Vec<&RunResult> = finished.iter().map(|one| &one.result).collect();
                    let run = (&output.trace, setup);
                    bbrlab_report::for_runs(&results, &document["summary"], expectations, run, provenance(&[]))
                }
            };
            let page = bbrlab_report::render(&page);
            files.extend(report.write(|to| to.write_all(page.as_bytes()))?);
        }
        if let Some(json) = &self.json {
            files.extend(json.write(|to| {
                serde_json::to_writer_pretty(&mut *to, document)?;
                to.write_all(b"\n")
            })?);
        }
        files.extend(finished.iter_mut().flat_map(|one| std::mem::take(&mut one.kept.0)));
        outputs::commit(files)
    }
}
