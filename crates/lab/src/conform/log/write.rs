//! Results of a log as JSON, JUnit XML, and a page.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::State;
use serde_json::{Value, json};

use super::{FlowLog, Log, Phase, Sample};
use crate::conform::write::{self, word};
use crate::conform::{CheckResult, DRAFT, Verdict};
use bbrlab_report::escape;
use bbrlab_report::model::{
    Axis, ClaimRow, Figure, Number, Panel, Report, Ribbon, RowKind, Section, Series, Style, Table, Verdict as Mark,
};

/// Flows of a log, each with its results.
pub type JudgedFlows<'a> = Vec<(&'a FlowLog, Vec<CheckResult>)>;

/// All flows as one document.
pub fn json(log: &Log, judged: &JudgedFlows<'_>) -> Value {
    let flow = |(flow, seen): &(&FlowLog, Vec<CheckResult>)| {
        json!({
            "name": flow.name,
            "cc": flow.cc,
            "judged": !seen.is_empty(),
            "samples": flow.samples.len(),
            "losses": flow.losses.len(),
            "verdict": word(Verdict::of(seen.iter().map(|seen| seen.verdict))),
            "checks": seen.iter().map(write::seen).collect::<Vec<Value>>(),
        })
    };
    json!({ "schema": 1, "version": env!("CARGO_PKG_VERSION"), "draft": DRAFT, "form": log.form,
            "flows": judged.iter().map(flow).collect::<Vec<Value>>() })
}

/// All flows as JUnit XML: a suite for each flow, a test for each requirement.
pub fn junit(judged: &JudgedFlows<'_>) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let count = |verdict| judged.iter().flat_map(|(_, seen)| seen).filter(|seen| seen.verdict == verdict).count();
    let tests: usize = judged.iter().map(|(_, seen)| seen.len()).sum();
    out += &format!("<testsuites name=\"{DRAFT}\" tests=\"{tests}\" failures=\"{}\">\n", count(Verdict::Fails));
    for (flow, seen) in judged {
        let of = |verdict| seen.iter().filter(|seen| seen.verdict == verdict).count();
        let (name, fails, not) = (escape(&plain(&flow.name)), of(Verdict::Fails), of(Verdict::NotApplicable));
        out += &format!(
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{fails}\" errors=\"0\" skipped=\"{not}\">\n",
            seen.len()
        );
        for seen in seen {
            let what = escape(&seen.what);
            let result = match seen.verdict {
                Verdict::Holds => String::new(),
                Verdict::NotApplicable => {
                    format!("<skipped message=\"{}\"/>", escape(seen.reason.as_deref().unwrap_or("")))
                }
                Verdict::Fails => {
                    let text = format!("expected {}, measured {}", seen.expected, seen.measured_text());
                    format!("<failure message=\"{}\"/>", escape(&text))
                }
            };
            out += &format!("    <testcase classname=\"{name}\" name=\"{what}\">{result}</testcase>\n");
        }
        out += "  </testsuite>\n";
    }
    out + "</testsuites>\n"
}

/// Removes control characters, which XML does not allow.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

pub fn page(log: &Log, judged: &JudgedFlows<'_>) -> Report {
    let mut report = Report {
        title: format!("What a log shows of {DRAFT}"),
        subtitle: format!("Read as {}, and compared with the requirements that such a log can show.", log.form),
        numbers: numbers(judged),
        rows_of: RowKind::Flows,
        ..Report::default()
    };
    for (place, (flow, seen)) in judged.iter().enumerate() {
        let id = format!("flow-{}", place + 1);
        let first = report.claims.len();
        report.claims.extend(seen.iter().filter_map(|seen| row(&id, flow, seen)));
        report.sections.push(Section {
            id: id.clone(),
            title: flow.name.clone(),
            claim: "What the log shows of this flow, compared with the draft.".to_owned(),
            rows: (first..report.claims.len()).collect(),
            figures: vec![figure(&id, flow)],
            runs_table: Some(hidden(seen)),
            ..Section::default()
        });
    }
    // The figure of a single flow opens the page; those of several stay with their verdicts.
    if let [only] = report.sections.as_mut_slice() {
        report.lead.append(&mut only.figures);
    }
    report
}

/// Counts of the requirements that hold, fail, and are not shown.
fn numbers(judged: &JudgedFlows<'_>) -> Vec<Number> {
    let count = |verdict| judged.iter().flat_map(|(_, seen)| seen).filter(|seen| seen.verdict == verdict).count();
    let one = |label: &str, n: usize| Number { label: label.to_owned(), value: n.to_string(), ..Number::default() };
    vec![
        one("Flows", judged.len()),
        one("Requirements that hold", count(Verdict::Holds)),
        one("Requirements that fail", count(Verdict::Fails)),
        one("Not shown by this log", count(Verdict::NotApplicable)),
    ]
}

/// Table of the requirements that the log does not show, with the reason.
fn hidden(seen: &[CheckResult]) -> Table {
    let not = seen.iter().filter(|seen| seen.verdict == Verdict::NotApplicable);
    let rows = not.map(|seen| vec![seen.what.clone(), seen.reason.clone().unwrap_or_default()]).collect();
    Table { columns: vec!["not shown by this log".to_owned(), "why".to_owned()], rows }
}

/// Row of a requirement; `None` if the log does not show it.
fn row(id: &str, flow: &FlowLog, seen: &CheckResult) -> Option<ClaimRow> {
    let verdict = match seen.verdict {
        Verdict::Holds => Mark::Holds,
        Verdict::Fails => Mark::Fails,
        Verdict::NotApplicable => return None,
    };
    Some(ClaimRow {
        id: id.to_owned(),
        title: flow.name.clone(),
        source: DRAFT.to_owned(),
        claim: String::new(),
        contradiction: None,
        what: seen.what.clone(),
        expected: seen.expected.clone(),
        measured: seen.measured_text(),
        verdict,
        reason: seen.reason.clone(),
    })
}

fn figure(id: &str, flow: &FlowLog) -> Figure {
    let x: Vec<f64> = flow.samples.iter().map(|sample| sample.t_s).collect();
    let line = |name: &str, style, column: fn(&Sample) -> f64| Series {
        name: name.to_owned(),
        style,
        x: x.clone(),
        y: flow.samples.iter().map(column).collect(),
        color_key: Some(name.to_owned()),
        ..Series::default()
    };
    let panel = |label: &str, unit: &str, lines: Vec<Series>| Panel {
        y: Axis { label: label.into(), unit: unit.into(), min: Some(0.0), ..Axis::default() },
        series: lines.into_iter().filter(|line| line.y.iter().any(|y| y.is_finite())).collect(),
    };
    let panels = vec![
        panel(
            "Window",
            "kB",
            vec![
                line("in flight", Style::Line, |s| s.inflight * 1e-3),
                line("window", Style::Dashed, |s| s.cwnd * 1e-3),
            ],
        ),
        panel(
            "Rate",
            "Mbit/s",
            vec![
                line("pacing", Style::Dashed, |s| s.pacing_bps * 1e-6),
                line("estimate", Style::Line, |s| s.bw_bps * 1e-6),
            ],
        ),
        panel(
            "RTT",
            "ms",
            vec![line("newest", Style::Line, |s| s.rtt_s * 1e3), line("minimum", Style::Step, |s| s.min_rtt_s * 1e3)],
        ),
    ];
    Figure {
        id: format!("{id}-trace"),
        title: "The flow in the log".to_owned(),
        how_to_read:
            "The window against what was in flight, the rates, and the RTT; the phases that the log names are below."
                .to_owned(),
        x: Axis { label: "Time".into(), unit: "s".into(), ..Axis::default() },
        panels: panels.into_iter().filter(|panel| !panel.series.is_empty()).collect(),
        ribbons: vec![ribbon(flow)],
        ..Figure::default()
    }
}

fn ribbon(flow: &FlowLog) -> Ribbon {
    let name = |phase: &Phase| phase.state().map_or("probe_bw", State::name).to_owned();
    let last = flow.samples.last().map_or(0.0, |sample| sample.t_s);
    let ends = flow.phases.iter().skip(1).map(|(t_s, _)| *t_s).chain([last]);
    let spans = flow.phases.iter().zip(ends).filter(|((begin, _), end)| begin <= end);
    Ribbon { name: flow.name.clone(), spans: spans.map(|((begin, phase), end)| (*begin, end, name(phase))).collect() }
}
