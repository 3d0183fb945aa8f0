#![forbid(unsafe_code)]
//! The `bbrlab` command: flags in, exit code out.
//! In: arguments. Out: text, files, exit status 0 (done, all holds), 1 (an expectation failed) or 2 (could not run).
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod advise;
mod agree;
mod args;
mod cdn;
mod check;
mod clock;
mod conform;
mod emulate;
mod expect;
mod grid;
mod inputs;
mod list;
mod outputs;
mod packets;
mod progress;
mod record;
mod replay;
mod reproduce;
mod run;
mod summary;
mod sweep;
mod table;
mod traces;
mod tune;
mod worlds;

use std::borrow::Cow;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use args::{Cli, Command};

/// How a command ended, where it could run at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done, and every expectation holds.
    Holds,
    /// Done, and an expectation failed.
    Fails,
}

/// Why a command could not run: one line with where, what it held and what would do.
pub type Failure = String;

fn main() -> ExitCode {
    outputs::clean_up_on_signals();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let done = match &cli.command {
        Command::Run(args) => run::run(args),
        Command::Emulate(args) => match emulate::emulate(args) {
            Ok(status) => return status,
            Err(failure) => Err(failure),
        },
        Command::Reproduce(args) => reproduce::reproduce(args),
        Command::Record(args) => record::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Agree(args) => agree::agree(args),
        Command::Sweep(args) => sweep::sweep(args),
        Command::Advise(args) => advise::advise(args),
        Command::Tune(args) => tune::tune(args),
        Command::Cdn(args) => cdn::cdn(args),
        Command::Conform(args) => conform::conform(args),
        Command::List(args) => list::list(args).and_then(|text| print(&text)),
        Command::Check => print(&check::report()),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "bbrlab", &mut text);
            print(&String::from_utf8_lossy(&text))
        }
        Command::Man => man(),
        Command::UmlGuest { directory, .. } => worlds::uml_guest(directory),
    };
    match done {
        Ok(Verdict::Holds) => ExitCode::SUCCESS,
        Ok(Verdict::Fails) => ExitCode::from(1),
        Err(failure) => {
            drop(outputs::clean_up());
            refuse(&failure)
        }
    }
}

/// Writes to standard output. A reader that closed its end has all it wants: that is no failure.
fn print(text: &str) -> Result<Verdict, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("standard output: {}", outputs::can_not(&error)))
        }
        _ => Ok(Verdict::Holds),
    }
}

/// Most characters of a word in an error. Ours: a path is still whole, a file of a single word is not.
const WORD_MAX: usize = 300;

fn refuse(failure: &str) -> ExitCode {
    let line = failure.split_whitespace().map(shortened).collect::<Vec<_>>().join(" ");
    // Where not even standard error can be written, the exit status says it all.
    let _ = writeln!(io::stderr(), "bbrlab: {line}");
    ExitCode::from(2)
}

/// A word with its middle left out where it is very long.
fn shortened(word: &str) -> Cow<'_, str> {
    let ends = word.char_indices().nth(WORD_MAX / 2).zip(word.char_indices().rev().nth(WORD_MAX / 2));
    match ends {
        Some(((head, _), (tail, _))) if head < tail => Cow::Owned(format!("{}…{}", &word[..head], &word[tail..])),
        _ => Cow::Borrowed(word),
    }
}

/// clap's answer: help and version as they are, everything else in one line.
fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => refuse(
            "no command; write run, emulate, reproduce, conform, agree, sweep, advise, tune, cdn, record, replay, list, check, completions or man, or see `bbrlab --help`",
        ),
        _ => {
            let text = error.render().to_string();
            let said = text.split("\n\nUsage:").next().unwrap_or_default();
            let said = said.split("\n\nFor more information").next().unwrap_or_default();
            let said =
                said.trim().trim_start_matches("error: ").replace("\n\n  tip: ", "; ").replace("\n  tip: ", "; ");
            // The command's own help says more than the general one.
            let usage = text.split_once("Usage: ").map_or("bbrlab", |(_, usage)| usage);
            let command: Vec<&str> = usage
                .split_whitespace()
                .take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
                .collect();
            refuse(&format!("{said}; see `{} --help`", command.join(" ")))
        }
    }
}

fn man() -> Result<Verdict, Failure> {
    let mut page = Vec::new();
    let fault = |error: io::Error| format!("man page: {error}");
    // Built, so that each page is named as it is called: `bbrlab run`.
    let mut root = Cli::command();
    root.build();
    clap_mangen::Man::new(root.clone()).render(&mut page).map_err(fault)?;
    for command in root.get_subcommands().filter(|command| command.get_name() != "help") {
        clap_mangen::Man::new(command.clone()).render(&mut page).map_err(fault)?;
    }
    print(&String::from_utf8_lossy(&page))
}
