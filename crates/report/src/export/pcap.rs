//! Packets as pcapng: simulated segments as Ethernet, IPv4 and TCP, readable by Wireshark and tcptrace. Payloads are
//! zeros and truncated, as in a capture with a short snaplen; checksums are correct.
// SPDX-License-Identifier: Apache-2.0 OR MIT
// Format: draft-ietf-opsawg-pcapng; headers: RFC 791, RFC 9293, RFC 7323 (timestamps), RFC 2018 (SACK).

use std::io::{self, Write};

use bbrlab_sim::record::packets::{Direction, PacketRecord, Tap, TcpFlags};

/// Maximum bytes captured: every header with every option fits.
const SNAPLEN: u32 = 128;
/// Port of the receiver; the sender's is an ephemeral one.
const PORT: u16 = 5001;

/// Writes a capture of the packets seen at `taps`; `names` are the names of the flows, `comment` identifies the run.
///
/// Readers that follow TCP require one capture point per file: the same segment at a second point looks like a
/// retransmission.
pub fn write<'a>(
    packets: &[PacketRecord],
    taps: &[Tap],
    names: impl Iterator<Item = &'a str>,
    comment: &str,
    to: &mut dyn Write,
) -> io::Result<()> {
    section(comment, to)?;
    taps.iter().try_for_each(|tap| interface(*tap, to))?;
    host_names(names, to)?;
    for packet in packets {
        if let Some(index) = taps.iter().position(|tap| *tap == packet.tap) {
            enhanced_packet(packet, index as u32, to)?;
        }
    }
    Ok(())
}

/// Writes a block: type, length, body padded to four bytes, length again.
fn block(kind: u32, body: &[u8], to: &mut dyn Write) -> io::Result<()> {
    let padding = body.len().wrapping_neg() % 4;
    let length = u32::try_from(12 + body.len() + padding).map_err(io::Error::other)?.to_le_bytes();
    to.write_all(&kind.to_le_bytes())?;
    to.write_all(&length)?;
    to.write_all(body)?;
    to.write_all(&[0; 3][..padding])?;
    to.write_all(&length)
}

/// Writes an option: code, length, value padded to four bytes.
fn option(code: u16, value: &[u8], body: &mut Vec<u8>) {
    let value = &value[..value.len().min(65_535)];
    body.extend(code.to_le_bytes());
    body.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_le_bytes());
    body.extend(value);
    body.extend(&[0; 3][..value.len().wrapping_neg() % 4]);
}

fn section(comment: &str, to: &mut dyn Write) -> io::Result<()> {
    let mut body = Vec::new();
    body.extend(0x1a2b_3c4d_u32.to_le_bytes());
    body.extend(1_u16.to_le_bytes());
    body.extend(0_u16.to_le_bytes());
    body.extend(u64::MAX.to_le_bytes()); // section length: unspecified
    option(1, comment.as_bytes(), &mut body);
    option(4, b"bbrlab", &mut body); // shb_userappl
    option(0, &[], &mut body);
    block(0x0a0d_0d0a, &body, to)
}

fn interface(tap: Tap, to: &mut dyn Write) -> io::Result<()> {
    let mut body = Vec::new();
    body.extend(1_u16.to_le_bytes()); // LINKTYPE_ETHERNET
    body.extend(0_u16.to_le_bytes());
    body.extend(SNAPLEN.to_le_bytes());
    option(2, tap.name().as_bytes(), &mut body); // if_name
    option(9, &[9], &mut body); // if_tsresol: nanoseconds
    option(0, &[], &mut body);
    block(1, &body, to)
}

/// Writes a name resolution block: each flow's name as the name of its sender's address.
fn host_names<'a>(names: impl Iterator<Item = &'a str>, to: &mut dyn Write) -> io::Result<()> {
    let mut body = Vec::new();
    for (flow, name) in names.enumerate() {
        let (sender, receiver) = addresses(flow as u32);
        for (address, name) in [(sender, name.to_owned()), (receiver, format!("{name}-receiver"))] {
            option(1, &[&address[..], name.replace('\0', " ").as_bytes(), &[0]].concat(), &mut body); // nrb_record_ipv4
        }
    }
    option(0, &[], &mut body);
    block(4, &body, to)
}

/// Addresses of a flow: sender 10.0.x.y, receiver 10.128.x.y, the first 10.0.0.1 and 10.128.0.1.
const fn addresses(flow: u32) -> ([u8; 4], [u8; 4]) {
    let [_, high, mid, low] = flow.wrapping_add(1).to_be_bytes();
    ([10, high & 0x7f, mid, low], [10, 0x80 | high, mid, low])
}

fn enhanced_packet(packet: &PacketRecord, interface: u32, to: &mut dyn Write) -> io::Result<()> {
    let frame = frame(packet);
    let captured = u32::try_from(frame.len()).map_err(io::Error::other)?;
    let mut body = Vec::with_capacity(20 + frame.len());
    body.extend(interface.to_le_bytes());
    body.extend(((packet.t_ns >> 32) as u32).to_le_bytes());
    body.extend((packet.t_ns as u32).to_le_bytes());
    body.extend(captured.to_le_bytes());
    body.extend(captured.saturating_add(packet.len).to_le_bytes());
    body.extend(frame);
    block(6, &body, to)
}

/// Builds the headers of a packet.
fn frame(packet: &PacketRecord) -> Vec<u8> {
    let options = options(packet);
    let (sender, receiver) = addresses(packet.flow);
    let ephemeral = 32_768 + (packet.flow % 28_232) as u16;
    let (from, to, ports) = match packet.dir {
        Direction::Data => (sender, receiver, [ephemeral, PORT]),
        Direction::Ack => (receiver, sender, [PORT, ephemeral]),
    };
    let header = 20 + options.len() as u32;
    let ip = ip_header(from, to, 20 + header + packet.len, packet.ecn);
    let mut tcp = tcp_header(packet, ports, &options);
    // The payload is all zeros, so it adds only its length to the sum.
    let pseudo = sum(&from) + sum(&to) + 6 + header + packet.len;
    let checksum = fold(pseudo + sum(&tcp));
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    let mut frame = Vec::with_capacity(14 + ip.len() + tcp.len());
    frame.extend([2, 0, to[0], to[1], to[2], to[3]]); // locally administered
    frame.extend([2, 0, from[0], from[1], from[2], from[3]]);
    frame.extend([8, 0]);
    frame.extend(ip);
    frame.extend(tcp);
    frame
}

fn ip_header(from: [u8; 4], to: [u8; 4], length: u32, ecn: u8) -> [u8; 20] {
    let mut ip = [0_u8; 20];
    (ip[0], ip[1], ip[6], ip[8], ip[9]) = (0x45, ecn & 3, 0x40, 64, 6); // don't fragment, TTL 64, TCP
    // A segment merged by offload can exceed the field; Linux shows 0 then, which readers accept.
    ip[2..4].copy_from_slice(&u16::try_from(length).unwrap_or(0).to_be_bytes());
    ip[12..16].copy_from_slice(&from);
    ip[16..20].copy_from_slice(&to);
    let checksum = fold(sum(&ip));
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    ip
}

fn tcp_header(packet: &PacketRecord, ports: [u16; 2], options: &[u8]) -> Vec<u8> {
    let scaled = if packet.flags.has(TcpFlags::SYN) { packet.window } else { packet.window >> packet.scale };
    let mut tcp = Vec::with_capacity(20 + options.len());
    tcp.extend(ports[0].to_be_bytes());
    tcp.extend(ports[1].to_be_bytes());
    tcp.extend((packet.seq as u32).to_be_bytes()); // TCP's sequence numbers wrap at 2^32
    tcp.extend((packet.ack as u32).to_be_bytes());
    tcp.push(((20 + options.len()) as u8 / 4) << 4);
    tcp.push(packet.flags.0);
    tcp.extend(u16::try_from(scaled).unwrap_or(u16::MAX).to_be_bytes());
    tcp.extend([0; 4]); // checksum, urgent pointer
    tcp.extend(options);
    tcp
}

/// TCP options: on a SYN the options offered, timestamps always, SACK blocks if there are any.
fn options(packet: &PacketRecord) -> Vec<u8> {
    let mut options = Vec::with_capacity(40);
    if packet.flags.has(TcpFlags::SYN) {
        options.extend([2, 4]);
        options.extend(packet.mss.to_be_bytes());
        options.extend([4, 2]); // SACK permitted
    } else {
        options.extend([1, 1]);
    }
    options.extend([8, 10]);
    options.extend(packet.ts_val.to_be_bytes());
    options.extend(packet.ts_ecr.to_be_bytes());
    if packet.flags.has(TcpFlags::SYN) {
        options.extend([1, 3, 3, packet.scale]);
    }
    let blocks: Vec<(u64, u64)> = packet.sack.iter().copied().filter(|(from, to)| from < to).collect();
    if !blocks.is_empty() {
        options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (from, to) in blocks {
            options.extend((from as u32).to_be_bytes());
            options.extend((to as u32).to_be_bytes());
        }
    }
    options
}

/// Sums 16-bit words; all headers here have an even length.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum()
}

/// Folds the sum by RFC 1071: ones' complement of the ones' complement sum.
const fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet() -> PacketRecord {
        PacketRecord {
            t_ns: 5_000_000_123,
            flow: 70_000,
            dir: Direction::Ack,
            seq: 1,
            ack: (1 << 32) + 5,
            len: 0,
            flags: TcpFlags::ACK,
            ecn: 0,
            window: 6 << 20,
            scale: 7,
            mss: 1460,
            ts_val: 7,
            ts_ecr: 6,
            sack: [(3000, 4448), (6000, 7448), (0, 0)],
            tap: Tap::Receiver,
        }
    }

    #[test]
    fn checksums_verify_to_zero() {
        for packet in [packet(), PacketRecord { len: 1448, dir: Direction::Data, sack: [(0, 0); 3], ..packet() }] {
            let frame = frame(&packet);
            let (ip, tcp) = (&frame[14..34], &frame[34..]);
            assert_eq!(fold(sum(ip)), 0);
            let pseudo = sum(&ip[12..20]) + 6 + tcp.len() as u32 + packet.len;
            assert_eq!(fold(pseudo + sum(tcp)), 0);
        }
    }

    #[test]
    fn blocks_are_whole_words_and_say_their_length_at_both_ends() {
        let mut bytes = Vec::new();
        let packets = [packet(), PacketRecord { flags: TcpFlags::SYN, sack: [(0, 0); 3], ..packet() }];
        write(&packets, &Tap::ALL, ["bbr1#0"].into_iter(), "seed 1", &mut bytes).unwrap();
        let (mut at, mut kinds) = (0, Vec::new());
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        while at < bytes.len() {
            let length = word(at + 4) as usize;
            assert_eq!((length % 4, word(at + length - 4) as usize), (0, length));
            kinds.push(word(at));
            at += length;
        }
        assert_eq!(kinds, [0x0a0d_0d0a, 1, 1, 1, 1, 4, 6, 6]);
    }

    #[test]
    fn sequence_numbers_wrap_and_sack_blocks_follow_the_timestamps() {
        let frame = frame(&packet());
        assert_eq!(frame[34 + 8..34 + 12], 5_u32.to_be_bytes());
        assert_eq!(frame[34 + 20..34 + 24], [1, 1, 8, 10]);
        assert_eq!(frame[34 + 32..34 + 40], [1, 1, 5, 18, 0, 0, 0x0b, 0xb8]);
        assert!(frame.len() <= SNAPLEN as usize);
    }
}
