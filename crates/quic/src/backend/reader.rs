//! The receiving application: the bytes delivered to it, and the order in which it reads.
//!
//! Neither order serves every run in noq-proto 1.4 (`connection/assembler.rs`):
//!
//! - Read in order, data after a gap stays in the stack, one piece per datagram: `Assembler::defragment` does not merge
//!   pieces that fill their packets. `insert` ends the connection with the 2049th piece (`COMPACT_THRESHOLD`, `MAX_CHUNKS`): a single
//!   loss suffices if a round trip carries that many packets.
//! - Read in any order, pieces are lost. `Assembler::defragment` discards data before `bytes_read`, which then counts bytes
//!   at any position, so a gap may lie far before it. It runs when `insert` finds that unread pieces hold over 32 KiB more
//!   than they need. Each frame counts its whole packet: four short frames in a packet of 8940 bytes are enough, or 24 in one of
//!   1440. The packet is acknowledged, and the stream never gets past the gap.
//!
//! A stream is therefore read in order while few datagrams wait behind a gap, and in any order from then on. A run in which
//! bytes were lost ends with that error.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::{BTreeMap, VecDeque};

use bbrlab_core::{Span, Time};

/// Maximum number of datagrams waiting behind a gap while a stream is read in order. Ours: three quarters of
/// `COMPACT_THRESHOLD`, because a datagram can contain more than one piece.
const WAITING_MAX: u64 = 1536;

/// Round trips after which a gap counts as never filled. Ours: a repair takes one or two, and if three in ten are lost too, one
/// gap in a million waits for the twelfth.
const NEVER: u64 = 24;

/// A receiving application.
#[derive(Debug, Default)]
pub struct Reader {
    given: Prefix,
    /// End of the last byte delivered.
    furthest: u64,
    /// Time at which the bytes before the first gap last grew.
    grown: Time,
    /// Number of datagrams that have arrived; then the number of the next one if none is missing.
    datagrams: u64,
    next: u64,
    /// Gaps between datagrams, with the stream position sent in the datagram after the gap, and the earlier arrivals.
    gaps: VecDeque<(u64, u64)>,
    in_any_order: bool,
}

impl Reader {
    /// Records the arrival of the sender's datagram `number`, sent when the sender had `reached` that byte of the stream.
    pub fn on_datagram(&mut self, number: u64, reached: u64) {
        if number > self.next && !self.in_any_order {
            self.gaps.push_back((reached, self.datagrams));
        }
        self.next = self.next.max(number + 1);
        self.datagrams += 1;
    }

    /// True while it reads in order. A stack does not support a return to that.
    pub fn is_in_order(&mut self) -> bool {
        while self.gaps.pop_front_if(|(reached, _)| *reached <= self.given.end).is_some() {}
        self.in_any_order |= self.gaps.front().is_some_and(|(_, before)| self.datagrams - before > WAITING_MAX);
        !self.in_any_order
    }

    /// Records the delivery of a piece. Returns the growth of the bytes before the first gap.
    pub fn on_piece(&mut self, now: Time, offset: u64, bytes: u64) -> u64 {
        self.furthest = self.furthest.max(offset + bytes);
        let more = self.given.add(offset, bytes);
        if more > 0 {
            self.grown = now;
        }
        more
    }

    /// True if the first gap will never be filled. Many round trips have then passed, and more data than a sender `holds` has
    /// arrived behind it, so the path did not merely pause.
    pub fn has_lost(&self, now: Time, round_trip: Span, holds: u64) -> bool {
        let waits = now.since(self.grown).as_nanos();
        self.in_any_order && self.furthest - self.given.end > holds && waits > NEVER * round_trip.as_nanos()
    }
}

/// Bytes of a stream up to its first gap, from pieces that come in any order and may overlap.
#[derive(Debug, Default)]
struct Prefix {
    end: u64,
    /// Start and end of the pieces behind the gap.
    beyond: BTreeMap<u64, u64>,
}

impl Prefix {
    /// Adds a piece and returns the growth.
    fn add(&mut self, offset: u64, bytes: u64) -> u64 {
        let before = self.end;
        let end = self.beyond.entry(offset).or_default();
        *end = (*end).max(offset + bytes);
        while let Some(piece) = self.beyond.first_entry().filter(|piece| *piece.key() <= self.end) {
            self.end = self.end.max(piece.remove());
        }
        self.end - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_when_all_before_them_are_there() {
        let mut given = Prefix::default();
        assert_eq!([given.add(10, 5), given.add(20, 5), given.add(0, 10), given.add(15, 5)], [0, 0, 15, 10]);
        assert_eq!([given.add(30, 10), given.add(20, 12), given.add(24, 2), given.add(30, 5)], [0, 15, 0, 0]);
        assert!(given.beyond.is_empty());
    }

    #[test]
    fn a_stream_is_read_in_order_until_much_waits_behind_a_gap() {
        let mut reader = Reader::default();
        let come = |reader: &mut Reader, first: u64, datagrams: u64| {
            for number in first..first + datagrams {
                reader.on_datagram(number, number * 1000);
            }
            reader.is_in_order()
        };
        assert!(come(&mut reader, 0, 3 * WAITING_MAX), "nothing is missing");
        let gap = 3 * WAITING_MAX;
        reader.on_piece(Time::ZERO, 0, gap * 1000);
        assert!(come(&mut reader, gap + 1, WAITING_MAX));
        // The gap is filled, all waiting data is read, and another gap begins.
        let gap = gap + WAITING_MAX + 1;
        reader.on_datagram(gap - 1 - WAITING_MAX, 0);
        reader.on_piece(Time::ZERO, reader.given.end, 1000 + WAITING_MAX * 1000);
        assert!(come(&mut reader, gap + 1, WAITING_MAX));
        assert!(!come(&mut reader, gap + 1 + WAITING_MAX, 1));
        reader.on_piece(Time::ZERO, reader.given.end, (WAITING_MAX + 2) * 1000);
        assert!(!come(&mut reader, gap + 2 + WAITING_MAX, 1), "there is no way back");
    }

    #[test]
    fn bytes_are_lost_if_nothing_fills_their_gap_while_others_come() {
        let (ms, round_trip) = (|ms: u64| Time::nanos(ms * 1_000_000), Span::millis(10));
        let mut reader = Reader::default();
        reader.on_piece(ms(10), 0, 1000);
        reader.on_piece(ms(500), 2000, 9000);
        assert!(!reader.has_lost(ms(500), round_trip, 9999), "in order, the stack still has them");
        reader.in_any_order = true;
        assert!(reader.has_lost(ms(500), round_trip, 9999));
        assert!(!reader.has_lost(ms(500), round_trip, 10_000), "little has come meanwhile");
        assert!(!reader.has_lost(ms(250), round_trip, 9999), "it is not long since");
        reader.on_piece(ms(500), 1000, 1000);
        assert!(!reader.has_lost(ms(900), round_trip, 0), "the gap is filled");
    }
}
