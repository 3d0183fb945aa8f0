//! `bbrlab tune`: searches parameters of an algorithm for a population of paths, and judges them on unseen paths.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;

use bbrlab_report::{Axis, Figure, Number, Panel, Report, Section, Series, Style, Table};
use bbrlab_stats::plural::counted;
use bbrlab_study::choose::objective::Objective;
use bbrlab_study::choose::tune::{self, Budget, Comparison, SAME, Setting, TERMS, Tuned};
use bbrlab_study::comparison::{Candidate, Forest};
use bbrlab_study::paths::Population;
use clap::Args;
use serde_json::json;

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
    let mut files = Vec::new();
    if let Some(out) = &out {
        files.extend(out.write(|to| to.write_all(file(args, &tuned, &population).as_bytes()))?);
    }
    if let Some(page) = &page {
        let html = bbrlab_report::render(&pages(args, &tuned, &population, objective));
        files.extend(page.write(|to| to.write_all(html.as_bytes()))?);
    }
    if let Some(json) = &json {
        let document = json!({ "schema": 1, "version": env!("CARGO_PKG_VERSION"), "seed": args.seed,
            "population": population, "objective": objective, "terms": TERMS, "warning": warning(has_rivals), "tuned": tuned });
        files.extend(json.write(|to| writeln!(to, "{document:#}"))?);
    }
    outputs::commit(files)?;
    if !outputs::take_stdout(out.iter().chain(&json).chain(&page)) {
        print(&shown(&tuned, has_rivals))?;
    }
    Ok(Verdict::Holds)
}

/// The parameter file: algorithm, values, and their origin.
fn file(args: &TuneArgs, tuned: &Tuned, population: &Population) -> String {
    let mut text = format!(
        "# Tuned by bbrlab {} for {:?}, objective {}, seed {}. Use: bbrlab run --flow {},params=THIS\n\
         {}cc = \"{}\"\n\n[parameters]\n",
        env!("CARGO_PKG_VERSION"),
        if population.name.is_empty() { "a population" } else { &population.name },
        args.objective,
        args.seed,
        tuned.cc,
        warning(population.has_rivals()).map_or(String::new(), |warning| format!("# {warning}\n")),
        tuned.cc
    );
    for (name, value) in &tuned.parameters {
        let _ = writeln!(text, "{name} = \"{value}\"");
    }
    text
}

/// True if the result is nowhere worse than the defaults of BBR, and better than each in some respect.
fn dominates(tuned: &Tuned) -> bool {
    let mut bbr = tuned.against.iter().filter(|one| one.flow != "cubic");
    bbr.all(|one| one.worse.is_empty() && !one.better.is_empty())
}

/// Compares the scores with those of untuned algorithms: the most important result of a tuning.
fn beside_plain(tuned: &Tuned) -> String {
    let points = |one: &Comparison| format!("{:.3} against {:.3}", one.score, tuned.score);
    let best = tuned.against.iter().max_by(|a, b| a.score.total_cmp(&b.score));
    let better = best.filter(|one| one.score > tuned.score);
    if let Some(one) = better.filter(|one| one.score_gain.high < 0.0) {
        return format!(
            "Use default {} instead: it scores higher on unseen paths than the tuned {}, {}.",
            one.flow,
            tuned.cc,
            points(one)
        );
    }
    if let Some(one) = better {
        return format!(
            "Default {} scores no lower on unseen paths than the tuned {}, {}: tuning does not pay off here.",
            one.flow,
            tuned.cc,
            points(one)
        );
    }
    match best.filter(|one| one.score_gain.low <= 0.0) {
        Some(one) => format!(
            "It scores higher than every default on unseen paths, but the difference from {} ({}) may be chance.",
            one.flow,
            points(one)
        ),
        None => "On unseen paths it scores significantly higher than every default.".to_owned(),
    }
}

fn verdict(tuned: &Tuned) -> String {
    format!("{} {}", beside_plain(tuned), term_by_term(tuned))
}

/// Limitation of an answer without competing flows.
const fn warning(has_rivals: bool) -> Option<&'static str> {
    if has_rivals {
        return None;
    }
    Some(
        "Warning: no path had a rival, so the search may have found settings that take the whole link from other \
         flows. Tune with rivals (rivals = \"0..2\" in the population, without --no-rivals) before you use these.",
    )
}

fn term_by_term(tuned: &Tuned) -> String {
    let names: Vec<&str> =
        tuned.against.iter().filter(|one| one.flow != "cubic").map(|one| one.flow.as_str()).collect();
    if dominates(tuned) {
        return format!(
            "On unseen paths it is worse than {} in no term by more than {} points, and better than each in at least one.",
            names.join(" and "),
            points(SAME)
        );
    }
    let gives: Vec<String> = tuned
        .against
        .iter()
        .filter(|one| one.flow != "cubic")
        .map(|one| {
            let list = |terms: &[&str]| match terms {
                [] => format!("nothing by more than {} points", points(SAME)),
                terms => terms.join(", "),
            };
            format!("against {}: better in {}, worse in {}", one.flow, list(&one.better), list(&one.worse))
        })
        .collect();
    format!("No setting of the front is better in every term. This one, {}.", gives.join("; "))
}

fn points(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

fn percent(value: f64) -> String {
    format!("{:.1} %", 100.0 * value)
}

fn rows(tuned: &Tuned) -> Vec<Vec<String>> {
    let row = |name: &str, terms: &[f64], score: f64| {
        let cells = terms.iter().map(|term| percent(*term));
        [vec![name.to_owned()], cells.collect(), vec![format!("{score:.3}")]].concat()
    };
    std::iter::once(row("tuned", &tuned.terms, tuned.score))
        .chain(tuned.against.iter().map(|one| row(&one.flow, &one.terms, one.score)))
        .collect()
}

fn differences(tuned: &Tuned) -> Vec<Vec<String>> {
    let row = |one: &Comparison| {
        let cells = one
            .difference
            .iter()
            .map(|d| format!("{:+.1} ({:+.1}…{:+.1})", 100.0 * d.middle, 100.0 * d.low, 100.0 * d.high));
        std::iter::once(format!("tuned less {}", one.flow)).chain(cells).collect()
    };
    tuned.against.iter().map(row).collect()
}

fn shown(tuned: &Tuned, has_rivals: bool) -> String {
    let mut text = format!("{}\n\n", tuned.flow);
    if let Some(warning) = warning(has_rivals) {
        let _ = writeln!(text, "{warning}\n");
    }
    let head: Vec<&str> = ["on unseen paths"].into_iter().chain(TERMS).chain(["worth"]).collect();
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

fn pages(args: &TuneArgs, tuned: &Tuned, population: &Population, objective: Objective) -> Report {
    let heads = |first: &str, last: &[&str]| -> Vec<String> {
        [first].into_iter().chain(TERMS).chain(last.iter().copied()).map(str::to_owned).collect()
    };
    let front = |setting: &Setting| {
        let cells = setting.terms.iter().map(|term| percent(*term));
        [vec![setting.flow.clone()], cells.collect(), vec![format!("{:.3}", setting.score)]].concat()
    };
    let points = |x: usize, y: usize| Figure {
        id: format!("front-{x}-{y}"),
        title: format!("The front: {} against {}", TERMS[y], TERMS[x]),
        how_to_read: "Each mark is a setting; lower and further left is better.".to_owned(),
        x: axis(TERMS[x]),
        panels: vec![Panel {
            y: axis(TERMS[y]),
            series: std::iter::once(series("front", "front", tuned.front.iter().map(|one| &one.terms), x, y))
                .chain(tuned.against.iter().map(|one| series(&one.flow, &one.flow, std::iter::once(&one.terms), x, y)))
                .chain([series(&format!("{}, tuned", tuned.cc), "tuned", std::iter::once(&tuned.terms), x, y)])
                .collect(),
        }],
        ..Figure::default()
    };
    let section = |id: &str, title: &str, claim: String, figures, table| Section {
        id: id.to_owned(),
        title: title.to_owned(),
        claim,
        figures,
        runs_table: Some(table),
        ..Section::default()
    };
    Report {
        title: if population.name.is_empty() {
            format!("{}, tuned", tuned.cc)
        } else {
            format!("{} tuned for {}", tuned.cc, population.name)
        },
        subtitle: warning(population.has_rivals())
            .into_iter()
            .map(str::to_owned)
            .chain([verdict(tuned)])
            .collect::<Vec<_>>()
            .join(" "),
        provenance: provenance(&[
            ("population", args.population.display().to_string()),
            ("objective", objective.name.to_owned()),
            ("settings tried", (tuned.budget.settings * (tuned.budget.generations + 1)).to_string()),
            ("judged on", format!("{} unseen paths", tuned.budget.held_out)),
            ("ran in", "the simulator".to_owned()),
            ("seed", args.seed.to_string()),
        ]),
        numbers: numbers(tuned),
        lead: vec![forest(tuned)],
        sections: vec![
            section(
                "tuned",
                "On unseen paths",
                format!("The setting: {}", tuned.flow),
                vec![points(0, 1), points(0, 2)],
                Table { columns: heads("algorithm", &["worth"]), rows: rows(tuned) },
            ),
            section(
                "gain",
                "Differences, in percentage points",
                "Mean over the unseen paths with its 95 % interval; below 0 is better.".to_owned(),
                Vec::new(),
                Table { columns: heads("", &[]), rows: differences(tuned) },
            ),
            section(
                "front",
                "The settings of the front",
                "On the paths of the search; no setting is better than another in every term.".to_owned(),
                Vec::new(),
                Table { columns: heads("setting", &["worth"]), rows: tuned.front.iter().map(front).collect() },
            ),
        ],
        ..Report::default()
    }
}

/// Score of each setting on unseen paths.
fn numbers(tuned: &Tuned) -> Vec<Number> {
    let one = |name: String, key: &str, score: f64, note: &str| Number {
        label: format!("Score of {name}"),
        value: format!("{score:.3}"),
        note: note.to_owned(),
        color_key: Some(key.to_owned()),
    };
    let own = one(format!("{}, tuned", tuned.cc), "tuned", tuned.score, "maximum 1");
    let against = tuned.against.iter().map(|other| one(other.flow.clone(), &other.flow, other.score, ""));
    std::iter::once(own).chain(against).collect()
}

/// Forest plot of the tuned setting minus each of the others, term by term, with intervals.
fn forest(tuned: &Tuned) -> Figure {
    let candidate = |other: &Comparison| Candidate {
        name: format!("against {}", other.flow),
        color_key: other.flow.clone(),
        estimates: other.difference.iter().map(|one| one.as_percent()).enumerate().collect(),
    };
    Forest {
        id: "differences",
        title: "The tuned setting beside the defaults, on unseen paths".to_owned(),
        how_to_read: "Each mark is the mean difference over the paths, its bar the 95 % interval. Left of the line the tuned setting is better."
            .to_owned(),
        x: Axis { label: "tuned less default".to_owned(), unit: "percentage points".to_owned(), ..Axis::default() },
        same: (0.0, "no difference".to_owned()),
        rows: TERMS.map(str::to_owned).to_vec(),
        candidates: tuned.against.iter().map(candidate).collect(),
    }
    .figure()
}

fn axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), unit: "%".to_owned(), ..Axis::default() }
}

fn series<'a>(
    name: &str,
    key: &str,
    of: impl Iterator<Item = &'a [f64; TERMS.len()]> + Clone,
    x: usize,
    y: usize,
) -> Series {
    Series {
        name: name.to_owned(),
        style: Style::Points,
        x: of.clone().map(|terms| 100.0 * terms[x]).collect(),
        y: of.map(|terms| 100.0 * terms[y]).collect(),
        color_key: Some(key.to_owned()),
        ..Series::default()
    }
}
