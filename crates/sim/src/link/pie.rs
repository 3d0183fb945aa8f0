//! PIE: a proportional-integral controller sets the drop probability of arrivals.
//! Source: RFC 8033 §4, §5.1, §5.4, §5.5. The delay is the queueing delay of the packet sent last (by timestamps, Linux's
//! default), or zero once the queue is empty, so no estimate of the departure rate is needed. Differs: as in Linux `sch_pie`, the
//! delay that spares an arrival is the present one, not that of the last update; the burst allowance falls from one packet sent to
//! the next; only an empty queue loses probability at a delay of zero, 1/64 an update, not 2 %; the probability may pass 1, and
//! then takes longer to fall; and after the largest sum of probabilities every arrival is marked until one is dropped, or the sum
//! overflows.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rng, Span, Time};

use super::codel::MTU_BYTES;
use super::config::Pie as PieConfig;
use super::fifo::{Entry, Fifo, Limit, Tally};
use super::loss::{happens, threshold};
use super::{LinkPacket, Verdict};

/// Probability above which packets are dropped even with ECN. Source: RFC 8033 §5.1.
const MARK_UP_TO: f64 = 0.1;
/// Backlog below which no packet is dropped: two full packets, in bytes. Source: RFC 8033 §4.1; Linux `psched_mtu`.
const SPARED_BELOW: u64 = 2 * MTU_BYTES as u64;
/// Probability, or sum of probabilities, at which Linux's variable overflows. Source: Linux `MAX_PROB`, 2⁵⁶ in 64 bits.
const OVERFLOW: f64 = 256.0;
/// Delay above which an update adds [`EXTREME_STEP`]. Source: Linux `sch_pie`, not in the RFC.
const EXTREME_DELAY: Span = Span::millis(250);
/// Step added above [`EXTREME_DELAY`]. Source: Linux `sch_pie`.
const EXTREME_STEP: f64 = 0.02;
/// Largest step from a probability of 10 % on. Source: RFC 8033 §5.5.
const STEP_CAP: f64 = 0.02;
/// Factor applied to the probability by an update in an idle queue. Source: Linux `sch_pie`; RFC 8033 §4.2 has 0.98.
const IDLE_DECAY: f64 = 1.0 - 1.0 / 64.0;
/// Smallest sum of probabilities between two drops. Source: RFC 8033 §5.4.
const SPREAD_MIN: f64 = 0.85;
/// Largest sum of probabilities between two drops. Source: RFC 8033 §5.4.
const SPREAD_MAX: f64 = 8.5;

/// A PIE queue.
#[derive(Clone, Debug)]
pub(super) struct Pie<P> {
    config: PieConfig,
    fifo: Fifo<P>,
    rng: Rng,
    probability: f64,
    /// Sum of the probabilities of arrivals since the last drop.
    accumulated: f64,
    /// Queueing delay of the packet sent last.
    delay: Span,
    /// The delay at the last update.
    delay_before: Span,
    burst_left: Span,
    /// Time of the last packet sent since the burst allowance began.
    sent_at: Option<Time>,
    next_update: Time,
}

impl<P: LinkPacket> Pie<P> {
    pub fn new(config: PieConfig, rng: Rng) -> Self {
        // An update interval of zero would never terminate.
        let config = PieConfig { tupdate: config.tupdate.max(Span::micros(1)), ..config };
        Self {
            config,
            fifo: Fifo::new(),
            rng,
            probability: 0.0,
            accumulated: 0.0,
            delay: Span::ZERO,
            delay_before: Span::ZERO,
            burst_left: config.max_burst,
            sent_at: None,
            next_update: Time::ZERO + config.tupdate,
        }
    }

    pub fn fifo(&self) -> &Fifo<P> {
        &self.fifo
    }

    pub fn enqueue(&mut self, now: Time, mut entry: Entry<P>, limit: Limit, tally: &mut Tally) -> Verdict {
        self.update_until(now);
        let room = self.fifo.has_room(limit, entry.packet.wire_bytes());
        let markable = self.config.ecn && self.probability <= MARK_UP_TO;
        if !room || (self.drop_early() && !(markable && tally.try_mark(&mut entry.packet))) {
            self.accumulated = 0.0;
            tally.stats.drops += 1;
            return Verdict::Dropped;
        }
        self.fifo.push(entry);
        Verdict::Queued
    }

    pub fn dequeue(&mut self, now: Time) -> Option<Entry<P>> {
        self.update_until(now);
        let entry = self.fifo.pop()?;
        self.delay = if self.fifo.is_empty() { Span::ZERO } else { now.since(entry.arrived) };
        if let Some(before) = self.sent_at.replace(now) {
            self.burst_left = Span::nanos(self.burst_left.as_nanos().saturating_sub(now.since(before).as_nanos()));
        }
        Some(entry)
    }

    fn drop_early(&mut self) -> bool {
        if self.burst_left > Span::ZERO
            || (self.delay.as_nanos() < self.config.target.as_nanos() / 2 && self.probability < 0.2)
            || self.fifo.bytes() < SPARED_BELOW
        {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        if self.accumulated >= OVERFLOW {
            self.accumulated -= OVERFLOW;
        }
        if self.accumulated < SPREAD_MIN {
            return false;
        }
        if self.accumulated >= SPREAD_MAX {
            return true;
        }
        let drop = happens(threshold(self.probability), &mut self.rng);
        if drop {
            self.accumulated = 0.0;
        }
        drop
    }

    /// Catches up on the updates due by `now`; the queue has not changed since the last one.
    fn update_until(&mut self, now: Time) {
        while self.next_update <= now {
            if self.at_rest() {
                let missed = now.since(self.next_update).as_nanos() / self.config.tupdate.as_nanos() + 1;
                self.next_update += Span::nanos(missed.saturating_mul(self.config.tupdate.as_nanos()));
                return;
            }
            self.update();
            self.next_update += self.config.tupdate;
        }
    }

    /// True if another update would change nothing.
    fn at_rest(&self) -> bool {
        self.probability == 0.0
            && self.delay == Span::ZERO
            && self.delay_before == Span::ZERO
            && self.burst_left == self.config.max_burst
            && self.sent_at.is_none()
    }

    fn update(&mut self) {
        let is_idle = self.fifo.is_empty();
        let (target, delay, before) = (seconds(self.config.target), seconds(self.delay), seconds(self.delay_before));
        let mut step = self.config.alpha * (delay - target) + self.config.beta * (delay - before);
        step *= self.scale();
        if self.probability >= 0.1 {
            step = step.min(STEP_CAP);
        }
        if self.delay > EXTREME_DELAY {
            step += EXTREME_STEP;
        }
        self.probability = (self.probability + step).max(0.0);
        if self.probability >= OVERFLOW {
            self.probability = 1.0;
        }
        if is_idle && self.delay == Span::ZERO && self.delay_before == Span::ZERO {
            self.probability *= IDLE_DECAY;
        }
        let half = Span::nanos(self.config.target.as_nanos() / 2);
        if self.probability == 0.0 && self.delay < half && self.delay_before < half {
            (self.burst_left, self.sent_at, self.accumulated) = (self.config.max_burst, None, 0.0);
        }
        self.delay_before = self.delay;
    }

    /// Scale of a step: smaller for small probabilities, to avoid overshooting them. Source: RFC 8033 §4.2.
    fn scale(&self) -> f64 {
        match self.probability {
            p if p < 0.000_001 => 1.0 / 2048.0,
            p if p < 0.000_01 => 1.0 / 512.0,
            p if p < 0.000_1 => 1.0 / 128.0,
            p if p < 0.001 => 1.0 / 32.0,
            p if p < 0.01 => 1.0 / 8.0,
            p if p < 0.1 => 1.0 / 2.0,
            _ => 1.0,
        }
    }
}

fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::testing::{Packet, packet};

    const CONFIG: PieConfig = PieConfig {
        target: Span::millis(15),
        tupdate: Span::millis(15),
        alpha: 0.125,
        beta: 1.25,
        max_burst: Span::millis(150),
        ecn: false,
    };

    /// A PIE after its burst allowance, with 100 packets waiting, whose last two delays were `delay`, at this probability.
    fn under_load(config: PieConfig, probability: f64, delay: Span) -> Pie<Packet> {
        let mut pie = Pie::new(config, Rng::new(1));
        (0..100).for_each(|_| pie.fifo.push(Entry { packet: packet(1500), arrived: Time::ZERO }));
        Pie { probability, delay, delay_before: delay, burst_left: Span::ZERO, ..pie }
    }

    #[test]
    fn steps_follow_the_controller_and_its_auto_tuning() {
        for (probability, scale) in [(0.0, 2048.0), (0.000_05, 128.0), (0.05, 2.0), (0.5, 1.0)] {
            let mut pie = under_load(CONFIG, probability, Span::millis(35));
            pie.delay_before = Span::millis(31);
            pie.update();
            // 0.125·(35 − 15) ms + 1.25·(35 − 31) ms = 7.5 ms.
            let expected = probability + 0.0075 / scale;
            assert!((pie.probability - expected).abs() < 1e-12, "{} for {expected}", pie.probability);
        }
    }

    #[test]
    fn large_probabilities_grow_by_two_percent_at_most_unless_the_delay_is_extreme() {
        let mut pie = under_load(CONFIG, 0.2, Span::millis(240));
        pie.update();
        assert!((pie.probability - 0.22).abs() < 1e-12);
        let mut pie = under_load(CONFIG, 0.2, Span::millis(260));
        pie.update();
        assert!((pie.probability - 0.24).abs() < 1e-12);
    }

    #[test]
    fn a_burst_at_start_passes_untouched_for_150_ms() {
        let mut pie = under_load(CONFIG, 1.0, Span::millis(100));
        pie.burst_left = CONFIG.max_burst;
        // The first packet sent begins the time.
        for ms in (0..150).step_by(10) {
            pie.dequeue(Time::ZERO + Span::millis(ms));
            assert!(!pie.drop_early(), "{ms}");
        }
        pie.dequeue(Time::ZERO + Span::millis(150));
        assert!(pie.drop_early());
    }

    #[test]
    fn short_queues_and_delays_below_half_the_target_are_spared() {
        assert!(!under_load(CONFIG, 0.19, Span::millis(7)).drop_early());
        let mut short = under_load(CONFIG, 1.0, Span::millis(100));
        while short.fifo.len() > 2 {
            short.fifo.pop();
        }
        assert!(!short.drop_early());
    }

    #[test]
    fn drops_are_spread_no_closer_and_no_further_than_the_rfc_allows() {
        let mut pie = under_load(CONFIG, 0.1, Span::millis(20));
        let mut drops = Vec::new();
        for arrival in 0..100_000 {
            if pie.drop_early() {
                pie.accumulated = 0.0; // as `enqueue` does for a packet that it drops
                drops.push(arrival);
            }
        }
        let gaps: Vec<i32> = drops.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (8..=86).contains(gap)), "{:?}", (gaps.iter().min(), gaps.iter().max()));
    }

    #[test]
    fn ecn_marks_up_to_ten_percent_and_drops_above() {
        for (probability, marks) in [(0.1, true), (0.11, false)] {
            let mut pie = under_load(PieConfig { ecn: true, ..CONFIG }, probability, Span::millis(20));
            let mut tally = Tally::default();
            for _ in 0..1000 {
                let entry = Entry { packet: Packet { ect: true, ..packet(1500) }, arrived: Time::ZERO };
                pie.enqueue(Time::ZERO, entry, Limit::NONE, &mut tally);
            }
            assert_eq!((tally.stats.marks > 0, tally.stats.drops > 0), (marks, !marks));
        }
    }

    /// Linux catches only the overflow of its variable.
    #[test]
    fn a_long_delay_raises_the_probability_beyond_one() {
        let mut pie = under_load(CONFIG, 0.99, Span::millis(400));
        (0..10).for_each(|_| pie.update());
        assert!((pie.probability - 1.39).abs() < 1e-9, "{}", pie.probability);
        assert!((0..100).all(|_| pie.drop_early()));
        let mut pie = under_load(CONFIG, 255.99, Span::millis(400));
        pie.update();
        assert!(pie.probability <= 1.0);
    }

    /// Linux resets the sum for a drop alone.
    #[test]
    fn after_the_largest_sum_every_arrival_is_marked_until_one_is_dropped() {
        let mut pie = under_load(PieConfig { ecn: true, ..CONFIG }, 0.05, Span::millis(20));
        pie.accumulated = 8.5;
        let mut tally = Tally::default();
        let mut arrive = |ect| {
            let entry = Entry { packet: Packet { ect, ..packet(1500) }, arrived: Time::ZERO };
            pie.enqueue(Time::ZERO, entry, Limit::NONE, &mut tally);
            (tally.stats.marks, tally.stats.drops)
        };
        assert_eq!([true, true, false, true].map(&mut arrive), [(1, 0), (2, 0), (2, 1), (2, 1)]);
    }

    #[test]
    fn a_sum_that_overflows_ends_the_marks() {
        let mut pie = under_load(PieConfig { ecn: true, ..CONFIG }, 0.05, Span::millis(20));
        pie.accumulated = 255.9;
        assert_eq!([1, 2, 3].map(|_| pie.drop_early()), [true, false, false]);
    }

    #[test]
    fn the_burst_allowance_does_not_fall_in_an_idle_time() {
        let mut pie = Pie::new(CONFIG, Rng::new(1));
        let mut tally = Tally::default();
        for ms in [1, 141] {
            let now = Time::ZERO + Span::millis(ms);
            pie.enqueue(now, Entry { packet: packet(1500), arrived: now }, Limit::NONE, &mut tally);
            pie.dequeue(now);
        }
        assert_eq!(pie.burst_left, CONFIG.max_burst);
    }

    #[test]
    fn an_empty_queue_loses_a_64th_of_its_probability_an_update() {
        // The controller's own step is 0.125·(0 − 15) ms.
        let mut pie = under_load(CONFIG, 0.5, Span::ZERO);
        pie.update();
        assert!((pie.probability - (0.5 - 0.001_875)).abs() < 1e-12);
        let mut pie = Pie { fifo: Fifo::new(), ..under_load(CONFIG, 0.5, Span::ZERO) };
        pie.update();
        assert!((pie.probability - (0.5 - 0.001_875) * 63.0 / 64.0).abs() < 1e-12);
    }

    #[test]
    fn an_idle_queue_resets_the_drop_probability_and_the_burst_allowance() {
        let mut pie = under_load(CONFIG, 0.3, Span::millis(20));
        while pie.dequeue(Time::ZERO).is_some() {}
        pie.update_until(Time::ZERO + Span::secs(1_000_000));
        assert_eq!((pie.probability, pie.burst_left), (0.0, CONFIG.max_burst));
        assert!(pie.next_update > Time::ZERO + Span::secs(1_000_000));
    }
}
