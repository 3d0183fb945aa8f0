//! Claims as rows of a page, and the words of their verdicts.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_report::model::{ClaimRow, Verdict as ReportVerdict};

use super::{ExperimentOutcome, Row, Verdict as RowVerdict};

/// The word of a verdict, its mark on a page, and the reason of a miss.
pub fn verdict(row: &Row) -> (&'static str, ReportVerdict, Option<String>) {
    match &row.verdict {
        RowVerdict::Holds => ("holds", ReportVerdict::Holds, None),
        RowVerdict::FallsShort { reason } => ("misses (explained)", ReportVerdict::FallsShort, Some(reason.clone())),
        RowVerdict::Fails => ("FAILS", ReportVerdict::Fails, None),
        RowVerdict::NotHere => ("not here", ReportVerdict::FallsShort, row.verdict.reason().map(str::to_owned)),
    }
}

/// The reason of a miss, and other notes on the row.
pub fn notes(row: &Row) -> Option<String> {
    let (_, _, reason) = verdict(row);
    let all: Vec<String> = reason.into_iter().chain(row.note.clone()).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The measured value with its unit.
pub fn measured(row: &Row) -> String {
    if row.measured.is_nan() {
        return "nothing".to_owned();
    }
    let digits = if row.measured.abs() >= 100.0 { 1 } else { 3 };
    format!("{:.digits$} {}", row.measured, row.unit).trim_end().to_owned()
}

/// The rows of a claim for a page.
pub fn claim_rows(outcome: &ExperimentOutcome) -> impl Iterator<Item = ClaimRow> {
    let here = outcome.rows.iter().filter(|row| row.verdict != RowVerdict::NotHere);
    here.map(|row| {
        let (_, verdict, _) = verdict(row);
        ClaimRow {
            id: outcome.id.clone(),
            title: outcome.title.clone(),
            source: outcome.source.clone(),
            claim: outcome.claim.clone(),
            contradiction: outcome.contradiction.clone(),
            what: row.what.clone(),
            expected: row.expected.clone(),
            measured: measured(row),
            verdict,
            reason: notes(row),
        }
    })
}
