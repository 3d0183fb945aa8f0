//! The delay line: propagation with jitter, reordering and duplication, for any number of packets.
//! It loses nothing, and draws random numbers only for configured effects.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use bbrlab_core::{Rng, Span, Time};

use super::config::DelayConfig;
use super::loss::{happens, threshold};

/// One direction of one flow's path. By default no packet overtakes, even if the delay shrinks or jitter varies: it then
/// arrives together with the previous one. Differs from netem, where jitter reorders.
#[derive(Clone, Debug)]
pub struct DelayLine<T> {
    delay: Span,
    jitter: Span,
    jitter_reorders: bool,
    reorder: u64,
    duplicate: u64,
    /// Added delay of a detour; later items may overtake.
    detour: Span,
    /// True if it only delays, which needs no heap. A detour still does.
    is_plain: bool,
    rng: Rng,
    /// Arrival of the latest item that keeps its place; no later item arrives earlier.
    latest: Time,
    store: Store<T>,
}

#[derive(Clone, Debug)]
enum Store<T> {
    Fifo(VecDeque<(Time, T)>),
    Heap { heap: BinaryHeap<Timed<T>>, pushed: u64 },
}

/// An item in the heap: earliest time first, then order of insertion.
#[derive(Clone, Debug)]
struct Timed<T> {
    at: Time,
    nth: u64,
    item: T,
}

impl<T: Copy> DelayLine<T> {
    /// Creates an empty line whose jitter, reordering and duplication depend on `seed` alone.
    pub fn new(config: &DelayConfig, seed: u64) -> Self {
        let reorder = threshold(config.reorder);
        let overtakes = reorder != 0 || (config.jitter_reorders && config.jitter != Span::ZERO);
        Self {
            delay: config.delay,
            jitter: config.jitter,
            jitter_reorders: config.jitter_reorders,
            reorder,
            duplicate: threshold(config.duplicate),
            detour: Span::ZERO,
            is_plain: !overtakes && config.jitter == Span::ZERO && threshold(config.duplicate) == 0,
            rng: Rng::derive(seed, 0xde1a),
            latest: Time::ZERO,
            store: if overtakes {
                Store::Heap { heap: BinaryHeap::new(), pushed: 0 }
            } else {
                Store::Fifo(VecDeque::new())
            },
        }
    }

    /// Sets the propagation delay of items sent from now on.
    pub fn set_delay(&mut self, delay: Span) {
        self.delay = delay;
    }

    /// Delays items sent from now on by `detour` more. Items sent after its end overtake.
    pub fn set_detour(&mut self, detour: Span) {
        self.detour = detour;
        if let Store::Fifo(ring) = &mut self.store {
            let waiting = std::mem::take(ring);
            let pushed = waiting.len() as u64;
            let heap = waiting.into_iter().zip(0..).map(|((at, item), nth)| Timed { at, nth, item }).collect();
            self.store = Store::Heap { heap, pushed };
        }
    }

    /// Current propagation delay.
    pub fn delay(&self) -> Span {
        self.delay
    }

    /// True if every item arrives one constant delay after it was sent.
    pub const fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Arrival time of an item that is sent at `now` and not put on the line. Items are sent in order.
    #[inline]
    pub fn arrival_of(&mut self, now: Time) -> Time {
        debug_assert!(self.is_plain, "arrivals of this line are not known");
        self.latest = self.latest.max(now + self.delay);
        self.latest
    }

    /// Number of items in transit.
    pub fn len(&self) -> usize {
        match &self.store {
            Store::Fifo(ring) => ring.len(),
            Store::Heap { heap, .. } => heap.len(),
        }
    }

    /// True if no item is in transit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Accepts an item at `now`. A duplicated item arrives twice at the same time. Returns true if it is duplicated.
    #[inline]
    pub fn push(&mut self, now: Time, item: T) -> bool {
        if self.is_plain
            && let Store::Fifo(ring) = &mut self.store
        {
            self.latest = self.latest.max(now + self.delay);
            ring.push_back((self.latest, item));
            false
        } else {
            self.push_specially(now, item)
        }
    }

    #[inline(never)]
    fn push_specially(&mut self, now: Time, item: T) -> bool {
        let at = self.arrival(now);
        self.insert(at, item);
        let doubled = self.duplicate != 0 && happens(self.duplicate, &mut self.rng);
        if doubled {
            self.insert(at, item);
        }
        doubled
    }

    /// Arrival time of the next item; [`Time::NEVER`] when none is in transit.
    #[inline]
    pub fn next(&self) -> Time {
        match &self.store {
            Store::Fifo(ring) => ring.front().map_or(Time::NEVER, |&(at, _)| at),
            Store::Heap { heap, .. } => heap.peek().map_or(Time::NEVER, |timed| timed.at),
        }
    }

    /// Borrows the next item, if it has arrived by `now`; [`Self::drop_front`] removes it. For items that are large to copy.
    #[inline]
    pub fn arrived(&self, now: Time) -> Option<&T> {
        match &self.store {
            Store::Fifo(ring) => ring.front().filter(|(at, _)| *at <= now).map(|(_, item)| item),
            Store::Heap { heap, .. } => heap.peek().filter(|timed| timed.at <= now).map(|timed| &timed.item),
        }
    }

    /// Removes the next item.
    #[inline]
    pub fn drop_front(&mut self) {
        match &mut self.store {
            Store::Fifo(ring) => drop(ring.pop_front()),
            Store::Heap { heap, .. } => drop(heap.pop()),
        }
    }

    /// Removes the next item that has arrived by `now`, and returns it with its arrival time.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<(Time, T)> {
        if self.next() > now {
            return None;
        }
        match &mut self.store {
            Store::Fifo(ring) => ring.pop_front(),
            Store::Heap { heap, .. } => heap.pop().map(|timed| (timed.at, timed.item)),
        }
    }

    #[inline]
    fn arrival(&mut self, now: Time) -> Time {
        if self.reorder != 0 && happens(self.reorder, &mut self.rng) {
            return now + Span::nanos(self.delay.as_nanos() - self.delay.as_nanos() / 2);
        }
        if self.detour != Span::ZERO {
            return now + self.delay + self.detour;
        }
        let mut at = now + self.delay;
        if self.jitter != Span::ZERO {
            at += Span::nanos(self.rng.below(self.jitter.as_nanos().saturating_add(1)));
            if self.jitter_reorders {
                return at;
            }
        }
        self.latest = self.latest.max(at);
        self.latest
    }

    #[inline]
    fn insert(&mut self, at: Time, item: T) {
        match &mut self.store {
            Store::Fifo(ring) => ring.push_back((at, item)),
            Store::Heap { heap, pushed } => {
                heap.push(Timed { at, nth: *pushed, item });
                *pushed += 1;
            }
        }
    }
}

impl<T> Ord for Timed<T> {
    /// Reversed, since the standard library's heap returns its greatest item.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.nth).cmp(&(self.at, self.nth))
    }
}

impl<T> PartialOrd for Timed<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Timed<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.nth) == (other.at, other.nth)
    }
}

impl<T> Eq for Timed<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: DelayConfig = DelayConfig {
        delay: Span::millis(20),
        jitter: Span::ZERO,
        jitter_reorders: false,
        reorder: 0.0,
        duplicate: 0.0,
    };

    /// Pushes `n` items a millisecond apart, then removes them in order of arrival.
    fn through(config: &DelayConfig, n: u64, seed: u64) -> Vec<(Time, u64)> {
        let mut line = DelayLine::new(config, seed);
        for i in 0..n {
            line.push(Time::ZERO + Span::millis(i), i);
        }
        std::iter::from_fn(|| line.pop(Time::NEVER)).collect()
    }

    fn inversions(arrived: &[(Time, u64)]) -> usize {
        arrived.windows(2).filter(|pair| pair[0].1 > pair[1].1).count()
    }

    #[test]
    fn what_is_sent_after_a_detour_overtakes_what_took_it() {
        let mut line = DelayLine::new(&PLAIN, 1);
        line.push(Time::ZERO, 0);
        line.set_detour(Span::millis(50));
        line.push(Time::ZERO + Span::millis(1), 1);
        line.set_detour(Span::ZERO);
        line.push(Time::ZERO + Span::millis(2), 2);
        let arrived: Vec<(Time, u64)> = std::iter::from_fn(|| line.pop(Time::NEVER)).collect();
        assert_eq!(arrived.iter().map(|(_, item)| *item).collect::<Vec<_>>(), [0, 2, 1]);
        assert_eq!(arrived[2].0, Time::ZERO + Span::millis(71));
    }

    #[test]
    fn an_item_arrives_exactly_one_delay_later_and_not_before() {
        let mut line = DelayLine::new(&PLAIN, 1);
        assert_eq!(line.next(), Time::NEVER);
        line.push(Time::nanos(5), 'a');
        assert_eq!(line.next(), Time::nanos(20_000_005));
        assert_eq!(line.pop(Time::nanos(20_000_004)), None);
        assert_eq!(line.pop(Time::nanos(20_000_005)), Some((Time::nanos(20_000_005), 'a')));
        assert!(line.is_empty());
    }

    #[test]
    fn a_shrinking_delay_keeps_order() {
        let mut line = DelayLine::new(&PLAIN, 1);
        line.push(Time::ZERO, 1);
        line.set_delay(Span::millis(5));
        line.push(Time::nanos(1), 2);
        assert_eq!(line.pop(Time::NEVER), Some((Time::nanos(20_000_000), 1)));
        assert_eq!(line.pop(Time::NEVER), Some((Time::nanos(20_000_000), 2)));
    }

    #[test]
    fn jitter_keeps_order_unless_asked_to_reorder() {
        let jitter = DelayConfig { jitter: Span::millis(10), ..PLAIN };
        let kept = through(&jitter, 1000, 3);
        assert_eq!(inversions(&kept), 0);
        assert!(kept.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        let mixed = through(&DelayConfig { jitter_reorders: true, ..jitter }, 1000, 3);
        assert!(inversions(&mixed) > 100);
        assert!(mixed.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn jitter_stays_within_its_bounds_and_reaches_both() {
        let config = DelayConfig { jitter: Span::millis(10), jitter_reorders: true, ..PLAIN };
        let added: Vec<u64> =
            through(&config, 10_000, 3).iter().map(|&(at, i)| at.as_nanos() - 20_000_000 - i * 1_000_000).collect();
        assert!(added.iter().all(|&ns| ns <= 10_000_000));
        assert!(added.iter().any(|&ns| ns < 100_000) && added.iter().any(|&ns| ns > 9_900_000));
    }

    #[test]
    fn reordered_items_take_half_the_delay_and_the_others_all_of_it() {
        let arrived = through(&DelayConfig { reorder: 0.1, ..PLAIN }, 10_000, 4);
        let early = arrived.iter().filter(|&&(at, i)| at.as_nanos() == 10_000_000 + i * 1_000_000).count();
        let full = arrived.iter().filter(|&&(at, i)| at.as_nanos() == 20_000_000 + i * 1_000_000).count();
        assert_eq!(early + full, 10_000);
        assert!((early as f64 / 1000.0 - 1.0).abs() < 0.12, "{early} overtook");
    }

    #[test]
    fn ties_in_the_heap_keep_the_order_of_insertion() {
        let mut line = DelayLine::new(&DelayConfig { reorder: 1e-12, ..PLAIN }, 1);
        for i in 0..100 {
            line.push(Time::nanos(7), i);
        }
        let order: Vec<i32> = std::iter::from_fn(|| line.pop(Time::NEVER)).map(|(_, i)| i).collect();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn duplicates_arrive_twice_at_their_share() {
        let arrived = through(&DelayConfig { duplicate: 0.1, ..PLAIN }, 10_000, 5);
        assert!((arrived.len() as f64 / 11_000.0 - 1.0).abs() < 0.01, "{} arrived", arrived.len());
        assert_eq!(through(&DelayConfig { duplicate: 1.0, ..PLAIN }, 10, 5).len(), 20);
    }

    #[test]
    fn same_seed_same_arrivals() {
        let config = DelayConfig { jitter: Span::millis(10), jitter_reorders: true, reorder: 0.1, ..PLAIN };
        assert_eq!(through(&config, 1000, 6), through(&config, 1000, 6));
        assert_ne!(through(&config, 1000, 6), through(&config, 1000, 7));
    }
}
