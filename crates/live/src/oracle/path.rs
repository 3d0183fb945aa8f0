//! The path between two namespaces: the laboratory's link and delay lines on the monotonic clock.
//! In: IP packets of two TUN devices. Out: the same, later, or not at all. Never: a packet of the host's.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use bbrlab_core::{Span, Time};
use bbrlab_sim::link::{AckAggregation, DelayConfig, DelayLine, Link, LinkPacket, LossModel};
use bbrlab_sim::setup::{Change, ChangeKind, Setup};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::namespace::Namespace;
use crate::clock::now_ns;

/// Where the senders are.
const SENDER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Where the receivers are.
pub const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// Bytes of Ethernet that the laboratory's links count with each packet.
const ETHERNET: u32 = 14;
/// Packets taken from a device before the other one and the clock have their turn. Ours.
const BATCH: usize = 64;
/// How long the relay sleeps at most before it looks whether it should end.
const NAP: Span = Span::millis(20);

/// Refuses what this path can't express.
pub fn check(setup: &Setup) -> Result<(), String> {
    let refuse = |what: &str| Err(format!("record: {what} can't be recorded; leave it out, or use --on sim"));
    if setup.links.len() != 1 {
        return refuse("a path of several links");
    }
    if setup.path.ack_aggregation != AckAggregation::None {
        return refuse("ack_aggregation");
    }
    if setup.path.duplicate > 0.0 {
        return refuse("duplicate");
    }
    Ok(())
}

/// Two namespaces and what lies between them.
pub struct Path {
    pub senders: Namespace,
    pub receivers: Namespace,
    stop: Arc<AtomicBool>,
    relay: Option<JoinHandle<()>>,
}

impl Path {
    /// The scenario's path; its schedule begins now.
    pub fn new(setup: &Setup) -> Result<Self, String> {
        let (senders, receivers) = (Namespace::new(SENDER)?, Namespace::new(RECEIVER)?);
        let copy = |space: &Namespace| space.tun.try_clone().map_err(|error| format!("a TUN descriptor: {error}"));
        let mut relay = Relay::new(setup, copy(&senders)?, copy(&receivers)?);
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let relay = thread::spawn(move || relay.run(&seen));
        Ok(Self { senders, receivers, stop, relay: Some(relay) })
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(relay) = self.relay.take() {
            let _ = relay.join();
        }
    }
}

/// A packet under way: where its bytes are, and how many.
#[derive(Clone, Copy, Debug)]
struct Packet {
    slot: usize,
    bytes: u32,
}

impl LinkPacket for Packet {
    fn wire_bytes(&self) -> u32 {
        self.bytes + ETHERNET
    }
    fn flow(&self) -> u32 {
        0
    }
    fn ect(&self) -> bool {
        false
    }
    fn mark_ce(&mut self) {}
}

/// The bytes of packets under way; a slot is used again once its packet has arrived.
#[derive(Default)]
struct Slots {
    bytes: Vec<Vec<u8>>,
    free: Vec<usize>,
}

impl Slots {
    fn keep(&mut self, packet: &[u8]) -> Packet {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.bytes.push(Vec::new());
            self.bytes.len() - 1
        });
        self.bytes[slot].clear();
        self.bytes[slot].extend_from_slice(packet);
        Packet { slot, bytes: packet.len() as u32 }
    }

    fn deliver(&mut self, packet: Packet, to: &mut std::fs::File) {
        // A device that takes no more has a receiver that is gone.
        let _ = to.write(&self.bytes[packet.slot]);
        self.free.push(packet.slot);
    }
}

struct Relay {
    began: u64,
    link: Link<Packet>,
    there: DelayLine<Packet>,
    back: DelayLine<Packet>,
    ack_loss: LossModel,
    schedule: std::vec::IntoIter<Change>,
    change: Option<Change>,
    slots: Slots,
    sender: std::fs::File,
    receiver: std::fs::File,
}

impl Relay {
    fn new(setup: &Setup, sender: std::fs::File, receiver: std::fs::File) -> Self {
        let path = &setup.path;
        let half = path.rtt.as_nanos() / 2;
        let plain = DelayConfig {
            delay: Span::nanos(path.rtt.as_nanos() - half),
            jitter: Span::ZERO,
            jitter_reorders: false,
            reorder: 0.0,
            duplicate: 0.0,
        };
        let there = DelayConfig {
            delay: Span::nanos(half),
            jitter: path.jitter,
            jitter_reorders: path.jitter_reorders,
            reorder: path.reorder,
            ..plain
        };
        let mut schedule = setup.schedule.clone().into_iter();
        Self {
            began: now_ns(),
            link: Link::new(&setup.links[0], setup.seed),
            there: DelayLine::new(&there, setup.seed),
            back: DelayLine::new(&plain, setup.seed + 1),
            ack_loss: LossModel::new(path.ack_loss, setup.seed + 2),
            change: schedule.next(),
            schedule,
            slots: Slots::default(),
            sender,
            receiver,
        }
    }

    fn now(&self) -> Time {
        Time::nanos(now_ns() - self.began)
    }

    fn run(&mut self, stop: &AtomicBool) {
        // SAFETY: a plain number for a plain option of this thread: timers to the nanosecond instead of 50 µs.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
        while !stop.load(Ordering::Relaxed) {
            self.wait();
            self.take_data();
            self.take_acks();
            let now = self.now();
            self.advance(now);
        }
    }

    /// Sleeps until something is due or a packet comes.
    fn wait(&self) {
        let due = self.link.next_departure().min(self.there.next()).min(self.back.next());
        let due = self.change.map_or(due, |change| due.min(change.at));
        let nap = due.since(self.now()).min(NAP);
        let wait = TimeSpec::new(0, nap.as_nanos() as i64);
        let mut polled = [
            PollFd::new(self.sender.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.receiver.as_fd(), PollFlags::POLLIN),
        ];
        let _ = ppoll(&mut polled, Some(wait), None);
    }

    fn take_data(&mut self) {
        let mut buffer = [0; 2048];
        for _ in 0..BATCH {
            let Ok(length) = self.sender.read(&mut buffer) else {
                return;
            };
            let now = self.now();
            self.advance(now);
            if !is_ipv4(&buffer[..length]) {
                continue;
            }
            let packet = self.slots.keep(&buffer[..length]);
            if self.link.offer(now, packet) != bbrlab_sim::link::Verdict::Queued {
                self.slots.free.push(packet.slot);
            }
        }
    }

    fn take_acks(&mut self) {
        let mut buffer = [0; 2048];
        for _ in 0..BATCH {
            let Ok(length) = self.receiver.read(&mut buffer) else {
                return;
            };
            if is_ipv4(&buffer[..length]) && !self.ack_loss.lose() {
                let packet = self.slots.keep(&buffer[..length]);
                self.back.push(self.now(), packet);
            }
        }
    }

    /// Does everything that is due by `now`.
    fn advance(&mut self, now: Time) {
        while let Some(change) = self.change.filter(|change| change.at <= now) {
            self.depart(change.at);
            self.apply(&change);
            self.change = self.schedule.next();
        }
        self.depart(now);
        while let Some((_, packet)) = self.there.pop(now) {
            self.slots.deliver(packet, &mut self.receiver);
        }
        while let Some((_, packet)) = self.back.pop(now) {
            self.slots.deliver(packet, &mut self.sender);
        }
    }

    fn depart(&mut self, now: Time) {
        while self.link.next_departure() <= now {
            let Some(departure) = self.link.depart(now) else {
                continue;
            };
            if departure.lost {
                self.slots.free.push(departure.packet.slot);
            } else {
                self.there.push(departure.at, departure.packet);
            }
        }
    }

    fn apply(&mut self, change: &Change) {
        match change.what {
            ChangeKind::Rate(rate) => self.link.set_rate(change.at, rate),
            ChangeKind::Buffer(buffer) => self.link.set_buffer(buffer),
            ChangeKind::Loss(loss) => self.link.set_loss(loss),
            ChangeKind::AckLoss(loss) => self.ack_loss.set(loss),
            ChangeKind::Rtt(rtt) => {
                let half = rtt.as_nanos() / 2;
                self.there.set_delay(Span::nanos(half));
                self.back.set_delay(Span::nanos(rtt.as_nanos() - half));
            }
        }
    }
}

/// A device also carries the kernel's own IPv6 greetings; they are no part of the scenario.
fn is_ipv4(packet: &[u8]) -> bool {
    packet.first().is_some_and(|byte| byte >> 4 == 4)
}
