//! Vocabulary of measures: the functions of a run, a flow, a group, a link and a curve. `experiments/README.md` lists
//! it for authors of experiments.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use rhai::{Dynamic, Engine, EvalAltResult};

use super::engine::{fail, flow_of, number};
use super::flow::{FlowView, GroupView, LinkView, probe_rtt_scatter_s};
use super::run::RunView;
use super::{Curve, objective, population, series};
use crate::{Error, Result};
use bbrlab_sim::record::result::{Distribution, FlowResult, ProbeResult, UpLink, VideoResult};
use bbrlab_stats::known_mean;
use bbrlab_stats::quantile::interpolated_percentile;

/// Result of a measure, for the engine.
type MeasureResult = Result<f64, Box<EvalAltResult>>;

/// Counts values beyond a level.
type Count = fn(&[f64], f64) -> f64;

/// Registers every measure.
pub(super) fn measures(engine: &mut Engine) {
    parts_of_a_run(engine);
    run_figures(engine);
    run_windows(engine);
    flow_figures(engine);
    flow_windows(engine);
    flow_states(engine);
    groups(engine);
    columns_of::<FlowView>(engine);
    columns_of::<LinkView>(engine);
    curves(engine);
    curve_operations(engine);
    population::measures(engine);
}

/// Converts two numbers, for windows.
fn pair(from: &Dynamic, to: &Dynamic) -> Result<(f64, f64), Box<EvalAltResult>> {
    let (from, to) = (number(from)?, number(to)?);
    if from < to { Ok((from, to)) } else { Err(fail(Error::EmptyWindow { from, to })) }
}

/// Converts the number of a percentile. Refuses fractions of one, as in 0.95 for the 95th.
fn percentage(q: &Dynamic) -> MeasureResult {
    let q = number(q)?;
    if q == 0.0 || (1.0..=100.0).contains(&q) { Ok(q) } else { Err(fail(Error::Percentile { q })) }
}

fn parts_of_a_run(engine: &mut Engine) {
    engine
        .register_type_with_name::<RunView>("Run")
        .register_fn("name", |run: &mut RunView| run.name.to_string())
        .register_fn("flow", |run: &mut RunView, index: i64| flow_of(run, index))
        .register_fn("group", |run: &mut RunView, who: &str| {
            run.select(who).map(|flows| GroupView { run: run.clone(), flows }).map_err(fail)
        })
        .register_fn("named", |run: &mut RunView, begin: &str| {
            run.named(begin).map(|flows| GroupView { run: run.clone(), flows }).map_err(fail)
        })
        .register_fn("all", |run: &mut RunView| {
            run.select("").map(|flows| GroupView { run: run.clone(), flows }).map_err(fail)
        })
        .register_fn("link", |run: &mut RunView, index: i64| {
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            LinkView { run: run.clone(), index }
        })
        .register_fn("bottleneck", |run: &mut RunView| LinkView { run: run.clone(), index: run.setup.bottleneck });
}

/// A figure of the run's probe; NaN without one.
fn probe(run: &RunView, figure: impl Fn(&ProbeResult) -> Option<f64>) -> f64 {
    run.output.result.probe.as_deref().and_then(figure).unwrap_or(f64::NAN)
}

fn probe_ms(run: &RunView, figure: impl Fn(&Distribution) -> f64) -> f64 {
    probe(run, |probe| probe.rtt_ms.as_ref().map(&figure))
}

fn up(run: &RunView, figure: impl Fn(&UpLink) -> f64) -> f64 {
    run.output.result.up.as_deref().map_or(f64::NAN, figure)
}

fn run_figures(engine: &mut Engine) {
    engine
        .register_fn("goodput_mbps", |run: &mut RunView| run.output.result.total_goodput_bps() / 1e6)
        .register_fn("jain", |run: &mut RunView| run.output.result.jain)
        .register_fn("convergence_s", |run: &mut RunView| run.output.result.convergence_s.unwrap_or(f64::NAN))
        .register_fn("drop_ratio", |run: &mut RunView| run.output.result.bottleneck.drop_ratio)
        .register_fn("drops", |run: &mut RunView| run.output.result.bottleneck.drops as f64)
        .register_fn("arrivals", |run: &mut RunView| run.output.result.bottleneck.arrivals as f64)
        .register_fn("packets", |run: &mut RunView| run.output.result.packets as f64)
        .register_fn("utilisation", |run: &mut RunView| run.output.result.bottleneck.utilisation)
        .register_fn("queue_mean_ms", |run: &mut RunView| run.output.result.bottleneck.queue_ms.mean)
        .register_fn("queue_p50_ms", |run: &mut RunView| run.output.result.bottleneck.queue_ms.p50)
        .register_fn("queue_p95_ms", |run: &mut RunView| run.output.result.bottleneck.queue_ms.p95)
        .register_fn("queue_p99_ms", |run: &mut RunView| run.output.result.bottleneck.queue_ms.p99)
        .register_fn("queue_max_ms", |run: &mut RunView| run.output.result.bottleneck.queue_ms.max)
        .register_fn("probe_p50_ms", |run: &mut RunView| probe_ms(run, |rtt| rtt.p50))
        .register_fn("probe_p95_ms", |run: &mut RunView| probe_ms(run, |rtt| rtt.p95))
        .register_fn("probe_p99_ms", |run: &mut RunView| probe_ms(run, |rtt| rtt.p99))
        .register_fn("probe_loss_ratio", |run: &mut RunView| probe(run, |probe| Some(probe.loss_ratio)))
        .register_fn("rpm", |run: &mut RunView| probe(run, |probe| Some(probe.rpm.as_ref()?.rpm)))
        .register_fn("up_utilisation", |run: &mut RunView| up(run, |link| link.utilisation))
        .register_fn("up_drop_ratio", |run: &mut RunView| up(run, |link| link.drop_ratio))
        .register_fn("up_queue_p50_ms", |run: &mut RunView| up(run, |link| link.queue_ms.p50))
        .register_fn("up_queue_p95_ms", |run: &mut RunView| up(run, |link| link.queue_ms.p95))
        .register_fn("rate_mbps", |run: &mut RunView| run.rate_mbps())
        .register_fn("rtprop_ms", |run: &mut RunView| run.rtprop_ms())
        .register_fn("bdp_bytes", |run: &mut RunView| run.bdp_bytes())
        .register_fn("duration_s", |run: &mut RunView| run.duration_s())
        .register_fn("capacity_mbps", |run: &mut RunView| objective::capacity_bps(&run.setup) / 1e6)
        .register_fn("score", |run: &mut RunView, name: &str| objective::score(run, name).map_err(fail))
        .register_fn("share", |run: &mut RunView, who: &str| share(run, who));
}

/// Share of the bytes of a class in the bytes of all flows.
fn share(run: &RunView, who: &str) -> MeasureResult {
    let class = run.select(who).map_err(fail)?;
    let all = run.select("").map_err(fail)?;
    Ok(run.goodput_mbps(&class) / run.goodput_mbps(&all))
}

fn share_between(run: &RunView, flows: &[usize], from_s: f64, to_s: f64) -> Result<f64> {
    let all = run.select("")?;
    Ok(run.goodput_mbps_between(flows, from_s, to_s)? / run.goodput_mbps_between(&all, from_s, to_s)?)
}

fn run_windows(engine: &mut Engine) {
    /// Registers a measure of a run over a window.
    fn windowed(engine: &mut Engine, name: &str, measure: fn(&RunView, f64, f64) -> Result<f64>) {
        engine.register_fn(name, move |run: &mut RunView, from: Dynamic, to: Dynamic| -> MeasureResult {
            let (from_s, to_s) = pair(&from, &to)?;
            measure(run, from_s, to_s).map_err(fail)
        });
    }
    windowed(engine, "goodput_mbps", |run, from, to| run.goodput_mbps_between(&run.select("")?, from, to));
    windowed(engine, "jain", |run, from, to| Ok(known_mean(&run.jain_bins(from, to, false)?)));
    windowed(engine, "jain_excluding_probe_rtt", |run, from, to| Ok(known_mean(&run.jain_bins(from, to, true)?)));
    windowed(engine, "drop_ratio", RunView::drop_ratio);
    windowed(engine, "retransmit_ratio", |run, from, to| run.retransmit_ratio(&run.select("")?, from, to));
    windowed(engine, "utilisation", RunView::utilisation);
    windowed(engine, "queue_bdp", RunView::queue_bdp);
    engine.register_fn("convergence_s", |run: &mut RunView, bin: Dynamic| -> MeasureResult {
        run.convergence_in_bins_s(number(&bin)?).map_err(fail)
    });
    windowed(engine, "probe_rtt_scatter_s", |run, from, to| probe_rtt_scatter_s(run, &run.select("")?, from, to));
    engine.register_fn("share", |run: &mut RunView, who: &str, from: Dynamic, to: Dynamic| -> MeasureResult {
        let (from_s, to_s) = pair(&from, &to)?;
        let flows = run.select(who).map_err(fail)?;
        share_between(run, &flows, from_s, to_s).map_err(fail)
    });
}

fn flow_figures(engine: &mut Engine) {
    /// Registers a metric of a flow over the whole run.
    fn figure(engine: &mut Engine, name: &str, pick: impl Fn(&FlowResult) -> f64 + Send + Sync + Copy + 'static) {
        engine.register_fn(name, move |flow: &mut FlowView| -> MeasureResult { flow.result().map(pick).map_err(fail) });
    }
    engine.register_type_with_name::<FlowView>("Flow");
    figure(engine, "goodput_mbps", |f| f.goodput_bps / 1e6);
    figure(engine, "throughput_mbps", |f| f.throughput_bps / 1e6);
    figure(engine, "rtt_min_ms", |f| f.rtt(|rtt| rtt.min.unwrap_or(f64::NAN)));
    figure(engine, "rtt_mean_ms", |f| f.rtt(|rtt| rtt.mean));
    figure(engine, "rtt_p50_ms", |f| f.rtt(|rtt| rtt.p50));
    figure(engine, "rtt_p95_ms", |f| f.rtt(|rtt| rtt.p95));
    figure(engine, "rtt_p99_ms", |f| f.rtt(|rtt| rtt.p99));
    figure(engine, "rtt_max_ms", |f| f.rtt(|rtt| rtt.max));
    figure(engine, "jitter_ms", |f| f.jitter_ms);
    figure(engine, "retransmit_ratio", |f| f.retransmit_ratio);
    figure(engine, "drop_ratio", |f| f.drop_ratio.unwrap_or(f64::NAN));
    figure(engine, "fct_s", |f| f.fct_s.unwrap_or(f64::NAN));
    let video = |f: &FlowResult, pick: fn(&VideoResult) -> f64| f.video.as_deref().map_or(f64::NAN, pick);
    figure(engine, "startup_s", move |f| video(f, |video| video.startup_s.unwrap_or(f64::NAN)));
    figure(engine, "stalls", move |f| video(f, |video| video.stalls as f64));
    figure(engine, "stalled_s", move |f| video(f, |video| video.stalled_s));
    figure(engine, "played_s", move |f| video(f, |video| video.played_s));
    figure(engine, "bitrate_mbps", move |f| video(f, |video| video.bitrate_bps / 1e6));
    figure(engine, "switches", move |f| video(f, |video| video.switches as f64));
    figure(engine, "qoe", move |f| video(f, |video| video.qoe));
    figure(engine, "latency_s", move |f| video(f, |video| video.latency_s.unwrap_or(f64::NAN)));
    let page_s = |f: &FlowResult, pick: fn(&Distribution) -> f64| {
        f.page.as_ref().and_then(|page| page.load_ms.as_ref()).map_or(f64::NAN, |load| pick(load) / 1e3)
    };
    figure(engine, "page_load_p50_s", move |f| page_s(f, |load| load.p50));
    figure(engine, "page_load_p95_s", move |f| page_s(f, |load| load.p95));
    figure(engine, "late_ratio", |f| {
        let requests = || f.requests.as_ref().map(|requests| requests.late_ratio);
        f.call.as_ref().map(|call| call.late_ratio).or_else(requests).unwrap_or(f64::NAN)
    });
    figure(engine, "mos", |f| f.call.as_ref().map_or(f64::NAN, |call| call.mos));
    figure(engine, "rto", |f| f.rto as f64);
    figure(engine, "spurious_retransmits", |f| f.spurious_retransmits as f64);
    figure(engine, "bytes", |f| f.bytes as f64);
    figure(engine, "model_bw_mbps", |f| f.model.bw_bps / 1e6);
    figure(engine, "model_min_rtt_ms", |f| f.model.min_rtt_ms.unwrap_or(f64::NAN));
}

fn flow_windows(engine: &mut Engine) {
    engine
        .register_fn("goodput_mbps", |flow: &mut FlowView, from: Dynamic, to: Dynamic| -> MeasureResult {
            let (from_s, to_s) = pair(&from, &to)?;
            flow.run.goodput_mbps_between(&[flow.index], from_s, to_s).map_err(fail)
        })
        .register_fn("retransmit_ratio", |flow: &mut FlowView, from: Dynamic, to: Dynamic| -> MeasureResult {
            let (from_s, to_s) = pair(&from, &to)?;
            flow.run.retransmit_ratio(&[flow.index], from_s, to_s).map_err(fail)
        })
        .register_fn("rtt_percentile", |flow: &mut FlowView, q: Dynamic, from: Dynamic, to: Dynamic| -> MeasureResult {
            percentile(flow, "rtt_ms", &q, &from, &to)
        })
        .register_fn("first_loss_s", |flow: &mut FlowView| -> MeasureResult { flow.first_loss_s().map_err(fail) });
}

fn flow_states(engine: &mut Engine) {
    engine
        .register_fn("state_first_s", |flow: &mut FlowView, state: &str| -> MeasureResult {
            flow.state_start_s(state, 0).map_err(fail)
        })
        .register_fn("state_start_s", |flow: &mut FlowView, state: &str, which: i64| -> MeasureResult {
            flow.state_start_s(state, usize::try_from(which).unwrap_or(usize::MAX)).map_err(fail)
        })
        .register_fn("state_end_s", |flow: &mut FlowView, state: &str, which: i64| -> MeasureResult {
            flow.state_end_s(state, usize::try_from(which).unwrap_or(usize::MAX)).map_err(fail)
        })
        .register_fn("stay_after", |flow: &mut FlowView, state: &str, before: &str, which: i64| {
            let which = usize::try_from(which).unwrap_or(usize::MAX);
            flow.stay_after(state, before, which).map(|stay| stay as i64).map_err(fail)
        })
        .register_fn("stay_before", |flow: &mut FlowView, state: &str, after: &str, which: i64| {
            let which = usize::try_from(which).unwrap_or(usize::MAX);
            flow.stay_before(state, after, which).map(|stay| stay as i64).map_err(fail)
        })
        .register_fn("rounds_in", |flow: &mut FlowView, state: &str, from: Dynamic, to: Dynamic| -> MeasureResult {
            flow.rounds_in(state, number(&from)?, number(&to)?).map_err(fail)
        })
        .register_fn("state_before", |flow: &mut FlowView, state: &str, which: i64| {
            let which = usize::try_from(which).unwrap_or(usize::MAX);
            flow.neighbour(state, which, false).map(str::to_owned).map_err(fail)
        })
        .register_fn("state_after", |flow: &mut FlowView, state: &str, which: i64| {
            let which = usize::try_from(which).unwrap_or(usize::MAX);
            flow.neighbour(state, which, true).map(str::to_owned).map_err(fail)
        })
        .register_fn("stray_transitions", |flow: &mut FlowView| flow.stray_transitions())
        .register_fn("grown", |flow: &mut FlowView, column: &str, from: Dynamic, to: Dynamic| -> MeasureResult {
            let values = flow.column(column).map_err(fail)?;
            Ok(series::growth(&flow.run.t_s, &values, number(&from)?, number(&to)?))
        })
        .register_fn("state_last_s", |flow: &mut FlowView, state: &str| -> MeasureResult {
            flow.state_last_s(state).map_err(fail)
        })
        .register_fn("state_time_s", |flow: &mut FlowView, state: &str| -> MeasureResult {
            flow.state_time_s(state, 0.0, flow.run.duration_s()).map_err(fail)
        });
    /// Registers a measure of a state over a window.
    fn windowed(engine: &mut Engine, name: &str, measure: fn(&FlowView, &str, f64, f64) -> Result<f64>) {
        engine.register_fn(
            name,
            move |flow: &mut FlowView, state: &str, from: Dynamic, to: Dynamic| -> MeasureResult {
                let (from_s, to_s) = pair(&from, &to)?;
                measure(flow, state, from_s, to_s).map_err(fail)
            },
        );
    }
    windowed(engine, "state_time_s", FlowView::state_time_s);
    windowed(engine, "state_count", FlowView::state_count);
    windowed(engine, "state_period_s", FlowView::state_period_s);
}

fn groups(engine: &mut Engine) {
    engine
        .register_type_with_name::<GroupView>("Group")
        .register_fn("flows", |group: &mut GroupView| group.flows.len() as f64)
        .register_fn("goodput_mbps", |group: &mut GroupView| group.run.goodput_mbps(&group.flows))
        .register_fn("share", |group: &mut GroupView| -> MeasureResult {
            let all = group.run.select("").map_err(fail)?;
            Ok(group.run.goodput_mbps(&group.flows) / group.run.goodput_mbps(&all))
        })
        .register_fn("fct_percentile_s", |group: &mut GroupView, q: Dynamic| -> MeasureResult {
            let flows = &group.run.output.result.flows;
            let fcts: Vec<f64> = group.flows.iter().filter_map(|i| flows.get(*i)?.fct_s).collect();
            Ok(interpolated_percentile(&fcts, percentage(&q)?))
        })
        .register_fn(
            "percentile",
            |group: &mut GroupView, name: &str, q: Dynamic, from: Dynamic, to: Dynamic| -> MeasureResult {
                let (from_s, to_s) = pair(&from, &to)?;
                let pooled = pooled(group, name, from_s, to_s).map_err(fail)?;
                Ok(interpolated_percentile(&pooled, percentage(&q)?))
            },
        );
    /// Registers the mean of a metric over a group's flows.
    fn mean_of(engine: &mut Engine, name: &str, pick: fn(&bbrlab_sim::record::result::FlowResult) -> f64) {
        engine.register_fn(name, move |group: &mut GroupView| -> f64 {
            let flows = &group.run.output.result.flows;
            known_mean(&group.flows.iter().filter_map(|i| flows.get(*i).map(pick)).collect::<Vec<_>>())
        });
    }
    mean_of(engine, "rtt_mean_ms", |f| f.rtt(|rtt| rtt.mean));
    mean_of(engine, "rtt_p50_ms", |f| f.rtt(|rtt| rtt.p50));
    mean_of(engine, "jitter_ms", |f| f.jitter_ms);
    /// Registers a measure of a group over a window.
    fn windowed(engine: &mut Engine, name: &str, measure: fn(&GroupView, f64, f64) -> Result<f64>) {
        engine.register_fn(name, move |group: &mut GroupView, from: Dynamic, to: Dynamic| -> MeasureResult {
            let (from_s, to_s) = pair(&from, &to)?;
            measure(group, from_s, to_s).map_err(fail)
        });
    }
    windowed(engine, "goodput_mbps", |g, from, to| g.run.goodput_mbps_between(&g.flows, from, to));
    windowed(engine, "share", |g, from, to| share_between(&g.run, &g.flows, from, to));
    windowed(engine, "retransmit_ratio", |g, from, to| g.run.retransmit_ratio(&g.flows, from, to));
    windowed(engine, "probe_rtt_scatter_s", |g, from, to| probe_rtt_scatter_s(&g.run, &g.flows, from, to));
}

/// Concatenates a column over all flows of a group.
fn pooled(group: &GroupView, name: &str, from_s: f64, to_s: f64) -> Result<Vec<f64>> {
    let mut pooled = Vec::new();
    for flow in &group.flows {
        let column = group.run.flow_column(*flow, name)?;
        pooled.extend_from_slice(&column[series::window(&group.run.t_s, from_s, to_s)]);
    }
    Ok(pooled)
}

/// Objects with columns on the run's time grid.
trait Columns: Clone + Send + Sync + 'static {
    fn run(&self) -> &RunView;
    fn read(&self, name: &str) -> Result<Vec<f64>>;
}

impl Columns for FlowView {
    fn run(&self) -> &RunView {
        &self.run
    }
    fn read(&self, name: &str) -> Result<Vec<f64>> {
        self.column(name)
    }
}

impl Columns for LinkView {
    fn run(&self) -> &RunView {
        &self.run
    }
    fn read(&self, name: &str) -> Result<Vec<f64>> {
        self.run.link_column(self.index, name)
    }
}

fn percentile<T: Columns>(of: &T, name: &str, q: &Dynamic, from: &Dynamic, to: &Dynamic) -> MeasureResult {
    let (from_s, to_s) = pair(from, to)?;
    let column = of.read(name).map_err(fail)?;
    Ok(interpolated_percentile(&column[series::window(&of.run().t_s, from_s, to_s)], percentage(q)?))
}

/// Registers the functions that apply to any column.
fn columns_of<T: Columns>(engine: &mut Engine) {
    for (name, figure) in [("min", series::min as fn(&[f64]) -> f64), ("max", series::max), ("mean", known_mean)] {
        engine.register_fn(name, move |of: &mut T, column: &str, from: Dynamic, to: Dynamic| -> MeasureResult {
            let (from_s, to_s) = pair(&from, &to)?;
            let values = of.read(column).map_err(fail)?;
            Ok(figure(&values[series::window(&of.run().t_s, from_s, to_s)]))
        });
    }
    for (name, find) in [
        ("first_above", series::first_above as fn(&[f64], &[f64], f64, f64) -> f64),
        ("first_below", series::first_below),
    ] {
        engine.register_fn(name, move |of: &mut T, column: &str, level: Dynamic, after: Dynamic| -> MeasureResult {
            Ok(find(&of.run().t_s, &of.read(column).map_err(fail)?, number(&level)?, number(&after)?))
        });
    }
    engine
        .register_fn(
            "percentile",
            |of: &mut T, column: &str, q: Dynamic, from: Dynamic, to: Dynamic| -> MeasureResult {
                percentile(of, column, &q, &from, &to)
            },
        )
        .register_fn("at", |of: &mut T, column: &str, moment: Dynamic| -> MeasureResult {
            Ok(series::at(&of.run().t_s, &of.read(column).map_err(fail)?, number(&moment)?))
        });
    for (name, count) in [("count_above", series::count_above as Count), ("count_below", series::count_below)] {
        engine.register_fn(
            name,
            move |of: &mut T, column: &str, level: Dynamic, from: Dynamic, to: Dynamic| -> MeasureResult {
                let values = of.read(column).map_err(fail)?;
                let window = series::window(&of.run().t_s, number(&from)?, number(&to)?);
                Ok(count(&values[window], number(&level)?))
            },
        );
    }
    engine.register_fn("before", |of: &mut T, column: &str, moment: Dynamic| -> MeasureResult {
        Ok(series::before(&of.run().t_s, &of.read(column).map_err(fail)?, number(&moment)?))
    });
    type Span = fn(&[f64], &[f64], f64, f64, f64) -> f64;
    for (name, find) in [
        ("longest_above_s", (|t, y, level, from, to| series::longest_above(t, y, level, from, to).1) as Span),
        ("longest_above_start_s", |t, y, level, from, to| series::longest_above(t, y, level, from, to).0),
        ("last_above", series::last_above),
    ] {
        engine.register_fn(
            name,
            move |of: &mut T, column: &str, level: Dynamic, from: Dynamic, to: Dynamic| -> MeasureResult {
                let (from_s, to_s) = pair(&from, &to)?;
                Ok(find(&of.run().t_s, &of.read(column).map_err(fail)?, number(&level)?, from_s, to_s))
            },
        );
    }
}

fn curves(engine: &mut Engine) {
    engine
        .register_type_with_name::<Curve>("Curve")
        .register_fn("half_point", |c: &mut Curve| c.half_point())
        .register_fn("spread", |c: &mut Curve| c.spread())
        .register_fn("slope", |c: &mut Curve| c.slope())
        .register_fn("max_abs", |c: &mut Curve| c.max_abs())
        .register_fn("min", |c: &mut Curve| series::min(&c.y))
        .register_fn("max", |c: &mut Curve| series::max(&c.y))
        .register_fn("mean", |c: &mut Curve| known_mean(&c.y))
        .register_fn("points", |c: &mut Curve| c.x.len() as f64)
        .register_fn("falling", |c: &mut Curve| c.falling(0.0))
        .register_fn("rising", |c: &mut Curve| c.rising(0.0))
        .register_fn("falling", |c: &mut Curve, tolerance: Dynamic| -> MeasureResult {
            Ok(c.falling(number(&tolerance)?))
        })
        .register_fn("rising", |c: &mut Curve, tolerance: Dynamic| -> MeasureResult {
            Ok(c.rising(number(&tolerance)?))
        })
        .register_fn("first", |c: &mut Curve| c.first())
        .register_fn("at", |c: &mut Curve, x: Dynamic| -> MeasureResult { Ok(c.at(number(&x)?)) })
        .register_fn("falls_to", |c: &mut Curve, level: Dynamic| -> MeasureResult { Ok(c.falls_to(number(&level)?)) })
        .register_fn("rises_to", |c: &mut Curve, level: Dynamic| -> MeasureResult { Ok(c.rises_to(number(&level)?)) });
}

fn curve_operations(engine: &mut Engine) {
    engine
        .register_fn("between", |c: &mut Curve, from: Dynamic, to: Dynamic| -> Result<Curve, Box<EvalAltResult>> {
            Ok(c.between(number(&from)?, number(&to)?))
        })
        .register_fn("over", |c: &mut Curve, other: Curve| c.over(&other))
        .register_fn("minus", |c: &mut Curve, other: Curve| c.minus(&other))
        .register_fn("min_of", |a: Dynamic, b: Dynamic| -> MeasureResult { Ok(number(&a)?.min(number(&b)?)) })
        .register_fn("max_of", |a: Dynamic, b: Dynamic| -> MeasureResult { Ok(number(&a)?.max(number(&b)?)) });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use crate::expect::{Axis, Measurer, RunSet, RunView, check_syntax, testing};

    /// Three runs along `loss`, all with the same series.
    fn measurer() -> Measurer {
        let mut runs = BTreeMap::new();
        for (label, _) in [("0%", 0.0), ("1%", 1.0), ("2%", 2.0)] {
            let base = testing::two_flows();
            let name = format!("cc=bbr1,loss={label}");
            runs.insert(name.clone(), RunView::new(&name, base.setup, base.output));
        }
        let values = vec![("0%".to_owned(), 0.0), ("1%".to_owned(), 1.0), ("2%".to_owned(), 2.0)];
        let axes = vec![Axis { name: "loss".into(), values }];
        let files = BTreeMap::from([("d.csv".to_owned(), Arc::from("p,v\n0,1\n2,3\n"))]);
        Measurer::new(Arc::new(RunSet { runs, axes, files, study: None }))
    }

    fn value(expression: &str) -> f64 {
        measurer().measure(&expression.replace("R.", "run(\"cc=bbr1,loss=1%\").")).unwrap()
    }

    #[test]
    fn whole_numbers_and_fractions_are_equally_good_bounds_of_a_window() {
        assert_eq!(value("R.goodput_mbps(1, 3)"), value("R.goodput_mbps(1.0, 3.0)"));
    }

    #[test]
    fn a_run_is_found_whatever_the_order_of_its_labels() {
        assert_eq!(value("run(\"loss=1%,cc=bbr1\").flow(0).goodput_mbps()"), 8.0);
    }

    #[test]
    fn figures_of_run_flow_and_group_come_from_the_result() {
        for (expression, expected) in [
            ("R.goodput_mbps()", 10.0),
            ("R.share(\"cubic\")", 0.2),
            ("R.group(\"bbr1\").share()", 0.8),
            ("R.drop_ratio()", 0.05),
            ("R.flow(0).rtt_p95_ms()", 50.0),
            ("R.queue_max_ms()", 23.0),
            ("R.rtprop_ms()", 40.0),
            ("R.utilisation()", 0.8),
        ] {
            assert!((value(expression) - expected).abs() < 1e-9, "{expression}: {}", value(expression));
        }
    }

    #[test]
    fn windowed_measures_come_from_the_series() {
        for (expression, expected) in [
            ("R.share(\"cubic\", 1, 3)", 0.2),
            ("R.flow(0).max(\"rtt_ms\", 0, 4)", 50.0),
            ("R.flow(0).rtt_percentile(50, 0.5, 4)", 40.0),
            ("R.flow(0).min(\"inflight\", 0, 4)", 4.0),
            ("R.flow(0).first_above(\"rtt_ms\", 45, 1.5)", 2.5),
            ("R.flow(0).longest_above_s(\"rtt_ms\", 40, 0, 3)", 2.0),
            ("R.bottleneck().max(\"queue_ms\", 0, 4)", 20.0),
            ("R.link(0).at(\"drops\", 4)", 200.0),
            ("R.all().percentile(\"rtt_ms\", 100, 0, 4)", 50.0),
            ("R.flow(0).state_first_s(\"drain\")", 0.8),
            ("R.flow(0).state_period_s(\"probe_bw_up\", 0, 4)", 1.75),
            ("R.flow(0).first_loss_s()", 2.0),
        ] {
            assert!((value(expression) - expected).abs() < 1e-9, "{expression}: {}", value(expression));
        }
    }

    #[test]
    fn an_interval_without_an_end_has_no_rounds() {
        assert_eq!(value("R.flow(0).rounds_in(\"drain\", 0, 4)"), 1.0);
        assert!(value("R.flow(0).rounds_in(\"drain\", 0, R.flow(0).first_above(\"rtt_ms\", 1000, 0))").is_nan());
    }

    #[test]
    fn a_sibling_has_all_labels_but_those_given() {
        assert_eq!(value("R.sibling(\"loss=2%\").name() == \"cc=bbr1,loss=2%\""), 1.0);
    }

    #[test]
    fn a_sweep_is_one_measure_along_an_axis() {
        assert_eq!(value("sweep(\"loss\", \"cc=bbr1\", \"r.goodput_mbps()\").points()"), 3.0);
        assert_eq!(value("sweep(\"loss\", \"\", \"r.goodput_mbps()\").spread()"), 0.0);
    }

    #[test]
    fn a_sweep_is_compared_with_external_data() {
        let difference = "sweep(\"loss\", \"\", \"2\").minus(data(\"d.csv\", \"p\", \"v\", \"\")).max_abs()";
        assert_eq!(value(difference), 1.0);
    }

    #[test]
    fn yes_and_no_are_one_and_zero() {
        assert_eq!(value("R.goodput_mbps() > 9 && R.jain() < 1"), 1.0);
    }

    #[test]
    fn what_is_not_there_is_an_error_that_names_what_is() {
        for (expression, named) in [
            ("run(\"cc=vegas\")", "cc=bbr1,loss=0%"),
            ("run(\"cc=bbr1,loss=1%\").flow(0).max(\"speed\", 0, 1)", "rtt_ms"),
            ("sweep(\"rate\", \"\", \"1\").max()", "loss"),
            ("run(\"cc=bbr1,loss=1%\").flow(5).rto()", "it has 2"),
            ("run(\"cc=bbr1,loss=1%\").goodput_mbps(3, 3)", "empty"),
            ("run(\"cc=bbr1,loss=1%\").group(\"bbr1\").fct_percentile_s(0.95)", "write 95"),
            ("run(\"cc=bbr1,loss=1%\").all().percentile(\"rtt_ms\", 101, 0, 4)", "0 to 100"),
        ] {
            let error = measurer().measure(expression).unwrap_err().to_string();
            assert!(error.contains(named), "{expression}: {error}");
        }
    }

    #[test]
    fn only_expressions_are_allowed_and_runaway_ones_are_stopped() {
        assert!(check_syntax("run().goodput_mbps() * 2").is_ok());
        assert!(check_syntax("let x = 1; x").is_err());
        assert!(check_syntax("1 +").is_err());
        assert!(check_syntax("while true {}").is_err());
    }
}
