//! A resolved scenario: every default filled in, every unit converted.
//! [`crate::scenario`] builds these values from text; they can also be built by hand.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use bbrlab_core::{ALGORITHMS, AlgorithmConfig, Rate, Span, Time};

use crate::apps::call::CallSetup;
use crate::apps::page::PageSetup;
use crate::apps::video::VideoSetup;
use crate::backend::{Stack, kernel_cc};
use crate::link::{AckAggregation, Aqm, Buffer, LinkConfig, Loss};
use crate::metrics::secs;
use crate::record::packets::Tap;
use crate::record::result::FlowResult;
use crate::scenario::Ecn;
use crate::tcp::External;

/// Complete input of a run: the same setup produces the same bytes.
#[derive(Clone, Debug)]
pub struct Setup {
    /// End of the run.
    pub duration: Time,
    /// Start of the measured time.
    pub warmup: Time,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Interval of the lag probe's packets; `None` sends none.
    pub probe: Option<Span>,
    /// Grid of the recorded series; `None` records none.
    pub sample: Option<Span>,
    /// Packet recording.
    pub capture: Capture,
    /// Bottlenecks in the order in which a packet meets them (a parking lot has several).
    pub links: Vec<LinkConfig>,
    /// Index of the link whose figures are the result's `bottleneck`.
    pub bottleneck: usize,
    /// Link of the reverse direction, which ACKs and uploads share; `None` if ACKs meet no queue.
    pub up: Option<Box<LinkConfig>>,
    /// Path between the last bottleneck and the receiver, and the reverse path.
    pub path: PathSetup,
    /// Changes of the path over time, sorted.
    pub schedule: Vec<Change>,
    /// The flows.
    pub flows: Vec<FlowSetup>,
}

/// Packet recording: off, or on at some places with a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// No packets are recorded.
    #[default]
    Off,
    /// Packets are recorded up to `limit`, and later ones left out.
    On {
        /// Maximum number of packets.
        limit: usize,
        /// Places at which they are recorded.
        taps: &'static [Tap],
    },
}

/// Effects of propagation and of the reverse path on packets.
#[derive(Clone, Copy, Debug)]
pub struct PathSetup {
    /// Two-way propagation delay without queueing or serialisation, half of it in each direction.
    pub rtt: Span,
    /// Added delay on the forward path, uniform in 0..=jitter.
    pub jitter: Span,
    /// True if jitter may reorder packets.
    pub jitter_reorders: bool,
    /// Share of data packets that overtake others.
    pub reorder: f64,
    /// Share of data packets that are duplicated.
    pub duplicate: f64,
    /// Random loss of ACKs.
    pub ack_loss: Loss,
    /// Holding of ACKs, which are then released together.
    pub ack_aggregation: AckAggregation,
}

/// One change of the path.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Time of the change.
    pub at: Time,
    /// Index of the link (for changes of links); that of `up` follows those of the forward direction.
    pub link: usize,
    /// New value.
    pub what: ChangeKind,
}

/// New value set by a change.
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
    /// Congestion controller of a QUIC stack, used instead of it.
    pub peer: Option<Peer>,
    /// Congestion control outside of core, which sets window and rate of the algorithm `fixed`. The simulator alone supports it.
    pub external: Option<External>,
    /// True if its transport is the TCP model in every virtual-time backend that has it, those of QUIC stacks included: `tcp:NAME`.
    pub is_tcp: bool,
    /// Time at which its SYN is sent.
    pub start: Time,
    /// Time at which its application stops writing, if it does.
    pub stop: Option<Time>,
    /// Its own two-way propagation delay instead of the path's.
    pub rtt: Option<Span>,
    /// Range of links that its data crosses, or its ACKs if it is an upload: the first, and one past the last.
    pub links: (usize, usize),
    /// True if its data crosses the link of `up`, and its ACKs the others.
    pub is_upload: bool,
    /// Link of its own in front of the first bottleneck (dumbbell).
    pub access: Option<AccessSetup>,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Receive window.
    pub rwnd: Rwnd,
    /// Traffic written by its application.
    pub traffic: Traffic,
    /// Longest time from a request to its response that is in time, with [`Traffic::RequestResponse`].
    pub deadline: Option<Span>,
    /// Hosts at both ends.
    pub host: HostSetup,
    /// Differentiated services code point of its packets.
    pub dscp: u8,
    /// Number of the host at the user's end, if other flows share it.
    pub shared_host: Option<u16>,
}

/// A congestion controller built into a QUIC stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Stack that contains it.
    pub stack: Stack,
    /// Name, prefixed by the stack's.
    pub name: &'static str,
}

impl Peer {
    /// All of these controllers.
    pub const ALL: [Self; 8] = [
        Self { stack: Stack::S2n, name: "s2n:bbr" },
        Self { stack: Stack::S2n, name: "s2n:cubic" },
        Self { stack: Stack::Noq, name: "noq:bbr3" },
        Self { stack: Stack::Noq, name: "noq:cubic" },
        Self { stack: Stack::Noq, name: "noq:reno" },
        Self { stack: Stack::Quinn, name: "quinn:bbr" },
        Self { stack: Stack::Quinn, name: "quinn:cubic" },
        Self { stack: Stack::Quinn, name: "quinn:reno" },
    ];

    /// Finds a controller by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|peer| peer.name == name)
    }
}

/// Prefix of an algorithm's name that selects the TCP model for a flow.
pub const TCP: &str = "tcp:";

/// Returns the name of an algorithm prefixed by [`TCP`].
pub(crate) fn over_tcp(algorithm: &'static str) -> &'static str {
    static NAMES: LazyLock<BTreeMap<&str, String>> =
        LazyLock::new(|| ALGORITHMS.iter().map(|info| (info.name, format!("{TCP}{}", info.name))).collect());
    NAMES.get(algorithm).map_or(algorithm, String::as_str)
}

/// A receiver's acknowledgement rule, used instead of Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckEvery {
    /// Packets per ACK.
    pub packets: u32,
    /// Longest delay after the first unacknowledged packet.
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

/// The receive window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rwnd {
    /// Never the limit (a tuned host).
    Unlimited,
    /// A fixed window in bytes.
    Fixed(u64),
    /// Linux's receive-window autotuning up to this many bytes.
    Auto(u64),
}

impl Rwnd {
    /// Share of a receive buffer that holds data in full segments, in 256ths; the rest is bookkeeping. Source: Linux 6.12
    /// `scaling_ratio`, measured over a virtual device.
    const PAYLOAD: u64 = 162;

    /// Window of a receive buffer.
    pub const fn of_buffer(bytes: u64) -> u64 {
        bytes.saturating_mul(Self::PAYLOAD) / 256
    }

    /// Receive buffer of a window.
    pub const fn buffer_of(window: u64) -> u64 {
        window.saturating_mul(256) / Self::PAYLOAD
    }
}

/// Traffic written by the application.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// As much data as the transport accepts.
    Bulk,
    /// Bulk for `on`, silence for `off`, repeatedly.
    OnOff {
        /// Length of a busy period.
        on: Span,
        /// Length of a silent period.
        off: Span,
    },
    /// A constant rate of payload, written every `tick`.
    Rate {
        /// Payload rate.
        rate: Rate,
        /// Interval between two writes.
        tick: Span,
        /// Unit of each write in bytes: 1, or a packet's payload to avoid short packets. Not 0.
        unit: u32,
    },
    /// This many bytes, then the flow ends.
    Size(u64),
    /// Responses of `size` bytes over one connection, each requested `think` after the previous one arrived.
    RequestResponse {
        /// Bytes of a response.
        size: u64,
        /// Time from the arrival of a response to the next request.
        think: Span,
    },
    /// Responses of given sizes over one connection, then the flow ends. The run ends with the last such flow.
    Objects(Arc<[Object]>),
    /// Frames at a fixed rate, each with a deadline.
    Call(CallSetup),
    /// Video segments, each requested by the player at a bitrate of its choice.
    Video(Arc<VideoSetup>),
    /// Loads of a page.
    Page(PageSetup),
}

impl Traffic {
    /// True if it answers requests of a client.
    pub const fn answers(&self) -> bool {
        matches!(self, Self::RequestResponse { .. } | Self::Objects(_) | Self::Video(_) | Self::Page(_))
    }

    /// True if a short segment waits for an earlier one (Nagle's algorithm). Calls, and servers that answer requests, switch that
    /// off (`TCP_NODELAY`).
    pub const fn gathers(&self) -> bool {
        !self.answers() && !matches!(self, Self::Call(_))
    }
}

/// One response of [`Traffic::Objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its bytes.
    pub size: u64,
    /// Time from the arrival of the previous object to its request. The first object is requested at the start.
    pub pause: Span,
}

/// Behaviour of the hosts at both ends, in Linux's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSetup {
    /// Pacing for algorithms that do not request it themselves (`fq` on the host).
    pub pacing: bool,
    /// Largest TSO burst in bytes; one segment disables it. Linux: 65536.
    pub tso_max: u32,
    /// Span within which the receiver merges segments before it decides on an ACK.
    pub gro: Option<Span>,
    /// Fixed delayed-ACK timer; `None` for Linux's (`ato`), which adapts from 40 ms up to the RTT.
    pub delayed_ack: Option<Span>,
    /// ECN negotiation (RFC 3168).
    pub ecn: bool,
    /// The receiver reports the number of marked packets (RFC 9768), not only that some were marked.
    pub accurate_ecn: bool,
    /// It does so as DCTCP, which in Linux has to run at both ends (RFC 8257 §3.2).
    pub dctcp_receiver: bool,
    /// The sender sets ECT(1), for the low-latency queue of an L4S link (RFC 9331).
    pub l4s: bool,
    /// The SYN and its answer are ECN-capable too, as of algorithms that need ECN. Source: Linux `tcp_ecn_send_syn`.
    pub ecn_syn: bool,
    /// Initial congestion window in segments. Linux: 10.
    pub initial_cwnd: u32,
    /// Transport; in a QUIC stack's backend it matters only for flows of the TCP model.
    pub transport: Transport,
    /// The receiver's rule for ACKs, if it is not the transport's.
    pub ack: Option<AckEvery>,
    /// On a real kernel: source of the program, for an algorithm that both the kernel and bbrlab have.
    pub program: Program,
}

/// Transport of a flow in the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TCP as in Linux.
    #[default]
    Tcp,
    /// QUIC by RFC 9002; what that leaves open is as in noq.
    Quic,
    /// QUIC as in quinn: spurious losses not undone.
    QuicQuinn,
    /// QUIC as in s2n-quic: ACKs of every tenth packet, skipped packet numbers, spurious losses not undone, and packets up to 1 ms early.
    QuicS2n,
}

impl Transport {
    /// All transports.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Quic, Self::QuicQuinn, Self::QuicS2n];

    /// Name used in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
            Self::QuicQuinn => "quic:quinn",
            Self::QuicS2n => "quic:s2n",
        }
    }

    /// Parses such a name.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == word)
    }

    /// Transport that behaves like a stack's.
    pub const fn of(stack: Stack) -> Self {
        match stack {
            Stack::S2n => Self::QuicS2n,
            Stack::Noq => Self::Quic,
            Stack::Quinn => Self::QuicQuinn,
        }
    }

    /// True for all forms of QUIC.
    pub const fn is_quic(self) -> bool {
        !matches!(self, Self::Tcp)
    }

    /// The receiver's rule for ACKs; `None` for Linux's.
    pub const fn ack(self) -> Option<AckEvery> {
        match self {
            Self::Tcp => None,
            // RFC 9000 §13.2.2, as implemented in noq-proto 1.4 and quinn-proto 0.11 unless ACK_FREQUENCY requests otherwise.
            Self::Quic | Self::QuicQuinn => Some(AckEvery { packets: 2, delay: Span::millis(25) }),
            // Source: s2n-quic-transport 0.91, ack_manager.rs, and its default max_ack_delay.
            Self::QuicS2n => Some(AckEvery { packets: 10, delay: Span::millis(25) }),
        }
    }

    /// True if the sender undoes a reduction once every packet declared lost is acknowledged.
    pub const fn undoes(self) -> bool {
        matches!(self, Self::Quic)
    }

    /// True if the sender skips a packet number about once per round trip, against ACKs of packets that never arrived (RFC 9000
    /// §21.4). The receiver answers the gap with an ACK at once.
    pub const fn skips_numbers(self) -> bool {
        matches!(self, Self::QuicS2n)
    }

    /// True if the controller receives the number of marked packets, not only that there were some. Source: s2n-quic-transport 0.91,
    /// which passes the difference of the counts; noq and quinn pass any increase.
    pub const fn counts_marks(self) -> bool {
        matches!(self, Self::QuicS2n)
    }

    /// True if a packet may leave a little early, so that packets leave in pairs.
    pub const fn sends_early(self) -> bool {
        matches!(self, Self::QuicS2n)
    }
}

/// Source of an algorithm's program on a real kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// The kernel's own, if it has one.
    #[default]
    Kernel,
    /// Ours, compiled for the kernel.
    Bbrlab,
}

impl Program {
    /// Name used in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Bbrlab => "bbrlab",
        }
    }

    /// Parses such a name.
    pub fn named(word: &str) -> Option<Self> {
        [Self::Kernel, Self::Bbrlab].into_iter().find(|one| one.name() == word)
    }
}

impl Setup {
    /// The link that a change names.
    pub fn changed_link(&self, change: &Change) -> Option<&LinkConfig> {
        self.links.iter().chain(self.up.as_deref()).nth(change.link)
    }

    /// True if a link has CAKE, which sees addresses and DSCPs.
    pub fn has_cake(&self) -> bool {
        self.links.iter().chain(self.up.as_deref()).any(|link| matches!(link.aqm, Aqm::Cake(_)))
    }

    /// Setup with one drop-tail link shared by all flows, nothing recorded, seed 1.
    pub fn one_link(rate: Rate, rtt: Span, buffer: Buffer, duration: Span, flows: Vec<FlowSetup>) -> Self {
        Self {
            duration: Time::ZERO + duration,
            warmup: Time::ZERO,
            seed: 1,
            probe: None,
            sample: None,
            capture: Capture::Off,
            links: vec![LinkConfig::drop_tail(rate, buffer)],
            bottleneck: 0,
            up: None,
            path: PathSetup::plain(rtt),
            schedule: Vec::new(),
            flows,
        }
    }
}

impl PathSetup {
    /// Path with propagation delay only.
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
    /// Name of the kernel's own program for its algorithm; `None` if it uses ours.
    pub fn kernels_own(&self) -> Option<&'static str> {
        match self.host.program {
            Program::Kernel => kernel_cc(&self.algorithm).ok(),
            Program::Bbrlab => None,
        }
    }

    /// True if the algorithm is built for marks, so that on a real kernel it negotiates ECN by itself.
    pub fn asks_for_ecn(&self) -> bool {
        self.host.ecn && Ecn::usual(self.algorithm.name()) != Ecn::Off
    }

    /// End of the flow according to its result, seconds: its completion or its stop, whichever came first.
    pub fn end_s(&self, result: &FlowResult) -> Option<f64> {
        // The mean over responses is not a point in time.
        let completes = matches!(
            self.traffic,
            Traffic::Size(_) | Traffic::Objects(_) | Traffic::Page(PageSetup { pause: None, .. })
        );
        let completion = result.fct_s.filter(|_| completes).map(|fct_s| result.start_s + fct_s);
        completion.into_iter().chain(self.stop.map(secs)).reduce(f64::min)
    }

    /// True if the receiver reads arriving data immediately. The receiver of a bulk transfer lets data accumulate, like a busy one.
    pub const fn reads_at_once(&self) -> bool {
        !matches!((self.rwnd, &self.traffic), (Rwnd::Unlimited, Traffic::Bulk | Traffic::Size(_)))
    }

    /// True if the qdisc `fq` on its host paces it: pacing is on, and neither algorithm nor transport paces by itself.
    pub fn is_paced_by_fq(&self) -> bool {
        let paces = self.algorithm.info().needs_pacing || self.external.is_some() || self.host.transport.is_quic();
        self.host.pacing && !paces
    }

    /// Name of its congestion controller.
    pub fn cc(&self) -> &'static str {
        match self.peer {
            Some(peer) => peer.name,
            None if let Some(external) = &self.external => external.name(),
            None if self.is_tcp => over_tcp(self.algorithm.name()),
            None => self.algorithm.name(),
        }
    }

    /// A bulk flow over the first link for the whole run, between present-day Linux hosts.
    pub fn bulk(name: impl Into<String>, algorithm: AlgorithmConfig) -> Self {
        Self {
            name: name.into(),
            algorithm,
            peer: None,
            external: None,
            is_tcp: false,
            start: Time::ZERO,
            stop: None,
            rtt: None,
            links: (0, 1),
            is_upload: false,
            access: None,
            mss: 1448,
            rwnd: Rwnd::Unlimited,
            traffic: Traffic::Bulk,
            deadline: None,
            host: HostSetup::default(),
            dscp: 0,
            shared_host: None,
        }
    }
}

impl Default for HostSetup {
    fn default() -> Self {
        Self {
            pacing: false,
            tso_max: 65_536,
            gro: None,
            delayed_ack: None,
            ecn: false,
            accurate_ecn: false,
            dctcp_receiver: false,
            l4s: false,
            ecn_syn: false,
            initial_cwnd: 10,
            transport: Transport::Tcp,
            ack: None,
            program: Program::Kernel,
        }
    }
}
