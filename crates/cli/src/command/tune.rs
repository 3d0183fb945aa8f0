//! `bbrlab tune`: searches parameters of an algorithm for a population of paths, and judges them on unseen paths.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;

use bbrlab_stats::plural::counted;
use bbrlab_study::choose::objective::Objective;
use bbrlab_study::choose::tune::{
    self, Answer, Budget, SAME, TERMS, Tuned, differences, percent, rows, verdict, warning,
};
use clap::Args;

use crate::args::seed;
use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::progress::Progress;
use crate::provenance::provenance;
use crate::{Error, Verdict, inputs, print};

/// Flags of `bbrlab tune`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
        bbrlab tune bbr3 --population examples/lossy_wireless.toml --out tuned.toml\n  \
        bbrlab run --rate 20mbit --loss 2% --flow bbr3,params=tuned.toml")]
pub struct TuneArgs {
    /// Algorithm to tune
    pub algorithm: String,
    /// Population in TOML: [[path]] tables with rate, rtt, buffer, loss, rivals, weight
    #[arg(long, value_name = "FILE.toml")]
    pub population: std::path::PathBuf,
    /// Leave out the competing flows; the result then does not show the cost of the parameters to them
    #[arg(long)]
    pub no_rivals: bool,
    /// Parameters to tune [default: the usual ones of BBRv1 and BBRv3]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub parameters: Vec<String>,
    /// Objective for choosing a setting from the Pareto front: balanced, throughput, delay or polite
    #[arg(long, value_name = "NAME", default_value = "balanced")]
    pub objective: String,
    /// Number of settings per generation
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = crate::args::number::<u32>(4..=1000))]
    pub settings: u32,
    /// Number of generations
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = crate::args::number::<u32>(1..=1000))]
    pub generations: u32,
    /// Number of paths on which each setting is evaluated
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = crate::args::number::<u32>(1..=10_000))]
    pub paths: u32,
    /// Number of paths for evaluating the result; the search never uses them
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = crate::args::number::<u32>(2..=10_000))]
    pub held_out: u32,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed)]
    pub seed: u64,
    /// Write the parameters as a file that --flow CC,params=FILE takes
    #[arg(long, value_name = "FILE.toml")]
    pub out: Option<std::path::PathBuf>,
    /// Write all results as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<std::path::PathBuf>,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<std::path::PathBuf>,
}

/// Runs the command.
pub fn tune(args: &TuneArgs) -> Result<Verdict, Error> {
    crate::start_threads()?;
    let objective = Objective::named(&args.objective).map_err(Error::flag("--objective"))?;
    let mut population = inputs::population(&args.population)?;
    if args.no_rivals {
        population = population.without_rivals();
    }
    let has_rivals = population.has_rivals();
    let out = Target::asked("--out", args.out.as_deref())?;
    let json = Target::asked("--json", args.json.as_deref())?;
    let page = Target::asked("--report", args.report.as_deref())?;
    outputs::check_distinct(out.iter().chain(&json).chain(&page))?;
    let budget = Budget {
        settings: args.settings as usize,
        generations: args.generations as usize,
        paths: args.paths.into(),
        held_out: args.held_out.into(),
    };
    let progress = Progress::new("searching", budget.settings * (budget.generations + 1));
    let tuned =
        tune::tune(&population, &args.algorithm, &args.parameters, objective, budget, args.seed, &|| progress.tick())?;
    drop(progress);
    let version = env!("CARGO_PKG_VERSION");
    let answer = Answer { tuned: &tuned, population: &population, objective, seed: args.seed };
    let mut files = Vec::new();
    if let Some(out) = &out {
        files.extend(out.write(|to| to.write_all(answer.file(version).as_bytes()))?);
    }
    if let Some(page) = &page {
        let mut report = answer.report(version);
        report.provenance.command = provenance(&[]).command;
        report.provenance.facts.insert(0, ("population".to_owned(), args.population.display().to_string()));
        let html = bbrlab_report::render(&report);
        files.extend(page.write(|to| to.write_all(html.as_bytes()))?);
    }
    if let Some(json) = &json {
        let document = answer.json(version);
        files.extend(json.write(|to| writeln!(to, "{document:#}"))?);
    }
    outputs::commit(files)?;
    if !outputs::take_stdout(out.iter().chain(&json).chain(&page)) {
        print(&shown(&tuned, has_rivals))?;
    }
    Ok(Verdict::Holds)
}

fn shown(tuned: &Tuned, has_rivals: bool) -> String {
    let mut text = format!("{}\n\n", tuned.flow);
    if let Some(warning) = warning(has_rivals) {
        let _ = writeln!(text, "{warning}\n");
    }
    let head: Vec<&str> = ["on unseen paths"].into_iter().chain(TERMS).chain(["score"]).collect();
    let align: Vec<Align> = (0..head.len()).map(|nth| if nth == 0 { Align::Left } else { Align::Right }).collect();
    text += &aligned(&head, &align, rows(tuned));
    text.push('\n');
    let head: Vec<&str> = ["percentage points, below 0 is better"].into_iter().chain(TERMS).collect();
    text += &aligned(&head, &align[..head.len()], differences(tuned));
    let _ = writeln!(
        text,
        "\n{}\n{} on {}; judged on {} others; differences up to {} count as none; {} on the front",
        verdict(tuned),
        counted(tuned.budget.settings * (tuned.budget.generations + 1), "setting"),
        counted(tuned.budget.paths, "path"),
        tuned.budget.held_out,
        percent(SAME),
        counted(tuned.front.len(), "setting")
    );
    text
}
