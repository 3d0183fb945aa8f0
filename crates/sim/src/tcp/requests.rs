//! Requests as packets: each leaves the client when it is due, and is repeated until it arrives, as by a client's TCP.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::{Span, Time};

/// Least variation of the RTT in the client's RTO. Source: Linux `tcp_rto_min`.
const RTO_VARIATION_MIN: Span = Span::millis(200);

/// The client's requests on a path where they share a link. Numbers count from 1.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    /// Times of those that have not left.
    due: VecDeque<Time>,
    /// First transmission of those that have left and not arrived in sequence; `None` for one sent twice.
    sent: VecDeque<Option<Time>>,
    /// Requests that have arrived in sequence.
    arrived: u64,
    /// Numbers that arrived before an earlier one.
    early: Vec<u64>,
    retry_at: Time,
    backoff: u32,
    srtt: Span,
    variation: Span,
    /// Half of the handshake's RTT, for the way of an ACK back to the client.
    way_back: Span,
    /// Numbers of those that leave now.
    leaving: Vec<u64>,
}

impl Requests {
    /// Creates the requests of a client whose handshake took `rtt`.
    pub(super) fn new(rtt: Span) -> Self {
        Self {
            due: VecDeque::new(),
            sent: VecDeque::new(),
            arrived: 0,
            early: Vec::new(),
            retry_at: Time::NEVER,
            backoff: 0,
            srtt: rtt,
            variation: half(rtt),
            way_back: half(rtt),
            leaving: Vec::new(),
        }
    }

    /// Plans a request.
    pub(super) fn plan(&mut self, at: Time) {
        self.due.push_back(at);
    }

    /// Time of its next action, if that is before `stop`.
    pub(super) fn next_before(&self, stop: Time) -> Time {
        let next = self.due.front().map_or(self.retry_at, |at| (*at).min(self.retry_at));
        if next < stop { next } else { Time::NEVER }
    }

    /// Sends what is due: new requests, and the oldest again once its timer has expired.
    pub(super) fn on_time(&mut self, now: Time) {
        if self.retry_at <= now {
            self.leaving.push(self.arrived + 1);
            if let Some(oldest) = self.sent.front_mut() {
                *oldest = None;
            }
            self.backoff += 1;
            self.rearm(now);
        }
        while self.due.front().is_some_and(|at| *at <= now) {
            self.due.pop_front();
            self.sent.push_back(Some(now));
            self.leaving.push(self.arrived + self.sent.len() as u64);
            if self.retry_at == Time::NEVER {
                self.rearm(now);
            }
        }
    }

    /// Takes the numbers of the requests that leave.
    pub(super) fn take_leaving(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.leaving)
    }

    /// Handles a request that arrives. Returns the number of requests that it completes in sequence.
    pub(super) fn on_arrival(&mut self, now: Time, number: u64) -> u64 {
        if number <= self.arrived || self.early.contains(&number) {
            return 0;
        }
        self.early.push(number);
        let before = self.arrived;
        while let Some(place) = self.early.iter().position(|early| *early == self.arrived + 1) {
            self.early.swap_remove(place);
            self.arrived += 1;
            if let Some(Some(sent)) = self.sent.pop_front() {
                self.measure(now.since(sent) + self.way_back);
            }
        }
        if self.arrived > before {
            self.backoff = 0;
            self.retry_at = Time::NEVER;
            if !self.sent.is_empty() {
                self.rearm(now);
            }
        }
        self.arrived - before
    }

    fn rearm(&mut self, now: Time) {
        let wait = self.srtt + Span::nanos(self.variation.as_nanos().saturating_mul(4)).max(RTO_VARIATION_MIN);
        self.retry_at = now + Span::nanos(wait.as_nanos().saturating_mul(1 << self.backoff.min(16)));
    }

    // spec: RFC 6298 §2.3
    fn measure(&mut self, rtt: Span) {
        let (rtt, srtt, variation) = (rtt.as_nanos(), self.srtt.as_nanos(), self.variation.as_nanos());
        self.variation = Span::nanos(variation - variation / 4 + srtt.abs_diff(rtt) / 4);
        self.srtt = Span::nanos(srtt - srtt / 8 + rtt / 8);
    }
}

const fn half(span: Span) -> Span {
    Span::nanos(span.as_nanos() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::millis(ms)
    }

    fn leave(requests: &mut Requests, now: u64) -> Vec<u64> {
        requests.on_time(at(now));
        requests.take_leaving()
    }

    #[test]
    fn a_request_is_repeated_until_it_arrives_each_time_after_twice_the_wait() {
        let mut requests = Requests::new(Span::millis(40));
        requests.plan(at(100));
        assert_eq!(leave(&mut requests, 100), [1]);
        for (wait, now) in [(240, 340), (480, 820), (960, 1_780)] {
            assert_eq!(requests.next_before(Time::NEVER), at(now), "after {wait} ms");
            assert_eq!(leave(&mut requests, now), [1]);
        }
        assert_eq!(requests.on_arrival(at(1_800), 1), 1);
        assert_eq!(requests.on_arrival(at(1_801), 1), 0, "a copy");
        assert_eq!(requests.next_before(Time::NEVER), Time::NEVER);
    }

    #[test]
    fn a_request_that_overtakes_another_waits_for_it() {
        let mut requests = Requests::new(Span::millis(40));
        (0..3).for_each(|ms| requests.plan(at(ms)));
        assert_eq!(leave(&mut requests, 2), [1, 2, 3]);
        assert_eq!([2, 2, 1, 3].map(|number| requests.on_arrival(at(30), number)), [0, 0, 2, 1]);
    }

    #[test]
    fn the_wait_follows_the_delay_of_the_path() {
        let mut requests = Requests::new(Span::millis(40));
        for turn in 0..40 {
            requests.plan(at(1_000 * turn));
            leave(&mut requests, 1_000 * turn);
            requests.on_arrival(at(1_000 * turn + 480), turn + 1);
        }
        requests.plan(at(50_000));
        leave(&mut requests, 50_000);
        // 480 ms there, 20 ms back, and 200 ms.
        let next = requests.next_before(Time::NEVER);
        assert!((at(50_690)..=at(50_700)).contains(&next), "{next:?}");
        assert_eq!(requests.next_before(at(50_100)), Time::NEVER, "after the stop");
    }
}
