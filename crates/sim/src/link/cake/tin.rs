//! A tin: one class of traffic with its queues, which take turns by deficit round robin, sparse flows first.
//! Source: Linux `sch_cake`, `cake_hash` and `cake_dequeue`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::{NANOS_PER_SEC, Rng, Span, Time};

use super::cobalt::{Cobalt, Params};
use crate::link::LinkPacket;
use crate::link::fifo::{Entry, Fifo, Tally};

/// Queues of a tin, and entries of its table of hosts. Source: Linux, `CAKE_QUEUES`.
const QUEUES: usize = 1024;
/// Queues among which a flow finds one of its own. Source: Linux, `CAKE_SET_WAYS`.
const WAYS: usize = 8;
/// Bytes that a flow may send per round: at most, and at least at a low rate. Source: Linux, `cake_set_rate`.
const FLOW_QUANTUM: u64 = 1514;
const FLOW_QUANTUM_MIN: u64 = 300;
/// Binary logarithm of the rate's share, in bytes per second, that a flow may send per round. Source: Linux, `cake_set_rate`.
const FLOW_QUANTUM_SHIFT: u32 = 12;
/// Lowest rate of a tin, bytes per second. Source: Linux, `MIN_RATE`.
const RATE_MIN: u64 = 64;
/// Bits of the time per byte. Source: Linux, `cake_set_rate`.
const TIME_BITS: u32 = 34;

/// List on which a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    /// Empty queues whose COBALT has not yet decayed.
    Decaying,
    /// Flows that have not used up their first quantum.
    New,
    Old,
}

/// State of a queue. The states of one list are counted apart, as in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Sparse,
    /// Counted as sparse, because it was empty when it moved to the old list.
    SparseOnOld,
    Bulk,
    Decaying,
}

#[derive(Clone, Debug)]
struct FlowQueue<P> {
    fifo: Fifo<P>,
    cobalt: Cobalt,
    deficit: i64,
    state: State,
    /// Flow for which it is reserved.
    flow: Option<u32>,
    /// Entry of its host.
    host: u16,
}

/// Time per byte as a fixed-point number, rounded down.
#[derive(Clone, Copy, Debug, Default)]
struct ByteTime {
    mantissa: u64,
    shift: u32,
}

/// One class of traffic.
#[derive(Clone, Debug)]
pub(super) struct Tin<P> {
    queues: Vec<FlowQueue<P>>,
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    decaying: VecDeque<u16>,
    sparse: u32,
    bulk: u32,
    /// Bulk flows of each host; all zero without fairness among hosts.
    bulk_of_host: Vec<u16>,
    has_host_fairness: bool,
    bytes: u64,
    params: Params,
    flow_quantum: u64,
    byte_time: ByteTime,
    /// Time from which it may send at its own rate.
    pub next_at: Time,
    /// Share of an unshaped link: bytes per round, and what is left of them.
    pub quantum: i64,
    pub deficit: i64,
}

impl ByteTime {
    /// Time per byte at `rate` bytes per second.
    fn at(rate: u64) -> Self {
        let (mut shift, mut mantissa) = (TIME_BITS, (NANOS_PER_SEC << TIME_BITS) / rate.max(RATE_MIN));
        while mantissa >> TIME_BITS > 0 {
            mantissa >>= 1;
            shift -= 1;
        }
        Self { mantissa, shift }
    }

    fn of(self, bytes: u32) -> Span {
        Span::nanos((u64::from(bytes) * self.mantissa) >> self.shift)
    }
}

impl<P: LinkPacket> Tin<P> {
    /// Creates an empty tin without a rate.
    pub fn new(quantum: i64, has_host_fairness: bool) -> Self {
        let queue = || FlowQueue {
            fifo: Fifo::new(),
            cobalt: Cobalt::default(),
            deficit: 0,
            state: State::Idle,
            flow: None,
            host: 0,
        };
        Self {
            queues: (0..QUEUES).map(|_| queue()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            decaying: VecDeque::new(),
            sparse: 0,
            bulk: 0,
            bulk_of_host: vec![0; QUEUES],
            has_host_fairness,
            bytes: 0,
            params: Params::default(),
            flow_quantum: FLOW_QUANTUM,
            byte_time: ByteTime::default(),
            next_at: Time::ZERO,
            quantum,
            deficit: 0,
        }
    }

    /// Sets what depends on its rate in bytes per second, which is zero for an unshaped link.
    pub fn set_rate(&mut self, rate: u64, target: Span, interval: Span, packet: u32) {
        self.flow_quantum = FLOW_QUANTUM;
        self.byte_time = ByteTime::default();
        if rate > 0 {
            self.flow_quantum = (rate >> FLOW_QUANTUM_SHIFT).clamp(FLOW_QUANTUM_MIN, FLOW_QUANTUM);
            self.byte_time = ByteTime::at(rate);
        }
        let packet_time = self.byte_time.of(packet);
        // A packet and a half, so that a slow link is not kept empty.
        let own_target = target.max(Span::nanos(packet_time.as_nanos().saturating_mul(3) / 2));
        let added = own_target.as_nanos() - target.as_nanos();
        let twice = own_target.as_nanos().saturating_mul(2);
        let own_interval = Span::nanos(interval.as_nanos().saturating_add(added).max(twice));
        self.params = Params { target: own_target, interval: own_interval, packet_time };
    }

    /// True if a flow has its turn here.
    pub fn has_flows(&self) -> bool {
        self.sparse + self.bulk > 0
    }

    /// Bytes of the waiting packets.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Enqueues a packet. `bits` are its flow's hash. Returns the queue.
    pub fn enqueue(&mut self, entry: Entry<P>, bits: u64, host: u32, rng: &mut Rng) -> u16 {
        let index = self.queue_of(entry.packet.flow(), bits, host);
        self.bytes += u64::from(entry.packet.wire_bytes());
        let queue = &mut self.queues[usize::from(index)];
        queue.fifo.push(entry);
        match queue.state {
            State::Idle | State::Decaying => {
                if queue.state == State::Decaying
                    && let Some(place) = self.decaying.iter().position(|other| *other == index)
                {
                    self.decaying.remove(place);
                }
                queue.state = State::Sparse;
                let host = queue.host;
                self.sparse += 1;
                self.new.push_back(index);
                self.queues[usize::from(index)].deficit = self.quantum_of(host, rng);
            }
            State::SparseOnOld => {
                queue.state = State::Bulk;
                let host = queue.host;
                self.sparse -= 1;
                self.bulk += 1;
                self.count_bulk(host, true);
            }
            State::Sparse | State::Bulk => {}
        }
        index
    }

    /// Returns the next packet after dropping those before it. `None` if an empty queue had its turn or all are empty.
    /// An empty queue that decays has a turn before the others where `may_decay`.
    pub fn dequeue(
        &mut self,
        now: Time,
        may_decay: &mut bool,
        dropped: &mut impl FnMut(&P),
        rng: &mut Rng,
        tally: &mut Tally,
    ) -> Option<Entry<P>> {
        // Bounded: each iteration raises a deficit, or is the last.
        loop {
            let (list, index) = self.turn(*may_decay)?;
            *may_decay = false;
            let queue = &mut self.queues[usize::from(index)];
            if queue.deficit <= 0 {
                self.end_round(list, index, rng);
                continue;
            }
            // Bounded by the waiting packets: each iteration but the last drops one.
            while let Some(mut entry) = queue.fifo.pop() {
                self.bytes -= u64::from(entry.packet.wire_bytes());
                let (waited, ect) = (now.since(entry.arrived), entry.packet.ect());
                let decision = queue.cobalt.judge(now, &self.params, waited, ect, rng);
                // The last packet of a queue is never dropped.
                if !decision.is_dropped || queue.fifo.is_empty() {
                    if decision.is_marked {
                        tally.try_mark(&mut entry.packet);
                    }
                    queue.deficit -= i64::from(entry.packet.wire_bytes());
                    return Some(entry);
                }
                tally.drop_queued(&entry.packet);
                dropped(&entry.packet);
            }
            self.retire(now, list, index);
            return None;
        }
    }

    /// Advances the time from which it may send, by a packet that leaves at `now`.
    pub fn charge(&mut self, now: Time, wire_bytes: u32) {
        let time = self.byte_time.of(wire_bytes);
        if self.next_at < now {
            self.next_at += time;
        } else {
            self.next_at = self.next_at.max(now + time);
        }
    }

    /// Queue with the most bytes, and these.
    pub fn longest(&self) -> Option<(u16, u64)> {
        let waiting = self.new.iter().chain(&self.old);
        let lengths = waiting.map(|index| (*index, self.queues[usize::from(*index)].fifo.bytes()));
        lengths.reduce(|longest, other| if other.1 > longest.1 { other } else { longest })
    }

    /// Drops the head of a queue because all queues together are full. Returns it, and true if it was the last.
    pub fn drop_head(&mut self, now: Time, index: u16) -> Option<(Entry<P>, bool)> {
        let queue = &mut self.queues[usize::from(index)];
        let entry = queue.fifo.pop()?;
        queue.cobalt.on_overflow(now, &self.params);
        self.bytes -= u64::from(entry.packet.wire_bytes());
        Some((entry, queue.fifo.is_empty()))
    }

    /// Removes the oldest packet that this one supersedes. Returns whether there was one.
    pub fn remove_superseded(&mut self, by: &P, bits: u64) -> bool {
        let Some(index) = ways(bits).find(|index| self.queues[*index].flow == Some(by.flow())) else { return false };
        let fifo = &mut self.queues[index].fifo;
        let before = fifo.bytes();
        let is_removed = fifo.remove_superseded(by);
        self.bytes -= before - fifo.bytes();
        is_removed
    }

    /// Queue of a flow: its own, else a free one of its set, else one that it shares.
    fn queue_of(&mut self, flow: u32, bits: u64, host: u32) -> u16 {
        let host = (host as usize % QUEUES) as u16;
        let found = ways(bits).find(|index| self.queues[*index].flow == Some(flow));
        let free = || ways(bits).find(|index| self.queues[*index].state == State::Idle);
        let index = found.or_else(free).unwrap_or(home(bits));
        let queue = &mut self.queues[index];
        if found.is_none() || queue.state == State::Idle {
            queue.flow = Some(flow);
            let before = std::mem::replace(&mut queue.host, host);
            if queue.state == State::Bulk {
                self.count_bulk(before, false);
                self.count_bulk(host, true);
            }
        }
        index as u16
    }

    /// The queue whose turn it is.
    fn turn(&self, may_decay: bool) -> Option<(List, u16)> {
        let decaying = self.decaying.front().map(|index| (List::Decaying, *index));
        if may_decay && decaying.is_some() {
            return decaying;
        }
        let new = self.new.front().map(|index| (List::New, *index));
        let old = || self.old.front().map(|index| (List::Old, *index));
        new.or_else(old).or(decaying)
    }

    /// Moves a queue that has used up its quantum behind the old ones.
    fn end_round(&mut self, list: List, index: u16, rng: &mut Rng) {
        let queue = &mut self.queues[usize::from(index)];
        let host = queue.host;
        if queue.state == State::Sparse {
            if queue.fifo.is_empty() {
                queue.state = State::SparseOnOld;
            } else {
                queue.state = State::Bulk;
                self.sparse -= 1;
                self.bulk += 1;
                self.count_bulk(host, true);
            }
        }
        self.queues[usize::from(index)].deficit += self.quantum_of(host, rng);
        self.take_off(list);
        self.old.push_back(index);
    }

    /// Takes an empty queue off its list, to decay or to rest.
    fn retire(&mut self, now: Time, list: List, index: u16) {
        self.take_off(list);
        let queue = &mut self.queues[usize::from(index)];
        queue.cobalt.on_empty(now, &self.params);
        let host = queue.host;
        let next = if queue.cobalt.is_active(now) { State::Decaying } else { State::Idle };
        match std::mem::replace(&mut queue.state, next) {
            State::Sparse | State::SparseOnOld => self.sparse -= 1,
            State::Bulk => {
                self.bulk -= 1;
                self.count_bulk(host, false);
            }
            State::Decaying | State::Idle => {}
        }
        if next == State::Decaying {
            self.decaying.push_back(index);
        }
    }

    fn take_off(&mut self, list: List) {
        match list {
            List::Decaying => self.decaying.pop_front(),
            List::New => self.new.pop_front(),
            List::Old => self.old.pop_front(),
        };
    }

    fn count_bulk(&mut self, host: u16, is_more: bool) {
        if self.has_host_fairness {
            let count = &mut self.bulk_of_host[usize::from(host)];
            *count = if is_more { count.saturating_add(1) } else { count.saturating_sub(1) };
        }
    }

    /// Bytes that a flow may send per round: its host's quantum over the host's bulk flows, rounded up or down at random.
    fn quantum_of(&self, host: u16, rng: &mut Rng) -> i64 {
        let flows = u64::from(self.bulk_of_host[usize::from(host)].max(1));
        let share = self.flow_quantum * (u64::from(u16::MAX) / flows) + (rng.next_u64() & u64::from(u16::MAX));
        (share >> 16).cast_signed()
    }
}

/// Queue that a flow takes if it is free.
const fn home(bits: u64) -> usize {
    bits as usize % QUEUES
}

/// Queues of a flow's set, from its first choice on.
fn ways(bits: u64) -> impl Iterator<Item = usize> {
    let home = home(bits);
    (0..WAYS).map(move |way| home - home % WAYS + (home + way) % WAYS)
}
