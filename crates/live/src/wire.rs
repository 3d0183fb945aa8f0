//! IPv4, IPv6 and TCP headers, as far as measurements and the emulator need them.
//! Packets may be truncated; no input causes a panic.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::net::IpAddr;

pub mod flag {
    /// The sender has sent its last byte.
    pub const FIN: u8 = 0x01;
    /// Starts a connection.
    pub const SYN: u8 = 0x02;
    /// Resets the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 0x10;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

/// ECN field of an IP header: congestion experienced. Source: RFC 3168 §5.
pub const CE: u8 = 3;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Maximum SACK blocks in an option. Source: RFC 2018 §3.
const SACKS: usize = 4;

/// Layout of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// 4 or 6.
    pub version: u8,
    /// Bytes of its header, without IPv6 extension headers.
    pub header: usize,
    /// Total length according to the header; the captured bytes may be fewer.
    pub total: usize,
    /// The protocol that follows.
    pub protocol: u8,
    /// Differentiated services code point.
    pub dscp: u8,
    /// The ECN field.
    pub ecn: u8,
    /// True for a fragment other than the first, which has no transport header.
    pub fragment: bool,
}

/// Endpoints of a connection, as one packet names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoints {
    pub from: IpAddr,
    /// Source port.
    pub from_port: u16,
    /// Destination address.
    pub to: IpAddr,
    /// Destination port.
    pub to_port: u16,
}

/// A TCP segment, or a super-packet of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Its connection and direction.
    pub ends: Endpoints,
    /// Sequence number of the first payload byte, or of the SYN.
    pub seq: u32,
    pub ack: u32,
    /// Flags, from [`flag`].
    pub flags: u8,
    pub payload: u32,
    /// Bytes of IP and TCP headers.
    pub headers: u32,
    /// The ECN field of the IP header.
    pub ecn: u8,
    /// The flags AE, CWR and ECE, as a number. Source: RFC 9768 §3.1.
    pub ecn_feedback: u8,
    /// SACK blocks; the first ones are in use.
    sacks: [(u32, u32); SACKS],
    sack_count: u8,
}

/// Fields of a TCP header beyond [`Tcp`], for captures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The window field, unscaled.
    pub window: u16,
    /// The MSS announced in a handshake.
    pub mss: Option<u16>,
    /// The window scale announced in a handshake.
    pub scale: Option<u8>,
    /// The sender's timestamp and the one that it echoes; 0 without the option.
    pub timestamps: (u32, u32),
}

impl Endpoints {
    /// Endpoints as seen from the other side.
    pub const fn reversed(self) -> Self {
        Self { from: self.to, from_port: self.to_port, to: self.from, to_port: self.from_port }
    }
}

impl Tcp {
    /// The SACK blocks, in the order of the option.
    pub fn sack_blocks(&self) -> &[(u32, u32)] {
        &self.sacks[..usize::from(self.sack_count)]
    }
}

/// Parses the IP header at the start of `packet`; `None` if there is none.
pub fn ip(packet: &[u8]) -> Option<Ip> {
    match packet.first()? >> 4 {
        4 => ipv4(packet),
        6 => ipv6(packet),
        _ => None,
    }
}

fn ipv4(packet: &[u8]) -> Option<Ip> {
    let fixed: &[u8; 20] = packet.first_chunk()?;
    let header = usize::from(fixed[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let offset = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff;
    (header >= 20 && total >= header).then_some(Ip {
        version: 4,
        header,
        total,
        protocol: fixed[9],
        dscp: fixed[1] >> 2,
        ecn: fixed[1] & 3,
        fragment: offset != 0,
    })
}

fn ipv6(packet: &[u8]) -> Option<Ip> {
    let fixed: &[u8; 40] = packet.first_chunk()?;
    Some(Ip {
        version: 6,
        header: 40,
        total: 40 + usize::from(u16::from_be_bytes([fixed[4], fixed[5]])),
        protocol: fixed[6],
        dscp: ((fixed[0] & 15) << 2) | (fixed[1] >> 6),
        ecn: (fixed[1] >> 4) & 3,
        fragment: false,
    })
}

/// The addresses of a packet with the IP header `ip`.
fn addresses(packet: &[u8], ip: &Ip) -> Option<(IpAddr, IpAddr)> {
    if ip.version == 4 {
        let (from, to): (&[u8; 4], &[u8; 4]) =
            (packet.get(12..16)?.try_into().ok()?, packet.get(16..20)?.try_into().ok()?);
        return Some(((*from).into(), (*to).into()));
    }
    let (from, to): (&[u8; 16], &[u8; 16]) =
        (packet.get(8..24)?.try_into().ok()?, packet.get(24..40)?.try_into().ok()?);
    Some(((*from).into(), (*to).into()))
}

/// Parses the TCP segment in an IP packet; `None` if there is none. `packet` may end after the TCP header, because
/// lengths are taken from the IP header.
pub fn tcp(packet: &[u8]) -> Option<Tcp> {
    let ip = ip(packet)?;
    if ip.protocol != TCP || ip.fragment {
        return None;
    }
    let (from, to) = addresses(packet, &ip)?;
    let rest = packet.get(ip.header..)?;
    let fixed: &[u8; 20] = rest.first_chunk()?;
    let length = usize::from(fixed[12] >> 4) * 4;
    let headers = ip.header + length;
    if length < 20 || ip.total < headers {
        return None;
    }
    let word = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let half = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let (sacks, sack_count) = sack_option(rest.get(20..length).unwrap_or(&[]));
    Some(Tcp {
        ends: Endpoints { from, from_port: half(0), to, to_port: half(2) },
        seq: word(4),
        ack: word(8),
        flags: fixed[13],
        payload: (ip.total - headers) as u32,
        headers: headers as u32,
        ecn: ip.ecn,
        ecn_feedback: ((fixed[12] & 1) << 2) | (fixed[13] >> 6),
        sacks,
        sack_count,
    })
}

/// Parses the TCP segment in an IP packet with all header fields; `None` if there is none.
pub fn tcp_with_details(packet: &[u8]) -> Option<(Tcp, Details)> {
    let tcp = tcp(packet)?;
    let header = packet.get(ip(packet)?.header..tcp.headers as usize)?;
    let mut details = Details { window: u16::from_be_bytes([header[14], header[15]]), ..Details::default() };
    each_option(&header[20..], |kind, value| match (kind, value) {
        (2, &[high, low]) => details.mss = Some(u16::from_be_bytes([high, low])),
        (3, &[scale]) => details.scale = Some(scale.min(14)),
        (8, &[a, b, c, d, e, f, g, h]) => {
            details.timestamps = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        }
        _ => {}
    });
    Some((tcp, details))
}

/// Source and destination port of a TCP segment; `None` for anything else.
#[inline]
pub fn tcp_ports(packet: &[u8]) -> Option<(u16, u16)> {
    let ip = ip(packet)?;
    let ports = packet.get(ip.header..ip.header + 4)?;
    let half = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
    (ip.protocol == TCP && !ip.fragment).then(|| (half(0), half(2)))
}

/// A number shared by the packets of one connection (TCP or UDP) in one direction.
pub fn flow_hash(packet: &[u8]) -> u32 {
    let Some(ip) = ip(packet) else { return 0 };
    let addresses = if ip.version == 4 { packet.get(12..20) } else { packet.get(8..40) };
    let ports = if ip.fragment { None } else { packet.get(ip.header..ip.header + 4) };
    let bytes = addresses.into_iter().chain(ports).flatten();
    // FNV-1a. Any function that spreads will do: the disciplines hash the value again with a key.
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Extracts the SACK blocks from TCP options.
fn sack_option(options: &[u8]) -> ([(u32, u32); SACKS], u8) {
    let mut sacks = [(0, 0); SACKS];
    let mut count = 0;
    each_option(options, |kind, value| {
        if kind == 5 {
            count = 0;
            for (sack, block) in sacks.iter_mut().zip(value.chunks_exact(8)) {
                let word = |at: usize| u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
                *sack = (word(0), word(4));
                count += 1;
            }
        }
    });
    (sacks, count)
}

/// Passes kind and value of each complete TCP option to `take`.
#[inline]
fn each_option(mut options: &[u8], mut take: impl FnMut(u8, &[u8])) {
    // Bounded: each iteration consumes at least one byte.
    loop {
        match *options {
            [1, ref rest @ ..] => options = rest,
            [kind, length, ..] if kind > 1 && length >= 2 && options.len() >= usize::from(length) => {
                let (option, rest) = options.split_at(usize::from(length));
                take(kind, &option[2..]);
                options = rest;
            }
            _ => return,
        }
    }
}

/// Sets "congestion experienced" in the IP header at the start of `packet`, and updates the checksum (RFC 1624).
pub fn mark_ce(packet: &mut [u8]) {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= 20 => {
            let before = u16::from_be_bytes([packet[0], packet[1]]);
            packet[1] |= CE;
            let after = u16::from_be_bytes([packet[0], packet[1]]);
            let sum = u16::from_be_bytes([packet[10], packet[11]]);
            let sum = fold(u32::from(!sum) + u32::from(!before) + u32::from(after));
            packet[10..12].copy_from_slice(&(!sum).to_be_bytes());
        }
        Some(6) if packet.len() >= 40 => packet[1] |= CE << 4,
        _ => {}
    }
}

/// One's complement sum of 16-bit words.
pub fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum + (sum >> 16)) as u16
}

/// One's complement sum of `bytes`, folded, starting from `sum`.
pub fn sum(bytes: &[u8], sum: u32) -> u16 {
    let mut total = u64::from(sum);
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        total += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    total += u64::from(u32::from_be_bytes(last));
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff_ffff) + (total >> 32);
    fold(((total & 0xffff) + (total >> 16)) as u32)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An IPv4 segment with a timestamp option and, if given, a SACK option.
    pub fn segment(seq: u32, payload: usize, sack: Option<(u32, u32)>) -> Vec<u8> {
        let options = 12 + if sack.is_some() { 12 } else { 0 };
        let total = 40 + options + payload;
        let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        let checksum = !sum(&packet, 0);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet.extend([0x1f, 0x90, 0x13, 0x89]);
        packet.extend(seq.to_be_bytes());
        packet.extend(77_u32.to_be_bytes());
        packet.extend([((20 + options) * 4) as u8, flag::ACK | flag::PSH, 1, 0, 0, 0, 0, 0]);
        packet.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        if let Some((from, to)) = sack {
            packet.extend([1, 1, 5, 10]);
            packet.extend(from.to_be_bytes());
            packet.extend(to.to_be_bytes());
        }
        packet.extend((0..payload).map(|i| i as u8));
        packet
    }

    #[test]
    fn a_segment_is_read_with_its_sack_blocks() {
        let tcp = tcp(&segment(5, 100, Some((9, 12)))).unwrap();
        assert_eq!((tcp.seq, tcp.ack, tcp.payload, tcp.headers), (5, 77, 100, 64));
        assert_eq!((tcp.ends.from_port, tcp.ends.to_port), (8080, 5001));
        assert_eq!(tcp.sack_blocks(), [(9, 12)]);
    }

    #[test]
    fn a_captured_head_tells_the_length_of_the_whole() {
        let packet = segment(5, 1000, None);
        assert_eq!(tcp(&packet[..60]).unwrap().payload, 1000);
    }

    #[test]
    fn no_prefix_and_no_flipped_byte_makes_the_parser_panic() {
        let packet = segment(5, 40, Some((9, 12)));
        for end in 0..packet.len() {
            let _ = tcp(&packet[..end]);
            for value in [0, 1, 0x6f, 0xff] {
                let mut broken = packet.clone();
                broken[end] = value;
                let _ = tcp(&broken);
            }
        }
    }

    #[test]
    fn both_versions_of_ip_show_their_dscp_and_ecn() {
        let (dscp, ecn) = (46, 1);
        let class = (dscp << 2) | ecn;
        let mut four = segment(5, 10, None);
        four[1] = class;
        let mut six = [0; 40];
        (six[0], six[1]) = (0x60 | (class >> 4), class << 4);
        for packet in [&four[..], &six] {
            let ip = ip(packet).unwrap();
            assert_eq!((ip.dscp, ip.ecn), (dscp, ecn));
        }
    }

    #[test]
    fn a_marked_header_keeps_a_valid_checksum() {
        for ecn in 0..4 {
            let mut packet = segment(5, 10, None);
            packet[1] = ecn;
            packet[10..12].fill(0);
            let checksum = !sum(&packet[..20], 0);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            mark_ce(&mut packet);
            assert_eq!(ip(&packet).unwrap().ecn, CE);
            assert_eq!(sum(&packet[..20], 0), 0xffff);
        }
    }
}
