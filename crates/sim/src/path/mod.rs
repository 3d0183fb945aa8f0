//! The path between two hosts, sans-IO. It covers topology, loss in both directions, each flow's delay, access links, ACK
//! holding, the schedule of changes, and the seeds of all of them. Every backend except User Mode Linux sends its packets
//! through it.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! A driver offers packets as hosts send them ([`OneWay::offer`]) and takes them out when they arrive ([`OneWay::poll`]). A
//! packet's fate and its times do not depend on how late the driver polls, as long as it takes everything due before it offers
//! a later packet.

mod one_way;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use bbrlab_core::{Rng, Span, Time};

use crate::link::{AckAggregation, LinkPacket, Verdict};
use crate::setup::{Change, ChangeKind, Setup};

pub use one_way::OneWay;

/// Hop number of a flow's own access link.
pub const ACCESS_HOP: u8 = u8::MAX;

/// Properties of a packet that a path needs in addition to a link's.
pub trait PathPacket: Copy + Debug {
    /// Its representation in a link's queue.
    type Queued: LinkPacket + Debug;

    /// Converts it for a link's queue.
    fn into_queue(self) -> Self::Queued;
    /// Converts it back.
    fn from_queue(queued: Self::Queued) -> Self;
    /// Index of its flow in the setup.
    fn flow(&self) -> u32;
    /// Next link on its path.
    fn hop(&self) -> u8;
    /// Sets the next link on its path.
    fn set_hop(&mut self, hop: u8);
    /// Records the delay line that it enters.
    #[inline]
    fn set_line(&mut self, _line: usize) {}
}

/// Sojourn time of a packet at a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SojournTime {
    /// Queueing delay.
    pub waited: Span,
    /// Serialisation time.
    pub service: Span,
}

/// Observer of one direction of a path. `is_bottleneck`: at the link whose figures are the result's.
pub trait PathObserver<P> {
    /// Called when a packet was offered to a link.
    #[inline]
    fn on_offered(&mut self, _now: Time, _packet: &P, _verdict: Verdict, _is_bottleneck: bool) {}
    /// Called when packets that one flow sent together were offered to a link, which refused some of them.
    #[inline]
    fn on_burst(&mut self, _now: Time, _packets: &[P], _refused: u64, _is_bottleneck: bool) {}
    /// Called for each packet that a link refuses of a burst, before [`Self::on_burst`].
    #[inline]
    fn on_refused(&mut self, _packet: &P, _is_bottleneck: bool) {}
    /// Called when a queue dropped a packet of this flow that it had accepted.
    fn on_dropped_later(&mut self, _flow: u32, _is_bottleneck: bool) {}
    /// Called when a packet left a link after the sojourn time `stayed`; `lost` if it arrives nowhere.
    #[inline]
    fn on_departed(&mut self, _at: Time, _packet: &mut P, _stayed: SojournTime, _lost: bool, _is_bottleneck: bool) {}
    /// Called when a packet was lost at random, behind a link or on a path without links.
    #[inline]
    fn on_lost(&mut self, _packet: &P) {}
    /// Called when a packet was duplicated.
    fn on_duplicated(&mut self, _packet: &P) {}
}

/// Observer that ignores all events.
impl<P> PathObserver<P> for () {}

/// Half of a two-way delay that belongs to a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From left to right, rounded down.
    Forward,
    /// From right to left: the rest.
    Reverse,
}

impl Direction {
    /// Returns this half of a two-way delay.
    pub const fn of(self, rtt: Span) -> Span {
        match self {
            Self::Forward => Span::nanos(rtt.as_nanos() / 2),
            Self::Reverse => Span::nanos(rtt.as_nanos() - rtt.as_nanos() / 2),
        }
    }
}

/// Flows that may use a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSharing {
    /// Allows packets of flows that are not in the setup. They cross every shared link and have the path's own delay.
    pub unknown_flows: bool,
    /// Allows one flow's delay to change separately, so that no two flows share a delay line.
    pub per_flow_delay: bool,
}

/// Change of a path by a script. It affects the link whose figures are the result's, or the first flow's own delays.
#[derive(Clone, Copy, Debug)]
pub enum PathAction {
    /// A change that a schedule supports.
    Change(ChangeKind),
    /// Loss, behind the link, of each packet whose number is divisible by this; 0 ends it.
    LoseEvery(u32),
    /// Holding of ACKs from now on.
    HoldAcks(AckAggregation),
    /// A forward path longer by this; packets sent after its end overtake.
    Detour(Span),
}

/// Both directions and the schedule of their changes.
#[derive(Debug)]
pub struct Path<D: PathPacket, A: PathPacket> {
    /// Direction from left to right.
    pub forward: OneWay<D>,
    /// Direction from right to left.
    pub reverse: OneWay<A>,
    schedule: Vec<Change>,
    next_change: usize,
}

impl<D: PathPacket, A: PathPacket> Path<D, A> {
    /// Creates a path with data from left to right and ACKs from right to left.
    pub fn new(setup: &Setup, users: FlowSharing) -> Self {
        Self::of(
            setup,
            OneWay::for_data(setup, Direction::Forward, users),
            OneWay::for_acks(setup, Direction::Reverse, users),
        )
    }

    /// Creates a path with data from right to left and ACKs from left to right.
    pub fn reversed(setup: &Setup, users: FlowSharing) -> Self {
        Self::of(
            setup,
            OneWay::for_acks(setup, Direction::Forward, users),
            OneWay::for_data(setup, Direction::Reverse, users),
        )
    }

    /// Creates a path with data in both directions: over links of the same kind with independent random numbers, or, with a link
    /// of `up`, over that from left to right and over the others from right to left.
    pub fn both_ways(setup: &Setup, users: FlowSharing) -> Self {
        let mut other = Setup { seed: setup.seed ^ (1 << 63), ..setup.clone() };
        let Some(up) = other.up.take() else {
            let forward = OneWay::for_data(setup, Direction::Forward, users);
            return Self::of(setup, forward, OneWay::for_data(&other, Direction::Reverse, users));
        };
        (other.links, other.bottleneck) = (vec![*up], 0);
        other.flows.iter_mut().for_each(|flow| flow.links = (0, 1));
        let mut forward = OneWay::for_data(&other, Direction::Forward, users);
        forward.first_link = setup.links.len();
        Self::of(setup, forward, OneWay::for_data(setup, Direction::Reverse, users))
    }

    fn of(setup: &Setup, forward: OneWay<D>, reverse: OneWay<A>) -> Self {
        Self { forward, reverse, schedule: setup.schedule.clone(), next_change: 0 }
    }

    /// Plans each packet's departure when it is offered, if nothing that happens later can change it. Called before the first
    /// packet by a driver that does not [`Self::act`]. Observers then get departures in advance.
    pub fn plan_ahead(&mut self) -> bool {
        self.schedule.is_empty() && self.forward.plan_ahead()
    }

    /// Replaces the schedule. Changes due by `now` are taken as applied.
    pub fn reschedule(&mut self, now: Time, schedule: Vec<Change>) {
        self.next_change = schedule.partition_point(|change| change.at <= now);
        self.schedule = schedule;
    }

    /// Time of the schedule's next change.
    #[inline]
    pub fn next_change(&self) -> Time {
        self.schedule.get(self.next_change).map_or(Time::NEVER, |change| change.at)
    }

    /// Applies every change due by `now`. Packets due earlier have been taken.
    pub fn change(&mut self, now: Time) {
        while let Some(&change) = self.schedule.get(self.next_change).filter(|change| change.at <= now) {
            self.next_change += 1;
            self.apply(change.at, change);
        }
    }

    fn apply(&mut self, now: Time, change: Change) {
        self.forward.apply(now, change.link, change.what);
        self.reverse.apply(now, change.link, change.what);
    }

    /// Applies a script's change at this link.
    pub fn act(&mut self, now: Time, link: usize, what: PathAction) {
        match what {
            PathAction::Change(what) => self.apply(now, Change { at: now, link, what }),
            PathAction::LoseEvery(n) => self.forward.lose_every(n),
            PathAction::HoldAcks(mode) => self.reverse.hold_acks_of(0, mode),
            PathAction::Detour(longer) => self.forward.set_detour_of(0, longer),
        }
    }
}

/// Derives an independent seed for each part of a run.
pub(crate) fn seed(seed: u64, part: usize) -> u64 {
    Rng::derive(seed, part as u64).next_u64()
}

/// Derives the seed of one flow's own random numbers.
pub(crate) fn flow_seed(run: u64, index: usize) -> u64 {
    seed(run, 3_000_000 + index)
}
