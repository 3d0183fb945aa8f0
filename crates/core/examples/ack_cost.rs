//! Drives one part of the library over a plain stream of ACKs, for `callgrind` to count what an ACK costs.
//! In: what to drive, and how many ACKs. Out: the ACKs. Never: a measurement of its own.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::hint::black_box;

use bbrlab_core::{
    Ack, AckReport, AlgorithmConfig, Bbr1, Bbr1Params, Bbr3, Bbr3Params, CaState, Controller, Edition, Init, Lost,
    Rate, RateSampler, Span, Time, Token,
};

/// Packets in the ring of the toy transport: above any window that appears here.
const RING: usize = 4096;
/// Payload of a packet, bytes.
const MSS: u32 = 1448;
/// The path: 100 Mbit/s and 40 ms, so about 330 packets of BDP.
const RATE: Rate = Rate(100_000_000);
const RTT: Span = Span::millis(40);
/// Every so many packets one is lost.
const LOSS_EVERY: u64 = 5_000;

/// What is driven: a window and a pacing rate come out, packets sent, delivered and lost go in.
trait Driven {
    fn on_sent(&mut self, now: Time, in_flight: u32) -> Token;
    fn on_ack(&mut self, now: Time, path: &Path, lost: u64, tokens: &[(Token, u64)]);
    fn cwnd(&self) -> u32;
    fn pacing_rate(&self) -> Rate;
}

/// What the toy transport knows at an ACK.
struct Path {
    una: u64,
    next: u64,
    prior_in_flight: u32,
    in_flight: u32,
    ca_state: CaState,
    edt: Time,
}

/// An algorithm and the delivery-rate sampler, as a transport with a loss recovery of its own would use them.
struct Bare<A> {
    sampler: RateSampler,
    bbr: A,
}

/// What such a transport asks of an algorithm.
trait Alone {
    fn on_ack(&mut self, ack: &Ack, sampler: &mut RateSampler);
    fn on_lost(&mut self, lost: &Lost);
    fn cwnd(&self) -> u32;
    fn pacing_rate(&self) -> Rate;
}

impl Alone for Bbr1 {
    fn on_ack(&mut self, ack: &Ack, _sampler: &mut RateSampler) {
        Self::on_ack(self, ack);
    }

    fn on_lost(&mut self, _lost: &Lost) {}

    fn cwnd(&self) -> u32 {
        Self::cwnd(self)
    }

    fn pacing_rate(&self) -> Rate {
        Self::pacing_rate(self)
    }
}

impl Alone for Bbr3 {
    fn on_ack(&mut self, ack: &Ack, sampler: &mut RateSampler) {
        Self::on_ack(self, ack, &sampler.flight(&ack.rs));
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.on_lost_packet(lost);
    }

    fn cwnd(&self) -> u32 {
        Self::cwnd(self)
    }

    fn pacing_rate(&self) -> Rate {
        Self::pacing_rate(self)
    }
}

impl<A: Alone> Driven for Bare<A> {
    fn on_sent(&mut self, now: Time, in_flight: u32) -> Token {
        self.sampler.on_sent(now, in_flight + 1, in_flight == 0, false)
    }

    fn on_ack(&mut self, now: Time, path: &Path, lost: u64, tokens: &[(Token, u64)]) {
        for (token, seq) in tokens {
            self.sampler.on_delivered(token, *seq);
        }
        self.sampler.on_lost(lost);
        if lost > 0 {
            let (seq, delivered) = (path.una, self.sampler.delivered());
            self.bbr.on_lost(&Lost {
                now,
                seq,
                tx_in_flight: path.in_flight,
                lost: 1,
                is_app_limited: false,
                delivered,
            });
        }
        let rtt = tokens.last().map(|(token, _)| now.since(token.send_time()));
        let mut rs = self.sampler.on_ack(now, RTT);
        rs.rtt_us = rtt.map(Span::as_micros);
        rs.prior_in_flight = u64::from(path.prior_in_flight);
        let ack = Ack {
            now,
            rs,
            delivered: self.sampler.delivered(),
            delivered_time_us: self.sampler.delivered_time_us(),
            lost: self.sampler.lost(),
            in_flight: path.in_flight,
            ca_state: path.ca_state,
            srtt: rtt,
            edt: path.edt,
            una: path.una,
            next: path.next,
            advanced: true,
            cwnd_limited: true,
            packets_out: path.in_flight,
            paced: true,
            may_raise_cwnd: true,
            tick: None,
        };
        self.bbr.on_ack(&ack, &mut self.sampler);
    }

    fn cwnd(&self) -> u32 {
        self.bbr.cwnd()
    }

    fn pacing_rate(&self) -> Rate {
        self.bbr.pacing_rate()
    }
}

impl Driven for Controller {
    fn on_sent(&mut self, now: Time, in_flight: u32) -> Token {
        Self::on_sent(self, now, 1, in_flight, in_flight, false)
    }

    fn on_ack(&mut self, now: Time, path: &Path, lost: u64, tokens: &[(Token, u64)]) {
        for (token, seq) in tokens {
            self.on_delivered(token, *seq);
        }
        Self::on_lost(self, lost);
        self.on_ca_state(path.ca_state);
        let rtt = tokens.last().map(|(token, _)| now.since(token.send_time()));
        Self::on_ack(
            self,
            &AckReport {
                now,
                rtt,
                rtt_oldest: tokens.first().map(|(token, _)| now.since(token.send_time())),
                prior_in_flight: path.prior_in_flight,
                in_flight: path.in_flight,
                packets_out: path.in_flight,
                una: path.una,
                next: path.next,
                advanced: true,
                is_ack_delayed: false,
                cwnd_limited: true,
                may_raise_cwnd: true,
                edt: path.edt,
                paced: true,
            },
        );
    }

    fn cwnd(&self) -> u32 {
        Self::cwnd(self)
    }

    fn pacing_rate(&self) -> Rate {
        Self::pacing_rate(self)
    }
}

/// No algorithm: what the toy transport and the tokens of what it sends cost, to be subtracted.
struct Nothing(RateSampler);

impl Driven for Nothing {
    fn on_sent(&mut self, now: Time, in_flight: u32) -> Token {
        self.0.on_sent(now, in_flight + 1, in_flight == 0, false)
    }

    fn on_ack(&mut self, now: Time, path: &Path, lost: u64, tokens: &[(Token, u64)]) {
        // What the others are given is made here as well, and tokens cost what they cost where counters move.
        black_box((now, path, lost, tokens));
        black_box(&mut self.0);
    }

    fn cwnd(&self) -> u32 {
        black_box(400)
    }

    fn pacing_rate(&self) -> Rate {
        black_box(RATE)
    }
}

/// A paced sender over a link of constant rate, and a receiver that acknowledges every second packet.
fn drive(driven: &mut impl Driven, acks: u64) -> u64 {
    let mut ring = vec![(Token::default(), Time::ZERO); RING];
    let (mut now, mut link_free, mut pacer) = (Time::ZERO, Time::ZERO, Time::ZERO);
    let (mut una, mut next, mut done) = (0_u64, 0_u64, 0_u64);
    let mut recovery_until = 0_u64;
    while done < acks {
        let in_flight = (next - una) as u32;
        // The pacer first, unless the window is full or two packets' ACK is due before it.
        let ack_at = if in_flight >= 2 { ring[(una + 1) as usize % RING].1 } else { Time::NEVER };
        if in_flight < driven.cwnd().min(RING as u32 - 2) && pacer.max(now) <= ack_at {
            now = now.max(pacer);
            let token = driven.on_sent(now, in_flight);
            link_free = link_free.max(now) + RATE.time_for(u64::from(MSS) + 66);
            ring[next as usize % RING] = (token, link_free + RTT);
            pacer = now + driven.pacing_rate().time_for(u64::from(MSS));
            next += 1;
            continue;
        }
        now = now.max(ack_at);
        let mut tokens = [(Token::default(), 0_u64); 2];
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

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let usage = "usage: ack_cost nothing|bare-bbr1|bare-bbr3|ALGORITHM ACKS";
    let name = args.get(1).expect(usage);
    let acks: u64 = args.get(2).and_then(|text| text.parse().ok()).expect(usage);
    let init = Init::new(Time::ZERO, MSS, 1);
    let done = match name.as_str() {
        "nothing" => drive(&mut Nothing(RateSampler::new(Time::ZERO)), acks),
        "bare-bbr1" => {
            let bbr = Bbr1::new(&Bbr1Params::default(), &init);
            drive(&mut Bare { sampler: RateSampler::new(Time::ZERO), bbr }, acks)
        }
        "bare-bbr3" => {
            let bbr = Bbr3::new(&Bbr3Params::default(), Edition::Draft06, &init);
            drive(&mut Bare { sampler: RateSampler::new(Time::ZERO), bbr }, acks)
        }
        name => drive(&mut Controller::new(&AlgorithmConfig::named(name).expect(usage), &init), acks),
    };
    println!("{done}");
}
