//! Machine-readable verdicts on claims.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;

use serde_json::{Value, json};

use super::{ExperimentOutcome, Row, Verdict};

/// Schema version of the JSON.
const SCHEMA: u32 = 1;

/// Number of expectations that hold, by the source of their bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldCounts {
    /// Bounds published by the source.
    pub published: usize,
    /// Bounds chosen by the author of the file.
    pub ours: usize,
}

impl HeldCounts {
    pub fn of(outcomes: &[ExperimentOutcome]) -> Self {
        let rows = || outcomes.iter().flat_map(|outcome| &outcome.rows).filter(|row| row.verdict == Verdict::Holds);
        Self { published: rows().filter(|row| !row.is_ours).count(), ours: rows().filter(|row| row.is_ours).count() }
    }

    pub const fn total(self) -> usize {
        self.published + self.ours
    }
}

impl fmt::Display for HeldCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} within published bounds, {} within bounds of ours", self.published, self.ours)
    }
}

/// All outcomes as one document.
pub fn json(outcomes: &[ExperimentOutcome], seed: u64) -> Value {
    let experiments: Vec<Value> = outcomes
        .iter()
        .map(|outcome| {
            json!({ "id": outcome.id, "title": outcome.title, "source": outcome.source, "claim": outcome.claim,
                    "holds": outcome.passes(), "expect": outcome.rows.iter().map(row).collect::<Vec<Value>>() })
        })
        .collect();
    let held = HeldCounts::of(outcomes);
    json!({ "schema": SCHEMA, "version": env!("CARGO_PKG_VERSION"), "seed": seed,
            "holds": { "published": held.published, "ours": held.ours }, "experiments": experiments })
}

fn row(row: &Row) -> Value {
    let word = match &row.verdict {
        Verdict::Holds => "holds",
        Verdict::FallsShort { .. } => "falls_short",
        Verdict::Fails => "fails",
        Verdict::NotHere => "not_here",
    };
    let bounds = if row.is_ours { "ours" } else { "published" };
    json!({ "what": row.what, "expected": row.expected, "bounds": bounds, "measured": row.measured, "unit": row.unit,
            "verdict": word, "reason": row.verdict.reason(), "note": row.note })
}
