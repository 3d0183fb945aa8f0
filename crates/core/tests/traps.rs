//! Bugs of other BBR implementations that this design could have, each with its source.
//! `tools/traps.py` puts each bug in and checks that its test fails.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod pipe;

use bbrlab_core::{
    CaState, Init, PacketToken, Span, State, Time,
    algorithms::{Ack, Bbr3, Draft06, Lost},
    estimators::{FlightSample, RateSampler},
    params::Bbr3Params,
};
use pipe::{BBRS, MSS, Pipe, ack, controller, info, measuring, send};

const RTT_US: u64 = 40_000;
const RTT: Span = Span::millis(40);
/// Bytes in a packet of [`Hand`].
const PACKET: u64 = 1_000;

/// BBRv3 by the draft with a clock and counters, fed by hand: a packet is 1000 bytes, rounds last 40 ms.
struct Hand {
    bbr: Bbr3<Draft06>,
    now_us: u64,
    delivered: u64,
    ca_state: CaState,
}

/// A sample whose newest packet was sent with `tx_in_flight` packets in flight, and `lost` lost since.
fn flight(tx_in_flight: u32, lost: u32) -> FlightSample {
    let mut flight = FlightSample::default();
    (flight.tx_in_flight, flight.lost) = (tx_in_flight, lost);
    flight
}

impl Hand {
    fn new(edit: impl FnOnce(&mut Init)) -> Self {
        let mut init = Init::new(Time::ZERO).with_mss(1_000).with_seed(1);
        init.srtt = Some(RTT);
        edit(&mut init);
        let delivered = init.delivered;
        let bbr = Bbr3::new(&Bbr3Params::default(), &init);
        Self { bbr, now_us: 0, delivered, ca_state: CaState::Open }
    }

    /// Feeds a round of `packets` delivered packets; the newest was sent after the last round had ended.
    fn round(&mut self, packets: u64, flight: FlightSample) {
        self.ack(packets, self.delivered, flight);
    }

    /// Feeds an ACK an RTT later whose newest packet was sent when `prior_delivered` bytes had been delivered.
    fn ack(&mut self, packets: u64, prior_delivered: u64, flight: FlightSample) {
        self.now_us += RTT_US;
        self.delivered += packets * PACKET;
        let volume = packets * PACKET;
        let mut ack = Ack::default();
        ack.now = Time::micros(self.now_us);
        let rs = &mut ack.rs;
        (rs.delivered, rs.interval_us, rs.rtt_us) = (Some(volume), Some(RTT_US), Some(RTT_US));
        (rs.prior_delivered, rs.acked_sacked, rs.prior_in_flight) = (prior_delivered, volume, volume);
        (ack.delivered, ack.delivered_time_us, ack.in_flight) = (self.delivered, self.now_us, volume);
        (ack.ca_state, ack.srtt) = (self.ca_state, Some(RTT));
        let in_bytes = |packets: u32| packets * PACKET as u32;
        let mut flight = flight;
        (flight.tx_in_flight, flight.lost) = (in_bytes(flight.tx_in_flight), in_bytes(flight.lost));
        self.bbr.on_ack(&ack, &flight);
    }

    fn lose(&mut self, seq: u64, tx_in_flight: u64, lost: u64) {
        let (now, delivered) = (Time::micros(self.now_us), self.delivered);
        let mut loss = Lost::default();
        (loss.now, loss.seq, loss.packets, loss.volume) = (now, seq, 1, PACKET);
        (loss.tx_in_flight, loss.lost, loss.delivered) = (tx_in_flight * PACKET, lost * PACKET, delivered);
        self.bbr.on_lost_packet(&loss);
    }

    fn ca_state(&mut self, new: CaState) {
        let old = core::mem::replace(&mut self.ca_state, new);
        self.bbr.on_ca_state(old, new);
    }

    /// Runs a round of fast recovery in Startup that lost these packets of a hundred.
    fn startup_round_that_lost(seqs: impl Iterator<Item = u64>) -> Self {
        let mut hand = Self::new(|_| {});
        hand.round(100, FlightSample::default());
        let mut lost = 0;
        for seq in seqs {
            lost += 1;
            hand.lose(seq, 100, lost);
        }
        hand.ca_state(CaState::Recovery);
        hand.round(100, flight(100, lost as u32));
        hand
    }
}

/// quinn 0.11: the gain cycle never reached the pacer, and the rate was only logged.
#[test]
fn pacing_not_enforced() {
    for name in measuring() {
        let mut pipe = Pipe::new(controller(name, Some(RTT)));
        assert!(pipe.cc.needs_pacing(), "{name}");
        pipe.packet_us = 400; // the pacer's steps of 25 µs are then small beside it
        let mut highest = 0;
        for _ in 0..12_000 {
            pipe.run(1_000, u32::MAX);
            if pipe.now_us > 3_000_000 {
                highest = highest.max(pipe.pacing_bps() / 8 / u64::from(MSS) / 25);
            }
        }
        assert!((118..=126).contains(&highest), "{name}: a probe goes to {highest} % of the link");
    }
}

/// quinn's BBRv3 in review (#2481): lost packets were counted where the text requires discontiguous ranges.
#[test]
fn loss_packets_counted_for_loss_events() {
    assert_eq!(Hand::startup_round_that_lost(10..18).bbr.state(), State::Startup, "eight packets, one event");
    assert_ne!(Hand::startup_round_that_lost((0..8).map(|n| 10 + 2 * n)).bbr.state(), State::Startup, "eight events");
}

/// quinn's BBRv3 in review (#2481): rounds were compared with the BDP in bytes, so 63 of them always passed.
#[test]
fn reno_coexistence_in_bytes() {
    for name in ["bbr2", "bbr3", "bbr3-linux"] {
        let mut pipe = Pipe::new(controller(name, Some(RTT)));
        pipe.packet_us = 2_000; // a BDP of 20 packets: a probe every 0.8 s or so
        let (mut probes, mut before) = (0, State::Startup);
        for _ in 0..2_000 {
            pipe.run(10_000, u32::MAX);
            let state = pipe.cc.state();
            probes += u32::from(state == State::ProbeBwRefill && before != state);
            before = state;
        }
        assert!(probes >= 9, "{name}: {probes} probes in 20 s; by time alone it were eight at most");
    }
}

/// quinn's BBRv3 in review (#2481): the first packet acknowledged was never counted as delivered.
#[test]
fn first_packet_never_counted_as_delivered() {
    for name in measuring() {
        let mut cc = controller(name, None);
        let token = send(&mut cc, Time::micros(5));
        ack(&mut cc, Time::micros(5 + RTT_US), &token, 0, &info(Some(RTT)));
        let packet = if matches!(name, "bbr3" | "bbr-lab") { u64::from(MSS) } else { 1 };
        assert_eq!(cc.sampler().delivered(), packet, "{name}");
    }
}

/// quinn's BBRv3 in review (#2481): samples of packets sent before anything was delivered were discarded.
#[test]
fn samples_with_prior_delivered_0_discarded() {
    for name in measuring() {
        let mut cc = controller(name, None);
        let token = send(&mut cc, Time::micros(5));
        ack(&mut cc, Time::micros(5 + RTT_US), &token, 0, &info(Some(RTT)));
        let rate = cc.snapshot().bw.as_bytes_per_sec();
        assert!(rate.abs_diff(u64::from(MSS) * 25) < 100, "{name}: {rate} bytes a second");
    }
}

/// noq #768: tx_in_flight less the packet, and lost less the packet, went below zero on the most common path of all.
#[test]
fn u64_underflow_in_inflight_at_loss() {
    for (tx_in_flight, lost) in [(1, 1), (0, 1), (1, 40)] {
        let mut hand = Hand::new(|_| {});
        for _ in 0..20 {
            hand.round(40, flight(40, 0));
        }
        while hand.bbr.state() != State::ProbeBwUp {
            hand.round(40, flight(40, 0));
        }
        hand.lose(7, tx_in_flight, lost);
        let bound = hand.bbr.snapshot().bounds.inflight_longterm;
        assert!(bound.is_some_and(|bytes| bytes <= 80_000), "{tx_in_flight}, {lost}: {bound:?}");
    }
}

/// noq #800: the guessed first rate, the initial window in a millisecond, was only ever raised.
#[test]
fn initial_pacing_never_replaced_when_app_limited() {
    for name in BBRS {
        let mut pipe = Pipe::new(controller(name, None));
        let guessed = pipe.pacing_bps();
        pipe.run(200_000, 2);
        assert!(pipe.pacing_bps() < guessed / 10, "{name} {} from {guessed}", pipe.pacing_bps());
    }
}

/// xquic #552: a 32-bit mark of a round's end wrapped after 4.3 GB, and no round ended again.
#[test]
fn wrap_after_4_gb_of_packets() {
    let mut hand = Hand::new(|init| init.delivered = u64::from(u32::MAX) - 100 * PACKET);
    for n in 1..=10 {
        let before = hand.delivered;
        hand.round(40, FlightSample::default());
        hand.ack(1, before, FlightSample::default()); // of the round that has just ended
        assert_eq!(hand.bbr.snapshot().round_count, n);
    }
}

/// The same in the sampler: its tokens keep the low bits of three counters.
#[test]
fn wrap_of_the_low_bits_in_a_token() {
    let mut sampler = RateSampler::new(Time::ZERO);
    let start = Time::micros((u64::from(u32::MAX) - 50) / 1_000 * 1_000 + 900); // first_send_us just below 2^32
    sampler.on_lost(u64::from(u32::MAX) - 1);
    let mut tokens = Vec::new();
    for n in 0..4 {
        tokens.push(sampler.on_sent(start + Span::micros(100 * n), 1, n == 0, false));
    }
    sampler.on_lost(5);
    assert_eq!(sampler.lost_since(&tokens[0]), 5);
    for (n, token) in tokens.iter().enumerate() {
        sampler.on_delivered(1, token, n as u64);
    }
    let sample = sampler.on_ack(start + Span::micros(50_000), RTT);
    assert_eq!((sample.delivered, sample.interval_us), (Some(4), Some(50_000)));
}

/// s2n-quic's BBRv2 measured 22.5 of 20 and 106 of 100 Mbit/s, so it cruised above the link's rate and kept a queue of 25 to 53 ms.
#[test]
fn bandwidth_over_estimated_and_its_standing_queue() {
    for name in measuring() {
        let mut pipe = Pipe::new(controller(name, Some(RTT)));
        pipe.run(4_000_000, u32::MAX);
        let mut queues = Vec::new();
        for _ in 0..400 {
            pipe.run(10_000, u32::MAX);
            let full = pipe.packets_per_s();
            assert!(full <= 10_100, "{name}: {full} of 10000 packets a second");
            queues.push(pipe.last_rtt_us - RTT_US);
        }
        queues.sort_unstable();
        assert!(queues[200] <= 2_500, "{name}: a median queue of {} µs", queues[200]);
    }
}

/// s2n-quic #1697: the growth test required 4/3 instead of 5/4.
#[test]
fn growth_test_4_3_instead_of_5_4() {
    let state_after_growth_of = |per_cent: u64| {
        let (mut hand, mut packets) = (Hand::new(|_| {}), 1_000);
        for _ in 0..12 {
            hand.round(packets, FlightSample::default());
            packets = packets * per_cent / 100;
        }
        hand.bbr.snapshot().full_bw_reached
    };
    assert!(!state_after_growth_of(109), "1.09³ is a quarter more and a bit, if not a third: growth");
    assert!(state_after_growth_of(107), "three rounds of seven per cent are not a quarter");
}

/// s2n-quic #1698: the filter of the maximum advanced more than once a cycle, so that one quiet probe discarded the path's rate.
#[test]
fn max_bw_filter_advanced_more_than_once_a_cycle() {
    for name in ["bbr2", "bbr3", "bbr3-linux"] {
        let mut pipe = Pipe::new(controller(name, Some(RTT)));
        while pipe.now_us < 4_000_000 || pipe.cc.state() != State::ProbeBwCruise {
            pipe.run(1_000, u32::MAX);
        }
        let full = pipe.packets_per_s();
        pipe.packet_us = 140;
        let (mut probes, mut before) = (0, State::ProbeBwCruise);
        while pipe.packets_per_s() * 10 > full * 9 && probes < 9 {
            pipe.run(1_000, u32::MAX);
            let state = pipe.cc.state();
            probes += u32::from(state == State::ProbeBwUp && before != state);
            before = state;
        }
        assert_eq!(probes, 2, "{name}: the maximum lasts for the cycle it was seen in and the next");
    }
}

// Application-limited flows: nine bugs of others.

/// cloudflare/quiche #2496: idleness was misdetected on a path with an RTT of a second, and the window stayed tiny for good.
#[test]
fn app_limited_1_idleness_misread_on_a_long_path() {
    for name in measuring() {
        let mut pipe = Pipe::new(controller(name, Some(Span::secs(1))));
        (pipe.rtt_us, pipe.packet_us) = (1_000_000, 1_000);
        for _ in 0..8 {
            pipe.run(1_500_000, 4);
            pipe.run(1_200_000, 0); // silence longer than a round
        }
        let mut widest = 0;
        for _ in 0..250 {
            pipe.run(100_000, u32::MAX);
            widest = widest.max(pipe.cc.cwnd());
        }
        assert!(widest > 1_900, "{name}: a window of {widest}");
        assert!(pipe.packets_per_s() > 900, "{name}: {} packets a second", pipe.packets_per_s());
    }
}

/// cloudflare/quiche #1598: the count in flight was raised first, so a flow never restarted from idle, and probed the RTT instead.
#[test]
fn app_limited_3_restart_from_idle_never_seen() {
    for name in measuring() {
        let mut pipe = Pipe::new(controller(name, Some(RTT)));
        pipe.run(3_000_000, u32::MAX);
        pipe.run(400_000, 5);
        pipe.run(200_000, 0);
        assert!(pipe.in_flight.is_empty(), "{name}");
        pipe.now_us += 11_000_000;
        pipe.run(RTT_US + 2_000, u32::MAX);
        assert_ne!(pipe.cc.state(), State::ProbeRtt, "{name}: the queue is empty, there is nothing to probe for");
    }
}

/// picoquic #1758: throughput varied when the application was the limit at the start.
#[test]
fn app_limited_4_at_the_start() {
    for name in measuring() {
        let mut pipe = Pipe::new(controller(name, None));
        pipe.run(1_000_000, 3);
        assert_eq!(pipe.cc.state(), State::Startup, "{name}: nothing has been tried yet");
        pipe.run(1_500_000, u32::MAX);
        let full = pipe.packets_per_s();
        assert!((9_000..=10_100).contains(&full), "{name}: {full}");
    }
}

/// picoquic #1547, #1753: the estimate drifted down while the application was the limit.
#[test]
fn app_limited_5_estimate_drifts_down() {
    for name in measuring() {
        let mut pipe = Pipe::new(controller(name, Some(RTT)));
        pipe.run(3_000_000, u32::MAX);
        let full = pipe.packets_per_s();
        pipe.run(12_000_000, 5);
        assert!(pipe.packets_per_s() * 100 >= full * 99, "{name} {} of {full}", pipe.packets_per_s());
    }
}

/// picoquic #839: a flow marked in the handshake, before anything was in flight, stalled for ten seconds.
#[test]
fn app_limited_6_marked_before_the_first_packet() {
    for name in measuring() {
        let mut cc = controller(name, None);
        cc.on_app_limited(None);
        let mut pipe = Pipe::new(cc);
        pipe.run(RTT_US * 2, u32::MAX);
        assert!(!pipe.cc.sampler().is_app_limited(), "{name}: the bubble has left");
        pipe.run(1_000_000, u32::MAX);
        let full = pipe.packets_per_s();
        assert!((9_000..=10_100).contains(&full), "{name}: {full}");
    }
}

/// ngtcp2 #2217: flows with plenty of ACKs, or a window that was not full, were never marked, so that slow samples replaced the path's.
#[test]
fn app_limited_7_never_marked() {
    for name in ["bbr2-ietf100", "bbr2", "bbr3", "bbr3-linux", "bbr-lab"] {
        assert!(controller(name, None).wants_app_limited_checks(), "{name}: the host must look at ACKs and timers too");
    }
    let mut sampler = RateSampler::new(Time::ZERO);
    let before = sampler.on_sent(Time::micros(1), 1, true, false);
    sampler.on_app_limited(1);
    let during = sampler.on_sent(Time::micros(2), 2, false, false);
    for (token, marked) in [(before, false), (during, true)] {
        sampler.on_delivered(1, &token, u64::from(marked));
        let sample = sampler.on_ack(Time::micros(RTT_US + 10), RTT);
        assert_eq!(sample.is_app_limited, marked, "what was true when the packet left counts, not when its ACK came");
    }
}

/// lsquic #544, #554: with everything marked, as under flow control, a flow never left Startup. Samples as high as the estimate
/// count despite the mark, and without a mark a plateau caused by the receiver's window is a plateau.
#[test]
fn app_limited_8_stuck_in_startup_by_flow_control() {
    for name in measuring() {
        let mut pipe = Pipe::new(controller(name, Some(RTT)));
        pipe.run(400_000, 20);
        let by_application = pipe.packets_per_s();
        assert!(by_application.abs_diff(500) < 20, "{name}: {by_application} of 20 packets in 40 ms");
        let mut held = Pipe::new(controller(name, Some(RTT)));
        for _ in 0..100 {
            held.run_held_back(10_000, 20);
        }
        assert_ne!(held.cc.state(), State::Startup, "{name}: the receiver's window is the pipe");
    }
}

/// google/quiche #28: a queue of datagrams was ignored, so every packet was marked, and nothing ended Startup. A host that marks
/// a flow with a full window would do the same; the mark must end with the packets that were in flight.
#[test]
fn app_limited_9_a_mark_that_never_ends() {
    let mut sampler = RateSampler::new(Time::ZERO);
    let tokens: Vec<PacketToken> = (0..3).map(|n| sampler.on_sent(Time::micros(n), 1, n == 0, false)).collect();
    sampler.on_app_limited(3);
    for (n, token) in tokens.iter().enumerate() {
        sampler.on_delivered(1, token, n as u64);
        sampler.on_ack(Time::micros(RTT_US + 10), RTT);
    }
    let last = sampler.on_sent(Time::micros(RTT_US + 20), 1, true, false);
    assert!(last.is_app_limited(), "sent while three of three are known to have left: the bubble is behind them");
    sampler.on_delivered(1, &last, 3);
    sampler.on_ack(Time::micros(2 * RTT_US + 20), RTT);
    assert!(!sampler.is_app_limited());
}
