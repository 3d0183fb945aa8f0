//! The link itself: policer, queue, service and loss in a row.
//! In: packets offered in order of time. Out: departures at their theoretical times. Never: work that grows with the queue.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Rate, Span, Time};

use super::config::{Buffer, LinkConfig, Loss, Service};
use super::fifo::{Entry, Limit, Tally};
use super::loss::LossModel;
use super::policer::TokenBucket;
use super::queue::Queue;
use super::serialiser::Serialiser;
use super::{Departure, LinkPacket, LinkStats, Verdict};

/// One link. A host offers packets as they come and asks for departures when they are due:
/// before it offers at `now`, it has taken every departure before `now`.
#[derive(Clone, Debug)]
pub struct Link<P> {
    next: Time,
    serving: Option<Serving<P>>,
    serialiser: Serialiser,
    queue: Queue<P>,
    limit: Limit,
    policer: Option<TokenBucket>,
    loss: LossModel,
    tally: Tally,
    /// What could have been carried up to `since`, in bits times 10⁹.
    capacity: u128,
    since: Time,
}

/// The packet being sent, with the time it waited.
#[derive(Clone, Debug)]
struct Serving<P> {
    packet: P,
    waited: Span,
}

impl<P: LinkPacket> Link<P> {
    /// An idle link whose dice depend on `seed` alone.
    pub fn new(config: &LinkConfig, seed: u64) -> Self {
        let rate = match &config.service {
            Service::Rate(rate) => *rate,
            Service::Trace(trace) => trace.mean_rate(),
            Service::Demand(demand) => demand.min,
        };
        Self {
            next: Time::NEVER,
            serving: None,
            serialiser: Serialiser::new(rate),
            queue: Queue::new(&config.aqm, seed),
            limit: Limit::of(config.buffer),
            policer: config.policer.map(TokenBucket::new),
            loss: LossModel::new(config.loss, seed),
            tally: Tally::default(),
            capacity: 0,
            since: Time::ZERO,
        }
    }

    /// Takes a packet that arrives at `now`.
    #[inline]
    pub fn offer(&mut self, now: Time, packet: P) -> Verdict {
        debug_assert!(now <= self.next, "offered at {now:?}, after the departure due at {:?}", self.next);
        self.tally.stats.arrivals += 1;
        if let Some(policer) = &mut self.policer
            && !policer.admit(now, packet.wire_bytes())
        {
            self.tally.stats.policed += 1;
            return Verdict::Policed;
        }
        let entry = Entry { packet, arrived: now };
        if self.serving.is_some() {
            return self.queue.enqueue(now, entry, self.limit, &mut self.tally);
        }
        let verdict = self.queue.enqueue(now, entry, Limit::NONE, &mut self.tally);
        self.serve_next(now);
        verdict
    }

    /// When [`Self::depart`] is due; [`Time::NEVER`] when idle.
    #[inline]
    pub fn next_departure(&self) -> Time {
        self.next
    }

    /// Ends what is due by `now`. `None` where no packet left: call again as long as the next departure is due.
    #[inline]
    pub fn depart(&mut self, now: Time) -> Option<Departure<P>> {
        let at = self.next;
        if at > now {
            return None;
        }
        let served = self.serving.take()?;
        self.serve_next(at);
        let stats = &mut self.tally.stats;
        stats.departed_packets += 1;
        stats.departed_bytes += u64::from(served.packet.wire_bytes());
        let lost = self.loss.lose();
        stats.lost += u64::from(lost);
        Some(Departure { packet: served.packet, at, queue_delay: served.waited, lost })
    }

    /// Changes the rate; the bits that remain of the packet being sent go at the new one.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        self.capacity = self.capacity_units(now);
        self.since = now;
        self.serialiser.set_rate(now, rate, self.serving.is_some());
        self.next = self.serialiser.end();
    }

    /// Changes the queue limit. What waits already stays.
    pub fn set_buffer(&mut self, buffer: Buffer) {
        self.limit = Limit::of(buffer);
    }

    /// Changes the random loss.
    pub fn set_loss(&mut self, loss: Loss) {
        self.loss.set(loss);
    }

    /// The counters.
    pub fn stats(&self) -> &LinkStats {
        &self.tally.stats
    }

    /// Bytes that could have left up to `now`, rounded down: the denominator of the utilisation.
    pub fn capacity_bytes_until(&self, now: Time) -> u64 {
        u64::try_from(self.capacity_units(now) / u128::from(8 * NANOS_PER_SEC)).unwrap_or(u64::MAX)
    }

    /// Packets that wait or are being sent.
    pub fn queue_packets(&self) -> u32 {
        let packets = self.queue.len() + usize::from(self.serving.is_some());
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// Bytes that wait or are being sent; the packet being sent counts in full.
    pub fn queue_bytes(&self) -> u64 {
        self.queue.bytes() + self.serving.as_ref().map_or(0, |serving| serving.packet.wire_bytes().into())
    }

    /// The present rate.
    pub fn rate(&self) -> Rate {
        self.serialiser.rate()
    }

    /// Moves to `flows` the flow of each packet that was dropped after it had been queued (a verdict of its own
    /// told of those dropped on arrival). Costs one comparison where there was none.
    #[inline]
    pub fn take_dropped(&mut self, flows: &mut Vec<u32>) {
        if !self.tally.dropped.is_empty() {
            flows.append(&mut self.tally.dropped);
        }
    }

    #[inline]
    fn serve_next(&mut self, now: Time) {
        let Some(entry) = self.queue.dequeue(now, &mut self.tally) else {
            self.serialiser.rest();
            self.next = Time::NEVER;
            return;
        };
        self.next = self.serialiser.start(now, entry.packet.wire_bytes());
        self.serving = Some(Serving { packet: entry.packet, waited: now.since(entry.arrived) });
    }

    fn capacity_units(&self, now: Time) -> u128 {
        self.capacity + u128::from(self.serialiser.rate().0) * u128::from(now.since(self.since).0)
    }
}
