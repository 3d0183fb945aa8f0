//! Parts shared by several BBRs where they have the same rule: rounds, and the test for a full pipe.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::units::{MICROS_PER_SEC, Time};
use crate::wide;

/// Packet-timed round trips: a round ends when a packet is delivered that was sent after the round began.
// spec: draft-ietf-ccwg-bbr #bbr-round-count; Linux bbr_update_bw, bbr_update_round_start
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rounds {
    /// Draft: `BBR.round_count`.
    pub count: u64,
    /// Draft: `BBR.next_round_delivered`, in the edition's unit of volume.
    pub next_delivered: u64,
    /// Draft: `BBR.round_start`: this ACK began a round.
    pub start: bool,
}

impl Rounds {
    /// Handles the delivery of a packet that was sent when the count was `prior_delivered`; the count is now `delivered`.
    // spec: #bbr-round-count UpdateRound. Decision: of the packets that an ACK delivers, the newest counts.
    #[inline]
    pub(crate) const fn update(&mut self, prior_delivered: u64, delivered: u64) {
        self.start = prior_delivered >= self.next_delivered;
        if self.start {
            self.begin(delivered);
            self.count += 1;
        }
    }

    /// Starts a round that ends with the first packet sent from now on.
    // spec: #bbr-round-count StartRound
    pub(crate) const fn begin(&mut self, delivered: u64) {
        self.next_delivered = delivered;
    }
}

/// Test for a full pipe: bandwidth no longer grows.
// spec: #exiting-acceleration-based-on-bandwidth-plateau; Linux bbr_check_full_bw_reached
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FullPipe {
    /// Draft: `BBR.full_bw`: the baseline, in any unit.
    pub bw: u64,
    /// Draft: `BBR.full_bw_count`.
    pub count: u32,
}

impl FullPipe {
    pub(crate) const EMPTY: Self = Self { bw: 0, count: 0 };

    /// Takes a rate; true if it reaches `threshold`, the baseline times the required growth.
    #[inline]
    pub(crate) const fn grew(&mut self, rate: u64, threshold: u64) -> bool {
        if rate < threshold {
            return false;
        }
        self.bw = rate;
        self.count = 0;
        true
    }

    /// Counts a round without that growth; true if it is the last of `rounds`.
    pub(crate) const fn is_full(&mut self, rounds: u32) -> bool {
        self.count += 1;
        self.count >= rounds
    }
}

/// The last time within this tick of a clock of `hz`, or within this microsecond where `hz` is 0. Rounded like
/// [`Time::as_micros`] and then Linux's `jiffies`; with it, a flow detects the end of a tick without a division.
pub(crate) const fn last_moment_of(tick: u64, hz: u32) -> Time {
    let last_us = match hz {
        0 => tick,
        hz => (wide::saturating_mul(tick.saturating_add(1), MICROS_PER_SEC) - 1) / hz as u64,
    };
    Time::nanos(wide::times::<1_000>(last_us).saturating_add(999))
}

/// The last result of a calculation whose inputs change far less often than ACKs arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputCache<const N: usize> {
    pub key: [u64; N],
    pub value: u64,
}

impl<const N: usize> OutputCache<N> {
    /// No calculation yet: no input is all ones.
    pub(crate) const EMPTY: Self = Self { key: [u64::MAX; N], value: 0 };

    /// True if `value` is the result for `key`. Word by word: comparing arrays would call `memcmp`, which a kernel's program lacks.
    #[inline(always)]
    pub(crate) fn is_of(&self, key: &[u64; N]) -> bool {
        let mut difference = 0;
        for (old, new) in self.key.iter().zip(key) {
            difference |= old ^ new;
        }
        difference == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    #[test]
    fn a_round_ends_with_a_packet_sent_after_its_beginning_was_delivered() {
        let mut rounds = Rounds::default();
        rounds.update(0, 1);
        assert_eq!((rounds.start, rounds.count), (true, 1));
        rounds.update(0, 10);
        assert!(!rounds.start);
        rounds.update(1, 11);
        assert_eq!((rounds.start, rounds.count, rounds.next_delivered), (true, 2, 11));
    }

    #[test]
    fn a_tick_lasts_until_the_nanosecond_before_the_next_one_begins() {
        for hz in [0, 1, 100, 250, 300, 1_000, 10_000] {
            let tick_at = |now: Time| match hz {
                0 => now.as_micros(),
                hz => now.as_micros() * u64::from(hz) / MICROS_PER_SEC,
            };
            for tick in [0, 1, 7, 1_000, 123_456_789] {
                let last = last_moment_of(tick, hz);
                assert_eq!((tick_at(last), tick_at(last + Span::nanos(1))), (tick, tick + 1), "{hz} Hz");
            }
        }
        assert_eq!(last_moment_of(u64::MAX, 0), Time::NEVER);
    }

    /// Pitfall: a 32-bit mark wraps after 4 GB, and no round ever ends again.
    #[test]
    fn rounds_go_on_past_the_range_of_32_bits() {
        let mut rounds = Rounds::default();
        rounds.begin(u64::from(u32::MAX) + 5);
        rounds.update(u64::from(u32::MAX), u64::from(u32::MAX) + 6);
        assert!(!rounds.start);
        rounds.update(u64::from(u32::MAX) + 5, u64::from(u32::MAX) + 20);
        assert!(rounds.start);
    }

    #[test]
    fn a_pipe_is_full_after_so_many_rounds_without_growth_in_a_row() {
        let mut pipe = FullPipe::default();
        assert!(pipe.grew(100, 0));
        assert!(!pipe.grew(124, 125) && !pipe.is_full(3));
        assert!(!pipe.grew(124, 125) && !pipe.is_full(3));
        assert!(pipe.grew(125, 125) && pipe.count == 0);
        assert!(!pipe.is_full(3) && !pipe.is_full(3) && pipe.is_full(3));
    }
}
