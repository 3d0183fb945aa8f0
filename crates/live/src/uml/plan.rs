//! Translates a setup to namespaces, devices and queueing disciplines of the kernel, as input for `ip` and `tc`.
//! Anything a kernel cannot express is refused in one line.
//!
//! ```text
//! s0 ─► n0 ─[htb: rate, queue]─► m0 ─[netem: serialiser, loss]─► n1 ─[netem: delay]─► r0
//!  └──────────◄──────────────────◄────────────────────────────────────◄─[netem: delay, ACK loss]─┘
//! ```
//! With a link of `up` ACKs leave `n1` by that link, and each host has a delay line in front of it:
//!
//! ```text
//! n1 ─► u0 ─[htb: rate, queue]─► u1 ─[netem: serialiser]─► u2 ─► n0 ─[netem: delay]─► s0
//! ```
//! Uploads have their sender on the right and their receiver on the left.
//! The shaper, HTB or CAKE, releases a packet when its service begins; the serialiser behind it adds the packet's
//! own serialisation time. So the packets in the shaper's queue are those in [`bbrlab_sim::link`]'s queue.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod hosts;
mod link;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use bbrlab_core::{Rate, Span};
use bbrlab_sim::link::{Aqm, Buffer, Cake, LinkConfig, Loss, Service, Tins};
use bbrlab_sim::setup::{Change, ChangeKind, FlowSetup, Setup};

use super::dualpi2::DualPi2Queue;
use crate::Result;
use bbrlab_sim::backend::Backend;
use bbrlab_sim::scenario::support;
use hosts::{ReceiverKind, SenderKind};
pub use link::LinkDevices;
use link::{UP_NAMESPACES, change_buffer, change_loss};

/// Bytes of the Ethernet header, which queueing disciplines count as our links do.
const ETHERNET: u32 = 14;
/// Bytes in a token bucket beyond a full packet, so that rounding never makes it too small.
const BUCKET_ROOM: u32 = 40;
/// IPv4 and TCP headers with timestamps.
const HEADERS: u32 = 52;
/// Minimum MTU of a device, as TCP options and other packets require.
const MTU_MIN: u32 = 1500;
/// Packet limit of a delay line, which never drops.
const ENDLESS: u32 = 10_000_000;
/// The kernel's largest super-packet.
const TSO_MAX: u32 = 65_536;
/// Buffers of a host that is never the limit, bytes.
const AMPLE: u64 = 1 << 30;
/// Initial send buffer of a connection: large enough that an application's first BDP never waits.
const SEND_BUFFER: u64 = 4 << 20;
/// Bytes of a full packet on the wire, and its memory (`truesize`) in CAKE's queues. Measured: `tc -s qdisc` of a full queue.
pub(super) const FULL_PACKET: u64 = 1514;
const PACKET_MEMORY: u64 = 2280;
/// The kernel's `tcp_ecn` of accurate feedback.
const ACCURATE_ECN: u8 = 3;
/// Longest wait of a compressed ACK, percent of the RTT. Kernels of about 6.18 and before do not have it: they wait for 5 %.
pub(super) const COMPRESSION_SHARE: &str = "ipv4/tcp_comp_sack_rtt_percent";
/// Clock tick of the kernel as `tools/uml/build.sh` builds it.
pub(super) const JIFFY: Span = Span::millis(4);
/// MAC address of both ends of a device pair, so that no ARP is needed.
const MAC: &str = "02:00:00:00:00:01";

/// Namespaces of the two ends of a flow, or of the lag probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Namespace of the sender.
    pub sender: String,
    /// Namespace of the receiver.
    pub receiver: String,
    pub from: Ipv4Addr,
    pub to: Ipv4Addr,
}

/// All objects to create.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub namespaces: Vec<String>,
    /// Input of `ip -batch` in the first namespace.
    pub wiring: String,
    /// Input of `ip -n NAMESPACE -batch`, by namespace.
    pub addresses: BTreeMap<String, String>,
    /// Input of `tc -n NAMESPACE -batch`, by namespace.
    pub disciplines: BTreeMap<String, String>,
    /// DualPI2 queues, created after the disciplines.
    pub dualpi2: Vec<DualPi2Queue>,
    /// Files under /proc/sys/net with their values, by namespace.
    pub sysctls: BTreeMap<String, Vec<(&'static str, String)>>,
    /// Host devices, with their namespaces, that segment before the path.
    pub segmented: Vec<(String, String)>,
    /// Per flow.
    pub ends: Vec<Endpoints>,
    /// The lag probe's, if the run has one.
    pub probe: Option<Endpoints>,
    senders: Vec<SenderKind>,
    receivers: Vec<ReceiverKind>,
    links: Vec<LinkConfig>,
    /// Link of the reverse direction, if it has one of its own.
    up: Option<LinkConfig>,
    /// True if each link has a bottleneck in the reverse direction too.
    is_mirrored: bool,
    mtu: u32,
    /// Bytes on the wire of the largest segment.
    full_packet: u64,
    path_rtt: Span,
    ack_loss: Loss,
    jitter: Span,
    duplicate: f64,
}

/// Translates a setup to a plan. Whether the kernel has a flow's module was checked before it booted.
pub fn plan(setup: &Setup) -> Result<Plan> {
    support::check(Backend::Uml, setup)?;
    let largest = setup.flows.iter().map(|flow| flow.mss + HEADERS).max().unwrap_or(MTU_MIN);
    let mtu = largest.max(MTU_MIN);
    let mut plan = Plan {
        links: setup.links.clone(),
        up: setup.up.as_deref().cloned(),
        mtu,
        full_packet: u64::from(largest + ETHERNET),
        path_rtt: setup.path.rtt,
        ack_loss: setup.path.ack_loss,
        jitter: setup.path.jitter,
        duplicate: setup.path.duplicate,
        ..Plan::default()
    };
    plan.place_flows(setup);
    plan.write();
    Ok(plan)
}

/// Formats a rate for `tc`, which reads plain bits per second.
fn rate(rate: Rate) -> String {
    format!("{}bit", rate.as_bits_per_sec())
}

/// Formats a time for `tc`, which reads microseconds with a fraction; netem keeps nanoseconds, others microseconds.
fn time(span: Span) -> String {
    format!("{}.{:03}us", span.as_nanos() / 1000, span.as_nanos() % 1000)
}

/// The kernel's `tcp_ecn`: none, that of RFC 3168 (which a DCTCP receiver answers in its own way), or accurate feedback.
fn tcp_ecn(flow: &FlowSetup) -> u8 {
    match flow.host {
        host if host.accurate_ecn && !host.dctcp_receiver => ACCURATE_ECN,
        host => host.ecn.into(),
    }
}

fn percent(share: f64) -> String {
    format!("{:.6}%", share * 100.0)
}

/// Formats a loss model for netem; empty for none.
fn loss(loss: Loss) -> String {
    match loss {
        Loss::None => String::new(),
        Loss::Bernoulli(p) => format!(" loss random {}", percent(p)),
        Loss::GilbertElliott { p, r, loss_bad, loss_good } => {
            format!(" loss gemodel {} {} {} {}", percent(p), percent(r), percent(loss_bad), percent(loss_good))
        }
    }
}

impl Plan {
    fn write(&mut self) {
        for index in 0..self.links.len() {
            self.namespaces.extend([format!("n{index}"), format!("m{index}")]);
        }
        self.namespaces.push(format!("n{}", self.links.len()));
        if self.up.is_some() {
            self.namespaces.extend(UP_NAMESPACES.map(str::to_owned));
        }
        self.namespaces.extend((0..self.senders.len()).map(|s| format!("s{s}")));
        self.namespaces.extend((0..self.receivers.len()).map(|r| format!("r{r}")));
        for namespace in &self.namespaces {
            let _ = writeln!(self.wiring, "netns add {namespace}");
        }
        for index in 0..self.links.len() {
            self.write_link(index);
        }
        self.write_up();
        for index in 0..self.senders.len() {
            self.write_sender(index);
        }
        for index in 0..self.receivers.len() {
            self.write_receiver(index);
        }
    }

    /// Adds a pair of devices named `name`, one in each namespace, up, without ARP.
    fn pair(&mut self, name: &str, left: &str, right: &str) {
        let mtu = self.mtu;
        let _ = writeln!(
            self.wiring,
            "link add {name} netns {left} mtu {mtu} address {MAC} type veth peer name {name} netns {right} mtu {mtu} address {MAC}",
        );
        for namespace in [left, right] {
            // Without an IPv6 address a device sends no router solicitations, which would take space on the link.
            let _ = writeln!(
                self.address(namespace),
                "link set dev {name} addrgenmode none\nlink set dev {name} arp off up"
            );
        }
    }

    fn address(&mut self, namespace: &str) -> &mut String {
        self.addresses.entry(namespace.to_owned()).or_default()
    }

    fn discipline(&mut self, namespace: &str) -> &mut String {
        self.disciplines.entry(namespace.to_owned()).or_default()
    }

    fn sysctl(&mut self, namespace: &str, file: &'static str, value: impl ToString) {
        self.sysctls.entry(namespace.to_owned()).or_default().push((file, value.to_string()));
    }

    /// Sets a host's ECN. The option of accurate feedback makes each packet's payload smaller, and the simulator has only its
    /// three header bits: so neither sends it.
    fn ecn(&mut self, namespace: &str, tcp_ecn: u8) {
        self.sysctl(namespace, "ipv4/tcp_ecn", tcp_ecn);
        if tcp_ecn == ACCURATE_ECN {
            self.sysctl(namespace, "ipv4/tcp_ecn_option", 0);
        }
    }

    /// Sets a host's compression of ACKs to that of Linux 6.12, which the simulator has: a twentieth of the RTT. Later kernels wait
    /// for up to a third.
    fn compress_acks(&mut self, namespace: &str) {
        self.sysctl(namespace, COMPRESSION_SHARE, 5);
        self.sysctl(namespace, "ipv4/tcp_comp_sack_slack_ns", 100_000);
    }

    fn forwards(&mut self, namespace: &str) {
        self.sysctl(namespace, "ipv4/ip_forward", 1);
        self.sysctl(namespace, "ipv4/conf/all/rp_filter", 0);
    }

    /// Lets both ends send: with a bottleneck of each link in the reverse direction, unless that has a link of `up`.
    pub fn mirror(&mut self) {
        self.is_mirrored = self.up.is_none();
        let mirrored = if self.is_mirrored { self.links.clone() } else { Vec::new() };
        for (index, link) in mirrored.iter().enumerate() {
            self.write_bottleneck(&LinkDevices::reverse(index), link);
        }
        self.equip_both_ends();
    }

    /// Commands for `tc` that apply a change of the schedule, by namespace.
    pub fn change(&mut self, change: &Change) -> Vec<(String, String)> {
        let directions = self.directions(change.link);
        let Some(link) = self.links.iter_mut().chain(&mut self.up).nth(change.link) else { return Vec::new() };
        match change.what {
            ChangeKind::Rate(at) => {
                link.service = Service::Rate(at);
                let link = link.clone();
                directions.iter().flat_map(|devices| self.change_rate(devices, &link)).collect()
            }
            ChangeKind::Buffer(buffer) => {
                link.buffer = buffer;
                directions.iter().map(|devices| change_buffer(devices, link)).collect()
            }
            ChangeKind::Loss(loss) => {
                link.loss = loss;
                directions.iter().map(|devices| change_loss(devices, link)).collect()
            }
            ChangeKind::Rtt(rtt) => {
                self.path_rtt = rtt;
                self.change_delays()
            }
            ChangeKind::AckLoss(loss) => {
                self.ack_loss = loss;
                self.change_delays()
            }
        }
    }
}

/// A drop-tail queue inside a shaper.
fn fifo(device: &str, buffer: Buffer, verb: &str) -> String {
    match buffer {
        Buffer::Packets(n) => format!("qdisc {verb} dev {device} parent 1:1 handle 2: pfifo limit {n}"),
        Buffer::Bytes(n) => format!("qdisc {verb} dev {device} parent 1:1 handle 2: bfifo limit {n}"),
    }
}

/// A buffer in packets of this size, for disciplines that count only packets.
pub(super) fn packets(buffer: Buffer, full_packet: u64) -> u64 {
    match buffer {
        Buffer::Packets(n) => n,
        Buffer::Bytes(n) => (n / full_packet).max(1),
    }
}

/// CAKE as the shaper. Its limit is memory, so it is that of full packets.
fn cake(config: &Cake, at: Rate, buffer: Buffer) -> String {
    let tins = match config.tins {
        Tins::BestEffort => "besteffort",
        Tins::Diffserv3 => "diffserv3",
        Tins::Diffserv4 => "diffserv4",
    };
    let hosts = if config.host_fairness { "triple-isolate" } else { "flows" };
    let memory = packets(buffer, FULL_PACKET).saturating_mul(PACKET_MEMORY).min(u32::MAX.into());
    format!("cake bandwidth {} {tins} {hosts} rtt {} memlimit {memory}", rate(at), time(config.interval))
}

/// Interval to request for PIE's updates. Its timer counts ticks, rounded up, and fires one tick later, because the timer wheel
/// never fires early. Zero would be no timer.
fn pie_interval(tupdate: Span) -> Span {
    Span::nanos(tupdate.as_nanos().saturating_sub(JIFFY.as_nanos())).max(Span::micros(1))
}

/// The discipline inside the shaper, if `tc` has it.
fn child(device: &str, link: &LinkConfig, full_packet: u64) -> String {
    let head = format!("qdisc add dev {device} parent 1:1 handle 2:");
    let limit = packets(link.buffer, full_packet);
    let ecn = |on: bool| if on { " ecn" } else { "" };
    match &link.aqm {
        Aqm::DropTail => fifo(device, link.buffer, "add"),
        Aqm::Codel(codel) => format!(
            "{head} codel limit {limit} target {} interval {}{}{}",
            time(codel.target),
            time(codel.interval),
            if codel.ecn { " ecn" } else { " noecn" },
            codel.ce_threshold.map_or(String::new(), |at| format!(" ce_threshold {}", time(at))),
        ),
        Aqm::FqCodel(fq) => format!(
            "{head} fq_codel limit {limit} flows {} quantum {} target {} interval {}{}{}",
            fq.flows,
            fq.quantum,
            time(fq.codel.target),
            time(fq.codel.interval),
            if fq.codel.ecn { " ecn" } else { " noecn" },
            fq.codel.ce_threshold.map_or(String::new(), |at| {
                let selector = if fq.codel.ce_only_ect_1 { " ce_threshold_selector 0x1/0x3" } else { "" };
                format!(" ce_threshold {}{selector}", time(at))
            }),
        ),
        Aqm::Cake(_) | Aqm::DualPi2(_) => String::new(),
        Aqm::Fq(fq) => format!(
            "{head} fq limit {limit} flow_limit {} quantum {} initial_quantum {}{}",
            fq.flow_limit,
            fq.quantum,
            fq.initial_quantum,
            fq.ce_threshold.map_or(String::new(), |at| format!(" ce_threshold {}", time(at))),
        ),
        Aqm::Pie(pie) => format!(
            "{head} pie limit {limit} target {} tupdate {} alpha {} beta {}{}",
            time(pie.target),
            time(pie_interval(pie.tupdate)),
            // The unit of both in tc is 1/16 per second.
            (pie.alpha * 16.0).round(),
            (pie.beta * 16.0).round(),
            ecn(pie.ecn),
        ),
        Aqm::Red(red) => {
            let bytes = match link.buffer {
                Buffer::Bytes(n) => n,
                Buffer::Packets(n) => n * full_packet,
            };
            let avpkt = MTU_MIN;
            let burst = red_burst(red.min, avpkt, red.wlog);
            format!(
                "{head} red limit {bytes} min {} max {} avpkt {avpkt} burst {burst} probability {} bandwidth {}{}",
                red.min,
                red.max,
                red.probability,
                rate(link.service.nominal_rate()),
                ecn(red.ecn),
            )
        }
    }
}

/// Burst from which `tc` computes this weight of RED's average.
///
/// It takes the first burst for which burst + 1 − min/avpkt ≤ (1 − (1−2^-wlog)^burst) / 2^-wlog.
fn red_burst(min: u64, avpkt: u32, wlog: u32) -> u32 {
    let weight = |burst: u32| {
        let above = f64::from(burst) + 1.0 - min as f64 / f64::from(avpkt);
        let fits = |log: &u32| {
            let w = 0.5_f64.powi(*log as i32);
            above >= 1.0 && above <= (1.0 - (1.0 - w).powi(burst as i32)) / w
        };
        (1..32).find(fits)
    };
    (1..100_000).find(|burst| weight(*burst) == Some(wlog)).unwrap_or((min / u64::from(avpkt)) as u32 + 1)
}

#[cfg(test)]
mod tests;
