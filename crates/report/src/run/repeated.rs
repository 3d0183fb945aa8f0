//! Report of several runs of one scenario: medians with intervals, each seed in figure and table, and the first run
//! over time.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::record::result::{Expectation, RunResult};
use bbrlab_sim::record::trace::Trace;
use bbrlab_sim::setup::Setup;
use bbrlab_stats::number::rate_unit;
use serde_json::Value;

use super::answer::sig3;
use super::{claim, for_run, panel, scale_rates, series};
use crate::model::{Axis, Figure, Number, Provenance, Report, Section, Series, Style, Table};

/// Builds the report of several runs. `summary` holds their metrics as `{median, low, high, n}`; `trace` and `setup`
/// are the first run's.
pub fn for_runs(
    results: &[&RunResult],
    summary: &Value,
    expect: &[Expectation],
    (trace, setup): (&Trace, Option<&Setup>),
    asked: Provenance,
) -> Report {
    let mut report = for_run(results[0], trace, setup, asked);
    let (first, last) = (results[0].seed, results[results.len() - 1].seed);
    for (name, value) in report.provenance.facts.iter_mut().filter(|(name, _)| name == "seed") {
        "seeds".clone_into(name);
        *value = format!("{first} to {last}");
    }
    report.subtitle = format!(
        "Medians of {} runs: {} % of the link is used; the queueing delay's median is {} ms. Ranges are 95 % bootstrap intervals.",
        results.len(),
        ranged(&summary["bottleneck"]["utilisation"], 100.0),
        ranged(&summary["bottleneck"]["queue_ms"]["p50"], 1.0),
    );
    report.numbers = numbers(summary);
    report.claims = expect.iter().map(claim).collect();
    for figure in report.lead.iter_mut().chain(report.sections.iter_mut().flat_map(|section| &mut section.figures)) {
        figure.title = format!("{} of seed {first}", figure.title);
    }
    report.lead.insert(0, seeds(results));
    report.sections[0].runs_table = Some(flows_table(summary));
    report.sections.push(Section {
        id: "runs".to_owned(),
        title: "Each run".to_owned(),
        runs_table: Some(runs_table(results)),
        ..Section::default()
    });
    report
}

/// Formats a metric's median and interval as `9.4 (9.1 … 9.5)`; a dash if there is none.
fn ranged(figure: &Value, scale: f64) -> String {
    let get = |key: &str| figure[key].as_f64().map(|value| sig3(value * scale));
    match (get("median"), get("low"), get("high")) {
        (Some(median), Some(low), Some(high)) => format!("{median} ({low} … {high})"),
        _ => "–".to_owned(),
    }
}

fn items<'a>(summary: &'a Value, key: &str) -> &'a [Value] {
    summary[key].as_array().map_or(&[], Vec::as_slice)
}

/// Answer in numbers: each a median, with its interval below it.
fn numbers(summary: &Value) -> Vec<Number> {
    let number = |label: String, figure: &Value, (unit, scale): (&str, f64), color_key: Option<String>| {
        let get = |key: &str| figure[key].as_f64().map_or_else(|| "–".to_owned(), |value| sig3(value * scale));
        Number {
            label,
            value: format!("{} {unit}", get("median")).trim_end().to_owned(),
            note: format!("95 % interval {} … {}", get("low"), get("high")),
            color_key,
        }
    };
    let groups = items(summary, "groups").iter().map(|group| {
        let cc = group["cc"].as_str().unwrap_or_default().to_owned();
        let (unit, scale) = rate_unit(group["goodput_bps"]["median"].as_f64().unwrap_or(0.0));
        number(format!("Goodput of {cc}"), &group["goodput_bps"], (unit, 1.0 / scale), Some(cc))
    });
    let link = &summary["bottleneck"];
    let mut numbers: Vec<Number> = groups.collect();
    numbers.push(number("Link used".to_owned(), &link["utilisation"], ("%", 100.0), None));
    numbers.push(number("Queueing delay, median".to_owned(), &link["queue_ms"]["p50"], ("ms", 1.0), None));
    numbers.push(number("Dropped at the link".to_owned(), &link["drop_ratio"], ("%", 100.0), None));
    if items(summary, "flows").len() > 1 {
        numbers.push(number("Fairness (Jain)".to_owned(), &summary["jain"], ("", 1.0), None));
    }
    numbers
}

/// Goodput of a group; NaN in a run without the group.
fn goodput_bps(result: &RunResult, cc: &str) -> f64 {
    result.groups.iter().find(|group| group.cc == cc).map_or(f64::NAN, |group| group.goodput_bps)
}

/// Main metrics of each run as points over its seed.
fn seeds(results: &[&RunResult]) -> Figure {
    let x: Vec<f64> = results.iter().map(|result| result.seed as f64).collect();
    let points = |name: &str, y: Vec<f64>| series(name, Style::Points, x.clone(), y, name);
    let mut goodput: Vec<Series> = (results[0].groups.iter())
        .map(|group| points(&group.cc, results.iter().map(|result| goodput_bps(result, &group.cc)).collect()))
        .collect();
    let unit = scale_rates(&mut goodput);
    let link = |name: &str, figure: fn(&RunResult) -> f64| {
        vec![points(name, results.iter().map(|result| figure(result)).collect())]
    };
    let used = link("bottleneck", |result| 100.0 * result.bottleneck.utilisation);
    let queue = link("bottleneck", |result| result.bottleneck.queue_ms.p50);
    let mut panels = vec![
        panel("Goodput", unit, Some(0.0), goodput),
        panel("Link used", "%", None, used),
        panel("Queueing delay, median", "ms", Some(0.0), queue),
    ];
    if results[0].flows.len() > 1 {
        panels.push(panel("Fairness (Jain)", "", None, link("all flows", |result| result.jain)));
    }
    Figure {
        id: "run-seeds".to_owned(),
        title: "Each run by its seed".to_owned(),
        how_to_read: "One point per run. Where the points of two algorithms overlap, the runs do not separate them."
            .to_owned(),
        x: Axis { label: "Seed".into(), ..Axis::default() },
        panels,
        ..Figure::default()
    }
}

fn flows_table(summary: &Value) -> Table {
    let columns =
        ["Flow", "Algorithm", "Goodput, Mbit/s", "RTT median, ms", "RTT 95 %, ms", "Retransmitted, %", "Completion, s"];
    let row = |flow: &Value| {
        let text = |key: &str| flow[key].as_str().unwrap_or_default().to_owned();
        vec![
            text("name"),
            text("cc"),
            ranged(&flow["goodput_bps"], 1e-6),
            ranged(&flow["rtt_ms"]["p50"], 1.0),
            ranged(&flow["rtt_ms"]["p95"], 1.0),
            ranged(&flow["retransmit_ratio"], 100.0),
            ranged(&flow["fct_s"], 1.0),
        ]
    };
    Table { columns: columns.map(str::to_owned).to_vec(), rows: items(summary, "flows").iter().map(row).collect() }
}

fn runs_table(results: &[&RunResult]) -> Table {
    let groups = results[0].groups.iter().map(|group| format!("{}, Mbit/s", group.cc));
    let columns = ["Seed".to_owned()].into_iter().chain(groups);
    let rest = ["Link used, %", "Queue median, ms", "Queue 95 %, ms", "Dropped, %", "Jain"].map(str::to_owned);
    let row = |result: &&RunResult| {
        let link = &result.bottleneck;
        let groups = results[0].groups.iter().map(|group| match goodput_bps(result, &group.cc) {
            bps if bps.is_nan() => "–".to_owned(),
            bps => sig3(bps / 1e6),
        });
        let figures =
            [100.0 * link.utilisation, link.queue_ms.p50, link.queue_ms.p95, 100.0 * link.drop_ratio, result.jain];
        [result.seed.to_string()].into_iter().chain(groups).chain(figures.map(sig3)).collect()
    };
    Table { columns: columns.chain(rest).collect(), rows: results.iter().map(row).collect() }
}
