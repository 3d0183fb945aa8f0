//! Packets of a file: decoded, in order of time, without second records, and with a count of steps of the clock.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;

use bbrlab_stats::plural::counted;

use super::headers::{self, Datagram, Frame, Segment, flag};
use super::packets::{self, End};
use crate::{Error, Result};

/// Largest disorder of packets in a file; a larger step back is a clock set back. Ours: queues of an interface are recorded in
/// turn, within milliseconds; NTP steps a clock from 128 ms on.
const DISORDER_NS: u64 = 5_000_000;
/// Largest number of packets held to be put in order. Ours: that of 10 Gbit/s, 1 MB.
const HELD_MAX: usize = 4_096;
/// Longest time between two records of one packet, with an IPv4 identification and without. Ours: without it, a retransmission
/// has the same header, and comes a round trip later.
const TWICE_NS: u64 = 1_000_000;
const TWICE_UNNUMBERED_NS: u64 = 50_000;
/// Packets remembered to recognise a second record. Ours: those of 1 ms at 40 Gbit/s, 64 KiB.
const REMEMBERED: usize = 4_096;
/// Entries in which a packet may be remembered; the oldest is replaced. Ours.
const PLACES: usize = 4;
/// Largest number of packets of one time that are compared. Ours: a burst of an offload.
const TOGETHER_MAX: usize = 64;

/// Counts of a capture's packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Packets in all.
    pub packets: u64,
    /// TCP segments.
    pub tcp: u64,
    /// UDP datagrams.
    pub udp: u64,
    /// Packets of a link layer that is not read.
    pub unsupported: u64,
    /// Packets in an encapsulation that is not read.
    pub tunnelled: u64,
    /// Packets cut within the headers that are needed.
    pub cut: u64,
    /// TCP segments cut within their options.
    pub cut_options: u64,
    /// Packets behind a later one in the file.
    pub disordered: u64,
    /// Times at which the clock was set back.
    pub set_back: u64,
    /// Segments with data, or SYNs, that were recorded a second time.
    pub twice: u64,
    /// Time of the first packet.
    pub first_ns: Option<u64>,
    /// True if two packets have different times.
    pub has_time: bool,
    /// End of the file.
    pub end: End,
}

/// A packet that is read.
#[derive(Clone, Debug)]
pub enum Packet {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram.
    Udp(Datagram),
}

impl Packet {
    /// True if it precedes another packet of the same time: by the handshake, or by the order of data.
    fn is_before(&self, other: &Self) -> bool {
        let (Self::Tcp(own), Self::Tcp(other)) = (self, other) else { return false };
        let rank = |one: &Segment| if one.has(flag::SYN) { u8::from(one.has(flag::ACK)) } else { 2 };
        if (own.from, own.to) == (other.to, other.from) {
            return rank(own) < rank(other);
        }
        let is_earlier = own.seq.wrapping_sub(other.seq).cast_signed() < 0;
        (own.from, own.to) == (other.from, other.to) && own.payload > 0 && other.payload > 0 && is_earlier
    }
}

/// Reads the packets of a file, and passes each with its time to `take`.
pub fn read(from: impl Read + Send, mut take: impl FnMut(u64, Packet)) -> Result<Counts> {
    let mut stream = Stream::default();
    stream.counts.end = packets::read(from, |captured| {
        let Some(packet) = stream.decode(&captured) else { return };
        stream.push(captured.t_ns, packet, &mut take);
    })?;
    stream.flush(&mut take);
    Ok(stream.counts)
}

/// Packets held until no earlier one can follow.
#[derive(Debug, Default)]
struct Stream {
    counts: Counts,
    held: VecDeque<(u64, Packet)>,
    newest_ns: u64,
    /// The newest time before the clock was set back, until it is reached again.
    before_ns: Option<u64>,
    clock: u32,
    seen: Vec<(u64, u64)>,
}

impl Stream {
    fn decode(&mut self, captured: &packets::Captured<'_>) -> Option<Packet> {
        let counts = &mut self.counts;
        counts.packets += 1;
        counts.has_time |= *counts.first_ns.get_or_insert(captured.t_ns) != captured.t_ns;
        let Some(link) = captured.link else {
            counts.unsupported += 1;
            return None;
        };
        match headers::decode(link, captured.bytes, captured.length) {
            Frame::Tcp(segment) => {
                counts.tcp += 1;
                counts.cut_options += u64::from(segment.options.is_cut);
                let is_twice = self.is_twice(captured.t_ns, &segment);
                self.counts.twice += u64::from(is_twice);
                (!is_twice).then_some(Packet::Tcp(segment))
            }
            Frame::Udp(datagram) => {
                counts.udp += 1;
                Some(Packet::Udp(datagram))
            }
            Frame::Tunnel => {
                counts.tunnelled += 1;
                None
            }
            Frame::Cut => {
                counts.cut += 1;
                None
            }
            Frame::Other => None,
        }
    }

    /// True if the same segment was recorded just before, as on two interfaces.
    fn is_twice(&mut self, t_ns: u64, segment: &Segment) -> bool {
        if segment.payload == 0 && !segment.has(flag::SYN) {
            return false;
        }
        let mut hasher = DefaultHasher::new();
        let Segment { from, to, seq, ack, flags, window, payload, id, .. } = *segment;
        (from, to, seq, ack, flags, window, payload, id, segment.options.timestamp).hash(&mut hasher);
        let hash = hasher.finish();
        self.seen.resize(REMEMBERED, (0, 0));
        let first = hash as usize % (REMEMBERED / PLACES) * PLACES;
        let places = &mut self.seen[first..first + PLACES];
        let within_ns = if id == 0 { TWICE_UNNUMBERED_NS } else { TWICE_NS };
        let is_twice = places.iter().any(|before| before.0 == hash && before.1.abs_diff(t_ns) <= within_ns);
        if let Some(oldest) = places.iter_mut().min_by_key(|before| before.1) {
            *oldest = (hash, t_ns);
        }
        is_twice
    }

    fn push(&mut self, t_ns: u64, mut packet: Packet, take: &mut impl FnMut(u64, Packet)) {
        if t_ns.saturating_add(DISORDER_NS) < self.newest_ns {
            self.flush(take);
            self.before_ns = Some(self.newest_ns.max(self.before_ns.unwrap_or(0)));
            self.counts.set_back += 1;
            self.seen.clear();
            (self.newest_ns, self.clock) = (t_ns, self.clock.wrapping_add(1));
        } else if self.before_ns.is_some_and(|before_ns| t_ns >= before_ns) {
            // The clock may have been set back for a single packet.
            (self.before_ns, self.clock) = (None, self.clock.wrapping_add(1));
        }
        let is_late = t_ns < self.newest_ns;
        self.newest_ns = self.newest_ns.max(t_ns);
        if let Packet::Tcp(segment) = &mut packet {
            segment.clock = self.clock;
        }
        let at = self.held.partition_point(|one| one.0 <= t_ns);
        // Packets of one time are in the order of their data.
        let together = self.held.range(..at).rev().take(TOGETHER_MAX).take_while(|one| one.0 == t_ns);
        let earlier = together.zip(1..).filter(|(one, _)| packet.is_before(&one.1)).map(|(_, nth)| nth).last();
        self.counts.disordered += u64::from(is_late || earlier.is_some());
        self.held.insert(at - earlier.unwrap_or(0), (t_ns, packet));
        let until_ns = self.newest_ns.saturating_sub(DISORDER_NS);
        while self.held.len() > HELD_MAX || self.held.front().is_some_and(|one| one.0 <= until_ns) {
            let Some((t_ns, packet)) = self.held.pop_front() else { return };
            take(t_ns, packet);
        }
    }

    fn flush(&mut self, take: &mut impl FnMut(u64, Packet)) {
        self.held.drain(..).for_each(|(t_ns, packet)| take(t_ns, packet));
    }
}

/// Remarks on a file, of what may be missing or misplaced.
pub fn notes(counts: &Counts) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(at) = counts.end.cut_at {
        notes.push(format!("the file is cut off or damaged at byte {at}; it was read up to there"));
    }
    if counts.unsupported > 0 {
        notes.push(format!("{} packets have a link layer that is not read, and are left out", counts.unsupported));
    }
    let mut add = |count: u64, text: &str| {
        if count > 0 {
            notes.push(format!("{} {text}", counted(count, "packet")));
        }
    };
    add(counts.tunnelled, "in an encapsulation that is not read, left out");
    add(counts.cut, "cut within the headers, left out; capture 128 bytes of each");
    add(counts.cut_options, "cut within TCP's options; capture 128 bytes of each");
    add(counts.disordered, "behind a later one in the file, put in order");
    add(counts.twice, "recorded twice, counted once");
    if counts.set_back > 0 {
        let times = counted(counts.set_back, "time");
        notes.push(format!(
            "the clock is set back {times}; RTTs across such a step are left out, and durations are too short"
        ));
    }
    notes
}

/// Refuses a capture without usable packets.
pub fn check(counts: &Counts) -> Result<()> {
    match *counts {
        Counts { packets: 0, end: End { without_time: 1.., .. }, .. } => {
            Err(Error::NoTimestamps(counts.end.without_time))
        }
        Counts { packets: 0, end: End { cut_at: Some(_), .. }, .. } => Err(Error::CutBeforePackets),
        Counts { packets: 0, .. } => Err(Error::EmptyCapture),
        Counts { packets, unsupported, .. } if packets == unsupported => Err(Error::LinkLayer),
        Counts { tcp: 0, cut, packets, .. } if 2 * cut > packets => Err(Error::CutHeaders(cut)),
        Counts { tcp: 0, tunnelled, packets, .. } if 2 * tunnelled > packets => Err(Error::Tunnelled(tunnelled)),
        Counts { tcp: 0, udp, packets, .. } => Err(Error::NoTcp { packets, udp }),
        Counts { packets, has_time: false, .. } if packets > 1 => Err(Error::NoTimestamps(packets)),
        _ => Ok(()),
    }
}
