//! TCP Prague: a scalable congestion control for L4S, with a fractional window and rates that depend less on the RTT.
//! Spec: draft-briscoe-iccrg-prague-congestion-control. The rules, their order and their roundings are those of L4STeam's Linux
//! module, version 0.7, whose function is named beside each. Differs: packets keep their size at low rates; the module's shrink.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::State;
use crate::algorithm::{Algorithm, own_methods};
use crate::event::{Ack, CaState, Init};
use crate::loss_based::{NO_SSTHRESH, bytes_per_sec_or_max};
use crate::params::params;
use crate::sampler::RateSampler;
use crate::snapshot::Snapshot;
use crate::state::Cause;
use crate::units::{MICROS_PER_SEC, Rate, Span};
use crate::wide;

/// Binary digits of the fractional window: 2^20 is one packet. Source: module, `CWND_UNIT`.
const WINDOW_BITS: u32 = 20;
/// One packet of the fractional window.
const ONE: u64 = 1 << WINDOW_BITS;
/// Binary digits of α: 2^24 is 1. Source: module, `PRAGUE_ALPHA_BITS`.
const ALPHA_BITS: u32 = 24;
/// Smallest window, packets. Source: module, `MIN_CWND_RTT`.
const CWND_MIN: u64 = 2;
/// RTT above which growth is not scaled, in eighths of a microsecond. Source: module, `MAX_SCALED_RTT`, 100 ms.
const SCALED_RTT_MAX: u64 = 8 * 100_000;
/// Bytes of a packet for which growth and the change of mode are defined. Source: module, `MTU_SYS`.
const FULL_PACKET: u64 = 1_500;
/// Bytes of headers per packet: IPv4, TCP and its timestamps. Source: Linux `tcp_mss_to_mtu`.
const HEADERS: u64 = 52;
/// Smallest rate, bytes per second: 100 kbit/s. Source: module, `MINIMUM_RATE`.
const RATE_MIN: u64 = 12_500;
/// Largest rate, so that sums and doubling fit 64 bits. Source: ours.
const RATE_MAX: u64 = 1 << 60;
/// By rate, the first half of a round is faster and the second slower by 4/128. Source: module, `RATE_OFFSET`, `OFFSET_UNIT`.
const SWING: (u64, u32) = (4, 7);
/// Binary digits of the average RTT from which a rate becomes a window, and its weight. Source: module, `HSRTT_SHIFT`.
const MEAN_RTT_BITS: u32 = 7;
/// Binary digits of a second in eighths of a microsecond, rounded up to a power of two. Source: module, `RTT2SEC_SHIFT`.
const SECOND_BITS: u32 = 23;
/// A burst lasts at most 2^-12 s at the pacing rate. Source: module, `prague_burst_shift`.
const BURST_BITS: u32 = 12;
/// Most packets of one ACK that are counted, so that products fit 64 bits.
const ACKED_MAX: u64 = 1 << 20;

params! {
    /// TCP Prague's parameters.
    PragueParams {
        /// RTT that replaces a shorter RTT of the flow in growth and reductions.
        rtt_target: Micros = 25_000, 0, 100_000, "L4STeam 0.7 prague_rtt_target";
        /// Rounds after slow start, before `rtt_target` replaces the flow's own RTT.
        rtt_transition: Rounds = 4, 0, 10_000, "L4STeam 0.7 prague_rtt_transition";
        /// Weight of a round in α: 2^-g.
        shift_g: Count = 4, 0, 10, "draft §2.4.2, g = 1/16; L4STeam 0.7 PRAGUE_SHIFT_G";
        /// Largest window at which the rate is controlled instead of the window, in packets of 1500 bytes; 0: never.
        rate_mode_cwnd: Packets = 4, 0, 1_000, "L4STeam 0.7 prague_cwnd_transit, prague_cwnd_mode 2";
    }
}

/// A TCP Prague flow.
#[derive(Clone, Debug)]
pub struct Prague {
    p: PragueParams,
    /// Bytes of a full packet with its headers.
    packet_bytes: u64,
    cwnd: u32,
    cwnd_clamp: u32,
    ssthresh: u32,
    /// Fractional window, in 2^-20 packets.
    window: u64,
    /// Share of marked packets, smoothed, in 2^-24, times 2^g, so that the average keeps its remainder.
    alpha: u64,
    has_seen_mark: bool,
    /// True from a loss until the recovery state is `Open` again.
    is_in_loss: bool,
    /// True if the flow is controlled by its rate.
    is_by_rate: bool,
    /// The state just entered, `Cwr` or `Recovery`, until the ACK that caused it is handled: its RTT belongs to the reduction.
    entered: CaState,
    /// Marked packets since the last update of α, and those of this ACK.
    marked: u64,
    marked_now: u64,
    /// Packets delivered before the last update of α.
    delivered: u64,
    round_end: u64,
    /// Rounds since slow start ended.
    rounds: u32,
    /// Growth for one packet without mark, in 2^-20 packets per window.
    growth: u64,
    alpha_at_us: u64,
    reduced_at_us: u64,
    now_us: u64,
    /// Smoothed RTT and its slow average, in eighths of a microsecond; the average times 2^7.
    srtt: u64,
    mean_rtt: u64,
    ca_state: CaState,
    /// Window, threshold and rate before the last loss, for an undo; 0 without one.
    prior_cwnd: u32,
    prior_ssthresh: u32,
    prior_rate: u64,
    /// The flow's rate before pacing, bytes per second.
    rate: u64,
    pacing_rate: u64,
    max_pacing_rate: u64,
    cause: Cause,
}

/// A smoothed RTT in eighths of a microsecond and at most 32 bits, as Linux keeps it.
fn eighths(srtt: Span) -> u64 {
    (srtt.as_nanos() / 125).clamp(1, u64::from(u32::MAX))
}

impl Prague {
    /// Creates a flow that begins now.
    // spec: L4STeam prague_init
    pub fn new(p: &PragueParams, init: &Init) -> Self {
        let clamp = init.cwnd_clamp.max(1);
        let cwnd = init.initial_cwnd.clamp(1, clamp);
        let now_us = init.now.as_micros();
        let srtt = init.srtt.map_or(8_000, eighths);
        let packet_bytes = u64::from(init.mss.max(1)) + HEADERS;
        let mut flow = Self {
            p: *p,
            packet_bytes,
            cwnd,
            cwnd_clamp: clamp,
            ssthresh: NO_SSTHRESH,
            window: u64::from(cwnd) * ONE,
            alpha: 0,
            has_seen_mark: false,
            is_in_loss: false,
            is_by_rate: false,
            entered: CaState::Open,
            marked: 0,
            marked_now: 0,
            delivered: init.delivered,
            round_end: 0,
            rounds: 0,
            growth: ONE,
            alpha_at_us: now_us,
            reduced_at_us: 0,
            now_us,
            srtt,
            mean_rtt: if init.srtt.is_some() { srtt << MEAN_RTT_BITS } else { 0 },
            ca_state: CaState::Open,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            prior_rate: 0,
            rate: RATE_MIN,
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

    /// True if growth and reductions follow the target RTT where the flow's own is shorter.
    // spec: L4STeam prague_is_rtt_indep
    const fn is_rtt_independent(&self) -> bool {
        !self.in_slow_start() && self.rounds >= self.p.rtt_transition
    }

    /// True if the rate, not the window, is controlled at present.
    const fn is_rate_controlled(&self) -> bool {
        self.is_by_rate && self.is_rtt_independent()
    }

    /// The longer of the flow's RTT and the target, in eighths of a microsecond.
    // spec: L4STeam prague_virtual_rtt
    fn virtual_rtt(&self) -> u64 {
        self.srtt.max(8 * u64::from(self.p.rtt_target)).max(1)
    }

    /// True if a target RTT has passed since a time in microseconds.
    fn has_target_rtt_passed(&self, since_us: u64) -> bool {
        self.now_us.saturating_sub(since_us) >= u64::from(self.p.rtt_target)
    }

    /// Handles one ACK.
    // spec: L4STeam prague_cong_control
    pub fn on_ack(&mut self, ack: &Ack) {
        self.now_us = ack.now.as_micros();
        if let Some(srtt) = ack.srtt {
            self.srtt = eighths(srtt);
            if self.mean_rtt == 0 {
                self.mean_rtt = self.srtt << MEAN_RTT_BITS; // the host had no RTT before
            }
        }
        self.reduce();
        self.update_window(ack);
        let is_round_over = ack.una >= self.round_end;
        if is_round_over && (!self.is_rtt_independent() || self.has_target_rtt_passed(self.alpha_at_us)) {
            self.end_round(ack);
        }
        self.update_pacing_rate(ack.in_flight);
        self.choose_mode();
        debug_assert!(self.cwnd >= 1 && self.cwnd <= self.cwnd_clamp, "{self:?}");
        debug_assert!(self.alpha >> self.p.shift_g <= 1 << ALPHA_BITS, "{self:?}");
    }

    /// Grows by the packets of this ACK that were not marked, then moves the window that is used by at most one packet.
    // spec: L4STeam prague_update_cwnd
    fn update_window(&mut self, ack: &Ack) {
        let marked = core::mem::take(&mut self.marked_now);
        if marked > 0 && !self.has_seen_mark {
            // α is not known yet: the first mark halves the window.
            self.has_seen_mark = true;
            self.window = self.window.div_ceil(2);
        }
        let mut acked = ack.rs.acked_sacked.saturating_sub(marked).min(ACKED_MAX);
        if acked > 0 && !self.is_in_loss && ack.cwnd_limited {
            if self.in_slow_start() {
                acked = self.slow_start(acked);
                if acked == 0 {
                    return self.update_growth();
                }
            }
            if self.is_rate_controlled() { self.grow_rate(acked) } else { self.grow_window(acked) }
        }
        self.follow_window();
    }

    /// Grows by the packets acknowledged up to the threshold; returns those that are left over.
    // spec: Linux tcp_slow_start
    fn slow_start(&mut self, acked: u64) -> u64 {
        let grown = u64::from(self.cwnd).saturating_add(acked).min(u64::from(self.ssthresh));
        let rest = acked - (grown - u64::from(self.cwnd));
        self.cwnd = u32::try_from(grown).unwrap_or(u32::MAX).min(self.cwnd_clamp);
        self.window = u64::from(self.cwnd) * ONE;
        rest
    }

    /// Grows by one packet per round trip. Below the target RTT the growth per second is that of the target RTT.
    fn grow_window(&mut self, acked: u64) {
        let divisor = self.window.max(1);
        let step = (acked * self.growth * ONE + divisor / 2) / divisor;
        let step = wide::mul_div(step, FULL_PACKET, self.packet_bytes);
        self.set_window(self.window.saturating_add(step.max(acked)));
        self.rate = (self.rate + acked).max(self.window_to_rate()).min(RATE_MAX);
    }

    /// Grows the rate by one full packet per round trip, and the window with it.
    fn grow_rate(&mut self, acked: u64) {
        let virtual_rtt = self.virtual_rtt();
        let step = ((acked * FULL_PACKET) << SECOND_BITS) / virtual_rtt.max(1);
        let packets = wide::mul_div_ceil(self.rate, virtual_rtt, self.packet_bytes << SECOND_BITS).max(1);
        self.rate = (self.rate + (step + packets / 2) / packets).min(RATE_MAX);
        self.set_window((self.window + acked).max(self.rate_to_window()));
    }

    /// Moves the window that is used by at most one packet towards the fractional one, rounded up.
    fn follow_window(&mut self) {
        let target = self.window.div_ceil(ONE).max(CWND_MIN).min(u64::from(self.cwnd_clamp));
        match target.cmp(&u64::from(self.cwnd)) {
            core::cmp::Ordering::Less => {
                self.cwnd -= 1;
                self.ssthresh = self.cwnd;
            }
            core::cmp::Ordering::Equal => return,
            core::cmp::Ordering::Greater => self.cwnd += 1,
        }
        self.update_growth();
    }

    /// Updates the growth per packet, which is that of the target RTT where the flow's own is shorter.
    // spec: L4STeam prague_ai_ack_increase, prague_rate_scaled_ai_ack_increase
    fn update_growth(&mut self) {
        let target = 8 * u64::from(self.p.rtt_target);
        let square = (target * target).max(1);
        let is_scaled = self.rounds >= self.p.rtt_transition && self.srtt <= SCALED_RTT_MAX && self.srtt < target;
        self.growth = if is_scaled { (self.srtt * self.srtt * ONE + square / 2) / square } else { ONE };
    }

    /// Updates α and the average RTT; the next round ends when the data sent by now is acknowledged.
    // spec: L4STeam prague_update_alpha, prague_new_round
    fn end_round(&mut self, ack: &Ack) {
        if self.has_seen_mark {
            let delivered = ack.delivered.saturating_sub(self.delivered);
            let share = (self.marked.min(u64::from(u32::MAX)) << ALPHA_BITS) / delivered.max(1);
            let alpha = self.alpha - (self.alpha >> self.p.shift_g) + share;
            self.alpha = alpha.min(1 << (ALPHA_BITS + self.p.shift_g));
            self.alpha_at_us = self.now_us;
        }
        self.mean_rtt = self.mean_rtt - (self.mean_rtt >> MEAN_RTT_BITS) + self.srtt;
        (self.round_end, self.marked, self.delivered) = (ack.next, 0, ack.delivered);
        if !self.in_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
        self.update_growth();
    }

    /// Controls the rate while the window is small, for which whole packets are too coarse.
    fn choose_mode(&mut self) {
        let bytes = wide::saturating_mul(u64::from(self.cwnd), self.packet_bytes);
        self.is_by_rate = self.has_seen_mark && bytes <= u64::from(self.p.rate_mode_cwnd) * FULL_PACKET;
        if self.is_by_rate {
            self.set_window(self.rate_to_window());
        } else {
            self.rate = self.window_to_rate();
        }
    }

    fn set_window(&mut self, window: u64) {
        self.window = window.min(u64::from(u32::MAX) * ONE);
    }

    /// The fractional window that keeps the rate busy for the average RTT.
    // spec: L4STeam prague_pacing_rate_to_frac_cwnd
    fn rate_to_window(&self) -> u64 {
        let rtt = (self.mean_rtt >> MEAN_RTT_BITS).max(1);
        wide::mul_shr(self.rate, rtt, SECOND_BITS - WINDOW_BITS).div_ceil(self.packet_bytes.max(1))
    }

    /// One full packet per RTT, bytes per second.
    fn packet_rate(&self) -> u64 {
        8 * MICROS_PER_SEC * self.packet_bytes / self.srtt.max(1)
    }

    /// The rate of the fractional window, bytes per second.
    // spec: L4STeam prague_frac_cwnd_to_pacing_rate
    fn window_to_rate(&self) -> u64 {
        wide::mul_shr(self.packet_rate(), self.window, WINDOW_BITS).clamp(RATE_MIN, RATE_MAX)
    }

    /// Handles a change of the host's recovery state to `new`.
    // spec: L4STeam prague_state
    pub fn on_ca_state(&mut self, new: CaState) {
        self.reduce();
        let old = core::mem::replace(&mut self.ca_state, new);
        if new == old {
            return;
        }
        match new {
            CaState::Cwr => self.entered = new,
            CaState::Recovery => {
                self.entered = new;
                self.prior_ssthresh = self.current_ssthresh(old);
            }
            CaState::Open => self.is_in_loss = false,
            CaState::Disorder | CaState::Loss => {}
        }
        if matches!(new, CaState::Open | CaState::Disorder) && old >= CaState::Cwr {
            self.cause = Cause::RecoveryOver;
        }
    }

    /// Makes the reduction for the state just entered.
    fn reduce(&mut self) {
        match core::mem::take(&mut self.entered) {
            CaState::Cwr => self.reduce_by_marks(),
            CaState::Recovery => self.reduce_by_loss(),
            _ => {}
        }
    }

    /// Reduces by half of the share of marked packets, at most once per target RTT.
    // spec: L4STeam prague_enter_cwr
    fn reduce_by_marks(&mut self) {
        self.cause = Cause::RecoveryBegan;
        if self.is_rtt_independent() && !self.has_target_rtt_passed(self.reduced_at_us) {
            return;
        }
        self.reduced_at_us = self.now_us;
        let alpha = self.alpha >> self.p.shift_g;
        if self.is_rate_controlled() {
            let cut = wide::mul_shr(self.rate, alpha, ALPHA_BITS + 1);
            self.rate = (self.rate - cut).max(RATE_MIN);
            self.set_window(self.rate_to_window());
        } else {
            // Half of it, rounded to the nearest.
            self.window -= wide::mul_shr(self.window, alpha, ALPHA_BITS).div_ceil(2);
            self.rate = self.window_to_rate();
        }
    }

    /// Halves the window, or the rate.
    // spec: L4STeam prague_enter_loss
    fn reduce_by_loss(&mut self) {
        self.cause = Cause::RecoveryBegan;
        (self.prior_cwnd, self.prior_rate) = (self.cwnd, self.rate);
        if self.is_rate_controlled() {
            self.rate -= self.rate / 2;
            self.set_window(self.rate_to_window());
        } else {
            self.window -= self.window / 2;
            self.rate = self.window_to_rate();
        }
        self.is_in_loss = true;
    }

    /// The threshold that an undo would restore.
    // spec: Linux tcp_current_ssthresh
    fn current_ssthresh(&self, state: CaState) -> u32 {
        let is_reducing = matches!(state, CaState::Cwr | CaState::Recovery);
        if is_reducing { self.ssthresh } else { self.ssthresh.max((self.cwnd >> 1) + (self.cwnd >> 2)) }
    }

    /// Handles a retransmission time-out: one packet more than those in flight, from where the window grows by a packet per ACK.
    // spec: Linux tcp_enter_loss
    pub fn on_rto(&mut self, ack: &Ack, first: bool) {
        self.reduce();
        if first {
            self.prior_ssthresh = self.current_ssthresh(self.ca_state);
            self.reduce_by_loss();
        }
        self.cause = Cause::Timeout;
        self.ca_state = CaState::Loss;
        let in_flight = u32::try_from(ack.in_flight).unwrap_or(u32::MAX);
        self.cwnd = in_flight.saturating_add(1).min(self.cwnd_clamp);
    }

    /// Handles an undo: the losses of this episode were spurious.
    // spec: L4STeam prague_cwnd_undo, Linux tcp_undo_cwnd_reduction
    pub fn on_undo(&mut self, _ack: &Ack) {
        self.reduce();
        if self.prior_cwnd == 0 {
            return;
        }
        self.cause = Cause::Undo;
        self.is_in_loss = false;
        self.rate = self.rate.max(self.prior_rate);
        self.set_window(self.rate_to_window());
        self.cwnd = self.cwnd.max(self.prior_cwnd).min(self.cwnd_clamp);
        self.ssthresh = self.ssthresh.max(self.prior_ssthresh);
        (self.prior_cwnd, self.prior_ssthresh, self.prior_rate) = (0, 0, 0);
    }

    /// Sets the payload bytes of a full packet.
    pub fn on_mss(&mut self, mss: u32) {
        self.packet_bytes = u64::from(mss.max(1)) + HEADERS;
    }

    /// Sets an upper bound on the pacing rate.
    pub fn set_max_pacing_rate(&mut self, rate: Option<Rate>) {
        self.max_pacing_rate = bytes_per_sec_or_max(rate);
        self.pacing_rate = self.pacing_rate.min(self.max_pacing_rate);
    }

    /// By window, the whole packets of the window or those in flight per RTT, headers included. By rate, a little more in the first
    /// half of a round and less in the second, so that a step marks some packets of every round. Twice that in early slow start.
    // spec: L4STeam prague_update_pacing_rate
    fn update_pacing_rate(&mut self, in_flight: u64) {
        let mut rate = self.rate;
        if self.is_rate_controlled() {
            let swing = wide::mul_shr(rate, SWING.0, SWING.1);
            let elapsed_us = self.now_us.saturating_sub(self.alpha_at_us);
            rate = if elapsed_us >= self.virtual_rtt() / 16 { rate - swing } else { rate + swing };
        } else {
            let packets = (self.window >> WINDOW_BITS).max(in_flight);
            rate = wide::saturating_mul(self.packet_rate(), packets).clamp(RATE_MIN, RATE_MAX);
            self.rate = rate;
        }
        if self.cwnd < self.ssthresh / 2 {
            rate *= 2;
        }
        self.pacing_rate = rate.min(self.max_pacing_rate);
    }

    /// Bytes of a burst: a quarter of a millisecond at the pacing rate, at least one packet.
    // spec: L4STeam prague_update_pacing_rate, max_tso_burst
    fn burst_bytes(&self) -> u64 {
        let packets = ((self.pacing_rate / self.packet_bytes.max(1)) >> BURST_BITS).clamp(1, u64::from(u32::MAX));
        packets * (self.packet_bytes - HEADERS)
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
            round_count: u64::from(self.rounds),
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

    #[inline]
    fn own_quantum(&self) -> Option<u64> {
        Some(self.burst_bytes())
    }

    fn min_tso_segs(&self) -> u32 {
        1
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
mod tests;
