//! Drives an adapter, or core's controller with the same input, with a plain stream of ACKs. `callgrind` then counts the
//! instructions that the adapter adds per ACK.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::hint::black_box;
use std::time::{Duration, Instant};

use bbrlab_core::{AckInfo, AlgorithmConfig, Controller, Init, Loss, Pacer, PacketToken, Rate, Rng, Sent, Span, Time};
use bbrlab_quic::{noq, s2n};
use noq_proto::congestion::Controller as _;
use s2n_quic::provider::congestion_controller::{
    CongestionController as _, Endpoint as _, PathInfo, Publisher, RandomGenerator, RttEstimator, Timestamp,
};
use s2n_quic_core::event::builder::{BbrState, SlowStartExitCause};
use s2n_quic_core::inet::SocketAddress;
use s2n_quic_core::path::mtu;
use s2n_quic_core::recovery::bandwidth::{Bandwidth, RateSample};
use s2n_quic_core::time::{Clock as _, NoopClock};

/// Packets in the ring of the toy transport, more than any window reached here.
const RING: usize = 4096;
/// Bytes of a packet, the minimum that QUIC allows; the adapters start with it.
const SIZE: u32 = 1_200;
/// Rate of the path, 100 Mbit/s over 40 ms.
const RATE: Rate = Rate::bits_per_sec(100_000_000);
const RTT: Span = Span::millis(40);
/// Distance between two losses, packets.
const LOSS_EVERY: u64 = 5_000;

/// Clock of a stack. The toy's own use of it costs the same when core runs alone.
trait Clock: Copy {
    fn later(self, time: Time) -> Self;
    fn since(self, origin: Self) -> Time;
}

impl Clock for Timestamp {
    fn later(self, time: Time) -> Self {
        self + Duration::from_nanos(time.as_nanos())
    }
    fn since(self, origin: Self) -> Time {
        Time::nanos(self.saturating_duration_since(origin).as_nanos() as u64)
    }
}

impl Clock for Instant {
    fn later(self, time: Time) -> Self {
        self + Duration::from_nanos(time.as_nanos())
    }
    fn since(self, origin: Self) -> Time {
        Time::nanos(self.saturating_duration_since(origin).as_nanos() as u64)
    }
}

/// Controller under test. A packet's number comes with the data stored for it.
trait Driven {
    type Kept: Copy + Default;
    fn send(&mut self, now: Time, number: u64) -> Self::Kept;
    fn ack(&mut self, now: Time, packets: &[(u64, Time, Self::Kept)], in_flight: u64);
    fn lose(&mut self, now: Time, number: u64, kept: Self::Kept);
    fn window(&self) -> u64;
    /// Departure time of the next packet, from the pacer in use.
    fn departure(&self) -> Time;
}

/// Core, driven with the calls of the s2n-quic adapter.
struct ByBytes {
    cc: Controller,
    pacer: Pacer,
    origin: Timestamp,
}

impl Driven for ByBytes {
    type Kept = PacketToken;

    fn send(&mut self, now: Time, _number: u64) -> PacketToken {
        black_box(self.origin.later(now));
        self.pacer.on_sent(now, SIZE.into(), self.cc.pacing_rate());
        self.cc.on_sent(now, &Sent::packet(SIZE))
    }

    fn ack(&mut self, now: Time, packets: &[(u64, Time, PacketToken)], _in_flight: u64) {
        let Some((_, sent, newest)) = packets.last() else { return };
        black_box((self.origin.later(now), self.origin.later(*sent)));
        let mut ack = self.cc.begin_ack(now);
        ack.delivered_bytes(packets.len() as u64 * u64::from(SIZE), newest);
        let open = self.cc.on_delivered(ack);
        self.cc.on_ack(open, &AckInfo::NONE.with_edt(self.pacer.next_send_time()));
    }

    fn lose(&mut self, now: Time, number: u64, kept: PacketToken) {
        self.cc.on_lost(now, &Loss::packet(&kept, number));
    }

    fn window(&self) -> u64 {
        self.cc.cwnd_bytes()
    }

    fn departure(&self) -> Time {
        black_box(black_box(self.origin).since(self.origin));
        self.pacer.next_send_time()
    }
}

/// Core, driven with the calls of the noq adapter; the toy paces, as noq does.
struct ByPackets {
    cc: Controller,
    pacer: Pacer,
    origin: Instant,
}

impl Driven for ByPackets {
    type Kept = PacketToken;

    fn send(&mut self, now: Time, _number: u64) -> PacketToken {
        black_box(self.origin.later(now));
        self.pacer.on_sent(now, SIZE.into(), self.cc.pacing_rate());
        self.cc.on_sent(now, &Sent::packet(SIZE))
    }

    fn ack(&mut self, now: Time, packets: &[(u64, Time, PacketToken)], _in_flight: u64) {
        black_box(self.origin.later(now));
        let mut ack = self.cc.begin_ack(now);
        for (number, sent, token) in packets {
            black_box(self.origin.later(*sent));
            ack.delivered(token, *number);
        }
        let open = self.cc.on_delivered(ack);
        self.cc.on_ack(open, &AckInfo::NONE);
    }

    fn lose(&mut self, now: Time, number: u64, kept: PacketToken) {
        self.cc.on_lost(now, &Loss::packet(&kept, number));
    }

    fn window(&self) -> u64 {
        self.cc.cwnd_bytes()
    }

    fn departure(&self) -> Time {
        self.pacer.next_send_time()
    }
}

struct Nobody;

impl Publisher for Nobody {
    fn on_slow_start_exited(&mut self, _: SlowStartExitCause, _: u32) {}
    fn on_delivery_rate_sampled(&mut self, _: RateSample) {}
    fn on_pacing_rate_updated(&mut self, _: Bandwidth, _: u32, _: num_rational::Ratio<u64>) {}
    fn on_bbr_state_changed(&mut self, _: BbrState) {}
}

struct Dice(Rng);

impl RandomGenerator for Dice {
    fn public_random_fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(self.0.next_u64() as u8);
    }
    fn private_random_fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(self.0.next_u64() as u8);
    }
}

struct S2n {
    adapter: s2n::Adapter,
    rtt: RttEstimator,
    dice: Dice,
    origin: Timestamp,
}

impl Driven for S2n {
    type Kept = Option<s2n::PacketInfo>;

    fn send(&mut self, now: Time, _number: u64) -> Self::Kept {
        let at = self.origin.later(now);
        Some(self.adapter.on_packet_sent(at, SIZE as usize, Some(false), &self.rtt, &mut Nobody))
    }

    fn ack(&mut self, now: Time, packets: &[(u64, Time, Self::Kept)], _in_flight: u64) {
        let Some((_, sent, Some(newest))) = packets.last() else { return };
        let (at, sent, bytes) = (self.origin.later(now), self.origin.later(*sent), packets.len() * SIZE as usize);
        self.adapter.on_ack(sent, bytes, *newest, &self.rtt, &mut self.dice, at, &mut Nobody);
    }

    fn lose(&mut self, now: Time, _number: u64, kept: Self::Kept) {
        let at = self.origin.later(now);
        let Some(kept) = kept else { return };
        self.adapter.on_packet_lost(SIZE, kept, false, true, &mut self.dice, at, &mut Nobody);
    }

    fn window(&self) -> u64 {
        self.adapter.congestion_window().into()
    }

    fn departure(&self) -> Time {
        let at = self.adapter.earliest_departure_time().unwrap_or(self.origin);
        at.since(self.origin)
    }
}

struct Noq {
    adapter: noq::Adapter,
    pacer: Pacer,
    origin: Instant,
}

impl Driven for Noq {
    type Kept = ();

    fn send(&mut self, now: Time, number: u64) {
        let at = self.origin.later(now);
        // noq reads it for each packet.
        let rate = self.adapter.metrics().pacing_rate.expect("only algorithms that are paced are driven");
        self.pacer.on_sent(now, SIZE.into(), Rate::bytes_per_sec(rate));
        self.adapter.on_packet_sent(at, SIZE as u16, number);
    }

    fn ack(&mut self, now: Time, packets: &[(u64, Time, ())], in_flight: u64) {
        let at = self.origin.later(now);
        for (number, sent, ()) in packets {
            let sent = self.origin.later(*sent);
            self.adapter.on_packet_acked(at, sent, *number);
        }
        self.adapter.on_end_acks(at, in_flight, false, packets.last().map(|(number, ..)| *number));
    }

    fn lose(&mut self, now: Time, number: u64, (): ()) {
        let at = self.origin.later(now);
        self.adapter.on_packet_lost(SIZE as u16, number, at);
    }

    fn window(&self) -> u64 {
        self.adapter.window()
    }

    fn departure(&self) -> Time {
        self.pacer.next_send_time()
    }
}

/// Drives a paced sender over a link of constant rate, with a receiver that acknowledges every second packet.
fn drive<D: Driven>(mut driven: D, acks: u64) -> u64 {
    let mut ring = [(Time::ZERO, Time::ZERO, D::Kept::default()); RING];
    let (mut now, mut link_free) = (Time::ZERO, Time::ZERO);
    let (mut una, mut next, mut done) = (0_u64, 0_u64, 0_u64);
    while done < acks {
        let in_flight = next - una;
        // The pacer comes first, unless the window is full or the ACK of two packets is due earlier.
        let ack_at = if in_flight >= 2 { ring[(una + 1) as usize % RING].1 } else { Time::NEVER };
        let has_room = (in_flight + 1) * u64::from(SIZE) <= driven.window() && in_flight < RING as u64 - 2;
        let departure = driven.departure();
        if has_room && departure.max(now) <= ack_at {
            now = now.max(departure);
            let kept = driven.send(now, next);
            link_free = link_free.max(now) + RATE.time_for(u64::from(SIZE) + 28);
            ring[next as usize % RING] = (now, link_free + RTT, kept);
            next += 1;
            continue;
        }
        now = now.max(ack_at);
        let mut packets = [(0, Time::ZERO, D::Kept::default()); 2];
        let mut delivered = 0;
        let mut lost = None;
        for number in una..una + 2 {
            let (sent, _, kept) = ring[number as usize % RING];
            if number % LOSS_EVERY == LOSS_EVERY - 1 {
                lost = Some((number, kept));
            } else {
                packets[delivered] = (number, sent, kept);
                delivered += 1;
            }
        }
        una += 2;
        driven.ack(now, &packets[..delivered], (next - una + u64::from(lost.is_some())) * u64::from(SIZE));
        if let Some((number, kept)) = lost {
            driven.lose(now, number, kept);
        }
        done += 1;
    }
    done
}

fn origin() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "an origin to count from")]
    Instant::now()
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let usage = "usage: adapter_cost s2n|noq|bytes|packets ALGORITHM ACKS";
    let [_, host, name, acks] = &args[..] else { panic!("{usage}") };
    let acks: u64 = acks.parse().expect(usage);
    let config = AlgorithmConfig::named(name).expect(usage);
    let (cc, pacer) =
        (Controller::new(&config, &Init::new(Time::ZERO).with_mss(SIZE).with_seed(2)), Pacer::new(Time::ZERO));
    let done = match host.as_str() {
        "bytes" => drive(ByBytes { cc, pacer, origin: NoopClock.get_time() }, acks),
        "packets" => drive(ByPackets { cc, pacer, origin: origin() }, acks),
        "s2n" => {
            let (limits, address) = (mtu::Config::default(), SocketAddress::default());
            let adapter = s2n::Factory::of(config).new_congestion_controller(PathInfo::new(&limits, &address));
            let rtt = RttEstimator::new(Duration::from_millis(100));
            drive(S2n { adapter, rtt, dice: Dice(Rng::new(1)), origin: NoopClock.get_time() }, acks)
        }
        "noq" => {
            let origin = origin();
            let adapter = noq::Factory::of(config).make(origin, SIZE as u16);
            drive(Noq { adapter, pacer, origin }, acks)
        }
        _ => panic!("{usage}"),
    };
    println!("{done}");
}
