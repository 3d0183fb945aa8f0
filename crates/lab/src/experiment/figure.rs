//! Conversion of a declared figure and the finished runs to the report's figure. A line has at most [`MAX_POINTS`]
//! points.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::file::{AxisSpec, FigureSpec, RibbonSpec, SeriesSpec};
use crate::expect::{Curve, Measurer, RunSet, RunView, csv, parse_labels, series};
use crate::{Error, Result};
use bbrlab_report::{Axis, Figure, Panel, Region, Ribbon, Series};

/// Maximum points of a line: more than a screen has columns; extremes are kept. Ours.
const MAX_POINTS: usize = 2_000;
/// Default width of the bins of rates, seconds. Source: CACM figure 6 shows 1-s throughput.
const DEFAULT_BIN_S: f64 = 1.0;
/// Points drawn of a closed form. Ours.
const FUNCTION_POINTS: usize = 200;

/// Builds the figure described by the spec.
pub(super) fn draw(spec: &FigureSpec, id: &str, source: &str, measurer: &Measurer) -> Result<Figure> {
    let mut panels = Vec::new();
    for panel in &spec.panel {
        let mut lines = Vec::new();
        for series in &panel.series {
            lines.extend(draw_series(series, &spec.x, measurer)?);
        }
        panels.push(Panel { y: axis(&panel.y), series: lines });
    }
    Ok(Figure {
        id: id.to_owned(),
        title: spec.title.clone(),
        how_to_read: spec.read.clone(),
        source: spec.source.clone().unwrap_or_else(|| source.to_owned()),
        x: axis(&spec.x),
        panels,
        ribbons: spec.ribbon.iter().map(|r| ribbon(r, &spec.x, measurer)).collect::<Result<_, _>>()?,
        regions: spec.region.iter().map(|r| Region { label: r.label.clone(), from: r.from, to: r.to }).collect(),
        ..Figure::default()
    })
}

/// Returns the run behind a figure; `None` if it shows several, or none.
pub(super) fn only_run<'a>(spec: &FigureSpec, runs: &'a RunSet) -> Option<&'a RunView> {
    let series = || spec.panel.iter().flat_map(|panel| &panel.series);
    if series().any(|series| series.over.is_some()) {
        return None;
    }
    let measured = series().filter(|series| series.column.is_some()).map(|series| &series.run);
    let names = measured.chain(spec.ribbon.iter().map(|ribbon| &ribbon.run));
    let mut shown = names.map(|name| runs.run(name).ok());
    let first = shown.next()??;
    shown.all(|run| run.is_some_and(|run| run.name == first.name)).then_some(first)
}

fn axis(spec: &AxisSpec) -> Axis {
    Axis {
        label: spec.label.clone(),
        unit: spec.unit.clone(),
        log: spec.log,
        min: spec.min,
        max: spec.max,
        ..Axis::default()
    }
}

/// States of a flow, clipped to the x axis.
fn ribbon(spec: &RibbonSpec, x: &AxisSpec, measurer: &Measurer) -> Result<Ribbon> {
    let run = measurer.runs().run(&spec.run)?;
    let trace = run.output.trace.flows.get(spec.flow).ok_or_else(|| Error::NoFlow {
        run: run.name.to_string(),
        index: spec.flow as i64,
        count: run.output.trace.flows.len(),
    })?;
    let (from, to) = (x.min.unwrap_or(0.0), x.max.unwrap_or(f64::INFINITY).min(run.duration_s()));
    let mut spans = Vec::new();
    for (i, (at, state)) in trace.states.iter().enumerate() {
        let start = at.as_nanos() as f64 / 1e9;
        let end = trace.states.get(i + 1).map_or(run.duration_s(), |(next, _)| next.as_nanos() as f64 / 1e9);
        let (start, end) = (start.max(from), end.min(to));
        if start < end {
            spans.push((start, end, state.name().to_owned()));
        }
    }
    let name = spec.name.clone().unwrap_or_else(|| run.setup.flows[spec.flow].name.clone());
    Ok(Ribbon { name, spans })
}

fn draw_series(spec: &SeriesSpec, x: &AxisSpec, measurer: &Measurer) -> Result<Vec<Series>> {
    if let Some(column) = &spec.column {
        return draw_columns(spec, column, measurer);
    }
    let curve = if let (Some(over), Some(value)) = (&spec.over, &spec.value) {
        measurer.sweep(over, &spec.fixed, value)?
    } else if let (Some(file), Some(x), Some(y)) = (&spec.data, &spec.x, &spec.y) {
        let text =
            measurer.runs().files.get(file).ok_or_else(|| Error::NoData { kind: "data file", name: file.clone() })?;
        let (x, y) = csv::columns(text, x, y, &parse_labels(&spec.filter)?)?;
        Curve { x, y }
    } else if let Some(points) = &spec.points {
        let (x, y) = points.iter().copied().unzip();
        Curve { x, y }
    } else if let Some(function) = &spec.function {
        closed_form(function, spec, x, measurer)?
    } else {
        return Err(Error::Rule("a series without an origin"));
    };
    Ok(vec![line(spec, None, None, curve.x, curve.y)])
}

/// Evaluates a closed form on a grid that is even on the axis as drawn.
fn closed_form(function: &str, spec: &SeriesSpec, x: &AxisSpec, measurer: &Measurer) -> Result<Curve> {
    let (Some(from), Some(to)) = (spec.from.or(x.min), spec.to.or(x.max)) else {
        return Err(Error::Rule("a function needs `from` and `to`, or an x axis with `min` and `max`"));
    };
    let mut curve = Curve::default();
    for i in 0..=FUNCTION_POINTS {
        let part = i as f64 / FUNCTION_POINTS as f64;
        let at = if x.log { from * (to / from).powf(part) } else { from + (to - from) * part };
        curve.x.push(at);
        curve.y.push(measurer.measure_at(function, at)?);
    }
    Ok(curve)
}

fn draw_columns(spec: &SeriesSpec, column: &str, measurer: &Measurer) -> Result<Vec<Series>> {
    let run = measurer.runs().run(&spec.run)?;
    if let Some(link) = spec.link {
        let (x, y) = link_points(run, link, column, spec.bin)?;
        return Ok(vec![cut(spec, None, None, &x, &y)]);
    }
    let flows = match (&spec.flows, spec.flow) {
        (Some(who), _) => run.select(who)?,
        (None, flow) => vec![flow.unwrap_or(0)],
    };
    let mut lines = Vec::new();
    for flow in flows {
        let (x, y) = flow_points(run, flow, column, spec.bin)?;
        let setup = &run.setup.flows[flow];
        let alone = run.setup.flows.iter().filter(|f| f.cc() == setup.cc()).count() == 1;
        let color = if alone { setup.cc() } else { setup.name.as_str() };
        lines.push(cut(spec, Some(&setup.name), Some(color), &x, &y));
    }
    Ok(lines)
}

type Points = (Vec<f64>, Vec<f64>);

/// Column of a flow; a rate without a column of its own is derived from the growth of a counter over bins.
fn flow_points(run: &RunView, flow: usize, column: &str, bin: Option<f64>) -> Result<Points> {
    let counter = match column {
        "goodput_mbps" => "received_kB",
        "delivery_mbps" => "acked_kB",
        "sending_mbps" => "sent_kB",
        _ => return Ok((run.grid()?.to_vec(), run.flow_column(flow, column)?)),
    };
    Ok(binned(run.grid()?, &run.flow_column(flow, counter)?, bin.unwrap_or(DEFAULT_BIN_S)))
}

fn link_points(run: &RunView, link: usize, column: &str, bin: Option<f64>) -> Result<Points> {
    if column == "throughput_mbps" {
        let counter = run.link_column(link, "departed_kB")?;
        return Ok(binned(run.grid()?, &counter, bin.unwrap_or(DEFAULT_BIN_S)));
    }
    Ok((run.grid()?.to_vec(), run.link_column(link, column)?))
}

/// Converts kilobytes per bin to Mbit/s, at the middle of each bin.
fn binned(t_s: &[f64], counter_kb: &[f64], bin_s: f64) -> Points {
    let end = t_s.last().copied().unwrap_or(0.0);
    let bins = (end / bin_s + 1e-9).floor() as usize;
    let rate = |i: usize| {
        let from = i as f64 * bin_s;
        (from + bin_s / 2.0, series::growth(t_s, counter_kb, from, from + bin_s) * 8e-3 / bin_s)
    };
    (0..bins).map(rate).unzip()
}

/// Clips a series to the drawn range and thins it.
fn cut(spec: &SeriesSpec, name: Option<&str>, color: Option<&str>, x: &[f64], y: &[f64]) -> Series {
    let range = series::window(x, spec.from.unwrap_or(f64::NEG_INFINITY), spec.to.unwrap_or(f64::INFINITY));
    let (x, y) = series::decimate(&x[range.clone()], &y[range], MAX_POINTS);
    line(spec, name, color, x, y)
}

fn line(spec: &SeriesSpec, name: Option<&str>, color: Option<&str>, x: Vec<f64>, y: Vec<f64>) -> Series {
    let name = match (&spec.name, name) {
        (Some(given), _) => given.clone(),
        (None, Some(flow)) => flow.to_owned(),
        (None, None) => spec.fixed.clone(),
    };
    let color_key = spec.color.clone().or_else(|| color.map(str::to_owned));
    Series { name, style: spec.style, x, y, color_key, ..Series::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::expect::testing;

    fn spec(series: &str, x: &str) -> FigureSpec {
        toml::from_str(&format!(
            "title='t'\nread='r'\nx={{label='x'{x}}}\nribbon=[{{flow=0}}]\n[[panel]]\ny={{label='y'}}\nseries=[{{{series}}}]\n"
        ))
        .unwrap()
    }

    fn figure(series: &str, x: &str) -> Result<Figure> {
        let spec = spec(series, x);
        let view = testing::two_flows();
        let runs = BTreeMap::from([("only".to_owned(), view)]);
        let files = BTreeMap::from([("d.csv".to_owned(), Arc::from("cc,x,y\na,1,2\nb,3,4\n"))]);
        draw(&spec, "X-1", "source", &Measurer::new(Arc::new(RunSet { runs, files, ..RunSet::default() })))
    }

    fn only_series(series: &str, x: &str) -> Series {
        figure(series, x).unwrap().panels.remove(0).series.remove(0)
    }

    #[test]
    fn a_rate_is_the_growth_of_a_counter_at_the_middle_of_each_bin() {
        let series = only_series("flow=0, column='goodput_mbps', bin=1", "");
        assert_eq!(series.x, [0.5, 1.5, 2.5, 3.5]);
        assert!(series.y.iter().all(|y| (y - 8.0).abs() < 1e-9));
    }

    #[test]
    fn a_figure_of_one_run_names_it_and_one_of_several_does_not() {
        let runs = BTreeMap::from([("only".to_owned(), testing::two_flows())]);
        let set = RunSet { runs, ..RunSet::default() };
        let name = |series: &str| only_run(&spec(series, ""), &set).map(|run| run.name.to_string());
        assert_eq!(name("flow=0, column='rtt_ms'").as_deref(), Some("only"));
        assert_eq!(name("points=[[0.0, 1.0]]").as_deref(), Some("only"), "its states are drawn");
        assert_eq!(name("over='cc', value='r.jain()'"), None);
        assert_eq!(name("run='other', flow=0, column='rtt_ms'"), None);
    }

    #[test]
    fn a_column_is_cut_to_the_part_that_is_drawn() {
        let series = only_series("flow=0, column='rtt_ms', from=1, to=2", "");
        assert_eq!((series.x, series.y), (vec![1.0, 1.5], vec![50.0, 40.0]));
    }

    #[test]
    fn a_series_of_all_flows_is_one_line_a_flow_in_the_colour_of_its_algorithm() {
        let drawn = figure("flows='', column='cwnd'", "").unwrap();
        let lines: Vec<_> = drawn.panels[0].series.iter().map(|s| (s.name.as_str(), s.color_key.as_deref())).collect();
        assert_eq!(lines, [("bbr1#0", Some("bbr1")), ("cubic#0", Some("cubic"))]);
    }

    #[test]
    fn external_data_are_the_rows_of_the_filter() {
        let series = only_series("name='d', data='d.csv', x='x', y='y', filter='cc=b', style='points'", "");
        assert_eq!((series.x, series.y, series.style), (vec![3.0], vec![4.0], bbrlab_report::Style::Points));
    }

    #[test]
    fn a_closed_form_spans_the_axis() {
        let series = only_series("name='f', function='x * 2'", ", min=1, max=100, log=true");
        assert_eq!((series.x[0], series.y[0]), (1.0, 2.0));
        assert!((series.y[100] - 20.0).abs() < 1e-9);
    }

    #[test]
    fn a_ribbon_is_cut_to_the_axis() {
        let drawn = figure("points=[[0,0]]", ", min=1.2, max=2.6").unwrap();
        let spans: Vec<_> = drawn.ribbons[0].spans.iter().map(|(a, b, s)| (*a, *b, s.as_str())).collect();
        assert_eq!(spans, [(1.2, 1.5, "probe_bw_up"), (1.5, 2.5, "probe_bw_cruise"), (2.5, 2.6, "probe_rtt")]);
    }

    #[test]
    fn a_column_that_is_not_there_is_an_error() {
        assert!(figure("flow=0, column='speed'", "").unwrap_err().to_string().contains("rtt_ms"));
    }
}
