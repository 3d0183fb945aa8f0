//! The same packets at the same times meet the same fate, whichever driver runs the path.
//!
//! The drivers are an engine that acts exactly on time, as the simulator does, and a relay of real packets that wakes
//! late, as the emulator and the recorder do.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use bbrlab_core::Rng;
use bbrlab_sim::link::LinkPacket;
use bbrlab_sim::path::{FlowSharing, PathPacket};
use bbrlab_sim::scenario::ScenarioFile;
use bbrlab_sim::setup::Setup;

use super::super::packet::ETHERNET;
use super::super::tun::VNET;
use super::*;

/// Bytes of the IPv4 and TCP headers.
const HEADERS: usize = 40;
/// First port of the senders; a flow's port is this plus its index.
const PORT: u16 = 10_000;
const FLOWS: u64 = 3;

/// Every feature of a path: one that a driver loses shows as a difference.
const PATHS: [(&str, &str); 16] = [
    ("plain", ""),
    ("random loss", "loss = \"3%\"\nack_loss = \"5%\""),
    ("bursty loss", "loss = \"ge:1%,30%\""),
    ("jitter", "jitter = \"5ms\""),
    ("disorder", "jitter = \"8ms:reorder\"\nreorder = \"2%\"\nduplicate = \"3%\""),
    ("codel", "aqm = \"codel:ecn\"\nbuffer = \"500p\""),
    ("fq_codel", "aqm = \"fq_codel\"\nbuffer = \"500p\""),
    ("cake", "aqm = \"cake:rtt=20ms\"\nbuffer = \"100p\""),
    ("dualpi2", "aqm = \"dualpi2\"\nbuffer = \"500p\"\nflow = [\"prague\", \"bbr1*2\"]"),
    ("red", "aqm = \"red:min=20kB,max=60kB,ecn\"\nbuffer = \"100p\""),
    ("policer", "policer = \"rate=4mbit,burst=30kB\""),
    ("schedule", "schedule = \"500ms:rate=4mbit,rtt=20ms;1s:rate=30mbit,loss=2%;1500ms:buffer=5p,rtt=90ms\""),
    (
        "own delays",
        "flow = [\"bbr1,rtt=40ms\", \"bbr1\", \"bbr1,access=8mbit/6ms/20p\"]\nschedule = \"700ms:rtt=80ms\"",
    ),
    ("up", "up = \"rate=300kbit,buffer=2kB\"\nack_loss = \"1%\"\nschedule = \"1s:rate=4mbit\""),
    ("ACK filter", "up = \"rate=100kbit,buffer=10p,ack_filter\""),
    ("held ACKs", "ack_aggregation = \"5ms\"\nack_loss = \"1%\""),
];

fn setup(more: &str) -> Setup {
    let mut text = "duration = \"2s\"\nseed = 7\n".to_owned();
    for (key, line) in [
        ("rate", "rate = \"6mbit\"\n"),
        ("rtt", "rtt = \"40ms\"\n"),
        ("buffer", "buffer = \"30p\"\n"),
        ("flow", "flow = [\"bbr1*3\"]\n"),
    ] {
        if !more.lines().any(|own| own.starts_with(&format!("{key} ="))) {
            text += line;
        }
    }
    let sourced = ScenarioFile::from_toml(&(text + more), "test").unwrap_or_else(|error| panic!("{more}: {error}"));
    sourced.scenario.resolve().unwrap_or_else(|error| panic!("{more}: {error}"))
}

/// A packet sent by a host: time, direction, flow, number, bytes as IP.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Time,
    direction: usize,
    flow: u32,
    id: u32,
    bytes: usize,
}

/// Bursts of data of any size, and ACKs.
fn traffic(seed: u64) -> Vec<Sent> {
    let mut rng = Rng::new(seed);
    let mut at = Time::ZERO;
    let mut sent = Vec::new();
    for id in 0..3_000 {
        at += Span::nanos(rng.below(1_300_000) * u64::from(rng.below(3) != 0));
        let direction = usize::from(rng.below(3) == 0);
        let bytes = if direction == RIGHTWARD { HEADERS + rng.below(1_461) as usize } else { HEADERS };
        sent.push(Sent { at, direction, flow: rng.below(FLOWS) as u32, id, bytes });
    }
    sent
}

/// Fate of each packet: time and mark of every arrival. A missing packet was lost or dropped.
type Fates = BTreeMap<(usize, u32), Vec<(u64, bool)>>;

fn note(fates: &mut Fates, direction: usize, id: u32, at: Time, ce: bool) {
    fates.entry((direction, id)).or_default().push((at.as_nanos(), ce));
}

/// A packet without bytes.
#[derive(Clone, Copy, Debug)]
struct Bare {
    sent: Sent,
    hop: u8,
    ect_1: bool,
    ce: bool,
}

impl LinkPacket for Bare {
    fn wire_bytes(&self) -> u32 {
        self.sent.bytes as u32 + ETHERNET
    }
    fn flow(&self) -> u32 {
        self.sent.flow
    }
    fn ect(&self) -> bool {
        true
    }
    fn is_l4s(&self) -> bool {
        self.ect_1
    }
    fn mark_ce(&mut self) {
        self.ce = true;
    }
    fn supersedes(&self, queued: &Self) -> bool {
        self.sent.direction == LEFTWARD && self.sent.flow == queued.sent.flow && self.sent.id > queued.sent.id
    }
}

impl PathPacket for Bare {
    type Queued = Self;

    fn into_queue(self) -> Self {
        self
    }
    fn from_queue(queued: Self) -> Self {
        queued
    }
    fn flow(&self) -> u32 {
        self.sent.flow
    }
    fn hop(&self) -> u8 {
        self.hop
    }
    fn set_hop(&mut self, hop: u8) {
        self.hop = hop;
    }
}

/// Drives the path as the simulator does: one event after the other, each exactly on time.
fn by_the_moment(setup: &Setup, traffic: &[Sent]) -> Fates {
    let mut path: Path<Bare, Bare> = Path::new(setup, FlowSharing { unknown_flows: true, per_flow_delay: false });
    let mut fates = Fates::new();
    let mut last_acks = [None; FLOWS as usize];
    let mut go_on = |path: &mut Path<Bare, Bare>, until: Time| {
        loop {
            let (forward, reverse, change) = (path.forward.next(), path.reverse.next(), path.next_change());
            let at = forward.min(reverse).min(change);
            if at > until || at == Time::NEVER {
                return;
            }
            if forward == at {
                if let Some((at, packet)) = path.forward.poll(&mut ()) {
                    note(&mut fates, RIGHTWARD, packet.sent.id, at, packet.ce);
                }
            } else if reverse == at {
                if let Some((at, packet)) = path.reverse.poll(&mut ()) {
                    note(&mut fates, LEFTWARD, packet.sent.id, at, packet.ce);
                }
            } else {
                path.change(at);
            }
        }
    };
    for &sent in traffic {
        go_on(&mut path, sent.at);
        let packet = Bare { sent, hop: 0, ect_1: setup.flows[sent.flow as usize].host.l4s, ce: false };
        if sent.direction == RIGHTWARD {
            path.forward.offer(sent.at, packet, None, &mut ());
        } else {
            let before: Option<u32> = last_acks[sent.flow as usize].replace(sent.id);
            let acked = u64::from(sent.id - before.unwrap_or(sent.id));
            path.reverse.offer(sent.at, packet, Some(acked), &mut ());
        }
    }
    go_on(&mut path, Time::ZERO + Span::secs(60));
    fates
}

/// Identifies flows by their senders' ports. All send ECT(0).
struct Ports {
    l4s: Vec<bool>,
}

impl Observer for Ports {
    fn flow_of(&mut self, direction: usize, packet: &[u8]) -> u32 {
        let (from, to) = wire::tcp_ports(packet).unwrap();
        u32::from(if direction == RIGHTWARD { from } else { to } - PORT)
    }
    fn sends_ect_1(&self, flow: u32) -> bool {
        self.l4s[flow as usize]
    }
}

/// Writes an ECN-capable TCP packet whose sequence and acknowledgement numbers are its own number.
fn write_ip(sent: &Sent, to: &mut [u8]) {
    let (ip, tcp) = to[VNET..VNET + sent.bytes].split_at_mut(20);
    ip.fill(0);
    (ip[0], ip[1], ip[8], ip[9]) = (0x45, 0x02, 64, 6);
    ip[2..4].copy_from_slice(&(sent.bytes as u16).to_be_bytes());
    ip[12..16].copy_from_slice(&[192, 0, 2, 1]);
    ip[16..20].copy_from_slice(&[192, 0, 2, 2]);
    tcp.fill(0);
    let own = PORT + sent.flow as u16;
    let (from, to) = if sent.direction == RIGHTWARD { (own, 5001) } else { (5001, own) };
    tcp[0..2].copy_from_slice(&from.to_be_bytes());
    tcp[2..4].copy_from_slice(&to.to_be_bytes());
    tcp[4..8].copy_from_slice(&sent.id.to_be_bytes());
    tcp[8..12].copy_from_slice(&sent.id.to_be_bytes());
    (tcp[12], tcp[13]) = (5 << 4, 0x10);
}

/// Drives the path as the emulator does: real packets, and a thread that wakes late.
fn late(setup: &Setup, traffic: &[Sent], seed: u64) -> Fates {
    let path = Path::new(setup, FlowSharing { unknown_flows: true, per_flow_delay: false });
    let ports = Ports { l4s: setup.flows.iter().map(|flow| flow.host.l4s).collect() };
    let mut relay = Relay::new(path, 1500, Some(Span::millis(10)), ports);
    let mut rng = Rng::new(seed);
    let mut fates = Fates::new();
    let mut deliver = |relay: &mut Relay<Ports>, now: Time| {
        relay.control(now);
        for direction in [RIGHTWARD, LEFTWARD] {
            while let Some((at, packet)) = relay.arrival(direction, now) {
                let tcp = relay.pool.ip(packet.buffer);
                let id = u32::from_be_bytes(tcp[24..28].try_into().unwrap());
                note(&mut fates, direction, id, at, packet.ce);
                relay.pool.release(packet.buffer);
            }
        }
    };
    for sent in traffic {
        relay.control(sent.at);
        if rng.below(20) == 0 {
            deliver(&mut relay, sent.at);
        }
        let buffer = relay.pool.take(false).unwrap();
        write_ip(sent, relay.pool.space(buffer));
        relay.offer(sent.at, sent.direction, buffer, VNET + sent.bytes);
    }
    deliver(&mut relay, Time::ZERO + Span::secs(60));
    fates
}

#[test]
fn a_packets_fate_is_the_same_whoever_drives_the_path() {
    for (name, more) in PATHS {
        let setup = setup(more);
        for seed in 0..3 {
            let traffic = traffic(seed);
            let exact = by_the_moment(&setup, &traffic);
            let arrived = exact.values().filter(|fate| !fate.is_empty()).count();
            assert!((300..traffic.len()).contains(&arrived), "{name}: {arrived} arrived");
            let relayed = late(&setup, &traffic, seed);
            for sent in &traffic {
                let key = (sent.direction, sent.id);
                assert_eq!(exact.get(&key), relayed.get(&key), "{name}, seed {seed}: {sent:?}");
            }
        }
    }
}

/// Only the path sets marks, so some path of the list must mark.
#[test]
fn marks_are_among_the_fates() {
    let (_, codel) = PATHS.into_iter().find(|(name, _)| *name == "codel").unwrap();
    let fates = by_the_moment(&setup(codel), &traffic(1));
    assert!(fates.values().flatten().any(|(_, ce)| *ce));
}

/// Knows no flow beforehand, as `bbrlab emulate`.
struct Hashes;

impl Observer for Hashes {
    fn flow_of(&mut self, _direction: usize, packet: &[u8]) -> u32 {
        wire::flow_hash(packet)
    }
}

/// ACKs of two connections by turns, far apart in their sequences.
#[test]
fn connections_without_a_number_acknowledge_bytes_of_their_own() {
    let mut setup = setup("ack_aggregation = \"5ms\"");
    setup.flows.clear();
    let path = Path::new(&setup, FlowSharing { unknown_flows: true, per_flow_delay: false });
    let mut relay = Relay::new(path, 1500, None, Hashes);
    let acked = [(0, 1_000), (1, 9_000_000), (0, 3_000), (1, 9_004_000), (0, 3_500)].map(|(flow, id)| {
        let sent = Sent { at: Time::ZERO, direction: LEFTWARD, flow, id, bytes: HEADERS };
        let buffer = relay.pool.take(false).unwrap();
        write_ip(&sent, relay.pool.space(buffer));
        relay.pool.filled(buffer, VNET + HEADERS).unwrap();
        let flow = Hashes.flow_of(LEFTWARD, relay.pool.ip(buffer));
        let (wire, traffic_class) = (HEADERS as u32, 0);
        let packet = Packet {
            buffer,
            flow,
            wire,
            busy: 0,
            left_ns: 0,
            line: 0,
            segment: 0,
            hop: 0,
            traffic_class,
            ce: false,
            plain_ack: None,
        };
        relay.newly_acked(LEFTWARD, &packet)
    });
    assert_eq!(acked, [0, 0, 2_000, 4_000, 500].map(Some));
}
