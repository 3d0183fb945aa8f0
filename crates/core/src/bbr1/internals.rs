//! Complete state of a BBRv1 flow, as Linux's `struct bbr` holds it, for comparison with a real kernel.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::hooks::Hooks;
use super::{Bbr1, Mode};
use crate::event::CaState;

/// State of a flow under the kernel's names. Fields that belong to a single mode are `None` in the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bbr1Internals {
    /// `mode`: 0 STARTUP, 1 DRAIN, 2 PROBE_BW, 3 PROBE_RTT.
    pub mode: u32,
    /// `cycle_idx` in PROBE_BW.
    pub cycle_idx: Option<u32>,
    /// `cycle_mstamp` in PROBE_BW, µs.
    pub cycle_mstamp_us: Option<u64>,
    /// `probe_rtt_done_stamp` in PROBE_RTT, ticks; 0 until inflight is low.
    pub probe_rtt_done_stamp: Option<u64>,
    /// `probe_rtt_round_done` in PROBE_RTT, once inflight is low.
    pub probe_rtt_round_done: Option<bool>,
    /// `bw`: rounds and values of the windowed maximum's three samples, best first.
    pub bw: [(u64, u64); 3],
    /// `rtt_cnt`.
    pub rtt_cnt: u64,
    /// `next_rtt_delivered`.
    pub next_rtt_delivered: u64,
    /// `round_start`.
    pub round_start: bool,
    /// `min_rtt_us`; `None` before any sample.
    pub min_rtt_us: Option<u64>,
    /// `min_rtt_stamp`, ticks.
    pub min_rtt_stamp: u64,
    /// `has_seen_rtt`.
    pub has_seen_rtt: bool,
    /// `idle_restart`.
    pub idle_restart: bool,
    /// `pacing_gain`, 1/256.
    pub pacing_gain: u32,
    /// `cwnd_gain`, 1/256.
    pub cwnd_gain: u32,
    /// `full_bw`.
    pub full_bw: u64,
    /// `full_bw_cnt`.
    pub full_bw_cnt: u32,
    /// `full_bw_reached`.
    pub full_bw_reached: bool,
    /// `lt_is_sampling`.
    pub lt_is_sampling: bool,
    /// `lt_use_bw`.
    pub lt_use_bw: bool,
    /// `lt_rtt_cnt`.
    pub lt_rtt_cnt: u32,
    /// `lt_bw`.
    pub lt_bw: u64,
    /// `lt_last_delivered`.
    pub lt_last_delivered: u64,
    /// `lt_last_stamp`, ms.
    pub lt_last_stamp_ms: u64,
    /// `lt_last_lost`.
    pub lt_last_lost: u64,
    /// `prior_cwnd`.
    pub prior_cwnd: u32,
    /// `prev_ca_state`.
    pub prev_ca_state: CaState,
    /// `packet_conservation`.
    pub packet_conservation: bool,
    /// `ack_epoch_mstamp`, µs.
    pub ack_epoch_mstamp_us: u64,
    /// `ack_epoch_acked`.
    pub ack_epoch_acked: u64,
    /// `extra_acked`.
    pub extra_acked: [u32; 2],
    /// `extra_acked_win_rtts`.
    pub extra_acked_win_rtts: u32,
    /// `extra_acked_win_idx`.
    pub extra_acked_win_idx: u32,
    /// `snd_cwnd`.
    pub cwnd: u32,
    /// `sk_pacing_rate`, bytes per second.
    pub pacing_rate: u64,
    /// `snd_ssthresh`, as the algorithm last wrote it.
    pub ssthresh: u32,
}

impl<V: Hooks> Bbr1<V> {
    /// Returns the complete state of the flow.
    pub fn internals(&self) -> Bbr1Internals {
        let (cycle_idx, cycle_mstamp_us) = match self.mode {
            Mode::ProbeBw { phase, since_us } => (Some(u32::from(phase)), Some(since_us)),
            _ => (None, None),
        };
        let (probe_rtt_done_stamp, probe_rtt_round_done) = match self.mode {
            Mode::ProbeRtt { done_at: Some(done_at), round_done } => (Some(done_at), Some(round_done)),
            Mode::ProbeRtt { done_at: None, .. } => (Some(0), None),
            _ => (None, None),
        };
        let (lt, filter) = (&self.lt, &self.aggregation);
        Bbr1Internals {
            mode: match self.mode {
                Mode::Startup => 0,
                Mode::Drain => 1,
                Mode::ProbeBw { .. } => 2,
                Mode::ProbeRtt { .. } => 3,
            },
            cycle_idx,
            cycle_mstamp_us,
            probe_rtt_done_stamp,
            probe_rtt_round_done,
            bw: self.max_bw.samples(),
            rtt_cnt: self.rounds.count,
            next_rtt_delivered: self.rounds.next_delivered,
            round_start: self.rounds.start,
            min_rtt_us: self.min_rtt_us,
            min_rtt_stamp: self.min_rtt_tick,
            has_seen_rtt: self.has_seen_rtt,
            idle_restart: self.idle_restart,
            pacing_gain: self.pacing_gain,
            cwnd_gain: self.cwnd_gain,
            full_bw: self.full_bw.bw,
            full_bw_cnt: self.full_bw.count,
            full_bw_reached: self.full_bw_reached,
            lt_is_sampling: lt.is_sampling,
            lt_use_bw: lt.in_use,
            lt_rtt_cnt: lt.round_count,
            lt_bw: lt.bw,
            lt_last_delivered: lt.last_delivered,
            lt_last_stamp_ms: lt.last_stamp_ms,
            lt_last_lost: lt.last_lost,
            prior_cwnd: self.prior_cwnd,
            prev_ca_state: self.prev_ca_state,
            packet_conservation: self.packet_conservation,
            ack_epoch_mstamp_us: filter.epoch_start_us,
            ack_epoch_acked: filter.epoch_acked,
            extra_acked: filter.bucket,
            extra_acked_win_rtts: filter.rounds,
            extra_acked_win_idx: u32::from(filter.current != 0),
            cwnd: self.cwnd,
            pacing_rate: self.pacing_rate,
            ssthresh: self.ssthresh,
        }
    }
}
