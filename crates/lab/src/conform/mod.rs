//! Conformance: the example test cases of draft-ietf-ccwg-bbr's appendix, each as a file, over a grid of rates and RTTs.
//! Every bound comes from the case's file.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod catalogue;
mod cell;
mod file;
mod judge;
pub mod log;
mod page;
mod run;
mod subject;
mod write;

use std::fmt;

pub use catalogue::{CASES, DRAFT, cases, load_dir};
pub use cell::{Cell, grid};
pub use file::{Case, parse};
pub use page::page;
pub use run::{run_all, run_cell, run_view};
pub use subject::{Play, Subject};
pub use write::{json, junit};

use crate::report::Figure;
use crate::report::short;

/// Why a case could not be read or run: where, what it held, what would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConformError(pub String);

impl fmt::Display for ConformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConformError {}

/// What a check, a cell or a case came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It asks for nothing here; the reason stands beside it.
    NotApplicable,
    /// What was seen is what is demanded.
    Holds,
    /// It is not.
    Fails,
}

impl Verdict {
    /// In words, as in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotApplicable => "not applicable",
            Self::Holds => "holds",
            Self::Fails => "fails",
        }
    }

    /// What several come to together: a failure counts most, and what does not apply least.
    pub fn of(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().max().unwrap_or(Self::NotApplicable)
    }
}

/// One demand as it was met.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// What is demanded, in words.
    pub what: String,
    /// Within which bounds.
    pub expected: String,
    /// What was seen; NaN where there was nothing to see.
    pub measured: f64,
    /// Its unit; may be empty.
    pub unit: String,
    pub verdict: Verdict,
    /// Why it does not apply.
    pub reason: Option<String>,
}

impl Seen {
    /// What was seen, in words; `-` where nothing was asked.
    pub fn measured_text(&self) -> String {
        match (self.verdict, self.expected.as_str()) {
            (Verdict::NotApplicable, _) => "-".to_owned(),
            (_, judge::YES) if self.measured == 1.0 => judge::YES.to_owned(),
            (_, judge::YES) if self.measured == 0.0 => "no".to_owned(),
            _ if self.measured.is_nan() => "nothing".to_owned(),
            _ => format!("{} {}", short(self.measured), self.unit).trim_end().to_owned(),
        }
    }
}

/// One cell of the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct CellOutcome {
    /// Its rate and RTT.
    pub cell: Cell,
    /// Payload bytes of a packet there.
    pub mss: u32,
    /// How long the run was, in simulated seconds.
    pub simulated_s: f64,
    pub seen: Vec<Seen>,
    /// What was recorded, for a page.
    pub figure: Option<Figure>,
}

impl CellOutcome {
    /// The cell's verdict.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.seen.iter().map(|seen| seen.verdict))
    }
}

/// One case with one algorithm.
#[derive(Clone, Debug)]
pub struct CaseOutcome {
    pub case: Case,
    /// Whose it is, as it is shown.
    pub algorithm: String,
    /// Why the case says nothing of this algorithm, where it does not.
    pub not: Option<String>,
    pub cells: Vec<CellOutcome>,
}

impl CaseOutcome {
    /// The case's verdict over the grid.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.cells.iter().map(CellOutcome::verdict))
    }

    /// How many cells hold, fail, and do not apply.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |verdict| self.cells.iter().filter(|cell| cell.verdict() == verdict).count();
        (count(Verdict::Holds), count(Verdict::Fails), count(Verdict::NotApplicable))
    }
}
