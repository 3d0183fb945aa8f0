//! The controller as its host sees it: traps in which other implementations were caught.
//! In: events. Out: failures. Never: a look inside.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod pipe;

use bbrlab_core::{ALGORITHMS, AckReport, CaState, Controller, Rng, Span, State, Time, Token};
use pipe::{BBRS, Pipe, controller, report};

#[test]
fn a_guessed_first_rate_does_not_outlive_the_first_rtt_of_an_application_limited_flow() {
    for name in BBRS {
        let mut pipe = Pipe::new(controller(name, None));
        let guessed = pipe.cc.pacing_rate();
        pipe.run(200_000, 2);
        assert!(pipe.cc.pacing_rate().0 < guessed.0 / 10, "{name} {:?} from {guessed:?}", pipe.cc.pacing_rate());
    }
}

#[test]
fn the_first_packet_counts_as_delivered_and_makes_an_estimate_in_the_first_round() {
    let mut cc = controller("bbr1", None);
    let token = cc.on_sent(Time::micros(5), 1, 0, 0, false);
    cc.on_delivered(&token, 0);
    cc.on_ack(&report(Time::micros(40_005), Some(Span::millis(40))));
    assert_eq!(cc.sampler().delivered(), 1);
    // 2^24 / 40000 = 419 units, times 1448 bytes and 10^6, over 2^24.
    assert_eq!(cc.snapshot().bw.as_bytes_per_sec(), 36_162);
}

#[test]
fn an_application_limited_phase_keeps_the_estimate_however_long() {
    for name in BBRS {
        let mut pipe = Pipe::new(controller(name, Some(Span::millis(40))));
        pipe.run(3_000_000, u32::MAX);
        let full = pipe.packets_per_s();
        // A variant that averages includes its own draining phases.
        let least = if name.starts_with("bbr-s") || name == "bbr-cpa" { 7_000 } else { 9_000 };
        let most = if name == "bbr-s-kalman" { 12_500 } else { 10_100 };
        assert!((least..=most).contains(&full), "{name} {full}");
        pipe.run(8_000_000, 5);
        assert!(pipe.packets_per_s() * 100 >= full * 99, "{name} {} of {full}", pipe.packets_per_s());
    }
}

#[test]
fn idle_time_is_neither_a_slow_sample_nor_a_reason_to_collapse() {
    for name in BBRS {
        let mut pipe = Pipe::new(controller(name, Some(Span::millis(40))));
        pipe.run(3_000_000, u32::MAX);
        let (full, cwnd) = (pipe.packets_per_s(), pipe.cc.cwnd());
        pipe.run(200_000, 0);
        assert!(pipe.in_flight.is_empty());
        pipe.now_us += 5_000_000;
        pipe.run(1_000_000, u32::MAX);
        assert!(pipe.packets_per_s() * 100 >= full * 95, "{name} {} of {full}", pipe.packets_per_s());
        assert!(pipe.cc.cwnd() * 2 >= cwnd, "{name} {} of {cwnd}", pipe.cc.cwnd());
    }
}

#[test]
fn a_sender_limited_by_its_window_alone_is_not_application_limited() {
    for name in BBRS {
        let mut pipe = Pipe::new(controller(name, Some(Span::millis(40))));
        pipe.run(2_000_000, u32::MAX);
        assert!(!pipe.cc.sampler().is_app_limited());
        assert_ne!(pipe.cc.state(), State::Startup);
    }
}

/// Linux `FLAG_ACK_MAYBE_DELAYED`: the packet must be the only one delivered since it was sent.
#[test]
fn an_ack_that_may_be_delayed_never_becomes_the_minimum_rtt() {
    let mut cc = controller("bbr1", None);
    let first = cc.on_sent(Time::ZERO, 1, 0, 0, false);
    cc.on_delivered(&first, 0);
    cc.on_ack(&report(Time::micros(20_000), Some(Span::millis(20))));
    let late_us = 400_000_000;
    let lone = cc.on_sent(Time::micros(late_us - 80_000), 1, 0, 0, false);
    cc.on_delivered(&lone, 1);
    let held = AckReport { is_ack_delayed: true, ..report(Time::micros(late_us), Some(Span::millis(80))) };
    cc.on_ack(&held);
    assert_eq!(cc.rtt().min(), Some(Span::millis(20)));
}

#[test]
fn an_ack_of_one_packet_among_several_is_not_taken_for_a_delayed_one() {
    let mut cc = controller("bbr1", None);
    let tokens = [0, 1].map(|out| cc.on_sent(Time::ZERO, 1, out, out, false));
    cc.on_delivered(&tokens[0], 0);
    cc.on_ack(&report(Time::micros(20_000), Some(Span::millis(20))));
    cc.on_delivered(&tokens[1], 1);
    let rtt = Some(Span::millis(30));
    cc.on_ack(&AckReport { is_ack_delayed: true, ..report(Time::micros(400_000_000), rtt) });
    assert_eq!(cc.rtt().min(), rtt, "the old minimum had expired");
}

/// A number of any size, small ones as often as wild ones.
fn wild(rng: &mut Rng) -> u64 {
    let bits = rng.below(66);
    if bits > 63 { u64::MAX } else { rng.next_u64() >> bits }
}

/// One event that a host could tell, with wild values.
fn event(cc: &mut Controller, rng: &mut Rng, now: &mut Time, tokens: &mut [Token; 8]) {
    let wild_u32 = |rng: &mut Rng| u32::try_from(wild(rng)).unwrap_or(u32::MAX);
    let which = rng.below(8) as usize;
    *now += Span(wild(rng) >> 24);
    match rng.below(16) {
        0..=3 => tokens[which] = cc.on_sent(*now, wild_u32(rng), wild_u32(rng), wild_u32(rng), rng.below(4) == 0),
        4..=5 => cc.on_delivered(&tokens[which], wild(rng)),
        6 => cc.on_lost_packet(*now, &tokens[which], wild(rng)),
        7 => cc.on_lost_packet_by_timer(*now, &tokens[which], wild(rng)),
        8 => cc.on_lost(wild(rng)),
        9 => cc.on_ca_state([CaState::Open, CaState::Disorder, CaState::Cwr, CaState::Recovery][which % 4]),
        10 => cc.on_rto(*now, wild_u32(rng), rng.below(2) == 0),
        11 => match which {
            0..=3 => cc.on_undo(*now),
            4 => cc.on_mss(wild_u32(rng)),
            5 => cc.on_tlp_recovery(*now, rng.below(2) == 0),
            6 => cc.on_congestion_mark(wild(rng)),
            _ => cc.on_app_limited(wild_u32(rng)),
        },
        _ => {
            let rtt = (rng.below(3) > 0).then(|| Span(wild(rng) >> 20));
            cc.on_ack(&AckReport {
                prior_in_flight: wild_u32(rng),
                in_flight: wild_u32(rng),
                cwnd_limited: rng.below(2) == 0,
                is_ack_delayed: rng.below(8) == 0,
                edt: Time(wild(rng)),
                ..report(*now, rtt)
            });
        }
    }
}

/// Goal: no order of events and no value makes an algorithm panic, stop sending, or promise nothing.
#[test]
fn whatever_the_host_tells_every_algorithm_keeps_a_window_and_a_rate() {
    for info in ALGORITHMS {
        for seed in 0..300 {
            let mut rng = Rng::derive(seed, 7);
            let mut cc = controller(info.name, (seed % 2 == 0).then_some(Span::millis(40)));
            let (mut now, mut tokens) = (Time::ZERO, [Token::default(); 8]);
            for _ in 0..400 {
                event(&mut cc, &mut rng, &mut now, &mut tokens);
                assert!(cc.cwnd() >= 1 && cc.pacing_rate().0 > 0 && cc.send_quantum() > 0, "{} {seed}", info.name);
                assert!(cc.min_tso_segs() >= 1 && cc.cwnd_bytes() > 0, "{} {seed}", info.name);
            }
        }
    }
}

#[test]
fn every_algorithm_has_a_window_and_a_rate_before_anything_has_happened() {
    for info in ALGORITHMS {
        let cc = controller(info.name, None);
        assert!(cc.cwnd() == 10 && cc.pacing_rate().0 > 0, "{}", info.name);
        assert_eq!(cc.ca_state(), CaState::Open);
    }
}
