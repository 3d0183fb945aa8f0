//! `bbrlab run`: one scenario, once or with several seeds, its table and its files.
//! In: flags. Out: text and files. Never: a file written for a scenario that could not run.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use bbrlab_sim::record::Output;
use bbrlab_sim::record::packets::Packets;
use bbrlab_sim::record::result::{Expectation, RunResult};
use bbrlab_sim::scenario::{Scenario, Sourced};
use bbrlab_sim::setup::Setup;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::args::RunArgs;
use crate::clock::Watch;
use crate::outputs::{self, Target, Written};
use crate::progress::Progress;
use crate::traces::Traces;
use crate::worlds::{self, World};
use crate::{Failure, Verdict, expect, inputs, print, summary, table};

/// How often the simulator tells how far it is.
const TICKS_A_RUN: usize = 100;

/// Where the results go.
struct Outputs {
    json: Option<Target>,
    report: Option<Target>,
    traces: Traces,
}

/// One finished run.
struct Finished {
    /// The series, where something will read them.
    output: Option<Output>,
    result: RunResult,
    /// Its trace files, which wait for their names.
    files: Vec<Written>,
    /// What its user should know.
    warning: Option<String>,
}

/// Runs what the arguments say.
pub fn run(args: &RunArgs) -> Result<Verdict, Failure> {
    let sourced = load(args)?;
    let scenario = sourced.scenario.filled();
    let mut setups = setups(&sourced)?;
    setups.iter().try_for_each(|setup| World::check(scenario.on, setup))?;
    let world = World::of(scenario.on)?;
    expect::check(&scenario.expect)?;
    let outputs = Outputs::check(args, setups.len(), &world)?;
    for setup in &mut setups {
        Arc::make_mut(setup).capture = outputs.traces.capture;
    }
    let watch = Watch::start();
    let mut finished = run_all(&world, &scenario, &setups, &outputs)?;
    let wall_s = watch.seconds();
    let expectations = match finished.as_slice() {
        [only] => only.result.expect.clone(),
        _ => expect::medians(&scenario.expect, finished.iter().map(|one| &one.result)),
    };
    let document = document(&scenario, &finished, &expectations, wall_s)?;
    outputs.write(&document, &mut finished)?;
    for warning in finished.iter().filter_map(|one| one.warning.as_ref()) {
        // Where standard error cannot be written there is nobody to warn.
        let _ = writeln!(std::io::stderr(), "bbrlab: {warning}");
    }
    let holds = expectations.iter().all(|expectation| expectation.holds);
    if !args.quiet && !outputs.json.as_ref().is_some_and(Target::is_stdout) {
        print(&shown(&document, &finished, &expectations))?;
    }
    Ok(if holds { Verdict::Holds } else { Verdict::Fails })
}

fn load(args: &RunArgs) -> Result<Sourced, Failure> {
    let mut sourced = match &args.file {
        Some(path) => read(path)?,
        None => Sourced::default(),
    };
    args.overrides().try_for_each(|(key, text)| sourced.set(key, text))?;
    if !args.flow.is_empty() {
        let flows: Vec<String> = args
            .flow
            .iter()
            .enumerate()
            .map(|(nth, flow)| inputs::flow(flow).map_err(|error| format!("flow {}: {error}", nth + 1)))
            .collect::<Result<_, _>>()?;
        sourced.set_flows(&flows)?;
    }
    Ok(sourced)
}

fn read(path: &Path) -> Result<Sourced, Failure> {
    let shown = path.display();
    let text = inputs::scenario(path)
        .map_err(|error| format!("{shown}: {error}; name a scenario in TOML or the JSON of a result"))?;
    // A result names its trace from where the command ran.
    if text.trim_start().starts_with('{') {
        return Sourced::from_json(&text, &shown.to_string());
    }
    let mut sourced = Sourced::from_toml(&text, &shown.to_string())?;
    // A scenario names its trace from where it lies itself, so that both can move together.
    let beside = |trace: &mut String| {
        if let Some(dir) = path.parent().filter(|_| Path::new(trace).is_relative()) {
            *trace = dir.join(&*trace).to_string_lossy().into_owned();
        }
    };
    let scenario = &mut sourced.scenario;
    scenario.trace.iter_mut().chain(scenario.link.iter_mut().filter_map(|link| link.trace.as_mut())).for_each(beside);
    Ok(sourced)
}

/// The text of a delivery trace, or what is wrong with it.
pub fn trace_reader(file: &str) -> Result<String, String> {
    inputs::trace(Path::new(file)).map_err(|error| format!("{file:?}: {error}; name a mahimahi delivery trace"))
}

fn setups(sourced: &Sourced) -> Result<Vec<Arc<Setup>>, Failure> {
    let trace = trace_reader;
    let mut one = sourced.clone();
    // The first setup also checks the number of repetitions.
    let first = Arc::new(one.resolve(&trace)?);
    let mut setups = vec![first];
    for nth in 1..sourced.scenario.repeat {
        one.scenario.seed = sourced.scenario.seed.wrapping_add(nth.into());
        setups.push(Arc::new(one.resolve(&trace)?));
    }
    Ok(setups)
}

/// The one setup of these arguments, for a command that has its own way to run it.
pub fn one_setup(args: &RunArgs) -> Result<(Scenario, Arc<Setup>), Failure> {
    let sourced = load(args)?;
    let mut setups = setups(&sourced)?;
    Ok((sourced.scenario.filled(), setups.swap_remove(0)))
}

fn run_all(
    world: &World,
    scenario: &Scenario,
    setups: &[Arc<Setup>],
    outputs: &Outputs,
) -> Result<Vec<Finished>, Failure> {
    let progress =
        Progress::new(if matches!(world, World::Sim) { "simulating" } else { "running" }, setups.len() * TICKS_A_RUN);
    let one = |(index, setup): (usize, &Arc<Setup>)| {
        let watch = Watch::start();
        let own = Scenario { seed: setup.seed, repeat: 1, ..scenario.clone() };
        let mut output = world.run(&own, setup, &mut |_| progress.tick())?;
        output.result.scenario = serde_json::to_value(own).map_err(|error| format!("scenario: {error}"))?;
        output.result.on = scenario.on.name().to_owned();
        output.result.version = env!("CARGO_PKG_VERSION").to_owned();
        output.result.wall_s = watch.seconds();
        let (mut output, expectations) = expect::evaluate(&scenario.expect, setup, output)?;
        output.result.expect = expectations;
        let result = output.result.clone();
        let files = outputs.traces.write(index, setup, &output)?;
        let warning = outputs.traces.missing(setup, &output).or_else(|| worlds::warning(&result));
        // Series and packets are large: they stay only where something will read them.
        output.packets = Packets::default();
        Ok(Finished { result, output: (index == 0).then_some(output), files, warning })
    };
    if world.is_real_time() {
        return setups.iter().enumerate().map(one).collect();
    }
    setups.par_iter().enumerate().map(one).collect()
}

/// The result document: one run's own, or the summary of several with each of them.
fn document(
    scenario: &Scenario,
    finished: &[Finished],
    expectations: &[Expectation],
    wall_s: f64,
) -> Result<Value, Failure> {
    let values = finished
        .iter()
        .map(|one| serde_json::to_value(&one.result))
        .collect::<Result<Vec<Value>, _>>()
        .map_err(|error| format!("result: {error}"))?;
    if let [only] = values.as_slice() {
        return Ok(only.clone());
    }
    let first = &finished[0].result;
    Ok(json!({
        "schema": first.schema,
        "scenario": serde_json::to_value(scenario).map_err(|error| format!("scenario: {error}"))?,
        "on": first.on,
        "seed": scenario.seed,
        "version": first.version,
        "wall_s": wall_s,
        "summary": summary::summarise(&values, scenario.seed),
        "expect": expectations,
        "runs": values,
    }))
}

fn shown(document: &Value, finished: &[Finished], expectations: &[Expectation]) -> String {
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
    fn check(args: &RunArgs, runs: usize, world: &World) -> Result<Self, Failure> {
        let outputs = Self {
            json: Target::asked("--json", args.json.as_deref())?,
            report: Target::page(args.report.as_deref())?,
            traces: Traces::check(args, runs, world.taps())?,
        };
        let all: Vec<&Target> = outputs.json.iter().chain(&outputs.report).chain(outputs.traces.targets()).collect();
        outputs::check_distinct(all.iter().copied())?;
        if let Some(target) = all.iter().find(|target| args.file.as_deref().is_some_and(|file| target.is(file))) {
            return Err(format!("{}: it names the scenario's own file; name another", target.flag()));
        }
        Ok(outputs)
    }

    /// Writes what is not yet written, and gives all files their names.
    fn write(&self, document: &Value, finished: &mut [Finished]) -> Result<(), Failure> {
        let mut files = Vec::new();
        let first = finished.first().and_then(|one| one.output.as_ref());
        if let (Some(report), Some(output)) = (&self.report, first) {
            let page = bbrlab_lab::report::render(&bbrlab_lab::report::for_run(&output.result, &output.trace));
            files.extend(report.write(|to| to.write_all(page.as_bytes()))?);
        }
        if let Some(json) = &self.json {
            files.extend(json.write(|to| {
                serde_json::to_writer_pretty(&mut *to, document)?;
                to.write_all(b"\n")
            })?);
        }
        files.extend(finished.iter_mut().flat_map(|one| std::mem::take(&mut one.files)));
        outputs::commit(files)
    }
}
