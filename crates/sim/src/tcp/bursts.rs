//! Burst sizes, super-packet boundaries in the socket's queue, the deferral of small bursts, and super-packets split by SACKs.
//! Spec: Linux 6.12 `tcp_output.c`, `tcp_input.c`, `tcp.c`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ops::Range;

use bbrlab_core::{CaState, PacketToken, Span, Time};

use super::app::App;
use super::packet::Segment;
use super::scoreboard::{Record, flag};
use super::sender::Sender;

/// TSO's addition to a burst on short paths, halved for each 2^9 µs of RTT. Source: Linux `tcp_tso_rtt_log` = 9.
const TSO_RTT_LOG: u32 = 9;
/// Longest expected wait for an ACK for which a burst is deferred. Source: Linux `tcp_tso_should_defer`.
const DEFER_MAX: Span = Span::millis(1);
/// Divisor of the window: a burst with more room than that share is not deferred. Source: Linux `tcp_tso_win_divisor`.
const TSO_WIN_DIVISOR: u32 = 3;
/// Socket buffer that an application with much to send fills at once, bytes.
const SEND_BUFFER: u64 = 4 << 20;
/// Buffer use of a super-packet beyond its payload. Source: Linux `sk_buff` (256), `SKB_SMALL_HEAD_CACHE_SIZE` (704).
pub(super) const SKB_OVERHEAD: u64 = 960;
/// Window of the SYN-ACK, without scale. A super-packet is limited to half of the largest window seen, which initially is this
/// one. Source: Linux `tcp_bound_to_half_wnd`.
const FIRST_WINDOW: u64 = 65_535;

impl Sender {
    // spec: Linux tcp_tso_autosize, or the algorithm's own (Linux `tso_segs`)
    pub(super) fn burst_bytes(&self) -> u64 {
        if let Some(bytes) = self.cc.own_quantum() {
            return bytes.min(self.tso_max);
        }
        let mut bytes = self.bytes_a_millisecond();
        let shift = self.min_rtt_us >> TSO_RTT_LOG;
        if shift < 17 {
            bytes += self.tso_max >> shift;
        }
        bytes.min(self.tso_max)
    }

    /// Bytes in about a millisecond at the algorithm's rate. Without a rate this is 0, so bursts are the smallest.
    pub(super) fn bytes_a_millisecond(&self) -> u64 {
        self.cc.pacing_rate().map_or(0, |rate| rate.as_bytes_per_sec() >> 10)
    }

    /// Segments per burst.
    pub(super) fn burst_segments(&self) -> u32 {
        let bytes = self.burst_bytes();
        let mss = u64::from(self.mss);
        let floor = self.cc.min_tso_segs();
        // Slow flows make the smallest burst and skip the division.
        let segments = if bytes < 2 * mss { 1 } else { (bytes / mss) as u32 };
        segments.max(floor).min((self.tso_max / mss).max(1) as u32)
    }

    /// Runs an application's write, and sends what the windows and the pacer allow. `write` gets the bytes sent so far, and returns
    /// true if it wrote.
    pub(super) fn on_write(&mut self, now: Time, out: &mut Vec<Segment>, write: impl FnOnce(&mut App, u64) -> bool) {
        let is_empty = self.next_bytes >= self.app.written;
        if write(&mut self.app, self.next_bytes) {
            self.pump(now, out);
            if is_empty {
                self.fill_socket();
            }
        }
    }

    /// Models a write into an empty queue once the allowed data has left; until then the last super-packet was extended.
    // spec: Linux tcp_sendmsg_locked
    pub(super) fn fill_socket(&mut self) {
        if self.una_bytes > 0 {
            self.wide_from = 0; // the receive window is known
            self.super_end = self.next_bytes + self.super_bytes();
            return;
        }
        let mss = u64::from(self.mss);
        let size = (FIRST_WINDOW / 2).min(self.tso_max) / mss * mss;
        let half = (self.initial_cwnd / 2).clamp(1, self.burst_segments());
        let bursts = (self.next_bytes / mss).div_ceil(u64::from(half));
        let room = SEND_BUFFER.saturating_sub(self.next_bytes + bursts * SKB_OVERHEAD);
        let fitting = room.div_ceil(size.max(mss) + SKB_OVERHEAD);
        // The last one is extended when the application continues.
        self.wide_from = self.next_bytes + fitting.saturating_sub(1) * size.max(mss);
        self.super_end = self.next_bytes;
        self.append_super();
        // The first super-packet is pushed when the first burst has left it and the application has extended it by as much.
        (self.push_at, self.pushed) = (self.super_end, size + u64::from(half) * mss);
    }

    /// Adds a super-packet behind the last one. The socket pushes it if half of the largest window was written since the last push.
    // spec: Linux forced_push, tcp_mark_push
    #[inline(never)] // rare beside the segments that are sent
    pub(super) fn append_super(&mut self) {
        let is_narrow = self.super_end < self.wide_from;
        self.super_end += self.super_bytes();
        if is_narrow && self.super_end > self.pushed + FIRST_WINDOW / 2 {
            (self.push_at, self.pushed) = (self.super_end, self.super_end);
        }
    }

    /// Size of the super-packets in the socket's queue.
    // spec: Linux tcp_xmit_size_goal
    pub(super) fn super_bytes(&self) -> u64 {
        let largest = if self.super_end < self.wide_from { FIRST_WINDOW } else { self.window.max(FIRST_WINDOW) };
        let mss = u64::from(self.mss);
        ((largest / 2).min(self.tso_max) / mss).max(1) * mss
    }

    /// True if a short wait would make the burst larger.
    // spec: Linux tcp_tso_should_defer
    #[inline(never)]
    pub(super) fn should_defer(&self, now: Time, cwnd: u32, in_flight: u32, burst: u32, limited: &mut bool) -> bool {
        // A single segment cannot become a larger burst.
        if self.cc.ca_state() >= CaState::Recovery || self.app.written - self.next_bytes <= u64::from(self.mss) {
            return false;
        }
        // The pacer would have released it more than a millisecond ago, so no delay is added.
        if now.since(self.wstamp) > Span::millis(1) {
            return false;
        }
        let room = cwnd - in_flight;
        let window_room = self.window.saturating_sub(self.next_bytes - self.una_bytes);
        let room_bytes = (u64::from(room) * u64::from(self.mss)).min(window_room);
        if room >= burst && window_room >= u64::from(burst) * u64::from(self.mss) {
            return false;
        }
        // The rest of a super-packet can leave, and nothing will be added to it.
        if self.super_end < self.app.written && self.super_end - self.next_bytes <= room_bytes {
            return false;
        }
        let share = self.window.min(u64::from(cwnd) * u64::from(self.mss)) / u64::from(TSO_WIN_DIVISOR);
        if room_bytes >= share || self.board.packets_out() == 0 {
            return false;
        }
        // No deferral if the next ACK is not expected soon.
        let head = self.board.peek(self.board.una);
        let head = head.token.send_time() + Span::nanos(head.sent_ns.into());
        let srtt = self.cc.rtt().smoothed_exactly().unwrap_or(Span::ZERO);
        let soon = Span::nanos(srtt.as_nanos() / 2).min(DEFER_MAX);
        if (head + srtt).since(now) > soon {
            return false;
        }
        // Neither window is the limit if both have room for all that is written.
        let cwnd_room = u64::from(room) * u64::from(self.mss);
        let head_bytes = self.super_end.min(self.app.written) - self.next_bytes;
        *limited |= cwnd_room < window_room && cwnd_room <= head_bytes;
        true
    }

    /// Token of a segment after the rest of its super-packet has been split off.
    // spec: Linux tcp_fragment; google/bbr v3 keeps its count of the data in flight right
    pub(super) fn part_of_burst(&self, record: &Record) -> PacketToken {
        let rest = u32::from(record.rest);
        self.cc.part_of_burst(&record.token, rest, rest * self.mss)
    }

    /// Token of a segment of a run that a block reports for the first time. If the run ends within a super-packet, the part beyond is
    /// split off.
    #[inline]
    pub(super) fn sacked_token(&mut self, seq: u64, run: &Range<u64>) -> PacketToken {
        let record = self.board.peek(seq);
        let is_cut = seq + 1 == run.end && record.rest > 0 && self.cc.needs_on_lost();
        if is_cut { self.split(seq, run.start) } else { record.token }
    }

    /// Splits a super-packet behind segment `seq` of a run that began at `start`, and returns the token of the SACKed part.
    ///
    /// If a SACKed segment precedes the part, Linux joins the two and subtracts the part from the rest's count in flight. Algorithms
    /// that count bytes follow the draft, whose count is that of each packet's departure.
    // spec: Linux tcp_match_skb_to_sack, tcp_shift_skb_data; google/bbr v3 tcp_shifted_skb
    #[cold]
    fn split(&mut self, seq: u64, start: u64) -> PacketToken {
        let record = *self.board.peek(seq);
        let first = (start..seq).rev().find(|&at| self.board.peek(at).token != record.token).map_or(start, |at| at + 1);
        let is_joined = first > self.board.una && self.board.peek(first - 1).flags & flag::SACKED != 0;
        if !is_joined || self.cc.counts_bytes() {
            return self.part_of_burst(&record);
        }
        let burst_end = seq + 1 + u64::from(record.rest);
        let is_rest = |next: &Record| next.token == record.token && next.flags & flag::SACKED == 0;
        let end = (seq + 1..burst_end).find(|&at| !is_rest(self.board.peek(at))).unwrap_or(burst_end);
        let without = |segments: u64| self.cc.part_of_burst(&record.token, segments as u32, segments as u32 * self.mss);
        let (rest, part) = (without(seq + 1 - first), without(burst_end - end));
        self.board.set_tokens(seq + 1..end, rest);
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{FlowSetup, Traffic};
    use crate::tcp::packet::AckPacket;
    use bbrlab_core::{AlgorithmConfig, Rate};

    const MSS: u64 = 1448;

    /// A CUBIC sender just after its handshake over 100 ms, and the segments sent so far.
    fn sender() -> (Sender, Vec<Segment>) {
        sender_of("cubic")
    }

    fn sender_of(algorithm: &str) -> (Sender, Vec<Segment>) {
        sender_from(algorithm, Time::ZERO + Span::millis(100))
    }

    /// A sender whose handshake, begun at zero, ends at this time, when it sends its first flight.
    fn sender_from(algorithm: &str, now: Time) -> (Sender, Vec<Segment>) {
        let setup = FlowSetup::bulk(algorithm, AlgorithmConfig::named(algorithm).unwrap());
        let mut sender = Sender::new(0, &setup, 1);
        let mut out = Vec::new();
        sender.start(Time::ZERO, &mut out);
        out.clear();
        sender.on_syn_ack(now, &setup, Time::ZERO, &mut out);
        (sender, out)
    }

    #[test]
    fn the_socket_holds_super_packets_of_22_segments_first_and_of_45_later() {
        let (mut sender, out) = sender();
        // The handshake's last ACK and ten segments.
        assert_eq!((out.len(), sender.super_end), (1 + 10, (10 + 22) * MSS));
        sender.window = 1 << 20;
        let end_after = |sender: &mut Sender, segments: u64| {
            sender.super_end = segments * MSS;
            sender.append_super();
            sender.super_end / MSS
        };
        // 4 MiB hold 128 of the small ones, and the last of them grows.
        let ends: Vec<u64> = [2_782, 2_804, 2_849].map(|from| end_after(&mut sender, from)).to_vec();
        assert_eq!(ends, [2_804, 2_849, 2_894]);
    }

    /// The 45 segments of a super-packet count from where the application wrote into the empty queue.
    #[test]
    fn super_packets_begin_anew_with_each_request() {
        let (mut sender, _) = sender();
        (sender.una_bytes, sender.next_bytes, sender.window) = (700_000, 700_000, 1 << 20);
        sender.fill_socket();
        assert_eq!(sender.super_end, 700_000 + 45 * MSS);
    }

    /// Half of the first window is 22.6 segments, so after the first super-packet every second one is pushed. The first burst of five
    /// segments counts twice: the application extends the super-packet that it left.
    #[test]
    fn every_second_super_packet_of_the_first_window_is_pushed() {
        let (mut sender, _) = sender();
        let mut pushed = vec![sender.push_at / MSS];
        for _ in 0..8 {
            sender.append_super();
            pushed.extend((sender.push_at == sender.super_end).then_some(sender.super_end / MSS));
        }
        assert_eq!(pushed, [32, 54, 98, 142, 186]);
    }

    #[test]
    fn a_burst_is_not_deferred_where_its_super_packet_ends() {
        let (mut sender, _) = sender();
        let now = Time::ZERO + Span::millis(200); // the ACK of the first flight is due
        sender.wstamp = now;
        sender.window = 1 << 30;
        sender.board.una = 8;
        let defers = |sender: &Sender| sender.should_defer(now, 10, 8, 3, &mut false);
        assert!(defers(&sender));
        let end = std::mem::replace(&mut sender.super_end, sender.next_bytes + 2 * MSS);
        assert!(!defers(&sender));
        (sender.super_end, sender.app.written) = (end, sender.next_bytes + MSS + 1);
        assert!(defers(&sender));
        sender.app.written -= 1;
        assert!(!defers(&sender), "the last segment");
    }

    /// Linux compares `skb->tstamp`, which has nanoseconds, with the present time.
    #[test]
    fn the_wait_for_an_ack_is_expected_to_the_nanosecond() {
        let (mut sender, _) = sender_from("cubic", Time::nanos(100_000_600));
        (sender.window, sender.wstamp) = (1 << 30, Time::nanos(199_000_000));
        let defers = |now| sender.should_defer(Time::nanos(now), 10, 8, 3, &mut false);
        assert!(!defers(199_000_599), "the RTT is 100 ms, so the ACK is due more than a millisecond later");
        assert!(defers(199_000_600));
    }

    /// An ACK that was overtaken leaves the window as it is. Source: Linux `tcp_may_update_window`.
    #[test]
    fn the_window_is_that_of_the_newest_ack() {
        let (mut sender, mut out) = sender();
        let mut window = |una, window| {
            sender.on_ack(at(200), &AckPacket { una, window, ..AckPacket::default() }, &mut out);
            sender.window
        };
        let acks = [(2, 70_000), (4, 60_000), (3, 90_000), (4, 50_000), (4, 80_000)];
        assert_eq!(acks.map(|(una, bytes)| window(una, bytes)), [70_000, 60_000, 60_000, 60_000, 80_000]);
    }

    /// Packets that `tx_in_flight` loses when a SACK covers the first seven segments of a burst of eight: in the SACK's sample, and in
    /// the eighth segment's token.
    fn less_in_flight(algorithm: &str, is_behind_sacked: bool) -> (u32, u32) {
        let (mut sender, _) = sender_of(algorithm);
        let token = sender.token(sender.board.next - 1);
        let first = sender.board.next;
        for nth in 0..8 {
            sender.board.push(token, 0, 1448, 7 - nth);
        }
        if is_behind_sacked {
            sender.board.mark_sacked(first - 1);
        }
        let packets = |token: PacketToken, whole: &PacketToken| whole.tx_in_flight() - token.tx_in_flight();
        let reported = sender.sacked_token(first + 6, &(first..first + 7));
        let unit = if algorithm == "bbr3" { 1448 } else { 1 };
        (packets(reported, &token) / unit, packets(sender.token(first + 7), &token) / unit)
    }

    #[test]
    fn a_burst_split_by_a_sack_keeps_linuxs_count_in_flight() {
        assert_eq!(less_in_flight("bbr3-linux", false), (1, 0), "tcp_fragment");
        assert_eq!(less_in_flight("bbr3-linux", true), (0, 7), "tcp_shifted_skb");
        assert_eq!(less_in_flight("bbr3", false), (1, 0));
        assert_eq!(less_in_flight("bbr3", true), (1, 0), "the draft joins nothing");
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::millis(ms)
    }

    /// Linux's `tcp_nagle_check` with an application that writes 2,000 bytes at a time.
    #[test]
    fn a_short_segment_waits_while_another_one_is_outstanding() {
        let mut setup = FlowSetup::bulk("cubic", AlgorithmConfig::named("cubic").unwrap());
        setup.traffic = Traffic::Rate { rate: Rate::bits_per_sec(1_600_000), tick: Span::millis(10), unit: 1 };
        let mut sender = Sender::new(0, &setup, 1);
        let mut lengths = |step: fn(&mut Sender, &FlowSetup, &mut Vec<Segment>)| {
            let mut out = Vec::new();
            step(&mut sender, &setup, &mut out);
            out.iter().filter(|segment| segment.len > 0).map(|segment| segment.len).collect::<Vec<_>>()
        };
        lengths(|sender, _, out| sender.start(at(0), out));
        let first = lengths(|sender, setup, out| {
            sender.on_syn_ack(at(100), setup, at(0), out);
        });
        assert_eq!(first, [1448, 552]);
        assert_eq!(lengths(|sender, _, out| sender.on_time(at(110), out)), [1448]);
        assert_eq!(lengths(|sender, _, out| sender.on_time(at(120), out)), [1448]);
    }

    /// Payloads sent into a window with room for one segment and 100 bytes.
    fn lengths(written: u64, short_end: u64) -> Vec<u16> {
        let (mut sender, _) = sender();
        sender.app.written = written;
        sender.board.una = sender.board.next - 1;
        sender.una_bytes = sender.next_bytes - MSS;
        sender.window = 2 * MSS + 100;
        sender.short_end = short_end;
        let mut out = Vec::new();
        sender.wstamp = at(100);
        sender.write(at(200), u32::MAX, &mut out);
        out.iter().map(|segment| segment.len).collect()
    }

    /// A segment that fits the receive window only in part is sent short, unless a short one is outstanding. Source: Linux
    /// `tcp_mss_split_point`.
    #[test]
    fn a_window_is_filled_to_its_last_byte() {
        assert_eq!(lengths(1 << 20, 0), [1448, 100]);
        assert_eq!(lengths(1 << 20, 10 * MSS), [1448]);
    }
}
