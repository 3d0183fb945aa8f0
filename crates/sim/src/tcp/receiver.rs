//! The Linux-like receiver: in-order delivery, SACK and DSACK, delayed and quick ACKs, SACK compression, GRO, window.
//! Spec: RFC 2018, RFC 2883, RFC 3168; Linux 6.12 `tcp_input.c`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod delay;
mod ecn;
mod handshake;
mod window;

use std::collections::VecDeque;

use bbrlab_core::{Span, Time};

use super::packet::{AckPacket, SACK_BLOCKS, Segment, mark};
use super::quic::QuicReceiver;
use super::timers::{TICK, fires_at};
use super::undo::stamp;
use crate::setup::{AckEvery, HostSetup, Rwnd};
use delay::AckDelay;
use ecn::Ecn;
use window::Window;

/// ACKs sent immediately after a long gap in the data or a duplicate. Source: Linux `TCP_MAX_QUICKACKS`.
const QUICK_ACKS: u32 = 16;
/// ACKs sent immediately at the start, where the first segment also makes the window grow. Source: Linux `tcp_grow_window`.
const QUICK_ACKS_FIRST: u32 = QUICK_ACKS | 1;
/// Duplicate ACKs sent before compression begins. Source: Linux `TCP_FASTRETRANS_THRESH`.
const DUP_ACKS_UNCOMPRESSED: u32 = 3;
/// Maximum number of ACKs held back by compression. Source: Linux `tcp_comp_sack_nr`.
const COMPRESSED_MAX: u32 = 44;
/// Longest time for which compression holds an ACK. Source: Linux `tcp_comp_sack_delay_ns`.
const COMPRESSION_MAX: Span = Span::millis(1);
/// Slack that the kernel may add, and does add unless another event wakes it. Source: Linux `tcp_comp_sack_slack_ns`.
const COMPRESSION_SLACK: Span = Span::micros(100);
/// Blocks that a compressed ACK can still report; beyond them an ACK is sent first. Source: Linux `TCP_SACK_BLOCKS_EXPECTED`.
const SACK_BLOCKS_EXPECTED: usize = 2;

/// Receiving end of a flow.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Next segment expected in order.
    pub next: u64,
    /// Ranges that arrived out of order, sorted and disjoint.
    ranges: VecDeque<(u64, u64)>,
    /// The blocks reported most recently, newest first; each lies within a range.
    recent: [(u64, u64); SACK_BLOCKS + 1],
    recent_len: usize,
    /// Unique payload bytes that arrived.
    pub bytes: u64,
    /// Wire bytes that arrived, duplicates included.
    pub wire_bytes: u64,
    /// Segments that arrived more than once.
    pub duplicates: u64,
    /// In-order payload bytes.
    pub in_order_bytes: u64,
    mss: u64,
    unacked_bytes: u64,
    /// True if the application reads all available data immediately.
    is_prompt: bool,
    quick: u32,
    /// Fixed delay of ACKs; without it, Linux's.
    pub(super) delayed_ack: Option<Span>,
    delay: AckDelay,
    /// Acknowledgement frequency, in place of Linux's rules.
    pub(super) rule: Option<AckEvery>,
    /// One past the highest segment that arrived.
    highest: u64,
    pub(super) ack_at: Time,
    /// Expiry of the kernel's delayed-ACK timer, which an earlier ACK does not stop.
    delack_fires_at: Time,
    compress_at: Time,
    compressed: u32,
    dup_acks: u32,
    compressed_for: u64,
    /// RTT of the handshake, this host's only sample.
    srtt: Span,
    /// Time of the SYN-ACK that the sender answers.
    syn_acked: Time,
    /// Times of each SYN and of its SYN-ACK.
    syn_acks: Vec<(Time, Time)>,
    is_established: bool,
    /// True if data completed the handshake, because the packet before it was lost.
    is_opened_by_data: bool,
    gro: Option<Span>,
    gro_at: Time,
    gro_wants: AckDecision,
    ts_recent: Time,
    /// Duplicate segment that the next ACK reports, unless more data arrives before.
    // spec: Linux tcp_dsack_set, tcp_data_queue
    dsack: Option<u64>,
    /// Next expected segment in the last ACK. Source: Linux `rcv_wup`.
    acknowledged: u64,
    pub(super) fresh: u32,
    pub(super) ecn: Ecn,
    pub(super) window: Window,
    /// Right edge of the advertised window, in bytes from the start; kept while data is missing.
    window_edge: u64,
    /// True under Linux's default rules: no ECN, GRO, autotuning or rule of its own.
    has_default_rules: bool,
    /// True if those hold and data has arrived, so that what is next in order is never the handshake's.
    takes_fast_path: bool,
    /// Payload lengths of out-of-order segments that differ from the MSS: (segment, bytes).
    short: Vec<(u64, u16)>,
    /// State of QUIC, if that is its transport; its rules then replace all others.
    pub(super) quic: Option<Box<QuicReceiver>>,
}

/// ACK required by an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AckDecision {
    Nothing,
    Delayed,
    Compressed,
    Now,
}

impl Receiver {
    /// Creates a receiver.
    pub fn new(mss: u32, rwnd: Rwnd, is_prompt: bool, host: &HostSetup) -> Self {
        let quic = host.transport.is_quic().then(Box::default);
        let rule = host.ack.or(host.transport.ack());
        let rwnd = match rwnd {
            Rwnd::Auto(limit) if quic.is_some() => Rwnd::Fixed(limit),
            rwnd => rwnd,
        };
        Self {
            next: 0,
            ranges: VecDeque::new(),
            recent: [(0, 0); SACK_BLOCKS + 1],
            recent_len: 0,
            bytes: 0,
            wire_bytes: 0,
            duplicates: 0,
            in_order_bytes: 0,
            mss: u64::from(mss),
            unacked_bytes: 0,
            is_prompt,
            quick: QUICK_ACKS_FIRST,
            delayed_ack: rule.map_or(host.delayed_ack, |rule| Some(rule.delay)),
            delay: AckDelay::new(),
            rule,
            highest: 0,
            ack_at: Time::NEVER,
            delack_fires_at: Time::ZERO,
            compress_at: Time::NEVER,
            compressed: 0,
            dup_acks: 0,
            compressed_for: 0,
            srtt: Span::millis(1),
            syn_acked: Time::ZERO,
            syn_acks: Vec::new(),
            is_established: false,
            is_opened_by_data: false,
            gro: host.gro,
            gro_at: Time::NEVER,
            gro_wants: AckDecision::Nothing,
            ts_recent: Time::ZERO,
            dsack: None,
            acknowledged: 0,
            fresh: 0,
            ecn: Ecn::new(host),
            window: Window::new(rwnd, mss.into()),
            window_edge: 0,
            has_default_rules: !host.ecn && host.gro.is_none() && rule.is_none() && !matches!(rwnd, Rwnd::Auto(_)),
            takes_fast_path: false,
            short: Vec::new(),
            quic,
        }
    }

    /// Expiry of its next timer.
    pub fn next_time(&self) -> Time {
        self.ack_at.min(self.compress_at).min(self.gro_at)
    }

    /// Processes a segment and pushes the ACKs that are due now.
    #[inline]
    pub fn on_segment(&mut self, now: Time, segment: &Segment, acks: &mut Vec<AckPacket>) {
        // Most segments are the next in order, with nothing missing.
        if segment.seq == self.next && self.ranges.is_empty() && self.takes_fast_path && segment.sent >= self.ts_recent
        {
            self.take_in_order(now, segment, acks);
        } else {
            self.take_any(now, segment, acks);
        }
    }

    /// Does the work of [`Self::take_any`] for such a segment.
    #[inline(always)] // runs for most segments
    fn take_in_order(&mut self, now: Time, segment: &Segment, acks: &mut Vec<AckPacket>) {
        let len = u64::from(segment.len);
        self.wire_bytes += u64::from(crate::link::LinkPacket::wire_bytes(segment));
        if segment.seq <= self.acknowledged {
            self.ts_recent = segment.sent;
        }
        self.note_in_order(now);
        self.bytes += len;
        self.fresh += 1;
        self.next += 1;
        self.unacked_bytes += len;
        self.in_order_bytes += len;
        let want = if self.must_ack_now(segment) { AckDecision::Now } else { AckDecision::Delayed };
        self.decide(now, want, acks);
    }

    /// True if data received in order is acknowledged at once. An application that empties the socket triggers an ACK of
    /// pushed data: Linux `tcp_cleanup_rbuf`.
    #[inline]
    fn must_ack_now(&self, segment: &Segment) -> bool {
        let is_taken = self.is_prompt && (segment.marks & mark::PUSH != 0 || u64::from(segment.len) < self.mss);
        self.quick > 0 || self.unacked_bytes > self.mss || is_taken
    }

    #[inline(never)]
    fn take_any(&mut self, now: Time, segment: &Segment, acks: &mut Vec<AckPacket>) {
        self.wire_bytes += u64::from(crate::link::LinkPacket::wire_bytes(segment));
        if segment.marks & mark::SYN != 0 {
            acks.push(self.syn_ack(now, segment));
            return;
        }
        self.complete_handshake(now, segment);
        if segment.marks & mark::BARE != 0 {
            return;
        }
        if self.quic.is_some() {
            self.take_packet(now, segment, acks);
            return;
        }
        // RFC 7323 §5: a segment older than the newest timestamp of the left edge, in Linux by more than a tick, is refused. When
        // a retransmission arrives, this includes late segments sent before it.
        // spec: Linux tcp_paws_discard, TCP_PAWS_WINDOW, tcp_send_dupack
        // The first comparison spares most segments the divisions.
        let is_older = segment.sent < self.ts_recent && stamp(segment.sent) < stamp(self.ts_recent);
        if is_older && stamp(segment.sent) + 1 < stamp(self.ts_recent) {
            self.duplicates += 1; // refused, so its data arrives in another copy
            self.clear_timers();
            let is_old = segment.seq < self.next;
            if is_old {
                self.acknowledge_quickly();
            }
            acks.push(self.make_ack(is_old.then_some(segment.seq)));
            return;
        }
        // RFC 7323 §4.3: only a segment at the edge of the acknowledged data sets the echoed timestamp. One that ends before the
        // edge is discarded without, so that the RTT of a late ACK for it counts from the last segment in order.
        // spec: Linux tcp_sequence, tcp_replace_ts_recent
        if segment.seq <= self.acknowledged && segment.seq + 1 >= self.acknowledged && !is_older {
            self.ts_recent = segment.sent;
        }
        let (before, arrived) = self.ranges_from(segment.seq);
        // One that ends before the acknowledged data is discarded. spec: Linux tcp_sequence
        let is_discarded = segment.seq + 1 < self.acknowledged;
        let want = if is_discarded { AckDecision::Nothing } else { self.note_ecn(segment, acks) };
        self.dsack = None;
        let is_again = segment.seq < arrived;
        if is_again {
            self.duplicates += 1;
            self.dsack = Some(segment.seq);
        }
        if is_again && (segment.seq < self.next || self.rule.is_some()) {
            if segment.seq < self.next {
                self.acknowledge_quickly();
            }
            self.clear_timers();
            acks.push(self.make_ack(None));
            return;
        }
        let hides = self.rule.is_none() && self.compressed > 0 && self.would_hide_a_block(segment.seq);
        if hides {
            self.clear_timers();
            acks.push(self.make_ack(None));
        }
        if self.window.grow(now, segment.sent, self.mss, self.bytes - self.in_order_bytes) {
            self.quick |= 1;
        }
        let taken = if is_again {
            self.report(segment.seq);
            self.want_out_of_order()
        } else {
            self.take(now, segment, before)
        };
        // The ACK just sent counts for this segment too, though it does not report it (`tcp_ack_snd_check`).
        let want = match self.rule {
            Some(rule) => self.want_by_rule(rule, segment),
            None => want.max(if hides { AckDecision::Nothing } else { taken }),
        };
        self.window.adjust(now, self.in_order_bytes, self.mss);
        if let Some(wait) = self.gro {
            self.gro_wants = self.gro_wants.max(want);
            if self.gro_at == Time::NEVER {
                self.gro_at = now + wait;
            }
            return;
        }
        self.decide(now, want, acks);
    }

    /// Handles its timer and pushes an ACK if one is due.
    pub fn on_timer(&mut self, now: Time, acks: &mut Vec<AckPacket>) {
        if self.gro_at <= now {
            self.gro_at = Time::NEVER;
            let want = std::mem::replace(&mut self.gro_wants, AckDecision::Nothing);
            self.decide(now, want, acks);
        } else if self.ack_at <= now || self.compress_at <= now {
            if self.ack_at <= now {
                self.delay.on_expiry(self.srtt);
            }
            self.clear_timers();
            let ack = self.make_quic_ack().unwrap_or_else(|| self.make_ack(None));
            acks.push(ack);
        }
    }

    /// True if this segment would push an unreported block of the compressed ACK out of the list.
    // spec: Linux tcp_sack_new_ofo_skb
    fn would_hide_a_block(&self, seq: u64) -> bool {
        if seq == self.next || self.recent_len < SACK_BLOCKS_EXPECTED {
            return false;
        }
        !self.recent[..SACK_BLOCKS_EXPECTED].iter().any(|range| range.0 <= seq + 1 && seq <= range.1)
    }

    pub(super) fn clear_timers(&mut self) {
        self.ack_at = Time::NEVER;
        self.compress_at = Time::NEVER;
        self.compressed = 0;
    }

    /// Number of ranges that begin at or before a segment, with the end of the last one or of the in-order data. Most segments
    /// lie past the last range, or before the first.
    fn ranges_from(&self, seq: u64) -> (usize, u64) {
        if seq <= self.next {
            return (0, self.next);
        }
        match self.ranges.back() {
            None => (0, self.next),
            Some(last) if last.0 <= seq => (self.ranges.len(), last.1),
            Some(_) => {
                let before = self.ranges.partition_point(|range| range.0 <= seq);
                (before, before.checked_sub(1).map_or(self.next, |at| self.ranges[at].1))
            }
        }
    }

    /// Stores a new segment, before which `before` ranges begin. Returns the urgency of its ACK.
    // spec: Linux __tcp_ack_snd_check
    fn take(&mut self, now: Time, segment: &Segment, before: usize) -> AckDecision {
        self.takes_fast_path = self.has_default_rules;
        let is_first = self.bytes == 0;
        self.bytes += u64::from(segment.len);
        self.fresh += 1;
        if segment.seq != self.next {
            if self.in_order_bytes == 0 {
                self.open_out_of_order(is_first);
            }
            if u64::from(segment.len) != self.mss {
                self.short.push((segment.seq, segment.len));
            }
            if self.ranges.is_empty() {
                self.window_edge = (self.in_order_bytes - self.unacked_bytes).saturating_add(self.window.now);
            }
            self.insert(segment.seq, before);
            return self.want_out_of_order();
        }
        self.note_in_order(now);
        self.next += 1;
        self.unacked_bytes += u64::from(segment.len);
        self.in_order_bytes += u64::from(segment.len);
        let mut filled = false;
        if let Some(&(start, end)) = self.ranges.front()
            && start == self.next
        {
            filled = true;
            self.ranges.pop_front();
            self.absorb(start, end);
        }
        if filled && self.ranges.is_empty() || self.must_ack_now(segment) {
            AckDecision::Now
        } else if self.ranges.is_empty() {
            AckDecision::Delayed
        } else {
            self.want_out_of_order()
        }
    }

    /// Requires an ACK per `rule.packets` packets, and immediately where packets are missing or late. A retransmission counts
    /// as an ordinary packet, since QUIC gives it a new number.
    // spec: RFC 9000 §13.2.1, §13.2.2
    fn want_by_rule(&mut self, rule: AckEvery, segment: &Segment) -> AckDecision {
        let is_again = segment.marks & mark::RETRANSMIT != 0;
        let is_odd = segment.seq > self.highest || (segment.seq < self.highest && !is_again);
        self.highest = self.highest.max(segment.seq + 1);
        if is_odd || self.fresh >= rule.packets { AckDecision::Now } else { AckDecision::Delayed }
    }

    /// Moves the data behind a filled hole to the in-order data.
    fn absorb(&mut self, start: u64, end: u64) {
        self.next = end;
        let mut bytes = (end - start) * self.mss;
        let mss = self.mss;
        self.short.retain(|&(seq, len)| {
            if seq < end {
                bytes -= mss - u64::from(len);
            }
            seq >= end
        });
        self.unacked_bytes += bytes;
        self.in_order_bytes += bytes;
        // spec: Linux tcp_sack_remove
        let mut kept = 0;
        for at in 0..self.recent_len {
            if self.recent[at].0 >= end {
                self.recent[kept] = self.recent[at];
                kept += 1;
            }
        }
        self.recent_len = kept;
    }

    /// Sends the first duplicate ACKs immediately and compresses later ones.
    fn want_out_of_order(&mut self) -> AckDecision {
        if self.quick > 0 {
            return AckDecision::Now;
        }
        if self.compressed_for != self.next {
            self.compressed_for = self.next;
            self.dup_acks = 0;
        }
        if self.dup_acks < DUP_ACKS_UNCOMPRESSED {
            self.dup_acks += 1;
            return AckDecision::Now;
        }
        if self.compressed >= COMPRESSED_MAX { AckDecision::Now } else { AckDecision::Compressed }
    }

    #[inline]
    fn decide(&mut self, now: Time, want: AckDecision, acks: &mut Vec<AckPacket>) {
        match want {
            AckDecision::Nothing => {}
            AckDecision::Now => {
                self.clear_timers();
                acks.push(self.make_ack(None));
            }
            AckDecision::Delayed => {
                self.ack_at = self.ack_at.min(self.delayed_until(now));
                self.delack_fires_at = self.ack_at;
            }
            AckDecision::Compressed => {
                self.compressed += 1;
                if self.compress_at == Time::NEVER {
                    self.compress_at =
                        now + Span::nanos(self.srtt.as_nanos() / 20).min(COMPRESSION_MAX) + COMPRESSION_SLACK;
                    // That timer is never stopped and sends the compressed ACK: Linux `tcp_delack_timer_handler`.
                    if self.delack_fires_at > now {
                        self.compress_at = self.compress_at.min(self.delack_fires_at);
                    }
                }
            }
        }
    }

    /// Notes the arrival of a segment in order.
    #[inline]
    fn note_in_order(&mut self, now: Time) {
        if self.delay.on_in_order(now, self.srtt) {
            self.quick = self.quick.max(QUICK_ACKS);
        }
    }

    /// Sends the next ACKs at once.
    fn acknowledge_quickly(&mut self) {
        self.quick = self.quick.max(QUICK_ACKS);
        self.delay.reset();
    }

    /// Expiry of a delayed ACK. The kernel waits for whole ticks; a delay that is no multiple of a tick is kept as it is.
    fn delayed_until(&self, now: Time) -> Time {
        let Some(wait) = self.delayed_ack else {
            return self.delay.until(now, self.srtt);
        };
        if self.rule.is_none() && wait > Span::ZERO && wait.as_nanos().is_multiple_of(TICK.as_nanos()) {
            fires_at(now, wait)
        } else {
            now + wait
        }
    }

    fn make_ack(&mut self, dsack: Option<u64>) -> AckPacket {
        if self.quick > 0 {
            self.quick -= 1;
            if self.quick == 0 {
                self.delay.reset();
            }
        }
        let pending = self.dsack.take();
        let dsack = dsack.or(pending);
        let window = if self.ranges.is_empty() { self.window.now } else { self.window_beside_ranges() };
        self.unacked_bytes = 0;
        self.acknowledged = self.next;
        let mut ack = AckPacket {
            una: self.next,
            dsack,
            ts_echo: self.ts_recent,
            window,
            fresh: std::mem::take(&mut self.fresh),
            ece: self.ecn.echo,
            ce: self.ecn.ce,
            marks: self.ecn.ack_marks,
            ..AckPacket::default()
        };
        // A DSACK replaces one block.
        let room = SACK_BLOCKS - usize::from(dsack.is_some());
        for (slot, (from, to)) in ack.sack.iter_mut().zip(&self.recent[..self.recent_len.min(room)]) {
            *slot = ((from - self.next) as u32, (to - self.next) as u32);
        }
        ack
    }

    /// Window while data out of order occupies the buffer. Its right edge does not move back.
    // spec: Linux tcp_select_window, __tcp_select_window
    #[cold]
    fn window_beside_ranges(&mut self) -> u64 {
        let (free, is_scarce) = self.window.beside(self.bytes - self.in_order_bytes, self.mss);
        if is_scarce {
            self.quick = 0;
        }
        self.window_edge = self.window_edge.max(self.in_order_bytes.saturating_add(free));
        self.window_edge - self.in_order_bytes
    }

    /// Inserts a segment into the ranges, merges neighbours, and reports it first.
    fn insert(&mut self, seq: u64, at: usize) {
        // Most segments follow the previous one.
        if let Some(last) = self.ranges.back_mut()
            && self.recent_len > 0
            && (last.1, self.recent[0].1) == (seq, seq)
        {
            last.1 += 1;
            self.recent[0].1 = last.1;
            return;
        }
        let joins_left = at > 0 && self.ranges[at - 1].1 == seq;
        let joins_right = at < self.ranges.len() && self.ranges[at].0 == seq + 1;
        match (joins_left, joins_right) {
            (true, true) => {
                self.ranges[at - 1].1 = self.ranges[at].1;
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at - 1].1 = seq + 1,
            (false, true) => self.ranges[at].0 = seq,
            (false, false) => self.ranges.insert(at, (seq, seq + 1)),
        }
        self.report(seq);
    }

    /// Moves the block that a segment extends to the front, or begins one there. Only the listed blocks count: neighbours that
    /// have left the list are not joined.
    // spec: Linux tcp_sack_new_ofo_skb, tcp_sack_maybe_coalesce
    fn report(&mut self, seq: u64) {
        let touches = |one: (u64, u64), other: (u64, u64)| one.0 <= other.1 && other.0 <= one.1;
        let mut block = (seq, seq + 1);
        let listed = &mut self.recent[..self.recent_len];
        let Some(at) = listed.iter().position(|&one| touches(one, block)) else {
            let kept = self.recent_len.min(SACK_BLOCKS);
            self.recent.copy_within(0..kept, 1);
            self.recent[0] = block;
            self.recent_len = kept + 1;
            return;
        };
        listed[..=at].rotate_right(1);
        let mut kept = 1;
        for at in 0..listed.len() {
            let one = listed[at];
            if touches(one, block) {
                block = (block.0.min(one.0), block.1.max(one.1));
            } else {
                listed[kept] = one;
                kept += 1;
            }
        }
        listed[0] = block;
        self.recent_len = kept;
    }
}

#[cfg(test)]
mod tests;
