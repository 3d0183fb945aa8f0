//! The emulator: reads both TUN devices, asks the link model, writes each packet when it is due.
//! In: two devices and a path. Out: packets on the other side, and a check of itself. Never: an allocation for each
//! packet, a packet before it is due.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use bbrlab_core::{Span, Time};
use bbrlab_sim::link::{Link, Verdict};
use bbrlab_sim::path::{OneWay, Path, Watch};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::SigSet;
use nix::sys::time::TimeSpec;

use super::Fault;
use super::check::Gather;
use super::packet::{HEAD_MAX, Packet, Pool, Queued, Shape};
use super::tun::{Offload, Tun, VNET};
use crate::clock;
use crate::wire::{self, Tcp};

/// The path, between two devices.
pub type EmulatedPath = Path<Packet, Packet>;

/// Left to right; index of the way and of the device that its packets come from.
pub const RIGHTWARD: usize = 0;
/// Right to left.
pub const LEFTWARD: usize = 1;
/// Packets read from one device before what is due is written again. Ours.
const READS: usize = 32;
/// What is due within this time is waited for awake: to sleep and wake costs as much processor time in a virtual
/// machine, where setting a timer leaves the guest, and comes later. Ours, measured: a sleep costs 25 µs.
const AWAKE: Span = Span::micros(25);
/// Most that a sleep is cut short, so that the wake-up itself comes in time: a core that halts in a virtual machine
/// takes 40 µs to come back. The real length is learnt. Ours.
const LEAD_MAX: u64 = 150_000;
/// Packets of links at least this fast come faster than the machine wakes: between them it stays awake. Ours: 1500
/// bytes in 48 µs.
const FAST_FROM_BPS: u64 = 250_000_000;
/// The share of all time, in thousandths, that may go into waking before something is due. Ours: on a slow link it
/// makes every packet punctual, on a link of 100 Mbit/s it would cost half a core.
const EARLY_SHARE: u64 = 30;
/// The same where nothing but a measurement wants the cores. Ours.
const EARLY_SHARE_PUNCTUAL: u64 = 500;
/// How fast the longest wake-up is forgotten: by this part of the difference with each one. Ours.
const LONGEST_DECAY: u64 = 64;
/// Most of that time that is saved up. Ours.
const EARLY_MAX: u64 = 3_000_000;
/// After so long without sleep a real-time thread would starve others, and the kernel would stop it for 50 ms to let
/// them run: it must sleep a little by itself. Ours.
const VIGIL: Span = Span::micros(600);
/// That little sleep. Ours: it takes twice as long where the core halts, and with shorter ones the kernel did stop it.
const NAP: Span = Span::micros(50);
/// Links at least this fast keep the segments of a super-packet together that are due in one wake-up: below it they
/// leave at least 12 µs apart. Ours.
const MERGE_FROM_BPS: u64 = 1_500_000_000;
/// The shortest sleep that is asked for. Ours.
const SLEEP_MIN: u64 = 5_000;

/// Who watches the packets; every event has the run's time.
pub trait Observer {
    /// A packet was offered to the bottleneck; `dropped` if policer or queue refused it.
    fn on_offered(&mut self, _flow: u32, _dropped: bool) {}
    /// The bottleneck's queue dropped a packet that it had taken.
    fn on_dropped_later(&mut self, _flow: u32) {}
    /// A packet left the bottleneck after waiting; `lost` if it arrives nowhere.
    fn on_left(&mut self, _packet: &Packet, _waited: Span, _lost: bool) {}
    /// Which flow an IP packet from this side belongs to.
    fn flow_of(&mut self, way: usize, packet: &[u8]) -> u32;
    /// The host behind `way` has sent a packet (of `segments` on the wire).
    fn on_sent(&mut self, _now: Time, _way: usize, _flow: u32, _packet: &[u8], _segments: u32) {}
    /// The host at the end of `way` gets `count` packets of `wire` bytes in all, whose headers stand in `head`.
    fn on_delivered(&mut self, _now: Time, _way: usize, _flow: u32, _head: &[u8], _count: u32, _wire: u32) {}
    /// A moment of the grid has come.
    fn on_sample(&mut self, _now: Time, _links: &[Link<Queued>]) {}
}

/// What the emulator is to do, beside its path.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The run's time zero, on [`clock::now_ns`].
    pub start_ns: u64,
    /// When it ends by itself; [`Time::NEVER`] if it waits to be stopped.
    pub end: Time,
    /// Grid of the samples.
    pub sample: Option<Span>,
    /// Which way's links the samples are of.
    pub sampled_way: usize,
    /// What the devices hand over.
    pub offload: Offload,
    /// The devices' MTU.
    pub mtu: u32,
    /// Processor time is spent for punctuality: this run measures what a millisecond does.
    pub punctual: bool,
}

/// The emulator, on the thread that made it.
pub struct Emulator<'a, O> {
    plan: Plan,
    path: EmulatedPath,
    tuns: [&'a Tun; 2],
    pool: Pool,
    observer: O,
    gather: Gather,
    head: [u8; HEAD_MAX],
    /// The present busy period of each way's bottleneck.
    busy: [u32; 2],
    /// The last ACK of each flow, where ACKs are held; the last place is everybody else's.
    last_acks: Vec<Option<u32>>,
    next_sample: Time,
    merges: bool,
    is_fast: bool,
    /// How late the machine wakes us, ns: a moving average.
    lead: u64,
    /// How late it does at worst, ns: forgotten slowly.
    longest: u64,
    early: Early,
}

/// How a sleep ended.
struct Woken {
    /// Which devices have a packet, or may have.
    readable: [bool; 2],
    /// When the packet that ended it came, as far as can be told.
    arrived: Option<Time>,
    stopped: bool,
}

/// How much time there is for waking before something is due.
#[derive(Debug, Default)]
struct Early {
    saved: u64,
    counted: Time,
}

impl Early {
    /// Takes `span` ns of it, if there is as much by `now`; it grows by `share` thousandths of all time.
    fn take(&mut self, now: Time, span: u64, share: u64) -> bool {
        let earned = now.since(self.counted).as_nanos() / 1000 * share;
        if earned > 0 {
            self.counted = now;
        }
        self.saved = (self.saved + earned).min(EARLY_MAX);
        let can = self.saved >= span;
        if can {
            self.saved -= span;
        }
        can
    }
}

impl<'a, O: Observer> Emulator<'a, O> {
    /// An emulator between the devices of the left and of the right namespace.
    pub fn new(plan: Plan, path: EmulatedPath, tuns: [&'a Tun; 2], observer: O) -> Self {
        let all_from = |bps| {
            [&path.there, &path.back]
                .iter()
                .all(|way| way.links().iter().all(|link| link.rate().as_bits_per_sec() >= bps))
        };
        Self {
            merges: all_from(MERGE_FROM_BPS),
            is_fast: all_from(FAST_FROM_BPS),
            pool: Pool::new(plan.mtu as usize),
            next_sample: if plan.sample.is_some() { Time::ZERO } else { Time::NEVER },
            plan,
            last_acks: vec![None; path.there.users()],
            path,
            tuns,
            observer,
            gather: Gather::default(),
            head: [0; HEAD_MAX],
            busy: [0; 2],
            lead: 0,
            longest: 0,
            early: Early::default(),
        }
    }

    /// Runs until the plan's end, or until `stop` becomes readable.
    pub fn run(mut self, stop: BorrowedFd<'_>) -> Result<(O, Gather), Fault> {
        let mut readable = [true; 2];
        let mut woke = self.now();
        loop {
            let now = self.now();
            if now >= self.plan.end {
                return Ok((self.observer, self.gather));
            }
            self.control(now);
            // What arrives at a host makes it answer at once.
            readable[LEFTWARD] |= self.deliver(RIGHTWARD)?;
            readable[RIGHTWARD] |= self.deliver(LEFTWARD)?;
            for (way, readable) in readable.iter_mut().enumerate() {
                *readable = *readable && self.take(way, Time::NEVER)?;
            }
            let due = self.next_due();
            let now = self.now();
            let weary = now.since(woke) > VIGIL;
            let awake = if self.is_fast || self.plan.punctual { AWAKE + Span::nanos(self.ahead()) } else { AWAKE };
            if (due <= now + awake || readable != [false; 2]) && !weary {
                continue;
            }
            let span = if weary { NAP } else { self.until(now, due) };
            let woken = self.sleep(span, weary, stop)?;
            if woken.stopped {
                return Ok((self.observer, self.gather));
            }
            readable = woken.readable;
            woke = self.now();
            if let Some(arrived) = woken.arrived {
                self.control(arrived);
                for (way, readable) in readable.iter_mut().enumerate() {
                    *readable = *readable && self.take(way, arrived)?;
                }
            }
        }
    }

    #[inline]
    fn now(&self) -> Time {
        Time::nanos(clock::now_ns().saturating_sub(self.plan.start_ns))
    }

    fn next_due(&self) -> Time {
        let control = self.path.next_change().min(self.next_sample).min(self.plan.end);
        control.min(self.path.there.next_arrival()).min(self.path.back.next_arrival())
    }

    /// How long to sleep for what is due then: less by the time that waking takes, while there is time to spare.
    fn until(&mut self, now: Time, due: Time) -> Span {
        let span = due.since(now).as_nanos();
        let share = if self.plan.punctual { EARLY_SHARE_PUNCTUAL } else { EARLY_SHARE };
        let ahead = self.ahead();
        let early = if self.early.take(now, ahead, share) { ahead } else { 0 };
        Span::nanos(span.saturating_sub(early).max(SLEEP_MIN))
    }

    /// How much earlier than something is due to wake for it.
    #[inline]
    fn ahead(&self) -> u64 {
        if self.plan.punctual { self.longest } else { self.lead }
    }

    /// Waits for a packet (`deaf`: for none), at most for `span`.
    fn sleep(&mut self, span: Span, deaf: bool, stop: BorrowedFd<'_>) -> Result<Woken, Fault> {
        let heard = if deaf { PollFlags::empty() } else { PollFlags::POLLIN };
        let wait = |fd| PollFd::new(fd, heard);
        let mut fds = [wait(self.tuns[0].as_fd()), wait(self.tuns[1].as_fd()), PollFd::new(stop, PollFlags::POLLIN)];
        let timeout = TimeSpec::from_duration(Duration::from_nanos(span.as_nanos().min(u64::from(u32::MAX))));
        let asleep = self.now();
        match ppoll(&mut fds, Some(timeout), Some(SigSet::all())) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(format!("emulator: poll: {error}")),
        }
        let now = self.now();
        let over = now.since(asleep + span).as_nanos().min(LEAD_MAX);
        let [left, right, stopped] = fds.map(|fd| fd.any().unwrap_or(false));
        let mut arrived = None;
        if over > 0 {
            self.lead = (7 * self.lead + over) / 8;
            self.longest = over.max(self.longest - self.longest.saturating_sub(over) / LONGEST_DECAY);
        } else if !deaf && (left || right) {
            // A packet woke us, and that took as long as a timer's wake-up does.
            arrived = Some(Time::nanos(now.as_nanos().saturating_sub(self.lead)).max(asleep));
        }
        Ok(Woken { readable: [left || deaf, right || deaf], arrived, stopped })
    }

    /// Changes and samples that are due.
    #[inline]
    fn control(&mut self, now: Time) {
        loop {
            let change = self.path.next_change();
            let at = change.min(self.next_sample);
            if at > now {
                return;
            }
            self.settle(RIGHTWARD, at);
            self.settle(LEFTWARD, at);
            if change == at {
                self.path.change(at);
                continue;
            }
            let sampled = if self.plan.sampled_way == RIGHTWARD { &self.path.there } else { &self.path.back };
            self.observer.on_sample(at, sampled.links());
            self.next_sample = self.plan.sample.map_or(Time::NEVER, |step| at + step);
        }
    }

    /// One direction, and who hears what happens on it.
    #[inline]
    fn way(&mut self, way: usize) -> (&mut OneWay<Packet>, Ear<'_, O>) {
        let ear = Ear {
            observer: &mut self.observer,
            gather: &mut self.gather,
            pool: &mut self.pool,
            busy: &mut self.busy[way],
            way,
        };
        (if way == RIGHTWARD { &mut self.path.there } else { &mut self.path.back }, ear)
    }

    #[inline]
    fn settle(&mut self, way: usize, now: Time) {
        let (path, mut ear) = self.way(way);
        path.settle(now, &mut ear);
    }

    /// Reads what the host behind `way` has sent, the first of it at `arrived` if that is known. Returns whether there
    /// may be more.
    fn take(&mut self, way: usize, arrived: Time) -> Result<bool, Fault> {
        let mut arrived = arrived;
        let large = self.plan.offload == Offload::SuperPackets;
        for _ in 0..READS {
            let Some(buffer) = self.pool.take(large) else {
                return self.discard(way);
            };
            let read = self.tuns[way].read(self.pool.space(buffer));
            let now = self.now().min(arrived);
            arrived = Time::NEVER;
            match read.map_err(|error| format!("emulator: {error}"))? {
                Some(used) => {
                    self.enter(now, way, buffer, used);
                    if self.next_due() <= now {
                        return Ok(true); // first what is due
                    }
                }
                None => {
                    self.pool.free(buffer);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// There is no memory for the next packet.
    #[cold]
    fn discard(&mut self, way: usize) -> Result<bool, Fault> {
        let read = self.tuns[way].read(&mut [0; VNET + 1]).map_err(|error| format!("emulator: {error}"))?;
        self.gather.no_room += u64::from(read.is_some());
        Ok(false)
    }

    fn enter(&mut self, now: Time, way: usize, buffer: u32, used: usize) {
        let Some(shape) = self.pool.filled(buffer, used).filter(|_| !is_chatter(self.pool.ip(buffer))) else {
            self.pool.free(buffer);
            return;
        };
        let buffer = if shape.segments == 1 { self.pool.shrink(buffer) } else { buffer };
        let flow = self.observer.flow_of(way, self.pool.ip(buffer));
        self.observer.on_sent(now, way, flow, self.pool.ip(buffer), shape.segments.into());
        self.settle(way, now);
        self.pool.hold(buffer, shape.segments.into());
        for segment in 0..shape.segments {
            self.enter_segment(now, way, flow, buffer, segment, &shape);
        }
    }

    #[inline]
    fn enter_segment(&mut self, now: Time, way: usize, flow: u32, buffer: u32, segment: u16, shape: &Shape) {
        let wire = shape.wire(segment);
        let packet =
            Packet { buffer, flow, wire, busy: 0, left_ns: 0, line: 0, segment, hop: 0, ect: shape.ect(), ce: false };
        let acked = self.newly_acked(way, &packet);
        let (path, mut ear) = self.way(way);
        path.enter(now, packet, acked, &mut ear);
    }

    /// How many bytes a packet is the first to acknowledge, where the path must know; `None` for a SYN and what is no TCP.
    #[inline]
    fn newly_acked(&mut self, way: usize, packet: &Packet) -> Option<u64> {
        let holds = if way == RIGHTWARD { self.path.there.holds_acks() } else { self.path.back.holds_acks() };
        if !holds {
            return None;
        }
        let tcp: Tcp = wire::tcp(self.pool.ip(packet.buffer)).filter(|tcp| tcp.flags & wire::flag::SYN == 0)?;
        let place = (packet.flow as usize).min(self.last_acks.len() - 1);
        let step = tcp.ack.wrapping_sub(self.last_acks[place].unwrap_or(tcp.ack));
        if step > u32::MAX / 2 {
            return Some(0); // an old one
        }
        self.last_acks[place] = Some(tcp.ack);
        Some(step.into())
    }

    /// Writes everything that is due at the end of `way`. Returns whether there was any.
    fn deliver(&mut self, way: usize) -> Result<bool, Fault> {
        let now = self.now();
        let mut any = false;
        while let Some((due, packet)) = self.arrival(way, now) {
            let mut count = 1;
            let mut last = packet;
            while self.merges && count < u16::MAX && self.continues(way, now, &last) {
                let Some((_, next)) = self.arrival(way, now) else { break };
                last = next;
                count += 1;
            }
            self.write(way, packet, count)?;
            let written = self.now();
            self.gather.on_delivered(way, due.as_nanos(), written.as_nanos(), &last);
            (0..count).for_each(|_| self.pool.release(packet.buffer));
            any = true;
        }
        Ok(any)
    }

    /// The next packet that is due at the end of `way` by `now`, with the moment when it was.
    #[inline]
    fn arrival(&mut self, way: usize, now: Time) -> Option<(Time, Packet)> {
        let (path, mut ear) = self.way(way);
        path.front(now, &mut ear)?;
        path.turn(&mut ear)
    }

    /// Whether the next packet that is due follows `last` in the same super-packet.
    fn continues(&mut self, way: usize, now: Time, last: &Packet) -> bool {
        let (path, mut ear) = self.way(way);
        path.front(now, &mut ear)
            .is_some_and(|next| next.buffer == last.buffer && next.segment == last.segment + 1 && next.ce == last.ce)
    }

    #[inline]
    fn write(&mut self, way: usize, packet: Packet, count: u16) -> Result<(), Fault> {
        let now = self.now();
        let tun = self.tuns[1 - way];
        let done = if self.pool.is_super(packet.buffer) {
            let (length, payload) = self.pool.run(packet, count, &mut self.head);
            let wire = (length - VNET + payload.len()) as u32;
            let wire =
                wire + u32::from(count - 1) * (length - VNET) as u32 + u32::from(count) * super::packet::ETHERNET;
            self.observer.on_delivered(now, way, packet.flow, &self.head[VNET..length], count.into(), wire);
            tun.write_parts(&self.head[..length], payload)
        } else {
            let bytes = self.pool.whole(packet);
            self.observer.on_delivered(now, way, packet.flow, &bytes[VNET..], 1, packet.wire);
            tun.write(bytes)
        };
        match done {
            // No room at the receiving host, or a packet that it takes for none: the host's loss, and counted as such.
            Err(error) if !is_fatal(&error) => {
                self.gather.no_room += 1;
                Ok(())
            }
            other => other.map_err(|error| format!("emulator: {error}")),
        }
    }
}

/// Tells the observer and the self-check what happens on one way, and keeps the pool's count.
struct Ear<'e, O> {
    observer: &'e mut O,
    gather: &'e mut Gather,
    pool: &'e mut Pool,
    busy: &'e mut u32,
    way: usize,
}

impl<O: Observer> Watch<Packet> for Ear<'_, O> {
    #[inline]
    fn on_offered(&mut self, _now: Time, packet: &Packet, verdict: Verdict, is_bottleneck: bool) {
        if is_bottleneck {
            self.observer.on_offered(packet.flow, verdict != Verdict::Queued);
        }
    }
    fn on_dropped_later(&mut self, flow: u32, is_bottleneck: bool) {
        if is_bottleneck {
            self.observer.on_dropped_later(flow);
        }
    }
    #[inline]
    fn on_left(&mut self, at: Time, packet: &mut Packet, waited: Span, lost: bool, is_bottleneck: bool) {
        if is_bottleneck {
            // What did not wait begins a busy period of the link.
            *self.busy = self.busy.wrapping_add(u32::from(waited == Span::ZERO));
            (packet.busy, packet.left_ns) = (*self.busy, at.as_nanos());
            self.gather.on_left(self.way, packet);
            self.observer.on_left(packet, waited, lost);
        }
    }
    #[inline]
    fn on_gone(&mut self, packet: &Packet) {
        self.pool.release(packet.buffer);
    }
    fn on_doubled(&mut self, packet: &Packet) {
        self.pool.hold(packet.buffer, 1);
    }
}

fn is_fatal(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied || error.raw_os_error() == Some(libc::EBADFD)
}

/// Multicast: what hosts say to find each other belongs to no flow and would only throw the dice.
fn is_chatter(packet: &[u8]) -> bool {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => packet.get(16).is_some_and(|first| first & 0xf0 == 0xe0),
        Some(6) => packet.get(24) == Some(&0xff),
        _ => true,
    }
}
