//! Trace columns by name, the same names in every export.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

use bbrlab_sim::record::trace::{FlowTrace, LinkTrace};

/// Value of a column at a sample; `None` if the series ended before.
pub(super) type Cell<T> = fn(&T, usize) -> Option<u64>;

macro_rules! columns {
    ($trace:ty: $($name:ident),+) => {
        [$((stringify!($name), (|trace, index| trace.$name.get(index).map(|&value| value.into())) as Cell<$trace>)),+]
    };
}

/// Columns of a flow.
pub(super) const FLOW: [(&str, Cell<FlowTrace>); 11] = columns!(FlowTrace: cwnd, inflight, pacing_bps, bw_bps, rtt_us, min_rtt_us, sent_bytes, acked_bytes, received_bytes, lost, retransmitted);

/// Columns of a link.
pub(super) const LINK: [(&str, Cell<LinkTrace>); 7] =
    columns!(LinkTrace: queue_packets, queue_bytes, rate_bps, arrivals, drops, marks, departed_bytes);

/// Name of the state at a time; empty before the first.
pub(super) fn state_at(flow: &FlowTrace, t_ns: u64) -> &'static str {
    let before = flow.states.partition_point(|(at, _)| *at <= Time::nanos(t_ns));
    before.checked_sub(1).and_then(|index| flow.states.get(index)).map_or("", |(_, state)| state.name())
}

/// Formats nanoseconds as seconds, exactly.
pub(super) fn seconds(t_ns: u64) -> String {
    let text = format!("{}.{:09}", t_ns / 1_000_000_000, t_ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
