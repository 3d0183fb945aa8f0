//! Queue under every discipline: packets in order of arrival, with a count of their bytes.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::Time;

use super::config::Buffer;
use super::{LinkPacket, LinkStats};

/// A waiting packet.
#[derive(Clone, Debug)]
pub(super) struct Entry<P> {
    pub packet: P,
    pub arrived: Time,
}

/// Waiting packets, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Fifo<P> {
    entries: VecDeque<Entry<P>>,
    bytes: u64,
}

/// A [`Buffer`] as two bounds, one never binding, so that a check needs no branch on the kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub packets: u64,
    pub bytes: u64,
}

/// Reports of a discipline besides its verdicts.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub stats: LinkStats,
    /// Flows of packets that were dropped after being queued.
    pub dropped: Vec<u32>,
}

impl Limit {
    /// No limit: an idle link sends immediately, so its arrival never waits.
    pub const NONE: Self = Self { packets: u64::MAX, bytes: u64::MAX };

    pub fn of(buffer: Buffer) -> Self {
        match buffer {
            Buffer::Packets(packets) => Self { packets, bytes: u64::MAX },
            Buffer::Bytes(bytes) => Self { packets: u64::MAX, bytes },
        }
    }
}

impl Tally {
    /// Counts the drop of a queued packet.
    pub fn drop_queued<P: LinkPacket>(&mut self, packet: &P) {
        self.stats.drops += 1;
        self.dropped.push(packet.flow());
    }

    /// Marks the packet if it supports marking.
    pub fn try_mark<P: LinkPacket>(&mut self, packet: &mut P) -> bool {
        if !packet.ect() {
            return false;
        }
        packet.mark_ce();
        self.stats.marks += 1;
        true
    }
}

impl<P: LinkPacket> Fifo<P> {
    pub fn new() -> Self {
        Self { entries: VecDeque::new(), bytes: 0 }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The packet that leaves next.
    pub fn head(&self) -> Option<&Entry<P>> {
        self.entries.front()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if there is room for a packet of `wire_bytes`.
    #[inline]
    pub fn has_room(&self, limit: Limit, wire_bytes: u32) -> bool {
        (self.entries.len() as u64) < limit.packets && self.bytes.saturating_add(u64::from(wire_bytes)) <= limit.bytes
    }

    /// Removes the oldest packet that this one supersedes. Returns whether there was one.
    pub fn remove_superseded(&mut self, by: &P) -> bool {
        let Some(place) = self.entries.iter().position(|entry| by.supersedes(&entry.packet)) else { return false };
        if let Some(entry) = self.entries.remove(place) {
            self.bytes -= u64::from(entry.packet.wire_bytes());
        }
        true
    }

    #[inline]
    pub fn push(&mut self, entry: Entry<P>) {
        self.bytes += u64::from(entry.packet.wire_bytes());
        self.entries.push_back(entry);
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Entry<P>> {
        let entry = self.entries.pop_front()?;
        self.bytes -= u64::from(entry.packet.wire_bytes());
        Some(entry)
    }
}
