//! Undo of a window reduction whose retransmissions were unnecessary, or whose answer came too early to be caused by them.
//! Spec: RFC 4015 (Eifel), RFC 3708 (DSACK); Linux 6.12 `tcp_input.c`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{CaState, Span, Time};

use super::packet::AckPacket;
use super::scoreboard::flag;
use super::sender::Sender;

/// Converts a time to ticks of the timestamp option.
// spec: Linux TCP_TS_HZ
pub(super) const fn stamp(time: Time) -> u64 {
    time.as_micros() / 1_000
}

/// RTT by the timestamp that an ACK echoes, at least one tick: that of a packet sent more than once.
// spec: Linux tcp_rtt_tsopt_us
pub(super) fn rtt_by_stamp(now: Time, echo: Time) -> Span {
    Span::millis(stamp(now).saturating_sub(stamp(echo)).max(1))
}

impl Sender {
    // spec: Linux tcp_init_undo
    pub(super) fn init_undo(&mut self) {
        self.undo_marker = Some(self.board.una);
        let probes = u32::from(self.tlp_high_seq.is_some() && self.tlp_retrans);
        let in_flight = self.board.retrans_out + probes;
        self.undo_retrans = if in_flight > 0 { in_flight.into() } else { -1 };
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

    // spec: Linux tcp_undo_cwnd_reduction
    fn undo(&mut self, now: Time) {
        self.undo_marker = None;
        self.rack.advanced = true;
        self.stats.undos += 1;
        if self.undo_restores {
            self.send_cwr = false;
            self.cc.on_undo(now);
        } else {
            self.cc.on_reduction_stopped();
        }
        self.cwnd_stamp = now;
    }

    /// Sets CWR on the next new segment, because the window was reduced (RFC 3168).
    // spec: Linux tcp_ecn_queue_cwr
    pub(super) fn queue_cwr(&mut self) {
        self.send_cwr = self.ecn && !self.has_accurate_ecn;
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
        self.unmark_all_lost(false);
        self.undo(now);
        self.keep_open();
        false
    }

    // spec: Linux tcp_try_undo_loss
    pub(super) fn undo_loss(&mut self, now: Time) {
        self.unmark_all_lost(true);
        self.undo(now);
        self.retransmits_in_row = 0;
        self.frto = false;
        self.cc.on_ca_state(CaState::Open);
    }

    /// Clears all loss marks. Segments that a timeout marked return to RACK's list; those that RACK marked do not.
    // spec: Linux tcp_undo_cwnd_reduction, tcp_rack_detect_loss (list_del_init). Differs: in the Loss state RACK's return too.
    fn unmark_all_lost(&mut self, by_timeout: bool) {
        if self.board.lost_out == 0 {
            return;
        }
        for seq in self.board.una..self.board.next {
            let waits = self.board.peek(seq).flags & (flag::LOST | flag::RETRANS) == flag::LOST;
            self.board.unmark_lost(seq);
            if waits && by_timeout {
                // Its transmission left the log while it was marked.
                let sent_us = self.token(seq).send_time().as_micros();
                self.board.relog(seq, sent_us);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{FlowSetup, Traffic, Transport};
    use crate::tcp::packet::{Segment, mark};
    use crate::tcp::timers::TimerKind;
    use bbrlab_core::AlgorithmConfig;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::millis(ms)
    }

    /// A connected flow with its initial window in flight. Its handshake took 100 ms.
    fn sender(algorithm: &str) -> (Sender, Vec<Segment>) {
        sender_of(algorithm, Traffic::Bulk)
    }

    fn sender_of(algorithm: &str, traffic: Traffic) -> (Sender, Vec<Segment>) {
        let mut setup = FlowSetup::bulk(algorithm.to_owned(), AlgorithmConfig::named(algorithm).unwrap());
        (setup.host.ecn, setup.traffic) = (true, traffic);
        let (mut sender, mut out) = (Sender::new(0, &setup, 1), Vec::new());
        sender.start(Time::ZERO, &mut out);
        sender.on_syn_ack(at(100), &setup, Time::ZERO, &mut out);
        out.clear();
        (sender, out)
    }

    /// Smoothed RTT after a handshake whose last SYN, of this many, left 25.16 ms before its answer.
    fn handshakes_rtt(syns: u32, transport: Transport) -> Option<Span> {
        let mut setup = FlowSetup::bulk("cubic", AlgorithmConfig::named("cubic").unwrap());
        setup.host.transport = transport;
        let (mut sender, mut out) = (Sender::new(0, &setup, 1), Vec::new());
        let last = at(1000 * u64::from(syns - 1));
        (0..syns).for_each(|_| sender.start(last, &mut out));
        sender.on_syn_ack(last + Span::micros(25_160), &setup, last, &mut out);
        sender.cc.rtt().smoothed()
    }

    /// Karn: the timestamp identifies the answered SYN, and counts milliseconds. QUIC has its packet numbers.
    #[test]
    fn the_rtt_of_a_handshake_with_a_lost_syn_is_in_ticks() {
        assert_eq!(handshakes_rtt(1, Transport::Tcp), Some(Span::micros(25_160)));
        assert_eq!(handshakes_rtt(2, Transport::Tcp), Some(Span::millis(25)));
        assert_eq!(handshakes_rtt(2, Transport::Quic), Some(Span::micros(25_160)));
    }

    impl Sender {
        fn is_logged(&self, seq: u64) -> bool {
            self.board.sent_log.iter().any(|entry| entry.0 == seq)
        }
    }

    /// An ACK up to `una` whose SACK block ends at `sacked` and leaves out segment `una` alone.
    fn ack(una: u64, sacked: u64, ece: bool, ts_echo: Time) -> AckPacket {
        let mut ack = AckPacket { una, ts_echo, ece, window: u64::MAX, ..AckPacket::default() };
        if sacked > una {
            ack.sack[0] = (1, (sacked - una) as u32);
        }
        ack
    }

    /// Returns cwnd before and after a spurious recovery by reordering. `marks`: ECE before, at the start of, and at its end.
    fn window_after_a_late_segment(algorithm: &str, marks: [bool; 3]) -> (u32, u32) {
        let (mut sender, mut out) = sender(algorithm);
        let before = sender.cc.cwnd();
        sender.on_ack(at(200), &ack(1, 1, marks[0], at(100)), &mut out);
        for sacked in 3..6 {
            sender.on_ack(at(201), &ack(1, sacked, sacked == 5 && marks[1], at(100)), &mut out);
        }
        assert_eq!(sender.cc.ca_state(), CaState::Recovery, "{algorithm} {marks:?}");
        sender.on_ack(at(202), &ack(6, 6, marks[2], at(100)), &mut out);
        assert_eq!(sender.stats.undos, 1, "{algorithm} {marks:?}");
        (before, sender.cc.cwnd())
    }

    /// Linux clears `prior_ssthresh` at each echo of a mark, before, at and in Recovery.
    #[test]
    fn an_undo_gives_the_window_back_unless_a_mark_asked_for_the_reduction() {
        for algorithm in ["reno", "cubic", "dctcp", "prague"] {
            let (before, restored) = window_after_a_late_segment(algorithm, [false; 3]);
            assert!(restored >= before, "{algorithm}: {before} {restored}");
            for marks in [[true, false, false], [false, true, false], [false, false, true]] {
                let (_, kept) = window_after_a_late_segment(algorithm, marks);
                assert!(kept < restored, "{algorithm} {marks:?}: {restored} {kept}");
            }
        }
    }

    /// Linux does not set cwnd to ssthresh at the end of an episode that was undone.
    #[test]
    fn an_undo_after_a_mark_stops_the_reduction_where_it_is() {
        let (mut sender, mut out) = sender("reno");
        for sacked in 3..6 {
            sender.on_ack(at(200), &ack(1, sacked, sacked == 5, at(100)), &mut out);
        }
        let (cwnd, ssthresh) = (sender.cc.cwnd(), 5);
        assert!(sender.cc.ca_state() == CaState::Recovery && cwnd > ssthresh, "{cwnd}");
        sender.on_ack(at(201), &ack(6, 6, false, at(100)), &mut out);
        assert!(sender.stats.undos == 1 && sender.cc.cwnd() >= cwnd, "{cwnd} {}", sender.cc.cwnd());
    }

    /// RFC 3168 §6.1.2: CWR follows every reduction, not only those caused by marks.
    #[test]
    fn cwr_follows_a_reduction_for_a_loss_unless_it_is_undone() {
        let has_cwr = |out: &[Segment]| out.iter().any(|segment| segment.marks & mark::CWR != 0);
        for is_undone in [false, true] {
            let (mut sender, mut out) = sender("reno");
            sender.on_ack(at(200), &ack(1, 1, false, at(100)), &mut out);
            out.clear();
            for sacked in 3..6 {
                sender.on_ack(at(201), &ack(1, sacked, false, at(100)), &mut out);
            }
            assert_eq!(sender.cc.ca_state(), CaState::Recovery);
            let early = has_cwr(&out);
            sender.on_ack(at(300), &ack(10, 10, false, if is_undone { at(100) } else { at(201) }), &mut out);
            assert_eq!(sender.stats.undos, u64::from(is_undone));
            assert_eq!(has_cwr(&out), early || !is_undone, "{out:?}");
            assert!(!early, "PRR sent new data before the undo");
        }
        let (mut sender, mut out) = sender("reno");
        while sender.stats.rto == 0 {
            let (due, kind) = (sender.timer.at, sender.timer.kind);
            sender.on_timer(due, kind, &mut out);
        }
        assert!(sender.send_cwr, "a time-out reduces the window");
    }

    /// The segment after a hole triggers the delayed ACK of the segment before it, which then reports both.
    #[test]
    fn an_ack_that_advances_and_reports_a_hole_is_no_reordering() {
        let (mut sender, mut out) = sender("reno");
        for behind in 3..6 {
            sender.on_ack(at(200), &ack(1, behind, false, at(100)), &mut out);
        }
        assert!(!sender.rack.reordering_seen);
        assert!(out.iter().any(|segment| segment.seq == 1), "three duplicates, and no fast retransmit");
    }

    /// A partial ACK for an original shows reordering: no retransmission follows while others are in flight.
    #[test]
    fn after_a_late_original_no_more_is_retransmitted() {
        let is_retransmission = |segment: &&Segment| segment.marks & mark::RETRANSMIT != 0;
        let (mut sender, mut out) = sender("reno");
        // Of ten, the first four are missing.
        let missing = |una: u64, sacked: u64, ts_echo| {
            let mut ack = ack(una, sacked, false, ts_echo);
            ack.sack[0].0 = (4 - una) as u32;
            ack
        };
        for sacked in 5..10 {
            sender.on_ack(at(200), &missing(0, sacked, at(100)), &mut out);
        }
        let (retransmitted, lost) = (sender.board.retrans_out, sender.board.lost_out);
        assert!(retransmitted >= 2 && lost > retransmitted, "{retransmitted} {lost}");
        out.clear();
        sender.on_ack(at(201), &missing(1, 9, at(100)), &mut out);
        assert_eq!((sender.cc.ca_state(), out.iter().filter(is_retransmission).count()), (CaState::Recovery, 0));
        sender.on_ack(at(203), &missing(2, 9, at(202)), &mut out);
        assert!(out.iter().any(|segment| is_retransmission(&segment)), "the next answers a retransmission");
    }

    /// An application-limited window decays only after an RTO without an ACK that may raise it.
    #[test]
    fn a_window_that_acks_may_raise_is_not_unused() {
        // All data fits into the initial window, so that nothing sent renews the time.
        let (mut sender, mut out) = sender_of("cubic", Traffic::Size(9 * 1448));
        sender.cwnd_stamp = Time::ZERO;
        sender.on_ack(at(900), &ack(4, 4, false, at(100)), &mut out);
        assert_eq!(sender.cwnd_stamp, at(900));
    }

    /// RFC 6298: any valid RTT sample resets the back-off, including one from a SACK.
    #[test]
    fn a_sack_ends_the_back_off() {
        let (mut sender, mut out) = sender("reno");
        sender.backoff = 3;
        sender.on_ack(at(200), &ack(0, 5, false, at(100)), &mut out);
        assert_eq!(sender.backoff, 0);
    }

    /// Linux counts a tail loss probe's repetition neither as in flight nor as the episode's first retransmission.
    #[test]
    fn a_probe_s_repetition_is_not_in_flight_but_may_be_reported_twice() {
        let (mut sender, mut out) = sender_of("reno", Traffic::Size(9 * 1448));
        let (due, kind, in_flight) = (sender.timer.at, sender.timer.kind, sender.in_flight());
        assert_eq!((kind, in_flight), (TimerKind::LossProbe, 9));
        sender.on_timer(due, kind, &mut out);
        assert_eq!((sender.stats.retransmits, sender.in_flight(), sender.retrans_stamp), (1, 9, None));
        // The first is found lost. Its repetition and the probe's are both outstanding.
        for sacked in 3..6 {
            sender.on_ack(due + Span::millis(sacked), &ack(0, sacked, false, at(100)), &mut out);
        }
        assert_eq!((sender.cc.ca_state(), sender.undo_retrans), (CaState::Recovery, 2));
    }

    /// Linux takes a transmission off RACK's list when RACK marks it, and leaves it there when a timeout does.
    #[test]
    fn rack_judges_again_only_what_a_timeout_had_marked() {
        for by_timeout in [false, true] {
            let (mut sender, mut out) = sender("reno");
            for sacked in 5..10 {
                let mut ack = ack(0, sacked, false, at(100));
                ack.sack[0].0 = 4;
                sender.on_ack(at(200), &ack, &mut out);
            }
            let waits = sender.board.next_pending().expect("more are lost than PRR lets leave");
            sender.unmark_all_lost(by_timeout);
            assert_eq!((sender.board.lost_out, sender.is_logged(waits)), (0, by_timeout));
        }
    }

    /// RFC 5682 needs a duplicate ACK for a segment in flight; a DSACK reports one that has left.
    #[test]
    fn a_dsack_does_not_end_the_test_of_a_spurious_timeout() {
        for dsack in [None, Some(0)] {
            let (mut sender, mut out) = sender("reno");
            while sender.stats.rto == 0 {
                let (due, kind) = (sender.timer.at, sender.timer.kind);
                sender.on_timer(due, kind, &mut out);
            }
            let now = sender.retrans_stamp.unwrap() + Span::millis(100);
            sender.on_ack(now, &ack(1, 1, false, now), &mut out);
            assert!(sender.frto && sender.board.next > 10, "two new segments decide");
            sender.on_ack(now + Span::millis(1), &AckPacket { dsack, ..ack(1, 1, false, now) }, &mut out);
            assert_eq!(sender.frto, dsack.is_some());
        }
    }

    /// The extent reaches to the highest SACK, this ACK's included.
    #[test]
    fn a_late_segment_s_extent_counts_to_the_highest_sack() {
        let (mut sender, mut out) = sender("reno");
        sender.on_ack(at(200), &ack(0, 3, false, at(100)), &mut out);
        sender.on_ack(at(201), &ack(3, 9, false, at(100)), &mut out);
        assert_eq!((sender.rack.reordering_seen, sender.rack.reordering), (true, 9));
        sender.rack.on_timeout(2);
        assert_eq!(sender.rack.reordering, 9);
        sender.rack.on_timeout(3);
        assert_eq!(sender.rack.reordering, 3);
    }
}
