//! From a capture to a path: packets of real or simulated connections, read once and in bounded memory, give rate, RTT,
//! buffer, kinds of loss and limits of each connection, with the basis of each figure.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod bottleneck;
mod estimate;
mod flow;
mod headers;
mod judge;
pub mod logs;
mod loss;
mod packets;
mod policer;
mod qlog;
mod queue;
pub mod result;
mod scoreboard;
mod signals;
mod sizes;
mod spin;
mod stream;
mod table;
mod text;
mod vantage;
mod verdict;

#[cfg(test)]
mod irregular;
#[cfg(test)]
mod tests;

use std::io::Read;

use bbrlab_stats::plural::counted;

use spin::QuicTable;
use stream::Packet;
use table::Table;

pub use estimate::{
    AckEstimate, AlgorithmEstimate, BufferEstimate, Estimate, LossEstimate, LossKind, PolicerEstimate, RateEstimate,
    RttEstimate, Vantage,
};

pub use text::Line;

use crate::{Error, Result};

/// Bytes by which the formats are told apart.
const HEAD: u64 = 64;

/// Contents of a capture.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Paths {
    /// One estimate for each connection and direction with data, those that carried most first.
    pub paths: Vec<Estimate>,
    /// Remarks on the file: cut off, packets left out.
    pub notes: Vec<String>,
    /// Packets read.
    pub packets: u64,
}

/// True if a file with these first bytes is a capture, pcap or pcapng, and no text.
pub fn is_capture(head: &[u8]) -> bool {
    const MAGIC: [[u8; 4]; 5] = [
        [0x0a, 0x0d, 0x0d, 0x0a],
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
    ];
    head.get(..4).is_some_and(|head| MAGIC.iter().any(|magic| magic == head))
}

/// True if a file with these first bytes may be a qlog: JSON, or a JSON sequence.
fn is_json(head: &[u8]) -> bool {
    matches!(
        head.trim_ascii_start().strip_prefix(&[0x1e]).unwrap_or(head).trim_ascii_start().first(),
        Some(b'{' | b'[')
    )
}

/// Reads a capture, pcap or pcapng, or a qlog, and estimates the path of each connection.
pub fn read(mut from: impl Read + Send) -> Result<Paths> {
    let mut head = Vec::new();
    from.by_ref().take(HEAD).read_to_end(&mut head).map_err(|_| Error::CaptureUnreadable)?;
    let whole = std::io::Cursor::new(head.clone()).chain(from);
    if is_json(&head) { qlog::read(whole) } else { packets_of(whole) }
}

/// Reads the packets of a capture.
fn packets_of(from: impl Read + Send) -> Result<Paths> {
    let (mut table, mut quic) = (Table::default(), QuicTable::default());
    let counts = stream::read(from, |t_ns, packet| match packet {
        Packet::Tcp(segment) => table.on_segment(t_ns, &segment),
        Packet::Udp(datagram) => quic.on_datagram(t_ns, &datagram),
    })?;
    let origin_ns = counts.first_ns.unwrap_or(0);
    let left_out_quic = quic.left_out();
    let (quic_packets, spinning) = quic.finish(origin_ns);
    if spinning.is_empty() {
        stream::check(&counts)?;
    }
    let left_out = table.left_out;
    let connections = table.finish();
    let mut paths: Vec<Estimate> = connections.iter().flat_map(|one| verdict::estimates(one, origin_ns)).collect();
    paths.extend(spinning);
    if paths.is_empty() {
        return Err(nothing(&connections));
    }
    let mut notes = stream::notes(&counts);
    if quic_packets > 0 {
        notes.push(format!("{quic_packets} packets are QUIC: only a spin bit shows something of their paths, the RTT"));
    }
    if counts.udp > quic_packets {
        notes.push(format!("{} packets are UDP, and are left out", counts.udp - quic_packets));
    }
    if left_out + left_out_quic > 0 {
        notes.push(format!("{} connections that carried little are left out", left_out + left_out_quic));
    }
    let of_one_way = || connections.iter().filter(|one| is_one_way(one));
    if let Some(bytes) = of_one_way().map(table::Connection::seen).reduce(|sum, bytes| sum + bytes) {
        let (count, megabytes) = (of_one_way().count() as u64, bytes as f64 / 1e6);
        let count = counted(count, "connection");
        notes.push(format!("{count} of one direction only, with {megabytes:.1} MB of data, left out"));
    }
    Ok(Paths { paths, notes, packets: counts.packets })
}

/// True if the capture has packets of one end only.
fn is_one_way(connection: &table::Connection) -> bool {
    connection.packets.contains(&0)
}

/// Reason why no connection has an estimate.
fn nothing(connections: &[table::Connection]) -> Error {
    if connections.iter().all(is_one_way) { Error::OneDirection } else { Error::NoData }
}
