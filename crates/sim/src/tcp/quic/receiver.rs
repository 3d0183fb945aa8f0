//! Receiving end of a QUIC flow: ranges of packet numbers, and the stream put together from them.
//! Spec: RFC 9000 §13.2.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::{BTreeMap, VecDeque};

use bbrlab_core::Time;

use super::numbers;
use crate::tcp::packet::{AckPacket, SACK_BLOCKS, Segment, mark};
use crate::tcp::receiver::Receiver;

/// Ranges of packet numbers that are kept. Source: noq-proto 1.4, `MAX_ACK_BLOCKS`.
const RANGES: usize = 64;

/// Received packets and data.
#[derive(Clone, Debug, Default)]
pub(in crate::tcp) struct QuicReceiver {
    /// Received packet numbers: sorted, disjoint, at most [`RANGES`].
    ranges: VecDeque<(u64, u64)>,
    /// Newest packet of each of the ranges that changed last, newest first.
    recent: [Option<u64>; SACK_BLOCKS],
    /// One past the largest packet number received.
    highest: u64,
    /// Next data in order, and the data behind it with its bytes.
    next_data: u32,
    beyond: BTreeMap<u32, u16>,
}

/// Effect of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) struct Arrived {
    /// True if this packet number is not the one after the largest before it, or a number was skipped, so that an ACK is due.
    pub is_out_of_order: bool,
    /// True if its data had not arrived before.
    pub is_new_data: bool,
    /// Bytes now in order.
    pub in_order: u64,
}

impl QuicReceiver {
    /// Takes a packet. Returns `None` for a duplicate of the packet, or for one older than all ranges kept.
    pub(in crate::tcp) fn on_packet(&mut self, segment: &Segment) -> Option<Arrived> {
        let (number, data) = numbers(segment.seq);
        if !self.insert(number) {
            return None;
        }
        let is_out_of_order = number != self.highest || segment.marks & mark::AFTER_SKIPPED != 0;
        self.highest = self.highest.max(number + 1);
        let is_new_data = data >= self.next_data && !self.beyond.contains_key(&data);
        let mut in_order = 0;
        if is_new_data {
            self.beyond.insert(data, segment.len);
            while let Some(len) = self.beyond.remove(&self.next_data) {
                self.next_data += 1;
                in_order += u64::from(len);
            }
        }
        Some(Arrived { is_out_of_order, is_new_data, in_order })
    }

    /// Adds a packet number to the ranges. Returns false if it is known, or too old.
    fn insert(&mut self, number: u64) -> bool {
        let at = self.ranges.partition_point(|range| range.0 <= number);
        let before = at.checked_sub(1).map(|before| self.ranges[before]);
        if before.is_some_and(|range| number < range.1) || before.is_none() && self.ranges.len() == RANGES {
            return false;
        }
        let joins_left = before.is_some_and(|range| range.1 == number);
        let joins_right = self.ranges.get(at).is_some_and(|range| range.0 == number + 1);
        match (joins_left, joins_right) {
            (true, true) => {
                self.ranges[at - 1].1 = self.ranges[at].1;
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at - 1].1 = number + 1,
            (false, true) => self.ranges[at].0 = number,
            (false, false) => self.ranges.insert(at, (number, number + 1)),
        }
        if self.ranges.len() > RANGES {
            self.ranges.pop_front();
        }
        self.touch(number);
        true
    }

    /// Moves the range of this packet to the front of those reported.
    fn touch(&mut self, number: u64) {
        let own = self.range_of(number);
        let is_own = |recent: &Option<u64>| recent.is_some_and(|other| self.range_of(other) == own);
        let place = self.recent.iter().position(is_own).unwrap_or(SACK_BLOCKS - 1);
        self.recent.copy_within(..place, 1);
        self.recent[0] = Some(number);
    }

    fn range_of(&self, number: u64) -> Option<(u64, u64)> {
        let at = self.ranges.partition_point(|range| range.0 <= number).checked_sub(1)?;
        Some(self.ranges[at]).filter(|range| number < range.1)
    }

    /// Ranges of an ACK, as offsets from a base. Real ACKs hold more of them; the others here were reported before.
    pub(in crate::tcp) fn blocks(&self) -> (u64, [(u32, u32); SACK_BLOCKS]) {
        let ranges = self.recent.map(|recent| recent.and_then(|number| self.range_of(number)));
        let base = ranges.iter().flatten().map(|range| range.0).min().unwrap_or(0);
        (base, ranges.map(|range| range.map_or((0, 0), |(from, to)| ((from - base) as u32, (to - base) as u32))))
    }
}

impl Receiver {
    /// Processes a packet, and pushes an ACK if one is due: per `rule.packets` packets, and at once if packets are missing, late or
    /// marked.
    // spec: RFC 9000 §13.2.1, §13.2.2
    pub(in crate::tcp) fn take_packet(&mut self, now: Time, segment: &Segment, acks: &mut Vec<AckPacket>) {
        let Some(arrived) = self.quic.as_mut().and_then(|quic| quic.on_packet(segment)) else {
            self.duplicates += 1;
            return;
        };
        if arrived.is_new_data {
            self.bytes += u64::from(segment.len);
        } else {
            self.duplicates += 1;
        }
        self.in_order_bytes += arrived.in_order;
        self.fresh += 1;
        let is_marked = segment.marks & mark::CE != 0;
        self.ecn.ce = self.ecn.ce.wrapping_add(u32::from(is_marked));
        let is_full = self.rule.is_none_or(|rule| self.fresh >= rule.packets);
        if !(arrived.is_out_of_order || is_marked || is_full) {
            self.ack_at = self.ack_at.min(now + self.delayed_ack.unwrap_or_default());
            return;
        }
        self.clear_timers();
        acks.extend(self.make_quic_ack());
    }

    /// Builds an ACK of the ranges that changed last; `None` for a flow of TCP.
    pub(in crate::tcp) fn make_quic_ack(&mut self) -> Option<AckPacket> {
        let (una, sack) = self.quic.as_ref()?.blocks();
        let fresh = std::mem::take(&mut self.fresh);
        Some(AckPacket { una, sack, window: self.window.now, fresh, ce: self.ecn.ce, ..AckPacket::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{HostSetup, Rwnd, Transport};
    use crate::tcp::quic::joined;

    fn packet(number: u64, data: u32) -> Segment {
        Segment { seq: joined(number, data), sent: Time::ZERO, flow: 0, len: 100, hop: 0, marks: 0 }
    }

    #[test]
    fn ranges_join_and_the_newest_is_reported_first() {
        let mut receiver = QuicReceiver::default();
        for number in [0, 1, 4, 5, 9] {
            assert!(receiver.on_packet(&packet(number, number as u32)).is_some());
        }
        assert_eq!(receiver.blocks(), (0, [(9, 10), (4, 6), (0, 2)]));
        receiver.on_packet(&packet(2, 2));
        assert_eq!(receiver.blocks(), (0, [(0, 3), (9, 10), (4, 6)]));
        receiver.on_packet(&packet(3, 3));
        assert_eq!(receiver.blocks().1[..2], [(0, 6), (9, 10)]);
    }

    #[test]
    fn data_that_left_twice_counts_once_and_each_packet_once() {
        let mut receiver = QuicReceiver::default();
        let taken = |receiver: &mut QuicReceiver, number, data| {
            receiver.on_packet(&packet(number, data)).map(|arrived| (arrived.is_new_data, arrived.in_order))
        };
        assert_eq!(taken(&mut receiver, 0, 0), Some((true, 100)));
        assert_eq!(taken(&mut receiver, 2, 2), Some((true, 0)));
        assert_eq!(taken(&mut receiver, 2, 2), None);
        assert_eq!(taken(&mut receiver, 3, 1), Some((true, 200)));
        assert_eq!(taken(&mut receiver, 1, 1), Some((false, 0)), "the original arrives after its repetition");
    }

    #[test]
    fn a_skipped_number_is_a_gap() {
        let mut receiver = QuicReceiver::default();
        let mut gap = |number, marks| {
            let packet = Segment { marks, ..packet(number, number as u32) };
            receiver.on_packet(&packet).unwrap().is_out_of_order
        };
        assert_eq!([gap(0, 0), gap(1, mark::AFTER_SKIPPED), gap(2, 0)], [false, true, false]);
    }

    #[test]
    fn old_ranges_are_forgotten() {
        let mut receiver = QuicReceiver::default();
        for number in (0..).step_by(2).take(RANGES + 1) {
            receiver.on_packet(&packet(number, number as u32));
        }
        assert_eq!(receiver.on_packet(&packet(1, 1)), None);
        assert!(receiver.on_packet(&packet(3, 3)).is_some());
    }

    /// RFC 9000 §13.4: the counts of marks are cumulative, so that a lost ACK loses none.
    #[test]
    fn each_ack_reports_all_marks_so_far() {
        let host = HostSetup { transport: Transport::QuicQuinn, ..HostSetup::default() };
        let (mut receiver, mut acks) = (Receiver::new(1448, Rwnd::Unlimited, false, &host), Vec::new());
        for (number, marks) in [(0, mark::CE), (1, 0), (2, mark::CE), (3, 0), (4, 0)] {
            receiver.on_segment(Time::nanos(number), &Segment { marks, ..packet(number, number as u32) }, &mut acks);
        }
        assert_eq!(acks.iter().map(|ack| ack.ce).collect::<Vec<_>>(), [1, 2, 2]);
    }
}
