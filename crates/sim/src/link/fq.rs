//! Fair queueing without an AQM: one first-in-first-out queue per flow, served by deficit round robin, new flows first.
//! Source: Linux `sch_fq` on a router, where nothing is paced and flows are told apart by a hash.
//!
//! Differs: Linux sends a packet that finds the discipline empty past the queues (`internal`), and forgets flows that were idle
//! for 3 s when there are many. Here a link that is idle sends at once, and flows are kept.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::{Rng, Span, Time};

use super::config::Fq as FqConfig;
use super::fifo::{Entry, Fifo, Limit, Tally};
use super::{LinkPacket, Verdict};

/// Number of hash buckets. Source: Linux `sch_fq`, `orphan_mask` 1023.
const BUCKETS: u32 = 1024;
/// Idle time after which a flow may send a quantum at once. Source: Linux `sch_fq`, `flow_refill_delay`.
const REFILL_DELAY: Span = Span::millis(40);

/// The queues.
#[derive(Clone, Debug)]
pub(super) struct Fq<P> {
    config: FqConfig,
    hash_key: u64,
    queues: Vec<FlowQueue<P>>,
    /// Queues that became active, then those that used up their credit; indices into `queues`.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct FlowQueue<P> {
    fifo: Fifo<P>,
    credit: i64,
    listed: bool,
    /// Time at which it was last taken off the lists.
    idle_since: Time,
}

impl<P: LinkPacket> Fq<P> {
    /// Creates the queues. `rng` provides the key of the hash, so that collisions depend on the seed.
    pub fn new(config: FqConfig, mut rng: Rng) -> Self {
        // With a quantum of zero no queue would ever send.
        let config = FqConfig { quantum: config.quantum.max(1), ..config };
        let credit = config.initial_quantum.into();
        let empty = || FlowQueue { fifo: Fifo::new(), credit, listed: false, idle_since: Time::ZERO };
        Self {
            config,
            hash_key: rng.next_u64(),
            queues: (0..BUCKETS).map(|_| empty()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.packets
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn enqueue(&mut self, now: Time, entry: Entry<P>, limit: Limit, tally: &mut Tally) -> Verdict {
        let (flow, wire_bytes) = (entry.packet.flow(), u64::from(entry.packet.wire_bytes()));
        let bits = Rng::new(self.hash_key ^ u64::from(flow)).next_u64();
        let index = (bits % u64::from(BUCKETS)) as u32;
        let queue = &mut self.queues[index as usize];
        let is_full = self.packets as u64 >= limit.packets || self.bytes + wire_bytes > limit.bytes;
        if is_full || queue.fifo.len() >= self.config.flow_limit as usize {
            tally.stats.drops += 1;
            return Verdict::Dropped;
        }
        if !queue.listed {
            queue.listed = true;
            self.new.push_back(index);
            if now.since(queue.idle_since) > REFILL_DELAY {
                queue.credit = queue.credit.max(self.config.quantum.into());
            }
        }
        queue.fifo.push(entry);
        self.packets += 1;
        self.bytes += wire_bytes;
        Verdict::Queued
    }

    // spec: Linux fq_dequeue
    pub fn dequeue(&mut self, now: Time, tally: &mut Tally) -> Option<Entry<P>> {
        // Bounded: each iteration raises a credit by a quantum, or removes a queue from a list.
        loop {
            let from_new = !self.new.is_empty();
            let index = *if from_new { self.new.front() } else { self.old.front() }?;
            let queue = &mut self.queues[index as usize];
            if queue.credit <= 0 {
                queue.credit += i64::from(self.config.quantum);
                self.take_off(from_new);
                self.old.push_back(index);
                continue;
            }
            let Some(mut entry) = queue.fifo.pop() else {
                self.take_off(from_new);
                // An empty new queue passes through the old ones first, so that they do not starve.
                if from_new && !self.old.is_empty() {
                    self.old.push_back(index);
                } else {
                    let queue = &mut self.queues[index as usize];
                    (queue.listed, queue.idle_since) = (false, now);
                }
                continue;
            };
            let wire_bytes = entry.packet.wire_bytes();
            queue.credit -= i64::from(wire_bytes);
            self.packets -= 1;
            self.bytes -= u64::from(wire_bytes);
            if self.config.ce_threshold.is_some_and(|threshold| now.since(entry.arrived) > threshold) {
                tally.try_mark(&mut entry.packet);
            }
            return Some(entry);
        }
    }

    fn take_off(&mut self, from_new: bool) {
        if from_new {
            self.new.pop_front()
        } else {
            self.old.pop_front()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Buffer;
    use crate::link::testing::{Packet, packet};

    const CONFIG: FqConfig = FqConfig { flow_limit: 100, quantum: 3028, initial_quantum: 15_140, ce_threshold: None };

    fn queue(config: FqConfig) -> (Fq<Packet>, Tally) {
        (Fq::new(config, Rng::new(3)), Tally::default())
    }

    fn of_flow(flow: u32) -> Entry<Packet> {
        Entry { packet: Packet { flow, ect: true, ..packet(1514) }, arrived: Time::ZERO }
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::millis(millis)
    }

    #[test]
    fn a_flow_starts_with_ten_packets_and_then_takes_turns_of_two() {
        let (mut fq, mut tally) = queue(CONFIG);
        for flow in [1, 2] {
            for _ in 0..16 {
                fq.enqueue(at(0), of_flow(flow), Limit::NONE, &mut tally);
            }
        }
        let order: Vec<u32> = std::iter::from_fn(|| fq.dequeue(at(0), &mut tally)).map(|e| e.packet.flow).collect();
        let expected = [&[1; 10][..], &[2; 10], &[1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2]].concat();
        assert_eq!(order, expected);
        assert_eq!((fq.len(), fq.bytes()), (0, 0));
    }

    #[test]
    fn a_full_flow_drops_its_own_arrivals_alone() {
        let (mut fq, mut tally) = queue(CONFIG);
        for _ in 0..100 {
            assert_eq!(fq.enqueue(at(0), of_flow(1), Limit::NONE, &mut tally), Verdict::Queued);
        }
        assert_eq!(fq.enqueue(at(0), of_flow(1), Limit::NONE, &mut tally), Verdict::Dropped);
        assert_eq!(fq.enqueue(at(0), of_flow(2), Limit::NONE, &mut tally), Verdict::Queued);
        let limit = Limit::of(Buffer::Packets(101));
        assert_eq!(fq.enqueue(at(0), of_flow(3), limit, &mut tally), Verdict::Dropped);
        assert_eq!(tally.stats.drops, 2);
    }

    #[test]
    fn credit_is_refilled_after_an_idle_time_alone() {
        // The time at which flow 1 returns, and the packets that it sends before flow 2 has its turn.
        let burst = |returns: Time| {
            let (mut fq, mut tally) = queue(FqConfig { initial_quantum: 3028, ..CONFIG });
            fq.enqueue(at(0), of_flow(1), Limit::NONE, &mut tally);
            while fq.dequeue(at(1), &mut tally).is_some() {}
            for flow in [1, 1, 1, 2] {
                fq.enqueue(returns, of_flow(flow), Limit::NONE, &mut tally);
            }
            std::iter::from_fn(|| fq.dequeue(returns, &mut tally)).take_while(|e| e.packet.flow == 1).count()
        };
        // Flow 1 was taken off the lists at 1 ms with a credit of one packet; a quantum is two.
        assert_eq!((burst(at(30)), burst(at(42))), (1, 2));
    }

    #[test]
    fn packets_that_waited_longer_than_the_threshold_are_marked() {
        let (mut fq, mut tally) = queue(FqConfig { ce_threshold: Some(Span::millis(5)), ..CONFIG });
        for _ in 0..2 {
            fq.enqueue(at(0), of_flow(1), Limit::NONE, &mut tally);
        }
        let marked = [at(5), at(6)].map(|now| fq.dequeue(now, &mut tally).is_some_and(|entry| entry.packet.ce));
        assert_eq!((marked, tally.stats.marks), ([false, true], 1));
    }
}
