//! Conformance page in the report's style: verdicts, a grid for each case, and the trace of one cell.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::NANOS_PER_SEC;

use super::{CaseOutcome, Cell, CellOutcome, DRAFT, Verdict};
use crate::expect::RunView;
use bbrlab_report::model::{
    Axis, ClaimRow, Figure, Grid, Panel, Report, Ribbon, RowKind, Section, Series, Style, Table, Verdict as Mark,
};
use bbrlab_stats::number::significant;
use bbrlab_stats::plural::verb;

/// Points per line that a page keeps of a run. Ours: more than a screen is wide.
const POINTS: usize = 1_500;
/// Failing cells of a case that are drawn. Ours.
const DRAWN: usize = 3;

pub fn page(outcomes: &[CaseOutcome]) -> Report {
    let mut report = Report {
        title: format!("Conformance to {DRAFT}"),
        subtitle: answer(outcomes),
        grid: Some(grid(outcomes)),
        rows_of: RowKind::TestCases,
        ..Report::default()
    };
    for outcome in outcomes {
        // A case that does not apply is no claim; its section gives the reason.
        let row = claim(outcome).filter(|_| outcome.verdict() != Verdict::NotApplicable);
        report.sections.push(section(outcome, row.as_ref().map(|_| report.claims.len())));
        report.claims.extend(row);
    }
    report
}

/// Answer in one sentence.
fn answer(outcomes: &[CaseOutcome]) -> String {
    let count = |verdict| outcomes.iter().filter(|outcome| outcome.verdict() == verdict).count();
    let (holds, fails, not) = (count(Verdict::Holds), count(Verdict::Fails), count(Verdict::NotApplicable));
    let not = if not == 0 { String::new() } else { format!(", {} not applicable", verb(not, "is", "are")) };
    format!(
        "Of the example test cases in the draft's appendix, each over a grid of rates and RTTs, {}, {}{not}.",
        verb(holds, "holds", "hold"),
        verb(fails, "fails", "fail")
    )
}

/// Overview of all cases: by cell for one algorithm, by algorithm for several.
fn grid(outcomes: &[CaseOutcome]) -> Grid {
    let mark = |verdict| match verdict {
        Verdict::Holds => Some(Mark::Holds),
        Verdict::Fails => Some(Mark::Fails),
        Verdict::NotApplicable => None,
    };
    let mut algorithms: Vec<&str> = outcomes.iter().map(|outcome| outcome.algorithm.as_str()).collect();
    algorithms.dedup();
    let how_to_read = "● holds, ✕ fails, · not applicable; a row leads to its case.".to_owned();
    let label = |outcome: &CaseOutcome| format!("{} {}", outcome.case.id(), outcome.case.title);
    if let [only] = algorithms.as_slice() {
        let mut xs: Vec<Cell> = Vec::new();
        for cell in outcomes.iter().flat_map(|outcome| &outcome.cells) {
            if !xs.contains(&cell.cell) {
                xs.push(cell.cell);
            }
        }
        let row = |outcome: &CaseOutcome| {
            let at = |cell: &Cell| {
                outcome.cells.iter().find(|own| own.cell == *cell).map_or(Verdict::NotApplicable, CellOutcome::verdict)
            };
            xs.iter().map(|cell| (mark(at(cell)), format!("{cell}: {}", at(cell).name()))).collect()
        };
        return Grid {
            title: format!("{only}: every case in every cell of rate and RTT"),
            how_to_read,
            ys: outcomes.iter().map(|outcome| (label(outcome), id(outcome))).collect(),
            cells: outcomes.iter().map(row).collect(),
            xs: xs.iter().map(|cell| format!("{}/{}", cell.rate_text(), cell.rtt_text())).collect(),
        };
    }
    let first: Vec<&CaseOutcome> = outcomes.iter().filter(|outcome| outcome.algorithm == algorithms[0]).collect();
    let row = |case: &&CaseOutcome| {
        let of = |algorithm: &&str| {
            outcomes.iter().find(|other| other.algorithm == **algorithm && other.case.id() == case.case.id())
        };
        let cell = |outcome: &CaseOutcome| {
            let (holds, fails, not) = outcome.counts();
            (
                mark(outcome.verdict()),
                format!("{}: {holds} cells hold, {fails} fail, {not} not applicable", outcome.algorithm),
            )
        };
        algorithms.iter().map(|algorithm| of(algorithm).map_or((None, String::new()), cell)).collect()
    };
    Grid {
        title: "Every case for every algorithm".to_owned(),
        how_to_read,
        xs: algorithms.iter().map(|&algorithm| algorithm.to_owned()).collect(),
        ys: first.iter().map(|outcome| (label(outcome), id(outcome))).collect(),
        cells: first.iter().map(row).collect(),
    }
}

/// Formats the identifier, as in `bbr3-07`.
fn id(outcome: &CaseOutcome) -> String {
    format!("{}-{}", outcome.algorithm, outcome.case.id())
}

/// Row of the case; `None` if it has no verdict to show.
fn claim(outcome: &CaseOutcome) -> Option<ClaimRow> {
    let (holds, fails, not) = outcome.counts();
    let verdict = match outcome.verdict() {
        Verdict::Holds => Mark::Holds,
        Verdict::Fails => Mark::Fails,
        Verdict::NotApplicable => return None,
    };
    Some(ClaimRow {
        id: id(outcome),
        title: format!("{}: {}", outcome.algorithm, outcome.case.title),
        source: format!("{DRAFT} #{}", outcome.case.anchor),
        claim: outcome.case.demand.trim().to_owned(),
        contradiction: None,
        what: outcome.case.title.clone(),
        expected: "every cell to which it applies holds".to_owned(),
        measured: format!(
            "{holds} of {} cells hold, {}, {not} not applicable",
            outcome.cells.len(),
            verb(fails, "fails", "fail")
        ),
        verdict,
        reason: first_fault(outcome),
    })
}

/// Describes the first requirement that failed.
fn first_fault(outcome: &CaseOutcome) -> Option<String> {
    let (cell, seen) = outcome
        .cells
        .iter()
        .find_map(|cell| Some((cell, cell.seen.iter().find(|seen| seen.verdict == Verdict::Fails)?)))?;
    Some(format!("{}: {}: expected {}, measured {}", cell.cell, seen.what, seen.expected, seen.measured_text()))
}

fn section(outcome: &CaseOutcome, row: Option<usize>) -> Section {
    let failing = outcome.cells.iter().filter(|cell| cell.verdict() == Verdict::Fails).take(DRAWN);
    let mut drawn: Vec<&Figure> = failing.filter_map(|cell| cell.figure.as_ref()).collect();
    if drawn.is_empty() {
        drawn.extend(outcome.cells.iter().find_map(|cell| cell.figure.as_ref()));
    }
    Section {
        id: id(outcome),
        title: format!("{}: {}", outcome.algorithm, outcome.case.title),
        source: format!("{DRAFT} #{}", outcome.case.anchor),
        claim: text(outcome),
        contradiction: None,
        rows: row.into_iter().collect(),
        figures: drawn.into_iter().cloned().collect(),
        runs_table: (!outcome.cells.is_empty()).then(|| table(outcome)),
        ..Section::default()
    }
}

/// Requirement and interpretation, or the reason for not applying.
fn text(outcome: &CaseOutcome) -> String {
    let (demand, reading) = (outcome.case.demand.trim(), outcome.case.reading.trim());
    match &outcome.not {
        Some(reason) => format!("{demand} Not applicable to {}: {reason}.", outcome.algorithm),
        None => format!("{demand} — Our interpretation: {reading}"),
    }
}

/// Table of the grid: one row per cell, one column per requirement.
fn table(outcome: &CaseOutcome) -> Table {
    let demands: Vec<&str> = outcome.cells[0].seen.iter().map(|seen| seen.what.as_str()).collect();
    let mut columns = vec!["rate".to_owned(), "RTT".to_owned(), "verdict".to_owned()];
    columns.extend(demands.iter().map(|what| (*what).to_owned()));
    columns.extend(["packet, B".to_owned(), "simulated, s".to_owned(), "why not".to_owned()]);
    let row = |cell: &CellOutcome| {
        let mut row = vec![cell.cell.rate_text(), cell.cell.rtt_text(), cell.verdict().name().to_owned()];
        row.extend(cell.seen.iter().map(|seen| match seen.verdict {
            Verdict::Fails => format!("{} ✗ ({})", seen.measured_text(), seen.expected),
            _ => seen.measured_text(),
        }));
        let mut reasons: Vec<&str> = cell.seen.iter().filter_map(|seen| seen.reason.as_deref()).collect();
        reasons.dedup();
        row.extend([cell.mss.to_string(), significant(cell.simulated_s, 4), reasons.join("; ")]);
        row
    };
    Table { columns, rows: outcome.cells.iter().map(row).collect() }
}

/// Trace of the flow in one cell: window, estimate, and the ribbon of its states.
pub(super) fn trace_figure(case: &super::Case, algorithm: &str, cell: &Cell, run: &RunView) -> Figure {
    let line = |name: &str, column: &str, style| {
        let y = run.flow_column(0, column).unwrap_or_default();
        let (x, y) = thinned(&run.t_s, &y);
        Series { name: name.to_owned(), style, x, y, color_key: Some(name.to_owned()), ..Series::default() }
    };
    let keep = |lines: Vec<Series>| lines.into_iter().filter(|l| l.y.iter().any(|y| y.is_finite())).collect();
    let panel = |label: &str, unit: &str, lines: Vec<Series>| Panel {
        y: Axis { label: label.into(), unit: unit.into(), min: Some(0.0), ..Axis::default() },
        series: keep(lines),
    };
    let panels = vec![
        panel(
            "In flight",
            "packets",
            vec![
                line("in flight", "ack_inflight", Style::Line),
                line("window", "cwnd", Style::Dashed),
                line("BDP", "bdp", Style::Line),
                line("long-term bound", "inflight_longterm", Style::Step),
                line("short-term bound", "inflight_shortterm", Style::Step),
            ],
        ),
        panel(
            "Rate",
            "Mbit/s",
            vec![
                line("pacing", "pacing_mbps", Style::Dashed),
                line("maximum", "max_bw_mbps", Style::Line),
                line("short-term bound on rate", "bw_shortterm_mbps", Style::Step),
            ],
        ),
        panel("RTT", "ms", vec![line("RTT", "rtt_ms", Style::Line)]),
    ];
    Figure {
        id: format!("{algorithm}-{}-{}-{}", case.id(), cell.rate_text(), cell.rtt_text()),
        title: format!("{algorithm}, {} and {}", cell.rate_text(), cell.rtt_text()),
        how_to_read:
            "What was in flight against the bounds on it, and the rates, as the flow estimated them at each ACK; \
                      its states are below."
                .to_owned(),
        source: String::new(),
        x: Axis { label: "Time".into(), unit: "s".into(), min: Some(0.0), ..Axis::default() },
        panels: panels.into_iter().filter(|panel: &Panel| !panel.series.is_empty()).collect(),
        ribbons: vec![ribbon(algorithm, run)],
        ..Figure::default()
    }
}

fn ribbon(algorithm: &str, run: &RunView) -> Ribbon {
    let seconds = |ns: u64| ns as f64 / NANOS_PER_SEC as f64;
    let states = run.output.trace.flows.first().map_or(&[][..], |flow| &flow.states);
    let ends = states.iter().skip(1).map(|(at, _)| seconds(at.as_nanos())).chain([run.duration_s()]);
    let spans =
        states.iter().zip(ends).map(|((from, state), to)| (seconds(from.as_nanos()), to, state.name().to_owned()));
    Ribbon { name: algorithm.to_owned(), spans: spans.collect() }
}

/// Downsamples a line to the minimum and maximum of each piece; a bound that is not set leaves a gap.
fn thinned(x: &[f64], y: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let known = |value: f64| if value.is_finite() { value } else { f64::NAN };
    let piece = x.len().div_ceil(POINTS / 2).max(1);
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (x, y) in x.chunks(piece).zip(y.chunks(piece)) {
        let by = |a: &usize, b: &usize| y[*a].total_cmp(&y[*b]);
        let ends = [(0..y.len()).min_by(by), (0..y.len()).max_by(by)];
        let mut ends: Vec<usize> = ends.into_iter().flatten().collect();
        ends.sort_unstable();
        ends.dedup();
        points.extend(ends.into_iter().map(|i| (x[i], known(y[i]))));
    }
    points.into_iter().unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_line_keeps_its_extremes_and_its_gaps() {
        let x: Vec<f64> = (0..100_000).map(f64::from).collect();
        let mut y = vec![1.0; 100_000];
        (y[777], y[50_000], y[0]) = (-5.0, 9.0, f64::INFINITY);
        let (x, y) = thinned(&x, &y);
        assert!(x.len() <= POINTS + 2 && x.is_sorted());
        assert!(y.contains(&-5.0) && y.contains(&9.0) && y.iter().any(|y| y.is_nan()));
    }
}
