//! Machine-readable outcomes: JSON, and JUnit XML for CI systems.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write;

use serde_json::{Value, json};

use super::{CaseOutcome, CellOutcome, CheckResult, DRAFT, Verdict};
use bbrlab_report::escape;

/// Schema version of the JSON.
const SCHEMA: u32 = 1;

/// Spelling of a verdict in the JSON.
pub(super) fn word(verdict: Verdict) -> String {
    verdict.name().replace(' ', "_")
}

/// All outcomes as one document.
pub fn json(outcomes: &[CaseOutcome]) -> Value {
    let cases: Vec<Value> = outcomes.iter().map(case).collect();
    json!({ "schema": SCHEMA, "version": env!("CARGO_PKG_VERSION"), "draft": DRAFT, "cases": cases })
}

fn case(outcome: &CaseOutcome) -> Value {
    let (holds, fails, not) = outcome.counts();
    json!({
        "algorithm": outcome.algorithm,
        "case": outcome.case.id(),
        "title": outcome.case.title,
        "anchor": outcome.case.anchor,
        "demand": outcome.case.demand.trim(),
        "reading": outcome.case.reading.trim(),
        "verdict": word(outcome.verdict()),
        "reason": outcome.not,
        "holds": holds,
        "fails": fails,
        "not_applicable": not,
        "cells": outcome.cells.iter().map(cell).collect::<Vec<Value>>(),
    })
}

fn cell(outcome: &CellOutcome) -> Value {
    json!({
        "rate_bps": outcome.cell.rate,
        "rtt_s": outcome.cell.rtt_ns as f64 * 1e-9,
        "mss": outcome.mss,
        "simulated_s": outcome.simulated_s,
        "verdict": word(outcome.verdict()),
        "checks": outcome.seen.iter().map(seen).collect::<Vec<Value>>(),
    })
}

pub(super) fn seen(seen: &CheckResult) -> Value {
    // JSON has no NaN.
    let measured = seen.measured.is_finite().then_some(seen.measured);
    json!({ "what": seen.what, "expected": seen.expected, "measured": measured, "unit": seen.unit,
            "verdict": word(seen.verdict), "reason": seen.reason })
}

/// All outcomes as JUnit XML: a suite for each algorithm and case, a test for each cell.
pub fn junit(outcomes: &[CaseOutcome]) -> String {
    let total: usize = outcomes.iter().map(|outcome| outcome.cells.len().max(1)).sum();
    let failures: usize = outcomes.iter().map(|outcome| outcome.counts().1).sum();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{DRAFT}\" tests=\"{total}\" failures=\"{failures}\">\n"
    );
    for outcome in outcomes {
        suite(&mut out, outcome);
    }
    out.push_str("</testsuites>\n");
    out
}

fn suite(out: &mut String, outcome: &CaseOutcome) {
    let (_, fails, not) = outcome.counts();
    let name = format!("{} {} {}", outcome.algorithm, outcome.case.id(), outcome.case.title);
    let (tests, skipped) = if outcome.not.is_some() { (1, 1) } else { (outcome.cells.len(), not) };
    let _ = writeln!(
        out,
        "  <testsuite name=\"{}\" tests=\"{tests}\" failures=\"{fails}\" errors=\"0\" skipped=\"{skipped}\">",
        escape(&name)
    );
    let class = format!("{}.{}", outcome.algorithm, outcome.case.id());
    if let Some(reason) = &outcome.not {
        let _ = writeln!(
            out,
            "    <testcase classname=\"{}\" name=\"all cells\"><skipped message=\"{}\"/></testcase>",
            escape(&class),
            escape(reason)
        );
    }
    for cell in &outcome.cells {
        let _ = write!(
            out,
            "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\">",
            escape(&class),
            escape(&cell.cell.to_string()),
            cell.simulated_s
        );
        result(out, cell);
        out.push_str("</testcase>\n");
    }
    out.push_str("  </testsuite>\n");
}

fn result(out: &mut String, cell: &CellOutcome) {
    let lines = |wanted: Verdict| {
        let of = cell.seen.iter().filter(|seen| seen.verdict == wanted);
        of.map(|seen| match &seen.reason {
            Some(reason) => format!("{}: {reason}", seen.what),
            None => format!("{}: expected {}, measured {}", seen.what, seen.expected, seen.measured_text()),
        })
        .collect::<Vec<String>>()
        .join("\n")
    };
    match cell.verdict() {
        Verdict::Holds => {}
        Verdict::NotApplicable => {
            let _ = write!(out, "<skipped message=\"{}\"/>", escape(&lines(Verdict::NotApplicable)));
        }
        Verdict::Fails => {
            let text = escape(&lines(Verdict::Fails));
            let _ = write!(out, "<failure message=\"the case does not hold\">{text}</failure>");
        }
    }
}
