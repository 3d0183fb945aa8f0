//! ACK processing at the sender: SACK, cumulative ACK, congestion states, F-RTO, undo.
//! No ACK costs a scan over the window.
//! Spec: RFC 6675 (scoreboard), RFC 5682 (F-RTO), RFC 4015 (Eifel); Linux 6.12 `tcp_input.c`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ops::Range;

use bbrlab_core::{AckBatch, AckInfo, AckRtt, CaState, Span, Time};

use super::packet::{AckPacket, SACK_BLOCKS, Segment};
use super::scoreboard::flag;
use super::sender::Sender;
use super::undo::{rtt_by_stamp, stamp};

/// Linux `tcp_reordering`: above it, loss-based windows may grow on any forward progress.
const REORDERING: u32 = 3;

/// Flags collected from one ACK (`flag` in Linux's `tcp_ack`).
#[derive(Clone, Copy, Debug, Default)]
struct AckFlags {
    /// The cumulative ACK advanced.
    advanced: bool,
    /// Segments newly acknowledged in sequence.
    acked: u32,
    /// Segments newly SACKed.
    sacked: u32,
    /// A never retransmitted segment was delivered.
    original: bool,
    /// A retransmitted segment was acknowledged in sequence.
    retransmitted: bool,
    /// The receiver reported a duplicate retransmission (DSACK).
    dsack: bool,
    /// The duplicate was the tail loss probe's.
    dsack_probe: bool,
    ece: bool,
    /// First once-sent segment in sequence that arrived after later ones.
    late: Option<u64>,
    /// Send times (µs) of the oldest and newest once-sent segments acknowledged in sequence.
    acked_sent: Option<(u64, u64)>,
    /// Send times (µs) of the oldest and newest once-sent segments SACKed.
    sacked_sent: Option<(u64, u64)>,
    /// True if the only segment acknowledged is shorter than the MSS.
    short_only: bool,
    /// The reordering timer was set, so no other timer is.
    keep_timer: bool,
    /// True if this ACK must not cause retransmissions, because the segments marked lost may only be reordered.
    keeps_lost: bool,
    /// F-RTO: new data is sent next.
    new_data_first: bool,
}

impl Sender {
    /// Processes an ACK. Returns the RTT of the newest once-sent segment that it delivers. The timestamp option's substitute
    /// has a resolution of a millisecond, so only the estimators use it.
    // spec: Linux tcp_ack
    pub fn on_ack(&mut self, now: Time, ack: &AckPacket, out: &mut Vec<Segment>) -> Option<Span> {
        if self.quic.is_some() {
            return self.on_quic_ack(now, ack, out);
        }
        self.check_app_limited_broadly();
        let mut seen = AckFlags { ece: ack.ece && self.ecn, ..AckFlags::default() };
        let mut marked = 0;
        if self.has_accurate_ecn {
            // An ACK that was overtaken reports fewer.
            let newly = ack.ce.wrapping_sub(self.ce);
            if newly > 0 && newly < 1 << 31 {
                (self.ce, marked, seen.ece) = (ack.ce, u64::from(newly), true);
            }
        }
        let mut batch = self.cc.begin_ack(now);
        let prior_in_flight = self.flight();
        let prior_sacked = self.board.sacked_out;
        // This ACK's own SACKs are no evidence that the segments it acknowledges were reordered.
        let prior_highest = self.board.highest_sacked;
        let prior_una = self.board.una;
        if let Some(seq) = ack.dsack {
            self.take_dsack(now, seq, &mut seen);
        }
        if ack.sack[0] != (0, 0) {
            self.take_sack(now, ack, &mut seen, &mut batch);
        }
        if seen.late.is_some() && (self.cc.ca_state() != CaState::Loss || self.undo_marker.is_some()) {
            self.check_reordering(seen.late);
        }
        self.take_cumulative(now, ack, prior_highest, &mut seen, &mut batch);
        let open = self.cc.on_delivered(batch);
        let delivered = open.packets();
        if self.rack.is_window_due() {
            let sampler = self.cc.sampler();
            if let Some(prior) = sampler.newest_delivered_before() {
                self.rack.update_window(sampler.delivered(), prior);
            }
        }
        // spec: Linux tcp_may_update_window
        if ack.una > prior_una || ack.una == prior_una && ack.window > self.window {
            self.window = ack.window;
        }
        let (rtt, rtt_oldest) = self.rtt_samples(now, ack, &seen);
        if let Some(rtt) = rtt {
            self.min_rtt_us = self.min_rtt_us.min(rtt.as_micros().max(1));
        }
        if rtt_oldest.is_some() {
            self.backoff = 0;
        }
        let mut info = AckInfo::NONE;
        info.rtt = AckRtt::Measured { newest: rtt, oldest: rtt_oldest };
        info.una_next = Some((self.board.una, self.board.next));
        info.is_ack_delayed = seen.short_only && prior_sacked == 0 && delivered == 1;
        // The timers below use it.
        self.cc.on_rtt(&open, &info);
        info.rtt = AckRtt::Taken { newest: rtt };
        // spec: Linux 7.3 tcp_count_delivered, tcp_in_ack_event
        if seen.ece {
            let packets = if self.has_accurate_ecn { marked.min(delivered.max(1)) } else { delivered };
            self.cc.on_congestion_mark(now, packets);
            self.cc.on_marked_round(self.board.una, self.board.next);
        }
        if self.tlp_high_seq.is_some() {
            self.process_tlp(now, ack, &seen);
        }
        let dubious =
            seen.sacked > 0 || seen.dsack || seen.ece || self.cc.ca_state() != CaState::Open || seen.acked == 0;
        if dubious {
            self.fast_retransmit_alert(now, ack, prior_una, &mut seen);
        }
        let progress_before_head = seen.acked == 0 && self.sacked_before_head(&seen);
        if (seen.acked > 0 || progress_before_head) && !seen.keep_timer && !self.schedule_loss_probe(now, true) {
            self.rearm_rto(now);
        }
        let progress = seen.acked > 0 || seen.sacked > 0;
        info = info.with_edt(self.edt()).with_cwnd_limited(self.cwnd_limited());
        info.in_flight = Some((prior_in_flight, self.flight()));
        info.packets_out = Some(self.board.packets_out());
        info.is_duplicate = !seen.advanced;
        let may_raise_cwnd = if self.rack.reordering > REORDERING { progress } else { seen.acked > 0 };
        if may_raise_cwnd && !matches!(self.cc.ca_state(), CaState::Cwr | CaState::Recovery) {
            self.cwnd_stamp = now; // Linux tcp_cong_avoid
        }
        info.may_raise_cwnd = Some(may_raise_cwnd);
        info.is_unpaced = self.pacing_rate().is_none();
        if self.steered.is_none() {
            self.cc.on_ack(open, &info);
        } else {
            // The sample of this ACK ends with it.
            let before = self.cc.sampler().newest_delivered_before();
            self.cc.on_ack(open, &info);
            self.steer(now, rtt, delivered, before);
        }
        if seen.new_data_first && self.write(now, u32::MAX, out) == 0 {
            self.frto = false; // nothing may be sent that could decide it
        }
        if seen.keeps_lost {
            self.write(now, u32::MAX, out);
        } else if !(seen.new_data_first && self.frto) {
            self.pump(now, out);
        }
        if seen.keeps_lost || seen.new_data_first {
            self.run_fq(now, out);
        }
        rtt.filter(|_| seen.sacked_sent.is_some() || seen.acked_sent.is_some() && !seen.retransmitted)
    }

    /// True if a SACKed segment left before the oldest segment's newest transmission. The path still delivers, so that one may arrive too.
    fn sacked_before_head(&self, seen: &AckFlags) -> bool {
        let Some((first_us, _)) = seen.sacked_sent else {
            return false;
        };
        self.board.packets_out() > 0 && self.token(self.board.una).send_us() > first_us
    }

    /// Processes a DSACK. Duplicates made by the network are distinguished from retransmissions by count alone.
    // spec: Linux tcp_check_dsack, tcp_dsack_seen, tcp_sacktag_one
    #[inline(never)] // rare, and the common path should not carry its registers
    fn take_dsack(&mut self, now: Time, seq: u64, seen: &mut AckFlags) {
        self.duplicates += 1;
        if self.duplicates > self.stats.retransmits + u64::from(self.syn_tries.saturating_sub(1)) {
            return;
        }
        seen.dsack = true;
        seen.dsack_probe = self.tlp_high_seq == Some(seq + 1);
        // Without reordering RACK cannot have been too early, and it does not send the probe.
        if self.rack.reordering_seen && !seen.dsack_probe {
            self.rack.on_dsack();
        }
        let mss = u64::from(self.mss);
        self.cc.on_delivered_again(now, 1, mss);
        let is_old = seq < self.board.una;
        let flags = if is_old { flag::EVER_RETRANS } else { self.board.peek(seq).flags };
        if flags & (flag::RETRANS | flag::EVER_RETRANS) == 0 {
            return;
        }
        if self.undo_marker.is_some_and(|marker| seq >= marker) && self.undo_retrans > 0 {
            self.undo_retrans -= 1;
        }
        if is_old {
            return;
        }
        if flags & flag::SACKED != 0 {
            seen.late = Some(seen.late.map_or(seq, |late| late.min(seq)));
        }
        self.board.unmark_retransmitted(seq);
    }

    // spec: Linux tcp_sacktag_write_queue
    #[inline(never)]
    fn take_sack(&mut self, now: Time, ack: &AckPacket, seen: &mut AckFlags, batch: &mut AckBatch) {
        // Sorted by sequence, since otherwise a new lower block in the same ACK would look like reordering.
        let mut blocks = ack.sack;
        for (left, right) in [(0, 1), (1, 2), (0, 1)] {
            if blocks[right] < blocks[left] {
                blocks.swap(left, right);
            }
        }
        let mut known = [(0, 0); SACK_BLOCKS];
        for (place, ((from, to), known)) in blocks.into_iter().zip(&mut known).enumerate() {
            if from >= to {
                continue;
            }
            let from = (ack.una + u64::from(from)).max(self.board.una);
            let to = (ack.una + u64::from(to)).min(self.board.next);
            *known = (from, to);
            let mut at = self.board.skip_known(place, from);
            let mut run = at..to;
            while let Some(seq) = self.board.next_unsacked(at, to) {
                if seq > at {
                    run.start = seq;
                }
                at = if self.board.peek(seq).flags == 0 {
                    self.sack_plain(now, seq, &run, seen, batch)
                } else {
                    self.sack_one(now, seq, &run, seen, batch);
                    seq + 1
                };
            }
        }
        self.board.set_known(known);
    }

    /// SACKs the unmarked segments from `first` on of a run: sent once and in order, so the last is the newest. Returns their end.
    #[inline(never)]
    fn sack_plain(
        &mut self,
        now: Time,
        first: u64,
        run: &Range<u64>,
        seen: &mut AckFlags,
        batch: &mut AckBatch,
    ) -> u64 {
        let highest = self.board.highest_sacked;
        let first_us = self.token(first).send_us();
        let (segments, bytes) = self.board.sack_plain(first, run.end);
        let last = first + segments - 1;
        if first < highest {
            seen.late = Some(seen.late.map_or(first, |late| late.min(first)));
        }
        seen.original |= first < self.high_seq;
        let token = self.sacked_token(last, run);
        widen(&mut seen.sacked_sent, first_us, token.send_us());
        self.rack.advance(now, token.send_us(), last, false, self.min_rtt_us);
        batch.delivered_run(segments, bytes, &token, last);
        self.stats.acked_bytes += bytes;
        seen.sacked += segments as u32;
        last + 1
    }

    /// Updates the reordering extent for a once-sent segment that arrived after later ones, as far as the SACKs reach.
    // spec: Linux tcp_check_sack_reordering
    #[inline]
    pub(super) fn check_reordering(&mut self, late: Option<u64>) {
        let highest = self.board.highest_sacked.max(self.board.una);
        if let Some(late) = late.filter(|late| *late < highest) {
            self.rack.on_reordering(highest - late);
        }
    }

    #[inline(never)]
    fn sack_one(&mut self, now: Time, seq: u64, run: &Range<u64>, seen: &mut AckFlags, batch: &mut AckBatch) {
        let (token, len) = (self.sacked_token(seq, run), u64::from(self.board.peek(seq).len));
        let highest = self.board.highest_sacked;
        let flags = self.board.mark_sacked(seq);
        let sent_us = token.send_us();
        let ever = flags & flag::EVER_RETRANS != 0;
        if !ever {
            if seq < highest {
                seen.late = Some(seen.late.map_or(seq, |late| late.min(seq)));
            }
            if seq < self.high_seq {
                seen.original = true;
            }
            widen(&mut seen.sacked_sent, sent_us, sent_us);
        }
        self.rack.advance(now, sent_us, seq, ever, self.min_rtt_us);
        batch.delivered_run(1, len, &token, seq);
        self.stats.acked_bytes += len;
        seen.sacked += 1;
    }

    // spec: Linux tcp_clean_rtx_queue
    fn take_cumulative(&mut self, now: Time, ack: &AckPacket, highest: u64, seen: &mut AckFlags, batch: &mut AckBatch) {
        let una = ack.una.min(self.board.next);
        if una <= self.board.una {
            return;
        }
        seen.advanced = true;
        self.retransmits_in_row = 0;
        let mut newest = None;
        // Lowest segment sent once; it was late if it lies below an earlier SACK.
        let mut lowest = u64::MAX;
        while self.board.una < una {
            let (segments, bytes, first_us) = self.board.pop_plain(una);
            if segments == 0 {
                if !self.take_sacked(una, seen) {
                    self.take_marked(ack.ts_echo, &mut lowest, seen, &mut newest, batch);
                }
                continue;
            }
            // Unmarked segments were sent once and in order: the first is the oldest, the last the newest.
            let first = self.board.una - segments;
            let last = *self.board.last_popped();
            let seq = self.board.una - 1;
            let last_us = last.token.send_us();
            self.una_bytes += bytes;
            self.stats.acked_bytes += bytes;
            seen.acked += segments as u32;
            seen.short_only = u32::from(last.len) < self.mss && seen.acked == 1;
            widen(&mut seen.acked_sent, first_us, last_us);
            seen.original |= first < self.high_seq;
            lowest = lowest.min(first);
            batch.delivered_run(segments, bytes, &last.token, seq);
            if newest.is_none_or(|(sent, _, _)| last_us >= sent) {
                newest = Some((last_us, seq, false));
            }
        }
        if let Some((sent_us, seq, is_retransmit)) = newest {
            self.rack.advance(now, sent_us, seq, is_retransmit, self.min_rtt_us);
        }
        if lowest < highest {
            self.check_reordering(Some(lowest));
        }
        self.board.trim_log();
    }

    /// Takes the oldest segments that were already SACKed and are now acknowledged in sequence. Returns false if there are none.
    #[inline(never)]
    fn take_sacked(&mut self, una: u64, seen: &mut AckFlags) -> bool {
        let (segments, bytes) = self.board.pop_sacked(una);
        if segments == 0 {
            return false;
        }
        self.una_bytes += bytes;
        seen.acked += segments as u32;
        seen.short_only = u32::from(self.board.last_popped().len) < self.mss && seen.acked == 1;
        true
    }

    /// Takes the oldest segment, marked lost or retransmitted, which is now acknowledged in sequence.
    #[inline(never)]
    fn take_marked(
        &mut self,
        ts_echo: Time,
        lowest: &mut u64,
        seen: &mut AckFlags,
        newest: &mut Option<(u64, u64, bool)>,
        batch: &mut AckBatch,
    ) {
        let seq = self.board.una;
        let record = self.board.pop_acked();
        self.una_bytes += u64::from(record.len);
        seen.acked += 1;
        seen.short_only = u32::from(record.len) < self.mss && seen.acked == 1;
        self.stats.acked_bytes += u64::from(record.len);
        let sent_us = record.token.send_us();
        let ever = record.flags & flag::EVER_RETRANS != 0;
        if ever {
            seen.retransmitted = true;
        } else {
            widen(&mut seen.acked_sent, sent_us, sent_us);
            seen.original |= seq < self.high_seq;
            *lowest = seq.min(*lowest);
        }
        batch.delivered_run(1, record.len.into(), &record.token, seq);
        // An echo older than the retransmission answers the original, so the retransmission is no evidence of loss.
        // spec: Linux tcp_skb_spurious_retrans
        let is_spurious = ever && stamp(ts_echo) < sent_us / 1_000;
        if !is_spurious && newest.is_none_or(|(sent, _, _)| sent_us >= sent) {
            *newest = Some((sent_us, seq, ever));
        }
    }

    /// RTT of the newest and of the oldest segment delivered by this ACK.
    // spec: Linux tcp_ack_update_rtt
    fn rtt_samples(&self, now: Time, ack: &AckPacket, seen: &AckFlags) -> (Option<Span>, Option<Span>) {
        let since = |us: u64| Span::micros(now.as_micros().saturating_sub(us));
        let mut newest = None;
        let mut oldest = None;
        if let Some((first, last)) = seen.acked_sent
            && !seen.retransmitted
        {
            oldest = Some(since(first));
            newest = Some(since(last));
        }
        if let Some((first, last)) = seen.sacked_sent {
            oldest = oldest.or(Some(since(first)));
            newest = Some(since(last));
        }
        if oldest.is_none() && seen.acked > 0 {
            // Karn: the timestamp identifies the answered transmission.
            oldest = Some(rtt_by_stamp(now, ack.ts_echo));
            newest = oldest;
        }
        (newest, oldest)
    }

    // spec: Linux tcp_process_tlp_ack
    #[inline(never)]
    fn process_tlp(&mut self, now: Time, ack: &AckPacket, seen: &AckFlags) {
        let Some(high) = self.tlp_high_seq else {
            return;
        };
        if ack.una < high {
            return;
        }
        if self.tlp_retrans {
            self.cc.on_tlp_ack();
        }
        if !self.tlp_retrans || seen.dsack_probe {
            self.tlp_high_seq = None;
        } else if ack.una > high {
            // The probe repaired a loss, so the window is reduced once.
            self.tlp_high_seq = None;
            self.queue_cwr();
            self.cc.on_ca_state(CaState::Cwr);
            self.keep_open();
            self.cc.on_tlp_recovery(now, self.tlp_app_limited);
        } else if !seen.advanced && seen.sacked == 0 {
            self.tlp_high_seq = None; // a duplicate: both original and probe arrived
        }
    }

    // spec: Linux tcp_fastretrans_alert
    #[inline(never)]
    fn fast_retransmit_alert(&mut self, now: Time, ack: &AckPacket, prior_una: u64, seen: &mut AckFlags) {
        let state = self.cc.ca_state();
        self.undo_restores &= !seen.ece;
        if state == CaState::Open {
            self.retrans_stamp = None;
        } else if self.board.una >= self.high_seq {
            match state {
                CaState::Cwr if self.board.una > self.high_seq => self.cc.on_ca_state(CaState::Open),
                CaState::Recovery => {
                    self.try_undo_recovery(now, ack);
                    self.cc.on_ca_state(CaState::Open);
                }
                _ => {}
            }
        }
        match self.cc.ca_state() {
            CaState::Recovery => {
                if seen.advanced && self.try_undo_partial(now, ack, prior_una) {
                    seen.keeps_lost = true;
                    return;
                }
                if self.try_undo_dsack(now) {
                    self.try_to_open(seen);
                }
                self.identify_loss(now, seen);
                if self.cc.ca_state() == CaState::Recovery || self.board.lost_out == 0 {
                    return;
                }
            }
            CaState::Loss => {
                self.process_loss(now, ack, seen);
                let retransmitted = self.board.retrans_out;
                self.identify_loss(now, seen);
                let lost_again = self.board.retrans_out < retransmitted;
                if self.cc.ca_state() == CaState::Loss && !lost_again {
                    return;
                }
                self.settle(now, seen);
            }
            _ => self.settle(now, seen),
        }
        if self.board.lost_out == 0 {
            self.try_to_open(seen);
            return;
        }
        self.enter_recovery(seen.ece);
    }

    /// Processes an ACK outside any episode: DSACKs may still show that the last one was spurious.
    fn settle(&mut self, now: Time, seen: &mut AckFlags) {
        if self.cc.ca_state() <= CaState::Disorder {
            self.try_undo_dsack(now);
        }
        self.identify_loss(now, seen);
    }

    // spec: Linux tcp_identify_packet_loss
    fn identify_loss(&mut self, now: Time, seen: &mut AckFlags) {
        if !self.rack.advanced {
            return;
        }
        self.rack.advanced = false;
        let (_, wait) = self.detect_loss(now, false);
        if let Some(wait) = wait {
            self.set_reorder_timer(now, wait);
            seen.keep_timer = true;
        }
    }

    // spec: Linux tcp_enter_recovery
    pub(super) fn enter_recovery(&mut self, ece: bool) {
        self.forget_retrans_stamp();
        self.init_undo();
        let is_reduced = self.cc.ca_state() == CaState::Cwr;
        self.undo_restores = !is_reduced && !ece;
        if !is_reduced {
            self.high_seq = self.board.next;
            self.tlp_high_seq = None; // the window is reduced once per episode
            self.queue_cwr();
        }
        self.cc.on_ca_state(CaState::Recovery);
    }

    // spec: Linux tcp_try_to_open, tcp_enter_cwr
    fn try_to_open(&mut self, seen: &AckFlags) {
        self.forget_retrans_stamp();
        if seen.ece && self.cc.ca_state() < CaState::Cwr {
            (self.undo_marker, self.undo_restores) = (None, false);
            self.high_seq = self.board.next;
            self.queue_cwr();
            self.cc.on_ca_state(CaState::Cwr);
        }
        if self.cc.ca_state() != CaState::Cwr {
            self.keep_open();
        }
    }

    // spec: Linux tcp_try_keep_open
    pub(super) fn keep_open(&mut self) {
        let unsettled = self.board.sacked_out > 0 || self.board.lost_out > 0 || self.any_retransmission();
        let state = if unsettled { CaState::Disorder } else { CaState::Open };
        if state != self.cc.ca_state() {
            self.cc.on_ca_state(state);
            self.high_seq = self.board.next;
        }
    }

    /// Processes an ACK in the Loss state: F-RTO checks for a spurious timeout, and lost segments are resent in slow start.
    // spec: Linux tcp_process_loss
    fn process_loss(&mut self, now: Time, ack: &AckPacket, seen: &mut AckFlags) {
        let recovered = self.board.una >= self.high_seq;
        if seen.advanced && self.may_undo(ack) {
            self.undo_loss(now);
            return;
        }
        if self.frto {
            if seen.original {
                // A never retransmitted segment arrived after the timeout, so it was not lost.
                self.undo_loss(now);
                return;
            }
            if self.board.next > self.high_seq {
                if seen.sacked > 0 || !seen.advanced && !seen.dsack {
                    self.frto = false; // the loss was real
                }
            } else if seen.advanced && !recovered {
                self.high_seq = self.board.next;
                if self.next_bytes < self.app.written {
                    seen.new_data_first = true; // the next two new segments will decide
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery(now, ack);
            self.cc.on_ca_state(CaState::Open);
        }
    }
}

/// Widens (oldest, newest) to include a span of times.
fn widen(range: &mut Option<(u64, u64)>, first: u64, last: u64) {
    *range = Some(match *range {
        Some((from, to)) => (from.min(first), to.max(last)),
        None => (first, last),
    });
}
