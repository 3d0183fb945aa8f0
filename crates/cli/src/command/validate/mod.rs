//! `bbrlab validate`: runs scenarios in the simulator and on a real kernel or QUIC stack, and compares the results.
//! Exit status 1 if the two differ too much.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod packets;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bbrlab_lab::session::Runner as _;
use bbrlab_lab::validate::{self, Cell, Compared, FIGURES, Limits, Measured, Row};
use bbrlab_report::model::{
    Axis, ClaimRow, Figure, Number, Panel, Report, Section, Series, Style, Table, Verdict as Shown,
};
use bbrlab_sim::scenario::{Backend, Scenario, ScenarioFile, TimeSpan};
use bbrlab_sim::setup::{Program, Transport};
use bbrlab_stats::number::column;
use bbrlab_stats::plural::counted;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::args::{KeyArgs, PacketsKeys, seed};
use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::progress::Progress;
use crate::provenance::provenance;
use crate::runner::{self, Runner};
use crate::{Error, Verdict, inputs, print};
use clap::Args;

/// Flags of `bbrlab validate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status 1 if the simulator exceeds its limits, or with --packets if a packet differs; the limits and the scenarios are those of docs/validation.md.\n\n\
        Examples:\n  \
        bbrlab validate --longest 60s --repeat 5\n  \
        bbrlab validate --packets --rate 10mbit --rtt 40ms --flow cubic --duration 60s"
)]
pub struct ValidateArgs {
    /// Scenario files in TOML [default: the built-in matrix]
    pub files: Vec<PathBuf>,
    /// Compare the packets of one scenario, from a file or from the flags below, and show the first difference
    #[arg(long, conflicts_with_all = ["only", "longest", "every", "json", "report", "repeat"])]
    pub packets: bool,
    /// With --packets: maximum difference between the times of a packet in the two runs
    #[arg(long, value_name = "TIME", default_value = "1us", requires = "packets")]
    pub within: String,
    /// With --packets: number of packets to show before the first difference
    #[arg(long, value_name = "N", default_value_t = 10, requires = "packets")]
    pub context: usize,
    #[command(flatten)]
    pub keys: KeyArgs<PacketsKeys>,
    /// Backend to compare with the simulator: uml, a real kernel in virtual time; kernel, this host's in real time, one
    /// run after another; quic:s2n, quic:noq or quic:quinn, a QUIC stack, with a matrix of its own
    #[arg(long, value_name = "BACKEND", default_value = "uml")]
    pub with: String,
    /// With --with kernel: source of the programs for bbr1, cubic and reno, the kernel's own or ours (bbrlab)
    #[arg(long, value_name = "WHOSE", default_value = "kernel", value_parser = crate::args::program)]
    pub program: Program,
    /// Number of runs of each scenario on each side
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = crate::args::number::<u32>(1..=1000))]
    pub repeat: u32,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true, value_parser = seed)]
    pub seed: u64,
    /// Only scenarios whose name contains this text; a random one begins with its number, as in 19:
    #[arg(long, value_name = "TEXT", conflicts_with = "files")]
    pub only: Option<String>,
    /// Only scenarios of the matrix that take at most this time, as in 60s
    #[arg(long, value_name = "TIME", conflicts_with = "files")]
    pub longest: Option<String>,
    /// Compare N random scenarios, drawn from the seed, instead of the matrix: nearly all of them must agree
    #[arg(long, value_name = "N", conflicts_with_all = ["files", "packets", "longest", "every"], value_parser = crate::args::number::<u32>(1..=10_000))]
    pub random: Option<u32>,
    /// Only every N-th scenario of the matrix
    #[arg(long, value_name = "N", conflicts_with = "files", value_parser = crate::args::number(1..=u32::MAX))]
    pub every: Option<u32>,
    /// Write the comparison as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

/// Number of demands with figures on the first screen. Ours.
const NUMBERS_SHOWN: usize = 5;
/// Maximum ratio in the plot; the table has all. Ours.
const FARTHEST: f64 = 4.0;

/// Name prefix of matrix scenarios that no kernel's own algorithms can run.
const OURS: &str = "ours: ";
/// Name prefixes of matrix scenarios that run only when asked for by them: they need a newer kernel, or a module outside Linux.
const ON_REQUEST: [&str; 3] = ["l4s: ", "prague: ", "google: "];
/// The built-in scenarios.
const MATRIX: &str = include_str!("kernel.toml");
/// The built-in scenarios for QUIC stacks.
const QUIC_MATRIX: &str = include_str!("quic.toml");

/// One scenario to compare.
struct Case {
    name: String,
    scenario: ScenarioFile,
}

/// Runs the requested scenarios on both sides.
pub fn validate(args: &ValidateArgs) -> Result<Verdict, Error> {
    let on: Backend = args.with.parse().map_err(Error::flag("--with"))?;
    let limits = match on {
        Backend::Sim => {
            let rule = "sim is the simulator itself; write uml, kernel, quic:s2n, quic:noq or quic:quinn";
            return Err(Error::Rule { place: "--with", rule });
        }
        Backend::Uml => validate::UML,
        Backend::Kernel => validate::KERNEL,
        Backend::Quic(_) => validate::QUIC,
    };
    if args.packets && on.stack().is_some() {
        return Err(Error::Encrypted(args.with.clone()));
    }
    if args.packets {
        return packets::compare(args, on);
    }
    if let Some(key) = args.keys.first() {
        return Err(Error::PacketsOnly(key));
    }
    let cases = cases(args, on)?;
    let real = Runner::of(on)?;
    let json = Target::asked("--json", args.json.as_deref())?;
    let report = Target::asked("--report", args.report.as_deref())?;
    outputs::check_distinct(json.iter().chain(&report))?;
    let (cells, disturbed) = compare(args, &cases, on, &real)?;
    let rows = if args.random.is_some() { validate::random::judge(&cells) } else { validate::judge(&cells, limits) };
    let mut files = Vec::new();
    if let Some(report) = &report {
        let page = bbrlab_report::render(&page(args, limits, &cells, &rows));
        files.extend(report.write(|to| to.write_all(page.as_bytes()))?);
    }
    if let Some(json) = &json {
        files.extend(json.write(|to| writeln!(to, "{:#}", document(args, limits, &cells, &rows, &disturbed)))?);
    }
    outputs::commit(files)?;
    if !outputs::take_stdout(json.iter().chain(&report)) {
        print(&shown(args, &cells, &rows, &disturbed))?;
    }
    Ok(if rows.iter().all(|row| row.holds) { Verdict::Holds } else { Verdict::Fails })
}

fn cases(args: &ValidateArgs, on: Backend) -> Result<Vec<Case>, Error> {
    if let Some(count) = args.random {
        let mut cases = drawn(count as usize, args.seed, on).map_err(Error::flag("--random"))?;
        if let Some(only) = &args.only {
            cases.retain(|case| is_named(&case.name, only));
            if cases.is_empty() {
                return Err(Error::NoScenarioNamed(only.clone()));
            }
        }
        return Ok(cases);
    }
    if args.files.is_empty() {
        return matrix(args, on);
    }
    args.files
        .iter()
        .map(|path| {
            let file = inputs::name(path);
            let text = inputs::scenario(path).map_err(Error::input(&file, "a scenario in TOML"))?;
            let scenario = ScenarioFile::from_toml(&text, &file)?;
            let given = &scenario.scenario.name;
            let name = if given.is_empty() { stem(path) } else { given.clone() };
            Ok(Case { name, scenario })
        })
        .collect()
}

/// True if a name contains this text. A number in the text is a whole one: `2: ` is not a part of `12: `.
fn is_named(name: &str, text: &str) -> bool {
    let begins = |at: usize| !name[..at].ends_with(|c: char| c.is_ascii_digit());
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    name.match_indices(text).any(|(at, _)| !is_number || begins(at))
}

/// Draws this many scenarios that the real kernel can run; in virtual time it cannot hold ACKs back, for example.
fn drawn(count: usize, seed: u64, on: Backend) -> Result<Vec<Case>, Error> {
    let mut cases = Vec::with_capacity(count);
    for nth in 0.. {
        let scenario = validate::random::scenario(seed, nth).map_err(bbrlab_sim::Error::from)?;
        let setup = scenario.resolve().map_err(bbrlab_sim::Error::from)?;
        if Runner::check(on, &setup).is_ok() {
            cases.push(Case { name: scenario.name.clone(), scenario: scenario.into() });
        }
        if cases.len() == count {
            break;
        }
    }
    Ok(cases)
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned())
}

fn matrix(args: &ValidateArgs, on: Backend) -> Result<Vec<Case>, Error> {
    #[derive(serde::Deserialize)]
    struct Matrix {
        scenario: Vec<Scenario>,
    }
    let (file, text) = if on.stack().is_some() { ("quic.toml", QUIC_MATRIX) } else { ("kernel.toml", MATRIX) };
    let matrix: Matrix = toml::from_str(text).map_err(Error::at(file))?;
    let longest: Option<TimeSpan> =
        args.longest.as_deref().map(|text| text.parse().map_err(Error::flag("--longest"))).transpose()?;
    let wanted = |(index, scenario): &(usize, Scenario)| {
        let name = scenario.name.as_str();
        let is_asked = |prefix: &str| args.only.as_deref().is_some_and(|text| text.starts_with(prefix.trim_end()));
        ON_REQUEST.iter().all(|prefix| !name.starts_with(prefix) || is_asked(prefix))
            && longest.is_none_or(|longest| scenario.duration <= longest)
            && args.only.as_deref().is_none_or(|text| is_named(name, text))
            && args.every.is_none_or(|every| index.is_multiple_of(every as usize))
    };
    // Our own algorithms only where they can be loaded, and hosts with `fq` only where they exist.
    let can = |(_, scenario): &(usize, Scenario)| {
        let Ok(setup) = scenario.resolve() else { return true };
        let needs_more = scenario.name.starts_with(OURS) || setup.flows.iter().any(|flow| flow.is_paced_by_fq());
        !needs_more || Runner::check(on, &setup).is_ok()
    };
    let cases: Vec<Case> = matrix
        .scenario
        .into_iter()
        .enumerate()
        .filter(wanted)
        .filter(can)
        .map(|(_, scenario)| Case { name: scenario.name.clone(), scenario: scenario.into() })
        .collect();
    if !cases.is_empty() {
        return Ok(cases);
    }
    Err(match (&args.only, &args.longest) {
        (Some(only), Some(longest)) => Error::NoShortScenarioNamed { only: only.clone(), longest: longest.clone() },
        (Some(only), None) => Error::NoScenarioNamed(only.clone()),
        _ => {
            let rule = "no scenario of the matrix is that short; write a longer time, as in 60s";
            Error::Rule { place: "--longest", rule }
        }
    })
}

/// Runs every case with every seed on both sides. Also lists runs that the machine disturbed, which do not count.
fn compare(args: &ValidateArgs, cases: &[Case], on: Backend, real: &Runner) -> Result<(Vec<Cell>, Vec<String>), Error> {
    let progress = Progress::new("comparing", cases.len() * args.repeat as usize);
    let disturbed = Mutex::new(Vec::new());
    let run = |case: &Case, nth: u32| -> Result<Option<(Measured, Measured)>, Error> {
        let mut sourced = case.scenario.clone();
        sourced.scenario.seed = args.seed.wrapping_add(nth.into());
        sourced.scenario.repeat = 1;
        let mut setup = sourced.resolve(&|file| Ok(inputs::trace(Path::new(file))?))?;
        if args.program == Program::Bbrlab {
            setup.flows.iter_mut().for_each(|flow| flow.host.program = Program::Bbrlab);
        }
        let scenario = sourced.scenario.filled();
        Runner::check(on, &setup).map_err(Error::at(&case.name))?;
        let mut modelled = setup.clone();
        if let Some(stack) = on.stack() {
            for flow in &mut modelled.flows {
                if !flow.is_tcp {
                    flow.host.transport = Transport::of(stack);
                }
            }
        }
        let virtual_run = Runner::simulator().run(&scenario, &modelled, &mut |_| {}).map_err(Error::at(&case.name))?;
        let real_run = match real.run(&scenario, &setup, &mut |_| {}) {
            // A stack that gives up a connection has failed by itself; that is no evidence about the simulator.
            Err(what) if on.stack().is_some() => {
                progress.tick();
                let seed = scenario.seed;
                let said = format!("{}: seed {seed}: {what}", case.name);
                disturbed.lock().unwrap_or_else(PoisonError::into_inner).push(said);
                return Ok(None);
            }
            other => other.map_err(Error::at(&case.name))?,
        };
        progress.tick();
        if let Some(warning) = runner::warning(&real_run.result) {
            disturbed.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{}: {warning}", case.name));
            return Ok(None);
        }
        Ok(Some((validate::measured(&virtual_run.result), validate::measured(&real_run.result))))
    };
    let one = |(index, case): (usize, &Case)| -> Result<Option<Cell>, Error> {
        let runs: Vec<Option<(Measured, Measured)>> = if real.is_real_time() {
            (0..args.repeat).map(|nth| run(case, nth)).collect::<Result<_, _>>()?
        } else {
            (0..args.repeat).into_par_iter().map(|nth| run(case, nth)).collect::<Result<_, _>>()?
        };
        let (sim, real): (Vec<Measured>, Vec<Measured>) = runs.into_iter().flatten().unzip();
        let cell = || validate::compare(&case.name, &sim, &real, args.seed.wrapping_add(index as u64));
        Ok((!real.is_empty()).then(cell))
    };
    let cells: Vec<Option<Cell>> = if real.is_real_time() {
        cases.iter().enumerate().map(one).collect::<Result<_, _>>()?
    } else {
        cases.par_iter().enumerate().map(one).collect::<Result<_, _>>()?
    };
    Ok((cells.into_iter().flatten().collect(), disturbed.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

fn figure_cells(compared: &Compared) -> Vec<String> {
    if !compared.ratio.is_finite() {
        return vec![column(compared.sim), column(compared.real), "–".to_owned()];
    }
    let ratio = format!("{:.3} ({:.3}…{:.3})", compared.ratio, compared.low, compared.high);
    vec![column(compared.sim), column(compared.real), ratio]
}

fn verdict_rows(rows: &[Row]) -> Vec<Vec<String>> {
    rows.iter()
        .map(|row| {
            let word = if row.holds { "holds" } else { "FAILS" };
            let worst = row.worst.join("; ");
            vec![word.to_owned(), row.what.clone(), format!("{:.3}", row.measured), format!("≤ {}", row.limit), worst]
        })
        .collect()
}

fn shown(args: &ValidateArgs, cells: &[Cell], rows: &[Row], disturbed: &[String]) -> String {
    let mut text = String::new();
    for (index, figure) in FIGURES.iter().enumerate() {
        let with = cells.iter().filter(|cell| cell.figures[index].real.is_finite() && cell.figures[index].real > 0.0);
        let lines: Vec<Vec<String>> =
            with.map(|cell| [vec![cell.name.clone()], figure_cells(&cell.figures[index])].concat()).collect();
        if lines.is_empty() {
            continue;
        }
        let head = [*figure, "sim", args.with.as_str(), "ratio (95 %)"];
        text.push_str(&aligned(&head, &[Align::Left, Align::Right, Align::Right, Align::Right], lines));
        text.push('\n');
    }
    let align = [Align::Left, Align::Text, Align::Right, Align::Right, Align::Text];
    text.push_str(&aligned(
        &["verdict", "what", "measured", "limit", "largest deviations"],
        &align,
        verdict_rows(rows),
    ));
    let held = rows.iter().filter(|row| row.holds).count();
    let _ = writeln!(
        text,
        "\n{}, {} each: {held} of {} {}",
        counted(cells.len(), "scenario"),
        counted(args.repeat, "run"),
        counted(rows.len(), "demand"),
        if rows.len() == 1 { "holds" } else { "hold" }
    );
    for run in disturbed {
        let _ = writeln!(text, "left out: {run}");
    }
    text
}

fn document(args: &ValidateArgs, limits: Limits, cells: &[Cell], rows: &[Row], disturbed: &[String]) -> Value {
    json!({ "schema": 1, "version": env!("CARGO_PKG_VERSION"), "with": args.with, "repeat": args.repeat,
            "seed": args.seed, "figures": FIGURES, "scenarios": cells, "demands": rows, "disturbed": disturbed,
            "limits": { "goodput": limits.goodput, "rtt": limits.rtt, "most": limits.max, "retransmitted": limits.retransmitted } })
}

fn page(args: &ValidateArgs, limits: Limits, cells: &[Cell], rows: &[Row]) -> Report {
    let claim = |row: &Row| ClaimRow {
        id: "agreement".to_owned(),
        title: "The simulator and a real kernel".to_owned(),
        source: "docs/validation.md".to_owned(),
        claim: "The simulator matches a real kernel.".to_owned(),
        contradiction: None,
        what: row.what.clone(),
        expected: format!("≤ {}", row.limit),
        measured: format!("{:.3}", row.measured),
        verdict: if row.holds { Shown::Holds } else { Shown::Fails },
        reason: Some(format!("largest deviations: {}", row.worst.join("; "))),
    };
    let number = |row: &Row| Number {
        label: row.what.clone(),
        value: format!("{:.3}", row.measured),
        note: format!("at most {}: {}", row.limit, if row.holds { "holds" } else { "fails" }),
        color_key: None,
    };
    let all = FIGURES.iter().enumerate().map(|(index, name)| figure(cells, index, name, limits));
    let mut figures: Vec<Figure> = all.filter(|figure| !figure.panels[0].series[0].x.is_empty()).collect();
    Report {
        title: "The simulator compared with a real kernel".to_owned(),
        subtitle: format!(
            "{} of {} requirements hold, over {}.",
            rows.iter().filter(|row| row.holds).count(),
            rows.len(),
            counted(cells.len(), "scenario")
        ),
        provenance: provenance(&[
            (
                "kernel",
                if args.with == "uml" { "Linux in virtual time (uml)" } else { "this host's (kernel)" }.to_owned(),
            ),
            ("scenarios", cells.len().to_string()),
            ("runs of each", args.repeat.to_string()),
            ("seed", args.seed.to_string()),
        ]),
        numbers: rows.iter().take(NUMBERS_SHOWN).map(number).collect(),
        lead: figures.drain(..figures.len().min(1)).collect(),
        claims: rows.iter().map(claim).collect(),
        sections: vec![Section {
            id: "agreement".to_owned(),
            title: "Figure by figure".to_owned(),
            figures,
            runs_table: Some(table(args, cells)),
            ..Section::default()
        }],
        ..Report::default()
    }
}

/// Accepted ratios of a figure: in most scenarios, and in the median; none without a demand.
fn bounds(index: usize, limits: Limits) -> Vec<(&'static str, f64)> {
    match index {
        validate::GOODPUT => vec![("90 % of scenarios", limits.max), ("median", limits.goodput)],
        validate::RTT_P50 => vec![("90 % of scenarios", limits.max), ("median", limits.rtt)],
        validate::RETRANSMITTED => vec![("limit", limits.retransmitted - 1.0)],
        _ => Vec::new(),
    }
}

/// Plot of one figure over all scenarios: the real kernel's value on x, the ratio on y.
fn figure(cells: &[Cell], index: usize, name: &str, limits: Limits) -> Figure {
    let with: Vec<&Compared> =
        cells.iter().map(|cell| &cell.figures[index]).filter(|one| one.ratio.is_finite() && one.real > 0.0).collect();
    let (label, unit) = name.split_once(", ").unwrap_or((name, ""));
    let bounds = bounds(index, limits);
    let line =
        |name: String, y: f64| Series { name, style: Style::Reference, x: vec![1.0], y: vec![y], ..Series::default() };
    let limits = bounds.iter().flat_map(|(of, off)| {
        [line(format!("{of}: ×{:.2}", 1.0 + off), 1.0 + off), line(format!("÷{:.2}", 1.0 + off), 1.0 / (1.0 + off))]
    });
    // The axis spans the limits and all scenarios; without a limit, a tenth either way.
    let room = bounds.iter().map(|(_, off)| 1.0 + 1.5 * off).fold(1.1, f64::max);
    let ends = with.iter().flat_map(|one| [one.low, one.high, one.ratio]).filter(|ratio| *ratio > 0.0);
    let far = ends.fold(room, |far, ratio| far.max(ratio).max(1.0 / ratio)).min(FARTHEST) * 1.02;
    Figure {
        id: format!("agreement-{index}"),
        title: label.to_owned(),
        how_to_read: "Each mark is a scenario, its bar the 95 % interval over the seeds; at 1 both give the same. The dashed lines \
                      are the limits of the verdicts."
            .to_owned(),
        x: Axis { label: format!("{label} on the real kernel"), unit: unit.to_owned(), log: true, ..Axis::default() },
        panels: vec![Panel {
            y: Axis {
                label: "simulator / real kernel".to_owned(),
                log: true,
                min: Some(1.0 / far),
                max: Some(far),
                ..Axis::default()
            },
            series: [vec![
                Series {
                    name: label.to_owned(),
                    style: Style::Points,
                    x: with.iter().map(|one| one.real).collect(),
                    y: with.iter().map(|one| one.ratio).collect(),
                    low: with.iter().map(|one| one.low).collect(),
                    high: with.iter().map(|one| one.high).collect(),
                    color_key: None,
                },
                line("equal".to_owned(), 1.0),
            ], limits.collect()].concat(),
        }],
        ..Figure::default()
    }
}

fn table(args: &ValidateArgs, cells: &[Cell]) -> Table {
    let heads = FIGURES.iter().flat_map(|name| [format!("{name}: sim"), args.with.clone(), "ratio".to_owned()]);
    let row = |cell: &Cell| {
        let figures = cell.figures.iter().flat_map(|one| [column(one.sim), column(one.real), column(one.ratio)]);
        std::iter::once(cell.name.clone()).chain(figures).collect()
    };
    Table {
        columns: std::iter::once("scenario".to_owned()).chain(heads).collect(),
        rows: cells.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: ValidateArgs,
    }

    #[test]
    fn both_kernels_run_the_matrix_with_its_links_of_the_reverse_direction_and_its_probes() {
        for on in [Backend::Uml, Backend::Kernel] {
            let args = Command::parse_from(["validate"]).args;
            let cases = matrix(&args, on).unwrap();
            for case in &cases {
                let setup = case.scenario.scenario.resolve().unwrap();
                assert!(Runner::check(on, &setup).is_ok(), "{} on {on}", case.name);
            }
            let count = |has: fn(&Scenario) -> bool| cases.iter().filter(|case| has(&case.scenario.scenario)).count();
            assert!(count(|scenario| scenario.up.is_some()) >= 5 && count(|scenario| scenario.probe.is_some()) >= 3);
        }
    }

    #[test]
    fn a_number_names_one_random_scenario() {
        assert!(is_named("2: 12 Mbit/s, aqm red", "2: ") && is_named("2: 12 Mbit/s, aqm red", "red"));
        assert!(!is_named("12: 2 Mbit/s", "2: "));
    }

    #[test]
    fn what_the_kernel_cannot_play_is_drawn_again() {
        let cases = drawn(40, 1, Backend::Uml).unwrap();
        assert_eq!(cases.len(), 40);
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert!(!names.iter().any(|name| name.contains("ack_aggregation")), "{names:?}");
        let here = drawn(40, 1, Backend::Kernel).unwrap();
        assert!(here.iter().any(|case| case.name.contains("ack_aggregation")));
    }
}
