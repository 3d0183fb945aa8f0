//! The emulator without clock and devices: forwards the hosts' packets over the path and notifies an observer.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};
use bbrlab_sim::link::{Link, Verdict};
use bbrlab_sim::path::{OneWay, Path, PathObserver, SojournTime};

use super::packet::{BufferPool, ECN, ECT_0, Packet, PlainAck, Shape};
use super::self_check::CheckSamples;
use crate::wire::{self, Tcp};

/// Minimum number of flows whose last ACK is known. Ours: a flow that is hashed to the place of another one loses the count of
/// one ACK.
const LAST_ACKS: usize = 4_096;

/// The path between two devices.
pub type EmulatedPath = Path<Packet, Packet>;

/// Left to right; index of the direction and of the device that its packets come from.
pub const RIGHTWARD: usize = 0;
/// Right to left.
pub const LEFTWARD: usize = 1;
/// Observer of the packets; every event carries the time of the run.
pub trait Observer {
    /// A packet was offered to a direction's bottleneck; `dropped` if the policer or the queue refused it.
    fn on_offered(&mut self, _direction: usize, _flow: u32, _dropped: bool) {}
    /// The bottleneck's queue dropped a packet that it had accepted.
    fn on_dropped_later(&mut self, _direction: usize, _flow: u32) {}
    /// A packet left the bottleneck after waiting; `lost` if it never arrives.
    fn on_left(&mut self, _direction: usize, _at: Time, _packet: &Packet, _stayed: SojournTime, _lost: bool) {}
    /// Returns the flow of an IP packet from this side.
    fn flow_of(&mut self, direction: usize, packet: &[u8]) -> u32;
    /// True if the path takes this flow's ECT(0) for ECT(1), which Linux lets no congestion control send.
    fn sends_ect_1(&self, _flow: u32) -> bool {
        false
    }
    /// The host behind `way` sent a packet (of `segments` on the wire).
    fn on_sent(&mut self, _now: Time, _way: usize, _flow: u32, _packet: &[u8], _segments: u32) {}
    /// The host at the end of `way` received `count` packets of `wire` bytes in total; `head` holds their headers.
    fn on_delivered(&mut self, _now: Time, _way: usize, _flow: u32, _head: &[u8], _count: u32, _wire: u32) {}
    /// A sampling time was reached.
    fn on_sample(&mut self, _now: Time, _path: &EmulatedPath) {}
    /// The run ended.
    fn on_end(&mut self, _now: Time, _path: &EmulatedPath) {}
}

/// A path with its packets' bytes. The driver supplies the time; if it is late, no packet's fate changes.
pub struct Relay<O> {
    /// The path itself.
    pub path: EmulatedPath,
    /// The packets' bytes.
    pub pool: BufferPool,
    /// The observer.
    pub observer: O,
    /// Data for the self-check.
    pub samples: CheckSamples,
    /// Current busy period of each direction's bottleneck.
    busy: [u32; 2],
    /// The last flow at each place, by its number modulo the length, and that flow's last ACK, where ACKs are held.
    last_acks: Vec<Option<(u32, u32)>>,
    /// By direction: true if a queue filters ACKs.
    filters_acks: [bool; 2],
    sample: Option<Span>,
    next_sample: Time,
}

impl<O: Observer> Relay<O> {
    /// Creates an idle path for packets of devices with this MTU. Every `sample`, the observer gets the path.
    pub fn new(path: EmulatedPath, mtu: u32, sample: Option<Span>, observer: O) -> Self {
        Self {
            last_acks: vec![None; path.forward.users().max(path.reverse.users()).max(LAST_ACKS)],
            filters_acks: [&path.forward, &path.reverse].map(|way| way.links().iter().any(Link::filters_acks)),
            path,
            pool: BufferPool::new(mtu as usize),
            observer,
            samples: CheckSamples::default(),
            busy: [0; 2],
            sample,
            next_sample: if sample.is_some() { Time::ZERO } else { Time::NEVER },
        }
    }

    /// Time of the next event, or an earlier time.
    pub fn next_due(&self) -> Time {
        let control = self.path.next_change().min(self.next_sample);
        control.min(self.path.forward.next_arrival()).min(self.path.reverse.next_arrival())
    }

    /// Ends the run, and returns its observer and the data for its self-check.
    pub fn finish(mut self, now: Time) -> (O, CheckSamples) {
        self.observer.on_end(now, &self.path);
        (self.observer, self.samples)
    }

    /// Applies changes and takes samples that are due.
    #[inline]
    pub fn control(&mut self, now: Time) {
        loop {
            let change = self.path.next_change();
            let at = change.min(self.next_sample);
            if at > now {
                return;
            }
            self.advance(RIGHTWARD, at);
            self.advance(LEFTWARD, at);
            if change == at {
                self.path.change(at);
                continue;
            }
            self.observer.on_sample(at, &self.path);
            self.next_sample = self.sample.map_or(Time::NEVER, |step| at + step);
        }
    }

    /// One direction, and the listener for its events.
    #[inline]
    fn direction(&mut self, direction: usize) -> (&mut OneWay<Packet>, DirectionObserver<'_, O>) {
        let observer = DirectionObserver {
            observer: &mut self.observer,
            gather: &mut self.samples,
            pool: &mut self.pool,
            busy: &mut self.busy[direction],
            direction,
        };
        (if direction == RIGHTWARD { &mut self.path.forward } else { &mut self.path.reverse }, observer)
    }

    #[inline]
    fn advance(&mut self, direction: usize, now: Time) {
        let (path, mut observer) = self.direction(direction);
        path.advance(now, &mut observer);
    }

    /// Accepts the packet in the first `used` bytes of a buffer, sent by the host behind `way`.
    pub fn offer(&mut self, now: Time, direction: usize, buffer: u32, used: usize) {
        let Some(shape) = self.pool.filled(buffer, used).filter(|_| !is_chatter(self.pool.ip(buffer))) else {
            self.pool.free(buffer);
            return;
        };
        let buffer = if shape.segments == 1 { self.pool.shrink(buffer) } else { buffer };
        let flow = self.observer.flow_of(direction, self.pool.ip(buffer));
        self.observer.on_sent(now, direction, flow, self.pool.ip(buffer), shape.segments.into());
        self.advance(direction, now);
        self.pool.hold(buffer, shape.segments.into());
        for segment in 0..shape.segments {
            self.enter_segment(now, direction, flow, buffer, segment, &shape);
        }
    }

    #[inline]
    fn enter_segment(&mut self, now: Time, direction: usize, flow: u32, buffer: u32, segment: u16, shape: &Shape) {
        let wire = shape.wire(segment);
        let is_l4s = shape.traffic_class & ECN == ECT_0 && self.observer.sends_ect_1(flow);
        let packet = Packet {
            buffer,
            flow,
            wire,
            busy: 0,
            left_ns: 0,
            line: 0,
            segment,
            hop: 0,
            traffic_class: if is_l4s { shape.traffic_class ^ ECN } else { shape.traffic_class },
            ce: false,
            plain_ack: if self.filters_acks[direction] { PlainAck::of(self.pool.ip(buffer)) } else { None },
        };
        let acked = self.newly_acked(direction, &packet);
        let (path, mut observer) = self.direction(direction);
        path.offer(now, packet, acked, &mut observer);
    }

    /// Number of bytes that a packet is the first to acknowledge, if the path needs it. `None` for a SYN and for
    /// anything but TCP.
    #[inline]
    fn newly_acked(&mut self, direction: usize, packet: &Packet) -> Option<u64> {
        let holds =
            if direction == RIGHTWARD { self.path.forward.holds_acks() } else { self.path.reverse.holds_acks() };
        if !holds {
            return None;
        }
        let tcp: Tcp = wire::tcp(self.pool.ip(packet.buffer)).filter(|tcp| tcp.flags & wire::flag::SYN == 0)?;
        let place = packet.flow as usize % self.last_acks.len();
        let last = self.last_acks[place].filter(|(flow, _)| *flow == packet.flow);
        let step = tcp.ack.wrapping_sub(last.map_or(tcp.ack, |(_, ack)| ack));
        if step > u32::MAX / 2 {
            return Some(0); // an old ACK
        }
        self.last_acks[place] = Some((packet.flow, tcp.ack));
        Some(step.into())
    }

    /// Returns the next packet due at the end of `way` by `now`, with its due time.
    #[inline]
    pub fn arrival(&mut self, direction: usize, now: Time) -> Option<(Time, Packet)> {
        let (path, mut observer) = self.direction(direction);
        path.front(now, &mut observer)?;
        path.poll(&mut observer)
    }

    /// True if the next due packet follows `last` in the same super-packet.
    pub fn continues(&mut self, direction: usize, now: Time, last: &Packet) -> bool {
        let (path, mut observer) = self.direction(direction);
        path.front(now, &mut observer)
            .is_some_and(|next| next.buffer == last.buffer && next.segment == last.segment + 1 && next.ce == last.ce)
    }
}

/// Reports the events of one direction to the observer and the self-check, and keeps the pool's reference counts.
struct DirectionObserver<'e, O> {
    observer: &'e mut O,
    gather: &'e mut CheckSamples,
    pool: &'e mut BufferPool,
    busy: &'e mut u32,
    direction: usize,
}

impl<O: Observer> PathObserver<Packet> for DirectionObserver<'_, O> {
    #[inline]
    fn on_offered(&mut self, _now: Time, packet: &Packet, verdict: Verdict, is_bottleneck: bool) {
        if is_bottleneck {
            self.observer.on_offered(self.direction, packet.flow, verdict != Verdict::Queued);
        }
    }
    fn on_dropped_later(&mut self, flow: u32, is_bottleneck: bool) {
        if is_bottleneck {
            self.observer.on_dropped_later(self.direction, flow);
        }
    }
    #[inline]
    fn on_departed(&mut self, at: Time, packet: &mut Packet, stayed: SojournTime, lost: bool, is_bottleneck: bool) {
        if is_bottleneck {
            // A packet that did not wait starts a busy period of the link. Behind a delivery trace everything waits:
            // the run is one period.
            let begins = stayed.waited == Span::ZERO || *self.busy == 0;
            *self.busy = self.busy.wrapping_add(u32::from(begins));
            (packet.busy, packet.left_ns) = (*self.busy, at.as_nanos());
            self.gather.on_left(self.direction, packet);
            self.observer.on_left(self.direction, at, packet, stayed, lost);
        }
    }
    #[inline]
    fn on_lost(&mut self, packet: &Packet) {
        self.pool.release(packet.buffer);
    }
    fn on_duplicated(&mut self, packet: &Packet) {
        self.pool.hold(packet.buffer, 1);
    }
}

/// True for multicast: neighbour discovery belongs to no flow and would only consume random numbers.
fn is_chatter(packet: &[u8]) -> bool {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => packet.get(16).is_some_and(|first| first & 0xf0 == 0xe0),
        Some(6) => packet.get(24) == Some(&0xff),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
