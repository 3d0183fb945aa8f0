//! ACK aggregation as in Wi-Fi, cable and cellular schedulers: ACKs are held back, then released together.
//! Their order is kept and none is lost.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::{Span, Time};

use super::config::AckAggregation;

/// Longest wait of an ACK that is held by volume. Value: [`AckAggregation::Bytes`]; ours.
const LONGEST: Span = Span::millis(200);

/// Holds the ACKs of one flow.
#[derive(Clone, Debug)]
pub struct AckHold<T> {
    mode: AckAggregation,
    /// Items with their release times. The last `batch` of them wait for `release` together.
    held: VecDeque<(Time, T)>,
    batch: usize,
    release: Time,
    batch_bytes: u64,
}

impl<T> AckHold<T> {
    /// Creates an empty hold.
    pub fn new(mode: AckAggregation) -> Self {
        Self { mode, held: VecDeque::new(), batch: 0, release: Time::ZERO, batch_bytes: 0 }
    }

    /// True if it never holds anything, so that a host may bypass it.
    pub fn is_none(&self) -> bool {
        self.mode == AckAggregation::None
    }

    /// Accepts an item that acknowledges `bytes_acked` at `now`. An item that arrives at the moment of a release begins the next batch.
    pub fn push(&mut self, now: Time, item: T, bytes_acked: u64) {
        if self.batch == 0 || now >= self.release {
            self.batch = 0;
            self.batch_bytes = 0;
            self.release = now
                + match self.mode {
                    AckAggregation::None => Span::ZERO,
                    AckAggregation::Time(span) => span,
                    AckAggregation::Bytes(_) => LONGEST,
                };
        }
        self.batch += 1;
        self.batch_bytes = self.batch_bytes.saturating_add(bytes_acked);
        self.held.push_back((self.release, item));
        if matches!(self.mode, AckAggregation::Bytes(enough) if self.batch_bytes >= enough) {
            // Each item is updated once more, at its release.
            let waiting = self.batch.min(self.held.len());
            self.held.iter_mut().rev().take(waiting).for_each(|(release, _)| *release = now);
            self.batch = 0;
        }
    }

    /// Release time of the next item; [`Time::NEVER`] when none is held.
    pub fn next(&self) -> Time {
        self.held.front().map_or(Time::NEVER, |&(release, _)| release)
    }

    /// Removes the next item released by `now` and returns it with its release time.
    pub fn pop(&mut self, now: Time) -> Option<(Time, T)> {
        if self.next() > now { None } else { self.held.pop_front() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(hold: &mut AckHold<u32>) -> Vec<(Time, u32)> {
        std::iter::from_fn(|| hold.pop(Time::NEVER)).collect()
    }

    #[test]
    fn acks_within_the_span_of_the_first_leave_together_in_order() {
        let mut hold = AckHold::new(AckAggregation::Time(Span::nanos(100)));
        hold.push(Time::nanos(10), 1, 1448);
        hold.push(Time::nanos(60), 2, 1448);
        hold.push(Time::nanos(109), 3, 1448);
        assert_eq!(hold.next(), Time::nanos(110));
        assert_eq!(hold.pop(Time::nanos(109)), None);
        assert_eq!(all(&mut hold), [(Time::nanos(110), 1), (Time::nanos(110), 2), (Time::nanos(110), 3)]);
    }

    #[test]
    fn an_ack_at_the_moment_of_release_begins_the_next_batch() {
        let mut hold = AckHold::new(AckAggregation::Time(Span::nanos(100)));
        hold.push(Time::nanos(10), 1, 1448);
        hold.push(Time::nanos(110), 2, 1448);
        assert_eq!(all(&mut hold), [(Time::nanos(110), 1), (Time::nanos(210), 2)]);
    }

    #[test]
    fn acks_for_enough_bytes_leave_at_once() {
        let mut hold = AckHold::new(AckAggregation::Bytes(3000));
        hold.push(Time::nanos(1), 1, 1448);
        hold.push(Time::nanos(2), 2, 1448);
        assert_eq!(hold.next(), Time::nanos(1) + LONGEST);
        hold.push(Time::nanos(3), 3, 1448);
        hold.push(Time::nanos(4), 4, 1448);
        assert_eq!(
            all(&mut hold),
            [(Time::nanos(3), 1), (Time::nanos(3), 2), (Time::nanos(3), 3), (Time::nanos(4) + LONGEST, 4)]
        );
    }

    #[test]
    fn acks_for_too_few_bytes_leave_after_200_ms() {
        let mut hold = AckHold::new(AckAggregation::Bytes(1 << 20));
        hold.push(Time::nanos(1), 1, 1448);
        hold.push(Time::nanos(2), 2, 1448);
        assert_eq!(all(&mut hold), [(Time::nanos(200_000_001), 1), (Time::nanos(200_000_001), 2)]);
    }

    #[test]
    fn no_aggregation_releases_at_once() {
        let mut hold = AckHold::new(AckAggregation::None);
        assert!(hold.is_none());
        hold.push(Time::nanos(5), 1, 1448);
        assert_eq!(hold.pop(Time::nanos(5)), Some((Time::nanos(5), 1)));
    }
}
