//! The receiver's part of the handshake, and its only sample of the RTT.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};

use super::super::packet::{AckPacket, Segment, mark};
use super::Receiver;

impl Receiver {
    /// SYN-ACK for a SYN.
    pub(super) fn syn_ack(&mut self, now: Time, syn: &Segment) -> AckPacket {
        if !self.is_established {
            self.syn_acks.push((syn.sent, now));
            self.syn_acked = now;
        }
        let (window, marks) = (self.window.now, syn.marks & (mark::ECT | mark::ECT_1));
        AckPacket { syn: true, ts_echo: syn.sent, window, marks, ..AckPacket::default() }
    }

    /// Records that the sender answers the SYN-ACK for the SYN of this time, whose timestamp its packets echo.
    // spec: Linux tcp_ack_update_rtt, which uses the echo after a second SYN-ACK
    pub fn on_answer(&mut self, syn_sent: Time) {
        if let Some(&(_, at)) = self.syn_acks.iter().find(|(sent, _)| *sent == syn_sent) {
            self.syn_acked = at;
        }
    }

    /// Completes the handshake with the first packet after the SYN. If the bare ACK was lost, that is data, and the sample includes
    /// the time until it arrived.
    // spec: Linux tcp_synack_rtt_meas
    pub(super) fn on_handshake(&mut self, now: Time, rtt: Span) {
        (self.srtt, self.is_established) = (rtt, true);
        self.window.start(now, rtt);
    }

    /// Takes the first packet after the SYN as the handshake's last.
    pub(super) fn complete_handshake(&mut self, now: Time, segment: &Segment) {
        if !self.is_established {
            self.on_handshake(now, now.since(self.syn_acked));
            self.is_opened_by_data = segment.marks & mark::BARE == 0;
        }
    }

    /// Records data out of order before any in order. The window grows with each segment, which is acknowledged at once, or with the
    /// first alone if data completed the handshake. The first ACK sets the delay, so that no quick ACKs begin with the first
    /// segment in order. Measured on Linux 6.12.
    // spec: Linux tcp_grow_window, tcp_dec_quickack_mode, tcp_event_data_recv
    pub(super) fn open_out_of_order(&mut self, is_first: bool) {
        if is_first {
            self.quick = 1;
        } else if !self.is_opened_by_data {
            self.quick |= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{HostSetup, Rwnd};

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::millis(millis)
    }

    fn segment(seq: u64, len: u16, marks: u8) -> Segment {
        Segment { seq, sent: at(0), flow: 0, len, hop: 0, marks }
    }

    /// The first packet after the SYN-ACK, whatever it is, and no other.
    #[test]
    fn the_first_packet_after_the_syn_ack_gives_the_rtt() {
        for first in [segment(0, 0, mark::BARE), segment(0, 1448, 0), segment(7, 1448, 0)] {
            let (mut receiver, mut acks) =
                (Receiver::new(1448, Rwnd::Unlimited, false, &HostSetup::default()), Vec::new());
            receiver.on_segment(at(5), &segment(0, 0, mark::SYN), &mut acks);
            receiver.on_segment(at(95), &first, &mut acks);
            receiver.on_segment(at(120), &segment(1, 1448, 0), &mut acks);
            assert_eq!(receiver.srtt, Span::millis(90), "{first:?}");
        }
    }

    /// The answer to the first SYN-ACK is on its way when the second SYN arrives.
    #[test]
    fn after_two_syn_acks_the_rtt_is_that_of_the_answered_one() {
        for (answered, rtt) in [(0, 3_500), (1_000, 2_500)] {
            let (mut receiver, mut acks) =
                (Receiver::new(1448, Rwnd::Unlimited, false, &HostSetup::default()), Vec::new());
            for sent in [0, 1_000] {
                receiver.on_segment(
                    at(1_750 + sent),
                    &Segment { sent: at(sent), ..segment(0, 0, mark::SYN) },
                    &mut acks,
                );
            }
            receiver.on_answer(at(answered));
            receiver.on_segment(at(5_250), &segment(0, 0, mark::BARE), &mut acks);
            assert_eq!(receiver.srtt, Span::millis(rtt));
        }
    }

    #[test]
    fn a_syn_that_arrives_late_changes_nothing() {
        let (mut receiver, mut acks) = (Receiver::new(1448, Rwnd::Unlimited, false, &HostSetup::default()), Vec::new());
        receiver.on_segment(at(5), &segment(0, 0, mark::SYN), &mut acks);
        receiver.on_segment(at(45), &segment(0, 0, mark::BARE), &mut acks);
        receiver.on_segment(at(50), &segment(0, 0, mark::SYN), &mut acks);
        receiver.on_segment(at(60), &segment(0, 1448, 0), &mut acks);
        assert_eq!((receiver.srtt, acks.iter().filter(|ack| ack.syn).count()), (Span::millis(40), 2));
    }
}
