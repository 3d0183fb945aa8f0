//! Service by a delivery trace: opportunities of 1500 bytes at given times, shared by packets byte by byte.
//! An unused opportunity is lost.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::Arc;

use bbrlab_core::Time;

use super::mahimahi::{DeliveryTrace, OPPORTUNITY_BYTES};

/// Position of a link in its trace.
#[derive(Clone, Debug)]
pub(super) struct Opportunities {
    trace: Arc<DeliveryTrace>,
    /// Next unused opportunity: its number through all repetitions, and its time.
    next: u64,
    next_at: Time,
    /// Bytes left in the opportunity being used; they are lost if no packet waits.
    left: u64,
    /// Bytes that the packet in transit still needs from opportunity `next`, at most the size of one.
    needs: u64,
}

impl Opportunities {
    pub fn new(trace: Arc<DeliveryTrace>) -> Self {
        let next_at = trace.time_of(0);
        Self { trace, next: 0, next_at, left: 0, needs: 0 }
    }

    /// Bytes that could have been sent in 0..=`now`.
    pub fn capacity_bytes(&self, now: Time) -> u64 {
        self.trace.count_until(now).saturating_mul(OPPORTUNITY_BYTES)
    }

    /// First opportunity after `now`, which [`Self::begin`] starts from scratch: the rest of earlier ones is lost.
    pub fn wake(&mut self, now: Time) -> Time {
        if self.next_at <= now {
            self.next = self.trace.count_until(now);
            self.next_at = self.trace.time_of(self.next);
        }
        self.next_at
    }

    /// Time of the next opportunity.
    pub fn next_at(&self) -> Time {
        self.next_at
    }

    /// Begins the opportunity that is due now.
    pub fn begin(&mut self) {
        self.skip(1);
        self.left = OPPORTUNITY_BYTES;
    }

    /// True if the opportunity in use has bytes left.
    pub fn has_left(&self) -> bool {
        self.left > 0
    }

    /// Puts a packet into the opportunity in use, which began at `now`. Returns the time at which the packet is complete.
    pub fn put(&mut self, now: Time, wire_bytes: u32) -> Time {
        let bytes = u64::from(wire_bytes);
        if bytes <= self.left {
            self.left -= bytes;
            self.needs = 0;
            return now;
        }
        let rest = bytes - self.left;
        self.left = 0;
        let opportunities = rest.div_ceil(OPPORTUNITY_BYTES);
        self.skip(opportunities - 1);
        self.needs = rest - (opportunities - 1) * OPPORTUNITY_BYTES;
        self.next_at
    }

    /// Completes the packet in transit.
    pub fn complete(&mut self) {
        if self.needs > 0 {
            self.begin();
            self.left -= self.needs;
            self.needs = 0;
        }
    }

    /// Bytes of the packet in transit that were not sent by `now`.
    pub fn unsent(&self, now: Time, wire_bytes: u32) -> u64 {
        if self.needs == 0 {
            return 0;
        }
        // Opportunities reserved for it that are still to come.
        let ahead = self.next.saturating_sub(self.trace.count_until(now));
        (self.needs + ahead * OPPORTUNITY_BYTES).min(wire_bytes.into())
    }

    fn skip(&mut self, opportunities: u64) {
        if opportunities > 0 {
            self.next += opportunities;
            self.next_at = self.trace.time_of(self.next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_ms() -> Opportunities {
        Opportunities::new(Arc::new(DeliveryTrace::parse("1").unwrap()))
    }

    #[test]
    fn a_packet_larger_than_one_opportunity_ends_in_a_later_one() {
        let mut trace = every_ms();
        assert_eq!(trace.wake(Time::ZERO), Time::nanos(1_000_000));
        trace.begin();
        assert_eq!(trace.put(Time::nanos(1_000_000), 4000), Time::nanos(3_000_000));
        trace.complete();
        // The third opportunity has 500 bytes left.
        assert_eq!(trace.put(Time::nanos(3_000_000), 500), Time::nanos(3_000_000));
        assert!(!trace.has_left());
    }

    #[test]
    fn opportunities_of_an_idle_link_are_lost() {
        let mut trace = every_ms();
        assert_eq!(trace.wake(Time::nanos(5_000_000)), Time::nanos(6_000_000));
        assert_eq!(trace.capacity_bytes(Time::nanos(5_000_000)), 7500);
    }

    #[test]
    fn what_is_unsent_shrinks_by_an_opportunity_at_a_time() {
        let mut trace = every_ms();
        trace.wake(Time::ZERO);
        trace.begin();
        trace.put(Time::nanos(1_000_000), 4000);
        assert_eq!(trace.unsent(Time::nanos(1_500_000), 4000), 2500);
        assert_eq!(trace.unsent(Time::nanos(2_500_000), 4000), 1000);
    }
}
