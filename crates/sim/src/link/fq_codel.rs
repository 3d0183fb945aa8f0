//! FQ-CoDel: one CoDel queue per flow, served in rounds, new flows first.
//! No packet costs an allocation once the queues are warm.
//! Source: RFC 8290 §4; on overflow half of the fattest queue is dropped, at most 64 packets, as in Linux.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::{Rng, Time};

use super::codel::{Control, MTU_BYTES, Source};
use super::config::FqCodel as FqCodelConfig;
use super::fifo::{Entry, Fifo, Limit, Tally};
use super::{LinkPacket, Verdict};

/// Maximum number of packets dropped at once on overflow. Source: Linux `sch_fq_codel`, `drop_batch_size`.
const DROP_BATCH: u32 = 64;

/// An FQ-CoDel queue.
#[derive(Clone, Debug)]
pub(super) struct FqCodel<P> {
    config: FqCodelConfig,
    hash_key: u64,
    queues: Vec<FlowQueue<P>>,
    /// Queues that became active in this round, then those that used up their share; indices into `queues`.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
    bytes: u64,
    max_packet: u32,
}

#[derive(Clone, Debug)]
struct FlowQueue<P> {
    fifo: Fifo<P>,
    control: Control,
    deficit: i64,
    listed: bool,
}

/// One queue as presented to CoDel in Linux: its own packets, but the backlog of all queues.
struct QueueView<'a, P> {
    fifo: &'a mut Fifo<P>,
    packets: &'a mut usize,
    bytes: &'a mut u64,
}

impl<P: LinkPacket> FqCodel<P> {
    /// Creates the queues. `rng` provides the key of the hash, so that collisions depend on the seed.
    pub fn new(config: FqCodelConfig, mut rng: Rng) -> Self {
        let empty = || FlowQueue { fifo: Fifo::new(), control: Control::default(), deficit: 0, listed: false };
        // With a quantum of zero no queue would ever send.
        let config = FqCodelConfig { flows: config.flows.max(1), quantum: config.quantum.max(1), ..config };
        Self {
            config,
            hash_key: rng.next_u64(),
            queues: (0..config.flows).map(|_| empty()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
            max_packet: MTU_BYTES,
        }
    }

    pub fn len(&self) -> usize {
        self.packets
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn enqueue(&mut self, entry: Entry<P>, limit: Limit, tally: &mut Tally) -> Verdict {
        let (flow, wire_bytes) = (entry.packet.flow(), entry.packet.wire_bytes());
        let index = self.bucket(flow);
        let queue = &mut self.queues[index as usize];
        queue.fifo.push(entry);
        if !queue.listed {
            queue.listed = true;
            queue.deficit = self.config.quantum.into();
            self.new.push_back(index);
        }
        self.packets += 1;
        self.bytes += u64::from(wire_bytes);
        self.max_packet = self.max_packet.max(wire_bytes);
        let mut arrival_dropped = false;
        while self.packets as u64 > limit.packets || self.bytes > limit.bytes {
            arrival_dropped |= self.drop_from_fattest(index, arrival_dropped, tally);
        }
        if arrival_dropped { Verdict::Dropped } else { Verdict::Queued }
    }

    pub fn dequeue(&mut self, now: Time, tally: &mut Tally) -> Option<Entry<P>> {
        // A flow whose queue is empty keeps its place and its deficit until its next turn beside a packet of another: a shaper asks
        // a child that holds packets. Source: Linux `htb_dequeue`.
        if self.packets == 0 {
            return None;
        }
        // Bounded: each iteration raises a deficit by a quantum, or removes a queue from a list.
        loop {
            let from_new = !self.new.is_empty();
            let index = *if from_new { self.new.front() } else { self.old.front() }?;
            let queue = &mut self.queues[index as usize];
            if queue.deficit <= 0 {
                queue.deficit += i64::from(self.config.quantum);
                self.take_off(from_new);
                self.old.push_back(index);
                continue;
            }
            let mut source = QueueView { fifo: &mut queue.fifo, packets: &mut self.packets, bytes: &mut self.bytes };
            let entry = queue.control.dequeue(now, &self.config.codel, self.max_packet, &mut source, tally);
            if let Some(entry) = entry {
                queue.deficit -= i64::from(entry.packet.wire_bytes());
                return Some(entry);
            }
            self.take_off(from_new);
            // An empty new queue moves behind the old ones first, so that a flow cannot stay new by pausing.
            if from_new && !self.old.is_empty() {
                self.old.push_back(index);
            } else {
                self.queues[index as usize].listed = false;
            }
        }
    }

    fn take_off(&mut self, from_new: bool) {
        if from_new {
            self.new.pop_front()
        } else {
            self.old.pop_front()
        };
    }

    fn bucket(&self, flow: u32) -> u32 {
        let bits = Rng::new(self.hash_key ^ u64::from(flow)).next_u64();
        ((u128::from(bits) * u128::from(self.config.flows)) >> 64) as u32
    }

    /// Drops from the head of the queue with the most bytes. Returns true if this included the newest packet of queue
    /// `arrival`, whose drop the verdict reports. That packet is not looked for if it is `gone` already.
    fn drop_from_fattest(&mut self, arrival: u32, gone: bool, tally: &mut Tally) -> bool {
        let mut fattest = 0;
        for index in 1..self.queues.len() {
            if self.queues[index].fifo.bytes() > self.queues[fattest].fifo.bytes() {
                fattest = index;
            }
        }
        let queue = &mut self.queues[fattest];
        let enough = queue.fifo.bytes() / 2;
        let (mut dropped, mut dropped_bytes, mut arrival_dropped) = (0, 0, false);
        while dropped < DROP_BATCH && (dropped == 0 || dropped_bytes < enough) {
            let Some(entry) = queue.fifo.pop() else { break };
            dropped += 1;
            dropped_bytes += u64::from(entry.packet.wire_bytes());
            if fattest == arrival as usize && queue.fifo.is_empty() && !gone {
                arrival_dropped = true;
                tally.stats.drops += 1;
            } else {
                tally.drop_queued(&entry.packet);
            }
        }
        queue.control.add_drops(dropped);
        self.packets -= dropped as usize;
        self.bytes -= dropped_bytes;
        arrival_dropped
    }
}

impl<P: LinkPacket> Source<P> for QueueView<'_, P> {
    fn pop(&mut self) -> Option<Entry<P>> {
        let entry = self.fifo.pop()?;
        *self.packets -= 1;
        *self.bytes -= u64::from(entry.packet.wire_bytes());
        Some(entry)
    }

    fn backlog(&self) -> u64 {
        *self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::testing::{Packet, packet};
    use crate::link::{Buffer, Codel};
    use bbrlab_core::Span;

    const CONFIG: FqCodelConfig = FqCodelConfig {
        codel: Codel {
            target: Span::millis(5),
            interval: Span::millis(100),
            ecn: false,
            ce_threshold: None,
            ce_only_ect_1: false,
        },
        flows: 1024,
        quantum: 1514,
    };

    fn queue() -> FqCodel<Packet> {
        FqCodel::new(CONFIG, Rng::new(3))
    }

    fn of_flow(flow: u32) -> Entry<Packet> {
        Entry { packet: Packet { flow, ..packet(1514) }, arrived: Time::ZERO }
    }

    #[test]
    fn flows_take_turns() {
        let (mut fq, mut tally) = (queue(), Tally::default());
        for flow in [1, 1, 1, 2, 2, 2, 3, 3, 3] {
            fq.enqueue(of_flow(flow), Limit::NONE, &mut tally);
        }
        let order: Vec<u32> =
            std::iter::from_fn(|| fq.dequeue(Time::ZERO, &mut tally)).map(|entry| entry.packet.flow).collect();
        assert_eq!(order, [1, 2, 3, 1, 2, 3, 1, 2, 3]);
    }

    #[test]
    fn a_new_flow_is_served_before_old_flows() {
        let (mut fq, mut tally) = (queue(), Tally::default());
        for _ in 0..10 {
            fq.enqueue(of_flow(1), Limit::NONE, &mut tally);
        }
        for _ in 0..3 {
            fq.dequeue(Time::ZERO, &mut tally);
        }
        fq.enqueue(of_flow(2), Limit::NONE, &mut tally);
        assert_eq!(fq.dequeue(Time::ZERO, &mut tally).map(|entry| entry.packet.flow), Some(2));
    }

    #[test]
    fn a_flow_does_not_stay_new_by_pausing() {
        let (mut fq, mut tally) = (queue(), Tally::default());
        let small = |flow| Entry { packet: Packet { flow, ..packet(200) }, arrived: Time::ZERO };
        for _ in 0..20 {
            fq.enqueue(small(1), Limit::NONE, &mut tally);
        }
        let mut next = |arrival: Option<Entry<Packet>>| {
            arrival.map(|entry| fq.enqueue(entry, Limit::NONE, &mut tally));
            fq.dequeue(Time::ZERO, &mut tally).map(|entry| entry.packet.flow)
        };
        // Flow 1 uses up its quantum of 1514 bytes with eight packets; then flow 2 arrives, is new, and is served once.
        let first: Vec<_> = (0..8).filter_map(|_| next(None)).collect();
        assert_eq!((first, next(Some(small(2)))), (vec![1; 8], Some(2)));
        assert_eq!(next(None), Some(1));
        // Flow 2 paused, so it waits until flow 1 has used its second quantum.
        assert_eq!(next(Some(small(2))), Some(1));
    }

    #[test]
    fn a_flow_keeps_its_deficit_while_all_queues_are_empty() {
        let (mut fq, mut tally) = (queue(), Tally::default());
        let small = Entry { packet: Packet { flow: 1, ..packet(1000) }, arrived: Time::ZERO };
        fq.enqueue(small, Limit::NONE, &mut tally);
        while fq.dequeue(Time::ZERO, &mut tally).is_some() {}
        // 514 bytes are left of flow 1's quantum, so it has one packet before flow 2, which is new, and then gives way.
        for flow in [1, 1, 2] {
            fq.enqueue(of_flow(flow), Limit::NONE, &mut tally);
        }
        let order: Vec<u32> =
            std::iter::from_fn(|| fq.dequeue(Time::ZERO, &mut tally)).map(|entry| entry.packet.flow).collect();
        assert_eq!(order, [1, 2, 1]);
    }

    #[test]
    fn overflow_halves_the_fattest_flow_and_spares_the_others() {
        let (mut fq, mut tally) = (queue(), Tally::default());
        let limit = Limit::of(Buffer::Packets(20));
        for _ in 0..20 {
            fq.enqueue(of_flow(1), limit, &mut tally);
        }
        assert_eq!(fq.enqueue(of_flow(2), limit, &mut tally), Verdict::Queued);
        assert_eq!(tally.dropped, [1; 10]);
        assert_eq!(fq.len(), 11);
    }

    #[test]
    fn an_arrival_that_is_itself_the_fattest_queue_is_told_by_its_verdict_alone() {
        let (mut fq, mut tally) = (queue(), Tally::default());
        let verdict = fq.enqueue(of_flow(1), Limit::of(Buffer::Bytes(100)), &mut tally);
        assert_eq!((verdict, tally.stats.drops, fq.len()), (Verdict::Dropped, 1, 0));
        assert!(tally.dropped.is_empty());
    }

    #[test]
    fn another_seed_hashes_flows_into_other_buckets() {
        let (a, b) = (queue(), FqCodel::<Packet>::new(CONFIG, Rng::new(4)));
        assert!((0..100).any(|flow| a.bucket(flow) != b.bucket(flow)));
        assert!((0..10_000).all(|flow| a.bucket(flow) < 1024));
    }
}
