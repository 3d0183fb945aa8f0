//! What a receiving application was given, and in which order it reads.
//!
//! Neither order serves every run in noq-proto 1.4 (`connection/assembler.rs`):
//!
//! - Read in order, what lies behind a gap stays with the stack, a piece for each datagram: `Assembler::defragment` does not join
//!   pieces that fill their packets. `insert` ends the connection with the 2049th (`COMPACT_THRESHOLD`, `MAX_CHUNKS`): one loss
//!   does where a round trip carries so many packets.
//! - Read in any order, pieces are lost. `Assembler::defragment` discards what lies before `bytes_read`, which then counts bytes,
//!   wherever they lay, so that a gap may be far before it. It runs when `insert` finds that unread pieces hold over 32 KiB more
//!   than they need. Each frame counts its whole packet: four short frames in a packet of 8940 bytes are enough, or 24 in one of
//!   1440. The packet is acknowledged, and the stream never gets past the gap.
//!
//! So a stream is read in order as long as few datagrams wait behind a gap, in any order from then on, and a run in which bytes
//! were lost ends with that reason.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::{BTreeMap, VecDeque};

use bbrlab_core::{Span, Time};

/// How many datagrams may wait behind a gap while a stream is read in order. Ours: three quarters of `COMPACT_THRESHOLD`, for a
/// datagram can hold more than one piece.
const WAITING_MAX: u64 = 1536;

/// After how many round trips a gap counts as never filled. Ours: a repair takes one or two, and where three in ten are lost too,
/// one gap in a million waits for the twelfth.
const NEVER: u64 = 24;

/// A receiving application.
#[derive(Debug, Default)]
pub struct Reader {
    given: Prefix,
    /// Where the last byte that it was given ends.
    furthest: u64,
    /// When bytes up to the first gap were given last.
    grown: Time,
    /// Datagrams that have come, and the number of the next one if none is missing.
    datagrams: u64,
    next: u64,
    /// Where datagrams were missing: how much of the stream was sent with the one behind them, and how many had come before that.
    gaps: VecDeque<(u64, u64)>,
    in_any_order: bool,
}

impl Reader {
    /// The sender's datagram `number` has come; by then the sender had `reached` that byte of the stream.
    pub fn on_datagram(&mut self, number: u64, reached: u64) {
        if number > self.next && !self.in_any_order {
            self.gaps.push_back((reached, self.datagrams));
        }
        self.next = self.next.max(number + 1);
        self.datagrams += 1;
    }

    /// Whether it still reads in order: a stack knows no way back.
    pub fn is_in_order(&mut self) -> bool {
        while self.gaps.pop_front_if(|(reached, _)| *reached <= self.given.end).is_some() {}
        self.in_any_order |= self.gaps.front().is_some_and(|(_, before)| self.datagrams - before > WAITING_MAX);
        !self.in_any_order
    }

    /// It was given a piece; says by how much the bytes up to the first gap have grown.
    pub fn on_piece(&mut self, now: Time, offset: u64, bytes: u64) -> u64 {
        self.furthest = self.furthest.max(offset + bytes);
        let more = self.given.add(offset, bytes);
        if more > 0 {
            self.grown = now;
        }
        more
    }

    /// The first gap is never filled: many round trips are over, and more than a sender `holds` has come behind it, so that the
    /// path did not just pause.
    pub fn has_lost(&self, now: Time, round_trip: Span, holds: u64) -> bool {
        let waits = now.since(self.grown).as_nanos();
        self.in_any_order && self.furthest - self.given.end > holds && waits > NEVER * round_trip.as_nanos()
    }
}

/// The bytes of a stream up to its first gap, where pieces come in any order and may overlap.
#[derive(Debug, Default)]
struct Prefix {
    end: u64,
    /// Where pieces behind the gap begin and end.
    beyond: BTreeMap<u64, u64>,
}

impl Prefix {
    /// By how much a piece makes it longer.
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
        // The gap is filled, all that waited is read, and another one begins.
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
