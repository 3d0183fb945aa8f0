//! `bbrlab advise`: which algorithm for a path or a population, what it gains and loses, and how sure that is.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;

use bbrlab_lab::advise::{self, Advice, Interval, OTHERS, SHOWN, SURE, WORTH_A_CHANGE};
use bbrlab_lab::measured;
use bbrlab_lab::objective::Objective;
use bbrlab_lab::paths::{self, Kind, KindSpec, Population};
use bbrlab_lab::report::{self, Axis, Figure, Number, Panel, Report, Section, Series, Style, Table};
use bbrlab_sim::scenario::FlowSpec;
use clap::Args;
use serde_json::json;

use crate::args::seed;
use crate::asked::asked;
use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::progress::Progress;
use crate::{Failure, Verdict, inputs, print};

/// Paths drawn where something is uncertain, and runs where nothing is.
const DRAWS: u64 = 24;
const DRAWS_KNOWN: u64 = 8;
/// Paths that the adviser draws for each path that it is judged on.
const DRAWS_JUDGED: u64 = 8;

/// Flags of `bbrlab advise`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bbrlab advise --rate 50mbit --rtt 40ms --loss 0.5%\n  \
        bbrlab advise --rate 20mbit..100mbit --rtt 20ms..80ms --buffer 0.2bdp..1bdp --rivals 0..2\n  \
        ss -tin > now.txt && bbrlab advise --from now.txt\n\n\
        What is not known is a range, LOW..HIGH; each draw takes one value of it. Exit status with --judge: 1 if the advice \
        keeps less than 98 % of the best choice in hindsight.")]
pub struct AdviseArgs {
    /// Bottleneck rate, or a range: 20mbit, 5mbit..50mbit
    #[arg(long, value_name = "RATE", help_heading = "Paths")]
    pub rate: Option<String>,
    /// Two-way propagation time, or a range
    #[arg(long, value_name = "TIME", help_heading = "Paths")]
    pub rtt: Option<String>,
    /// Buffer of the bottleneck in BDP or as drain time, or a range [default: 0.3bdp..8bdp]
    #[arg(long, value_name = "SIZE", help_heading = "Paths")]
    pub buffer: Option<String>,
    /// Random loss, or a range [default: 0%..0.1%]
    #[arg(long, value_name = "LOSS", help_heading = "Paths")]
    pub loss: Option<String>,
    /// Competing CUBIC flows, or a range [default: 0]
    #[arg(long, value_name = "N", help_heading = "Paths")]
    pub rivals: Option<String>,
    /// What was measured: the output of ss -tin, of iperf3 -J, or TCP_INFO as CSV; the flags above override it
    #[arg(long, value_name = "FILE", help_heading = "Paths")]
    pub from: Option<std::path::PathBuf>,
    /// A population in TOML: [[path]] tables with rate, rtt, buffer, loss, rivals, weight
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["from", "rate", "rtt", "buffer", "loss", "rivals"], help_heading = "Paths")]
    pub population: Option<std::path::PathBuf>,

    /// The algorithm in use now, with its parameters as --flow writes them; all are held against it
    #[arg(long, value_name = "CC", default_value = "cubic", help_heading = "Question")]
    pub current: String,
    /// Candidates; `;` instead of commas where one holds parameters, as in 'bbr1;bbr3,params=tuned.toml'
    #[arg(long, value_name = "CC,…", default_value = "bbr1,bbr3", help_heading = "Question")]
    pub algorithms: String,
    /// What counts: balanced, throughput, delay or polite
    #[arg(long, value_name = "NAME", default_value = "balanced", help_heading = "Question")]
    pub objective: String,
    /// Paths to draw [default: 24; 8 where everything is known]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=100_000), help_heading = "Question")]
    pub draws: Option<u64>,
    /// Seed of all dice
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed, help_heading = "Question")]
    pub seed: u64,
    /// Judge the adviser itself: on N drawn paths of which it knows rate and RTT to a tenth, buffer to a factor of 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000), help_heading = "Question")]
    pub judge: Option<u64>,

    /// Write the advice as JSON; - for standard output, instead of the text
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<std::path::PathBuf>,
    /// Write one self-contained page with the runs behind it
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub report: Option<std::path::PathBuf>,
}

/// Advises.
pub fn advise(args: &AdviseArgs) -> Result<Verdict, Failure> {
    let objective = Objective::named(&args.objective).map_err(|error| format!("--objective: {error}"))?;
    let flows = flows(args)?;
    if let Some(paths) = args.judge {
        return judge(args, &flows, objective, paths);
    }
    let json = Target::asked("--json", args.json.as_deref())?;
    let page = Target::page(args.report.as_deref())?;
    outputs::check_distinct(json.iter().chain(&page))?;
    let (population, said) = population(args)?;
    let draws = args.draws.unwrap_or(if population.is_one_path() { DRAWS_KNOWN } else { DRAWS });
    let progress = Progress::new("running", flows.len() * usize::try_from(draws).unwrap_or(usize::MAX));
    let advice = advise::advise(&population, &flows, objective, draws, args.seed, &|| progress.tick())?;
    drop(progress);
    let text = shown(args, &advice, objective, &said);
    let mut files = Vec::new();
    if let Some(target) = &page {
        let html = report::render(&pages(args, &advice, objective, &text));
        files.extend(target.write(|to| to.write_all(html.as_bytes()))?);
    }
    if let Some(target) = &json {
        let document = json!({ "schema": 1, "version": env!("CARGO_PKG_VERSION"), "seed": args.seed,
            "objective": objective, "population": population, "said": said, "advice": advice,
            "shown": SHOWN.map(|(name, unit, ..)| format!("{name}, {unit}")) });
        files.extend(target.write(|to| writeln!(to, "{document:#}"))?);
    }
    outputs::commit(files)?;
    if !json.as_ref().is_some_and(Target::is_stdout) {
        print(&text)?;
    }
    Ok(Verdict::Holds)
}

/// The one in use first, then the candidates.
fn flows(args: &AdviseArgs) -> Result<Vec<String>, Failure> {
    let bare = |flow: &String| FlowSpec::bare(flow).map(drop).map_err(|error| error.to_string());
    let current = inputs::flow(&args.current).and_then(|flow| bare(&flow).map(|()| flow));
    let mut flows = vec![current.map_err(|error| format!("--current: {error}"))?];
    let candidates = inputs::algorithms(&args.algorithms).and_then(|all| all.iter().try_for_each(bare).map(|()| all));
    for flow in candidates.map_err(|error| format!("--algorithms: {error}"))? {
        if !flows.contains(&flow) {
            flows.push(flow);
        }
    }
    if flows.len() < 2 {
        return Err("--algorithms: there is nothing to compare with; name one, as in bbr1,bbr3".to_owned());
    }
    Ok(flows)
}

/// What is known of the paths, and in which words it was inferred.
fn population(args: &AdviseArgs) -> Result<(Population, Vec<String>), Failure> {
    if let Some(path) = &args.population {
        return Ok((inputs::population(path)?, Vec::new()));
    }
    let (mut spec, said) = match &args.from {
        None => (KindSpec::unknown(), Vec::new()),
        Some(path) => {
            let place = |error: String| format!("{}: {error}", path.display());
            let samples = measured::read(&inputs::measurement(path).map_err(place)?).map_err(place)?;
            measured::kind(&samples)
        }
    };
    for (text, own) in [
        (&args.rate, &mut spec.rate),
        (&args.rtt, &mut spec.rtt),
        (&args.buffer, &mut spec.buffer),
        (&args.loss, &mut spec.loss),
        (&args.rivals, &mut spec.rivals),
    ] {
        if let Some(text) = text {
            own.clone_from(text);
        }
    }
    for (name, value) in [("--rate", &spec.rate), ("--rtt", &spec.rtt)] {
        if value.is_empty() {
            return Err(format!(
                "{name}: say what is known of it, as in --rate 20mbit..50mbit --rtt 40ms, or give --from FILE"
            ));
        }
    }
    let kind = Kind::parse(&spec).map_err(|error| format!("--{error}"))?;
    Ok((Population::of(kind), said))
}

fn judge(args: &AdviseArgs, flows: &[String], objective: Objective, paths: u64) -> Result<Verdict, Failure> {
    let truth = match &args.population {
        Some(path) => inputs::population(path)?,
        None => Population::from_toml(include_str!("anywhere.toml"))?,
    };
    let progress = Progress::new("judging", usize::try_from(paths).unwrap_or(usize::MAX));
    let draws = args.draws.unwrap_or(DRAWS_JUDGED);
    let judged = advise::judge(&truth, flows, objective, (paths, draws), args.seed, &|| progress.tick())?;
    drop(progress);
    print(&format!(
        "{} paths that were known only roughly, objective {}:\n\
         what was advised keeps {:.1} % of the worth of the best choice in hindsight; always {} keeps {:.1} %\n\
         it was the best choice, or within {:.0} % of it, on {:.0} % of the paths\n",
        judged.paths,
        objective.name,
        100.0 * judged.kept,
        flows[0],
        100.0 * judged.unchanged,
        100.0 * WORTH_A_CHANGE,
        100.0 * judged.right
    ))?;
    Ok(if judged.kept >= 1.0 - WORTH_A_CHANGE { Verdict::Holds } else { Verdict::Fails })
}

fn ratio(interval: &Interval) -> String {
    if interval.middle.is_nan() {
        return "–".to_owned();
    }
    format!("×{:.2} ({:.2}…{:.2})", interval.middle, interval.low, interval.high)
}

fn number(value: f64) -> String {
    if value.is_nan() { "–".to_owned() } else { report::short(value) }
}

/// The answer on one screen.
fn shown(args: &AdviseArgs, advice: &Advice, objective: Objective, said: &[String]) -> String {
    let current = &advice.candidates[0];
    let choice = &advice.candidates[advice.choice];
    let mut text = headline(args, advice, objective);
    let rows = advice.candidates.iter().enumerate().map(|(nth, one)| {
        let mut row = vec![if nth == advice.choice { format!("→ {}", one.flow) } else { format!("  {}", one.flow) }];
        row.extend(one.figures.iter().map(|value| number(*value)));
        row.push(format!("{:.3}", one.worth));
        row.push(format!("{:.0} %", 100.0 * one.wins));
        row
    });
    let heads: Vec<String> = SHOWN.iter().map(|(name, unit, ..)| format!("{name}, {unit}")).collect();
    let head: Vec<&str> =
        ["algorithm"].into_iter().chain(heads.iter().map(String::as_str)).chain(["worth", "best in"]).collect();
    let align: Vec<Align> = (0..head.len()).map(|nth| if nth == 0 { Align::Left } else { Align::Right }).collect();
    text += &aligned(&head, &align, rows);
    text.push('\n');
    let against: Vec<Vec<String>> = advice.candidates[1..]
        .iter()
        .map(|one| {
            let gains = one.gain.iter().map(ratio);
            std::iter::once(format!("{} over {}", one.flow, current.flow)).chain(gains).collect()
        })
        .collect();
    let names: Vec<&str> = ["path by path"].into_iter().chain(SHOWN.iter().map(|(name, ..)| *name)).collect();
    text += &aligned(&names, &align[..names.len()], against);
    text += "\nWhy: ";
    text += &why(advice);
    if advice.choice != 0 && choice.gain[OTHERS].high < 1.0 {
        let _ = write!(
            text,
            " It takes from others: they get {} of what {} leaves them.",
            ratio(&choice.gain[OTHERS]),
            current.flow
        );
    }
    text.push('\n');
    for line in said {
        let _ = writeln!(text, "Inferred: {line}.");
    }
    let _ = writeln!(
        text,
        "Worth: goodput within the fair share × (base RTT/RTT p50)^{} × (1 − retransmitted)^{} × (others' part)^{}; \
         {} paths, the same dice for all, simulated.",
        objective.delay,
        objective.repeats,
        objective.others,
        advice.paths.len()
    );
    text
}

fn headline(args: &AdviseArgs, advice: &Advice, objective: Objective) -> String {
    let (current, choice) = (&advice.candidates[0], &advice.candidates[advice.choice]);
    let sure = if advice.sure >= SURE { "sure" } else { "not sure" };
    let sure = format!("{sure}: the same in {:.0} % of resampled paths", 100.0 * advice.sure);
    if advice.choice == 0 {
        return format!(
            "Don't change: {} is the best here, or as good, for {} ({sure}).\n\n",
            current.flow, args.objective
        );
    }
    let gain = 100.0 * (choice.worth / current.worth - 1.0);
    let than = current.flow.as_str();
    format!("Use {}: worth {gain:+.0} % against {than} for {} ({sure}).\n\n", choice.flow, objective.name)
}

/// The figure that decides, in words.
fn why(advice: &Advice) -> String {
    let one = &advice.candidates[if advice.choice == 0 { second(advice) } else { advice.choice }];
    let base = &advice.candidates[0].flow;
    let mut said: Vec<String> = Vec::new();
    for ((name, unit, ..), (gain, value)) in SHOWN.iter().zip(one.gain.iter().zip(&one.figures)) {
        let clear = gain.low > 1.03 || gain.high < 0.97;
        if clear && *name != "RTT p95" {
            said.push(format!("{name} {} ({} {unit})", ratio(gain), number(*value)));
        }
    }
    if said.is_empty() {
        return format!("{} does nothing here that {base} does not.", one.flow);
    }
    format!("against {base}, {} has {}.", one.flow, said.join(", "))
}

/// The best of those that are not in use.
fn second(advice: &Advice) -> usize {
    (1..advice.candidates.len())
        .max_by(|&a, &b| advice.candidates[a].worth.total_cmp(&advice.candidates[b].worth))
        .unwrap_or(0)
}

fn pages(args: &AdviseArgs, advice: &Advice, objective: Objective, text: &str) -> Report {
    let columns =
        ["path", "rate, Mbit/s", "RTT, ms", "buffer, ms", "loss, %", "competitors"].map(str::to_owned).to_vec();
    let flows = advice.candidates.iter().map(|one| format!("worth of {}", one.flow));
    let row = |(nth, path): (usize, &paths::Path)| {
        let known = [
            (nth + 1) as f64,
            path.rate_bps / 1e6,
            path.rtt_s * 1e3,
            path.buffer_bytes * 8e3 / path.rate_bps,
            100.0 * path.loss,
            f64::from(path.rivals),
        ];
        let worths = advice.worths.iter().map(|worths| worths[nth]);
        known.into_iter().chain(worths).map(report::short).collect()
    };
    let table = Table {
        columns: columns.into_iter().chain(flows).collect(),
        rows: advice.paths.iter().enumerate().map(row).collect(),
    };
    let compared = |one: &advise::Candidate| {
        let gains = one.gain.iter().map(ratio);
        [vec![one.flow.clone(), format!("{:.3}", one.worth)], gains.collect()].concat()
    };
    let heads = ["algorithm", "mean worth"].into_iter().chain(SHOWN.iter().map(|(name, ..)| *name));
    Report {
        title: headline(args, advice, objective).trim().to_owned(),
        subtitle: text.lines().find(|line| line.starts_with("Why")).unwrap_or_default().to_owned(),
        asked: asked(&[
            ("in use now", advice.candidates[0].flow.clone()),
            ("objective", objective.name.to_owned()),
            ("paths drawn", advice.paths.len().to_string()),
            ("ran in", "the simulator".to_owned()),
            ("seed", args.seed.to_string()),
        ]),
        numbers: numbers(advice),
        lead: vec![forest(advice)],
        sections: vec![
            Section {
                id: "advice".to_owned(),
                title: format!("Against {}", advice.candidates[0].flow),
                claim: "Ratios path by path: the median with its 95 % interval.".to_owned(),
                runs_table: Some(Table {
                    columns: heads.map(str::to_owned).collect(),
                    rows: advice.candidates.iter().map(compared).collect(),
                }),
                ..Section::default()
            },
            Section {
                id: "runs".to_owned(),
                title: "The runs behind it".to_owned(),
                claim: "Each path was run with each algorithm and the same dice.".to_owned(),
                runs_table: Some(table),
                ..Section::default()
            },
        ],
        ..Report::default()
    }
}

/// What each candidate does, in medians.
fn numbers(advice: &Advice) -> Vec<Number> {
    let of = |figure: usize| {
        let (name, unit, ..) = SHOWN[figure];
        advice.candidates.iter().enumerate().map(move |(nth, one)| Number {
            label: format!("{name}, {}", one.flow),
            value: format!("{} {unit}", number(one.figures[figure])),
            note: match nth {
                0 => "in use now".to_owned(),
                _ => ratio(&one.gain[figure]),
            },
            color_key: Some(one.flow.clone()),
        })
    };
    of(0).chain(of(1)).collect()
}

/// Every figure of every candidate as a ratio to the one in use, with its interval.
fn forest(advice: &Advice) -> Figure {
    let current = &advice.candidates[0].flow;
    let others = &advice.candidates[1..];
    let known: Vec<usize> =
        (0..SHOWN.len()).filter(|&figure| others.iter().any(|one| one.gain[figure].middle.is_finite())).collect();
    let one = |(nth, candidate): (usize, &advise::Candidate)| {
        let gains = || known.iter().enumerate().map(|(row, &figure)| (row, &candidate.gain[figure]));
        // Side by side within the row.
        let shift = (nth as f64 - (others.len() - 1) as f64 / 2.0) * 0.22;
        Series {
            name: candidate.flow.clone(),
            style: Style::Points,
            x: gains().map(|(_, gain)| gain.middle).collect(),
            y: gains().map(|(row, gain)| if gain.middle.is_finite() { row as f64 + shift } else { f64::NAN }).collect(),
            low: gains().map(|(_, gain)| gain.low).collect(),
            high: gains().map(|(_, gain)| gain.high).collect(),
            color_key: Some(candidate.flow.clone()),
        }
    };
    let rows = known.len() as f64;
    let same = Series {
        name: format!("as {current}"),
        style: Style::Reference,
        x: vec![1.0, 1.0],
        y: vec![-0.5, rows - 0.5],
        ..Series::default()
    };
    Figure {
        id: "ratios".to_owned(),
        title: format!("Against {current}, path by path"),
        how_to_read: format!(
            "Each mark is the median of a figure's ratio to {current} on the same path, its bar the 95 % interval. Right of the \
             line is more: good for goodput, bad for RTT and retransmissions."
        ),
        x: Axis { label: format!("ratio to {current}"), log: true, ..Axis::default() },
        panels: vec![Panel {
            y: Axis { names: known.iter().map(|&figure| SHOWN[figure].0.to_owned()).collect(), ..Axis::default() },
            series: std::iter::once(same).chain(others.iter().enumerate().map(one)).collect(),
        }],
        ..Figure::default()
    }
}
