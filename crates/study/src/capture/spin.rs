//! RTTs of QUIC connections from the spin bit of their short headers. The client inverts the bit once a round trip and the
//! server reflects it, so each direction changes it once a round trip: the time between two changes is an RTT.
// SPDX-License-Identifier: Apache-2.0 OR MIT
// spec: RFC 9000 §17.4; what an observer can do with it: RFC 9312 §3.8.2

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::estimate::{AckEstimate, Estimate, RttEstimate, Vantage};
use super::headers::Datagram;

/// Largest number of connections followed at a time. Ours.
const CONNECTIONS_MAX: usize = 2048;
/// RTTs kept of a connection. Ours: of an hour at 50 ms.
const SAMPLES_MAX: usize = 1 << 16;
/// Smallest number of RTTs of an estimate. Ours.
const SAMPLES_MIN: usize = 5;
/// Share of the smallest RTT so far below which a change comes from packets out of order. Ours, after RFC 9312: reordering at a
/// change shows three changes within the packets that were overtaken.
const REORDERED_SHARE: f64 = 0.3;
/// Packets per change below which an end sets the bit at random: RFC 9000 §17.4 asks for that where the bit is not used.
const PACKETS_PER_CHANGE: f64 = 2.5;
/// Long header, and the fixed bit of all headers.
const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
const SPIN: u8 = 0x20;
/// Versions whose short headers have a spin bit: 1 (RFC 9000) and 2 (RFC 9369).
const VERSIONS: [u32; 2] = [1, 0x6b33_43cf];

/// QUIC connections, from a long header on; those with most bytes if there are too many.
#[derive(Clone, Debug, Default)]
pub struct QuicTable {
    known: BTreeMap<(SocketAddr, SocketAddr), Connection>,
    /// Connections left out, and their packets.
    left_out: (u64, u64),
}

#[derive(Clone, Debug, Default)]
struct Connection {
    ways: [Way; 2],
}

/// One direction.
#[derive(Clone, Debug, Default)]
struct Way {
    packets: u64,
    short: u64,
    bytes: u64,
    largest: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    bit: Option<bool>,
    changes: u64,
    changed_ns: Option<u64>,
    least_ns: Option<u64>,
    rtts_ns: Vec<u64>,
}

impl QuicTable {
    /// Handles a datagram.
    pub fn on_datagram(&mut self, now_ns: u64, datagram: &Datagram) {
        let is_first = datagram.from <= datagram.to;
        let ends = if is_first { (datagram.from, datagram.to) } else { (datagram.to, datagram.from) };
        if !self.known.contains_key(&ends) {
            let has_version = datagram.first & (LONG | FIXED) == LONG | FIXED;
            if !has_version || datagram.version.is_none_or(|version| !VERSIONS.contains(&version)) {
                return;
            }
            if self.known.len() >= CONNECTIONS_MAX {
                self.make_room();
            }
        }
        let connection = self.known.entry(ends).or_default();
        connection.ways[usize::from(!is_first)].on_datagram(now_ns, datagram);
    }

    /// Leaves out the half of the connections that carried least.
    fn make_room(&mut self) {
        let mut carried: Vec<u64> = self.known.values().map(Connection::bytes).collect();
        carried.sort_unstable();
        let (limit, mut excess) = (carried[carried.len() / 2], carried.len() / 2);
        let left_out = &mut self.left_out;
        self.known.retain(|_, connection| {
            let stays = excess == 0 || connection.bytes() > limit;
            if !stays {
                excess -= 1;
                *left_out = (left_out.0 + 1, left_out.1 + connection.packets());
            }
            stays
        });
    }

    /// Number of connections left out.
    pub const fn left_out(&self) -> u64 {
        self.left_out.0
    }

    /// Packets of connections that are QUIC, and one estimate for each direction that shows RTTs, the largest first.
    pub fn finish(self, origin_ns: u64) -> (u64, Vec<Estimate>) {
        let packets = self.left_out.1 + self.known.values().map(Connection::packets).sum::<u64>();
        let mut found: Vec<Estimate> = self
            .known
            .iter()
            .filter_map(|(ends, connection)| {
                // Both directions show the same round trips; the one with more data has the finer times.
                let side = usize::from(connection.ways[1].bytes > connection.ways[0].bytes);
                let (from, to) = if side == 0 { (ends.0, ends.1) } else { (ends.1, ends.0) };
                connection.ways[side].estimate(from, to, origin_ns)
            })
            .collect();
        found.sort_by(|a, b| b.sent_bytes.total_cmp(&a.sent_bytes));
        (packets, found)
    }
}

impl Connection {
    fn bytes(&self) -> u64 {
        self.ways.iter().map(|way| way.bytes).sum()
    }

    fn packets(&self) -> u64 {
        self.ways.iter().map(|way| way.packets).sum()
    }
}

impl Way {
    fn on_datagram(&mut self, now_ns: u64, datagram: &Datagram) {
        self.packets += 1;
        self.bytes += u64::from(datagram.payload);
        self.largest = self.largest.max(datagram.payload.into());
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = now_ns;
        if datagram.first & (LONG | FIXED) != FIXED {
            return;
        }
        self.short += 1;
        let bit = datagram.first & SPIN != 0;
        if self.bit.replace(bit).is_none_or(|before| before == bit) {
            return;
        }
        self.changes += 1;
        let Some(before_ns) = self.changed_ns else {
            self.changed_ns = Some(now_ns);
            return;
        };
        let rtt_ns = now_ns.saturating_sub(before_ns);
        if self.least_ns.is_some_and(|least| (rtt_ns as f64) < REORDERED_SHARE * least as f64) {
            return; // the true change is the first one
        }
        self.changed_ns = Some(now_ns);
        self.least_ns = Some(self.least_ns.map_or(rtt_ns, |least| least.min(rtt_ns)));
        if self.rtts_ns.len() < SAMPLES_MAX {
            self.rtts_ns.push(rtt_ns);
        }
    }

    fn estimate(&self, from: SocketAddr, to: SocketAddr, origin_ns: u64) -> Option<Estimate> {
        let is_random = (self.short as f64) < PACKETS_PER_CHANGE * self.changes as f64;
        if self.rtts_ns.len() < SAMPLES_MIN || is_random {
            return None;
        }
        let mut rtts: Vec<u64> = self.rtts_ns.clone();
        rtts.sort_unstable();
        let at = |share: f64| rtts[((rtts.len() - 1) as f64 * share).round() as usize] as f64 / 1e6;
        let first_ns = self.first_ns?;
        let duration_s = self.last_ns.saturating_sub(first_ns) as f64 / 1e9;
        let sent = self.bytes as f64;
        Some(Estimate {
            sender: from.to_string(),
            receiver: to.to_string(),
            vantage: Vantage::Unknown,
            vantage_from: String::new(),
            start_s: first_ns.saturating_sub(origin_ns) as f64 / 1e9,
            duration_s,
            sent_bytes: sent,
            retransmitted_bytes: 0.0,
            delivered_bytes: sent,
            goodput_bps: if duration_s > 0.0 { 8.0 * sent / duration_s } else { 0.0 },
            mss: self.largest,
            rate: None,
            rtt: Some(RttEstimate {
                base_ms: at(0.0),
                p50_ms: at(0.5),
                p95_ms: at(0.95),
                max_ms: at(1.0),
                is_upper_bound: false,
                from: format!("{} changes of QUIC's spin bit", self.rtts_ns.len() + 1),
            }),
            buffer: None,
            loss_ratio: 0.0,
            losses: Vec::new(),
            policer: None,
            needless_ratio: 0.0,
            reordered_ratio: 0.0,
            reordered_segments: 0.0,
            acks: AckEstimate { segments: 0.0, period_ms: None, from: "encrypted".to_owned() },
            application_limited: 0.0,
            receiver_limited: None,
            algorithm: None,
            unknown: [
                "rate, buffer and loss: QUIC encrypts what shows them; the qlog of the sender has them",
                "what was delivered: the figures are of the payload seen",
                "pauses of the application: they lengthen single round trips, so the upper percentiles may be too large",
            ]
            .map(str::to_owned)
            .to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of client and server over a path of 20 ms each way, captured at the server: (time, is the client's, first byte).
    fn exchange(every_us: u64, is_random: bool) -> Vec<(u64, bool, u8)> {
        let one_way = 20_000;
        let mut seen = Vec::new();
        // The bit of each end at a time follows from the other's one way earlier.
        let mut client = vec![false; (4_000_000 / every_us) as usize];
        let mut server = client.clone();
        let back = (one_way / every_us) as usize;
        for nth in 0..client.len() {
            let old = |bits: &[bool]| nth.checked_sub(back).is_some_and(|nth| bits[nth]);
            (client[nth], server[nth]) = (!old(&server), old(&client));
            let at = nth as u64 * every_us;
            let noise = is_random && nth.wrapping_mul(0x9e37_79b9) >> 7 & 1 == 0;
            let byte = |bit: bool| FIXED | if bit != noise { SPIN } else { 0 };
            seen.push((at, false, byte(server[nth])));
            seen.push((at + one_way, true, byte(client[nth])));
        }
        seen.sort_by_key(|one| one.0);
        seen
    }

    fn estimates(packets: &[(u64, bool, u8)], version: u32) -> (u64, Vec<Estimate>) {
        let mut table = QuicTable::default();
        let (client, server) = ("10.0.0.1:40000".parse().unwrap(), "10.0.0.2:443".parse().unwrap());
        let mut send = |us: u64, is_client: bool, first: u8, version: Option<u32>| {
            let (from, to) = if is_client { (client, server) } else { (server, client) };
            let payload = if is_client { 60 } else { 1_250 };
            table.on_datagram(us * 1_000, &Datagram { from, to, payload, first, version });
        };
        send(0, true, LONG | FIXED, Some(version));
        packets.iter().for_each(|&(us, is_client, first)| send(us, is_client, first, None));
        table.finish(0)
    }

    #[test]
    fn the_time_between_two_changes_is_the_round_trip() {
        let (packets, found) = estimates(&exchange(500, false), 1);
        let [one] = found.as_slice() else { panic!("{found:?}") };
        let rtt = one.rtt.as_ref().unwrap();
        assert_eq!((one.sender.as_str(), packets), ("10.0.0.2:443", 16_001));
        // A change is seen with the next packet, up to 0.5 ms late.
        assert!((rtt.base_ms - 40.0).abs() <= 0.5 && (rtt.p95_ms - 40.0).abs() <= 0.5, "{rtt:?}");
        assert!((one.goodput_bps / 20e6 - 1.0).abs() < 0.01 && one.rate.is_none(), "{}", one.goodput_bps);
    }

    #[test]
    fn packets_out_of_order_at_a_change_add_no_round_trip() {
        let mut packets = exchange(500, false);
        // Every 50th packet of the server is overtaken by the two behind it.
        let server: Vec<usize> = (0..packets.len()).filter(|&nth| !packets[nth].1).collect();
        for nth in server.chunks(50).filter(|chunk| chunk.len() == 50) {
            let (a, b, c) = (packets[nth[10]].2, packets[nth[11]].2, packets[nth[12]].2);
            (packets[nth[10]].2, packets[nth[11]].2, packets[nth[12]].2) = (b, c, a);
        }
        let (_, found) = estimates(&packets, 1);
        let rtt = found[0].rtt.as_ref().unwrap();
        assert!(rtt.base_ms > 38.0 && rtt.max_ms < 42.0, "{rtt:?}");
    }

    #[test]
    fn other_udp_and_small_connections_displace_no_large_one() {
        let mut table = QuicTable::default();
        let server: SocketAddr = "10.0.0.2:443".parse().unwrap();
        let client = |port: u16| SocketAddr::new("10.0.0.1".parse().unwrap(), port);
        let long = |port, payload| {
            let (first, version) = (LONG | FIXED, Some(1));
            Datagram { from: client(port), to: server, payload, first, version }
        };
        for port in 0..3_000 {
            table.on_datagram(0, &Datagram { first: 0, version: None, ..long(port, 40) });
        }
        assert_eq!(table.known.len(), 0);
        table.on_datagram(0, &long(9_000, 50_000));
        (1..=CONNECTIONS_MAX as u16).for_each(|port| table.on_datagram(0, &long(port, 1_200)));
        assert!(table.known.contains_key(&(client(9_000), server)) && table.known.len() <= CONNECTIONS_MAX);
        assert_eq!((table.left_out(), table.finish(0).0), (CONNECTIONS_MAX as u64 / 2, CONNECTIONS_MAX as u64 + 1));
    }

    #[test]
    fn a_bit_at_random_and_other_protocols_show_nothing() {
        let (packets, found) = estimates(&exchange(500, true), 1);
        assert!(found.is_empty() && packets > 0, "{found:?}");
        assert_eq!(estimates(&exchange(500, false), 7), (0, Vec::new()));
    }
}
