//! `bbrlab advise`: recommends an algorithm for a path or a population.
//! It states the gain, the cost to others, the confidence, and the source of the algorithm.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod live;

use std::fmt::Write as _;

use bbrlab_sim::scenario::TimeSpan;
use bbrlab_study::choose::advise::source::sources;
use bbrlab_study::choose::advise::text::{
    checked, compared, figures, footnote, headline, number, ratio, share, warnings, why,
};
use bbrlab_study::choose::advise::{self, Advice, Answer, Figure, Prepared, Request, WORTH_A_CHANGE};
use bbrlab_study::choose::objective::Objective;
use bbrlab_study::measured;
use bbrlab_study::paths::Population;
use clap::Args;

use crate::args::{ConditionKeys, KeyArgs, seed};
use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::progress::Progress;
use crate::provenance::provenance;
use crate::{Error, Verdict, inputs, print};

/// Number of paths that the adviser draws for each path on which it is judged.
const DRAWS_JUDGED: u64 = 8;
/// Flags of `bbrlab advise`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bbrlab advise --rate 50mbit --rtt 40ms --loss 0.5%\n  \
        bbrlab advise --rate 20mbit..100mbit --rtt 20ms..80ms --buffer 0.2bdp..1bdp --rivals 0..2\n  \
        ss -tin | bbrlab advise --from -\n  \
        bbrlab advise --path starlink\n  \
        bbrlab advise --path lte --for calls\n  \
        bbrlab advise --from live\n\n\
        Give an unknown value as a range, LOW..HIGH; each draw takes one value from it. Exit status with --judge: 1 if the advice \
        reaches less than 98 % of the score of the best choice in hindsight.")]
pub struct AdviseArgs {
    /// A typical path by name, as in starlink; the flags below replace its own values. `bbrlab list paths` has the names
    #[arg(long, value_name = "NAME", help_heading = "Path")]
    pub path: Option<String>,
    /// Bottleneck rate, or a range: 20mbit, 5mbit..50mbit
    #[arg(long, value_name = "RATE", allow_hyphen_values = true, help_heading = "Path")]
    pub rate: Option<String>,
    /// Two-way propagation time, or a range
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Path")]
    pub rtt: Option<String>,
    /// Buffer of the bottleneck in BDP or as drain time, or a range [default: 0.3bdp..8bdp]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Path")]
    pub buffer: Option<String>,
    /// Random loss, or a range [default: 0%..0.1%]
    #[arg(long, value_name = "LOSS", allow_hyphen_values = true, help_heading = "Path")]
    pub loss: Option<String>,
    /// Competing CUBIC flows, or a range [default: 0..2]
    #[arg(long, value_name = "N", allow_hyphen_values = true, help_heading = "Path")]
    pub rivals: Option<String>,
    /// Algorithms of the competing flows, in the syntax of --flow; each flow uses one at random, as in 'cubic;bbr1'
    /// [default: cubic]
    #[arg(long, value_name = "FLOW;…", help_heading = "Path")]
    pub rival_flows: Option<String>,
    #[command(flatten)]
    pub conditions: KeyArgs<ConditionKeys>,
    /// Measurement to start from: a capture (pcap, pcapng, qlog), the output of ss -tin, of iperf3 -J, or TCP_INFO as CSV; - for standard input; or
    /// live, to watch this machine's own connections for a minute; the flags above override it
    #[arg(long, value_name = "FILE|live", help_heading = "Path")]
    pub from: Option<std::path::PathBuf>,
    /// Duration of --from live, in whole seconds [default: 60s]
    #[arg(long, value_name = "TIME", requires = "from", help_heading = "Path")]
    pub watch: Option<String>,
    /// Population in TOML: [[path]] tables with rate, rtt, buffer, loss, rivals, rival_flows, weight
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["from", "path", "rate", "rtt", "buffer", "loss", "rivals", "rival_flows", "trace", "demand"], help_heading = "Path")]
    pub population: Option<std::path::PathBuf>,

    /// Algorithm in use now, in the syntax of --flow; all others are compared with it [default: the one in the --from
    /// measurement, else cubic]
    #[arg(long, value_name = "CC", help_heading = "Question")]
    pub current: Option<String>,
    /// Candidates; separate with `;` instead of commas if one has parameters, as in 'bbr1;bbr3,params=tuned.toml'
    /// [default: cubic, bbr1 and bbr3]
    #[arg(long, value_name = "CC,…", help_heading = "Question")]
    pub algorithms: Option<String>,
    /// Application to choose for: bulk, video (on demand), live (video) or calls
    #[arg(
        long = "for",
        value_name = "WHAT",
        default_value = "bulk",
        conflicts_with = "judge",
        help_heading = "Question"
    )]
    pub application: String,
    /// Objective of the score: balanced, throughput, delay or polite
    #[arg(long, value_name = "NAME", default_value = "balanced", help_heading = "Question")]
    pub objective: String,
    /// Number of paths to draw [default: 24, or 8 if everything is known or runs are costly]
    #[arg(long, value_name = "N", value_parser = crate::args::number::<u64>(2..=100_000), help_heading = "Question")]
    pub draws: Option<u64>,
    /// Duration of each run, in simulated time [default: 12s to 60s, less at high rates]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Question")]
    pub duration: Option<String>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed, help_heading = "Question")]
    pub seed: u64,
    /// Evaluate the advice itself on N random paths: `advise` receives rate and RTT within 10 %, and the buffer within a
    /// factor of 2
    #[arg(long, value_name = "N", value_parser = crate::args::number::<u64>(1..=100_000), help_heading = "Question")]
    pub judge: Option<u64>,
    /// With --judge: use N sets of 8 to 40 paths, and give `advise` only what `ss` shows of their connections
    #[arg(long, requires = "judge", conflicts_with = "draws", help_heading = "Question")]
    pub measured: bool,
    /// With --judge: use CUBIC, BBRv1, BBRv3 and pausing flows as competing flows, and withhold their types from `advise`
    #[arg(long, requires = "judge", conflicts_with = "population", help_heading = "Question")]
    pub mixed: bool,

    /// Write the advice as JSON; - for standard output, instead of the text
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<std::path::PathBuf>,
    /// Write the policy that the advice supports, class by class, for `bbrlab host policy`; each [[path]] needs clients = […],
    /// ports = […], or a range of RTTs
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["judge", "json", "report"], help_heading = "Output")]
    pub policy: Option<std::path::PathBuf>,
    /// Write one self-contained page with the runs behind it
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub report: Option<std::path::PathBuf>,
}

/// Value of `--from` that is not a file; a file of that name is ./live.
const LIVE: &str = "live";

/// Runs the command.
pub fn advise(args: &AdviseArgs) -> Result<Verdict, Error> {
    crate::start_threads()?;
    let request = request(args)?;
    if let Some(paths) = args.judge {
        let flows = request.flows(None).map_err(Error::of_key)?;
        return judge(args, &flows, request.objective().map_err(Error::of_key)?, paths);
    }
    let json = Target::asked("--json", args.json.as_deref())?;
    let page = Target::asked("--report", args.report.as_deref())?;
    outputs::check_distinct(json.iter().chain(&page))?;
    let prepared = request.prepare().map_err(Error::of_key)?;
    if let Some(path) = &args.policy {
        return write_policy(path, &prepared);
    }
    let progress = Progress::new("running", prepared.ticks());
    let answer = prepared.answer(&|| progress.tick())?;
    drop(progress);
    let version = env!("CARGO_PKG_VERSION");
    let mut files = Vec::new();
    if let Some(target) = &page {
        let mut report = answer.report(version);
        report.provenance.command = provenance(&[]).command;
        let html = bbrlab_report::render(&report);
        files.extend(target.write(|to| to.write_all(html.as_bytes()))?);
    }
    if let Some(target) = &json {
        let document = answer.json(version);
        files.extend(target.write(|to| writeln!(to, "{document:#}"))?);
    }
    outputs::commit(files)?;
    if !outputs::take_stdout(json.iter().chain(&page)) {
        print(&shown(&answer))?;
    }
    Ok(Verdict::Holds)
}

/// Advises on each class of paths, and writes the policy.
fn write_policy(path: &std::path::Path, prepared: &Prepared) -> Result<Verdict, Error> {
    let target = Target::asked("--policy", Some(path))?;
    let classes = prepared.by_class().map_err(Error::flag("--policy"))?;
    let progress = Progress::new("running", classes.iter().map(Prepared::ticks).sum());
    let answers = classes.into_iter().map(|one| one.answer(&|| progress.tick())).collect::<Result<Vec<_>, _>>()?;
    drop(progress);
    let text = advise::policy(&answers, env!("CARGO_PKG_VERSION"));
    let mut files = Vec::new();
    if let Some(target) = &target {
        files.extend(target.write(|to| to.write_all(text.as_bytes()))?);
    }
    outputs::commit(files)?;
    if !outputs::take_stdout(target.iter()) {
        for answer in &answers {
            print(&format!("{}\n", headline(&answer.advice, answer.objective)))?;
        }
    }
    Ok(Verdict::Holds)
}

/// The flags as a request, their files read.
fn request(args: &AdviseArgs) -> Result<Request, Error> {
    let algorithms = args.algorithms.as_deref().map(inputs::algorithms).transpose();
    let mut request = Request {
        rate: args.rate.clone(),
        rtt: args.rtt.clone(),
        buffer: args.buffer.clone(),
        loss: args.loss.clone(),
        rivals: args.rivals.clone(),
        rival_flows: args
            .rival_flows
            .as_deref()
            .map(|flows| flows.split(';').map(|flow| flow.trim().to_owned()).collect()),
        current: args.current.as_deref().map(inputs::flow).transpose().map_err(Error::flag("--current"))?,
        algorithms: algorithms.map_err(Error::flag("--algorithms"))?.unwrap_or_default(),
        application: Some(args.application.clone()),
        objective: Some(args.objective.clone()),
        draws: args.draws,
        duration: args.duration.clone(),
        seed: args.seed,
        ..Request::default()
    };
    if args.judge.is_some() {
        return Ok(request);
    }
    request.conditions.extend(args.path.iter().map(|name| ("path".to_owned(), name.clone())));
    for (key, text) in args.conditions.overrides() {
        if key == "trace" {
            let text_of = crate::scenario::trace_reader(text).map_err(Error::flag("--trace"))?;
            request.trace = Some((text.to_owned(), text_of));
        } else {
            request.conditions.push((key.to_owned(), text.to_owned()));
        }
    }
    request.population = args.population.as_deref().map(inputs::population).transpose()?;
    request.evidence = match &args.from {
        None => None,
        Some(path) if path.as_os_str() == LIVE => {
            Some((LIVE.to_owned(), measured::evidence(&live::connections(looks(args)?)?)))
        }
        Some(_) if args.watch.is_some() => {
            return Err(Error::Rule { place: "--watch", rule: "it goes with --from live; leave it out" });
        }
        Some(path) if inputs::is_capture(path) => {
            let paths = super::path::read(path)?;
            super::path::check_place(&paths, &inputs::name(path))?;
            let connections: Vec<_> = paths.paths.iter().map(|one| one.connection()).collect();
            Some((inputs::name(path), measured::evidence(&connections)))
        }
        Some(path) => {
            let name = inputs::name(path);
            let text = inputs::measurement(path, "a measurement").map_err(Error::at(&name))?;
            let connections = measured::read(&text).map_err(Error::at(&name))?;
            Some((name, measured::evidence(&connections)))
        }
    };
    Ok(request)
}

/// Duration of `--from live` in seconds.
fn looks(args: &AdviseArgs) -> Result<u32, Error> {
    let Some(text) = &args.watch else { return Ok(60) };
    let time: TimeSpan = text.parse().map_err(Error::flag("--watch"))?;
    let seconds = time.as_secs().round();
    if !(1.0..=86_400.0).contains(&seconds) {
        let problem = "is out of range; give 1s to 86400s";
        return Err(Error::Value { flag: "--watch", found: text.clone(), problem });
    }
    Ok(seconds as u32)
}

fn judge(args: &AdviseArgs, flows: &[String], objective: Objective, paths: u64) -> Result<Verdict, Error> {
    let truth = match (&args.population, args.mixed) {
        (Some(path), _) => inputs::population(path)?,
        (None, false) => Population::from_toml(include_str!("anywhere.toml"))?,
        (None, true) => Population::from_toml(include_str!("mixed.toml"))?,
    };
    let progress = Progress::new("judging", usize::try_from(paths).unwrap_or(usize::MAX));
    let draws = args.draws.unwrap_or(DRAWS_JUDGED);
    let tick = || progress.tick();
    let judged = match args.measured {
        true => advise::judge_measured(&truth, flows, objective, paths, args.seed, &tick)?,
        false => advise::judge(&truth, flows, objective, (paths, draws), args.seed, &tick)?,
    };
    drop(progress);
    let possible = judged.possible.map_or_else(String::new, |share| {
        format!(" ({:.0} % with full knowledge of the connections that show a rate)", 100.0 * share)
    });
    print(&format!(
        "{} {}{}, objective {}:\n\
         the advice reaches {:.1} % of the score of the best choice in hindsight; always {} reaches {:.1} %\n\
         it was the best choice, or within 3 % of it, on {:.0} % of them{possible}; it had a clear winner on {:.0} %\n",
        judged.paths,
        if args.measured { "sets of measured connections" } else { "paths known only roughly" },
        if args.mixed { " with rivals of several kinds" } else { "" },
        objective.name,
        100.0 * judged.kept,
        flows[0],
        100.0 * judged.unchanged,
        100.0 * judged.right,
        100.0 * judged.clear
    ))?;
    Ok(if judged.kept >= 1.0 - WORTH_A_CHANGE { Verdict::Holds } else { Verdict::Fails })
}

/// Formats the answer for one screen.
fn shown(answer: &Answer) -> String {
    let Answer { advice, objective, said, .. } = answer;
    let mut text = headline(advice, *objective);
    text += "\n\n";
    text += &tables(advice);
    let _ = writeln!(text, "\nWhy: {}", why(advice));
    if let Some(line) = checked(advice) {
        let _ = writeln!(text, "Checked: {line}.");
    }
    for line in warnings(advice) {
        let _ = writeln!(text, "Warning: {line}");
    }
    for source in sources(advice) {
        let _ = writeln!(text, "{}: {}", source.title, source.text);
        source.commands.iter().for_each(|command| text += &format!("    {command}\n"));
    }
    if !said.is_empty() {
        text += "Inferred:\n";
        said.iter().for_each(|line| text += &format!("  - {line}\n"));
    }
    text += &footnote(advice, *objective);
    text
}

/// Tables of the candidates' figures, and of their ratios to the algorithm in use.
fn tables(advice: &Advice) -> String {
    let rows = advice.candidates.iter().enumerate().map(|(nth, one)| {
        let mut row = vec![if nth == advice.choice { format!("→ {}", one.flow) } else { format!("  {}", one.flow) }];
        row.push(format!("{:.3}", one.score));
        row.extend(figures(advice).map(|nth| number(one.figures[nth])));
        row.push(share(one.wins));
        row
    });
    let heads: Vec<String> =
        figures(advice).map(|nth| Figure::ALL[nth]).map(|one| format!("{}, {}", one.name(), one.unit())).collect();
    let head: Vec<&str> =
        ["algorithm", "score"].into_iter().chain(heads.iter().map(String::as_str)).chain(["best in"]).collect();
    let align: Vec<Align> = (0..head.len()).map(|nth| if nth == 0 { Align::Left } else { Align::Right }).collect();
    let mut text = aligned(&head, &align, rows);
    text.push('\n');
    let current = &advice.candidates[0].flow;
    let against = advice.candidates[1..].iter().map(|one| {
        let gains = std::iter::once(&one.score_gain).chain(compared(advice).map(|(nth, _)| &one.gain[nth])).map(ratio);
        std::iter::once(format!("{} over {current}", one.flow)).chain(gains).collect()
    });
    let names: Vec<&str> = ["ratio", "score"].into_iter().chain(compared(advice).map(|(_, name)| name)).collect();
    text += &aligned(&names, &align[..names.len()], against);
    text
}
