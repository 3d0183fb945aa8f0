//! What measurements of live connections tell of a path: `ss -tin`, iperf3's JSON, records of TCP_INFO as CSV.
//! In: text. Out: ranges for rate, RTT, buffer and loss, with what they rest on. Never: a panic, whatever the text.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde_json::Value;

use crate::paths::KindSpec;

/// One connection at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Highest delivery rate or goodput seen, bit/s.
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
    if samples.iter().all(|sample| sample.min_rtt_s.is_none()) {
        return Err("it holds no connection with an RTT; give what `ss -tin`, `iperf3 -J` or a CSV of TCP_INFO \
                    (columns tcpi_min_rtt, tcpi_delivery_rate, tcpi_bytes_sent, tcpi_bytes_retrans) wrote"
            .to_owned());
    }
    Ok(samples)
}

/// `ss -tin`: a line of words for each socket, such as `minrtt:12.3` and `delivery_rate 9556208bps`.
fn ss(text: &str) -> Vec<Sample> {
    let mut samples = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let colon = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix(':'));
        let number = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        let Some(min_rtt) = colon("minrtt").and_then(number) else { continue };
        let rtt = colon("rtt").and_then(|text| number(text.split('/').next()?));
        let after = |key: &str| words.iter().position(|word| *word == key).and_then(|at| words.get(at + 1).copied());
        let rate = after("delivery_rate").and_then(bps);
        let sent = colon("bytes_sent").and_then(number);
        let again = colon("bytes_retrans").and_then(number).unwrap_or(0.0);
        samples.push(Sample {
            rate_bps: rate,
            min_rtt_s: Some(min_rtt / 1e3),
            rtt_s: rtt.map(|rtt| rtt / 1e3),
            again: sent.filter(|sent| *sent > 0.0).map(|sent| (again / sent).min(1.0)),
        });
    }
    samples
}

/// `9556208bps`, `9.5Mbps`.
fn bps(text: &str) -> Option<f64> {
    let text = text.strip_suffix("bps")?;
    let (number, scale) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    number.parse::<f64>().ok().map(|value| value * scale).filter(|value| value.is_finite())
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
        samples.push(Sample {
            // The kernel counts delivery in bytes a second.
            rate_bps: get(rate)?.map(|rate| rate * 8.0),
            min_rtt_s: get(min_rtt)?.filter(|micros| *micros > 0.0).map(|micros| micros / 1e6),
            rtt_s: get(rtt)?.map(|micros| micros / 1e6),
            again: sent.zip(again).filter(|(sent, _)| *sent > 0.0).map(|(sent, again)| (again / sent).min(1.0)),
        });
    }
    Ok(samples)
}

/// What the samples tell, and in which words that was inferred.
pub fn kind(samples: &[Sample]) -> Result<(KindSpec, Vec<String>), String> {
    let trimmed = |of: &dyn Fn(&Sample) -> Option<f64>| -> Option<(f64, f64)> {
        let mut values: Vec<f64> = samples.iter().filter_map(of).filter(|value| *value > 0.0).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| values[(share * last as f64).round() as usize];
        Some((at(TRIM), at(1.0 - TRIM)))
    };
    let rate = trimmed(&|sample| sample.rate_bps).ok_or("it holds no delivery rate; add --rate")?;
    let rtt = trimmed(&|sample| sample.min_rtt_s).ok_or("it holds no RTT; add --rtt")?;
    let queue = trimmed(&|sample| Some(sample.rtt_s? - sample.min_rtt_s?)).map_or(0.0, |(_, high)| high);
    let again = trimmed(&|sample| sample.again).map_or(0.0, |(_, high)| high);
    // What stood in the queue fits into the buffer; how much more fits nobody has seen.
    let (low, high) = (queue.max(0.3 * rtt.0), (8.0 * rtt.1).max(2.0 * queue));
    let spec = KindSpec {
        rate: format!("{:.0}bit..{:.0}bit", rate.0.max(8.0), rate.1.max(8.0)),
        rtt: format!("{:.0}us..{:.0}us", rtt.0 * 1e6, rtt.1 * 1e6),
        buffer: format!("{:.0}us..{:.0}us", low * 1e6, high * 1e6),
        loss: format!("0%..{:.5}%", 100.0 * again),
        rivals: "0".to_owned(),
        weight: 1.0,
    };
    let said = vec![
        format!("{} connections; a tenth dropped at either end", samples.len()),
        format!("rate from what was delivered: {:.3} to {:.3} Mbit/s", rate.0 / 1e6, rate.1 / 1e6),
        format!("RTT from the smallest of each: {:.1} to {:.1} ms", rtt.0 * 1e3, rtt.1 * 1e3),
        format!("buffer: at least the {:.1} ms that RTTs rose by, up to {:.0} ms", queue * 1e3, high * 1e3),
        format!(
            "random loss: at most what was retransmitted, {:.3} %; part of it may be the queue's own",
            100.0 * again
        ),
    ];
    Ok((spec, said))
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
    fn a_kind_made_of_samples_is_one_that_the_language_reads() {
        let sample = Sample { rate_bps: Some(9e6), min_rtt_s: Some(0.02), rtt_s: Some(0.05), again: Some(0.004) };
        let (spec, said) = kind(&[sample; 3]).unwrap();
        crate::paths::Kind::parse(&spec).unwrap();
        assert!(spec.buffer.starts_with("30000us"), "{spec:?} {said:?}");
    }
}
