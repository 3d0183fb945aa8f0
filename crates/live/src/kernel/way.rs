//! One direction of the emulated path: links in a row, then propagation; on the way of ACKs their loss and holding.
//! In: packets at their moments. Out: packets when they are due at the other end. Never: a clock, a packet's bytes
//! (but for an ACK number, where ACKs are held by bytes).
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rng, Span, Time};
use bbrlab_sim::link::{AckAggregation, AckHold, DelayConfig, DelayLine, Link, LinkConfig, Loss, LossModel, Verdict};
use bbrlab_sim::setup::{ChangeKind, FlowSetup, PathSetup, Setup};

use super::packet::{Packet, Pool, Queued};
use crate::wire::{self, Tcp};

/// The hop of a flow's own access link, as in the simulator.
const ACCESS_HOP: u8 = u8::MAX;

/// Who hears what happens at the bottleneck. Flows are numbered as the packets are.
pub trait Watch {
    /// A packet was offered; `dropped` if policer or queue refused it.
    fn on_offered(&mut self, _flow: u32, _dropped: bool) {}
    /// The queue dropped a packet that it had taken.
    fn on_dropped_later(&mut self, _flow: u32) {}
    /// A packet left after waiting; `lost` if it arrives nowhere.
    fn on_left(&mut self, _packet: &Packet, _waited: Span, _lost: bool) {}
}

/// One direction.
#[derive(Debug)]
pub struct Way {
    /// What all flows share, then the access links.
    links: Vec<Link<Queued>>,
    shared: usize,
    bottleneck: usize,
    /// One a flow; packets of unknown flows take the last.
    routes: Vec<Route>,
    lines: Vec<DelayLine<Packet>>,
    loss: LossModel,
    /// One a route, where ACKs are held.
    holds: Vec<AckHold<Packet>>,
    holds_bytes: bool,
    busy: u32,
    dropped: Vec<u32>,
}

/// The way of one flow.
#[derive(Clone, Debug)]
struct Route {
    first: u8,
    past: u8,
    access: Option<usize>,
    line: usize,
    /// The flow's own RTT, and what its access link adds to either.
    own_rtt: Option<Span>,
    extra: Span,
    last_ack: Option<u32>,
}

/// Which half of a two-way delay a direction has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// From the left to the right, rounded down.
    There,
    /// The rest.
    Back,
}

impl Half {
    fn of(self, rtt: Span) -> Span {
        match self {
            Self::There => Span::nanos(rtt.as_nanos() / 2),
            Self::Back => Span::nanos(rtt.as_nanos() - rtt.as_nanos() / 2),
        }
    }
}

impl Way {
    /// The way of the data: every link, jitter, reordering, duplication.
    pub fn of_data(setup: &Setup, half: Half) -> Self {
        let mut way = Self::bare(setup, half, &setup.path);
        way.links = links(&setup.links, setup.seed, 1_000_000);
        way.shared = way.links.len();
        way.bottleneck = setup.bottleneck;
        for (index, flow) in setup.flows.iter().enumerate() {
            (way.routes[index].first, way.routes[index].past) = (flow.links.0 as u8, flow.links.1 as u8);
            if let Some(access) = flow.access {
                let config = LinkConfig::drop_tail(access.rate, access.buffer);
                way.routes[index].access = Some(way.links.len());
                way.links.push(Link::new(&config, seed(setup.seed, 2_000_000 + index)));
            }
        }
        if let Some(other) = way.routes.last_mut() {
            other.past = way.shared as u8;
        }
        way
    }

    /// The way of the ACKs: no link; loss and holding instead.
    pub fn of_acks(setup: &Setup, half: Half) -> Self {
        let path = PathSetup { jitter: Span::ZERO, reorder: 0.0, duplicate: 0.0, ..setup.path };
        let mut way = Self::bare(setup, half, &path);
        way.loss = LossModel::new(setup.path.ack_loss, seed(setup.seed, 4_000_000));
        if setup.path.ack_aggregation != AckAggregation::None {
            way.holds = way.routes.iter().map(|_| AckHold::new(setup.path.ack_aggregation)).collect();
            way.holds_bytes = matches!(setup.path.ack_aggregation, AckAggregation::Bytes(_));
        }
        way
    }

    fn bare(setup: &Setup, half: Half, path: &PathSetup) -> Self {
        let mut way = Self {
            links: Vec::new(),
            shared: 0,
            bottleneck: 0,
            routes: Vec::new(),
            lines: Vec::new(),
            loss: LossModel::new(Loss::None, 0),
            holds: Vec::new(),
            holds_bytes: false,
            busy: 0,
            dropped: Vec::new(),
        };
        let mut delays: Vec<Span> = Vec::new();
        let plain = path.jitter == Span::ZERO && path.reorder <= 0.0 && path.duplicate <= 0.0;
        for flow in setup.flows.iter().map(Some).chain([None]) {
            let mut route = Route::new(flow);
            let delay = half.of(route.rtt(path.rtt));
            // Flows whose ways differ in nothing share a line.
            route.line = match delays.iter().position(|known| plain && *known == delay) {
                Some(line) => line,
                None => {
                    delays.push(delay);
                    way.lines.push(DelayLine::new(&line(path, delay), seed(setup.seed, 3_000_000 + delays.len())));
                    delays.len() - 1
                }
            };
            way.routes.push(route);
        }
        way
    }

    /// The segment in an IP packet, where the way must know it: where ACKs are held.
    #[inline]
    pub fn reads(&self, packet: &[u8]) -> Option<Tcp> {
        if self.holds.is_empty() { None } else { wire::tcp(packet) }
    }

    /// A packet comes from the host at `now`, with what [`Self::reads`] read in it.
    #[inline]
    pub fn enter(&mut self, now: Time, mut packet: Packet, tcp: Option<Tcp>, pool: &mut Pool, watch: &mut impl Watch) {
        let index = (packet.flow as usize).min(self.routes.len() - 1);
        if !self.loss.is_none() && self.loss.lose() {
            pool.release(packet.buffer);
            return;
        }
        let route = &self.routes[index];
        if route.first < route.past {
            packet.hop = if route.access.is_some() { ACCESS_HOP } else { route.first };
            self.offer(now, packet, watch);
        } else if self.holds.is_empty() {
            self.propagate(now, packet, pool);
        } else {
            self.hold(now, index, packet, tcp, pool);
        }
    }

    /// Everything that the links do up to and at `now`.
    #[inline]
    pub fn advance(&mut self, now: Time, pool: &mut Pool, watch: &mut impl Watch) {
        while let Some((index, at)) = self.next_departure()
            && at <= now
        {
            self.depart(index, at, pool, watch);
        }
        for index in 0..self.holds.len() {
            while let Some((at, packet)) = self.holds[index].pop(now) {
                self.propagate(at, packet, pool);
            }
        }
    }

    /// When the next packet may be due; never later than it is.
    #[inline]
    pub fn next_due(&self) -> Time {
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

    /// The next packet that is due at the other end by `now`, with the moment when it was.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<(Time, Packet)> {
        let earliest = self.earliest_line()?;
        self.lines[earliest].pop(now)
    }

    /// The packet that [`Self::pop`] would hand out, if it is due.
    #[inline]
    pub fn peek(&self, now: Time) -> Option<&Packet> {
        let line = &self.lines[self.earliest_line()?];
        if line.next() <= now { line.front() } else { None }
    }

    /// A change of the path; the way stands at `now`.
    pub fn apply(&mut self, now: Time, half: Half, link: usize, what: ChangeKind) {
        match what {
            ChangeKind::AckLoss(loss) if self.shared == 0 => self.loss.set(loss),
            ChangeKind::Rtt(rtt) => {
                for route in &self.routes {
                    self.lines[route.line].set_delay(half.of(route.rtt(rtt)));
                }
            }
            _ => {
                if let Some(link) = self.links[..self.shared].get_mut(link) {
                    match what {
                        ChangeKind::Rate(rate) => link.set_rate(now, rate),
                        ChangeKind::Buffer(buffer) => link.set_buffer(buffer),
                        ChangeKind::Loss(loss) => link.set_loss(loss),
                        ChangeKind::Rtt(_) | ChangeKind::AckLoss(_) => {}
                    }
                }
            }
        }
    }

    /// The links that flows share.
    pub fn links(&self) -> &[Link<Queued>] {
        &self.links[..self.shared]
    }

    /// The smallest propagation delay of any flow.
    pub fn delay(&self) -> Span {
        self.lines.iter().map(DelayLine::delay).min().unwrap_or(Span::ZERO)
    }

    #[inline]
    fn earliest_line(&self) -> Option<usize> {
        if self.lines.len() == 1 {
            return Some(0);
        }
        (0..self.lines.len()).min_by_key(|&index| self.lines[index].next())
    }

    #[inline]
    fn next_departure(&self) -> Option<(usize, Time)> {
        let mut next = None;
        let mut earliest = Time::NEVER;
        for (index, link) in self.links.iter().enumerate() {
            if link.next_departure() < earliest {
                earliest = link.next_departure();
                next = Some((index, earliest));
            }
        }
        next
    }

    fn offer(&mut self, now: Time, packet: Packet, watch: &mut impl Watch) {
        let index = match packet.hop {
            ACCESS_HOP => self.route(packet.flow).access.unwrap_or(0),
            hop => usize::from(hop),
        };
        let verdict = self.links[index].offer(now, Queued::new(packet));
        if index == self.bottleneck {
            watch.on_offered(packet.flow, verdict != Verdict::Queued);
        }
        self.note_drops(index, watch);
    }

    fn depart(&mut self, index: usize, at: Time, pool: &mut Pool, watch: &mut impl Watch) {
        let departure = self.links[index].depart(at);
        self.note_drops(index, watch);
        let Some(departure) = departure else { return };
        let mut packet = departure.packet.packet();
        if index == self.bottleneck {
            // What did not wait begins a busy period of the link.
            self.busy = self.busy.wrapping_add(u32::from(departure.queue_delay == Span::ZERO));
            (packet.busy, packet.left_ns) = (self.busy, departure.at.as_nanos());
            watch.on_left(&packet, departure.queue_delay, departure.lost);
        }
        if departure.lost {
            pool.release(packet.buffer);
            return;
        }
        let route = self.route(packet.flow);
        packet.hop = if packet.hop == ACCESS_HOP { route.first } else { packet.hop + 1 };
        if packet.hop < route.past {
            self.offer(departure.at, packet, watch);
        } else {
            self.propagate(departure.at, packet, pool);
        }
    }

    #[inline]
    fn note_drops(&mut self, index: usize, watch: &mut impl Watch) {
        if self.links[index].has_dropped() {
            self.links[index].take_dropped(&mut self.dropped);
            for flow in self.dropped.drain(..) {
                if index == self.bottleneck {
                    watch.on_dropped_later(flow);
                }
            }
        }
    }

    #[inline]
    fn propagate(&mut self, at: Time, mut packet: Packet, pool: &mut Pool) {
        let index = self.route(packet.flow).line;
        packet.line = index as u16;
        let line = &mut self.lines[index];
        let before = line.len();
        line.push(at, packet);
        if line.len() > before + 1 {
            pool.hold(packet.buffer, 1); // it was doubled
        }
    }

    #[cold]
    fn hold(&mut self, now: Time, index: usize, packet: Packet, tcp: Option<Tcp>, pool: &mut Pool) {
        if tcp.is_none_or(|tcp| tcp.flags & wire::flag::SYN != 0) {
            self.propagate(now, packet, pool);
            return;
        }
        let fresh = match tcp {
            Some(tcp) if self.holds_bytes => self.routes[index].fresh(tcp.ack),
            _ => 0,
        };
        self.holds[index].push(now, packet, fresh);
    }

    #[inline]
    fn route(&self, flow: u32) -> &Route {
        &self.routes[(flow as usize).min(self.routes.len() - 1)]
    }
}

impl Route {
    fn new(flow: Option<&FlowSetup>) -> Self {
        Self {
            first: 0,
            past: 0,
            access: None,
            line: 0,
            own_rtt: flow.and_then(|flow| flow.rtt),
            extra: flow.and_then(|flow| flow.access).map_or(Span::ZERO, |access| access.rtt),
            last_ack: None,
        }
    }

    fn rtt(&self, path: Span) -> Span {
        self.own_rtt.unwrap_or(path) + self.extra
    }

    /// How many bytes this ACK is the first to acknowledge.
    fn fresh(&mut self, ack: u32) -> u64 {
        let step = ack.wrapping_sub(self.last_ack.unwrap_or(ack));
        if step > u32::MAX / 2 {
            return 0; // an old one
        }
        self.last_ack = Some(ack);
        step.into()
    }
}

fn links(configs: &[LinkConfig], of: u64, part: usize) -> Vec<Link<Queued>> {
    configs.iter().enumerate().map(|(index, config)| Link::new(config, seed(of, part + index))).collect()
}

fn line(path: &PathSetup, delay: Span) -> DelayConfig {
    DelayConfig {
        delay,
        jitter: path.jitter,
        jitter_reorders: path.jitter_reorders,
        reorder: path.reorder,
        duplicate: path.duplicate,
    }
}

/// A seed of its own for each part, as in the simulator.
fn seed(seed: u64, part: usize) -> u64 {
    Rng::derive(seed, part as u64).next_u64()
}
