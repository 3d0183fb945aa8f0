//! The link model, sans-IO: it is offered packets one at a time and polled for departures. One model for every backend.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! A packet's stages: [`Link::offer`] → policer → queue discipline → serialiser → random loss → [`Link::depart`]. Propagation
//! follows in a [`DelayLine`]; ACKs pass an [`AckHold`].

mod ack_hold;
mod cake;
mod codel;
mod config;
mod delay;
mod demand;
mod dualpi2;
mod fifo;
mod fq;
mod fq_codel;
mod loss;
mod mahimahi;
mod model;
mod opportunities;
mod pie;
mod policer;
mod queue;
mod red;
mod serialiser;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod timetable;

use bbrlab_core::{Span, Time};

pub use ack_hold::AckHold;
pub use config::*;
pub use delay::DelayLine;
pub use loss::LossModel;
pub use mahimahi::{DeliveryTrace, TraceError};
pub use model::Link;

/// Properties of a packet that a link needs.
pub trait LinkPacket {
    /// Bytes on the wire, headers of every layer included; below 2^31.
    fn wire_bytes(&self) -> u32;
    /// Index of its flow, for hashing in flow queues and for reporting drops.
    fn flow(&self) -> u32;
    /// True if it may be marked instead of dropped (ECT in its IP header).
    fn ect(&self) -> bool;
    /// True if it belongs into the low-latency queue of an L4S link (ECT(1) or CE in its IP header).
    fn is_l4s(&self) -> bool {
        false
    }
    /// Its DSCP, if it carries one of its own; otherwise its flow's is used.
    fn dscp(&self) -> Option<u8> {
        None
    }
    /// Sets "congestion experienced".
    fn mark_ce(&mut self);
    /// True if a queue may drop `queued` now that this packet has arrived behind it: an older ACK of the same flow.
    fn supersedes(&self, _queued: &Self) -> bool {
        false
    }
}

/// Fate of an offered packet. If a discipline drops *another* packet, see [`Link::take_dropped`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet waits or is being sent.
    Queued,
    /// The policer dropped it.
    Policed,
    /// The queue dropped it.
    Dropped,
}

/// Departure of a packet from a link that plans ahead; the fields are those of [`Departure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedDeparture {
    /// Time at which its last bit leaves.
    pub at: Time,
    /// Queueing delay.
    pub queue_delay: Span,
    /// Serialisation time.
    pub service: Span,
    /// True if it will be lost behind the serialiser.
    pub lost: bool,
}

/// A packet that left the serialiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<P> {
    /// The packet, marked if a queue marked it.
    pub packet: P,
    /// Time at which its last bit left, exact even if the host polls late.
    pub at: Time,
    /// Queueing delay, from the arrival to the start of its own serialisation. A delivery trace has no serialisation, so there
    /// it ends at the departure.
    pub queue_delay: Span,
    /// Serialisation time; zero for a delivery trace.
    pub service: Span,
    /// True if it was lost behind the serialiser: it used the link but arrives nowhere.
    pub lost: bool,
}

/// Counters of a link since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets offered.
    pub arrivals: u64,
    /// Packets that the queue dropped, on arrival or later.
    pub drops: u64,
    /// Packets that the policer dropped.
    pub policed: u64,
    /// Packets that the queue marked.
    pub marks: u64,
    /// ACKs removed because a newer one arrived.
    pub filtered: u64,
    /// Packets lost at random behind the serialiser.
    pub lost: u64,
    /// Packets that left the serialiser, those lost behind it included.
    pub departed_packets: u64,
    /// Bytes on the wire of these packets.
    pub departed_bytes: u64,
}
