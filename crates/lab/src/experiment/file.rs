//! Form of an experiment file.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::Deserialize;

use bbrlab_report::Style;
use bbrlab_study::cdn::Population;
use bbrlab_study::product::Vary;

/// One claim: runs, expectations and figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExperimentFile {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) source: String,
    pub(super) claim: String,
    pub(super) contradiction: Option<String>,
    #[serde(default)]
    pub(super) scenario: toml::Table,
    /// Users, in the format of `bbrlab cdn`; each is run under every algorithm.
    pub(super) population: Option<Population>,
    #[serde(default)]
    pub(super) vary: Vec<Vary>,
    #[serde(default)]
    pub(super) run: Vec<ExplicitRun>,
    #[serde(default)]
    pub(super) skip: Vec<toml::Table>,
    #[serde(default)]
    pub(super) expect: Vec<Expect>,
    #[serde(default)]
    pub(super) figure: Vec<FigureSpec>,
}

/// An additional run outside the product.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplicitRun {
    pub(super) name: String,
    /// Scenario keys that differ from the base.
    #[serde(default)]
    pub(super) set: toml::Table,
}

/// One number, or one per value of the axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Bound {
    One(f64),
    Many(Vec<f64>),
}

impl Bound {
    /// Bound for value number `index`.
    pub(super) fn at(&self, index: usize) -> Option<f64> {
        match self {
            Self::One(bound) => Some(*bound),
            Self::Many(bounds) => bounds.get(index).copied(),
        }
    }

    /// Number of values that it covers; `None` for any number.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::One(_) => None,
            Self::Many(bounds) => Some(bounds.len()),
        }
    }
}

/// One line of the verdict, or one for each value of an axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    pub(super) what: String,
    pub(super) measure: String,
    pub(super) expected: Option<String>,
    #[serde(default)]
    pub(super) unit: String,
    pub(super) min: Option<Bound>,
    pub(super) max: Option<Bound>,
    pub(super) near: Option<Bound>,
    pub(super) within: Option<f64>,
    pub(super) factor: Option<f64>,
    pub(super) grade: Option<Grade>,
    /// Axis with one row for each of its values; `r` is the run there.
    pub(super) each: Option<String>,
    #[serde(rename = "where", default)]
    pub(super) fixed: String,
    /// Restricts the rows to these labels of the axis.
    pub(super) at: Option<Vec<String>>,
    /// Statistic over the runs of an axis that neither `each` nor `where` fixes, such as the seeds.
    #[serde(default)]
    pub(super) free: Middle,
    /// Rows whose bounds the source does not publish.
    #[serde(default)]
    pub(super) ours: Ours,
    pub(super) status: Option<Status>,
    pub(super) reason: Option<String>,
    /// Reason for the miss of a row, by its label on the axis.
    #[serde(default)]
    pub(super) short: std::collections::BTreeMap<String, String>,
    /// Reason for a row's miss with some seeds, by its label on the axis.
    #[serde(default)]
    pub(super) varies: std::collections::BTreeMap<String, String>,
    /// The same for real kernels only: the simulator's row holds.
    #[serde(default)]
    pub(super) kernel_short: std::collections::BTreeMap<String, String>,
}

/// Rows of an expectation whose bounds the author of the file chose: all, none, or those of certain labels.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Ours {
    Every(bool),
    At(Vec<String>),
}

impl Default for Ours {
    fn default() -> Self {
        Self::Every(false)
    }
}

impl Ours {
    /// Returns true for the row of this label.
    pub(super) fn has(&self, label: &str) -> bool {
        match self {
            Self::Every(every) => *every,
            Self::At(labels) => labels.iter().any(|l| l == label),
        }
    }

    /// Labels listed explicitly.
    pub(super) fn labels(&self) -> &[String] {
        match self {
            Self::Every(_) => &[],
            Self::At(labels) => labels,
        }
    }
}

/// Statistic of several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Middle {
    #[default]
    Median,
    /// For a source that publishes means of trials.
    Mean,
}

/// Quality of the source of an expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Grade {
    /// Read off the primary figure or data.
    V,
    /// From notes taken while reading the source.
    T,
    /// From an independent packet simulator.
    S,
    /// From memory.
    R,
}

/// The author's mark on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Status {
    /// The row does not hold, with the reason in `reason`.
    #[serde(rename = "falls short")]
    FallsShort,
    /// The row holds with some seeds and misses with others, with the reason in `reason`.
    #[serde(rename = "varies")]
    Varies,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureSpec {
    pub(super) title: String,
    pub(super) read: String,
    pub(super) source: Option<String>,
    pub(super) x: AxisSpec,
    pub(super) panel: Vec<PanelSpec>,
    #[serde(default)]
    pub(super) ribbon: Vec<RibbonSpec>,
    #[serde(default)]
    pub(super) region: Vec<RegionSpec>,
}

/// A named range of a figure's x axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RegionSpec {
    pub(super) label: String,
    pub(super) from: f64,
    pub(super) to: f64,
}

/// An axis of a figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AxisSpec {
    pub(super) label: String,
    #[serde(default)]
    pub(super) unit: String,
    #[serde(default)]
    pub(super) log: bool,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
}

/// One plot of a figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PanelSpec {
    pub(super) y: AxisSpec,
    pub(super) series: Vec<SeriesSpec>,
}

/// A flow's states under a figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RibbonSpec {
    #[serde(default)]
    pub(super) run: String,
    #[serde(default)]
    pub(super) flow: usize,
    pub(super) name: Option<String>,
}

/// One line of a plot, from exactly one of `column`, `over`, `data`, `points` and `function`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeriesSpec {
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) style: Style,
    pub(super) color: Option<String>,
    /// Trace column of a run, with one of the following selectors.
    #[serde(default)]
    pub(super) run: String,
    /// Index of the flow.
    pub(super) flow: Option<usize>,
    /// Algorithm, for each of its flows (`""`: all flows).
    pub(super) flows: Option<String>,
    /// Index of the link.
    pub(super) link: Option<usize>,
    pub(super) column: Option<String>,
    /// Width of the bins of rates, seconds.
    pub(super) bin: Option<f64>,
    /// Start of the drawn range of x.
    pub(super) from: Option<f64>,
    pub(super) to: Option<f64>,
    /// A measure along an axis.
    pub(super) over: Option<String>,
    #[serde(rename = "where", default)]
    pub(super) fixed: String,
    pub(super) value: Option<String>,
    /// File in experiments/data.
    pub(super) data: Option<String>,
    pub(super) x: Option<String>,
    pub(super) y: Option<String>,
    #[serde(default)]
    pub(super) filter: String,
    pub(super) points: Option<Vec<(f64, f64)>>,
    /// An expression in x.
    pub(super) function: Option<String>,
}
