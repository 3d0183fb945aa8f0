//! Output of downloads: a table, or JSON.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write;

use bbrlab_http::get::FinishedDownload;
use bbrlab_stats::number::{ms, percent, rate, seconds};
use serde_json::json;

use crate::Error;
use crate::grid::{Align, aligned};
use crate::table::{Style, spark};

/// Version of the JSON format.
const SCHEMA: u32 = 1;

/// Formats one row per download; for several, the median of their rates.
pub fn table(done: &[FinishedDownload]) -> String {
    let dash = || "–".to_owned();
    let rows = done.iter().map(|one| {
        let sender = one.sender.as_ref();
        vec![
            one.url.clone(),
            one.protocol.to_owned(),
            sender.map_or_else(dash, |sender| sender.cc.clone()),
            format!("{:.2} MB", one.bytes as f64 / 1e6),
            seconds(one.fct_s),
            rate(one.goodput_bps),
            ms(sender.map_or(one.rtt_ms.smoothed, |sender| sender.rtt_p50_ms.unwrap_or(sender.rtt_ms))),
            ms(sender.map_or(one.rtt_ms.min, |sender| sender.rtt_min_ms)),
            sender.map_or_else(dash, |sender| percent(sender.retransmits as f64 / sender.packets.max(1) as f64)),
        ]
    });
    let head = ["url", "over", "its cc", "size", "time", "goodput", "RTT ms", "least", "retransmit"];
    let mut align = vec![Align::Left; 3];
    align.extend([Align::Right; 6]);
    let mut text = Style::of_stdout().bold_first_line(&aligned(&head, &align, rows));
    if let [one] = done
        && one.rates_bps.len() > 1
    {
        let highest = one.rates_bps.iter().copied().fold(0.0, f64::max);
        let _ =
            writeln!(text, "goodput     {} up to {}, a second each", spark(&shortened(&one.rates_bps)), rate(highest));
    }
    if done.len() > 1 {
        let mut rates: Vec<f64> = done.iter().map(|one| one.goodput_bps).collect();
        let _ = writeln!(text, "median      {}", rate(bbrlab_stats::median(&mut rates)));
    }
    text
}

/// Reduces the rates to what fits on a line, each the mean of its neighbours.
fn shortened(rates: &[f64]) -> Vec<f64> {
    const MOST: usize = 60;
    let bins = rates.len().min(MOST);
    let edge = |bin: usize| bin * rates.len() / bins;
    let mean = |bin: usize| {
        let part = &rates[edge(bin)..edge(bin + 1)];
        part.iter().sum::<f64>() / part.len() as f64
    };
    (0..bins).map(mean).collect()
}

/// Formats all results as JSON.
pub fn json(done: &[FinishedDownload]) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(&json!({ "schema": SCHEMA, "transfers": done }));
    text.map(|text| text + "\n").map_err(Error::encode("--json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_rates_become_few_means() {
        assert_eq!(shortened(&[1.0, 2.0]), [1.0, 2.0]);
        let short = shortened(&[3.0; 150]);
        assert!(short.len() == 60 && short.iter().all(|rate| *rate == 3.0));
    }
}
