//! What a report holds: claims with verdicts, sections, figures, as plain values.
//! All text here is plain; the writer escapes it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::{Deserialize, Serialize};

/// A whole page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The page's heading.
    pub title: String,
    /// Under the heading: version, seed, command.
    pub subtitle: String,
    /// The table that opens the page, one entry a row, rows of one claim together.
    #[serde(default)]
    pub claims: Vec<ClaimRow>,
    /// What follows the table.
    #[serde(default)]
    pub sections: Vec<Section>,
}

/// One measured figure of one claim. Several rows with the same `id` are one claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimRow {
    /// The claim: `F8`. The table links it to the section of the same id.
    pub id: String,
    /// The claim's title: `Loss sweep`.
    pub title: String,
    /// Where the claim was published.
    pub source: String,
    /// What the source claims, in one sentence.
    pub claim: String,
    /// Where the source contradicts itself or another, if it does.
    #[serde(default)]
    pub contradiction: Option<String>,
    /// What is measured.
    pub what: String,
    /// What is expected, with its unit.
    pub expected: String,
    /// What was measured, with its unit.
    pub measured: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it falls short or fails, if that is known.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Whether a claim was reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// The measured value lies in the expected range.
    #[serde(rename = "holds")]
    Holds,
    /// It does not, and the reason is known and stated.
    #[serde(rename = "falls short")]
    FallsShort,
    /// It does not.
    #[serde(rename = "fails")]
    Fails,
}

impl Verdict {
    /// All verdicts, best first.
    pub const ALL: [Self; 3] = [Self::Holds, Self::FallsShort, Self::Fails];

    /// The verdict in words, as in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::FallsShort => "falls short",
            Self::Fails => "fails",
        }
    }
}

/// One claim's (or one run's) part of the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Unique in the page; a claim's section has the claim's id.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// Where the claim was published; may be empty.
    #[serde(default)]
    pub source: String,
    /// What the source claims; may be empty.
    #[serde(default)]
    pub claim: String,
    /// Where the source contradicts itself or another, if it does.
    #[serde(default)]
    pub contradiction: Option<String>,
    /// This section's rows, as indices into [`Report::claims`]; indices beyond its end are passed over.
    #[serde(default)]
    pub rows: Vec<usize>,
    /// Its figures.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Its heat maps.
    #[serde(default)]
    pub heats: Vec<Heat>,
    /// Its decision tree.
    #[serde(default)]
    pub tree: Option<Tree>,
    /// The runs behind it, one a row.
    #[serde(default)]
    pub runs_table: Option<Table>,
}

/// Numbers over two axes as coloured cells, each with its number in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heat {
    /// Its heading.
    pub title: String,
    /// What runs from left to right.
    pub x: String,
    /// What runs from top to bottom.
    pub y: String,
    /// Labels of the columns.
    pub xs: Vec<String>,
    /// Labels of the rows.
    pub ys: Vec<String>,
    /// Of the cells; may be empty.
    pub unit: String,
    /// What the colours mean.
    pub scale: Scale,
    /// Rows of cells; a NaN is empty.
    pub cells: Vec<Vec<f64>>,
}

/// What the colours of a heat map mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Darker is more, from zero to the largest value of the map.
    FromZero,
    /// A ratio: one colour above 1, another below, full at 2 and at 1/2.
    AroundOne,
    /// A difference: one colour above 0, another below, full at the largest distance.
    AroundZero,
}

/// A decision tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Tree {
    /// A question with the answer for both sides.
    Ask {
        /// What is asked, as in `loss < 2 %`.
        question: String,
        /// Where it is so.
        yes: Box<Tree>,
        /// Where it is not.
        no: Box<Tree>,
    },
    /// An answer.
    Answer {
        /// What it says.
        text: String,
        /// What it rests on.
        detail: String,
    },
}

/// A table of texts. A column whose cells all begin like a number is set flush right.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Column headings, with units.
    pub columns: Vec<String>,
    /// Rows; a short row is filled up with empty cells.
    pub rows: Vec<Vec<String>>,
}

/// One figure: panels over one common x axis, ribbons under them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Unique in the page.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// One plain sentence: what to look at and what it means.
    #[serde(default)]
    pub how_to_read: String,
    /// What it redraws, and where the points beside our lines come from.
    #[serde(default)]
    pub source: String,
    /// The common x axis.
    pub x: Axis,
    /// From top to bottom.
    pub panels: Vec<Panel>,
    /// States over x, one band each, under the panels.
    #[serde(default)]
    pub ribbons: Vec<Ribbon>,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it shows: `RTT`.
    pub label: String,
    /// In which unit: `ms`; empty for a plain number.
    #[serde(default)]
    pub unit: String,
    /// Logarithmic. Values at or below zero are then not drawn, and the page says how many.
    #[serde(default)]
    pub log: bool,
    /// Where it begins; `None` fits the data.
    #[serde(default)]
    pub min: Option<f64>,
    /// Where it ends; `None` fits the data.
    #[serde(default)]
    pub max: Option<f64>,
}

/// One plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// Its y axis.
    pub y: Axis,
    /// What is drawn, the first one lowest.
    pub series: Vec<Series>,
}

/// One line, or one set of points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub style: Style,
    /// Where; as long as `y`. Unsorted values are sorted by the writer.
    pub x: Vec<f64>,
    /// What; a NaN is a gap.
    pub y: Vec<f64>,
    /// Series with one key have one colour in every figure: an algorithm (`bbr1`) or one of its flows (`bbr1#2`).
    /// `None` takes the series' name.
    #[serde(default)]
    pub color_key: Option<String>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// A line; short ones with a dot at each value.
    Line,
    /// A staircase: each value holds until the next.
    Step,
    /// Open markers without a line, for digitised and published values.
    Points,
    /// A dashed line, for what belongs to a line beside it.
    Dashed,
    /// A thin neutral line with its name on it, for limits and closed forms. One value alone spans the whole x axis.
    Reference,
}

/// States over x.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ribbon {
    /// Whose states.
    pub name: String,
    /// From x, to x, the state's name (`probe_bw_up`); sorted, without overlap.
    pub spans: Vec<(f64, f64, String)>,
}
