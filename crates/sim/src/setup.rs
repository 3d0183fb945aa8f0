//! A scenario as the simulator takes it: every default filled in, every unit resolved.
//! [`crate::scenario`] makes these values from text; anyone may make them by hand.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use bbrlab_core::{ALGORITHMS, AlgorithmConfig, Rate, Span, Time};

use crate::link::{AckAggregation, Buffer, LinkConfig, Loss};
use crate::metrics::secs;
use crate::record::packets::Tap;
use crate::record::result::FlowResult;

/// Everything that a run depends on. Same setup, same bytes out.
#[derive(Clone, Debug)]
pub struct Setup {
    /// When the run ends.
    pub duration: Time,
    /// Metrics count from here.
    pub warmup: Time,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Grid of the recorded series; `None` records none.
    pub sample: Option<Span>,
    /// Whether packets are recorded.
    pub capture: Capture,
    /// Bottlenecks in the order in which a packet meets them (a parking lot has several).
    pub links: Vec<LinkConfig>,
    /// Index of the link whose figures are the result's `bottleneck`.
    pub bottleneck: usize,
    /// What lies between the last bottleneck and the receiver, and back.
    pub path: PathSetup,
    /// Changes of the path in time, sorted.
    pub schedule: Vec<Change>,
    /// The flows.
    pub flows: Vec<FlowSetup>,
}

/// Whether packets are recorded, where and how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// None are.
    #[default]
    Off,
    /// They are, until there are `limit` of them; what comes later is left out.
    On {
        /// Most packets.
        limit: usize,
        /// Where they are seen.
        taps: &'static [Tap],
    },
}

/// What propagation and the way back do to packets.
#[derive(Clone, Copy, Debug)]
pub struct PathSetup {
    /// Two-way propagation delay without queue or serialisation; half of it on each way.
    pub rtt: Span,
    /// Added delay on the way of the data, uniform in 0..=jitter.
    pub jitter: Span,
    /// Jitter may change the order of packets.
    pub jitter_reorders: bool,
    /// Share of data packets that overtake.
    pub reorder: f64,
    /// Share of data packets that arrive twice.
    pub duplicate: f64,
    /// Random loss of ACKs.
    pub ack_loss: Loss,
    /// ACKs held and released together.
    pub ack_aggregation: AckAggregation,
}

/// One change of the path.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// When.
    pub at: Time,
    /// Which link (for changes of links).
    pub link: usize,
    /// What.
    pub what: ChangeKind,
}

/// What a change sets.
#[derive(Clone, Copy, Debug)]
pub enum ChangeKind {
    /// The link's rate.
    Rate(Rate),
    /// The link's buffer.
    Buffer(Buffer),
    /// The link's random loss.
    Loss(Loss),
    /// The path's two-way propagation delay.
    Rtt(Span),
    /// Random loss of ACKs.
    AckLoss(Loss),
}

/// One flow.
#[derive(Clone, Debug)]
pub struct FlowSetup {
    /// Its name, unique in the run: `bbr1#0`.
    pub name: String,
    /// The algorithm and its parameters.
    pub algorithm: AlgorithmConfig,
    /// A QUIC stack's own congestion control in place of it.
    pub peer: Option<Peer>,
    /// Its transport is the TCP model in each world in virtual time that has it, a QUIC stack's too: `tcp:NAME`.
    pub is_tcp: bool,
    /// When its SYN leaves.
    pub start: Time,
    /// When its application stops writing, if it does.
    pub stop: Option<Time>,
    /// Its own two-way propagation delay instead of the path's.
    pub rtt: Option<Span>,
    /// Range of links that it crosses: first and one past the last.
    pub links: (usize, usize),
    /// A link of its own in front of the first bottleneck (dumbbell).
    pub access: Option<AccessSetup>,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// The receive window.
    pub rwnd: Rwnd,
    /// What its application writes.
    pub traffic: Traffic,
    /// The hosts at both ends.
    pub host: HostSetup,
}

/// A QUIC stack whose endpoints the lab can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// s2n-quic.
    S2n,
    /// noq.
    Noq,
}

impl Stack {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::S2n, Self::Noq];

    /// Its name, as in `--on quic:NAME`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::S2n => "s2n",
            Self::Noq => "noq",
        }
    }
}

/// A congestion control that a stack brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Whose it is.
    pub stack: Stack,
    /// Its name, with the stack's in front.
    pub name: &'static str,
}

impl Peer {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self { stack: Stack::S2n, name: "s2n:bbr" },
        Self { stack: Stack::S2n, name: "s2n:cubic" },
        Self { stack: Stack::Noq, name: "noq:bbr3" },
        Self { stack: Stack::Noq, name: "noq:cubic" },
        Self { stack: Stack::Noq, name: "noq:reno" },
    ];

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|peer| peer.name == name)
    }
}

/// What stands before an algorithm's name where a flow is to be of the TCP model.
pub const TCP: &str = "tcp:";

/// The name of an algorithm with [`TCP`] in front.
pub(crate) fn over_tcp(algorithm: &'static str) -> &'static str {
    static NAMES: LazyLock<BTreeMap<&str, String>> =
        LazyLock::new(|| ALGORITHMS.iter().map(|info| (info.name, format!("{TCP}{}", info.name))).collect());
    NAMES.get(algorithm).map_or(algorithm, String::as_str)
}

/// When a receiver acknowledges, by a rule of its own instead of Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckEvery {
    /// An ACK for so many packets …
    pub packets: u32,
    /// … or so long after the first of them.
    pub delay: Span,
}

/// An access link: drop-tail, with a delay of its own that adds to the flow's RTT (both ways together).
#[derive(Clone, Copy, Debug)]
pub struct AccessSetup {
    /// Its rate.
    pub rate: Rate,
    /// Its two-way delay.
    pub rtt: Span,
    /// Its buffer.
    pub buffer: Buffer,
}

/// The receiver's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rwnd {
    /// Never the limit (a tuned host).
    Unlimited,
    /// A fixed window in bytes.
    Fixed(u64),
    /// Linux's receive-window autotuning up to this many bytes.
    Auto(u64),
}

/// What the application writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// As much as the transport takes.
    Bulk,
    /// This many bytes, then the flow ends.
    Size(u64),
    /// Bulk for `on`, silence for `off`, and again.
    OnOff {
        /// Length of a busy spell.
        on: Span,
        /// Length of a silence.
        off: Span,
    },
    /// A constant rate of payload, written every `tick`.
    Rate {
        /// Payload rate.
        rate: Rate,
        /// How often the application writes.
        tick: Span,
        /// Bytes of which each write is a multiple: 1, or a packet's payload where no packet is to be short. Not 0.
        unit: u32,
    },
    /// Responses of `size` bytes, each asked for `think` after the last one arrived, over one connection.
    RequestResponse {
        /// Bytes of a response.
        size: u64,
        /// From the arrival of a response to the sending of the next request.
        think: Span,
    },
    /// Responses of given sizes over one connection, then the flow ends. The run ends with the last such flow.
    Objects(Arc<[Object]>),
}

/// One response of [`Traffic::Objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its bytes.
    pub size: u64,
    /// From the arrival of the object before it to the sending of its request; the first one is asked for at the start.
    pub pause: Span,
}

/// How the hosts at both ends behave, in Linux's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSetup {
    /// Pacing for algorithms that do not ask for it themselves (`fq` on the host).
    pub pacing: bool,
    /// Largest TSO burst in bytes; one segment disables it. Linux: 65536.
    pub tso_max: u32,
    /// Receiver merges segments that arrive within this span of each other before it decides on an ACK.
    pub gro: Option<Span>,
    /// Delayed-ACK timer (`ato`). Linux: 40 ms.
    pub delayed_ack: Span,
    /// Negotiate ECN (RFC 3168).
    pub ecn: bool,
    /// Initial congestion window in segments. Linux: 10.
    pub initial_cwnd: u32,
    /// The receiver's rule for ACKs, where it is not Linux's.
    pub ack: Option<AckEvery>,
    /// On a real kernel: whose program of an algorithm that both have.
    pub program: Program,
}

/// Where a real kernel's program of an algorithm comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// The kernel's own, where it has one.
    #[default]
    Kernel,
    /// Ours, compiled for the kernel.
    Bbrlab,
}

impl Program {
    /// Its word in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Bbrlab => "bbrlab",
        }
    }

    /// What such a word means.
    pub fn named(word: &str) -> Option<Self> {
        [Self::Kernel, Self::Bbrlab].into_iter().find(|one| one.name() == word)
    }
}

impl Setup {
    /// One drop-tail link that all flows share, nothing recorded, seed 1.
    pub fn one_link(rate: Rate, rtt: Span, buffer: Buffer, duration: Span, flows: Vec<FlowSetup>) -> Self {
        Self {
            duration: Time::ZERO + duration,
            warmup: Time::ZERO,
            seed: 1,
            sample: None,
            capture: Capture::Off,
            links: vec![LinkConfig::drop_tail(rate, buffer)],
            bottleneck: 0,
            path: PathSetup::plain(rtt),
            schedule: Vec::new(),
            flows,
        }
    }
}

impl PathSetup {
    /// Propagation and nothing else.
    pub const fn plain(rtt: Span) -> Self {
        Self {
            rtt,
            jitter: Span::ZERO,
            jitter_reorders: false,
            reorder: 0.0,
            duplicate: 0.0,
            ack_loss: Loss::None,
            ack_aggregation: AckAggregation::None,
        }
    }
}

impl FlowSetup {
    /// When the flow ended by its result, seconds: its completion or its stop, whichever came first.
    pub fn end_s(&self, result: &FlowResult) -> Option<f64> {
        // The mean over responses is no moment of the run.
        let completes = matches!(self.traffic, Traffic::Size(_) | Traffic::Objects(_));
        let completion = result.fct_s.filter(|_| completes).map(|fct_s| result.start_s + fct_s);
        completion.into_iter().chain(self.stop.map(secs)).reduce(f64::min)
    }

    /// Its receiver takes what has arrived at once. That of a bulk transfer lets it gather, as one that is busy does.
    pub const fn reads_at_once(&self) -> bool {
        !matches!((self.rwnd, &self.traffic), (Rwnd::Unlimited, Traffic::Bulk | Traffic::Size(_)))
    }

    /// What controls it, by name.
    pub fn cc(&self) -> &'static str {
        match self.peer {
            Some(peer) => peer.name,
            None if self.is_tcp => over_tcp(self.algorithm.name()),
            None => self.algorithm.name(),
        }
    }

    /// A bulk flow over the first link, from the start to the end, between Linux hosts of today.
    pub fn bulk(name: impl Into<String>, algorithm: AlgorithmConfig) -> Self {
        Self {
            name: name.into(),
            algorithm,
            peer: None,
            is_tcp: false,
            start: Time::ZERO,
            stop: None,
            rtt: None,
            links: (0, 1),
            access: None,
            mss: 1448,
            rwnd: Rwnd::Unlimited,
            traffic: Traffic::Bulk,
            host: HostSetup::default(),
        }
    }
}

impl Default for HostSetup {
    fn default() -> Self {
        Self {
            pacing: false,
            tso_max: 65_536,
            gro: None,
            delayed_ack: Span::millis(40),
            ecn: false,
            initial_cwnd: 10,
            ack: None,
            program: Program::Kernel,
        }
    }
}
