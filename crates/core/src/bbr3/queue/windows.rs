//! The smallest RTTs of equal times within a long round.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::super::INFINITY;
use crate::units::Time;

/// The smallest RTTs of equal times within a round.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Start and smallest RTT of the present window.
    start: Time,
    min_us: u64,
    /// Sum and number of the smallest RTTs of the round's whole windows.
    sum_us: u64,
    pub(in super::super) count: u32,
    /// True if the round began in CRUISE.
    is_cruise: bool,
}

impl Windows {
    pub(super) const NONE: Self = Self { start: Time::ZERO, min_us: INFINITY, sum_us: 0, count: 0, is_cruise: false };

    /// Records an RTT. A window that has lasted this long ends before it.
    pub(super) fn record(&mut self, rtt_us: u64, now: Time, length_us: u64) {
        let is_over = self.min_us != INFINITY && now.since(self.start).as_micros() >= length_us;
        if is_over {
            (self.sum_us, self.count) = (self.sum_us + self.min_us, self.count + 1);
        }
        if is_over || self.min_us == INFINITY {
            (self.start, self.min_us) = (now, INFINITY);
        }
        self.min_us = self.min_us.min(rtt_us);
    }

    /// Ends a round. Returns the mean of at least two windows of a round that was all in CRUISE.
    pub(super) fn end_round(&mut self, is_cruise: bool) -> Option<u64> {
        let mean_us = if self.count >= 2 { self.sum_us.checked_div(u64::from(self.count)) } else { None };
        let was_cruise = core::mem::replace(&mut self.is_cruise, is_cruise);
        (self.min_us, self.sum_us, self.count) = (INFINITY, 0, 0);
        mean_us.filter(|_| is_cruise && was_cruise)
    }
}
