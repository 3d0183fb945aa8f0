//! Counters of queueing disciplines and devices, over netlink.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::tc::{TcAttribute, TcMessage, TcStats2, TcXstats};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::socket::within;

/// Counters of one discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QdiscCounters {
    pub queue_packets: u32,
    pub queue_bytes: u32,
    /// Packets that left.
    pub packets: u32,
    /// Bytes that left.
    pub bytes: u64,
    /// Packets dropped, by the discipline or by its child.
    pub drops: u32,
    /// Packets marked by its child.
    pub marks: u32,
}

/// Netlink access to the counters of one namespace.
pub struct Counters {
    socket: Socket,
    names: BTreeMap<i32, String>,
}

impl Counters {
    /// Opens the counters; devices created later are not included.
    pub fn open(namespace: impl AsFd) -> io::Result<Self> {
        let socket = within(namespace.as_fd(), || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        })?;
        let mut counters = Self { socket, names: BTreeMap::new() };
        let mut names = BTreeMap::new();
        counters.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()), |message| {
            if let RouteNetlinkMessage::NewLink(link) = message {
                let name = link.attributes.iter().find_map(|attribute| match attribute {
                    LinkAttribute::IfName(name) => Some(name.clone()),
                    _ => None,
                });
                names.insert(link.header.index as i32, name.unwrap_or_default());
            }
        })?;
        counters.names = names;
        Ok(counters)
    }

    /// Per device: its root discipline's counters, with the marks of the child.
    pub fn read(&self) -> io::Result<BTreeMap<&str, QdiscCounters>> {
        let mut counted: BTreeMap<&str, QdiscCounters> = BTreeMap::new();
        self.dump(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()), |message| {
            if let RouteNetlinkMessage::NewQueueDiscipline(qdisc) = message
                && let Some(name) = self.names.get(&qdisc.header.index)
            {
                note(counted.entry(name).or_default(), &qdisc);
            }
        })?;
        Ok(counted)
    }

    /// Packets that each device received.
    pub fn received(&self) -> io::Result<BTreeMap<&str, u64>> {
        let mut received = BTreeMap::new();
        self.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()), |message| {
            if let RouteNetlinkMessage::NewLink(link) = message
                && let Some(name) = self.names.get(&(link.header.index as i32))
            {
                let packets = link.attributes.iter().find_map(|attribute| match attribute {
                    LinkAttribute::Stats64(stats) => Some(stats.rx_packets),
                    _ => None,
                });
                received.insert(name.as_str(), packets.unwrap_or(0));
            }
        })?;
        Ok(received)
    }

    fn dump(&self, request: RouteNetlinkMessage, mut each: impl FnMut(RouteNetlinkMessage)) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = bytes.as_slice();
            while rest.len() >= 16 {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(io::Error::other)?;
                let length = (message.header.length as usize).next_multiple_of(4).min(rest.len());
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(message) => each(message),
                    _ => {}
                }
                rest = &rest[length.max(16)..];
            }
        }
    }
}

/// The kernel's `TC_H_ROOT`.
const ROOT: u32 = u32::MAX;

fn note(counted: &mut QdiscCounters, qdisc: &TcMessage) {
    let is_root = u32::from(qdisc.header.parent) == ROOT;
    let kind = qdisc.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Kind(kind) => Some(kind.as_str()),
        _ => None,
    });
    for attribute in &qdisc.attributes {
        let TcAttribute::Stats2(stats) = attribute else { continue };
        for stat in stats {
            match stat {
                TcStats2::Queue(queue) if is_root => {
                    (counted.queue_packets, counted.queue_bytes) = (queue.qlen, queue.backlog);
                    counted.drops = queue.drops;
                }
                TcStats2::Basic(basic) if is_root => (counted.packets, counted.bytes) = (basic.packets, basic.bytes),
                TcStats2::App(app) => counted.marks = marks(kind.unwrap_or_default(), app).unwrap_or(counted.marks),
                _ => {}
            }
        }
    }
}

/// Attributes of CAKE's statistics: the tins, and the marked packets of a tin. Source: Linux `include/uapi/linux/pkt_sched.h`.
const CAKE_TINS: u16 = 10;
const CAKE_MARKED: u16 = 8;
/// Flags in an attribute's type, and bytes of its header. Source: Linux `include/uapi/linux/netlink.h`.
const ATTRIBUTE_FLAGS: u16 = 0xc000;
const ATTRIBUTE_HEADER: usize = 4;

/// Sums the marks of CAKE's tins.
fn cake_marks(stats: &[u8]) -> Option<u32> {
    let (_, tins) = attributes(stats).find(|(kind, _)| *kind == CAKE_TINS)?;
    let marked =
        |tin| attributes(tin).find(|(kind, _)| *kind == CAKE_MARKED)?.1.try_into().ok().map(u32::from_ne_bytes);
    Some(attributes(tins).filter_map(|(_, tin)| marked(tin)).sum())
}

/// Type and payload of each netlink attribute.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (bytes.get(..2)?, bytes.get(2..ATTRIBUTE_HEADER)?);
        let length = usize::from(u16::from_ne_bytes(length.try_into().ok()?));
        let kind = u16::from_ne_bytes(kind.try_into().ok()?) & !ATTRIBUTE_FLAGS;
        let payload = bytes.get(ATTRIBUTE_HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// Packets marked by a discipline. Source: Linux `include/uapi/linux/pkt_sched.h`.
fn marks(kind: &str, app: &TcXstats) -> Option<u32> {
    let bytes = match app {
        TcXstats::Other(bytes) => bytes.clone(),
        known => {
            let mut bytes = vec![0; netlink_packet_core::Emitable::buffer_len(known)];
            netlink_packet_core::Emitable::emit(known, &mut bytes);
            bytes
        }
    };
    let word = |index: usize| {
        let bytes = bytes.get(4 * index..4 * index + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    match kind {
        "codel" => Some(word(6)? + word(8)?),
        "fq" => word(20),
        "fq_codel" => Some(word(3)? + word(7)?),
        "red" => word(3),
        "pie" => word(9),
        "cake" => cake_marks(&bytes),
        "dualpi2" => word(6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() + ATTRIBUTE_HEADER) as u16;
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn cakes_marks_are_the_sum_over_its_tins() {
        let tin = |nth, marks: u32| {
            attribute(nth, &[attribute(2, &[1, 2, 3, 4]), attribute(CAKE_MARKED, &marks.to_ne_bytes())].concat())
        };
        let tins = attribute(CAKE_TINS, &[tin(1, 5), tin(2, 7)].concat());
        assert_eq!(cake_marks(&[attribute(3, &[9; 6]), tins].concat()), Some(12));
        assert_eq!(cake_marks(&attribute(3, &[9; 4])), None);
        assert_eq!(cake_marks(&[1, 0, 0]), None);
    }
}
