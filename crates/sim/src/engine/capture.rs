//! Recording of packets at the setup's taps, with the headers that a kernel would write.
//! Recording does not influence the run.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::Time;

use crate::record::packets::{Direction, PacketRecord, Packets, Tap, TcpFlags};
use crate::setup::{Capture as Asked, FlowSetup, Rwnd, Setup};
use crate::tcp::{AckPacket, SACK_BLOCKS, Segment, mark};

use super::watch::{Stage, Watch};

/// Bytes of the timestamp option, which the announced MSS includes. Source: RFC 6691 §2.
const TIMESTAMP_BYTES: u32 = 12;
/// Largest window scale. Source: RFC 7323 §2.3.
const SCALE_MAX: u8 = 14;
/// The sender's own receive window, which stays empty. Source: Linux `tcp_rmem[1]` / 2.
const SENDER_WINDOW: u64 = 65_535;

/// Packet recorder of a run.
#[derive(Clone, Debug)]
pub struct Capture {
    limit: usize,
    taps: &'static [Tap],
    packets: Packets,
    flows: Vec<Headers>,
    /// Events for a caller that draws the run, instead of records.
    pub watch: Option<Watch>,
}

impl Capture {
    /// Creates a recorder if the setup enables one.
    pub fn new(setup: &Setup) -> Option<Box<Self>> {
        let Asked::On { limit, taps } = setup.capture else {
            return None;
        };
        let flows = setup.flows.iter().map(Headers::new).collect();
        Some(Box::new(Self { limit, taps, packets: Packets::default(), flows, watch: None }))
    }

    /// Creates a recorder of packet events alone.
    pub fn watching() -> Box<Self> {
        let packets = Packets { cut: Some(Time::ZERO), ..Packets::default() };
        Box::new(Self { limit: 0, taps: &[], packets, flows: Vec::new(), watch: Some(Watch::default()) })
    }

    /// Records segments in the order of their transmission.
    #[cold]
    pub fn on_sent(&mut self, now: Time, segments: &[Segment]) {
        if let Some(watch) = &mut self.watch {
            segments.iter().for_each(|segment| watch.on_segment(now, segment, Stage::Sent));
        }
        if self.packets.cut.is_some() {
            return;
        }
        for segment in segments {
            self.flows[segment.flow as usize].learn(segment);
        }
        segments.iter().for_each(|segment| self.on_segment(now, segment, Tap::Sender));
    }

    /// Records a segment at a tap.
    #[cold]
    pub fn on_segment(&mut self, now: Time, segment: &Segment, tap: Tap) {
        if let Some(watch) = &mut self.watch {
            let stage = match tap {
                Tap::Sender => Stage::Sent,
                Tap::BottleneckIn => Stage::Queued,
                Tap::BottleneckOut => Stage::Departed,
                Tap::Receiver => Stage::Arrived,
            };
            watch.on_segment(now, segment, stage);
        }
        if self.wants(tap) {
            let record = self.flows[segment.flow as usize].data(now, segment, tap);
            self.add(record);
        }
    }

    /// Records an ACK sent by a receiver, which may be `lost` on its way.
    #[cold]
    pub fn on_ack_sent(&mut self, now: Time, flow: usize, ack: &AckPacket, lost: bool) {
        if let Some(watch) = &mut self.watch {
            watch.on_ack(now, flow, ack, Stage::AckSent);
            if lost {
                watch.on_ack(now, flow, ack, Stage::AckLost);
            }
        }
        if self.packets.cut.is_some() {
            return;
        }
        if !lost {
            self.flows[flow].back.push_back((*ack, now));
        }
        if self.wants(Tap::Receiver) {
            let record = self.flows[flow].ack(now, flow, ack, now, Tap::Receiver);
            self.add(record);
        }
    }

    /// Records an ACK that arrived at its sender.
    #[cold]
    pub fn on_ack_arrived(&mut self, now: Time, flow: usize, ack: &AckPacket) {
        if let Some(watch) = &mut self.watch {
            watch.on_ack(now, flow, ack, Stage::AckArrived);
        }
        if self.packets.cut.is_some() {
            return;
        }
        let headers = &mut self.flows[flow];
        let sent = headers.arrived(ack).unwrap_or(now);
        headers.echoes.push((now, sent));
        if self.wants(Tap::Sender) {
            let record = self.flows[flow].ack(now, flow, ack, sent, Tap::Sender);
            self.add(record);
        }
    }

    /// Returns the recorded packets.
    pub fn finish(self) -> Packets {
        if self.watch.is_some() { Packets::default() } else { self.packets }
    }

    fn wants(&self, tap: Tap) -> bool {
        self.packets.cut.is_none() && self.taps.contains(&tap)
    }

    fn add(&mut self, record: PacketRecord) {
        if self.packets.records.len() < self.limit {
            self.packets.records.push(record);
        } else {
            self.packets.cut = Some(Time::nanos(record.t_ns));
        }
    }
}

/// Header fields of one flow that the simulator's packets do not carry.
#[derive(Clone, Debug)]
struct Headers {
    mss: u64,
    scale: u8,
    ecn: bool,
    /// Segments shorter than the MSS, with the bytes missing in all of them up to this one: sorted, and few.
    short: Vec<(u64, u64)>,
    /// ACKs in transit, with their send times.
    back: VecDeque<(AckPacket, Time)>,
    /// Arrival and send time of each ACK, echoed by later segments.
    echoes: Vec<(Time, Time)>,
}

impl Headers {
    fn new(setup: &FlowSetup) -> Self {
        let largest = match setup.rwnd {
            Rwnd::Unlimited => u64::MAX,
            Rwnd::Fixed(bytes) | Rwnd::Auto(bytes) => bytes,
        };
        Self {
            mss: setup.mss.into(),
            scale: (0..SCALE_MAX).find(|scale| largest >> scale <= u64::from(u16::MAX)).unwrap_or(SCALE_MAX),
            ecn: setup.host.ecn,
            short: Vec::new(),
            back: VecDeque::new(),
            echoes: Vec::new(),
        }
    }

    /// Records a segment shorter than the others: the bytes after it begin earlier than their segment number implies.
    fn learn(&mut self, segment: &Segment) {
        let lacks = self.mss.saturating_sub(segment.len.into());
        let is_new = self.short.last().is_none_or(|last| last.0 < segment.seq);
        if lacks > 0 && is_new && segment.marks & (mark::NO_DATA | mark::RETRANSMIT) == 0 {
            let before = self.short.last().map_or(0, |last| last.1);
            self.short.push((segment.seq, before + lacks));
        }
    }

    /// Sequence number of a segment's first byte. The SYN has 0.
    fn byte(&self, seq: u64) -> u64 {
        let shorter = self.short.partition_point(|short| short.0 < seq);
        let lacking = if shorter == 0 { 0 } else { self.short[shorter - 1].1 };
        1 + seq * self.mss - lacking
    }

    /// Removes an ACK from those in transit and returns its send time. Only a SYN-ACK ever overtakes, so the ACK is near the front.
    fn arrived(&mut self, ack: &AckPacket) -> Option<Time> {
        let place = self.back.iter().position(|(sent, _)| sent == ack)?;
        self.back.remove(place).map(|(_, at)| at)
    }

    fn data(&self, now: Time, segment: &Segment, tap: Tap) -> PacketRecord {
        let has = |bits: u8| segment.marks & bits != 0;
        let is_syn = has(mark::SYN);
        let heard = self.echoes.partition_point(|echo| echo.0 <= segment.sent);
        let flags = match (is_syn, self.ecn) {
            (true, true) => TcpFlags::SYN.and(TcpFlags::ECE).and(TcpFlags::CWR),
            (true, false) => TcpFlags::SYN,
            _ if has(mark::CWR) => TcpFlags::ACK.and(TcpFlags::CWR),
            _ => TcpFlags::ACK,
        };
        let flags = if has(mark::PUSH) { flags.and(TcpFlags::PSH) } else { flags };
        PacketRecord {
            seq: if is_syn { 0 } else { self.byte(segment.seq) },
            ack: u64::from(!is_syn),
            len: segment.len.into(),
            flags,
            ecn: codepoint(segment.marks),
            window: SENDER_WINDOW,
            ts_val: timestamp(segment.sent),
            ts_ecr: if heard == 0 { 0 } else { timestamp(self.echoes[heard - 1].1) },
            ..self.blank(now, segment.flow, Direction::Data, tap)
        }
    }

    fn ack(&self, now: Time, flow: usize, ack: &AckPacket, sent: Time, tap: Tap) -> PacketRecord {
        let mut flags = if ack.syn { TcpFlags::SYN.and(TcpFlags::ACK) } else { TcpFlags::ACK };
        if ack.ece || ack.syn && self.ecn {
            flags = flags.and(TcpFlags::ECE);
        }
        PacketRecord {
            seq: u64::from(!ack.syn),
            ack: if ack.syn { 1 } else { self.byte(ack.una) },
            flags,
            ecn: codepoint(ack.marks),
            window: ack.window,
            ts_val: timestamp(sent),
            ts_ecr: timestamp(ack.ts_echo),
            sack: self.blocks(ack),
            ..self.blank(now, flow as u32, Direction::Ack, tap)
        }
    }

    /// SACK blocks of an ACK, a DSACK before the others (RFC 2883 §4).
    fn blocks(&self, ack: &AckPacket) -> [(u64, u64); SACK_BLOCKS] {
        let mut blocks = [(0, 0); SACK_BLOCKS];
        let twice = ack.dsack.map(|seq| (seq, seq + 1));
        let held = ack.sack.iter().map(|&(from, to)| (ack.una + u64::from(from), ack.una + u64::from(to)));
        let all = twice.into_iter().chain(held.filter(|(from, to)| from < to));
        for (block, (from, to)) in blocks.iter_mut().zip(all) {
            *block = (self.byte(from), self.byte(to));
        }
        blocks
    }

    fn blank(&self, now: Time, flow: u32, dir: Direction, tap: Tap) -> PacketRecord {
        PacketRecord {
            t_ns: now.as_nanos(),
            flow,
            dir,
            seq: 0,
            ack: 0,
            len: 0,
            flags: TcpFlags::default(),
            ecn: 0,
            window: 0,
            scale: self.scale,
            mss: u16::try_from(self.mss + u64::from(TIMESTAMP_BYTES)).unwrap_or(u16::MAX),
            ts_val: 0,
            ts_ecr: 0,
            sack: [(0, 0); SACK_BLOCKS],
            tap,
        }
    }
}

/// ECN bits of a packet with these marks.
const fn codepoint(marks: u8) -> u8 {
    match marks & (mark::CE | mark::ECT_1 | mark::ECT) {
        0 => 0,
        bits if bits & mark::CE != 0 => 3,
        bits if bits & mark::ECT_1 != 0 => 1,
        _ => 2,
    }
}

/// Timestamp in milliseconds, plus one: 0 means "no timestamp" to readers.
fn timestamp(at: Time) -> u32 {
    (at.as_nanos() / 1_000_000) as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Output, run};
    use crate::scenario::ScenarioFile;

    /// Runs a lossy scenario with these flows and records at every tap.
    fn captured(flows: &str, limit: usize) -> Output {
        let text = format!("rate = '10mbit'\nbuffer = '20p'\nloss = '1%'\nduration = '3s'\nflow = [{flows}]");
        let mut setup = ScenarioFile::from_toml(&text, "x").unwrap().scenario.resolve().unwrap();
        setup.capture = Asked::On { limit, taps: &Tap::ALL };
        run(&setup)
    }

    fn data(output: &Output, tap: Tap) -> Vec<PacketRecord> {
        let wanted = |packet: &&PacketRecord| packet.tap == tap && packet.len > 0;
        output.packets.records.iter().filter(wanted).copied().collect()
    }

    /// Trap: a response that ends in a short segment shifts all bytes after it.
    #[test]
    fn new_data_joins_what_went_before_also_after_short_segments() {
        let output = captured("'cubic,request=10kB/20ms'", usize::MAX);
        let (mut end, mut short, mut ends) = (1, 0, Vec::new());
        for packet in data(&output, Tap::Sender) {
            if packet.seq >= end {
                assert_eq!(packet.seq, end);
                short += u64::from(packet.len < 1448);
                end += u64::from(packet.len);
                ends.push(end);
            }
        }
        assert!(short > 10 && end > 200_000, "{short} {end}");
        let acked = output.packets.records.iter().map(|packet| packet.ack).max().unwrap();
        assert!(ends.contains(&acked) && acked + 50_000 > end, "{acked} of {end}");
    }

    #[test]
    fn the_sender_s_capture_holds_each_retransmission() {
        let output = captured("'bbr1'", usize::MAX);
        let (mut end, mut again, mut all) = (0, 0, 0);
        for packet in data(&output, Tap::Sender) {
            again += u64::from(packet.seq < end);
            all += 1;
            end = end.max(packet.seq + 1);
        }
        let ratio = f64::from(again as u32) / f64::from(all);
        assert!(again > 10 && ratio == output.result.flows[0].retransmit_ratio, "{again} of {all}");
    }

    #[test]
    fn selectively_acknowledged_bytes_had_been_sent() {
        let output = captured("'cubic,size=500001B'", usize::MAX);
        let sent: std::collections::BTreeSet<u64> = data(&output, Tap::Sender)
            .iter()
            .flat_map(|packet| [packet.seq, packet.seq + u64::from(packet.len)])
            .collect();
        let blocks = output.packets.records.iter().flat_map(|packet| packet.sack).filter(|(from, to)| from < to);
        let edges: Vec<u64> = blocks.flat_map(|(from, to)| [from, to]).collect();
        assert!(edges.len() > 10 && edges.iter().all(|edge| sent.contains(edge)));
    }

    #[test]
    fn the_bottleneck_s_captures_differ_by_its_drops() {
        let output = captured("'bbr1'", usize::MAX);
        let at = |tap: Tap| output.packets.records.iter().filter(|packet| packet.tap == tap).count() as u64;
        let waiting = at(Tap::BottleneckIn) - at(Tap::BottleneckOut) - output.result.bottleneck.drops;
        assert!(output.result.bottleneck.drops > 0 && waiting <= 21, "{waiting}");
    }

    #[test]
    fn recording_changes_no_result_and_stops_at_its_limit() {
        let (all, some) = (captured("'bbr1', 'cubic'", usize::MAX), captured("'bbr1', 'cubic'", 100));
        assert_eq!(all.result, some.result);
        assert_eq!((some.packets.records.as_slice(), all.packets.cut), (&all.packets.records[..100], None));
        assert_eq!(some.packets.cut, Some(Time::nanos(all.packets.records[100].t_ns)));
    }

    #[test]
    fn ecn_bits_and_flags_are_those_of_the_packets() {
        let seen = |flow: &str| {
            let output = captured(flow, usize::MAX);
            let mut seen: Vec<_> =
                output.packets.records.iter().filter(|packet| packet.seq > 1 || packet.ack > 1).collect();
            seen.retain(|packet| packet.tap == Tap::Sender);
            let bits =
                |dir| seen.iter().filter(|packet| packet.dir == dir).fold(0_u8, |bits, packet| bits | 1 << packet.ecn);
            let has = |flag| seen.iter().any(|packet| packet.flags.has(flag));
            (bits(Direction::Data), bits(Direction::Ack), has(TcpFlags::ECE), has(TcpFlags::CWR))
        };
        assert_eq!(seen("'cubic'"), (1, 1, false, false));
        assert_eq!(seen("'dctcp,ecn=accurate'"), (1 << 2, 1 << 2, false, true), "losses reduce the window too");
        assert_eq!(seen("'prague'"), (1 << 1, 1 << 1, false, false));
    }
}
