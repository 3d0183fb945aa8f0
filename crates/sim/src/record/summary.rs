//! Calculation of a result's figures from a backend's counters. Every backend's figures are defined here, and only here.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Rate, Span, State, Time};

use super::result::{BITS, Bottleneck, Distribution, FlowResult, Model, RequestResult, RunResult, SCHEMA, UpLink};
use crate::apps::Client;
use crate::link::{Link, LinkPacket, LinkStats};
use crate::metrics::{Histogram, QueueDelay, convergence_s, groups, jain, probe_rtt_seconds, secs, state_times};
use crate::setup::{FlowSetup, Setup};

/// Nanoseconds to milliseconds.
pub const NS_TO_MS: f64 = 1e-6;
/// Microseconds to milliseconds.
const US_TO_MS: f64 = 1e-3;

/// RTTs of a flow, and their jitter.
#[derive(Clone, Debug, Default)]
pub struct RttStats {
    /// RTT of each ACK at the sender in µs, during measurement.
    pub samples: Histogram,
    /// Sum and number of |RTT(i) − RTT(i−1)|, µs, during measurement.
    pub jitter: (u64, u64),
    /// Interarrival jitter after RFC 3550 §6.4.1, µs.
    pub jitter_rfc3550: f64,
    /// The newest RTT, µs; 0 before the first.
    pub last_us: u32,
}

impl RttStats {
    /// Adds an RTT.
    #[inline(always)] // runs for each ACK
    pub fn add(&mut self, rtt_us: u32, is_measuring: bool) {
        if is_measuring {
            self.samples.add(u64::from(rtt_us));
            if self.last_us != 0 {
                let step = rtt_us.abs_diff(self.last_us);
                self.jitter.0 += u64::from(step);
                self.jitter.1 += 1;
                self.jitter_rfc3550 += (f64::from(step) - self.jitter_rfc3550) / 16.0;
            }
        }
        self.last_us = rtt_us;
    }
}

/// Counters of one flow from a backend. Counts are those of the measured time.
#[derive(Clone, Copy, Debug)]
pub struct FlowCounts<'a> {
    /// Unique payload bytes at the receiver.
    pub received_bytes: u64,
    /// Bytes on the wire at the receiver, duplicates included.
    pub received_wire_bytes: u64,
    /// Segments sent, retransmissions included.
    pub segments: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Segments that arrived twice.
    pub duplicates: u64,
    /// Retransmission timeouts.
    pub rto: u64,
    /// Arrivals and drops at the bottleneck, where it distinguishes flows.
    pub bottleneck: Option<(u64, u64)>,
    /// RTTs at the sender.
    pub rtt: &'a RttStats,
    /// Unique payload bytes that arrived in each second since the run's start.
    pub bins: &'a [u64],
    /// The state at each change since the flow's start.
    pub states: &'a [(Time, State)],
    /// Arrival time of the last byte of a sized flow.
    pub finished: Option<Time>,
    /// Completion times of responses.
    pub exchanges: &'a [Span],
    /// The receiving end of an application that has one.
    pub client: Option<&'a Client>,
    /// Bandwidth estimate at the end.
    pub bw: Rate,
    /// Minimum RTT at the end.
    pub min_rtt: Option<Span>,
}

/// Counters of the bottleneck from a backend, during the measured time.
#[derive(Clone, Debug)]
pub struct LinkCounts {
    /// Packets offered.
    pub arrivals: u64,
    /// Packets dropped by policer or queue.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
    /// Bytes that left.
    pub departed_bytes: u64,
    /// Bytes that could have left.
    pub capacity_bytes: f64,
    /// Packets that left since the run's start.
    pub packets: u64,
    /// Queueing delay over time, as defined in the result.
    pub queue_ms: Distribution,
}

/// A link's counters at the start of measurement.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkBaseline {
    /// All counters.
    pub stats: LinkStats,
    capacity: u64,
}

impl LinkBaseline {
    /// Counters of a link at `now`.
    pub fn of<P: LinkPacket>(link: &Link<P>, now: Time) -> Self {
        Self { stats: *link.stats(), capacity: link.capacity_bytes_until(now) }
    }

    /// Counts since this baseline, until `now`.
    pub fn counts<P: LinkPacket>(&self, link: &Link<P>, queue_delay: &QueueDelay, now: Time) -> LinkCounts {
        let (stats, before) = (link.stats(), &self.stats);
        LinkCounts {
            arrivals: stats.arrivals - before.arrivals,
            drops: stats.drops + stats.policed - before.drops - before.policed,
            marks: stats.marks - before.marks,
            departed_bytes: stats.departed_bytes - before.departed_bytes,
            capacity_bytes: (link.capacity_bytes_until(now) - self.capacity) as f64,
            packets: stats.departed_packets,
            queue_ms: queue_delay.distribution(now, NS_TO_MS),
        }
    }
}

/// Calculates the figures of a run that ended at `end` on the backend `on`.
pub fn summarise(setup: &Setup, on: &str, end: Time, flows: &[FlowCounts<'_>], link: &LinkCounts) -> RunResult {
    let results: Vec<FlowResult> =
        flows.iter().zip(&setup.flows).map(|(counts, flow)| flow_result(setup, flow, end, counts)).collect();
    let goodputs: Vec<f64> = results.iter().map(|flow| flow.goodput_bps).collect();
    let interval_s = interval_s(setup, end, flows);
    RunResult {
        schema: SCHEMA,
        scenario: serde_json::Value::Null,
        on: on.into(),
        seed: setup.seed,
        version: env!("CARGO_PKG_VERSION").into(),
        wall_s: 0.0,
        events: 0,
        packets: link.packets,
        bottleneck: bottleneck(link),
        up: None,
        interval_s,
        jain: jain(&goodputs),
        convergence_s: convergence(setup, end, flows),
        groups: groups(&results, interval_s),
        flows: results,
        probe: None,
        expect: Vec::new(),
        provenance: None,
    }
}

/// Figures of the reverse direction's link, which removed `filtered` ACKs.
pub fn up_link(link: &LinkCounts, filtered: u64) -> UpLink {
    let Bottleneck { utilisation, arrivals, drops, drop_ratio, marks, queue_ms } = bottleneck(link);
    UpLink { utilisation, arrivals, drops, drop_ratio, marks, filtered, queue_ms }
}

fn bottleneck(link: &LinkCounts) -> Bottleneck {
    let carried = if link.capacity_bytes > 0.0 { link.departed_bytes as f64 / link.capacity_bytes } else { 0.0 };
    Bottleneck {
        // A packet counts when its last bit leaves, so one that straddles the end of warm-up could raise the total above the capacity.
        utilisation: carried.min(1.0),
        // Packets dropped from the queue may have arrived before the measurement.
        arrivals: link.arrivals.max(link.drops),
        drops: link.drops,
        drop_ratio: ratio(link.drops, link.arrivals.max(link.drops)),
        marks: link.marks,
        queue_ms: link.queue_ms.clone(),
    }
}

/// Interval of groups and totals. All flows are counted over all of it, so their bytes may be added.
fn interval_s(setup: &Setup, end: Time, flows: &[FlowCounts<'_>]) -> [f64; 2] {
    let first = setup.flows.iter().map(|flow| flow.start).min().unwrap_or(Time::ZERO);
    let from = setup.warmup.max(first);
    let last = flows.iter().map(|counts| counts.finished.unwrap_or(end)).max().unwrap_or(end);
    [secs(from), secs(last.max(from))]
}

fn flow_result(setup: &Setup, flow: &FlowSetup, end: Time, counts: &FlowCounts<'_>) -> FlowResult {
    let from = setup.warmup.max(flow.start);
    let until = counts.finished.unwrap_or(end).max(from);
    let span = secs(until) - secs(from);
    let per_second = |bytes: u64| if span > 0.0 { bytes as f64 * BITS / span } else { 0.0 };
    let (steps_us, steps) = counts.rtt.jitter;
    let jitter_us = if steps == 0 { 0.0 } else { steps_us as f64 / steps as f64 };
    FlowResult {
        name: flow.name.clone(),
        cc: flow.cc().into(),
        start_s: secs(flow.start),
        goodput_bps: per_second(counts.received_bytes),
        throughput_bps: per_second(counts.received_wire_bytes),
        rtt_ms: (counts.rtt.samples.count() > 0).then(|| counts.rtt.samples.distribution(US_TO_MS)),
        jitter_ms: jitter_us * US_TO_MS,
        jitter_rfc3550_ms: counts.rtt.jitter_rfc3550 * US_TO_MS,
        retransmit_ratio: ratio(counts.retransmits, counts.segments),
        drop_ratio: counts.bottleneck.map(|(arrivals, drops)| ratio(drops, arrivals.max(drops))),
        rto: counts.rto,
        spurious_retransmits: counts.duplicates,
        bytes: counts.received_bytes,
        fct_s: completion_s(flow, counts),
        call: match counts.client {
            Some(Client::Call(frames)) => Some(Box::new(frames.result(end, flow.stop))),
            _ => None,
        },
        video: match counts.client {
            Some(Client::Video(player)) => Some(Box::new(player.result(flow.stop.unwrap_or(end).min(end)))),
            _ => None,
        },
        page: match counts.client {
            Some(Client::Page(loader)) => Some(Box::new(loader.result())),
            _ => None,
        },
        requests: requests(flow, counts.exchanges),
        state_s: state_times(counts.states, until),
        model: Model {
            bw_bps: counts.bw.as_bits_per_sec() as f64,
            min_rtt_ms: counts.min_rtt.map(|rtt| rtt.as_nanos() as f64 * NS_TO_MS),
        },
    }
}

/// Figures of the responses, of a flow with a deadline.
fn requests(flow: &FlowSetup, exchanges: &[Span]) -> Option<Box<RequestResult>> {
    let deadline = flow.deadline?;
    let mut times_us = Histogram::default();
    exchanges.iter().for_each(|time| times_us.add(time.as_micros()));
    let late = exchanges.iter().filter(|time| **time > deadline).count() as u64;
    Some(Box::new(RequestResult {
        responses: times_us.count(),
        late,
        late_ratio: ratio(late, times_us.count()),
        deadline_ms: deadline.as_nanos() as f64 * NS_TO_MS,
        time_ms: (times_us.count() > 0).then(|| times_us.distribution(US_TO_MS)),
    }))
}

/// Time from the SYN to the last byte, or the mean over responses.
fn completion_s(flow: &FlowSetup, counts: &FlowCounts<'_>) -> Option<f64> {
    match (counts.finished, counts.exchanges) {
        (Some(at), _) => Some(secs(at) - secs(flow.start)),
        (None, []) => None,
        (None, exchanges) => {
            let total: f64 = exchanges.iter().map(|span| span.as_nanos() as f64).sum();
            Some(total / exchanges.len() as f64 / NANOS_PER_SEC as f64)
        }
    }
}

fn convergence(setup: &Setup, end: Time, flows: &[FlowCounts<'_>]) -> Option<f64> {
    let seconds = (end.as_nanos() / NANOS_PER_SEC) as usize;
    let bins: Vec<Vec<f64>> = flows.iter().map(|flow| flow.bins.iter().map(|&bytes| bytes as f64).collect()).collect();
    let lives = flows.iter().zip(&setup.flows).map(|(counts, flow)| {
        let last = [counts.finished, flow.stop].into_iter().flatten().min();
        let until = last.map_or(seconds, |at| (at.as_nanos() / NANOS_PER_SEC) as usize);
        (flow.start.as_nanos().div_ceil(NANOS_PER_SEC) as usize, until)
    });
    let lives: Vec<(usize, usize)> = lives.collect();
    let states = flows.iter().map(|flow| flow.states);
    convergence_s(&bins, &lives, seconds, &probe_rtt_seconds(states, seconds))
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
