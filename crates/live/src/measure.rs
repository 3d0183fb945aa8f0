//! Conversion of flow and meter data to the summary that all backends share.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rate, Span, Time};
use bbrlab_sim::metrics::QueueDelay;
use bbrlab_sim::record::Output;
use bbrlab_sim::record::summary::{FlowCounts, LinkCounts, NS_TO_MS, summarise, up_link};
use bbrlab_sim::setup::Setup;

use crate::flows::{DriverOutput, FlowOutput, LinkCounters};
use crate::meter::{FlowMeter, Meter};
use crate::probe::ProbeMeter;

/// Bits in a byte.
const BITS: u64 = 8;

/// Builds the result and the series of a run on the backend `on`.
///
/// Queueing delay comes from the meter if it observes departures from the bottleneck, otherwise from the driver's
/// samples of the backlog on a grid: both are over time.
pub fn output(setup: &Setup, on: &str, mut driven: DriverOutput, meter: &Meter) -> Output {
    for ((column, flow), meter) in driven.trace.flows.iter_mut().zip(&driven.flows).zip(meter.flows()) {
        column.states.clone_from(&flow.states);
        column.rtt_samples = meter.rtt_samples.iter().flatten().map(|&(ns, us)| (Time::nanos(ns), us)).collect();
    }
    let flows: Vec<FlowCounts<'_>> =
        driven.flows.iter().zip(meter.flows()).map(|(driven, meter)| flow_counts(driven, meter)).collect();
    let bottleneck = link_counts(setup, &driven, setup.bottleneck, meter.queue_delay.as_ref());
    let mut result = summarise(setup, on, setup.duration, &flows, &bottleneck);
    if setup.up.is_some() {
        let link = setup.links.len();
        let filtered = |links: &[LinkCounters]| links.get(link).map_or(0, |counters| counters.filtered);
        let counts = link_counts(setup, &driven, link, meter.up_delay.as_ref());
        result.up = Some(Box::new(up_link(&counts, filtered(&driven.links.1) - filtered(&driven.links.0))));
    }
    if let Some(log) = meter.probe.as_ref().map(ProbeMeter::log) {
        let loads = meter.flows().iter().map(|flow| &flow.rtt.samples);
        result.probe = Some(Box::new(log.result(setup, setup.duration, loads)));
        driven.trace.probe = log.samples();
    }
    Output { result, trace: driven.trace, packets: Default::default() }
}

/// Counts of one link over the measured time; `departures` is its queueing delay, if departing packets were observed.
fn link_counts(setup: &Setup, driven: &DriverOutput, link: usize, departures: Option<&QueueDelay>) -> LinkCounts {
    let at = |links: &[LinkCounters]| links.get(link).copied().unwrap_or_default();
    let (before, after) = (at(&driven.links.0), at(&driven.links.1));
    LinkCounts {
        arrivals: after.arrivals - before.arrivals,
        drops: after.drops - before.drops,
        marks: after.marks - before.marks,
        departed_bytes: after.departed_bytes - before.departed_bytes,
        capacity_bytes: driven.capacity_bits.get(link).map_or(0.0, |bits| bits / BITS as f64),
        packets: after.departed_packets,
        queue_ms: match (departures, driven.queue_delays.get(link)) {
            (Some(delay), _) => delay.distribution(setup.duration, NS_TO_MS),
            (None, Some(delay)) => delay.distribution(NS_TO_MS),
            (None, None) => Default::default(),
        },
    }
}

fn flow_counts<'a>(driven: &'a FlowOutput, meter: &'a FlowMeter) -> FlowCounts<'a> {
    let (count, mark) = (&meter.count, &meter.mark);
    let min_rtt_us = driven.bbr.map_or(driven.end.min_rtt, |bbr| bbr.min_rtt);
    FlowCounts {
        received_bytes: count.received_bytes - mark.received_bytes,
        received_wire_bytes: count.received_wire_bytes - mark.received_wire_bytes,
        segments: count.segments - mark.segments,
        retransmits: count.retransmits - mark.retransmits,
        duplicates: count.duplicates - mark.duplicates,
        rto: u64::from(driven.end.total_rto.saturating_sub(driven.mark.total_rto)),
        // A kernel's own queue does not distinguish flows.
        bottleneck: (count.arrivals > 0).then(|| (count.arrivals - mark.arrivals, count.drops - mark.drops)),
        rtt: &meter.rtt,
        bins: &meter.bins,
        states: &driven.states,
        finished: driven.finished,
        exchanges: &driven.exchanges,
        client: None,
        bw: Rate::bits_per_sec(driven.bbr.map_or(0, |bbr| bbr.bw.saturating_mul(BITS))),
        min_rtt: (min_rtt_us != u32::MAX).then(|| Span::micros(min_rtt_us.into())),
    }
}
