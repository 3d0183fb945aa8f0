//! What a flow of BBRv2 or BBRv3 thinks, by the draft's names, for those who check it: conformance cases, traces, tests.
//! In: a flow. Out: [`Bbr3Inside`]. Never: a rule of the algorithm.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{BW_UNIT, Bbr3, INFINITY, UNIT};
use crate::params::FINE;
use crate::units::{MICROS_PER_SEC, Span, Time};

/// The model and the bounds of a flow. Volumes are in bytes of payload, rates in bits per second; `None` is the draft's Infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bbr3Inside {
    /// `BBR.pacing_gain`, in 1/25600.
    pub pacing_gain: u32,
    /// `BBR.cwnd_gain`, in 1/25600.
    pub cwnd_gain: u32,
    /// `BBR.max_bw`.
    pub max_bw: u64,
    /// `BBR.bw_shortterm`.
    pub bw_shortterm: Option<u64>,
    /// `BBR.inflight_longterm`.
    pub inflight_longterm: Option<u64>,
    /// `BBR.inflight_shortterm`.
    pub inflight_shortterm: Option<u64>,
    /// The BDP of `BBR.max_bw`.
    pub bdp: u64,
    /// `BBRInflight(1.0)` of `BBR.max_bw`.
    pub inflight_target: u64,
    /// `BBRInflightWithHeadroom()`.
    pub inflight_with_headroom: Option<u64>,
    /// `BBR.extra_acked`.
    pub extra_acked: u64,
    /// `C.send_quantum`.
    pub send_quantum: u64,
    /// `BBR.full_bw_count`.
    pub full_bw_count: u32,
    /// `BBR.full_bw_now`.
    pub full_bw_now: bool,
    /// `BBR.full_bw_reached`.
    pub full_bw_reached: bool,
    /// `BBR.round_count`.
    pub round_count: u64,
    /// `BBR.rounds_since_probe_up`.
    pub rounds_since_probe_up: u64,
    /// `BBR.bw_probe_wait`.
    pub bw_probe_wait: Span,
    /// `BBR.probe_up_acked_per_inc`.
    pub probe_up_acked_per_inc: Option<u64>,
    /// `BBR.prev_probe_too_high`.
    pub prev_probe_too_high: bool,
    /// `BBR.idle_restart`.
    pub idle_restart: bool,
    /// `BBR.probe_rtt_min_delay`.
    pub probe_rtt_min_delay: Option<Span>,
    /// `BBR.probe_rtt_min_stamp`.
    pub probe_rtt_min_stamp: Time,
}

/// The unit of gains in [`Bbr3Inside`].
pub const GAIN_UNIT: u32 = FINE;

impl Bbr3 {
    /// What the flow thinks.
    pub fn inside(&self) -> Bbr3Inside {
        let bytes = |volume: u64| volume.saturating_mul(self.unit_bytes);
        let bound = |volume: u64| (volume != INFINITY).then(|| bytes(volume));
        let bits = |bw: u64| {
            let per_sec = u128::from(bw) * u128::from(self.unit_bytes) * 8_000_000 / u128::from(BW_UNIT);
            u64::try_from(per_sec).unwrap_or(u64::MAX)
        };
        Bbr3Inside {
            pacing_gain: self.pacing_gain,
            cwnd_gain: self.cwnd_gain,
            max_bw: bits(self.max_bw),
            bw_shortterm: (self.bw_shortterm != INFINITY).then(|| bits(self.bw_shortterm)),
            inflight_longterm: bound(self.inflight_longterm),
            inflight_shortterm: bound(self.inflight_shortterm),
            bdp: bytes(self.bdp_multiple(self.max_bw, UNIT)),
            inflight_target: bytes(self.inflight(self.max_bw, UNIT)),
            inflight_with_headroom: bound(self.inflight_with_headroom()),
            extra_acked: bytes(self.aggregation.extra_acked),
            send_quantum: bytes(self.send_quantum),
            full_bw_count: self.full_bw.count,
            full_bw_now: self.full_bw_now,
            full_bw_reached: self.full_bw_reached,
            round_count: self.rounds.count,
            rounds_since_probe_up: self.rounds_since_probe_up,
            bw_probe_wait: self.bw_probe_wait,
            probe_up_acked_per_inc: bound(self.probe_up_acked_per_inc),
            prev_probe_too_high: self.prev_probe_too_high,
            idle_restart: self.idle_restart,
            probe_rtt_min_delay: (self.probe_rtt_min_delay_us != INFINITY)
                .then_some(Span::micros(self.probe_rtt_min_delay_us)),
            probe_rtt_min_stamp: Time::micros(match self.p.hz {
                0 => self.probe_rtt_min_stamp,
                hz => self.probe_rtt_min_stamp.saturating_mul(MICROS_PER_SEC) / u64::from(hz),
            }),
        }
    }
}
