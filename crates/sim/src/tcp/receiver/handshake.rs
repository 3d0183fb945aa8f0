//! The receiver's part of the handshake, and its only sample of the RTT.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};

use super::super::packet::{AckPacket, Segment, mark};
use super::Receiver;

impl Receiver {
    /// SYN-ACK for a SYN.
    ///
    /// Differs: Linux takes no sample of the RTT after a second SYN-ACK.
    pub(super) fn syn_ack(&mut self, now: Time, syn: &Segment) -> AckPacket {
        if !self.is_established {
            self.syn_acked = now;
        }
        let (window, marks) = (self.window.now, syn.marks & (mark::ECT | mark::ECT_1));
        AckPacket { syn: true, ts_echo: syn.sent, window, marks, ..AckPacket::default() }
    }

    /// Completes the handshake with the first packet after the SYN. If the bare ACK was lost, that is data, and the sample includes
    /// the time until it arrived.
    // spec: Linux tcp_synack_rtt_meas
    pub(super) fn on_handshake(&mut self, now: Time, rtt: Span) {
        (self.srtt, self.is_established) = (rtt, true);
        self.window.start(now, rtt);
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
