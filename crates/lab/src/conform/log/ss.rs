//! Reader for repeated `ss -tin`: one sample per connection and call. A line with a time before a call dates it. An
//! unknown word is skipped.
// SPDX-License-Identifier: Apache-2.0 OR MIT
// Form: iproute2 `misc/ss.c`.

use std::collections::BTreeMap;

use super::{FlowLog, Log, Phase, Sample};
use crate::Result;
use bbrlab_study::ss::{Fields, addresses, bits, finite};

/// Maximum connections of one log. Ours: a guard.
const FLOWS_MAX: usize = 100_000;

/// Returns true if the text looks like the output of `ss -tin`.
pub(super) fn is_likely(text: &str) -> bool {
    text.lines().take(10_000).any(is_details)
}

/// Detects the indented line with a connection's metrics.
fn is_details(line: &str) -> bool {
    let words = Fields::of(line);
    words.text("cwnd").is_some() && words.text("rtt").is_some()
}

pub(super) fn read(text: &str) -> Result<Log> {
    let mut flows: BTreeMap<String, FlowLog> = BTreeMap::new();
    let (mut name, mut now) = (String::from("connection"), None);
    for line in text.lines() {
        let words = Fields::of(line);
        if let Some(t_s) = time(&words.0) {
            now = Some(t_s);
            continue;
        }
        if let Some((local, peer)) = addresses(&words.0) {
            name = format!("{local} {peer}");
        }
        if !is_details(line) || (flows.len() >= FLOWS_MAX && !flows.contains_key(&name)) {
            continue;
        }
        let flow = flows.entry(name.clone()).or_insert_with(|| FlowLog {
            name: name.clone(),
            is_sampled: true,
            ..FlowLog::default()
        });
        take(flow, &words, now);
    }
    let mut flows: Vec<FlowLog> = flows.into_values().collect();
    for flow in &mut flows {
        // Without times of its own, a log has at most the sender's busy time.
        flow.is_timed = now.is_some();
        let first = flow.samples.first().map_or(0.0, |sample| sample.t_s);
        flow.samples.iter_mut().for_each(|sample| sample.t_s -= first);
        flow.phases.iter_mut().for_each(|(t_s, _)| *t_s -= first);
        flow.losses.iter_mut().for_each(|t_s| *t_s -= first);
    }
    Ok(Log { form: "the output of ss -tin", flows })
}

/// Parses a line that consists of a time: seconds (possibly since 1970), or a date and a time of day.
fn time(words: &[&str]) -> Option<f64> {
    let [word] = words else {
        return clock(words.iter().copied().find(|word| word.contains(':') && word.len() >= 8)?, words.len());
    };
    let plain = word.trim_start_matches(['#', '@', '[']).trim_end_matches(']').trim_end_matches('s');
    let seconds = plain.strip_prefix("t=").unwrap_or(plain);
    seconds.parse().ok().filter(|t: &f64| t.is_finite() && *t >= 0.0).or_else(|| clock(plain, 1))
}

/// Parses `2026-11-22T03:47:10.123`, or the time in a date, `03:47:10.123`, into seconds of its day. Longer lines
/// are rejected.
fn clock(word: &str, words: usize) -> Option<f64> {
    if words > 7 {
        return None;
    }
    let day = word.split(['T', '+', 'Z']).find(|piece| piece.matches(':').count() == 2)?;
    let mut parts = day.split(':');
    let mut part = |limit: f64| -> Option<f64> {
        let text = parts.next()?.replace(',', ".");
        if !text.chars().all(|c| c.is_ascii_digit() || c == '.') {
            return None;
        }
        text.parse().ok().filter(|value: &f64| *value < limit)
    };
    Some(part(24.0)? * 3600.0 + part(60.0)? * 60.0 + part(61.0)?)
}

fn take(flow: &mut FlowLog, words: &Fields<'_>, now: Option<f64>) {
    let bbr = words.text("bbr").map_or("", |text| text.trim_matches(['(', ')']));
    let model = |key: &str| bbr.split(',').find_map(|part| part.strip_prefix(key)?.strip_prefix(':'));
    let busy = words.text("busy").and_then(|text| finite(text.trim_end_matches("ms"))).map(|ms| ms * 1e-3);
    let t_s = now.or(busy).unwrap_or(flow.samples.len() as f64);
    flow.mss = words.number("mss").or(flow.mss);
    flow.cc = words.congestion_control().map(str::to_owned).or(flow.cc.take());
    let mss = flow.mss.unwrap_or(f64::NAN);
    let known = |value: Option<f64>| value.unwrap_or(f64::NAN);
    let lost = words.text("retrans").and_then(|text| finite(text.rsplit('/').next()?)).unwrap_or(0.0);
    let sample = Sample {
        t_s,
        cwnd: known(words.number("cwnd")) * mss,
        inflight: words.number("unacked").unwrap_or(0.0) * mss,
        pacing_bps: known(words.rate("pacing_rate")),
        bw_bps: known(model("bw").and_then(bits)),
        rtt_s: known(words.number("rtt")) * 1e-3,
        min_rtt_s: known(model("mrtt").and_then(finite).or_else(|| words.number("minrtt"))) * 1e-3,
        pacing_gain: known(model("pacing_gain").and_then(finite)),
        cwnd_gain: known(model("cwnd_gain").and_then(finite)),
        lost,
    };
    if flow.samples.last().is_some_and(|last| last.lost < lost) {
        flow.losses.push(t_s);
    }
    if let Some(phase) = Phase::of_gains(sample.pacing_gain, sample.cwnd_gain)
        && flow.phases.last().is_none_or(|(_, last)| *last != phase)
    {
        flow.phases.push((t_s, phase));
    }
    flow.samples.push(sample);
}

#[cfg(test)]
mod tests {
    use bbrlab_core::State;

    use super::*;

    const CALL: &str = "State Recv-Q Send-Q Local Address:Port Peer Address:Port\n\
        ESTAB 0 144800 10.0.0.1:5201 10.0.0.2:4444\n\
        \t bbr wscale:7,7 rto:244 rtt:41.5/0.5 mss:1448 cwnd:80 bbr:(bw:9.5Mbps,mrtt:40,pacing_gain:2.88672,cwnd_gain:2.88672) \
        send 22Mbps pacing_rate 27.1Mbps delivery_rate 9.4Mbps busy:1200ms unacked:70 retrans:0/3 minrtt:39.9\n";

    #[test]
    fn a_call_gives_a_sample_with_the_model_that_it_shows() {
        let flow = &read(&format!("1732240000.5\n{CALL}1732240001.0\n{CALL}")).unwrap().flows[0];
        assert_eq!((flow.name.as_str(), flow.mss, flow.is_timed), ("10.0.0.1:5201 10.0.0.2:4444", Some(1448.0), true));
        let sample = flow.samples[1];
        assert_eq!((sample.t_s, sample.cwnd, sample.bw_bps, sample.pacing_bps), (0.5, 115_840.0, 9.5e6, 27.1e6));
        assert_eq!((sample.rtt_s, sample.min_rtt_s, sample.lost), (0.0415, 0.04, 3.0));
        assert_eq!(flow.phases, [(0.0, Phase::Known(State::Startup))]);
    }

    #[test]
    fn without_times_the_busy_time_orders_the_samples_and_is_no_time() {
        let flow = &read(CALL).unwrap().flows[0];
        assert!(!flow.is_timed && flow.samples.len() == 1);
    }

    #[test]
    fn times_are_read_in_the_forms_of_date() {
        assert_eq!(time(&["1732240000.25"]), Some(1_732_240_000.25));
        assert_eq!(time(&["2026-11-22T03:47:10.5+00:00"]), Some(13_630.5));
        assert_eq!(time(&["Sun", "Nov", "22", "03:47:10", "UTC", "2026"]), Some(13_630.0));
        assert_eq!(time(&["ESTAB", "0", "0", "10.0.0.1:5201", "10.0.0.2:4444"]), None);
        assert_eq!(time(&[]), None);
    }
}
