//! What a host says, and how little of it it needs to know: packets sent, one ACK, losses.
//!
//! Every type here begins with what any transport knows; the rest is optional, has a documented default, and is added by a method.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::sampler::Token;
use crate::units::{Span, Time};

/// What is in flight: sent, and neither delivered nor marked lost. Bytes and packets, and never more: hosts write it as a literal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flight {
    /// Bytes that the controller counts: payload in TCP, whole packets in QUIC, but always the same.
    pub bytes: u64,
    /// Packets.
    pub packets: u32,
}

impl Flight {
    /// Nothing.
    pub const NONE: Self = Self { bytes: 0, packets: 0 };

    #[inline]
    pub(crate) const fn with(self, bytes: u64, packets: u32) -> Self {
        Self { bytes: self.bytes.saturating_add(bytes), packets: self.packets.saturating_add(packets) }
    }

    /// Without these; never less than nothing.
    #[inline]
    pub(crate) const fn without(self, bytes: u64, packets: u64) -> Self {
        let packets = if packets > self.packets as u64 { 0 } else { self.packets - packets as u32 };
        Self { bytes: self.bytes.saturating_sub(bytes), packets }
    }
}

/// One packet, or one burst of packets, that leaves. A packet of no bytes (an ACK alone) is not in flight and changes nothing.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// Bytes of all of it.
    pub bytes: u32,
    /// Packets in it.
    pub packets: u32,
    /// It repeats data that was sent before.
    pub is_retransmit: bool,
    /// What was in flight before it, by the host's own count; by default the controller counts.
    pub in_flight: Option<Flight>,
    /// Nothing sent earlier awaits an answer; by default, nothing is in flight.
    pub none_outstanding: Option<bool>,
}

impl Sent {
    /// One packet.
    #[inline]
    pub const fn packet(bytes: u32) -> Self {
        Self::burst(1, bytes)
    }

    /// Several packets that leave as one, of so many bytes in all; its parts share a token.
    #[inline]
    pub const fn burst(packets: u32, bytes: u32) -> Self {
        Self { bytes, packets, is_retransmit: false, in_flight: None, none_outstanding: None }
    }

    /// It repeats what was sent before.
    #[inline]
    pub const fn retransmission(mut self) -> Self {
        self.is_retransmit = true;
        self
    }

    /// For a host that keeps its own count of what is in flight.
    #[inline]
    pub const fn with_in_flight(mut self, before: Flight, none_outstanding: bool) -> Self {
        self.in_flight = Some(before);
        self.none_outstanding = Some(none_outstanding);
        self
    }
}

/// Packets that the host has just marked lost. Several may be reported at once if they were sent as one burst.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Loss {
    /// Their token.
    pub token: Token,
    /// Where they stand: packet number, or place in the stream. What begins where the last loss ended belongs to the same gap.
    pub number: u64,
    /// How many.
    pub packets: u32,
    /// Bytes of all of them.
    pub bytes: u32,
    /// A timer found it, not an ACK: it counts, but belongs to no ACK's sample.
    pub by_timer: bool,
}

impl Loss {
    /// One packet. A host without numbers says 0: each packet is then a gap of its own.
    #[inline]
    pub const fn packet(token: &Token, number: u64) -> Self {
        Self { token: *token, number, packets: 1, bytes: token.bytes(), by_timer: false }
    }

    /// Consecutive packets of one burst, the first of which has this number.
    #[inline]
    pub const fn run(token: &Token, number: u64, packets: u32, bytes: u32) -> Self {
        Self { token: *token, number, packets, bytes, by_timer: false }
    }

    /// Found by a timer.
    #[inline]
    pub const fn by_timer(mut self) -> Self {
        self.by_timer = true;
        self
    }
}

/// One ACK as the host reads it: what it delivers. Made by [`crate::Controller::begin_ack`], handed to [`crate::Controller::on_delivered`].
#[derive(Debug)]
#[must_use = "hand it to Controller::on_delivered"]
pub struct AckBatch {
    pub(crate) now: Time,
    pub(crate) epoch: u16,
    /// Delivered for the first time.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// Of these, what had been marked lost before: it is in flight no more.
    pub(crate) late_bytes: u64,
    pub(crate) late_packets: u64,
    /// Bytes of which the host does not know the packets.
    pub(crate) uncounted_bytes: u64,
    pub(crate) newest: Token,
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
            newest: Token::NONE,
            number: 0,
        }
    }

    /// A packet was reported delivered for the first time. `number` orders packets sent at the same moment: packet number, or place.
    #[inline]
    pub fn delivered(&mut self, token: &Token, number: u64) {
        self.delivered_run(1, token.bytes().into(), token, number);
    }

    /// Several packets were reported delivered for the first time, of which this is the newest: by its time of sending, then by `number`.
    #[inline]
    pub fn delivered_run(&mut self, packets: u64, bytes: u64, newest: &Token, number: u64) {
        if self.take_newest(newest, number) {
            self.bytes = self.bytes.saturating_add(bytes);
            self.packets = self.packets.saturating_add(packets);
        }
    }

    /// So many bytes were reported delivered for the first time; all that is known of their packets is the newest one.
    pub fn delivered_bytes(&mut self, bytes: u64, newest: &Token) {
        if self.take_newest(newest, 0) {
            self.bytes = self.bytes.saturating_add(bytes);
            self.uncounted_bytes = self.uncounted_bytes.saturating_add(bytes);
        }
    }

    /// A packet that had been reported lost was reported delivered after all. Where that shows that the whole episode was a mistake,
    /// the controller takes its reduction back.
    pub fn delivered_late(&mut self, token: &Token, number: u64) {
        if self.take_newest(token, number) {
            let bytes = u64::from(token.bytes());
            self.bytes = self.bytes.saturating_add(bytes);
            self.packets = self.packets.saturating_add(1);
            self.late_bytes = self.late_bytes.saturating_add(bytes);
            self.late_packets = self.late_packets.saturating_add(1);
        }
    }

    /// Packets that it delivers so far.
    #[inline]
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// False: a token of another path, or of none.
    #[inline]
    fn take_newest(&mut self, token: &Token, number: u64) -> bool {
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
/// recovery state that belong to it come in between.
///
/// The controller ends an ACK that its host dropped when the next one is delivered, as if by [`AckInfo::NONE`]; one handed to
/// [`crate::Controller::on_ack`] after that changes nothing.
#[derive(Debug)]
#[must_use = "end the ACK with Controller::on_ack"]
pub struct OpenAck {
    pub(crate) epoch: u16,
    /// Number of the ACK that it ends.
    pub(crate) serial: u32,
    pub(crate) packets: u64,
}

/// Data that the end of an ACK needs of its beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckStart {
    pub(crate) now: Time,
    pub(crate) prior_in_flight: Flight,
    pub(crate) send_time: Option<Time>,
}

impl OpenAck {
    /// Packets that it delivers.
    pub const fn packets(&self) -> u64 {
        self.packets
    }
}

/// What an ACK says of the RTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AckRtt {
    /// The time since the newest packet that it delivers was sent, unless that was a retransmission.
    #[default]
    Newest,
    /// Nothing.
    None,
    /// What the host measured.
    Measured {
        /// Of the newest packet, which the receiver delayed least: the algorithm's sample.
        newest: Option<Span>,
        /// Of the oldest packet, which includes the receiver's delay: the time-out's sample.
        oldest: Option<Span>,
    },
}

/// The end of an ACK: what the host knows besides its packets. Each default is what can be had without the host.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct AckInfo {
    /// The RTT.
    pub rtt: AckRtt,
    /// What was in flight before and is after this ACK, by the host's own count; by default the controller counts.
    pub in_flight: Option<(Flight, Flight)>,
    /// Packets sent and not cumulatively acknowledged (TCP); by default those in flight.
    pub packets_out: Option<u32>,
    /// Oldest unacknowledged and next new packet (TCP), by which RTT rounds end; by default counts of what is delivered.
    pub una_next: Option<(u64, u64)>,
    /// The cumulative ACK did not advance (TCP).
    pub is_duplicate: bool,
    /// The receiver may have delayed this ACK: it is for one packet, shorter than the largest.
    pub is_ack_delayed: bool,
    /// Whether the window was the limit in the last round; by default the controller watches.
    pub cwnd_limited: Option<bool>,
    /// Whether loss-based windows may grow on this ACK (Linux `tcp_may_raise_cwnd`); by default if it delivers something.
    pub may_raise_cwnd: Option<bool>,
    /// When the pacer lets the next packet go; by default now.
    pub edt: Option<Time>,
    /// The host does not pace algorithms that did not ask for it.
    pub is_unpaced: bool,
}

impl AckInfo {
    /// The host measured this RTT, of the newest packet.
    #[inline]
    pub const fn rtt(span: Span) -> Self {
        let mut info = Self::NONE;
        info.rtt = AckRtt::Measured { newest: Some(span), oldest: Some(span) };
        info
    }

    /// The host knows nothing.
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

    /// When the pacer lets the next packet go.
    #[inline]
    pub const fn with_edt(mut self, edt: Time) -> Self {
        self.edt = Some(edt);
        self
    }

    /// Whether the window was the limit in the last round.
    #[inline]
    pub const fn with_cwnd_limited(mut self, is_limited: bool) -> Self {
        self.cwnd_limited = Some(is_limited);
        self
    }
}

/// What a host remembers of a path between connections ([`crate::Controller::resume`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RememberedPath {
    /// Bandwidth, of payload.
    pub bw: crate::units::Rate,
    /// Smallest RTT.
    pub min_rtt: Span,
}

impl RememberedPath {
    /// What was measured before.
    pub const fn new(bw: crate::units::Rate, min_rtt: Span) -> Self {
        Self { bw, min_rtt }
    }
}
