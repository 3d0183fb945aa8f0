//! Trace columns by name, in the units of the metrics: `rtt_ms`, `inflight_kB`, `queue_ms` … NaN while a flow has no
//! value.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::NANOS_PER_SEC;

use bbrlab_sim::record::trace::{FlowTrace, LinkTrace, ModelSample, Trace};
use bbrlab_sim::setup::Setup;

/// Names of the columns of a flow.
pub const FLOW_COLUMNS: &[&str] = &[
    "rtt_ms",
    "min_rtt_ms",
    "cwnd",
    "cwnd_kB",
    "inflight",
    "inflight_kB",
    "pacing_mbps",
    "bw_mbps",
    "sent_kB",
    "acked_kB",
    "received_kB",
    "lost",
    "retransmitted",
];

/// Names of the columns of a link.
pub const LINK_COLUMNS: &[&str] =
    &["queue_packets", "queue_kB", "queue_ms", "rate_mbps", "arrivals", "drops", "marks", "departed_kB"];

/// Sample times of the trace in seconds.
pub fn seconds(trace: &Trace) -> Vec<f64> {
    trace.t_ns.iter().map(|t| *t as f64 / NANOS_PER_SEC as f64).collect()
}

/// Returns a flow's column; `None` if there is no such flow or column. Kilobytes of windows count payload.
pub fn flow(setup: &Setup, trace: &Trace, index: usize, name: &str) -> Option<Vec<f64>> {
    let flow: &FlowTrace = trace.flows.get(index)?;
    let mss_kb = f64::from(setup.flows.get(index)?.mss) / 1e3;
    Some(match name {
        "rtt_ms" => from_u32(&flow.rtt_us, 1e-3, true),
        "min_rtt_ms" => from_u32(&flow.min_rtt_us, 1e-3, true),
        "cwnd" => from_u32(&flow.cwnd, 1.0, false),
        "cwnd_kB" => from_u32(&flow.cwnd, mss_kb, false),
        "inflight" => from_u32(&flow.inflight, 1.0, false),
        "inflight_kB" => from_u32(&flow.inflight, mss_kb, false),
        "pacing_mbps" => from_u64(&flow.pacing_bps, 1e-6, true),
        "bw_mbps" => from_u64(&flow.bw_bps, 1e-6, true),
        "sent_kB" => from_u64(&flow.sent_bytes, 1e-3, false),
        "acked_kB" => from_u64(&flow.acked_bytes, 1e-3, false),
        "received_kB" => from_u64(&flow.received_bytes, 1e-3, false),
        "lost" => from_u64(&flow.lost, 1.0, false),
        "retransmitted" => from_u64(&flow.retransmitted, 1.0, false),
        model => {
            let (_, read) = MODEL_COLUMNS.iter().find(|(name, _)| *name == model)?;
            flow.internals.iter().map(read).collect()
        }
    })
}

/// Function that reads one variable of a model.
type ColumnReader = fn(&ModelSample) -> f64;

/// Names of the columns of a flow's model, which only conformance runs record: the draft's names, in packets, Mbit/s
/// and seconds. `ack_inflight` is the amount in flight when the ACK was processed, before it released any packet.
pub const MODEL_COLUMNS: &[(&str, ColumnReader)] = &[
    ("ack_inflight", |m| m.inflight),
    ("pacing_gain", |m| m.pacing_gain),
    ("cwnd_gain", |m| m.cwnd_gain),
    ("max_bw_mbps", |m| m.max_bw * 1e-6),
    ("bw_shortterm_mbps", |m| m.bw_shortterm * 1e-6),
    ("inflight_longterm", |m| m.inflight_longterm),
    ("inflight_shortterm", |m| m.inflight_shortterm),
    ("bdp", |m| m.bdp),
    ("inflight_target", |m| m.inflight_target),
    ("inflight_headroom", |m| m.inflight_headroom),
    ("extra_acked", |m| m.extra_acked),
    ("send_quantum", |m| m.send_quantum),
    ("full_bw_count", |m| m.full_bw_count),
    ("full_bw_now", |m| m.full_bw_now),
    ("full_bw_reached", |m| m.full_bw_reached),
    ("round", |m| m.round),
    ("rounds_since_probe", |m| m.rounds_since_probe),
    ("probe_wait_s", |m| m.probe_wait_s),
    ("acked_per_inc", |m| m.acked_per_inc),
    ("probe_too_high", |m| m.probe_too_high),
    ("probe_rtt_stamp_s", |m| m.probe_rtt_stamp_s),
    ("idle_restart", |m| m.idle_restart),
    ("app_limited", |m| m.app_limited),
    ("ca_state", |m| m.ca_state),
    ("undos", |m| m.undos),
    ("rto", |m| m.rto),
];

/// Returns a link's column; `None` if there is no such link or column.
pub fn link(trace: &Trace, index: usize, name: &str) -> Option<Vec<f64>> {
    let link: &LinkTrace = trace.links.get(index)?;
    Some(match name {
        "queue_packets" => from_u32(&link.queue_packets, 1.0, false),
        "queue_kB" => from_u64(&link.queue_bytes, 1e-3, false),
        "queue_ms" => queue_ms(link),
        "rate_mbps" => from_u64(&link.rate_bps, 1e-6, false),
        "arrivals" => from_u64(&link.arrivals, 1.0, false),
        "drops" => from_u64(&link.drops, 1.0, false),
        "marks" => from_u64(&link.marks, 1.0, false),
        "departed_kB" => from_u64(&link.departed_bytes, 1e-3, false),
        _ => return None,
    })
}

/// Queue as the time to drain it at the current rate.
fn queue_ms(link: &LinkTrace) -> Vec<f64> {
    let drain = |(bytes, rate): (&u64, &u64)| if *rate == 0 { f64::NAN } else { *bytes as f64 * 8e3 / *rate as f64 };
    link.queue_bytes.iter().zip(&link.rate_bps).map(drain).collect()
}

/// Converts values; zero stands for "none yet" if `zero_is_none` is set.
fn from_u32(values: &[u32], factor: f64, zero_is_none: bool) -> Vec<f64> {
    values.iter().map(|v| if zero_is_none && *v == 0 { f64::NAN } else { f64::from(*v) * factor }).collect()
}

fn from_u64(values: &[u64], factor: f64, zero_is_none: bool) -> Vec<f64> {
    values.iter().map(|v| if zero_is_none && *v == 0 { f64::NAN } else { *v as f64 * factor }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::testing;

    #[test]
    fn every_column_that_is_named_exists_and_has_the_length_of_the_grid() {
        let view = testing::two_flows();
        let trace = &view.output.trace;
        for name in FLOW_COLUMNS {
            assert_eq!(flow(&view.setup, trace, 0, name).unwrap().len(), trace.t_ns.len(), "{name}");
        }
        for name in LINK_COLUMNS {
            assert_eq!(link(trace, 0, name).unwrap().len(), trace.t_ns.len(), "{name}");
        }
        assert!(flow(&view.setup, trace, 0, "no_such_column").is_none());
        assert!(flow(&view.setup, trace, 9, "rtt_ms").is_none());
    }

    #[test]
    fn a_flow_without_an_rtt_sample_has_no_rtt() {
        let view = testing::two_flows();
        let rtt = flow(&view.setup, &view.output.trace, 0, "rtt_ms").unwrap();
        assert!(rtt[0].is_nan());
        assert_eq!(rtt[1], 40.0);
    }

    #[test]
    fn a_queue_in_time_is_bytes_over_the_present_rate() {
        let link = LinkTrace { queue_bytes: vec![12_500, 1], rate_bps: vec![10_000_000, 0], ..LinkTrace::default() };
        let ms = queue_ms(&link);
        assert_eq!(ms[0], 10.0);
        assert!(ms[1].is_nan());
    }
}
