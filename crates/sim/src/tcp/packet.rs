//! Packets as small plain values: data segments in one direction, ACKs in the other.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

use crate::link::LinkPacket;
use crate::path::PathPacket;

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

/// One ACK on its way to the sender.
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
    /// True if this answers a SYN.
    pub syn: bool,
}

impl AckPacket {
    /// The same ACK as this flow's, by its index.
    #[inline]
    #[must_use]
    pub const fn of(self, flow: usize) -> Self {
        Self { flow: flow as u32, ..self }
    }

    /// Bytes first reported by this ACK, which is its size where a path holds ACKs by volume. A SYN-ACK is not held.
    #[inline]
    pub const fn held_bytes(&self, mss: u64) -> Option<u64> {
        if self.syn { None } else { Some(self.fresh as u64 * mss) }
    }
}

/// ACKs pass no link of their own, so links never mark them.
impl LinkPacket for AckPacket {
    fn wire_bytes(&self) -> u32 {
        HEADER_BYTES
    }
    fn flow(&self) -> u32 {
        self.flow
    }
    fn ect(&self) -> bool {
        false
    }
    fn mark_ce(&mut self) {}
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
        0
    }
    fn set_hop(&mut self, _hop: u8) {}
}
