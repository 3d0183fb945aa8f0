//! From the signals of a connection to the estimate of its path: rate, base RTT, buffer.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::estimate::{BufferEstimate, RateEstimate, RttEstimate};
use super::flow::Flow;
use super::loss::Losses;
use super::queue::Served;
use super::signals::{Chunk, LEADS, Signals};

/// Waiting time from which a packet was queued, in serialisation times and as a share of the base RTT. Ours: one packet in
/// front of it, and half.
const BUSY_SERIALISATIONS: f64 = 1.5;
const BUSY_RTT_SHARE: f64 = 0.02;
/// Least waiting time that counts: below it, hosts and timers dominate. Ours.
const BUSY_S: f64 = 100e-6;
/// Share of the time between ACKs within which data must have been sent for the path to have spread it. Ours.
const SPREAD: f64 = 0.75;
/// Smallest number of ACKs and of segments of spread data. Ours.
const SPREAD_ACKS: u64 = 5;
const SPREAD_SEGMENTS: f64 = 8.0;
/// Largest data in flight of an idle link, as a share of rate × smallest RTT. Ours: ACKs are held back, and sizes vary.
const IDLE_SHARE: f64 = 0.85;
/// Segments that busy chunks must hold for the rate to be the link's. Ours.
const BUSY_SEGMENTS: f64 = 40.0;
/// Refinements of rate, base RTT and busy chunks by each other. Ours: three leave nothing to change.
const ROUNDS: usize = 4;
/// Queueing delay from which a full queue can be told from noise, in serialisation times. Ours.
pub const FULL_SERIALISATIONS: f64 = 3.0;
/// Share of the base RTT that it must exceed as well. Ours.
pub const FULL_RTT_SHARE: f64 = 0.02;
const NANOS: f64 = 1e9;

/// Link of the bottleneck: rate, and times derived from it.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Payload bytes per second.
    pub rate: f64,
    /// Time to serialise a segment, seconds; 0 if the rate is unknown.
    pub serialisation_s: f64,
    /// Base RTT, seconds.
    pub base_s: f64,
    /// True if the rate is a lower bound.
    pub is_lower_bound: bool,
    /// Payload bytes of busy chunks.
    pub busy_bytes: f64,
    /// Tenth and ninetieth percentile of the chunks' rates; the rate where the queue was computed.
    pub range: (f64, f64),
    /// Agreement of the times of ACKs with the computed queue, where there is one.
    pub agreement: Option<f64>,
}

impl Link {
    /// Queueing delay of an RTT, seconds.
    pub fn queue_s(&self, rtt_s: f64) -> f64 {
        (rtt_s - self.base_s - self.serialisation_s).max(0.0)
    }

    /// Least queueing delay of a full queue.
    pub fn full_min_s(&self) -> f64 {
        (FULL_SERIALISATIONS * self.serialisation_s).max(FULL_RTT_SHARE * self.base_s).max(2.0 * BUSY_S)
    }
}

/// Weighted quantile; `values` holds (value, weight).
pub fn quantile(values: &mut [(f64, f64)], at: f64) -> Option<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = values.iter().map(|one| one.1).sum();
    let mut sum = 0.0;
    for &(value, weight) in values.iter() {
        sum += weight;
        if sum >= at * total {
            return Some(value);
        }
    }
    None
}

/// Smallest RTT less the serialisation of what had to pass before the ACK.
fn base_s(signals: &Signals, serialisation_s: f64, mss: f64) -> Option<f64> {
    let known = signals.floor_ns.iter().enumerate().filter(|(_, rtt)| **rtt < u64::MAX);
    let bases = known.map(|(lead, rtt)| {
        let rtt = *rtt as f64 / NANOS;
        // Of a frame whose class is the last, the number of segments is not known.
        let lead = if lead == LEADS - 1 { 1.0 } else { lead as f64 };
        let lead = if lead == 0.0 { signals.handshake_bytes as f64 / mss } else { lead };
        (rtt - lead * serialisation_s).max(0.0)
    });
    bases.reduce(f64::min)
}

/// True if the bottleneck was busy while this chunk passed.
fn is_busy(chunk: &Chunk, base_s: f64, serialisation_s: f64, mss: f64) -> bool {
    // What one ACK covers may have been sent at once: the link was idle before it unless its first segment waited.
    let burst_s = serialisation_s * (chunk.largest_ack as f64 / mss).max(1.0);
    let waited = chunk.min_rtt_ns as f64 / NANOS - base_s - burst_s;
    let enough = (BUSY_SERIALISATIONS * serialisation_s).max(BUSY_RTT_SHARE * base_s).max(BUSY_S);
    let is_spread = chunk.is_plain
        && chunk.acks >= SPREAD_ACKS
        && chunk.bytes as f64 >= SPREAD_SEGMENTS * mss
        && (chunk.sent_span_ns as f64) < SPREAD * chunk.span_ns() as f64;
    waited >= enough || is_spread
}

/// True if the queue was empty at some time: less was in flight than a busy link serves in the smallest RTT.
pub fn is_seen_empty(flow: &Flow, link: &Link) -> bool {
    let served = link.rate * (link.base_s + link.serialisation_s);
    flow.least_in_flight.is_some_and(|least| (least as f64) < IDLE_SHARE * served)
}

/// Estimates the link's rate and the base RTT together: each corrects the other.
pub fn link(flow: &Flow) -> Option<Link> {
    let signals = flow.signals.as_deref()?;
    let mss = flow.mss() as f64;
    let rates: Vec<(f64, f64)> =
        signals.chunks.iter().filter(|one| one.span_ns() > 0).map(|one| (one.rate(), one.bytes as f64)).collect();
    let mut all = rates.clone();
    let lower = quantile(&mut all, 0.95).or_else(|| goodput(flow))?;
    let (mut rate, mut busy_bytes, mut range) = (lower, 0.0, (lower, lower));
    for _ in 0..ROUNDS {
        let serialisation_s = mss / rate;
        let base = base_s(signals, serialisation_s, mss)?;
        let busy = |is_plain: bool| -> Vec<(f64, f64)> {
            let of = |one: &&Chunk| {
                (one.is_plain || !is_plain) && one.span_ns() > 0 && is_busy(one, base, serialisation_s, mss)
            };
            signals.chunks.iter().filter(of).map(|one| (one.rate(), one.bytes as f64)).collect()
        };
        let weight = |of: &[(f64, f64)]| of.iter().map(|one| one.1).sum::<f64>();
        // Data lost behind the link was served by it too: chunks without losses come first.
        let mut busy = match busy(true) {
            plain if weight(&plain) >= BUSY_SEGMENTS * mss => plain,
            _ => busy(false),
        };
        busy_bytes = weight(&busy);
        let Some(median) = quantile(&mut busy, 0.5) else { break };
        rate = median;
        range = (quantile(&mut busy, 0.1).unwrap_or(rate), quantile(&mut busy, 0.9).unwrap_or(rate));
    }
    let is_lower_bound = busy_bytes < BUSY_SEGMENTS * mss;
    if is_lower_bound {
        (rate, range) = (lower.max(rate), (lower, lower));
    }
    // A bound from below would subtract too much.
    let serialisation_s = if is_lower_bound { 0.0 } else { mss / rate };
    let base_s = base_s(signals, serialisation_s, mss)?;
    Some(Link { rate, serialisation_s, base_s, is_lower_bound, busy_bytes, range, agreement: None })
}

/// Link by the queue that was computed.
pub fn served(flow: &Flow, served: &Served) -> Link {
    let (mss, wire) = (flow.mss() as f64, flow.wire_ratio());
    let serialisation_s = mss * wire / served.rate;
    // The handshake finds an idle link, even if the data never does.
    let floor_s = flow.signals.as_deref().and_then(|signals| base_s(signals, serialisation_s, mss));
    Link {
        rate: served.rate / wire,
        serialisation_s,
        base_s: floor_s.map_or(served.base_s, |floor_s| floor_s.min(served.base_s)),
        is_lower_bound: false,
        busy_bytes: flow.counters.delivered as f64,
        range: (served.rate / wire, served.rate / wire),
        agreement: Some(served.agreement),
    }
}

/// Bytes delivered per second over the whole connection.
fn goodput(flow: &Flow) -> Option<f64> {
    let time = flow.last_ns.checked_sub(flow.first_ns?)? as f64 / NANOS;
    (time > 0.0 && flow.counters.delivered > 0).then(|| flow.counters.delivered as f64 / time)
}

/// Formats the rate with its basis.
pub fn rate(flow: &Flow, link: &Link) -> RateEstimate {
    let bits = 8.0 * flow.wire_ratio();
    let share = 100.0 * link.busy_bytes / (flow.counters.delivered as f64).max(1.0);
    let sampled: f64 = flow.signals.iter().flat_map(|own| &own.chunks).map(|chunk| chunk.bytes as f64).sum();
    let busy = 100.0 * link.busy_bytes / sampled.max(1.0);
    let from = if let Some(agreement) = link.agreement {
        format!(
            "a queue computed from the times of packets: the times of ACKs agree with it by {:.0} %",
            100.0 * agreement
        )
    } else if link.is_lower_bound {
        "the fastest twentieth of the ACKs; the bottleneck was never busy for long, so the link may be faster"
            .to_owned()
    } else if busy - share > 1.0 {
        format!("ACKs of data that had waited, or that the path had spread: {busy:.0} % of a sample")
    } else {
        format!("ACKs of data that had waited, or that the path had spread: {share:.0} % of all")
    };
    RateEstimate {
        bps: bits * link.rate,
        range_bps: (bits * link.range.0, bits * link.range.1),
        is_lower_bound: link.is_lower_bound,
        from,
    }
}

/// Base RTT and the quantiles of all RTTs.
pub fn rtt(signals: &Signals, link: &Link) -> Option<RttEstimate> {
    let all = signals.rtt.as_ref().filter(|all| !all.is_empty())?;
    let ms = |micros: u64| micros as f64 / 1e3;
    Some(RttEstimate {
        base_ms: 1e3 * link.base_s,
        p50_ms: ms(all.value_at_quantile(0.5)),
        p95_ms: ms(all.value_at_quantile(0.95)),
        max_ms: ms(all.max()),
        is_upper_bound: false,
        from: if link.is_lower_bound {
            "the smallest RTT; serialisation is not subtracted, as the link's rate is unknown".to_owned()
        } else {
            format!(
                "the smallest RTT, less serialisation at the rate above ({:.3} ms a segment)",
                1e3 * link.serialisation_s
            )
        },
    })
}

/// Buffer: from the waiting time of data next to what a full queue dropped, else at least the largest waiting time.
pub fn buffer(flow: &Flow, link: &Link, losses: &Losses) -> Option<BufferEstimate> {
    if link.is_lower_bound {
        return None;
    }
    let all = flow.signals.as_ref()?.waits()?;
    let (queue_s, is_lower_bound, from) = match losses.full_s {
        Some(full_s) => (full_s, false, "the waiting time of data sent just before data that the full queue dropped"),
        None => {
            let high = all.value_at_quantile(0.999) as f64 / 1e6;
            (link.queue_s(high), true, "the longest waiting times; no loss shows that the queue was full")
        }
    };
    let bytes = queue_s * link.rate * flow.wire_ratio();
    let bdp = link.rate * flow.wire_ratio() * link.base_s;
    Some(BufferEstimate {
        bytes,
        ms: 1e3 * queue_s,
        bdp: if bdp > 0.0 { bytes / bdp } else { 0.0 },
        is_lower_bound,
        from: from.to_owned(),
    })
}
