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

/// Formats one row per download; for several of a URL, the median of their rates.
pub fn table(done: &[FinishedDownload]) -> String {
    let dash = || "–".to_owned();
    let rows = done.iter().map(|one| {
        let sender = one.sender.as_ref();
        vec![
            one.url.clone(),
            one.protocol.to_owned(),
            sender.map_or_else(dash, |sender| sender.cc.clone()),
            size(one.bytes),
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
    for (url, mut rates) in rates_by_url(done) {
        if rates.len() > 1 {
            let of_url = if rates.len() < done.len() { format!(" of {url}") } else { String::new() };
            let _ = writeln!(text, "median      {}{of_url}", rate(bbrlab_stats::median(&mut rates)));
        }
    }
    text
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.2} kB", bytes as f64 / 1e3),
        _ => format!("{:.2} MB", bytes as f64 / 1e6),
    }
}

/// Goodputs of each URL, in the order of the first downloads.
fn rates_by_url(done: &[FinishedDownload]) -> Vec<(&str, Vec<f64>)> {
    let mut all: Vec<(&str, Vec<f64>)> = Vec::new();
    for one in done {
        match all.iter_mut().find(|(url, _)| *url == one.url) {
            Some((_, rates)) => rates.push(one.goodput_bps),
            None => all.push((&one.url, vec![one.goodput_bps])),
        }
    }
    all
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
    fn sizes_keep_their_digits() {
        assert_eq!([900, 4_096, 999_999, 25_000_000].map(size), ["900 B", "4.10 kB", "1000.00 kB", "25.00 MB"]);
    }

    #[test]
    fn many_rates_become_few_means() {
        assert_eq!(shortened(&[1.0, 2.0]), [1.0, 2.0]);
        let short = shortened(&[3.0; 150]);
        assert!(short.len() == 60 && short.iter().all(|rate| *rate == 3.0));
    }
}
