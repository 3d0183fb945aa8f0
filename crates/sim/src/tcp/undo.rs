//! Undo of a window reduction whose retransmissions were unnecessary, or whose answer came too early to be caused by them.
//! Spec: RFC 4015 (Eifel), RFC 3708 (DSACK); Linux 6.12 `tcp_input.c`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{CaState, Time};

use super::packet::AckPacket;
use super::scoreboard::flag;
use super::sender::Sender;

/// Converts a time to ticks of the timestamp option.
// spec: Linux TCP_TS_HZ
pub(super) const fn stamp(time: Time) -> u64 {
    time.as_micros() / 1_000
}

impl Sender {
    // spec: Linux tcp_init_undo
    pub(super) fn init_undo(&mut self) {
        self.undo_marker = Some(self.board.una);
        self.undo_retrans = if self.board.retrans_out > 0 { i64::from(self.board.retrans_out) } else { -1 };
    }

    /// True if a retransmission is in flight, or the oldest segment has been retransmitted.
    // spec: Linux tcp_any_retrans_done
    pub(super) fn any_retransmission(&self) -> bool {
        let board = &self.board;
        board.retrans_out > 0 || board.packets_out() > 0 && board.peek(board.una).flags & flag::EVER_RETRANS != 0
    }

    /// Clears the stamp, which the next episode's first retransmission sets again.
    // spec: Linux tcp_retrans_stamp_cleanup
    pub(super) fn forget_retrans_stamp(&mut self) {
        if self.retrans_stamp.is_some() && !self.any_retransmission() {
            self.retrans_stamp = None;
        }
    }

    /// True if the ACK answers a segment sent before the first retransmission.
    // spec: Linux tcp_packet_delayed
    fn is_delayed(&self, ack: &AckPacket) -> bool {
        self.retrans_stamp.is_none_or(|first| stamp(ack.ts_echo) < stamp(first))
    }

    // spec: Linux tcp_may_undo
    pub(super) fn may_undo(&self, ack: &AckPacket) -> bool {
        self.undo_marker.is_some() && (self.undo_retrans == 0 || self.is_delayed(ack))
    }

    fn undo(&mut self, now: Time) {
        self.undo_marker = None;
        self.rack.advanced = true;
        self.stats.undos += 1;
        self.cc.on_undo(now);
    }

    // spec: Linux tcp_try_undo_recovery
    pub(super) fn try_undo_recovery(&mut self, now: Time, ack: &AckPacket) {
        if self.may_undo(ack) {
            self.undo(now);
        } else {
            self.rack.on_recovery_end();
        }
    }

    /// Undoes the reduction once every retransmission arrived twice. The episode may have ended before the last such report.
    // spec: Linux tcp_try_undo_dsack
    pub(super) fn try_undo_dsack(&mut self, now: Time) -> bool {
        if self.undo_marker.is_some() && self.undo_retrans == 0 {
            self.rack.on_dsack_undo();
            self.undo(now);
            return true;
        }
        false
    }

    /// Handles a partial ACK caused by an original: the segments in between were late, not lost. Returns true while
    /// retransmissions are in flight, in which case nothing else is marked lost.
    // spec: Linux tcp_try_undo_partial
    pub(super) fn try_undo_partial(&mut self, now: Time, ack: &AckPacket, prior_una: u64) -> bool {
        if self.undo_marker.is_none() || !self.is_delayed(ack) {
            return false;
        }
        self.check_reordering(Some(prior_una));
        if self.board.retrans_out > 0 {
            return true;
        }
        self.forget_retrans_stamp();
        self.unmark_all_lost();
        self.undo(now);
        self.keep_open();
        false
    }

    // spec: Linux tcp_try_undo_loss
    pub(super) fn undo_loss(&mut self, now: Time) {
        self.unmark_all_lost();
        self.undo(now);
        self.retransmits_in_row = 0;
        self.frto = false;
        self.cc.on_ca_state(CaState::Open);
    }

    fn unmark_all_lost(&mut self) {
        if self.board.lost_out == 0 {
            return;
        }
        let unmarked = self.board.una..self.board.next;
        for seq in unmarked {
            if self.board.peek(seq).flags & (flag::LOST | flag::RETRANS) == flag::LOST {
                // Its transmission left the log when it was marked, so it is put back for loss detection.
                let sent_us = self.token(seq).send_time().as_micros();
                self.board.unmark_lost(seq);
                self.board.relog(seq, sent_us);
            } else {
                self.board.unmark_lost(seq);
            }
        }
    }
}
