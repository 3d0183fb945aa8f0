//! `bbrlab score`: a scorecard of congestion controls, by RFC 9743's criteria.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::PathBuf;

use bbrlab_lab::score::{self, Plan, Scorecard, Standing};
use bbrlab_live::backends;
use bbrlab_sim::scenario::Backend;
use bbrlab_stats::plural::counted;
use clap::Args;

use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::progress::Progress;
use crate::provenance::provenance;
use crate::runner::Runner;
use crate::{Error, Verdict, print};

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
        bbrlab score s2n:bbr --on quic:s2n --criterion 5.1.2\n\n\
        RFC 9743 sets no thresholds. An algorithm is better or worse than a reference if the 95 % interval of the difference, in \
        pairs of equal case and seed, excludes zero and the difference is at least 2 %. docs/score.md explains each criterion.")]
pub struct ScoreArgs {
    /// Algorithms, with parameters as in bbr3,loss_thresh=1%
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
    let runner = Runner::of(plan.on)?;
    let on = plan.on;
    let progress = Progress::new("scoring", plan.runs());
    let refusal = |setup: &bbrlab_sim::setup::Setup| backends::check(on, setup).err().map(|error| error.to_string());
    let card = score::run(plan, &runner, &refusal, &|| progress.tick())?;
    drop(progress);
    let mut files = Vec::new();
    if let Some(report) = &report {
        let mut page = score::page(&card);
        page.provenance = provenance(&[("backend", on.name().to_owned()), ("set", args.set.to_string())]);
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
    let plan = Plan::of(&args.card, &args.criterion, &args.algorithms, &args.compare, args.set, args.repeat)?;
    Ok(Plan { on, ..plan })
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
    text
}
