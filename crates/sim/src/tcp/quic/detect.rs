//! Loss detection of QUIC: packet threshold, time threshold, probe timeout, persistent congestion.
//! Spec: RFC 9002 §5, §6, §7.6.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Loss, Span, Time};

use super::QuicSender;
use crate::tcp::scoreboard::flag;
use crate::tcp::sender::Sender;
use crate::tcp::timers::{Timer, TimerKind};

/// Newer packets acknowledged after which a packet is lost. Source: RFC 9002 §6.1.1, `kPacketThreshold`.
const PACKET_THRESHOLD: u64 = 3;
/// Share of an RTT after which a packet is lost: 9/8. Source: RFC 9002 §6.1.2, `kTimeThreshold`.
const TIME_THRESHOLD: (u64, u64) = (9, 8);
/// Resolution of the timers. Source: RFC 9002 §6.1.2, `kGranularity`.
const GRANULARITY: Span = Span::millis(1);
/// Longest delay of an ACK by default. Source: RFC 9000 §18.2, `max_ack_delay`.
pub(super) const MAX_ACK_DELAY: Span = Span::millis(25);
/// Probe timeouts in a persistent-congestion period. Source: RFC 9002 §7.6.1, `kPersistentCongestionThreshold`.
const PERSISTENT: u64 = 3;
/// Probe timeouts for which a lost packet is remembered. Source: noq-proto 1.4 `drain_lost_packets`, as in msquic.
const REMEMBERED: u64 = 2;
/// Packets sent at a probe timeout. Source: RFC 9002 §6.2.4, "up to two".
const PROBES: u32 = 2;
/// Largest exponent of the back-off, and the longest wait. Ours: the longest is TCP's, RFC 6298 §2.5 with Linux's `TCP_RTO_MAX`.
const BACKOFF_MAX: u32 = 16;
const WAIT_MAX: Span = Span::secs(120);

/// RTT estimate of RFC 9002 §5, ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QuicRtt {
    latest: u64,
    smoothed: u64,
    variation: u64,
    /// Longest delay of an ACK, which the receiver has announced.
    max_ack_delay: Span,
}

impl QuicRtt {
    /// Estimate from the handshake.
    pub(super) const fn first(rtt: Span, max_ack_delay: Span) -> Self {
        Self { latest: rtt.as_nanos(), smoothed: rtt.as_nanos(), variation: rtt.as_nanos() / 2, max_ack_delay }
    }

    /// Takes a sample. The receiver's delay is not subtracted: at most a packet's time at the bottleneck, except for a lone packet.
    // spec: RFC 9002 §5.3
    pub(super) const fn update(&mut self, rtt: Span) {
        self.latest = rtt.as_nanos();
        self.variation = (3 * self.variation + self.smoothed.abs_diff(self.latest)) / 4;
        self.smoothed = (7 * self.smoothed + self.latest) / 8;
    }

    /// Smoothed RTT.
    pub(super) const fn smoothed(&self) -> Span {
        Span::nanos(self.smoothed)
    }

    /// Time threshold.
    fn loss_delay(&self) -> Span {
        Span::nanos(self.smoothed.max(self.latest) / TIME_THRESHOLD.1 * TIME_THRESHOLD.0).max(GRANULARITY)
    }

    /// Probe timeout without the receiver's delay and without back-off.
    fn probe_base(&self) -> Span {
        Span::nanos(self.smoothed) + Span::nanos(4 * self.variation).max(GRANULARITY)
    }

    /// Probe timeout without back-off.
    fn probe_timeout(&self) -> Span {
        self.probe_base() + self.max_ack_delay
    }

    /// Time since its sending after which a lost packet is forgotten.
    pub(super) fn remembered(&self) -> Span {
        Span::nanos(REMEMBERED * self.probe_base().as_nanos())
    }
}

/// Verdict on a packet sent before an acknowledged one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Lost,
    /// Lost at this time, unless it is acknowledged before.
    LostAt(Time),
}

/// Applies both thresholds to a packet sent at `sent`, `newer` packets before the largest acknowledged one.
// spec: RFC 9002 §6.1
fn judge(now: Time, sent: Time, newer: u64, loss_delay: Span) -> Verdict {
    let at = sent + loss_delay;
    if newer >= PACKET_THRESHOLD || at <= now { Verdict::Lost } else { Verdict::LostAt(at) }
}

/// Search for persistent congestion: a period in which every packet is lost.
#[derive(Default)]
struct LostPeriod {
    /// Last lost packet, and the send time of the first one of its gap.
    last: Option<(u64, Time)>,
    longest: Span,
}

impl LostPeriod {
    fn on_lost(&mut self, number: u64, sent: Time) {
        let start = self.last.filter(|last| last.0 + 1 == number).map_or(sent, |last| last.1);
        self.last = Some((number, start));
        self.longest = self.longest.max(sent.since(start));
    }
}

impl Sender {
    /// Reports the packets that the largest acknowledged one proves lost, and notes the time at which the next one is.
    // spec: RFC 9002 §A.10 DetectAndRemoveLostPackets
    pub(super) fn detect_quic_losses(&mut self, now: Time, by_ack: bool, quic: &mut QuicSender) {
        quic.loss_at = Time::NEVER;
        let Some(largest) = quic.largest_acked else { return };
        // s2n-quic's timers and thresholds count as reached a little early (`Timestamp::has_elapsed`).
        let reached = now + quic.early();
        let (loss_delay, mut period) = (quic.rtt.loss_delay(), LostPeriod::default());
        let mut number = quic.settled.max(self.board.una);
        while number < largest {
            let record = *self.board.peek(number);
            if record.flags & (flag::SACKED | flag::LOST) == 0 {
                let sent = record.token.send_time();
                match judge(reached, sent, largest - number, loss_delay) {
                    Verdict::Lost => {
                        self.cc.on_lost(now, &Loss::run(&record.token, number, 1, record.len.into()));
                        self.board.mark_lost(number);
                        quic.lose(number - self.board.una, record.len);
                        period.on_lost(number, sent);
                        self.stats.lost += 1;
                        self.stats.first_loss.get_or_insert(now);
                    }
                    Verdict::LostAt(at) => {
                        quic.loss_at = at;
                        break;
                    }
                }
            }
            number += 1;
        }
        quic.settled = number;
        if by_ack && period.longest.as_nanos() > PERSISTENT * quic.rtt.probe_timeout().as_nanos() {
            self.cc.on_persistent_congestion(now);
            self.stats.rto += 1;
        }
    }

    /// Sets the timer: the next loss by time, or the probe timeout after the last packet sent.
    // spec: RFC 9002 §A.8 SetLossDetectionTimer
    pub(super) fn set_quic_timer(&mut self, now: Time, quic: &QuicSender) {
        self.timer = if quic.loss_at != Time::NEVER {
            Timer { kind: TimerKind::Quic, at: quic.loss_at }
        } else if self.board.in_flight() > 0 {
            let wait = Span::nanos(quic.rtt.probe_timeout().as_nanos() << quic.backoff.min(BACKOFF_MAX)).min(WAIT_MAX);
            Timer { kind: TimerKind::Quic, at: (quic.last_sent + wait).max(now + Span::nanos(1)) }
        } else {
            Timer::default()
        };
    }

    /// Handles the timer: losses by time, or a probe timeout, which proves no loss.
    // spec: RFC 9002 §A.9 OnLossDetectionTimeout
    pub(in crate::tcp) fn on_quic_timer(&mut self, now: Time) {
        let Some(mut quic) = self.quic.take() else { return };
        quic.arm_skip(self.cc.cwnd());
        if quic.loss_at <= now {
            self.detect_quic_losses(now, false, &mut quic);
        } else {
            quic.backoff += 1;
            quic.probes = PROBES;
            self.stats.probes += 1;
        }
        self.set_quic_timer(now, &quic);
        self.quic = Some(quic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{AckEvery, FlowSetup, HostSetup, Transport};
    use crate::tcp::packet::AckPacket;
    use bbrlab_core::AlgorithmConfig;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::millis(ms)
    }

    #[test]
    fn a_packet_is_lost_once_the_third_after_it_is_acknowledged() {
        let delay = QuicRtt::first(Span::millis(80), MAX_ACK_DELAY).loss_delay();
        assert_eq!(judge(at(41), at(1), 2, delay), Verdict::LostAt(at(91)));
        assert_eq!(judge(at(41), at(1), 3, delay), Verdict::Lost);
    }

    #[test]
    fn a_packet_is_lost_nine_eighths_of_the_longer_rtt_after_its_sending() {
        let mut rtt = QuicRtt::first(Span::millis(80), MAX_ACK_DELAY);
        assert_eq!(rtt.loss_delay(), Span::millis(90));
        assert_eq!(judge(at(91), at(1), 1, rtt.loss_delay()), Verdict::Lost);
        rtt.update(Span::millis(160)); // smoothed 90, latest 160
        assert_eq!(rtt.loss_delay(), Span::millis(180));
        rtt.update(Span::millis(16)); // smoothed 80.75
        assert_eq!(rtt.loss_delay(), Span::nanos(80_750_000 / 8 * 9));
        assert_eq!(QuicRtt::first(Span::micros(10), MAX_ACK_DELAY).loss_delay(), GRANULARITY);
    }

    /// On a path of 5 ms s2n-quic takes any packet that the next one overtook for lost.
    #[test]
    fn s2n_quic_counts_the_time_threshold_as_reached_a_millisecond_early() {
        for (transport, lost) in [(Transport::QuicS2n, 1), (Transport::QuicQuinn, 0)] {
            let mut setup = FlowSetup::bulk("a".to_owned(), AlgorithmConfig::named("cubic").unwrap());
            setup.host.transport = transport;
            let (mut sender, mut out) = (Sender::new(0, &setup, 1), Vec::new());
            sender.start(Time::ZERO, &mut out);
            sender.on_syn_ack(at(5), &setup, Time::ZERO, &mut out);
            let ack = AckPacket { una: 1, sack: [(0, 1), (0, 0), (0, 0)], window: u64::MAX, ..AckPacket::default() };
            sender.on_ack(at(10), &ack, &mut out);
            assert_eq!(sender.stats.lost, lost, "{transport:?}");
        }
    }

    #[test]
    fn the_probe_timeout_waits_for_the_delay_that_the_receiver_announced() {
        for delay in [MAX_ACK_DELAY, Span::millis(100)] {
            let ack = Some(AckEvery { packets: 10, delay });
            let host = HostSetup { transport: Transport::QuicQuinn, ack, ..HostSetup::default() };
            let quic = QuicSender::new(&host, Span::millis(20)).unwrap();
            assert_eq!(quic.rtt.probe_timeout(), Span::millis(20 + 40) + delay);
        }
    }

    #[test]
    fn a_packet_acknowledged_in_between_ends_a_period_of_losses() {
        let mut period = LostPeriod::default();
        for (number, ms) in [(1, 10), (2, 60), (4, 70), (5, 90)] {
            period.on_lost(number, at(ms));
        }
        assert_eq!(period.longest, Span::millis(50));
    }
}
