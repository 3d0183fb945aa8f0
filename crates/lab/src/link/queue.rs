//! Which discipline a queue has: dispatch by one enum, so that a packet pays no virtual call.
//! In: packets. Out: verdicts, and packets in the order that the discipline chooses. Never: a clock.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

use super::config::Aqm;
use super::fifo::{Entry, Fifo, Limit, Tally};
use super::{LinkPacket, Verdict};

/// What waits, under its discipline.
#[derive(Clone, Debug)]
pub(super) enum Queue<P> {
    DropTail(Fifo<P>),
}

impl<P: LinkPacket> Queue<P> {
    pub fn new(_aqm: &Aqm, _seed: u64) -> Self {
        Self::DropTail(Fifo::new())
    }

    /// Takes a packet or drops it (or another one: see [`Tally::dropped`]).
    #[inline]
    pub fn enqueue(&mut self, _now: Time, entry: Entry<P>, limit: Limit, tally: &mut Tally) -> Verdict {
        match self {
            Self::DropTail(fifo) => {
                if !fifo.has_room(limit, entry.packet.wire_bytes()) {
                    tally.stats.drops += 1;
                    return Verdict::Dropped;
                }
                fifo.push(entry);
                Verdict::Queued
            }
        }
    }

    /// The next packet to send; `None` if nothing waits or the discipline dropped all that did.
    #[inline]
    pub fn dequeue(&mut self, _now: Time, _tally: &mut Tally) -> Option<Entry<P>> {
        match self {
            Self::DropTail(fifo) => fifo.pop(),
        }
    }

    /// Packets that wait.
    pub fn len(&self) -> usize {
        match self {
            Self::DropTail(fifo) => fifo.len(),
        }
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::DropTail(fifo) => fifo.bytes(),
        }
    }
}
