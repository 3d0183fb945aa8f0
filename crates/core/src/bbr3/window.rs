//! BBRv3's outputs: pacing rate, send quantum, offload budget, congestion window and the bounds on it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::phase::Phase;
use super::rules::{EarlyGrowth, Rules};
use super::{BW_SHIFT, BW_UNIT, Bbr3, INFINITY, UNIT, scaled};
use crate::event::Ack;
use crate::units::{MICROS_PER_SEC, Span};
use crate::wide;

/// RTT assumed for the first pacing rate before any is measured. Source: draft InitPacingRate.
const DEFAULT_RTT_US: u64 = 1_000;
/// Linux: a burst is about a millisecond of the pacing rate. Source: `sk_pacing_shift`.
const PACING_SHIFT: u32 = 10;
/// Linux: addition to a burst on short paths, halved for each 2^9 µs of RTT. Source: `bbr_tso_rtt_shift`, `GSO_LEGACY_MAX_SIZE`.
const TSO_RTT_SHIFT: u32 = 9;
const GSO_MAX: u64 = 65_536;
/// Linux: largest burst in bytes, `GSO_LEGACY_MAX_SIZE` − 1 − `MAX_TCP_HEADER` of x86-64.
const GSO_MAX_PAYLOAD: u64 = GSO_MAX - 1 - 320;

/// All inputs of rate, quantum and maximum inflight, except parameters, which never change; the gains follow from the state.
type OutputKey = [u64; 6];

/// Outputs derived from the model, with all their inputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputCache {
    key: OutputKey,
    /// The BDP.
    bdp: u64,
    /// Draft: `BBR.max_inflight`.
    max_inflight: u64,
}

impl OutputCache {
    /// No plan yet: no input is all ones in its last word.
    pub(super) const NONE: Self = Self { key: [u64::MAX; 6], bdp: 0, max_inflight: 0 };

    /// Makes the next ACK compute the plan again.
    pub(super) const fn forget(&mut self) {
        self.key = Self::NONE.key;
    }
}

/// The outputs, and the state that decides how they change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Draft: `C.cwnd`.
    pub(super) cwnd: u64,
    /// Bytes per second.
    pub(super) pacing_rate: u64,
    /// Draft: `C.send_quantum`; bytes, or packets where the edition counts those.
    pub(super) send_quantum: u64,
    pub(super) has_seen_rtt: bool,
    /// Linux: true if the window is at its target.
    pub(super) try_fast_path: bool,
    pub(super) plan: OutputCache,
}

impl Window {
    pub(super) const NONE: Self = Self {
        cwnd: 0,
        pacing_rate: 0,
        send_quantum: 0,
        has_seen_rtt: false,
        try_fast_path: false,
        plan: OutputCache::NONE,
    };
}

impl<R: Rules> Bbr3<R> {
    /// Returns `bw` times `gain` in bytes per second, less `margin` per cent; at least one.
    // spec: Linux bbr_rate_bytes_per_sec
    #[inline(never)]
    pub(super) fn rate_bytes_per_sec(&self, bw: u64, gain: u32, margin: u32) -> u64 {
        let scale = MICROS_PER_SEC / 100 * u64::from(100_u32.saturating_sub(margin));
        let volume = scaled(wide::saturating_mul(bw, self.host.unit_bytes()), gain);
        wide::mul_shr(volume, scale, BW_SHIFT).clamp(1, u64::MAX / 8)
    }

    /// The same, clamped to a valid pacing rate.
    // spec: Linux bbr_bw_to_pacing_rate
    fn pacing_rate_of(&self, bw: u64, gain: u32, margin: u32) -> u64 {
        self.rate_bytes_per_sec(bw, gain, margin).min(self.host.max_rate()).max(1)
    }

    // spec: #pacing-rate-bbrpacingrate InitPacingRate. Linux subtracts its margin from that as well.
    #[inline(never)]
    pub(super) fn init_pacing_rate(&mut self, srtt: Option<Span>) {
        let rtt_us = match srtt {
            Some(srtt) => {
                self.out.has_seen_rtt = true;
                srtt.as_micros().max(1)
            }
            None => DEFAULT_RTT_US,
        };
        let (nominal, margin) = if R::FIRST_RATE_OF_INITIAL {
            (self.host.initial_cwnd(), 0)
        } else {
            (self.out.cwnd, self.p.pacing_margin_percent)
        };
        let bw = wide::saturating_mul(nominal, BW_UNIT) / rtt_us;
        self.out.pacing_rate = self.pacing_rate_of(bw, self.p.startup_pacing_gain, margin);
    }

    // Decision: the first RTT replaces the guess of 1 ms, as in the prose and in Linux; by the pseudo-code the guess
    // could outlive it for ever.
    #[inline]
    pub(super) fn take_first_rtt(&mut self, srtt: Option<Span>) {
        if !self.out.has_seen_rtt && srtt.is_some() {
            self.init_pacing_rate(srtt);
        }
    }

    // spec: #pacing-rate-bbrpacingrate SetPacingRate. Decision: BBR.pacing_gain, where it writes C.pacing_gain.
    pub(super) fn set_pacing_rate(&mut self) {
        self.set_pacing_rate_with_gain(self.gains.pacing);
    }

    // spec: #pacing-rate-bbrpacingrate SetPacingRateWithGain
    pub(super) fn set_pacing_rate_with_gain(&mut self, gain: u32) {
        let bw = self.bw();
        if bw == 0 {
            return; // no rate measured yet
        }
        let rate = self.pacing_rate_of(bw, gain, self.p.pacing_margin_percent);
        if self.full_pipe.reached || rate > self.out.pacing_rate {
            self.out.pacing_rate = rate;
        }
    }

    // spec: #send-quantum-bbrsendquantum SetSendQuantum
    #[inline(never)]
    pub(super) fn set_send_quantum(&mut self) {
        let min = u64::from(self.min_tso_segs());
        if !R::OWN_QUANTUM {
            self.out.send_quantum = self.tso_segs().max(min);
            return;
        }
        let time_us = u64::from(self.p.send_quantum_time);
        let bytes = wide::saturating_mul(self.out.pacing_rate, time_us) / MICROS_PER_SEC;
        let bytes = bytes.min(u64::from(self.p.send_quantum_max));
        self.out.send_quantum = bytes.max(wide::saturating_mul(min, self.host.mss()));
    }

    /// Returns the packets of a burst as the kernel will make them.
    // spec: Linux bbr_tso_segs_generic
    fn tso_segs(&self) -> u64 {
        let mut bytes = match self.p.send_quantum_time {
            0 => self.out.pacing_rate >> PACING_SHIFT,
            us => wide::saturating_mul(self.out.pacing_rate, u64::from(us)) / MICROS_PER_SEC,
        };
        let shift = self.min_rtt.min_rtt_us >> TSO_RTT_SHIFT;
        if shift < 32 {
            bytes = bytes.saturating_add(GSO_MAX >> shift);
        }
        bytes = bytes.min(GSO_MAX_PAYLOAD).min(u64::from(self.p.send_quantum_max));
        // Slow flows send the smallest burst; the test spares them the division.
        if bytes < 2 * self.host.mss() { 1 } else { bytes / self.host.mss().max(1) }
    }

    // spec: #tcp-offload-budget UpdateOffloadBudget, #quic-offload-budget: there `offload_quanta` is 1, or 1 plus what a pacing
    // offload holds, and the host reports the ACK frequency that it has requested
    pub(super) fn offload_budget(&self) -> u64 {
        let quanta = wide::saturating_mul(self.out.send_quantum, self.p.offload_quanta.into());
        quanta.saturating_add(self.host.held_back(self.model.max_bw()))
    }

    /// Returns the volume in flight at `gain` times the BDP of `bw`.
    // spec: #computing-bbrmaxinflight BDPMultiple. Decision: always with an explicit bandwidth; the draft calls it with and without.
    #[inline(never)]
    pub(super) fn bdp_multiple(&self, bw: u64, gain: u32) -> u64 {
        if self.min_rtt.min_rtt_us == INFINITY {
            return self.host.initial_cwnd();
        }
        let volume = wide::saturating_mul(bw, self.min_rtt.min_rtt_us);
        // Rounded up, as in Linux, since a BDP rounded down is never filled.
        scaled(volume, gain).saturating_add(BW_UNIT - 1) >> BW_SHIFT
    }

    // spec: #computing-bbrmaxinflight QuantizationBudget
    fn quantization_budget(&self, inflight_cap: u64) -> u64 {
        let cap = inflight_cap.max(self.offload_budget()).max(self.host.min_pipe_cwnd());
        // Room for probing to raise even a tiny window.
        if self.phase.is_up() { cap.saturating_add(2 * self.smss()) } else { cap }
    }

    // spec: #computing-bbrmaxinflight Inflight
    pub(super) fn inflight(&self, bw: u64, gain: u32) -> u64 {
        self.quantization_budget(self.bdp_multiple(bw, gain))
    }

    /// Target volume in flight: the BDP, unless congestion cut the window. Linux includes room for bursts.
    // spec: #design-considerations-for-choosing-constant-parameters TargetInflight
    #[inline]
    pub(super) fn target_inflight(&self) -> u64 {
        let [max_bw, bw_shortterm, min_rtt_us, ..] = self.out.plan.key;
        let is_planned = max_bw == self.model.max_bw()
            && bw_shortterm == self.bounds.bw_shortterm
            && min_rtt_us == self.min_rtt.min_rtt_us;
        let bdp = if is_planned { self.out.plan.bdp } else { self.bdp_multiple(self.bw(), UNIT) };
        let target = if R::TARGET_HAS_ROOM { self.quantization_budget(bdp) } else { bdp };
        target.min(self.out.cwnd)
    }

    /// Returns the volume that will still be in the network when the next packet leaves the pacer.
    // spec: Linux bbr_packets_in_net_at_edt. The draft uses the present volume in flight.
    pub(super) fn in_net_at_edt(&self, ack: &Ack, inflight_now: u64) -> u64 {
        if self.p.edt == 0 {
            return inflight_now;
        }
        let delivered = wide::mul_shr(self.bw(), ack.edt.since(ack.now).as_micros(), BW_SHIFT);
        let leaving = if self.gains.pacing > UNIT { self.out.send_quantum } else { 0 };
        inflight_now.saturating_add(leaving).saturating_sub(delivered)
    }

    /// The present inputs of a plan.
    #[inline]
    fn plan_key(&self) -> OutputKey {
        [
            self.model.max_bw(),
            self.bounds.bw_shortterm,
            self.min_rtt.min_rtt_us,
            self.aggregation.extra_acked,
            self.out.pacing_rate,
            u64::from(self.host.changes()) << 16 | (self.phase.state() as u64) << 1 | u64::from(self.full_pipe.reached),
        ]
    }

    /// True if the plan was made from the present inputs.
    #[inline]
    pub(super) fn is_plan_valid(&self) -> bool {
        let [a, b, c, d, e, f] = self.out.plan.key;
        let now = self.plan_key();
        a == now[0] && b == now[1] && c == now[2] && d == now[3] && e == now[4] && f == now[5]
    }

    /// Computes the gains of the state, rate and quantum, and then the maximum inflight, which must leave room for some bursts.
    #[inline(never)]
    pub(super) fn make_plan(&mut self, srtt: Option<Span>) {
        self.begin_plan(srtt);
        self.end_plan();
    }

    /// First half of a plan, which is not valid yet: the window without the bound by the queue.
    #[inline]
    pub(super) fn begin_plan(&mut self, srtt: Option<Span>) {
        self.update_gains();
        self.take_first_rtt(srtt);
        self.set_pacing_rate();
        self.set_send_quantum();
        let bw = self.bw();
        self.out.plan = OutputCache {
            key: OutputCache::NONE.key,
            bdp: self.bdp_multiple(bw, UNIT),
            max_inflight: self.update_max_inflight(bw),
        };
    }

    /// Second half of a plan.
    #[inline]
    pub(super) fn end_plan(&mut self) {
        self.out.plan.max_inflight = self.bound_by_queue(self.bw(), self.out.plan.max_inflight);
        // Until there is an RTT, each ACK may bring the first one, which changes the rate.
        if self.out.has_seen_rtt {
            self.out.plan.key = self.plan_key();
        }
    }

    /// True if the cached plan is still valid: computing it again would give the same values.
    pub(super) fn is_plan_right(&self) -> bool {
        let (bw, margin) = (self.bw(), self.p.pacing_margin_percent);
        let paced = !self.full_pipe.reached
            || bw == 0
            || self.out.pacing_rate == self.pacing_rate_of(bw, self.gains.pacing, margin);
        let plan = &self.out.plan;
        let max_inflight = self.bound_by_queue(bw, self.update_max_inflight(bw));
        paced && plan.bdp == self.bdp_multiple(bw, UNIT) && plan.max_inflight == max_inflight
    }

    // spec: #computing-bbrmaxinflight UpdateMaxInflight
    #[inline(never)]
    fn update_max_inflight(&self, bw: u64) -> u64 {
        let inflight_cap = self.bdp_multiple(bw, self.gains.cwnd).saturating_add(self.extra_acked());
        self.quantization_budget(inflight_cap)
    }

    // spec: #cwnd-adjustment-mechanism SetCwnd; Linux bbr_set_cwnd
    #[inline]
    pub(super) fn set_cwnd(&mut self, ack: &Ack) {
        if ack.rs.acked_sacked > 0 || !R::WINDOW_NEEDS_ACKED {
            let max_inflight = self.out.plan.max_inflight;
            let grown = self.out.cwnd.saturating_add(ack.rs.acked_sacked);
            if self.full_pipe.reached {
                self.out.try_fast_path = grown >= max_inflight;
                self.out.cwnd = grown.min(max_inflight);
            } else {
                self.out.try_fast_path = self.out.cwnd >= max_inflight && !self.knows_little(ack);
                if !self.out.try_fast_path {
                    self.out.cwnd = grown;
                }
            }
            self.out.cwnd = self.out.cwnd.max(self.host.min_pipe_cwnd());
        }
        self.bound_cwnd_for_probe_rtt();
        self.bound_cwnd_for_model();
        self.out.cwnd = self.out.cwnd.max(self.smss()).min(self.host.cwnd_clamp());
    }

    /// True while it is too early for the model to bound the window.
    fn knows_little(&self, ack: &Ack) -> bool {
        match R::EARLY_GROWTH {
            EarlyGrowth::InitialDelivered => ack.delivered < self.host.initial_cwnd(),
            EarlyGrowth::TwiceInitial => {
                self.out.cwnd < self.host.initial_cwnd().saturating_add(self.host.initial_cwnd())
            }
        }
    }

    // spec: #modulating-cwnd-in-probertt BoundCwndForProbeRTT
    #[inline]
    fn bound_cwnd_for_probe_rtt(&mut self) {
        if self.phase.is_probe_rtt() {
            self.out.cwnd = self.out.cwnd.min(self.probe_rtt_cwnd());
        }
    }

    // spec: #bounding-cwnd-based-on-recent-congestion BoundCwndForModel
    // Decision: Drain has no long-term bound, as in this pseudo-code and in Linux; the draft's table gives it one.
    #[inline]
    fn bound_cwnd_for_model(&mut self) {
        let cap = match self.phase {
            Phase::ProbeBwDown | Phase::ProbeBwRefill { .. } | Phase::ProbeBwUp(_) => self.bounds.inflight_longterm,
            Phase::ProbeBwCruise | Phase::ProbeRtt { .. } => self.inflight_with_headroom(),
            Phase::Startup | Phase::Drain { .. } => INFINITY,
        };
        let cap = cap.min(self.bounds.inflight_shortterm).max(self.host.min_pipe_cwnd());
        self.out.cwnd = self.out.cwnd.min(cap);
    }
}
