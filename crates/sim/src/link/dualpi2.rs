//! DualPI2: a shallow queue for L4S traffic beside a classic one, coupled so that flows of both get similar rates.
//! Source: RFC 9332; parameters, order of the steps and scheduler as in Linux `sch_dualpi2` (6.17 and later). Probabilities are
//! floats here and 32-bit fractions there.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::{Rng, Span, Time};

use super::config::DualPi2 as DualPi2Config;
use super::fifo::{Entry, Fifo, Limit, Tally};
use super::loss::{happens, threshold};
use super::{LinkPacket, Verdict};

/// Packet size in the scheduler's initial credit and in the exemption of short queues. Source: Linux `psched_mtu`.
const MTU_BYTES: u64 = 1514;
/// Backlog of both queues below which the controller marks and drops nothing. Source: Linux `must_drop`.
const SPARED_BYTES: u64 = 2 * MTU_BYTES;

/// The pair of queues.
#[derive(Clone, Debug)]
pub(super) struct DualPi2<P> {
    config: DualPi2Config,
    l4s: Fifo<P>,
    /// Of each packet in the L queue, whether the step applies to it.
    takes_step: VecDeque<bool>,
    classic: Fifo<P>,
    rng: Rng,
    /// Base probability p'.
    probability: f64,
    /// Larger of both queues' delays at the last update.
    delay_before: Span,
    next_update: Time,
    /// Weighted bytes that the L queue is ahead; at most 0, the L queue is next.
    credit: i64,
}

impl<P: LinkPacket> DualPi2<P> {
    pub fn new(config: DualPi2Config, rng: Rng) -> Self {
        // An update interval of zero would never terminate.
        let config = DualPi2Config { tupdate: config.tupdate.max(Span::micros(1)), ..config };
        let mut own = Self {
            config,
            l4s: Fifo::new(),
            takes_step: VecDeque::new(),
            classic: Fifo::new(),
            rng,
            probability: 0.0,
            delay_before: Span::ZERO,
            next_update: Time::ZERO + config.tupdate,
            credit: 0,
        };
        own.reset_credit();
        own
    }

    /// Number of waiting packets.
    pub fn len(&self) -> usize {
        self.l4s.len() + self.classic.len()
    }

    /// Bytes of the waiting packets.
    pub fn bytes(&self) -> u64 {
        self.l4s.bytes() + self.classic.bytes()
    }

    pub fn enqueue(&mut self, now: Time, entry: Entry<P>, limit: Limit, tally: &mut Tally) -> Verdict {
        self.update_until(now);
        let has_room = (self.len() as u64) < limit.packets
            && self.bytes().saturating_add(u64::from(entry.packet.wire_bytes())) <= limit.bytes;
        if !has_room {
            tally.stats.drops += 1;
            return Verdict::Dropped;
        }
        if entry.packet.is_l4s() {
            self.takes_step.push_back(self.l4s.len() >= self.config.min_qlen_step as usize);
            self.l4s.push(entry)
        } else {
            self.classic.push(entry)
        }
        Verdict::Queued
    }

    pub fn dequeue(&mut self, now: Time, tally: &mut Tally) -> Option<Entry<P>> {
        self.update_until(now);
        // Bounded by the waiting packets: each iteration but the last drops one.
        loop {
            let (mut entry, is_l4s, credit) = self.next()?;
            let takes_step = is_l4s && self.takes_step.pop_front() == Some(true);
            let marks = tally.stats.marks;
            if self.is_dropped(&mut entry.packet, is_l4s, tally) {
                tally.drop_queued(&entry.packet);
                continue;
            }
            self.credit += credit;
            let is_marked = tally.stats.marks > marks;
            let is_late = takes_step && !is_marked && now.since(entry.arrived) > self.config.step;
            if is_late && !tally.try_mark(&mut entry.packet) {
                tally.drop_queued(&entry.packet);
                continue;
            }
            return Some(entry);
        }
    }

    const fn reset_credit(&mut self) {
        let classic = self.config.classic_percent as i64;
        self.credit = MTU_BYTES as i64 * (classic - (100 - classic));
    }

    /// Takes the next packet, with the queue's name and the change of credit if it is sent.
    // spec: Linux dequeue_packet
    fn next(&mut self) -> Option<(Entry<P>, bool, i64)> {
        let classic_weight = i64::from(self.config.classic_percent);
        if !self.l4s.is_empty() && (self.classic.is_empty() || self.credit <= 0) {
            let entry = self.l4s.pop()?;
            let credit =
                if self.classic.is_empty() { 0 } else { classic_weight * i64::from(entry.packet.wire_bytes()) };
            return Some((entry, true, credit));
        }
        let Some(entry) = self.classic.pop() else {
            self.reset_credit();
            return None;
        };
        let weight = 100 - classic_weight;
        let credit = if self.l4s.is_empty() { 0 } else { -weight * i64::from(entry.packet.wire_bytes()) };
        Some((entry, false, credit))
    }

    /// Marks the packet or returns true to drop it, by the controller's probability.
    // spec: Linux must_drop
    fn is_dropped(&mut self, packet: &mut P, is_l4s: bool, tally: &mut Tally) -> bool {
        if self.bytes() < SPARED_BYTES {
            return false;
        }
        let coupled = self.config.coupling * self.probability;
        let overload = coupled > 1.0;
        if !is_l4s {
            return self.happens_twice() && (overload || !tally.try_mark(packet));
        }
        if overload {
            return self.happens_twice() || !tally.try_mark(packet);
        }
        happens(threshold(coupled), &mut self.rng) && !tally.try_mark(packet)
    }

    /// True with the square of the base probability.
    fn happens_twice(&mut self) -> bool {
        let once = threshold(self.probability);
        happens(once, &mut self.rng) && happens(once, &mut self.rng)
    }

    /// Catches up on the updates due by `now`; the queues have not changed since the last one.
    fn update_until(&mut self, now: Time) {
        while self.next_update <= now {
            if self.len() == 0 && self.probability == 0.0 && self.delay_before == Span::ZERO {
                let missed = now.since(self.next_update).as_nanos() / self.config.tupdate.as_nanos() + 1;
                self.next_update += Span::nanos(missed.saturating_mul(self.config.tupdate.as_nanos()));
                return;
            }
            self.update(self.next_update);
            self.next_update += self.config.tupdate;
        }
    }

    /// One step of the controller: the delay is the age of the older of both queues' heads.
    // spec: RFC 9332 Appendix A, Linux calculate_probability
    fn update(&mut self, now: Time) {
        let age = |fifo: &Fifo<P>| fifo.head().map_or(Span::ZERO, |entry| now.since(entry.arrived));
        let delay = age(&self.l4s).max(age(&self.classic));
        let (target, now_s, before_s) = (seconds(self.config.target), seconds(delay), seconds(self.delay_before));
        let step = self.config.alpha * (now_s - target) + self.config.beta * (now_s - before_s);
        self.probability = (self.probability + step).clamp(0.0, 1.0);
        self.delay_before = delay;
    }
}

fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::testing::{Packet, packet};

    const CONFIG: DualPi2Config = DualPi2Config {
        target: Span::millis(15),
        tupdate: Span::millis(16),
        alpha: 0.16,
        beta: 3.2,
        coupling: 2.0,
        step: Span::millis(1),
        min_qlen_step: 0,
        classic_percent: 10,
    };

    fn at_ms(ms: u64) -> Time {
        Time::ZERO + Span::millis(ms)
    }

    fn queue() -> DualPi2<Packet> {
        DualPi2::new(CONFIG, Rng::new(1))
    }

    fn entry(is_l4s: bool, at: Time) -> Entry<Packet> {
        Entry { packet: Packet { ect: is_l4s, l4s: is_l4s, ..packet(1514) }, arrived: at }
    }

    #[test]
    fn with_both_queues_full_the_l_queue_gets_nine_packets_of_ten() {
        let (mut queue, mut tally) = (queue(), Tally::default());
        for _ in 0..400 {
            queue.enqueue(Time::ZERO, entry(true, Time::ZERO), Limit::NONE, &mut tally);
            queue.enqueue(Time::ZERO, entry(false, Time::ZERO), Limit::NONE, &mut tally);
        }
        let sent = (0..300).filter_map(|_| queue.dequeue(Time::ZERO, &mut tally));
        let l4s = sent.filter(|entry| entry.packet.l4s).count();
        assert!((268..=280).contains(&l4s), "{l4s}");
    }

    #[test]
    fn a_packet_that_both_the_controller_and_the_step_mark_counts_once() {
        let (mut queue, mut tally) = (queue(), Tally::default());
        queue.probability = 0.5; // the coupled probability is 1
        (0..20).for_each(|_| {
            queue.enqueue(Time::ZERO, entry(true, Time::ZERO), Limit::NONE, &mut tally);
        });
        queue.next_update = Time::NEVER;
        let marked =
            (0..10).filter_map(|_| queue.dequeue(at_ms(2), &mut tally)).filter(|entry| entry.packet.ce).count();
        assert_eq!((marked, tally.stats.marks), (10, 10));
    }

    #[test]
    fn only_a_packet_of_the_l_queue_that_waited_longer_than_the_step_is_marked() {
        let (mut queue, mut tally) = (queue(), Tally::default());
        let later = Time::ZERO + Span::micros(1_001);
        queue.enqueue(Time::ZERO, entry(true, Time::ZERO), Limit::NONE, &mut tally);
        queue.enqueue(Time::ZERO, entry(true, Time::ZERO + Span::micros(1)), Limit::NONE, &mut tally);
        queue.enqueue(Time::ZERO, entry(false, Time::ZERO), Limit::NONE, &mut tally);
        let marked: Vec<bool> = (0..3).map(|_| queue.dequeue(later, &mut tally).unwrap().packet.ce).collect();
        assert_eq!(marked, [true, false, false]);
    }

    /// Source: Linux `min_qlen_step`.
    #[test]
    fn the_step_spares_packets_that_found_a_short_queue() {
        let (mut queue, mut tally) = (queue(), Tally::default());
        (queue.config.min_qlen_step, queue.next_update) = (2, Time::NEVER);
        for is_l4s in [true, false, true, true, true] {
            queue.enqueue(Time::ZERO, entry(is_l4s, Time::ZERO), Limit::NONE, &mut tally);
        }
        let sent = (0..5).map(|_| queue.dequeue(at_ms(2), &mut tally).unwrap().packet);
        let marked: Vec<bool> = sent.filter(|packet| packet.l4s).map(|packet| packet.ce).collect();
        assert_eq!(marked, [false, false, true, true]);
    }

    #[test]
    fn a_standing_classic_queue_drops_by_the_square_of_what_marks_the_l_queue() {
        let (mut queue, mut tally) = (queue(), Tally::default());
        (queue.probability, queue.next_update) = (0.2, Time::NEVER);
        let mut counts = [0_u32; 2];
        for nth in 0..40_000 {
            let is_l4s = nth % 2 == 0;
            let mut one = entry(is_l4s, Time::ZERO);
            queue.classic.push(entry(false, Time::ZERO));
            queue.classic.push(entry(false, Time::ZERO));
            let is_dropped = queue.is_dropped(&mut one.packet, is_l4s, &mut tally);
            counts[usize::from(!is_l4s)] += u32::from(is_dropped || one.packet.ce);
            queue.classic.pop();
            queue.classic.pop();
        }
        assert!((7_700..=8_300).contains(&counts[0]), "2 × 0.2 of 20,000: {counts:?}");
        assert!((700..=900).contains(&counts[1]), "0.2² of 20,000: {counts:?}");
    }

    #[test]
    fn the_base_probability_follows_the_classic_queues_delay() {
        let (mut queue, mut tally) = (queue(), Tally::default());
        queue.enqueue(Time::ZERO, entry(false, Time::ZERO), Limit::NONE, &mut tally);
        queue.update(Time::ZERO + Span::millis(31));
        // 0.16 × (31 − 15) ms + 3.2 × 31 ms.
        assert!((queue.probability - (0.16 * 0.016 + 3.2 * 0.031)).abs() < 1e-12);
        queue.dequeue(Time::ZERO, &mut tally);
        queue.update(Time::ZERO + Span::millis(47));
        assert!(queue.probability < 0.01);
    }
}
