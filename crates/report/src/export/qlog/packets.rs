//! A sender's packets as qlog events. TCP numbers bytes, qlog packets: each transmission gets a number of its own.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::slice::Iter;

use bbrlab_sim::record::packets::{Direction, PacketRecord, Tap};
use serde_json::{Value, json};

use super::{Dialect, Packet, PacketEvent, packet_data, packet_name};

/// Packets of one flow, and those in flight.
pub struct Packets<'a> {
    flow: u32,
    records: Peekable<Iter<'a, PacketRecord>>,
    /// First byte of each unacknowledged range, and the number of its last transmission.
    open: BTreeMap<u64, u64>,
    /// Earlier transmissions of data that was retransmitted since losses were last counted.
    replaced: Vec<u64>,
    /// Transmissions declared lost that are neither acknowledged nor replaced.
    declared: BTreeSet<u64>,
    sent: u64,
    received: u64,
}

impl<'a> Packets<'a> {
    pub fn new(flow: u32, records: &'a [PacketRecord]) -> Self {
        Self {
            flow,
            records: records.iter().peekable(),
            open: BTreeMap::new(),
            replaced: Vec::new(),
            declared: BTreeSet::new(),
            sent: 0,
            received: 0,
        }
    }

    /// Emits the events up to a time: time, event name and data.
    pub fn advance(&mut self, t_ns: u64, dialect: Dialect, mut put: impl FnMut(u64, &'static str, Value)) {
        let mut put = |at, fate, packet: Packet<'_>, frames: Option<Value>| {
            let mut data = packet_data(packet);
            if let Some(frames) = frames {
                data["frames"] = frames;
            }
            put(at, packet_name(dialect, fate), data);
        };
        while let Some(record) = self.records.next_if(|record| record.t_ns <= t_ns) {
            if record.flow != self.flow || record.tap != Tap::Sender {
                continue;
            }
            let kind = "1RTT";
            match record.dir {
                // A packet without data, such as a handshake's, is not acknowledged by a byte.
                Direction::Data if record.len == 0 => {}
                Direction::Data => {
                    let number = self.sent;
                    self.sent += 1;
                    self.replaced.extend(self.open.insert(record.seq, number));
                    let offset = record.seq.saturating_sub(1);
                    let frames =
                        json!([{ "frame_type": "stream", "stream_id": 0, "offset": offset, "length": record.len }]);
                    put(
                        record.t_ns,
                        PacketEvent::Sent,
                        Packet { kind, number, bytes: Some(record.len.into()), acked: &[] },
                        Some(frames),
                    );
                }
                Direction::Ack => {
                    let number = self.received;
                    self.received += 1;
                    let acked = self.acked(record);
                    put(record.t_ns, PacketEvent::Received, Packet { kind, number, bytes: None, acked: &acked }, None);
                }
            }
        }
    }

    /// Returns the numbers of `count` packets that the sender has declared lost since the last call; fewer if the
    /// capture holds fewer. RACK (RFC 8985) picks the earliest transmissions among the unacknowledged ones.
    pub fn declared_lost(&mut self, count: u64) -> Vec<u64> {
        let mut candidates: Vec<u64> = self.replaced.drain(..).chain(self.open.values().copied()).collect();
        candidates.retain(|number| !self.declared.contains(number));
        candidates.sort_unstable();
        candidates.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        // Acknowledged or replaced packets never appear again.
        let oldest = self.open.values().min().copied().unwrap_or(u64::MAX);
        self.declared = self.declared.split_off(&oldest);
        self.declared.extend(&candidates);
        candidates
    }

    /// Returns the numbers that an ACK acknowledges for the first time, in ranges.
    fn acked(&mut self, ack: &PacketRecord) -> Vec<[u64; 2]> {
        let kept = self.open.split_off(&ack.ack);
        let mut numbers: Vec<u64> = std::mem::replace(&mut self.open, kept).into_values().collect();
        for &(from, to) in ack.sack.iter().filter(|(from, to)| from < to) {
            let internals: Vec<u64> = self.open.range(from..to).map(|(&seq, _)| seq).collect();
            numbers.extend(internals.iter().filter_map(|seq| self.open.remove(seq)));
        }
        numbers.sort_unstable();
        let mut ranges: Vec<[u64; 2]> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some([_, last]) if *last + 1 == number => *last = number,
                _ => ranges.push([number, number]),
            }
        }
        ranges
    }
}
