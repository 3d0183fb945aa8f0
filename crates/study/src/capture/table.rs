//! The connections of a capture, in bounded memory: when there are too many, those that carried least are left out.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::flow::Flow;
use super::headers::{Segment, flag};
use super::scoreboard::RECORDS_MAX;

/// Largest number of connections followed at a time. Ours: with all their signals below 2 GB.
pub const CONNECTIONS_MAX: usize = 2048;
/// Largest number of records of data in flight over all connections. Ours: 150 MB.
pub const RECORDS_ALL: usize = 16 * RECORDS_MAX;

/// Largest number of packets remembered one by one over all connections. Ours: 100 MB.
pub const PACKETS_ALL: usize = 16 * RECORDS_MAX;

/// Both ends of a connection, the smaller address first.
type Ends = (SocketAddr, SocketAddr);
/// Its ends, and the number of connections between them before it.
type Key = (Ends, u32);

/// Times of a handshake's packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handshake {
    /// The SYN.
    pub syn_ns: Option<u64>,
    /// The SYN-ACK.
    pub answer_ns: Option<u64>,
    /// The ACK of the SYN-ACK.
    pub done_ns: Option<u64>,
    /// A packet of it was sent again, or the clock was set back, so that its times are ambiguous.
    pub is_ambiguous: bool,
    /// True if the smaller address began.
    pub is_first: bool,
    clock: u32,
}

impl Handshake {
    /// Times from the SYN to the SYN-ACK and from there to the ACK, if both are unambiguous.
    pub fn halves_ns(&self) -> Option<(u64, u64)> {
        let (syn, answer, done) = (self.syn_ns?, self.answer_ns?, self.done_ns?);
        let halves = (answer.saturating_sub(syn), done.saturating_sub(answer));
        (!self.is_ambiguous && halves != (0, 0)).then_some(halves)
    }
}

/// A connection with its two directions.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Both ends: the first flow's sender first.
    pub ends: Ends,
    /// Data of each end.
    pub flows: [Flow; 2],
    /// Packets of each end.
    pub packets: [u64; 2],
    /// Its handshake.
    pub handshake: Handshake,
}

/// The connections of a capture.
#[derive(Clone, Debug)]
pub struct Table {
    known: BTreeMap<Key, Connection>,
    records: usize,
    packets: usize,
    packets_max: usize,
    /// Connections left out.
    pub left_out: u64,
}

impl Default for Table {
    fn default() -> Self {
        Self { known: BTreeMap::new(), records: 0, packets: 0, packets_max: PACKETS_ALL, left_out: 0 }
    }
}

impl Table {
    /// A table with other memory for packets.
    #[cfg(test)]
    pub fn with_packets(packets_max: usize) -> Self {
        Self { packets_max, ..Self::default() }
    }

    /// Number of packets remembered one by one.
    #[cfg(test)]
    pub fn packets(&self) -> usize {
        self.known.values().map(Connection::packets).sum()
    }

    /// Number of connections followed now.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Number of records and samples in memory, for tests of their bounds.
    #[cfg(test)]
    pub fn items(&self) -> usize {
        let flows = self.known.values().flat_map(|connection| &connection.flows);
        flows.map(|flow| flow.board.len() + flow.signals.as_ref().map_or(0, |signals| signals.items())).sum()
    }

    /// Handles a segment.
    pub fn on_segment(&mut self, now_ns: u64, segment: &Segment) {
        let is_first = segment.from <= segment.to;
        let ends = if is_first { (segment.from, segment.to) } else { (segment.to, segment.from) };
        let key = self.key(ends, segment);
        if !self.known.contains_key(&key) {
            if self.known.len() >= CONNECTIONS_MAX {
                self.make_room();
            }
            self.known.insert(key, Connection::new(ends));
        }
        let Some(connection) = self.known.get_mut(&key) else { return };
        let before = (connection.records(), connection.packets());
        connection.on_segment(now_ns, segment, usize::from(!is_first));
        let after = connection.records();
        self.records = (self.records + after).saturating_sub(before.0);
        self.packets = (self.packets + connection.packets()).saturating_sub(before.1);
        if self.packets > self.packets_max {
            self.packets = self.packets.saturating_sub(connection.packets());
            connection.flows.iter_mut().for_each(Flow::forget_packets);
        }
        if self.records > RECORDS_ALL {
            connection.flows.iter_mut().for_each(|flow| flow.board.overrun());
            self.records = self.records.saturating_sub(after);
        }
    }

    /// Finds the newest connection between both ends. A SYN after data begins another one.
    fn key(&self, ends: Ends, segment: &Segment) -> Key {
        let newest = self.known.range((ends, 0)..=(ends, u32::MAX)).next_back();
        let Some((&(_, nth), connection)) = newest else { return (ends, 0) };
        let begins = segment.has(flag::SYN) && !segment.has(flag::ACK);
        (ends, if begins && connection.has_data() { nth.saturating_add(1) } else { nth })
    }

    /// Leaves out the half of the connections that carried least.
    fn make_room(&mut self) {
        let mut carried: Vec<u64> = self.known.values().map(Connection::delivered).collect();
        carried.sort_unstable();
        let limit = carried[carried.len() / 2];
        let mut excess = self.known.len() / 2;
        let before = self.known.len();
        self.known.retain(|_, connection| {
            let stays = excess == 0 || connection.delivered() > limit;
            excess -= usize::from(!stays);
            stays
        });
        self.left_out += (before - self.known.len()) as u64;
        self.records = self.known.values().map(Connection::records).sum();
        self.packets = self.known.values().map(Connection::packets).sum();
    }

    /// Ends all connections and returns them, those that carried most first.
    pub fn finish(self) -> Vec<Connection> {
        let mut all: Vec<Connection> = self.known.into_values().collect();
        all.iter_mut().flat_map(|connection| &mut connection.flows).for_each(Flow::finish);
        all.sort_by_key(|connection| std::cmp::Reverse(connection.delivered()));
        all
    }
}

impl Connection {
    pub fn new(ends: Ends) -> Self {
        Self { ends, flows: [Flow::default(), Flow::default()], packets: [0; 2], handshake: Handshake::default() }
    }

    /// True if an end has sent data.
    pub fn has_data(&self) -> bool {
        self.flows.iter().any(|flow| flow.board.next > 0)
    }

    fn records(&self) -> usize {
        self.flows.iter().map(|flow| flow.board.len()).sum()
    }

    fn packets(&self) -> usize {
        self.flows.iter().map(Flow::packets).sum()
    }

    /// Bytes delivered in both directions.
    pub fn delivered(&self) -> u64 {
        self.flows.iter().map(|flow| flow.counters.delivered.max(flow.counters.sent / 2)).sum()
    }

    /// Bytes of data in both directions.
    pub fn seen(&self) -> u64 {
        self.flows.iter().map(|flow| flow.counters.sent).sum()
    }

    /// Handles a segment of end `side`.
    pub fn on_segment(&mut self, now_ns: u64, segment: &Segment, side: usize) {
        self.packets[side] += 1;
        self.on_handshake(now_ns, segment, side);
        self.flows[side].on_data(now_ns, segment);
        self.flows[1 - side].on_ack(now_ns, segment);
    }

    fn on_handshake(&mut self, now_ns: u64, segment: &Segment, side: usize) {
        let own = &mut self.handshake;
        match (segment.has(flag::SYN), segment.has(flag::ACK)) {
            (true, false) => {
                own.is_ambiguous |= own.syn_ns.is_some();
                own.clock = segment.clock;
                own.syn_ns.get_or_insert(now_ns);
                own.is_first = side == 0;
            }
            (true, true) => {
                own.is_ambiguous |= own.answer_ns.is_some();
                own.answer_ns.get_or_insert(now_ns);
            }
            (false, true) if own.done_ns.is_none() && own.answer_ns.is_some() && (side == 0) == own.is_first => {
                own.done_ns = Some(now_ns);
                own.is_ambiguous |= own.clock != segment.clock;
                self.handshake_rtt();
            }
            _ => {}
        }
    }

    /// Gives each end the RTT of the handshake that its own packets have at the capture.
    fn handshake_rtt(&mut self) {
        let Some((there, back)) = self.handshake.halves_ns() else { return };
        let (client, server) = if self.handshake.is_first { (0, 1) } else { (1, 0) };
        for (side, rtt) in [(client, there), (server, back)] {
            if rtt > 0 {
                self.flows[side].on_handshake(rtt);
            }
        }
    }
}
