//! Frames of a capture file, pcap or pcapng, one after the other and in constant memory.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{self, Read};

use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

use super::headers::Link;
use crate::{Error, Result};

/// Initial buffer: several hundred packets of a short snaplen.
const BUFFER: usize = 1 << 18;
/// Largest block that is read. Ours: the largest frame of a snaplen of 256 KiB, with options, 64 times.
const BLOCK_MAX: usize = 1 << 24;
/// Largest number of interfaces of a section. Ours: a guard against a file of interface descriptions alone.
const INTERFACES_MAX: usize = 65_536;
const NANOS: u128 = 1_000_000_000;

/// One captured frame.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// Time since the epoch, or since another origin of the file.
    pub t_ns: u64,
    /// Link layer; `None` for one that is not supported.
    pub link: Option<Link>,
    /// Its bytes, up to the snaplen.
    pub bytes: &'a [u8],
    /// Length on the wire.
    pub length: u32,
}

/// End of a file that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Byte at which the file is cut off or damaged.
    pub cut_at: Option<u64>,
    /// Packets without a timestamp: pcapng's simple packets.
    pub without_time: u64,
}

/// An interface of a pcapng section: link layer, ticks per second, offset in seconds.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: Option<Link>,
    ticks: u64,
    offset_s: i64,
}

impl Interface {
    /// Converts ticks to nanoseconds, rounded down.
    fn nanos(&self, ticks: u64) -> u64 {
        let nanos = u128::from(ticks) * NANOS / u128::from(self.ticks.max(1));
        let offset = i128::from(self.offset_s) * NANOS as i128;
        u64::try_from(i128::try_from(nanos).unwrap_or(i128::MAX).saturating_add(offset).max(0)).unwrap_or(u64::MAX)
    }
}

/// Reader that fills the whole buffer of its caller, so that a pipe reads like a file.
struct Filling<R>(R);

impl<R: Read> Read for Filling<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

/// Interfaces of the file so far.
#[derive(Default)]
struct Section {
    interfaces: Vec<Interface>,
    /// Of a pcap file: nanoseconds per unit of its second field.
    unit_ns: u64,
    end: End,
}

/// Reads all frames, and passes each to `take`. A file that is cut off is read to the cut.
pub fn read(from: impl Read + Send, mut take: impl FnMut(Captured<'_>)) -> Result<End> {
    let mut reader = create_reader(BUFFER, Filling(from)).map_err(|error| match error {
        PcapError::Eof => Error::EmptyCapture,
        PcapError::ReadError => Error::CaptureUnreadable,
        _ => Error::NotACapture,
    })?;
    let (mut section, mut size) = (Section::default(), BUFFER);
    loop {
        let refill = match reader.next() {
            Ok((offset, block)) => {
                section.block(&block, &mut take);
                reader.consume(offset);
                continue;
            }
            Err(PcapError::Eof) => return Ok(section.end),
            Err(PcapError::Incomplete(_)) => Some(size),
            Err(PcapError::BufferTooSmall) if size < BLOCK_MAX => Some(size * 4),
            Err(_) => None,
        };
        let at = reader.consumed() as u64;
        let Some(wanted) = refill.filter(|_| !reader.reader_exhausted()) else {
            section.end.cut_at = Some(at);
            return Ok(section.end);
        };
        if wanted > size {
            size = wanted;
            reader.grow(size);
        }
        let before = reader.data().len();
        if reader.refill().is_err() {
            return Err(Error::CaptureUnreadable);
        }
        // Nothing more came, and the block is still incomplete.
        if reader.data().len() == before && !reader.reader_exhausted() {
            if size >= BLOCK_MAX {
                section.end.cut_at = Some(at);
                return Ok(section.end);
            }
            size *= 4;
            reader.grow(size);
        }
    }
}

/// Ticks per second of an interface's resolution: a negative power of ten, or of two with the highest bit. One that is
/// too fine counts as microseconds.
// spec: draft-ietf-opsawg-pcapng 4.2 if_tsresol
const fn ticks(resolution: u8) -> u64 {
    let power = (resolution & 0x7f) as u32;
    let ticks = if resolution & 0x80 == 0 { 10_u64.checked_pow(power) } else { 1_u64.checked_shl(power) };
    match ticks {
        Some(ticks) => ticks,
        None => 1_000_000,
    }
}

impl Section {
    fn block(&mut self, block: &PcapBlockOwned<'_>, take: &mut impl FnMut(Captured<'_>)) {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.unit_ns = if header.is_nanosecond_precision() { 1 } else { 1_000 };
                self.interfaces = vec![Interface { link: Link::of(header.network.0), ticks: 1, offset_s: 0 }];
            }
            PcapBlockOwned::Legacy(packet) => {
                let nanos = u64::from(packet.ts_usec).saturating_mul(self.unit_ns);
                take(Captured {
                    t_ns: (u64::from(packet.ts_sec) * NANOS as u64).saturating_add(nanos),
                    link: self.interfaces.first().and_then(|interface| interface.link),
                    bytes: packet.data,
                    length: packet.origlen,
                });
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => self.interfaces.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(found)) if self.interfaces.len() < INTERFACES_MAX => {
                self.interfaces.push(Interface {
                    link: Link::of(found.linktype.0),
                    ticks: ticks(found.if_tsresol),
                    offset_s: found.ts_offset(),
                });
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let interface = self.interfaces.get(packet.if_id as usize);
                let Some(interface) = interface else { return };
                take(Captured {
                    t_ns: interface.nanos(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low)),
                    link: interface.link,
                    bytes: packet.packet_data(),
                    length: packet.origlen,
                });
            }
            PcapBlockOwned::NG(Block::SimplePacket(_)) => self.end.without_time += 1,
            PcapBlockOwned::NG(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_are_powers_of_ten_or_of_two() {
        let wanted = [(6, 1_000_000), (9, 1_000_000_000), (0x80 | 20, 1 << 20), (0x80 | 30, 1 << 30), (0x80, 1)];
        wanted.iter().for_each(|&(resolution, per_s)| assert_eq!(ticks(resolution), per_s, "{resolution:#x}"));
        assert_eq!((ticks(20), ticks(0x80 | 64)), (1_000_000, 1_000_000));
    }
}
