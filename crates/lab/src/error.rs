//! Errors of experiments, cases, measures, logs and sessions: the place, the value found and the values accepted.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use bbrlab_core::params::ParamError;
use bbrlab_sim::scenario::ScenarioError;
use rhai::EvalAltResult;

/// Any error of a caller.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A file or a measure that is not valid, or a run that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error at a place: a file, a line, a table, a run.
    #[error("{place}: {source}")]
    At {
        /// The place.
        place: String,
        /// The error.
        source: Box<Self>,
    },
    /// A scenario cannot be read or resolved.
    #[error(transparent)]
    Sim(#[from] bbrlab_sim::Error),
    /// A scenario cannot be resolved.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A population or a product is not valid.
    #[error(transparent)]
    Study(#[from] bbrlab_study::Error),
    /// The catalogue lacks an experiment.
    #[error("the catalogue has no experiment {0}; name a file")]
    NotInCatalogue(&'static str),
    /// An experiment without a population.
    #[error("experiment {0} has no population")]
    NotOfUsers(&'static str),
    /// An experiment without a study.
    #[error("the experiment has no study")]
    NoStudy,
    /// An error of the caller's backend.
    #[error(transparent)]
    Backend(BoxError),
    /// An experiment is not valid TOML.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// A case is not valid TOML.
    #[error("{}", .0.message().lines().next().unwrap_or_default())]
    CaseToml(#[source] toml::de::Error),
    /// A file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A directory cannot be read.
    #[error("{path}: {source}; name a directory of {wanted}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
        /// Contents that are expected.
        wanted: &'static str,
    },
    /// A directory without files of a kind.
    #[error("{path}: it holds no *.toml; name a directory of {wanted}")]
    NoFiles {
        /// The directory.
        path: PathBuf,
        /// Contents that are expected.
        wanted: &'static str,
    },
    /// A result cannot be encoded.
    #[error("{what}: {source}")]
    Encode {
        /// The part of the result.
        what: &'static str,
        /// The error.
        source: serde_json::Error,
    },
    /// No scorecard has this name.
    #[error("no scorecard is called {name:?}; there are {known}")]
    UnknownCard {
        /// The name.
        name: String,
        /// Names of the scorecards.
        known: String,
    },
    /// No criterion of the scorecard has this number.
    #[error("{section:?} is no criterion of this scorecard; it has {known}")]
    UnknownCriterion {
        /// The number.
        section: String,
        /// Numbers of the criteria.
        known: String,
    },
    /// A result is not one of the case.
    #[error("{key}: {found}; in the case: {wanted}")]
    OtherCase {
        /// The key.
        key: String,
        /// Its value in the result.
        found: String,
        /// Its value in the case.
        wanted: String,
    },
    /// A file breaks a rule of its format.
    #[error("{0}")]
    Rule(&'static str),
    /// A required key is empty.
    #[error("`{0}` is empty; every claim has one")]
    EmptyKey(&'static str),
    /// A row with two marks.
    #[error("{0:?} is marked under `short` and under `varies`; a row has one mark")]
    TwoMarks(String),
    /// The name of a row, in a table with only one row.
    #[error("{0:?} names a row, but there is one row only, as `each` is not set")]
    OneRow(String),
    /// An axis without the named value.
    #[error("axis {axis:?} has no value {value:?}")]
    UnknownValue {
        /// The axis.
        axis: String,
        /// The value.
        value: String,
    },
    /// A list of bounds of another length.
    #[error("a list of {bounds} bounds for {rows} rows")]
    BoundCount {
        /// Number of bounds.
        bounds: usize,
        /// Number of rows.
        rows: usize,
    },
    /// Too many combinations.
    #[error("the axes make over {max} runs; leave out some values")]
    TooManyRuns {
        /// Largest number of runs.
        max: usize,
    },
    /// Two runs of one name.
    #[error("two runs are named {0:?}; rename one")]
    RunTwice(String),
    /// A measure that is not one expression.
    #[error("{expression:?}: {source}")]
    Syntax {
        /// The measure.
        expression: String,
        /// The error.
        source: rhai::ParseError,
    },
    /// A measure that cannot be evaluated.
    #[error("{expression:?}: {source}")]
    Evaluation {
        /// The measure.
        expression: String,
        /// The error.
        source: Box<EvalAltResult>,
    },
    /// A value of another type.
    #[error("a number was expected, not a {0}")]
    Type(&'static str),
    /// A text that is no label of an axis.
    #[error("{text:?}: {piece:?} is not of the form axis=label")]
    Label {
        /// The labels.
        text: String,
        /// The faulty one.
        piece: String,
    },
    /// No run of that name.
    #[error("no run {name:?}; there are {count} runs: {} …", .known.join(" | "))]
    UnknownRun {
        /// The name.
        name: String,
        /// Number of runs.
        count: usize,
        /// Names of the first.
        known: Vec<String>,
    },
    /// No axis of that name.
    #[error("no axis {0:?}")]
    NoAxis(String),
    /// No axis of that name, among several.
    #[error("no axis {name:?}; there are {}", .known.join(", "))]
    UnknownAxis {
        /// The name.
        name: String,
        /// Names of the axes.
        known: Vec<String>,
    },
    /// No run with the labels along an axis.
    #[error("no run along axis {axis:?} has {fixed:?}")]
    NoRunAlong {
        /// The axis.
        axis: String,
        /// The labels.
        fixed: BTreeMap<String, String>,
    },
    /// An experiment without a population.
    #[error("the experiment has no [population]")]
    NoPopulation,
    /// No data file of that name.
    #[error("no {kind} {name:?}; it belongs in experiments/data/")]
    NoData {
        /// Kind of the file.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A file that is not valid CSV.
    #[error(transparent)]
    Csv(#[from] csv::Error),
    /// No column of that name.
    #[error("no column {name:?}; there are {}", .known.join(", "))]
    NoColumn {
        /// The name.
        name: String,
        /// Names of the columns.
        known: Vec<String>,
    },
    /// A cell that is no number.
    #[error("{0:?} is not a number")]
    NotANumber(String),
    /// A cell that is no finite number.
    #[error("{0:?} is not a finite number")]
    NotFinite(String),
    /// An unknown kind of objects.
    #[error("no objects {0:?}; there are small, large and all")]
    UnknownObjects(String),
    /// An algorithm that the population does not compare.
    #[error("no algorithm {name:?} in the population; there are {}", .known.join(", "))]
    NotCompared {
        /// The name.
        name: String,
        /// The algorithms compared.
        known: Vec<String>,
    },
    /// A run without series.
    #[error("run {0}: it recorded no series; give its scenario `sample = \"10ms\"`")]
    NoSeries(String),
    /// A run without the column of a flow or link.
    #[error("run {run}: no column {name:?} of {of} {index}; it has {count} {of}s, each with {known}")]
    NoSeriesColumn {
        /// The run.
        run: String,
        /// Name of the column.
        name: String,
        /// "flow" or "link".
        of: &'static str,
        /// Index of the flow or link.
        index: usize,
        /// Number of flows or links.
        count: usize,
        /// Names of the columns.
        known: String,
    },
    /// A run without the named flow.
    #[error("run {run}: no flow {name:?}; it has {}", .known.join(", "))]
    UnknownFlow {
        /// The run.
        run: String,
        /// The name.
        name: String,
        /// Names of the flows.
        known: Vec<String>,
    },
    /// A run without the flow of a number.
    #[error("run {run}: no flow {index}; it has {count}")]
    NoFlow {
        /// The run.
        run: String,
        /// Index of the flow.
        index: i64,
        /// Number of flows.
        count: usize,
    },
    /// No state of that name.
    #[error("no state {name:?}; there are probe_bw, {}", .known.join(", "))]
    UnknownState {
        /// The name.
        name: String,
        /// Names of the states.
        known: Vec<&'static str>,
    },
    /// A window that ends before it begins.
    #[error("the window {from}..{to} s is empty")]
    EmptyWindow {
        /// Begin, s.
        from: f64,
        /// End, s.
        to: f64,
    },
    /// The number of a percentile that is out of range, or a fraction of one.
    #[error("percentile {q}: percentiles go from 0 to 100{}", if (0.0..1.0).contains(q) { format!("; write {}", q * 100.0) } else { String::new() })]
    Percentile {
        /// The number.
        q: f64,
    },
    /// No algorithm of that name.
    #[error("no algorithm {0:?}; see `bbrlab list algorithms`")]
    UnknownAlgorithm(String),
    /// A cue that is no entry of a state.
    #[error("write a state and the number of its entry, as in drain#1 or probe_bw_up>probe_bw_down#2")]
    Cue,
    /// A cue with several actions, or none.
    #[error("it does {0} things; write one")]
    Actions(usize),
    /// A value that is negative or not finite.
    #[error("{expression:?} is {value} here")]
    Value {
        /// The expression.
        expression: String,
        /// Its value.
        value: f64,
    },
    /// A parameter that is not accepted.
    #[error("set: {name} = {value:?} is {source}")]
    Set {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
        /// The reason.
        source: ParamError,
    },
    /// A quote without an end.
    #[error("a quote opens here and is never closed; close it")]
    OpenQuote,
    /// A log in CSV without the columns of a trace.
    #[error("its first line names neither `flow` nor `metric`; write it with bbrlab run --csv")]
    NotATrace,
    /// A log in CSV without a column.
    #[error("its first line names no column {0:?}")]
    NoLogColumn(String),
    /// A row of a log with another number of fields.
    #[error("{fields} fields for {columns} columns")]
    FieldCount {
        /// Number of fields.
        fields: usize,
        /// Number of columns.
        columns: usize,
    },
    /// A log of an unknown format.
    #[error("it is neither qlog (JSON), nor a CSV trace of bbrlab, nor the output of ss -tin")]
    UnknownLog,
    /// A log without samples.
    #[error("it is {0}, but holds no window, rate, RTT or state; record recovery metrics")]
    EmptyLog(&'static str),
    /// A record that is not JSON.
    #[error(transparent)]
    Record(serde_json::Error),
}

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Adapter for `map_err` that adds the place.
    pub(crate) fn at<E: Into<Self>>(place: impl ToString) -> impl FnOnce(E) -> Self {
        move |error| Self::At { place: place.to_string(), source: Box::new(error.into()) }
    }
}
