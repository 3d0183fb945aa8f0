//! Table and figures of a comparison with a control, the same for `compare`, `cdn`, `ab`, `advise`, `tune` and `sweep`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_report::{Axis, Figure, Panel, Series, Style, Table};
use bbrlab_stats::number::{hundredths, or_dash, signed_percent};
use serde::{Deserialize, Serialize};

/// Distance between two candidates within a row. Ours: four fit without touching the next row.
const APART: f64 = 0.22;
/// Maximum points of a distribution's curve. Ours: about one per column of a screen.
const POINTS: usize = 300;

/// Direction in which a measure improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// A larger value is better.
    More,
    /// A smaller value is better.
    Less,
}

/// Estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Estimate.
    pub middle: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// A missing estimate: all three values are NaN.
    pub const NONE: Self = Self { middle: f64::NAN, low: f64::NAN, high: f64::NAN };

    /// True if the estimate is not missing.
    pub const fn is_known(&self) -> bool {
        self.middle.is_finite()
    }

    /// Converts to per cent.
    #[must_use]
    pub const fn as_percent(self) -> Self {
        Self { middle: 100.0 * self.middle, low: 100.0 * self.low, high: 100.0 * self.high }
    }

    /// Turns a ratio so that more is better: of a smaller delay the inverse. A ratio whose interval reaches 0 is missing.
    #[must_use]
    pub fn turned(self, better: Better) -> Self {
        match better {
            _ if self.low <= 0.0 => Self::NONE,
            Better::More => self,
            Better::Less => Self { middle: 1.0 / self.middle, low: 1.0 / self.high, high: 1.0 / self.low },
        }
    }

    /// Converts a gain to a ratio: 0.1 to 1.1.
    #[must_use]
    pub const fn as_ratio(self) -> Self {
        Self { middle: 1.0 + self.middle, low: 1.0 + self.low, high: 1.0 + self.high }
    }
}

/// Estimates of one candidate.
pub struct Candidate<At> {
    /// Name in the legend.
    pub name: String,
    /// Key of the colour: the algorithm.
    pub color_key: String,
    /// Estimates with their positions: a row of a forest plot, or a value of the horizontal axis.
    pub estimates: Vec<(At, Interval)>,
}

impl<At> Candidate<At> {
    fn series(self, style: Style, x: Vec<f64>, y: Vec<f64>) -> Series {
        Series {
            name: self.name,
            style,
            x,
            y,
            low: self.estimates.iter().map(|(_, one)| one.low).collect(),
            high: self.estimates.iter().map(|(_, one)| one.high).collect(),
            color_key: Some(self.color_key),
        }
    }
}

/// Row of the table of a comparison: one measure.
pub struct MeasureRow {
    /// Name of the measure.
    pub name: String,
    /// Direction in which it improves.
    pub better: Better,
    /// Its value with the control.
    pub control: String,
    /// Each candidate's value, followed by change, 95 % interval and outcome.
    pub candidates: Vec<(String, [String; 3])>,
}

/// Builds the table of a comparison. `value` names the values, as in "median".
pub fn table(value: &str, control: &str, candidates: &[String], rows: impl Iterator<Item = MeasureRow>) -> Table {
    let mut columns = vec!["Measure".to_owned(), "Better".to_owned(), format!("{control}, {value}")];
    columns.extend(candidates.iter().map(|one| format!("{one}, {value}")));
    for one in candidates {
        columns.extend([format!("{one} against {control}"), "95 % interval".to_owned(), "Outcome".to_owned()]);
    }
    let row = |row: MeasureRow| {
        let better = if row.better == Better::More { "more" } else { "less" };
        let mut cells = vec![row.name, better.to_owned(), row.control];
        cells.extend(row.candidates.iter().map(|(value, _)| value.clone()));
        cells.extend(row.candidates.into_iter().flat_map(|(_, cells)| cells));
        cells
    };
    Table { columns, rows: rows.map(row).collect() }
}

/// Change, interval and outcome of a ratio to the control.
pub fn ratio_cells(ratio: &Interval, better: Better) -> [String; 3] {
    if ratio.middle.is_nan() {
        return ["–".to_owned(), String::new(), "–".to_owned()];
    }
    let percent =
        |value: f64| if value.is_finite() { format!("{} %", signed_percent(value - 1.0)) } else { "from 0".to_owned() };
    if ratio.low.is_nan() {
        return [percent(ratio.middle), "–".to_owned(), "too few".to_owned()];
    }
    let outcome = match (ratio.low > 1.0, ratio.high < 1.0) {
        (false, false) => "no clear difference",
        (rises, _) if rises == (better == Better::More) => "better",
        _ => "worse",
    };
    [percent(ratio.middle), format!("{} to {}", percent(ratio.low), percent(ratio.high)), outcome.to_owned()]
}

/// Result of one class for one candidate, judged by completion time or throughput.
pub struct SpeedLine {
    /// Class, as "all" or "RTT 50 to 100 ms".
    pub class: String,
    /// True if it is judged by throughput instead of completion time.
    pub is_throughput: bool,
    /// Index of the candidate.
    pub candidate: usize,
    /// The candidate's median and the control's.
    pub medians: [String; 2],
    /// Gain in speed: 0.1 is a tenth faster.
    pub gain: Interval,
    /// Outcome in words.
    pub outcome: String,
}

/// Builds the table of a comparison of speeds. Lines of one class and metric must follow each other.
pub fn speed_table(control: &str, candidates: &[String], lines: impl Iterator<Item = SpeedLine>) -> Table {
    let mut rows: Vec<MeasureRow> = Vec::new();
    for line in lines {
        let name = format!("{}: {}", line.class, judged(line.is_throughput));
        let [own, of_control] = line.medians;
        if rows.last().is_none_or(|row| row.name != name) {
            let missing = || ("–".to_owned(), ["–".to_owned(), String::new(), "–".to_owned()]);
            let better = if line.is_throughput { Better::More } else { Better::Less };
            let candidates = candidates.iter().map(|_| missing()).collect();
            rows.push(MeasureRow { name, better, control: of_control, candidates });
        }
        let speed = |gain: f64| match gain < 0.0 {
            true => format!("{} % slower", hundredths(-100.0 * gain)),
            false => format!("{} % faster", hundredths(100.0 * gain)),
        };
        let Interval { middle, low, high } = line.gain;
        let gain = or_dash(middle, speed);
        let interval = if low.is_nan() { "–".to_owned() } else { format!("{} to {}", speed(low), speed(high)) };
        let row = rows.last_mut().expect("a row was added");
        row.candidates[line.candidate] = (own, [gain, interval, line.outcome]);
    }
    table("median", control, candidates, rows.into_iter())
}

/// Forest plot. Each row has one mark per candidate, with its interval.
pub struct Forest {
    /// Id of the figure on the page.
    pub id: &'static str,
    /// Title.
    pub title: String,
    /// Explanation under the title.
    pub how_to_read: String,
    /// Axis of the estimates.
    pub x: Axis,
    /// Position and legend of the vertical line that means "no difference".
    pub same: (f64, String),
    /// Names of the rows, from the top.
    pub rows: Vec<String>,
    /// Estimates of each candidate, by row.
    pub candidates: Vec<Candidate<usize>>,
}

impl Forest {
    /// Ratios to a control, the first figure of each comparison. They are turned so that right of the line is better in every row;
    /// `marks` says what each mark is, as in "the mean of pairs of runs".
    pub fn against(
        id: &'static str,
        control: &str,
        marks: &str,
        rows: Vec<(String, Better)>,
        mut candidates: Vec<Candidate<usize>>,
    ) -> Self {
        for (row, estimate) in candidates.iter_mut().flat_map(|one| &mut one.estimates) {
            *estimate = estimate.turned(rows[*row].1);
        }
        Self {
            id,
            title: format!("Against {control}"),
            how_to_read: format!(
                "Each mark is {marks} as a ratio to {control}, its bar the 95 % interval, turned so that right of the line is better: 2 is \
                 twice the rate, or half the delay, time or loss."
            ),
            x: ratio_axis("better by a factor of"),
            same: (1.0, format!("as {control}")),
            rows: rows.into_iter().map(|(name, _)| name).collect(),
            candidates,
        }
    }

    /// Draws the plot.
    pub fn figure(self) -> Figure {
        let middle = (self.candidates.len() as f64 - 1.0) / 2.0;
        let candidate = |(nth, one): (usize, Candidate<usize>)| {
            let shift = (nth as f64 - middle) * APART;
            let x = one.estimates.iter().map(|(_, estimate)| estimate.middle).collect();
            let place = |&(row, estimate): &(usize, Interval)| {
                if estimate.is_known() { row as f64 + shift } else { f64::NAN }
            };
            let y = one.estimates.iter().map(place).collect();
            one.series(Style::Points, x, y)
        };
        let (same, legend) = self.same;
        let same = Series {
            name: legend,
            style: Style::Reference,
            x: vec![same, same],
            y: vec![-0.5, self.rows.len() as f64 - 0.5],
            ..Series::default()
        };
        Figure {
            id: self.id.to_owned(),
            title: self.title,
            how_to_read: self.how_to_read,
            x: self.x,
            panels: vec![Panel {
                y: Axis { names: self.rows, ..Axis::default() },
                series: std::iter::once(same).chain(self.candidates.into_iter().enumerate().map(candidate)).collect(),
            }],
            ..Figure::default()
        }
    }
}

/// Axis of ratios to the control.
fn ratio_axis(label: impl Into<String>) -> Axis {
    Axis { label: label.into(), log: true, ..Axis::default() }
}

/// Plots gains in per cent, with intervals, over a quantity. A missing gain leaves a gap in the line. `None` if no candidate
/// has two gains.
pub fn gains_over(label: &str, candidates: Vec<Candidate<f64>>) -> Option<Panel> {
    let known = |one: &Candidate<f64>| one.estimates.iter().filter(|(_, gain)| gain.is_known()).count();
    let shown: Vec<Candidate<f64>> = candidates.into_iter().filter(|one| known(one) >= 2).collect();
    let places = shown.iter().flat_map(|one| &one.estimates).filter(|(_, gain)| gain.is_known());
    let first = places.map(|(at, _)| *at).reduce(f64::min)?;
    let candidate = |mut one: Candidate<f64>| {
        for (_, gain) in &mut one.estimates {
            *gain = gain.as_percent();
        }
        let x = one.estimates.iter().map(|(at, _)| *at).collect();
        let y = one.estimates.iter().map(|(_, gain)| gain.middle).collect();
        one.series(Style::Line, x, y)
    };
    Some(Panel {
        y: Axis { label: label.to_owned(), unit: "%".to_owned(), ..Axis::default() },
        series: std::iter::once(no_gain(first)).chain(shown.into_iter().map(candidate)).collect(),
    })
}

/// Horizontal line at 0, from `first` on.
pub fn no_gain(first: f64) -> Series {
    Series { name: "no gain".to_owned(), style: Style::Reference, x: vec![first], y: vec![0.0], ..Series::default() }
}

/// The values at which a cumulative distribution of `count` sorted ones is drawn, by nearest rank.
pub fn quantiles(count: usize, at: impl Fn(usize) -> f64) -> Vec<f64> {
    let points = count.min(POINTS);
    let rank = |nth: usize| ((nth + 1) as f64 / points as f64 * count as f64).ceil() as usize;
    (0..points).map(|nth| at(rank(nth).clamp(1, count) - 1)).collect()
}

/// Cumulative distribution of sorted values, in per cent of their number.
pub fn cumulative(name: &str, sorted: &[f64]) -> Series {
    cumulative_of(name, quantiles(sorted.len(), |place| sorted[place]))
}

/// Cumulative distribution with these [`quantiles`].
pub fn cumulative_of(name: &str, quantiles: Vec<f64>) -> Series {
    let count = quantiles.len();
    Series {
        name: name.to_owned(),
        style: Style::Step,
        y: (0..count).map(|nth| 100.0 * ((nth + 1) as f64 / count as f64)).collect(),
        x: quantiles,
        color_key: Some(name.to_owned()),
        ..Series::default()
    }
}

/// Axis of cumulative shares of `units`.
pub fn share_axis(units: &str) -> Axis {
    Axis { label: units.to_owned(), unit: "%".to_owned(), min: Some(0.0), max: Some(100.0), ..Axis::default() }
}

/// Metric by which an object or connection is judged: throughput from 3 MB on, below it the completion time.
pub const fn judged(is_large: bool) -> &'static str {
    if is_large { "throughput" } else { "completion" }
}

/// Unit of that metric.
pub const fn speed_unit(is_large: bool) -> &'static str {
    if is_large { "Mbit/s" } else { "ms" }
}

/// Axis of that metric.
pub fn value_axis(is_large: bool, log: bool) -> Axis {
    let label = if is_large { "throughput" } else { "completion time" };
    Axis { label: label.to_owned(), unit: speed_unit(is_large).to_owned(), log, ..Axis::default() }
}

/// Tells how to read a cumulative distribution of that metric.
pub const fn distribution_help(is_large: bool) -> &'static str {
    if is_large {
        "A curve farther right is faster."
    } else {
        "A curve farther left is faster, a steeper one more even."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate<At>(estimates: Vec<(At, Interval)>) -> Candidate<At> {
        Candidate { name: "bbr3".to_owned(), color_key: "bbr3".to_owned(), estimates }
    }

    const GAIN: Interval = Interval { middle: 0.1, low: 0.05, high: 0.2 };

    #[test]
    fn unknown_gains_leave_a_gap_and_one_known_gain_is_no_line() {
        let known = candidate(vec![(1.0, Interval::NONE), (2.0, GAIN), (4.0, GAIN)]);
        let panel = gains_over("gain", vec![known]).unwrap();
        assert_eq!((panel.series[0].x[0], panel.series[1].y[1]), (2.0, 10.0));
        assert!(panel.series[1].y[0].is_nan());
        assert!(gains_over("gain", vec![candidate(vec![(1.0, Interval::NONE), (2.0, GAIN)])]).is_none());
    }

    #[test]
    fn right_of_the_line_is_better_in_every_row() {
        let half = Interval { middle: 0.5, low: 0.4, high: 1.25 };
        let rows = vec![("goodput".to_owned(), Better::More), ("delay".to_owned(), Better::Less)];
        let lost = Interval { middle: 0.1, low: 0.0, high: 0.2 };
        let both = candidate(vec![(0, half), (1, half)]);
        let none = candidate(vec![(0, lost), (1, lost)]);
        let forest = Forest::against("x", "cubic", "the mean", rows, vec![both, none]);
        let [both, none] = &forest.candidates[..] else { panic!() };
        assert_eq!(both.estimates[0].1, half);
        assert_eq!(both.estimates[1].1, Interval { middle: 2.0, low: 0.8, high: 2.5 });
        assert!(none.estimates.iter().all(|(_, one)| !one.is_known()));
    }

    #[test]
    fn candidates_of_a_forest_stand_side_by_side_around_their_row() {
        let both = [(); 2].map(|()| candidate(vec![(0, GAIN.as_ratio()), (1, Interval::NONE)]));
        let forest = Forest {
            id: "gains",
            title: String::new(),
            how_to_read: String::new(),
            x: ratio_axis("cubic"),
            same: (1.0, String::new()),
            rows: vec!["small".to_owned(), "large".to_owned()],
            candidates: both.into(),
        };
        let series = &forest.figure().panels[0].series;
        assert_eq!((series[1].y[0], series[2].y[0], series[1].x[0]), (-0.11, 0.11, 1.1));
        assert!(series[1].y[1].is_nan());
    }

    #[test]
    fn an_outcome_follows_the_interval_and_the_direction() {
        let of = |low: f64, high: f64, better| {
            let [_, _, outcome] = ratio_cells(&Interval { middle: f64::midpoint(low, high), low, high }, better);
            outcome
        };
        assert_eq!(of(1.1, 1.3, Better::More), "better");
        assert_eq!(of(1.1, 1.3, Better::Less), "worse");
        assert_eq!(of(0.7, 0.9, Better::Less), "better");
        assert_eq!(of(0.7, 0.9, Better::More), "worse");
        assert_eq!(of(0.9, 1.1, Better::More), "no clear difference");
        assert_eq!(ratio_cells(&Interval::NONE, Better::More), ["–", "", "–"]);
        assert_eq!(ratio_cells(&Interval { middle: 1.2, low: 1.1, high: 1.3 }, Better::More)[0], "+20 %");
    }

    #[test]
    fn a_class_that_a_candidate_lacks_has_a_dash() {
        let line = |candidate: usize, class: &str, gain: Interval| SpeedLine {
            class: class.to_owned(),
            is_throughput: false,
            candidate,
            medians: ["90 ms".to_owned(), "100 ms".to_owned()],
            gain,
            outcome: "faster".to_owned(),
        };
        let names = ["bbr1", "bbr3"].map(str::to_owned);
        let gain = Interval { middle: 0.11, low: -0.01, high: 0.2 };
        let lines = [line(0, "home", gain), line(1, "home", gain), line(1, "mobile", gain)];
        let table = speed_table("cubic", &names, lines.into_iter());
        assert_eq!(table.rows[0][..6], ["home: completion", "less", "100 ms", "90 ms", "90 ms", "11 % faster"]);
        assert_eq!(table.rows[0][6..8], ["1 % slower to 20 % faster", "faster"]);
        assert_eq!(
            table.rows[1][3..],
            ["–", "90 ms", "–", "", "–", "11 % faster", "1 % slower to 20 % faster", "faster"]
        );
    }
}
