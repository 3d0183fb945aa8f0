//! `bbrlab ab status`, `split` and `stop`: control of running tests, and clean-up after killed ones.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;

use bbrlab_host::ab::{Entry, Folder, running};
use bbrlab_host::clock;
use bbrlab_stats::plural::counted;
use bbrlab_study::ab::{Experiment, Shares};

use super::{SplitArgs, StatusArgs, StopArgs};
use crate::grid::{Align, aligned};
use crate::{Error, Verdict, print};

/// Changes the shares of a running test.
pub fn split(args: &SplitArgs) -> Result<Verdict, Error> {
    let folder = running(args.out.as_deref())?;
    let test = folder.experiment()?;
    if let Some(rule) = test.rule {
        return Err(Error::SharesOfRule(rule));
    }
    let shares = Shares::parse(&args.shares, test.arms.len())?;
    folder.ask(&format!("split {}", shares.text()))?;
    print(&format!("from the next connection on: {}\n", test.shown(&shares)))
}

/// Ends a running test.
pub fn stop(args: &StopArgs) -> Result<Verdict, Error> {
    let folder = running(args.out.as_deref())?;
    folder.ask(Folder::STOP)?;
    print(&format!("ended; bbrlab ab report {}\n", folder.0.display()))
}

/// Lists running tests, and cleans up after killed ones.
pub fn status(args: &StatusArgs) -> Result<Verdict, Error> {
    let (mut text, mut tests) = (String::new(), Vec::new());
    for entry in Entry::all() {
        let folder = Folder(entry.out.clone());
        if folder.runs() {
            let test = folder.experiment()?;
            text += &shown(&entry, &test);
            tests.push(serde_json::json!({ "runs": true, "pid": entry.pid, "out": entry.out, "test": test }));
        } else {
            let saved = entry.clear_up()?;
            let _ = writeln!(
                text,
                "{}  ended without notice: it was killed, or its machine stopped. Nothing of it is left in the kernel: new connections have had the \
                 host's default since, and those that had an arm kept it until they closed. {} saved; bbrlab ab report {}",
                entry.out.display(),
                counted(saved, "record"),
                entry.out.display(),
            );
            tests.push(serde_json::json!({ "runs": false, "pid": entry.pid, "out": entry.out, "saved": saved }));
        }
    }
    if args.json {
        return print(&format!("{:#}\n", serde_json::json!({ "schema": 1, "tests": tests })));
    }
    if text.is_empty() {
        text.push_str("no test is running, and none was left behind\n");
    }
    print(&text)
}

fn shown(entry: &Entry, test: &Experiment) -> String {
    let seconds = clock::wall_ns() as f64 / 1e9 - test.begun_unix_s;
    let mut text = format!(
        "{}  runs (process {}) for {seconds:.0} s on {}, by {}\n",
        entry.out.display(),
        entry.pid,
        test.cgroup,
        test.by.units()
    );
    let shares = test.split().map(|change| change.shares.0.clone()).unwrap_or_default();
    let rows = test.arms.iter().enumerate().map(|(at, arm)| {
        let counts = test.counts.arms.get(at).copied().unwrap_or_default();
        vec![
            arm.label.clone(),
            format!("{} %", f64::from(shares.get(at).copied().unwrap_or(0)) / 100.0),
            counts.established.to_string(),
            counts.tried.saturating_sub(counts.established).to_string(),
            counts.refused.to_string(),
        ]
    });
    let head = ["arm", "share", "connections", "handshakes open or failed", "refused"];
    text += &aligned(&head, &[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right], rows);
    let counts = &test.counts;
    let _ = writeln!(
        text,
        "{} written; lost for lack of space: {} in the ring buffer, {} on disk",
        counted(counts.written, "record"),
        counts.ring_lost,
        counts.disk_lost
    );
    for change in test.splits.iter().skip(1) {
        let _ = writeln!(text, "split {}: {}", change.shares.text(), change.why);
    }
    text
}
