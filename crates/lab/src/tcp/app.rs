//! The application above a flow: when it writes, and how much.
//! In: the time. Out: bytes written so far. Never: knowledge of the path.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};

use crate::setup::Traffic;

/// A writer. Bytes are counted from the start of the connection.
#[derive(Clone, Debug)]
pub struct App {
    traffic: Traffic,
    /// Bytes written so far; `u64::MAX` while it never ends.
    pub written: u64,
    /// When it acts next.
    pub next: Time,
    stop: Time,
    busy: bool,
    started: Time,
    ticks: u64,
    /// What had been written before this kind of traffic began.
    base: u64,
}

impl App {
    /// An application that begins to write at `now`.
    pub fn new(traffic: Traffic, now: Time, stop: Option<Time>) -> Self {
        let stop = stop.unwrap_or(Time::NEVER);
        let (written, next) = match traffic {
            Traffic::Bulk => (u64::MAX, stop),
            Traffic::Size(bytes) => (bytes, Time::NEVER),
            Traffic::OnOff { on, .. } => (u64::MAX, (now + on).min(stop)),
            Traffic::Rate { rate, tick } => (rate.bytes_in(tick), (now + tick).min(stop)),
            Traffic::RequestResponse { size, .. } => (size, stop),
        };
        // Stopped before it could write: nothing is there to send.
        let (written, next) = if stop <= now { (0, Time::NEVER) } else { (written, next) };
        Self { traffic, written, next, stop, busy: true, started: now, ticks: 1, base: 0 }
    }

    /// Its moment has come; `sent` bytes have left the socket so far. True if it wrote something new.
    pub fn on_time(&mut self, now: Time, sent: u64) -> bool {
        if now >= self.stop {
            // What is in the socket still goes out; a writer without end leaves nothing there.
            self.written = if self.written == u64::MAX { sent } else { self.written };
            self.next = Time::NEVER;
            return false;
        }
        match self.traffic {
            Traffic::OnOff { on, off } => {
                self.busy = !self.busy;
                self.written = if self.busy { u64::MAX } else { sent };
                self.next = (now + if self.busy { on } else { off }).min(self.stop);
                self.busy
            }
            Traffic::Rate { rate, tick } => {
                self.ticks += 1;
                // From the start each time, so that no rounding accumulates.
                self.written = self.base.saturating_add(rate.bytes_in(Span(tick.0.saturating_mul(self.ticks))));
                self.next = (self.started + Span(tick.0.saturating_mul(self.ticks))).min(self.stop);
                true
            }
            Traffic::RequestResponse { size, .. } => {
                self.written = self.written.saturating_add(size);
                self.next = self.stop;
                true
            }
            Traffic::Bulk | Traffic::Size(_) => {
                self.next = Time::NEVER;
                false
            }
        }
    }

    /// From now on it writes otherwise; `sent` bytes have left the socket, and what waits in it is forgotten.
    pub fn change(&mut self, now: Time, traffic: Traffic, sent: u64) {
        let changed = Self::new(traffic, now, (self.stop != Time::NEVER).then_some(self.stop));
        *self = Self { written: changed.written.saturating_add(sent), base: sent, ..changed };
    }

    /// The client has the whole response, and its next request will be here at `at`.
    pub fn request_at(&mut self, at: Time) {
        self.next = if at < self.stop { at } else { Time::NEVER };
    }

    /// The flow ends once this many bytes have arrived, if it ends at all.
    pub fn total(&self) -> Option<u64> {
        match self.traffic {
            Traffic::Size(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Bytes of one response and the client's pause, for request/response traffic.
    pub const fn exchange(&self) -> Option<(u64, Span)> {
        match self.traffic {
            Traffic::RequestResponse { size, think } => Some((size, think)),
            _ => None,
        }
    }

    /// When it stops writing.
    pub const fn stop(&self) -> Time {
        self.stop
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_core::Rate;

    #[test]
    fn a_rate_limited_writer_keeps_its_rate_without_drift() {
        let mut app = App::new(Traffic::Rate { rate: Rate(1_000_001), tick: Span::millis(7) }, Time::ZERO, None);
        while app.next < Time::ZERO + Span::secs(100) {
            app.on_time(app.next, 0);
        }
        assert!((12_499_000..=12_502_000).contains(&app.written), "{}", app.written);
    }

    #[test]
    fn an_application_never_acts_in_the_past_when_its_stop_has_passed() {
        let now = Time::ZERO + Span::secs(5);
        for traffic in [Traffic::Bulk, Traffic::RequestResponse { size: 9, think: Span::ZERO }] {
            let mut app = App::new(traffic, now, Some(Time::ZERO + Span::secs(1)));
            assert_eq!((app.next, app.written), (Time::NEVER, 0));
            app.request_at(now + Span::secs(1));
            assert_eq!(app.next, Time::NEVER);
        }
    }

    #[test]
    fn a_writer_that_changes_goes_on_from_what_has_left_the_socket() {
        let mut app = App::new(Traffic::Bulk, Time::ZERO, None);
        let now = Time::ZERO + Span::secs(1);
        app.change(now, Traffic::Rate { rate: Rate(8_000), tick: Span::millis(100) }, 5_000);
        assert_eq!(app.written, 5_100);
        app.on_time(app.next, 5_100);
        assert_eq!((app.written, app.next), (5_200, now + Span::millis(200)));
        app.change(now, Traffic::Bulk, 5_200);
        assert_eq!((app.written, app.next), (u64::MAX, Time::NEVER));
    }

    #[test]
    fn an_on_off_writer_alternates() {
        let mut app = App::new(Traffic::OnOff { on: Span::secs(1), off: Span::secs(2) }, Time::ZERO, None);
        assert!(!app.on_time(Time::ZERO + Span::secs(1), 500));
        assert_eq!((app.written, app.next), (500, Time::ZERO + Span::secs(3)));
        assert!(app.on_time(Time::ZERO + Span::secs(3), 500));
        assert_eq!(app.written, u64::MAX);
    }
}
