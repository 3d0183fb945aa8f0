//! Contents of a report as plain values: claims with verdicts, sections, figures. All text here is unescaped; the
//! writer escapes it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::{Deserialize, Serialize};

/// A whole page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The page's heading.
    pub title: String,
    /// Answer in one sentence, shown below the heading.
    pub subtitle: String,
    /// Question answered by the page.
    #[serde(default)]
    pub provenance: Provenance,
    /// Answer in numbers.
    #[serde(default)]
    pub numbers: Vec<Number>,
    /// Answer as figures that open the page.
    #[serde(default)]
    pub lead: Vec<Figure>,
    /// Figures of the sections that are shown as thumbnails on the first screen, by their ids; unknown ids are ignored.
    #[serde(default)]
    pub thumbnails: Vec<Thumbnail>,
    /// Table of verdicts on the first screen.
    #[serde(default)]
    pub grid: Option<Grid>,
    /// One entry per measured value, grouped by claim.
    #[serde(default)]
    pub claims: Vec<ClaimRow>,
    /// Kind of the objects behind those rows.
    #[serde(default)]
    pub rows_of: RowKind,
    #[serde(default)]
    pub sections: Vec<Section>,
}

/// Kind of the objects that the rows with verdicts describe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowKind {
    /// Published claims.
    #[default]
    Claims,
    /// Test cases of a specification.
    TestCases,
    /// Flows of a log.
    Flows,
}

impl RowKind {
    /// Singular noun for the kind.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Claims => "claim",
            Self::TestCases => "test case",
            Self::Flows => "flow",
        }
    }
}

/// Question answered by the page: the command that repeats it, and facts that a reader needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Command line, without the names of output files; may be empty.
    pub command: String,
    /// Facts such as `("seed", "1")`.
    pub facts: Vec<(String, String)>,
}

impl Provenance {
    /// These facts, without a command.
    pub fn of_facts<'a>(facts: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { command: String::new(), facts }
    }
}

/// One number of the answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// Description: `goodput of bbr1`.
    pub label: String,
    /// Number with its unit.
    pub value: String,
    /// Reference for comparison; may be empty.
    #[serde(default)]
    pub note: String,
    /// Colour of the number, as in [`Series::color_key`]; `None` has no colour.
    #[serde(default)]
    pub color_key: Option<String>,
}

/// Thumbnail of a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thumbnail {
    /// Id of the figure.
    pub figure: String,
    /// Caption below the thumbnail.
    pub caption: String,
    /// Index of the panel.
    #[serde(default)]
    pub panel: usize,
}

/// Verdicts over two axes: one symbol per cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    pub title: String,
    /// Description and reading instructions.
    pub how_to_read: String,
    /// Labels of the columns.
    pub xs: Vec<String>,
    /// Labels of the rows, each with the id of the section to which it links.
    pub ys: Vec<(String, String)>,
    /// Rows of cells: a verdict, or `None` if not applicable, and the tooltip.
    pub cells: Vec<Vec<(Option<Verdict>, String)>>,
}

/// One measured value of one claim. Several rows with the same `id` are one claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimRow {
    /// Identifier of the claim: `F8`. The table links it to the section of the same id.
    pub id: String,
    /// Title of the claim: `Loss sweep`.
    pub title: String,
    /// Publication of the claim.
    pub source: String,
    /// Claim of the source, in one sentence.
    pub claim: String,
    /// Contradiction within the source or with another one.
    #[serde(default)]
    pub contradiction: Option<String>,
    /// Name of the measured value.
    pub what: String,
    /// Expected value with its unit.
    pub expected: String,
    /// Measured value with its unit.
    pub measured: String,
    pub verdict: Verdict,
    /// Reason for the miss or failure, if known.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// The measured value lies in the expected range.
    #[serde(rename = "holds")]
    Holds,
    /// The value is outside the range, for a known and stated reason.
    #[serde(rename = "falls short")]
    FallsShort,
    /// The value is outside the range.
    #[serde(rename = "fails")]
    Fails,
}

impl Verdict {
    /// All verdicts, best first.
    pub const ALL: [Self; 3] = [Self::Holds, Self::FallsShort, Self::Fails];

    /// Display name of the verdict.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::FallsShort => "misses (explained)",
            Self::Fails => "fails",
        }
    }
}

/// Section of the page for one claim or one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Unique in the page; a claim's section has the claim's id.
    pub id: String,
    pub title: String,
    /// Publication of the claim; may be empty.
    #[serde(default)]
    pub source: String,
    /// Claim of the source, an empty line between paragraphs; may be empty.
    #[serde(default)]
    pub claim: String,
    /// Recommended command lines, ready to copy.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Contradiction within the source or with another one.
    #[serde(default)]
    pub contradiction: Option<String>,
    /// This section's rows, as indices into [`Report::claims`]; indices beyond its end are ignored.
    #[serde(default)]
    pub rows: Vec<usize>,
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Heat maps.
    #[serde(default)]
    pub heats: Vec<Heat>,
    /// Decision tree.
    #[serde(default)]
    pub tree: Option<Tree>,
    /// Runs behind the section, one per row.
    #[serde(default)]
    pub runs_table: Option<Table>,
}

/// Numbers over two axes as coloured cells, each with its number in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heat {
    pub title: String,
    /// Name of the horizontal axis.
    pub x: String,
    /// Name of the vertical axis.
    pub y: String,
    /// Labels of the columns.
    pub xs: Vec<String>,
    /// Labels of the rows.
    pub ys: Vec<String>,
    /// Unit of the cells; may be empty.
    pub unit: String,
    /// Colour scale.
    pub scale: Scale,
    /// Rows of cells; a NaN is empty.
    pub cells: Vec<Vec<f64>>,
}

/// Colour scale of a heat map.
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
    /// A question with a subtree for each answer.
    Ask {
        /// Text of the question, as in `loss < 2 %`.
        question: String,
        /// Subtree if true.
        yes: Box<Tree>,
        /// Subtree if false.
        no: Box<Tree>,
    },
    Answer {
        /// Answer.
        text: String,
        /// Evidence for the answer.
        detail: String,
    },
}

/// A table of texts. A column whose cells all begin like a number is right-aligned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Column headings, with units.
    pub columns: Vec<String>,
    /// Rows; a short row is padded with empty cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns the table with only the columns at these positions.
    #[must_use]
    pub fn keeping(self, columns: &[usize]) -> Self {
        let keep =
            |cells: Vec<String>| columns.iter().filter_map(|&at| cells.get(at).cloned()).collect::<Vec<String>>();
        Self { columns: keep(self.columns), rows: self.rows.into_iter().map(keep).collect() }
    }
}

/// One figure: panels over one common x axis, with ribbons below them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Unique in the page.
    pub id: String,
    pub title: String,
    /// Interpretation in one plain sentence.
    #[serde(default)]
    pub how_to_read: String,
    /// Original figure, and the source of points not measured by us.
    #[serde(default)]
    pub source: String,
    /// Common x axis.
    pub x: Axis,
    /// Panels from top to bottom.
    pub panels: Vec<Panel>,
    /// States over x, one band each, under the panels.
    #[serde(default)]
    pub ribbons: Vec<Ribbon>,
    /// Named ranges of x, behind the data of all panels.
    #[serde(default)]
    pub regions: Vec<Region>,
    /// Command that produces it; empty uses the page's.
    #[serde(default)]
    pub command: String,
    /// Fragment of the playground's address for the run of a figure of one run, as [`crate::play::fragment`] returns it.
    #[serde(default)]
    pub play: String,
}

/// A named range of x.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// Name: `buffer-limited`.
    pub label: String,
    /// Start.
    pub from: f64,
    /// End.
    pub to: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Quantity: `RTT`.
    pub label: String,
    /// Unit: `ms`; empty for a plain number.
    #[serde(default)]
    pub unit: String,
    /// Logarithmic. Values at or below zero are then not drawn, and the page gives their number.
    #[serde(default)]
    pub log: bool,
    /// Start of the axis; `None` fits the data.
    #[serde(default)]
    pub min: Option<f64>,
    /// End of the axis; `None` fits the data.
    #[serde(default)]
    pub max: Option<f64>,
    /// Names at 0, 1, 2 … of a categorical y axis, from top to bottom.
    #[serde(default)]
    pub names: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// Y axis of the panel.
    pub y: Axis,
    /// Series, the first one lowest.
    pub series: Vec<Series>,
}

/// One line, or one set of points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Drawing style.
    pub style: Style,
    /// X values; as many as in `y`. Unsorted values are sorted by the writer.
    pub x: Vec<f64>,
    /// Y values; a NaN is a gap.
    pub y: Vec<f64>,
    /// Series with the same key have the same colour in every figure: an algorithm (`bbr1`) or one of its flows
    /// (`bbr1#2`). `None` uses the series' name.
    #[serde(default)]
    pub color_key: Option<String>,
    /// Lower ends of the values' intervals, as long as `y` or empty: along x if y is categorical, else along y.
    #[serde(default)]
    pub low: Vec<f64>,
    /// Upper ends of the values' intervals; as long as `low`.
    #[serde(default)]
    pub high: Vec<f64>,
}

/// Drawing style of a series.
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
    /// A dashed line, for a quantity related to an adjacent line.
    Dashed,
    /// A neutral staircase, filled down to zero: a link's capacity.
    Area,
    /// A thin neutral line labelled with its name, for limits and closed forms. One value alone spans the whole x axis.
    Reference,
}

/// States over x.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ribbon {
    pub name: String,
    /// Spans (start, end, state name such as `probe_bw_up`); sorted, without overlap.
    pub spans: Vec<(f64, f64, String)>,
}
