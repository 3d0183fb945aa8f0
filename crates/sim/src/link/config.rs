//! What a link is: its rate, its queue, and what it does to packets, as plain resolved values.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::Arc;

use bbrlab_core::{Rate, Span};

use super::mahimahi::DeliveryTrace;

/// One link: token-bucket policer, then queue, then serialiser, then random loss.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// What drains the queue.
    pub service: Service,
    /// How much may wait. The packet being serialised does not count.
    pub buffer: Buffer,
    /// The queue discipline.
    pub aqm: Aqm,
    /// A token bucket in front of the queue.
    pub policer: Option<Policer>,
    /// Random loss behind the serialiser.
    pub loss: Loss,
}

impl LinkConfig {
    /// A constant rate behind a drop-tail queue, nothing else.
    pub const fn drop_tail(rate: Rate, buffer: Buffer) -> Self {
        Self { service: Service::Rate(rate), buffer, aqm: Aqm::DropTail, policer: None, loss: Loss::None }
    }
}

/// What drains a queue.
#[derive(Clone, Debug)]
pub enum Service {
    /// A constant rate in bits per second on the wire.
    Rate(Rate),
    /// mahimahi's delivery opportunities of 1500 bytes, repeated without end.
    Trace(Arc<DeliveryTrace>),
    /// A link whose scheduler grants rate by backlog, as a cellular base station does (CELL).
    Demand(Demand),
}

impl Service {
    /// The rate that a buffer in BDP or in drain time refers to: a trace's mean, a demand link's maximum.
    pub fn nominal_rate(&self) -> Rate {
        match self {
            Self::Rate(rate) => *rate,
            Self::Trace(trace) => trace.mean_rate(),
            Self::Demand(demand) => demand.max,
        }
    }
}

/// A demand-driven link: every `period` the rate moves one of `steps` between `min` and `max`:
/// up if the queue held at least `up_backlog` of drain time throughout the period, down if it ran empty.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// The lowest rate granted.
    pub min: Rate,
    /// The highest rate granted.
    pub max: Rate,
    /// How many equal ratios lie between them.
    pub steps: u32,
    /// How often the grant is reconsidered.
    pub period: Span,
    /// The backlog, as drain time at the present rate, that earns more.
    pub up_backlog: Span,
}

/// A queue limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Packets, as Linux's `pfifo` counts.
    Packets(u64),
    /// Bytes on the wire, as `bfifo` counts.
    Bytes(u64),
}

/// A queue discipline with its parameters, in Linux's words and defaults.
#[derive(Clone, Debug)]
pub enum Aqm {
    /// Tail drop at the buffer's limit.
    DropTail,
    /// Random early detection (Floyd and Jacobson 1993; `tc red`).
    Red(Red),
    /// CoDel (RFC 8289).
    Codel(Codel),
    /// FQ-CoDel (RFC 8290).
    FqCodel(FqCodel),
    /// PIE (RFC 8033).
    Pie(Pie),
}

/// RED's parameters. Averages are over bytes.
#[derive(Clone, Copy, Debug)]
pub struct Red {
    /// Average queue below which nothing is marked, bytes.
    pub min: u64,
    /// Average queue from which everything is marked, bytes.
    pub max: u64,
    /// Marking probability at `max`, 0 to 1.
    pub probability: f64,
    /// Weight of the newest sample is 2^-`wlog`.
    pub wlog: u32,
    /// Above `max`, rise to 1 at 2·`max` instead of at once.
    pub gentle: bool,
    /// Mark instead of dropping where the packet allows.
    pub ecn: bool,
}

/// CoDel's parameters.
#[derive(Clone, Copy, Debug)]
pub struct Codel {
    /// Acceptable standing queue delay. RFC 8289: 5 ms.
    pub target: Span,
    /// The window in which the delay must fall below target. RFC 8289: 100 ms.
    pub interval: Span,
    /// Mark instead of dropping where the packet allows.
    pub ecn: bool,
    /// Mark every packet that waited longer than this (Linux `ce_threshold`).
    pub ce_threshold: Option<Span>,
}

/// FQ-CoDel's parameters.
#[derive(Clone, Copy, Debug)]
pub struct FqCodel {
    /// CoDel in each queue.
    pub codel: Codel,
    /// Number of hash buckets. Linux: 1024.
    pub flows: u32,
    /// Bytes a queue may send a round. Linux: 1514.
    pub quantum: u32,
}

/// PIE's parameters.
#[derive(Clone, Copy, Debug)]
pub struct Pie {
    /// Target queue delay. RFC 8033: 15 ms.
    pub target: Span,
    /// How often the drop probability is updated. RFC 8033: 15 ms.
    pub tupdate: Span,
    /// Integral weight, 1/s. RFC 8033: 0.125.
    pub alpha: f64,
    /// Proportional weight, 1/s. RFC 8033: 1.25.
    pub beta: f64,
    /// Burst let through untouched at start. RFC 8033: 150 ms.
    pub max_burst: Span,
    /// Mark instead of dropping where the packet allows and the probability is at most 10 %.
    pub ecn: bool,
}

/// A token-bucket policer: what finds no token is dropped.
#[derive(Clone, Copy, Debug)]
pub struct Policer {
    /// Rate at which tokens arrive.
    pub rate: Rate,
    /// Depth of the bucket, bytes. It starts full.
    pub burst: u64,
}

/// Random loss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// Nothing is lost.
    #[default]
    None,
    /// Each packet by itself, with this probability.
    Bernoulli(f64),
    /// Gilbert–Elliott in netem's words: `p` good→bad, `r` bad→good, loss `1-h` in bad, `1-k` in good.
    GilbertElliott {
        /// Good to bad, a packet.
        p: f64,
        /// Bad to good, a packet.
        r: f64,
        /// Loss probability in the bad state.
        loss_bad: f64,
        /// Loss probability in the good state.
        loss_good: f64,
    },
}

/// A delay line: what propagation does to one direction of one flow's path.
#[derive(Clone, Copy, Debug)]
pub struct DelayConfig {
    /// Propagation delay.
    pub delay: Span,
    /// Added delay, uniform in 0..=jitter.
    pub jitter: Span,
    /// Jitter may change the order of packets; otherwise a packet never overtakes another.
    pub jitter_reorders: bool,
    /// This share of packets skips the delay line's jitter and a further `delay`/2, so that it overtakes (netem `reorder`).
    pub reorder: f64,
    /// This share of packets arrives twice.
    pub duplicate: f64,
}

/// What holds ACKs back and releases them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckAggregation {
    /// Not at all.
    None,
    /// All ACKs that came within this much time of the first one held.
    Time(Span),
    /// Until ACKs for this many bytes are held, or 200 ms passed since the first.
    Bytes(u64),
}
