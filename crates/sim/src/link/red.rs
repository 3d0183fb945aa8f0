//! RED: drops or marks with a probability that increases with the average queue.
//! Source: Floyd and Jacobson 1993, §4–7; `tc red`. Differs: idle time as in the paper, not by Linux's table.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rate, Rng, Time};

use super::config::Red as RedConfig;
use super::fifo::{Entry, Fifo, Limit, Tally};
use super::{LinkPacket, Verdict};

/// Packet size by which idle time is converted to packets. Source: `tc red` `avpkt`, its customary value.
const IDLE_PACKET_BYTES: u64 = 1000;

/// A RED queue.
#[derive(Clone, Debug)]
pub(super) struct Red<P> {
    config: RedConfig,
    fifo: Fifo<P>,
    rng: Rng,
    /// Average queue in bytes.
    average: f64,
    /// Weight of the newest sample.
    weight: f64,
    /// Packets since the last mark while the average requires marks; `None` below `min` and after a forced mark.
    count: Option<u32>,
    /// Spacing drawn for the next mark, uniform in 0..1: a mark is due at `count·probability`.
    spacing: f64,
    /// Time at which the queue became empty.
    idle_since: Option<Time>,
}

/// Marking required by the average queue.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RedDecision {
    None,
    Probability(f64),
    All,
}

impl<P: LinkPacket> Red<P> {
    pub fn new(config: RedConfig, rng: Rng) -> Self {
        let weight = 1.0 / (1_u64 << config.wlog.min(31)) as f64;
        Self {
            config,
            fifo: Fifo::new(),
            rng,
            average: 0.0,
            weight,
            count: None,
            spacing: 0.0,
            idle_since: Some(Time::ZERO),
        }
    }

    pub fn fifo(&self) -> &Fifo<P> {
        &self.fifo
    }

    /// Enqueues, marks or drops a packet. `rate` converts idle time to the packets that could have been sent.
    pub fn enqueue(&mut self, now: Time, mut entry: Entry<P>, limit: Limit, rate: Rate, tally: &mut Tally) -> Verdict {
        self.update_average(now, rate);
        let due = self.mark_due();
        let room = self.fifo.has_room(limit, entry.packet.wire_bytes());
        // tc red: with `ecn` and without `harddrop`, marks above `max` are marks too.
        if !room || (due && !(self.config.ecn && tally.try_mark(&mut entry.packet))) {
            tally.stats.drops += 1;
            if self.fifo.is_empty() {
                // The queue stays idle. Otherwise the average would not decay during the silence between two dropped packets.
                self.idle_since = Some(now);
            }
            return Verdict::Dropped;
        }
        self.fifo.push(entry);
        Verdict::Queued
    }

    pub fn dequeue(&mut self, now: Time) -> Option<Entry<P>> {
        let entry = self.fifo.pop();
        if entry.is_none() && self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
        entry
    }

    fn update_average(&mut self, now: Time, rate: Rate) {
        if let Some(since) = self.idle_since.take() {
            let packet_ns = rate.time_for(IDLE_PACKET_BYTES).as_nanos().max(1);
            self.average *= power(1.0 - self.weight, now.since(since).as_nanos() / packet_ns);
        } else {
            self.average += (self.fifo.bytes() as f64 - self.average) * self.weight;
        }
    }

    fn pressure(&self) -> RedDecision {
        let RedConfig { min, max, probability, gentle, .. } = self.config;
        let (min, max, average) = (min as f64, max as f64, self.average);
        if average < min {
            RedDecision::None
        } else if average < max {
            RedDecision::Probability(probability * (average - min) / (max - min))
        } else if gentle && average < 2.0 * max {
            RedDecision::Probability(probability + (1.0 - probability) * (average - max) / max)
        } else {
            RedDecision::All
        }
    }

    /// Decides whether this arrival is to be marked or dropped. Spacing between marks is uniform (the paper's method 2).
    fn mark_due(&mut self) -> bool {
        match self.pressure() {
            RedDecision::None => {
                self.count = None;
                false
            }
            RedDecision::All => {
                self.count = None;
                true
            }
            RedDecision::Probability(probability) => {
                let Some(count) = self.count else {
                    self.draw_spacing();
                    return false;
                };
                self.count = Some(count.saturating_add(1));
                let due = f64::from(count + 1) * probability >= self.spacing;
                if due {
                    self.draw_spacing();
                }
                due
            }
        }
    }

    fn draw_spacing(&mut self) {
        self.count = Some(0);
        self.spacing = (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    }
}

/// Computes `base` to the power of `exponent` by multiplications alone, so that every machine rounds identically.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use bbrlab_core::Span;

    use super::*;
    use crate::link::testing::{Packet, packet};

    const CONFIG: RedConfig =
        RedConfig { min: 30_000, max: 90_000, probability: 0.02, wlog: 2, gentle: false, ecn: false };

    fn with_average(config: RedConfig, average: f64) -> Red<Packet> {
        Red { average, idle_since: None, ..Red::new(config, Rng::new(1)) }
    }

    #[test]
    fn pressure_rises_from_min_to_max_and_then_takes_all() {
        let at = |average| with_average(CONFIG, average).pressure();
        assert_eq!(at(29_999.0), RedDecision::None);
        assert_eq!(at(60_000.0), RedDecision::Probability(0.01));
        assert_eq!(at(90_000.0), RedDecision::All);
    }

    #[test]
    fn gentle_red_rises_to_one_at_twice_max() {
        let at = |average| with_average(RedConfig { gentle: true, ..CONFIG }, average).pressure();
        assert_eq!(at(90_000.0), RedDecision::Probability(0.02));
        assert_eq!(at(135_000.0), RedDecision::Probability(0.51));
        assert_eq!(at(180_000.0), RedDecision::All);
    }

    #[test]
    fn marks_are_spaced_uniformly_up_to_one_over_the_probability() {
        let mut red = with_average(CONFIG, 60_000.0);
        let marks: Vec<u64> = (0..500_000_u64).filter(|_| red.mark_due()).collect();
        let gaps: Vec<u64> = marks.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!(gaps.iter().all(|gap| (1..=100).contains(gap)), "{:?}", gaps.iter().max());
        assert!(gaps.contains(&1) && gaps.contains(&100));
        assert!((mean - 50.5).abs() < 1.2, "mean gap {mean}");
    }

    #[test]
    fn idle_time_lets_the_average_fall_as_if_small_packets_had_left() {
        let mut red = with_average(CONFIG, 64_000.0);
        assert!(red.dequeue(Time::ZERO).is_none());
        // Two packets of 1000 bytes at 8 Mbit/s; each leaves 3/4 of the average.
        red.update_average(Time::nanos(2_000_000), Rate::bits_per_sec(8_000_000));
        assert_eq!(red.average, 36_000.0);
    }

    /// Trap: an average above `max` dropped every packet of two flows for half a minute, one timeout after another.
    #[test]
    fn an_empty_queue_goes_on_forgetting_while_it_drops_what_comes() {
        let mut red = with_average(RedConfig { wlog: 9, ..CONFIG }, 200_000.0);
        assert!(red.dequeue(Time::ZERO).is_none());
        let mut tally = Tally::default();
        let mut offer = |ms: u64| {
            let entry = Entry { packet: packet(1500), arrived: Time::ZERO };
            red.enqueue(Time::ZERO + Span::millis(ms), entry, Limit::NONE, Rate::bits_per_sec(8_000_000), &mut tally)
        };
        // Each drop stands for 200 packets and leaves e^(-200/512) of the average.
        let verdicts = [200, 400, 600].map(&mut offer);
        assert_eq!(verdicts, [Verdict::Dropped, Verdict::Dropped, Verdict::Queued]);
    }

    #[test]
    fn ecn_marks_capable_packets_and_drops_others() {
        let mut red = with_average(RedConfig { ecn: true, ..CONFIG }, 1e9);
        let mut tally = Tally::default();
        let mut offer = |ect| {
            let entry = Entry { packet: Packet { ect, ..packet(1500) }, arrived: Time::ZERO };
            red.enqueue(Time::ZERO, entry, Limit::NONE, Rate::bits_per_sec(1), &mut tally)
        };
        assert_eq!((offer(true), offer(false)), (Verdict::Queued, Verdict::Dropped));
        assert_eq!((tally.stats.marks, tally.stats.drops), (1, 1));
        assert!(red.dequeue(Time::ZERO).is_some_and(|entry| entry.packet.ce));
    }
}
