#![forbid(unsafe_code)]
// Brackets in a flag's help name tables of TOML and optional parts, not links.
#![allow(rustdoc::broken_intra_doc_links)]
//! The `bbrlab` command: parses arguments, runs a subcommand, sets the exit status.
//! Exit status 0: done, everything holds; 1: an expectation failed; 2: could not run.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod args;
mod claims;
mod command;
mod error;
mod grid;
mod inputs;
mod interrupt;
mod man;
mod outputs;
mod progress;
mod provenance;
mod runner;
mod scenario;
mod table;
mod traces;
mod usage;

use std::borrow::Cow;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Once;

use bbrlab_host::rights::Service;
use clap::{CommandFactory, Parser, Subcommand};

use command::*;
pub use error::Error;

#[global_allocator]
static ALLOCATOR: bbrlab_live::memory::ExitOnOutOfMemory = bbrlab_live::memory::ExitOnOutOfMemory;

/// Simulate BBR congestion control, run it on real kernels, check published claims, get advice
#[derive(Debug, Parser)]
#[command(name = "bbrlab", version, max_term_width = usage::WIDTH_MAX, after_help = usage::after_help())]
pub struct Cli {
    /// Subcommand to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one scenario and print its results
    Run(Box<run::RunArgs>),
    /// Run any command behind the emulated link, with this host's kernel at both ends
    Emulate(Box<emulate::EmulateArgs>),
    /// Run the catalogue of published claims, with a verdict on each expected value
    Reproduce(reproduce::ReproduceArgs),
    /// Run a scenario over this host's kernel, and record the inputs and decisions of its own BBR and CUBIC
    #[cfg_attr(
        not(feature = "bpf"),
        command(
            about = "Not in this build: run a scenario over this host's kernel, and record the inputs and decisions of its own BBR and CUBIC"
        )
    )]
    Record(Box<record::RecordArgs>),
    /// Compare a kernel's recorded BBR and CUBIC decisions with core's, bit by bit
    Replay(replay::ReplayArgs),
    /// Run scenarios in the simulator and on a real kernel, and compare the results
    Validate(Box<validate::ValidateArgs>),
    /// Run a scenario over ranges of any of its values, on all cores; an interrupted sweep resumes
    #[cfg(feature = "parquet")]
    Sweep(Box<sweep::SweepArgs>),
    /// Not in this build: run a scenario over ranges of any of its values
    #[cfg(not(feature = "parquet"))]
    Sweep(LeftOut),
    /// Compare results, folders of results or scenarios: one table, one page, differences with intervals
    Compare(compare::CompareArgs),
    /// Estimate the path of each connection in a capture: rate, RTT, buffer, kinds of loss
    Path(path::PathArgs),
    /// Recommend an algorithm for a path or a population, with its gain, its cost and the confidence
    Advise(Box<advise::AdviseArgs>),
    /// Search for the best parameters of an algorithm over a population of paths, and evaluate them on unseen paths
    #[cfg(feature = "tune")]
    Tune(tune::TuneArgs),
    /// Not in this build: search for the best parameters of an algorithm
    #[cfg(not(feature = "tune"))]
    Tune(LeftOut),
    /// Compare algorithms on the users of a content network: a population of paths, an A/B test, gains by class
    Cdn(cdn::CdnArgs),
    /// Score congestion controls by the criteria of RFC 9743, beside reference algorithms
    Score(score::ScoreArgs),
    /// Check algorithms against the draft's test cases over a grid of rates and RTTs, or check another stack's log
    Conform(conform::ConformArgs),
    /// Load our algorithms into this host's kernel, watch them there, and unload them
    #[cfg_attr(
        not(feature = "host"),
        command(
            about = "Not in this build: load our algorithms into this host's kernel, watch them there, and unload them"
        )
    )]
    Host(host::HostArgs),
    /// A/B test congestion controls on this host's own connections: assign each to an arm, record it, compare the arms
    #[cfg(feature = "parquet")]
    Ab(Box<ab::AbArgs>),
    /// Not in this build: test congestion controls on this host's own connections
    #[cfg(not(feature = "parquet"))]
    Ab(LeftOut),
    /// Show this machine's TCP connections live, with their congestion-control state; or serve it as metrics
    Watch(watch::WatchArgs),
    /// Serve files over HTTP/1.1 on TCP and HTTP/3 on QUIC, with a selectable congestion control
    #[cfg_attr(
        not(feature = "quic"),
        command(
            about = "Not in this build: serve files over HTTP/1.1 on TCP and HTTP/3 on QUIC, with a selectable congestion control"
        )
    )]
    Serve(serve::ServeArgs),
    /// Download over HTTP/1.1 on TCP or HTTP/3 on QUIC, and report the measurements
    #[cfg_attr(
        not(feature = "quic"),
        command(
            about = "Not in this build: download over HTTP/1.1 on TCP or HTTP/3 on QUIC, and report the measurements"
        )
    )]
    Get(get::GetArgs),
    /// Open the playground in a browser: the real algorithms on a path, packet by packet
    Play(Box<play::PlayArgs>),
    /// List algorithms, experiments, an algorithm's parameters, or the scenario's JSON Schema
    List(list::ListArgs),
    /// Show the capabilities of this machine, and remedies for missing ones
    Doctor,
    /// Print a completion script for a shell
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
    /// Print the man pages, in roff
    Man(man::ManArgs),
    /// The first process inside User Mode Linux
    #[command(hide = true)]
    UmlGuest {
        /// Exchange directory shared with the host
        directory: String,
        /// Arguments added by the kernel
        rest: Vec<String>,
    },
}

impl Command {
    /// The service that this command is, if it runs for long with the rights of root.
    fn service(&self) -> Option<Service> {
        match self {
            #[cfg(feature = "parquet")]
            Self::Ab(args) if args.is_start() => Some(Service::Test),
            Self::Watch(args) if args.prometheus.is_some() => Some(Service::Exporter),
            _ => None,
        }
    }
}

/// Ignored arguments of a command that is not in this build.
#[cfg(not(all(feature = "parquet", feature = "tune")))]
#[derive(Debug, clap::Args)]
pub struct LeftOut {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

#[cfg(not(all(feature = "parquet", feature = "tune")))]
const fn left_out(command: &'static str, feature: &'static str) -> Result<Verdict, Error> {
    Err(Error::LeftOut { command, feature })
}

/// Outcome of a command that could run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done, and every expectation holds.
    Holds,
    /// Done, and an expectation failed.
    Fails,
}

fn main() -> ExitCode {
    outputs::clean_up_on_faults();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error),
    };
    // The first thread besides this one answers signals.
    let dropped = cli.command.service().map_or(Ok(()), Service::drop_others);
    interrupt::listen();
    let done = match &cli.command {
        _ if dropped.is_err() => dropped.map(|()| Verdict::Holds).map_err(Error::Host),
        Command::Run(args) => run::run(args),
        Command::Emulate(args) => match emulate::emulate(args) {
            Ok(status) => return status,
            Err(error) => Err(error),
        },
        Command::Reproduce(args) => reproduce::reproduce(args),
        Command::Record(args) => record::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Validate(args) => validate::validate(args),
        #[cfg(feature = "parquet")]
        Command::Sweep(args) => sweep::sweep(args),
        #[cfg(not(feature = "parquet"))]
        Command::Sweep(_) => left_out("sweep", "parquet"),
        Command::Advise(args) => advise::advise(args),
        #[cfg(feature = "tune")]
        Command::Tune(args) => tune::tune(args),
        #[cfg(not(feature = "tune"))]
        Command::Tune(_) => left_out("tune", "tune"),
        Command::Cdn(args) => cdn::cdn(args),
        Command::Path(args) => path::path(args),
        Command::Compare(args) => compare::compare(args),
        Command::Score(args) => score::score(args),
        Command::Conform(args) => conform::conform(args),
        Command::Host(args) => host::host(args),
        #[cfg(feature = "parquet")]
        Command::Ab(args) => ab::ab(args),
        #[cfg(not(feature = "parquet"))]
        Command::Ab(_) => left_out("ab", "parquet,host"),
        Command::Watch(args) => watch::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Get(args) => get::run(args),
        Command::Play(args) => play::play(args),
        Command::List(args) => list::list(args).and_then(|text| print(&text)),
        Command::Doctor => print(&doctor::report()),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "bbrlab", &mut text);
            print(&String::from_utf8_lossy(&text))
        }
        Command::Man(args) => man::man(args),
        Command::UmlGuest { directory, .. } => runner::uml_guest(directory),
    };
    drop(outputs::clean_up());
    match done {
        Ok(Verdict::Holds) => ExitCode::SUCCESS,
        Ok(Verdict::Fails) => ExitCode::from(1),
        Err(error) => refuse(&error.to_string()),
    }
}

/// Starts the simulation threads, once.
fn start_threads() -> Result<(), Error> {
    static STARTED: Once = Once::new();
    let mut started = Ok(());
    STARTED.call_once(|| started = rayon::ThreadPoolBuilder::new().build_global());
    started.map_err(Error::Threads)
}

fn print(text: &str) -> Result<Verdict, Error> {
    print_bytes(text.as_bytes())
}

/// Writes to standard output. A reader that closes its end early is not an error.
fn print_bytes(bytes: &[u8]) -> Result<Verdict, Error> {
    printed(|out| out.write_all(bytes))
}

fn printed(write: impl FnOnce(&mut io::Stdout) -> io::Result<()>) -> Result<Verdict, Error> {
    let mut out = io::stdout();
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::Stdout(error)),
        _ => Ok(Verdict::Holds),
    }
}

/// Maximum length of a word in an error, in characters. Ours: a path is kept whole, a file without spaces is not.
const WORD_MAX: usize = 300;

fn refuse(error: &str) -> ExitCode {
    let line = without_numbers(error);
    let line = line.split_whitespace().map(shortened).collect::<Vec<_>>().join(" ");
    // If standard error cannot be written, the exit status is all there is.
    let _ = writeln!(io::stderr(), "bbrlab: {line}");
    ExitCode::from(2)
}

/// Removes OS error numbers, whose text is already present.
fn without_numbers(error: &str) -> String {
    let mut pieces = error.split(" (os error ");
    let mut line = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        line += piece.split_once(')').map_or("", |(_, rest)| rest);
    }
    line
}

/// Shortens a very long word in its middle.
fn shortened(word: &str) -> Cow<'_, str> {
    let ends = word.char_indices().nth(WORD_MAX / 2).zip(word.char_indices().rev().nth(WORD_MAX / 2));
    match ends {
        Some(((head, _), (tail, _))) if head < tail => Cow::Owned(format!("{}…{}", &word[..head], &word[tail..])),
        _ => Cow::Borrowed(word),
    }
}
