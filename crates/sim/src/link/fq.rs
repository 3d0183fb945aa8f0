//! Fair queueing without an AQM: one first-in-first-out queue per flow, served by deficit round robin, new flows first, in three
//! bands of priority.
//! Source: Linux 6.12 `sch_fq` on a router, where nothing is paced and flows are told apart by a hash.
//!
//! Differs: Linux forgets flows that were idle for 3 s when there are many. Here flows are kept.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::{Rng, Span, Time};

use super::config::{FlowClass, Fq as FqConfig};
use super::fifo::{Entry, Fifo, Limit, Tally};
use super::{LinkPacket, Verdict};

/// Number of hash buckets. Source: Linux `sch_fq`, `orphan_mask` 1023.
const BUCKETS: u32 = 1024;
/// Idle time after which a flow may send a quantum at once. Source: Linux `sch_fq`, `flow_refill_delay`.
const REFILL_DELAY: Span = Span::millis(40);
/// Bytes that each band may send per round. Source: Linux `sch_fq`, `TCA_FQ_WEIGHTS`.
const BAND_QUANTA: [i64; 3] = [9 << 16, 3 << 16, 1 << 16];
/// Largest number of packets on the fast path, open while all flows' queues are empty. Source: Linux `fq_fastpath_check`.
const PASSING_MAX: usize = 8;

/// Band of a DSCP.
// spec: Linux ip_tos2prio (the lower three bits of the DSCP), sch_default_prio2band
const fn band_of(dscp: u8) -> usize {
    match dscp & 7 {
        2 | 3 => 2,
        4 | 5 => 0,
        _ => 1,
    }
}

/// The queues.
#[derive(Clone, Debug)]
pub(super) struct Fq<P> {
    config: FqConfig,
    hash_key: u64,
    queues: Vec<FlowQueue<P>>,
    bands: [Band; 3],
    /// Band that is being served.
    served: usize,
    /// Packets on the fast path, served first. Source: Linux `internal`.
    passing: Fifo<P>,
    /// Flow queues that hold packets.
    occupied: u32,
    packets: usize,
    bytes: u64,
}

/// Queues of a band that became active, then those that used up their credit; indices into the queues.
#[derive(Clone, Debug, Default)]
struct Band {
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    credit: i64,
    packets: u64,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct FlowQueue<P> {
    fifo: Fifo<P>,
    credit: i64,
    /// Band of its newest packet.
    band: usize,
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
        let empty = || FlowQueue { fifo: Fifo::new(), credit, band: 0, listed: false, idle_since: Time::ZERO };
        Self {
            config,
            hash_key: rng.next_u64(),
            queues: (0..BUCKETS).map(|_| empty()).collect(),
            bands: Default::default(),
            served: 0,
            passing: Fifo::new(),
            occupied: 0,
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

    fn band(&self, packet: &P) -> usize {
        band_of(packet.dscp().unwrap_or_else(|| FlowClass::of(&self.config.flows, packet.flow()).dscp))
    }

    // spec: Linux fq_enqueue, fq_fastpath_check
    pub fn enqueue(&mut self, now: Time, entry: Entry<P>, limit: Limit, tally: &mut Tally) -> Verdict {
        let (flow, wire_bytes) = (entry.packet.flow(), u64::from(entry.packet.wire_bytes()));
        let band = self.band(&entry.packet);
        // The limit holds for each band. Packets on the fast path count in none.
        if self.bands[band].packets >= limit.packets || self.bands[band].bytes + wire_bytes > limit.bytes {
            tally.stats.drops += 1;
            return Verdict::Dropped;
        }
        if self.occupied == 0 && self.passing.len() < PASSING_MAX {
            self.passing.push(entry);
        } else {
            let bits = Rng::new(self.hash_key ^ u64::from(flow)).next_u64();
            let index = (bits % u64::from(BUCKETS)) as u32;
            let queue = &mut self.queues[index as usize];
            if queue.fifo.len() >= self.config.flow_limit as usize {
                tally.stats.drops += 1;
                return Verdict::Dropped;
            }
            if !queue.listed {
                queue.listed = true;
                // It is listed in the band of its last packet, at first in the highest.
                self.bands[queue.band].new.push_back(index);
                if now.since(queue.idle_since) > REFILL_DELAY {
                    queue.credit = queue.credit.max(self.config.quantum.into());
                }
            }
            queue.band = band;
            self.bands[band].packets += 1;
            self.bands[band].bytes += wire_bytes;
            self.occupied += u32::from(queue.fifo.is_empty());
            queue.fifo.push(entry);
        }
        self.packets += 1;
        self.bytes += wire_bytes;
        Verdict::Queued
    }

    // spec: Linux fq_dequeue
    pub fn dequeue(&mut self, now: Time, tally: &mut Tally) -> Option<Entry<P>> {
        // As in Linux, an empty discipline returns at once: its flows stay listed and keep their credits.
        if self.packets == 0 {
            return None;
        }
        let entry = match self.passing.pop() {
            Some(entry) => entry,
            None => self.dequeue_in_turn(now, tally),
        };
        self.packets -= 1;
        self.bytes -= u64::from(entry.packet.wire_bytes());
        Some(entry)
    }

    /// Takes the next packet from the flows' queues. They must not all be empty.
    fn dequeue_in_turn(&mut self, now: Time, tally: &mut Tally) -> Entry<P> {
        // Bounded: each iteration raises the credit of a queue or of a band, or removes a queue from a list.
        loop {
            let served = &mut self.bands[self.served];
            let from_new = !served.new.is_empty();
            let list = if from_new { &mut served.new } else { &mut served.old };
            let Some(&index) = list.front().filter(|_| served.credit > 0) else {
                self.serve_next_band();
                continue;
            };
            let queue = &mut self.queues[index as usize];
            if queue.credit <= 0 {
                queue.credit += i64::from(self.config.quantum);
                list.pop_front();
                self.bands[queue.band].old.push_back(index);
                continue;
            }
            let Some(mut entry) = queue.fifo.pop() else {
                list.pop_front();
                // An empty new queue passes through the old ones first, so that they do not starve.
                if from_new {
                    self.bands[queue.band].old.push_back(index);
                } else {
                    (queue.listed, queue.idle_since) = (false, now);
                }
                continue;
            };
            let wire_bytes = i64::from(entry.packet.wire_bytes());
            queue.credit -= wire_bytes;
            served.credit -= wire_bytes;
            self.occupied -= u32::from(queue.fifo.is_empty());
            let band = self.band(&entry.packet);
            self.bands[band].packets -= 1;
            self.bands[band].bytes -= u64::from(entry.packet.wire_bytes());
            if self.config.ce_threshold.is_some_and(|threshold| now.since(entry.arrived) > threshold) {
                tally.try_mark(&mut entry.packet);
            }
            return entry;
        }
    }

    fn serve_next_band(&mut self) {
        self.served = (self.served + 1) % self.bands.len();
        let (band, quantum) = (&mut self.bands[self.served], BAND_QUANTA[self.served]);
        band.credit = (band.credit + quantum).min(quantum);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::link::Buffer;
    use crate::link::testing::{Packet, packet};

    fn config() -> FqConfig {
        FqConfig { flow_limit: 100, quantum: 3028, initial_quantum: 15_140, ce_threshold: None, flows: [].into() }
    }

    /// An FQ whose fast path is full, with packets of flow 0.
    fn queue(config: FqConfig) -> (Fq<Packet>, Tally) {
        let (mut fq, mut tally) = (Fq::new(config, Rng::new(3)), Tally::default());
        fill(&mut fq, 0, PASSING_MAX, &mut tally);
        (fq, tally)
    }

    fn of_flow(flow: u32) -> Entry<Packet> {
        Entry { packet: Packet { flow, ect: true, ..packet(1514) }, arrived: Time::ZERO }
    }

    fn fill(fq: &mut Fq<Packet>, flow: u32, packets: usize, tally: &mut Tally) {
        for _ in 0..packets {
            assert_eq!(fq.enqueue(at(0), of_flow(flow), Limit::NONE, tally), Verdict::Queued);
        }
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::millis(millis)
    }

    /// Flows of the next packets.
    fn take(fq: &mut Fq<Packet>, now: Time, packets: usize, tally: &mut Tally) -> Vec<u32> {
        std::iter::from_fn(|| fq.dequeue(now, tally)).take(packets).map(|entry| entry.packet.flow).collect()
    }

    #[test]
    fn a_flow_starts_with_ten_packets_and_then_takes_turns_of_two() {
        let (mut fq, mut tally) = queue(config());
        for flow in [1, 2] {
            fill(&mut fq, flow, 16, &mut tally);
        }
        let expected = [&[0; 8][..], &[1; 10], &[2; 10], &[1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2]].concat();
        assert_eq!(take(&mut fq, at(0), 100, &mut tally), expected);
        assert_eq!((fq.len(), fq.bytes()), (0, 0));
    }

    #[test]
    fn a_full_flow_drops_its_own_arrivals_alone() {
        let (mut fq, mut tally) = queue(config());
        fill(&mut fq, 1, 100, &mut tally);
        assert_eq!(fq.enqueue(at(0), of_flow(1), Limit::NONE, &mut tally), Verdict::Dropped);
        fill(&mut fq, 2, 1, &mut tally);
        let limit = Limit::of(Buffer::Packets(101));
        assert_eq!(fq.enqueue(at(0), of_flow(3), limit, &mut tally), Verdict::Dropped);
        assert_eq!(tally.stats.drops, 2);
    }

    /// On Linux's fast path packets use no credit, and no limit of a flow holds.
    #[test]
    fn the_first_packets_pass_by_the_queues() {
        let mut tally = Tally::default();
        let mut fq = Fq::new(FqConfig { flow_limit: 1, initial_quantum: 1514, ..config() }, Rng::new(3));
        fill(&mut fq, 1, PASSING_MAX + 1, &mut tally);
        assert_eq!(fq.enqueue(at(0), of_flow(1), Limit::NONE, &mut tally), Verdict::Dropped);
        fill(&mut fq, 2, 1, &mut tally);
        // Flow 1 still has its credit of one packet.
        assert_eq!(take(&mut fq, at(0), 100, &mut tally), [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
    }

    #[test]
    fn credit_is_refilled_after_an_idle_time_alone() {
        // Packets that flow 1 sends when it returns, before flow 2 has its turn.
        let returns_after = |millis: u64| {
            let (mut fq, mut tally) = queue(FqConfig { initial_quantum: 3028, ..config() });
            fill(&mut fq, 1, 1, &mut tally);
            fill(&mut fq, 2, 40, &mut tally);
            take(&mut fq, at(1), PASSING_MAX + 10, &mut tally);
            for _ in 0..3 {
                fq.enqueue(at(1 + millis), of_flow(1), Limit::NONE, &mut tally);
            }
            take(&mut fq, at(1 + millis), 10, &mut tally).iter().take_while(|flow| **flow == 1).count()
        };
        // Flow 1 was taken off the lists at 1 ms with a credit of one packet; a quantum is two.
        assert_eq!((returns_after(40), returns_after(41)), (1, 2));
    }

    /// An empty discipline takes no flow off the lists.
    #[test]
    fn a_flow_whose_last_packet_emptied_the_queues_gets_no_new_credit() {
        let (mut fq, mut tally) = queue(FqConfig { initial_quantum: 3028, ..config() });
        fill(&mut fq, 1, 1, &mut tally);
        assert_eq!(take(&mut fq, at(1), 100, &mut tally).len(), PASSING_MAX + 1);
        fill(&mut fq, 0, PASSING_MAX, &mut tally);
        for flow in [1, 1, 2] {
            fq.enqueue(at(100), of_flow(flow), Limit::NONE, &mut tally);
        }
        take(&mut fq, at(100), PASSING_MAX, &mut tally);
        assert_eq!(take(&mut fq, at(100), 100, &mut tally), [1, 2, 1]);
    }

    /// Linux lists a flow in the band of its last packet; one that had none, in the highest, which is not served at once.
    #[test]
    fn a_flow_s_first_packet_waits_for_the_round_of_the_band_being_served() {
        let (mut fq, mut tally) = queue(FqConfig { flow_limit: 1000, ..config() });
        fill(&mut fq, 1, 400, &mut tally);
        take(&mut fq, at(0), PASSING_MAX + 20, &mut tally);
        let mut before = |tally: &mut Tally| {
            fill(&mut fq, 2, 1, tally);
            take(&mut fq, at(0), 400, tally).iter().position(|flow| *flow == 2)
        };
        // Flow 1 has sent 10 packets in the highest band, and 10 of the 130 that a round allows.
        assert_eq!(before(&mut tally), Some(120));
        assert_eq!((fq.len(), fq.served), (0, 1));
    }

    #[test]
    fn bands_share_by_their_weights_and_follow_the_dscp() {
        assert_eq!([34, 36, 46, 8, 1, 44, 10, 0].map(band_of), [2, 0, 1, 1, 1, 0, 2, 1]);
        let flows = [0, 34, 36, 0].map(|dscp| FlowClass { dscp, host: 0 });
        let (mut fq, mut tally) = queue(FqConfig { flow_limit: 10_000, flows: flows.into(), ..config() });
        for flow in 1..4 {
            fill(&mut fq, flow, 8000, &mut tally);
        }
        let order = take(&mut fq, at(0), 5000, &mut tally);
        let of = |flow| order.iter().filter(|one| **one == flow).count() as f64;
        assert!(
            (of(2) / of(3) - 3.0).abs() < 0.1 && (of(3) / of(1) - 3.0).abs() < 0.3,
            "{} {} {}",
            of(1),
            of(2),
            of(3)
        );
    }

    #[test]
    fn the_limit_holds_for_each_band() {
        let flows: Arc<[FlowClass]> = [0, 0, 36].map(|dscp| FlowClass { dscp, host: 0 }).into();
        for limit in [Buffer::Packets(20), Buffer::Bytes(20 * 1514)].map(Limit::of) {
            let (mut fq, mut tally) = queue(FqConfig { flows: flows.clone(), ..config() });
            fill(&mut fq, 1, 20, &mut tally);
            let verdicts = [1, 2].map(|flow| fq.enqueue(at(0), of_flow(flow), limit, &mut tally));
            assert_eq!(verdicts, [Verdict::Dropped, Verdict::Queued]);
        }
    }

    #[test]
    fn packets_that_waited_longer_than_the_threshold_are_marked() {
        let (mut fq, mut tally) = queue(FqConfig { ce_threshold: Some(Span::millis(5)), ..config() });
        fill(&mut fq, 1, 2, &mut tally);
        take(&mut fq, at(9), PASSING_MAX, &mut tally);
        let marked = [at(5), at(6)].map(|now| fq.dequeue(now, &mut tally).is_some_and(|entry| entry.packet.ce));
        assert_eq!((marked, tally.stats.marks), ([false, true], 1));
    }
}
