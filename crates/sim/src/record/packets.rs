//! The packets of a run, as a capture at several places sees them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

/// Where a packet was seen. Each is an interface of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tap {
    /// As it left the sender's host.
    Sender,
    /// As it came to the bottleneck.
    BottleneckIn,
    /// As it left the bottleneck.
    BottleneckOut,
    /// As it came to the receiver's host.
    Receiver,
}

impl Tap {
    /// All of them, in the order in which a packet meets them.
    pub const ALL: [Self; 4] = [Self::Sender, Self::BottleneckIn, Self::BottleneckOut, Self::Receiver];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::BottleneckIn => "bottleneck-in",
            Self::BottleneckOut => "bottleneck-out",
            Self::Receiver => "receiver",
        }
    }
}

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the sender of data to its receiver.
    Data,
    /// Back.
    Ack,
}

/// TCP flags, as in the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data.
    pub const FIN: Self = Self(0x01);
    /// Open.
    pub const SYN: Self = Self(0x02);
    /// Data to hand over.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number counts.
    pub const ACK: Self = Self(0x10);
    /// ECN echo.
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x80);

    /// Both together.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// All of the other's flags are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// One packet at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord {
    /// When.
    pub t_ns: u64,
    /// Index of its flow.
    pub flow: u32,
    /// Which way.
    pub dir: Direction,
    /// Sequence number of its first byte, never wrapped: a SYN has 0, the first byte of data 1.
    pub seq: u64,
    /// Acknowledgement number, never wrapped.
    pub ack: u64,
    /// Payload bytes.
    pub len: u32,
    /// TCP flags.
    pub flags: TcpFlags,
    /// IP's ECN bits: 0 not capable, 2 capable, 3 congestion experienced.
    pub ecn: u8,
    /// Receive window in bytes.
    pub window: u64,
    /// The window scale that the handshake announces.
    pub scale: u8,
    /// The MSS that the handshake announces: payload and TCP's options.
    pub mss: u16,
    /// The sender's timestamp, milliseconds.
    pub ts_val: u32,
    /// The timestamp that is echoed.
    pub ts_ecr: u32,
    /// Selectively acknowledged ranges, first byte and one past the last; empty ranges are none. The option holds three.
    pub sack: [(u64, u64); 3],
    /// Where it was seen.
    pub tap: Tap,
}

/// The packets of a run, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// One record a packet and place.
    pub records: Vec<PacketRecord>,
    /// When recording ended before the run did, because there were as many as were asked for.
    pub cut: Option<Time>,
}
