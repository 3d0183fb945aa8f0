//! Figures of the flows' applications: calls, videos, pages, requests.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::record::result::{Distribution, FlowResult, RunResult};

use super::{known_number, number};
use crate::model::{Section, Table};

/// Section on the flows' applications, if there are any.
pub(super) fn section(result: &RunResult) -> Option<Section> {
    let mut rows = Vec::new();
    let mut add = |flow: &FlowResult, what: &str, figures: &[(&str, String)]| {
        let row = |(figure, value): &(&str, String)| {
            vec![flow.name.clone(), what.to_owned(), (*figure).to_owned(), value.clone()]
        };
        rows.extend(figures.iter().map(row));
    };
    for flow in &result.flows {
        if let Some(call) = &flow.call {
            let delay =
                |figure: fn(&Distribution) -> f64| known_number(call.delay_ms.as_ref().map_or(f64::NAN, figure));
            add(
                flow,
                "call",
                &[
                    ("Frames", call.frames.to_string()),
                    ("Frames late, %", number(100.0 * call.late_ratio)),
                    ("Deadline, ms", number(call.deadline_ms)),
                    ("Delay median, ms", delay(|delay| delay.p50)),
                    ("Delay 95 %, ms", delay(|delay| delay.p95)),
                    ("MOS of a G.711 call, 1 to 4.5", number(call.mos)),
                ],
            );
        }
        if let Some(video) = &flow.video {
            let known = |value: Option<f64>| value.map_or("–".to_owned(), number);
            add(
                flow,
                "video",
                &[
                    ("Start-up delay, s", known(video.startup_s)),
                    ("Stalls", video.stalls.to_string()),
                    ("Time stalled, s", number(video.stalled_s)),
                    ("Media played, s", number(video.played_s)),
                    ("Mean bitrate, Mbit/s", number(video.bitrate_bps / 1e6)),
                    ("Changes of the bitrate", video.switches.to_string()),
                    ("QoE (Yin et al. 2015), kbit/s for each segment", number(video.qoe)),
                    ("Latency at the end, s", known(video.latency_s)),
                ],
            );
        }
        if let Some(page) = &flow.page {
            let load = |figure: fn(&Distribution) -> f64| {
                known_number(page.load_ms.as_ref().map_or(f64::NAN, |load| figure(load) / 1e3))
            };
            add(
                flow,
                "page",
                &[
                    ("Loads", page.loads.to_string()),
                    ("Page-load time, median, s", load(|load| load.p50)),
                    ("Page-load time, 95 %, s", load(|load| load.p95)),
                    ("Objects", page.objects.to_string()),
                    ("Page, MB", number(page.page_bytes as f64 / 1e6)),
                ],
            );
        }
        if let Some(requests) = &flow.requests {
            let time =
                |figure: fn(&Distribution) -> f64| known_number(requests.time_ms.as_ref().map_or(f64::NAN, figure));
            add(
                flow,
                "requests",
                &[
                    ("Responses", requests.responses.to_string()),
                    ("Responses late, %", number(100.0 * requests.late_ratio)),
                    ("Deadline, ms", number(requests.deadline_ms)),
                    ("Time median, ms", time(|time| time.p50)),
                    ("Time 95 %, ms", time(|time| time.p95)),
                ],
            );
        }
    }
    let columns = ["Flow", "Application", "Figure", "Value"].map(str::to_owned).to_vec();
    (!rows.is_empty()).then(|| Section {
        id: "applications".to_owned(),
        title: "Applications".to_owned(),
        runs_table: Some(Table { columns, rows }),
        ..Section::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_has_a_row_for_each_figure_of_its_application_and_a_bulk_flow_none() {
        let run = |flow: &str| {
            let toml = format!("duration = '10s'\nflow = ['{flow}']");
            let read = bbrlab_sim::scenario::ScenarioFile::from_toml(&toml, "a test").unwrap();
            section(&bbrlab_sim::engine::run(&read.scenario.resolve().unwrap()).result)
        };
        assert_eq!(run("cubic"), None);
        for (flow, rows) in [
            ("cubic,video=throughput:300kbit/1mbit,name=tv", 8),
            ("cubic,call=500kbit/30,name=tv", 6),
            ("cubic,page=light/1s,name=tv", 5),
            ("cubic,request=10kB/1s,deadline=100ms,name=tv", 5),
        ] {
            let table = run(flow).unwrap().runs_table.unwrap();
            assert_eq!(table.rows.len(), rows, "{flow}");
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len() && row[0] == "tv"), "{flow}");
        }
    }
}
