//! `bbrlab compare`: results, folders of results or scenarios side by side; and `bbrlab run` with alternatives of a flow.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bbrlab_lab::session::{Finished, Session};
use bbrlab_sim::record::result::{RunResult, SCHEMA};
use bbrlab_sim::scenario::ScenarioFile;
use bbrlab_sim::setup::Setup;
use bbrlab_study::compare::{self, Case, Comparison, MEASURES, Side};
use bbrlab_study::sweep::Row;
use clap::Args;
use serde_json::Value;

use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::progress::Progress;
use crate::provenance::provenance;
use crate::runner::Runner;
use crate::scenario::{load, trace_reader};
use crate::{Error, Verdict, inputs, print};

/// Extension of a result.
pub(super) const RESULT: &str = "json";
/// Separates the alternatives of a flow in `bbrlab run`.
const OR: char = '|';
/// Progress reports per run of the simulator.
const TICKS_A_RUN: usize = 100;

/// Flags of `bbrlab compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bbrlab compare cubic.json bbr3.json --report out/compare.html\n  \
        bbrlab compare before/ after/                    (results with the same file names)\n  \
        bbrlab compare cable.toml cable-codel.toml --repeat 10\n  \
        bbrlab run cable.toml --flow \"bbr3 | cubic\" --repeat 10\n\n\
        Differences are to the first. Runs with the same seed are compared in pairs.")]
pub struct CompareArgs {
    /// Results in JSON, folders of them, or scenarios, which are run; one folder alone: its results with each other
    #[arg(value_name = "FILE|DIR", required = true)]
    pub paths: Vec<PathBuf>,
    /// Run each scenario with this many seeds [default: its own]
    #[arg(long, value_name = "N", value_parser = crate::args::number(1..=100_000_u32))]
    pub repeat: Option<u32>,
    /// Write the comparison as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub report: Option<PathBuf>,
}

/// A side, with its first run's series if it was run here.
struct Loaded {
    side: Side,
    first: Option<(Finished<()>, Arc<Setup>)>,
}

/// Runs the command.
pub fn compare(args: &CompareArgs) -> Result<Verdict, Error> {
    let targets = Targets::check(args.json.as_deref(), args.report.as_deref())?;
    let paths = match args.paths.as_slice() {
        [only] if only.is_dir() => files_in(only, &[RESULT])?,
        [only] => return Err(Error::NothingToCompareWith(only.display().to_string())),
        several => several.to_vec(),
    };
    if paths.iter().filter(|path| inputs::is_stdin(path)).count() > 1 {
        return Err(Error::Rule { place: "-", rule: "standard input can be read only once; name a file" });
    }
    let names = names(&paths);
    let sides = paths.iter().zip(names).map(|(path, name)| read(path, name, args.repeat)).collect::<Result<_, _>>()?;
    show(sides, &targets)
}

/// The alternatives of a scenario's flows, one list of flows for each; none if no flow has alternatives.
pub fn alternatives(flows: &[String]) -> Result<Vec<(String, Vec<String>)>, Error> {
    let mut with: Vec<usize> = (0..flows.len()).filter(|&nth| flows[nth].contains(OR)).collect();
    let Some(nth) = with.pop() else { return Ok(Vec::new()) };
    if !with.is_empty() {
        return Err(Error::Rule { place: "--flow", rule: "two flows have alternatives; give them to one" });
    }
    let all: Vec<String> = flows[nth].split(OR).map(|one| one.trim().to_owned()).collect();
    if all.iter().any(String::is_empty) {
        return Err(Error::Rule { place: "--flow", rule: "an alternative is empty; write \"bbr3 | cubic\"" });
    }
    let of = |one: String| {
        // The compared flow comes first: measures are of the first flow.
        let others = flows.iter().enumerate().filter(|(other, _)| *other != nth).map(|(_, flow)| flow.clone());
        (one.clone(), std::iter::once(one).chain(others).collect())
    };
    Ok(all.into_iter().map(of).collect())
}

/// Runs scenarios that differ in a flow, and compares them.
pub fn of_scenarios(
    scenarios: Vec<(String, ScenarioFile)>,
    json: Option<&Path>,
    report: Option<&Path>,
) -> Result<Verdict, Error> {
    let targets = Targets::check(json, report)?;
    let sides = scenarios.into_iter().map(|(name, sourced)| run(name, &sourced)).collect::<Result<_, _>>()?;
    show(sides, &targets)
}

/// Destinations of the comparison.
struct Targets {
    json: Option<Target>,
    report: Option<Target>,
}

impl Targets {
    fn check(json: Option<&Path>, report: Option<&Path>) -> Result<Self, Error> {
        let own = Self { json: Target::asked("--json", json)?, report: Target::asked("--report", report)? };
        outputs::check_distinct(own.all())?;
        Ok(own)
    }

    fn all(&self) -> impl Iterator<Item = &Target> {
        self.json.iter().chain(&self.report)
    }
}

/// The files of a folder with one of these extensions, by name.
pub(super) fn files_in(folder: &Path, ends: &[&str]) -> Result<Vec<PathBuf>, Error> {
    paths_in(folder, |path| has_end(path, ends))
}

/// Paths in a folder that fulfil a condition, in the order of their names.
pub(super) fn paths_in(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(Error::at(folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| is_wanted(path)).collect();
    paths.sort();
    if paths.is_empty() {
        return Err(Error::NoResults(folder.display().to_string()));
    }
    Ok(paths)
}

pub(super) fn has_end(path: &Path, ends: &[&str]) -> bool {
    path.extension().is_some_and(|end| ends.iter().any(|one| end == *one))
}

/// Name of a file without its extension.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// File names without their ends where these differ, else the paths.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let short: Vec<String> = paths.iter().map(|path| stem(path)).collect();
    if short.iter().collect::<BTreeSet<_>>().len() == short.len() {
        return short;
    }
    paths.iter().map(|path| path.display().to_string()).collect()
}

/// Reads a folder or a result, or runs a scenario.
fn read(path: &Path, name: String, repeat: Option<u32>) -> Result<Loaded, Error> {
    if path.is_dir() {
        let files = files_in(path, &[RESULT])?;
        let cases = files.iter().map(|file| Ok((stem(file), results_of(file)?)));
        return Ok(Loaded { side: side(name, cases.collect::<Result<Vec<_>, Error>>()?)?, first: None });
    }
    if let Some(runs) = runs_of(path)? {
        return Ok(Loaded { side: side(name, vec![(String::new(), runs)])?, first: None });
    }
    let mut sourced = load(Some(path), std::iter::empty(), &[])?;
    if let Some(repeat) = repeat {
        sourced.set("repeat", &repeat.to_string())?;
    }
    run(name, &sourced)
}

/// The runs of a result's file.
pub(super) fn results_of(file: &Path) -> Result<Vec<RunResult>, Error> {
    runs_of(file)?.ok_or_else(|| not_a_result(file))
}

fn not_a_result(path: &Path) -> Error {
    Error::NotAResult(path.display().to_string())
}

/// The runs of a result's file; `None` if it holds something else, as a scenario.
fn runs_of(path: &Path) -> Result<Option<Vec<RunResult>>, Error> {
    if !has_end(path, &[RESULT]) {
        return Ok(None);
    }
    let shown = inputs::name(path);
    let text = inputs::scenario(path).map_err(Error::input(&shown, "a result in JSON"))?;
    let value: Value = serde_json::from_str(&text).map_err(|_| not_a_result(path))?;
    let Some(found) = value["schema"].as_u64() else { return Ok(None) };
    if found != u64::from(SCHEMA) {
        return Err(Error::ResultSchema { path: shown, found, known: SCHEMA });
    }
    let runs = match value["runs"].as_array() {
        Some(runs) => runs.clone(),
        None => vec![value],
    };
    let parsed = runs.into_iter().map(serde_json::from_value::<RunResult>).collect::<Result<Vec<_>, _>>();
    let parsed = parsed.map_err(|_| not_a_result(path))?;
    if parsed.is_empty() { Err(not_a_result(path)) } else { Ok(Some(parsed)) }
}

/// Builds a side of results, each resolved again for the properties of its path.
fn side(name: String, cases: Vec<(String, Vec<RunResult>)>) -> Result<Side, Error> {
    let mut color_key = name.clone();
    let mut version = String::new();
    let mut all = Vec::new();
    for (case, runs) in cases {
        let first = &runs[0];
        if let Some(flow) = first.flows.first() {
            color_key.clone_from(&flow.cc);
        }
        version.clone_from(&first.version);
        let scenario = first.scenario.clone();
        let rows = runs.iter().map(|run| {
            let text = run.scenario.to_string();
            let sourced = ScenarioFile::from_json(&text, "its scenario").map_err(Error::at(&name))?;
            let setup = sourced.resolve(&trace_reader).map_err(Error::at(&name))?;
            Ok(Row::new(&sourced.scenario, &setup, run))
        });
        all.push(Case { name: case, scenario, rows: rows.collect::<Result<_, Error>>()? });
    }
    Ok(Side { name, color_key, version, cases: all })
}

/// Runs a scenario with all its seeds.
fn run(name: String, sourced: &ScenarioFile) -> Result<Loaded, Error> {
    let session = Session::of(sourced, &trace_reader)?;
    let on = session.scenario.on;
    session.setups.iter().try_for_each(|setup| Runner::check(on, setup))?;
    let runner = Runner::of(on)?;
    let progress = Progress::new("running", session.setups.len() * TICKS_A_RUN);
    let mut finished = session.run(&runner, &|| progress.tick(), &|_, _, _| Ok(()))?;
    drop(progress);
    let runs = finished.iter().map(|one| one.result.clone()).collect();
    let side = side(name, vec![(String::new(), runs)])?;
    Ok(Loaded { side, first: Some((finished.swap_remove(0), session.setups[0].clone())) })
}

/// Compares, and writes what was asked for.
fn show(mut loaded: Vec<Loaded>, targets: &Targets) -> Result<Verdict, Error> {
    distinguish(&mut loaded);
    let sides: Vec<Side> = loaded.iter().map(|one| one.side.clone()).collect();
    let names: Vec<&str> = sides.iter().map(|side| &*side.name).collect();
    let title = names.join(", ");
    let found = Comparison::new(sides.clone()).ok_or_else(|| Error::NoCommonCase(title.clone()))?;
    if found.lines.is_empty() {
        return Err(Error::NoCommonMeasure(title));
    }
    let mut files = Vec::new();
    if let Some(report) = &targets.report {
        let overview = |one: &'_ Loaded| one.first.as_ref().is_some_and(|(run, _)| run.output.is_some());
        let overviews: Vec<_> = if loaded.iter().all(overview) {
            let parts = loaded.iter().filter_map(|one| one.first.as_ref());
            parts.filter_map(|(run, setup)| Some((&run.result, &run.output.as_ref()?.trace, &**setup))).collect()
        } else {
            Vec::new()
        };
        let mut page = compare::page(&found, &overviews, &title);
        page.provenance = provenance(&[]);
        let page = bbrlab_report::render(&page);
        files.extend(report.write(|to| to.write_all(page.as_bytes()))?);
    }
    if let Some(json) = &targets.json {
        files.extend(json.write(|to| {
            serde_json::to_writer_pretty(&mut *to, &compare::json(&found))?;
            to.write_all(b"\n")
        })?);
    }
    outputs::commit(files)?;
    if !outputs::take_stdout(targets.all()) {
        print(&table(&found))?;
    }
    Ok(Verdict::Holds)
}

/// Gives sides of one algorithm colours of their own.
fn distinguish(loaded: &mut [Loaded]) {
    for nth in 1..loaded.len() {
        let (before, own) = loaded.split_at_mut(nth);
        let key = own[0].side.color_key.clone();
        let same = before.iter().filter(|one| one.side.color_key.split('#').next() == Some(&key)).count();
        if same > 0 {
            own[0].side.color_key = format!("{key}#{same}");
        }
    }
}

fn table(found: &Comparison) -> String {
    let mut head = vec!["measure".to_owned()];
    head.extend(found.sides.iter().map(|side| side.name.clone()));
    let mut align = vec![Align::Left; 1];
    align.extend(vec![Align::Right; found.sides.len()]);
    for side in &found.sides[1..] {
        head.extend([
            format!("{} − {}", side.name, found.sides[0].name),
            "95 % interval".to_owned(),
            "outcome".to_owned(),
        ]);
        align.extend([Align::Right, Align::Right, Align::Left]);
    }
    let rows = found.main_lines().map(|line| {
        let measure = &MEASURES[line.measure];
        let mut cells = vec![measure.name.to_owned()];
        cells.extend(line.sides.iter().map(|side| compare::value(measure, side.median)));
        for estimate in &line.sides[1..] {
            cells.extend(compare::cells(measure, estimate));
        }
        cells
    });
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut text = aligned(&head, &align, rows.collect::<Vec<_>>());
    text += "\n";
    for (key, values) in &found.differing {
        text += &format!("differs     {key}: {}\n", values.join(" | "));
    }
    for note in compare::notes(found) {
        text += &format!("note        {note}\n");
    }
    text += &format!("answer      {}\n", compare::answer(found));
    text
}
