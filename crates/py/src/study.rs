//! Populations of paths and users: advice, tuning, studies of users, and replays of recorded logs.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use bbrlab_lab::population::{self, Changes, Work};
use bbrlab_report::Report;
use bbrlab_study::cdn::{Population as Users, UserRun, table};
use bbrlab_study::choose::advise::{Request, text};
use bbrlab_study::choose::objective::Objective;
use bbrlab_study::choose::tune as search;
use bbrlab_study::{measured, paths};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use crate::{error, interrupt};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A finished study.
#[pyclass(frozen, module = "bbrlab")]
pub struct Answer {
    /// The command's document.
    #[pyo3(get)]
    document: String,
    /// Its first sentence, where the command has one.
    #[pyo3(get)]
    headline: String,
    /// Parameter file of a tuning; empty for the other studies.
    #[pyo3(get)]
    file: String,
    report: Report,
}

#[pymethods]
impl Answer {
    /// The report of the command, as one HTML page.
    fn html(&self, command: &str) -> String {
        let mut report = self.report.clone();
        command.clone_into(&mut report.provenance.command);
        bbrlab_report::render(&report)
    }
}

/// Runs a study, whose `tick` ends it after a signal.
fn run<T: Send>(py: Python<'_>, work: impl FnOnce(&(dyn Fn() + Sync)) -> T + Send) -> PyResult<T> {
    interrupt::run(py, |is_interrupted: &AtomicBool| {
        work(&|| {
            if is_interrupted.load(Ordering::Relaxed) {
                resume_unwind(Box::new(()));
            }
        })
    })
}

fn bytes(path: &str) -> PyResult<Vec<u8>> {
    fs::read(path).map_err(|fault| io::Error::new(fault.kind(), format!("{path}: {fault}")).into())
}

fn text_of(path: &str) -> PyResult<String> {
    String::from_utf8(bytes(path)?).map_err(|_| error::scenario(path, "not a text file"))
}

/// A table of Python, given as JSON, as the TOML of a file.
fn toml_of(json: &str) -> PyResult<String> {
    let value: Value = serde_json::from_str(json).map_err(|fault| error::internal(&fault.to_string()))?;
    toml::to_string(&value).map_err(|fault| error::scenario("population", &fault.to_string()))
}

/// Advises on paths. `request` is JSON; `source` is (kind, value): the path of a measurement or a population, or a population as
/// TOML or JSON.
#[pyfunction]
#[pyo3(signature = (request, source, trace))]
pub fn advise(
    py: Python<'_>,
    request: &str,
    source: Option<(String, String)>,
    trace: Option<String>,
) -> PyResult<Answer> {
    let mut request: Request =
        serde_json::from_str(request).map_err(|fault| error::scenario("advise", &fault.to_string()))?;
    if let Some((kind, value)) = source {
        match kind.as_str() {
            "measurement" => {
                let connections = measured::read(&text_of(&value)?).map_err(|fault| error::at(&value, &fault))?;
                request.evidence = Some((value, measured::evidence(&connections)));
            }
            _ => request.population = Some(paths_of(&kind, &value)?),
        }
    }
    request.trace = match trace {
        Some(path) => Some((path.clone(), text_of(&path)?)),
        None => None,
    };
    let prepared = request.prepare().map_err(|fault| error::study(&fault))?;
    let answer = run(py, |tick| prepared.answer(tick))?.map_err(|fault| error::study(&fault))?;
    Ok(Answer {
        document: format!("{:#}", answer.json(VERSION)),
        headline: text::headline(&answer.advice, answer.objective),
        file: String::new(),
        report: answer.report(VERSION),
    })
}

/// Reads a population of paths.
fn paths_of(kind: &str, value: &str) -> PyResult<paths::Population> {
    let (place, text) = match kind {
        "path" => (value, text_of(value)?),
        "json" => ("population", toml_of(value)?),
        _ => ("population", value.to_owned()),
    };
    paths::Population::from_toml(&text).map_err(|fault| error::at(place, &fault))
}

/// The parameters to search, and how long.
#[derive(Deserialize)]
struct Search {
    algorithm: String,
    parameters: Vec<String>,
    objective: String,
    settings: usize,
    generations: usize,
    paths: u64,
    held_out: u64,
    seed: u64,
    rivals: bool,
}

impl Search {
    fn budget(&self) -> PyResult<search::Budget> {
        let Self { settings, generations, paths, held_out, .. } = *self;
        for (name, value, least) in [
            ("settings", settings as u64, 4),
            ("generations", generations as u64, 1),
            ("paths", paths, 1),
            ("held_out", held_out, 2),
        ] {
            if value < least {
                return Err(error::scenario(name, &format!("{value} is out of range; pass at least {least}")));
            }
        }
        Ok(search::Budget { settings, generations, paths, held_out })
    }
}

/// Tunes an algorithm's parameters for a population of paths. `search` is JSON, `population` as in `advise`.
#[pyfunction]
pub fn tune(py: Python<'_>, search: &str, population: (String, String)) -> PyResult<Answer> {
    let wanted: Search = serde_json::from_str(search).map_err(|fault| error::scenario("tune", &fault.to_string()))?;
    let objective = Objective::named(&wanted.objective).map_err(|fault| error::at("objective", &fault))?;
    let budget = wanted.budget()?;
    let mut population = paths_of(&population.0, &population.1)?;
    if !wanted.rivals {
        population = population.without_rivals();
    }
    let Search { algorithm, parameters, seed, .. } = &wanted;
    let tuned = run(py, |tick| search::tune(&population, algorithm, parameters, objective, budget, *seed, tick))?;
    let tuned = tuned.map_err(|fault| error::study(&fault))?;
    let answer = search::Answer { tuned: &tuned, population: &population, objective, seed: *seed };
    Ok(Answer {
        document: format!("{:#}", answer.json(VERSION)),
        headline: search::verdict(&tuned),
        file: answer.file(VERSION),
        report: answer.report(VERSION),
    })
}

/// The users of `cdn`. `source` is (kind, content): the content of a file, by its ending, or a population as JSON; without one they are
/// the catalogue's. `place` names it in errors.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct UsersOf {
    source: Option<(String, Vec<u8>)>,
    place: String,
    algorithms: Option<Vec<String>>,
    users: Option<u32>,
    activation: Option<String>,
    seed: u64,
}

impl UsersOf {
    fn work(&self) -> PyResult<Work> {
        let changes =
            Changes { algorithms: self.algorithms.clone(), users: self.users, activation: self.activation.clone() };
        let at = |fault: &bbrlab_study::Error| error::at(&self.place, fault);
        let work = match &self.source {
            None => Work::catalogue(&changes, self.seed),
            Some((kind, content)) => match kind.as_str() {
                "csv" => Work::table(&table::csv(content).map_err(|fault| at(&fault))?, &changes, self.seed),
                "parquet" => {
                    let sheet = table::parquet(content.clone()).map_err(|fault| at(&fault))?;
                    Work::table(&sheet, &changes, self.seed)
                }
                "toml" | "json" => {
                    let text = String::from_utf8(content.clone());
                    let text = text.map_err(|_| error::scenario(&self.place, "not a text file"))?;
                    let text = if kind == "json" { toml_of(&text)? } else { text };
                    let population = Users::parse(&text).map_err(|fault| at(&fault))?;
                    Work::distributions(population, &changes, self.seed)
                }
                _ => {
                    let rule = "not a .toml, .csv or .parquet file; name one of these";
                    return Err(error::scenario(&self.place, rule));
                }
            },
        };
        work.map_err(|fault| error::lab(&fault))
    }

    fn answer(&self, answer: &population::Answer) -> Answer {
        let title = match &self.source {
            Some((kind, _)) if kind == "toml" || kind == "json" => &self.place,
            Some(_) | None => "An algorithm on the users of a content network",
        };
        Answer {
            document: format!("{:#}", answer.json(VERSION)),
            headline: String::new(),
            file: String::new(),
            report: answer.report(title, VERSION),
        }
    }
}

/// Runs users under every algorithm.
#[pyfunction]
pub fn cdn(py: Python<'_>, of: UsersOf) -> PyResult<Answer> {
    let work = of.work()?;
    let answer = run(py, |tick| work.run(of.seed, tick))?.map_err(|fault| error::lab(&fault))?;
    Ok(of.answer(&answer))
}

/// Number of runs of users.
#[pyfunction]
pub fn cdn_count(of: UsersOf) -> PyResult<usize> {
    Ok(of.work()?.runs())
}

/// Runs some of the users' runs. Returns them as JSON.
#[pyfunction]
pub fn cdn_part(py: Python<'_>, of: UsersOf, from: usize, below: usize) -> PyResult<String> {
    let mut work = of.work()?;
    let runs = run(py, |tick| work.run_part(from..below, of.seed, tick))?.map_err(|fault| error::lab(&fault))?;
    serde_json::to_string(&runs).map_err(|fault| error::scenario("cdn", &fault.to_string()))
}

/// Concludes from all runs, which `cdn_part` returned, in their order.
#[pyfunction]
pub fn cdn_conclude(of: UsersOf, parts: Vec<String>) -> PyResult<Answer> {
    let read = |part: &String| serde_json::from_str::<Vec<UserRun>>(part);
    let runs = parts.iter().map(read).collect::<Result<Vec<_>, _>>();
    let runs = runs.map_err(|fault| error::scenario("cdn", &fault.to_string()))?.concat();
    let answer = of.work()?.conclude(&runs, of.seed).map_err(|fault| error::lab(&fault))?;
    Ok(of.answer(&answer))
}

/// Reports one experiment on the hosts with these directories. `classes` is a file of networks.
#[cfg(target_os = "linux")]
#[pyfunction]
#[pyo3(signature = (dirs, classes, seed))]
pub fn ab_report(py: Python<'_>, dirs: Vec<String>, classes: Option<String>, seed: u64) -> PyResult<Answer> {
    use bbrlab_study::ab;

    let classes = classes.map(|path| Ok::<_, PyErr>((text_of(&path)?, path))).transpose()?;
    let dirs: Vec<PathBuf> = dirs.into_iter().map(PathBuf::from).collect();
    let host = |fault: bbrlab_host::Error| error::scenario("ab", &fault.to_string());
    run(py, |tick| {
        let evidence = bbrlab_host::ab::Evidence::open(&dirs).map_err(host)?;
        tick();
        let prefixes = prefixes(classes, evidence.keep())?;
        let (test, found) = evidence.judge(&prefixes, seed).map_err(host)?;
        Ok::<_, PyErr>(Answer {
            document: format!("{:#}", ab::json(&test, &found, VERSION)),
            headline: ab::answer(&test, &found),
            file: ab::policy(&test, &found, &prefixes, VERSION),
            report: ab::report(&test, &found, VERSION),
        })
    })?
}

/// Summarises the records of a host. Returns the file of `bbrlab ab summary`.
#[cfg(target_os = "linux")]
#[pyfunction]
#[pyo3(signature = (dir, classes, seed))]
pub fn ab_summary(py: Python<'_>, dir: String, classes: Option<String>, seed: u64) -> PyResult<String> {
    let classes = classes.map(|path| Ok::<_, PyErr>((text_of(&path)?, path))).transpose()?;
    let host = |fault: bbrlab_host::Error| error::scenario("ab", &fault.to_string());
    run(py, |_| {
        let (test, records) = bbrlab_host::ab::read_all(&[PathBuf::from(dir)]).map_err(host)?;
        let prefixes = prefixes(classes, test.keep)?;
        let summary = bbrlab_study::ab::Summary::of(&test, &records, &prefixes, seed).map_err(host)?;
        serde_json::to_string(&summary).map_err(|fault| error::scenario("ab", &fault.to_string()))
    })?
}

/// Parses a file of client classes.
#[cfg(target_os = "linux")]
fn prefixes(
    classes: Option<(String, String)>,
    keep: bbrlab_study::ab::PrefixLengths,
) -> PyResult<bbrlab_study::ab::Prefixes> {
    use bbrlab_study::ab::Prefixes;

    let parsed = classes.map(|(text, path)| Prefixes::parse(&text, keep).map_err(|fault| error::at(&path, &fault)));
    Ok(parsed.transpose()?.unwrap_or_default())
}

/// Replays recorded logs. Returns the document of `bbrlab replay --json`.
#[pyfunction]
pub fn replay(py: Python<'_>, files: Vec<String>) -> PyResult<String> {
    let logs = run(py, |tick| {
        let one = |file: String| {
            tick();
            let bytes = bytes(&file)?;
            let (header, report) =
                bbrlab_replay::replay_bytes(&bytes).map_err(|fault| error::scenario(&file, &fault.to_string()))?;
            Ok((file, header, report))
        };
        files.into_iter().map(one).collect::<PyResult<Vec<_>>>()
    })??;
    Ok(format!("{:#}", bbrlab_replay::json(&logs)))
}
