//! Report of one run, as written by `bbrlab run --report`. Wall-clock time is left out: it differs between equal runs.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod answer;
mod applications;
mod limits;
mod repeated;

pub use repeated::for_runs;

use std::collections::BTreeMap;

use bbrlab_core::{NANOS_PER_SEC, Time};
use bbrlab_stats::number::{or_dash, rate_unit, rounded};

use super::model::{Axis, ClaimRow, Figure, Panel, Provenance, Report, Ribbon, Section, Series, Style, Table, Verdict};
use super::play::fragment;
use bbrlab_sim::record::result::{Expectation, FlowResult, RunResult};
use bbrlab_sim::record::trace::{FlowTrace, Trace};
use bbrlab_sim::setup::Setup;

/// Maximum flows with a line and a ribbon of their own. Ours: about the number that a reader can distinguish.
const FLOWS_SHOWN: usize = 8;
/// Maximum flows for which a panel shows two quantities each. Ours.
const FLOWS_PAIRED: usize = 2;
/// Approximate number of bins in a short run; long runs have bins of one second. Ours.
const BINS_MIN: u64 = 20;

/// Builds the report of one run; `setup` adds the path's capacity.
pub fn for_run(result: &RunResult, trace: &Trace, setup: Option<&Setup>, mut asked: Provenance) -> Report {
    let run = Run::new(result, trace, setup);
    let section = Section {
        id: "run".to_owned(),
        title: "Window, rates and results of each flow".to_owned(),
        figures: run.model().into_iter().collect(),
        runs_table: Some(flows_table(result)),
        ..Section::default()
    };
    asked.facts.splice(0..0, answer::facts(result));
    Report {
        title: run.title.clone(),
        subtitle: answer::answer(result),
        provenance: asked,
        numbers: answer::numbers(result),
        lead: run.overview().into_iter().collect(),
        claims: result.expect.iter().map(claim).collect(),
        sections: [Some(section), applications::section(result)].into_iter().flatten().collect(),
        ..Report::default()
    }
}

/// A run with the data shared by its figures.
struct Run<'a> {
    trace: &'a Trace,
    setup: Option<&'a Setup>,
    title: String,
    /// Sample times, seconds.
    t_s: Vec<f64>,
    /// Flows that are drawn: metrics, trace, colour key.
    flows: Vec<(&'a FlowResult, &'a FlowTrace, String)>,
    /// Metrics of all flows.
    results: &'a [FlowResult],
    /// Fragment of the playground's address for this run.
    play: String,
}

impl<'a> Run<'a> {
    fn new(result: &'a RunResult, trace: &'a Trace, setup: Option<&'a Setup>) -> Self {
        let flows = result.flows.iter().zip(&trace.flows).zip(color_keys(&result.flows));
        Self {
            trace,
            setup,
            title: title(result),
            t_s: trace.t_ns.iter().map(|&t_ns| seconds(t_ns)).collect(),
            flows: flows.take(FLOWS_SHOWN).map(|((result, trace), key)| (result, trace, key)).collect(),
            results: &result.flows,
            play: fragment(&result.scenario),
        }
    }

    /// States which flows are drawn, if not all are.
    fn shown(&self) -> String {
        match self.results.len() > self.flows.len() {
            true => format!(" Showing the first {} of {} flows.", self.flows.len(), self.results.len()),
            false => String::new(),
        }
    }

    /// Overview figure; `None` if the run recorded no series.
    fn overview(&self) -> Option<Figure> {
        (self.t_s.len() >= 2).then(|| Figure {
            id: "run-overview".to_owned(),
            title: "Goodput, delay and queue".to_owned(),
            how_to_read: format!(
                "Top: the goodput at each receiver. Below: the RTT, and the queue that causes the delay.{}",
                self.shown()
            ),
            x: self.time_axis(),
            panels: self.overview_panels(),
            ribbons: self.ribbons(),
            play: self.play.clone(),
            ..Figure::default()
        })
    }

    fn model(&self) -> Option<Figure> {
        (self.t_s.len() >= 2).then(|| Figure {
            id: "run-model".to_owned(),
            title: "Window, pacing rate and estimate".to_owned(),
            how_to_read: format!(
                "Data in flight against the window that limits it, and the pacing rate against the model's estimate.{}",
                self.shown()
            ),
            x: self.time_axis(),
            panels: self.model_panels(),
            ribbons: self.ribbons(),
            play: self.play.clone(),
            ..Figure::default()
        })
    }

    fn time_axis(&self) -> Axis {
        let end = self.t_s.last().copied();
        Axis { label: "Time".into(), unit: "s".into(), min: Some(0.0), max: end, ..Axis::default() }
    }

    fn overview_panels(&self) -> Vec<Panel> {
        let mut goodput: Vec<Series> = self
            .flows
            .iter()
            .map(|(flow, trace, key)| {
                let (x, y) = self.goodput_bps(flow, trace);
                series(&flow.name, Style::Step, x, y, key)
            })
            .collect();
        goodput.splice(0..0, self.fair_share());
        goodput.splice(0..0, self.capacity());
        let unit = scale_rates(&mut goodput);
        let rtt = self.flows.iter().map(|(flow, trace, key)| {
            let (x, y) = self.rtt_ms(trace);
            series(&flow.name, Style::Line, x, y, key)
        });
        let rtt = self.base_rtt().into_iter().chain(rtt).collect();
        let mut panels = vec![panel("Goodput", unit, Some(0.0), goodput), panel("RTT", "ms", None, rtt)];
        if !self.trace.probe.is_empty() {
            let (x, y) = self.trace.probe.iter().map(|&(t, us)| (seconds(t.as_nanos()), f64::from(us) / 1e3)).unzip();
            panels.push(panel("Probe's RTT", "ms", None, vec![series("probe", Style::Line, x, y, "probe")]));
        }
        let several = self.trace.links.len() > 1;
        let queue = self.trace.links.iter().enumerate().map(|(i, link)| {
            let name = if several { format!("bottleneck {}", i + 1) } else { "bottleneck".to_owned() };
            let y = link.queue_packets.iter().map(|&packets| f64::from(packets)).collect();
            series(&name, Style::Line, self.t_s.clone(), y, &format!("queue#{i}"))
        });
        let up = self.trace.up.iter().map(|link| {
            let y = link.queue_packets.iter().map(|&packets| f64::from(packets)).collect();
            series("up", Style::Line, self.t_s.clone(), y, "queue#up")
        });
        panels.push(panel("Queue", "packets", Some(0.0), self.buffer().into_iter().chain(queue).chain(up).collect()));
        panels
    }

    /// Goodput in bins, as a staircase that begins with the flow.
    fn goodput_bps(&self, flow: &FlowResult, trace: &FlowTrace) -> (Vec<f64>, Vec<f64>) {
        let end_ns = self.trace.t_ns.last().copied().unwrap_or(0);
        let grid_ns = self.trace.t_ns[1] - self.trace.t_ns[0];
        let bin_ns = bin_ns(end_ns).max(grid_ns).max(1);
        let at = |t_ns: u64| self.trace.t_ns.partition_point(|&t| t <= t_ns).saturating_sub(1);
        let (mut x, mut y) = (Vec::new(), Vec::new());
        let first_bin = (flow.start_s.max(0.0) * NANOS_PER_SEC as f64) as u64 / bin_ns;
        let (mut from_ns, mut last) = (first_bin * bin_ns, f64::NAN);
        while from_ns < end_ns {
            let to_ns = (from_ns + bin_ns).min(end_ns);
            let (a, b) = (at(from_ns), at(to_ns));
            let span_s = seconds(self.trace.t_ns[b] - self.trace.t_ns[a]);
            if span_s > 0.0 {
                let received = |i: usize| trace.received_bytes.get(i).copied().unwrap_or(0);
                let bytes = received(b).saturating_sub(received(a));
                last = bytes as f64 * 8.0 / span_s;
                x.push(seconds(from_ns));
                y.push(last);
            }
            from_ns = to_ns;
        }
        x.push(seconds(end_ns)); // gives the last bin its width
        y.push(last);
        (x, y)
    }

    fn rtt_ms(&self, trace: &FlowTrace) -> (Vec<f64>, Vec<f64>) {
        if trace.rtt_samples.is_empty() {
            return (self.t_s.clone(), trace.rtt_us.iter().map(|&us| known(f64::from(us) / 1e3)).collect());
        }
        trace.rtt_samples.iter().map(|&(t, us)| (seconds(t.as_nanos()), f64::from(us) / 1e3)).unzip()
    }

    fn model_panels(&self) -> Vec<Panel> {
        let windows = |f: fn(&FlowTrace) -> &Vec<u32>, what: &str, style| {
            self.per_flow(what, style, |trace| f(trace).iter().map(|&n| f64::from(n)).collect())
        };
        let rates = |f: fn(&FlowTrace) -> &Vec<u64>, what: &str, style| {
            self.per_flow(what, style, |trace| f(trace).iter().map(|&bps| known(bps as f64)).collect())
        };
        let inflight = windows(|t| &t.inflight, "in flight", Style::Line);
        let cwnd = windows(|t| &t.cwnd, "window", Style::Dashed);
        let bw = rates(|t| &t.bw_bps, "estimate", Style::Line);
        let pacing = rates(|t| &t.pacing_bps, "pacing", Style::Dashed);
        let paired = self.flows.len() <= FLOWS_PAIRED;
        let groups = match paired {
            true => vec![
                ("In flight and window", [cwnd, inflight].concat()),
                ("Estimate and pacing", [pacing, bw].concat()),
            ],
            false => vec![("In flight", inflight), ("Window", cwnd), ("Estimate", bw), ("Pacing rate", pacing)],
        };
        let mut panels = Vec::new();
        for (i, (label, mut lines)) in groups.into_iter().enumerate() {
            let is_window = if paired { i == 0 } else { i < 2 };
            lines.retain(|line| line.y.iter().any(|y| y.is_finite()));
            if !paired {
                lines.iter_mut().for_each(|line| line.style = Style::Line);
            }
            if lines.is_empty() {
                continue;
            }
            lines.splice(0..0, if is_window { self.bdp().into_iter().collect() } else { self.link_rate() });
            let unit = if is_window { "segments" } else { scale_rates(&mut lines) };
            panels.push(panel(label, unit, Some(0.0), lines));
        }
        panels
    }

    fn per_flow(&self, what: &str, style: Style, column: impl Fn(&FlowTrace) -> Vec<f64>) -> Vec<Series> {
        let paired = self.flows.len() <= FLOWS_PAIRED;
        let line = |(flow, trace, key): &(&FlowResult, &FlowTrace, String)| {
            let name = if paired { format!("{} {what}", flow.name) } else { flow.name.clone() };
            let y: Vec<f64> = column(trace)
                .into_iter()
                .zip(&self.t_s)
                .map(|(y, &t)| if t < flow.start_s { f64::NAN } else { y })
                .collect();
            series(&name, style, self.t_s.clone(), y, key)
        };
        self.flows.iter().map(line).collect()
    }

    fn ribbons(&self) -> Vec<Ribbon> {
        let end = Time::nanos(self.trace.t_ns.last().copied().unwrap_or(0));
        let with_states = self.flows.iter().filter(|(_, trace, _)| !trace.states.is_empty());
        let ribbon = |(flow, trace, _): &(&FlowResult, &FlowTrace, String)| {
            let ends = trace.states.iter().skip(1).map(|&(t, _)| t).chain([end]);
            let spans = trace.states.iter().zip(ends);
            let spans = spans.map(|(&(from, state), to)| {
                (seconds(from.as_nanos()), seconds(to.as_nanos()), state.name().to_owned())
            });
            Ribbon { name: flow.name.clone(), spans: spans.collect() }
        };
        with_states.map(ribbon).collect()
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / NANOS_PER_SEC as f64
}

/// Replaces 0, the trace's mark for an unknown value, with a gap.
fn known(value: f64) -> f64 {
    if value > 0.0 { value } else { f64::NAN }
}

/// Bin width: one second, or the round length that divides a short run into at least [`BINS_MIN`] bins.
fn bin_ns(duration_ns: u64) -> u64 {
    let bins = [1_000_000_000, 500_000_000, 200_000_000, 100_000_000, 50_000_000, 20_000_000, 10_000_000];
    bins.into_iter().find(|bin| duration_ns / bin >= BINS_MIN).unwrap_or(10_000_000)
}

fn series(name: &str, style: Style, x: Vec<f64>, y: Vec<f64>, key: &str) -> Series {
    Series { name: name.to_owned(), style, x, y, color_key: Some(key.to_owned()), ..Series::default() }
}

fn panel(label: &str, unit: &str, min: Option<f64>, series: Vec<Series>) -> Panel {
    Panel { y: Axis { label: label.into(), unit: unit.into(), min, ..Axis::default() }, series }
}

/// Scales rates from bit/s to a unit that suits the largest of them, and returns the unit.
fn scale_rates(series: &mut [Series]) -> &'static str {
    let largest = series.iter().flat_map(|s| &s.y).filter(|y| y.is_finite()).fold(0.0_f64, |a, &b| a.max(b));
    let (unit, scale) = rate_unit(largest);
    series.iter_mut().flat_map(|s| &mut s.y).for_each(|y| *y /= scale);
    unit
}

/// Colour keys: the algorithm's name, with the flow's number if it has more than one flow.
fn color_keys(flows: &[FlowResult]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut keys = Vec::new();
    for flow in flows {
        let count = counts.entry(&flow.cc).or_default();
        let alone = flows.iter().filter(|other| other.cc == flow.cc).count() == 1;
        keys.push(if alone { flow.cc.clone() } else { format!("{}#{count}", flow.cc) });
        *count += 1;
    }
    keys
}

fn title(result: &RunResult) -> String {
    let named = ["title", "name"].iter().find_map(|key| result.scenario.get(key)?.as_str());
    let groups = || result.groups.iter().filter(|group| group.flows > 0).map(answer::group_name).collect::<Vec<_>>();
    named.filter(|name| !name.is_empty()).map_or_else(|| groups().join(" beside "), str::to_owned)
}

fn claim(expect: &Expectation) -> ClaimRow {
    ClaimRow {
        id: expect.id.clone(),
        title: String::new(),
        source: String::new(),
        claim: String::new(),
        contradiction: None,
        what: expect.what.clone(),
        expected: expect.expected.clone(),
        measured: number(expect.measured),
        verdict: if expect.holds { Verdict::Holds } else { Verdict::Fails },
        reason: None,
    }
}

/// Formats four significant digits, without trailing zeros.
fn number(value: f64) -> String {
    rounded(value, 4)
}

/// Formats four significant digits; a dash for a missing value.
fn known_number(value: f64) -> String {
    or_dash(value, number)
}

fn flows_table(result: &RunResult) -> Table {
    let columns = [
        "Flow",
        "Algorithm",
        "Start, s",
        "Goodput, Mbit/s",
        "RTT median, ms",
        "RTT 95 %, ms",
        "Retransmitted, %",
        "Dropped, %",
        "Time-outs",
        "Volume, MB",
        "Completion, s",
    ];
    let row = |flow: &FlowResult| {
        vec![
            flow.name.clone(),
            flow.cc.clone(),
            number(flow.start_s),
            number(flow.goodput_bps / 1e6),
            known_number(flow.rtt(|rtt| rtt.p50)),
            known_number(flow.rtt(|rtt| rtt.p95)),
            number(flow.retransmit_ratio * 100.0),
            flow.drop_ratio.map_or("–".to_owned(), |ratio| number(ratio * 100.0)),
            flow.rto.to_string(),
            number(flow.bytes as f64 / 1e6),
            flow.fct_s.map_or("–".to_owned(), number),
        ]
    };
    Table { columns: columns.map(str::to_owned).to_vec(), rows: result.flows.iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use bbrlab_core::State;

    use super::*;
    use bbrlab_sim::record::result::{Bottleneck, Distribution, Group, Model, SCHEMA};
    use bbrlab_sim::record::trace::LinkTrace;

    fn flow(name: &str, cc: &str) -> FlowResult {
        FlowResult {
            name: name.into(),
            cc: cc.into(),
            start_s: 0.0,
            goodput_bps: 8e6,
            throughput_bps: 8e6,
            rtt_ms: None,
            jitter_ms: 0.0,
            jitter_rfc3550_ms: 0.0,
            retransmit_ratio: 0.0,
            drop_ratio: Some(0.0),
            rto: 0,
            spurious_retransmits: 0,
            bytes: 1,
            fct_s: None,
            call: None,
            video: None,
            page: None,
            requests: None,
            state_s: BTreeMap::new(),
            model: Model::default(),
        }
    }

    fn result(flows: Vec<FlowResult>) -> RunResult {
        let queue_ms = Distribution::default();
        RunResult {
            schema: SCHEMA,
            scenario: serde_json::json!({ "rate": "10mbit" }),
            on: "sim".into(),
            seed: 1,
            version: "0".into(),
            wall_s: 0.5,
            events: 1,
            packets: 1,
            bottleneck: Bottleneck { utilisation: 1.0, arrivals: 1, drops: 0, drop_ratio: 0.0, marks: 0, queue_ms },
            interval_s: [0.0, 20.0],
            jain: 1.0,
            convergence_s: None,
            groups: vec![Group { cc: "bbr1".into(), flows: flows.len(), goodput_bps: 8e6, share: 1.0 }],
            flows,
            expect: vec![Expectation {
                id: "e".into(),
                what: "w".into(),
                expected: "> 1".into(),
                measured: 0.123456,
                holds: false,
            }],
            up: None,
            probe: None,
            provenance: None,
        }
    }

    fn page(result: &RunResult, trace: &Trace) -> Report {
        for_run(result, trace, None, Provenance::default())
    }

    /// 20 s at 8 Mbit/s of payload on a grid of 10 ms.
    fn trace(flows: usize) -> Trace {
        let steps = 2001_u32;
        let column = vec![10; steps as usize];
        let flow = FlowTrace {
            cwnd: column.clone(),
            inflight: column.clone(),
            pacing_bps: vec![0; steps as usize],
            bw_bps: vec![8_000_000; steps as usize],
            rtt_us: (0..steps).map(|i| if i == 0 { 0 } else { 40_000 }).collect(),
            received_bytes: (0..steps).map(|i| u64::from(i) * 10_000).collect(),
            states: vec![(Time::nanos(0), State::Startup), (Time::nanos(500_000_000), State::Drain)],
            ..FlowTrace::default()
        };
        let link = LinkTrace { queue_packets: column, ..LinkTrace::default() };
        let t_ns = (0..steps).map(|i| u64::from(i) * 10_000_000).collect();
        Trace { t_ns, flows: vec![flow; flows], links: vec![link], up: None, probe: Vec::new() }
    }

    #[test]
    fn goodput_is_the_payload_of_each_second_in_the_unit_of_its_size() {
        let report = page(&result(vec![flow("a", "bbr1")]), &trace(1));
        let goodput = &report.lead[0].panels[0];
        assert_eq!(goodput.y.unit, "Mbit/s");
        assert_eq!(goodput.series[0].x.len(), 21); // one per second, and the end
        assert!(goodput.series[0].y.iter().all(|y| (y - 8.0).abs() < 1e-9));
    }

    #[test]
    fn each_figure_of_a_run_links_to_the_playground_unless_a_browser_cannot_run_it() {
        let mut run = result(vec![flow("a", "bbr1")]);
        let links = |run: &RunResult| crate::render(&page(run, &trace(1))).matches("/#json=%7B%22rate%22:%22").count();
        assert_eq!(links(&run), 2);
        run.scenario["on"] = "uml".into();
        assert_eq!(links(&run), 0);
    }

    #[test]
    fn a_state_lasts_until_the_next_and_the_last_until_the_end() {
        let report = page(&result(vec![flow("a", "bbr1")]), &trace(1));
        let spans = &report.lead[0].ribbons[0].spans;
        assert_eq!(*spans, [(0.0, 0.5, "startup".to_owned()), (0.5, 20.0, "drain".to_owned())]);
    }

    #[test]
    fn a_missing_value_is_a_gap_and_a_series_without_values_is_not_drawn() {
        let report = page(&result(vec![flow("a", "bbr1")]), &trace(1));
        assert!(report.lead[0].panels[1].series[0].y[0].is_nan());
        assert_eq!(report.sections[0].figures[0].panels[1].series.len(), 1); // no pacing rate
    }

    #[test]
    fn of_very_many_flows_the_first_eight_are_drawn_and_the_page_says_so() {
        let flows = (0..30).map(|i| flow(&format!("bbr1#{i}"), "bbr1")).collect();
        let figure = &page(&result(flows), &trace(30)).lead[0];
        assert_eq!((figure.panels[0].series.len(), figure.ribbons.len()), (8, 8));
        assert!(figure.how_to_read.contains("first 8 of 30"));
    }

    #[test]
    fn an_expectation_that_does_not_hold_is_a_claim_that_fails() {
        let claims = page(&result(vec![flow("a", "bbr1")]), &trace(1)).claims;
        assert_eq!((claims[0].verdict, claims[0].measured.as_str()), (Verdict::Fails, "0.1235"));
    }

    #[test]
    fn flows_of_one_algorithm_share_its_colour_by_number() {
        let flows = [flow("a", "bbr1"), flow("b", "cubic"), flow("c", "bbr1")];
        assert_eq!(color_keys(&flows), ["bbr1#0", "cubic", "bbr1#1"]);
    }

    #[test]
    fn the_wall_clock_does_not_reach_the_report() {
        let (mut slow, trace) = (result(vec![flow("a", "bbr1")]), trace(1));
        let quick = crate::render(&page(&slow, &trace));
        slow.wall_s = 99.0;
        assert!(crate::render(&page(&slow, &trace)) == quick); // not assert_eq: a page is long
    }

    #[test]
    fn several_runs_are_shown_by_their_medians_with_intervals_and_each_by_its_seed() {
        let runs: Vec<RunResult> = [(1, 7e6), (2, 8e6), (3, 9e6)]
            .map(|(seed, bps)| {
                let mut run = result(vec![flow("a", "bbr1")]);
                (run.seed, run.flows[0].goodput_bps, run.groups[0].goodput_bps) = (seed, bps, bps);
                run
            })
            .to_vec();
        let values: Vec<_> = runs.iter().map(|run| serde_json::to_value(run).unwrap()).collect();
        let summary = bbrlab_stats::summarise(&values, 1);
        let all: Vec<&RunResult> = runs.iter().collect();
        let report = for_runs(&all, &summary, &[], (&trace(1), None), Provenance::default());
        assert!(
            report.provenance.facts.contains(&("seeds".to_owned(), "1 to 3".to_owned())),
            "{:?}",
            report.provenance.facts
        );
        assert_eq!(report.numbers[0].value, "8 Mbit/s");
        assert_eq!(report.numbers[0].note, "95 % interval 7 … 9");
        let points = &report.lead[0].panels[0].series[0];
        assert_eq!((points.x.as_slice(), points.y.as_slice()), (&[1.0, 2.0, 3.0][..], &[7.0, 8.0, 9.0][..]));
        assert_eq!(report.sections[0].runs_table.as_ref().unwrap().rows[0][2], "8 (7 … 9)");
        assert_eq!(report.sections[1].runs_table.as_ref().unwrap().rows.len(), 3);
        assert_eq!(report.lead[1].title, "Goodput, delay and queue of seed 1");
    }

    #[test]
    fn a_run_without_series_still_has_its_table() {
        let report = page(&result(vec![flow("a", "bbr1")]), &Trace::default());
        assert!(
            report.lead.is_empty() && report.sections[0].figures.is_empty() && report.sections[0].runs_table.is_some()
        );
    }
}
