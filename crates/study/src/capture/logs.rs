//! Figures of a scenario's flows from qlogs of their senders, for a run that was made elsewhere over QUIC.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::Read;

use bbrlab_core::{Span, Time};
use bbrlab_sim::record::result::RunResult;
use bbrlab_sim::setup::{Setup, Traffic};

use super::bottleneck::Bottleneck;
use super::flow::Counters;
use super::qlog::{self, Log, Moment};
use super::result::{Counted, Tally, check_end, of_flows};
use crate::{Error, Result};

/// Name of the backend in such a result.
pub const ON: &str = "qlog";
/// Share of a transfer's size from which it is complete. Ours: without its frames, a packet's data is known to 1 or 2 %.
const COMPLETE: f64 = 0.97;
/// Smallest packet that may carry data of a transfer, bytes. Ours: smaller ones are ACKs.
const DATA_MIN: u64 = 100;

/// One connection within the run.
#[derive(Clone, Debug, Default)]
struct Logged {
    tally: Tally,
    /// Counters of whole packets at the newest event.
    counters: Counters,
    /// Time of the newest event.
    last: Time,
}

impl Logged {
    fn on_event(&mut self, setup: &Setup, link: Option<&Bottleneck>, start: Time, log: &Log, moment: Moment) {
        let Some(begun_ns) = log.flow.first_ns else { return };
        let at = start + Span::nanos(moment.now_ns.saturating_sub(begun_ns));
        if at > setup.duration {
            return;
        }
        let is_measuring = at > setup.warmup || setup.warmup <= start;
        if is_measuring {
            self.tally.before.get_or_insert(self.counters);
        }
        let (earlier, now) = (self.counters, log.flow.counters);
        (self.counters, self.last) = (now, at);
        if now.sent >= earlier.sent + DATA_MIN {
            self.tally.sent_ns = moment.now_ns;
        }
        if now.delivered > earlier.delivered {
            let bytes = ((now.delivered - earlier.delivered) as f64 * log.data_share()) as u64;
            self.tally.acked(moment.now_ns, at, bytes, moment.rtt_ns.map(|rtt_ns| (rtt_ns, is_measuring)));
            if let Some(link) = link.filter(|_| is_measuring) {
                let wire = |length: u64| length as f64 * log.flow.wire_ratio();
                let (more, full) = (now.delivered - earlier.delivered, log.flow.mss());
                self.tally.passed.on_ack(link, wire(more), wire(full), moment.rtt_ns);
            }
        }
    }

    /// Counts of stream data. A packet's length is that of the UDP payload.
    fn counted(self, log: &Log, start: Time, traffic: &Traffic) -> Counted {
        let share = log.data_share();
        let data = |bytes: u64| (bytes as f64 * share).round() as u64;
        let finished = match *traffic {
            Traffic::Size(bytes) if self.counters.delivered as f64 * share >= COMPLETE * bytes as f64 => {
                let begun_ns = log.flow.first_ns.unwrap_or_default();
                Some(start + Span::nanos(self.tally.arrived_ns().saturating_sub(begun_ns)))
            }
            _ => None,
        };
        let whole = self.counters.since(&self.tally.before.unwrap_or_default());
        let counters =
            Counters { sent: data(whole.sent), delivered: data(whole.delivered), again: data(whole.again), ..whole };
        let mss = data(log.flow.mss()).max(1);
        Counted {
            counters,
            mss,
            wire_ratio: log.flow.wire_ratio() / share.max(f64::EPSILON),
            tally: self.tally,
            finished,
        }
    }
}

/// Reads qlogs, made at the senders of the data, of a run of a scenario. Their connections are its flows, in the order of the logs and of
/// the flows' starts; each begins with its first packet. The bottleneck's figures are those of [`super::result::result`].
///
/// # Errors
/// If a log is no qlog or lacks recovery's metrics; if there are more or fewer connections than flows; if a log ends before the run.
pub fn result<R: Read>(logs: impl IntoIterator<Item = R>, setup: &Setup) -> Result<RunResult> {
    let mut order: Vec<usize> = (0..setup.flows.len()).collect();
    order.sort_by_key(|&nth| setup.flows[nth].start);
    let mut counted: Vec<Option<Counted>> = vec![None; order.len()];
    let (link, mut found) = (Bottleneck::of(setup), 0);
    for from in logs {
        let flows: Vec<usize> = order.iter().copied().skip(found).collect();
        let mut seen = vec![Logged::default(); flows.len()];
        let (connections, _) = qlog::connections(from, |place, log, moment| {
            if let Some((logged, &flow)) = seen.get_mut(place).zip(flows.get(place)) {
                logged.on_event(setup, link.as_ref(), setup.flows[flow].start, log, moment);
            }
        })?;
        found += connections.len();
        for ((logged, log), flow) in seen.into_iter().zip(&connections).zip(flows) {
            if log.flow.counters.delivered == 0 {
                return Err(Error::NoMetrics);
            }
            let (last, flow_of) = (logged.last, &setup.flows[flow]);
            let one = logged.counted(log, flow_of.start, &flow_of.traffic);
            if one.finished.is_none() {
                check_end(setup, last)?;
            }
            counted[flow] = Some(one);
        }
    }
    if found != order.len() {
        return Err(Error::OtherConnections { found, wanted: order.len() });
    }
    let counted: Vec<Counted> = counted.into_iter().flatten().collect();
    Ok(of_flows(setup, ON, &counted))
}

#[cfg(test)]
mod tests {
    use bbrlab_report::export::{Record, qlog};
    use bbrlab_sim::engine;
    use bbrlab_sim::record::packets::Tap;
    use bbrlab_sim::scenario::ScenarioFile;
    use bbrlab_sim::setup::Capture;

    use super::*;

    /// Setup of a scenario, its simulated result, and its log.
    fn logged(text: &str) -> (Setup, RunResult, Vec<u8>) {
        let mut setup = ScenarioFile::from_toml(text, "x").unwrap().resolve(&|_| unreachable!("no trace")).unwrap();
        setup.capture = Capture::On { limit: usize::MAX, taps: &[Tap::Sender] };
        let output = engine::run(&setup);
        let record =
            Record { setup: &setup, result: &output.result, trace: &output.trace, packets: &output.packets.records };
        let mut bytes = Vec::new();
        qlog::sequence(&record, &mut bytes).unwrap();
        (setup, output.result, bytes)
    }

    const TWO: &str = "rate = '20mbit'\nrtt = '40ms'\nbuffer = '1bdp'\nloss = '0.2%'\nduration = '12s'\nwarmup = '5s'\n\
                       sample = '100ms'\nflow = ['cubic', 'bbr1@1s']\n";

    fn is_near(found: f64, truth: f64, share: f64) -> bool {
        (found / truth - 1.0).abs() < share
    }

    /// Compares a run's figures with those of its logs.
    fn compare(found: &RunResult, truth: &RunResult) {
        assert_eq!((&*found.on, found.seed, found.flows.len()), (ON, truth.seed, truth.flows.len()));
        for (own, truth) in found.flows.iter().zip(&truth.flows) {
            let (rtt, wanted) = (own.rtt_ms.as_ref().unwrap(), truth.rtt_ms.as_ref().unwrap());
            assert_eq!((&own.name, &own.cc), (&truth.name, &truth.cc));
            assert!(is_near(own.goodput_bps, truth.goodput_bps, 0.01), "{} {}", own.goodput_bps, truth.goodput_bps);
            assert!(is_near(rtt.p50, wanted.p50, 0.01) && is_near(rtt.p95, wanted.p95, 0.01), "{rtt:?} {wanted:?}");
            let apart = (own.retransmit_ratio - truth.retransmit_ratio).abs();
            assert!(apart < 3e-4, "{} {}", own.retransmit_ratio, truth.retransmit_ratio);
        }
        assert!((found.jain - truth.jain).abs() < 0.005, "{} {}", found.jain, truth.jain);
        assert!(found.bottleneck.utilisation.is_nan() && found.bottleneck.queue_ms.p50.is_nan());
    }

    #[test]
    fn figures_of_a_log_are_those_of_its_run_in_one_file_or_one_for_each_flow() {
        let (setup, truth, bytes) = logged(TWO);
        compare(&result([bytes.as_slice()], &setup).unwrap(), &truth);
        let text = String::from_utf8(bytes).unwrap();
        let of = |group: &str, other: &str| {
            let has = |line: &&str| line.contains(group) || !line.contains(other);
            text.lines().filter(has).map(|line| format!("{line}\n")).collect::<String>()
        };
        let (first, second) = ("\"group_id\":\"cubic#0\"", "\"group_id\":\"bbr1#0\"");
        let logs = [of(first, second), of(second, first)];
        compare(&result(logs.iter().map(|log| log.as_bytes()), &setup).unwrap(), &truth);
    }

    #[test]
    fn logs_show_the_bottleneck_of_a_path_without_other_effects() {
        let text = "rate = '20mbit'\nrtt = '40ms'\nbuffer = '1bdp'\nduration = '20s'\nwarmup = '5s'\nsample = '100ms'\n\
                    flow = ['bbr3', 'cubic@1s']\n";
        let (setup, truth, bytes) = logged(text);
        let (found, truth) = (result([bytes.as_slice()], &setup).unwrap().bottleneck, truth.bottleneck);
        // Frames of TCP have 24 bytes of headers more than a log's reader assumes for QUIC.
        assert!(is_near(found.utilisation, truth.utilisation * 1490.0 / 1514.0, 0.005), "{found:?} {truth:?}");
        assert!((found.drop_ratio - truth.drop_ratio).abs() < 1e-3, "{found:?} {truth:?}");
        let (own, wanted) = (&found.queue_ms, &truth.queue_ms);
        assert!(is_near(own.p50, wanted.p50, 0.03) && is_near(own.p95, wanted.p95, 0.03), "{own:?} {wanted:?}");
    }

    #[test]
    fn logs_of_something_else_are_refused() {
        let (setup, _, bytes) = logged(TWO);
        let refused = |logs: &[&[u8]], setup: &Setup| result(logs.iter().copied(), setup).unwrap_err().to_string();
        assert_eq!(
            refused(&[&bytes, &bytes], &setup),
            "it holds 4 connections, and the scenario has 2 flows; capture all of the run's, and no others"
        );
        let mut longer = setup.clone();
        longer.duration += Span::secs(20);
        assert_eq!(refused(&[&bytes], &longer), "it ends after 12.0 s of 32.0; capture the whole run");
        let text = "rate = '20mbit'\nrtt = '40ms'\nduration = '2s'\nflow = ['cubic']\n";
        let setup = ScenarioFile::from_toml(text, "x").unwrap().resolve(&|_| unreachable!("no trace")).unwrap();
        let event = |name: &str| format!("{{\"time\":1,\"name\":\"quic:{name}\",\"data\":{{}}}}\n");
        assert!(refused(&[event("packet_sent").as_bytes()], &setup).contains("no packet_sent with recovery's metrics"));
    }
}
