//! What the flows knew and what the meter saw, as the same result that the simulator gives.
//! In: a driven run and a meter. Out: an [`Output`]. Never: a figure of its own that the simulator defines otherwise.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;
use bbrlab_sim::metrics::{convergence_s, groups, jain, probe_rtt_seconds, secs, state_times};
use bbrlab_sim::record::Output;
use bbrlab_sim::record::result::{Bottleneck, FlowResult, Model, RunResult, SCHEMA};
use bbrlab_sim::setup::{FlowSetup, Setup};

use crate::flows::{Driven, FlowDriven};
use crate::meter::{FlowMeter, Meter};

/// Nanoseconds to milliseconds.
const NS_TO_MS: f64 = 1e-6;
/// Microseconds to milliseconds.
const US_TO_MS: f64 = 1e-3;
/// Bits in a byte.
const BITS: f64 = 8.0;

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The result and the series of a run on the world `on`. The meter's queueing delay counts where it sees packets leave the
/// bottleneck, else the driver's samples of the backlog on a grid: both are over time.
pub fn output(setup: &Setup, on: &str, mut driven: Driven, meter: &Meter) -> Output {
    let flows: Vec<FlowResult> = setup
        .flows
        .iter()
        .zip(&driven.flows)
        .zip(meter.flows())
        .map(|((flow, driven), meter)| flow_result(setup, flow, driven, meter))
        .collect();
    let goodputs: Vec<f64> = flows.iter().map(|flow| flow.goodput_bps).collect();
    let link = driven.links.1.get(setup.bottleneck).copied().unwrap_or_default();
    for ((column, flow), meter) in driven.trace.flows.iter_mut().zip(&driven.flows).zip(meter.flows()) {
        column.states.clone_from(&flow.states);
        column.rtt_samples = meter.rtt_samples.iter().flatten().map(|&(ns, us)| (Time::nanos(ns), us)).collect();
    }
    let result = RunResult {
        schema: SCHEMA,
        scenario: serde_json::Value::Null,
        on: on.into(),
        seed: setup.seed,
        version: env!("CARGO_PKG_VERSION").into(),
        wall_s: 0.0,
        events: 0,
        packets: link.departed_packets,
        bottleneck: bottleneck(setup, &driven, meter),
        jain: jain(&goodputs),
        convergence_s: convergence(setup, &driven, meter),
        groups: groups(&flows),
        flows,
        expect: Vec::new(),
        world: None,
    };
    Output { result, trace: driven.trace, packets: Default::default() }
}

fn bottleneck(setup: &Setup, driven: &Driven, meter: &Meter) -> Bottleneck {
    let at = |links: &[crate::flows::LinkSeen]| links.get(setup.bottleneck).copied().unwrap_or_default();
    let (before, after) = (at(&driven.links.0), at(&driven.links.1));
    let capacity = driven.capacity_bits.get(setup.bottleneck).copied().unwrap_or(0.0);
    let departed = (after.departed_bytes - before.departed_bytes) as f64 * BITS;
    let (arrivals, drops) = (after.arrivals - before.arrivals, after.drops - before.drops);
    let queue_ms = match &meter.queue_delay {
        Some(delay) => delay.distribution(setup.duration, NS_TO_MS),
        None => driven.queue_delay.distribution(NS_TO_MS),
    };
    Bottleneck {
        utilisation: if capacity > 0.0 { (departed / capacity).min(1.0) } else { 0.0 },
        arrivals,
        drops,
        drop_ratio: ratio(drops, arrivals),
        marks: after.marks - before.marks,
        queue_ms,
    }
}

fn flow_result(setup: &Setup, flow: &FlowSetup, driven: &FlowDriven, meter: &FlowMeter) -> FlowResult {
    let (count, mark) = (&meter.count, &meter.mark);
    let from = setup.warmup.max(flow.start);
    let until = driven.finished.unwrap_or(setup.duration).max(from);
    let span = secs(until) - secs(from);
    let per_second = |bytes: u64| if span > 0.0 { bytes as f64 * BITS / span } else { 0.0 };
    let fct_s = match (driven.finished, driven.exchanges.as_slice()) {
        (Some(at), _) => Some(secs(at) - secs(flow.start)),
        (None, []) => None,
        (None, exchanges) => {
            Some(exchanges.iter().map(|span| secs(Time::nanos(span.as_nanos()))).sum::<f64>() / exchanges.len() as f64)
        }
    };
    let bw_bps = driven.bbr.map_or(0.0, |bbr| bbr.bw as f64 * BITS);
    let min_rtt_us = driven.bbr.map_or(driven.end.min_rtt, |bbr| bbr.min_rtt);
    FlowResult {
        name: flow.name.clone(),
        cc: flow.algorithm.name().into(),
        start_s: secs(flow.start),
        goodput_bps: per_second(count.received_bytes - mark.received_bytes),
        throughput_bps: per_second(count.received_wire_bytes - mark.received_wire_bytes),
        rtt_ms: meter.rtt.distribution(US_TO_MS),
        jitter_ms: if meter.jitter.1 == 0 { 0.0 } else { meter.jitter.0 as f64 / meter.jitter.1 as f64 * US_TO_MS },
        jitter_rfc3550_ms: meter.jitter_rfc3550 * US_TO_MS,
        retransmit_ratio: ratio(count.retransmits - mark.retransmits, count.segments - mark.segments),
        drop_ratio: (count.arrivals > 0).then(|| ratio(count.drops - mark.drops, count.arrivals - mark.arrivals)),
        rto: u64::from(driven.end.total_rto.saturating_sub(driven.mark.total_rto)),
        spurious_retransmits: count.duplicates - mark.duplicates,
        bytes: count.received_bytes - mark.received_bytes,
        fct_s,
        state_s: state_times(&driven.states, until),
        model: Model {
            bw_bps,
            min_rtt_ms: if min_rtt_us == u32::MAX { 0.0 } else { f64::from(min_rtt_us) * US_TO_MS },
        },
    }
}

fn convergence(setup: &Setup, driven: &Driven, meter: &Meter) -> Option<f64> {
    let seconds = (setup.duration.as_nanos() / bbrlab_core::NANOS_PER_SEC) as usize;
    let bins: Vec<Vec<f64>> =
        meter.flows().iter().map(|flow| flow.bins.iter().map(|&bytes| bytes as f64).collect()).collect();
    let starts: Vec<usize> =
        setup.flows.iter().map(|flow| flow.start.as_nanos().div_ceil(bbrlab_core::NANOS_PER_SEC) as usize).collect();
    let states = driven.flows.iter().map(|flow| flow.states.as_slice());
    convergence_s(&bins, &starts, seconds, &probe_rtt_seconds(states, seconds))
}
