//! `bbrlab conform`: runs the draft's example test cases over a grid of rates and RTTs, or judges a log.
//! Exit status 1 if a case fails.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod stacks;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use bbrlab_core::AlgorithmConfig;
use bbrlab_lab::conform::{self, Case, CaseOutcome, Cell, CellOutcome, Subject, Verdict as Met, log};
use bbrlab_report::Report;
use bbrlab_stats::plural::{counted, verb};

use serde_json::Value;

use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::progress::Progress;
use crate::provenance::provenance;
use crate::{Error, Verdict, inputs, print};
use clap::Args;

/// Flags of `bbrlab conform`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status 1 if a case fails. docs/conformance.md and the report state the requirement of each case, and our interpretation.\n\n\
        Examples:\n  \
        bbrlab conform bbr3 --report out/conform.html\n  \
        bbrlab conform bbr3 bbr3-linux --case 10 --cell 10gbit/500us --junit out/conform.xml\n  \
        bbrlab conform s2n:bbr s2n+bbr3\n  \
        bbrlab conform --log connection.sqlog"
)]
pub struct ConformArgs {
    /// Algorithms, as in bbr3 or bbr3-linux; in a QUIC stack, its own as in s2n:bbr, ours as in s2n+bbr3. With --log:
    /// check only the flows of these algorithms, by their names in the log [default: every BBRv3, and every BBR whose
    /// version the log does not name]
    #[arg(required_unless_present = "log", value_name = "ALGO")]
    pub algorithms: Vec<String>,
    /// Only this case: its number in the draft's appendix, or the anchor of its heading (repeatable)
    #[arg(long, value_name = "ID")]
    pub case: Vec<String>,
    /// Only this cell of the grid, as in 20mbit/100ms (repeatable)
    #[arg(long, value_name = "RATE/RTT")]
    pub cell: Vec<String>,
    /// Read the cases from this directory instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    pub cases: Option<PathBuf>,
    /// Check a log of another implementation, as far as its data allow: qlog (either dialect), ss -tin, or a trace of
    /// bbrlab run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["case", "cell", "draw"])]
    pub log: Option<PathBuf>,
    /// Write the verdicts as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the verdicts as JUnit XML, for CI
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Cell whose run the page draws if nothing fails [default: 20mbit/100ms]
    #[arg(long, value_name = "RATE/RTT", requires = "report")]
    pub draw: Option<String>,
}

/// Maximum number of failing cells per case that the table explains.
const FAULTS_SHOWN: usize = 3;

/// Runs the selected cases, or judges a log.
pub fn conform(args: &ConformArgs) -> Result<Verdict, Error> {
    crate::start_threads()?;
    let targets = Targets::check(args)?;
    if let Some(path) = &args.log {
        return judge_log(path, &args.algorithms, &targets);
    }
    let outcomes = run(args)?;
    targets.write(
        || {
            bbrlab_report::render(&Report {
                provenance: provenance(&[("ran in", "virtual time".to_owned())]),
                ..conform::page(&outcomes)
            })
        },
        || conform::junit(&outcomes),
        || conform::json(&outcomes),
    )?;
    if !targets.takes_stdout() {
        print(&shown(&outcomes))?;
    }
    let fails = outcomes.iter().any(|outcome| outcome.verdict() == Met::Fails);
    Ok(if fails { Verdict::Fails } else { Verdict::Holds })
}

/// Judges a log.
fn judge_log(path: &Path, named: &[String], targets: &Targets) -> Result<Verdict, Error> {
    let fault = |error: Error| Error::flag("--log")(Error::at(inputs::name(path))(error));
    let bytes = inputs::log(path).map_err(fault)?;
    let log = log::read(&String::from_utf8_lossy(&bytes)).map_err(|error| fault(error.into()))?;
    if let Some(older) = named.iter().find(|cc| !log::is_of_the_draft(cc)) {
        return Err(fault(Error::NotTheDrafts(older.clone())));
    }
    let judge = |flow: &log::FlowLog| if flow.is_judged(named) { log::judge(flow) } else { Vec::new() };
    let judged: log::JudgedFlows<'_> = log.flows.iter().map(|flow| (flow, judge(flow))).collect();
    if judged.iter().all(|(_, seen)| seen.is_empty()) {
        let ran: BTreeSet<&str> = log.flows.iter().filter_map(|flow| flow.cc.as_deref()).collect();
        let found = ran.into_iter().map(str::to_owned).collect();
        return Err(fault(Error::NotInLog { wanted: named.to_vec(), found }));
    }
    targets.write(
        || {
            bbrlab_report::render(&Report {
                provenance: provenance(&[("log", path.display().to_string())]),
                ..log::page(&log, &judged)
            })
        },
        || log::junit(&judged),
        || log::json(&log, &judged),
    )?;
    if !targets.takes_stdout() {
        print(&shown_log(&log, &judged))?;
    }
    let fails = judged.iter().flat_map(|(_, seen)| seen).any(|seen| seen.verdict == Met::Fails);
    Ok(if fails { Verdict::Fails } else { Verdict::Holds })
}

fn shown_log(log: &log::Log, judged: &log::JudgedFlows<'_>) -> String {
    let mut text = String::new();
    for (flow, seen) in judged {
        let cc = flow.cc.as_ref().map_or(String::new(), |cc| format!(" ({cc})"));
        let counts = format!("{}, {}", counted(flow.samples.len(), "sample"), flow.losses_text());
        let _ = writeln!(text, "{}{cc}: {}, {counts}", flow.name, log.form);
        if seen.is_empty() {
            text += "not judged: the draft describes BBRv3\n\n";
            continue;
        }
        let rows = seen.iter().map(|seen| {
            let reason = seen.reason.clone().unwrap_or_default();
            vec![word(seen.verdict), seen.measured_text(), seen.expected.clone(), seen.what.clone(), reason]
        });
        let align = [Align::Left, Align::Right, Align::Left, Align::Text, Align::Text];
        text += &aligned(&["verdict", "measured", "expected", "what", "why not"], &align, rows);
    }
    let count = |met| judged.iter().flat_map(|(_, seen)| seen).filter(|seen| seen.verdict == met).count();
    let held = count(Met::Holds);
    let _ = writeln!(
        text,
        "\n{} {}, {}, {} not shown by this log",
        counted(held, "demand"),
        if held == 1 { "holds" } else { "hold" },
        verb(count(Met::Fails), "fails", "fail"),
        verb(count(Met::NotApplicable), "is", "are")
    );
    text
}

/// Destinations of the results.
struct Targets {
    json: Option<Target>,
    junit: Option<Target>,
    report: Option<Target>,
}

impl Targets {
    fn check(args: &ConformArgs) -> Result<Self, Error> {
        let targets = Self {
            json: Target::asked("--json", args.json.as_deref())?,
            junit: Target::asked("--junit", args.junit.as_deref())?,
            report: Target::asked("--report", args.report.as_deref())?,
        };
        outputs::check_distinct(targets.json.iter().chain(&targets.junit).chain(&targets.report))?;
        Ok(targets)
    }

    /// Writes the requested outputs.
    fn write(
        &self,
        page: impl FnOnce() -> String,
        junit: impl FnOnce() -> String,
        json: impl FnOnce() -> Value,
    ) -> Result<(), Error> {
        let mut files = Vec::new();
        if let Some(report) = &self.report {
            files.extend(report.write(|to| to.write_all(page().as_bytes()))?);
        }
        if let Some(target) = &self.junit {
            files.extend(target.write(|to| to.write_all(junit().as_bytes()))?);
        }
        if let Some(target) = &self.json {
            files.extend(target.write(|to| writeln!(to, "{:#}", json()))?);
        }
        outputs::commit(files)
    }

    fn takes_stdout(&self) -> bool {
        outputs::take_stdout(self.json.iter().chain(&self.junit).chain(&self.report))
    }
}

fn cell(flag: &'static str, text: &str) -> Result<Cell, Error> {
    text.parse().map_err(Error::flag(flag))
}

fn run(args: &ConformArgs) -> Result<Vec<CaseOutcome>, Error> {
    let cases = chosen(&args.case, args.cases.as_deref())?;
    let mut cells: Vec<Cell> = Vec::new();
    for text in &args.cell {
        let cell = cell("--cell", text)?;
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
    let mut subjects: Vec<Subject> = Vec::new();
    for name in &args.algorithms {
        let subject = subject(name, &cells)?;
        if subjects.iter().all(|known| known.name != subject.name) {
            subjects.push(subject);
        }
    }
    let shown = match &args.draw {
        Some(text) => Some(cell("--draw", text)?),
        None if cells.is_empty() => Some(cell("--draw", DRAWN)?),
        None => cells.first().copied(),
    };
    let shown = shown.filter(|_| args.report.is_some());
    let runs =
        |subject: &Subject| cases.iter().filter(|case| subject.not(case).is_none()).count() * subject.cells.len();
    let progress = Progress::new("conforming", subjects.iter().map(runs).sum());
    Ok(conform::run_all(&cases, &subjects, shown, &|| progress.tick())?)
}

/// Resolves a name to the algorithm under test, in these cells or in the default ones.
fn subject(name: &str, cells: &[Cell]) -> Result<Subject, Error> {
    if let Some(found) = stacks::named(name, cells) {
        return found;
    }
    if AlgorithmConfig::named(name).is_none() {
        return Err(Error::UnknownAlgorithm(name.to_owned()));
    }
    Ok(Subject::simulated(name, if cells.is_empty() { conform::grid() } else { cells.to_vec() }))
}

/// Cell that a page draws if nothing fails: the middle of the grid.
const DRAWN: &str = "20mbit/100ms";

fn chosen(ids: &[String], directory: Option<&Path>) -> Result<Vec<Case>, Error> {
    let cases = match directory {
        Some(directory) => conform::load_dir(directory).map_err(Error::flag("--cases"))?,
        None => conform::cases(),
    };
    let is = |case: &Case, id: &str| id.parse() == Ok(case.number) || case.anchor == id;
    if let Some(id) = ids.iter().find(|id| !cases.iter().any(|case| is(case, id))) {
        let known = match directory {
            Some(_) => cases.iter().map(|case| case.number.to_string()).collect::<Vec<_>>().join(", "),
            None => format!("1 to {}", cases.len()),
        };
        return Err(Error::UnknownCase { id: id.clone(), known });
    }
    Ok(cases.into_iter().filter(|case| ids.is_empty() || ids.iter().any(|id| is(case, id))).collect())
}

fn shown(outcomes: &[CaseOutcome]) -> String {
    let rows = outcomes.iter().map(|outcome| {
        let (holds, fails, not) = outcome.counts();
        let cells =
            if outcome.not.is_some() { [""; 3].map(str::to_owned) } else { [holds, fails, not].map(|n| n.to_string()) };
        let [holds, fails, not] = cells;
        vec![
            outcome.algorithm.clone(),
            outcome.case.id(),
            word(outcome.verdict()),
            holds,
            fails,
            not,
            outcome.case.title.clone(),
        ]
    });
    let align = [Align::Left, Align::Right, Align::Left, Align::Right, Align::Right, Align::Right, Align::Text];
    let head = ["algorithm", "case", "verdict", "hold", "fail", "n/a", "title"];
    let mut text = aligned(&head, &align, rows);
    for outcome in outcomes {
        faults(&mut text, outcome);
        for reason in reasons(outcome) {
            let _ = writeln!(text, "{} case {}: {reason}", outcome.algorithm, outcome.case.id());
        }
    }
    let count = |met| outcomes.iter().filter(|outcome| outcome.verdict() == met).count();
    let _ = writeln!(
        text,
        "\n{} of {} {}, {}, {} not applicable",
        count(Met::Holds),
        counted(outcomes.len(), "case"),
        if outcomes.len() == 1 { "holds" } else { "hold" },
        verb(count(Met::Fails), "fails", "fail"),
        count(Met::NotApplicable)
    );
    text
}

fn word(met: Met) -> String {
    if met == Met::Fails { "FAILS".to_owned() } else { met.name().to_owned() }
}

/// Lists the failures in the first failing cells.
fn faults(text: &mut String, outcome: &CaseOutcome) {
    let failing: Vec<&CellOutcome> = outcome.cells.iter().filter(|cell| cell.verdict() == Met::Fails).collect();
    for cell in failing.iter().take(FAULTS_SHOWN) {
        for seen in cell.seen.iter().filter(|seen| seen.verdict == Met::Fails) {
            let _ = writeln!(
                text,
                "{} case {} at {}: {}: expected {}, measured {}",
                outcome.algorithm,
                outcome.case.id(),
                cell.cell,
                seen.what,
                seen.expected,
                seen.measured_text()
            );
        }
    }
    if failing.len() > FAULTS_SHOWN {
        let (name, more) = (outcome.case.id(), failing.len() - FAULTS_SHOWN);
        let _ = writeln!(text, "{} case {name}: {more} more cells fail", outcome.algorithm);
    }
}

/// Reasons for which a case does not apply, or not everywhere: each once, with its number of cells.
fn reasons(outcome: &CaseOutcome) -> Vec<String> {
    if let Some(reason) = &outcome.not {
        return vec![format!("not applicable: {reason}")];
    }
    let mut found: Vec<(String, usize)> = Vec::new();
    for cell in outcome.cells.iter().filter(|cell| cell.verdict() == Met::NotApplicable) {
        let Some(reason) = cell.seen.iter().find_map(|seen| seen.reason.clone()) else { continue };
        match found.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => found.push((reason, 1)),
        }
    }
    found.into_iter().map(|(reason, cells)| format!("not applicable in {}: {reason}", counted(cells, "cell"))).collect()
}
