//! `bbrlab score`: a scorecard of congestion controls, by RFC 9743's criteria.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeSet;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use bbrlab_lab::score::{self, Plan, Results, Scorecard, Standing};
use bbrlab_live::backends;
use bbrlab_sim::record::result::RunResult;
use bbrlab_sim::scenario::Backend;
use bbrlab_stats::plural::counted;
use clap::Args;

use super::compare::{RESULT, has_end, paths_in, results_of, stem};
use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::progress::Progress;
use crate::provenance::provenance;
use crate::runner::Runner;
use crate::{Error, Verdict, inputs, print};

/// Extensions of captures.
const CAPTURES: [&str; 2] = ["pcap", "pcapng"];
/// Default number of seeds.
const REPEAT: u32 = 3;
/// Columns in front of the algorithms.
const LEADING: usize = 3;

/// Flags of `bbrlab score`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bbrlab score bbr3 --report out/score.html\n  \
        bbrlab score bbr3,loss_thresh=1% --criterion 5.2.1 --criterion 6.4\n  \
        bbrlab score bbr3 --compare cubic,bbr1 --card situations --set 7\n  \
        bbrlab score s2n:bbr --on quic:s2n --criterion 5.1.2\n  \
        bbrlab score bbr3 --cases cases                   (one scenario a file, to run elsewhere)\n  \
        bbrlab score mine=results --report out/score.html\n\n\
        RFC 9743 sets no thresholds. An algorithm is better or worse than a reference if the 95 % interval of the difference, in \
        pairs of equal case and seed, excludes zero and the difference is at least 2 %. docs/score.md explains each criterion.")]
pub struct ScoreArgs {
    /// Algorithms, with parameters as in bbr3,loss_thresh=1%; or NAME=DIR, a folder of results, captures or qlogs of the cases that `--cases` writes
    #[arg(required = true, value_name = "ALGO")]
    pub algorithms: Vec<String>,
    /// Reference algorithms, separated by commas [default: cubic,reno,bbr1,bbr3]
    #[arg(long, value_name = "ALGOS", value_delimiter = ',')]
    pub compare: Vec<String>,
    /// Scorecard: rfc9743; situations, which are 97 paths scored by one number; or applications: lag, calls, video, pages
    #[arg(long, value_name = "CARD", default_value = "rfc9743")]
    pub card: String,
    /// Only this criterion, by its section, as in 5.1.2 (repeatable)
    #[arg(long, value_name = "SECTION")]
    pub criterion: Vec<String>,
    /// Scenario set: 0 as written; any other draws rates, RTTs, buffers and losses anew
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = crate::args::seed)]
    pub set: u64,
    /// Runs of each case, with seeds 1 to N
    #[arg(long, value_name = "N", default_value_t = REPEAT, value_parser = crate::args::number(1..=1000_u32))]
    pub repeat: u32,
    /// Backend, as for `bbrlab run`
    #[arg(long, value_name = "BACKEND", default_value = "sim")]
    pub on: String,
    /// Write each case as a scenario to this folder, with the algorithm under test, and run none
    #[arg(long, value_name = "DIR", help_heading = "Output", conflicts_with_all = ["json", "report"])]
    pub cases: Option<PathBuf>,
    /// Write the scorecard as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub report: Option<PathBuf>,
}

/// Runs the command.
pub fn score(args: &ScoreArgs) -> Result<Verdict, Error> {
    let json = Target::asked("--json", args.json.as_deref())?;
    let report = Target::asked("--report", args.report.as_deref())?;
    outputs::check_distinct(json.iter().chain(&report))?;
    let plan = plan(args)?;
    if let Some(folder) = &args.cases {
        return write_cases(&plan, folder);
    }
    let runner = Runner::of(plan.on)?;
    let on = plan.on;
    let progress = Progress::new("scoring", plan.runs());
    let refusal = |setup: &bbrlab_sim::setup::Setup| backends::check(on, setup).err().map(|error| error.to_string());
    let card = score::run(plan, &runner, &refusal, &|| progress.tick())?;
    drop(progress);
    let mut files = Vec::new();
    if let Some(report) = &report {
        let mut page = score::page(&card);
        let mut facts = vec![("backend", on.name().to_owned()), ("set", args.set.to_string())];
        facts.extend(card.plan.results.iter().map(|(name, results)| ("results", made_on(name, results))));
        page.provenance = provenance(&facts);
        let page = bbrlab_report::render(&page);
        files.extend(report.write(|to| to.write_all(page.as_bytes()))?);
    }
    if let Some(json) = &json {
        files.extend(json.write(|to| writeln!(to, "{:#}", score::json(&card)))?);
    }
    outputs::commit(files)?;
    if !outputs::take_stdout(json.iter().chain(&report)) {
        print(&shown(&card))?;
    }
    Ok(Verdict::Holds)
}

/// Checks the flags before the first run.
fn plan(args: &ScoreArgs) -> Result<Plan, Error> {
    let on: Backend = args.on.parse().map_err(Error::flag("--on"))?;
    let (folders, algorithms): (Vec<_>, Vec<_>) = args.algorithms.iter().partition(|text| folder_of(text).is_some());
    let algorithms: Vec<String> = algorithms.into_iter().cloned().collect();
    let mut plan = Plan::of(&args.card, &args.criterion, &algorithms, &args.compare, args.set, args.repeat)?;
    for (name, folder) in folders.into_iter().filter_map(|text| folder_of(text)) {
        if plan.algorithms().contains(&name) {
            return Err(Error::Rule {
                place: "<ALGO>",
                rule: "a name of results is also that of another algorithm; rename it",
            });
        }
        plan.results.insert(name.to_owned(), results(Path::new(folder), &plan)?);
        plan.subjects.push(name.to_owned());
    }
    Ok(Plan { on, ..plan })
}

/// Name and folder of results, `NAME=DIR`. The parameters of an algorithm follow a comma.
fn folder_of(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, folder)| !name.contains(',') && !name.is_empty() && !folder.is_empty())
}

/// Reads the results of a folder. A file's name begins with the id of its case: `5.1.2-1.json`, `5.1.2-1-seed2.json`. Captures and qlogs
/// of runs count as well, with the seed at the end of the name: `5.1.2-1-2.pcapng`, `5.1.2-1-2.sqlog`, or a folder `5.1.2-1-2` of qlogs.
fn results(folder: &Path, plan: &Plan) -> Result<Results, Error> {
    let ids = plan.case_ids();
    let mut results = Results::new();
    let is_known = |path: &Path| path.is_dir() || is_log(path) || has_end(path, &[&[RESULT][..], &CAPTURES].concat());
    for path in paths_in(folder, is_known)? {
        let name = if path.is_dir() {
            path.file_name().unwrap_or_default().to_string_lossy().into_owned()
        } else {
            stem(&path)
        };
        let rest = |id: &String| name.strip_prefix(id.as_str()).filter(|rest| rest.is_empty() || rest.starts_with('-'));
        let Some((id, rest)) = ids.iter().find_map(|id| Some((id, rest(id)?))) else { continue };
        let found = if has_end(&path, &[RESULT]) { results_of(&path)? } else { recorded(plan, id, rest, &path)? };
        results.entry(id.clone()).or_default().extend(found);
    }
    if results.is_empty() {
        return Err(Error::NoCaseResults(folder.display().to_string(), ids.first().cloned().unwrap_or_default()));
    }
    Ok(results)
}

/// True for a qlog. Of a connection's two, `bbrlab serve --qlog` writes a sequence and a document, it is the sequence.
fn is_log(path: &Path) -> bool {
    has_end(path, &["sqlog"]) || has_end(path, &["qlog"]) && !path.with_extension("sqlog").exists()
}

/// Result of a case from a capture, a qlog, or a folder of qlogs. Its seed is the number at the end of the name, or 1.
fn recorded(plan: &Plan, id: &str, rest: &str, path: &Path) -> Result<Vec<RunResult>, Error> {
    let digits = rest.len() - rest.trim_end_matches(|last: char| last.is_ascii_digit()).len();
    let seed = if digits == 0 { Ok(1) } else { rest[rest.len() - digits..].parse() };
    let Ok(seed) = seed else { return Ok(Vec::new()) };
    let shown = inputs::name(path);
    let open = |path: &Path| inputs::open(path).map(BufReader::new).map_err(Error::at(inputs::name(path)));
    let found = if has_end(path, &CAPTURES) {
        plan.captured(id, seed, open(path)?)
    } else {
        let logs = if path.is_dir() { paths_in(path, is_log)? } else { vec![path.to_owned()] };
        let logs: Vec<_> = logs.iter().map(|log| open(log)).collect::<Result<_, _>>()?;
        plan.logged(id, seed, logs)
    };
    Ok(found.map_err(Error::at(&shown))?.into_iter().collect())
}

/// Name of an algorithm with the backends on which its results were made, as in "mine (kernel)".
fn made_on(name: &str, results: &Results) -> String {
    let backends: BTreeSet<&str> = results.values().flatten().map(|run| &*run.on).collect();
    format!("{name} ({})", backends.into_iter().collect::<Vec<_>>().join(", "))
}

/// Writes the cases as scenarios.
fn write_cases(plan: &Plan, folder: &Path) -> Result<Verdict, Error> {
    if plan.subjects.len() > 1 || !plan.results.is_empty() {
        return Err(Error::Rule { place: "--cases", rule: "it writes the cases of one algorithm; name one" });
    }
    let mut files = Vec::new();
    for (id, text) in plan.case_files()? {
        if let Some(target) = Target::asked("--cases", Some(&folder.join(format!("{id}.toml"))))? {
            files.extend(target.write(|to| to.write_all(text.as_bytes()))?);
        }
    }
    let count = files.len();
    outputs::commit(files)?;
    print(&format!("{} in {}\n", counted(count, "case"), folder.display()))?;
    Ok(Verdict::Holds)
}

fn shown(card: &Scorecard) -> String {
    let (head, rows) = score::table(card);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let algorithms = card.plan.algorithms().len();
    let mut align = vec![Align::Text; 2];
    align.push(Align::Left);
    align.extend(vec![Align::Right; algorithms]);
    align.extend(vec![Align::Left; head.len() - LEADING - algorithms]);
    let mut text = aligned(&head, &align, rows);
    text += "\n";
    for (nth, name) in card.plan.subjects.iter().enumerate() {
        let count = |standing| card.count(nth, standing);
        text += &format!(
            "{name}: better than every reference on {} of {}, worse than every reference on {}\n",
            count(Standing::Best),
            counted(card.lines.len(), "measure"),
            count(Standing::Worst)
        );
    }
    for (name, results) in &card.plan.results {
        text += &format!("results: {}\n", made_on(name, results));
    }
    text
}
