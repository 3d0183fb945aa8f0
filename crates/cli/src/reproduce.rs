//! `bbrlab reproduce`: the catalogue of published claims, each with its expected and measured value and its verdict.
//! In: claims by number. Out: a table, a report, exit status 1 if one fails. Never: a claim left out in silence.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write;
use std::path::Path;

use bbrlab_lab::experiment::{self, Elsewhere, Experiment, ExperimentOutcome, Row, Verdict as RowVerdict};
use bbrlab_lab::report::model::{ClaimRow, Report, Section, Verdict as ReportVerdict};
use bbrlab_sim::scenario::{On, Scenario, nearest};
use bbrlab_sim::setup::Setup;
use serde_json::{Value, json};

use crate::args::ReproduceArgs;
use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::progress::Progress;
use crate::worlds::World;
use crate::{Failure, Verdict, print};

/// Runs the claims that the arguments name.
pub fn reproduce(args: &ReproduceArgs) -> Result<Verdict, Failure> {
    let experiments = chosen(load(args.experiments.as_deref())?, &args.ids)?;
    let json = Target::asked("--json", args.json.as_deref())?;
    let report = Target::page(args.report.as_deref())?;
    outputs::check_distinct(json.iter().chain(&report))?;
    let outcomes = run(args, &experiments)?;
    let mut files = Vec::new();
    if let Some(report) = &report {
        let page = bbrlab_lab::report::render(&page(&outcomes, args.seed));
        files.extend(report.write(|to| to.write_all(page.as_bytes()))?);
    }
    if let Some(json) = &json {
        files.extend(json.write(|to| writeln!(to, "{:#}", verdicts(&outcomes, args.seed)))?);
    }
    outputs::commit(files)?;
    if !json.as_ref().is_some_and(Target::is_stdout) {
        print(&shown(&outcomes))?;
    }
    Ok(if outcomes.iter().all(ExperimentOutcome::passes) { Verdict::Holds } else { Verdict::Fails })
}

/// Runs them in the world that the arguments name; beside a real kernel's figures stand the simulator's.
fn run(args: &ReproduceArgs, experiments: &[Experiment]) -> Result<Vec<ExperimentOutcome>, Failure> {
    let on: On = args.on.parse().map_err(|error| format!("--on: {error}"))?;
    let world = World::of(on)?;
    let first_seed = |scenario: &Scenario| !args.one_seed || scenario.seed == args.seed;
    let there = |scenario: &Scenario, setup: &Setup| {
        if !first_seed(scenario) {
            return Err(Elsewhere::Cannot("another seed".to_owned()));
        }
        World::check(on, setup).map_err(Elsewhere::Cannot)?;
        world.run(scenario, setup, &mut |_| {}).map_err(Elsewhere::Failed)
    };
    let mut here = experiments.to_vec();
    if !matches!(world, World::Sim) {
        here.iter_mut().for_each(Experiment::leave_population_out);
    }
    let mut outcomes = run_in(args, &here, &there)?;
    if !matches!(world, World::Sim) {
        let simulated = run_in(args, experiments, &experiment::simulator)?;
        for (row, beside) in outcomes.iter_mut().flat_map(|o| &mut o.rows).zip(simulated.iter().flat_map(|o| &o.rows)) {
            let (word, ..) = verdict(beside);
            let noted = format!("simulator: {}, {}", measured(beside), word.to_lowercase());
            row.note = Some(row.note.take().map_or(noted.clone(), |note| format!("{note}; {noted}")));
        }
    }
    Ok(outcomes)
}

fn run_in(
    args: &ReproduceArgs,
    experiments: &[Experiment],
    world: &experiment::World<'_>,
) -> Result<Vec<ExperimentOutcome>, Failure> {
    let progress = Progress::new("reproducing", experiments.iter().map(Experiment::run_count).sum());
    let outcomes = experiment::run_all(experiments, args.seed, world, &|_, _| progress.tick());
    outcomes.into_iter().collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// The experiments with their claims' sources, for `bbrlab list experiments`.
pub fn list(dir: Option<&Path>) -> Result<String, Failure> {
    let rows = load(dir)?.into_iter().map(|e| {
        let runs = e.run_count().to_string();
        vec![e.id, e.title, runs, e.source]
    });
    let align = [Align::Left, Align::Text, Align::Right, Align::Text];
    Ok(aligned(&["id", "title", "runs", "source"], &align, rows))
}

fn load(dir: Option<&Path>) -> Result<Vec<Experiment>, Failure> {
    match dir {
        Some(dir) => experiment::load_dir(dir).map_err(|error| error.to_string()),
        None => Ok(experiment::embedded()),
    }
}

fn chosen(experiments: Vec<Experiment>, ids: &[String]) -> Result<Vec<Experiment>, Failure> {
    let is = |experiment: &Experiment, id: &str| experiment.id.eq_ignore_ascii_case(id);
    if let Some(id) = ids.iter().find(|id| !experiments.iter().any(|experiment| is(experiment, id))) {
        let near = nearest(id, experiments.iter().map(|experiment| experiment.id.as_str()));
        let near = near.map_or(String::new(), |near| format!(" (did you mean {near}?)"));
        return Err(format!("no experiment {id:?}{near}; see `bbrlab list experiments`"));
    }
    if experiments.is_empty() {
        return Err("no experiment is there; name a directory that holds some with --experiments DIR".to_owned());
    }
    let wanted = |experiment: &Experiment| ids.is_empty() || ids.iter().any(|id| is(experiment, id));
    Ok(experiments.into_iter().filter(wanted).collect())
}

fn verdict(row: &Row) -> (&'static str, ReportVerdict, Option<String>) {
    match &row.verdict {
        RowVerdict::Holds => ("holds", ReportVerdict::Holds, None),
        RowVerdict::FallsShort { reason } => ("falls short", ReportVerdict::FallsShort, Some(reason.clone())),
        RowVerdict::Fails => ("FAILS", ReportVerdict::Fails, None),
        RowVerdict::NotHere => {
            ("not here", ReportVerdict::FallsShort, Some("it needs a run that this world cannot do".to_owned()))
        }
    }
}

fn measured(row: &Row) -> String {
    if row.measured.is_nan() {
        return "nothing".to_owned();
    }
    let digits = if row.measured.abs() >= 100.0 { 1 } else { 3 };
    format!("{:.digits$} {}", row.measured, row.unit).trim_end().to_owned()
}

/// The rows of claims as text.
pub fn shown(outcomes: &[ExperimentOutcome]) -> String {
    let rows = outcomes.iter().flat_map(|outcome| {
        outcome.rows.iter().map(|row| {
            let (word, _, reason) = verdict(row);
            let note: Vec<String> = reason.into_iter().chain(row.note.clone()).collect();
            vec![
                outcome.id.clone(),
                word.to_owned(),
                row.what.clone(),
                measured(row),
                row.expected.clone(),
                note.join("; "),
            ]
        })
    });
    let align = [Align::Left, Align::Left, Align::Text, Align::Right, Align::Text, Align::Text];
    let mut text = aligned(&["id", "verdict", "what", "measured", "expected", "note"], &align, rows);
    let count =
        |which: &str| outcomes.iter().flat_map(|outcome| &outcome.rows).filter(|row| verdict(row).0 == which).count();
    let _ = write!(
        text,
        "\n{} claims: {} expectations hold, {} fall short, {} fail",
        outcomes.len(),
        count("holds"),
        count("falls short"),
        count("FAILS"),
    );
    match count("not here") {
        0 => text.push('\n'),
        n => {
            let _ = writeln!(text, ", {n} need another world");
        }
    }
    text
}

/// The rows of claims for programs.
pub fn verdicts(outcomes: &[ExperimentOutcome], seed: u64) -> Value {
    let row = |row: &Row| {
        let (word, _, reason) = verdict(row);
        json!({ "what": row.what, "expected": row.expected, "measured": row.measured, "unit": row.unit,
                "verdict": word.to_lowercase().replace(' ', "_"), "reason": reason, "note": row.note })
    };
    let experiments: Vec<Value> = outcomes
        .iter()
        .map(|outcome| {
            json!({ "id": outcome.id, "title": outcome.title, "source": outcome.source, "claim": outcome.claim,
                    "holds": outcome.passes(), "expect": outcome.rows.iter().map(row).collect::<Vec<Value>>() })
        })
        .collect();
    json!({ "schema": 1, "version": env!("CARGO_PKG_VERSION"), "seed": seed, "experiments": experiments })
}

/// The rows of a claim, as a page shows them.
pub fn claims(outcome: &ExperimentOutcome) -> impl Iterator<Item = ClaimRow> {
    let here = outcome.rows.iter().filter(|row| row.verdict != RowVerdict::NotHere);
    here.map(|row| {
        let (_, verdict, reason) = verdict(row);
        ClaimRow {
            id: outcome.id.clone(),
            title: outcome.title.clone(),
            source: outcome.source.clone(),
            claim: outcome.claim.clone(),
            contradiction: outcome.contradiction.clone(),
            what: row.what.clone(),
            expected: row.expected.clone(),
            measured: measured(row),
            verdict,
            reason: reason.or_else(|| row.note.clone()),
        }
    })
}

fn page(outcomes: &[ExperimentOutcome], seed: u64) -> Report {
    let mut report = Report {
        title: "Published claims, reproduced".to_owned(),
        subtitle: format!("bbrlab {}, seed {seed}", env!("CARGO_PKG_VERSION")),
        ..Report::default()
    };
    for outcome in outcomes {
        let first = report.claims.len();
        report.claims.extend(claims(outcome));
        report.sections.push(Section {
            id: outcome.id.clone(),
            title: outcome.title.clone(),
            source: outcome.source.clone(),
            claim: outcome.claim.clone(),
            contradiction: outcome.contradiction.clone(),
            rows: (first..report.claims.len()).collect(),
            figures: outcome.figures.clone(),
            heats: outcome.heats.clone(),
            runs_table: Some(outcome.runs.clone()),
            ..Section::default()
        });
    }
    report
}
