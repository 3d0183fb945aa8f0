//! Experiments: a published claim as a file, its runs, its verdicts, its pictures.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod catalogue;
mod check;
mod figure;
mod file;
mod plan;
mod run;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use catalogue::{README, embedded, embedded_data};
pub use file::Grade;
pub use run::{Elsewhere, World, run, run_all, simulator};
pub use verdict::bounds_text;

use crate::cdn::{Population, Study};
use crate::report::{Figure, Heat, Table};
use file::ExperimentFile;

/// One claim of the catalogue, parsed and checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its number: `F8`.
    pub id: String,
    pub title: String,
    /// Where the claim was published.
    pub source: String,
    /// What the source claims, in our words.
    pub claim: String,
    /// Where the source contradicts itself or another.
    pub contradiction: Option<String>,
    /// The file that it was read from.
    pub origin: String,
    file: ExperimentFile,
    is_without_population: bool,
    /// A marked row that holds is noted, not an error.
    is_lenient: bool,
    data: BTreeMap<String, Arc<str>>,
}

/// Why an experiment could not be read or run: where, what it held, what would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentError(pub String);

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ExperimentError {}

/// Whether an expectation was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The measured value lies within the expected bounds.
    Holds,
    /// It does not, the catalogue says so, and says why.
    FallsShort { reason: String },
    /// It does not; or it does although the file says that it misses.
    Fails,
    /// It needs a run that this world cannot do.
    NotHere,
}

/// One measured figure with its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What is measured.
    pub what: String,
    /// What is expected, in words and numbers.
    pub expected: String,
    /// True if the bounds are not published but chosen by the author of the file.
    pub is_ours: bool,
    /// What was measured; NaN where there was nothing to measure.
    pub measured: f64,
    /// Its unit; may be empty.
    pub unit: String,
    /// How well the expected value is known.
    pub grade: Option<Grade>,
    /// Whether it holds.
    pub verdict: Verdict,
    /// What the reader must know besides, such as a mark that is out of date.
    pub note: Option<String>,
}

/// What an experiment brought.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentOutcome {
    pub id: String,
    pub title: String,
    /// Where the claim was published.
    pub source: String,
    /// What the source claims.
    pub claim: String,
    /// Where the source contradicts itself.
    pub contradiction: Option<String>,
    pub rows: Vec<Row>,
    pub figures: Vec<Figure>,
    /// The maps of a population.
    pub heats: Vec<Heat>,
    /// One row a run, or a class of a population.
    pub runs: Table,
    /// The population, where there is one.
    pub study: Option<Arc<Study>>,
}

impl ExperimentOutcome {
    /// Whether no row fails (a row that is marked as an explained miss does not).
    pub fn passes(&self) -> bool {
        self.rows.iter().all(|row| row.verdict != Verdict::Fails)
    }
}

impl Experiment {
    /// How many runs it takes.
    pub fn run_count(&self) -> usize {
        let population = self.file.population.as_ref().map_or(0, |all| all.count() * all.algorithms.len());
        plan::plan(&self.file).map_or(0, |(_, runs)| runs.len()) + population
    }

    /// Its population, to be changed, where it has one.
    pub const fn population(&mut self) -> Option<&mut Population> {
        self.file.population.as_mut()
    }

    /// For worlds or seeds other than those that the marks are for: a marked row that holds is noted, not an error.
    pub const fn lenient(&mut self) {
        self.is_lenient = true;
    }

    /// For real kernels: they cannot run a population, whose rows are then not measured, and have marks of their own.
    pub fn on_a_kernel(&mut self) {
        self.lenient();
        self.is_without_population = self.file.population.is_some();
        for expect in &mut self.file.expect {
            let marks = std::mem::take(&mut expect.kernel_short);
            expect.short.extend(marks);
        }
    }
}

/// Reads one experiment and checks all of it that can be checked without running it. `origin` names the file in errors.
pub fn parse(text: &str, origin: &str) -> Result<Experiment, ExperimentError> {
    let file: ExperimentFile = toml::from_str(text).map_err(|e| ExperimentError(format!("{origin}: {e}")))?;
    check::check(&file).map_err(|e| ExperimentError(format!("{origin}: {e}")))?;
    Ok(Experiment {
        id: file.id.clone(),
        title: file.title.clone(),
        source: file.source.clone(),
        claim: file.claim.trim().to_owned(),
        contradiction: file.contradiction.as_ref().map(|c| c.trim().to_owned()),
        origin: origin.to_owned(),
        file,
        is_without_population: false,
        is_lenient: false,
        data: embedded_data(),
    })
}

/// Reads every `*.toml` in a directory and its sub-directories, in the order of their paths, and `data/*.csv` beside them.
pub fn load_dir(dir: &Path) -> Result<Vec<Experiment>, ExperimentError> {
    let mut files = Vec::new();
    collect(dir, &mut files)?;
    files.sort();
    let mut data = embedded_data();
    let mut experiments = Vec::new();
    for path in &files {
        let text = std::fs::read_to_string(path).map_err(|e| ExperimentError(format!("{}: {e}", path.display())))?;
        if path.extension().is_some_and(|e| e == "toml") {
            experiments.push(parse(&text, &path.display().to_string())?);
        } else if let Some(name) = path.file_name() {
            data.insert(name.to_string_lossy().into_owned(), text.into());
        }
    }
    for experiment in &mut experiments {
        experiment.data.clone_from(&data);
    }
    Ok(experiments)
}

fn collect(dir: &Path, files: &mut Vec<std::path::PathBuf>) -> Result<(), ExperimentError> {
    let error = |e: std::io::Error| ExperimentError(format!("{}: {e}; name a directory of experiments", dir.display()));
    for entry in std::fs::read_dir(dir).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if path.is_dir() {
            collect(&path, files)?;
        } else if matches!(extension, "toml" | "csv" | "mahi") {
            files.push(path);
        }
    }
    Ok(())
}
