//! Shared parts of the link's tests: a packet, and a host that plays a list of arrivals.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rate, Time};

use super::{Aqm, Buffer, Departure, Link, LinkConfig, LinkPacket, Loss, Service, Verdict};

/// A numbered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub id: u64,
    pub bytes: u32,
    pub flow: u32,
    pub ect: bool,
    pub l4s: bool,
    pub ce: bool,
}

impl LinkPacket for Packet {
    fn wire_bytes(&self) -> u32 {
        self.bytes
    }
    fn flow(&self) -> u32 {
        self.flow
    }
    fn ect(&self) -> bool {
        self.ect
    }
    fn is_l4s(&self) -> bool {
        self.l4s
    }
    fn mark_ce(&mut self) {
        self.ce = true;
    }
}

/// Creates a packet of flow 0 that cannot be marked.
pub const fn packet(bytes: u32) -> Packet {
    Packet { id: 0, bytes, flow: 0, ect: false, l4s: false, ce: false }
}

/// Configures a link without policer and loss.
pub fn link_config(service: Service, buffer: Buffer, aqm: Aqm) -> LinkConfig {
    LinkConfig { service, buffer, aqm, policer: None, loss: Loss::None, ack_filter: false }
}

/// Creates a drop-tail link at a constant rate.
pub fn drop_tail(rate_bps: u64, buffer: Buffer) -> Link<Packet> {
    Link::new(&link_config(Service::Rate(Rate::bits_per_sec(rate_bps)), buffer, Aqm::DropTail), 1)
}

/// Takes all departures due before `now` (also those at `now` if `inclusive`).
pub fn drain(link: &mut Link<Packet>, now: Time, inclusive: bool) -> Vec<Departure<Packet>> {
    let mut departures = Vec::new();
    while link.next_departure() < now || (inclusive && link.next_departure() == now && now != Time::NEVER) {
        departures.extend(link.depart(link.next_departure()));
    }
    departures
}

/// Offers each packet at its time, handling departures before arrivals of the same time; then takes the rest.
pub fn play(
    link: &mut Link<Packet>,
    arrivals: impl IntoIterator<Item = (Time, Packet)>,
) -> (Vec<Verdict>, Vec<Departure<Packet>>) {
    let (mut verdicts, mut departures) = (Vec::new(), Vec::new());
    for (now, packet) in arrivals {
        departures.extend(drain(link, now, true));
        verdicts.push(link.offer(now, packet));
    }
    departures.extend(drain(link, Time::NEVER, false));
    (verdicts, departures)
}

/// Yields `n` numbered packets of 1500 bytes, `gap_ns` apart from 0 on, of flow 0.
pub fn paced(n: u64, gap_ns: u64, ect: bool) -> impl Iterator<Item = (Time, Packet)> {
    (0..n).map(move |id| (Time::nanos(id * gap_ns), Packet { id, ect, ..packet(1500) }))
}
