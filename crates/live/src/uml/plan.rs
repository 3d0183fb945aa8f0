//! Translates a setup to namespaces, devices and queueing disciplines of the kernel, as input for `ip` and `tc`.
//! Anything a kernel cannot express is refused in one line.
//!
//! ```text
//! s0 ─► n0 ─[tbf: rate, buffer]─► m0 ─[netem: serialiser, loss]─► n1 ─[netem: delay]─► r0
//!  └──────────◄──────────────────◄────────────────────────────────────◄─[netem: delay, ACK loss]─┘
//! ```
//! A token bucket of one packet releases a packet when its service begins; the serialiser behind it adds the packet's
//! own serialisation time. So the packets in the bucket's queue are those in [`bbrlab_sim::link`]'s queue.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use bbrlab_core::{Rate, Span};
use bbrlab_sim::link::{Aqm, Buffer, Cake, LinkConfig, Loss, Service, Tins};
use bbrlab_sim::setup::{Change, ChangeKind, FlowSetup, HostSetup, Rwnd, Setup};

use super::dualpi2::DualPi2Queue;
use crate::Result;
use crate::backends::check;
use bbrlab_sim::backend::Backend;

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
/// MAC address of both ends of a device pair, so that no ARP is needed.
const MAC: &str = "02:00:00:00:00:01";

/// Senders on the same host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SenderKind {
    first_link: usize,
    host: HostSetup,
    /// The kernel's `tcp_ecn`.
    ecn: u8,
    /// Rate and buffer of an access link, and the flow that owns it: each flow has its own.
    access: Option<(Rate, Buffer, usize)>,
    /// The flow that owns it, if flows are to differ in their addresses.
    owner: Option<usize>,
}

/// Receivers on the same host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReceiverKind {
    last_link: usize,
    /// The flow's own RTT; `None` for the path's.
    rtt: Option<Span>,
    access_rtt: Span,
    rwnd: Rwnd,
    ecn: u8,
    /// First flow of the host, if hosts are to differ in their addresses.
    owner: Option<usize>,
}

/// Namespaces of one flow's two ends.
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
    senders: Vec<SenderKind>,
    receivers: Vec<ReceiverKind>,
    links: Vec<LinkConfig>,
    mtu: u32,
    path_rtt: Span,
    ack_loss: Loss,
    jitter: Span,
    duplicate: f64,
}

/// Translates a setup to a plan.
pub fn plan(setup: &Setup) -> Result<Plan> {
    check(Backend::Uml, setup)?;
    let mtu = setup.flows.iter().map(|flow| flow.mss + HEADERS).max().unwrap_or(MTU_MIN).max(MTU_MIN);
    let mut plan = Plan {
        links: setup.links.clone(),
        mtu,
        path_rtt: setup.path.rtt,
        ack_loss: setup.path.ack_loss,
        jitter: setup.path.jitter,
        duplicate: setup.path.duplicate,
        ..Plan::default()
    };
    let has_cake = setup.has_cake();
    for (index, flow) in setup.flows.iter().enumerate() {
        let is_same_host = |other: &FlowSetup| other.shared_host == flow.shared_host;
        let first = flow.shared_host.and_then(|_| setup.flows.iter().position(is_same_host)).unwrap_or(index);
        let access = flow.access.map(|access| (access.rate, access.buffer, index));
        let (ecn, owner) = (tcp_ecn(flow), has_cake.then_some(index));
        let sender = SenderKind { first_link: flow.links.0, host: flow.host, ecn, access, owner };
        let receiver = ReceiverKind {
            last_link: flow.links.1,
            rtt: flow.rtt,
            access_rtt: flow.access.map_or(Span::ZERO, |access| access.rtt),
            rwnd: flow.rwnd,
            ecn,
            owner: has_cake.then_some(first),
        };
        let s = place(&mut plan.senders, sender);
        let r = place(&mut plan.receivers, receiver);
        plan.ends.push(Endpoints {
            sender: format!("s{s}"),
            receiver: format!("r{r}"),
            from: address(1, s),
            to: address(2, r),
        });
    }
    plan.write();
    Ok(plan)
}

fn place<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|other| *other == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

fn address(side: u8, index: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, side, (index / 250) as u8, (index % 250 + 1) as u8)
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
        host if host.accurate_ecn && !flow.has_dctcp_receiver() => ACCURATE_ECN,
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
        self.namespaces.extend((0..self.senders.len()).map(|s| format!("s{s}")));
        self.namespaces.extend((0..self.receivers.len()).map(|r| format!("r{r}")));
        for namespace in &self.namespaces {
            let _ = writeln!(self.wiring, "netns add {namespace}");
        }
        for index in 0..self.links.len() {
            self.write_link(index);
        }
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

    fn forwards(&mut self, namespace: &str) {
        self.sysctl(namespace, "ipv4/ip_forward", 1);
        self.sysctl(namespace, "ipv4/conf/all/rp_filter", 0);
    }

    /// Adds router, bottleneck and serialiser.
    fn write_link(&mut self, index: usize) {
        let (before, behind, next) = (format!("n{index}"), format!("m{index}"), format!("n{}", index + 1));
        let (link, exit) = (format!("l{index}"), format!("e{index}"));
        self.pair(&link, &before, &behind);
        self.pair(&exit, &behind, &next);
        // Data goes to 10.2, ACKs to 10.1; hosts attached here have a longer prefix.
        let _ = writeln!(self.address(&before), "route add 10.2.0.0/16 dev {link}");
        let _ = writeln!(self.address(&behind), "route add 10.2.0.0/16 dev {exit}");
        let _ = writeln!(self.address(&behind), "route add 10.1.0.0/16 dev {link}");
        let _ = writeln!(self.address(&next), "route add 10.1.0.0/16 dev {exit}");
        for namespace in [&before, &behind, &next] {
            self.forwards(namespace);
        }
        let config = self.links[index].clone();
        let queue = self.bottleneck(index, "add");
        let child = child(&link, &config);
        let police = config.policer.map(|policer| {
            let (rate, burst) = (policer.rate.as_bits_per_sec(), policer.burst);
            format!(
                "qdisc add dev {link} clsact\nfilter add dev {link} egress matchall action police rate {rate}bit \
                 burst {burst}b mtu {} conform-exceed drop/pipe\n",
                self.mtu + ETHERNET,
            )
        });
        let serialiser = self.serialiser(index, "add");
        self.dualpi2.extend(DualPi2Queue::of(&config, &before, link));
        let text = self.discipline(&before);
        let _ = writeln!(text, "{queue}\n{child}");
        text.push_str(&police.unwrap_or_default());
        let _ = writeln!(self.discipline(&behind), "{serialiser}");
    }

    /// The token bucket of a link, or CAKE, which has its own.
    fn bottleneck(&self, index: usize, verb: &str) -> String {
        let link = &self.links[index];
        let Service::Rate(at) = link.service else { return String::new() };
        if let Aqm::Cake(config) = &link.aqm {
            return format!("qdisc {verb} dev l{index} root handle 1: {}", cake(config, at, link.buffer));
        }
        let bucket = self.mtu + ETHERNET + BUCKET_ROOM;
        format!("qdisc {verb} dev l{index} root handle 1: tbf rate {} burst {bucket}b limit 1000000000", rate(at),)
    }

    /// The serialiser: a packet's own serialisation time, and the loss behind it.
    fn serialiser(&self, index: usize, verb: &str) -> String {
        let link = &self.links[index];
        let Service::Rate(at) = link.service else { return String::new() };
        format!("qdisc {verb} dev e{index} root handle 1: netem limit {ENDLESS} rate {}{}", rate(at), loss(link.loss),)
    }

    fn write_sender(&mut self, index: usize) {
        let kind = self.senders[index];
        let (namespace, router, device) = (format!("s{index}"), format!("n{}", kind.first_link), format!("s{index}"));
        let at = address(1, index);
        self.pair(&device, &namespace, &router);
        let super_packets = if kind.host.tso_max >= TSO_MAX {
            String::new()
        } else {
            format!("link set dev {device} gso_max_size {}\n", kind.host.tso_max.max(self.mtu + ETHERNET))
        };
        let text = self.address(&namespace);
        text.push_str(&super_packets);
        let _ = writeln!(text, "address add {at}/32 dev {device}");
        let _ = writeln!(text, "route add default dev {device} initcwnd {}", kind.host.initial_cwnd);
        let _ = writeln!(self.address(&router), "route add {at}/32 dev {device}");
        self.segmented.push((namespace.clone(), device.clone()));
        let bucket = self.mtu + ETHERNET + BUCKET_ROOM;
        match kind.access {
            Some((at, buffer, _)) => {
                let _ = writeln!(
                    self.discipline(&namespace),
                    "qdisc add dev {device} root handle 1: tbf rate {} burst {bucket}b limit 1000000000\n{}",
                    rate(at),
                    fifo(&device, buffer, "add"),
                );
            }
            None if kind.host.pacing => {
                let _ = writeln!(
                    self.discipline(&namespace),
                    "qdisc add dev {device} root fq flow_limit {ENDLESS} limit {ENDLESS}"
                );
            }
            None => {}
        }
        if kind.host.l4s {
            // Linux sends ECT(0) whatever the congestion control; this makes it ECT(1) as the packet leaves the host.
            let _ = writeln!(
                self.discipline(&namespace),
                "qdisc add dev {device} clsact\nfilter add dev {device} egress protocol ip u32 match ip tos 2 3 \
                 action pedit munge ip dsfield set 1 retain 3 pipe csum ip4h"
            );
        }
        self.sysctl(&namespace, "ipv4/tcp_no_metrics_save", 1);
        self.ecn(&namespace, kind.ecn);
        self.sysctl(&namespace, "ipv4/tcp_wmem", format!("4096 {SEND_BUFFER} {AMPLE}"));
        self.sysctl(&namespace, "ipv4/conf/all/rp_filter", 0);
    }

    fn write_receiver(&mut self, index: usize) {
        let kind = self.receivers[index];
        let (namespace, router, device) = (format!("r{index}"), format!("n{}", kind.last_link), format!("r{index}"));
        let at = address(2, index);
        self.pair(&device, &router, &namespace);
        let _ = writeln!(self.address(&namespace), "address add {at}/32 dev {device}\nroute add default dev {device}");
        let _ = writeln!(self.address(&router), "route add {at}/32 dev {device}");
        let (forward, reverse) = (self.delay(index, "add"), self.delay_back(index, "add"));
        let _ = writeln!(self.discipline(&router), "{forward}");
        let _ = writeln!(self.discipline(&namespace), "{reverse}");
        let window = match kind.rwnd {
            Rwnd::Auto(bytes) => format!("4096 131072 {}", bytes.saturating_mul(2)),
            Rwnd::Unlimited | Rwnd::Fixed(_) => format!("4096 {AMPLE} {AMPLE}"),
        };
        self.sysctl(&namespace, "ipv4/tcp_rmem", window);
        self.ecn(&namespace, kind.ecn);
        self.sysctl(&namespace, "ipv4/conf/all/rp_filter", 0);
    }

    /// Propagation delay of a receiver's flows: half in each direction.
    fn rtt(&self, receiver: usize) -> Span {
        let kind = &self.receivers[receiver];
        kind.rtt.unwrap_or(self.path_rtt) + kind.access_rtt
    }

    fn delay(&self, index: usize, verb: &str) -> String {
        let forward = Span::nanos(self.rtt(index).as_nanos() / 2);
        // netem's jitter is symmetric around its delay; ours adds to it.
        let jitter = match self.jitter {
            Span::ZERO => format!("delay {}", time(forward)),
            jitter => format!(
                "delay {} {}",
                time(forward + Span::nanos(jitter.as_nanos() / 2)),
                time(Span::nanos(jitter.as_nanos() / 2))
            ),
        };
        let duplicate =
            if self.duplicate > 0.0 { format!(" duplicate {}", percent(self.duplicate)) } else { String::new() };
        format!("qdisc {verb} dev r{index} root handle 1: netem limit {ENDLESS} {jitter}{duplicate}")
    }

    fn delay_back(&self, index: usize, verb: &str) -> String {
        let rtt = self.rtt(index);
        let reverse = Span::nanos(rtt.as_nanos() - rtt.as_nanos() / 2);
        format!(
            "qdisc {verb} dev r{index} root handle 1: netem limit {ENDLESS} delay {}{}",
            time(reverse),
            loss(self.ack_loss)
        )
    }

    /// Makes the reverse path equal to the forward path: a bottleneck of its own, and receivers that send like senders.
    pub fn mirror(&mut self) {
        for index in 0..self.links.len() {
            let link = self.links[index].clone();
            let forward =
                [self.bottleneck(index, "add"), child(&format!("l{index}"), &link), self.serialiser(index, "add")];
            let [queue, child, serialiser] = forward.map(|line| mirrored(index, &line));
            self.dualpi2.extend(DualPi2Queue::of(&link, &format!("n{}", index + 1), format!("e{index}")));
            let _ = writeln!(self.discipline(&format!("n{}", index + 1)), "{queue}\n{child}");
            let _ = writeln!(self.discipline(&format!("m{index}")), "{serialiser}");
        }
        for index in 0..self.receivers.len() {
            self.segmented.push((format!("r{index}"), format!("r{index}")));
            self.sysctl(&format!("r{index}"), "ipv4/tcp_wmem", format!("4096 {SEND_BUFFER} {AMPLE}"));
        }
        for index in 0..self.senders.len() {
            self.sysctl(&format!("s{index}"), "ipv4/tcp_rmem", format!("4096 131072 {AMPLE}"));
        }
    }

    /// Commands for `tc` that apply a change of the schedule in both directions.
    pub fn change_both(&mut self, change: &Change) -> Vec<(String, String)> {
        let index = change.link;
        let mut asked = self.change(change);
        let behind = format!("n{}", index + 1);
        let reverse = |(namespace, line): &(String, String)| {
            let line_back = mirrored(index, line);
            let namespace = if *namespace == format!("n{index}") { behind.clone() } else { namespace.clone() };
            (line_back != *line).then_some((namespace, line_back))
        };
        let more: Vec<_> = asked.iter().filter_map(reverse).collect();
        asked.extend(more);
        asked
    }

    /// Commands for `tc` that apply a change of the schedule, by namespace.
    pub fn change(&mut self, change: &Change) -> Vec<(String, String)> {
        let index = change.link;
        match change.what {
            ChangeKind::Rate(at) => {
                self.links[index].service = Service::Rate(at);
                let mut asked = vec![
                    (format!("n{index}"), self.bottleneck(index, "change")),
                    (format!("m{index}"), self.serialiser(index, "change")),
                ];
                if matches!(self.links[index].aqm, Aqm::DropTail) {
                    // A changed token bucket gives its inner queue its own limit.
                    let again = fifo(&format!("l{index}"), self.links[index].buffer, "change");
                    asked.push((format!("n{index}"), again));
                }
                asked
            }
            ChangeKind::Buffer(buffer) => {
                self.links[index].buffer = buffer;
                vec![(format!("n{index}"), fifo(&format!("l{index}"), buffer, "change"))]
            }
            ChangeKind::Loss(loss) => {
                self.links[index].loss = loss;
                vec![(format!("m{index}"), self.serialiser(index, "change"))]
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

    fn change_delays(&self) -> Vec<(String, String)> {
        let both = |index: usize| {
            let router = format!("n{}", self.receivers[index].last_link);
            [(router, self.delay(index, "change")), (format!("r{index}"), self.delay_back(index, "change"))]
        };
        (0..self.receivers.len()).flat_map(both).collect()
    }
}

/// The same line for the reverse path's device: there packets enter a link at `e` and leave at `l`.
fn mirrored(index: usize, line: &str) -> String {
    let swap = |word: &str| match word.strip_prefix(['l', 'e']) {
        Some(number) if number == index.to_string() => {
            format!("{}{number}", if word.starts_with('l') { 'e' } else { 'l' })
        }
        _ => word.to_owned(),
    };
    line.split(' ').map(swap).collect::<Vec<_>>().join(" ")
}

/// A drop-tail queue inside a token bucket. The bucket only peeks at its head, so the whole limit is queue.
fn fifo(device: &str, buffer: Buffer, verb: &str) -> String {
    match buffer {
        Buffer::Packets(n) => format!("qdisc {verb} dev {device} parent 1: handle 2: pfifo limit {n}"),
        Buffer::Bytes(n) => format!("qdisc {verb} dev {device} parent 1: handle 2: bfifo limit {n}"),
    }
}

/// A buffer in packets, for disciplines that count only packets.
pub(super) fn packets(buffer: Buffer, mtu: u64) -> u64 {
    match buffer {
        Buffer::Packets(n) => n,
        Buffer::Bytes(n) => (n / mtu).max(1),
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

/// The discipline inside the token bucket, if `tc` has it.
fn child(device: &str, link: &LinkConfig) -> String {
    let head = format!("qdisc add dev {device} parent 1: handle 2:");
    let limit = packets(link.buffer, u64::from(MTU_MIN));
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
            fq.codel.ce_threshold.map_or(String::new(), |at| format!(" ce_threshold {}", time(at))),
        ),
        Aqm::Cake(_) | Aqm::DualPi2(_) => String::new(),
        Aqm::Fq(_) => unreachable!("the capability table refuses it"),
        Aqm::Pie(pie) => format!(
            "{head} pie limit {limit} target {} tupdate {} alpha {} beta {}{}",
            time(pie.target),
            time(pie.tupdate),
            // The unit of both in tc is 1/16 per second.
            (pie.alpha * 16.0).round(),
            (pie.beta * 16.0).round(),
            ecn(pie.ecn),
        ),
        Aqm::Red(red) => {
            let bytes = match link.buffer {
                Buffer::Bytes(n) => n,
                Buffer::Packets(n) => n * u64::from(MTU_MIN),
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
