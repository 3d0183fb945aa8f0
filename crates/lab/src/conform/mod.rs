//! Conformance: the example test cases of draft-ietf-ccwg-bbr's appendix, each as a file, over a grid of rates and
//! RTTs. Every bound comes from the case's file.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod catalogue;
mod cell;
mod file;
mod judge;
pub mod log;
mod page;
mod playground;
mod run;
mod subject;
mod write;

pub use catalogue::{CASES, DRAFT, cases, load_dir};
pub use cell::{Cell, grid};
pub use file::{Case, parse};
pub use page::page;
pub use playground::playground;
pub use run::{run_all, run_cell, run_view};
pub use subject::{ScriptRun, Subject};
pub use write::{json, junit};

use bbrlab_report::Figure;
use bbrlab_stats::number::significant;

/// Verdict of a check, a cell or a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing is required here; the reason is given beside it.
    NotApplicable,
    /// The requirement is met.
    Holds,
    /// The requirement is not met.
    Fails,
}

impl Verdict {
    /// Name of the verdict, as in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotApplicable => "not applicable",
            Self::Holds => "holds",
            Self::Fails => "fails",
        }
    }

    /// Combines several verdicts: any failure decides; "not applicable" counts least.
    pub fn of(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().max().unwrap_or(Self::NotApplicable)
    }
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckResult {
    /// Requirement in words.
    pub what: String,
    /// Required bounds.
    pub expected: String,
    /// Measured value; NaN if there was none.
    pub measured: f64,
    /// Unit; may be empty.
    pub unit: String,
    pub verdict: Verdict,
    /// Reason for not being applicable.
    pub reason: Option<String>,
}

impl CheckResult {
    /// Formats the measured value; `-` if nothing was required.
    pub fn measured_text(&self) -> String {
        match (self.verdict, self.expected.as_str()) {
            (Verdict::NotApplicable, _) => "-".to_owned(),
            (_, judge::YES) if self.measured == 1.0 => judge::YES.to_owned(),
            (_, judge::YES) if self.measured == 0.0 => "no".to_owned(),
            _ if self.measured.is_nan() => "nothing".to_owned(),
            _ => format!("{} {}", significant(self.measured, 4), self.unit).trim_end().to_owned(),
        }
    }
}

/// One cell of the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct CellOutcome {
    /// Rate and RTT.
    pub cell: Cell,
    /// Payload bytes of a packet in this cell.
    pub mss: u32,
    /// Length of the run, in simulated seconds.
    pub simulated_s: f64,
    pub seen: Vec<CheckResult>,
    /// Time series of the run, for a page.
    pub figure: Option<Figure>,
}

impl CellOutcome {
    /// Verdict of the cell.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.seen.iter().map(|seen| seen.verdict))
    }
}

/// One case with one algorithm.
#[derive(Clone, Debug)]
pub struct CaseOutcome {
    pub case: Case,
    /// Display name of the subject.
    pub algorithm: String,
    /// Reason why the case does not apply to this algorithm, if it does not.
    pub not: Option<String>,
    pub cells: Vec<CellOutcome>,
}

impl CaseOutcome {
    /// Verdict of the case over the grid.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.cells.iter().map(CellOutcome::verdict))
    }

    /// Counts of the cells that hold, fail, and are not applicable.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |verdict| self.cells.iter().filter(|cell| cell.verdict() == verdict).count();
        (count(Verdict::Holds), count(Verdict::Fails), count(Verdict::NotApplicable))
    }
}
