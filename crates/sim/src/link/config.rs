//! Resolved configuration of a link: its rate, its queue, and its effects on packets.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::Arc;

use bbrlab_core::{Rate, Span};

use super::mahimahi::DeliveryTrace;

/// One link: token-bucket policer, then queue, then serialiser, then random loss.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Service that drains the queue.
    pub service: Service,
    /// Limit of the queue. The packet being serialised does not count.
    pub buffer: Buffer,
    /// Queue discipline.
    pub aqm: Aqm,
    /// A token bucket in front of the queue.
    pub policer: Option<Policer>,
    /// Random loss behind the serialiser.
    pub loss: Loss,
    /// True if a queue of drop-tail or CAKE removes an ACK when a newer one of its flow arrives.
    pub ack_filter: bool,
}

impl LinkConfig {
    /// Creates a constant rate behind a drop-tail queue without impairments.
    pub const fn drop_tail(rate: Rate, buffer: Buffer) -> Self {
        let service = Service::Rate(rate);
        Self { service, buffer, aqm: Aqm::DropTail, policer: None, loss: Loss::None, ack_filter: false }
    }
}

/// Service that drains a queue.
#[derive(Clone, Debug)]
pub enum Service {
    /// A constant rate in bits per second on the wire.
    Rate(Rate),
    /// mahimahi's delivery opportunities of 1500 bytes, repeated endlessly.
    Trace(Arc<DeliveryTrace>),
    /// A link whose scheduler grants rate by backlog, as a cellular base station does (CELL).
    Demand(Demand),
}

impl Service {
    /// Rate to which a buffer in BDP or in drain time refers: a trace's mean, a demand link's maximum.
    pub fn nominal_rate(&self) -> Rate {
        match self {
            Self::Rate(rate) => *rate,
            Self::Trace(trace) => trace.mean_rate(),
            Self::Demand(demand) => demand.max,
        }
    }
}

/// A demand-driven link, whose rate moves each `period` by one of `steps` between `min` and `max`.
/// It rises if the queue held at least `up_backlog` of drain time throughout the period, and falls if the queue ran empty.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Lowest rate granted.
    pub min: Rate,
    /// Highest rate granted.
    pub max: Rate,
    /// Number of equal ratios between them.
    pub steps: u32,
    /// Interval between reviews of the grant.
    pub period: Span,
    /// Backlog, as drain time at the current rate, that raises the grant.
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

/// A queue discipline with its parameters, in Linux's terms and with its defaults.
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
    /// Fair queueing without an AQM (Linux `sch_fq`).
    Fq(Fq),
    /// PIE (RFC 8033).
    Pie(Pie),
    /// DualPI2 (RFC 9332).
    DualPi2(DualPi2),
    /// CAKE (Linux `sch_cake`).
    Cake(Cake),
}

/// RED's parameters. Averages are over bytes.
#[derive(Clone, Copy, Debug)]
pub struct Red {
    /// Average queue below which no packet is marked, bytes.
    pub min: u64,
    /// Average queue from which every packet is marked, bytes.
    pub max: u64,
    /// Marking probability at `max`, 0 to 1.
    pub probability: f64,
    /// Weight of the newest sample is 2^-`wlog`.
    pub wlog: u32,
    /// Above `max`, increase to 1 at 2·`max` instead of immediately.
    pub gentle: bool,
    /// Mark instead of dropping if the packet supports it.
    pub ecn: bool,
}

/// CoDel's parameters.
#[derive(Clone, Copy, Debug)]
pub struct Codel {
    /// Acceptable standing queue delay. RFC 8289: 5 ms.
    pub target: Span,
    /// Window in which the delay must fall below target. RFC 8289: 100 ms.
    pub interval: Span,
    /// Mark instead of dropping if the packet supports it.
    pub ecn: bool,
    /// Mark every packet that waited longer than this (Linux `ce_threshold`).
    pub ce_threshold: Option<Span>,
    /// Mark for `ce_threshold` only what carries ECT(1) (Linux `ce_threshold_selector 0x1/0x3`, in `fq_codel` alone).
    pub ce_only_ect_1: bool,
}

/// FQ-CoDel's parameters.
#[derive(Clone, Copy, Debug)]
pub struct FqCodel {
    /// CoDel parameters of each queue.
    pub codel: Codel,
    /// Number of hash buckets. Linux: 1024.
    pub flows: u32,
    /// Bytes that a queue may send per round. Linux: 1514.
    pub quantum: u32,
}

/// FQ's parameters.
#[derive(Clone, Debug)]
pub struct Fq {
    /// Maximum number of packets of one flow. Linux: 100.
    pub flow_limit: u32,
    /// Bytes that a queue may send per round. Linux: 3028.
    pub quantum: u32,
    /// Bytes that a flow may send at first. Linux: 15140.
    pub initial_quantum: u32,
    /// Mark every packet that waited longer than this (Linux `ce_threshold`).
    pub ce_threshold: Option<Span>,
    /// Class of each flow; the flows beyond are best effort.
    pub flows: Arc<[FlowClass]>,
}

/// DualPI2's parameters.
#[derive(Clone, Copy, Debug)]
pub struct DualPi2 {
    /// Target delay of the classic queue. Linux: 15 ms.
    pub target: Span,
    /// Update interval of the base probability. Linux: 16 ms.
    pub tupdate: Span,
    /// Integral weight, 1/s. Linux: 41/256.
    pub alpha: f64,
    /// Proportional weight, 1/s. Linux: 819/256.
    pub beta: f64,
    /// Ratio of the L queue's marking probability to the base probability. Linux: 2.
    pub coupling: f64,
    /// Delay above which the L queue marks every packet. Linux: 1 ms.
    pub step: Span,
    /// Packets that must wait in the L queue when a packet arrives, for the step to apply to it. Linux: 0.
    pub min_qlen_step: u32,
    /// Share of the rate for the classic queue while both are full, per cent. Linux: 10.
    pub classic_percent: u32,
}

/// CAKE's parameters.
#[derive(Clone, Debug)]
pub struct Cake {
    /// Classes of traffic with queues of their own. Linux: three.
    pub tins: Tins,
    /// True if hosts get equal shares of a tin, whatever the number of their flows (`triple-isolate`, Linux's default).
    pub host_fairness: bool,
    /// Interval of COBALT. Linux: 100 ms.
    pub interval: Span,
    /// Acceptable standing queue delay. Linux: 5 ms.
    pub target: Span,
    /// Size of a full packet on the wire, bytes.
    pub packet_bytes: u32,
    /// Class of each flow; the flows beyond are best effort.
    pub flows: Arc<[FlowClass]>,
}

/// CAKE's division of traffic by its DSCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tins {
    /// No division.
    BestEffort,
    /// Best effort, bulk and voice.
    Diffserv3,
    /// Best effort, bulk, video and voice.
    Diffserv4,
}

/// Properties of a flow's packets that matter to CAKE, and the DSCP also to FQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowClass {
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Its host, as the index of the host's first flow.
    pub host: u32,
}

impl FlowClass {
    /// Class of a flow in this list; beyond its end best effort, of a host of its own.
    pub fn of(flows: &[Self], flow: u32) -> Self {
        flows.get(flow as usize).copied().unwrap_or(Self { dscp: 0, host: flow })
    }
}

/// PIE's parameters.
#[derive(Clone, Copy, Debug)]
pub struct Pie {
    /// Target queue delay. RFC 8033: 15 ms.
    pub target: Span,
    /// Update interval of the drop probability. RFC 8033: 15 ms.
    pub tupdate: Span,
    /// Integral weight, 1/s. RFC 8033: 0.125.
    pub alpha: f64,
    /// Proportional weight, 1/s. RFC 8033: 1.25.
    pub beta: f64,
    /// Initial burst that passes without drops. RFC 8033: 150 ms.
    pub max_burst: Span,
    /// Mark instead of dropping if the packet supports it and the probability is at most 10 %.
    pub ecn: bool,
}

/// A token-bucket policer, which drops packets that exceed the available tokens.
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
    /// No loss.
    #[default]
    None,
    /// Independent loss of each packet with this probability.
    Bernoulli(f64),
    /// Gilbert–Elliott in netem's terms: `p` good→bad, `r` bad→good, loss `1-h` in bad, `1-k` in good.
    GilbertElliott {
        /// Probability per packet of a change from good to bad.
        p: f64,
        /// Probability per packet of a change from bad to good.
        r: f64,
        /// Loss probability in the bad state.
        loss_bad: f64,
        /// Loss probability in the good state.
        loss_good: f64,
    },
}

/// A delay line: the propagation in one direction of one flow's path.
#[derive(Clone, Copy, Debug)]
pub struct DelayConfig {
    /// Propagation delay.
    pub delay: Span,
    /// Added delay, uniform in 0..=jitter.
    pub jitter: Span,
    /// True if jitter may reorder packets; otherwise a packet never overtakes another.
    pub jitter_reorders: bool,
    /// Share of packets that skip the jitter and a further `delay`/2, and so overtake others (netem `reorder`).
    pub reorder: f64,
    /// Share of packets that are duplicated.
    pub duplicate: f64,
}

/// Holding of ACKs, which are then released together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckAggregation {
    /// No holding.
    None,
    /// Holding of all ACKs that arrive within this time after the first one held.
    Time(Span),
    /// Holding until ACKs for this many bytes are held, or 200 ms passed since the first.
    Bytes(u64),
}
