//! QUIC as a flow's transport: every transmission has a packet number of its own, and lost data leaves again in a new packet.
//! Spec: RFC 9002; what it leaves open is as in s2n-quic or noq ([`Transport`]).
//!
//! The scoreboard counts packets, not segments of the stream, so no acknowledgement is ambiguous. The controller keeps its own loss
//! episodes, as it does in both stacks. A packet carries the number of its data beside its own ([`numbers`]).
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod detect;
mod receiver;

use std::collections::VecDeque;

use bbrlab_core::{AckBatch, AckInfo, Rate, Sent, Span, Time};

use super::packet::{AckPacket, Segment, mark};
use super::scoreboard::flag;
use super::sender::Sender;
use crate::setup::{HostSetup, Transport};
use detect::{MAX_ACK_DELAY, QuicRtt};
pub(super) use receiver::QuicReceiver;

/// Share of the window that a sender without a rate of its own sends in an RTT: 5/4. Source: RFC 9002 §7.7.
const WINDOW_PACING: (u64, u64) = (5, 4);
/// Time by which s2n-quic sends early. Source: s2n-quic-core 0.91 `Timestamp::has_elapsed`.
const EARLY: Span = Span::millis(1);
/// Least number of packets between two skipped numbers, beyond half a window. Source: s2n-quic-transport 0.91, `MIN_SKIP_COUNTER_VALUE`.
const MIN_SKIP: u32 = 30;
/// Burst after a pause: 10 to 256 packets, about 2 ms, at most 10 ms. Source: noq-proto 1.4 `pacing.rs`, `rate_capacity`.
const BURST_PACKETS: (u64, u64) = (10, 256);
const BURST_TIME: Span = Span::millis(2);
const BURST_TIME_MAX: Span = Span::millis(10);

/// Number of a packet, and that of its data, from a segment's sequence number.
pub const fn numbers(seq: u64) -> (u64, u32) {
    (seq & u32::MAX as u64, (seq >> 32) as u32)
}

/// Joins both numbers. No simulated flow sends 2^32 packets.
const fn joined(number: u64, data: u32) -> u64 {
    debug_assert!(number <= u32::MAX as u64, "packet numbers have 32 bits here");
    (data as u64) << 32 | number
}

/// State of a sender beside the scoreboard.
#[derive(Clone, Debug)]
pub(super) struct QuicSender {
    transport: Transport,
    /// Data of each packet from the scoreboard's oldest on.
    carried: VecDeque<u32>,
    /// Lost data: number, bytes.
    lost_data: VecDeque<(u32, u16)>,
    next_data: u32,
    /// Data from the oldest unacknowledged on: bytes; acknowledged.
    unacked: VecDeque<(u16, bool)>,
    first_unacked: u32,
    largest_acked: Option<u64>,
    /// Every packet before this one is acknowledged or lost.
    settled: u64,
    rtt: QuicRtt,
    /// Time at which the oldest packet in flight is lost; set only if a newer one is acknowledged.
    loss_at: Time,
    backoff: u32,
    /// Probes that may leave whatever the window.
    probes: u32,
    last_sent: Time,
    /// Packet before which a number was skipped, until an ACK shows that the receiver did not acknowledge that number.
    after_skipped: Option<u64>,
    /// Packets until the next number is skipped.
    skip_in: u32,
}

/// Data of the next packet.
#[derive(Clone, Copy, Debug)]
enum NextData {
    /// New, of this length.
    New(u16),
    /// Sent before.
    Again(u32, u16),
}

impl NextData {
    const fn bytes(self) -> u16 {
        match self {
            Self::New(bytes) | Self::Again(_, bytes) => bytes,
        }
    }
}

impl QuicSender {
    /// State after a handshake over this RTT; `None` for TCP.
    pub(super) fn new(host: &HostSetup, rtt: Span) -> Option<Box<Self>> {
        let transport = host.transport;
        let rule = host.ack.or(transport.ack());
        let max_ack_delay = rule.map_or(MAX_ACK_DELAY, |rule| rule.delay);
        transport.is_quic().then(|| {
            Box::new(Self {
                transport,
                carried: VecDeque::new(),
                lost_data: VecDeque::new(),
                next_data: 0,
                unacked: VecDeque::new(),
                first_unacked: 0,
                largest_acked: None,
                settled: 0,
                rtt: QuicRtt::first(rtt, max_ack_delay),
                loss_at: Time::NEVER,
                backoff: 0,
                probes: 0,
                last_sent: Time::ZERO,
                after_skipped: None,
                skip_in: MIN_SKIP,
            })
        })
    }

    /// Time by which a packet may leave early, and a wait end early.
    const fn early(&self) -> Span {
        if self.transport.sends_early() { EARLY } else { Span::ZERO }
    }

    /// Counts anew until the next skipped number, when a timer expires after the last one is verified. Without a timer in between, the
    /// count stays at zero: the next packet skips a number.
    // Source: s2n-quic-transport 0.91, `arm_skip_counter`, which draws from half a window to two; here the middle.
    fn arm_skip(&mut self, cwnd: u32) {
        if self.skip_in == 0 && self.after_skipped.is_none() {
            self.skip_in = (cwnd / 2).saturating_add(cwnd / 4 * 3).saturating_add(MIN_SKIP);
        }
    }

    /// Queues the data of a lost packet, at this place after the oldest.
    fn lose(&mut self, place: u64, bytes: u16) {
        self.lost_data.push_back((self.carried[place as usize], bytes));
    }

    /// Records that the data of the packet at this place has arrived. Returns the bytes that are now acknowledged in order.
    fn on_data_acked(&mut self, place: u64) -> u64 {
        let data = self.carried[place as usize];
        if let Some(unacked) = data.checked_sub(self.first_unacked).and_then(|at| self.unacked.get_mut(at as usize)) {
            unacked.1 = true;
        }
        let mut bytes = 0;
        while let Some(&(len, true)) = self.unacked.front() {
            self.unacked.pop_front();
            self.first_unacked += 1;
            bytes += u64::from(len);
        }
        bytes
    }
}

impl Sender {
    /// Processes an ACK. Returns the RTT of the newest packet that it delivers.
    // spec: RFC 9002 §A.7 OnAckReceived
    #[inline(never)]
    pub(super) fn on_quic_ack(&mut self, now: Time, ack: &AckPacket, out: &mut Vec<Segment>) -> Option<Span> {
        let mut quic = self.quic.take()?;
        self.window = ack.window;
        let mut batch = self.cc.begin_ack(now);
        let lowest = quic.after_skipped.map(|number| self.first_outstanding(&quic, number));
        let (newest, late) = self.take_ranges(ack, &mut quic, &mut batch);
        self.verify_skipped(&mut quic, lowest);
        // None of the packets declared lost is missing, so the reduction was unnecessary.
        if late > 0 && quic.transport.undoes() && self.board.lost_out == 0 {
            self.stats.undos += 1;
            self.cc.on_undo(now);
        }
        let mut rtt = None;
        if let Some(newest) = newest {
            let sample = now.since(self.token(newest).send_time());
            rtt = Some(sample);
            if quic.largest_acked.is_none_or(|largest| largest < newest) {
                quic.largest_acked = Some(newest);
                quic.rtt.update(sample);
                self.min_rtt_us = self.min_rtt_us.min(sample.as_micros().max(1));
            }
            let open = self.cc.on_delivered(batch);
            self.detect_quic_losses(now, true, &mut quic);
            // Counts are cumulative: a lost ACK loses no mark.
            // spec: RFC 9002 §A.10 ProcessECN
            let marked = ack.ce.wrapping_sub(self.ce);
            if marked > 0 && marked < 1 << 31 {
                self.ce = ack.ce;
                self.cc.on_congestion_mark(now, if quic.transport.counts_marks() { marked.into() } else { 1 });
            }
            let info = if quic.transport.sends_early() { AckInfo::NONE.with_edt(self.edt()) } else { AckInfo::NONE };
            self.cc.on_ack(open, &info);
            quic.backoff = 0;
        }
        self.forget_packets(now, &mut quic);
        self.set_quic_timer(now, &quic);
        self.quic = Some(quic);
        self.pump(now, out);
        rtt
    }

    /// First packet up to this one that is neither acknowledged nor lost; the one after it if there is none.
    fn first_outstanding(&self, quic: &QuicSender, number: u64) -> u64 {
        let is_outstanding = |at: &u64| self.board.peek(*at).flags & (flag::SACKED | flag::LOST) == 0;
        (quic.settled.max(self.board.una)..=number).find(is_outstanding).unwrap_or(number + 1)
    }

    /// Allows the next skipped number. `lowest` is the first outstanding packet before this ACK. s2n-quic looks at each range of an
    /// ACK before it marks the range's packets, so the ACK of the packet after the gap counts only if all before were settled.
    // Source: s2n-quic-transport 0.91, `tx_packet_numbers.rs`.
    fn verify_skipped(&self, quic: &mut QuicSender, lowest: Option<u64>) {
        let (Some(number), Some(lowest)) = (quic.after_skipped, lowest) else { return };
        if lowest > number || lowest == number && self.first_outstanding(quic, number) > number {
            quic.after_skipped = None;
        }
    }

    /// Marks the packets of an ACK's ranges. Returns the newest that was in flight, and the number of those declared lost before.
    fn take_ranges(&mut self, ack: &AckPacket, quic: &mut QuicSender, batch: &mut AckBatch) -> (Option<u64>, u32) {
        let (mut newest, mut late) = (None, 0);
        for (from, to) in ack.sack {
            let to = (ack.una + u64::from(to)).min(self.board.next);
            let mut at = (ack.una + u64::from(from)).max(self.board.una);
            while let Some(number) = self.board.next_unsacked(at, to) {
                at = number + 1;
                let record = *self.board.peek(number);
                self.una_bytes += quic.on_data_acked(number - self.board.una);
                if self.board.mark_sacked(number) & flag::LOST != 0 {
                    late += 1;
                    continue;
                }
                batch.delivered_run(1, record.len.into(), &record.token, number);
                self.stats.acked_bytes += u64::from(record.len);
                newest = newest.max(Some(number));
            }
        }
        (newest, late)
    }

    /// Removes the oldest packets: the acknowledged, and the lost that will not arrive any more.
    fn forget_packets(&mut self, now: Time, quic: &mut QuicSender) {
        let remembered = quic.rtt.remembered();
        while self.board.una < self.board.next {
            let record = self.board.peek(self.board.una);
            let is_old = record.flags & flag::LOST != 0 && now.since(record.token.send_time()) > remembered;
            if record.flags & flag::SACKED == 0 && !is_old {
                break;
            }
            self.board.pop_acked();
            quic.carried.pop_front();
        }
    }

    /// Sends all that window and pacer allow: lost data first, then new data.
    #[inline(never)]
    pub(super) fn write_quic(&mut self, now: Time, is_woken: bool, out: &mut Vec<Segment>) {
        let Some(mut quic) = self.quic.take() else { return };
        if is_woken {
            quic.arm_skip(self.cc.cwnd());
        }
        let mut has_sent = false;
        loop {
            let is_probe = quic.probes > 0;
            let Some(next) = self.next_data(&quic, is_probe) else {
                if self.next_bytes >= self.app.written {
                    self.cc.on_app_limited(None);
                }
                break;
            };
            if !is_probe
                && (!self.cc.can_send(next.bytes().into())
                    || self.waits_for_pacer(now, &quic)
                    || self.blocked_by_host_queue(1, 1))
            {
                break;
            }
            self.send_packet(now, next, &mut quic, out);
            quic.probes = quic.probes.saturating_sub(1);
            has_sent = true;
        }
        if has_sent {
            self.set_quic_timer(now, &quic);
        }
        self.quic = Some(quic);
    }

    /// Data of the next packet. A probe repeats the oldest packet in flight if there is nothing else.
    fn next_data(&self, quic: &QuicSender, is_probe: bool) -> Option<NextData> {
        if let Some(&(data, bytes)) = quic.lost_data.front() {
            return Some(NextData::Again(data, bytes));
        }
        let end = self.una_bytes.saturating_add(self.window).min(self.app.written);
        let room = end.saturating_sub(self.next_bytes).min(self.mss.into()) as u16;
        // A window below one full packet is used only if nothing else will open it.
        let is_short = u32::from(room) < self.mss && end < self.app.written && self.board.in_flight() > 0;
        if room > 0 && !is_short {
            return Some(NextData::New(room));
        }
        let first = quic.settled.max(self.board.una);
        let is_in_flight = |number: &u64| self.board.peek(*number).flags & (flag::SACKED | flag::LOST) == 0;
        let oldest = (first..self.board.next).find(is_in_flight).filter(|_| is_probe)?;
        Some(NextData::Again(quic.carried[(oldest - self.board.una) as usize], self.board.peek(oldest).len))
    }

    /// Rate of the pacer: the controller's, or for noq the window's.
    fn quic_rate(&self, quic: &QuicSender) -> Option<Rate> {
        if quic.transport.sends_early() || self.cc.needs_pacing() {
            return self.pacing_rate();
        }
        let srtt = quic.rtt.smoothed().as_nanos().max(1);
        let bytes = u128::from(self.cc.cwnd_bytes()) * u128::from(WINDOW_PACING.0) * 1_000_000_000;
        let rate = bytes / (u128::from(srtt) * u128::from(WINDOW_PACING.1));
        Some(Rate::bytes_per_sec(u64::try_from(rate).unwrap_or(u64::MAX)))
    }

    /// True if the pacer holds the next packet; it then sets the time of the next call.
    fn waits_for_pacer(&mut self, now: Time, quic: &QuicSender) -> bool {
        let waits = self.wstamp > now + quic.early();
        if waits {
            self.pace_at = self.wstamp;
        }
        waits
    }

    fn send_packet(&mut self, now: Time, next: NextData, quic: &mut QuicSender, out: &mut Vec<Segment>) {
        let bytes = next.bytes();
        let data = match next {
            NextData::Again(data, _) => {
                if quic.lost_data.front().is_some_and(|lost| lost.0 == data) {
                    quic.lost_data.pop_front();
                }
                self.stats.retransmits += 1;
                data
            }
            NextData::New(_) => {
                quic.unacked.push_back((bytes, false));
                self.next_bytes += u64::from(bytes);
                quic.next_data += 1;
                quic.next_data - 1
            }
        };
        let token = self.cc.on_sent(now, &Sent::packet(bytes.into()));
        let number = self.board.push(token, 0, bytes, 0);
        quic.carried.push_back(data);
        quic.last_sent = now;
        let mut marks = 0;
        if quic.transport.skips_numbers() && quic.skip_in == 0 && quic.after_skipped.is_none() {
            quic.after_skipped = Some(number);
            marks = mark::AFTER_SKIPPED;
        }
        quic.skip_in = quic.skip_in.saturating_sub(1);
        self.emit(now, joined(number, data), bytes, marks, out);
        self.pace_quic(now, bytes.into(), quic);
        self.stats.segments += 1;
        self.stats.sent_bytes += u64::from(bytes);
    }

    /// Advances the pacer: like [`bbrlab_core::Pacer`], which the adapter for s2n-quic uses, or like noq's bucket.
    fn pace_quic(&mut self, now: Time, bytes: u64, quic: &QuicSender) {
        let Some(rate) = self.quic_rate(quic) else { return };
        let span = rate.time_for(bytes);
        let credit = if quic.transport.sends_early() {
            Span::nanos(span.as_nanos() / 2)
        } else {
            let mss = u64::from(self.mss);
            let burst = rate.bytes_in(BURST_TIME).clamp(BURST_PACKETS.0 * mss, BURST_PACKETS.1 * mss);
            rate.time_for(burst.min(rate.bytes_in(BURST_TIME_MAX).max(mss)))
        };
        self.wstamp = self.wstamp.max(Time::nanos(now.as_nanos().saturating_sub(credit.as_nanos()))) + span;
    }
}
