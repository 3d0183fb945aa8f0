//! BBRv3's outputs: pacing rate, send quantum, offload budget, congestion window and the bounds on it.
//! In: the model. Out: `pacing_rate`, `send_quantum`, `cwnd`. Never: an estimate.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{BW_UNIT, Bbr3, INFINITY, Phase, Sample, UNIT, scaled};
use crate::units::{MICROS_PER_SEC, Span};

/// v2alpha: below this rate a burst is one packet. Bits per second. Source: google/bbr v2alpha `bbr_min_tso_rate`.
pub(super) const MIN_TSO_RATE: u64 = 1_200_000;
/// RTT assumed for the first pacing rate when none is known. Source: draft InitPacingRate.
const DEFAULT_RTT_US: u64 = 1_000;
/// Linux: a burst is about a millisecond of the pacing rate. Source: `sk_pacing_shift`.
const PACING_SHIFT: u32 = 10;
/// Linux: what short paths add to a burst, halved for each 2^9 µs of RTT. Source: `bbr_tso_rtt_shift`, `GSO_LEGACY_MAX_SIZE`.
const TSO_RTT_SHIFT: u32 = 9;
const GSO_MAX: u64 = 65_536;
/// Linux: largest burst in bytes, `GSO_LEGACY_MAX_SIZE` − 1 − `MAX_TCP_HEADER` of x86-64.
const GSO_MAX_PAYLOAD: u64 = GSO_MAX - 1 - 320;

/// What follows from the model, with the inputs that it follows from. Gains, state and packet size are inputs too: whoever
/// changes one of those forgets the plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    bw: u64,
    min_rtt_us: u64,
    extra_acked: u64,
    full_bw_reached: bool,
    /// The BDP.
    bdp: u64,
    /// Draft: `BBR.max_inflight`.
    max_inflight: u64,
}

impl Plan {
    /// None yet: no aggregation is infinite, while a rate beyond all measure is. Nothing in flight is right for no RTT at all.
    pub(super) const NONE: Self =
        Self { bw: INFINITY, min_rtt_us: 0, extra_acked: INFINITY, full_bw_reached: false, bdp: 0, max_inflight: 0 };
}

impl Bbr3 {
    /// `bw` times `gain` in bytes a second, less `margin` per cent; at least one.
    // spec: Linux bbr_rate_bytes_per_sec
    #[inline(never)]
    pub(super) fn rate_bytes_per_sec(&self, bw: u64, gain: u32, margin: u32) -> u64 {
        let scale = MICROS_PER_SEC / 100 * u64::from(100 - margin);
        let volume = scaled(bw.saturating_mul(self.unit_bytes), gain);
        let rate = match volume.checked_mul(scale) {
            Some(rate) => rate >> 24,
            None => u64::try_from((u128::from(volume) * u128::from(scale)) >> 24).unwrap_or(u64::MAX),
        };
        rate.clamp(1, u64::MAX / 8)
    }

    // spec: #pacing-rate-bbrpacingrate InitPacingRate. Linux takes its margin off that as well.
    #[inline(never)]
    pub(super) fn init_pacing_rate(&mut self, srtt: Option<Span>) {
        let rtt_us = match srtt {
            Some(srtt) => {
                self.has_seen_rtt = true;
                srtt.as_micros().max(1)
            }
            None => DEFAULT_RTT_US,
        };
        let nominal = if self.edition.is_kernel() { self.cwnd } else { self.initial_cwnd };
        let bw = u64::try_from(u128::from(nominal) * u128::from(BW_UNIT) / u128::from(rtt_us)).unwrap_or(u64::MAX);
        let margin = if self.edition.is_kernel() { self.p.pacing_margin_percent } else { 0 };
        self.pacing_rate = self.rate_bytes_per_sec(bw, self.p.startup_pacing_gain, margin);
    }

    // Decision: the first RTT replaces the guess of 1 ms, as the prose and Linux have it; by the pseudo-code the guess could outlive it for ever.
    #[inline]
    pub(super) fn take_first_rtt(&mut self, srtt: Option<Span>) {
        if !self.has_seen_rtt && srtt.is_some() {
            self.init_pacing_rate(srtt);
        }
    }

    // spec: #pacing-rate-bbrpacingrate SetPacingRate. Decision: BBR.pacing_gain, where it writes C.pacing_gain.
    pub(super) fn set_pacing_rate(&mut self) {
        self.set_pacing_rate_with_gain(self.pacing_gain);
    }

    // spec: #pacing-rate-bbrpacingrate SetPacingRateWithGain
    pub(super) fn set_pacing_rate_with_gain(&mut self, gain: u32) {
        let bw = self.bw();
        if bw == 0 {
            return; // not one rate measured yet
        }
        let rate = self.rate_bytes_per_sec(bw, gain, self.p.pacing_margin_percent);
        if self.full_bw_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    // spec: #send-quantum-bbrsendquantum SetSendQuantum; Linux bbr_tso_segs_generic
    #[inline(never)]
    pub(super) fn set_send_quantum(&mut self) {
        let least = u64::from(self.min_tso_segs());
        if !self.edition.is_kernel() {
            let bytes = self.pacing_rate.saturating_mul(u64::from(self.p.send_quantum_time)) / MICROS_PER_SEC;
            let bytes = bytes.min(u64::from(self.p.send_quantum_max));
            self.send_quantum = bytes.max(least.saturating_mul(self.mss));
            return;
        }
        let mut bytes = match self.p.send_quantum_time {
            0 => self.pacing_rate >> PACING_SHIFT,
            us => self.pacing_rate.saturating_mul(u64::from(us)) / MICROS_PER_SEC,
        };
        let shift = self.min_rtt_us >> TSO_RTT_SHIFT;
        if shift < 32 {
            bytes = bytes.saturating_add(GSO_MAX >> shift);
        }
        bytes = bytes.min(GSO_MAX_PAYLOAD).min(u64::from(self.p.send_quantum_max));
        // Slow flows make the smallest burst; that spares them the division.
        let segs = if bytes < 2 * self.mss { 1 } else { bytes / self.mss };
        self.send_quantum = segs.max(least);
    }

    // spec: #tcp-offload-budget UpdateOffloadBudget; QUIC's is one quantum: `offload_quanta`
    const fn offload_budget(&self) -> u64 {
        self.send_quantum.saturating_mul(self.p.offload_quanta as u64)
    }

    /// Volume in flight at `gain` times the BDP of `bw`.
    // spec: #computing-bbrmaxinflight BDPMultiple. Decision: always with the bandwidth that is meant; the draft calls it with and without.
    #[inline(never)]
    pub(super) fn bdp_multiple(&self, bw: u64, gain: u32) -> u64 {
        if self.min_rtt_us == INFINITY {
            return self.initial_cwnd;
        }
        let volume = bw.saturating_mul(self.min_rtt_us);
        // Rounded up, as in Linux, since a BDP rounded down is never filled.
        scaled(volume, gain).saturating_add(BW_UNIT - 1) >> 24
    }

    // spec: #computing-bbrmaxinflight QuantizationBudget
    fn quantization_budget(&self, inflight_cap: u64) -> u64 {
        let cap = inflight_cap.max(self.offload_budget()).max(self.min_pipe_cwnd);
        // So that probing raises even a tiny window.
        if self.state == Phase::ProbeBwUp { cap.saturating_add(2 * self.smss) } else { cap }
    }

    // spec: #computing-bbrmaxinflight Inflight
    pub(super) fn inflight(&self, bw: u64, gain: u32) -> u64 {
        self.quantization_budget(self.bdp_multiple(bw, gain))
    }

    /// What we want in flight: the BDP, unless congestion cut the window. Linux leaves room for bursts in it.
    // spec: #a-dual-time-scale-approach-for-coexistence TargetInflight
    #[inline]
    pub(super) fn target_inflight(&self) -> u64 {
        let bw = self.bw();
        let is_planned = self.plan.bw == bw && self.plan.min_rtt_us == self.min_rtt_us;
        let bdp = if is_planned { self.plan.bdp } else { self.bdp_multiple(bw, UNIT) };
        let target = if self.edition.is_kernel() { self.quantization_budget(bdp) } else { bdp };
        target.min(self.cwnd)
    }

    /// What will still be in the network when the next packet leaves the pacer.
    // spec: Linux bbr_packets_in_net_at_edt. The draft takes what is in flight.
    pub(super) fn in_net_at_edt(&self, rs: &Sample<'_>, inflight_now: u64) -> u64 {
        if self.p.edt == 0 {
            return inflight_now;
        }
        let delivered = self.bw().saturating_mul(rs.ack.edt.since(rs.ack.now).as_micros()) >> 24;
        let leaving = if self.pacing_gain > UNIT { self.send_quantum } else { 0 };
        inflight_now.saturating_add(leaving).saturating_sub(delivered)
    }

    /// An input changed that [`Self::is_plan_valid`] does not look at.
    pub(super) const fn forget_plan(&mut self) {
        self.plan = Plan::NONE;
    }

    /// The model says what it said when the plan was made.
    #[inline]
    pub(super) fn is_plan_valid(&self) -> bool {
        let plan = &self.plan;
        plan.bw == self.bw()
            && plan.min_rtt_us == self.min_rtt_us
            && plan.extra_acked == self.aggregation.extra_acked
            && plan.full_bw_reached == self.full_bw_reached
    }

    /// Once rate and quantum are set, of which the window has to allow for some.
    #[inline(never)]
    pub(super) fn make_plan(&mut self) {
        let bw = self.bw();
        self.plan = Plan {
            bw,
            min_rtt_us: self.min_rtt_us,
            // Until there is an RTT each ACK may bring the first one, which changes the rate.
            extra_acked: if self.has_seen_rtt { self.aggregation.extra_acked } else { INFINITY },
            full_bw_reached: self.full_bw_reached,
            bdp: self.bdp_multiple(bw, UNIT),
            max_inflight: self.update_max_inflight(bw),
        };
    }

    /// Whether the plan is what it would be if it were made now.
    pub(super) fn is_plan_right(&self) -> bool {
        let (bw, margin) = (self.bw(), self.p.pacing_margin_percent);
        let paced = !self.full_bw_reached
            || bw == 0
            || self.pacing_rate == self.rate_bytes_per_sec(bw, self.pacing_gain, margin);
        paced && self.plan.bdp == self.bdp_multiple(bw, UNIT) && self.plan.max_inflight == self.update_max_inflight(bw)
    }

    // spec: #computing-bbrmaxinflight UpdateMaxInflight
    #[inline(never)]
    fn update_max_inflight(&self, bw: u64) -> u64 {
        let inflight_cap = self.bdp_multiple(bw, self.cwnd_gain).saturating_add(self.extra_acked());
        self.quantization_budget(inflight_cap)
    }

    // spec: #cwnd-adjustment-mechanism SetCwnd; Linux bbr_set_cwnd
    #[inline]
    pub(super) fn set_cwnd(&mut self, rs: &Sample<'_>) {
        let before = self.cwnd;
        if rs.newly_acked > 0 || !self.edition.is_kernel() {
            let max_inflight = self.plan.max_inflight;
            let grown = self.cwnd.saturating_add(rs.newly_acked);
            if self.full_bw_reached {
                self.try_fast_path = grown >= max_inflight;
                self.cwnd = grown.min(max_inflight);
            } else {
                self.try_fast_path = self.cwnd >= max_inflight && !self.knows_little(rs);
                if !self.try_fast_path {
                    self.cwnd = grown;
                }
            }
            self.cwnd = self.cwnd.max(self.min_pipe_cwnd);
        }
        self.bound_cwnd_for_probe_rtt();
        self.bound_cwnd_for_model();
        self.cwnd = self.cwnd.max(self.smss).min(self.cwnd_clamp);
        if self.cwnd != before {
            self.note_cwnd();
        }
    }

    /// Too early for the model to bound the window. Linux asks for twice the initial window instead.
    fn knows_little(&self, rs: &Sample<'_>) -> bool {
        if self.edition.is_kernel() {
            self.cwnd < self.initial_cwnd.saturating_mul(2)
        } else {
            self.volume(rs.ack.delivered) < self.initial_cwnd
        }
    }

    // spec: #modulating-cwnd-in-probertt BoundCwndForProbeRTT
    #[inline]
    fn bound_cwnd_for_probe_rtt(&mut self) {
        if matches!(self.state, Phase::ProbeRtt { .. }) {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
    }

    // spec: #bounding-cwnd-based-on-recent-congestion BoundCwndForModel
    // Decision: Drain has no long-term bound, as in this pseudo-code and in Linux; the draft's table gives it one.
    #[inline]
    fn bound_cwnd_for_model(&mut self) {
        let cap = match self.state {
            Phase::ProbeBwDown | Phase::ProbeBwRefill | Phase::ProbeBwUp => self.inflight_longterm,
            Phase::ProbeBwCruise | Phase::ProbeRtt { .. } => self.inflight_with_headroom(),
            Phase::Startup | Phase::Drain { .. } => INFINITY,
        };
        let cap = cap.min(self.inflight_shortterm).max(self.min_pipe_cwnd);
        self.cwnd = self.cwnd.min(cap);
    }
}
