//! BBRv1's outputs: pacing rate, quantisation budget, congestion window, and the effect of recovery on it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::hooks::{Base, Hooks, Shrink};
use super::{BW_UNIT, Bbr1, DEFAULT_RTT_US, Mode, OutputCache, UNIT};
use crate::event::{Ack, CaState};
use crate::units::{MICROS_PER_SEC, Span};
use crate::wide;

/// Conversion from packets/µs to one per cent of packets per second.
const RATE_SCALE: u32 = (MICROS_PER_SEC / 100) as u32;
/// Below this rate a burst is one packet. Bits per second. Source: Linux `bbr_min_tso_rate`.
pub(super) const MIN_TSO_RATE: u64 = 1_200_000;
/// A burst is about a millisecond of the pacing rate. Source: Linux `sk_pacing_shift`.
const PACING_SHIFT: u32 = 10;
/// Largest burst in bytes: `GSO_LEGACY_MAX_SIZE` − 1 − `MAX_TCP_HEADER` of x86-64.
const GSO_MAX_PAYLOAD: u64 = 65_536 - 1 - 320;
/// Largest burst in packets. Source: Linux `bbr_tso_segs_goal`.
const TSO_SEGS_MAX: u64 = 127;
/// Rate above which the first draft's quantum is a millisecond, bit/s. Source: draft-cardwell-iccrg-bbr-congestion-control-00.
const DRAFT00_QUANTUM_RATE: u64 = 24_000_000;

impl<V: Hooks> Bbr1<V> {
    /// Returns `bw` times `gain` in bytes per second, less `margin` per cent.
    // spec: Linux bbr_rate_bytes_per_sec
    pub(super) fn rate_bytes_per_sec(&self, bw: u64, gain: u32, margin: u32) -> u64 {
        let scale = u64::from(RATE_SCALE * 100_u32.saturating_sub(margin));
        let packets = wide::saturating_mul(wide::saturating_mul(bw, self.mss), u64::from(gain)) >> 8;
        wide::mul_shr(packets, scale, 24)
    }

    // spec: Linux bbr_bw_to_pacing_rate
    fn bw_to_pacing_rate(&self, bw: u64, gain: u32) -> u64 {
        // The kernel's rate can be zero, meaning no pacing; a transport of ours must never stall, so it is one byte a second at least.
        self.rate_bytes_per_sec(bw, gain, self.p.pacing_margin).clamp(1, u64::MAX / 8).min(self.max_pacing_rate)
    }

    // spec: Linux bbr_init_pacing_rate_from_rtt
    pub(super) fn init_pacing_rate_from_rtt(&mut self, srtt: Option<Span>) {
        let rtt_us = match srtt {
            Some(srtt) => {
                self.has_seen_rtt = true;
                srtt.as_micros().max(1)
            }
            None => DEFAULT_RTT_US,
        };
        let bw = u64::from(self.cwnd) * BW_UNIT / rtt_us;
        self.pacing_rate = self.bw_to_pacing_rate(bw, self.p.pacing_gain_startup);
    }

    /// Sets the pacing rate. Before the pipe is full it never falls, so that noise in the first samples cannot slow Startup.
    // spec: Linux bbr_set_pacing_rate
    pub(super) fn set_pacing_rate(&mut self, bw: u64, gain: u32, srtt: Option<Span>) {
        let rate = self.bw_to_pacing_rate(bw, gain);
        if !self.has_seen_rtt && srtt.is_some() {
            self.init_pacing_rate_from_rtt(srtt);
        }
        if self.full_bw_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Returns the packets of one burst at the present pacing rate.
    // spec: Linux bbr_tso_segs_goal
    pub(super) fn tso_segs_goal(&self) -> u64 {
        if self.draft_quantum {
            return self.draft00_quantum();
        }
        let bytes = (self.pacing_rate >> PACING_SHIFT).min(GSO_MAX_PAYLOAD);
        // Most slow flows send the smallest burst; the test spares them the division.
        let segs = if bytes < 2 * self.mss { 1 } else { bytes / self.mss.max(1) };
        segs.max(u64::from(self.min_tso_segs())).min(TSO_SEGS_MAX)
    }

    /// The first draft's quantum: one packet below 1.2 Mbit/s, two below 24 Mbit/s, else a millisecond up to 64 kB.
    fn draft00_quantum(&self) -> u64 {
        match self.pacing_rate * 8 {
            rate if rate < MIN_TSO_RATE => 1,
            rate if rate < DRAFT00_QUANTUM_RATE => 2,
            _ => ((self.pacing_rate / 1_000).min(65_536) / self.mss.max(1)).max(1),
        }
    }

    /// Returns the packets in flight at `gain` times the estimated BDP.
    // spec: Linux bbr_bdp
    pub(super) fn bdp(&self, bw: u64, gain: u32) -> u64 {
        let Some(min_rtt_us) = self.min_rtt_us else {
            // Before any RTT sample there is no BDP; only the initial window is known to be safe.
            return u64::from(self.unknown_path_cwnd);
        };
        let volume = wide::saturating_mul(bw, min_rtt_us);
        let (high, low) = wide::mul(volume, u64::from(gain));
        // The lowest 32 bits of the product are a fraction; its lowest 8 bits are cut off and the rest is rounded up.
        (high << 32 | low >> 32) + u64::from(low as u32 >> 8 != 0)
    }

    /// Adds room for the bursts that host, NIC and receiver make of packets.
    // spec: Linux bbr_quantization_budget
    pub(super) fn quantization_budget(&self, cwnd: u64, gain: u32) -> u64 {
        let quanta = u64::from(self.p.quantization);
        let mut cwnd = cwnd.saturating_add(quanta * self.tso_segs_goal());
        if quanta > 0 {
            cwnd = cwnd.saturating_add(1) & !1; // an even window suits delayed ACKs of two packets
            let is_raised = match (self.part.base(), self.mode) {
                (Base::Linux6_12, Mode::ProbeBw { phase, .. }) => phase == 0,
                (Base::Linux4_14, Mode::ProbeBw { .. }) => gain > UNIT,
                _ => false,
            };
            if is_raised {
                cwnd = cwnd.saturating_add(2); // so that probing raises even a tiny window
            }
        }
        cwnd
    }

    // spec: Linux bbr_inflight
    pub(super) fn inflight(&self, bw: u64, gain: u32) -> u64 {
        self.quantization_budget(self.bdp(bw, gain), gain)
    }

    /// Returns the packets that will still be in the network when the next one leaves the pacer.
    // spec: Linux bbr_packets_in_net_at_edt
    pub(super) fn packets_in_net_at_edt(&self, ack: &Ack, inflight_now: u32) -> u64 {
        if self.p.edt == 0 {
            return u64::from(inflight_now);
        }
        let interval_us = ack.edt.since(ack.now).as_micros();
        let delivered = wide::saturating_mul(self.bw(), interval_us) >> 24;
        let mut at_edt = u64::from(inflight_now);
        if self.pacing_gain > UNIT {
            at_edt += self.tso_segs_goal(); // it includes the burst about to leave
        }
        at_edt.saturating_sub(delivered)
    }

    /// Saves the window that recovery or ProbeRTT is about to shrink.
    // spec: Linux bbr_save_cwnd
    pub(super) fn save_cwnd(&mut self) {
        if self.prev_ca_state < CaState::Recovery && !matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.prior_cwnd = self.cwnd;
        } else {
            self.prior_cwnd = self.prior_cwnd.max(self.cwnd);
        }
    }

    /// The window towards which ACKs move the present one.
    pub(super) fn cwnd_target(&self, bw: u64) -> u32 {
        let target = self.bdp(bw, self.cwnd_gain).saturating_add(self.ack_aggregation_cwnd());
        self.quantization_budget(target, self.cwnd_gain).min(u64::from(u32::MAX)) as u32
    }

    /// All inputs of the pacing rate and of that target, the rate itself included.
    #[inline]
    fn plan_key(&self, bw: u64) -> [u64; 5] {
        let flags =
            u64::from(self.full_bw_reached) | u64::from(matches!(self.mode, Mode::ProbeBw { phase: 0, .. })) << 1;
        let gains = u64::from(self.pacing_gain) << 32 | u64::from(self.cwnd_gain);
        let packed = u64::from(self.aggregation.extra_acked()) << 2 | flags;
        [bw, self.min_rtt_us.unwrap_or(u64::MAX), self.pacing_rate, gains, packed]
    }

    /// Sets the pacing rate and then the window. Most ACKs change none of the inputs of the rate and the target;
    /// until there is an RTT, each may bring the first one, which changes the rate.
    #[inline]
    pub(super) fn set_outputs(&mut self, ack: &Ack) {
        let bw = self.bw();
        if !self.plan.is_of(&self.plan_key(bw)) {
            self.make_plan(bw, ack.srtt);
        }
        debug_assert!(self.plan.value == u64::from(self.cwnd_target(bw)), "an input of the plan changed unnoticed");
        self.set_cwnd(ack);
    }

    #[inline(never)]
    fn make_plan(&mut self, bw: u64, srtt: Option<Span>) {
        self.set_pacing_rate(bw, self.pacing_gain, srtt);
        let key = if self.has_seen_rtt { self.plan_key(bw) } else { OutputCache::EMPTY.key };
        self.plan = OutputCache { key, value: self.cwnd_target(bw).into() };
    }

    // spec: Linux bbr_set_cwnd
    #[inline]
    fn set_cwnd(&mut self, ack: &Ack) {
        let acked = u32::try_from(ack.rs.acked_sacked).unwrap_or(u32::MAX);
        if acked > 0 && !self.recover_or_restore(ack, acked) {
            let target = self.plan.value as u32; // it holds a window
            if self.full_bw_reached {
                self.cwnd = self.cwnd.saturating_add(acked).min(target);
            } else if self.cwnd < target || ack.delivered < u64::from(self.unknown_path_cwnd) {
                self.cwnd = self.cwnd.saturating_add(acked);
            }
            self.cwnd = self.cwnd.max(self.p.cwnd_min);
        }
        self.cwnd = self.cwnd.min(self.cwnd_clamp);
        if matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
    }

    /// The window of ProbeRTT: BBRv1's floor, or a variant's share of the BDP if that is more.
    fn probe_rtt_cwnd(&self) -> u32 {
        match self.part.probe_rtt_cwnd_gain() {
            0 => self.p.cwnd_min,
            gain => u32::try_from(self.bdp(self.bw(), gain)).unwrap_or(u32::MAX).max(self.p.cwnd_min),
        }
    }

    /// Applies recovery: a round of packet conservation at its start, the saved window at its end. True: the window is decided.
    // spec: Linux bbr_set_cwnd_to_recover_or_restore
    fn recover_or_restore(&mut self, ack: &Ack, acked: u32) -> bool {
        let change = ack.ca_state as u8 ^ self.prev_ca_state as u8;
        if ack.rs.losses | u64::from(self.packet_conservation) | u64::from(change) == 0
            && ack.ca_state < CaState::Recovery
        {
            return false; // the case for most ACKs
        }
        let losses = u32::try_from(ack.rs.losses).unwrap_or(u32::MAX);
        self.cwnd = self.cwnd.saturating_sub(losses).max(1);
        let conserved = super::packets(ack.in_flight).saturating_add(acked);
        if ack.ca_state == CaState::Recovery && self.prev_ca_state != CaState::Recovery {
            if self.part.begins_conservation() {
                self.packet_conservation = true;
                self.rounds.begin(ack.delivered);
            }
            self.cwnd = self.part.first_window(self.cwnd, conserved);
        } else if self.prev_ca_state >= CaState::Recovery && ack.ca_state < CaState::Recovery {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.prev_ca_state = ack.ca_state;
        if !self.part.conserves(self.packet_conservation, ack.ca_state) {
            return false;
        }
        match self.part.shrink() {
            Shrink::Conserve => self.cwnd = self.cwnd.max(conserved),
            Shrink::Halve { max, is_of_inflight } => {
                let max = u32::try_from(self.inflight(self.bw(), max)).unwrap_or(u32::MAX);
                let volume = if is_of_inflight { self.cwnd.max(conserved) } else { self.cwnd };
                self.cwnd = (volume / 2).min(max).max(self.p.cwnd_min);
            }
            Shrink::Hold => {}
        }
        true
    }
}
