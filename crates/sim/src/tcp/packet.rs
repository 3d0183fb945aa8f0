//! Packets as small plain values: data segments in one direction, ACKs in the other. An upload's packets take the form of the
//! other direction, so that a direction has one type of packet.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

use crate::link::LinkPacket;
use crate::path::PathPacket;
use crate::setup::HostSetup;

/// Headers around each payload: IPv4 (20), TCP with timestamps (32) and Ethernet (14), so 1448 bytes become 1514.
pub const HEADER_BYTES: u32 = 66;
/// Wire size of a SYN: IPv4, TCP with its options (40), Ethernet.
const SYN_BYTES: u32 = 74;

/// Marks on a segment.
pub mod mark {
    /// Connection set-up; carries no payload.
    pub const SYN: u8 = 1;
    /// ECN-capable transport.
    pub const ECT: u8 = 2;
    /// Congestion experienced.
    pub const CE: u8 = 4;
    /// Congestion window reduced by the sender (RFC 3168 CWR).
    pub const CWR: u8 = 8;
    /// A retransmission.
    pub const RETRANSMIT: u8 = 16;
    /// Third packet of the handshake: an ACK without data.
    pub const BARE: u8 = 32;
    /// TCP's PSH: the end of a super-packet of several segments, or of all data written (Linux `__tcp_transmit_skb`).
    pub const PUSH: u8 = 64;
    /// In a QUIC packet the same bit: the number before its own was skipped.
    pub const AFTER_SKIPPED: u8 = 64;
    /// ECT(1) instead of ECT(0): an L4S sender (RFC 9331).
    pub const ECT_1: u8 = 128;
    /// Marks of a segment without payload.
    pub const NO_DATA: u8 = SYN | BARE;
}

/// Bit of a sequence number that makes a segment the ACK of an upload; the rest numbers the flow's ACKs.
const IS_ACK: u64 = 1 << 63;

/// One segment on its way to the receiver. Sequence numbers count segments.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Sequence number.
    pub seq: u64,
    /// Send time (the timestamp option, in nanoseconds).
    pub sent: Time,
    /// Index of the flow.
    pub flow: u32,
    /// Payload bytes.
    pub len: u16,
    /// Next link on its path.
    pub hop: u8,
    /// Marks, from [`mark`].
    pub marks: u8,
}

impl Segment {
    /// An ACK of an upload, on the links of the downloads' data. `number` counts the flow's ACKs.
    pub fn of_ack(ack: &AckPacket, number: u64, now: Time) -> Self {
        let bytes = ack.option_bytes() + u32::from(ack.is_request) * REQUEST_BYTES;
        let (len, marks) = (bytes as u16, ack.marks | (u8::from(ack.syn) * mark::SYN));
        Self { seq: number | IS_ACK, sent: now, flow: ack.flow, len, hop: 0, marks }
    }

    /// True for an ACK of an upload.
    #[inline]
    pub const fn is_ack(&self) -> bool {
        self.seq & IS_ACK != 0
    }

    /// Number of such an ACK.
    pub const fn ack_number(&self) -> u64 {
        self.seq & !IS_ACK
    }
}

impl LinkPacket for Segment {
    #[inline]
    fn wire_bytes(&self) -> u32 {
        // Without a branch, because this runs several times a packet.
        u32::from(self.len) + HEADER_BYTES + u32::from(self.marks & mark::SYN) * (SYN_BYTES - HEADER_BYTES)
    }

    fn flow(&self) -> u32 {
        self.flow
    }

    fn ect(&self) -> bool {
        self.marks & mark::ECT != 0
    }

    fn is_l4s(&self) -> bool {
        self.marks & (mark::ECT_1 | mark::CE) != 0
    }

    fn mark_ce(&mut self) {
        self.marks |= mark::CE;
    }
}

impl PathPacket for Segment {
    type Queued = Self;

    #[inline]
    fn into_queue(self) -> Self {
        self
    }
    #[inline]
    fn from_queue(queued: Self) -> Self {
        queued
    }
    #[inline]
    fn flow(&self) -> u32 {
        self.flow
    }
    #[inline]
    fn hop(&self) -> u8 {
        self.hop
    }
    #[inline]
    fn set_hop(&mut self, hop: u8) {
        self.hop = hop;
    }
}

/// SACK blocks beside a timestamp option. Source: RFC 2018 §3.
pub const SACK_BLOCKS: usize = 3;

/// One ACK on its way to the sender; on the link of `up`, also one data segment of an upload ([`AckPacket::of_data`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckPacket {
    /// Everything before this segment has arrived.
    pub una: u64,
    /// Selectively acknowledged ranges, newest first, as offsets from `una`; an empty range ends the list.
    pub sack: [(u32, u32); SACK_BLOCKS],
    /// Duplicate segment reported by DSACK (RFC 2883).
    pub dsack: Option<u64>,
    /// Echoed timestamp: send time of the segment that last advanced the left edge.
    pub ts_echo: Time,
    /// Receive window, bytes from `una`.
    pub window: u64,
    /// Segments first reported by this ACK, for aggregation by bytes.
    pub fresh: u32,
    /// Index of the flow, set by the code that puts the ACK on a path.
    pub flow: u32,
    /// Marked packets received so far, modulo 2^32, with accurate feedback (RFC 9768; its counter wraps, this one does not).
    pub ce: u32,
    /// RFC 3168 ECN echo.
    pub ece: bool,
    /// Its own ECN codepoint, as [`mark`]s: ECT with accurate feedback, none otherwise.
    pub marks: u8,
    /// True if this answers a SYN.
    pub syn: bool,
    /// Next link on its path.
    pub hop: u8,
    /// True for a data segment in this form.
    pub is_data: bool,
    /// True for a request of the client, whose number is [`Self::una`].
    pub is_request: bool,
}

/// Payload of a request. Source: ours; the drivers of real kernels send as much.
const REQUEST_BYTES: u32 = 1;

/// Bytes that SACK blocks add to an ACK: a block, and the option's header with its padding. Source: RFC 2018 §3.
const SACK_BLOCK_BYTES: u32 = 8;
const SACK_HEADER_BYTES: u32 = 4;

impl AckPacket {
    /// The same ACK as this flow's, by its index.
    #[inline]
    #[must_use]
    pub const fn of(self, flow: usize) -> Self {
        Self { flow: flow as u32, ..self }
    }

    /// Request number `number` of a flow's client, with the ECN codepoint of its host.
    pub fn of_request(number: u64, flow: usize, host: &HostSetup) -> Self {
        let marks = match (host.ecn, host.l4s) {
            (false, _) => 0,
            (true, false) => mark::ECT,
            (true, true) => mark::ECT | mark::ECT_1,
        };
        Self { una: number, marks, is_request: true, ..Self::default() }.of(flow)
    }

    /// A data segment in the form of an ACK, for the link that uploads share with ACKs.
    pub fn of_data(segment: &Segment) -> Self {
        Self {
            una: segment.seq,
            ts_echo: segment.sent,
            fresh: segment.len.into(),
            marks: segment.marks,
            flow: segment.flow,
            is_data: true,
            ..Self::default()
        }
    }

    /// The segment of [`Self::of_data`].
    pub const fn data(&self) -> Segment {
        let (len, marks) = (self.fresh as u16, self.marks);
        Segment { seq: self.una, sent: self.ts_echo, flow: self.flow, len, hop: 0, marks }
    }

    /// Bytes of its SACK option.
    fn option_bytes(&self) -> u32 {
        let blocks = u32::from(self.dsack.is_some()) + self.sack.iter().filter(|(from, to)| from < to).count() as u32;
        if blocks == 0 { 0 } else { SACK_HEADER_BYTES + SACK_BLOCK_BYTES * blocks }
    }

    /// Bytes first reported by this ACK, which is its size where a path holds ACKs by volume. A SYN-ACK is not held.
    #[inline]
    pub const fn held_bytes(&self, mss: u64) -> Option<u64> {
        if self.syn { None } else { Some(self.fresh as u64 * mss) }
    }
}

impl LinkPacket for AckPacket {
    fn wire_bytes(&self) -> u32 {
        match (self.is_data, self.syn) {
            (true, _) => self.data().wire_bytes(),
            (false, true) => SYN_BYTES,
            (false, false) => HEADER_BYTES + self.option_bytes() + u32::from(self.is_request) * REQUEST_BYTES,
        }
    }

    fn flow(&self) -> u32 {
        self.flow
    }

    // RFC 3168 §6.1.4 has no ECN-capable ACKs; accurate feedback has.
    fn ect(&self) -> bool {
        self.marks & mark::ECT != 0
    }

    fn is_l4s(&self) -> bool {
        self.marks & (mark::ECT_1 | mark::CE) != 0
    }

    fn mark_ce(&mut self) {
        self.marks |= mark::CE;
    }

    // A duplicate ACK, and one that brings new SACK blocks or marks, says more than its number.
    fn supersedes(&self, queued: &Self) -> bool {
        let is_plain =
            |ack: &Self| !ack.is_data && !ack.is_request && !ack.syn && ack.dsack.is_none() && ack.sack[0] == (0, 0);
        is_plain(self)
            && is_plain(queued)
            && self.flow == queued.flow
            && self.una > queued.una
            && (self.ece, self.ce) == (queued.ece, queued.ce)
    }
}

impl PathPacket for AckPacket {
    type Queued = Self;

    fn into_queue(self) -> Self {
        self
    }
    fn from_queue(queued: Self) -> Self {
        queued
    }
    #[inline]
    fn flow(&self) -> u32 {
        self.flow
    }
    fn hop(&self) -> u8 {
        self.hop
    }
    fn set_hop(&mut self, hop: u8) {
        self.hop = hop;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_of_an_upload_is_as_long_as_any_other() {
        let plain = AckPacket { una: 7, ..AckPacket::default() };
        let acks = [plain, AckPacket { syn: true, ..plain }, AckPacket { sack: [(1, 2), (4, 5), (0, 0)], ..plain }];
        for (ack, bytes) in acks.into_iter().zip([66, 74, 86]) {
            let segment = Segment::of_ack(&ack, 3, Time::ZERO);
            assert_eq!((segment.wire_bytes(), ack.wire_bytes()), (bytes, bytes), "{ack:?}");
            assert!(segment.is_ack() && segment.ack_number() == 3 && !segment.ect());
        }
    }

    #[test]
    fn a_mark_on_an_ack_changes_nothing_that_it_reports() {
        let mut ack = AckPacket { una: 7, ce: 3, marks: mark::ECT | mark::ECT_1, ..AckPacket::default() };
        assert!(ack.ect() && ack.is_l4s() && Segment::of_ack(&ack, 0, Time::ZERO).is_l4s());
        ack.mark_ce();
        assert_eq!((ack.ce, ack.ece), (3, false));
        let syn = AckPacket { marks: mark::ECT | mark::ECT_1, syn: true, ..AckPacket::default() };
        assert!(Segment::of_ack(&syn, 0, Time::ZERO).is_l4s() && syn.wire_bytes() == 74);
        let classic = AckPacket { marks: mark::ECT, ..ack };
        assert!(classic.ect() && !classic.is_l4s());
    }
}
