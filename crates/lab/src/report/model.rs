//! What a report holds: claims with verdicts, sections, figures, as plain values.
//! All text here is plain; the writer escapes it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::{Deserialize, Serialize};

/// A whole page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The page's heading.
    pub title: String,
    /// Under the heading: the answer in a sentence.
    pub subtitle: String,
    /// What was asked.
    #[serde(default)]
    pub asked: Asked,
    /// The answer in numbers.
    #[serde(default)]
    pub numbers: Vec<Number>,
    /// The answer as a picture: figures that open the page.
    #[serde(default)]
    pub lead: Vec<Figure>,
    /// Figures of the sections that are shown small on the first screen, by their ids; those that do not exist are
    /// passed over.
    #[serde(default)]
    pub thumbnails: Vec<Thumbnail>,
    /// A table of verdicts on the first screen.
    #[serde(default)]
    pub grid: Option<Grid>,
    /// One entry a measured value, those of one claim together.
    #[serde(default)]
    pub claims: Vec<ClaimRow>,
    /// Kind of thing that those rows belong to.
    #[serde(default)]
    pub rows_of: RowsOf,
    #[serde(default)]
    pub sections: Vec<Section>,
}

/// Kind of thing that rows with verdicts belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowsOf {
    /// Published claims.
    #[default]
    Claims,
    /// Test cases of a specification.
    TestCases,
    /// Flows of a log.
    Flows,
}

impl RowsOf {
    /// One of them, as a noun.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Claims => "claim",
            Self::TestCases => "test case",
            Self::Flows => "flow",
        }
    }
}

/// What the page answers: the command that repeats it, and what a reader must know of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// The command line, without the names of the files that it writes; may be empty.
    pub command: String,
    /// `("seed", "1")`.
    pub facts: Vec<(String, String)>,
}

/// One number of the answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// What it is: `goodput of bbr1`.
    pub label: String,
    /// The number with its unit.
    pub value: String,
    /// What to hold it against; may be empty.
    #[serde(default)]
    pub note: String,
    /// Whose number it is, as [`Series::color_key`]; `None` has no colour.
    #[serde(default)]
    pub color_key: Option<String>,
}

/// A figure shown small.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thumbnail {
    /// The figure's id.
    pub figure: String,
    /// What stands under it.
    pub caption: String,
    /// Which of its panels.
    #[serde(default)]
    pub panel: usize,
}

/// Verdicts over two axes: one symbol a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    pub title: String,
    /// What it shows and how to read it.
    pub how_to_read: String,
    /// Labels of the columns.
    pub xs: Vec<String>,
    /// Labels of the rows, each with the id of the section that it leads to.
    pub ys: Vec<(String, String)>,
    /// Rows of cells: a verdict, or `None` where the question does not apply, and what a reader who points at it learns.
    pub cells: Vec<Vec<(Option<Verdict>, String)>>,
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
    pub verdict: Verdict,
    /// Why it misses or fails, if that is known.
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

    /// The verdict as readers see it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::FallsShort => "misses (explained)",
            Self::Fails => "fails",
        }
    }
}

/// One claim's (or one run's) part of the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Unique in the page; a claim's section has the claim's id.
    pub id: String,
    pub title: String,
    /// Where the claim was published; may be empty.
    #[serde(default)]
    pub source: String,
    /// What the source claims, an empty line between paragraphs; may be empty.
    #[serde(default)]
    pub claim: String,
    /// Command lines that follow from it, as a reader copies them.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Where the source contradicts itself or another, if it does.
    #[serde(default)]
    pub contradiction: Option<String>,
    /// This section's rows, as indices into [`Report::claims`]; indices beyond its end are passed over.
    #[serde(default)]
    pub rows: Vec<usize>,
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
    /// Named stretches of x, behind the data of all panels.
    #[serde(default)]
    pub regions: Vec<Region>,
    /// The command that makes it; empty takes the page's.
    #[serde(default)]
    pub command: String,
}

/// A named stretch of x.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// Its name: `buffer-limited`.
    pub label: String,
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
}

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
    /// For a y axis of names: what stands at 0, 1, 2 …, from top to bottom.
    #[serde(default)]
    pub names: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// Its y axis.
    pub y: Axis,
    /// What is drawn, the first one lowest.
    pub series: Vec<Series>,
}

/// One line, or one set of points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Where each value's interval begins, as long as `y` or empty: along x where y is an axis of names, else along y.
    #[serde(default)]
    pub low: Vec<f64>,
    /// Where each value's interval ends; as long as `low`.
    #[serde(default)]
    pub high: Vec<f64>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// A line; short ones with a dot at each value.
    #[default]
    Line,
    /// A staircase: each value holds until the next.
    Step,
    /// Open markers without a line, for digitised and published values.
    Points,
    /// A dashed line, for what belongs to a line beside it.
    Dashed,
    /// A neutral staircase, filled down to zero: what a link could have carried.
    Area,
    /// A thin neutral line with its name on it, for limits and closed forms. One value alone spans the whole x axis.
    Reference,
}

/// States over x.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ribbon {
    pub name: String,
    /// From x, to x, the state's name (`probe_bw_up`); sorted, without overlap.
    pub spans: Vec<(f64, f64, String)>,
}
