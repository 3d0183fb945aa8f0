//! The estimate of a connection's direction: parts from rate, queue and loss, and what the endpoints show of themselves.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::estimate::{AckEstimate, AlgorithmEstimate, Estimate, Vantage};
use super::flow::Flow;
use super::judge::{self, Link};
use super::loss;
use super::table::Connection;
use super::vantage;

/// Smallest number of data packets of an estimate. Ours: less than an initial window shows nothing.
pub const PACKETS_MIN: u64 = 10;
/// Smallest number of reductions for a guess. Ours.
const REDUCTIONS_MIN: usize = 3;
/// Largest distance between the quartiles of the reductions. Ours: half the distance between Reno and no reduction.
const REDUCTIONS_SPREAD: f64 = 0.2;
/// Segments and ACKs of a cluster from which ACKs are held, and clusters. Ours.
const CLUSTER_SEGMENTS: f64 = 4.0;
const CLUSTER_ACKS: f64 = 3.0;
const CLUSTERS_MIN: usize = 10;
const NANOS: f64 = 1e9;

/// Estimates each direction of a connection that carried enough.
pub fn estimates(connection: &Connection, origin_ns: u64) -> Vec<Estimate> {
    (0..2).filter_map(|side| estimate(connection, side, origin_ns)).collect()
}

fn estimate(connection: &Connection, side: usize, origin_ns: u64) -> Option<Estimate> {
    let flow = &connection.flows[side];
    let counters = flow.counters;
    if counters.packets < PACKETS_MIN || counters.acks == 0 {
        return None;
    }
    let signals = flow.signals.as_deref()?;
    let first_ns = flow.first_ns?;
    let duration_s = flow.last_ns.saturating_sub(first_ns) as f64 / NANOS;
    let ends = [connection.ends.0, connection.ends.1];
    let (vantage, vantage_from) = vantage::vantage(&connection.handshake, side, flow);
    let served = flow.queue.served().map(|served| judge::served(flow, &served));
    let link = served.or_else(|| judge::link(flow));
    let losses = link.map(|link| loss::judge(flow, &link)).unwrap_or_default();
    let sent = (counters.sent as f64).max(1.0);
    let mut own = Estimate {
        sender: ends[side].to_string(),
        receiver: ends[1 - side].to_string(),
        vantage,
        vantage_from: vantage_from.to_owned(),
        start_s: first_ns.saturating_sub(origin_ns) as f64 / NANOS,
        duration_s,
        sent_bytes: counters.sent as f64,
        retransmitted_bytes: counters.again as f64,
        delivered_bytes: counters.delivered as f64,
        goodput_bps: if duration_s > 0.0 { 8.0 * counters.delivered as f64 / duration_s } else { 0.0 },
        mss: flow.mss(),
        rate: link.map(|link| judge::rate(flow, &link)),
        rtt: link.and_then(|link| judge::rtt(signals, &link)),
        buffer: link.and_then(|link| judge::buffer(flow, &link, &losses)),
        loss_ratio: signals.lost_bytes as f64 / sent,
        losses: losses.kinds,
        policer: losses.policer,
        needless_ratio: counters.needless as f64 / sent,
        reordered_ratio: counters.reordered as f64 / (counters.delivered as f64).max(1.0),
        reordered_segments: counters.extent as f64 / flow.mss() as f64,
        acks: acks(flow),
        application_limited: share(counters.idle_ns, duration_s),
        receiver_limited: flow.has_window().then(|| share(counters.window_ns, duration_s)),
        algorithm: algorithm(flow),
        unknown: losses.unknown.map(str::to_owned).into_iter().collect(),
    };
    if vantage == Vantage::Receiver {
        hide_the_path(&mut own);
    }
    bound(&mut own, flow, link.as_ref());
    unknown(&mut own, flow);
    Some(own)
}

fn share(nanos: u64, duration_s: f64) -> f64 {
    if duration_s > 0.0 { (nanos as f64 / NANOS / duration_s).min(1.0) } else { 0.0 }
}

/// Removes the figures that a capture or log of the receiver cannot give.
pub fn hide_the_path(own: &mut Estimate) {
    (own.rate, own.rtt, own.buffer, own.policer, own.algorithm) = (None, None, None, None, None);
    own.losses.clear();
    own.unknown.push("rate, RTT, buffer and loss: this was recorded at the receiver; record at the sender".to_owned());
}

/// Marks base RTT and buffer as bounds if the capture begins within the connection, and its queue may never have been empty.
fn bound(own: &mut Estimate, flow: &Flow, link: Option<&Link>) {
    let has_beginning = flow.own.has_syn || flow.peer.has_syn;
    if has_beginning || link.is_none_or(|link| judge::is_seen_empty(flow, link)) {
        return;
    }
    if let Some(rtt) = &mut own.rtt {
        rtt.is_upper_bound = true;
    }
    if let Some(buffer) = &mut own.buffer {
        buffer.is_lower_bound = true;
    }
}

/// Names what could not be known.
fn unknown(own: &mut Estimate, flow: &Flow) {
    let mut add = |text: &str| own.unknown.push(text.to_owned());
    if own.vantage == Vantage::Between {
        add("the RTT before the capture: base RTT and rise are those behind it; capture at the sender");
    }
    if own.vantage != Vantage::Receiver {
        if own.rate.as_ref().is_none_or(|rate| rate.is_lower_bound) {
            add("the link's rate: no queue stood long enough");
        }
        let has_standing_queue = own.rtt.as_ref().is_some_and(|rtt| rtt.is_upper_bound);
        if has_standing_queue {
            add("base RTT and buffer: the capture begins within the connection, whose queue may never have been empty");
        } else if own.buffer.as_ref().is_none_or(|buffer| buffer.is_lower_bound) {
            add("the buffer's size: no loss at a full queue");
        }
        if own.algorithm.is_none() {
            add("the congestion control: too few losses with a clear reduction of the window");
        }
    }
    if own.receiver_limited.is_none() {
        let is_cut = flow.own.is_cut || flow.peer.is_cut;
        add(match is_cut {
            true => "limits by the receive window: the handshake's options, which have its scale, are cut",
            false => "limits by the receive window: the handshake, which has its scale, is missing",
        });
    }
    if flow.board.has_overrun {
        add("some losses and RTTs: more data was in flight than is followed");
    }
    if flow.counters.missing > 0 {
        own.unknown.push(format!("{} bytes that the capture lacks", flow.counters.missing));
    }
}

fn acks(flow: &Flow) -> AckEstimate {
    let (counters, mss) = (flow.counters, flow.mss() as f64);
    let segments = counters.delivered as f64 / mss / (counters.acks as f64).max(1.0);
    let none = AckEstimate { segments, period_ms: None, from: "ACKs of new data".to_owned() };
    let Some(signals) = flow.signals.as_deref() else { return none };
    let held: Vec<&(u64, u64, u64)> = signals.clusters.sample.iter().collect();
    let middle = |of: fn(&(u64, u64, u64)) -> u64| {
        let mut values: Vec<(f64, f64)> = held.iter().map(|one| (of(one) as f64, one.1 as f64)).collect();
        judge::quantile(&mut values, 0.5).unwrap_or(0.0)
    };
    let (period_us, bytes, count) = (middle(|one| one.0), middle(|one| one.1), middle(|one| one.2));
    if held.len() < CLUSTERS_MIN || bytes < CLUSTER_SEGMENTS * mss || count < CLUSTER_ACKS {
        return none;
    }
    AckEstimate {
        segments,
        period_ms: Some(period_us / 1e3),
        from: format!("half of the data is acknowledged in clusters of {count:.0} ACKs or more"),
    }
}

/// Guesses the algorithm by the reduction of its window at a loss, and BBRv1 by its ProbeRTT.
// Reno halves the window (RFC 5681 3.2), CUBIC keeps 0.7 of it (RFC 9438 4.6), BBRv1 all of it.
fn algorithm(flow: &Flow) -> Option<AlgorithmEstimate> {
    let dips = &flow.dips;
    let apart: Vec<f64> = dips.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64 / NANOS).collect();
    let regular = apart.iter().filter(|gap| (9.0..12.0).contains(*gap)).count();
    let guess = |name: &str, from: String| Some(AlgorithmEstimate { name: name.to_owned(), from });
    if regular >= 1 && regular * 2 > apart.len() {
        return guess("bbr1", format!("{} pauses of 0.2 s with 4 segments in flight, 10 s apart", dips.len()));
    }
    let mut kept: Vec<(f64, f64)> =
        flow.reductions.iter().map(|one| (one.after as f64 / one.before as f64, 1.0)).collect();
    if kept.len() < REDUCTIONS_MIN {
        return None;
    }
    let middle = judge::quantile(&mut kept, 0.5)?;
    if judge::quantile(&mut kept, 0.75)? - judge::quantile(&mut kept, 0.25)? > REDUCTIONS_SPREAD {
        return None;
    }
    let from = format!("{:.2} of the window is kept after a loss, the median of {}", middle, kept.len());
    match middle {
        0.42..0.58 => guess("reno", from),
        0.62..0.78 => guess("cubic", from),
        _ => None,
    }
}
