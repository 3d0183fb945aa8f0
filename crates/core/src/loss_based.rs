//! Rules shared by Reno, CUBIC and DCTCP: slow start, growth by counting, proportional rate reduction, time-out, undo, idleness.
//! Spec: RFC 5681, RFC 9937 (PRR); Linux 6.12 `tcp_input.c`, `tcp_cong.c`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::State;
use crate::cubic::{Cubic, CubicParams};
use crate::dctcp::{Dctcp, DctcpParams};
use crate::event::{Ack, CaState, Init, TxStart};
use crate::params::params;
use crate::snapshot::Snapshot;
use crate::state::Cause;
use crate::units::{MICROS_PER_SEC, Rate};
use crate::wide;

/// No threshold yet. Source: Linux `TCP_INFINITE_SSTHRESH`.
pub(crate) const NO_SSTHRESH: u32 = 0x7fff_ffff;
/// Pacing rate in slow start, per cent of cwnd/srtt. Source: Linux `tcp_pacing_ss_ratio`.
const PACING_SLOW_START: u64 = 200;
/// Pacing rate in congestion avoidance, per cent of cwnd/srtt. Source: Linux `tcp_pacing_ca_ratio`.
const PACING_AVOIDANCE: u64 = 120;

params! {
    /// Reno's parameters.
    RenoParams {
        /// Share of the window kept at a loss.
        beta: Share = 128, 16, 255, "RFC 5681; Linux 6.12 tcp_reno_ssthresh";
        /// Halve the window of an idle flow once per time-out, as in RFC 2861.
        slow_start_after_idle: Switch = 1, 0, 1, "Linux 6.12 tcp_slow_start_after_idle";
    }
}

/// Growth in congestion avoidance, and the share of the window left after a loss.
#[derive(Clone, Debug)]
enum Growth {
    Reno { beta: u32 },
    Cubic(Cubic),
    Dctcp(Dctcp),
}

/// A window reduction under way (Linux `prr_*`).
#[derive(Clone, Copy, Debug)]
struct Reduction {
    prior_cwnd: u32,
    delivered: u32,
    out: u32,
}

/// A Reno, CUBIC or DCTCP flow.
#[derive(Clone, Debug)]
pub struct LossBased {
    growth: Growth,
    mss: u64,
    cwnd: u32,
    cwnd_count: u32,
    cwnd_clamp: u32,
    initial_cwnd: u32,
    ssthresh: u32,
    /// Window and threshold before the present episode, for undo. Threshold 0: there is nothing to undo.
    prior_cwnd: u32,
    prior_ssthresh: u32,
    reduction: Option<Reduction>,
    ca_state: CaState,
    slow_start_after_idle: bool,
    /// Bytes per second; the host uses it for burst sizes even where it does not pace.
    pacing_rate: u64,
    max_pacing_rate: u64,
    cause: Cause,
}

impl LossBased {
    /// Creates a Reno flow that begins now.
    pub fn reno(params: &RenoParams, init: &Init) -> Self {
        Self::new(Growth::Reno { beta: params.beta }, params.slow_start_after_idle != 0, init)
    }

    /// Creates a CUBIC flow that begins now.
    pub fn cubic(params: &CubicParams, init: &Init) -> Self {
        Self::new(Growth::Cubic(Cubic::new(params, init.now)), params.slow_start_after_idle != 0, init)
    }

    /// Creates a DCTCP flow that begins now.
    pub fn dctcp(params: &DctcpParams, init: &Init) -> Self {
        Self::new(Growth::Dctcp(Dctcp::new(params, init.delivered)), params.slow_start_after_idle != 0, init)
    }

    fn new(growth: Growth, slow_start_after_idle: bool, init: &Init) -> Self {
        let mut flow = Self {
            growth,
            mss: u64::from(init.mss.max(1)),
            cwnd: init.initial_cwnd.clamp(1, init.cwnd_clamp.max(1)),
            cwnd_count: 0,
            cwnd_clamp: init.cwnd_clamp.max(1),
            initial_cwnd: init.initial_cwnd.max(1),
            ssthresh: NO_SSTHRESH,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            reduction: None,
            ca_state: CaState::Open,
            slow_start_after_idle,
            pacing_rate: 0,
            max_pacing_rate: bytes_per_sec_or_max(init.max_pacing_rate),
            cause: Cause::Begin,
        };
        flow.update_pacing_rate(init.srtt.map_or(1_000, |srtt| srtt.as_micros()), 0);
        flow
    }

    /// Discards everything measured on the path; the parameters stay.
    pub(crate) fn restart(&mut self, init: &Init) {
        let growth = match &self.growth {
            Growth::Reno { beta } => Growth::Reno { beta: *beta },
            Growth::Cubic(cubic) => Growth::Cubic(cubic.renewed(init.now)),
            Growth::Dctcp(dctcp) => Growth::Dctcp(dctcp.renewed(init.delivered)),
        };
        *self = Self::new(growth, self.slow_start_after_idle, init);
    }

    /// Sets an upper bound on the pacing rate (Linux `sk_max_pacing_rate`).
    pub fn set_max_pacing_rate(&mut self, rate: Option<Rate>) {
        self.max_pacing_rate = bytes_per_sec_or_max(rate);
        self.pacing_rate = self.pacing_rate.min(self.max_pacing_rate);
    }

    /// Handles one ACK.
    // spec: Linux tcp_cong_control
    pub fn on_ack(&mut self, ack: &Ack) {
        self.watch_rtt(ack);
        if self.reduction.is_some() {
            self.reduce(ack);
        } else if ack.may_raise_cwnd && ack.cwnd_limited {
            self.grow(ack);
        }
        if let Some(srtt) = ack.srtt {
            self.update_pacing_rate(srtt.as_micros(), ack.packets_out);
        }
        debug_assert!(self.cwnd >= 1);
    }

    /// Takes the ACK's RTT, which may end slow start, and its marks.
    fn watch_rtt(&mut self, ack: &Ack) {
        let slow_start = self.in_slow_start();
        match &mut self.growth {
            Growth::Cubic(cubic) => {
                let exit = cubic.on_rtt(ack, self.cwnd, slow_start, self.pacing_rate);
                if exit {
                    self.cause = Cause::Queue;
                    self.ssthresh = self.cwnd;
                }
            }
            Growth::Dctcp(dctcp) => dctcp.end_round(ack.una, ack.next, ack.delivered),
            Growth::Reno { .. } => {}
        }
    }

    /// Counts marked packets of the ACK in progress.
    pub(crate) const fn on_congestion_mark(&mut self, packets: u64) {
        if let Growth::Dctcp(dctcp) = &mut self.growth {
            dctcp.on_marks(packets);
        }
    }

    // spec: Linux tcp_slow_start, tcp_cong_avoid_ai, cubictcp_cong_avoid
    fn grow(&mut self, ack: &Ack) {
        let mut acked = u32::try_from(ack.rs.acked_sacked).unwrap_or(u32::MAX);
        if self.in_slow_start() {
            let step = match &mut self.growth {
                Growth::Cubic(cubic) => cubic.slow_start_step(acked, ack.paced),
                Growth::Reno { .. } | Growth::Dctcp(_) => acked,
            };
            let grown = self.cwnd.saturating_add(step).min(self.ssthresh);
            acked = step - (grown - self.cwnd);
            if grown == self.ssthresh {
                self.cause = Cause::Threshold;
            }
            self.cwnd = grown.min(self.cwnd_clamp);
            if acked == 0 {
                return;
            }
        }
        let count = match &mut self.growth {
            Growth::Reno { .. } | Growth::Dctcp(_) => self.cwnd,
            Growth::Cubic(cubic) => cubic.acks_per_increase(ack, self.cwnd, acked),
        };
        self.count_up(count.max(1), acked);
    }

    /// Grows by one packet for every `every` packets acknowledged.
    // spec: Linux tcp_cong_avoid_ai
    fn count_up(&mut self, every: u32, acked: u32) {
        if self.cwnd_count >= every {
            self.cwnd_count = 0;
            self.cwnd = self.cwnd.saturating_add(1).min(self.cwnd_clamp);
        }
        self.cwnd_count = self.cwnd_count.saturating_add(acked);
        if self.cwnd_count >= every {
            let steps = self.cwnd_count / every;
            self.cwnd_count -= steps * every;
            self.cwnd = self.cwnd.saturating_add(steps).min(self.cwnd_clamp);
        }
    }

    /// Proportional rate reduction: sends in proportion to what is delivered.
    // spec: RFC 9937; Linux tcp_cwnd_reduction
    pub(crate) fn reduce(&mut self, ack: &Ack) {
        let Some(prr) = &mut self.reduction else {
            return;
        };
        let acked = u32::try_from(ack.rs.acked_sacked).unwrap_or(u32::MAX);
        if acked == 0 || prr.prior_cwnd == 0 {
            return;
        }
        prr.delivered = prr.delivered.saturating_add(acked);
        let in_flight = packets(ack.in_flight);
        let send = if in_flight > self.ssthresh {
            let share = (u64::from(self.ssthresh) * u64::from(prr.delivered)).div_ceil(u64::from(prr.prior_cwnd));
            u32::try_from(share).unwrap_or(u32::MAX).saturating_sub(prr.out)
        } else {
            let mut send = prr.delivered.saturating_sub(prr.out).max(acked);
            if ack.advanced && ack.rs.losses == 0 {
                send = send.saturating_add(1); // slow start within recovery, as long as there are no further losses
            }
            send.min(self.ssthresh - in_flight)
        };
        // Recovery starts with one immediate retransmission.
        let send = send.max(u32::from(prr.out == 0));
        self.cwnd = in_flight.saturating_add(send).max(1).min(self.cwnd_clamp);
    }

    /// Handles a change of the host's recovery state to `new`.
    // spec: Linux tcp_enter_recovery, tcp_enter_cwr, tcp_end_cwnd_reduction, dctcp_state
    pub fn on_ca_state(&mut self, new: CaState) {
        let reduces = |state| matches!(state, CaState::Cwr | CaState::Recovery);
        if reduces(new) && !reduces(self.ca_state) {
            self.begin_episode(new);
            if new == CaState::Cwr {
                self.prior_ssthresh = 0; // a mark proves congestion, whatever happened to the packets
            }
            self.cause = Cause::RecoveryBegan;
            self.reduction = Some(Reduction { prior_cwnd: self.prior_cwnd, delivered: 0, out: 0 });
        } else if new == CaState::Recovery && self.ca_state == CaState::Cwr {
            self.on_hosted_loss();
        } else if !reduces(new) && self.reduction.take().is_some() && new < CaState::Cwr {
            self.cause = Cause::RecoveryOver;
            self.cwnd = self.ssthresh.max(1).min(self.cwnd_clamp);
        }
        self.ca_state = new;
    }

    /// Saves the present state for undo, and sets the new threshold.
    fn begin_episode(&mut self, new: CaState) {
        self.prior_ssthresh = self.current_ssthresh();
        self.prior_cwnd = self.cwnd;
        self.cwnd_count = 0;
        self.ssthresh = self.threshold_after(new);
    }

    /// Returns the threshold after a loss or a mark at the present window.
    fn threshold_after(&mut self, new: CaState) -> u32 {
        match &mut self.growth {
            Growth::Reno { beta } => ((u64::from(self.cwnd) * u64::from(*beta)) >> 8) as u32,
            Growth::Cubic(cubic) => cubic.recalc_ssthresh(self.cwnd),
            Growth::Dctcp(dctcp) if new == CaState::Cwr => dctcp.after_mark(self.cwnd),
            Growth::Dctcp(_) => self.cwnd / 2,
        }
        .max(2)
    }

    // spec: Linux tcp_current_ssthresh
    fn current_ssthresh(&self) -> u32 {
        if self.reduction.is_some() {
            return self.ssthresh;
        }
        self.ssthresh.max((self.cwnd >> 1) + (self.cwnd >> 2))
    }

    /// Handles a retransmission time-out, after the host has marked the lost packets. `first` of this loss episode.
    // spec: Linux tcp_enter_loss
    pub fn on_rto(&mut self, ack: &Ack, first: bool) {
        if first {
            self.begin_episode(CaState::Loss);
        }
        self.cause = Cause::Timeout;
        self.reduction = None;
        self.ca_state = CaState::Loss;
        self.cwnd = packets(ack.in_flight).saturating_add(1).min(self.cwnd_clamp);
        self.cwnd_count = 0;
        if let Growth::Cubic(cubic) = &mut self.growth {
            cubic.on_rto(ack);
        }
    }

    /// Handles an undo: the losses of this episode were spurious.
    // spec: Linux tcp_undo_cwnd_reduction, tcp_reno_undo_cwnd
    pub fn on_undo(&mut self, _ack: &Ack) {
        self.on_reduction_stopped();
        if self.prior_ssthresh != 0 {
            self.cause = Cause::Undo;
            self.cwnd = self.cwnd.max(self.prior_cwnd).min(self.cwnd_clamp);
            self.ssthresh = self.ssthresh.max(self.prior_ssthresh);
        }
    }

    /// Stops the reduction in progress where it is.
    // spec: Linux tcp_end_cwnd_reduction without undo_marker
    pub const fn on_reduction_stopped(&mut self) {
        self.reduction = None;
    }

    /// Counts packets that leave during a reduction.
    pub const fn on_sent(&mut self, packets: u32) {
        if let Some(prr) = &mut self.reduction {
            prr.out = prr.out.saturating_add(packets);
        }
    }

    /// Handles a packet that leaves while none is in flight.
    // spec: Linux tcp_cwnd_restart, cubictcp_cwnd_event
    pub fn on_tx_start(&mut self, start: &TxStart) {
        if self.slow_start_after_idle && start.none_outstanding && start.idle > start.rto {
            self.ssthresh = self.current_ssthresh();
            let restart = self.cwnd.min(self.initial_cwnd);
            let mut idle = start.idle.as_nanos();
            // Halved once per bit, any window becomes 0.
            for _ in 0..u32::BITS {
                if idle <= start.rto.as_nanos() || self.cwnd <= restart || start.rto.as_nanos() == 0 {
                    break;
                }
                idle -= start.rto.as_nanos();
                self.cwnd >>= 1;
            }
            self.cwnd = self.cwnd.max(restart);
            self.cause = Cause::Idle;
        }
        if let Growth::Cubic(cubic) = &mut self.growth {
            cubic.on_tx_start(start);
        }
    }

    /// Reduces the window halfway to `used`, the most packets of it that were used for longer than a time-out.
    // spec: Linux tcp_cwnd_application_limited
    pub fn on_cwnd_unused(&mut self, used: u32) {
        if !self.slow_start_after_idle || self.ca_state != CaState::Open {
            return;
        }
        let used = used.max(self.initial_cwnd);
        if used < self.cwnd {
            self.ssthresh = self.current_ssthresh();
            self.cwnd = self.cwnd.midpoint(used);
        }
    }

    /// Sets the payload bytes of a full packet.
    pub fn on_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
    }

    // spec: Linux tcp_update_pacing_rate
    fn update_pacing_rate(&mut self, srtt_us: u64, packets_out: u32) {
        let percent = if self.cwnd < self.ssthresh / 2 { PACING_SLOW_START } else { PACING_AVOIDANCE };
        let window = self.mss * u64::from(self.cwnd.max(packets_out));
        let factor = MICROS_PER_SEC / 100 * percent;
        // Windows below 4 GB: at most two factors of 32 bits.
        let rate = match window >> 32 {
            0 => window * factor / srtt_us.max(1),
            _ => wide::mul_div(window, factor, srtt_us),
        };
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

    /// Rate at which a pacing host sends this window.
    pub const fn pacing_rate(&self) -> Rate {
        Rate::bits_per_sec(self.pacing_rate << 3) // never above an eighth of what 64 bits hold
    }

    /// State of the flow, for traces.
    pub fn state(&self) -> State {
        match self.ca_state {
            CaState::Loss => State::Loss,
            _ if self.reduction.is_some() => State::Recovery,
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

/// A bound in bytes per second; the largest that 64 bits hold in bits means no bound.
pub(crate) fn bytes_per_sec_or_max(rate: Option<Rate>) -> u64 {
    rate.map_or(u64::MAX / 8, Rate::as_bytes_per_sec).max(1)
}

/// Converts a volume to a count of packets, which never exceeds 2^32.
fn packets(volume: u64) -> u32 {
    u32::try_from(volume).unwrap_or(u32::MAX)
}

mod flow;
mod hosted;
#[cfg(test)]
mod tests;

pub use hosted::HostWindow;
