//! The receiver's part of ECN: what its ACKs report, and which of them it hurries. Spec: RFC 3168, RFC 9768; Linux 6.12 and 7.3.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

use super::super::packet::{AckPacket, Segment, mark};
use super::{AckDecision, Receiver};
use crate::setup::HostSetup;

/// ECN of a receiver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ecn {
    is_on: bool,
    /// Accurate feedback instead of RFC 3168's echo.
    is_accurate: bool,
    /// Feedback of DCTCP's receiver.
    is_dctcp: bool,
    /// Marked packets so far, for accurate feedback.
    pub ce: u32,
    /// ECN codepoint of the receiver's ACKs: with accurate feedback the sender's, otherwise none.
    // spec: Linux tcp_ecn_send
    pub ack_marks: u8,
    /// True if its ACKs report congestion: RFC 3168's ECE, with DCTCP for the packets of that ACK alone.
    pub echo: bool,
    /// True if the last packet was marked, for accurate feedback.
    was_marked: bool,
    /// True from the first packet with ECT on.
    has_seen_ect: bool,
}

/// Effect of a packet on the time of ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hurry {
    /// None.
    No,
    /// It is acknowledged at once.
    Once,
    /// Packets whose ACK is delayed are acknowledged first, then this one.
    AfterDelayed,
    /// It and the next are.
    Twice,
}

impl Ecn {
    pub const fn new(host: &HostSetup) -> Self {
        let ack_marks = match (host.ecn && host.accurate_ecn, host.l4s) {
            (false, _) => 0,
            (true, false) => mark::ECT,
            (true, true) => mark::ECT | mark::ECT_1,
        };
        Self {
            is_on: host.ecn,
            is_accurate: host.accurate_ecn,
            is_dctcp: host.dctcp_receiver,
            ce: 0,
            ack_marks,
            echo: false,
            was_marked: false,
            has_seen_ect: false,
        }
    }

    /// Notes a packet that is not discarded. Of one below the next expected, RFC 3168's receiver notes CWR alone.
    pub fn note(&mut self, marks: u8, is_below: bool) -> Hurry {
        let is_marked = marks & mark::CE != 0;
        if !self.is_on {
            return Hurry::No;
        }
        if self.is_dctcp {
            return self.note_as_dctcp(marks, is_below);
        }
        if self.is_accurate {
            // spec: Linux tcp_ecn_received_counters: a change of the codepoint is acknowledged at once.
            self.ce = self.ce.wrapping_add(u32::from(is_marked));
            let has_changed = std::mem::replace(&mut self.was_marked, is_marked) != is_marked;
            return if has_changed { Hurry::Once } else { Hurry::No };
        }
        let mut hurry = Hurry::No;
        // The sender's window may be one segment after a reduction.
        // spec: Linux tcp_ecn_accept_cwr
        if marks & mark::CWR != 0 {
            self.echo = false;
            hurry = Hurry::Once;
        }
        if is_below {
            return hurry;
        }
        // spec: Linux tcp_data_ecn_check; a segment without ECT is probably a retransmission
        let is_ect = marks & mark::ECT != 0;
        if is_marked && !self.echo || !is_ect && self.has_seen_ect {
            hurry = Hurry::Twice;
        }
        self.echo |= is_marked;
        self.has_seen_ect |= is_ect;
        hurry
    }

    /// Notes a packet so that each ACK covers packets of one kind only: all marked, or none.
    // spec: RFC 8257 §3.2; Linux dctcp_ece_ack_update, tcp_ecn_accept_cwr
    fn note_as_dctcp(&mut self, marks: u8, is_below: bool) -> Hurry {
        let hurry = if marks & mark::CWR != 0 { Hurry::Once } else { Hurry::No };
        if is_below {
            return hurry;
        }
        let is_marked = marks & mark::CE != 0;
        let has_changed = std::mem::replace(&mut self.echo, is_marked) != is_marked;
        if has_changed { Hurry::AfterDelayed } else { hurry }
    }
}

impl Receiver {
    /// Notes a packet's marks. Returns the urgency of its ACK; pushes that of earlier packets, if it goes first.
    pub(super) fn note_ecn(&mut self, segment: &Segment, acks: &mut Vec<AckPacket>) -> AckDecision {
        let ece = self.ecn.echo;
        match self.ecn.note(segment.marks, segment.seq < self.next) {
            Hurry::No => AckDecision::Nothing,
            Hurry::Once => AckDecision::Now,
            Hurry::AfterDelayed => {
                if self.ack_at != Time::NEVER {
                    acks.push(AckPacket { ece, ..self.make_ack(None) });
                }
                AckDecision::Now
            }
            Hurry::Twice => {
                self.quick = self.quick.max(2);
                self.delay.reset();
                AckDecision::Now
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bbrlab_core::Span;

    use super::*;
    use crate::setup::Rwnd;

    fn classic() -> Ecn {
        Ecn::new(&HostSetup { ecn: true, ..HostSetup::default() })
    }

    #[test]
    fn cwr_ends_the_echo_and_is_acknowledged_at_once() {
        let mut ecn = classic();
        assert_eq!((ecn.note(mark::ECT, false), ecn.echo), (Hurry::No, false));
        assert_eq!((ecn.note(mark::ECT | mark::CE, false), ecn.echo), (Hurry::Twice, true));
        assert_eq!((ecn.note(mark::ECT | mark::CE, false), ecn.echo), (Hurry::No, true));
        assert_eq!((ecn.note(mark::ECT | mark::CWR, false), ecn.echo), (Hurry::Once, false));
        // Marked again on the way.
        assert_eq!((ecn.note(mark::ECT | mark::CWR | mark::CE, false), ecn.echo), (Hurry::Twice, true));
    }

    #[test]
    fn a_retransmission_without_ect_hurries_two_acks_once_ect_was_seen() {
        let mut ecn = classic();
        assert_eq!(ecn.note(mark::RETRANSMIT, false), Hurry::No);
        ecn.note(mark::ECT, false);
        assert_eq!(ecn.note(mark::RETRANSMIT, false), Hurry::Twice);
        assert_eq!(Ecn::new(&HostSetup::default()).note(mark::RETRANSMIT, false), Hurry::No);
    }

    #[test]
    fn the_mark_of_a_duplicate_counts_for_accurate_feedback_alone() {
        let mut ecn = classic();
        assert_eq!((ecn.note(mark::ECT | mark::CE, true), ecn.echo), (Hurry::No, false));
        let mut ecn = Ecn::new(&HostSetup { ecn: true, accurate_ecn: true, ..HostSetup::default() });
        assert_eq!((ecn.note(mark::ECT | mark::CE, true), ecn.ce), (Hurry::Once, 1));
        assert_eq!((ecn.note(mark::ECT | mark::CE, false), ecn.ce), (Hurry::No, 2));
        assert_eq!((ecn.note(mark::ECT, false), ecn.ce, ecn.echo), (Hurry::Once, 2, false));
    }

    /// Source: RFC 8257 §3.2; Linux `dctcp_ece_ack_update`.
    #[test]
    fn an_ack_of_dctcps_receiver_covers_packets_of_one_kind() {
        let host = HostSetup { ecn: true, accurate_ecn: true, dctcp_receiver: true, ..HostSetup::default() };
        let mut receiver = Receiver::new(1448, Rwnd::Unlimited, false, &host);
        receiver.on_handshake(Time::ZERO, Span::millis(40));
        receiver.quick = 0;
        let mut arrive = |seq, marks| {
            let segment = Segment { seq, sent: Time::nanos(seq), flow: 0, len: 1448, hop: 0, marks: marks | mark::ECT };
            let mut acks = Vec::new();
            receiver.on_segment(Time::ZERO + Span::millis(41 + seq), &segment, &mut acks);
            acks.iter().map(|ack| (ack.una, ack.ece)).collect::<Vec<_>>()
        };
        arrive(0, 0); // the first data is acknowledged at once, or delayed
        arrive(1, 0);
        assert_eq!(arrive(2, 0), []);
        assert_eq!(arrive(3, mark::CE), [(3, false), (4, true)], "a delayed ACK goes first");
        assert_eq!(arrive(4, mark::CE), []);
        assert_eq!(arrive(5, mark::CE), [(6, true)]);
        assert_eq!(arrive(6, 0), [(7, false)], "nothing was delayed");
        assert_eq!(arrive(7, mark::CWR), [(8, false)], "a reduced window may be one packet");
        assert_eq!(arrive(3, mark::CE), [(8, false)], "a duplicate changes nothing");
    }
}
