//! Page loads over one connection: objects that refer to others. An object is requested as soon as the one that refers to it has
//! arrived whole, and the server sends objects in the order of their requests.
//!
//! A page is its document, objects that the document refers to, and as many objects to which one of these refers each: three
//! levels, objects of equal size. DNS and TLS are not modelled.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::{Span, Time};

use super::Reaction;
use crate::metrics::Histogram;
use crate::record::result::PageResult;

/// Microseconds to milliseconds.
const US_TO_MS: f64 = 1e-3;

/// A page, and how often it is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSetup {
    /// Number of objects, the document included; at least 1.
    pub objects: u32,
    /// Bytes of each object; at least 1.
    pub size: u64,
    /// Time between two loads; without it the flow ends with the first.
    pub pause: Option<Span>,
}

impl PageSetup {
    /// Number of objects to which the document refers: half of the others, rounded up.
    const fn first_level(&self) -> u32 {
        self.objects / 2
    }

    /// Number of objects to which an object refers.
    const fn children(&self, object: u32) -> u32 {
        match object {
            0 => self.first_level(),
            _ if object <= self.objects - 1 - self.first_level() => 1,
            _ => 0,
        }
    }
}

/// A client that loads pages.
#[derive(Clone, Debug)]
pub struct Loader {
    page: PageSetup,
    /// Start of the load under way.
    started: Time,
    /// Objects of this load in the order in which they were requested, from the first that has not arrived on.
    requested: VecDeque<u32>,
    /// The next object that has not been requested, of each of the two lower levels.
    next: [u32; 2],
    /// Objects that have arrived, in this load and before.
    arrived: u64,
    loads_us: Histogram,
}

impl Loader {
    /// Creates a client that requests its first document at `now`.
    pub fn new(page: PageSetup, now: Time) -> Self {
        let requested = VecDeque::with_capacity(page.objects as usize);
        let mut loader =
            Self { page, started: now, requested, next: [0; 2], arrived: 0, loads_us: Histogram::default() };
        loader.begin(now);
        loader
    }

    fn begin(&mut self, now: Time) {
        self.started = now;
        self.requested.clear();
        self.requested.push_back(0);
        self.next = [1, 1 + self.page.first_level()];
    }

    /// Handles the arrival, in order, of these bytes of all pages by `now`.
    pub fn on_bytes(&mut self, now: Time, in_order: u64) -> Reaction {
        let mut objects = 0;
        while !self.requested.is_empty() && (self.arrived + 1).saturating_mul(self.page.size) <= in_order {
            let object = self.requested.pop_front().unwrap_or(0);
            self.arrived += 1;
            let level = usize::from(object > 0);
            for _ in 0..self.page.children(object) {
                self.requested.push_back(self.next[level]);
                self.next[level] += 1;
                objects += 1;
            }
        }
        if !self.requested.is_empty() {
            return if objects > 0 { request(objects * self.page.size, Span::ZERO) } else { Reaction::None };
        }
        self.loads_us.add(now.since(self.started).as_micros());
        match self.page.pause {
            Some(pause) => {
                self.begin(now + pause);
                request(self.page.size, pause)
            }
            None => Reaction::Done,
        }
    }

    /// Figures of the loads so far.
    pub fn result(&self) -> PageResult {
        PageResult {
            objects: self.page.objects.into(),
            page_bytes: self.page.size.saturating_mul(self.page.objects.into()),
            loads: self.loads_us.count(),
            load_ms: (self.loads_us.count() > 0).then(|| self.loads_us.distribution(US_TO_MS)),
        }
    }
}

const fn request(size: u64, pause: Span) -> Reaction {
    Reaction::Request { size, pause }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::millis(millis)
    }

    fn loader(objects: u32, pause: Option<Span>) -> Loader {
        Loader::new(PageSetup { objects, size: 100, pause }, at(0))
    }

    #[test]
    fn an_object_is_requested_when_the_one_that_refers_to_it_has_arrived() {
        // The document refers to 1, 2 and 3; 1 and 2 refer to 4 and 5.
        let mut six = loader(6, None);
        assert_eq!(six.on_bytes(at(10), 99), Reaction::None);
        assert_eq!(six.on_bytes(at(20), 100), request(300, Span::ZERO));
        assert_eq!(six.on_bytes(at(30), 299), request(100, Span::ZERO));
        assert_eq!(six.on_bytes(at(40), 400), request(100, Span::ZERO));
        assert_eq!(six.on_bytes(at(50), 599), Reaction::None);
        assert_eq!(six.on_bytes(at(60), 600), Reaction::Done);
        let result = six.result();
        assert_eq!((result.loads, result.load_ms.unwrap().max), (1, 60.0));
    }

    #[test]
    fn every_page_requests_each_object_once_and_the_next_load_begins_after_the_pause() {
        for objects in [1, 2, 3, 24, 71] {
            let mut loader = loader(objects, Some(Span::secs(1)));
            let (mut written, mut now, mut arrived) = (100, 0, 0);
            while loader.loads_us.count() < 3 {
                now += 10;
                arrived = written.min(arrived + 150);
                if let Reaction::Request { size: bytes, .. } = loader.on_bytes(at(now), arrived) {
                    written += bytes;
                }
            }
            // The document of the fourth load is requested.
            assert_eq!(written, 100 * (3 * u64::from(objects) + 1), "{objects}");
        }
    }
}
