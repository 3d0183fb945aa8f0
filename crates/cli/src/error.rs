//! Errors of the command: each is one line with the place, the value found and the values accepted.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use bbrlab_host::can_not;
use bbrlab_sim::scenario::{Backend, meant};
use bbrlab_stats::plural::counted;

/// Any error of a library.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Reason for which the command could not run: exit status 2.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A scenario is not valid.
    #[error(transparent)]
    Sim(#[from] bbrlab_sim::Error),
    /// An experiment, a case or a session failed.
    #[error(transparent)]
    Lab(#[from] bbrlab_lab::Error),
    /// A population, a sweep or a measurement cannot be used.
    #[error(transparent)]
    Study(#[from] bbrlab_study::Error),
    /// A run on a real kernel failed.
    #[error(transparent)]
    Live(#[from] bbrlab_live::Error),
    /// A change to the host failed.
    #[error(transparent)]
    Host(#[from] bbrlab_host::Error),
    /// A log cannot be replayed.
    #[error(transparent)]
    Replay(#[from] bbrlab_replay::Error),
    /// A server or a download failed.
    #[cfg(feature = "quic")]
    #[error(transparent)]
    Http(#[from] bbrlab_http::Error),
    /// A run in a QUIC stack failed.
    #[cfg(feature = "quic")]
    #[error(transparent)]
    Quic(#[from] bbrlab_quic::Error),
    /// A flow's text is not valid.
    #[error(transparent)]
    Text(#[from] bbrlab_sim::scenario::TextError),
    /// A table of a file is not valid.
    #[error(transparent)]
    Read(#[from] bbrlab_sim::scenario::ReadError),
    /// A result cannot be encoded.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A run failed in its backend.
    #[error(transparent)]
    Run(BoxError),

    /// An error at a place: a file, a flow, a case, a line.
    #[error("{place}: {source}")]
    At {
        /// The place.
        place: String,
        /// The error.
        source: BoxError,
    },
    /// A flag's value is not accepted, or its work failed.
    #[error("{flag}: {source}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// The error.
        source: BoxError,
    },
    /// The value of the flag of a scenario's key is not accepted.
    #[error("--{}: {source}", .key.replace('_', "-"))]
    Key {
        /// The key.
        key: String,
        /// The error.
        source: BoxError,
    },
    /// A backend is not available, or cannot run a setup.
    #[error("--on {backend}: {source}")]
    On {
        /// The backend.
        backend: Backend,
        /// The error.
        source: bbrlab_live::Error,
    },
    /// A flag's value is not of its form, or out of range.
    #[error("{flag}: {found:?} {problem}")]
    Value {
        /// The flag.
        flag: &'static str,
        /// Its value.
        found: String,
        /// The problem, and the accepted values.
        problem: &'static str,
    },
    /// A flag or a command breaks a rule.
    #[error("{place}: {rule}")]
    Rule {
        /// The flag or the command.
        place: &'static str,
        /// The rule.
        rule: &'static str,
    },
    /// A path named by a flag breaks a rule.
    #[error("{flag}: {path}: {rule}")]
    PathRule {
        /// The flag.
        flag: &'static str,
        /// The path.
        path: PathBuf,
        /// The rule.
        rule: &'static str,
    },
    /// An input breaks a rule of its format.
    #[error("{file}: {rule}")]
    FileRule {
        /// Name of the file.
        file: String,
        /// The rule.
        rule: &'static str,
    },

    /// A file of an input cannot be read.
    #[error("{}", unreadable(.0))]
    Unreadable(#[source] io::Error),
    /// An input is too large.
    #[error("it holds more than the {max_mib} MiB of {what}")]
    TooLarge {
        /// Contents that are expected.
        what: &'static str,
        /// Largest size, MiB.
        max_mib: usize,
    },
    /// Standard input is needed for two things.
    #[error("it was read for {0} already; write - once, and name a file for the other")]
    StdinTwice(&'static str),
    /// An input is not text.
    #[error("not a text file: byte {} is not UTF-8", .0.utf8_error().valid_up_to() + 1)]
    NotText(#[source] std::string::FromUtf8Error),
    /// An input cannot be used, and something else is expected.
    #[error("{file}: {source}; name {wanted}")]
    Input {
        /// Name of the file.
        file: String,
        /// The error.
        source: Box<Self>,
        /// Contents that are expected.
        wanted: &'static str,
    },
    /// A population's file or table is not valid.
    #[error("{file}:{source}")]
    Population {
        /// Name of the file.
        file: String,
        /// The error, which begins with its line or place.
        source: Box<bbrlab_study::Error>,
    },
    /// A parameter file is of another algorithm.
    #[error("its parameters are those of {found}, not of {flow}")]
    ParametersOf {
        /// Algorithm of the file.
        found: String,
        /// Algorithm of the flow.
        flow: String,
    },
    /// An output file or directory cannot be written.
    #[error("{flag}: {path}: {}", can_not(.source))]
    Output {
        /// The flag.
        flag: &'static str,
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Two outputs are the same file.
    #[error("{flag}: it names the same file as {other}; name another")]
    SameFile {
        /// The flag.
        flag: &'static str,
        /// The flag that named the file before.
        other: &'static str,
    },
    /// One thing alone.
    #[error("{0}: nothing to compare it with; name two results, folders or scenarios, or one folder")]
    NothingToCompareWith(String),
    /// A folder without results.
    #[error("{0}: it holds no results (*.json, as `bbrlab run --json` writes them)")]
    NoResults(String),
    /// A folder without results of a scorecard's cases.
    #[error("{0}: it holds no result of a case; a file's name begins with the case's, as in {1}.json")]
    NoCaseResults(String, String),
    /// A JSON file of something else.
    #[error("{0}: not a result of `bbrlab run --json`")]
    NotAResult(String),
    /// A result of another schema.
    #[error("{path}: a result of schema {found}; this bbrlab reads schema {known}")]
    ResultSchema {
        /// Path of the file.
        path: String,
        /// Its schema.
        found: u64,
        /// The one that can be read.
        known: u32,
    },
    /// Folders without a file name in common.
    #[error("{0}: no result has the same file name in all of them")]
    NoCommonCase(String),
    /// Runs without a measure in common.
    #[error("{0}: they have no measure in common")]
    NoCommonMeasure(String),
    /// A file for several runs.
    #[error("{flag}: {path}: it cannot hold {runs} runs; name a directory, as in traces/")]
    OneFile {
        /// The flag.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Number of runs.
        runs: usize,
    },
    /// Standard output cannot be written.
    #[error("standard output: {}", can_not(.0))]
    Stdout(#[source] io::Error),
    /// Standard output is not a terminal.
    #[error("standard output is not a terminal; add --once for a table or --json for lines")]
    NotATerminal,
    /// An operation on something other than an input or an output failed.
    #[error("{what}: {source}")]
    Io {
        /// The object.
        what: &'static str,
        /// The error.
        source: io::Error,
    },
    /// A part of the output cannot be encoded.
    #[error("{what}: {source}")]
    Encode {
        /// The part.
        what: &'static str,
        /// The error.
        source: serde_json::Error,
    },
    /// Threads cannot be started.
    #[error("threads: {0}; allow more memory or more processes")]
    Threads(#[source] rayon::ThreadPoolBuildError),

    /// This build lacks a command.
    #[cfg(not(all(feature = "parquet", feature = "tune")))]
    #[error("{command}: not in this build; `make build` builds all, `cargo build --features {feature}` this")]
    LeftOut {
        /// The command.
        command: &'static str,
        /// Features that it needs.
        feature: &'static str,
    },
    /// This build has no QUIC.
    #[cfg(not(feature = "quic"))]
    #[error("{0}: this build has no QUIC; build with the feature quic")]
    NoQuic(String),
    /// This build has no QUIC, but other backends.
    #[error("--on {0}: this build has no QUIC; build with the feature quic, or write --on sim")]
    NoQuicBackend(Backend),
    /// This build cannot load programs into the kernel.
    #[cfg(not(feature = "host"))]
    #[error(
        "this build cannot load BPF programs; install libelf's and zlib's headers (on Debian: apt-get install libelf-dev \
         zlib1g-dev make pkg-config gcc) and build with `cargo build --release -p bbrlab --features host`"
    )]
    NoLoader,

    /// A text that is no number in a range.
    #[error("{found:?} is not a whole number from {min} to {max}")]
    Number {
        /// The text.
        found: String,
        /// Smallest number.
        min: String,
        /// Largest number.
        max: String,
    },
    /// A text that is no source of programs.
    #[error("{0:?} is not a source of programs; write kernel or bbrlab")]
    Program(String),
    /// A text that is no listening address.
    #[error("{0:?} is not an address with a port; write 4433, 127.0.0.1:4433 or [::1]:4433")]
    Address(String),
    /// A number of packets out of range.
    #[error("--pcap-limit: {found:?} is not a number of packets; write a whole number from 1 to {max}")]
    PacketCount {
        /// The text.
        found: String,
        /// Largest number.
        max: usize,
    },
    /// A time that is too short.
    #[error("{flag}: {found:?} is too short; write {min_ms} ms or more")]
    TooShort {
        /// The flag.
        flag: &'static str,
        /// The time.
        found: String,
        /// Smallest time, milliseconds.
        min_ms: u128,
    },

    /// No algorithm of that name.
    #[error("no algorithm {0:?}{near}; see `bbrlab list algorithms`", near = meant(.0))]
    UnknownAlgorithm(String),
    /// No QUIC stack of that name.
    #[error("{subject}: no QUIC stack {stack:?}; write s2n, noq or quinn, as in s2n+bbr3")]
    UnknownStack {
        /// Name of the subject.
        subject: String,
        /// The stack.
        stack: String,
    },
    /// A subject that the draft does not describe.
    #[error("{subject}: the draft's requirements apply to BBR only; name a BBR, as in {stack}+bbr3")]
    NotBbr {
        /// Name of the subject.
        subject: String,
        /// Its stack.
        stack: &'static str,
    },
    /// A stack's own controller of another version, without a view of its model.
    #[error("{0}: a BBRv1, which shows no model to check; name a BBR of ours, as in quinn+bbr3")]
    BbrWithoutModel(String),
    /// No case of that number or anchor.
    #[error("--case: no case {id:?}; write {known}, or the anchor of its heading")]
    UnknownCase {
        /// The case.
        id: String,
        /// Numbers of the cases.
        known: String,
    },
    /// An algorithm that the draft does not describe.
    #[error("the draft describes BBRv3, not {0}; leave {0} out")]
    NotTheDrafts(String),
    /// A log without the flows to judge.
    #[error("none of its flows runs {}: it has {}; name what to judge before --log", judged(.wanted), .found.join(", "))]
    NotInLog {
        /// Algorithms to judge; none for the draft's.
        wanted: Vec<String>,
        /// Algorithms of the log.
        found: Vec<String>,
    },
    /// No experiment of that name.
    #[error("no experiment {id:?}{}; see `bbrlab list experiments`", .near.as_ref().map_or(String::new(), |near| format!(" (did you mean {near}?)")))]
    UnknownExperiment {
        /// The name.
        id: String,
        /// A similar name.
        near: Option<String>,
    },
    /// A directory without experiments.
    #[error("no experiment is there; name a directory that holds some with --experiments DIR")]
    NoExperiments,
    /// No axis of that name.
    #[cfg(feature = "parquet")]
    #[error("--tree: there is no axis {0:?}; write one of the sweep's")]
    UnknownAxis(String),
    /// No figure of that name.
    #[cfg(feature = "parquet")]
    #[error("--show: there is no figure {name:?}; there are {}", .known.join(", "))]
    UnknownFigure {
        /// The name.
        name: String,
        /// Names of the figures.
        known: Vec<&'static str>,
    },
    /// No value of that name as a baseline.
    #[cfg(feature = "parquet")]
    #[error("--against: write one of {}", .0.join(", "))]
    Baseline(Vec<String>),
    /// A sweep's file is not TOML.
    #[cfg(feature = "parquet")]
    #[error("{file}:{line}: {}", .source.message().lines().next().unwrap_or_default())]
    Toml {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The error.
        source: toml::de::Error,
    },
    /// A key with a flag and an axis.
    #[cfg(feature = "parquet")]
    #[error("--{}: --vary {vary} sets it; leave out one of them", .key.replace('_', "-"))]
    SetTwice {
        /// The key.
        key: &'static str,
        /// The axis.
        vary: String,
    },
    /// An axis that appears twice.
    #[cfg(feature = "parquet")]
    #[error("--vary: axis {0:?} appears twice; write all its values in one --vary")]
    AxisTwice(String),
    /// A damaged block of a sweep.
    #[cfg(feature = "parquet")]
    #[error("{0}: it is damaged; remove it and run the sweep again")]
    DamagedBlock(PathBuf),

    /// A number of arms that is not accepted.
    #[cfg(feature = "parquet")]
    #[error("--arms: {text:?} has {}; write 2 to {max}", counted(*.found, "arm"))]
    ArmCount {
        /// The arms.
        text: String,
        /// Their number.
        found: usize,
        /// Largest number.
        max: usize,
    },
    /// A flag that was given too often.
    #[cfg(feature = "parquet")]
    #[error("{flag}: {found} of them; write {max} or fewer")]
    TooMany {
        /// The flag.
        flag: &'static str,
        /// Number of values.
        found: usize,
        /// Largest number.
        max: usize,
    },
    /// A text that is neither a number of connections nor a time.
    #[cfg(feature = "parquet")]
    #[error("{0}; a plain number counts connections")]
    StopAfter(#[source] Box<Self>),
    /// A text that is no pair of prefix lengths.
    #[cfg(feature = "parquet")]
    #[error("--keep: {0:?}; write bits of IPv4 (0 to 32) and of IPv6 (0 to 128), as in 24,48")]
    Keep(String),
    /// A limit that is no percentage.
    #[cfg(feature = "parquet")]
    #[error("{flag}: {found}; write a per cent from 0 to below 100")]
    Percent {
        /// The flag.
        flag: &'static str,
        /// Its value.
        found: f64,
    },

    /// A flag that only `--on uml` supports.
    #[error("emulate: {0}: --on kernel does not support it; write --on uml, or leave it out")]
    UmlOnly(&'static str),
    /// A comparison of encrypted packets.
    #[error("--packets: {0}'s packets are encrypted; write --with uml")]
    Encrypted(String),
    /// A flag that only `--packets` supports.
    #[error("validate: --{}: only with --packets; name scenarios in files else", .0.replace('_', "-"))]
    PacketsOnly(&'static str),
    /// No scenario has the text in its name.
    #[error("--only: no scenario has {0:?} in its name")]
    NoScenarioNamed(String),
    /// No scenario of the matrix has the text in its name and is short enough.
    #[error("--only, --longest: no scenario of the matrix has {only:?} in its name and lasts at most {longest}")]
    NoShortScenarioNamed {
        /// The text.
        only: String,
        /// Longest duration.
        longest: String,
    },
    /// The recording lacks calls.
    #[error("the tap lost {}: the machine was too busy; record it again", counted(*.0, "call"))]
    TapLost(u64),
    /// No connection of this machine sent anything.
    #[error("no connection of this machine sent anything within {0} s; try under load, or give --rate and --rtt")]
    NothingSent(u32),
    /// A split of a test that assigns nothing.
    #[error("the holdout of rule {0} is the control of this test; change it in the policy, and apply that")]
    SharesOfRule(String),
    /// An exporter that anyone could read.
    #[error(
        "--prometheus {0}: anyone who reaches that address could read the metrics; give --token FILE, or a loopback address"
    )]
    NoToken(SocketAddr),
    /// A token that is none.
    #[error(
        "--token: {path}: wants one line of at least {least} printable characters, as `openssl rand -base64 24` makes"
    )]
    Token {
        /// The file.
        path: PathBuf,
        /// Minimum number of characters.
        least: usize,
    },
    /// An address cannot be listened on.
    #[error("{flag}: {address}: {}", unusable(.source))]
    Listen {
        /// The flag that names it.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// The error.
        source: io::Error,
    },

    /// Several URLs for one file.
    #[cfg(feature = "quic")]
    #[error("--output: {} would go into one file; fetch them one by one", counted(*.0, "URL"))]
    OneOutput(usize),
    /// Two URLs whose files have one name.
    #[cfg(feature = "quic")]
    #[error("{url}: another URL goes into {name:?} too; fetch them one by one, with --output")]
    OneName {
        /// The later URL.
        url: String,
        /// Name of the file.
        name: String,
    },
    /// Several downloads failed.
    #[cfg(feature = "quic")]
    #[error("{first}; {} failed too", counted(*.others, "other transfer"))]
    Transfers {
        /// Error of the first.
        first: Box<bbrlab_http::Error>,
        /// Number of the others.
        others: usize,
    },
}

impl Error {
    /// Adapter for `map_err` that adds the place.
    pub fn at<E: Into<BoxError>>(place: impl ToString) -> impl FnOnce(E) -> Self {
        move |error| Self::At { place: place.to_string(), source: error.into() }
    }

    /// Adapter for `map_err` that adds the flag.
    pub fn flag<E: Into<BoxError>>(flag: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Flag { flag, source: error.into() }
    }

    /// Adapter for `map_err` that adds the flag and the file, which cannot be written.
    pub fn output(flag: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Output { flag, path: path.clone(), source }
    }

    /// Adapter for `map_err` that adds the name of an input, and the contents that are expected.
    pub fn input(file: &str, wanted: &'static str) -> impl FnOnce(Self) -> Self + use<> {
        let file = file.to_owned();
        move |error| Self::Input { file, source: Box::new(error), wanted }
    }

    /// Adapter for `map_err` on other operations.
    pub fn io(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    /// Adapter for `map_err` on the encoding of a part of the output.
    pub fn encode(what: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::Encode { what, source }
    }

    /// Adapter for `map_err` that adds the backend.
    pub fn on(backend: Backend) -> impl FnOnce(bbrlab_live::Error) -> Self {
        move |source| Self::On { backend, source }
    }

    /// Error of `--patience`.
    #[cfg(feature = "quic")]
    pub fn too_short_patience(found: bbrlab_sim::scenario::TimeSpan) -> Self {
        Self::Value { flag: "--patience", found: found.to_string(), problem: "is too short; write 100ms or more" }
    }

    /// Error of a study whose keys are flags of the command.
    pub fn of_key(error: bbrlab_study::Error) -> Self {
        match error {
            bbrlab_study::Error::At { place, source } => Self::Key { key: place, source },
            error => Self::Study(error),
        }
    }
}

fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "it may not be read".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => error.to_string(),
    }
}

fn unusable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "something else listens there; name another port".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this host has no such address; name one of its own".to_owned(),
        io::ErrorKind::PermissionDenied => "this port needs root; name one from 1024 on".to_owned(),
        _ => error.to_string(),
    }
}

fn judged(wanted: &[String]) -> String {
    if wanted.is_empty() { "BBRv3, which the draft describes".to_owned() } else { wanted.join(" or ") }
}
