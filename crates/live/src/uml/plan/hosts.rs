//! Hosts of a plan: their place on the path, addresses, and the delay lines around them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use bbrlab_core::{AlgorithmConfig, Rate, Span};
use bbrlab_sim::link::Buffer;
use bbrlab_sim::path::Direction;
use bbrlab_sim::setup::{FlowSetup, HostSetup, Rwnd, Setup};

use super::{
    AMPLE, BUCKET_ROOM, ENDLESS, ETHERNET, Endpoints, Plan, SEND_BUFFER, TSO_MAX, fifo, loss, percent, rate, tcp_ecn,
    time,
};

/// First address of hosts with flows in the other direction, behind those of the backend's most flows.
const UPLOADS_FROM: usize = 25_000;

/// Place of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the router to which it is attached.
    pub router: usize,
    /// True at the left end, where data of downloads comes from.
    pub is_left: bool,
    /// Delay line in front of it, if it has one.
    delay: Option<Delay>,
}

/// Two-way propagation delay of a host's flows; half of it lies in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Delay {
    /// The flow's own RTT; `None` for the path's.
    rtt: Option<Span>,
    access_rtt: Span,
}

/// Senders on the same host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SenderKind {
    place: Place,
    host: HostSetup,
    /// Largest burst in segments; `None` for the kernel's default.
    burst: Option<u32>,
    /// The kernel's `tcp_ecn`.
    ecn: u8,
    /// Rate and buffer of an access link, and the flow that owns it: each flow has its own.
    access: Option<(Rate, Buffer, usize)>,
    /// The flow that owns it, if flows are to differ in their addresses.
    owner: Option<usize>,
}

/// Receivers on the same host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceiverKind {
    place: Place,
    rwnd: Rwnd,
    ecn: u8,
    /// First flow of the host, if hosts are to differ in their addresses.
    owner: Option<usize>,
}

fn placed<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|other| *other == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

/// Address of a sender or a receiver by its number.
fn address(place: Place, is_sender: bool, number: usize) -> Ipv4Addr {
    let (side, is_upload) = if place.is_left { (1, !is_sender) } else { (2, is_sender) };
    let number = number + if is_upload { UPLOADS_FROM } else { 0 };
    Ipv4Addr::new(10, side, (number / 250) as u8, (number % 250 + 1) as u8)
}

impl Plan {
    /// Gives each flow its two hosts, and the lag probe. Flows of the same kind share them.
    pub(super) fn place_flows(&mut self, setup: &Setup) {
        for (index, flow) in setup.flows.iter().enumerate() {
            let ends = self.place(setup, index, flow);
            self.ends.push(ends);
        }
        if setup.probe.is_some() {
            // It crosses every link, with the path's own delay.
            let algorithm = AlgorithmConfig::Cubic(Default::default());
            let flow = FlowSetup { links: (0, setup.links.len()), ..FlowSetup::bulk("probe", algorithm) };
            self.probe = Some(self.place(setup, setup.flows.len(), &flow));
        }
    }

    /// Gives one flow its two hosts.
    fn place(&mut self, setup: &Setup, index: usize, flow: &FlowSetup) -> Endpoints {
        let has_cake = setup.has_cake();
        let is_same_host = |other: &FlowSetup| other.shared_host == flow.shared_host;
        let first = flow.shared_host.and_then(|_| setup.flows.iter().position(is_same_host)).unwrap_or(index);
        let delay = Delay { rtt: flow.rtt, access_rtt: flow.access.map_or(Span::ZERO, |access| access.rtt) };
        // Behind the link of `up` ACKs are delayed in front of their sender, as in the model; without it in front of
        // their receiver's device, so that senders of all RTTs share a host.
        let left = Place { router: flow.links.0, is_left: true, delay: setup.up.as_ref().map(|_| delay) };
        let right = Place { router: flow.links.1, is_left: false, delay: Some(delay) };
        let mut ends = [(left, index), (right, first)];
        if flow.is_upload {
            ends.reverse();
        }
        let [sender, receiver] = ends.map(|(place, owner)| (place, has_cake.then_some(owner)));
        let access = flow.access.map(|access| (access.rate, access.buffer, index));
        let ecn = tcp_ecn(flow);
        let burst = (flow.host.tso_max < TSO_MAX).then(|| (flow.host.tso_max / flow.mss).max(1));
        let sender = SenderKind { place: sender.0, host: flow.host, burst, ecn, access, owner: sender.1 };
        let receiver = ReceiverKind { place: receiver.0, rwnd: flow.rwnd, ecn, owner: receiver.1 };
        let s = placed(&mut self.senders, sender);
        let r = placed(&mut self.receivers, receiver);
        Endpoints {
            sender: format!("s{s}"),
            receiver: format!("r{r}"),
            from: address(sender.place, true, s),
            to: address(receiver.place, false, r),
        }
    }

    /// Names and places of all hosts. A host's namespace and its device have the same name.
    pub(super) fn hosts(&self) -> Vec<(String, Place)> {
        let senders = self.senders.iter().enumerate().map(|(s, kind)| (format!("s{s}"), kind.place));
        let receivers = self.receivers.iter().enumerate().map(|(r, kind)| (format!("r{r}"), kind.place));
        senders.chain(receivers).collect()
    }

    /// Numbers of the routers with hosts at this end.
    pub(super) fn routers(&self, left: bool) -> Vec<usize> {
        let at = |router: &usize| self.hosts().iter().any(|(_, host)| host.is_left == left && host.router == *router);
        (0..=self.links.len()).filter(at).collect()
    }

    /// Addresses of the hosts on the left of a router.
    pub(super) fn addresses_at(&self, router: usize) -> Vec<Ipv4Addr> {
        let senders = self.senders.iter().enumerate().map(|(s, kind)| (kind.place, address(kind.place, true, s)));
        let receivers = self.receivers.iter().enumerate().map(|(r, kind)| (kind.place, address(kind.place, false, r)));
        let here = senders.chain(receivers).filter(|(place, _)| place.is_left && place.router == router);
        here.map(|(_, address)| address).collect()
    }

    /// Adds a host's device, its address and the route to it, and the delay line in front of it.
    fn write_host(&mut self, name: &str, place: Place, at: Ipv4Addr) {
        let router = format!("n{}", place.router);
        let (left, right) = if place.is_left { (name, router.as_str()) } else { (router.as_str(), name) };
        self.pair(name, left, right);
        let _ = writeln!(self.address(name), "address add {at}/32 dev {name}");
        let _ = writeln!(self.address(&router), "route add {at}/32 dev {name}");
        if let Some(delay) = place.delay {
            let line = self.delay_to(name, place.is_left, delay, "add");
            let _ = writeln!(self.discipline(&router), "{line}");
        }
        self.sysctl(name, "ipv4/conf/all/rp_filter", 0);
        // After a timeout Linux draws the packets' hash anew. It is the hosts' own, and no wire carries it, but these devices do, so
        // the link's queues would take the connection for another one.
        self.sysctl(name, "core/txrehash", 0);
    }

    pub(super) fn write_sender(&mut self, index: usize) {
        let kind = self.senders[index];
        let name = format!("s{index}");
        self.write_host(&name, kind.place, address(kind.place, true, index));
        let text = self.address(&name);
        let _ = writeln!(text, "route add default dev {name} initcwnd {}", kind.host.initial_cwnd);
        if let Some(segments) = kind.burst {
            let _ = writeln!(self.address(&name), "link set dev {name} gso_max_segs {segments}");
        }
        self.segmented.push((name.clone(), name.clone()));
        let bucket = self.mtu + ETHERNET + BUCKET_ROOM;
        match kind.access {
            Some((at, buffer, _)) => {
                let _ = writeln!(
                    self.discipline(&name),
                    "qdisc add dev {name} root handle 1: tbf rate {} burst {bucket}b limit 1000000000\n{}",
                    rate(at),
                    fifo(&name, buffer, "add"),
                );
            }
            None if kind.host.pacing => {
                let _ = writeln!(
                    self.discipline(&name),
                    "qdisc add dev {name} root fq flow_limit {ENDLESS} limit {ENDLESS}"
                );
            }
            None => {}
        }
        if kind.host.l4s {
            // Linux sends ECT(0) whatever the congestion control; this makes it ECT(1) as the packet leaves the host.
            let _ = writeln!(
                self.discipline(&name),
                "qdisc add dev {name} clsact\nfilter add dev {name} egress protocol ip u32 match ip tos 2 3 \
                 action pedit munge ip dsfield set 1 retain 3 pipe csum ip4h"
            );
        }
        self.sysctl(&name, "ipv4/tcp_no_metrics_save", 1);
        self.ecn(&name, kind.ecn);
        self.compress_acks(&name);
        self.sysctl(&name, "ipv4/tcp_wmem", format!("4096 {SEND_BUFFER} {AMPLE}"));
    }

    pub(super) fn write_receiver(&mut self, index: usize) {
        let kind = self.receivers[index];
        let name = format!("r{index}");
        self.write_host(&name, kind.place, address(kind.place, false, index));
        let _ = writeln!(self.address(&name), "route add default dev {name}");
        if self.up.is_none() {
            let reverse = self.delay_from(index, "add");
            let _ = writeln!(self.discipline(&name), "{reverse}");
        }
        let window = match kind.rwnd {
            Rwnd::Auto(bytes) => format!("4096 131072 {}", Rwnd::buffer_of(bytes)),
            Rwnd::Unlimited | Rwnd::Fixed(_) => format!("4096 {AMPLE} {AMPLE}"),
        };
        self.sysctl(&name, "ipv4/tcp_rmem", window);
        self.ecn(&name, kind.ecn);
        self.compress_acks(&name);
    }

    /// Lets the hosts at each end send and receive, as those at the other do.
    pub(super) fn equip_both_ends(&mut self) {
        for index in 0..self.receivers.len() {
            self.segmented.push((format!("r{index}"), format!("r{index}")));
            self.sysctl(&format!("r{index}"), "ipv4/tcp_wmem", format!("4096 {SEND_BUFFER} {AMPLE}"));
        }
        for index in 0..self.senders.len() {
            self.sysctl(&format!("s{index}"), "ipv4/tcp_rmem", format!("4096 131072 {AMPLE}"));
        }
    }

    fn rtt(&self, delay: Delay) -> Span {
        delay.rtt.unwrap_or(self.path_rtt) + delay.access_rtt
    }

    /// Delay line in front of a host. Jitter and duplicates belong to the forward direction.
    fn delay_to(&self, device: &str, is_left: bool, delay: Delay, verb: &str) -> String {
        let head = format!("qdisc {verb} dev {device} root handle 1: netem limit {ENDLESS}");
        if is_left {
            return format!("{head} delay {}", time(Direction::Reverse.of(self.rtt(delay))));
        }
        let forward = Direction::Forward.of(self.rtt(delay));
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
        format!("{head} {jitter}{duplicate}")
    }

    /// Delay line and loss of a receiver's ACKs, without a link of `up`.
    fn delay_from(&self, index: usize, verb: &str) -> String {
        let reverse =
            self.receivers[index].place.delay.map_or(Span::ZERO, |delay| Direction::Reverse.of(self.rtt(delay)));
        let delay = time(reverse);
        format!("qdisc {verb} dev r{index} root handle 1: netem limit {ENDLESS} delay {delay}{}", loss(self.ack_loss))
    }

    /// Commands that give all delay lines, and the ACKs' loss, their current values, by namespace.
    pub(super) fn change_delays(&self) -> Vec<(String, String)> {
        let to = self.hosts().into_iter().filter_map(|(name, place)| {
            Some((format!("n{}", place.router), self.delay_to(&name, place.is_left, place.delay?, "change")))
        });
        if self.up.is_some() {
            let losing = self.routers(false).into_iter();
            let losing = losing.map(|router| (format!("n{router}"), self.ack_loss_of(router, "change")));
            return to.chain(losing).collect();
        }
        let from = (0..self.receivers.len()).map(|index| (format!("r{index}"), self.delay_from(index, "change")));
        to.chain(from).collect()
    }
}
