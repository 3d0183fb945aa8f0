//! A pacer that any transport can use by itself: computes the time at which the next packet may leave.
//!
//! Linux's rule (`tcp_update_skb_after_send`): each packet takes its time at the pacing rate. A late sender gets half of a packet's
//! time back, so that late timers cost no rate, and never more than that, so that no burst builds up.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::units::{Rate, Span, Time};

/// Send times of packets at a pacing rate.
///
/// ```
/// use bbrlab_core::{Pacer, Rate, Span, Time};
/// let mut pacer = Pacer::new(Time::ZERO);
/// pacer.on_sent(Time::ZERO, 1_250, Rate::bytes_per_sec(1_250_000));
/// assert_eq!(pacer.next_send_time(), Time::ZERO + Span::millis(1));
/// assert!(!pacer.may_send(Time::micros(999)) && pacer.may_send(Time::micros(1_000)));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    next: Time,
}

impl Pacer {
    /// Creates a pacer that lets a packet go now.
    pub const fn new(now: Time) -> Self {
        Self { next: now }
    }

    /// Accounts for `bytes` that leave now at this rate ([`crate::Controller::pacing_rate`]); without a rate, the next
    /// packet need not wait.
    #[inline]
    pub fn on_sent(&mut self, now: Time, bytes: u64, rate: impl Into<Option<Rate>>) {
        let Some(rate) = rate.into() else { return };
        let late = now.since(self.next);
        let span = rate.time_for(bytes);
        let credit = late.min(Span::nanos(span.as_nanos() / 2));
        self.next = self.next.max(now) + Span::nanos(span.as_nanos() - credit.as_nanos());
    }

    /// Time at which the next packet may leave; a past time if it may leave now.
    #[inline]
    pub const fn next_send_time(&self) -> Time {
        self.next
    }

    /// True if a packet may leave now. A burst may be as large as [`crate::Controller::send_quantum`].
    #[inline]
    pub fn may_send(&self, now: Time) -> bool {
        self.next <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::bytes_per_sec(1_000_000);

    #[test]
    fn packets_leave_at_the_rate_whatever_their_sizes() {
        let mut pacer = Pacer::new(Time::ZERO);
        let mut now = Time::ZERO;
        for bytes in [1_000, 40, 1_460, 500] {
            pacer.on_sent(now, bytes, RATE);
            now = pacer.next_send_time();
        }
        assert_eq!(now.as_micros(), 3_000);
    }

    #[test]
    fn a_late_sender_catches_up_by_at_most_half_a_packet() {
        let mut pacer = Pacer::new(Time::ZERO);
        pacer.on_sent(Time::ZERO, 1_000, RATE);
        pacer.on_sent(Time::micros(1_200), 1_000, RATE);
        assert_eq!(pacer.next_send_time().as_micros(), 2_000, "200 µs late, and all of it made up for");
        pacer.on_sent(Time::micros(9_000), 1_000, RATE);
        assert_eq!(pacer.next_send_time().as_micros(), 9_500);
    }

    #[test]
    fn without_a_rate_the_next_packet_may_leave_at_once() {
        let mut pacer = Pacer::new(Time::ZERO);
        pacer.on_sent(Time::ZERO, 1_000_000, None);
        assert!(pacer.may_send(Time::ZERO));
    }

    #[test]
    fn a_rate_of_nothing_stops_and_never_panics() {
        let mut pacer = Pacer::new(Time::ZERO);
        pacer.on_sent(Time::ZERO, 1, Rate::bytes_per_sec(0));
        assert_eq!(pacer.next_send_time(), Time::NEVER);
        pacer.on_sent(Time::NEVER, u64::MAX, Rate::bytes_per_sec(u64::MAX));
    }
}
