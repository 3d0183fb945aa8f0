//! Packets in the emulator: their bytes in a pool, and the small handle that the link model carries.
//! Handling a packet allocates nothing.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::cell::RefCell;

use bbrlab_sim::link::LinkPacket;
use bbrlab_sim::path::PathPacket;

use super::tun::{IP_MAX, VNET};
use crate::wire;

/// Bytes of an Ethernet header, which TUN packets lack and a link counts.
pub const ETHERNET: u32 = 14;
/// ECN codepoint that forbids marking; ECT(0), ECT(1) and CE allow it. Source: RFC 3168 §5.
const NOT_ECT: u8 = 0;
/// ECT(0), which the path may take for ECT(1): the other two bits.
pub(super) const ECT_0: u8 = 2;
/// Bits of the ECN field in the traffic class.
pub(super) const ECN: u8 = 3;
/// GSO types. Source: Linux include/uapi/linux/virtio_net.h.
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// GSO flag: the first segment carries CWR.
const GSO_ECN: u8 = 0x80;
/// The TCP checksum covers the pseudo-header only.
const NEEDS_CSUM: u8 = 1;
/// Offset of the checksum in TCP's header.
const TCP_CHECKSUM: usize = 16;
/// Maximum length of the IP and TCP headers together, after a `virtio_net_hdr`.
pub const HEAD_MAX: usize = VNET + 60 + 60;
/// Maximum bytes in the pool. Ours: packets beyond it are dropped, and the self-check reports them.
const POOL_MAX: usize = 1 << 30;

thread_local! {
    /// Buffers of packets that a queue dropped internally.
    static DROPPED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// One packet on the wire: a whole buffer, or one segment of the super-packet in it.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Its buffer in the pool.
    pub buffer: u32,
    /// The flow that it belongs to.
    pub flow: u32,
    /// Bytes on the wire.
    pub wire: u32,
    /// Its busy period at the bottleneck; 0 before the bottleneck.
    pub busy: u32,
    /// Time at which it left the bottleneck, nanoseconds.
    pub left_ns: u64,
    /// Its delay line, once it is on one.
    pub line: u16,
    /// Index of the segment in the buffer.
    pub segment: u16,
    /// Index of the next link.
    pub hop: u8,
    /// DSCP and, in the two low bits, the ECN field.
    pub traffic_class: u8,
    /// True if it is to be marked (CE).
    pub ce: bool,
    /// Set where a queue filters ACKs, if it is one that a newer ACK may replace.
    pub plain_ack: Option<PlainAck>,
}

/// An ACK that reports nothing but its number and the state of ECN: without data and SACK blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainAck {
    number: u32,
    /// The three bits of ECN feedback, which accurate ECN takes as a counter.
    ecn: u8,
}

impl PlainAck {
    /// Reads the ACK in an IP packet.
    pub fn of(packet: &[u8]) -> Option<Self> {
        let tcp = wire::tcp(packet)?;
        let flags = tcp.flags & !(wire::flag::ECE | wire::flag::CWR);
        let is_plain = flags == wire::flag::ACK && tcp.payload == 0 && tcp.sack_blocks().is_empty();
        is_plain.then_some(Self { number: tcp.ack, ecn: tcp.ecn_feedback })
    }

    /// True if this ACK reports everything that an older one does.
    const fn replaces(self, older: Self) -> bool {
        let ahead = self.number.wrapping_sub(older.number).cast_signed();
        ahead > 0 && self.ecn == older.ecn
    }
}

/// A packet owned by the link model: if dropped there, its buffer returns to the pool.
#[derive(Debug)]
pub struct Queued(Packet);

impl Queued {
    /// Hands the packet to a link.
    pub const fn new(packet: Packet) -> Self {
        Self(packet)
    }

    /// Takes the packet back.
    pub fn packet(self) -> Packet {
        let packet = self.0;
        std::mem::forget(self);
        packet
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        // At the end of a thread its pool is already gone.
        let _ = DROPPED.try_with(|dropped| dropped.borrow_mut().push(self.0.buffer));
    }
}

impl LinkPacket for Queued {
    #[inline]
    fn wire_bytes(&self) -> u32 {
        self.0.wire
    }
    fn flow(&self) -> u32 {
        self.0.flow
    }
    fn ect(&self) -> bool {
        self.0.traffic_class & ECN != NOT_ECT
    }
    fn is_l4s(&self) -> bool {
        // ECT(1) and CE.
        self.0.traffic_class & 1 == 1
    }
    fn dscp(&self) -> Option<u8> {
        Some(self.0.traffic_class >> 2)
    }
    fn mark_ce(&mut self) {
        self.0.ce = true;
    }
    fn supersedes(&self, queued: &Self) -> bool {
        match (self.0.plain_ack, queued.0.plain_ack) {
            (Some(newer), Some(older)) => self.0.flow == queued.0.flow && newer.replaces(older),
            _ => false,
        }
    }
}

impl PathPacket for Packet {
    type Queued = Queued;

    #[inline]
    fn into_queue(self) -> Queued {
        Queued::new(self)
    }
    #[inline]
    fn from_queue(queued: Queued) -> Self {
        queued.packet()
    }
    #[inline]
    fn flow(&self) -> u32 {
        self.flow
    }
    #[inline]
    fn hop(&self) -> u8 {
        self.hop
    }
    #[inline]
    fn set_hop(&mut self, hop: u8) {
        self.hop = hop;
    }
    #[inline]
    fn set_line(&mut self, line: usize) {
        self.line = line as u16;
    }
}

/// A buffer: a `virtio_net_hdr`, then an IP packet.
#[derive(Debug)]
struct Buffer {
    bytes: Box<[u8]>,
    used: usize,
    /// Number of packets that still refer to this buffer.
    holders: u32,
    shape: Shape,
}

/// Layout of the packet in a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    /// Bytes of IP and TCP headers; 0 for a single packet.
    headers: usize,
    /// Offset of the TCP header.
    transport: usize,
    /// Payload bytes of a full segment.
    mss: usize,
    /// Bytes of the IP packet.
    total: usize,
    /// Number of packets on the wire.
    pub segments: u16,
    /// DSCP and, in the two low bits, the ECN field.
    pub traffic_class: u8,
}

/// Reusable buffers, small and large.
#[derive(Debug)]
pub struct BufferPool {
    buffers: Vec<Buffer>,
    free_small: Vec<u32>,
    free_large: Vec<u32>,
    small: usize,
    held: usize,
}

impl BufferPool {
    /// Creates a pool whose small buffers hold a packet of `mtu` bytes.
    pub fn new(mtu: usize) -> Self {
        let small = VNET + mtu.min(IP_MAX);
        // Buffers left by an earlier emulator on this thread refer to that emulator's pool.
        DROPPED.with(|dropped| dropped.borrow_mut().clear());
        Self { buffers: Vec::new(), free_small: Vec::new(), free_large: Vec::new(), small, held: 0 }
    }

    /// Takes a buffer for any packet if `large`, otherwise for one MTU; `None` if memory is exhausted.
    pub fn take(&mut self, large: bool) -> Option<u32> {
        self.reclaim();
        let free = if large { &mut self.free_large } else { &mut self.free_small };
        if let Some(buffer) = free.pop() {
            return Some(buffer);
        }
        let size = if large { VNET + IP_MAX } else { self.small };
        if self.held + size > POOL_MAX {
            return None;
        }
        self.held += size;
        self.buffers.push(Buffer { bytes: vec![0; size].into(), used: 0, holders: 0, shape: Shape::default() });
        u32::try_from(self.buffers.len() - 1).ok()
    }

    /// The whole buffer, to read into.
    pub fn space(&mut self, buffer: u32) -> &mut [u8] {
        &mut self.buffers[buffer as usize].bytes
    }

    /// Parses the `used` bytes that were read into the buffer; `None` if they are not an IP packet.
    pub fn filled(&mut self, buffer: u32, used: usize) -> Option<Shape> {
        let buffer = &mut self.buffers[buffer as usize];
        buffer.used = used;
        buffer.shape = Shape::of(buffer.bytes.get(..used)?)?;
        Some(buffer.shape)
    }

    /// Moves the contents of a large buffer to a small one if they fit: large ones are for super-packets.
    pub fn shrink(&mut self, buffer: u32) -> u32 {
        let used = self.buffers[buffer as usize].used;
        if used > self.small || self.buffers[buffer as usize].bytes.len() == self.small {
            return buffer;
        }
        let Some(small) = self.take(false) else { return buffer };
        let mut to = std::mem::take(&mut self.buffers[small as usize].bytes);
        let from = &self.buffers[buffer as usize];
        to[..used].copy_from_slice(&from.bytes[..used]);
        let shape = from.shape;
        self.buffers[small as usize] = Buffer { bytes: to, used, holders: 0, shape };
        self.give_back(buffer);
        small
    }

    /// Adds `packets` references to the buffer.
    #[inline]
    pub fn hold(&mut self, buffer: u32, packets: u32) {
        self.buffers[buffer as usize].holders += packets;
    }

    /// Drops one reference to the buffer.
    #[inline]
    pub fn release(&mut self, buffer: u32) {
        let held = &mut self.buffers[buffer as usize];
        held.holders = held.holders.saturating_sub(1);
        if held.holders == 0 {
            self.give_back(buffer);
        }
    }

    /// True if the buffer holds a super-packet.
    #[inline]
    pub fn is_super(&self, buffer: u32) -> bool {
        self.buffers[buffer as usize].shape.segments > 1
    }

    /// The IP packet in a buffer, super-packet or not.
    pub fn ip(&self, buffer: u32) -> &[u8] {
        let buffer = &self.buffers[buffer as usize];
        &buffer.bytes[VNET..buffer.used]
    }

    /// Returns a single packet with its `virtio_net_hdr`, CE-marked if requested.
    #[inline]
    pub fn whole(&mut self, packet: Packet) -> &[u8] {
        let buffer = &mut self.buffers[packet.buffer as usize];
        if packet.ce {
            wire::mark_ce(&mut buffer.bytes[VNET..buffer.used]);
        }
        &buffer.bytes[..buffer.used]
    }

    /// Returns `count` segments of a super-packet, starting at `first`.
    ///
    /// The headers are written to `head` and their length is returned, together with the payload.
    pub fn run<'a>(&'a self, first: Packet, count: u16, head: &mut [u8; HEAD_MAX]) -> (usize, &'a [u8]) {
        let buffer = &self.buffers[first.buffer as usize];
        let shape = &buffer.shape;
        let skip = usize::from(first.segment) * shape.mss;
        let from = VNET + shape.headers + skip;
        let to = (from + usize::from(count) * shape.mss).min(VNET + shape.total);
        let length = VNET + shape.headers;
        head[..length].copy_from_slice(&buffer.bytes[..length]);
        let last = first.segment + count >= shape.segments;
        patch_vnet(&mut head[..VNET], shape, count);
        patch_ip(&mut head[VNET..length], shape, to - from, first);
        patch_tcp(&mut head[VNET..length], shape, first.segment, skip, last);
        patch_checksums(&mut head[VNET..length], shape, to - from);
        (length, &buffer.bytes[from..to])
    }

    /// Frees a buffer that holds no packet.
    pub fn free(&mut self, buffer: u32) {
        self.give_back(buffer);
    }

    fn give_back(&mut self, buffer: u32) {
        let held = &mut self.buffers[buffer as usize];
        held.holders = 0;
        if held.bytes.len() == self.small { self.free_small.push(buffer) } else { self.free_large.push(buffer) }
    }

    fn reclaim(&mut self) {
        DROPPED.with(|dropped| {
            let mut dropped = dropped.borrow_mut();
            while let Some(buffer) = dropped.pop() {
                self.release(buffer);
            }
        });
    }
}

impl Shape {
    fn of(bytes: &[u8]) -> Option<Self> {
        let (vnet, packet) = bytes.split_at_checked(VNET)?;
        let ip = wire::ip(packet)?;
        let plain =
            Self { total: packet.len(), segments: 1, traffic_class: (ip.dscp << 2) | ip.ecn, ..Self::default() };
        let half = |at: usize| usize::from(u16::from_ne_bytes([vnet[at], vnet[at + 1]]));
        let (kind, mss, transport) = (vnet[1] & !GSO_ECN, half(4), half(6));
        if !matches!(kind, GSO_TCPV4 | GSO_TCPV6) || mss == 0 {
            return Some(plain);
        }
        let headers = transport + usize::from(packet.get(transport + 12)? >> 4) * 4;
        if headers < transport + 20 || headers > packet.len() || headers + VNET > HEAD_MAX {
            return Some(plain);
        }
        let segments = u16::try_from((packet.len() - headers).div_ceil(mss).max(1)).ok()?;
        Some(Self { headers, transport, mss, segments, ..plain })
    }

    /// Bytes on the wire of one segment.
    pub fn wire(&self, segment: u16) -> u32 {
        let ip = if self.segments == 1 {
            self.total
        } else {
            let rest = self.total - self.headers - usize::from(segment) * self.mss;
            self.headers + rest.min(self.mss)
        };
        ip as u32 + ETHERNET
    }
}

/// Patches the `virtio_net_hdr`: one segment needs no segmentation, a run of several does.
fn patch_vnet(vnet: &mut [u8], shape: &Shape, count: u16) {
    vnet[0] = NEEDS_CSUM;
    if count == 1 {
        vnet[1] = GSO_NONE;
        vnet[4..6].fill(0);
    }
    vnet[2..4].copy_from_slice(&(shape.headers as u16).to_ne_bytes());
}

/// Patches length, identification and ECN mark.
fn patch_ip(ip: &mut [u8], shape: &Shape, payload: usize, first: Packet) {
    if first.ce {
        wire::mark_ce(ip);
    }
    let total = shape.headers + payload;
    if ip[0] >> 4 == 4 {
        ip[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(first.segment);
        ip[4..6].copy_from_slice(&id.to_be_bytes());
    } else {
        ip[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
    }
}

/// Patches sequence number and flags: the last segment has FIN and PSH, the first has CWR.
fn patch_tcp(ip: &mut [u8], shape: &Shape, segment: u16, skip: usize, last: bool) {
    let tcp = &mut ip[shape.transport..];
    let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(skip as u32);
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    if !last {
        tcp[13] &= !(wire::flag::FIN | wire::flag::PSH);
    }
    if segment > 0 {
        tcp[13] &= !wire::flag::CWR;
    }
}

/// Computes the IP header's checksum in full and TCP's for the pseudo-header only: the receiving kernel trusts the
/// rest.
fn patch_checksums(ip: &mut [u8], shape: &Shape, payload: usize) {
    let length = (shape.headers - shape.transport + payload) as u32;
    let addresses = if ip[0] >> 4 == 4 {
        let header = usize::from(ip[0] & 15) * 4;
        ip[10..12].fill(0);
        let sum = !wire::sum(&ip[..header], 0);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        12..20
    } else {
        8..40
    };
    let sum = wire::sum(&ip[addresses], u32::from(wire::TCP) + length);
    let at = shape.transport + TCP_CHECKSUM;
    ip[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::segment;

    /// A pool with a super-packet of `payload` bytes in segments of `mss`.
    fn pool(payload: usize, mss: u16, flags: u8) -> (BufferPool, u32, Shape) {
        let mut packet = segment(1000, payload, None);
        packet[33] = flags;
        let mut bytes = vec![NEEDS_CSUM, GSO_TCPV4];
        for field in [52, mss, 20, 16] {
            bytes.extend(field.to_ne_bytes());
        }
        bytes.extend(packet);
        let mut pool = BufferPool::new(1500);
        let buffer = pool.take(true).unwrap();
        pool.space(buffer)[..bytes.len()].copy_from_slice(&bytes);
        let shape = pool.filled(buffer, bytes.len()).unwrap();
        pool.hold(buffer, shape.segments.into());
        (pool, buffer, shape)
    }

    fn packet(buffer: u32, shape: &Shape, segment: u16) -> Packet {
        let wire = shape.wire(segment);
        Packet {
            buffer,
            flow: 0,
            wire,
            busy: 0,
            left_ns: 0,
            line: 0,
            segment,
            hop: 0,
            traffic_class: 0,
            ce: false,
            plain_ack: None,
        }
    }

    fn cut(pool: &BufferPool, first: Packet, count: u16) -> Vec<u8> {
        let mut head = [0; HEAD_MAX];
        let (length, payload) = pool.run(first, count, &mut head);
        [&head[..length], payload].concat()
    }

    #[test]
    fn a_super_packet_counts_its_segments_and_their_bytes() {
        let (_, _, shape) = pool(3500, 1448, 0x18);
        assert_eq!(shape.segments, 3);
        let wire: Vec<u32> = (0..3).map(|segment| shape.wire(segment)).collect();
        assert_eq!(wire, [1514, 1514, 66 + 604]);
    }

    #[test]
    fn segments_cut_from_a_super_packet_are_whole_packets_in_sequence() {
        let flags = wire::flag::ACK | wire::flag::PSH | wire::flag::FIN | wire::flag::CWR;
        let (pool, buffer, shape) = pool(3500, 1448, flags);
        let mut payload = Vec::new();
        for segment in 0..3 {
            let bytes = cut(&pool, packet(buffer, &shape, segment), 1);
            let ip = &bytes[VNET..];
            let tcp = wire::tcp(ip).unwrap();
            assert_eq!(tcp.seq as usize, 1000 + payload.len());
            assert_eq!(ip.len() as u32 + ETHERNET, shape.wire(segment));
            assert_eq!(wire::sum(&ip[..20], 0), 0xffff);
            assert_eq!(
                (tcp.flags & wire::flag::CWR != 0, tcp.flags & wire::flag::FIN != 0),
                (segment == 0, segment == 2)
            );
            assert_eq!((bytes[0], bytes[1]), (NEEDS_CSUM, GSO_NONE));
            payload.extend_from_slice(&ip[52..]);
        }
        assert_eq!(payload, (0..3500).map(|i| i as u8).collect::<Vec<_>>());
    }

    #[test]
    fn a_run_of_segments_stays_a_super_packet() {
        let (pool, buffer, shape) = pool(5 * 1448, 1448, 0x18);
        let bytes = cut(&pool, packet(buffer, &shape, 1), 3);
        let tcp = wire::tcp(&bytes[VNET..]).unwrap();
        assert_eq!((tcp.seq, tcp.payload, bytes[1]), (1000 + 1448, 3 * 1448, GSO_TCPV4));
    }

    #[test]
    fn only_the_marked_segment_is_marked() {
        let (pool, buffer, shape) = pool(3500, 1448, 0x18);
        let marked = Packet { ce: true, ..packet(buffer, &shape, 1) };
        assert_eq!(wire::ip(&cut(&pool, marked, 1)[VNET..]).unwrap().ecn, wire::CE);
        assert_eq!(wire::ip(&cut(&pool, packet(buffer, &shape, 2), 1)[VNET..]).unwrap().ecn, 0);
    }

    #[test]
    fn a_buffer_is_free_again_when_its_last_packet_is_gone_however_it_went() {
        let (mut pool, buffer, shape) = pool(3500, 1448, 0x18);
        pool.release(buffer);
        drop(Queued::new(packet(buffer, &shape, 1)));
        assert_ne!(pool.take(true), Some(buffer));
        let kept = Queued::new(packet(buffer, &shape, 2)).packet();
        pool.release(kept.buffer);
        assert_eq!(pool.take(true), Some(buffer));
    }

    #[test]
    fn a_newer_ack_replaces_an_older_one_unless_either_reports_more() {
        let ack = |number: u32, change: &dyn Fn(&mut Vec<u8>)| {
            let mut packet = segment(5, 0, None);
            packet[28..32].copy_from_slice(&number.to_be_bytes());
            packet[33] = wire::flag::ACK;
            change(&mut packet);
            PlainAck::of(&packet)
        };
        let plain = |number| ack(number, &|_| {}).unwrap();
        assert!(plain(9).replaces(plain(7)) && plain(3).replaces(plain(u32::MAX - 2)));
        assert!(!plain(7).replaces(plain(9)) && !plain(7).replaces(plain(7)));
        for (byte, bits) in [(32, 1), (33, wire::flag::CWR), (33, wire::flag::ECE)] {
            let marked = ack(9, &|packet| packet[byte] |= bits).unwrap();
            assert!(!marked.replaces(plain(7)) && !plain(10).replaces(marked), "{byte}: {bits}");
        }
        for flag in [wire::flag::SYN, wire::flag::FIN, wire::flag::RST] {
            assert_eq!(ack(9, &|packet| packet[33] |= flag), None);
        }
        assert_eq!((PlainAck::of(&segment(5, 1, None)), PlainAck::of(&segment(5, 0, Some((9, 12))))), (None, None));
    }
}
