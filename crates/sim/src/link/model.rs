//! The link: policer, queue, service and loss in series.
//! The work per packet does not grow with the queue.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Rate, Span, Time};

use super::config::{Buffer, LinkConfig, Loss, Service};
use super::demand::Grant;
use super::fifo::{Entry, Limit, Tally};
use super::loss::LossModel;
use super::opportunities::Opportunities;
use super::policer::TokenBucket;
use super::queue::Queue;
use super::serialiser::Serialiser;
use super::timetable::Timetable;
use super::{Departure, LinkPacket, LinkStats, PlannedDeparture, Verdict};

/// One link. A host offers packets as they arrive and takes departures as they become due: before it offers at `now`, it has
/// taken every departure before `now`.
#[derive(Clone, Debug)]
pub struct Link<P> {
    next: Time,
    serving: Option<Serving<P>>,
    serialiser: Serialiser,
    service: Server,
    queue: Queue<P>,
    limit: Limit,
    policer: Option<TokenBucket>,
    loss: LossModel,
    filters_acks: bool,
    tally: Tally,
    /// Departures, where the host has asked for them in advance.
    timetable: Option<Timetable>,
    /// Capacity up to `since`, in bits times 10⁹.
    capacity: u128,
    since: Time,
}

/// Service that drains the queue. The serialiser next to it holds the current rate.
#[derive(Clone, Debug)]
enum Server {
    Rate,
    Trace(Box<Opportunities>),
    Demand(Box<Grant>),
}

/// Packet being sent, with its queueing delay and the start of its serialisation (for a delivery trace: the end).
#[derive(Clone, Debug)]
struct Serving<P> {
    packet: P,
    waited: Span,
    since: Time,
}

impl<P: LinkPacket> Link<P> {
    /// Creates an idle link whose random numbers depend on `seed` alone.
    pub fn new(config: &LinkConfig, seed: u64) -> Self {
        let (service, rate) = match &config.service {
            Service::Rate(rate) => (Server::Rate, *rate),
            Service::Trace(trace) => (Server::Trace(Box::new(Opportunities::new(trace.clone()))), trace.mean_rate()),
            Service::Demand(demand) => {
                let grant = Grant::new(*demand);
                let rate = grant.rate();
                (Server::Demand(Box::new(grant)), rate)
            }
        };
        let mut queue = Queue::new(&config.aqm, seed);
        if let Server::Rate = service {
            queue.set_rate(rate);
        }
        Self {
            next: Time::NEVER,
            serving: None,
            serialiser: Serialiser::new(rate),
            service,
            queue,
            limit: Limit::of(config.buffer),
            policer: config.policer.map(TokenBucket::new),
            loss: LossModel::new(config.loss, seed),
            filters_acks: config.ack_filter,
            tally: Tally::default(),
            timetable: None,
            capacity: 0,
            since: Time::ZERO,
        }
    }

    /// True if its queue may remove an ACK when a newer one arrives.
    pub const fn filters_acks(&self) -> bool {
        self.filters_acks
    }

    /// Accepts a packet that arrives at `now`. An idle link accepts it whatever the buffer, and starts to send it immediately
    /// (a delivery trace: at its next opportunity after `now`).
    #[inline(always)] // once a burst, once for the rest
    pub fn offer(&mut self, now: Time, packet: P) -> Verdict {
        debug_assert!(self.timetable.is_none(), "offered to a link that plans ahead");
        debug_assert!(now <= self.next, "offered at {now:?}, after the departure due at {:?}", self.next);
        self.tally.stats.arrivals += 1;
        if let Some(policer) = &mut self.policer
            && !policer.admit(now, packet.wire_bytes())
        {
            self.tally.stats.policed += 1;
            return Verdict::Policed;
        }
        if self.filters_acks && self.queue.remove_superseded(&packet) {
            self.tally.stats.filtered += 1;
        }
        let idle = self.serving.is_none() && self.queue.len() == 0;
        let limit = if idle { Limit::NONE } else { self.limit };
        let entry = Entry { packet, arrived: now };
        let verdict = self.queue.enqueue(now, entry, limit, self.serialiser.rate(), &mut self.tally);
        if idle && verdict == Verdict::Queued {
            self.wake(now);
        }
        verdict
    }

    /// Plans departures when packets are offered, if their times are known then. The host calls it before its first packet,
    /// offers packets by [`Self::plan`], and does not change the link.
    pub fn plan_ahead(&mut self) -> bool {
        let is_known = matches!((&self.service, &self.queue), (Server::Rate, Queue::DropTail(_)))
            && self.policer.is_none()
            && self.rate().as_bits_per_sec() > 0;
        if is_known {
            self.timetable = Some(Timetable::new());
        }
        is_known
    }

    /// True if departures are planned.
    #[inline]
    pub const fn plans_ahead(&self) -> bool {
        self.timetable.is_some()
    }

    /// Does the work of [`Self::offer`] and [`Self::depart`] for a link that plans ahead: returns the departure, in the
    /// future, or that the packet is dropped.
    #[inline(always)] // runs for each packet
    pub fn plan(&mut self, now: Time, wire_bytes: u32) -> Result<PlannedDeparture, Verdict> {
        let (timetable, stats) = (self.timetable.as_mut().expect("the link plans ahead"), &mut self.tally.stats);
        stats.arrivals += 1;
        let begin = if timetable.idle_from <= now {
            self.serialiser.rest();
            now
        } else if timetable.has_room(now, self.limit, wire_bytes, stats) {
            timetable.idle_from
        } else {
            stats.drops += 1;
            return Err(Verdict::Dropped);
        };
        let at = self.serialiser.start(begin, wire_bytes);
        let lost = !self.loss.is_none() && self.loss.lose();
        timetable.add(now, at, wire_bytes, lost, stats);
        Ok(PlannedDeparture { at, queue_delay: begin.since(now), service: at.since(begin), lost })
    }

    /// Brings the counters of a link that plans ahead up to `now`.
    pub fn settle(&mut self, now: Time) {
        if let Some(timetable) = &mut self.timetable {
            timetable.settle(now, &mut self.tally.stats);
        }
    }

    /// Time at which [`Self::depart`] is due; [`Time::NEVER`] when idle. Exception: a demand link whose grant is above its
    /// minimum is due at the end of its period even when idle.
    #[inline]
    pub fn next_departure(&self) -> Time {
        self.next
    }

    /// Completes the event due by `now`. Returns `None` if no packet left (nothing was due, the packet needs more opportunities
    /// of a trace, a grant changed); [`Self::next_departure`] is then the next time to call it.
    #[inline]
    pub fn depart(&mut self, now: Time) -> Option<Departure<P>> {
        let at = self.next;
        if at > now {
            return None;
        }
        match self.service {
            Server::Rate => {}
            Server::Demand(_) if self.serialiser.end() > at => {
                self.review_grant(at);
                return None;
            }
            Server::Demand(_) => {}
            Server::Trace(_) => return self.depart_by_trace(now),
        }
        let served = self.serving.take()?;
        let departure = self.departed(served, at);
        self.serve_next(at);
        Some(departure)
    }

    /// Changes the rate; the remaining bits of the packet being sent leave at the new one. A link with another service has a
    /// constant rate from now on.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        debug_assert!(self.timetable.is_none(), "changed a link that plans ahead");
        self.capacity = self.capacity_units(now);
        self.since = now;
        self.queue.set_rate(rate);
        match std::mem::replace(&mut self.service, Server::Rate) {
            Server::Rate | Server::Demand(_) => {
                self.serialiser.set_rate(now, rate, self.serving.is_some());
                self.next = self.serialiser.end();
            }
            Server::Trace(trace) => {
                self.serialiser.set_rate(now, rate, false);
                match &self.serving {
                    Some(serving) => {
                        let unsent = trace.unsent(now, serving.packet.wire_bytes());
                        self.serialiser.resume(now, unsent);
                        self.next = self.serialiser.end();
                    }
                    None => self.serve_next(now),
                }
            }
        }
    }

    /// Changes the queue limit. Packets already waiting are kept.
    pub fn set_buffer(&mut self, buffer: Buffer) {
        self.limit = Limit::of(buffer);
    }

    /// Loses each packet whose number is divisible by `n`; 0 for none.
    pub fn set_loss_every(&mut self, n: u32) {
        self.loss.set_every(n);
    }

    /// Changes the random loss.
    pub fn set_loss(&mut self, loss: Loss) {
        self.loss.set(loss);
    }

    /// Counters since the start.
    pub fn stats(&self) -> &LinkStats {
        &self.tally.stats
    }

    /// Bytes that could have left in 0..=`now`, rounded down. The difference of two values is the denominator of the
    /// utilisation in between. It must be called before the rate changes after `now`.
    pub fn capacity_bytes_until(&self, now: Time) -> u64 {
        u64::try_from(self.capacity_units(now) / u128::from(8 * NANOS_PER_SEC)).unwrap_or(u64::MAX)
    }

    /// Packets waiting or being sent.
    pub fn queue_packets(&self) -> u32 {
        let planned = self.timetable.as_ref().map_or(0, Timetable::packets);
        let packets = planned + self.queue.len() + usize::from(self.serving.is_some());
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// Bytes waiting or being sent; the packet being sent counts in full.
    pub fn queue_bytes(&self) -> u64 {
        let planned = self.timetable.as_ref().map_or(0, Timetable::bytes);
        planned + self.queue.bytes() + self.serving.as_ref().map_or(0, |serving| serving.packet.wire_bytes().into())
    }

    /// Current rate; zero for a delivery trace, which has none.
    pub fn rate(&self) -> Rate {
        match self.service {
            Server::Trace(_) => Rate::bits_per_sec(0),
            Server::Rate | Server::Demand(_) => self.serialiser.rate(),
        }
    }

    /// Moves to `flows` the flow of each packet dropped after it had been queued. Drops on arrival are reported by the verdict.
    pub fn take_dropped(&mut self, flows: &mut Vec<u32>) {
        flows.append(&mut self.tally.dropped);
    }

    /// True if [`Self::take_dropped`] has any.
    #[inline]
    pub fn has_dropped(&self) -> bool {
        !self.tally.dropped.is_empty()
    }

    /// Starts to serve a packet that arrived at an idle link.
    #[inline(never)]
    fn wake(&mut self, now: Time) {
        match &mut self.service {
            Server::Rate => {}
            Server::Demand(grant) => grant.wake(now),
            Server::Trace(trace) => {
                self.next = trace.wake(now);
                return;
            }
        }
        self.serve_next(now);
    }

    /// Takes the next packet into service at `now`, at the current rate.
    #[inline(always)] // inlined in `depart` and `wake`; the other callers are rare
    fn serve_next(&mut self, now: Time) {
        match self.queue.dequeue(now, &mut self.tally) {
            Some(entry) => {
                self.next = self.serialiser.start(now, entry.packet.wire_bytes());
                self.serving = Some(Serving { packet: entry.packet, waited: now.since(entry.arrived), since: now });
            }
            None => {
                self.serialiser.rest();
                self.next = Time::NEVER;
            }
        }
        if matches!(self.service, Server::Demand(_)) {
            self.note_backlog();
        }
    }

    #[inline]
    fn departed(&mut self, served: Serving<P>, at: Time) -> Departure<P> {
        let lost = !self.loss.is_none() && self.loss.lose();
        let stats = &mut self.tally.stats;
        stats.departed_packets += 1;
        stats.departed_bytes += u64::from(served.packet.wire_bytes());
        stats.lost += u64::from(lost);
        Departure { packet: served.packet, at, queue_delay: served.waited, service: at.since(served.since), lost }
    }

    #[inline(never)]
    fn note_backlog(&mut self) {
        let backlog = self.queue_bytes();
        if let Server::Demand(grant) = &mut self.service {
            grant.note(backlog);
            self.next = self.serialiser.end().min(grant.review_at());
        }
    }

    #[inline(never)]
    fn review_grant(&mut self, at: Time) {
        let backlog = self.queue_bytes();
        self.capacity = self.capacity_units(at);
        self.since = at;
        if let Server::Demand(grant) = &mut self.service {
            let rate = grant.review(backlog);
            if rate != self.serialiser.rate() {
                self.serialiser.set_rate(at, rate, self.serving.is_some());
            }
            self.next = self.serialiser.end().min(grant.review_at());
        }
    }

    #[inline(never)]
    fn depart_by_trace(&mut self, now: Time) -> Option<Departure<P>> {
        // Bounded: each iteration uses an opportunity or completes a packet.
        while self.next <= now {
            let at = self.next;
            let served = self.serving.take();
            if let Server::Trace(trace) = &mut self.service {
                if served.is_some() { trace.complete() } else { trace.begin() }
            }
            self.fill_opportunity(at);
            if let Some(served) = served {
                return Some(self.departed(served, at));
            }
        }
        None
    }

    /// Puts the next packet into the rest of the opportunity at `at`.
    fn fill_opportunity(&mut self, at: Time) {
        let Server::Trace(trace) = &mut self.service else { return };
        // An empty queue is polled too, so that its discipline is informed that it idles.
        if (trace.has_left() || self.queue.len() == 0)
            && let Some(entry) = self.queue.dequeue(at, &mut self.tally)
        {
            self.next = trace.put(at, entry.packet.wire_bytes());
            self.serving =
                Some(Serving { packet: entry.packet, waited: self.next.since(entry.arrived), since: self.next });
            return;
        }
        self.next = if self.queue.len() == 0 { Time::NEVER } else { trace.next_at() };
    }

    /// Capacity in bits times 10⁹.
    fn capacity_units(&self, now: Time) -> u128 {
        let rate = match &self.service {
            Server::Trace(trace) => {
                return u128::from(trace.capacity_bytes(now)) * u128::from(8 * NANOS_PER_SEC);
            }
            Server::Rate | Server::Demand(_) => self.serialiser.rate(),
        };
        self.capacity + u128::from(rate.as_bits_per_sec()) * u128::from(now.since(self.since).as_nanos())
    }
}
