//! `bbrlab man`: the man page of each command, in roff.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_mangen::roff::{Roff, roman};

use crate::outputs::{self, Target};
use crate::{Cli, Error, Verdict, print_bytes};

/// Arguments of `bbrlab man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Write each command's page to this directory instead, as in bbrlab-run.1
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints or writes the pages.
pub fn man(args: &ManArgs) -> Result<Verdict, Error> {
    let pages = pages().map_err(Error::io("man page"))?;
    let Some(dir) = &args.out else {
        return print_bytes(&pages.into_iter().flat_map(|(_, page)| page).collect::<Vec<u8>>());
    };
    let mut written = Vec::new();
    for (name, page) in pages {
        written.extend(Target::check("--out", &dir.join(name))?.write(|to| to.write_all(&page))?);
    }
    outputs::commit(written)?;
    Ok(Verdict::Holds)
}

/// File name and text of each command's page.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut root = without_help(Cli::command());
    // Gives each command its full name: `bbrlab host load`.
    root.build();
    let mut pages = Vec::new();
    add(&root, &mut pages)?;
    Ok(pages)
}

/// Removes the subcommand `help`, which has no page.
fn without_help(command: clap::Command) -> clap::Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

fn add(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone().after_help(None::<&'static str>))
        .source(concat!("bbrlab ", env!("CARGO_PKG_VERSION")));
    man.render(&mut page)?;
    if let Some(text) = command.get_after_help() {
        after_help(&text.to_string()).to_writer(&mut page)?;
    }
    pages.push((man.get_filename(), page));
    command.get_subcommands().filter(|one| !one.is_hide_set()).try_for_each(|one| add(one, pages))
}

/// The end of a command's help; indented lines are examples, and stay as they are.
fn after_help(text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["NOTES"]);
    let mut was_example = false;
    for line in text.lines() {
        let is_example = line.starts_with("  ");
        if is_example != was_example {
            roff.control(if is_example { "nf" } else { "fi" }, []);
            was_example = is_example;
        }
        match line {
            "" => roff.control("PP", []),
            line => roff.text([roman(line)]),
        };
    }
    if was_example {
        roff.control("fi", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_help_shows_has_a_page() {
        let names: Vec<String> = pages().unwrap().into_iter().map(|(name, _)| name).collect();
        for name in ["bbrlab.1", "bbrlab-run.1", "bbrlab-host-load.1", "bbrlab-host-policy.1", "bbrlab-list-keys.1"] {
            assert!(names.iter().any(|other| other == name), "{name}: {names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("uml") || name.contains("help")), "{names:?}");
        for (name, page) in pages().unwrap() {
            assert!(!String::from_utf8(page).unwrap().contains("help(1)"), "{name}");
        }
    }

    #[test]
    fn examples_keep_their_lines() {
        let page = after_help("Examples:\n  a -- \\\n    .b 'c'\n\nWords.").render();
        let wanted = ".SH NOTES\nExamples:\n.nf\n  a \\-\\- \\\\\n    .b \\*(Aqc\\*(Aq\n.fi\n.PP\nWords.\n";
        assert!(page.ends_with(wanted), "{page}");
    }
}
