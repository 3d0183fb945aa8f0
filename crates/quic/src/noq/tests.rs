//! Tests of the adapter with random events, and with the facts that noq does not report.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::ALGORITHMS;
use noq_proto::congestion::Controller as _;

use super::*;
use crate::random_transport::{Event, RandomTransport, events};

fn origin() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "an origin to count from")]
    Instant::now()
}

fn at(origin: Instant, us: u64) -> Instant {
    origin + Duration::from_micros(us)
}

#[test]
fn random_event_sequences_keep_the_bytes_in_flight_equal_to_noqs() {
    let origin = origin();
    for (index, info) in ALGORITHMS.iter().enumerate() {
        let mut adapter = Factory::new(info.name).unwrap().make(origin, 1_200);
        let mut day: RandomTransport<()> = RandomTransport::new(index as u64);
        for _ in 0..events() {
            let event = day.next(adapter.window());
            // noq reports the bytes in flight at the end of an ACK. Losses come after it, and discards are never reported.
            let is_told = match &event {
                Event::Ack { lost, .. } => lost.is_empty(),
                Event::Discarded(_) => true,
                _ => false,
            };
            let now = at(origin, day.now_us);
            match event {
                Event::Send(0) => {}
                Event::Send(bytes) => {
                    adapter.on_packet_sent(now, bytes as u16, day.number);
                    day.sent(bytes, ());
                }
                Event::Ack { acked, lost, marks } => {
                    for packet in &acked {
                        adapter.on_packet_acked(now, at(origin, packet.sent_us), packet.number);
                    }
                    // noq still counts the packets that the same ACK will reveal as lost.
                    let late: u64 = lost.iter().map(|packet| u64::from(packet.bytes)).sum();
                    adapter.on_end_acks(now, day.in_flight() + late, false, None);
                    if marks > 0 {
                        adapter.on_congestion_event(now, now, false, true, 0, 0);
                    }
                    lost.iter().for_each(|packet| adapter.on_packet_lost(packet.bytes as u16, packet.number, now));
                }
                Event::Lost(lost, is_persistent) => {
                    lost.iter().for_each(|packet| adapter.on_packet_lost(packet.bytes as u16, packet.number, now));
                    adapter.on_congestion_event(now, now, is_persistent, false, 0, 0);
                    if is_persistent {
                        adapter.on_spurious_congestion_event();
                    }
                }
                Event::Discarded(_) => adapter.on_end_acks(now, day.in_flight(), true, None),
                Event::Mtu(mtu) => adapter.on_mtu_update(mtu),
                Event::Idle => adapter.on_cwnd_limited(),
            }
            let metrics = adapter.metrics();
            let ours = adapter.with(|cc| cc.in_flight().bytes);
            assert!(!is_told || ours == day.in_flight(), "{}: {ours} {day:?}", info.name);
            assert!(metrics.congestion_window >= u64::from(day.mtu), "{}: a window of nothing", info.name);
            assert!(metrics.pacing_rate.is_none_or(|rate| rate > 0), "{}: a rate of nothing", info.name);
            assert!(adapter.flow().sent.len() <= day.under_way.len() + 500, "{}: packets are kept", info.name);
        }
    }
}

impl<T> std::fmt::Debug for RandomTransport<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} µs, {} under way", self.now_us, self.under_way.len())
    }
}

#[test]
fn losses_belong_to_the_ack_that_shows_them() {
    let origin = origin();
    let mut adapter = Factory::new("bbr3").unwrap().make(origin, 1_200);
    for number in 0..10 {
        adapter.on_packet_sent(at(origin, number), 1_200, number);
    }
    let now = at(origin, 40_000);
    adapter.on_packet_acked(now, at(origin, 9), 9);
    adapter.on_end_acks(now, 9 * 1_200, false, Some(9));
    (0..6).for_each(|number| adapter.on_packet_lost(1_200, number, now));
    assert!(adapter.flow().open.is_some(), "the ACK is still open");
    assert!(adapter.window() > 0);
    assert!(adapter.flow().open.is_none(), "and was ended by the first question");
    assert_eq!(adapter.with(|cc| cc.in_flight().packets), 3);
}

/// noq clones the controller after a client's address changed, and counts the bytes in flight anew.
#[test]
fn a_clone_for_another_path_counts_its_own_packets_alone() {
    let origin = origin();
    let mut adapter = Factory::new("bbr3").unwrap().make(origin, 1_200);
    (0..10).for_each(|number| adapter.on_packet_sent(at(origin, number), 1_200, number));
    let mut moved = adapter.clone();
    (10..14).for_each(|number| moved.on_packet_sent(at(origin, 10_000 + number), 1_200, number));
    let now = at(origin, 50_000);
    moved.on_packet_acked(now, at(origin, 9), 9); // of the old path
    moved.on_end_acks(now, 4 * 1_200, false, Some(9));
    assert_eq!(moved.with(|cc| (cc.in_flight().bytes, cc.sampler().delivered())), (4 * 1_200, 0));
    for number in 10..12 {
        moved.on_packet_acked(now, at(origin, 10_000 + number), number);
    }
    moved.on_end_acks(now, 2 * 1_200, false, Some(11));
    assert_eq!(moved.with(|cc| (cc.in_flight().bytes, cc.sampler().delivered())), (2 * 1_200, 2 * 1_200));
}

#[test]
fn packet_numbers_of_two_spaces_are_kept_apart() {
    let origin = origin();
    let mut adapter = Factory::new("bbr1").unwrap().make(origin, 1_200);
    adapter.on_packet_sent(at(origin, 0), 1_200, 0);
    adapter.on_packet_sent(at(origin, 500), 100, 0);
    adapter.on_packet_acked(at(origin, 40_000), at(origin, 500), 0);
    adapter.on_end_acks(at(origin, 40_000), 1_200, false, Some(0));
    assert_eq!(adapter.with(|cc| cc.in_flight().bytes), 1_200, "the second was acknowledged, not the first");
}

#[test]
fn a_probe_for_a_larger_mtu_that_is_lost_leaves_the_flight_without_a_loss() {
    let origin = origin();
    let mut adapter = Factory::new("bbr3").unwrap().make(origin, 1_200);
    adapter.on_packet_sent(at(origin, 0), 1_200, 0);
    adapter.on_packet_sent(at(origin, 1), 1_450, 1);
    adapter.on_packet_sent(at(origin, 2), 1_200, 2);
    adapter.on_packet_acked(at(origin, 40_000), at(origin, 2), 2);
    adapter.on_end_acks(at(origin, 40_000), 1_200, false, Some(2));
    assert_eq!(adapter.with(|cc| (cc.in_flight().bytes, cc.in_flight().packets)), (1_200, 1));
    assert!(adapter.with(|cc| cc.sampler().lost()) == 0);
}

#[test]
fn the_window_is_read_again_after_a_send_that_ends_an_idle_time() {
    let origin = origin();
    let mut fell = 0;
    for info in ALGORITHMS {
        let mut adapter = Factory::new(info.name).unwrap().make(origin, 1_200);
        // Slow start, so that the window after an idle time is a smaller one.
        (0..10).for_each(|number| adapter.on_packet_sent(origin, 1_200, number));
        (0..10).for_each(|number| adapter.on_packet_acked(at(origin, 10_000), origin, number));
        adapter.on_end_acks(at(origin, 10_000), 0, false, Some(9));
        let sent = at(origin, 10_000);
        adapter.on_packet_sent(sent, 7_789, 10);
        adapter.on_packet_sent(sent, 4, 11);
        // Part of the first packet is said to be gone, so one packet is left, and its acknowledgement leaves bytes without one.
        adapter.on_end_acks(at(origin, 20_000), 2_555, false, None);
        adapter.on_packet_acked(at(origin, 30_000), sent, 11);
        adapter.on_end_acks(at(origin, 30_000), 2_551, false, Some(11));
        let flight = adapter.with(|cc| cc.in_flight());
        assert!(flight.packets == 0 && flight.bytes > 0, "{flight:?}");
        let before = adapter.window();
        adapter.on_packet_sent(at(origin, 60_000_000), 1_200, 12);
        assert_eq!(adapter.window(), adapter.with(Controller::cwnd_bytes), "{}", info.name);
        fell += u32::from(adapter.window() < before);
    }
    assert!(fell > 0, "the send must change some algorithm's window");
}
