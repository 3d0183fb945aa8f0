//! The application above a flow: the times and sizes of its writes.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::{Span, Time};

use super::requests::Requests;
use crate::apps::video::Player;
use crate::apps::{Client, Reaction};
use crate::setup::Traffic;

/// A writing application. Bytes are counted from the start of the connection.
#[derive(Clone, Debug)]
pub struct App {
    traffic: Traffic,
    /// Bytes written so far; `u64::MAX` for a writer without end.
    pub written: u64,
    /// Time of its next action.
    pub next: Time,
    stop: Time,
    busy: bool,
    started: Time,
    ticks: u64,
    /// Objects of a list requested so far.
    asked: usize,
    /// Bytes written before the present kind of traffic began.
    base: u64,
    /// The receiving end, of applications that have one.
    client: Option<Box<Reader>>,
    /// Time that a request takes to arrive; `None` if it crosses a link.
    pub request_delay: Option<Span>,
    /// Requests that cross a link.
    requests: Option<Box<Requests>>,
    /// Bytes of the first response, until its request has arrived.
    first: u64,
}

/// The receiving end, and its requests.
#[derive(Clone, Debug)]
struct Reader {
    client: Client,
    /// Responses whose requests are on their way: arrival of the request, not known if it crosses a link, and bytes.
    responses: VecDeque<(Time, u64)>,
}

/// A response that the client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Its end, in bytes of the connection.
    pub end: u64,
    /// Time from its arrival to the next request; `None` for the last one.
    pub pause: Option<Span>,
}

impl App {
    /// Creates an application that begins to write at `now`.
    pub fn new(traffic: Traffic, now: Time, stop: Option<Time>) -> Self {
        let stop = stop.unwrap_or(Time::NEVER);
        let (written, next) = match &traffic {
            Traffic::Bulk => (u64::MAX, stop),
            Traffic::Size(bytes) => (*bytes, Time::NEVER),
            Traffic::OnOff { on, .. } => (u64::MAX, (now + *on).min(stop)),
            Traffic::Rate { rate, tick, unit } => (whole(rate.bytes_in(*tick), *unit), (now + *tick).min(stop)),
            Traffic::RequestResponse { size, .. } => (*size, stop),
            Traffic::Objects(objects) => (objects.first().map_or(0, |object| object.size), stop),
            Traffic::Call(call) => (call.size, (now + call.interval).min(stop)),
            Traffic::Video(video) => (Player::new(video.clone(), now).size(), stop),
            Traffic::Page(page) => (page.size, stop),
        };
        // Stopped before its first write, so there is nothing to send.
        let (written, next) = if stop <= now { (0, Time::NEVER) } else { (written, next) };
        Self {
            traffic,
            written,
            next,
            stop,
            busy: true,
            started: now,
            ticks: 1,
            asked: 1,
            base: 0,
            client: None,
            request_delay: Some(Span::ZERO),
            requests: None,
            first: 0,
        }
    }

    /// Creates the application of a connection that is established at `now`, after a handshake of `rtt`. Requests take
    /// `request_delay`, or cross a link. The first leaves the client at once, and holds the first response back.
    pub fn connected(traffic: Traffic, now: Time, stop: Option<Time>, request_delay: Option<Span>, rtt: Span) -> Self {
        let answers = traffic.answers();
        let mut app = Self { request_delay, ..Self::new(traffic, now, stop) };
        if answers && app.written > 0 {
            app.first = std::mem::take(&mut app.written);
            app.requests = request_delay.is_none().then(|| Box::new(Requests::new(rtt)));
            app.ask(now);
        }
        app
    }

    /// Creates the receiving end of a flow that started at `start`, if its application has one.
    pub fn begin_client(&mut self, start: Time) {
        let reader = |client| Box::new(Reader { client, responses: VecDeque::new() });
        self.client = Client::of(&self.traffic, start, self.started).map(reader);
    }

    /// The receiving end, of applications that have one.
    pub fn client(&self) -> Option<&Client> {
        self.client.as_deref().map(|reader| &reader.client)
    }

    /// True if the application has a receiving end of its own, which takes [`Self::on_bytes`].
    pub const fn has_client(&self) -> bool {
        self.client.is_some()
    }

    /// Passes new data to the receiving end, which may send a request.
    pub fn on_bytes(&mut self, now: Time, in_order: u64) -> Reaction {
        let Some(Reader { client, responses }) = self.client.as_deref_mut() else { return Reaction::None };
        let reaction = client.on_bytes(now, in_order, self.written);
        if let Reaction::Request { size, pause } = reaction {
            let at = now + pause + self.request_delay.unwrap_or(Span::ZERO);
            if at < self.stop {
                responses.push_back((at, size));
            }
            self.next = match &mut self.requests {
                Some(requests) => {
                    requests.plan(now + pause);
                    requests.next_before(self.stop)
                }
                None => responses.front().map_or(Time::NEVER, |(at, _)| *at),
            };
        }
        reaction
    }

    /// Performs the action that is due; `sent` bytes have left the socket so far. Returns true if it wrote new data.
    pub fn on_time(&mut self, now: Time, sent: u64) -> bool {
        if now >= self.stop {
            // Data in the socket is still sent; a writer without end leaves none there.
            self.written = if self.written == u64::MAX { sent } else { self.written };
            self.next = Time::NEVER;
            return false;
        }
        if let Some(requests) = &mut self.requests {
            requests.on_time(now);
            self.next = requests.next_before(self.stop);
            return false;
        }
        self.write(now, sent)
    }

    /// Takes the numbers of the requests that leave the client now, to cross a link.
    pub fn take_requests(&mut self) -> Vec<u64> {
        self.requests.as_mut().map_or_else(Vec::new, |requests| requests.take_leaving())
    }

    /// Handles the arrival of a request that crossed a link. Returns true if the application wrote new data.
    pub fn on_request(&mut self, now: Time, number: u64) -> bool {
        let complete = self.requests.as_mut().map_or(0, |requests| requests.on_arrival(now, number));
        let wrote = now < self.stop && (0..complete).fold(false, |wrote, _| self.write(now, 0) || wrote);
        self.next = self.requests.as_ref().map_or(Time::NEVER, |requests| requests.next_before(self.stop));
        wrote
    }

    /// Writes what is due at `now`. Returns true if there was anything.
    fn write(&mut self, now: Time, sent: u64) -> bool {
        if self.first > 0 {
            self.written = std::mem::take(&mut self.first);
            self.next = self.stop;
            return true;
        }
        match &self.traffic {
            Traffic::OnOff { on, off } => {
                self.busy = !self.busy;
                self.written = if self.busy { u64::MAX } else { sent };
                self.next = (now + if self.busy { *on } else { *off }).min(self.stop);
                self.busy
            }
            Traffic::Rate { rate, tick, unit } => {
                self.ticks += 1;
                // Computed from the start each time, so that rounding does not accumulate.
                let elapsed = Span::nanos(tick.as_nanos().saturating_mul(self.ticks));
                self.written = self.base.saturating_add(whole(rate.bytes_in(elapsed), *unit));
                self.next = (self.started + elapsed).min(self.stop);
                true
            }
            Traffic::RequestResponse { size, .. } => {
                self.written = self.written.saturating_add(*size);
                self.next = self.stop;
                true
            }
            Traffic::Objects(objects) => {
                let size = objects.get(self.asked).map_or(0, |object| object.size);
                self.written = self.written.saturating_add(size);
                self.asked += 1;
                self.next = self.stop;
                size > 0
            }
            Traffic::Call(call) => {
                self.written = self.written.saturating_add(call.size);
                let elapsed = Span::nanos(call.interval.as_nanos().saturating_mul(self.ticks + 1));
                self.ticks += 1;
                self.next = (self.started + elapsed).min(self.stop);
                true
            }
            Traffic::Video(_) | Traffic::Page(_) => {
                let Some(Reader { responses, .. }) = self.client.as_deref_mut() else { return false };
                // Of requests that cross a link, this is called for each.
                let due = match self.requests {
                    Some(_) => responses.len().min(1),
                    None => responses.iter().take_while(|(at, _)| *at <= now).count(),
                };
                self.written = responses.drain(..due).fold(self.written, |sum, (_, size)| sum.saturating_add(size));
                self.next = responses.front().map_or(self.stop, |(at, _)| *at);
                true
            }
            Traffic::Bulk | Traffic::Size(_) => {
                self.next = Time::NEVER;
                false
            }
        }
    }

    /// Switches to other traffic; `sent` bytes have left the socket, and the data waiting in it is dropped.
    pub fn change(&mut self, now: Time, traffic: Traffic, sent: u64) {
        let changed = Self::new(traffic, now, (self.stop != Time::NEVER).then_some(self.stop));
        let written = changed.written.saturating_add(sent);
        *self = Self { written, base: sent, request_delay: self.request_delay, ..changed };
    }

    /// Plans the client's next request, which leaves at `at`.
    pub fn ask(&mut self, at: Time) {
        if let Some(requests) = &mut self.requests {
            requests.plan(at);
            self.next = requests.next_before(self.stop);
            return;
        }
        let at = at + self.request_delay.unwrap_or(Span::ZERO);
        self.next = if at < self.stop { at } else { Time::NEVER };
    }

    /// True if a reader waits for the end of its data, which then is a [`Self::total`], an [`Self::exchange`], or known to the
    /// client.
    #[inline]
    pub const fn is_finite(&self) -> bool {
        !matches!(self.traffic, Traffic::Bulk | Traffic::OnOff { .. } | Traffic::Rate { .. })
    }

    /// True if a short segment waits for an earlier one.
    pub const fn gathers(&self) -> bool {
        self.traffic.gathers()
    }

    /// Bytes after whose arrival the flow ends, if it ends at all.
    pub fn total(&self) -> Option<u64> {
        match self.traffic {
            Traffic::Size(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Response that the client waits for, with request traffic. Nothing is written before it has arrived, so it ends at the
    /// last byte written.
    pub fn exchange(&self) -> Option<Response> {
        let pause = match &self.traffic {
            Traffic::RequestResponse { think, .. } => Some(*think),
            Traffic::Objects(objects) => objects.get(self.asked).map(|object| object.pause),
            _ => return None,
        };
        Some(Response { end: self.written, pause })
    }
}

/// Rounds down to a whole number of units.
fn whole(bytes: u64, unit: u32) -> u64 {
    bytes - bytes % u64::from(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Object;
    use bbrlab_core::Rate;

    #[test]
    fn a_rate_limited_writer_keeps_its_rate_without_drift() {
        let mut app = App::new(
            Traffic::Rate { rate: Rate::bits_per_sec(1_000_001), tick: Span::millis(7), unit: 1 },
            Time::ZERO,
            None,
        );
        while app.next < Time::ZERO + Span::secs(100) {
            app.on_time(app.next, 0);
        }
        assert!((12_499_000..=12_502_000).contains(&app.written), "{}", app.written);
    }

    #[test]
    fn a_writer_of_whole_packets_leaves_no_short_one() {
        // 12 packets in a tick and a fraction of a byte, which rounding up to whole nanoseconds leaves.
        let tick = Span::nanos(1_248_001);
        let mut app =
            App::new(Traffic::Rate { rate: Rate::bits_per_sec(5_000_000_000), tick, unit: 65_000 }, Time::ZERO, None);
        for n in 1..10_000 {
            assert_eq!(app.written, n * 12 * 65_000);
            app.on_time(app.next, 0);
        }
    }

    #[test]
    fn an_application_never_acts_in_the_past_when_its_stop_has_passed() {
        let now = Time::ZERO + Span::secs(5);
        for traffic in [Traffic::Bulk, Traffic::RequestResponse { size: 9, think: Span::ZERO }] {
            let mut app = App::new(traffic, now, Some(Time::ZERO + Span::secs(1)));
            assert_eq!((app.next, app.written), (Time::NEVER, 0));
            app.ask(now + Span::secs(1));
            assert_eq!(app.next, Time::NEVER);
        }
    }

    #[test]
    fn a_list_of_objects_is_written_one_at_a_time_and_says_which_is_the_last() {
        let object = |size| Object { size, pause: Span::secs(1) };
        let mut app = App::new(Traffic::Objects([object(10), object(7)].into()), Time::ZERO, None);
        assert_eq!(app.exchange(), Some(Response { end: 10, pause: Some(Span::secs(1)) }));
        app.ask(Time::ZERO + Span::secs(2));
        assert!(app.on_time(app.next, 10));
        assert_eq!(app.exchange(), Some(Response { end: 17, pause: None }));
    }

    #[test]
    fn a_writer_that_changes_goes_on_from_what_has_left_the_socket() {
        let mut app = App::new(Traffic::Bulk, Time::ZERO, None);
        let now = Time::ZERO + Span::secs(1);
        app.change(now, Traffic::Rate { rate: Rate::bits_per_sec(8_000), tick: Span::millis(100), unit: 1 }, 5_000);
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
