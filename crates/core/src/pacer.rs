//! A pacer that any transport can use by itself: computes the time at which the next packet may leave.
//!
//! Linux's rule (`tcp_update_skb_after_send`): each packet takes its time at the pacing rate. A late sender gets half of a packet's
//! time back, so that late timers cost no rate, and never more than that, so that no burst builds up.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::units::{Rate, Time};

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
        self.on_sent_in_burst(now, bytes, bytes, rate);
    }

    /// The same for a packet of a burst of this many bytes, after which a late sender gets half of the burst's time back. For hosts
    /// that send a burst ([`crate::Controller::send_quantum`]) packet by packet.
    #[inline]
    pub fn on_sent_in_burst(&mut self, now: Time, bytes: u64, burst: u64, rate: impl Into<Option<Rate>>) {
        let Some(rate) = rate.into() else { return };
        let credit = rate.time_for(burst.max(bytes)).as_nanos() / 2;
        let earliest = Time::nanos(now.as_nanos().saturating_sub(credit));
        self.next = self.next.max(earliest) + rate.time_for(bytes);
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
    use crate::units::Span;

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
    fn a_late_burst_catches_up_by_at_most_half_of_its_time() {
        let mut pacer = Pacer::new(Time::ZERO);
        let mut burst = |late_us: u64| {
            let due = pacer.next_send_time();
            let now = due + Span::micros(late_us);
            let mut sent = 0;
            while pacer.may_send(now) {
                pacer.on_sent_in_burst(now, 1_000, 4_000, RATE);
                sent += 1;
            }
            (sent, pacer.next_send_time().since(due).as_micros())
        };
        assert_eq!(burst(0), (1, 1_000));
        assert_eq!(burst(1_500), (2, 2_000), "nothing is lost");
        assert_eq!(burst(9_000), (3, 10_000), "only the last 2 ms are made up for");
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
