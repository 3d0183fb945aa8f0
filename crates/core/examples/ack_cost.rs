//! Drives one part of the library over a plain stream of ACKs, so that `callgrind` can count the cost of an ACK.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::hint::black_box;

use bbrlab_core::{
    AckInfo, AckRtt, AlgorithmConfig, CaState, Controller, Flight, Init, Loss, PacketToken, Rate, Sent, Span, Time,
    algorithms::{Ack, Algorithm, AnyAlgorithm, Bbr1, Bbr3, Draft06, Lost},
    estimators::RateSampler,
    params::{Bbr1Params, Bbr3Params},
};

/// Packets in the ring of the toy transport: above any window that occurs here.
const RING: usize = 4096;
/// Payload of a packet, in bytes.
const MSS: u32 = 1448;
/// The path: 100 Mbit/s and 40 ms, so about 330 packets of BDP.
const RATE: Rate = Rate::bits_per_sec(100_000_000);
const RTT: Span = Span::millis(40);
/// Number of packets per lost packet.
const LOSS_EVERY: u64 = 5_000;

/// The part under test: takes packets sent, delivered and lost; returns a window and a pacing rate.
trait Driven {
    fn on_sent(&mut self, now: Time, in_flight: u32) -> PacketToken;
    fn on_ack(&mut self, now: Time, path: &Path, lost: u64, tokens: &[(PacketToken, u64)]);
    fn cwnd(&self) -> u32;
    fn pacing_rate(&self) -> Option<Rate>;
}

/// State of the toy transport at an ACK.
struct Path {
    una: u64,
    next: u64,
    prior_in_flight: u32,
    in_flight: u32,
    ca_state: CaState,
    edt: Time,
}

/// An algorithm and the delivery-rate sampler, as used by a transport with its own loss recovery.
struct Bare<A> {
    sampler: RateSampler,
    bbr: A,
}

impl<A: Algorithm> Bare<A> {
    /// Converts packets to the algorithm's unit of volume.
    fn volume(&self, packets: u64) -> u64 {
        if self.bbr.counts_bytes() { packets * u64::from(MSS) } else { packets }
    }
}

impl<A: Algorithm> Driven for Bare<A> {
    fn on_sent(&mut self, now: Time, in_flight: u32) -> PacketToken {
        let in_flight_after = self.volume(u64::from(in_flight) + 1);
        self.sampler.on_sent(now, in_flight_after, in_flight == 0, false)
    }

    fn on_ack(&mut self, now: Time, path: &Path, lost: u64, tokens: &[(PacketToken, u64)]) {
        if let Some((token, seq)) = tokens.last() {
            self.sampler.on_delivered(self.volume(tokens.len() as u64), token, *seq);
        }
        self.sampler.on_lost(self.volume(lost));
        if lost > 0 {
            let mut loss = Lost::default();
            (loss.now, loss.seq, loss.packets, loss.volume) = (now, path.una, 1, self.volume(1));
            (loss.tx_in_flight, loss.lost) = (self.volume(path.in_flight.into()), self.volume(1));
            loss.delivered = self.sampler.delivered();
            self.bbr.on_lost(&loss);
        }
        let rtt = tokens.last().map(|(token, _)| now.since(token.send_time()));
        let mut ack = Ack::default();
        ack.now = now;
        ack.rs = self.sampler.on_ack(now, RTT);
        ack.rs.rtt_us = rtt.map(Span::as_micros);
        ack.rs.prior_in_flight = self.volume(path.prior_in_flight.into());
        ack.delivered = self.sampler.delivered();
        ack.delivered_time_us = self.sampler.delivered_time_us();
        ack.lost = self.sampler.lost();
        ack.in_flight = self.volume(path.in_flight.into());
        (ack.ca_state, ack.srtt, ack.edt) = (path.ca_state, rtt, path.edt);
        (ack.advanced, ack.cwnd_limited, ack.paced, ack.may_raise_cwnd) = (true, true, true, true);
        self.bbr.on_ack(&ack, &mut self.sampler);
    }

    fn cwnd(&self) -> u32 {
        self.bbr.cwnd()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.bbr.pacing_rate()
    }
}

/// A host that reports everything that Linux reports.
struct Tcp<A: Algorithm>(Controller<A>);

/// A flight of this number of full packets.
fn flight(packets: u32) -> Flight {
    Flight { bytes: u64::from(packets) * u64::from(MSS), packets }
}

impl<A: Algorithm> Driven for Tcp<A> {
    fn on_sent(&mut self, now: Time, in_flight: u32) -> PacketToken {
        self.0.on_sent(now, &Sent::packet(MSS).with_in_flight(flight(in_flight), in_flight == 0))
    }

    fn on_ack(&mut self, now: Time, path: &Path, lost: u64, tokens: &[(PacketToken, u64)]) {
        let mut batch = self.0.begin_ack(now);
        for (token, seq) in tokens {
            batch.delivered(token, *seq);
        }
        let open = self.0.on_delivered(batch);
        if lost > 0 {
            self.0.on_lost(now, &Loss::packet(&tokens[0].0, path.una));
        }
        self.0.on_ca_state(path.ca_state);
        let rtt = |at: Option<&(PacketToken, u64)>| at.map(|(token, _)| now.since(token.send_time()));
        let mut info = AckInfo::NONE.with_edt(path.edt).with_cwnd_limited(true);
        info.rtt = AckRtt::Measured { newest: rtt(tokens.last()), oldest: rtt(tokens.first()) };
        info.in_flight = Some((flight(path.prior_in_flight), flight(path.in_flight)));
        info.packets_out = Some(path.in_flight);
        info.una_next = Some((path.una, path.next));
        info.may_raise_cwnd = Some(true);
        self.0.on_ack(open, &info);
    }

    fn cwnd(&self) -> u32 {
        self.0.cwnd()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.0.pacing_rate()
    }
}

/// A host like s2n-quic: reports bytes, the newest packet of an ACK, its RTT, and losses one by one; the controller derives the rest.
struct Quic<A: Algorithm>(Controller<A>);

impl<A: Algorithm> Driven for Quic<A> {
    fn on_sent(&mut self, now: Time, _in_flight: u32) -> PacketToken {
        self.0.on_sent(now, &Sent::packet(MSS))
    }

    fn on_ack(&mut self, now: Time, path: &Path, lost: u64, tokens: &[(PacketToken, u64)]) {
        if lost > 0 {
            self.0.on_lost(now, &Loss::packet(&tokens[0].0, path.una));
        }
        let Some((newest, _)) = tokens.last() else {
            return;
        };
        let mut batch = self.0.begin_ack(now);
        batch.delivered_bytes(tokens.len() as u64 * u64::from(MSS), newest);
        let open = self.0.on_delivered(batch);
        self.0.on_ack(open, &AckInfo::rtt(now.since(newest.send_time())).with_edt(path.edt));
    }

    fn cwnd(&self) -> u32 {
        self.0.cwnd()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.0.pacing_rate()
    }
}

/// No algorithm: the cost of the toy transport and of the packet tokens alone, to be subtracted.
struct Nothing(RateSampler);

impl Driven for Nothing {
    fn on_sent(&mut self, now: Time, in_flight: u32) -> PacketToken {
        self.0.on_sent(now, u64::from(in_flight) + 1, in_flight == 0, false)
    }

    fn on_ack(&mut self, now: Time, path: &Path, lost: u64, tokens: &[(PacketToken, u64)]) {
        // Inputs of the other drivers are built here as well, and tokens cost the same as with moving counters.
        black_box((now, path, lost, tokens));
        black_box(&mut self.0);
    }

    fn cwnd(&self) -> u32 {
        black_box(400)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(black_box(RATE))
    }
}

/// A paced sender over a link of constant rate, and a receiver that acknowledges every second packet.
fn drive(driven: &mut impl Driven, acks: u64) -> u64 {
    let mut ring = vec![(PacketToken::default(), Time::ZERO); RING];
    let (mut now, mut link_free, mut pacer) = (Time::ZERO, Time::ZERO, Time::ZERO);
    let (mut una, mut next, mut done) = (0_u64, 0_u64, 0_u64);
    let mut recovery_until = 0_u64;
    while done < acks {
        let in_flight = (next - una) as u32;
        // The pacer comes first, unless the window is full or the ACK for two packets is due before it.
        let ack_at = if in_flight >= 2 { ring[(una + 1) as usize % RING].1 } else { Time::NEVER };
        if in_flight < driven.cwnd().min(RING as u32 - 2) && pacer.max(now) <= ack_at {
            now = now.max(pacer);
            let token = driven.on_sent(now, in_flight);
            link_free = link_free.max(now) + RATE.time_for(u64::from(MSS) + 66);
            ring[next as usize % RING] = (token, link_free + RTT);
            pacer = now + driven.pacing_rate().map_or(Span::ZERO, |rate| rate.time_for(u64::from(MSS)));
            next += 1;
            continue;
        }
        now = now.max(ack_at);
        let mut tokens = [(PacketToken::default(), 0_u64); 2];
        let (mut delivered, mut lost) = (0, 0);
        for seq in una..una + 2 {
            if seq % LOSS_EVERY == LOSS_EVERY - 1 {
                lost += 1;
                recovery_until = next;
            } else {
                tokens[delivered] = (ring[seq as usize % RING].0, seq);
                delivered += 1;
            }
        }
        una += 2;
        let ca_state = if una < recovery_until { CaState::Recovery } else { CaState::Open };
        let path = Path { una, next, prior_in_flight: in_flight, in_flight: in_flight - 2, ca_state, edt: pacer };
        driven.on_ack(now, &path, lost, &tokens[..delivered]);
        done += 1;
    }
    done
}

/// Creates a controller that runs the named algorithm.
fn any(name: &str, init: &Init) -> Option<Controller<AnyAlgorithm>> {
    AlgorithmConfig::named(name).map(|config| Controller::new(&config, init))
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let usage = "usage: ack_cost nothing|sizes|bare-bbr1|bare-bbr3|alone-bbr1|[quic-]ALGORITHM ACKS";
    let name = args.get(1).expect(usage);
    if name == "sizes" {
        return sizes();
    }
    let acks: u64 = args.get(2).and_then(|text| text.parse().ok()).expect(usage);
    let init = Init::new(Time::ZERO).with_mss(MSS).with_seed(1);
    let sampler = RateSampler::new(Time::ZERO);
    let bbr1 = || Bbr1::new(&Bbr1Params::default(), &init);
    let done = match name.as_str() {
        "nothing" => drive(&mut Nothing(sampler), acks),
        "bare-bbr1" => drive(&mut Bare { sampler, bbr: bbr1() }, acks),
        "bare-bbr3" => {
            let bbr = Bbr3::<Draft06>::new(&Bbr3Params::default(), &init);
            drive(&mut Bare { sampler, bbr }, acks)
        }
        "alone-bbr1" => drive(&mut Tcp(Controller::with_algorithm(bbr1(), &init).with_host_recovery()), acks),
        name => match name.strip_prefix("quic-") {
            Some(name) => drive(&mut Quic(any(name, &init).expect(usage)), acks),
            None => drive(&mut Tcp(any(name, &init).expect(usage).with_host_recovery()), acks),
        },
    };
    println!("{done}");
}

/// Prints the bytes of state that a host keeps per connection and per packet.
fn sizes() {
    let rows = [
        ("a token, for each packet in flight", size_of::<PacketToken>()),
        ("delivery-rate sampler", size_of::<RateSampler>()),
        ("bbr1", size_of::<Bbr1>()),
        ("bbr3", size_of::<Bbr3<Draft06>>()),
        ("CUBIC, Reno", size_of::<bbrlab_core::algorithms::LossBased>()),
        ("controller of bbr1 alone", size_of::<Controller<Bbr1>>()),
        ("controller of bbr3 alone", size_of::<Controller<Bbr3<Draft06>>>()),
        ("controller of any algorithm", size_of::<Controller>()),
    ];
    for (what, bytes) in rows {
        println!("{what:<36} {bytes:>6} bytes");
    }
}
