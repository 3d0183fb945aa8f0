//! Experiments: published claims as files, with their runs, verdicts and figures.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod catalogue;
mod check;
mod figure;
mod file;
mod plan;
mod rows;
mod run;
mod verdict;
mod write;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub use catalogue::{README, embedded, embedded_data};
pub use file::Grade;
pub use rows::{claim_rows, measured, notes, verdict};
pub use run::{RunError, RunSetup, run, run_all, simulator};
pub use verdict::bounds_text;
pub use write::{HeldCounts, json};

use bbrlab_report::{Figure, Heat, Table};
use bbrlab_study::cdn::{Population, Study};
use file::ExperimentFile;

use crate::{Error, Result};

/// One claim of the catalogue, parsed and checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Identifier: `F8`.
    pub id: String,
    pub title: String,
    /// Publication of the claim.
    pub source: String,
    /// Claim of the source, in our words.
    pub claim: String,
    /// Contradiction within the source or with another one.
    pub contradiction: Option<String>,
    /// File from which it was read.
    pub origin: String,
    file: ExperimentFile,
    is_without_population: bool,
    /// The study of its population, if it was run elsewhere.
    finished: Option<Arc<Study>>,
    /// A marked row that holds is noted, not an error.
    is_lenient: bool,
    data: BTreeMap<String, Arc<str>>,
}

/// Verdict of an expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The measured value lies within the expected bounds.
    Holds,
    /// The row misses as documented in the catalogue, with the reason.
    FallsShort { reason: String },
    /// The row misses without a mark, or holds although the file marks it as a miss.
    Fails,
    /// The row needs a run that this backend cannot do.
    NotHere,
}

impl Verdict {
    /// Reason for which a row does not hold, if it is known.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::FallsShort { reason } => Some(reason),
            Self::NotHere => Some("it needs a run that this backend cannot do"),
            Self::Holds | Self::Fails => None,
        }
    }
}

/// One measured value with its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the measured value.
    pub what: String,
    /// Expected value, in words and numbers.
    pub expected: String,
    /// True if the bounds were not published but chosen by the author of the file.
    pub is_ours: bool,
    /// Measured value; NaN if there was none.
    pub measured: f64,
    /// Unit; may be empty.
    pub unit: String,
    /// Quality of the source of the expected value.
    pub grade: Option<Grade>,
    pub verdict: Verdict,
    /// Further information for the reader, such as an outdated mark.
    pub note: Option<String>,
}

/// Result of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentOutcome {
    pub id: String,
    pub title: String,
    /// Publication of the claim.
    pub source: String,
    /// Claim of the source.
    pub claim: String,
    /// Contradiction within the source.
    pub contradiction: Option<String>,
    pub rows: Vec<Row>,
    pub figures: Vec<Figure>,
    /// Maps of a population.
    pub heats: Vec<Heat>,
    /// One row per run, or per class of a population.
    pub runs: Table,
    /// Population study, if there is one.
    pub study: Option<Arc<Study>>,
}

impl ExperimentOutcome {
    /// Returns true if no row fails; a row that is marked as an explained miss does not count as failed.
    pub fn passes(&self) -> bool {
        self.rows.iter().all(|row| row.verdict != Verdict::Fails)
    }
}

impl Experiment {
    /// Number of runs.
    pub fn run_count(&self) -> usize {
        let population = self.file.population.as_ref().map_or(0, |all| all.count() * all.algorithms.len());
        plan::plan(&self.file).map_or(0, |(_, runs)| runs.len()) + population
    }

    /// Takes the study of its population, which is not run again.
    pub fn finish(&mut self, study: Study) {
        self.finished = Some(Arc::new(study));
    }

    /// Mutable access to the population, if there is one.
    pub const fn population(&mut self) -> Option<&mut Population> {
        self.file.population.as_mut()
    }

    /// Selects lenient marks, for other backends or seeds than those of the marks: a marked row that holds is noted,
    /// not an error.
    pub const fn lenient(&mut self) {
        self.is_lenient = true;
    }

    /// Adapts the experiment to real kernels, which have marks of their own and cannot run a population; its rows are
    /// not measured.
    pub fn on_a_kernel(&mut self) {
        self.lenient();
        self.is_without_population = self.file.population.is_some();
        for expect in &mut self.file.expect {
            let marks = std::mem::take(&mut expect.kernel_short);
            expect.short.extend(marks);
        }
    }
}

/// Reads one experiment and checks everything that does not need a run. `origin` names the file in errors.
pub fn parse(text: &str, origin: &str) -> Result<Experiment> {
    let file: ExperimentFile = toml::from_str(text).map_err(Error::at(origin))?;
    check::check(&file).map_err(Error::at(origin))?;
    Ok(Experiment {
        id: file.id.clone(),
        title: file.title.clone(),
        source: file.source.clone(),
        claim: file.claim.trim().to_owned(),
        contradiction: file.contradiction.as_ref().map(|c| c.trim().to_owned()),
        origin: origin.to_owned(),
        file,
        is_without_population: false,
        finished: None,
        is_lenient: false,
        data: embedded_data(),
    })
}

/// Reads every `*.toml` in a directory and its sub-directories, in the order of their paths, and `data/*.csv` beside them; at least one.
pub fn load_dir(dir: &Path) -> Result<Vec<Experiment>> {
    let mut files = Vec::new();
    collect(dir, &mut files)?;
    files.sort();
    let mut data = embedded_data();
    let mut experiments = Vec::new();
    for path in &files {
        let text = std::fs::read_to_string(path).map_err(|source| Error::File { path: path.clone(), source })?;
        if path.extension().is_some_and(|e| e == "toml") {
            experiments.push(parse(&text, &path.display().to_string())?);
        } else if let Some(name) = path.file_name() {
            data.insert(name.to_string_lossy().into_owned(), text.into());
        }
    }
    if experiments.is_empty() {
        return Err(Error::NoFiles { path: dir.to_owned(), wanted: "experiments" });
    }
    for experiment in &mut experiments {
        experiment.data.clone_from(&data);
    }
    Ok(experiments)
}

fn collect(dir: &Path, files: &mut Vec<std::path::PathBuf>) -> Result<()> {
    let error = |source| Error::Directory { path: dir.to_owned(), source, wanted: "experiments" };
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
