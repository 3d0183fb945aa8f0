//! One direction of a path: a series of links, then propagation. ACKs have loss and holding, and at most one link.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};

use super::{ACCESS_HOP, Direction, FlowSharing, PathObserver, PathPacket, SojournTime, flow_seed, seed};
use crate::link::{
    AckAggregation, AckHold, DelayConfig, DelayLine, Departure, Link, LinkConfig, LinkPacket, Loss, LossModel,
    PlannedDeparture, Verdict,
};
use crate::setup::{ChangeKind, FlowSetup, PathSetup, Setup};
use crate::timer_tree::{TimerTree, WIDTH};

/// Maximum number of delay lines shared by flows of equal delay; further delays get lines of their own. Ours.
const SHARED_LINES_MAX: usize = 64;
/// Part of the seed used for the link of `up`.
const UP_STREAM: usize = 6_000_000;
/// Constants that separate the seeds of a flow's two directions.
const SEED_OF_DATA: u64 = 0x666f_7277;
const SEED_OF_ACKS: u64 = 0x6261_636b;

/// One direction of a path. See [`super`] for its use by a driver.
#[derive(Debug)]
pub struct OneWay<P: PathPacket> {
    half: Direction,
    /// Deadlines: one for each link, then one for each line.
    agenda: TimerTree,
    /// Shared links, then access links.
    links: Vec<Link<P::Queued>>,
    shared: usize,
    bottleneck: usize,
    /// One per flow, and one for unknown flows where they are allowed.
    routes: Vec<Route>,
    lines: Vec<DelayLine<P>>,
    /// One per line, where ACKs are held; no lines are shared then.
    holds: Vec<AckHold<P>>,
    loss: LossModel,
    carries_acks: bool,
    /// Number of its first link in a schedule: the forward links are counted from 0, and the one of `up` follows them.
    pub(super) first_link: usize,
    dropped: Vec<u32>,
}

/// Route of one flow.
#[derive(Clone, Debug)]
struct Route {
    /// Hop at which its packets enter; then the first shared link, and one past the last.
    entry: u8,
    first: u8,
    past: u8,
    access: usize,
    line: usize,
    /// The flow's own RTT; then the delay that its access link adds to any RTT.
    own_rtt: Option<Span>,
    extra: Span,
}

impl<P: PathPacket> OneWay<P> {
    /// Creates a direction for data: every link, jitter, reordering, duplication.
    pub fn for_data(setup: &Setup, half: Direction, users: FlowSharing) -> Self {
        let mut direction = Self::bare(setup, half, &setup.path, users, SEED_OF_DATA);
        let link = |(index, config): (usize, &LinkConfig)| Link::new(config, seed(setup.seed, 1_000_000 + index));
        direction.links = setup.links.iter().enumerate().map(link).collect();
        direction.shared = direction.links.len();
        direction.bottleneck = setup.bottleneck;
        for (index, (flow, route)) in setup.flows.iter().zip(&mut direction.routes).enumerate() {
            (route.first, route.past) = (flow.links.0 as u8, flow.links.1 as u8);
            route.entry = route.first;
            if let Some(access) = flow.access {
                let config = LinkConfig::drop_tail(access.rate, access.buffer);
                (route.entry, route.access) = (ACCESS_HOP, direction.links.len());
                direction.links.push(Link::new(&config, seed(setup.seed, 2_000_000 + index)));
            }
        }
        if let Some(unknown_flows) = direction.routes.get_mut(setup.flows.len()) {
            unknown_flows.past = direction.shared as u8;
        }
        direction.agenda = TimerTree::new(direction.links.len() + direction.lines.len());
        direction
    }

    /// Creates a direction for ACKs: loss and holding, or loss and the link of `up`.
    pub fn for_acks(setup: &Setup, half: Direction, users: FlowSharing) -> Self {
        // Each flow's ACKs have a line of their own, so that simultaneous ones arrive in the order of the flows.
        let users = FlowSharing { per_flow_delay: true, ..users };
        let plain = PathSetup { jitter: Span::ZERO, reorder: 0.0, duplicate: 0.0, ..setup.path };
        let mut direction = Self::bare(setup, half, &plain, users, SEED_OF_ACKS);
        direction.loss = LossModel::new(setup.path.ack_loss, seed(setup.seed, 4_000_000));
        direction.carries_acks = true;
        if let Some(up) = &setup.up {
            direction.links.push(Link::new(up, seed(setup.seed, UP_STREAM)));
            (direction.shared, direction.bottleneck, direction.first_link) = (1, 0, setup.links.len());
            direction.routes.iter_mut().for_each(|route| route.past = 1);
            direction.agenda = TimerTree::new(1 + direction.lines.len());
        }
        if setup.path.ack_aggregation != AckAggregation::None {
            direction.holds = direction.lines.iter().map(|_| AckHold::new(setup.path.ack_aggregation)).collect();
        }
        direction
    }

    fn bare(setup: &Setup, half: Direction, path: &PathSetup, users: FlowSharing, own_seed: u64) -> Self {
        let is_plain = path.jitter == Span::ZERO
            && path.reorder <= 0.0
            && path.duplicate <= 0.0
            && !users.per_flow_delay
            && !setup.schedule.iter().any(|change| matches!(change.what, ChangeKind::Rtt(_)));
        let mut lines: Vec<DelayLine<P>> = Vec::new();
        let unknown_flows = users.unknown_flows.then_some(None);
        let routes = setup.flows.iter().map(Some).chain(unknown_flows).enumerate().map(|(index, flow)| {
            let mut route = Route::new(flow);
            let delay = half.of(route.rtt(path.rtt));
            // Flows with identical routes share a line, whose packets arrive in the order of their departure.
            let crowd = &lines[..lines.len().min(SHARED_LINES_MAX)];
            route.line = crowd.iter().position(|known| is_plain && known.delay() == delay).unwrap_or(lines.len());
            if route.line == lines.len() {
                let own = flow_seed(setup.seed, index) ^ own_seed;
                lines.push(DelayLine::new(&delay_config(path, delay), own));
            }
            route
        });
        Self {
            half,
            routes: routes.collect(),
            agenda: TimerTree::new(lines.len()),
            links: Vec::new(),
            shared: 0,
            bottleneck: usize::MAX,
            lines,
            holds: Vec::new(),
            loss: LossModel::new(Loss::None, 0),
            carries_acks: false,
            first_link: 0,
            dropped: Vec::new(),
        }
    }

    /// Time of its next event.
    #[inline]
    pub fn next(&self) -> Time {
        self.agenda.earliest()
    }

    /// True if [`Self::offer`] requires the number of bytes that an ACK acknowledges.
    #[inline]
    pub fn holds_acks(&self) -> bool {
        !self.holds.is_empty()
    }

    /// Accepts a packet from the host at `now`. `acked` is the number of bytes that an ACK acknowledges for the first time, or
    /// `None` for a packet that is never held, such as a SYN.
    #[inline]
    pub fn offer(&mut self, now: Time, mut packet: P, acked: Option<u64>, observer: &mut impl PathObserver<P>) {
        if !self.loss.is_none() && self.loss.lose() {
            observer.on_lost(&packet);
            return;
        }
        let route = self.route(&packet);
        if route.first < route.past {
            packet.set_hop(route.entry);
            self.offer_to_link(now, packet, observer);
            return;
        }
        let line = route.line;
        match acked {
            Some(bytes) if self.holds.get(line).is_some_and(|hold| !hold.is_none()) => {
                self.holds[line].push(now, packet, bytes);
                self.note_line(line, self.lines[line].next());
            }
            _ => self.propagate(now, packet, line, observer),
        }
    }

    /// Does the work of [`Self::offer`] for data that one flow sends together, if it has no access link.
    #[inline]
    pub fn offer_burst(&mut self, now: Time, packets: &[P], observer: &mut impl PathObserver<P>) {
        let Some(first) = packets.first() else { return };
        let hop = self.route(first).entry;
        let index = usize::from(hop);
        if self.links[index].plans_ahead() {
            return self.plan_burst(now, packets, observer);
        }
        let link = &mut self.links[index];
        let due = link.next_departure();
        let mut refused = 0;
        for packet in packets {
            let mut packet = *packet;
            packet.set_hop(hop);
            if link.offer(now, packet.into_queue()) != Verdict::Queued {
                refused += 1;
                observer.on_refused(&packet, index == self.bottleneck);
            }
        }
        observer.on_burst(now, packets, refused, index == self.bottleneck);
        let (next, drops) = (link.next_departure(), link.has_dropped());
        if next != due {
            self.agenda.set(index, next);
        }
        if drops {
            self.note_drops(index, observer);
        }
    }

    /// Plans each packet's departure from the link when the packet is offered, if departures are known then. Called before the
    /// first packet by a driver that does not change the path.
    pub(super) fn plan_ahead(&mut self) -> bool {
        // Behind another shared link, offers would not come in order.
        self.shared == 1 && self.links[0].plan_ahead()
    }

    /// True if arrivals are known as soon as departures are.
    pub fn is_constant(&self) -> bool {
        self.loss.is_none() && self.holds.is_empty() && self.lines.iter().all(DelayLine::is_plain)
    }

    /// Does the work of [`Self::offer_burst`] on a constant path that plans ahead: calls `arrive` for each packet that arrives,
    /// with the time at which it does. Returns the number of packets that the link refused.
    #[inline]
    pub fn send_burst(
        &mut self,
        now: Time,
        packets: &[P],
        observer: &mut impl PathObserver<P>,
        mut arrive: impl FnMut(&P, Time),
    ) -> u64 {
        let Some(first) = packets.first() else { return 0 };
        let line = &mut self.lines[self.routes[first.flow() as usize].line];
        let link = &mut self.links[0];
        let mut refused = 0;
        for packet in packets {
            let mut packet = *packet;
            match link.plan(now, packet.into_queue().wire_bytes()) {
                Ok(planned) => {
                    let stayed = SojournTime { waited: planned.queue_delay, service: planned.service };
                    observer.on_departed(planned.at, &mut packet, stayed, planned.lost, true);
                    if planned.lost {
                        observer.on_lost(&packet);
                    } else {
                        arrive(&packet, line.arrival_of(planned.at));
                    }
                }
                Err(_) => refused += 1,
            }
        }
        refused
    }

    /// Does the work of [`Self::offer`] on a constant path without links. Each flow's packets are sent in order.
    #[inline]
    pub fn send(&mut self, at: Time, packet: P) {
        let index = self.route(&packet).line;
        let line = &mut self.lines[index];
        let was_empty = line.is_empty();
        line.push(at, packet);
        if was_empty {
            let next = line.next();
            self.agenda.set(self.links.len() + index, next);
        }
    }

    /// Brings the counters of links that plan ahead up to `now`.
    pub fn settle(&mut self, now: Time) {
        self.links.iter_mut().for_each(|link| link.settle(now));
    }

    /// Handles the next event, at [`Self::next`]: a packet arrives at the other end, or moves on inside.
    #[inline]
    pub fn poll(&mut self, observer: &mut impl PathObserver<P>) -> Option<(Time, P)> {
        let source = self.first_source();
        if source < self.links.len() {
            self.depart(source, observer);
            return None;
        }
        self.arrive(source - self.links.len(), observer)
    }

    /// Takes the next packet of this flow if it also arrives at `now`.
    #[inline]
    pub fn poll_flow(&mut self, now: Time, flow: u32) -> Option<P> {
        if self.agenda.earliest() != now {
            return None;
        }
        let index = self.routes[flow as usize].line;
        let line = &mut self.lines[index];
        let arrived = *line.arrived(now).filter(|next| next.flow() == flow)?;
        line.drop_front();
        let next = line.next();
        self.note_line(index, next);
        Some(arrived)
    }

    /// Next packet to arrive, if that is by `now`. Completes the links' work up to then.
    #[inline]
    pub fn front(&mut self, now: Time, observer: &mut impl PathObserver<P>) -> Option<&P> {
        loop {
            if self.agenda.earliest() > now {
                return None;
            }
            let source = self.first_source();
            match source.checked_sub(self.links.len()) {
                None => self.depart(source, observer),
                Some(line) if self.lines[line].next() <= self.agenda.earliest() => {
                    return self.lines[line].arrived(now);
                }
                Some(line) => self.release(line, observer),
            }
        }
    }

    /// Completes the links' work up to and including `now` without taking packets out.
    pub fn advance(&mut self, now: Time, observer: &mut impl PathObserver<P>) {
        while let Some((link, at)) = self.next_departure()
            && at <= now
        {
            self.depart(link, observer);
        }
        for line in 0..self.holds.len() {
            while self.holds[line].next() <= now {
                self.release(line, observer);
            }
        }
    }

    /// Lower bound of the next packet's arrival time.
    pub fn next_arrival(&self) -> Time {
        let mut due = Time::NEVER;
        let mut delay = Span::nanos(u64::MAX);
        for line in &self.lines {
            due = due.min(line.next());
            delay = delay.min(line.delay());
        }
        if let Some((_, at)) = self.next_departure() {
            due = due.min(at + delay);
        }
        self.holds.iter().fold(due, |due, hold| due.min(hold.next() + delay))
    }

    /// Applies a change at `now`, the time up to which this direction has been advanced.
    pub fn apply(&mut self, now: Time, link: usize, what: ChangeKind) {
        match what {
            ChangeKind::AckLoss(loss) if self.carries_acks => self.loss.set(loss),
            ChangeKind::Rtt(rtt) => {
                for route in &self.routes {
                    self.lines[route.line].set_delay(self.half.of(route.rtt(rtt)));
                }
            }
            _ => {
                let Some(link) = link.checked_sub(self.first_link) else { return };
                let Some(changed) = self.links[..self.shared].get_mut(link) else { return };
                match what {
                    ChangeKind::Rate(rate) => changed.set_rate(now, rate),
                    ChangeKind::Buffer(buffer) => changed.set_buffer(buffer),
                    ChangeKind::Loss(loss) => changed.set_loss(loss),
                    ChangeKind::Rtt(_) | ChangeKind::AckLoss(_) => {}
                }
                self.agenda.set(link, changed.next_departure());
            }
        }
    }

    /// Holds a flow's ACKs from now on, if none were held before. Its line must not be shared.
    pub fn hold_acks_of(&mut self, flow: usize, mode: AckAggregation) {
        if self.holds.is_empty() {
            self.holds = self.lines.iter().map(|_| AckHold::new(AckAggregation::None)).collect();
        }
        self.holds[self.routes[flow].line] = AckHold::new(mode);
    }

    /// Loses every `n`th packet behind the bottleneck.
    pub fn lose_every(&mut self, n: u32) {
        if let Some(link) = self.links.get_mut(self.bottleneck) {
            link.set_loss_every(n);
        }
    }

    /// Delays a flow's packets by `detour` more from now on. Packets sent after the end of the detour overtake. Its line must
    /// not be shared.
    pub fn set_detour_of(&mut self, flow: usize, detour: Span) {
        self.lines[self.routes[flow].line].set_detour(detour);
    }

    /// Links that flows share.
    pub fn links(&self) -> &[Link<P::Queued>] {
        &self.links[..self.shared]
    }

    /// Shared links, then the flows' access links.
    pub fn all_links(&self) -> &[Link<P::Queued>] {
        &self.links
    }

    /// Link whose figures are the result's.
    pub fn bottleneck(&self) -> &Link<P::Queued> {
        &self.links[self.bottleneck]
    }

    /// True if a packet is in transit behind the links, on the line of this flow.
    pub fn has_in_transit(&self, flow: usize) -> bool {
        let line = self.routes[flow].line;
        !self.lines[line].is_empty() || self.holds.get(line).is_some_and(|hold| hold.next() != Time::NEVER)
    }

    /// Number of kinds of packets that it distinguishes: one for each flow of the setup, and one for all others.
    pub fn users(&self) -> usize {
        self.routes.len()
    }

    /// Propagation delay of a flow.
    pub fn delay_of(&self, flow: usize) -> Span {
        self.lines[self.routes[flow].line].delay()
    }

    /// Smallest propagation delay of any flow.
    pub fn delay(&self) -> Span {
        self.lines.iter().map(DelayLine::delay).min().unwrap_or(Span::ZERO)
    }

    #[inline]
    fn first_source(&self) -> usize {
        let (group, place) = self.agenda.first();
        WIDTH * group + place
    }

    #[inline]
    fn next_departure(&self) -> Option<(usize, Time)> {
        let links = self.links.iter().enumerate().map(|(index, link)| (index, link.next_departure()));
        links.filter(|(_, at)| *at != Time::NEVER).min_by_key(|(_, at)| *at)
    }

    #[inline(never)] // most packets meet one link, and come in bursts
    fn offer_to_link(&mut self, now: Time, packet: P, observer: &mut impl PathObserver<P>) {
        let index = match packet.hop() {
            ACCESS_HOP => self.route(&packet).access,
            hop => usize::from(hop),
        };
        let link = &mut self.links[index];
        if link.plans_ahead() {
            let queued = packet.into_queue();
            let planned = link.plan(now, queued.wire_bytes());
            observer.on_offered(now, &packet, planned.err().unwrap_or(Verdict::Queued), index == self.bottleneck);
            if let Ok(PlannedDeparture { at, queue_delay, service, lost }) = planned {
                self.leave(Departure { packet: queued, at, queue_delay, service, lost }, index, observer);
            }
            return;
        }
        let due = link.next_departure();
        let verdict = link.offer(now, packet.into_queue());
        let (next, drops) = (link.next_departure(), link.has_dropped());
        if next != due {
            self.agenda.set(index, next);
        }
        observer.on_offered(now, &packet, verdict, index == self.bottleneck);
        if drops {
            self.note_drops(index, observer);
        }
    }

    /// Handles the departure of a packet from a link's serialiser.
    #[inline]
    fn depart(&mut self, index: usize, observer: &mut impl PathObserver<P>) {
        let link = &mut self.links[index];
        let departure = link.depart(link.next_departure());
        let (next, drops) = (link.next_departure(), link.has_dropped());
        self.agenda.set(index, next);
        if let Some(departure) = departure {
            self.leave(departure, index, observer);
        }
        if drops {
            self.note_drops(index, observer);
        }
    }

    /// Passes a packet that leaves a link to the next one, or on to its delay line.
    #[inline]
    fn leave(&mut self, departure: Departure<P::Queued>, index: usize, observer: &mut impl PathObserver<P>) {
        let mut packet = P::from_queue(departure.packet);
        let (at, lost) = (departure.at, departure.lost);
        let stayed = SojournTime { waited: departure.queue_delay, service: departure.service };
        observer.on_departed(at, &mut packet, stayed, lost, index == self.bottleneck);
        if lost {
            observer.on_lost(&packet);
            return;
        }
        let route = self.route(&packet);
        packet.set_hop(if packet.hop() == ACCESS_HOP { route.first } else { packet.hop() + 1 });
        if packet.hop() < route.past {
            self.offer_to_link(at, packet, observer);
        } else {
            self.propagate(at, packet, route.line, observer);
        }
    }

    /// Does the work of [`Self::offer_burst`] at a link that plans ahead.
    #[inline(never)]
    fn plan_burst(&mut self, now: Time, packets: &[P], observer: &mut impl PathObserver<P>) {
        for packet in packets {
            let mut packet = *packet;
            packet.set_hop(0);
            self.offer_to_link(now, packet, observer);
        }
    }

    /// Reports drops that a queue decided on after the packet's arrival.
    #[cold]
    fn note_drops(&mut self, index: usize, observer: &mut impl PathObserver<P>) {
        self.links[index].take_dropped(&mut self.dropped);
        for flow in self.dropped.drain(..) {
            observer.on_dropped_later(flow, index == self.bottleneck);
        }
    }

    #[inline]
    fn propagate(&mut self, at: Time, mut packet: P, index: usize, observer: &mut impl PathObserver<P>) {
        packet.set_line(index);
        let line = &mut self.lines[index];
        let before = line.next();
        if line.push(at, packet) {
            observer.on_duplicated(&packet);
        }
        let next = line.next();
        if next != before {
            self.note_line(index, next);
        }
    }

    /// Updates a line's deadline for its next arrival at `next`.
    #[inline]
    fn note_line(&mut self, index: usize, next: Time) {
        let held = self.holds.get(index).map_or(Time::NEVER, AckHold::next);
        self.agenda.set(self.links.len() + index, next.min(held));
    }

    #[inline]
    fn arrive(&mut self, index: usize, observer: &mut impl PathObserver<P>) -> Option<(Time, P)> {
        let now = self.agenda.earliest();
        if !self.holds.is_empty() {
            while self.holds[index].next() <= now {
                self.release(index, observer);
            }
        }
        let line = &mut self.lines[index];
        let arrived = *line.arrived(now)?; // else an ACK was released, which updates the line itself
        line.drop_front();
        let next = line.next();
        self.note_line(index, next);
        Some((now, arrived))
    }

    /// Releases the next held ACK of a line.
    #[cold]
    fn release(&mut self, line: usize, observer: &mut impl PathObserver<P>) {
        let due = self.holds[line].next();
        if let Some((at, packet)) = self.holds[line].pop(due) {
            self.propagate(at, packet, line, observer);
        }
        self.note_line(line, self.lines[line].next());
    }

    #[cold]
    fn unknown_route(&self) -> &Route {
        &self.routes[self.routes.len() - 1]
    }

    #[inline]
    fn route(&self, packet: &P) -> &Route {
        self.routes.get(packet.flow() as usize).unwrap_or_else(|| self.unknown_route())
    }
}

impl Route {
    fn new(flow: Option<&FlowSetup>) -> Self {
        Self {
            entry: 0,
            first: 0,
            past: 0,
            access: usize::MAX,
            line: 0,
            own_rtt: flow.and_then(|flow| flow.rtt),
            extra: flow.and_then(|flow| flow.access).map_or(Span::ZERO, |access| access.rtt),
        }
    }

    fn rtt(&self, path_rtt: Span) -> Span {
        self.own_rtt.unwrap_or(path_rtt) + self.extra
    }
}

const fn delay_config(path: &PathSetup, delay: Span) -> DelayConfig {
    DelayConfig {
        delay,
        jitter: path.jitter,
        jitter_reorders: path.jitter_reorders,
        reorder: path.reorder,
        duplicate: path.duplicate,
    }
}
