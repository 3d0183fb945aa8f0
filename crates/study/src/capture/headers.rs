//! Headers of one captured frame: link layer, IP, TCP with its options, UDP with the first bytes behind it. Every field is bounds-checked; a frame that is
//! cut short by the snaplen keeps what it has.
// SPDX-License-Identifier: Apache-2.0 OR MIT
// Formats: tcpdump.org/linktypes.html; RFC 791, 8200, 9293, 7323 (timestamps, window scale), 2018 (SACK).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// SACK blocks that fit into the 40 bytes of TCP options.
pub const BLOCKS_MAX: usize = 4;
/// Largest number of VLAN tags and of IPv6 extension headers that are skipped. Ours: tunnels nest less.
const NESTED_MAX: usize = 8;
/// Largest payload of a frame. Source: Linux `GSO_MAX_SIZE`, 8 × 65,536 bytes, doubled.
const PAYLOAD_MAX: u32 = 1 << 20;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_FRAGMENT: u8 = 44;
/// IP in IP, GRE, ESP, AH: an encapsulation that is not read. Source: IANA, Assigned Internet Protocol Numbers.
const TUNNELS: [u8; 5] = [4, 41, 47, 50, 51];

/// TCP flags used here.
pub mod flag {
    /// Connection set-up.
    pub const SYN: u8 = 0x02;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 0x10;
}

/// Link layer of an interface, by its number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Ethernet II, with VLAN tags and PPPoE.
    Ethernet,
    /// IP without a link layer.
    Raw,
    /// BSD loopback: four bytes of an address family.
    Loopback,
    /// Linux "cooked" capture, as on the interface `any`.
    Cooked,
    /// The second version of it.
    Cooked2,
}

impl Link {
    /// Finds the link layer of a LINKTYPE number.
    pub const fn of(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Ethernet),
            // LINKTYPE_RAW, IPV4, IPV6, and the DLT_RAW values of BSDs.
            101 | 228 | 229 | 12 | 14 => Some(Self::Raw),
            0 | 108 => Some(Self::Loopback),
            113 => Some(Self::Cooked),
            276 => Some(Self::Cooked2),
            _ => None,
        }
    }

    /// Finds the IP header; none if too few bytes are there.
    fn network(self, frame: &[u8]) -> Option<Network> {
        match self {
            Self::Raw => Some(Network::Ip(0)),
            Self::Loopback => Some(Network::Ip(4)),
            Self::Cooked => behind(frame, word(frame, 14)?, 16),
            Self::Cooked2 => behind(frame, word(frame, 0)?, 20),
            Self::Ethernet => behind(frame, word(frame, 12)?, 14),
        }
    }
}

/// Contents of a link layer's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    /// An IP header at this offset.
    Ip(usize),
    /// An encapsulation that is not read.
    Tunnel,
    Other,
}

/// Finds the IP header behind VLAN tags and PPPoE. `next` is the offset behind the EtherType.
fn behind(frame: &[u8], mut ether_type: u16, mut next: usize) -> Option<Network> {
    for _ in 0..NESTED_MAX {
        match ether_type {
            0x0800 | 0x86dd => return Some(Network::Ip(next)),
            0x8100 | 0x88a8 | 0x9100 => (ether_type, next) = (word(frame, next + 2)?, next + 4),
            // spec: RFC 2516 4
            0x8864 => {
                let is_ip = matches!(word(frame, next + 6)?, 0x0021 | 0x0057);
                return Some(if is_ip { Network::Ip(next + 8) } else { Network::Other });
            }
            // MPLS, and provider backbone bridges.
            0x8847 | 0x8848 | 0x88e7 => return Some(Network::Tunnel),
            _ => return Some(Network::Other),
        }
    }
    Some(Network::Tunnel)
}

/// Contents of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram.
    Udp(Datagram),
    /// An encapsulation that is not read.
    Tunnel,
    /// A frame cut within the headers.
    Cut,
    /// Anything else: another protocol, a later fragment.
    Other,
}

/// A UDP datagram, possibly with a QUIC packet in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Source address and port.
    pub from: SocketAddr,
    /// Destination address and port.
    pub to: SocketAddr,
    /// Payload bytes on the wire.
    pub payload: u32,
    /// First byte of the payload; 0 if it was not captured.
    pub first: u8,
    /// The next four bytes: the version in a long header of QUIC.
    pub version: Option<u32>,
}

/// A TCP segment, possibly one that the host's offload splits or has merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Source address and port.
    pub from: SocketAddr,
    /// Destination address and port.
    pub to: SocketAddr,
    /// Sequence number of its first byte.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags, as in [`flag`].
    pub flags: u8,
    /// Receive window, not scaled.
    pub window: u16,
    /// Payload bytes on the wire, also if they were not captured.
    pub payload: u32,
    /// Bytes of all headers, with that of the link layer.
    pub headers: u32,
    /// True if it is marked as congestion experienced.
    pub is_marked: bool,
    /// Identification of the IPv4 header; 0 if there is none.
    pub id: u16,
    /// Number of times that the file's clock was set back before it.
    pub clock: u32,
    /// Options.
    pub options: Options,
}

/// TCP options of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size of a SYN.
    pub mss: Option<u16>,
    /// Window scale of a SYN.
    pub scale: Option<u8>,
    /// True if there is a timestamp.
    pub has_timestamp: bool,
    /// Timestamp: value and echo.
    pub timestamp: Option<(u32, u32)>,
    /// True if the capture does not hold all options.
    pub is_cut: bool,
    /// SACK blocks: first byte, and one past the last.
    pub sack: [(u32, u32); BLOCKS_MAX],
    /// Number of SACK blocks.
    pub blocks: usize,
}

impl Segment {
    /// True if all bits of `flags` are set.
    pub const fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Its SACK blocks.
    pub fn sack(&self) -> &[(u32, u32)] {
        &self.options.sack[..self.options.blocks]
    }
}

fn byte(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// Decodes a frame of `length` bytes on the wire; the capture may hold only its beginning.
pub fn decode(link: Link, frame: &[u8], length: u32) -> Frame {
    let found = match link.network(frame) {
        Some(Network::Ip(at)) => ip(frame, at, length),
        Some(Network::Tunnel) => Some(Frame::Tunnel),
        Some(Network::Other) => Some(Frame::Other),
        None => None,
    };
    let is_cut = frame.len() < length as usize;
    found.unwrap_or(if is_cut { Frame::Cut } else { Frame::Other })
}

/// IP header: addresses, protocol, offset of the next header, and end of the packet if the header has it.
struct Ip {
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    next: usize,
    end: Option<usize>,
    ecn: u8,
    id: u16,
}

fn ip(frame: &[u8], at: usize, length: u32) -> Option<Frame> {
    let header = match byte(frame, at)? >> 4 {
        4 => ipv4(frame, at)?,
        6 => ipv6(frame, at)?,
        _ => return None,
    };
    match header.protocol {
        PROTOCOL_UDP => udp(frame, &header).map(Frame::Udp),
        PROTOCOL_TCP => tcp(frame, &header, length).map(Frame::Tcp),
        protocol if TUNNELS.contains(&protocol) => Some(Frame::Tunnel),
        _ => Some(Frame::Other),
    }
}

fn ipv4(frame: &[u8], at: usize) -> Option<Ip> {
    let size = usize::from(byte(frame, at)? & 15) * 4;
    if size < 20 {
        return None;
    }
    // A later fragment has no TCP header.
    let is_fragment = word(frame, at + 6)? & 0x1fff != 0;
    let address = |at| Some(IpAddr::V4(Ipv4Addr::from_bits(long(frame, at)?)));
    // A segment that offload has yet to split has the length 0 if it exceeds the field.
    let total = usize::from(word(frame, at + 2)?);
    Some(Ip {
        from: address(at + 12)?,
        to: address(at + 16)?,
        protocol: if is_fragment { PROTOCOL_FRAGMENT } else { byte(frame, at + 9)? },
        next: at + size,
        end: (total >= size).then_some(at + total),
        ecn: byte(frame, at + 1)? & 3,
        id: word(frame, at + 4)?,
    })
}

fn ipv6(frame: &[u8], at: usize) -> Option<Ip> {
    let address = |at: usize| -> Option<IpAddr> {
        let bytes: [u8; 16] = frame.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::V6(Ipv6Addr::from(bytes)))
    };
    let (from, to) = (address(at + 8)?, address(at + 24)?);
    let payload = usize::from(word(frame, at + 4)?);
    let (mut protocol, mut next) = (byte(frame, at + 6)?, at + 40);
    for _ in 0..NESTED_MAX {
        match protocol {
            // Hop-by-hop options, routing, destination options.
            0 | 43 | 60 => {
                protocol = byte(frame, next)?;
                next += (usize::from(byte(frame, next + 1)?) + 1) * 8;
            }
            _ => break,
        }
    }
    let end = (payload > 0).then_some(at + 40 + payload);
    Some(Ip { from, to, protocol, next, end, ecn: byte(frame, at + 1)? >> 4 & 3, id: 0 })
}

fn udp(frame: &[u8], ip: &Ip) -> Option<Datagram> {
    let at = ip.next;
    Some(Datagram {
        from: SocketAddr::new(ip.from, word(frame, at)?),
        to: SocketAddr::new(ip.to, word(frame, at + 2)?),
        payload: u32::from(word(frame, at + 4)?).saturating_sub(8),
        first: byte(frame, at + 8).unwrap_or(0),
        version: long(frame, at + 9),
    })
}

fn tcp(frame: &[u8], ip: &Ip, length: u32) -> Option<Segment> {
    let at = ip.next;
    let offset = usize::from(byte(frame, at + 12)? >> 4) * 4;
    if offset < 20 {
        return None;
    }
    let data = at + offset;
    // Ethernet pads short frames: IP's own length excludes the padding.
    let end = ip.end.unwrap_or(length as usize).min(length as usize);
    let payload = u32::try_from(end.checked_sub(data)?).ok().filter(|bytes| *bytes <= PAYLOAD_MAX)?;
    let have = frame.len().min(data);
    Some(Segment {
        from: SocketAddr::new(ip.from, word(frame, at)?),
        to: SocketAddr::new(ip.to, word(frame, at + 2)?),
        seq: long(frame, at + 4)?,
        ack: long(frame, at + 8)?,
        flags: byte(frame, at + 13)?,
        window: word(frame, at + 14)?,
        payload,
        headers: u32::try_from(data).ok()?,
        is_marked: ip.ecn == 3,
        id: ip.id,
        clock: 0,
        options: Options { is_cut: have < data, ..options(frame.get(at + 20..have).unwrap_or_default()) },
    })
}

fn options(mut bytes: &[u8]) -> Options {
    let mut found = Options::default();
    while let Some((&kind, rest)) = bytes.split_first() {
        if kind == 0 {
            break;
        }
        if kind == 1 {
            bytes = rest;
            continue;
        }
        // Kind and length are two bytes of the option itself.
        let Some(size) = rest.first().map(|size| usize::from(*size)).filter(|size| *size >= 2) else { break };
        found.has_timestamp |= (kind, size) == (8, 10);
        let Some(value) = bytes.get(2..size) else { break };
        match (kind, value.len()) {
            (2, 2) => found.mss = word(value, 0),
            (3, 1) => found.scale = byte(value, 0).map(|scale| scale.min(14)),
            (8, 8) => found.timestamp = long(value, 0).zip(long(value, 4)),
            (5, _) => {
                let blocks = value.chunks_exact(8).filter_map(|block| long(block, 0).zip(long(block, 4)));
                for block in blocks.take(BLOCKS_MAX) {
                    found.sack[found.blocks] = block;
                    found.blocks += 1;
                }
                // The option appears once; a second one would overflow the array.
                if found.blocks == BLOCKS_MAX {
                    break;
                }
            }
            _ => {}
        }
        bytes = &bytes[size..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet with a TCP header and `options`; `payload` bytes are announced, none is there.
    fn packet(options: &[u8], payload: u16) -> Vec<u8> {
        let size = 20 + 20 + options.len() as u16 + payload;
        let mut bytes = vec![0x45, 3, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes[2..4].copy_from_slice(&size.to_be_bytes());
        bytes.extend([0x80, 0, 0x13, 0x89, 0, 0, 0, 7, 0, 0, 0, 9, ((20 + options.len()) as u8 / 4) << 4, 0x10]);
        bytes.extend([1, 0, 0, 0, 0, 0]);
        bytes.extend(options);
        bytes
    }

    fn segment(link: Link, frame: &[u8], length: u32) -> Segment {
        match decode(link, frame, length) {
            Frame::Tcp(segment) => segment,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_link_layer_leads_to_the_same_segment() {
        let ip = packet(&[], 100);
        let mut cooked = vec![0; 16];
        cooked[14..].copy_from_slice(&[8, 0]);
        let mut cooked2 = vec![0; 20];
        cooked2[..2].copy_from_slice(&[8, 0]);
        let tagged = [&[0; 12][..], &[0x81, 0, 0, 5, 8, 0]].concat();
        for (link, head) in [
            (Link::Raw, Vec::new()),
            (Link::Ethernet, [&[0; 12][..], &[8, 0]].concat()),
            (Link::Ethernet, tagged),
            (Link::Loopback, vec![2, 0, 0, 0]),
            (Link::Cooked, cooked),
            (Link::Cooked2, cooked2),
        ] {
            let frame = [&head[..], &ip].concat();
            let own = segment(link, &frame, frame.len() as u32 + 100);
            assert_eq!((own.seq, own.ack, own.payload, own.is_marked), (7, 9, 100, true), "{link:?}");
            assert_eq!(own.from.to_string(), "10.0.0.1:32768");
        }
    }

    #[test]
    fn a_segment_larger_than_ips_length_field_has_its_payload_from_the_frame() {
        let mut frame = packet(&[], 0);
        frame[2..4].copy_from_slice(&[0, 0]);
        assert_eq!(segment(Link::Raw, &frame, 40 + 200_000).payload, 200_000);
    }

    #[test]
    fn padding_of_a_short_frame_is_no_payload() {
        let frame = [&[0; 12][..], &[8, 0], &packet(&[], 0), &[0; 6]].concat();
        assert_eq!(segment(Link::Ethernet, &frame, 60).payload, 0);
    }

    #[test]
    fn options_are_read_in_any_order_and_broken_ones_end_the_list() {
        let all =
            [&[1, 1, 8, 10][..], &[0; 8], &[1, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]].concat();
        let own = segment(Link::Raw, &packet(&all, 0), 72);
        assert!(own.options.has_timestamp);
        assert_eq!(own.sack(), [(1, 2), (3, 4)]);
        let syn = segment(Link::Raw, &packet(&[2, 4, 5, 180, 1, 3, 3, 7], 0), 48);
        assert_eq!((syn.options.mss, syn.options.scale), (Some(1460), Some(7)));
        let broken = segment(Link::Raw, &packet(&[5, 0, 0, 0], 0), 44);
        assert_eq!(broken.options, Options::default());
    }

    #[test]
    fn ipv6_with_extension_headers_is_read() {
        let mut frame = vec![0x60, 0, 0, 0, 0, 28, 0, 64];
        frame.extend([1; 16]);
        frame.extend([2; 16]);
        frame.extend([6, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend(&packet(&[], 0)[20..]);
        let own = segment(Link::Raw, &frame, frame.len() as u32);
        assert_eq!((own.seq, own.payload), (7, 0));
    }

    #[test]
    fn every_cut_of_a_frame_is_read_without_a_panic() {
        let frame = packet(&[5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1], 9);
        for end in 0..frame.len() {
            decode(Link::Raw, &frame[..end], 70);
            decode(Link::Ethernet, &frame[..end], 70);
        }
        assert_eq!(decode(Link::Raw, &[0x45; 10], 10), Frame::Other);
    }
}
