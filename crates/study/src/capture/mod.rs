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
mod qlog;
mod queue;
pub mod result;
mod scoreboard;
mod signals;
mod spin;
mod table;
mod text;
mod verdict;

#[cfg(test)]
mod tests;

use std::io::Read;

use headers::Frame;
use spin::QuicTable;
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

/// Counts of a capture's packets.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    packets: u64,
    tcp: u64,
    udp: u64,
    unsupported: u64,
    first_ns: Option<u64>,
    /// True if two packets have different times.
    has_time: bool,
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
    let (mut table, mut quic, mut counts) = (Table::default(), QuicTable::default(), Counts::default());
    let end = packets::read(from, |captured| {
        counts.packets += 1;
        let first = *counts.first_ns.get_or_insert(captured.t_ns);
        counts.has_time |= first != captured.t_ns;
        let Some(link) = captured.link else {
            counts.unsupported += 1;
            return;
        };
        match headers::decode(link, captured.bytes, captured.length) {
            Frame::Tcp(segment) => {
                counts.tcp += 1;
                table.on_segment(captured.t_ns, &segment);
            }
            Frame::Udp(datagram) => {
                counts.udp += 1;
                quic.on_datagram(captured.t_ns, &datagram);
            }
            Frame::Other => {}
        }
    })?;
    let origin_ns = counts.first_ns.unwrap_or(0);
    let (quic_packets, spinning) = quic.finish(origin_ns);
    if spinning.is_empty() {
        check(&counts, &end)?;
    }
    let left_out = table.left_out;
    let connections = table.finish();
    let mut paths: Vec<Estimate> = connections.iter().flat_map(|one| verdict::estimates(one, origin_ns)).collect();
    paths.extend(spinning);
    if paths.is_empty() {
        return Err(nothing(&connections));
    }
    let mut notes = Vec::new();
    if let Some(at) = end.cut_at {
        notes.push(format!("the file is cut off or damaged at byte {at}; it was read up to there"));
    }
    if counts.unsupported > 0 {
        notes.push(format!("{} packets have a link layer that is not read, and are left out", counts.unsupported));
    }
    if quic_packets > 0 {
        notes.push(format!("{quic_packets} packets are QUIC: only a spin bit shows something of their paths, the RTT"));
    }
    if counts.udp > quic_packets {
        notes.push(format!("{} packets are UDP, and are left out", counts.udp - quic_packets));
    }
    if left_out > 0 {
        notes.push(format!("{left_out} connections that carried little are left out"));
    }
    Ok(Paths { paths, notes, packets: counts.packets })
}

/// Refuses a capture without usable packets.
fn check(counts: &Counts, end: &packets::End) -> Result<()> {
    match *counts {
        Counts { packets: 0, .. } if end.without_time > 0 => Err(Error::NoTimestamps(end.without_time)),
        Counts { packets: 0, .. } if end.cut_at.is_some() => Err(Error::CutBeforePackets),
        Counts { packets: 0, .. } => Err(Error::EmptyCapture),
        Counts { packets, unsupported, .. } if packets == unsupported => Err(Error::LinkLayer),
        Counts { tcp: 0, udp, packets, .. } => Err(Error::NoTcp { packets, udp }),
        Counts { packets, has_time: false, .. } if packets > 1 => Err(Error::NoTimestamps(packets)),
        _ => Ok(()),
    }
}

/// Reason why no connection has an estimate.
fn nothing(connections: &[table::Connection]) -> Error {
    let is_one_way = |one: &table::Connection| one.packets.contains(&0);
    if connections.iter().all(is_one_way) { Error::OneDirection } else { Error::NoData }
}
