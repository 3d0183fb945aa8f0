//! Delay of ACKs as Linux adapts it to the intervals between segments: `icsk_ack.ato`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};

use super::super::timers::{TICK, fires_after, ticks};

/// Linux's own delay of ACKs. Source: Linux `TCP_DELACK_MIN`, `TCP_ATO_MIN`.
const ATO_MIN: u64 = ticks(Span::millis(40));
/// Longest interval that the delay adapts to. Source: Linux `TCP_DELACK_MAX`.
const ATO_LONGEST: u64 = ticks(Span::millis(200));
/// Upper bound of the delay in ticks where the RTT is longer. Source: Linux `tcp_delack_max`: a tick below the least RTO.
const ATO_MAX: u64 = ATO_LONGEST - 1;
/// Interval in ticks up to which segments come fast. Source: Linux `tcp_event_data_recv`.
const SHORT: u64 = ATO_MIN / 2;
/// Least variation of the RTT in a host's RTO. Source: Linux `tcp_rto_min`.
const RTO_VARIATION_MIN: Span = Span::millis(200);

/// The delay, and what it follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckDelay {
    ato: u64,
    /// Arrival of the newest segment in order. Source: Linux `icsk_ack.lrcvtime`.
    in_order_at: Time,
}

impl AckDelay {
    pub(super) const fn new() -> Self {
        Self { ato: ATO_MIN, in_order_at: Time::ZERO }
    }

    /// Adapts the delay to the interval between this segment in order and the previous one. Returns true after a gap longer than
    /// the RTO, which a hole in the data makes too: the sender's window may be small then.
    // spec: Linux tcp_event_data_recv
    #[inline]
    pub(super) fn on_in_order(&mut self, now: Time, srtt: Span) -> bool {
        let at = std::mem::replace(&mut self.in_order_at, now);
        if self.ato == ATO_MIN && now.since(at).as_nanos() < SHORT * TICK.as_nanos() {
            return false; // most segments
        }
        let interval = now.as_nanos() / TICK.as_nanos() - at.as_nanos() / TICK.as_nanos();
        let rto = rto_ticks(srtt);
        if interval <= SHORT {
            self.ato = self.ato / 2 + SHORT;
        } else if interval < self.ato {
            self.ato = (self.ato / 2 + interval).min(rto).min(ATO_LONGEST);
        }
        interval > rto
    }

    /// Doubles the delay, because no further segment released the ACK in time.
    // spec: Linux tcp_delack_timer_handler
    pub(super) fn on_expiry(&mut self, srtt: Span) {
        self.ato = (2 * self.ato).min(rto_ticks(srtt)).min(ATO_LONGEST);
    }

    /// Restores the least delay, as at the beginning and the end of quick ACKs.
    // spec: Linux tcp_enter_quickack_mode, tcp_dec_quickack_mode
    pub(super) const fn reset(&mut self) {
        self.ato = ATO_MIN;
    }

    /// Expiry of an ACK that is delayed from now on.
    // spec: Linux tcp_send_delayed_ack
    pub(super) fn until(&self, now: Time, srtt: Span) -> Time {
        fires_after(now, self.ato.min(ticks(srtt).clamp(ATO_MIN, ATO_MAX)))
    }
}

/// RTO of the receiving host after its one sample of the RTT, the handshake's.
fn rto_ticks(srtt: Span) -> u64 {
    ticks(srtt + (srtt + srtt).max(RTO_VARIATION_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At an RTT of a second the RTO is longer than that.
    #[test]
    fn the_delay_adapts_to_200_ms_at_most() {
        let srtt = Span::secs(1);
        let mut delay = AckDelay::new();
        for _ in 0..6 {
            delay.on_expiry(srtt);
        }
        assert_eq!(delay.ato, ATO_LONGEST);
        // Half of the delay, and an interval of almost all of it.
        delay.in_order_at = Time::ZERO;
        delay.on_in_order(Time::ZERO + Span::millis(196), srtt);
        assert_eq!(delay.ato, ATO_LONGEST);
    }
}
