//! The command line shown on a page, without the names of output files.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ffi::OsString;

use bbrlab_report::model::Provenance;

/// Flags that name output files: they do not change the results.
const OUTPUTS: [&str; 8] = ["--report", "--json", "--junit", "--csv", "--parquet", "--qlog", "--pcap", "--pcap-limit"];
/// Flags that only change the printed output.
const SILENT: [&str; 2] = ["--quiet", "-q"];

/// The command for the page's reader to repeat, with additional facts.
pub fn provenance(facts: &[(&str, String)]) -> Provenance {
    let version = ("version", format!("bbrlab {}", env!("CARGO_PKG_VERSION")));
    let facts = Provenance::of_facts(facts.iter().cloned().chain([version]));
    Provenance { command: command(std::env::args_os().skip(1)), ..facts }
}

/// Formats a command line of `bbrlab` with these arguments.
fn command(args: impl Iterator<Item = OsString>) -> String {
    let mut line = "bbrlab".to_owned();
    let mut args = args.map(|arg| arg.to_string_lossy().into_owned()).peekable();
    while let Some(arg) = args.next() {
        let name = arg.split_once('=').map_or(arg.as_str(), |(name, _)| name);
        if OUTPUTS.contains(&name) {
            // `--json` may lack a value.
            if !arg.contains('=') {
                args.next_if(|value| value == "-" || !value.starts_with('-'));
            }
        } else if !SILENT.contains(&name) {
            line += " ";
            line += &quoted(&arg);
        }
    }
    line
}

/// Quotes an argument for the shell.
pub fn quoted(arg: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !arg.is_empty() && arg.chars().all(is_plain) {
        return arg.to_owned();
    }
    format!("'{}'", arg.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(args: &[&str]) -> String {
        command(args.iter().map(OsString::from))
    }

    #[test]
    fn files_to_write_are_left_out_and_all_else_stays() {
        assert_eq!(line(&["run", "--report", "a.html", "--flow", "bbr1", "-q"]), "bbrlab run --flow bbr1");
        assert_eq!(line(&["cdn", "--json", "--users", "9", "--report=b"]), "bbrlab cdn --users 9");
    }

    #[test]
    fn what_a_shell_would_split_or_expand_is_quoted() {
        assert_eq!(line(&["advise", "--algorithms", "bbr1;bbr3"]), "bbrlab advise --algorithms 'bbr1;bbr3'");
        assert_eq!(quoted("it's *"), "'it'\\''s *'");
    }
}
