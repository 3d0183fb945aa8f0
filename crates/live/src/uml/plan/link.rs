//! Links of a plan: the queue and the shaper in front of each, the serialiser behind it, in either direction.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;

use bbrlab_core::Span;
use bbrlab_sim::link::{Aqm, LinkConfig, Service};

use super::super::dualpi2::DualPi2Queue;
use super::{ENDLESS, ETHERNET, Plan, cake, child, fifo, loss, rate};

/// Lateness of the kernel's timer that HTB makes up for. Below about a microsecond it falls behind by a nanosecond a packet.
/// Source: measured.
const TIMER_LATENESS: Span = Span::micros(2);
/// Name of the device pair before the reverse direction's serialiser.
const UP_ENTRY: &str = "lup";
/// Name of the device pair behind it.
const UP_EXIT: &str = "eup";
/// Namespaces of the reverse direction's link, in the order in which a packet meets them.
pub const UP_NAMESPACES: [&str; 3] = ["u0", "u1", "u2"];

/// Namespaces and devices of a link in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkDevices {
    /// Namespace in which packets wait.
    pub before: String,
    /// Device with the shaper and its queue.
    pub entry: String,
    /// Namespace of the serialiser.
    behind: String,
    /// Device with the serialiser.
    exit: String,
}

impl LinkDevices {
    /// The forward direction of the link with this number.
    pub(super) fn forward(index: usize) -> Self {
        Self {
            before: format!("n{index}"),
            entry: format!("l{index}"),
            behind: format!("m{index}"),
            exit: format!("e{index}"),
        }
    }

    /// The same link in the reverse direction: packets enter at `e` and leave at `l`.
    pub(super) fn reverse(index: usize) -> Self {
        let Self { entry, behind, exit, .. } = Self::forward(index);
        Self { before: format!("n{}", index + 1), entry: exit, behind, exit: entry }
    }

    /// The link of `up`.
    fn up() -> Self {
        let [before, behind, _] = UP_NAMESPACES.map(str::to_owned);
        Self { before, entry: UP_ENTRY.to_owned(), behind, exit: UP_EXIT.to_owned() }
    }
}

impl Plan {
    /// Every bottleneck with counters of its own, in the order of the forward links; the link of `up` comes last.
    pub fn bottlenecks(&self) -> Vec<LinkDevices> {
        let forward = (0..self.links.len()).map(LinkDevices::forward);
        forward.chain(self.up.as_ref().map(|_| LinkDevices::up())).collect()
    }

    /// The reverse direction of a link that has one.
    pub fn reverse(&self, index: usize) -> Option<LinkDevices> {
        self.is_mirrored.then(|| LinkDevices::reverse(index))
    }

    /// Devices through which packets come to a forward link: those of the hosts beside it, and of the link before it.
    pub fn sources(&self, index: usize) -> Vec<String> {
        let before = index.checked_sub(1).map(|before| LinkDevices::forward(before).exit);
        let hosts = self.hosts().into_iter().filter(|(_, place)| place.is_left && place.router == index);
        hosts.map(|(name, _)| name).chain(before).collect()
    }

    /// Directions of a link that a schedule changes together.
    pub(super) fn directions(&self, index: usize) -> Vec<LinkDevices> {
        if index == self.links.len() {
            return vec![LinkDevices::up()];
        }
        std::iter::once(LinkDevices::forward(index)).chain(self.reverse(index)).collect()
    }

    /// Adds router, bottleneck and serialiser.
    pub(super) fn write_link(&mut self, index: usize) {
        let forward = LinkDevices::forward(index);
        let (before, behind, next) = (forward.before.clone(), forward.behind.clone(), format!("n{}", index + 1));
        let (link, exit) = (forward.entry.clone(), forward.exit.clone());
        self.pair(&link, &before, &behind);
        self.pair(&exit, &behind, &next);
        // Data goes to 10.2, ACKs to 10.1; hosts attached here have a longer prefix.
        let _ = writeln!(self.address(&before), "route add 10.2.0.0/16 dev {link}");
        let _ = writeln!(self.address(&behind), "route add 10.2.0.0/16 dev {exit}");
        if self.up.is_none() {
            let _ = writeln!(self.address(&behind), "route add 10.1.0.0/16 dev {link}");
            let _ = writeln!(self.address(&next), "route add 10.1.0.0/16 dev {exit}");
        }
        for namespace in [&before, &behind, &next] {
            self.forwards(namespace);
        }
        let config = self.links[index].clone();
        self.write_bottleneck(&forward, &config);
        if let Some(policer) = config.policer {
            let (rate, burst) = (policer.rate.as_bits_per_sec(), policer.burst);
            let mtu = self.mtu + ETHERNET;
            let _ = writeln!(
                self.discipline(&before),
                "qdisc add dev {link} clsact\nfilter add dev {link} egress matchall action police rate {rate}bit \
                 burst {burst}b mtu {mtu} conform-exceed drop/pipe",
            );
        }
    }

    /// Adds the link of `up`, between the routers with hosts on the right and those with hosts on the left.
    pub(super) fn write_up(&mut self) {
        let Some(config) = self.up.clone() else { return };
        let devices = LinkDevices::up();
        let [before, behind, next] = UP_NAMESPACES;
        self.pair(&devices.entry, before, behind);
        self.pair(&devices.exit, behind, next);
        let _ = writeln!(self.address(before), "route add 10.1.0.0/16 dev {}", devices.entry);
        let _ = writeln!(self.address(behind), "route add 10.1.0.0/16 dev {}", devices.exit);
        UP_NAMESPACES.iter().for_each(|namespace| self.forwards(namespace));
        for router in self.routers(false) {
            let (device, namespace) = (format!("a{router}"), format!("n{router}"));
            self.pair(&device, &namespace, before);
            let _ = writeln!(self.address(&namespace), "route add 10.1.0.0/16 dev {device}");
            let losing = self.ack_loss_of(router, "add");
            let _ = writeln!(self.discipline(&namespace), "{losing}");
        }
        for router in self.routers(true) {
            let device = format!("b{router}");
            self.pair(&device, next, &format!("n{router}"));
            for to in self.addresses_at(router) {
                let _ = writeln!(self.address(next), "route add {to}/32 dev {device}");
            }
        }
        self.write_bottleneck(&devices, &config);
    }

    /// Loss on the way to the link of `up`, where the model loses packets of this direction.
    pub(super) fn ack_loss_of(&self, router: usize, verb: &str) -> String {
        format!("qdisc {verb} dev a{router} root handle 1: netem limit {ENDLESS}{}", loss(self.ack_loss))
    }

    /// Adds queue, shaper and serialiser of a link in one direction.
    pub(super) fn write_bottleneck(&mut self, devices: &LinkDevices, link: &LinkConfig) {
        let shaper = self.shaper(devices, link, "add");
        let queue = child(&devices.entry, link, self.full_packet);
        let serialiser = serialiser(devices, link, "add");
        self.dualpi2.extend(DualPi2Queue::of(link, &devices.before, devices.entry.clone()));
        let _ = writeln!(self.discipline(&devices.before), "{shaper}\n{queue}");
        let _ = writeln!(self.discipline(&devices.behind), "{serialiser}");
    }

    /// The shaper of a link, which releases a packet when its service begins. CAKE has its own.
    ///
    /// HTB lets a packet of any size pass, waits for its tokens, and only then takes the next one from the queue. A token bucket
    /// must hold a full packet: after an idle time it releases that many bytes of small packets at once. It also takes a packet
    /// out of its queue before it has the tokens, so an AQM would judge it one serialisation time too early.
    fn shaper(&self, devices: &LinkDevices, link: &LinkConfig, verb: &str) -> String {
        let Service::Rate(at) = link.service else { return String::new() };
        let (device, full) = (&devices.entry, self.mtu + ETHERNET);
        if let Aqm::Cake(config) = &link.aqm {
            return format!("qdisc {verb} dev {device} root handle 1: {}", cake(config, at, link.buffer));
        }
        let burst = at.bytes_in(TIMER_LATENESS).max(1);
        let at = rate(at);
        let class = format!(
            "class {verb} dev {device} parent 1: classid 1:1 htb rate {at} burst {burst}b cburst {burst}b quantum {full}"
        );
        if verb == "add" { format!("qdisc add dev {device} root handle 1: htb default 1\n{class}") } else { class }
    }

    /// Commands that give a link another rate in one direction, by namespace.
    pub(super) fn change_rate(&self, devices: &LinkDevices, link: &LinkConfig) -> Vec<(String, String)> {
        vec![
            (devices.before.clone(), self.shaper(devices, link, "change")),
            (devices.behind.clone(), serialiser(devices, link, "change")),
        ]
    }
}

/// Command that gives a link its buffer.
pub(super) fn change_buffer(devices: &LinkDevices, link: &LinkConfig) -> (String, String) {
    (devices.before.clone(), fifo(&devices.entry, link.buffer, "change"))
}

/// Command that gives a link its random loss.
pub(super) fn change_loss(devices: &LinkDevices, link: &LinkConfig) -> (String, String) {
    (devices.behind.clone(), serialiser(devices, link, "change"))
}

/// The serialiser: a packet's own serialisation time, and the loss behind it.
fn serialiser(devices: &LinkDevices, link: &LinkConfig, verb: &str) -> String {
    let Service::Rate(at) = link.service else { return String::new() };
    let (device, at) = (&devices.exit, rate(at));
    format!("qdisc {verb} dev {device} root handle 1: netem limit {ENDLESS} rate {at}{}", loss(link.loss))
}
