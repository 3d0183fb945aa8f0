//! Turns the counters of a finished run into its result.
//! In: the world at its end. Out: a [`RunResult`]. Never: a change of anything.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::NANOS_PER_SEC;

use super::World;
use super::flow::Flow;
use crate::metrics::{convergence_s, groups, jain, probe_rtt_seconds, secs, state_times};
use crate::record::Output;
use crate::record::packets::Packets;
use crate::record::result::{Bottleneck, FlowResult, Model, RunResult, SCHEMA};
use crate::setup::FlowSetup;

/// Nanoseconds to milliseconds.
const NS_TO_MS: f64 = 1e-6;
/// Microseconds to milliseconds.
const US_TO_MS: f64 = 1e-3;

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl World<'_> {
    pub(super) fn finish(self) -> Output {
        let flows: Vec<_> =
            self.flows.iter().zip(&self.setup.flows).map(|(flow, setup)| self.flow_result(flow, setup)).collect();
        let goodputs: Vec<f64> = flows.iter().map(|flow| flow.goodput_bps).collect();
        let result = RunResult {
            schema: SCHEMA,
            scenario: serde_json::Value::Null,
            on: "sim".into(),
            seed: self.setup.seed,
            version: env!("CARGO_PKG_VERSION").into(),
            wall_s: 0.0,
            events: self.events,
            packets: self.path.there.bottleneck().stats().departed_packets,
            bottleneck: self.bottleneck(),
            jain: jain(&goodputs),
            convergence_s: self.convergence(),
            groups: groups(&flows),
            flows,
            expect: Vec::new(),
            world: None,
        };
        let trace = self.recorder.finish(&self.flows);
        let packets = self.capture.map_or_else(Packets::default, |capture| capture.finish());
        Output { result, trace, packets }
    }

    fn bottleneck(&self) -> Bottleneck {
        let link = self.path.there.bottleneck();
        let (stats, before) = (link.stats(), &self.mark.stats);
        let arrivals = stats.arrivals - before.arrivals;
        let drops = stats.drops + stats.policed - before.drops - before.policed;
        Bottleneck {
            // A packet counts when its last bit leaves, so one that warm-up cut in two could make it more than all.
            utilisation: ratio(
                stats.departed_bytes - before.departed_bytes,
                link.capacity_bytes_until(self.now) - self.mark.capacity,
            )
            .min(1.0),
            arrivals,
            drops,
            drop_ratio: ratio(drops, arrivals),
            marks: stats.marks - before.marks,
            queue_ms: self.queue_delay.distribution(self.now, NS_TO_MS),
        }
    }

    fn flow_result(&self, flow: &Flow, setup: &FlowSetup) -> FlowResult {
        let stats = &flow.stats;
        let (mark, sender) = (&stats.mark, &flow.sender.stats);
        let from = self.setup.warmup.max(setup.start);
        let until = stats.finished.unwrap_or(self.now).max(from);
        let span = secs(until) - secs(from);
        let per_second = |bytes: u64| if span > 0.0 { bytes as f64 * 8.0 / span } else { 0.0 };
        let snapshot = flow.sender.cc.snapshot();
        let exchanges = &stats.exchanges;
        let fct_s = match stats.finished {
            Some(at) => Some(secs(at) - secs(setup.start)),
            None if exchanges.is_empty() => None,
            None => {
                let total: f64 = exchanges.iter().map(|span| span.as_nanos() as f64).sum();
                Some(total / exchanges.len() as f64 / NANOS_PER_SEC as f64)
            }
        };
        FlowResult {
            name: setup.name.clone(),
            cc: setup.algorithm.name().into(),
            start_s: secs(setup.start),
            goodput_bps: per_second(flow.receiver.bytes - mark.bytes),
            throughput_bps: per_second(flow.receiver.wire_bytes - mark.wire_bytes),
            rtt_ms: stats.rtt.distribution(US_TO_MS),
            jitter_ms: if stats.jitter.1 == 0 { 0.0 } else { stats.jitter.0 as f64 / stats.jitter.1 as f64 * US_TO_MS },
            jitter_rfc3550_ms: stats.jitter_rfc3550 * US_TO_MS,
            retransmit_ratio: ratio(
                sender.retransmits - mark.sender.retransmits,
                sender.segments - mark.sender.segments,
            ),
            drop_ratio: Some(ratio(stats.bottleneck.1 - mark.bottleneck.1, stats.bottleneck.0 - mark.bottleneck.0)),
            rto: sender.rto - mark.sender.rto,
            spurious_retransmits: flow.receiver.duplicates - mark.duplicates,
            bytes: flow.receiver.bytes - mark.bytes,
            fct_s,
            state_s: state_times(&stats.states, until),
            model: Model {
                bw_bps: snapshot.bw.as_bits_per_sec() as f64,
                min_rtt_ms: snapshot.min_rtt.map_or(0.0, |rtt| rtt.as_nanos() as f64 * NS_TO_MS),
            },
        }
    }

    fn convergence(&self) -> Option<f64> {
        let seconds = (self.now.as_nanos() / NANOS_PER_SEC) as usize;
        let bins: Vec<Vec<f64>> =
            self.flows.iter().map(|flow| flow.stats.bins.iter().map(|&bytes| bytes as f64).collect()).collect();
        let starts: Vec<usize> =
            self.setup.flows.iter().map(|flow| flow.start.as_nanos().div_ceil(NANOS_PER_SEC) as usize).collect();
        let states = self.flows.iter().map(|flow| flow.stats.states.as_slice());
        convergence_s(&bins, &starts, seconds, &probe_rtt_seconds(states, seconds))
    }
}
