//! Help and errors of the arguments: help as clap formats it, an error in one line.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::error::Error as _;
use std::process::ExitCode;

use bbrlab_sim::scenario::nearest;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::{Cli, printed, refuse};

/// Maximum width of help, in characters; an example's line is not longer. Ours.
pub const WIDTH_MAX: usize = 100;

/// The end of `bbrlab --help`.
pub fn after_help() -> String {
    let is_whole = cfg!(all(feature = "bpf", feature = "parquet", feature = "quic", feature = "tune"));
    let left_out =
        "Commands marked \"not in this build\" need `make build`; docs/install.md lists their requirements.\n\n";
    format!(
        "Start with: bbrlab run --flow bbr1 --flow cubic\n\n{}\
         Exit status: 0 done and every expectation holds; 1 an expectation failed; 2 it could not run; 130 interrupted.",
        if is_whole { "" } else { left_out }
    )
}

/// Handles clap's errors: prints help and version as they are, everything else in one line.
pub fn report(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match printed(|_| error.print()) {
            Ok(_) => ExitCode::SUCCESS,
            Err(error) => refuse(&error.to_string()),
        },
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            let command = Cli::command();
            let names = subcommands(&command).collect::<Vec<_>>().join(", ");
            refuse(&format!("no command; write one of {names}, or see `bbrlab --help`"))
        }
        _ => {
            let (name, command) = named();
            refuse(&format!("{}; see `{name} --help`", line_of(error, &command)))
        }
    }
}

/// Names of a command's subcommands.
fn subcommands(command: &clap::Command) -> impl Iterator<Item = &str> {
    command.get_subcommands().filter(|one| !one.is_hide_set()).map(clap::Command::get_name)
}

/// Formats an error of clap's in one line, from its fields. `command` is the one that the arguments name.
fn line_of(error: &clap::Error, command: &clap::Command) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join("', '"),
        _ => String::new(),
    };
    let exists = |near: &str, what: &str| match near {
        "" => String::new(),
        near => format!("; a similar {what} exists: '{near}'"),
    };
    let similar = |kind, what: &str| exists(&text(kind), what);
    let argument = text(ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::UnknownArgument => {
            format!("unexpected argument '{argument}'{}", similar(ContextKind::SuggestedArg, "argument"))
        }
        ErrorKind::InvalidSubcommand => {
            let name = text(ContextKind::InvalidSubcommand);
            // Without its first letter as well, a short word is close to everything.
            let first = name.to_lowercase().chars().next();
            let alike = subcommands(command).filter(|other| other.chars().next() == first);
            let near = nearest(&name.to_lowercase(), alike)
                .map_or_else(|| text(ContextKind::SuggestedSubcommand), str::to_owned);
            format!("unknown command '{name}'{}", exists(&near, "command"))
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let value = text(ContextKind::InvalidValue);
            match (error.get(ContextKind::ValidValue), error.source()) {
                (_, Some(reason)) => format!("'{argument}': {reason}"),
                _ if value.is_empty() => format!("'{argument}' needs a value"),
                (Some(ContextValue::Strings(names)), _) => {
                    let near = similar(ContextKind::SuggestedValue, "value");
                    format!("'{argument}': '{value}' is unknown; write {}{near}", names.join(", "))
                }
                _ => format!("'{argument}': '{value}' is not accepted"),
            }
        }
        ErrorKind::ArgumentConflict => match text(ContextKind::PriorArg) {
            prior if prior == argument => format!("'{argument}' cannot be used multiple times"),
            prior => format!("'{argument}' cannot be used with '{prior}'"),
        },
        ErrorKind::InvalidUtf8 => "an argument is not UTF-8".to_owned(),
        ErrorKind::MissingRequiredArgument => format!("missing: '{argument}'"),
        kind => format!("{}: '{argument}'", kind.as_str().unwrap_or("the arguments are not valid")),
    }
}

/// The command that the arguments name, and its full name.
fn named() -> (String, clap::Command) {
    let mut command = Cli::command();
    let mut name = "bbrlab".to_owned();
    for word in std::env::args_os().skip(1) {
        let Some(next) = command.find_subcommand(&word).cloned() else { break };
        name += &format!(" {}", next.get_name());
        command = next;
    }
    (name, command)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `look` with a command and each of its subcommands.
    fn each(command: &clap::Command, look: &mut dyn FnMut(&clap::Command)) {
        look(command);
        command.get_subcommands().for_each(|one| each(one, look));
    }

    #[test]
    fn no_line_of_an_example_is_wrapped() {
        let mut examples = 0;
        each(&Cli::command(), &mut |command| {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in text.lines().filter(|line| line.starts_with("  ")) {
                examples += 1;
                assert!(line.chars().count() <= WIDTH_MAX, "{}: {line}", command.get_name());
            }
        });
        assert!(examples > 20, "{examples} lines");
    }
}
