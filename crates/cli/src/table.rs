//! Text output: aligned tables, a line on the bottleneck, sparklines.
//! Headings are bold on a terminal; no escape codes in a pipe or under `NO_COLOR`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write;
use std::io::IsTerminal;

use bbrlab_sim::metrics::CONVERGED;
use bbrlab_sim::record::result::{Expectation, FlowResult, ProbeResult, RunResult};
use bbrlab_sim::record::trace::Trace;
use bbrlab_stats::number::{ms, percent, rate, seconds};
use bbrlab_stats::plural::counted;
use serde_json::Value;

use crate::grid::{Align, aligned};

/// Maximum number of flows with a line of their own.
const FLOWS_SHOWN: usize = 20;
/// Number of flows shown from each end of the goodput range if there are more.
const ENDS_SHOWN: usize = 3;
/// Number of a flow's states shown.
const STATES_SHOWN: usize = 2;
/// Width of a sparkline.
const SPARKS: usize = 60;
const SPARK: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Style of the output: true if escape codes may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style(bool);

impl Style {
    /// Style for standard output: colour on a terminal, unless `NO_COLOR` is set to a value.
    pub fn of_stdout() -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self(std::io::stdout().is_terminal() && !no_color && !dumb)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub fn bold_first_line(self, text: &str) -> String {
        match text.split_once('\n') {
            Some((first, rest)) => format!("{}\n{rest}", self.paint("1", first)),
            None => text.to_owned(),
        }
    }
}

/// Formats seconds to a millisecond, without trailing zeros.
fn plain_seconds(seconds: f64) -> String {
    ((seconds * 1e3).round() / 1e3).to_string()
}

/// The states in which a flow spent most of its time; the phases of a gain cycle count together.
fn states(flow: &FlowResult) -> String {
    let is_phase = |name: &str| name.starts_with("probe_bw_");
    let mut states: Vec<(&String, f64)> =
        flow.state_s.iter().filter(|(name, _)| !is_phase(name)).map(|(name, time)| (name, *time)).collect();
    let total: f64 = states.iter().map(|(_, time)| time).sum();
    states.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shown = states.iter().filter(|(_, time)| *time > 0.0).take(STATES_SHOWN);
    shown.map(|(name, time)| format!("{name} {:.0} %", 100.0 * time / total)).collect::<Vec<_>>().join(", ")
}

pub fn run(result: &RunResult, trace: &Trace, style: Style) -> String {
    let many = result.flows.len() > FLOWS_SHOWN;
    let mut text = String::new();
    if many {
        text.push_str(&style.bold_first_line(&groups_of_many(result)));
        let _ = writeln!(
            text,
            "\n{} flows, of which these have the least and the most goodput; --json has all of them:",
            result.flows.len()
        );
    }
    text.push_str(&style.bold_first_line(&flows(result, &shown(&result.flows))));
    if !many && result.groups.len() > 1 {
        text.push('\n');
        let rows = result.groups.iter().map(|group| {
            vec![group.cc.clone(), group.flows.to_string(), rate(group.goodput_bps), percent(group.share)]
        });
        let align = [Align::Left, Align::Right, Align::Right, Align::Right];
        text.push_str(&style.bold_first_line(&aligned(&["cc", "flows", "goodput", "share"], &align, rows)));
    }
    text.push('\n');
    text.push_str(&bottleneck(result));
    text.push_str(&applications(result));
    text.push_str(&result.probe.as_deref().map_or_else(String::new, probe));
    text.push_str(&links(result, trace));
    text.push_str(&sparks(trace));
    text
}

/// Selects the flows to show: all if they are few, else those at both ends of the goodput range.
fn shown(flows: &[FlowResult]) -> Vec<&FlowResult> {
    let mut shown: Vec<&FlowResult> = flows.iter().collect();
    if flows.len() > FLOWS_SHOWN {
        shown.sort_by(|a, b| a.goodput_bps.total_cmp(&b.goodput_bps));
        shown.drain(ENDS_SHOWN..shown.len() - ENDS_SHOWN);
    }
    shown
}

fn flows(result: &RunResult, flows: &[&FlowResult]) -> String {
    let total: u64 = result.flows.iter().map(|flow| flow.bytes).sum();
    let share = |bytes: u64| if total > 0 { percent(bytes as f64 / total as f64) } else { "–".to_owned() };
    // A column that is empty in every row is omitted.
    let any_done = flows.iter().any(|flow| flow.fct_s.is_some());
    let rows = flows.iter().map(|flow| {
        let mut row = vec![
            flow.name.clone(),
            flow.cc.clone(),
            rate(flow.goodput_bps),
            share(flow.bytes),
            rtt(flow.rtt(|rtt| rtt.p50)),
            rtt(flow.rtt(|rtt| rtt.p95)),
            percent(flow.retransmit_ratio),
        ];
        if any_done {
            row.push(flow.fct_s.map_or_else(|| "–".to_owned(), seconds));
        }
        row.push(states(flow));
        row
    });
    let mut head = vec!["flow", "cc", "goodput", "share", "RTT p50 ms", "p95 ms", "retransmit"];
    let mut align = vec![Align::Right; head.len()];
    align[..2].fill(Align::Left);
    if any_done {
        head.push("done in");
        align.push(Align::Right);
    }
    head.push("time spent in");
    align.push(Align::Text);
    aligned(&head, &align, rows)
}

/// Formats an RTT; NaN if none was measured.
fn rtt(value: f64) -> String {
    if value > 0.0 { ms(value) } else { "–".to_owned() }
}

/// Groups the flows by algorithm: their sum, and the median and both extremes of their figures.
fn groups_of_many(result: &RunResult) -> String {
    let rows = result.groups.iter().map(|group| {
        let own: Vec<&FlowResult> = result.flows.iter().filter(|flow| flow.cc == group.cc).collect();
        let sorted = |figure: fn(&FlowResult) -> f64| {
            let mut values: Vec<f64> = own.iter().map(|flow| figure(flow)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let goodput = sorted(|flow| flow.goodput_bps);
        let end = |value: Option<&f64>| value.map_or_else(String::new, |bps| rate(*bps));
        let mid = |figure: fn(&FlowResult) -> f64| bbrlab_stats::median(&mut sorted(figure));
        let mut done: Vec<f64> = own.iter().filter_map(|flow| flow.fct_s).collect();
        let finished = match done.len() {
            0 => "–".to_owned(),
            count => format!("{count} in {}", seconds(bbrlab_stats::median(&mut done))),
        };
        vec![
            group.cc.clone(),
            group.flows.to_string(),
            rate(group.goodput_bps),
            percent(group.share),
            end(goodput.first()),
            rate(mid(|flow| flow.goodput_bps)),
            end(goodput.last()),
            rtt(mid(|flow| flow.rtt(|rtt| rtt.p50))),
            percent(mid(|flow| flow.retransmit_ratio)),
            finished,
        ]
    });
    let head =
        ["cc", "flows", "goodput", "share", "least", "median", "most", "RTT p50 ms", "retransmit", "done (median)"];
    let mut align = [Align::Right; 10];
    align[0] = Align::Left;
    aligned(&head, &align, rows)
}

fn bottleneck(result: &RunResult) -> String {
    let link = &result.bottleneck;
    let queue = &link.queue_ms;
    let mut text = format!(
        "bottleneck  {} used; queue {} ms mean, {} p50, {} p95, {} max; {} of {} dropped ({})",
        percent(link.utilisation),
        ms(queue.mean),
        ms(queue.p50),
        ms(queue.p95),
        ms(queue.max),
        link.drops,
        counted(link.arrivals, "packet"),
        percent(link.drop_ratio),
    );
    if link.marks > 0 {
        let _ = write!(text, "; {} marked", link.marks);
    }
    text.push('\n');
    if let Some(up) = &result.up {
        let filtered =
            if up.filtered > 0 { format!("; {} filtered", counted(up.filtered, "ACK")) } else { String::new() };
        let _ = writeln!(
            text,
            "up          {} used; queue {} ms mean, {} p50, {} p95, {} max; {} of {} dropped ({}){filtered}",
            percent(up.utilisation),
            ms(up.queue_ms.mean),
            ms(up.queue_ms.p50),
            ms(up.queue_ms.p95),
            ms(up.queue_ms.max),
            up.drops,
            counted(up.arrivals, "packet"),
            percent(up.drop_ratio),
        );
    }
    if result.flows.len() > 1 {
        let [from, to] = result.interval_s.map(plain_seconds);
        let _ =
            writeln!(text, "interval    {from} to {to} s: shares and groups' goodput count the bytes received in it");
        let _ = write!(text, "fairness    Jain {:.3}", result.jain);
        let _ = match result.convergence_s {
            Some(time) => writeln!(text, ", converged at {time:.0} s"),
            None if share_a_second(result) => {
                writeln!(text, " in this interval; not converged: one-second bins fall below {CONVERGED} until the end")
            }
            None => writeln!(text),
        };
    }
    text
}

/// One line on each application of a flow.
fn applications(result: &RunResult) -> String {
    let mut text = String::new();
    for flow in result.flows.iter().take(FLOWS_SHOWN) {
        if let Some(call) = &flow.call {
            let _ = writeln!(
                text,
                "call        {}: {} of {} later than {} ms ({}); {}MOS {:.2}",
                flow.name,
                call.late,
                counted(call.frames, "frame"),
                ms(call.deadline_ms),
                percent(call.late_ratio),
                call.delay_ms.as_ref().map_or_else(String::new, |delay| format!(
                    "delay {} ms p50, {} p95; ",
                    ms(delay.p50),
                    ms(delay.p95)
                )),
                call.mos,
            );
        }
        if let Some(video) = &flow.video {
            let started =
                video.startup_s.map_or("never started".to_owned(), |s| format!("started after {}", seconds(s)));
            let stalls = match video.stalls {
                0 => "no stalls".to_owned(),
                n => format!("{}, {}", counted(n, "stall"), seconds(video.stalled_s)),
            };
            let latency = video.latency_s.map_or_else(String::new, |s| format!("; latency {}", seconds(s)));
            let _ = writeln!(
                text,
                "video       {}: {started}; {stalls}; {} mean bitrate, {}; QoE {:.0}{latency}",
                flow.name,
                rate(video.bitrate_bps),
                counted(video.switches, "change"),
                video.qoe,
            );
        }
        if let Some(page) = &flow.page {
            let load = page.load_ms.as_ref().map_or("none complete".to_owned(), |load| {
                format!("{} p50, {} p95", seconds(load.p50 / 1e3), seconds(load.p95 / 1e3))
            });
            let _ = writeln!(
                text,
                "page        {}: {} of {}; page-load time {load}",
                flow.name,
                counted(page.loads, "load"),
                counted(page.objects, "object"),
            );
        }
        if let Some(requests) = &flow.requests {
            let time = requests
                .time_ms
                .as_ref()
                .map_or("none complete".to_owned(), |time| format!("{} ms p50, {} p95", ms(time.p50), ms(time.p95)));
            let _ = writeln!(
                text,
                "requests    {}: {} of {} later than {} ms ({}); {time}",
                flow.name,
                requests.late,
                counted(requests.responses, "response"),
                ms(requests.deadline_ms),
                percent(requests.late_ratio),
            );
        }
    }
    text
}

/// One line on the lag probe, and one on responsiveness.
fn probe(probe: &ProbeResult) -> String {
    let lost = format!("{} of {} lost ({})", probe.lost, counted(probe.sent, "probe"), percent(probe.loss_ratio));
    let mut text = match &probe.rtt_ms {
        Some(rtt) => format!(
            "probe       RTT {} ms p50, {} p95, {} p99, {} max; {lost}\n",
            ms(rtt.p50),
            ms(rtt.p95),
            ms(rtt.p99),
            ms(rtt.max)
        ),
        None => format!("probe       no echo; {lost}\n"),
    };
    if let Some(rpm) = &probe.rpm {
        let _ = writeln!(
            text,
            "RPM         {:.0} round trips a minute: {:.0} of the probe, {:.0} on the loaded connections",
            rpm.rpm, rpm.foreign, rpm.loaded
        );
    }
    text
}

/// True if two flows overlap for some whole second after the last start. Their shares of it can then be compared.
fn share_a_second(result: &RunResult) -> bool {
    let last_start = result.flows.iter().map(|flow| flow.start_s.ceil()).fold(0.0, f64::max);
    let mut ends: Vec<f64> = (result.flows.iter())
        .map(|flow| flow.fct_s.map_or(result.interval_s[1], |fct_s| flow.start_s + fct_s).floor())
        .collect();
    ends.sort_by(f64::total_cmp);
    ends.len() > 1 && ends[ends.len() - 2] > last_start
}

/// One line per link if there are several, from the series: the bottleneck alone does not represent the others.
fn links(result: &RunResult, trace: &Trace) -> String {
    let mut text = String::new();
    let from = trace.t_ns.partition_point(|&t_ns| (t_ns as f64) < result.interval_s[0] * 1e9);
    let Some(last) = trace.t_ns.len().checked_sub(1).filter(|&last| from < last && trace.links.len() > 1) else {
        return text;
    };
    let seconds = (trace.t_ns[last] - trace.t_ns[from]) as f64 / 1e9;
    for (index, link) in trace.links.iter().enumerate() {
        let grown = |counter: &[u64]| counter[last] - counter[from];
        let rates = &link.rate_bps[from..last];
        let mean_bps = rates.iter().sum::<u64>() as f64 / rates.len() as f64;
        let used = match mean_bps > 0.0 {
            true => percent((grown(&link.departed_bytes) as f64 * 8.0 / (mean_bps * seconds)).min(1.0)),
            false => "–".to_owned(),
        };
        let max = link.queue_packets[from..].iter().max().copied().unwrap_or(0);
        let (arrivals, drops) = (grown(&link.arrivals), grown(&link.drops));
        let _ = writeln!(
            text,
            "{:<11} {} mean rate, {used} used; queue up to {}; {drops} of {} dropped",
            format!("link {}", index + 1),
            bbrlab_stats::number::rate(mean_bps),
            counted(max, "packet"),
            counted(arrivals, "packet"),
        );
    }
    text
}

/// Sparklines of the total goodput and the bottlenecks' queue over time.
fn sparks(trace: &Trace) -> String {
    let points = trace.t_ns.len();
    if points < 2 {
        return String::new();
    }
    let bins = SPARKS.min(points - 1);
    let edge = |bin: usize| bin * (points - 1) / bins;
    let received = |index: usize| -> u64 { trace.flows.iter().filter_map(|flow| flow.received_bytes.get(index)).sum() };
    let goodput = (0..bins).map(|bin| {
        let (from, to) = (edge(bin), edge(bin + 1));
        let seconds = (trace.t_ns[to] - trace.t_ns[from]) as f64 / 1e9;
        (received(to).saturating_sub(received(from))) as f64 * 8.0 / seconds.max(1e-9)
    });
    let queue = (0..bins).map(|bin| {
        let range = edge(bin)..edge(bin + 1);
        let max = |index: usize| trace.links.iter().filter_map(|link| link.queue_packets.get(index)).max().copied();
        range.filter_map(max).max().unwrap_or(0).into()
    });
    let (goodput, queue): (Vec<f64>, Vec<f64>) = (goodput.collect(), queue.collect());
    let highest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    format!(
        "goodput     {} up to {}\nqueue       {} up to {}\n",
        spark(&goodput),
        rate(highest(&goodput)),
        spark(&queue),
        counted(highest(&queue) as u32, "packet"),
    )
}

pub fn spark(values: &[f64]) -> String {
    let highest = values.iter().copied().fold(0.0, f64::max);
    let level = |value: f64| if highest > 0.0 { (value / highest * 7.0).round() as usize } else { 0 };
    values.iter().map(|value| SPARK[level(*value).min(7)]).collect()
}

/// Formats several runs: medians with their intervals.
pub fn repeated(document: &Value, style: Style) -> String {
    let summary = &document["summary"];
    let figure = |value: &Value, show: &dyn Fn(f64) -> String| match value["median"].as_f64() {
        Some(median) => {
            let shown = show(median);
            let unit = shown.split_once(' ').map_or("", |(_, unit)| unit);
            // An interval in the median's unit does not repeat the unit.
            let bound = |key: &str| {
                let bound = value[key].as_f64().map_or(String::new(), show);
                bound.strip_suffix(unit).map(str::trim_end).unwrap_or(&bound).to_owned()
            };
            format!("{shown} ({} … {})", bound("low"), bound("high"))
        }
        None => "–".to_owned(),
    };
    let flows = summary["flows"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = flows.iter().take(FLOWS_SHOWN).map(|flow| {
        vec![
            text(&flow["name"]),
            text(&flow["cc"]),
            figure(&flow["goodput_bps"], &rate),
            figure(&flow["rtt_ms"]["p50"], &ms),
            figure(&flow["retransmit_ratio"], &percent),
        ]
    });
    let align = [Align::Left, Align::Left, Align::Right, Align::Right, Align::Right];
    let head = ["flow", "cc", "goodput", "RTT p50 ms", "retransmit"];
    let mut shown = style.bold_first_line(&aligned(&head, &align, rows));
    if flows.len() > FLOWS_SHOWN {
        let _ = writeln!(shown, "… and {} more; --json has them all", counted(flows.len() - FLOWS_SHOWN, "flow"));
    }
    let groups = summary["groups"].as_array().map_or(&[][..], Vec::as_slice);
    if groups.len() > 1 {
        let rows = groups.iter().map(|group| {
            vec![text(&group["cc"]), figure(&group["goodput_bps"], &rate), figure(&group["share"], &percent)]
        });
        shown.push('\n');
        let align = [Align::Left, Align::Right, Align::Right];
        shown.push_str(&style.bold_first_line(&aligned(&["cc", "goodput", "share"], &align, rows)));
    }
    let link = &summary["bottleneck"];
    let runs = document["runs"].as_array().map_or(0, Vec::len);
    let probe = &summary["probe"];
    let lag = match probe.is_object() {
        true => format!(
            "\nprobe       RTT p50 {} ms, p95 {}; lost {}; RPM {}",
            figure(&probe["rtt_ms"]["p50"], &ms),
            figure(&probe["rtt_ms"]["p95"], &ms),
            figure(&probe["loss_ratio"], &percent),
            figure(&probe["rpm"]["rpm"], &|rpm| format!("{rpm:.0}")),
        ),
        false => String::new(),
    };
    let _ = writeln!(
        shown,
        "\nbottleneck  {} used; queue p95 {} ms; dropped {}{lag}\nmedians of {runs} runs with 95 % bootstrap intervals{}",
        figure(&link["utilisation"], &percent),
        figure(&link["queue_ms"]["p95"], &ms),
        figure(&link["drop_ratio"], &percent),
        start_jitter(&document["scenario"]),
    );
    shown
}

/// Describes the jitter of the flows' starts, which is the only difference between otherwise equal runs.
fn start_jitter(scenario: &Value) -> String {
    match scenario["start_jitter"].as_str() {
        None | Some("0s") => String::new(),
        Some(max) => format!("; each flow starts up to {max} later at random (--start-jitter 0s: it does not)"),
    }
}

/// Formats one line per expectation; empty if there are none.
pub fn expectations(expectations: &[Expectation], style: Style) -> String {
    let mut text = String::new();
    for expectation in expectations {
        let Expectation { id, what, expected, measured, holds } = expectation;
        let verdict = if *holds { style.paint("32", "holds") } else { style.paint("31", "FAILS") };
        let id = if id.is_empty() { String::new() } else { format!("{id} ") };
        let _ = writeln!(text, "{verdict}  {id}{what}: {measured:.4} (expected {expected})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(toml: &str) -> String {
        let read = bbrlab_sim::scenario::ScenarioFile::from_toml(toml, "a test").unwrap();
        let output = bbrlab_sim::engine::run(&read.scenario.resolve().unwrap());
        run(&output.result, &output.trace, Style(false))
    }

    #[test]
    fn of_several_links_each_has_its_line() {
        let text = shown("duration = '2s'\n[[link]]\nrate = '10mbit'\n[[link]]\nrate = '5mbit'");
        assert!(text.contains("\nlink 1 ") && text.contains("\nlink 2 "), "{text}");
        assert!(!shown("duration = '2s'").contains("link 1"));
    }

    #[test]
    fn fairness_says_nothing_of_seconds_where_there_is_no_whole_one_to_compare() {
        let line = |toml: &str| shown(toml).lines().find(|line| line.starts_with("fairness")).unwrap().to_owned();
        let short = line("duration = '900ms'\nflow = ['cubic', 'cubic']");
        assert!(!short.contains("one-second bins") && !short.contains("converged"), "{short}");
        let unfair = line("duration = '5s'\nflow = ['cubic', 'cubic,rate=100kbit']");
        assert!(
            unfair.ends_with("in this interval; not converged: one-second bins fall below 0.95 until the end"),
            "{unfair}"
        );
    }

    #[test]
    fn the_probe_and_each_application_have_a_line() {
        let flows = "flow = ['cubic', 'bbr3,video=throughput:300kbit/1mbit', 'bbr3,call=500kbit/30', \
                     'reno,page=light/1s', 'reno,request=10kB/100ms,deadline=50ms']";
        let text = shown(&format!("duration = '10s'\nprobe = '20ms'\n{flows}"));
        for start in ["probe  ", "RPM  ", "video  ", "call  ", "page  ", "requests  "] {
            assert_eq!(text.lines().filter(|line| line.starts_with(start)).count(), 1, "{start}: {text}");
        }
        let plain = shown("duration = '1s'");
        assert!(!plain.contains("probe  ") && !plain.contains("video  "), "{plain}");
    }

    #[test]
    fn a_small_share_has_the_digits_that_a_page_gives_it() {
        assert_eq!(percent(0.000_996), "0.0996 %");
        assert_eq!((percent(0.0), percent(0.005), percent(0.5)), ("0 %".into(), "0.50 %".into(), "50.0 %".into()));
    }

    #[test]
    fn a_sparkline_reaches_from_nothing_to_the_highest() {
        assert_eq!(spark(&[0.0, 1.0, 2.0]), "▁▅█");
        assert_eq!(spark(&[0.0, 0.0]), "▁▁");
    }
}
