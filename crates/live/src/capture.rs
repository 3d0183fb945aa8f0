//! Packet capture at the sender's host, in the same form as the simulator's, for every backend.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;
use bbrlab_sim::record::packets::{Direction, PacketRecord, Packets, Tap, TcpFlags};
use bbrlab_sim::setup::{Capture as Asked, Setup};

use crate::meter::Unwrapped;
use crate::wire::{self, Details};

/// Bytes of the timestamp option, which an announced MSS includes. Source: RFC 6691 §2.
const TIMESTAMP_BYTES: u32 = 12;
/// SACK blocks in a record: as many as fit beside timestamps.
const SACKS: usize = 3;

/// Packets recorded during a run.
#[derive(Clone, Debug)]
pub struct Capture {
    limit: usize,
    packets: Packets,
    flows: Vec<Flow>,
}

/// Both directions of a connection.
#[derive(Clone, Debug)]
struct Flow {
    mss: u16,
    data: DirectionState,
    ack: DirectionState,
}

/// One direction: its sequence space, and the scale of its announced windows.
#[derive(Clone, Copy, Debug, Default)]
struct DirectionState {
    seq: Unwrapped,
    scale: u8,
}

impl Capture {
    /// Creates a capture if the setup requests one. Only the sender's capture point is available here.
    pub fn new(setup: &Setup) -> Option<Self> {
        let Asked::On { limit, .. } = setup.capture else { return None };
        let flow = |mss: u32| Flow {
            mss: u16::try_from(mss + TIMESTAMP_BYTES).unwrap_or(u16::MAX),
            data: DirectionState::default(),
            ack: DirectionState::default(),
        };
        let flows = setup.flows.iter().map(|setup| flow(setup.mss)).collect();
        Some(Self { limit, packets: Packets::default(), flows })
    }

    /// Records a packet of `flow` that passes the sender's host; `packet` starts with its IP header.
    pub fn on_packet(&mut self, t_ns: u64, flow: usize, dir: Direction, packet: &[u8]) {
        if self.packets.cut.is_some() {
            return;
        }
        let (Some(sides), Some((tcp, details))) = (self.flows.get_mut(flow), wire::tcp_with_details(packet)) else {
            return;
        };
        if self.packets.records.len() == self.limit {
            self.packets.cut = Some(Time::nanos(t_ns));
            return;
        }
        let mss = details.mss.unwrap_or(sides.mss);
        let (own, other) = match dir {
            Direction::Data => (&mut sides.data, &mut sides.ack),
            Direction::Ack => (&mut sides.ack, &mut sides.data),
        };
        let Details { window, scale, timestamps: (ts_val, ts_ecr), .. } = details;
        own.scale = scale.unwrap_or(own.scale);
        let is_syn = tcp.flags & wire::flag::SYN != 0;
        let window = u64::from(window) << if is_syn { 0 } else { own.scale };
        let mut sack = [(0, 0); SACKS];
        for (to, (left, right)) in sack.iter_mut().zip(tcp.sack_blocks()) {
            *to = (other.seq.relative(*left), other.seq.relative(*right));
        }
        self.packets.records.push(PacketRecord {
            t_ns,
            flow: flow as u32,
            dir,
            seq: own.seq.passed(tcp.seq),
            ack: if tcp.flags & wire::flag::ACK != 0 { other.seq.relative(tcp.ack) } else { 0 },
            len: tcp.payload,
            flags: TcpFlags(tcp.flags),
            ecn: tcp.ecn,
            window,
            scale: own.scale,
            mss,
            ts_val,
            ts_ecr,
            sack,
            tap: Tap::Sender,
        });
    }

    /// Returns the recorded packets.
    pub fn finish(self) -> Packets {
        self.packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::segment;

    fn capture(limit: usize) -> Capture {
        let sourced = bbrlab_sim::scenario::ScenarioFile::from_toml("flow = ['bbr1']", "test");
        let mut setup = sourced.unwrap().scenario.resolve().unwrap();
        assert!(Capture::new(&setup).is_none());
        setup.capture = Asked::On { limit, taps: &[Tap::Sender] };
        Capture::new(&setup).unwrap()
    }

    /// A segment without payload, with these flags.
    fn bare(seq: u32, flags: u8, sack: Option<(u32, u32)>) -> Vec<u8> {
        let mut packet = segment(seq, 0, sack);
        packet[33] = flags;
        packet
    }

    #[test]
    fn numbers_count_from_the_handshake_on_both_sides_and_across_the_wrap() {
        let mut capture = capture(100);
        let first = u32::MAX - 10;
        // The peer's own sequence numbers start at 76: `segment` acknowledges 77.
        capture.on_packet(1, 0, Direction::Data, &bare(first, wire::flag::SYN, None));
        capture.on_packet(2, 0, Direction::Ack, &bare(76, wire::flag::SYN | wire::flag::ACK, None));
        capture.on_packet(3, 0, Direction::Data, &segment(first.wrapping_add(1), 100, None));
        capture.on_packet(4, 0, Direction::Data, &segment(first.wrapping_add(101), 100, None));
        let sacked = (first.wrapping_add(101), first.wrapping_add(201));
        capture.on_packet(5, 0, Direction::Ack, &bare(77, wire::flag::ACK, Some(sacked)));
        let records = capture.finish().records;
        assert_eq!(
            records.iter().map(|r| (r.seq, r.len)).collect::<Vec<_>>(),
            [(0, 0), (0, 0), (1, 100), (101, 100), (1, 0)]
        );
        assert_eq!((records[0].ack, records[2].ack), (0, 1));
        assert_eq!(records[4].sack, [(101, 201), (0, 0), (0, 0)]);
        assert_eq!((records[3].ts_val, records[3].ts_ecr), (1, 2));
    }

    #[test]
    fn it_ends_at_its_limit_and_says_when() {
        let mut capture = capture(2);
        (0..5).for_each(|t| capture.on_packet(t, 0, Direction::Data, &segment(1 + t as u32, 1, None)));
        let packets = capture.finish();
        assert_eq!((packets.records.len(), packets.cut), (2, Some(Time::nanos(2))));
    }

    #[test]
    fn other_flows_and_what_is_no_segment_are_left_out() {
        let mut capture = capture(5);
        capture.on_packet(0, 1, Direction::Data, &segment(1, 1, None));
        capture.on_packet(0, 0, Direction::Data, &[0x45; 20]);
        assert_eq!(capture.finish().records, []);
    }
}
