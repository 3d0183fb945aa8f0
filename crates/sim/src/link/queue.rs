//! Queue disciplines of a link, dispatched by an enum, so that a packet needs no virtual call.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rate, Rng, Time};

use super::cake::Cake;
use super::codel::Codel;
use super::config::Aqm;
use super::dualpi2::DualPi2;
use super::fifo::{Entry, Fifo, Limit, Tally};
use super::fq::Fq;
use super::fq_codel::FqCodel;
use super::pie::Pie;
use super::red::Red;
use super::{LinkPacket, Verdict};

/// Parts of the link's seed used by the disciplines.
const RED_DICE: u64 = 0x4ed;
const PIE_DICE: u64 = 0x91e;
const DUALPI2_DICE: u64 = 0xd2;
const CAKE_DICE: u64 = 0xcace;
const HASH_KEY: u64 = 0xf9;

/// Queue with its discipline. Large or rare ones are boxed to keep drop-tail small.
#[derive(Clone, Debug)]
pub(super) enum Queue<P> {
    DropTail(Fifo<P>),
    Red(Box<Red<P>>),
    Codel(Box<Codel<P>>),
    FqCodel(Box<FqCodel<P>>),
    Fq(Box<Fq<P>>),
    Pie(Box<Pie<P>>),
    DualPi2(Box<DualPi2<P>>),
    Cake(Box<Cake<P>>),
}

impl<P: LinkPacket> Queue<P> {
    pub fn new(aqm: &Aqm, seed: u64) -> Self {
        match aqm {
            Aqm::DropTail => Self::DropTail(Fifo::new()),
            Aqm::Red(red) => Self::Red(Box::new(Red::new(*red, Rng::derive(seed, RED_DICE)))),
            Aqm::Codel(codel) => Self::Codel(Box::new(Codel::new(*codel))),
            Aqm::FqCodel(fq) => Self::FqCodel(Box::new(FqCodel::new(*fq, Rng::derive(seed, HASH_KEY)))),
            Aqm::Fq(fq) => Self::Fq(Box::new(Fq::new(fq.clone(), Rng::derive(seed, HASH_KEY)))),
            Aqm::Pie(pie) => Self::Pie(Box::new(Pie::new(*pie, Rng::derive(seed, PIE_DICE)))),
            Aqm::DualPi2(dual) => Self::DualPi2(Box::new(DualPi2::new(*dual, Rng::derive(seed, DUALPI2_DICE)))),
            Aqm::Cake(cake) => Self::Cake(Box::new(Cake::new(cake.clone(), Rng::derive(seed, CAKE_DICE)))),
        }
    }

    /// Informs the discipline of the link's constant rate. Only a shaper needs it.
    pub fn set_rate(&mut self, rate: Rate) {
        if let Self::Cake(cake) = self {
            cake.set_rate(rate);
        }
    }

    /// Enqueues a packet or drops it (or another one: see [`Tally::dropped`]). `rate` is the link's, for RED's idle time.
    #[inline(always)] // drop-tail is the common case: a quarter fewer instructions per packet
    pub fn enqueue(&mut self, now: Time, entry: Entry<P>, limit: Limit, rate: Rate, tally: &mut Tally) -> Verdict {
        let Self::DropTail(fifo) = self else { return self.enqueue_managed(now, entry, limit, rate, tally) };
        if !fifo.has_room(limit, entry.packet.wire_bytes()) {
            tally.stats.drops += 1;
            return Verdict::Dropped;
        }
        fifo.push(entry);
        Verdict::Queued
    }

    /// Removes the oldest packet that this one supersedes, of drop-tail and CAKE. Returns whether there was one.
    pub fn remove_superseded(&mut self, by: &P) -> bool {
        match self {
            Self::DropTail(fifo) => fifo.remove_superseded(by),
            Self::Cake(cake) => cake.remove_superseded(by),
            _ => false,
        }
    }

    /// Returns the next packet to send, or `None` if the queue is empty or the discipline dropped all of it.
    #[inline(always)]
    pub fn dequeue(&mut self, now: Time, tally: &mut Tally) -> Option<Entry<P>> {
        let Self::DropTail(fifo) = self else { return self.dequeue_managed(now, tally) };
        fifo.pop()
    }

    #[inline(never)]
    fn enqueue_managed(&mut self, now: Time, entry: Entry<P>, limit: Limit, rate: Rate, tally: &mut Tally) -> Verdict {
        match self {
            Self::DropTail(_) => unreachable!("drop-tail manages nothing"),
            Self::Red(red) => red.enqueue(now, entry, limit, rate, tally),
            Self::Codel(codel) => codel.enqueue(entry, limit, tally),
            Self::FqCodel(fq) => fq.enqueue(entry, limit, tally),
            Self::Fq(fq) => fq.enqueue(now, entry, limit, tally),
            Self::Pie(pie) => pie.enqueue(now, entry, limit, tally),
            Self::DualPi2(dual) => dual.enqueue(now, entry, limit, tally),
            Self::Cake(cake) => cake.enqueue(now, entry, limit, tally),
        }
    }

    #[inline(never)]
    fn dequeue_managed(&mut self, now: Time, tally: &mut Tally) -> Option<Entry<P>> {
        match self {
            Self::DropTail(_) => unreachable!("drop-tail manages nothing"),
            Self::Red(red) => red.dequeue(now),
            Self::Codel(codel) => codel.dequeue(now, tally),
            Self::FqCodel(fq) => fq.dequeue(now, tally),
            Self::Fq(fq) => fq.dequeue(now, tally),
            Self::Pie(pie) => pie.dequeue(now),
            Self::DualPi2(dual) => dual.dequeue(now, tally),
            Self::Cake(cake) => cake.dequeue(now, tally),
        }
    }

    /// Number of waiting packets.
    pub fn len(&self) -> usize {
        match self {
            Self::DropTail(fifo) => fifo.len(),
            Self::Red(red) => red.fifo().len(),
            Self::Codel(codel) => codel.fifo().len(),
            Self::FqCodel(fq) => fq.len(),
            Self::Fq(fq) => fq.len(),
            Self::Pie(pie) => pie.fifo().len(),
            Self::DualPi2(dual) => dual.len(),
            Self::Cake(cake) => cake.len(),
        }
    }

    /// Bytes of the waiting packets.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::DropTail(fifo) => fifo.bytes(),
            Self::Red(red) => red.fifo().bytes(),
            Self::Codel(codel) => codel.fifo().bytes(),
            Self::FqCodel(fq) => fq.bytes(),
            Self::Fq(fq) => fq.bytes(),
            Self::Pie(pie) => pie.fifo().bytes(),
            Self::DualPi2(dual) => dual.bytes(),
            Self::Cake(cake) => cake.bytes(),
        }
    }
}
