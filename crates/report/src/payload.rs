//! Figures as JSON for the page's script: one text with a pool of columns. The text is safe inside `<script>`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_stats::number::round_to;
use serde_json::{Value, json};

use super::compact::{ColumnPool, fair_cap, thin};
use super::model::{Axis, Figure, Report, Ribbon, Series, Style};

/// Maximum values of one series. Ours: two for each pixel of a wide screen.
const SERIES_MAX: usize = 4000;
/// Minimum to which a series is thinned. Ours.
const SERIES_MIN: usize = 200;
/// Maximum values in a page. Ours: about 200 kB at four characters each, so that a page of many figures stays below 1
/// MB.
const PAGE_MAX: usize = 46_000;
/// Maximum spans of one ribbon. Ours: two for each pixel of a wide screen.
const SPANS_MAX: usize = 4000;

/// Returns the JSON for the page's data element.
pub fn payload(report: &Report) -> String {
    let figures: Vec<&Figure> =
        report.lead.iter().chain(report.sections.iter().flat_map(|section| &section.figures)).collect();
    let all_series = figures.iter().flat_map(|figure| &figure.panels).flat_map(|panel| &panel.series);
    let lengths: Vec<usize> = all_series.map(|series| series.x.len()).collect();
    let mut writer = Writer {
        pool: ColumnPool::default(),
        states: Vec::new(),
        cap: fair_cap(&lengths, SERIES_MAX, SERIES_MIN, PAGE_MAX),
    };
    let figures: Vec<Value> = figures.into_iter().map(|figure| writer.figure(figure)).collect();
    let data = json!({ "figures": figures, "states": writer.states, "arrays": writer.pool.into_values() });
    // `<` is the one character that could end or open an element inside a script; JSON allows an escape for it.
    data.to_string().replace('<', "\\u003c")
}

struct Writer {
    pool: ColumnPool,
    states: Vec<String>,
    cap: usize,
}

impl Writer {
    fn figure(&mut self, figure: &Figure) -> Value {
        let mut notes = FigureNotes::default();
        let mut panels = Vec::new();
        for panel in &figure.panels {
            let series: Vec<Value> =
                panel.series.iter().map(|s| self.series(s, &figure.x, &panel.y, &mut notes)).collect();
            panels.push(json!({ "y": axis(&panel.y), "series": series }));
        }
        let ribbons: Vec<Value> = figure.ribbons.iter().map(|ribbon| self.ribbon(ribbon, &mut notes)).collect();
        let regions: Vec<Value> = figure.regions.iter().map(|r| json!([r.label, r.from, r.to])).collect();
        json!({
            "id": figure.id, "title": figure.title, "x": axis(&figure.x), "panels": panels, "ribbons": ribbons,
            "regions": regions, "note": notes.text(),
        })
    }

    fn series(&mut self, series: &Series, x_axis: &Axis, y_axis: &Axis, notes: &mut FigureNotes) -> Value {
        let (x, y, ends) = clean(series, x_axis, y_axis, notes);
        let kept = match series.style {
            _ if ends.is_some() => (0..x.len()).collect(),
            Style::Points => (0..x.len()).step_by(x.len().div_ceil(self.cap).max(1)).collect(),
            _ => thin(&y, self.cap),
        };
        notes.offered += x.len();
        notes.kept += kept.len();
        let y: Vec<f64> = kept.iter().map(|&i| y[i]).collect();
        let (x, y) =
            (self.pool.add_kept(&x, &kept), if y_axis.log { self.pool.add(&y) } else { self.pool.add_drawn(&y) });
        let mut value = json!({ "name": series.name, "style": series.style, "key": series.color_key, "x": x, "y": y });
        if let Some((low, high)) = ends {
            value["low"] = self.pool.add(&low).into();
            value["high"] = self.pool.add(&high).into();
        }
        value
    }

    /// Encodes a ribbon as its edges and, between each two, a state's number or -1 for none.
    fn ribbon(&mut self, ribbon: &Ribbon, notes: &mut FigureNotes) -> Value {
        let mut edges: Vec<f64> = Vec::new();
        let mut states: Vec<i64> = Vec::new();
        for (from, to, name) in merged(ribbon, notes) {
            if edges.last().is_some_and(|&last| last < from) {
                states.push(-1);
            }
            if edges.last().is_none_or(|&last| last < from) {
                edges.push(from);
            }
            edges.push(to);
            states.push(self.state(&name));
        }
        json!({ "name": ribbon.name, "edges": self.pool.add(&edges), "states": states })
    }

    fn state(&mut self, name: &str) -> i64 {
        let known = self.states.iter().position(|state| state == name);
        let index = known.unwrap_or_else(|| {
            self.states.push(name.to_owned());
            self.states.len() - 1
        });
        i64::try_from(index).unwrap_or(-1)
    }
}

/// Limitations of a figure that the page must state.
#[derive(Default)]
struct FigureNotes {
    offered: usize,
    kept: usize,
    not_on_log_axis: usize,
    without_place: usize,
    spans_merged: usize,
}

impl FigureNotes {
    fn text(&self) -> String {
        let mut parts = Vec::new();
        if self.kept < self.offered {
            let (kept, offered) = (self.kept, self.offered);
            parts.push(format!("Downsampled: {kept} of {offered} values, the highest and lowest of each bucket; the CSV has the same ones."));
        }
        if self.not_on_log_axis > 0 {
            parts.push(format!("Left out, at or below zero on a log scale: {}.", self.not_on_log_axis));
        }
        if self.without_place > 0 {
            parts.push(format!("Left out, without a known position on the horizontal axis: {}.", self.without_place));
        }
        if self.spans_merged > 0 {
            parts.push(format!("States merged with their neighbours, as too short to be seen: {}.", self.spans_merged));
        }
        parts.join(" ")
    }
}

fn axis(axis: &Axis) -> Value {
    let end = |value: Option<f64>| value.filter(|v| v.is_finite()).map(|v| round_to(v, 9));
    let mut value =
        json!({ "label": axis.label, "unit": axis.unit, "log": axis.log, "min": end(axis.min), "max": end(axis.max) });
    if !axis.names.is_empty() {
        value["names"] = axis.names.clone().into();
    }
    value
}

/// X and y of a series and, if it has intervals, both ends of them.
type CleanSeries = (Vec<f64>, Vec<f64>, Option<(Vec<f64>, Vec<f64>)>);

/// Sorts the series by x and removes values that have no place on the axes; a gap in y stays, as a NaN.
fn clean(series: &Series, x_axis: &Axis, y_axis: &Axis, notes: &mut FigureNotes) -> CleanSeries {
    let fits = |axis: &Axis, value: f64| !axis.log || value > 0.0;
    let mut points: Vec<(f64, f64, usize)> = Vec::with_capacity(series.x.len());
    for (nth, (&x, &y)) in series.x.iter().zip(&series.y).enumerate() {
        let y = if y.is_finite() { y } else { f64::NAN };
        let on_axes = fits(x_axis, x) && (y.is_nan() || fits(y_axis, y));
        notes.not_on_log_axis += usize::from(!on_axes && x.is_finite());
        notes.without_place += usize::from(!x.is_finite());
        if x.is_finite() && fits(x_axis, x) {
            points.push((x, if on_axes { y } else { f64::NAN }, nth));
        }
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let has_ends = !series.low.is_empty() && series.low.len() == series.y.len() && series.high.len() == series.y.len();
    let ends = |of: &[f64]| points.iter().map(|&(_, _, nth)| of[nth]).collect();
    let ends = has_ends.then(|| (ends(&series.low), ends(&series.high)));
    let (x, y) = points.iter().map(|&(x, y, _)| (x, y)).unzip();
    (x, y, ends)
}

/// Joins equal neighbouring spans of a ribbon. If there are too many, neighbours are merged until they are long enough
/// to be visible, under the name of the longest of them.
fn merged(ribbon: &Ribbon, notes: &mut FigureNotes) -> Vec<(f64, f64, String)> {
    let ends = ribbon.spans.first().zip(ribbon.spans.last());
    let whole = ends.map_or(0.0, |(first, last)| last.1 - first.0);
    let shortest = if ribbon.spans.len() > SPANS_MAX { whole / SPANS_MAX as f64 } else { 0.0 };
    let mut spans: Vec<(f64, f64, String)> = Vec::new();
    let mut longest = 0.0; // the longest span inside the last one of `spans`
    for (from, to, state) in ribbon.spans.iter().filter(|span| span.0 < span.1) {
        let length = to - from;
        match spans.last_mut().filter(|last| last.1 >= *from) {
            Some(last) if last.2 == *state => {
                last.1 = last.1.max(*to);
                longest += length;
            }
            Some(last) if last.1 - last.0 < shortest => {
                last.1 = last.1.max(*to);
                notes.spans_merged += 1;
                if length > longest {
                    (last.2, longest) = (state.clone(), length);
                }
            }
            _ => {
                spans.push((*from, *to, state.clone()));
                longest = length;
            }
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(x: &[f64], y: &[f64]) -> Series {
        Series { name: "a".into(), x: x.to_vec(), y: y.to_vec(), ..Series::default() }
    }

    #[test]
    fn a_value_without_a_place_on_a_log_axis_is_left_out_and_counted() {
        let log = Axis { log: true, ..Axis::default() };
        let mut notes = FigureNotes::default();
        let (x, ..) = clean(&series(&[0.0, 0.1, 1.0], &[1.0, 2.0, 3.0]), &log, &Axis::default(), &mut notes);
        assert_eq!((x, notes.not_on_log_axis), (vec![0.1, 1.0], 1));
    }

    #[test]
    fn an_unknown_place_is_not_called_one_at_or_below_zero() {
        let log = Axis { log: true, ..Axis::default() };
        let mut notes = FigureNotes::default();
        let (x, ..) = clean(&series(&[f64::NAN, 0.1, f64::NAN], &[1.0, 2.0, 3.0]), &log, &Axis::default(), &mut notes);
        assert_eq!((x, notes.not_on_log_axis, notes.without_place), (vec![0.1], 0, 2));
        assert_eq!(notes.text(), "Left out, without a known position on the horizontal axis: 2.");
    }

    #[test]
    fn unsorted_values_are_sorted_in_pairs() {
        let axis = Axis::default();
        let sorted = clean(&series(&[2.0, 1.0], &[20.0, 10.0]), &axis, &axis, &mut FigureNotes::default());
        assert_eq!(sorted, (vec![1.0, 2.0], vec![10.0, 20.0], None));
    }

    #[test]
    fn intervals_are_sorted_with_their_values() {
        let axis = Axis::default();
        let with = Series { low: vec![19.0, 9.0], high: vec![21.0, 11.0], ..series(&[2.0, 1.0], &[20.0, 10.0]) };
        let (.., ends) = clean(&with, &axis, &axis, &mut FigureNotes::default());
        assert_eq!(ends, Some((vec![9.0, 19.0], vec![11.0, 21.0])));
    }

    #[test]
    fn equal_neighbouring_states_become_one_span() {
        let span = |from, to, name: &str| (from, to, name.to_owned());
        let spans = vec![span(0.0, 1.0, "up"), span(1.0, 2.0, "up"), span(2.0, 2.0, "down"), span(2.0, 3.0, "down")];
        let joined = merged(&Ribbon { name: String::new(), spans }, &mut FigureNotes::default());
        assert_eq!(joined, [span(0.0, 2.0, "up"), span(2.0, 3.0, "down")]);
    }

    #[test]
    fn a_ribbon_of_very_many_spans_is_bounded_and_says_what_it_merged() {
        let names = ["up", "down"];
        let spans = (0..100_000).map(|i| (f64::from(i), f64::from(i) + 1.0, names[i as usize % 2].to_owned()));
        let mut notes = FigureNotes::default();
        let joined = merged(&Ribbon { name: String::new(), spans: spans.collect() }, &mut notes);
        assert!(joined.len() <= SPANS_MAX && notes.spans_merged > 0);
    }
}
