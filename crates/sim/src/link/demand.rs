//! A scheduler that grants rate by backlog, as a cellular base station does.
//! Float powers are avoided, because machines round them differently.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! Rates form a ladder of equal ratios from `min` to `max`; a link starts at `min`. At each multiple of `period` the grant
//! moves one rung. It rises if at least `up_backlog` of drain time (at the rate of that period) was queued throughout the
//! period, and falls if the link was idle at any moment of it. The packet being sent counts in full. An idle link falls one
//! rung per period until it is at `min`, and then rests until a packet arrives.

use bbrlab_core::{NANOS_PER_SEC, Rate, Time};

use super::config::Demand;

/// Maximum number of rungs. Ours: finer than any scheduler's.
const MAX_STEPS: u32 = 10_000;

#[derive(Clone, Debug)]
pub(super) struct Grant {
    config: Demand,
    ladder: Vec<Rate>,
    rung: usize,
    /// Time of the next review of the grant.
    review_at: Time,
    /// Smallest backlog in the current period, bytes.
    lowest: u64,
}

impl Grant {
    /// Creates the grant of a link that has always been idle.
    pub fn new(config: Demand) -> Self {
        let period = config.period.max(bbrlab_core::Span::micros(1));
        let config = Demand { period, ..config };
        Self { config, ladder: ladder(&config), rung: 0, review_at: Time::NEVER, lowest: 0 }
    }

    pub fn rate(&self) -> Rate {
        self.ladder[self.rung]
    }

    /// Time at which [`Self::review`] is due; [`Time::NEVER`] for an idle link at `min`.
    pub fn review_at(&self) -> Time {
        self.review_at
    }

    /// Records that the link became busy at `now`.
    pub fn wake(&mut self, now: Time) {
        if self.review_at == Time::NEVER {
            let period = self.config.period.as_nanos();
            self.review_at = Time::nanos((now.as_nanos() / period + 1).saturating_mul(period));
        }
    }

    /// Records the backlog after a departure.
    pub fn note(&mut self, backlog_bytes: u64) {
        self.lowest = self.lowest.min(backlog_bytes);
    }

    /// Ends a period with this backlog. Returns the rate of the next one.
    pub fn review(&mut self, backlog_bytes: u64) -> Rate {
        if self.lowest == 0 {
            self.rung = self.rung.saturating_sub(1);
        } else if self.drains_slowly() {
            self.rung = (self.rung + 1).min(self.ladder.len() - 1);
        }
        self.lowest = backlog_bytes;
        let rests = backlog_bytes == 0 && self.rung == 0;
        self.review_at = if rests { Time::NEVER } else { self.review_at + self.config.period };
        self.rate()
    }

    fn drains_slowly(&self) -> bool {
        let backlog = u128::from(self.lowest) * 8 * u128::from(NANOS_PER_SEC);
        backlog >= u128::from(self.config.up_backlog.as_nanos()) * u128::from(self.rate().as_bits_per_sec())
    }
}

/// Divides `min` to `max` into `steps` equal ratios, both ends included. The ratio is found by bisection with multiplications
/// alone, so that every machine computes the same integers.
fn ladder(config: &Demand) -> Vec<Rate> {
    let steps = config.steps.clamp(1, MAX_STEPS);
    let (min, max) = (
        config.min.as_bits_per_sec().max(1) as f64,
        config.max.as_bits_per_sec().max(config.min.as_bits_per_sec()).max(1) as f64,
    );
    let top = |ratio: f64| (0..steps).fold(min, |rate, _| rate * ratio);
    let (mut low, mut high) = (1.0_f64, max / min);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if top(middle) < max { low = middle } else { high = middle }
    }
    let mut rate = min;
    let mut rates = Vec::with_capacity(steps as usize + 1);
    for _ in 0..steps {
        rates.push(Rate::bits_per_sec((rate + 0.5) as u64));
        rate *= high;
    }
    rates.push(Rate::bits_per_sec(max as u64));
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_core::Span;

    const CONFIG: Demand = Demand {
        min: Rate::bits_per_sec(1_000_000),
        max: Rate::bits_per_sec(16_000_000),
        steps: 4,
        period: Span::millis(50),
        up_backlog: Span::millis(10),
    };

    #[test]
    fn the_ladder_has_equal_ratios_and_both_ends() {
        let rates: Vec<u64> = Grant::new(CONFIG).ladder.iter().map(|rate| rate.as_bits_per_sec()).collect();
        assert_eq!(rates, [1_000_000, 2_000_000, 4_000_000, 8_000_000, 16_000_000]);
    }

    #[test]
    fn a_sustained_backlog_raises_the_grant_one_step_per_period() {
        let mut grant = Grant::new(CONFIG);
        grant.wake(Time::nanos(1));
        assert_eq!(grant.review_at(), Time::nanos(50_000_000));
        grant.lowest = 1250; // exactly 10 ms at 1 Mbit/s
        assert_eq!(grant.review(2499), grant.ladder[1]);
        // Just less than 10 ms at 2 Mbit/s neither raises nor lowers the grant.
        assert_eq!(grant.review(5000), grant.ladder[1]);
        assert_eq!(grant.review_at(), Time::nanos(150_000_000));
    }

    #[test]
    fn an_empty_queue_within_a_period_lowers_the_grant_by_one_step() {
        let mut grant = Grant { rung: 3, lowest: 100_000, review_at: Time::nanos(50_000_000), ..Grant::new(CONFIG) };
        grant.note(0);
        grant.note(100_000);
        assert_eq!(grant.review(100_000), grant.ladder[2]);
    }

    #[test]
    fn an_idle_link_comes_down_to_min_and_rests() {
        let mut grant = Grant { rung: 2, review_at: Time::nanos(50_000_000), ..Grant::new(CONFIG) };
        grant.review(0);
        assert_ne!(grant.review_at(), Time::NEVER);
        assert_eq!(grant.review(0), CONFIG.min);
        assert_eq!(grant.review_at(), Time::NEVER);
    }

    #[test]
    fn a_ladder_of_one_rate_is_that_rate() {
        let flat = Demand { max: CONFIG.min, steps: 3, ..CONFIG };
        assert!(ladder(&flat).iter().all(|&rate| rate == CONFIG.min));
    }
}
