//! Tests of the adapter with random events, and with the facts that quinn does not report.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::time::Duration;

use bbrlab_core::ALGORITHMS;
use quinn_proto::congestion::Controller as _;

use super::*;
use crate::random_transport::{Event, Packet, RandomTransport, events};

fn origin() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "an origin to count from")]
    Instant::now()
}

fn at(origin: Instant, us: u64) -> Instant {
    origin + Duration::from_micros(us)
}

#[cfg(not(bbrlab_quinn_patched))]
fn factory(name: &str) -> Factory {
    window_only(name).unwrap()
}

#[cfg(bbrlab_quinn_patched)]
fn factory(name: &str) -> Factory {
    Factory::new(name).unwrap()
}

/// Calls of quinn-proto for an event.
struct Calls {
    adapter: Adapter,
    origin: Instant,
}

#[cfg(not(bbrlab_quinn_patched))]
impl Calls {
    fn sent(&mut self, now: Instant, packets: &[Packet<()>]) {
        let bytes: u32 = packets.iter().map(|packet| packet.bytes).sum();
        if let Some(last) = packets.last() {
            self.adapter.on_sent(now, bytes.into(), last.number);
        }
    }

    fn acked(&mut self, now: Instant, packet: &Packet<()>) {
        self.adapter.on_bytes_acked(now, at(self.origin, packet.sent_us), packet.bytes.into());
    }

    fn lost(&mut self, now: Instant, packets: &[Packet<()>], is_persistent: bool) {
        if let Some(last) = packets.last() {
            let bytes: u32 = packets.iter().map(|packet| packet.bytes).sum();
            self.adapter.on_congestion_event(now, at(self.origin, last.sent_us), is_persistent, bytes.into());
        }
    }

    fn discarded(&mut self, _packets: &[Packet<()>]) {}

    fn spurious(&mut self, _now: Instant, _packet: &Packet<()>) {}

    fn is_bounded(&mut self, under_way: usize) -> bool {
        self.adapter.flow().ledger.len() <= under_way + 500
    }
}

#[cfg(bbrlab_quinn_patched)]
impl Calls {
    fn info(&self, packet: &Packet<()>) -> congestion::PacketInfo {
        congestion::PacketInfo {
            id: congestion::PacketId::data(packet.number),
            sent: at(self.origin, packet.sent_us),
            bytes: packet.bytes as u16,
        }
    }

    fn sent(&mut self, now: Instant, packets: &[Packet<()>]) {
        for packet in packets {
            let info = self.info(packet);
            self.adapter.on_packet_sent(now, &info);
        }
    }

    fn acked(&mut self, now: Instant, packet: &Packet<()>) {
        let info = self.info(packet);
        self.adapter.on_packet_acked(now, &info);
    }

    fn lost(&mut self, now: Instant, packets: &[Packet<()>], is_persistent: bool) {
        for packet in packets {
            let info = self.info(packet);
            self.adapter.on_packet_lost(now, &info);
        }
        if let Some(last) = packets.last() {
            self.adapter.on_congestion_event(now, at(self.origin, last.sent_us), is_persistent, 1);
        }
    }

    fn discarded(&mut self, packets: &[Packet<()>]) {
        for packet in packets {
            let info = self.info(packet);
            self.adapter.on_packet_discarded(&info);
        }
    }

    fn spurious(&mut self, now: Instant, packet: &Packet<()>) {
        let info = self.info(packet);
        self.adapter.on_spurious_loss(now, &info);
    }

    fn is_bounded(&mut self, under_way: usize) -> bool {
        self.adapter.flow().ledger.sent.len() <= under_way + 500
    }
}

#[test]
fn random_event_sequences_keep_the_bytes_in_flight_equal_to_quinns() {
    let origin = origin();
    for (index, info) in ALGORITHMS.iter().enumerate() {
        let mut calls = Calls { adapter: factory(info.name).make(origin, 1_200), origin };
        let mut day: RandomTransport<()> = RandomTransport::new(index as u64);
        let mut lost_before: Vec<Packet<()>> = Vec::new();
        for turn in 0..events() {
            let event = day.next(calls.adapter.window());
            // quinn reports the bytes in flight at the end of an ACK. Losses come after it; with the patch, nothing is left out.
            let is_told = match &event {
                Event::Ack { lost, .. } => lost.is_empty(),
                Event::Discarded(_) => true,
                _ => cfg!(bbrlab_quinn_patched),
            };
            let now = at(origin, day.now_us);
            match event {
                Event::Send(0) => {}
                Event::Send(bytes) => {
                    let first = day.under_way.len();
                    // Now and then a batch of several datagrams.
                    for _ in 0..=turn % 7 / 5 * 3 {
                        day.sent(bytes, ());
                    }
                    let packets = day.under_way[first..].to_vec();
                    calls.sent(now, &packets);
                }
                Event::Ack { acked, lost, marks } => {
                    if turn % 3 == 0 {
                        lost_before.drain(..).for_each(|packet| calls.spurious(now, &packet));
                    }
                    acked.iter().for_each(|packet| calls.acked(now, packet));
                    // quinn still counts the packets that the same ACK will reveal as lost.
                    let late: u64 = lost.iter().map(|packet| u64::from(packet.bytes)).sum();
                    calls.adapter.on_end_acks(now, day.in_flight() + late, turn % 11 == 0, None);
                    calls.lost(now, &lost, false);
                    lost_before.extend(lost);
                    if marks > 0 {
                        calls.adapter.on_congestion_event(now, now, false, 0);
                    }
                }
                Event::Lost(lost, is_persistent) => {
                    calls.lost(now, &lost, is_persistent);
                    lost_before.extend(lost);
                }
                Event::Discarded(gone) => {
                    calls.discarded(&gone);
                    calls.adapter.on_end_acks(now, day.in_flight(), true, None);
                }
                Event::Mtu(mtu) => calls.adapter.on_mtu_update(mtu),
                Event::Idle => drop(calls.adapter.clone()),
            }
            let window = calls.adapter.window();
            let ours = calls.adapter.with(|cc| cc.in_flight().bytes);
            assert!(!is_told || ours == day.in_flight(), "{}: {ours} at {} µs", info.name, day.now_us);
            assert!(ours >= day.in_flight(), "{}: {ours} are fewer than in flight", info.name);
            assert!(window > u64::from(day.mtu), "{}: a window of nothing", info.name);
            assert!(calls.is_bounded(day.under_way.len()), "{}: packets are kept", info.name);
            #[cfg(bbrlab_quinn_patched)]
            assert!(calls.adapter.pacing_rate().is_none_or(|rate| rate > 0), "{}: a rate of nothing", info.name);
        }
    }
}

#[cfg(not(bbrlab_quinn_patched))]
#[test]
fn an_algorithm_that_needs_pacing_is_refused_by_name() {
    for info in ALGORITHMS.iter() {
        let made = Factory::new(info.name);
        assert_eq!(made.is_err(), info.needs_pacing, "{}", info.name);
        assert!(window_only(info.name).is_ok(), "{}", info.name);
    }
    let fault = Factory::new("bbr3,loss_thresh=1%").unwrap_err().to_string();
    assert!(fault.contains("quinn::window_only(\"bbr3\")"), "{fault}");
    assert!(window_only("bbr9").unwrap_err().to_string().starts_with("no algorithm"));
}

#[cfg(not(bbrlab_quinn_patched))]
#[test]
fn losses_are_taken_from_the_oldest_batches() {
    let origin = origin();
    let mut adapter = factory("bbr3").make(origin, 1_200);
    (0..3).for_each(|batch| adapter.on_sent(at(origin, batch), 4 * 1_200, batch * 4 + 3));
    let now = at(origin, 40_000);
    adapter.on_bytes_acked(now, at(origin, 2), 1_200);
    adapter.on_end_acks(now, 11 * 1_200, false, Some(9));
    adapter.on_congestion_event(now, at(origin, 1), false, 6 * 1_200);
    assert!(adapter.flow().open.is_some(), "the ACK is still open");
    assert!(adapter.window() > 0);
    assert!(adapter.flow().open.is_none(), "and was ended by the first question");
    assert_eq!(adapter.with(|cc| (cc.in_flight().packets, cc.in_flight().bytes)), (5, 5 * 1_200));
    assert_eq!(adapter.with(|cc| cc.sampler().lost()), 6 * 1_200);
    let left: Vec<u32> = adapter.flow().ledger.iter().map(|batch| batch.packets).collect();
    assert_eq!(left, [2, 3], "the first batch is lost, and half of the second");
}

#[cfg(not(bbrlab_quinn_patched))]
#[test]
fn a_receiver_that_sends_only_acks_keeps_no_packets() {
    let origin = origin();
    let mut adapter = factory("cubic").make(origin, 1_200);
    for number in 0..100 {
        adapter.on_sent(at(origin, number), 40, number);
    }
    adapter.on_sent(at(origin, 100), 300, 100);
    assert_eq!(adapter.with(|cc| cc.in_flight().bytes), 4_300);
    adapter.on_bytes_acked(at(origin, 40_000), at(origin, 100), 300);
    adapter.on_end_acks(at(origin, 40_000), 0, true, Some(100));
    assert_eq!(adapter.with(|cc| cc.in_flight().bytes), 0);
    assert!(adapter.flow().ledger.is_empty());
}

#[cfg(not(bbrlab_quinn_patched))]
#[test]
fn without_any_acknowledgement_the_memory_is_bounded() {
    let origin = origin();
    let mut adapter = factory("cubic").make(origin, 1_200);
    for number in 0..70_000 {
        adapter.on_sent(at(origin, number), 40, number);
    }
    assert_eq!(adapter.flow().ledger.len(), 1 << 16);
    assert_eq!(adapter.with(|cc| cc.in_flight().bytes), 40 << 16);
}

#[cfg(bbrlab_quinn_patched)]
#[test]
fn an_episode_of_spurious_losses_is_undone() {
    let origin = origin();
    let mut calls = Calls { adapter: factory("cubic").make(origin, 1_200), origin };
    let packet = |number: u64| Packet { number, sent_us: number, bytes: 1_200, kept: () };
    let all: Vec<Packet<()>> = (0..8).map(packet).collect();
    all.iter().for_each(|packet| calls.sent(at(origin, packet.sent_us), &[*packet]));
    let before = calls.adapter.window();
    calls.acked(at(origin, 40_000), &all[7]);
    calls.adapter.on_end_acks(at(origin, 40_000), 7 * 1_200, false, Some(7));
    calls.lost(at(origin, 40_000), &all[..2], false);
    assert!(calls.adapter.window() < before);
    all[..2].iter().for_each(|packet| calls.spurious(at(origin, 41_000), packet));
    assert!(calls.adapter.window() >= before, "the reduction is undone");
    assert_eq!(calls.adapter.with(|cc| cc.undone_episodes()), 1);
    assert_eq!(calls.adapter.with(|cc| cc.in_flight().packets), 5);
}
