//! Packet-by-packet comparison of two runs of one scenario: data packets sent and ACKs received by the sender. The n-th
//! packet of a flow and direction is compared with the n-th of the other run; packets after the first difference have
//! no counterpart and are not judged.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::fmt;

use bbrlab_core::{Span, Time};

use bbrlab_sim::record::packets::{Direction, PacketRecord, Packets, Tap};

/// Kind of difference between two packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The packets acknowledge or carry different bytes, or one has no counterpart.
    Content,
    /// The same packet at another time.
    Time,
}

/// A packet and its counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Kind of difference.
    pub kind: DifferenceKind,
    /// Index of the flow.
    pub flow: u32,
    /// Direction of the packets.
    pub dir: Direction,
    /// Number of the flow's earlier packets in this direction.
    pub nth: usize,
    /// Packet of the first run; `None` if it has no such packet.
    pub left: Option<PacketRecord>,
    /// Packet of the second run.
    pub right: Option<PacketRecord>,
}

impl Difference {
    /// Time of the earlier of the two packets.
    pub fn at(&self) -> Time {
        let moments = self.left.iter().chain(&self.right).map(|packet| packet.t_ns);
        Time::nanos(moments.min().unwrap_or(0))
    }
}

/// Result of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Number of compared pairs.
    pub pairs: usize,
    /// First pair with different content.
    pub content: Option<Difference>,
    /// First pair with equal content whose times differ by more than allowed.
    pub time: Option<Difference>,
    /// Largest time difference between packets with equal content.
    pub farthest: Span,
}

impl Compared {
    /// Returns true if no packet differs.
    pub const fn is_equal(&self) -> bool {
        self.content.is_none() && self.time.is_none()
    }

    /// Returns the first difference.
    pub fn first(&self) -> Option<&Difference> {
        self.content.iter().chain(&self.time).min_by_key(|difference| difference.at())
    }
}

/// Shifts times so that the first packet is at zero: a real program needs some clock reads to begin.
pub fn from_first(packets: &mut Packets) {
    let first = packets.records.iter().map(|packet| packet.t_ns).min().unwrap_or(0);
    packets.records.iter_mut().for_each(|packet| packet.t_ns -= first);
    packets.cut = packets.cut.map(|cut| Time::nanos(cut.as_nanos().saturating_sub(first)));
}

/// Compares two runs up to `end`; the times of equal packets may differ by `within`.
pub fn compare(left: &Packets, right: &Packets, end: Time, within: Span) -> Compared {
    let end = [left.cut, right.cut].into_iter().flatten().fold(end, Time::min);
    let (left, right) = (lanes(left), lanes(right));
    let mut all = Compared::default();
    let mut keys: Vec<&FlowDirection> = left.keys().chain(right.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    for lane in keys {
        let of = |lanes: &BTreeMap<FlowDirection, Vec<PacketRecord>>| lanes.get(lane).cloned().unwrap_or_default();
        all.add(*lane, &of(&left), &of(&right), end, within);
    }
    all
}

/// Flow index, and true for its ACKs.
type FlowDirection = (u32, bool);

const fn direction(lane: FlowDirection) -> Direction {
    if lane.1 { Direction::Ack } else { Direction::Data }
}

fn lanes(packets: &Packets) -> BTreeMap<FlowDirection, Vec<PacketRecord>> {
    let mut lanes: BTreeMap<FlowDirection, Vec<PacketRecord>> = BTreeMap::new();
    for packet in packets.records.iter().filter(|packet| packet.tap == Tap::Sender) {
        lanes.entry((packet.flow, packet.dir == Direction::Ack)).or_default().push(*packet);
    }
    lanes
}

/// Content compared between packets: the bytes carried, acknowledged and selectively acknowledged.
const fn content(packet: &PacketRecord) -> (u64, u32, u64, [(u64, u64); 3]) {
    (packet.seq, packet.len, packet.ack, packet.sack)
}

impl Compared {
    fn add(&mut self, lane: FlowDirection, left: &[PacketRecord], right: &[PacketRecord], end: Time, within: Span) {
        let earlier = |kept: &mut Option<Difference>, found: Difference| {
            if kept.is_none_or(|kept| found.at() < kept.at()) {
                *kept = Some(found);
            }
        };
        for nth in 0..left.len().max(right.len()) {
            let (l, r) = (left.get(nth).copied(), right.get(nth).copied());
            let found = |kind| Difference { kind, flow: lane.0, dir: direction(lane), nth, left: l, right: r };
            let content_differs = found(DifferenceKind::Content);
            // At the end of a run, or of its recording, one run may have a packet that the other sends only afterwards,
            // later by the existing time difference.
            if content_differs.at() + within.max(self.farthest) >= end {
                return;
            }
            self.pairs += 1;
            let (Some(a), Some(b)) = (l, r) else {
                return earlier(&mut self.content, content_differs);
            };
            if content(&a) != content(&b) {
                return earlier(&mut self.content, content_differs);
            }
            let apart = Span::nanos(a.t_ns.abs_diff(b.t_ns));
            self.farthest = self.farthest.max(apart);
            if apart > within {
                earlier(&mut self.time, found(DifferenceKind::Time));
            }
        }
    }
}

/// Returns the last `count` packets of a flow before a given packet, and that packet; if the run lacks it, those before
/// its counterpart's time.
pub fn before(
    packets: &Packets,
    difference: &Difference,
    own: Option<PacketRecord>,
    count: usize,
) -> Vec<PacketRecord> {
    let of_flow = packets.records.iter().filter(|packet| packet.tap == Tap::Sender && packet.flow == difference.flow);
    let of_flow: Vec<PacketRecord> = of_flow.copied().collect();
    let end = match own {
        Some(_) => of_flow
            .iter()
            .enumerate()
            .filter(|(_, packet)| packet.dir == difference.dir)
            .nth(difference.nth)
            .map_or(of_flow.len(), |(at, _)| at + 1),
        None => of_flow.iter().take_while(|packet| packet.t_ns <= difference.at().as_nanos()).count(),
    };
    of_flow[end.saturating_sub(count + 1)..end].to_vec()
}

/// A packet as a line of a table.
pub struct PacketLine<'a>(pub &'a PacketRecord);

impl fmt::Display for PacketLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packet = self.0;
        let (s, ns) = (packet.t_ns / 1_000_000_000, packet.t_ns % 1_000_000_000);
        write!(f, "{s}.{ns:09} ")?;
        match packet.dir {
            Direction::Data => write!(f, "data {} +{}", packet.seq, packet.len),
            Direction::Ack => {
                write!(f, "ack {}", packet.ack)?;
                let mut blocks = packet.sack.iter().filter(|(from, to)| from < to);
                blocks.try_for_each(|(from, to)| write!(f, " [{from}–{to}]"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_sim::record::packets::TcpFlags;

    fn packet(t_us: u64, dir: Direction, number: u64) -> PacketRecord {
        let (seq, ack) = if dir == Direction::Data { (number, 1) } else { (1, number) };
        PacketRecord {
            t_ns: t_us * 1000,
            flow: 0,
            dir,
            seq,
            ack,
            len: if dir == Direction::Data { 1448 } else { 0 },
            flags: TcpFlags::ACK,
            ecn: 0,
            window: 0,
            scale: 0,
            mss: 1460,
            ts_val: 0,
            ts_ecr: 0,
            sack: [(0, 0); 3],
            tap: Tap::Sender,
        }
    }

    fn data(t_us: u64, seq: u64) -> PacketRecord {
        packet(t_us, Direction::Data, seq)
    }

    fn ack(t_us: u64, ack: u64) -> PacketRecord {
        packet(t_us, Direction::Ack, ack)
    }

    fn run(records: &[PacketRecord]) -> Packets {
        Packets { records: records.to_vec(), cut: None }
    }

    fn compared(left: &[PacketRecord], right: &[PacketRecord]) -> Compared {
        compare(&run(left), &run(right), Time::nanos(1_000_000_000), Span::micros(1))
    }

    #[test]
    fn equal_runs_differ_in_nothing_however_both_ways_interleave() {
        let found = compared(&[data(1, 1), ack(5, 2), data(5, 9)], &[data(1, 1), data(5, 9), ack(5, 2)]);
        assert_eq!((found.pairs, found.is_equal(), found.first()), (3, true, None));
    }

    #[test]
    fn the_first_unlike_packet_is_found_in_whichever_direction_it_is() {
        let left = [data(1, 1), ack(50, 2), data(60, 9), ack(70, 3)];
        let found = compared(&left, &[data(1, 1), ack(50, 2), data(60, 9), ack(70, 4)]);
        let content = found.content.unwrap();
        assert_eq!((content.dir, content.nth, content.at()), (Direction::Ack, 1, Time::nanos(70_000)));
        let content = compared(&left, &[data(1, 1), ack(50, 2), data(60, 10), ack(70, 4)]).content.unwrap();
        assert_eq!((content.dir, content.nth, content.left.unwrap().seq), (Direction::Data, 1, 9));
    }

    #[test]
    fn a_packet_that_only_one_run_has_differs_unless_the_run_ends_there() {
        let found = compared(&[data(1, 1), data(9, 2)], &[data(1, 1)]).content.unwrap();
        assert_eq!((found.left.map(|p| p.seq), found.right), (Some(2), None));
        assert!(compared(&[data(1, 1), data(999_999, 2)], &[data(1, 1)]).is_equal());
        let cut = Packets { records: vec![data(1, 1)], cut: Some(Time::nanos(9000)) };
        let whole = run(&[data(1, 1), data(9, 2)]);
        assert!(compare(&whole, &cut, Time::nanos(1_000_000_000), Span::ZERO).is_equal());
    }

    #[test]
    fn time_counts_beyond_what_is_allowed_and_up_to_the_first_unlike_packet() {
        let left = [data(1, 1), data(10, 2), data(20, 3), data(30, 4)];
        let found = compared(&left, &[data(1, 1), data(11, 2), data(23, 3), data(90, 5)]);
        assert_eq!(found.time.unwrap().nth, 2);
        assert_eq!((found.content.unwrap().nth, found.farthest), (3, Span::micros(3)));
        assert_eq!(found.first().unwrap().kind, DifferenceKind::Time);
    }

    #[test]
    fn moments_count_from_the_first_packet() {
        let mut late = Packets { records: vec![data(7, 1), ack(20, 2)], cut: Some(Time::nanos(30_000)) };
        from_first(&mut late);
        let moments: Vec<u64> = late.records.iter().map(|packet| packet.t_ns).collect();
        assert_eq!((moments, late.cut), (vec![0, 13_000], Some(Time::nanos(23_000))));
    }

    #[test]
    fn other_bytes_selectively_acknowledged_are_another_packet() {
        let mut other = ack(5, 2);
        other.sack[0] = (5, 7);
        assert!(compared(&[ack(5, 2)], &[other]).content.is_some());
    }

    #[test]
    fn what_came_before_is_shown_up_to_the_packet_itself() {
        let records = [data(1, 1), ack(2, 2), data(3, 3), ack(4, 4), data(5, 5)];
        let found = compared(&records, &[data(1, 1), ack(2, 2), data(3, 6)]);
        let difference = found.first().unwrap();
        assert_eq!(before(&run(&records), difference, difference.left, 1), [ack(2, 2), data(3, 3)]);
        assert_eq!(before(&run(&records), difference, None, 9), [data(1, 1), ack(2, 2), data(3, 3)]);
        assert_eq!(PacketLine(&data(1_000_005, 7)).to_string(), "1.000005000 data 7 +1448");
    }
}
