//! What measurements of live connections tell of a path: `ss -tin`, iperf3's JSON, records of TCP_INFO as CSV.
//! No text makes it panic.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde_json::Value;

use crate::paths::KindSpec;
use crate::ss::Words;

/// One connection at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Highest delivery rate or goodput seen, bit/s; none where the sender had nothing more to send.
    pub rate_bps: Option<f64>,
    /// Smallest RTT, seconds.
    pub min_rtt_s: Option<f64>,
    /// Usual RTT, seconds.
    pub rtt_s: Option<f64>,
    /// Retransmitted over sent.
    pub again: Option<f64>,
}

/// Packets of an ordinary MTU, for counters in segments.
const SEGMENT: f64 = 1448.0;
/// Rates and RTTs of real users scatter; the range drops this share at both ends. Ours.
const TRIM: f64 = 0.1;

/// Reads whatever of the three the text is.
pub fn read(text: &str) -> Result<Vec<Sample>, String> {
    let head = text.trim_start();
    let samples = if head.starts_with('{') || head.starts_with('[') {
        iperf3(head)?
    } else if text.lines().next().is_some_and(|line| line.contains("tcpi_")) {
        records(text)?
    } else {
        ss(text)
    };
    if samples.iter().all(|sample| sample.min_rtt_s.is_none() && sample.rate_bps.is_none()) {
        return Err("it holds no connection's rate or RTT; give what `ss -tin`, `iperf3 -J` or a CSV of TCP_INFO \
                    (columns tcpi_min_rtt, tcpi_delivery_rate, tcpi_bytes_sent, tcpi_bytes_retrans) wrote"
            .to_owned());
    }
    Ok(samples)
}

/// `ss -tin`: a line of words for each socket.
fn ss(text: &str) -> Vec<Sample> {
    let sample = |line| {
        let words = Words::of(line);
        let sent = words.number("bytes_sent").filter(|sent| *sent > 0.0);
        let again = words.number("bytes_retrans").unwrap_or(0.0);
        Some(Sample {
            // A sender that had nothing to send says nothing of the path's rate.
            rate_bps: words.rate("delivery_rate").filter(|_| !words.has("app_limited")),
            min_rtt_s: Some(words.number("minrtt")? / 1e3),
            rtt_s: words.number("rtt").map(|rtt| rtt / 1e3),
            again: sent.map(|sent| (again / sent).min(1.0)),
        })
    };
    text.lines().filter_map(sample).collect()
}

/// `iperf3 -J` of the sending side.
fn iperf3(text: &str) -> Result<Vec<Sample>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("line {}: it is no JSON", error.line()))?;
    let streams = value["end"]["streams"].as_array().cloned().unwrap_or_default();
    let mut samples = Vec::new();
    for stream in &streams {
        let sender = &stream["sender"];
        let micros = |key: &str| sender[key].as_f64().filter(|micros| *micros > 0.0).map(|micros| micros / 1e6);
        let (bytes, again) = (sender["bytes"].as_f64(), sender["retransmits"].as_f64());
        samples.push(Sample {
            rate_bps: stream["receiver"]["bits_per_second"].as_f64().or_else(|| sender["bits_per_second"].as_f64()),
            min_rtt_s: micros("min_rtt"),
            rtt_s: micros("mean_rtt"),
            again: bytes.zip(again).filter(|(bytes, _)| *bytes > 0.0).map(|(bytes, n)| (n * SEGMENT / bytes).min(1.0)),
        });
    }
    Ok(samples)
}

/// Records of TCP_INFO: a CSV with the kernel's names as its head.
fn records(text: &str) -> Result<Vec<Sample>, String> {
    let mut lines = text.lines().enumerate();
    let (_, head) = lines.next().ok_or("it is empty")?;
    let names: Vec<&str> = head.split(',').map(str::trim).collect();
    let place = |name: &str| names.iter().position(|known| *known == name);
    let (min_rtt, rtt, rate) = (place("tcpi_min_rtt"), place("tcpi_rtt"), place("tcpi_delivery_rate"));
    let (sent, again) = (place("tcpi_bytes_sent"), place("tcpi_bytes_retrans"));
    let limited = place("tcpi_delivery_rate_app_limited");
    let mut samples = Vec::new();
    for (nth, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let get = |place: Option<usize>| -> Result<Option<f64>, String> {
            let Some(cell) = place.and_then(|place| cells.get(place)).filter(|cell| !cell.is_empty()) else {
                return Ok(None);
            };
            cell.parse().map(Some).map_err(|_| format!("line {}: {cell:?} is no number", nth + 1))
        };
        let (sent, again) = (get(sent)?, get(again)?);
        let limited = get(limited)?.is_some_and(|flag| flag != 0.0);
        samples.push(Sample {
            // The kernel counts delivery in bytes a second.
            rate_bps: get(rate)?.filter(|_| !limited).map(|rate| rate * 8.0),
            min_rtt_s: get(min_rtt)?.filter(|micros| *micros > 0.0).map(|micros| micros / 1e6),
            rtt_s: get(rtt)?.map(|micros| micros / 1e6),
            again: sent.zip(again).filter(|(sent, _)| *sent > 0.0).map(|(sent, again)| (again / sent).min(1.0)),
        });
    }
    Ok(samples)
}

/// What the samples tell, and in which words that was inferred. What they do not tell of rate or RTT is left empty.
pub fn kind(samples: &[Sample]) -> (KindSpec, Vec<String>) {
    let trimmed = |of: &dyn Fn(&Sample) -> Option<f64>| -> Option<(f64, f64)> {
        let mut values: Vec<f64> = samples.iter().filter_map(of).filter(|value| *value > 0.0).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| values[(share * last as f64).round() as usize];
        Some((at(TRIM), at(1.0 - TRIM)))
    };
    let mut said =
        vec![format!("{}; a tenth dropped at either end", crate::words::counted(samples.len(), "connection"))];
    let mut spec = KindSpec::unknown();
    if let Some((low, high)) = trimmed(&|sample| sample.rate_bps) {
        spec.rate = format!("{:.0}bit..{:.0}bit", low.max(8.0), high.max(8.0));
        said.push(format!("rate from what was delivered: {:.3} to {:.3} Mbit/s", low / 1e6, high / 1e6));
    }
    if let Some((shortest, longest)) = trimmed(&|sample| sample.min_rtt_s) {
        spec.rtt = format!("{:.0}us..{:.0}us", shortest * 1e6, longest * 1e6);
        said.push(format!("RTT from the smallest of each: {:.1} to {:.1} ms", shortest * 1e3, longest * 1e3));
        // What stood in the queue fits into the buffer; how much more fits nobody has seen.
        let queue = trimmed(&|sample| Some(sample.rtt_s? - sample.min_rtt_s?)).map_or(0.0, |(_, high)| high);
        let (low, high) = (queue.max(0.3 * shortest), (8.0 * longest).max(2.0 * queue));
        spec.buffer = format!("{:.0}us..{:.0}us", low * 1e6, high * 1e6);
        said.push(format!("buffer: at least the {:.1} ms that RTTs rose by, up to {:.0} ms", queue * 1e3, high * 1e3));
    }
    if samples.iter().any(|sample| sample.again.is_some()) {
        let again = trimmed(&|sample| sample.again).map_or(0.0, |(_, high)| high);
        spec.loss = format!("0%..{:.5}%", 100.0 * again);
        let what = "part of it may be the queue's own";
        said.push(format!("random loss: at most what was retransmitted, {:.3} %; {what}", 100.0 * again));
    }
    (spec, said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_ss_gives_rate_rtt_and_retransmissions() {
        let text = "ESTAB 0 0 10.0.0.1:443 10.0.0.2:5000\n\t bbr wscale:7,7 rto:244 rtt:41.9/0.5 minrtt:40.1 \
                    bytes_sent:1000000 bytes_retrans:10000 delivery_rate 9556208bps busy:1s";
        let sample = read(text).unwrap()[0];
        assert_eq!(
            (sample.rate_bps, sample.min_rtt_s, sample.again),
            (Some(9_556_208.0), Some(40.1 / 1e3), Some(0.01))
        );
    }

    #[test]
    fn iperf3_and_tcp_info_are_told_apart() {
        let json = r#"{"end":{"streams":[{"sender":{"bytes":1448000,"bits_per_second":1e7,"retransmits":10,
            "min_rtt":20000,"mean_rtt":30000},"receiver":{"bits_per_second":9e6}}]}}"#;
        let one = read(json).unwrap()[0];
        assert_eq!((one.rate_bps, one.min_rtt_s, one.again), (Some(9e6), Some(0.02), Some(0.01)));
        let csv = "tcpi_min_rtt,tcpi_rtt,tcpi_delivery_rate\n20000,25000,1000000\n";
        assert_eq!(read(csv).unwrap()[0].rate_bps, Some(8e6));
    }

    #[test]
    fn what_is_none_of_them_is_refused_in_a_line() {
        for text in ["", "hello", "{}", "{", "tcpi_min_rtt\nx\n", "minrtt:nan", "[1,2]", "{\"end\":{\"streams\":[1]}}"]
        {
            let error = read(text).unwrap_err();
            assert!(!error.is_empty() && !error.contains('\n'), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_sender_without_data_says_nothing_of_the_rate() {
        let samples = read("rtt:41.9/0.5 minrtt:40.1 delivery_rate 9556208bps app_limited busy:1s").unwrap();
        let (spec, _) = kind(&samples);
        assert_eq!((spec.rate.as_str(), spec.rtt.as_str()), ("", "40100us..40100us"));
        let csv = "tcpi_min_rtt,tcpi_delivery_rate,tcpi_delivery_rate_app_limited\n20000,1000,1\n20000,2000,0\n";
        assert_eq!(read(csv).unwrap().iter().filter_map(|sample| sample.rate_bps).collect::<Vec<_>>(), [16_000.0]);
    }

    #[test]
    fn a_kind_made_of_samples_is_one_that_the_language_reads() {
        let sample = Sample { rate_bps: Some(9e6), min_rtt_s: Some(0.02), rtt_s: Some(0.05), again: Some(0.004) };
        let (spec, said) = kind(&[sample; 3]);
        crate::paths::Kind::parse(&spec).unwrap();
        assert!(spec.buffer.starts_with("30000us"), "{spec:?} {said:?}");
    }
}
