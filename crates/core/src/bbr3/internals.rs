//! Internal state of a BBRv2 or BBRv3 flow, under the draft's names, for conformance cases, traces and tests.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::phase::Phase;
use super::rules::Rules;
use super::{BW_SHIFT, Bbr3, INFINITY, UNIT};
#[cfg(feature = "unstable-internals")]
use crate::params::FINE;
use crate::units::{MICROS_PER_SEC, Span, Time};
use crate::wide;

/// Model and bounds of a flow. Volumes are in bytes of payload, rates in bits per second; `None` is the draft's Infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bbr3Internals {
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
    /// The state in its internal units.
    pub raw: Bbr3Raw,
}

/// State in its internal units, for comparison with a kernel's bit by bit. Volumes are in packets (bytes in the
/// draft's edition), bandwidth is in volume/µs · 2^24. `None` is the kernel's `~0U`. Names are those of google/bbr v3's `struct bbr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bbr3Raw {
    /// `bw_hi`: the largest rate of the previous cycle, and of this one.
    pub bw_hi: [u64; 2],
    /// `bw_lo`.
    pub bw_lo: Option<u64>,
    /// `bw_latest`.
    pub bw_latest: u64,
    /// `inflight_hi`.
    pub inflight_hi: Option<u64>,
    /// `inflight_lo`.
    pub inflight_lo: Option<u64>,
    /// `inflight_latest`.
    pub inflight_latest: u64,
    /// `min_rtt_us`.
    pub min_rtt_us: Option<u64>,
    /// `probe_rtt_min_us`.
    pub probe_rtt_min_us: Option<u64>,
    /// `full_bw`.
    pub full_bw: u64,
    /// `ack_phase`: 0 init, 1 refilling, 2 probe starting, 3 feedback, 4 stopping.
    pub ack_phase: u32,
    /// `bw_probe_samples`.
    pub bw_probe_samples: bool,
    /// `bw_probe_up_cnt`.
    pub bw_probe_up_cnt: Option<u64>,
    /// `stopped_risky_probe`.
    pub stopped_risky_probe: bool,
    /// `extra_acked`, by the kernel's index.
    pub extra_acked: [u64; 2],
    /// `prior_cwnd`.
    pub prior_cwnd: u64,
    /// `loss_in_round`.
    pub loss_in_round: bool,
    /// `loss_round_start`.
    pub loss_round_start: bool,
    /// `loss_events_in_round`.
    pub loss_events_in_round: u32,
    /// `try_fast_path`.
    pub try_fast_path: bool,
}

/// The unit of gains in [`Bbr3Internals`].
#[cfg(feature = "unstable-internals")]
pub const GAIN_UNIT: u32 = FINE;

impl<R: Rules> Bbr3<R> {
    /// Draft: `BBR.probe_up_acked_per_inc`: the bound grows only in ProbeBW_UP.
    pub(super) const fn probe_up_acked_per_inc(&self) -> u64 {
        match &self.phase {
            Phase::ProbeBwUp(growth) => growth.acked_per_inc,
            _ => INFINITY,
        }
    }

    /// Returns the internal state of the flow.
    pub fn internals(&self) -> Bbr3Internals {
        let bytes = |volume: u64| wide::saturating_mul(volume, self.host.unit_bytes());
        let bound = |volume: u64| (volume != INFINITY).then(|| bytes(volume));
        // Bytes per second times 8 by one shift: below 2^64 for every bandwidth that a volume can have.
        let bits =
            |bw: u64| wide::mul_shr(bw, wide::saturating_mul(self.host.unit_bytes(), 8 * MICROS_PER_SEC), BW_SHIFT);
        Bbr3Internals {
            pacing_gain: self.gains.pacing,
            cwnd_gain: self.gains.cwnd,
            max_bw: bits(self.model.max_bw()),
            bw_shortterm: (self.bounds.bw_shortterm != INFINITY).then(|| bits(self.bounds.bw_shortterm)),
            inflight_longterm: bound(self.bounds.inflight_longterm),
            inflight_shortterm: bound(self.bounds.inflight_shortterm),
            bdp: bytes(self.bdp_multiple(self.model.max_bw(), UNIT)),
            inflight_target: bytes(self.inflight(self.model.max_bw(), UNIT)),
            inflight_with_headroom: bound(self.inflight_with_headroom()),
            extra_acked: bytes(self.aggregation.extra_acked),
            send_quantum: bytes(self.out.send_quantum),
            full_bw_count: self.full_pipe.plateau.count,
            full_bw_now: self.full_pipe.now,
            full_bw_reached: self.full_pipe.reached,
            round_count: self.model.rounds.count,
            rounds_since_probe_up: self.probe.rounds_since_probe_up,
            bw_probe_wait: self.probe.bw_probe_wait,
            probe_up_acked_per_inc: bound(self.probe_up_acked_per_inc()),
            prev_probe_too_high: self.probe.prev_probe_too_high,
            idle_restart: self.idle_restart,
            probe_rtt_min_delay: (self.min_rtt.probe_rtt_min_delay_us != INFINITY)
                .then_some(Span::micros(self.min_rtt.probe_rtt_min_delay_us)),
            probe_rtt_min_stamp: Time::micros(match self.p.hz {
                0 => self.min_rtt.probe_rtt_min_stamp,
                hz => wide::saturating_mul(self.min_rtt.probe_rtt_min_stamp, MICROS_PER_SEC) / u64::from(hz),
            }),
            raw: self.raw(),
        }
    }

    /// Returns the state in internal units, with additional fields.
    fn raw(&self) -> Bbr3Raw {
        let bound = |value: u64| (value != INFINITY).then_some(value);
        Bbr3Raw {
            bw_hi: self.model.max_bw_filter(),
            bw_lo: bound(self.bounds.bw_shortterm),
            bw_latest: self.model.bw_latest,
            inflight_hi: bound(self.bounds.inflight_longterm),
            inflight_lo: bound(self.bounds.inflight_shortterm),
            inflight_latest: self.model.inflight_latest,
            min_rtt_us: bound(self.min_rtt.min_rtt_us),
            probe_rtt_min_us: bound(self.min_rtt.probe_rtt_min_delay_us),
            full_bw: self.full_pipe.plateau.bw,
            ack_phase: self.probe.ack_phase as u32,
            bw_probe_samples: self.probe.is_bw_probe_sample,
            bw_probe_up_cnt: bound(self.probe_up_acked_per_inc()),
            stopped_risky_probe: self.probe.prev_probe_precautionary,
            extra_acked: self.aggregation.buckets(),
            prior_cwnd: self.undo.prior_cwnd,
            loss_in_round: self.bounds.is_loss_in_round,
            loss_round_start: self.bounds.loss_round_start,
            loss_events_in_round: self.bounds.loss_events_in_round,
            try_fast_path: self.out.try_fast_path,
        }
    }
}
