//! Departures that are known on arrival: those of a drop-tail queue behind a constant rate.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::Time;

use super::LinkStats;
use super::fifo::Limit;

/// Room for departures before those in the past are removed. Ours.
const ROOM: usize = 64;

/// Departure times of the packets that a link has accepted. Counters follow when it is settled.
#[derive(Clone, Debug)]
pub(super) struct Timetable {
    /// Oldest first; some may lie in the past.
    departures: VecDeque<Planned>,
    /// Their bytes.
    bytes: u64,
    /// Time from which the link is idle.
    pub idle_from: Time,
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    at: Time,
    wire_bytes: u32,
    lost: bool,
}

impl Timetable {
    pub fn new() -> Self {
        Self { departures: VecDeque::with_capacity(ROOM), bytes: 0, idle_from: Time::ZERO }
    }

    pub fn packets(&self) -> usize {
        self.departures.len()
    }

    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if a busy link's queue has room at `now`. The packet in service is not in the queue.
    #[inline]
    pub fn has_room(&mut self, now: Time, limit: Limit, wire_bytes: u32, stats: &mut LinkStats) -> bool {
        // Departures in the past only make it look fuller.
        self.fits(limit, wire_bytes) || {
            self.settle(now, stats);
            self.fits(limit, wire_bytes)
        }
    }

    #[inline]
    fn fits(&self, limit: Limit, wire_bytes: u32) -> bool {
        let served = self.departures.front().map_or(0, |first| u64::from(first.wire_bytes));
        self.departures.len() as u64 <= limit.packets
            && (self.bytes - served).saturating_add(u64::from(wire_bytes)) <= limit.bytes
    }

    /// Adds the departure at `at` of a packet accepted at `now`.
    #[inline]
    pub fn add(&mut self, now: Time, at: Time, wire_bytes: u32, lost: bool, stats: &mut LinkStats) {
        if self.departures.len() == self.departures.capacity() {
            self.settle(now, stats);
        }
        self.departures.push_back(Planned { at, wire_bytes, lost });
        self.bytes += u64::from(wire_bytes);
        self.idle_from = at;
    }

    /// Removes and counts the departures up to and including `now`.
    #[inline(never)]
    pub fn settle(&mut self, now: Time, stats: &mut LinkStats) {
        while let Some(first) = self.departures.front()
            && first.at <= now
        {
            let wire_bytes = u64::from(first.wire_bytes);
            stats.departed_packets += 1;
            stats.departed_bytes += wire_bytes;
            stats.lost += u64::from(first.lost);
            self.bytes -= wire_bytes;
            self.departures.pop_front();
        }
    }
}
