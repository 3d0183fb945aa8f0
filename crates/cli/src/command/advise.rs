//! `bbrlab advise`: recommends an algorithm for a path or a population.
//! It states the gain, the cost to others, the confidence, and the source of the algorithm.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod live;
mod page;
mod source;

use std::fmt::Write as _;

use bbrlab_sim::link::DeliveryTrace;
use bbrlab_sim::scenario::{DemandLink, FlowSpec, Schedule, TimeSpan};
use bbrlab_stats::number::{or_dash, significant};
use bbrlab_study::choose::advise::{
    self, Advice, Candidate, DRAWS_LEAST, Figure, Question, Reason, SURE, WORTH_A_CHANGE,
};
use bbrlab_study::choose::objective::Objective;
use bbrlab_study::comparison::Interval;
use bbrlab_study::measured;
use bbrlab_study::paths::{Conditions, Kind, KindSpec, Population};
use clap::Args;
use serde_json::json;

use crate::args::{ConditionKeys, KeyArgs, seed};
use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::progress::Progress;
use crate::{Error, Verdict, inputs, print};
use source::sources;

/// Number of paths drawn if anything is uncertain, and of runs if everything is known.
const DRAWS: u64 = 24;
const DRAWS_KNOWN: u64 = 8;
/// Number of paths that the adviser draws for each path on which it is judged.
const DRAWS_JUDGED: u64 = 8;
/// Share of their fair share, in per cent, below which rivals count as starved. Ours.
const STARVED: f64 = 50.0;
/// Fraction of the rivals' share under the current algorithm below which a choice causes a warning. Ours.
const TAKES: f64 = 0.8;

/// Flags of `bbrlab advise`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bbrlab advise --rate 50mbit --rtt 40ms --loss 0.5%\n  \
        bbrlab advise --rate 20mbit..100mbit --rtt 20ms..80ms --buffer 0.2bdp..1bdp --rivals 0..2\n  \
        ss -tin | bbrlab advise --from -\n  \
        bbrlab advise --from live\n\n\
        Give an unknown value as a range, LOW..HIGH; each draw takes one value from it. Exit status with --judge: 1 if the advice \
        reaches less than 98 % of the score of the best choice in hindsight.")]
pub struct AdviseArgs {
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
    /// Measurement to start from: the output of ss -tin, of iperf3 -J, or TCP_INFO as CSV; - for standard input; or
    /// live, to watch this machine's own connections for a minute; the flags above override it
    #[arg(long, value_name = "FILE|live", help_heading = "Path")]
    pub from: Option<std::path::PathBuf>,
    /// Duration of --from live, in whole seconds [default: 60s]
    #[arg(long, value_name = "TIME", requires = "from", help_heading = "Path")]
    pub watch: Option<String>,
    /// Population in TOML: [[path]] tables with rate, rtt, buffer, loss, rivals, rival_flows, weight
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["from", "rate", "rtt", "buffer", "loss", "rivals", "rival_flows", "trace", "demand"], help_heading = "Path")]
    pub population: Option<std::path::PathBuf>,

    /// Algorithm in use now, in the syntax of --flow; all others are compared with it [default: the one in the --from
    /// measurement, else cubic]
    #[arg(long, value_name = "CC", help_heading = "Question")]
    pub current: Option<String>,
    /// Candidates; separate with `;` instead of commas if one has parameters, as in 'bbr1;bbr3,params=tuned.toml'
    /// [default: cubic, bbr1 and bbr3]
    #[arg(long, value_name = "CC,…", help_heading = "Question")]
    pub algorithms: Option<String>,
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
    /// With --judge: use CUBIC, BBRv1, BBRv3 and pausing flows as competing flows, and withhold their types from `advise`
    #[arg(long, requires = "judge", conflicts_with = "population", help_heading = "Question")]
    pub mixed: bool,

    /// Write the advice as JSON; - for standard output, instead of the text
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<std::path::PathBuf>,
    /// Write one self-contained page with the runs behind it
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub report: Option<std::path::PathBuf>,
}

/// Value of `--from` that is not a file; a file of that name is ./live.
const LIVE: &str = "live";

/// Information about the paths.
struct PathKnowledge {
    population: Population,
    conditions: Conditions,
    /// Inferred values, and the measurements behind them.
    said: Vec<String>,
    /// Algorithm shown by the measurement.
    current: Option<String>,
}

/// Runs the command.
pub fn advise(args: &AdviseArgs) -> Result<Verdict, Error> {
    crate::start_threads()?;
    let objective = Objective::named(&args.objective).map_err(Error::flag("--objective"))?;
    if let Some(paths) = args.judge {
        return judge(args, &flows(args, None)?, objective, paths);
    }
    let json = Target::asked("--json", args.json.as_deref())?;
    let page = Target::asked("--report", args.report.as_deref())?;
    outputs::check_distinct(json.iter().chain(&page))?;
    let known = known(args)?;
    let flows = flows(args, known.current.as_deref())?;
    let usual = if known.population.is_one_path() { DRAWS_KNOWN } else { DRAWS };
    let mut question = Question {
        population: &known.population,
        conditions: &known.conditions,
        flows: &flows,
        objective,
        draws: args.draws.unwrap_or(usual),
        seed: args.seed,
    };
    let (draws, conditions) = question.affordable();
    if args.draws.is_none() && args.duration.is_none() {
        (question.draws, question.conditions) = (draws, &conditions);
    }
    let progress = Progress::new("running", flows.len() * usize::try_from(question.draws).unwrap_or(usize::MAX));
    let advice = advise::advise(&question, &|| progress.tick())?;
    drop(progress);
    let text = shown(&advice, objective, &known.said);
    let mut files = Vec::new();
    if let Some(target) = &page {
        let html = bbrlab_report::render(&page::report(args, &advice, objective, &known.said));
        files.extend(target.write(|to| to.write_all(html.as_bytes()))?);
    }
    if let Some(target) = &json {
        let document = json!({ "schema": 1, "version": env!("CARGO_PKG_VERSION"), "seed": args.seed,
            "objective": objective, "population": known.population, "conditions": question.conditions,
            "said": known.said, "advice": advice,
            "shown": Figure::ALL.map(|figure| format!("{}, {}", figure.name(), figure.unit())) });
        files.extend(target.write(|to| writeln!(to, "{document:#}"))?);
    }
    outputs::commit(files)?;
    if !outputs::take_stdout(json.iter().chain(&page)) {
        print(&text)?;
    }
    Ok(Verdict::Holds)
}

/// The algorithm in use, followed by the candidates.
fn flows(args: &AdviseArgs, measured: Option<&str>) -> Result<Vec<String>, Error> {
    let bare = |flow: &String| FlowSpec::bare(flow).map(drop).map_err(Error::Text);
    let current = args.current.as_deref().or(measured).unwrap_or("cubic");
    let current = inputs::flow(current).and_then(|flow| bare(&flow).map(|()| flow));
    let mut flows = vec![current.map_err(Error::flag("--current"))?];
    let candidates = args.algorithms.as_deref().unwrap_or("bbr1,bbr3,cubic");
    let candidates = inputs::algorithms(candidates).and_then(|all| all.iter().try_for_each(bare).map(|()| all));
    for flow in candidates.map_err(Error::flag("--algorithms"))? {
        if !flows.contains(&flow) {
            flows.push(flow);
        }
    }
    if flows.len() < 2 {
        let rule = "there is nothing to compare with; name another algorithm, as in bbr1,bbr3";
        return Err(Error::Rule { place: "--algorithms", rule });
    }
    Ok(flows)
}

/// Collects the information about the paths, and describes the inference.
fn known(args: &AdviseArgs) -> Result<PathKnowledge, Error> {
    let conditions = conditions(args)?;
    if let Some(path) = &args.population {
        return Ok(PathKnowledge {
            population: inputs::population(path)?,
            conditions,
            said: Vec::new(),
            current: None,
        });
    }
    let evidence = match &args.from {
        None => None,
        Some(path) if path.as_os_str() == LIVE => Some(measured::evidence(&live::connections(looks(args)?)?)),
        Some(_) if args.watch.is_some() => {
            return Err(Error::Rule { place: "--watch", rule: "it goes with --from live; leave it out" });
        }
        Some(path) => {
            let text = inputs::measurement(path, "a measurement").map_err(Error::at(inputs::name(path)))?;
            Some(measured::evidence(&measured::read(&text).map_err(Error::at(inputs::name(path)))?))
        }
    };
    let mut spec = evidence.as_ref().map_or_else(KindSpec::unknown, |evidence| evidence.spec.clone());
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
    if let Some(flows) = &args.rival_flows {
        spec.rival_flows = flows.split(';').map(|flow| flow.trim().to_owned()).collect();
    }
    if let Some(rate) = own_rate(&conditions)? {
        spec.rate = rate;
    }
    if let (true, Some(reason), Some(path)) =
        (spec.rate.is_empty(), evidence.as_ref().and_then(|evidence| evidence.no_rate.as_ref()), &args.from)
    {
        return Err(Error::NoRate { file: inputs::name(path), reason: reason.clone() });
    }
    for (place, value) in [("--rate", &spec.rate), ("--rtt", &spec.rtt)] {
        if value.is_empty() {
            let rule = "give what is known, as in --rate 20mbit..50mbit --rtt 40ms, or give --from FILE";
            return Err(Error::Rule { place, rule });
        }
    }
    let kind = Kind::parse(&spec).map_err(Error::of_key)?;
    let (said, current) = evidence.map_or((Vec::new(), None), |evidence| (evidence.said, evidence.current));
    Ok(PathKnowledge { population: Population::of(kind), conditions, said, current })
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

/// Conditions of every path, from the remaining flags.
fn conditions(args: &AdviseArgs) -> Result<Conditions, Error> {
    let mut conditions = Conditions::default();
    for (key, text) in args.conditions.overrides() {
        if key == "trace" {
            let text_of = crate::scenario::trace_reader(text).map_err(Error::flag("--trace"))?;
            conditions.trace = Some((text.to_owned(), text_of));
            continue;
        }
        let mut scenario = bbrlab_sim::scenario::Scenario::default();
        scenario.set(key, text).map_err(|source| bbrlab_sim::Error::Flag { flag: key.replace('_', "-"), source })?;
        conditions.keys.push((key.to_owned(), text.to_owned()));
    }
    if let Some(text) = &args.duration {
        let duration: TimeSpan = text.parse().map_err(Error::flag("--duration"))?;
        if duration < TimeSpan::millis(1) {
            let error = bbrlab_study::Error::TooShort { found: duration.to_string(), min: "1ms" };
            return Err(Error::flag("--duration")(error));
        }
        conditions.duration_s = Some(duration.as_secs());
    } else if let Some(text) = args.conditions.get("schedule") {
        /// Duration of a run after its last scheduled change, relative to the time before. Ours.
        const AFTER: f64 = 1.5;
        let schedule: Schedule = text.parse().map_err(Error::flag("--schedule"))?;
        let last = schedule.0.last().map_or(0.0, |step| step.at.as_secs());
        conditions.duration_s = Some((AFTER * last).max(12.0));
    }
    Ok(conditions)
}

/// Rate of a trace, or the maximum of a link that grants rate by demand; it becomes the paths' rate.
fn own_rate(conditions: &Conditions) -> Result<Option<String>, Error> {
    if let Some((name, text)) = &conditions.trace {
        let trace =
            DeliveryTrace::parse(text).map_err(Error::at(format!("{name:?}"))).map_err(Error::flag("--trace"))?;
        return Ok(Some(format!("{}bit", trace.mean_rate().as_bits_per_sec())));
    }
    let demand = conditions.keys.iter().find(|(key, _)| key == "demand");
    let demand: Option<DemandLink> = demand.and_then(|(_, text)| text.parse().ok());
    Ok(demand.map(|demand| demand.max.to_string()))
}

fn judge(args: &AdviseArgs, flows: &[String], objective: Objective, paths: u64) -> Result<Verdict, Error> {
    let truth = match (&args.population, args.mixed) {
        (Some(path), _) => inputs::population(path)?,
        (None, false) => Population::from_toml(include_str!("anywhere.toml"))?,
        (None, true) => Population::from_toml(include_str!("mixed.toml"))?,
    };
    let progress = Progress::new("judging", usize::try_from(paths).unwrap_or(usize::MAX));
    let draws = args.draws.unwrap_or(DRAWS_JUDGED);
    let judged = advise::judge(&truth, flows, objective, (paths, draws), args.seed, &|| progress.tick())?;
    drop(progress);
    print(&format!(
        "{} paths{} known only roughly, objective {}:\n\
         the advice reaches {:.1} % of the score of the best choice in hindsight; always {} reaches {:.1} %\n\
         it was the best choice, or within {:.0} % of it, on {:.0} % of the paths\n",
        judged.paths,
        if args.mixed { " with rivals of several kinds" } else { "" },
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
    if !interval.is_known() {
        return "–".to_owned();
    }
    format!("×{:.2} ({:.2}…{:.2})", interval.middle, interval.low, interval.high)
}

/// Three significant digits: the interval of a few paths is wider than a fourth digit.
fn number(value: f64) -> String {
    or_dash(value, |value| significant(value, 3))
}

/// Formats the answer for one screen.
fn shown(advice: &Advice, objective: Objective, said: &[String]) -> String {
    let mut text = headline(advice, objective);
    text += "\n\n";
    text += &tables(advice);
    let _ = writeln!(text, "\nWhy: {}", why(advice));
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
    text += &footnote(advice, objective);
    text
}

/// Definition of the score and of the runs.
fn footnote(advice: &Advice, objective: Objective) -> String {
    let lasts = match advice.seconds {
        (low, high) if number(low) == number(high) => number(low),
        (low, high) => format!("{} to {}", number(low), number(high)),
    };
    format!(
        "Score: goodput within the fair share × (base RTT/RTT p50)^{} × (1 − retransmitted)^{} × (rivals' fraction of their \
         fair share)^{}, each at most 1. {} paths with the same random numbers for each algorithm, simulated for {lasts} s; \
         figures are means, in brackets 95 % intervals.\n",
        objective.delay,
        objective.repeats,
        objective.others,
        advice.paths.len()
    )
}

/// Tables of the candidates' figures, and of their ratios to the algorithm in use.
fn tables(advice: &Advice) -> String {
    let rows = advice.candidates.iter().enumerate().map(|(nth, one)| {
        let mut row = vec![if nth == advice.choice { format!("→ {}", one.flow) } else { format!("  {}", one.flow) }];
        row.push(format!("{:.3}", one.score));
        row.extend(one.figures.iter().map(|value| number(*value)));
        row.push(share(one.wins));
        row
    });
    let heads: Vec<String> = Figure::ALL.iter().map(|figure| format!("{}, {}", figure.name(), figure.unit())).collect();
    let head: Vec<&str> =
        ["algorithm", "score"].into_iter().chain(heads.iter().map(String::as_str)).chain(["best in"]).collect();
    let align: Vec<Align> = (0..head.len()).map(|nth| if nth == 0 { Align::Left } else { Align::Right }).collect();
    let mut text = aligned(&head, &align, rows);
    text.push('\n');
    let current = &advice.candidates[0].flow;
    let against = advice.candidates[1..].iter().map(|one| {
        let gains = std::iter::once(&one.score_gain).chain(COMPARED.iter().map(|(nth, _)| &one.gain[*nth])).map(ratio);
        std::iter::once(format!("{} over {current}", one.flow)).chain(gains).collect()
    });
    let names: Vec<&str> = ["ratio", "score"].into_iter().chain(COMPARED.iter().map(|(_, name)| *name)).collect();
    text += &aligned(&names, &align[..names.len()], against);
    text
}

/// Figures shown as a ratio: index in [`Figure::ALL`] and heading.
const COMPARED: [(usize, &str); 4] = [(0, "goodput"), (2, "RTT p50"), (5, "retransmitted"), (6, "rivals get")];

/// A share of resampled populations, never shown as all of them, because few paths are resampled.
fn share(share: f64) -> String {
    match 100.0 * share {
        share if share > 99.0 => "> 99 %".to_owned(),
        share if share < 1.0 => "< 1 %".to_owned(),
        share => format!("{share:.0} %"),
    }
}

/// The verdict in a few words.
fn verdict(advice: &Advice) -> String {
    let choice = &advice.candidates[advice.choice].flow;
    match advice.choice {
        0 => format!("Keep {choice}"),
        _ if advice.sure >= SURE => format!("Use {choice}"),
        _ => format!("Perhaps {choice}"),
    }
}

fn headline(advice: &Advice, objective: Objective) -> String {
    let (current, choice) = (&advice.candidates[0], &advice.candidates[advice.choice]);
    let sure = format!("the same choice in {} of resampled paths", share(advice.sure));
    let sure = match advice.paths.len() as u64 {
        few if few < DRAWS_LEAST => {
            format!("not enough data: {few} paths are too few to be sure; draw more with --draws")
        }
        _ if advice.sure >= SURE => format!("sure: {sure}"),
        _ => format!("not sure: {sure}"),
    };
    if advice.choice == 0 {
        return format!(
            "Don't change: {} is the best here, or within {:.0} % of it, for the objective {} ({sure}).",
            current.flow,
            100.0 * WORTH_A_CHANGE,
            objective.name
        );
    }
    let percent = |ratio: f64| format!("{:+.0} %", 100.0 * (ratio - 1.0));
    let gain = choice.score_gain;
    // Advice that another draw of paths would not give is not presented as certain.
    let verb = if advice.sure >= SURE { "Use" } else { "Perhaps" };
    format!(
        "{verb} {} instead of {}: it scores {} ({} … {}) for the objective {} ({sure}).",
        choice.flow,
        current.flow,
        percent(gain.middle),
        percent(gain.low),
        percent(gain.high),
        objective.name
    )
}

/// Formats the figures that decided; the table holds each of them.
fn why(advice: &Advice) -> String {
    let base = &advice.candidates[0].flow;
    let one = &advice.candidates[if advice.choice == 0 { second(advice) } else { advice.choice }];
    let paths = advice.paths.len();
    let by = 100.0 * (one.score_gain.middle - 1.0);
    let scores = if advice.choice == 0 && by > 0.0 {
        format!("{}, the next best, scores only {by:.1} % more than {base}", one.flow)
    } else if advice.choice == 0 {
        format!("{}, the next best, scores {:.1} % less than {base}", one.flow, -by)
    } else {
        format!("{} scores {by:.0} % more than {base}", one.flow)
    };
    let (gains, costs): (Vec<&Reason>, Vec<&Reason>) = one.reasons.iter().partition(|reason| reason.part > 0.0);
    let list =
        |reasons: &[&Reason]| reasons.iter().map(|reason| said(reason, &one.flow, base)).collect::<Vec<_>>().join("; ");
    let mut text = format!("{scores}; it is better on {} of {paths} paths.", one.better_on);
    if !gains.is_empty() {
        let _ = write!(text, " Advantages: {}.", list(&gains));
    }
    if !costs.is_empty() {
        let _ = write!(text, " Disadvantages: {}.", list(&costs));
    }
    text
}

/// Formats one reason, with its effect on the score.
fn said(reason: &Reason, own: &str, other: &str) -> String {
    let (a, b) = (number(reason.own), number(reason.other));
    let part = format!("{:+.0} % of score", 100.0 * reason.part);
    let part = if reason.part.abs() < 0.01 { format!("{:+.1} % of score", 100.0 * reason.part) } else { part };
    match reason.figure {
        Figure::FairShare | Figure::Goodput => {
            format!("{own} reaches {a} % of its fair share, {other} {b} % ({part})")
        }
        Figure::RttRatio | Figure::RttP50 | Figure::RttP95 => {
            format!("its RTT is {a} times the base RTT, {other}'s {b} times ({part})")
        }
        Figure::Retransmitted => format!("it retransmits {a} %, {other} {b} % ({part})"),
        Figure::Others => format!("its rivals get {a} % of their fair share, with {other} {b} % ({part})"),
    }
}

/// Warnings: large effects on others, and other caveats.
fn warnings(advice: &Advice) -> Vec<String> {
    const OTHERS: usize = 6;
    let current = &advice.candidates[0];
    let mut found = Vec::new();
    if advice.choice != 0 && advice.paths.iter().all(|path| path.rivals.is_empty()) {
        found.push(
            "no path had a rival, so this does not show what the choice takes from other flows; use --rivals 0..2."
                .to_owned(),
        );
    }
    let starves =
        |one: &Candidate| one.figures[OTHERS] < STARVED || (one.flow != current.flow && one.gain[OTHERS].high < TAKES);
    for one in &advice.candidates {
        let is_choice = one.flow == advice.candidates[advice.choice].flow;
        if one.flow.starts_with("bbr") && starves(one) {
            found.push(format!(
                "{}{} leaves its rivals {} % of their fair share{}.",
                one.flow,
                if is_choice { "" } else { ", which is not advised here," },
                number(one.figures[OTHERS]),
                if one.flow == current.flow {
                    String::new()
                } else {
                    format!("; {} leaves them {} %", current.flow, number(current.figures[OTHERS]))
                }
            ));
        }
    }
    found
}

/// The best candidate that is not in use.
fn second(advice: &Advice) -> usize {
    (1..advice.candidates.len())
        .max_by(|&a, &b| advice.candidates[a].score.total_cmp(&advice.candidates[b].score))
        .unwrap_or(0)
}
