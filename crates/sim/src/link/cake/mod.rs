//! CAKE: tins for classes of traffic, a queue for each flow, fairness among hosts, and COBALT in each queue.
//! Source: Linux `sch_cake` (6.12) with `bandwidth` at the link's rate, so that the link is its shaper. On a link whose rate it
//! cannot know (a trace, a demand) it is as with `unlimited`.
//!
//! Differs: the limit is the link's buffer in bytes on the wire, not memory; a tie of the longest queues may end otherwise; an
//! interval is not cut to 32 bits.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod cobalt;
mod tin;

use bbrlab_core::{Rate, Rng, Time};

use super::config::{Cake as CakeConfig, FlowClass, Tins};
use super::fifo::{Entry, Limit, Tally};
use super::{LinkPacket, Verdict};
use tin::Tin;

/// Bytes per round of a tin alone. Source: Linux, `cake_config_besteffort`.
const LONE_QUANTUM: i64 = 65_535;
/// Bytes per round of the best-effort tin beside others; theirs are smaller as their rates are. Source: Linux.
const QUANTUM: i64 = 1024;
/// Parts of the rate of each tin, as binary logarithms: best effort, bulk, video, voice. Source: Linux, `cake_config_diffserv4`.
const DIFFSERV4: &[u32] = &[0, 4, 1, 2];
/// The same without the tin of video. Source: Linux, `cake_config_diffserv3`.
const DIFFSERV3: &[u32] = &[0, 4, 2];

/// The tins.
#[derive(Clone, Debug)]
pub(super) struct Cake<P> {
    config: CakeConfig,
    hash_key: u64,
    rng: Rng,
    tins: Vec<Tin<P>>,
    is_shaped: bool,
    /// Tin whose turn it is on an unshaped link.
    current: usize,
    packets: usize,
    bytes: u64,
}

impl Tins {
    const fn shifts(self) -> &'static [u32] {
        match self {
            Self::BestEffort => &[0],
            Self::Diffserv3 => DIFFSERV3,
            Self::Diffserv4 => DIFFSERV4,
        }
    }

    /// Tin of a DSCP. Source: Linux, `diffserv3` and `diffserv4`.
    const fn of(self, dscp: u8) -> usize {
        match (self, dscp) {
            // LE, CS1.
            (Self::Diffserv3 | Self::Diffserv4, 1 | 8) => 1,
            // TOS4, VA, EF, CS6, CS7.
            (Self::Diffserv3, 4 | 44 | 46 | 48 | 56) => 2,
            // TOS4, CS2, AF2x, CS3, AF3x, AF4x.
            (Self::Diffserv4, 4 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38) => 2,
            // CS4, CS5, VA, EF, CS6, CS7.
            (Self::Diffserv4, 32 | 40 | 44 | 46 | 48 | 56) => 3,
            _ => 0,
        }
    }
}

impl<P: LinkPacket> Cake<P> {
    /// Creates the tins of an unshaped link. `rng` provides the key of the hash, and all random numbers.
    pub fn new(config: CakeConfig, mut rng: Rng) -> Self {
        let shifts = config.tins.shifts();
        let quantum = |shift: &u32| if shifts.len() == 1 { LONE_QUANTUM } else { QUANTUM >> shift };
        let tins = shifts.iter().map(|shift| Tin::new(quantum(shift), config.host_fairness)).collect();
        let hash_key = rng.next_u64();
        let mut own = Self { config, hash_key, rng, tins, is_shaped: false, current: 0, packets: 0, bytes: 0 };
        own.set_rate(Rate::bits_per_sec(0));
        own
    }

    /// Sets the rate of the link; zero if there is none.
    pub fn set_rate(&mut self, rate: Rate) {
        let rate = rate.as_bytes_per_sec();
        self.is_shaped = rate > 0;
        let config = &self.config;
        for (tin, shift) in self.tins.iter_mut().zip(config.tins.shifts()) {
            tin.set_rate(rate >> shift, config.target, config.interval, config.packet_bytes);
        }
    }

    /// Number of waiting packets.
    pub fn len(&self) -> usize {
        self.packets
    }

    /// Bytes of the waiting packets.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn enqueue(&mut self, now: Time, entry: Entry<P>, limit: Limit, tally: &mut Tally) -> Verdict {
        let (flow, wire_bytes) = (entry.packet.flow(), entry.packet.wire_bytes());
        let class = FlowClass::of(&self.config.flows, flow);
        let number = self.config.tins.of(entry.packet.dscp().unwrap_or(class.dscp));
        let tin = &mut self.tins[number];
        if tin.bytes() == 0 {
            tin.next_at = tin.next_at.max(now);
        }
        let bits = hash(self.hash_key, flow);
        let index = tin.enqueue(entry, bits, class.host, &mut self.rng);
        self.packets += 1;
        self.bytes += u64::from(wire_bytes);
        let mut arrival_dropped = false;
        while self.packets as u64 > limit.packets || self.bytes > limit.bytes {
            arrival_dropped |= self.drop_from_longest(now, (number, index), arrival_dropped, tally);
        }
        if arrival_dropped { Verdict::Dropped } else { Verdict::Queued }
    }

    pub fn dequeue(&mut self, now: Time, tally: &mut Tally) -> Option<Entry<P>> {
        let mut may_decay = true;
        // Bounded: each iteration but the last takes an empty queue off a list.
        while self.packets > 0 {
            let number = if self.is_shaped { self.tin_by_time(now)? } else { self.tin_by_share()? };
            let (packets, bytes) = (&mut self.packets, &mut self.bytes);
            let mut left = |packet: &P| {
                *packets -= 1;
                *bytes -= u64::from(packet.wire_bytes());
            };
            let tin = &mut self.tins[number];
            let Some(entry) = tin.dequeue(now, &mut may_decay, &mut left, &mut self.rng, tally) else { continue };
            left(&entry.packet);
            let wire_bytes = entry.packet.wire_bytes();
            if self.is_shaped {
                tin.charge(now, wire_bytes);
            } else {
                tin.deficit -= i64::from(wire_bytes);
            }
            return Some(entry);
        }
        None
    }

    /// Removes the oldest packet that this one supersedes, as `ack-filter-aggressive` does. Returns whether there was one.
    pub fn remove_superseded(&mut self, by: &P) -> bool {
        let bits = hash(self.hash_key, by.flow());
        let number = self.config.tins.of(by.dscp().unwrap_or(FlowClass::of(&self.config.flows, by.flow()).dscp));
        let tin = &mut self.tins[number];
        let before = tin.bytes();
        let is_removed = tin.remove_superseded(by, bits);
        self.packets -= usize::from(is_removed);
        self.bytes -= before - tin.bytes();
        is_removed
    }

    /// Tin of a shaped link: the last one that is within its rate, else the one that is so first.
    fn tin_by_time(&self, now: Time) -> Option<usize> {
        let mut best = None;
        let mut best_at = Time::NEVER;
        for (number, tin) in self.tins.iter().enumerate().filter(|(_, tin)| tin.has_flows()) {
            if tin.next_at <= now || tin.next_at <= best_at {
                (best, best_at) = (Some(number), tin.next_at);
            }
        }
        best
    }

    /// Tin of an unshaped link, by deficit round robin.
    fn tin_by_share(&mut self) -> Option<usize> {
        if !self.tins.iter().any(Tin::has_flows) {
            return None;
        }
        // Bounded: each round raises the deficit of a tin that has flows.
        loop {
            let tin = &mut self.tins[self.current];
            if tin.deficit >= 0 && tin.has_flows() {
                return Some(self.current);
            }
            if tin.deficit <= 0 {
                tin.deficit += tin.quantum;
            }
            self.current = (self.current + 1) % self.tins.len();
        }
    }

    /// Drops the head of the queue with the most bytes. Returns true if this was the newest packet of queue `arrival`, whose
    /// drop the verdict reports. That packet is not looked for if it is `gone` already.
    fn drop_from_longest(&mut self, now: Time, arrival: (usize, u16), gone: bool, tally: &mut Tally) -> bool {
        let mut longest = (arrival, 0);
        for (number, tin) in self.tins.iter().enumerate() {
            if let Some((index, bytes)) = tin.longest().filter(|(_, bytes)| *bytes > longest.1) {
                longest = ((number, index), bytes);
            }
        }
        let (number, index) = longest.0;
        let Some((entry, was_last)) = self.tins[number].drop_head(now, index) else { return false };
        self.packets -= 1;
        self.bytes -= u64::from(entry.packet.wire_bytes());
        if was_last && !gone && longest.0 == arrival {
            tally.stats.drops += 1;
            return true;
        }
        tally.drop_queued(&entry.packet);
        false
    }
}

fn hash(key: u64, flow: u32) -> u64 {
    Rng::new(key ^ u64::from(flow)).next_u64()
}

#[cfg(test)]
mod tests;
