//! Answer of a run in words and numbers, with the facts of the question.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::record::result::{FlowResult, Group, ProbeResult, RunResult};
use bbrlab_stats::number::{rate_in_text, rounded};
use serde_json::Value;

use crate::model::Number;

/// Maximum algorithms whose goodput is shown on the first screen. Ours.
const GROUPS_SHOWN: usize = 4;

/// Facts about the path.
pub(super) fn facts(result: &RunResult) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    for key in ["rate", "trace", "rtt", "buffer", "loss", "aqm", "policer", "up", "probe", "duration", "start_jitter"] {
        let value = match result.scenario.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => continue,
        };
        let name = match key {
            "trace" => "delivery trace",
            "rtt" => "RTT",
            "aqm" => "AQM",
            "up" => "reverse link",
            "start_jitter" => "start jitter",
            other => other,
        };
        facts.push((name.to_owned(), value));
    }
    let on = match result.on.as_str() {
        "sim" => "the simulator",
        "uml" => "a real kernel in virtual time",
        "kernel" => "this host's kernel",
        other => other,
    };
    facts.extend([("ran in".to_owned(), on.to_owned()), ("seed".to_owned(), result.seed.to_string())]);
    facts
}

/// Formats a group's name: `bbr1`, `3 × cubic`.
pub(super) fn group_name(group: &Group) -> String {
    if group.flows == 1 { group.cc.clone() } else { format!("{} × {}", group.flows, group.cc) }
}

pub(super) fn sig3(value: f64) -> String {
    rounded(value, 3)
}

/// Answer in one sentence.
pub(super) fn answer(result: &RunResult) -> String {
    let groups: Vec<&Group> = result.groups.iter().filter(|group| group.flows > 0).collect();
    let got: Vec<String> =
        groups.iter().map(|group| format!("{} {}", group_name(group), rate_in_text(group.goodput_bps))).collect();
    let (got, verb) = match got.as_slice() {
        [] => return String::new(),
        [one] => (one.clone(), "gets"),
        [first @ .., last] => (format!("{} and {last}", first.join(", ")), "get"),
    };
    let got = match groups.as_slice() {
        [only] => format!("{} {verb} {}", group_name(only), rate_in_text(only.goodput_bps)),
        _ => format!("Goodput: {got}"),
    };
    let link = &result.bottleneck;
    format!(
        "{got}; {} % of the link is used, and the median queueing delay is {} ms.",
        sig3(100.0 * link.utilisation),
        sig3(link.queue_ms.p50)
    )
}

/// Answer in numbers.
pub(super) fn numbers(result: &RunResult) -> Vec<Number> {
    let groups: Vec<&Group> = result.groups.iter().filter(|group| group.flows > 0).collect();
    let [from_s, to_s] = result.interval_s;
    let number =
        |label: &str, value: String, note: String| Number { label: label.to_owned(), value, note, color_key: None };
    let mut numbers: Vec<Number> = groups
        .iter()
        .take(GROUPS_SHOWN)
        .map(|group| Number {
            label: format!("Goodput of {}", group_name(group)),
            value: rate_in_text(group.goodput_bps),
            note: if groups.len() > 1 {
                format!("{} % of all bytes from {} to {} s", sig3(100.0 * group.share), sig3(from_s), sig3(to_s))
            } else {
                String::new()
            },
            color_key: Some(group.cc.clone()),
        })
        .collect();
    let link = &result.bottleneck;
    numbers.push(number("Link used", format!("{} %", sig3(100.0 * link.utilisation)), String::new()));
    if let [FlowResult { rtt_ms: Some(rtt), .. }] = result.flows.as_slice() {
        numbers.push(number("RTT, median", format!("{} ms", sig3(rtt.p50)), format!("95 %: {} ms", sig3(rtt.p95))));
    }
    let queue = &link.queue_ms;
    numbers.push(number(
        "Queueing delay, median",
        format!("{} ms", sig3(queue.p50)),
        format!("95 %: {} ms", sig3(queue.p95)),
    ));
    numbers.push(number(
        "Dropped at the link",
        format!("{} %", sig3(100.0 * link.drop_ratio)),
        format!("{} packets", link.drops),
    ));
    if let Some(up) = &result.up {
        let note = format!("95 %: {} ms; {} % used", sig3(up.queue_ms.p95), sig3(100.0 * up.utilisation));
        numbers.push(number(
            "Queueing delay of the reverse path, median",
            format!("{} ms", sig3(up.queue_ms.p50)),
            note,
        ));
    }
    if let Some(ProbeResult { rtt_ms: Some(rtt), sent, lost, rpm, .. }) = result.probe.as_deref() {
        let note = format!("95 %: {} ms; {lost} of {sent} probes lost", sig3(rtt.p95));
        numbers.push(number("Probe's RTT, median", format!("{} ms", sig3(rtt.p50)), note));
        if let Some(rpm) = rpm {
            let note = "round trips a minute, by draft-ietf-ippm-responsiveness".to_owned();
            numbers.push(number("Responsiveness", format!("{:.0} RPM", rpm.rpm), note));
        }
    }
    if result.flows.len() > 1 {
        numbers.push(number("Fairness (Jain)", sig3(result.jain), "1 is equal".to_owned()));
    }
    numbers
}
