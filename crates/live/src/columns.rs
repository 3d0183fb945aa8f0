//! Conversion of the kernel's connection data to trace columns and state names.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::State;
use bbrlab_sim::record::trace::{FlowTrace, LinkTrace};

use crate::flows::LinkCounters;
use crate::meter::Count;
use crate::tcp_info::{BbrInfo, TcpInfo};

/// Unity of BBR's gains.
const UNITY: u32 = 256;
/// Startup's gain is above this, a bandwidth probe's below it. Source: Linux tcp_bbr.c, 739/256 and 320/256.
const STARTUP_ABOVE: u32 = 2 * UNITY;
/// Drain's gain is below this, the draining phase of a gain cycle above it. Source: Linux tcp_bbr.c, 88/256 and
/// 192/256.
const DRAIN_BELOW: u32 = UNITY / 2;
/// `TCP_CA_CWR`, `TCP_CA_Recovery`, `TCP_CA_Loss`.
const CA_LOSS: u8 = 4;
const CA_CWR: u8 = 2;

/// The algorithm's state, inferred from its gains and counters.
pub fn state_of(info: &TcpInfo, bbr: Option<&BbrInfo>) -> Option<State> {
    const ESTABLISHED: u8 = 1;
    if info.state != ESTABLISHED {
        return None;
    }
    Some(match bbr {
        // Nothing has been acknowledged yet: the kernel's bbr sets its gains on the first ACK, not at initialisation.
        Some(bbr) if bbr.bw == 0 => State::Startup,
        Some(bbr) if bbr.pacing_gain > STARTUP_ABOVE => State::Startup,
        Some(bbr) if bbr.pacing_gain < DRAIN_BELOW => State::Drain,
        Some(bbr) if bbr.cwnd_gain == UNITY && bbr.pacing_gain == UNITY => State::ProbeRtt,
        Some(bbr) if bbr.pacing_gain > UNITY => State::ProbeBwUp,
        Some(bbr) if bbr.pacing_gain < UNITY => State::ProbeBwDown,
        Some(_) => State::ProbeBwCruise,
        None if info.ca_state == CA_LOSS => State::Loss,
        None if info.ca_state >= CA_CWR => State::Recovery,
        None if info.snd_cwnd < info.snd_ssthresh => State::SlowStart,
        None => State::CongestionAvoidance,
    })
}

/// Appends a flow's current values to its series.
pub fn push_flow(column: &mut FlowTrace, info: &TcpInfo, bbr: Option<&BbrInfo>, (count, rtt_us): &(Count, u32)) {
    let (bw, min_rtt) = bbr.map_or((0, info.min_rtt), |bbr| (bbr.bw, bbr.min_rtt));
    let known = |rtt: u32| if rtt == u32::MAX { 0 } else { rtt };
    column.cwnd.push(info.snd_cwnd);
    column.inflight.push(info.in_flight());
    column.pacing_bps.push(if info.pacing_rate == u64::MAX { 0 } else { info.pacing_rate.saturating_mul(8) });
    column.bw_bps.push(bw.saturating_mul(8));
    column.rtt_us.push(*rtt_us);
    column.min_rtt_us.push(known(min_rtt));
    column.sent_bytes.push(count.sent_bytes);
    column.acked_bytes.push(count.acked_bytes);
    column.received_bytes.push(count.received_bytes);
    column.lost.push(u64::from(info.total_retrans).saturating_sub(u64::from(info.retrans)) + u64::from(info.lost));
    column.retransmitted.push(info.total_retrans.into());
}

/// Appends a link's current values to its series.
pub fn push_link(column: &mut LinkTrace, link: &LinkCounters) {
    column.queue_packets.push(link.queue_packets);
    column.queue_bytes.push(link.queue_bytes);
    column.rate_bps.push(link.rate_bps);
    column.arrivals.push(link.arrivals);
    column.drops.push(link.drops);
    column.marks.push(link.marks);
    column.departed_bytes.push(link.departed_bytes);
}
