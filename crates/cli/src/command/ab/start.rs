//! `bbrlab ab start`: runs a test, and tells how it begins and ends.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use bbrlab_host::TrialError;
use bbrlab_host::ab::{Callbacks, Run};
use bbrlab_live::{hook, kernel};
use bbrlab_stats::plural::counted;

use super::{StartArgs, config};
use crate::{Error, Verdict, interrupt, print};

/// True once the end of the test was requested.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Prints a line of progress to standard error; if that is closed, the test continues.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "bbrlab: {line}");
}

fn trial(name: &str) -> Result<(), TrialError> {
    Ok(kernel::trial::transfer(name)?)
}

/// Runs a test until it ends.
pub fn start(args: &StartArgs) -> Result<Verdict, Error> {
    let asked = config::request(args)?;
    // The first signal ends the test in order, the second the process.
    interrupt::on_signal(|| !ENDS.swap(true, Ordering::SeqCst));
    let callbacks = Callbacks { trial, acting: hook::sock_ops_of, tell, ends: &ENDS };
    let run = Run::start(&asked, callbacks)?;
    let (test, out) = (run.test(), run.out().to_owned());
    print(&format!(
        "{} on {}: {}\nrecords in {}; Ctrl-C or `bbrlab ab stop` ends it{}\n",
        if test.is_aa() { "A/A test" } else { "test" },
        test.cgroup,
        test.split().map(|change| test.shown(&change.shares)).unwrap_or_default(),
        out.display(),
        if test.rule.is_none() { ", `bbrlab ab split` changes the shares" } else { "" },
    ))?;
    let test = run.run()?;
    let counts = &test.counts;
    let connections: u64 = counts.arms.iter().map(|arm| arm.established).sum();
    print(&format!(
        "ended, {}: {}, {}, {} lost.{}\nbbrlab ab report {}\n",
        test.ended.as_ref().map_or("", |end| &end.how),
        counted(connections, "connection"),
        counted(counts.written, "record"),
        counts.ring_lost + counts.disk_lost,
        if test.rule.is_none() { " New connections have the host's default." } else { "" },
        out.display(),
    ))
}
