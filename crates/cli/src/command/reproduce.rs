//! `bbrlab reproduce`: runs the catalogue of published claims, and reports expected value, measured value and verdict.
//! Exit status 1 if an expectation fails.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_lab::experiment::{
    self, Experiment, ExperimentOutcome, HeldCounts, RunError, Verdict as Row, claim_rows, measured, verdict,
};
use bbrlab_lab::session::Runner as _;
use bbrlab_report::model::{Figure, Report, Section, Thumbnail};
use bbrlab_sim::scenario::{Backend, Scenario, nearest};
use bbrlab_sim::setup::{Program, Setup};
use bbrlab_stats::plural::{counted, verb};

use crate::args::seed;
use crate::claims::{load_experiments, shown};
use crate::outputs::{self, Target};
use crate::progress::Progress;
use crate::provenance::{provenance, quoted};
use crate::runner::Runner;
use crate::{Error, Verdict, print};
use clap::Args;
use std::path::PathBuf;

/// Flags of `bbrlab reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Claims to run, as in F8 [default: all]
    pub ids: Vec<String>,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write the verdicts as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Read the experiments from this directory instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    pub experiments: Option<PathBuf>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true, value_parser = seed)]
    pub seed: u64,
    /// Backend of the runs: sim, or a real kernel (uml, kernel) with the simulator's figures beside it
    #[arg(long, value_name = "BACKEND", default_value = "sim")]
    pub on: String,
    /// With --on kernel: source of the programs for bbr1, cubic and reno, the kernel's own or ours (bbrlab)
    #[arg(long, value_name = "WHOSE", default_value = "kernel", value_parser = crate::args::program)]
    pub program: Program,
    /// If a claim is the median over several seeds, run only the first seed: faster, but less reliable
    #[arg(long)]
    pub one_seed: bool,
}

/// Runs the selected claims.
pub fn reproduce(args: &ReproduceArgs) -> Result<Verdict, Error> {
    let experiments = chosen(load_experiments(args.experiments.as_deref())?, &args.ids)?;
    let json = Target::asked("--json", args.json.as_deref())?;
    let report = Target::asked("--report", args.report.as_deref())?;
    outputs::check_distinct(json.iter().chain(&report))?;
    let outcomes = run(args, &experiments)?;
    let mut files = Vec::new();
    if let Some(report) = &report {
        let page = bbrlab_report::render(&page(args, &outcomes));
        files.extend(report.write(|to| to.write_all(page.as_bytes()))?);
    }
    if let Some(json) = &json {
        files.extend(json.write(|to| writeln!(to, "{:#}", experiment::json(&outcomes, args.seed)))?);
    }
    outputs::commit(files)?;
    if !outputs::take_stdout(json.iter().chain(&report)) {
        print(&shown(&outcomes))?;
    }
    Ok(if outcomes.iter().all(ExperimentOutcome::passes) { Verdict::Holds } else { Verdict::Fails })
}

/// Runs them on the requested backend; the simulator's figures are added beside a real kernel's.
fn run(args: &ReproduceArgs, experiments: &[Experiment]) -> Result<Vec<ExperimentOutcome>, Error> {
    let on: Backend = args.on.parse().map_err(Error::flag("--on"))?;
    let runner = Runner::of(on)?;
    let first_seed = |scenario: &Scenario| !args.one_seed || scenario.seed == args.seed;
    let there = |scenario: &Scenario, setup: &Setup| {
        if !first_seed(scenario) {
            return Err(RunError::Unsupported);
        }
        let mut setup = setup.clone();
        if args.program == Program::Bbrlab {
            setup.flows.iter_mut().for_each(|flow| flow.host.program = Program::Bbrlab);
        }
        Runner::check(on, &setup).map_err(|_| RunError::Unsupported)?;
        runner.run(scenario, &setup, &mut |_| {}).map_err(RunError::Failed)
    };
    let mut here = experiments.to_vec();
    if args.one_seed {
        here.iter_mut().for_each(Experiment::lenient);
    }
    if on != Backend::Sim {
        here.iter_mut().for_each(Experiment::on_a_kernel);
    }
    let mut outcomes = run_in(args, &here, &there)?;
    if on != Backend::Sim {
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
    runner: &experiment::RunSetup<'_>,
) -> Result<Vec<ExperimentOutcome>, Error> {
    let progress = Progress::new("reproducing", experiments.iter().map(Experiment::run_count).sum());
    let outcomes = experiment::run_all(experiments, args.seed, runner, &|_, _| progress.tick());
    Ok(outcomes.into_iter().collect::<Result<_, _>>()?)
}

fn chosen(experiments: Vec<Experiment>, ids: &[String]) -> Result<Vec<Experiment>, Error> {
    let is = |experiment: &Experiment, id: &str| experiment.id.eq_ignore_ascii_case(id);
    if let Some(id) = ids.iter().find(|id| !experiments.iter().any(|experiment| is(experiment, id))) {
        let near = nearest(id, experiments.iter().map(|experiment| experiment.id.as_str()));
        return Err(Error::UnknownExperiment { id: id.clone(), near: near.map(str::to_owned) });
    }
    if experiments.is_empty() {
        return Err(Error::NoExperiments);
    }
    let wanted = |experiment: &Experiment| ids.is_empty() || ids.iter().any(|id| is(experiment, id));
    Ok(experiments.into_iter().filter(wanted).collect())
}

/// Figures on the first screen: the catalogue's best known, with one panel each.
const THUMBNAILS: [(&str, &str, usize); 8] = [
    ("F1", "The operating point", 1),
    ("F2", "The gain cycle", 0),
    ("F3", "The bottleneck doubles", 0),
    ("F6", "Five flows converge", 0),
    ("F8", "Random loss", 0),
    ("F10", "Delay in deep buffers", 0),
    ("COMPETE", "Share beside CUBIC", 0),
    ("IETF100", "Drops in a shallow buffer", 1),
];

fn page(args: &ReproduceArgs, outcomes: &[ExperimentOutcome]) -> Report {
    let runs_in = match args.on.as_str() {
        "sim" => "the simulator".to_owned(),
        other => format!("a real kernel (--on {other})"),
    };
    let seeds =
        if args.one_seed { format!("{} alone, no medians over seeds", args.seed) } else { args.seed.to_string() };
    let mut report = Report {
        title: title(args, outcomes),
        provenance: provenance(&[("claims", outcomes.len().to_string()), ("runs in", runs_in), ("seed", seeds)]),
        ..Report::default()
    };
    for outcome in outcomes {
        let first = report.claims.len();
        report.claims.extend(claim_rows(outcome));
        let made = |figure: &Figure| Figure {
            command: command(args, &outcome.id),
            // The playground has the simulator alone.
            play: if args.on == "sim" { figure.play.clone() } else { String::new() },
            ..figure.clone()
        };
        report.sections.push(Section {
            id: outcome.id.clone(),
            title: outcome.title.clone(),
            source: outcome.source.clone(),
            claim: outcome.claim.clone(),
            contradiction: outcome.contradiction.clone(),
            rows: (first..report.claims.len()).collect(),
            figures: outcome.figures.iter().map(made).collect(),
            heats: outcome.heats.clone(),
            runs_table: Some(outcome.runs.clone()),
            ..Section::default()
        });
    }
    report.subtitle = subtitle(args, outcomes);
    let first_of = |id: &str| report.sections.iter().find(|section| section.id == id)?.figures.first();
    let thumbnail = |&(id, caption, panel): &(&str, &str, usize)| {
        Some(Thumbnail { figure: first_of(id)?.id.clone(), caption: format!("{id} · {caption}"), panel })
    };
    // The figure of a single claim is at the start of its section.
    let is_several = outcomes.len() > 1;
    report.thumbnails = THUMBNAILS.iter().filter(|_| is_several).filter_map(thumbnail).collect();
    if report.thumbnails.is_empty() && is_several {
        // The best known claims were not selected: the first figures of those that were.
        let figures = report.sections.iter().filter_map(|section| Some((&section.id, section.figures.first()?)));
        let small = |(id, figure): (&String, &Figure)| Thumbnail {
            figure: figure.id.clone(),
            caption: format!("{id} · {}", figure.title),
            panel: 0,
        };
        report.thumbnails = figures.take(THUMBNAILS.len()).map(small).collect();
    }
    report
}

/// Title of the page: an experiment of the user's own is not a published claim.
fn title(args: &ReproduceArgs, outcomes: &[ExperimentOutcome]) -> String {
    match (outcomes, &args.experiments) {
        ([only], _) => format!("{}: {}", only.id, only.title),
        (_, None) => "Published claims, reproduced".to_owned(),
        (_, Some(dir)) => format!("Experiments of {}", dir.display()),
    }
}

/// Summarises the result in a sentence.
fn subtitle(args: &ReproduceArgs, outcomes: &[ExperimentOutcome]) -> String {
    let rows = || outcomes.iter().flat_map(|outcome| &outcome.rows);
    let count = |is: fn(&Row) -> bool| rows().filter(|row| is(&row.verdict)).count();
    let missed = match count(|verdict| matches!(verdict, Row::FallsShort { .. })) {
        0 => String::new(),
        missed => format!(", {} missed for a stated reason", verb(missed, "is", "are")),
    };
    let held = HeldCounts::of(outcomes);
    format!(
        "Of {} that follow from {}, {} met ({held}){missed}, and {}.",
        counted(rows().count(), "expected value"),
        counted(outcomes.len(), if args.experiments.is_some() { "experiment" } else { "published claim" }),
        verb(held.total(), "is", "are"),
        match count(|verdict| *verdict == Row::Fails) {
            0 => "none fails".to_owned(),
            failing => verb(failing, "fails", "fail"),
        },
    )
}

/// Command that reproduces the figures of one claim.
fn command(args: &ReproduceArgs, id: &str) -> String {
    let mut line = format!("bbrlab reproduce {}", quoted(id));
    if let Some(dir) = &args.experiments {
        line += &format!(" --experiments {}", quoted(&dir.to_string_lossy()));
    }
    if args.seed != 1 {
        line += &format!(" --seed {}", args.seed);
    }
    if args.on != "sim" {
        line += &format!(" --on {}", quoted(&args.on));
    }
    if args.program == Program::Bbrlab {
        line += " --program bbrlab";
    }
    if args.one_seed {
        line += " --one-seed";
    }
    line
}
