//! Tests of the adapter with random events, and with the facts that s2n-quic does not report.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{ALGORITHMS, Rng};
use s2n_quic_core::event::builder::{BbrState, SlowStartExitCause};
use s2n_quic_core::inet::SocketAddress;
use s2n_quic_core::path::mtu;
use s2n_quic_core::recovery::bandwidth::{Bandwidth, RateSample};
use s2n_quic_core::time::{Clock, NoopClock};

use super::*;
use crate::random_transport::{Event, RandomTransport, events};

struct Nobody;

impl Publisher for Nobody {
    fn on_slow_start_exited(&mut self, _: SlowStartExitCause, _: u32) {}
    fn on_delivery_rate_sampled(&mut self, _: RateSample) {}
    fn on_pacing_rate_updated(&mut self, _: Bandwidth, _: u32, _: num_rational::Ratio<u64>) {}
    fn on_bbr_state_changed(&mut self, _: BbrState) {}
}

struct SeededRng(Rng);

impl RandomGenerator for SeededRng {
    fn public_random_fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(self.0.next_u64() as u8);
    }
    fn private_random_fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(self.0.next_u64() as u8);
    }
}

fn at(us: u64) -> Timestamp {
    NoopClock.get_time() + Duration::from_micros(us)
}

/// An adapter, called with the arguments that it ignores.
struct Host {
    adapter: Adapter,
    rtt: RttEstimator,
    dice: SeededRng,
}

impl Host {
    fn new(algorithm: &str) -> Self {
        let address = SocketAddress::default();
        let path = PathInfo::new(&mtu::Config::default(), &address);
        let adapter = Factory::new(algorithm).unwrap().new_congestion_controller(path);
        Self { adapter, rtt: RttEstimator::new(Duration::from_millis(100)), dice: SeededRng(Rng::new(1)) }
    }

    fn send(&mut self, us: u64, bytes: u32, app_limited: bool) -> PacketInfo {
        self.adapter.on_packet_sent(at(us), bytes as usize, Some(app_limited), &self.rtt, &mut Nobody)
    }

    fn ack(&mut self, us: u64, bytes: u64, newest: PacketInfo) {
        self.adapter.on_ack(at(0), bytes as usize, newest, &self.rtt, &mut self.dice, at(us), &mut Nobody);
    }

    fn lose(&mut self, us: u64, bytes: u32, info: PacketInfo, is_persistent: bool) {
        self.adapter.on_packet_lost(bytes, info, is_persistent, false, &mut self.dice, at(us), &mut Nobody);
    }
}

#[test]
fn random_event_sequences_keep_the_bytes_in_flight_exact() {
    for (index, info) in ALGORITHMS.iter().enumerate() {
        let mut host = Host::new(info.name);
        let mut day: RandomTransport<PacketInfo> = RandomTransport::new(100 + index as u64);
        let mut idle = false;
        for _ in 0..events() {
            let event = day.next(host.adapter.congestion_window().into());
            let us = day.now_us;
            match event {
                Event::Send(bytes) => {
                    let info = host.send(us, bytes, std::mem::take(&mut idle));
                    if bytes > 0 {
                        day.sent(bytes, info);
                    }
                }
                Event::Ack { acked, lost, marks } => {
                    lost.iter().for_each(|packet| host.lose(us, packet.bytes, packet.kept, false));
                    if marks > 0 {
                        host.adapter.on_explicit_congestion(marks, at(us), &mut Nobody);
                    }
                    if let Some(newest) = acked.last() {
                        host.ack(us, acked.iter().map(|packet| u64::from(packet.bytes)).sum(), newest.kept);
                    }
                }
                Event::Lost(lost, is_persistent) => {
                    lost.iter().for_each(|packet| host.lose(us, packet.bytes, packet.kept, is_persistent));
                }
                Event::Discarded(gone) => {
                    let bytes: u32 = gone.iter().map(|packet| packet.bytes).sum();
                    host.adapter.on_packet_discarded(bytes as usize, &mut Nobody);
                }
                Event::Mtu(mtu) => host.adapter.on_mtu_update(mtu, &mut Nobody),
                Event::Idle => idle = true,
            }
            assert_eq!(u64::from(host.adapter.bytes_in_flight()), day.in_flight(), "{} at {us} µs", info.name);
            assert!(host.adapter.congestion_window() >= u32::from(day.mtu), "{}: a window of nothing", info.name);
            let waits = host.adapter.earliest_departure_time().map(|edt| edt.saturating_duration_since(at(us)));
            assert!(waits.is_none_or(|wait| wait < Duration::from_secs(86_400)), "{}: waits {waits:?}", info.name);
        }
    }
}

#[test]
fn an_ack_whose_newest_packet_carries_only_an_ack_still_counts() {
    let mut host = Host::new("bbr3");
    host.send(0, 1_200, false);
    host.send(10, 1_200, false);
    let alone = host.send(20, 0, false);
    host.ack(40_000, 2_400, alone);
    assert_eq!(host.adapter.bytes_in_flight(), 0);
    let rtt = host.adapter.controller().unwrap().rtt().min().unwrap();
    assert_eq!(rtt.as_micros(), 39_990, "since the newest packet that counts");
}

#[test]
fn departure_times_follow_the_pacing_rate() {
    let mut host = Host::new("bbr3");
    let info = host.send(0, 1_200, false);
    host.ack(40_000, 1_200, info);
    let rate = host.adapter.controller().unwrap().pacing_rate().expect("a BBR has a rate");
    host.send(40_000, 1_200, false);
    let first = host.adapter.earliest_departure_time().unwrap();
    host.send(40_000, 1_200, false);
    let second = host.adapter.earliest_departure_time().unwrap();
    let wanted = Duration::from_nanos(rate.time_for(1_200).as_nanos());
    let step = second.saturating_duration_since(first);
    assert!(step.abs_diff(wanted) <= Duration::from_micros(2), "{step:?} instead of {wanted:?}");
    let unpaced = Host::new("cubic").adapter;
    assert!(unpaced.earliest_departure_time().is_none());
}
