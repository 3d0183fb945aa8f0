//! The link model, sans-IO: offered a packet at a time, asked for the next departure. One model for every world.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! A packet's way: [`Link::offer`] → policer → queue discipline → serialiser → random loss → [`Link::depart`],
//! then a [`DelayLine`] for propagation, and an [`AckHold`] on the way back.

mod ack_hold;
mod codel;
mod config;
mod delay;
mod demand;
mod fifo;
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

use bbrlab_core::{Span, Time};

pub use ack_hold::AckHold;
pub use config::*;
pub use delay::DelayLine;
pub use loss::LossModel;
pub use mahimahi::{DeliveryTrace, TraceError};
pub use model::Link;

/// What the link needs to know of a packet.
pub trait LinkPacket {
    /// Bytes on the wire, headers of every layer included; below 2^31.
    fn wire_bytes(&self) -> u32;
    /// The flow it belongs to; flow queues hash it, drops are reported by it.
    fn flow(&self) -> u32;
    /// Whether it may be marked instead of dropped (ECT in its IP header).
    fn ect(&self) -> bool;
    /// Sets "congestion experienced".
    fn mark_ce(&mut self);
}

/// What became of an offered packet. Where a discipline drops *another* packet, see [`Link::take_dropped`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It waits or is being sent.
    Queued,
    /// The policer dropped it.
    Policed,
    /// The queue dropped it.
    Dropped,
}

/// A packet that left the serialiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<P> {
    /// The packet, marked if a queue marked it.
    pub packet: P,
    /// When its last bit left, exactly, however late the host asked.
    pub at: Time,
    /// How long it waited: from its arrival to the start of its own serialisation.
    /// A delivery trace has no serialisation, so there it runs to the departure.
    pub queue_delay: Span,
    /// How long its own serialisation took; nothing for a delivery trace.
    pub service: Span,
    /// Lost behind the serialiser: it used the link and arrives nowhere.
    pub lost: bool,
}

/// What a link counted since its start.
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
    /// Packets lost at random behind the serialiser.
    pub lost: u64,
    /// Packets that left the serialiser, those lost behind it included.
    pub departed_packets: u64,
    /// Their bytes on the wire.
    pub departed_bytes: u64,
}
