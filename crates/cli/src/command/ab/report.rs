//! `bbrlab ab report` and `bbrlab ab summary`: analysis and summary of a test's records.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::Path;

use bbrlab_host::ab::{Evidence, read_all};
use bbrlab_stats::plural::counted;
use bbrlab_study::ab::{self, Experiment, Findings, PrefixLengths, Prefixes, Summary};

use super::{ReportArgs, SummaryArgs};
use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::provenance::provenance;
use crate::{Error, Verdict, inputs, print};

/// Judges the records, and writes the requested outputs.
pub fn report(args: &ReportArgs) -> Result<Verdict, Error> {
    let evidence = Evidence::open(&args.tests)?;
    let json = Target::asked("--json", args.json.as_deref())?;
    let report = Target::asked("--report", args.report.as_deref())?;
    let policy = Target::asked("--policy", args.policy.as_deref())?;
    outputs::check_distinct(json.iter().chain(&report).chain(&policy))?;
    let prefixes = classes(args.classes.as_deref(), evidence.keep())?;
    let (test, found) = evidence.judge(&prefixes, args.seed)?;
    let version = env!("CARGO_PKG_VERSION");
    let mut files = Vec::new();
    if let Some(report) = &report {
        let mut page = ab::report(&test, &found, version);
        page.provenance.command = provenance(&[]).command;
        let page = bbrlab_report::render(&page);
        files.extend(report.write(|to| to.write_all(page.as_bytes()))?);
    }
    if let Some(json) = &json {
        let value = ab::json(&test, &found, version);
        files.extend(json.write(|to| writeln!(to, "{value:#}"))?);
    }
    if let Some(policy) = &policy {
        let text = ab::policy(&test, &found, &prefixes, version);
        files.extend(policy.write(|to| to.write_all(text.as_bytes()))?);
    }
    outputs::commit(files)?;
    if !outputs::take_stdout(json.iter().chain(&report).chain(&policy)) {
        print(&shown(&test, &found))?;
    }
    Ok(Verdict::Holds)
}

/// Writes the summary of a test's records.
pub fn summary(args: &SummaryArgs) -> Result<Verdict, Error> {
    let out = Target::check("--out", &args.out)?;
    let (test, records) = read_all(std::slice::from_ref(&args.test))?;
    let prefixes = classes(args.classes.as_deref(), test.keep)?;
    let summary = Summary::of(&test, &records, &prefixes, args.seed)?;
    let files = out.write(|to| {
        serde_json::to_writer(&mut *to, &summary)?;
        writeln!(to)
    })?;
    outputs::commit(files.into_iter().collect())?;
    Ok(Verdict::Holds)
}

fn classes(path: Option<&Path>, keep: PrefixLengths) -> Result<Prefixes, Error> {
    let Some(path) = path else { return Ok(Prefixes::default()) };
    let parsed = inputs::classes(path).and_then(|text| Ok(Prefixes::parse(&text, keep)?));
    parsed.map_err(Error::at(inputs::name(path))).map_err(Error::flag("--classes"))
}

fn shown(test: &Experiment, found: &Findings) -> String {
    let (arms, lines) = ab::rows(test, found);
    let grid = |table: bbrlab_report::Table, left: &[usize]| {
        let align = |column| if left.contains(&column) { Align::Left } else { Align::Right };
        let head: Vec<&str> = table.columns.iter().map(String::as_str).collect();
        let align: Vec<Align> = (0..head.len()).map(align).collect();
        aligned(&head, &align, table.rows)
    };
    let mut text = grid(arms, &[0]);
    text.push('\n');
    for note in ab::notes(test, found) {
        text += &format!("{note}\n");
    }
    if lines.rows.is_empty() {
        text += "\nNo connection of any arm has ended with data.\n";
        return text;
    }
    text.push('\n');
    text += &grid(lines, &[0, 1, 2, 6]);
    if let Some(states) = ab::state_rows(found) {
        text += "\nShare of the connections' time in each state\n";
        text += &grid(states, &[0]);
    }
    text += &format!(
        "\n{}; gains are ratios of medians against {}, with 95 % bootstrap intervals over {}\n",
        counted(found.connections, "connection"),
        test.arms[0].label,
        test.by.units(),
    );
    text
}
