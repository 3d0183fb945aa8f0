//! The sender's single timer and its four uses: SYN, RTO, tail loss probe, reordering.
//! Spec: RFC 6298, RFC 8985 §7, RFC 5682; Linux 6.12 `tcp_timer.c`, `tcp_output.c`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{CaState, Span, Time, estimators::RttEstimator};

use super::packet::Segment;
use super::rack::LostRun;
use super::scoreboard::{Scoreboard, flag};
use super::sender::Sender;

/// Shortest timeout of any timer. Source: Linux `TCP_TIMEOUT_MIN_US`.
const TIMEOUT_MIN: Span = Span::millis(2);
/// Allowance for a receiver that delays the ACK of a single segment. Source: Linux `TCP_RTO_MIN` in `tcp_schedule_loss_probe`.
const LONE_SEGMENT: Span = Span::millis(200);
/// Delay of a probe before the first RTT sample. Source: Linux `TCP_TIMEOUT_INIT`.
const PROBE_INITIAL: Span = Span::secs(1);

/// A tick of the kernel's clock. Source: Debian's CONFIG_HZ = 250.
pub(super) const TICK: Span = Span::millis(4);
/// Length in ticks below which a wait ends on any tick. Waits up to eight times as long end on every eighth, and so on. Source:
/// Linux `LVL_START`, `LVL_CLK_SHIFT`.
const WHEEL_TICKS: u64 = 63;
const WHEEL_SHIFT: u32 = 3;
const WHEEL_LEVELS: u32 = 9;
/// Longest timeout: a whole number of ticks.
const RTO_MAX_TICKS: u64 = ticks(RttEstimator::RTO_MAX);

/// Converts a wait to whole ticks, rounded up.
// spec: Linux usecs_to_jiffies
pub(super) const fn ticks(wait: Span) -> u64 {
    // Half the instructions of `div_ceil`; waits end long before 2^64 ns.
    wait.as_nanos().saturating_add(TICK.as_nanos() - 1) / TICK.as_nanos()
}

/// Expiry of a kernel timer that is set now: on a tick, and never early.
pub(super) fn fires_at(now: Time, wait: Span) -> Time {
    fires_after(now, ticks(wait))
}

/// Expiry of a kernel timer after this many ticks.
// spec: Linux calc_wheel_index, calc_index
#[inline]
pub(super) fn fires_after(now: Time, wait: u64) -> Time {
    let level = (0..WHEEL_LEVELS - 1).find(|level| wait < WHEEL_TICKS << (WHEEL_SHIFT * level));
    let shift = WHEEL_SHIFT * level.unwrap_or(WHEEL_LEVELS - 1);
    let expires = now.as_nanos() / TICK.as_nanos() + wait;
    Time::nanos((((expires >> shift) + 1) << shift).saturating_mul(TICK.as_nanos()))
}

/// Purpose of the timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimerKind {
    /// Nothing.
    #[default]
    None,
    /// Wait for the answer to a SYN.
    Syn,
    /// Retransmission timeout.
    Rto,
    /// Tail loss probe.
    LossProbe,
    /// RACK's reordering window.
    Reorder,
    /// QUIC's loss detection.
    Quic,
}

/// The sender's timer.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// Purpose.
    pub kind: TimerKind,
    /// Expiry.
    pub at: Time,
}

impl Default for Timer {
    fn default() -> Self {
        Self { kind: TimerKind::None, at: Time::NEVER }
    }
}

impl Sender {
    /// Retransmission timeout with its back-off.
    pub(super) fn rto(&self) -> Span {
        let ticks = (ticks(self.cc.rtt().rto()) << self.backoff.min(20)).min(RTO_MAX_TICKS);
        Span::nanos(ticks * TICK.as_nanos())
    }

    /// Sets a timer that starts once the pacer may release the next burst.
    // spec: Linux tcp_reset_xmit_timer
    fn set_timer(&mut self, now: Time, kind: TimerKind, wait: Span) {
        let paced = self.edt().since(now).as_nanos() / TICK.as_nanos();
        self.timer = Timer { kind, at: fires_after(now, (ticks(wait) + paced).min(RTO_MAX_TICKS)) };
    }

    /// Rearms the retransmission timer. After another kind of timer it counts from the oldest segment's send time.
    // spec: Linux tcp_rearm_rto
    pub(super) fn rearm_rto(&mut self, now: Time) {
        if self.board.packets_out() == 0 {
            self.timer = Timer::default();
            return;
        }
        let wait = match self.timer.kind {
            TimerKind::LossProbe | TimerKind::Reorder => {
                (self.token(self.board.una).send_time() + self.rto()).since(now).max(Span::micros(1))
            }
            _ => self.rto(),
        };
        self.set_timer(now, TimerKind::Rto, wait);
    }

    /// Arms a tail loss probe. Returns false if none is appropriate.
    // spec: Linux tcp_schedule_loss_probe
    pub(super) fn schedule_loss_probe(&mut self, now: Time, advancing: bool) -> bool {
        if self.board.packets_out() == 0 || !matches!(self.cc.ca_state(), CaState::Open | CaState::Cwr) {
            return false;
        }
        let wait = match self.cc.rtt().smoothed_exactly() {
            Some(srtt) => {
                let slack = if self.board.packets_out() == 1 { LONE_SEGMENT } else { TIMEOUT_MIN };
                Span::micros(srtt.as_nanos() * 2 / 1_000) + slack
            }
            None => PROBE_INITIAL,
        };
        let from = if advancing { now } else { self.token(self.board.una).send_time() };
        // The timeout in whole ticks, and backed off, is no shorter than this.
        let comes_first = wait <= (from + self.cc.rtt().rto()).since(now);
        let wait = if comes_first { wait } else { self.before_rto(now, from, wait) };
        self.set_timer(now, TimerKind::LossProbe, wait);
        true
    }

    /// Limits a wait to the timeout that counts from `from`, unless that has passed.
    #[inline(never)]
    fn before_rto(&self, now: Time, from: Time, wait: Span) -> Span {
        match (from + self.rto()).since(now) {
            Span::ZERO => wait,
            until_rto => wait.min(until_rto),
        }
    }

    pub(super) fn set_reorder_timer(&mut self, now: Time, wait: Span) {
        self.timer = Timer { kind: TimerKind::Reorder, at: fires_at(now, (wait + TIMEOUT_MIN).min(self.rto())) };
    }

    pub(super) fn on_timer(&mut self, now: Time, kind: TimerKind, out: &mut Vec<Segment>) {
        if self.board.packets_out() == 0 {
            self.timer = Timer::default();
            return;
        }
        match kind {
            TimerKind::Rto => self.on_rto(now, out),
            TimerKind::LossProbe => self.send_loss_probe(now, out),
            TimerKind::Reorder => self.on_reorder_timer(now),
            TimerKind::Quic => self.on_quic_timer(now),
            TimerKind::None | TimerKind::Syn => {}
        }
        debug_assert!(self.timer.at > now, "a timer that fired was not armed again");
    }

    // spec: Linux tcp_send_loss_probe
    fn send_loss_probe(&mut self, now: Time, out: &mut Vec<Segment>) {
        if self.tlp_high_seq.is_none() {
            self.stats.probes += 1;
            self.tlp_retrans = false;
            let mut is_sent = self.write(now, 1, out) > 0;
            if !is_sent {
                // Without new data, or a window for it, the last segment is retransmitted.
                let last = self.board.next - 1;
                if self.board.peek(last).flags & (flag::SACKED | flag::LOST) == 0 {
                    (self.tlp_retrans, is_sent) = (true, true);
                    self.tlp_app_limited = self.token(last).is_app_limited();
                    self.send_again(now, last..last + 1, Scoreboard::mark_probed, out);
                }
            }
            if is_sent {
                self.tlp_high_seq = Some(self.board.next);
            }
            self.timer.kind = TimerKind::None; // the answer to the probe gets a full timeout from now
        }
        self.rearm_rto(now);
        if self.timer.at <= now {
            self.timer.at = now + Span::micros(1);
        }
    }

    // spec: Linux tcp_rack_reo_timeout
    fn on_reorder_timer(&mut self, now: Time) {
        self.timer = Timer { kind: TimerKind::Reorder, at: now };
        let (lost, wait) = self.detect_loss(now, true);
        if lost > 0 && self.cc.ca_state() != CaState::Recovery {
            self.enter_recovery(false);
            self.cc.on_recovery_by_timer(now, self.flight());
        }
        match wait {
            Some(wait) if lost == 0 => self.set_reorder_timer(now, wait),
            _ => self.rearm_rto(now),
        }
    }

    /// Handles a retransmission timeout: every segment counts as lost unless it has arrived or was sent just now.
    // spec: Linux tcp_retransmit_timer, tcp_enter_loss, tcp_timeout_mark_lost
    fn on_rto(&mut self, now: Time, out: &mut Vec<Segment>) {
        let state = self.cc.ca_state();
        let new_recovery = state < CaState::Recovery;
        let first = state <= CaState::Disorder
            || self.high_seq <= self.board.una
            || (state == CaState::Loss && self.retransmits_in_row == 0);
        if first {
            self.init_undo();
            self.undo_restores = true;
        }
        if state <= CaState::Disorder {
            self.rack.on_timeout(self.board.sacked_out);
        }
        self.queue_cwr();
        self.mark_timed_out(now);
        self.stats.rto += 1;
        self.cc.on_rto(now, self.flight(), first);
        if self.steered.is_some() {
            self.steer_rto(now);
        }
        self.cwnd_stamp = now;
        self.high_seq = self.board.next;
        self.frto = new_recovery || self.retransmits_in_row > 0;
        self.tlp_high_seq = None;
        let head = self.board.una;
        if self.board.peek(head).flags & flag::RETRANS == 0 {
            self.retransmit(now, head..head + 1, out);
        }
        self.retransmits_in_row += 1;
        self.backoff += 1;
        self.timer = Timer { kind: TimerKind::Rto, at: fires_at(now, self.rto()) };
    }

    fn mark_timed_out(&mut self, now: Time) {
        let head = self.board.una;
        let mut lost = LostRun::default();
        for seq in head..self.board.next {
            let record = *self.board.peek(seq);
            let waiting = record.flags & (flag::LOST | flag::RETRANS) == flag::LOST;
            if record.flags & flag::SACKED != 0 || waiting {
                continue;
            }
            if seq != head && self.is_recent(record.token.send_time().as_micros(), now) {
                continue;
            }
            self.lose(now, seq, true, &mut lost);
        }
        self.report_lost(now, true, &lost);
        self.stats.first_loss.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{FlowSetup, Traffic};
    use crate::tcp::packet::AckPacket;
    use bbrlab_core::AlgorithmConfig;

    /// A handshake of 100 ms, and the ACK of the first of ten segments 40 ms after it was sent: a mean of 92.5 ms, so the probe
    /// is due after 187 ms. By the mean of 100 ms it would come five ticks later.
    #[test]
    fn a_loss_probe_is_timed_by_the_rtt_of_its_own_ack() {
        let mut setup = FlowSetup::bulk("cubic", AlgorithmConfig::named("cubic").unwrap());
        setup.traffic = Traffic::Size(14_480);
        let (mut sender, mut out) = (Sender::new(0, &setup, 1), Vec::new());
        let at = |ms| Time::ZERO + Span::millis(ms);
        sender.start(at(0), &mut out);
        sender.on_syn_ack(at(100), &setup, at(0), &mut out);
        let ack = AckPacket { una: 1, ts_echo: at(100), window: u64::MAX, ..AckPacket::default() };
        sender.on_ack(at(140), &ack, &mut out);
        assert_eq!((sender.timer.kind, sender.timer.at), (TimerKind::LossProbe, at(332)));
    }

    /// The partial tick in which a wait begins is not counted.
    #[test]
    fn a_timer_fires_on_a_tick_and_never_early() {
        for now_us in [0u64, 1, 3_999, 4_000, 123_456_789] {
            for wait_us in [1u64, 2_000, 4_000, 40_000, 200_000, 248_000] {
                let (now, wait) = (Time::micros(now_us), Span::micros(wait_us));
                let late = fires_at(now, wait).since(now + wait);
                assert!(fires_at(now, wait) > now + wait && late <= Span::millis(8), "{now_us} {wait_us} {late:?}");
                assert_eq!(fires_at(now, wait).as_nanos() % TICK.as_nanos(), 0);
            }
        }
    }

    #[test]
    fn a_long_wait_ends_on_every_eighth_tick() {
        let at = |ms| fires_at(Time::micros(1_000), Span::millis(ms)).as_micros() / 1_000;
        assert_eq!([40, 200, 248, 252, 1_000, 2_016].map(at), [44, 204, 252, 256, 1_024, 2_048]);
    }
}
