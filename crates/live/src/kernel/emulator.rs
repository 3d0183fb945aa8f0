//! The emulator: reads both TUN devices, consults the link model, and writes each packet when it is due.
//! Handling a packet allocates nothing, and no packet leaves early.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use bbrlab_core::{Span, Time};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::SigSet;
use nix::sys::time::TimeSpec;

use super::packet::{HEAD_MAX, Packet};
use super::relay::{EmulatedPath, LEFTWARD, Observer, RIGHTWARD, Relay};
use super::self_check::CheckSamples;
use super::tun::{Offload, Tun, VNET};
use crate::clock;
use crate::{Error, Result};

/// Packets read from one device before due packets are written again. Ours.
const READS: usize = 32;
/// Time before a deadline that is spent awake instead of asleep.
///
/// In a virtual machine setting a timer leaves the guest, so sleeping costs as much CPU time and wakes later. Ours,
/// measured: a sleep costs 25 µs.
const AWAKE: Span = Span::micros(25);
/// Maximum time by which a sleep is shortened so that the wake-up itself is on time, ns.
///
/// A core that halts in a virtual machine takes 40 µs to come back; the actual value is measured during the run. Ours.
const LEAD_MAX: u64 = 150_000;
/// Rate from which packets arrive faster than the machine wakes up: between them the thread stays awake. Ours: 1500
/// bytes in 48 µs.
const FAST_FROM_BPS: u64 = 250_000_000;
/// Share of all time, in thousandths, that may be spent waking up early. Ours: on a slow link it makes every packet
/// punctual, on a link of 100 Mbit/s that would cost half a core.
const EARLY_SHARE: u64 = 30;
/// The same where only a measurement uses the cores. Ours.
const EARLY_SHARE_PUNCTUAL: u64 = 500;
/// Decay of the longest wake-up: each new one removes this fraction of the difference. Ours.
const LONGEST_DECAY: u64 = 64;
/// Maximum of that time that accumulates. Ours.
const EARLY_MAX: u64 = 3_000_000;
/// Longest time without sleep. A real-time thread that stays awake longer starves others, and the kernel stops it for
/// 50 ms to let them run, so it sleeps briefly by itself. Ours.
const VIGIL: Span = Span::micros(600);
/// Duration of that brief sleep. Ours: it takes twice as long if the core halts, and with shorter ones the kernel did
/// stop it.
const NAP: Span = Span::micros(50);
/// Rate from which due segments of a super-packet are handed over together. On slower links they leave at least 12 µs
/// apart. Ours.
const MERGE_FROM_BPS: u64 = 1_500_000_000;
/// Shortest requested sleep. Ours.
const SLEEP_MIN: u64 = 5_000;

/// Configuration of the emulator, apart from its path.
#[derive(Clone, Debug)]
pub struct EmulatorConfig {
    /// The run's time zero, on [`clock::now_ns`].
    pub start_ns: u64,
    /// Time at which it ends by itself; [`Time::NEVER`] if it waits to be stopped.
    pub end: Time,
    /// Sampling interval.
    pub sample: Option<Span>,
    /// Size of the packets that the devices hand over.
    pub offload: Offload,
    /// The devices' MTU.
    pub mtu: u32,
    /// Spends CPU time on punctuality: this run measures effects in the range of a millisecond.
    pub punctual: bool,
}

/// The emulator, bound to the thread that created it.
pub struct Emulator<'a, O> {
    plan: EmulatorConfig,
    relay: Relay<O>,
    tuns: [&'a Tun; 2],
    head: [u8; HEAD_MAX],
    merges: bool,
    is_fast: bool,
    /// Moving average of the machine's wake-up lateness, ns.
    lead: u64,
    /// Worst wake-up lateness, ns; decays slowly.
    longest: u64,
    early: WakeUpMargin,
}

/// Outcome of a sleep.
struct WakeUp {
    /// Devices that have a packet, or may have one.
    readable: [bool; 2],
    /// Arrival time of the packet that ended the sleep, if known.
    arrived: Option<Time>,
    stopped: bool,
}

/// Time budget for waking up before something is due.
#[derive(Debug, Default)]
struct WakeUpMargin {
    saved: u64,
    counted: Time,
}

impl WakeUpMargin {
    /// Takes `span` ns of the budget if it holds that much at `now`. It grows by `share` thousandths of all time.
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
    /// Creates an emulator between the devices of the left and the right namespace.
    pub fn new(plan: EmulatorConfig, path: EmulatedPath, tuns: [&'a Tun; 2], observer: O) -> Self {
        let all_from = |bps| {
            [&path.forward, &path.reverse]
                .iter()
                .all(|direction| direction.links().iter().all(|link| link.rate().as_bits_per_sec() >= bps))
        };
        Self {
            merges: all_from(MERGE_FROM_BPS),
            is_fast: all_from(FAST_FROM_BPS),
            relay: Relay::new(path, plan.mtu, plan.sample, observer),
            plan,
            tuns,
            head: [0; HEAD_MAX],
            lead: 0,
            longest: 0,
            early: WakeUpMargin::default(),
        }
    }

    /// Runs until the plan's end, or until `stop` becomes readable.
    pub fn run(mut self, stop: BorrowedFd<'_>) -> Result<(O, CheckSamples)> {
        let mut readable = [true; 2];
        let mut woke = self.now();
        loop {
            let now = self.now();
            if now >= self.plan.end {
                return Ok(self.relay.finish(now));
            }
            self.relay.control(now);
            // A packet that arrives at a host is answered immediately.
            readable[LEFTWARD] |= self.deliver(RIGHTWARD)?;
            readable[RIGHTWARD] |= self.deliver(LEFTWARD)?;
            for (direction, readable) in readable.iter_mut().enumerate() {
                *readable = *readable && self.take(direction, Time::NEVER)?;
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
                return Ok(self.relay.finish(now));
            }
            readable = woken.readable;
            woke = self.now();
            if let Some(arrived) = woken.arrived {
                self.relay.control(arrived);
                for (direction, readable) in readable.iter_mut().enumerate() {
                    *readable = *readable && self.take(direction, arrived)?;
                }
            }
        }
    }

    #[inline]
    fn now(&self) -> Time {
        Time::nanos(clock::now_ns().saturating_sub(self.plan.start_ns))
    }

    fn next_due(&self) -> Time {
        self.relay.next_due().min(self.plan.end)
    }

    /// Time to sleep for an event at `due`: shorter by the wake-up time, while the budget lasts.
    fn until(&mut self, now: Time, due: Time) -> Span {
        let span = due.since(now).as_nanos();
        let share = if self.plan.punctual { EARLY_SHARE_PUNCTUAL } else { EARLY_SHARE };
        let ahead = self.ahead();
        let early = if self.early.take(now, ahead, share) { ahead } else { 0 };
        Span::nanos(span.saturating_sub(early).max(SLEEP_MIN))
    }

    /// Lead time for waking up before an event.
    #[inline]
    fn ahead(&self) -> u64 {
        if self.plan.punctual { self.longest } else { self.lead }
    }

    /// Waits for a packet (`deaf`: only for the time), for at most `span`.
    fn sleep(&mut self, span: Span, deaf: bool, stop: BorrowedFd<'_>) -> Result<WakeUp> {
        let heard = if deaf { PollFlags::empty() } else { PollFlags::POLLIN };
        let wait = |fd| PollFd::new(fd, heard);
        let mut fds = [wait(self.tuns[0].as_fd()), wait(self.tuns[1].as_fd()), PollFd::new(stop, PollFlags::POLLIN)];
        let timeout = TimeSpec::from_duration(Duration::from_nanos(span.as_nanos().min(u64::from(u32::MAX))));
        let asleep = self.now();
        match ppoll(&mut fds, Some(timeout), Some(SigSet::all())) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(source) => return Err(Error::Call { what: "emulator: poll".to_owned(), source }),
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
        Ok(WakeUp { readable: [left || deaf, right || deaf], arrived, stopped })
    }

    /// Reads the packets that the host behind `way` has sent. `arrived` is the arrival time of the first, if known.
    /// Returns true if there may be more.
    fn take(&mut self, direction: usize, arrived: Time) -> Result<bool> {
        let mut arrived = arrived;
        let large = self.plan.offload == Offload::SuperPackets;
        for _ in 0..READS {
            let Some(buffer) = self.relay.pool.take(large) else {
                return self.discard(direction);
            };
            let read = self.tuns[direction].read(self.relay.pool.space(buffer));
            let now = self.now().min(arrived);
            arrived = Time::NEVER;
            match read.map_err(Error::io("emulator"))? {
                Some(used) => {
                    self.relay.offer(now, direction, buffer, used);
                    if self.next_due() <= now {
                        return Ok(true); // first the packets that are due
                    }
                }
                None => {
                    self.relay.pool.free(buffer);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Reads and drops a packet for which there is no memory.
    #[cold]
    fn discard(&mut self, direction: usize) -> Result<bool> {
        let read = self.tuns[direction].read(&mut [0; VNET + 1]).map_err(Error::io("emulator"))?;
        self.relay.samples.no_room += u64::from(read.is_some());
        Ok(false)
    }

    /// Writes everything that is due at the end of `way`. Returns true if there was anything.
    fn deliver(&mut self, direction: usize) -> Result<bool> {
        let now = self.now();
        let mut any = false;
        while let Some((due, packet)) = self.relay.arrival(direction, now) {
            let mut count = 1;
            let mut last = packet;
            while self.merges && count < u16::MAX && self.relay.continues(direction, now, &last) {
                let Some((_, next)) = self.relay.arrival(direction, now) else { break };
                last = next;
                count += 1;
            }
            self.write(direction, packet, count)?;
            let written = self.now();
            self.relay.samples.on_delivered(direction, due.as_nanos(), written.as_nanos(), &last);
            (0..count).for_each(|_| self.relay.pool.release(packet.buffer));
            any = true;
        }
        Ok(any)
    }

    #[inline]
    fn write(&mut self, direction: usize, packet: Packet, count: u16) -> Result<()> {
        let now = self.now();
        let tun = self.tuns[1 - direction];
        let done = if self.relay.pool.is_super(packet.buffer) {
            let (length, payload) = self.relay.pool.run(packet, count, &mut self.head);
            let wire = (length - VNET + payload.len()) as u32;
            let wire =
                wire + u32::from(count - 1) * (length - VNET) as u32 + u32::from(count) * super::packet::ETHERNET;
            self.relay.observer.on_delivered(now, direction, packet.flow, &self.head[VNET..length], count.into(), wire);
            tun.write_parts(&self.head[..length], payload)
        } else {
            let bytes = self.relay.pool.whole(packet);
            self.relay.observer.on_delivered(now, direction, packet.flow, &bytes[VNET..], 1, packet.wire);
            tun.write(bytes)
        };
        match done {
            // The receiving host's queue is full, or it rejects the packet: counted as the host's loss.
            Err(error) if !is_fatal(&error) => {
                self.relay.samples.no_room += 1;
                Ok(())
            }
            other => other.map_err(Error::io("emulator")),
        }
    }
}

fn is_fatal(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied || error.raw_os_error() == Some(libc::EBADFD)
}
