//! TCP Prague: a scalable congestion control for L4S, with a fractional window and rates that depend less on the RTT.
//! Spec: draft-briscoe-iccrg-prague-congestion-control; the constants are those of L4STeam's Linux module, version 0.7,
//! in its window mode. Differs: no mode by rate for tiny windows, packets keep their size, and no fall-back to classic ECN.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::State;
use crate::algorithm::{Algorithm, own_methods};
use crate::event::{Ack, CaState, Init};
use crate::loss_based::{NO_SSTHRESH, bytes_per_sec_or_max};
use crate::params::params;
use crate::sampler::RateSampler;
use crate::snapshot::Snapshot;
use crate::state::Cause;
use crate::units::{MICROS_PER_SEC, Rate};
use crate::wide;

/// Unit of the fractional window and of α: 2^20 stands for one packet, and for 1. Source: L4STeam `PRAGUE_ALPHA_BITS`.
const ONE: u64 = 1 << 20;
/// Smallest window, packets. Source: L4STeam `MIN_CWND_VIRT`.
const CWND_MIN: u64 = 2;
/// RTT from which growth is not scaled. Source: L4STeam, 100 ms.
const SCALED_RTT_MAX_US: u64 = 100_000;
/// Unit of the pacing gain; one more is 1.03. Source: the gain of UDP Prague, `prague_cc.cpp`.
const PACING_ONE: u64 = 32;

params! {
    /// TCP Prague's parameters.
    PragueParams {
        /// RTT that replaces a shorter RTT of the flow in growth and reductions.
        rtt_target: Micros = 25_000, 0, 100_000, "L4STeam 0.7 prague_rtt_target";
        /// Rounds of the flow's own RTT after slow start, before `rtt_target` replaces it.
        rtt_transition: Rounds = 4, 0, 10_000, "L4STeam 0.7 prague_rtt_transition";
        /// Weight of a round in α: 2^-g.
        shift_g: Count = 4, 0, 10, "draft §2.4.2, g = 1/16; L4STeam 0.7 PRAGUE_SHIFT_G";
    }
}

/// A TCP Prague flow.
#[derive(Clone, Debug)]
pub struct Prague {
    p: PragueParams,
    mss: u64,
    cwnd: u32,
    cwnd_clamp: u32,
    ssthresh: u32,
    /// Fractional window, in 2^-20 packets.
    window: u64,
    /// Share of marked packets, smoothed, in 2^-20.
    alpha: u64,
    has_seen_mark: bool,
    /// Marked packets since the last update of α, and those of this ACK.
    marked: u64,
    marked_now: u64,
    /// Packets delivered before the last update of α.
    delivered: u64,
    round_end: u64,
    /// Rounds since slow start ended.
    rounds: u32,
    alpha_at_us: u64,
    reduced_at_us: u64,
    now_us: u64,
    srtt_us: u64,
    ca_state: CaState,
    /// Window before the last loss, for undo; 0 without one.
    prior_window: u64,
    pacing_rate: u64,
    max_pacing_rate: u64,
    cause: Cause,
}

impl Prague {
    /// Creates a flow that begins now.
    pub fn new(p: &PragueParams, init: &Init) -> Self {
        let clamp = init.cwnd_clamp.max(1);
        let cwnd = init.initial_cwnd.clamp(1, clamp);
        let now_us = init.now.as_micros();
        let mut flow = Self {
            p: *p,
            mss: u64::from(init.mss.max(1)),
            cwnd,
            cwnd_clamp: clamp,
            ssthresh: NO_SSTHRESH,
            window: u64::from(cwnd).max(CWND_MIN) * ONE,
            alpha: 0,
            has_seen_mark: false,
            marked: 0,
            marked_now: 0,
            delivered: init.delivered,
            round_end: 0,
            rounds: 0,
            alpha_at_us: now_us,
            reduced_at_us: now_us,
            now_us,
            srtt_us: init.srtt.map_or(1_000, |srtt| srtt.as_micros().max(1)),
            ca_state: CaState::Open,
            prior_window: 0,
            pacing_rate: 0,
            max_pacing_rate: bytes_per_sec_or_max(init.max_pacing_rate),
            cause: Cause::Begin,
        };
        flow.update_pacing_rate(0);
        flow
    }

    /// Discards everything measured on the path; the parameters stay.
    pub(crate) fn restart(&mut self, init: &Init) {
        *self = Self::new(&self.p, init);
    }

    /// True if growth and reductions follow the target RTT instead of the flow's own.
    const fn is_rtt_independent(&self) -> bool {
        let target = self.p.rtt_target as u64;
        target > 0 && self.rounds >= self.p.rtt_transition && self.srtt_us < target && self.srtt_us <= SCALED_RTT_MAX_US
    }

    /// Handles one ACK.
    pub fn on_ack(&mut self, ack: &Ack) {
        self.now_us = ack.now.as_micros();
        if let Some(srtt) = ack.srtt {
            self.srtt_us = srtt.as_micros().max(1);
        }
        let marked = core::mem::take(&mut self.marked_now);
        if marked > 0 && !self.has_seen_mark {
            // α is not known yet: the first mark halves the window.
            self.has_seen_mark = true;
            self.set_window((self.window + ONE) / 2);
        }
        let acked = ack.rs.acked_sacked.saturating_sub(marked);
        let is_lossy = matches!(self.ca_state, CaState::Recovery | CaState::Loss);
        if acked > 0 && !is_lossy && ack.cwnd_limited {
            self.grow(acked);
        }
        self.follow_window();
        self.end_round(ack);
        self.update_pacing_rate(ack.packets_out);
        debug_assert!(self.cwnd >= 1 && self.window >= CWND_MIN * ONE);
    }

    /// Grows by slow start, or by one packet per round trip. Below the target RTT growth per second is that of the target RTT.
    fn grow(&mut self, acked: u64) {
        if self.in_slow_start() {
            let grown = u64::from(self.cwnd).saturating_add(acked).min(u64::from(self.ssthresh));
            self.set_window(grown * ONE);
            self.cwnd = u32::try_from(grown).unwrap_or(u32::MAX).min(self.cwnd_clamp);
            return;
        }
        let mut step = acked.min(u64::from(u32::MAX)) * ONE;
        if self.is_rtt_independent() {
            let target = u64::from(self.p.rtt_target);
            step = wide::mul_div(step, self.srtt_us * self.srtt_us, target * target);
        }
        let packets = (self.window + ONE / 2) / ONE;
        self.set_window(self.window.saturating_add((step / packets.max(1)).max(acked)));
    }

    /// Moves the window that is used by at most one packet towards the fractional one, rounded up.
    fn follow_window(&mut self) {
        let target = u32::try_from(self.window.div_ceil(ONE)).unwrap_or(u32::MAX).min(self.cwnd_clamp);
        if target > self.cwnd {
            self.cwnd += 1;
        } else if target < self.cwnd {
            self.cwnd -= 1;
            self.ssthresh = self.cwnd;
        }
    }

    /// Updates α once a round, or once per target RTT.
    fn end_round(&mut self, ack: &Ack) {
        if ack.una < self.round_end {
            return;
        }
        self.round_end = ack.next;
        if !self.in_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
        if self.is_rtt_independent() && self.now_us.saturating_sub(self.alpha_at_us) < u64::from(self.p.rtt_target) {
            return;
        }
        let delivered = ack.delivered.saturating_sub(self.delivered).max(1);
        if self.has_seen_mark {
            let share = self.marked.min(delivered) * ONE / delivered;
            self.alpha = self.alpha - (self.alpha >> self.p.shift_g) + (share >> self.p.shift_g);
        }
        (self.marked, self.delivered, self.alpha_at_us) = (0, ack.delivered, self.now_us);
    }

    fn set_window(&mut self, window: u64) {
        self.window = window.clamp(CWND_MIN * ONE, u64::from(self.cwnd_clamp).max(CWND_MIN) * ONE);
    }

    /// Handles a change of the host's recovery state to `new`.
    pub fn on_ca_state(&mut self, new: CaState) {
        let old = core::mem::replace(&mut self.ca_state, new);
        match new {
            CaState::Cwr if old < CaState::Cwr => self.reduce_by_marks(),
            CaState::Recovery if old != CaState::Recovery => self.reduce_by_loss(),
            CaState::Open | CaState::Disorder if old >= CaState::Cwr => self.cause = Cause::RecoveryOver,
            _ => {}
        }
    }

    fn reduce_by_marks(&mut self) {
        self.cause = Cause::RecoveryBegan;
        if self.is_rtt_independent() && self.now_us.saturating_sub(self.reduced_at_us) < u64::from(self.p.rtt_target) {
            return;
        }
        self.reduced_at_us = self.now_us;
        self.set_window(self.window - wide::mul_div(self.window, self.alpha, 2 * ONE));
    }

    fn reduce_by_loss(&mut self) {
        self.cause = Cause::RecoveryBegan;
        self.prior_window = self.window;
        self.set_window(self.window / 2);
        self.ssthresh = u32::try_from(self.window / ONE).unwrap_or(u32::MAX);
    }

    /// Handles a retransmission time-out.
    pub fn on_rto(&mut self, ack: &Ack, first: bool) {
        if first {
            self.reduce_by_loss();
        }
        self.cause = Cause::Timeout;
        self.ca_state = CaState::Loss;
        let in_flight = u32::try_from(ack.in_flight).unwrap_or(u32::MAX);
        self.cwnd = in_flight.saturating_add(1).min(self.cwnd_clamp);
        self.set_window(u64::from(self.cwnd) * ONE);
    }

    /// Handles an undo: the losses of this episode were spurious.
    pub fn on_undo(&mut self, _ack: &Ack) {
        if self.prior_window > 0 {
            self.cause = Cause::Undo;
            self.set_window(self.window.max(self.prior_window));
            self.prior_window = 0;
        }
    }

    /// Sets the payload bytes of a full packet.
    pub fn on_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
    }

    /// Sets an upper bound on the pacing rate.
    pub fn set_max_pacing_rate(&mut self, rate: Option<Rate>) {
        self.max_pacing_rate = bytes_per_sec_or_max(rate);
        self.pacing_rate = self.pacing_rate.min(self.max_pacing_rate);
    }

    /// Twice the window per RTT while far below the threshold, and a little more than once afterwards, so that the window stays the
    /// limit. Differs: L4STeam multiplies whole packets by the MTU, headers included.
    fn update_pacing_rate(&mut self, packets_out: u32) {
        let packets = u64::from(self.cwnd.max(packets_out));
        let factor = if self.cwnd < self.ssthresh / 2 { 2 * PACING_ONE } else { PACING_ONE + 1 };
        let rate = wide::mul_div(self.mss * packets, factor * MICROS_PER_SEC, self.srtt_us * PACING_ONE);
        self.pacing_rate = rate.max(1).min(self.max_pacing_rate);
    }

    /// True while the window grows by the data acknowledged.
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Congestion window, packets.
    pub const fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// Window at which slow start ends, packets; `0x7fff_ffff` as long as there is none.
    pub const fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    /// State of the flow, for traces.
    pub fn state(&self) -> State {
        match self.ca_state {
            CaState::Loss => State::Loss,
            CaState::Recovery => State::Recovery,
            _ if self.in_slow_start() => State::SlowStart,
            _ => State::CongestionAvoidance,
        }
    }

    /// Returns a snapshot of the flow's model.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            cause: self.cause,
            ssthresh: if self.ssthresh == NO_SSTHRESH { u32::MAX } else { self.ssthresh },
            full_bw_reached: !self.in_slow_start(),
            ..Snapshot::of(self.state())
        }
    }
}

impl Algorithm for Prague {
    #[inline]
    fn on_ack(&mut self, ack: &Ack, _sampler: &mut RateSampler) {
        Self::on_ack(self, ack);
    }

    fn on_ca_state(&mut self, _old: CaState, new: CaState) {
        Self::on_ca_state(self, new);
    }

    fn on_congestion_mark(&mut self, packets: u64) {
        self.marked = self.marked.saturating_add(packets);
        self.marked_now = self.marked_now.saturating_add(packets);
    }

    #[inline]
    fn pacing_rate(&self) -> Option<Rate> {
        Some(Rate::bits_per_sec(self.pacing_rate << 3)) // never above an eighth of what 64 bits hold
    }

    fn supports_ecn(&self) -> bool {
        true
    }

    own_methods! {
        mut {
            restart(init: &Init);
            on_rto(ack: &Ack, first: bool);
            on_undo(ack: &Ack);
            on_mss(mss: u32);
            set_max_pacing_rate(max: Option<Rate>);
        }
        read {
            #[inline]
            cwnd() -> u32;
            in_slow_start() -> bool;
            state() -> State;
            snapshot() -> Snapshot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Span, Time};

    fn flow(rtt_ms: u64) -> Prague {
        let init = Init { srtt: Some(Span::millis(rtt_ms)), ..Init::new(Time::ZERO) };
        Prague::new(&PragueParams::default(), &init)
    }

    /// Runs a round of `packets` ACKs; the last `marked` ACKs report a mark.
    fn round(flow: &mut Prague, nth: u64, rtt_ms: u64, packets: u64, marked: u64) {
        for packet in 0..packets {
            let is_marked = packet >= packets - marked;
            if is_marked {
                flow.on_congestion_mark(1);
                if flow.ca_state < CaState::Cwr {
                    flow.on_ca_state(CaState::Cwr);
                }
            }
            let acked = nth * packets + packet + 1;
            let mut ack =
                Ack { una: acked, next: acked + packets, delivered: acked, cwnd_limited: true, ..Ack::default() };
            ack.now = Time::micros(1_000 * rtt_ms * nth + packet);
            ack.rs.acked_sacked = 1;
            ack.srtt = Some(Span::millis(rtt_ms));
            flow.on_ack(&ack);
        }
        flow.on_ca_state(CaState::Open);
    }

    #[test]
    fn the_first_mark_halves_the_window_and_ends_slow_start() {
        let mut flow = flow(50);
        (0..3).for_each(|nth| round(&mut flow, nth, 50, 10, 0));
        assert_eq!((flow.cwnd, flow.in_slow_start()), (40, true));
        round(&mut flow, 3, 50, 20, 1);
        assert!(flow.window < 31 * ONE && !flow.in_slow_start(), "{} {}", flow.window / ONE, flow.cwnd);
    }

    #[test]
    fn above_the_target_rtt_a_round_without_marks_adds_a_packet() {
        let mut flow = flow(50);
        (flow.ssthresh, flow.has_seen_mark) = (10, true);
        let before = flow.window;
        (0..10).for_each(|nth| round(&mut flow, nth, 50, 10, 0));
        assert!((7..=10).contains(&((flow.window - before) / ONE)), "{}", (flow.window - before) / ONE);
    }

    #[test]
    fn at_a_fifth_of_the_target_rtt_growth_a_round_is_a_twenty_fifth() {
        let mut flow = flow(5);
        (flow.ssthresh, flow.has_seen_mark, flow.rounds) = (10, true, 100);
        let before = flow.window;
        (0..25).for_each(|nth| round(&mut flow, nth, 5, 10, 0));
        let grown = flow.window - before;
        assert!((ONE * 9 / 10..=ONE * 11 / 10).contains(&grown), "{grown}");
    }

    #[test]
    fn a_loss_halves_the_window_and_an_undo_restores_it() {
        let mut flow = flow(50);
        flow.set_window(100 * ONE);
        flow.on_ca_state(CaState::Recovery);
        assert_eq!(flow.window, 50 * ONE);
        flow.on_undo(&Ack::default());
        assert_eq!(flow.window, 100 * ONE);
    }
}
