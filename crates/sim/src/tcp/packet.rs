//! What travels: segments one way, ACKs the other, as small plain values.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

use crate::link::LinkPacket;
use crate::path::PathPacket;

/// IPv4 (20), TCP with timestamps (32) and Ethernet (14) around each payload: 1448 bytes become 1514.
pub const HEADER_BYTES: u32 = 66;
/// A SYN: IPv4, TCP with its options (40), Ethernet.
const SYN_BYTES: u32 = 74;

/// Marks on a segment.
pub mod mark {
    /// Connection set-up; carries no payload.
    pub const SYN: u8 = 1;
    /// ECN-capable transport.
    pub const ECT: u8 = 2;
    /// Congestion experienced.
    pub const CE: u8 = 4;
    /// The sender has reduced its window (RFC 3168 CWR).
    pub const CWR: u8 = 8;
    /// A retransmission.
    pub const RETRANSMIT: u8 = 16;
    /// The third packet of the handshake: an acknowledgement alone.
    pub const BARE: u8 = 32;
    /// TCP's PSH: the end of a super-packet of several segments, or of all that was written (Linux `__tcp_transmit_skb`).
    pub const PUSH: u8 = 64;
    /// What carries no payload.
    pub const NO_DATA: u8 = SYN | BARE;
}

/// One segment on its way to the receiver. Sequence numbers count segments.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Its number.
    pub seq: u64,
    /// When it was sent (its timestamp option, in nanoseconds).
    pub sent: Time,
    /// Whose it is.
    pub flow: u32,
    /// Payload bytes.
    pub len: u16,
    /// The next link that it meets.
    pub hop: u8,
    /// Marks, from [`mark`].
    pub marks: u8,
}

impl LinkPacket for Segment {
    #[inline]
    fn wire_bytes(&self) -> u32 {
        // Without a branch, for it is asked several times a packet.
        u32::from(self.len) + HEADER_BYTES + u32::from(self.marks & mark::SYN) * (SYN_BYTES - HEADER_BYTES)
    }

    fn flow(&self) -> u32 {
        self.flow
    }

    fn ect(&self) -> bool {
        self.marks & mark::ECT != 0
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

/// One ACK on its way back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckPacket {
    /// Everything before this segment has arrived.
    pub una: u64,
    /// Selectively acknowledged ranges, newest first, as offsets from `una`; an empty range ends the list.
    pub sack: [(u32, u32); SACK_BLOCKS],
    /// A segment that arrived twice (RFC 2883).
    pub dsack: Option<u64>,
    /// Echoed timestamp: when the segment was sent that last advanced the left edge.
    pub ts_echo: Time,
    /// Receive window, bytes from `una`.
    pub window: u64,
    /// Segments that this ACK is the first to report, for aggregation by bytes.
    pub fresh: u32,
    /// Whose it is; who sends it over a path writes it down.
    pub flow: u32,
    /// RFC 3168 echo.
    pub ece: bool,
    /// Answers a SYN.
    pub syn: bool,
}

impl AckPacket {
    /// What counts where a path holds ACKs by volume: the bytes that it is the first to report. A SYN's answer is not held.
    #[inline]
    pub const fn held_bytes(&self, mss: u64) -> Option<u64> {
        if self.syn { None } else { Some(self.fresh as u64 * mss) }
    }
}

/// ACKs meet no link of their own.
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
