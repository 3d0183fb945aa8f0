//! RACK: loss detection by time and order of transmissions (RFC 8985; Linux 6.12 `tcp_recovery.c`).
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{CaState, Loss, PacketToken, Span, Time};

use super::sender::Sender;

/// SACKed segments from which no reordering window is needed. Source: Linux `tcp_reordering`.
const REORDERING: u32 = 3;
/// Recoveries for which an enlarged reordering window is kept. Source: RFC 8985 `TCP_RACK_RECOVERY_THRESH`.
const STEPS_PERSIST: u8 = 16;
/// Largest multiple of the reordering window. Source: Linux `reo_wnd_steps` (u8).
const STEPS_MAX: u64 = 255;

/// RACK's state.
#[derive(Clone, Copy, Debug)]
pub struct Rack {
    /// Send time (µs) and number of the newest delivered transmission.
    sent_us: u64,
    seq: u64,
    rtt_us: u64,
    /// True if a segment was delivered since loss detection last found nothing to do.
    pub advanced: bool,
    /// True once reordering was detected on this connection.
    pub reordering_seen: bool,
    /// Reordering extent in segments, as in Linux's `tp->reordering`.
    pub reordering: u32,
    steps: u64,
    persist: u8,
    dsack_seen: bool,
    last_delivered: u64,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            sent_us: 0,
            seq: 0,
            rtt_us: 0,
            advanced: false,
            reordering_seen: false,
            reordering: REORDERING,
            steps: 1,
            persist: 0,
            dsack_seen: false,
            last_delivered: 0,
        }
    }
}

impl Rack {
    /// Records the delivery of a transmission.
    // spec: Linux tcp_rack_advance
    pub fn advance(&mut self, now: Time, sent_us: u64, seq: u64, is_retransmit: bool, min_rtt_us: u64) {
        let rtt_us = now.as_micros().saturating_sub(sent_us);
        // Too early to answer the retransmission, so the original was delivered.
        if is_retransmit && rtt_us < min_rtt_us {
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt_us;
        if (sent_us, seq) > (self.sent_us, self.seq) {
            self.sent_us = sent_us;
            self.seq = seq;
        }
    }

    /// Handles a DSACK, which shows an unnecessary retransmission, by allowing more time for reordering.
    pub const fn on_dsack(&mut self) {
        self.dsack_seen = true;
    }

    /// Records reordering by `extent` segments.
    pub fn on_reordering(&mut self, extent: u64) {
        self.reordering_seen = true;
        self.reordering = self.reordering.max(u32::try_from(extent).unwrap_or(u32::MAX).min(300));
    }

    /// Handles a timeout. With three or more segments SACKed, the reordering extent was too large and is reset.
    // spec: Linux tcp_enter_loss
    pub fn on_timeout(&mut self, sacked_out: u32) {
        if sacked_out >= REORDERING {
            self.reordering = self.reordering.min(REORDERING);
        }
    }

    /// True if [`Self::update_window`] would change anything.
    pub const fn is_window_due(&self) -> bool {
        self.dsack_seen || self.persist == 0 && self.steps > 1
    }

    /// Adapts the reordering window, at most once per round.
    // spec: Linux tcp_rack_update_reo_wnd
    pub fn update_window(&mut self, delivered: u64, prior_delivered: u64) {
        if prior_delivered < self.last_delivered {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.steps = (self.steps + 1).min(STEPS_MAX);
            self.dsack_seen = false;
            self.last_delivered = delivered;
            self.persist = STEPS_PERSIST;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// Keeps the reordering window for one more recovery, after DSACKs showed that this one was spurious.
    pub const fn on_dsack_undo(&mut self) {
        self.persist = if self.persist < STEPS_PERSIST { self.persist + 1 } else { STEPS_PERSIST };
    }

    /// Records the end of a recovery that was needed.
    pub const fn on_recovery_end(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }
}

/// Result of loss detection at the head of the log.
#[derive(Clone, Copy, Debug)]
enum Suspect {
    /// No transmission older than the newest delivered one.
    None,
    /// A transmission sent at this time (µs) whose wait is not over.
    Waits(u64),
    /// A lost segment.
    Lost(u64),
}

/// A run of segments marked lost: neighbours that left in one super-packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LostRun {
    first: u64,
    next: u64,
    packets: u32,
    bytes: u32,
    burst: PacketToken,
    token: PacketToken,
    /// Segments of this run and of earlier runs.
    pub(super) all: u64,
}

impl Sender {
    // spec: Linux tcp_rack_reo_wnd
    fn reordering_window_us(&self) -> u64 {
        if !self.rack.reordering_seen
            && (self.cc.ca_state() >= CaState::Recovery || self.board.sacked_out >= self.rack.reordering)
        {
            return 0;
        }
        let srtt_us = self.cc.rtt().smoothed().unwrap_or(Span::ZERO).as_micros();
        ((self.min_rtt_us.min(srtt_us.max(1)) >> 2) * self.rack.steps).min(srtt_us)
    }

    /// Marks segments lost that left long enough before a delivered one. Returns their number, and the wait until the next check.
    // spec: Linux tcp_rack_detect_loss
    pub(super) fn detect_loss(&mut self, now: Time, by_timer: bool) -> (u64, Option<Span>) {
        let patience = self.rack.rtt_us + self.reordering_window_us();
        let now_us = now.as_micros();
        let mut found = self.next_suspect(patience, now_us);
        let mut all = 0;
        if let Suspect::Lost(_) = found {
            let mut lost = LostRun::default();
            while let Suspect::Lost(seq) = found {
                self.lose(now, seq, by_timer, &mut lost);
                found = self.next_suspect(patience, now_us);
            }
            self.report_lost(now, by_timer, &lost);
            all = lost.all;
        }
        match found {
            Suspect::Waits(sent_us) => (all, Some(Span::micros(self.longest_wait(sent_us, patience, now_us)))),
            _ => (all, None),
        }
    }

    /// Oldest transmission in flight, if it left before the newest delivered one. A lost one is removed from the log.
    #[inline]
    fn next_suspect(&mut self, patience: u64, now_us: u64) -> Suspect {
        while let Some(&(seq, sent_us)) = self.board.sent_log.front() {
            if self.board.is_current(seq, sent_us) {
                if (sent_us, seq) >= (self.rack.sent_us, self.rack.seq) {
                    return Suspect::None;
                }
                if sent_us + patience > now_us {
                    return Suspect::Waits(sent_us);
                }
                self.board.sent_log.pop_front();
                return Suspect::Lost(seq);
            }
            self.board.sent_log.pop_front();
        }
        Suspect::None
    }

    /// Marks one segment lost. The controller receives the lost rest of a super-packet as one report, through
    /// [`Self::report_lost`], which ends a run.
    // spec: Linux tcp_mark_skb_lost
    pub(super) fn lose(&mut self, now: Time, seq: u64, by_timer: bool, run: &mut LostRun) {
        if self.cc.needs_on_lost() {
            let record = *self.board.peek(seq);
            if run.packets > 0 && (seq != run.next || record.token != run.burst) {
                self.report_lost(now, by_timer, run);
                *run = LostRun { all: run.all, ..LostRun::default() };
            }
            run.burst = record.token;
            run.token = self.part_of_burst(&record);
        } else if run.packets == 0 {
            run.token = self.token(seq);
        }
        if run.packets == 0 {
            run.first = seq;
        }
        run.next = seq + 1;
        run.packets += 1;
        run.bytes += u32::from(self.board.peek(seq).len);
        self.board.mark_lost(seq);
        run.all += 1;
        self.stats.lost += 1;
        self.stats.first_loss.get_or_insert(now);
    }

    /// Reports a run of lost segments to the controller.
    pub(super) fn report_lost(&mut self, now: Time, by_timer: bool, run: &LostRun) {
        if run.packets > 0 {
            let loss = Loss::run(&run.token, run.first, run.packets, run.bytes);
            self.cc.on_lost(now, &if by_timer { loss.by_timer() } else { loss });
        }
    }

    /// Time until the newest of the segments sent before the last delivered one counts as lost, µs.
    fn longest_wait(&self, first_us: u64, patience: u64, now_us: u64) -> u64 {
        let log = &self.board.sent_log;
        let end = log.partition_point(|&(seq, sent)| (sent, seq) < (self.rack.sent_us, self.rack.seq));
        let last = log.range(..end).rev().find(|&&(seq, sent)| self.board.is_current(seq, sent));
        let sent_us = last.map_or(first_us, |entry| entry.1);
        (sent_us + patience).saturating_sub(now_us)
    }

    /// True if RACK's full wait for a segment sent at `sent_us` is not over at `now`.
    // spec: Linux tcp_rack_skb_timeout
    pub(super) fn is_recent(&self, sent_us: u64, now: Time) -> bool {
        sent_us + self.rack.rtt_us > now.as_micros()
    }
}
