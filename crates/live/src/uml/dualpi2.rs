//! DualPI2 as the child of a shaper, over netlink.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::os::fd::AsFd;

use bbrlab_sim::link::{Aqm, DualPi2, LinkConfig};
use netlink_packet_core::{
    DefaultNla, Emitable, NLA_F_NESTED, NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use super::devices::namespace_of;
use super::plan::{FULL_PACKET, packets};
use crate::socket::within;
use crate::{Error, Result};

/// Attributes of the discipline. Source: Linux `include/uapi/linux/pkt_sched.h`, `TCA_DUALPI2_*`.
mod attribute {
    pub const LIMIT: u16 = 1;
    pub const TARGET_US: u16 = 3;
    pub const TUPDATE_US: u16 = 4;
    pub const ALPHA: u16 = 5;
    pub const BETA: u16 = 6;
    pub const STEP_THRESH_US: u16 = 8;
    pub const MIN_QLEN_STEP: u16 = 9;
    pub const COUPLING: u16 = 10;
    pub const C_PROTECTION: u16 = 13;
}
/// Attribute that holds them. Source: Linux `TCA_OPTIONS`.
const OPTIONS: u16 = 2;
/// Unit of alpha and beta, 1/s. Source: Linux `TCA_DUALPI2_ALPHA`.
const PER_SECOND: f64 = 256.0;

/// DualPI2 inside a device's shaper. It is not a command, because the `tc` of Debian 12 and 13 has no `dualpi2`.
#[derive(Clone, Debug)]
pub struct DualPi2Queue {
    pub namespace: String,
    pub device: String,
    pub config: DualPi2,
    /// Packets in both queues together.
    pub limit: u64,
}

impl DualPi2Queue {
    /// The queue of a link that has one.
    pub(super) fn of(link: &LinkConfig, namespace: &str, device: String) -> Option<Self> {
        let Aqm::DualPi2(config) = link.aqm else { return None };
        Some(Self { namespace: namespace.to_owned(), device, config, limit: packets(link.buffer, FULL_PACKET) })
    }
}

/// Replaces the queue of a shaper.
pub(super) fn add(queue: &DualPi2Queue) -> Result<()> {
    let namespace = namespace_of(&queue.namespace)?;
    within(namespace.as_fd(), || ask(queue)).map_err(|source| match source.raw_os_error() {
        Some(libc::ENOENT) => Error::NoDualPi2,
        _ => Error::Io { what: format!("dualpi2 of {}", queue.device), source },
    })
}

fn ask(queue: &DualPi2Queue) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut message = TcMessage::default();
    message.header.index = nix::net::if_::if_nametoindex(queue.device.as_str())?.cast_signed();
    message.header.parent = TcHandle { major: 1, minor: 1 };
    message.header.handle = TcHandle { major: 2, minor: 0 };
    message.attributes = vec![TcAttribute::Kind("dualpi2".into()), options(queue)];
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
    let payload = NetlinkPayload::from(RouteNetlinkMessage::NewQueueDiscipline(message));
    let mut message = NetlinkMessage::new(header, payload);
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (bytes, _) = socket.recv_from_full()?;
    match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes).map_err(io::Error::other)?.payload {
        NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
        _ => Ok(()),
    }
}

/// The discipline's parameters as a netlink attribute. The kernel accepts it only with `NLA_F_NESTED`, which
/// `TcAttribute::Options` does not set.
fn options(queue: &DualPi2Queue) -> TcAttribute {
    let config = &queue.config;
    let word = |kind, value: u32| DefaultNla::new(kind, value.to_ne_bytes().to_vec());
    let byte = |kind, value: u8| DefaultNla::new(kind, vec![value]);
    let at_most = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let frequency = |value: f64| (value * PER_SECOND).round() as u32;
    let parameters = [
        word(attribute::LIMIT, at_most(queue.limit)),
        word(attribute::TARGET_US, at_most(config.target.as_micros())),
        word(attribute::TUPDATE_US, at_most(config.tupdate.as_micros())),
        word(attribute::ALPHA, frequency(config.alpha)),
        word(attribute::BETA, frequency(config.beta)),
        word(attribute::STEP_THRESH_US, at_most(config.step.as_micros())),
        word(attribute::MIN_QLEN_STEP, config.min_qlen_step),
        byte(attribute::COUPLING, config.coupling.round() as u8),
        byte(attribute::C_PROTECTION, config.classic_percent as u8),
    ];
    let mut bytes = vec![0; parameters.as_slice().buffer_len()];
    parameters.as_slice().emit(&mut bytes);
    TcAttribute::Other(DefaultNla::new(OPTIONS | NLA_F_NESTED, bytes))
}
