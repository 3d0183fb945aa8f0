//! The packets of a run, captured at several places.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

/// Place at which a packet was captured. Each is an interface of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tap {
    /// Departure from the sender's host.
    Sender,
    /// Arrival at the bottleneck.
    BottleneckIn,
    /// Departure from the bottleneck.
    BottleneckOut,
    /// Arrival at the receiver's host.
    Receiver,
}

impl Tap {
    /// All taps, in the order in which a packet passes them.
    pub const ALL: [Self; 4] = [Self::Sender, Self::BottleneckIn, Self::BottleneckOut, Self::Receiver];

    /// Name of the interface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::BottleneckIn => "bottleneck-in",
            Self::BottleneckOut => "bottleneck-out",
            Self::Receiver => "receiver",
        }
    }
}

/// Direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the sender of data to its receiver.
    Data,
    /// From the receiver to the sender.
    Ack,
}

/// TCP flags, as in the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// End of the sender's data.
    pub const FIN: Self = Self(0x01);
    /// Connection set-up.
    pub const SYN: Self = Self(0x02);
    /// Data to be passed to the application (push).
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number is valid.
    pub const ACK: Self = Self(0x10);
    /// ECN echo.
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x80);

    /// Combines both sets of flags.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if all of the other's flags are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// One packet at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord {
    /// Time of the record.
    pub t_ns: u64,
    /// Index of its flow.
    pub flow: u32,
    /// Direction.
    pub dir: Direction,
    /// Sequence number of its first byte, never wrapped: a SYN has 0, the first byte of data 1.
    pub seq: u64,
    /// Acknowledgement number, never wrapped.
    pub ack: u64,
    /// Payload bytes.
    pub len: u32,
    /// TCP flags.
    pub flags: TcpFlags,
    /// IP's ECN bits: 0 not capable, 1 ECT(1), 2 ECT(0), 3 congestion experienced.
    pub ecn: u8,
    /// Receive window, bytes.
    pub window: u64,
    /// Window scale announced in the handshake.
    pub scale: u8,
    /// MSS announced in the handshake: payload and TCP options.
    pub mss: u16,
    /// The sender's timestamp, milliseconds.
    pub ts_val: u32,
    /// Echoed timestamp.
    pub ts_ecr: u32,
    /// Selectively acknowledged ranges, first byte and one past the last; empty ranges are none. The option holds three.
    pub sack: [(u64, u64); 3],
    /// Place of the capture.
    pub tap: Tap,
}

/// The packets of a run, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// One record per packet and place.
    pub records: Vec<PacketRecord>,
    /// Time at which recording reached its limit, if it did before the end of the run.
    pub cut: Option<Time>,
}
