//! Input types of [`crate::Controller`]: packets sent, one ACK, losses.
//!
//! Each type starts from what any transport has; all else is optional, has a documented default, and is set by a method.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::sampler::PacketToken;
use crate::units::{Span, Time};

/// Volume in flight: sent, and neither delivered nor marked lost. Bytes and packets only, for good: hosts write it as a literal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flight {
    /// Bytes as the controller counts them: payload in TCP, whole packets in QUIC, but always the same.
    pub bytes: u64,
    /// Packets.
    pub packets: u32,
}

impl Flight {
    /// Nothing in flight.
    pub const NONE: Self = Self { bytes: 0, packets: 0 };

    #[inline]
    pub(crate) const fn with(self, bytes: u64, packets: u32) -> Self {
        Self { bytes: self.bytes.saturating_add(bytes), packets: self.packets.saturating_add(packets) }
    }

    /// Subtracts these, saturating at zero.
    #[inline]
    pub(crate) const fn without(self, bytes: u64, packets: u64) -> Self {
        let packets = if packets > self.packets as u64 { 0 } else { self.packets - packets as u32 };
        Self { bytes: self.bytes.saturating_sub(bytes), packets }
    }
}

/// One packet, or one burst of packets, that leaves. A packet of no bytes (a pure ACK) is not in flight and changes nothing.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// Total bytes.
    pub bytes: u32,
    /// Number of packets.
    pub packets: u32,
    /// True if it repeats data that was sent before.
    pub is_retransmit: bool,
    /// Volume in flight before it, by the host's own count; by default the controller counts.
    pub in_flight: Option<Flight>,
    /// True if nothing sent earlier awaits an ACK; by default, if nothing is in flight.
    pub none_outstanding: Option<bool>,
    /// Later time at which it leaves, for a host whose queue holds packets until then; by default it leaves at once.
    pub departure: Option<Time>,
}

impl Sent {
    /// One packet of this size.
    #[inline]
    pub const fn packet(bytes: u32) -> Self {
        Self::burst(1, bytes)
    }

    /// Several packets that leave as one, with this total of bytes; its parts share a token.
    #[inline]
    pub const fn burst(packets: u32, bytes: u32) -> Self {
        Self { bytes, packets, is_retransmit: false, in_flight: None, none_outstanding: None, departure: None }
    }

    /// Marks it as a repetition of data sent before.
    #[inline]
    pub const fn retransmission(mut self) -> Self {
        self.is_retransmit = true;
        self
    }

    /// Sets the volume in flight, for a host that keeps its own count.
    #[inline]
    pub const fn with_in_flight(mut self, before: Flight, none_outstanding: bool) -> Self {
        self.in_flight = Some(before);
        self.none_outstanding = Some(none_outstanding);
        self
    }

    /// Sets the time at which it leaves the host's queue. Its RTT and rate count from then.
    #[inline]
    pub const fn with_departure(mut self, at: Time) -> Self {
        self.departure = Some(at);
        self
    }
}

/// Packets that the host has just marked lost. Several may be reported at once if they were sent as one burst.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Loss {
    /// Token of the packets.
    pub token: PacketToken,
    /// Position of the first: packet number, or offset in the stream. A loss that begins where the last one ended belongs to the same gap.
    pub number: u64,
    /// Number of packets.
    pub packets: u32,
    /// Total bytes.
    pub bytes: u32,
    /// True if a timer detected it, not an ACK: it counts, but belongs to no ACK's sample.
    pub by_timer: bool,
}

impl Loss {
    /// One lost packet. A host without packet numbers passes 0: each packet is then a gap of its own.
    #[inline]
    pub const fn packet(token: &PacketToken, number: u64) -> Self {
        Self { token: *token, number, packets: 1, bytes: token.bytes(), by_timer: false }
    }

    /// Consecutive packets of one burst; `number` is that of the first.
    #[inline]
    pub const fn run(token: &PacketToken, number: u64, packets: u32, bytes: u32) -> Self {
        Self { token: *token, number, packets, bytes, by_timer: false }
    }

    /// Marks it as detected by a timer.
    #[inline]
    pub const fn by_timer(mut self) -> Self {
        self.by_timer = true;
        self
    }
}

/// Deliveries of one ACK. Created by [`crate::Controller::begin_ack`], passed to [`crate::Controller::on_delivered`].
#[derive(Debug)]
#[must_use = "hand it to Controller::on_delivered"]
pub struct AckBatch {
    pub(crate) now: Time,
    pub(crate) epoch: u16,
    /// Delivered for the first time.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// The part of it that had been marked lost before, and so is no longer in flight.
    pub(crate) late_bytes: u64,
    pub(crate) late_packets: u64,
    /// Bytes whose number of packets the host does not report.
    pub(crate) uncounted_bytes: u64,
    pub(crate) newest: PacketToken,
    pub(crate) number: u64,
}

impl AckBatch {
    #[inline]
    pub(crate) const fn new(now: Time, epoch: u16) -> Self {
        Self {
            now,
            epoch,
            bytes: 0,
            packets: 0,
            late_bytes: 0,
            late_packets: 0,
            uncounted_bytes: 0,
            newest: PacketToken::NONE,
            number: 0,
        }
    }

    /// Adds a packet that is delivered for the first time. `number` orders packets sent at the same time: packet number, or position.
    #[inline]
    pub fn delivered(&mut self, token: &PacketToken, number: u64) {
        self.delivered_run(1, token.bytes().into(), token, number);
    }

    /// Adds packets that are delivered for the first time. `newest` is the newest of them: by its time of sending, then by `number`.
    #[inline]
    pub fn delivered_run(&mut self, packets: u64, bytes: u64, newest: &PacketToken, number: u64) {
        if self.take_newest(newest, number) {
            self.bytes = self.bytes.saturating_add(bytes);
            self.packets = self.packets.saturating_add(packets);
        }
    }

    /// Adds bytes that are delivered for the first time, for a host that reports only the newest of their packets.
    pub fn delivered_bytes(&mut self, bytes: u64, newest: &PacketToken) {
        if self.take_newest(newest, 0) {
            self.bytes = self.bytes.saturating_add(bytes);
            self.uncounted_bytes = self.uncounted_bytes.saturating_add(bytes);
        }
    }

    /// Adds a packet that is delivered although it had been reported lost. If this shows that the whole episode was spurious,
    /// the controller undoes its reduction.
    pub fn delivered_late(&mut self, token: &PacketToken, number: u64) {
        if self.take_newest(token, number) {
            let bytes = u64::from(token.bytes());
            self.bytes = self.bytes.saturating_add(bytes);
            self.packets = self.packets.saturating_add(1);
            self.late_bytes = self.late_bytes.saturating_add(bytes);
            self.late_packets = self.late_packets.saturating_add(1);
        }
    }

    /// Number of packets delivered so far by this ACK.
    #[inline]
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Stores a token if it is the newest. Returns false for a token of another path, or of none.
    #[inline]
    fn take_newest(&mut self, token: &PacketToken, number: u64) -> bool {
        if token.epoch() != self.epoch {
            return false;
        }
        if self.newest.epoch() == 0 || token.is_newer(number, &self.newest, self.number) {
            self.newest = *token;
            self.number = number;
        }
        true
    }
}

/// An ACK whose deliveries are counted, and which [`crate::Controller::on_ack`] ends. Losses, marks and changes of the host's
/// recovery state that belong to the ACK come in between.
///
/// If the host drops it, the next delivery ends the ACK as if by [`AckInfo::NONE`]; passing it to
/// [`crate::Controller::on_ack`] after that changes nothing.
#[derive(Debug)]
#[must_use = "end the ACK with Controller::on_ack"]
pub struct OpenAck {
    pub(crate) epoch: u16,
    /// Number of the ACK that it ends.
    pub(crate) serial: u32,
    pub(crate) packets: u64,
}

/// Data passed from the start of an ACK to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckStart {
    pub(crate) now: Time,
    pub(crate) prior_in_flight: Flight,
    pub(crate) send_time: Option<Time>,
}

impl OpenAck {
    /// Number of packets delivered by this ACK.
    pub const fn packets(&self) -> u64 {
        self.packets
    }
}

/// RTT information of an ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AckRtt {
    /// Time since the newest packet that it delivers was sent, unless that was a retransmission.
    #[default]
    Newest,
    /// No RTT.
    None,
    /// RTTs measured by the host.
    Measured {
        /// RTT of the newest packet, which the receiver delayed least: the algorithm's sample.
        newest: Option<Span>,
        /// RTT of the oldest packet, which includes the receiver's delay: the time-out's sample.
        oldest: Option<Span>,
    },
    /// RTTs that [`Controller::on_rtt`](crate::Controller::on_rtt) has taken.
    Taken {
        /// RTT of the newest packet.
        newest: Option<Span>,
    },
}

/// The host's report at the end of an ACK, besides its packets. Every field has a default that needs no input from the host.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct AckInfo {
    /// RTT information.
    pub rtt: AckRtt,
    /// Volume in flight before and after this ACK, by the host's own count; by default the controller counts.
    pub in_flight: Option<(Flight, Flight)>,
    /// Packets sent and not cumulatively acknowledged (TCP); by default those in flight.
    pub packets_out: Option<u32>,
    /// Oldest unacknowledged and next new packet (TCP), which delimit RTT rounds; by default counts of delivered packets.
    pub una_next: Option<(u64, u64)>,
    /// True if the cumulative ACK did not advance (TCP).
    pub is_duplicate: bool,
    /// True if the receiver may have delayed this ACK: it is for one packet, shorter than the largest.
    pub is_ack_delayed: bool,
    /// True if the window was the limit in the last round; by default the controller determines it.
    pub cwnd_limited: Option<bool>,
    /// True if loss-based windows may grow on this ACK (Linux `tcp_may_raise_cwnd`); by default if it delivers something.
    pub may_raise_cwnd: Option<bool>,
    /// Time at which the pacer lets the next packet go; by default now.
    pub edt: Option<Time>,
    /// True if the host does not pace algorithms that do not require it.
    pub is_unpaced: bool,
}

impl AckInfo {
    /// An RTT of the newest packet, measured by the host.
    #[inline]
    pub const fn rtt(span: Span) -> Self {
        let mut info = Self::NONE;
        info.rtt = AckRtt::Measured { newest: Some(span), oldest: Some(span) };
        info
    }

    /// No information from the host.
    pub const NONE: Self = Self {
        rtt: AckRtt::Newest,
        in_flight: None,
        packets_out: None,
        una_next: None,
        is_duplicate: false,
        is_ack_delayed: false,
        cwnd_limited: None,
        may_raise_cwnd: None,
        edt: None,
        is_unpaced: false,
    };

    /// Sets the time at which the pacer lets the next packet go.
    #[inline]
    pub const fn with_edt(mut self, edt: Time) -> Self {
        self.edt = Some(edt);
        self
    }

    /// Sets `cwnd_limited`: true if the window was the limit in the last round.
    #[inline]
    pub const fn with_cwnd_limited(mut self, is_limited: bool) -> Self {
        self.cwnd_limited = Some(is_limited);
        self
    }
}

/// Properties of a path that a host stores between connections ([`crate::Controller::resume`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RememberedPath {
    /// Bandwidth in payload.
    pub bw: crate::units::Rate,
    /// Smallest RTT.
    pub min_rtt: Span,
}

impl RememberedPath {
    /// Earlier measurements of the path.
    pub const fn new(bw: crate::units::Rate, min_rtt: Span) -> Self {
        Self { bw, min_rtt }
    }
}
