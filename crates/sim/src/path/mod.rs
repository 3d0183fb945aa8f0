//! The path between two hosts, sans-IO: topology, loss both ways, each flow's delay, access links, ACKs held together,
//! the schedule of changes, and the seeds of all of them. Every world but User Mode Linux sends its packets through it.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! A driver offers packets as hosts send them ([`OneWay::enter`]) and takes them out when they arrive
//! ([`OneWay::turn`]). However late it asks, a packet's fate and the moments of it are the same, as long as it enters
//! nothing at a moment before it has taken what is due by then.

mod one_way;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use bbrlab_core::{Rng, Span, Time};

use crate::link::{AckAggregation, LinkPacket, Verdict};
use crate::setup::{Change, ChangeKind, Setup};

pub use one_way::OneWay;

/// The hop number of a flow's own access link.
pub const ACCESS_HOP: u8 = u8::MAX;

/// What the path needs to know of a packet beside what a link does.
pub trait PathPacket: Copy + Debug {
    /// What stands for it in a link's queue.
    type Queued: LinkPacket + Debug;

    /// Gives it to a link.
    fn into_queue(self) -> Self::Queued;
    /// Takes it back.
    fn from_queue(queued: Self::Queued) -> Self;
    /// The flow it belongs to, as numbered in the setup.
    fn flow(&self) -> u32;
    /// The next link that it meets.
    fn hop(&self) -> u8;
    /// Writes down the next link that it meets.
    fn set_hop(&mut self, hop: u8);
    /// It enters this delay line.
    #[inline]
    fn set_line(&mut self, _line: usize) {}
}

/// How long a packet was at a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// Behind others.
    pub waited: Span,
    /// In its own serialisation.
    pub service: Span,
}

/// Hears what happens on one direction of a path. `is_bottleneck`: at the link whose figures are the result's.
pub trait Watch<P> {
    /// A packet was offered to a link.
    #[inline]
    fn on_offered(&mut self, _now: Time, _packet: &P, _verdict: Verdict, _is_bottleneck: bool) {}
    /// Packets that one flow sent at once were offered to a link, which refused some of them.
    #[inline]
    fn on_burst(&mut self, _now: Time, _packets: &[P], _refused: u64, _is_bottleneck: bool) {}
    /// A queue dropped a packet of this flow that it had taken.
    fn on_dropped_later(&mut self, _flow: u32, _is_bottleneck: bool) {}
    /// A packet left a link after it had `stayed` there; `lost` if it arrives nowhere.
    #[inline]
    fn on_left(&mut self, _at: Time, _packet: &mut P, _stayed: Stay, _lost: bool, _is_bottleneck: bool) {}
    /// A packet was lost at random, behind a link or on a way without any.
    #[inline]
    fn on_gone(&mut self, _packet: &P) {}
    /// A packet will arrive twice.
    fn on_doubled(&mut self, _packet: &P) {}
}

/// Nobody listens.
impl<P> Watch<P> for () {}

/// Which half of a two-way delay a direction has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// From the left to the right, rounded down.
    There,
    /// The rest.
    Back,
}

impl Half {
    /// This half of a two-way delay.
    pub const fn of(self, rtt: Span) -> Span {
        match self {
            Self::There => Span::nanos(rtt.as_nanos() / 2),
            Self::Back => Span::nanos(rtt.as_nanos() - rtt.as_nanos() / 2),
        }
    }
}

/// What may use a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// Packets of flows that the setup does not name come too; they meet every shared link and the path's own delay.
    pub strangers: bool,
    /// One flow's delay may change apart from the others', so that no two share a line.
    pub apart: bool,
}

/// What a script does to a path: to the link whose figures are the result's, and to the first flow's own delays.
#[derive(Clone, Copy, Debug)]
pub enum PathAction {
    /// A change as a schedule knows it.
    Change(ChangeKind),
    /// Each packet whose number this divides is lost behind the link; 0 ends that.
    LoseEvery(u32),
    /// ACKs are held from now on.
    HoldAcks(AckAggregation),
    /// Data takes a way that is longer by this; what is sent after its end overtakes.
    Detour(Span),
}

/// Both directions and the schedule of their changes.
#[derive(Debug)]
pub struct Path<D: PathPacket, A: PathPacket> {
    /// From the left to the right.
    pub there: OneWay<D>,
    /// From the right to the left.
    pub back: OneWay<A>,
    schedule: Vec<Change>,
    next_change: usize,
}

impl<D: PathPacket, A: PathPacket> Path<D, A> {
    /// Data from the left to the right, ACKs back.
    pub fn new(setup: &Setup, users: Users) -> Self {
        Self::of(setup, OneWay::of_data(setup, Half::There, users), OneWay::of_acks(setup, Half::Back, users))
    }

    /// Data from the right to the left, ACKs back.
    pub fn reversed(setup: &Setup, users: Users) -> Self {
        Self::of(setup, OneWay::of_acks(setup, Half::There, users), OneWay::of_data(setup, Half::Back, users))
    }

    /// Data both ways, over links of the same kind with random numbers of their own.
    pub fn both_ways(setup: &Setup, users: Users) -> Self {
        let back = Setup { seed: setup.seed ^ (1 << 63), ..setup.clone() };
        Self::of(setup, OneWay::of_data(setup, Half::There, users), OneWay::of_data(&back, Half::Back, users))
    }

    fn of(setup: &Setup, there: OneWay<D>, back: OneWay<A>) -> Self {
        Self { there, back, schedule: setup.schedule.clone(), next_change: 0 }
    }

    /// When the schedule changes the path next.
    #[inline]
    pub fn next_change(&self) -> Time {
        self.schedule.get(self.next_change).map_or(Time::NEVER, |change| change.at)
    }

    /// Makes every change that is due by `now`. What was due before it has been taken.
    pub fn change(&mut self, now: Time) {
        while let Some(&change) = self.schedule.get(self.next_change).filter(|change| change.at <= now) {
            self.next_change += 1;
            self.apply(change.at, change);
        }
    }

    fn apply(&mut self, now: Time, change: Change) {
        self.there.apply(now, change.link, change.what);
        self.back.apply(now, change.link, change.what);
    }

    /// Does what a script asks for, at this link.
    pub fn act(&mut self, now: Time, link: usize, what: PathAction) {
        match what {
            PathAction::Change(what) => self.apply(now, Change { at: now, link, what }),
            PathAction::LoseEvery(n) => self.there.lose_every(n),
            PathAction::HoldAcks(mode) => self.back.hold_acks_of(0, mode),
            PathAction::Detour(longer) => self.there.set_detour_of(0, longer),
        }
    }
}

/// A seed of its own for each part of a run.
pub(crate) fn seed(seed: u64, part: usize) -> u64 {
    Rng::derive(seed, part as u64).next_u64()
}

/// The seed of one flow's own random numbers.
pub(crate) fn flow_seed(run: u64, index: usize) -> u64 {
    seed(run, 3_000_000 + index)
}
