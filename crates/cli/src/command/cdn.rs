//! `bbrlab cdn`: runs each user of a population under every algorithm, as an A/B test of a content network.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::{Path, PathBuf};

use bbrlab_lab::experiment::ExperimentOutcome;
use bbrlab_lab::population::{Changes, Work};
use bbrlab_stats::plural::counted;
use bbrlab_study::cdn::{self, Population, Segment, Study, table};
use clap::Args;

use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::progress::Progress;
use crate::provenance::provenance;
use crate::{Error, Verdict, claims, inputs, print};

/// Title of the page for the catalogue's population.
const TITLE: &str = "An algorithm on the users of a content network";

/// Flags of `bbrlab cdn`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bbrlab cdn --report out/cdn.html\n  \
        bbrlab cdn --users 200 --algorithms bbr3,cubic\n  \
        bbrlab cdn examples/paths.csv --report out/mine.html\n\n\
        Exit status 1 if an expectation of the catalogue's population fails; other populations have none. The files are \
        described in docs/cdn.md.")]
pub struct CdnArgs {
    /// Users as distributions (.toml), or one row per object (.csv, .parquet) [default: the population of experiment CDN]
    pub file: Option<PathBuf>,
    /// Algorithms in the syntax of --flow; the first is the one activated, the last is the control with which the
    /// others are compared; separate with `;` instead of commas if one has parameters [default: bbr1,cubic]
    #[arg(long, value_name = "CC,…")]
    pub algorithms: Option<String>,
    /// Number of users per class, for populations of distributions
    #[arg(long, value_name = "N", value_parser = crate::args::number::<u32>(1..=1_000_000))]
    pub users: Option<u32>,
    /// Time at which the hosts under test switch to the first algorithm [default: half-way]
    #[arg(long, value_name = "TIME")]
    pub activation: Option<String>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true, value_parser = crate::args::seed)]
    pub seed: u64,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write the gains as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

/// Runs the command.
pub fn cdn(args: &CdnArgs) -> Result<Verdict, Error> {
    crate::start_threads()?;
    let work = work(args)?;
    let json = Target::asked("--json", args.json.as_deref())?;
    let report = Target::asked("--report", args.report.as_deref())?;
    outputs::check_distinct(json.iter().chain(&report))?;
    let progress = Progress::new("serving", work.runs());
    let answer = work.run(args.seed, &|| progress.tick())?;
    drop(progress);
    let version = env!("CARGO_PKG_VERSION");
    let mut files = Vec::new();
    if let Some(report) = &report {
        let title = args.file.as_deref().map_or(TITLE.to_owned(), inputs::name);
        let mut page = answer.report(&title, version);
        page.provenance.command = provenance(&[]).command;
        let page = bbrlab_report::render(&page);
        files.extend(report.write(|to| to.write_all(page.as_bytes()))?);
    }
    if let Some(json) = &json {
        let value = answer.json(version);
        files.extend(json.write(|to| writeln!(to, "{value:#}"))?);
    }
    outputs::commit(files)?;
    if !outputs::take_stdout(json.iter().chain(&report)) {
        print(&shown(&answer.study, answer.outcome.as_ref()))?;
    }
    Ok(if answer.outcome.is_none_or(|outcome| outcome.passes()) { Verdict::Holds } else { Verdict::Fails })
}

/// Reads the users from the file, or from the catalogue.
fn work(args: &CdnArgs) -> Result<Work, Error> {
    let algorithms = args.algorithms.as_deref().map(inputs::algorithms).transpose();
    let changes = Changes {
        algorithms: algorithms.map_err(Error::flag("--algorithms"))?,
        users: args.users,
        activation: args.activation.clone(),
    };
    // Errors of the flags come before those of the file.
    changes.check().map_err(of_flags)?;
    let Some(path) = &args.file else {
        return Work::catalogue(&changes, args.seed).map_err(of_flags);
    };
    let shown = inputs::name(path);
    let fault = |error| Error::Population { file: shown.clone(), source: Box::new(error) };
    let bytes = inputs::table(path).map_err(Error::input(&shown, "a population or a table"))?;
    match kind(path, &bytes)? {
        PopulationFormat::Distributions => {
            let text = String::from_utf8(bytes)
                .map_err(|_| Error::FileRule { file: shown.clone(), rule: "not a text file" })?;
            let population = Population::parse(&text).map_err(fault)?;
            Work::distributions(population, &changes, args.seed).map_err(Error::at(&shown))
        }
        PopulationFormat::Table(read) => {
            changes.check_of_table().map_err(of_flags)?;
            let sheet = read(bytes).map_err(fault)?;
            Work::table(&sheet, &changes, args.seed).map_err(|error| match error {
                bbrlab_lab::Error::Study(error) => fault(error),
                other => Error::Lab(other),
            })
        }
    }
}

/// Errors of values that flags have set.
fn of_flags(error: bbrlab_lab::Error) -> Error {
    match error {
        bbrlab_lab::Error::Study(error) => Error::of_key(error),
        other => Error::Lab(other),
    }
}

/// Format of a population.
enum PopulationFormat {
    Distributions,
    Table(fn(Vec<u8>) -> bbrlab_study::Result<table::Sheet>),
}

/// Detects the format by the file's extension; for standard input, by its first bytes.
fn kind(path: &Path, bytes: &[u8]) -> Result<PopulationFormat, Error> {
    let extension = match path.extension().and_then(|extension| extension.to_str()) {
        None if inputs::is_stdin(path) => begins_as(bytes),
        extension => extension,
    };
    let fault = |rule| Error::FileRule { file: inputs::name(path), rule };
    match extension {
        Some("toml") => Ok(PopulationFormat::Distributions),
        Some("csv") => Ok(PopulationFormat::Table(|bytes| table::csv(&bytes))),
        #[cfg(feature = "parquet")]
        Some("parquet") => Ok(PopulationFormat::Table(table::parquet)),
        #[cfg(not(feature = "parquet"))]
        Some("parquet") => Err(fault("this build cannot read Parquet; name a .csv")),
        _ => Err(fault("not a .toml, .csv or .parquet file; name one of these")),
    }
}

fn begins_as(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"PAR1") {
        return Some("parquet");
    }
    let is_note = |line: &&[u8]| line.trim_ascii().is_empty() || line.trim_ascii().starts_with(b"#");
    let line = bytes.split(|byte| *byte == b'\n').find(|line| !is_note(line))?;
    let is_toml = line.trim_ascii().starts_with(b"[") || line.contains(&b'=');
    Some(if is_toml { "toml" } else { "csv" })
}

/// Describes the cost of the gains to others, in a sentence.
fn rivals(study: &Study) -> String {
    let control = &study.design.algorithms[study.control()];
    let mut text = String::new();
    for arm in 0..study.control() {
        let others = study.rivals(arm, &Segment::default());
        let name = &study.design.algorithms[arm];
        text += &match others.users {
            0 => continue,
            users => format!(
                "rivals' rate with {name}, relative to that with {control}: {:+.0} % ({:+.0} to {:+.0}), the median over the \
                 {users} users with rivals\n",
                100.0 * others.gain,
                100.0 * others.low,
                100.0 * others.high
            ),
        };
    }
    if text.is_empty() {
        text += "no user has rivals on its path, so this does not show what others lose; add rivals to see it\n";
    }
    text
}

fn shown(study: &Study, outcome: Option<&ExperimentOutcome>) -> String {
    let table = cdn::rows(study);
    let head: Vec<&str> = table.columns.iter().map(String::as_str).collect();
    let align: Vec<Align> =
        (0..head.len()).map(|column| if matches!(column, 0..=2 | 6) { Align::Left } else { Align::Right }).collect();
    let mut text = aligned(&head, &align, table.rows);
    text += &format!(
        "\n{}, each under {}; gains are medians over users with 95 % bootstrap intervals\n",
        counted(study.users.len(), "user"),
        study.design.algorithms.join(" and ")
    );
    text += &rivals(study);
    if let Some(outcome) = outcome {
        text += "\n";
        text += &claims::shown(std::slice::from_ref(outcome));
    }
    text
}
