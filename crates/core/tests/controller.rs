//! The controller as used by its host, and pitfalls that have caught other implementations.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[path = "../examples/storm/events.rs"]
mod events;
mod pipe;
#[path = "../examples/storm/random.rs"]
mod random;

use std::collections::VecDeque;

use bbrlab_core::{
    ALGORITHMS, AckInfo, AlgorithmConfig, CaState, Controller, Flight, Loss, Pacer, PacketToken, Rate, Sent, Span,
    State, Time,
};
use events::Storm;
use pipe::{BBRS, Pipe, ack, controller, info, send};
use random::Random;

#[test]
fn the_first_packet_counts_as_delivered_and_makes_an_estimate_in_the_first_round() {
    let mut cc = controller("bbr1", None);
    let token = send(&mut cc, Time::micros(5));
    ack(&mut cc, Time::micros(40_005), &token, 0, &info(Some(Span::millis(40))));
    assert_eq!(cc.sampler().delivered(), 1);
    // 2^24 / 40000 = 419 units, times 1448 bytes and 10^6, over 2^24.
    assert_eq!(cc.snapshot().bw.as_bytes_per_sec(), 36_162);
}

/// The controller's clock follows the calls, not the departure times.
#[test]
fn a_packet_that_waits_in_the_host_is_sent_when_it_departs() {
    let mut cc = controller("bbr1", None);
    let waits = cc.on_sent(Time::micros(5), &Sent::packet(1448).with_departure(Time::micros(9_000)));
    let early = cc.on_sent(Time::micros(10), &Sent::packet(1448).with_departure(Time::ZERO));
    let plain = cc.on_sent(Time::micros(20), &Sent::packet(1448));
    assert_eq!([waits, early, plain].map(|token| token.send_us()), [9_000, 10, 20]);
}

#[test]
fn an_application_limited_phase_keeps_the_estimate_however_long() {
    for name in BBRS {
        let mut pipe = Pipe::new(controller(name, Some(Span::millis(40))));
        pipe.run(3_000_000, u32::MAX);
        let full = pipe.packets_per_s();
        // A variant that averages includes its own draining phases.
        let min = if name.starts_with("bbr-s") || name == "bbr-cpa" { 7_000 } else { 9_000 };
        let max = if name == "bbr-s-kalman" { 12_500 } else { 10_100 };
        assert!((min..=max).contains(&full), "{name} {full}");
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
    let first = send(&mut cc, Time::ZERO);
    ack(&mut cc, Time::micros(20_000), &first, 0, &info(Some(Span::millis(20))));
    let late_us = 400_000_000;
    let lone = send(&mut cc, Time::micros(late_us - 80_000));
    let mut held = info(Some(Span::millis(80)));
    held.is_ack_delayed = true;
    ack(&mut cc, Time::micros(late_us), &lone, 1, &held);
    assert_eq!(cc.rtt().min(), Some(Span::millis(20)));
}

#[test]
fn an_ack_of_one_packet_among_several_is_not_taken_for_a_delayed_one() {
    let mut cc = controller("bbr1", None);
    let tokens = [0, 1].map(|_| send(&mut cc, Time::ZERO));
    ack(&mut cc, Time::micros(20_000), &tokens[0], 0, &info(Some(Span::millis(20))));
    let rtt = Some(Span::millis(30));
    let mut held = info(rtt);
    held.is_ack_delayed = true;
    ack(&mut cc, Time::micros(400_000_000), &tokens[1], 1, &held);
    assert_eq!(cc.rtt().min(), rtt, "the old minimum had expired");
}

/// Goal: no order of events and no value makes an algorithm panic, stop sending, or return a zero window or rate.
#[test]
fn any_host_input_leaves_every_algorithm_a_window_and_a_rate() {
    for info in ALGORITHMS {
        let config = AlgorithmConfig::named(info.name).expect("a listed algorithm");
        for seed in 0..300 {
            let mut random = Random::new(7, seed);
            let mut storm = Storm::new(&config, &mut random);
            for _ in 0..400 {
                storm.step(&mut random);
            }
        }
    }
}

/// Goal: a host that drops an `OpenAck` loses no model update, only some time: the next ACK applies it.
#[test]
fn a_dropped_open_ack_is_applied_by_the_next_ack() {
    for info in ALGORITHMS {
        let (mut ended, mut dropped) = (controller(info.name, None), controller(info.name, None));
        for number in 0..200_u64 {
            let (sent, now) = (Time::micros(40_000 * number), Time::micros(40_000 * (number + 1)));
            for (cc, drops) in [(&mut ended, false), (&mut dropped, number < 199)] {
                let token = send(cc, sent);
                let mut batch = cc.begin_ack(now);
                batch.delivered(&token, number);
                let open = cc.on_delivered(batch);
                if drops {
                    drop(open);
                } else {
                    cc.on_ack(open, &AckInfo::NONE);
                }
            }
        }
        assert_eq!(dropped.sampler().delivered(), ended.sampler().delivered(), "{}", info.name);
        assert_eq!(dropped.snapshot().min_rtt, ended.snapshot().min_rtt, "{}", info.name);
        assert_eq!(dropped.snapshot().bw, ended.snapshot().bw, "{}", info.name);
        assert_eq!(dropped.state(), ended.state(), "{}", info.name);
    }
}

#[test]
fn an_ack_that_the_controller_ended_itself_is_not_ended_again() {
    let mut cc = controller("bbr1", None);
    let tokens = [send(&mut cc, Time::micros(1)), send(&mut cc, Time::micros(2))];
    let mut open = tokens.iter().zip(0_u64..).map(|(token, number)| {
        let mut batch = cc.begin_ack(Time::micros(40_000 + number));
        batch.delivered(token, number);
        cc.on_delivered(batch)
    });
    let (first, second) = (open.next().unwrap(), open.next().unwrap());
    drop(open);
    let before = cc.snapshot();
    cc.on_ack(first, &AckInfo::NONE);
    assert_eq!(cc.snapshot(), before, "the second ACK's beginning ended the first one");
    cc.on_ack(second, &AckInfo::NONE);
    assert_eq!(cc.in_flight(), Flight::NONE);
}

#[test]
fn a_packet_may_leave_if_the_window_has_room_for_it_or_nothing_is_in_flight() {
    let mut cc = controller("reno", None);
    assert!(cc.can_send(u64::MAX), "nothing is in flight");
    while cc.can_send(1_448) {
        send(&mut cc, Time::ZERO);
    }
    assert!(cc.in_flight().bytes <= cc.cwnd_bytes() && cc.in_flight().bytes + 1_448 > cc.cwnd_bytes());
}

/// Goal: a window grows although a loss was reported in bytes and taken for too many packets, as a host must that knows no packets.
#[test]
fn a_full_window_is_known_by_its_bytes_where_the_packets_are_estimates() {
    for name in ["reno", "cubic"] {
        let mut cc = controller(name, None);
        let mut sent = VecDeque::new();
        let mut now = Time::ZERO;
        let fill = |cc: &mut Controller, sent: &mut VecDeque<PacketToken>, now: Time| {
            while cc.can_send(1_448) {
                sent.push_back(send(cc, now));
            }
        };
        fill(&mut cc, &mut sent, now);
        let lost = sent.pop_front().unwrap();
        cc.on_lost(Time::micros(40_000), &Loss::run(&lost, 0, 2, 1_448));
        let mut windows = Vec::new();
        for _ in 0..200 {
            now += Span::millis(40);
            for _ in 0..sent.len() {
                let token = sent.pop_front().unwrap();
                let mut batch = cc.begin_ack(now);
                batch.delivered(&token, 0);
                let open = cc.on_delivered(batch);
                cc.on_ack(open, &AckInfo::NONE);
                fill(&mut cc, &mut sent, now);
            }
            windows.push(cc.cwnd_bytes());
        }
        assert!(windows[199] > windows[20], "{name}: {windows:?}");
    }
}

/// Goal: the README's rule, "no faster than its pacing rate", stalls no algorithm, `fixed` without a rate included.
#[test]
fn a_host_that_paces_every_algorithm_may_send_again_within_a_second() {
    for info in ALGORITHMS {
        let mut cc = controller(info.name, None);
        let mut pacer = Pacer::new(Time::ZERO);
        send(&mut cc, Time::ZERO);
        pacer.on_sent(Time::ZERO, 1_200, cc.pacing_rate());
        assert!(pacer.may_send(Time::ZERO + Span::secs(1)), "{}: {:?}", info.name, cc.pacing_rate());
        assert_eq!(cc.pacing_rate().is_none(), info.name == "fixed", "{}", info.name);
        cc.set_max_pacing_rate(Some(Rate::bits_per_sec(1_000_000)));
        assert!(cc.pacing_rate() <= Some(Rate::bits_per_sec(1_000_000)) && cc.pacing_rate().is_some(), "{}", info.name);
    }
}

#[test]
fn every_algorithm_has_a_window_and_a_rate_before_anything_has_happened() {
    for info in ALGORITHMS {
        let cc = controller(info.name, None);
        let initial = if info.name == "davis" { 4 } else { 10 }; // tcp_davis begins with its minimum
        assert!(cc.cwnd() == initial && cc.pacing_rate() != Some(Rate::bits_per_sec(0)), "{}", info.name);
        assert_eq!(cc.ca_state(), CaState::Open);
    }
}

/// A loss episode that its host finds spurious is over: the next loss begins another, even of a packet sent before.
#[test]
fn losses_after_an_undo_reduce_the_window_again() {
    for name in ["reno", "cubic", "bbr1"] {
        let mut cc = controller(name, None);
        let tokens: Vec<PacketToken> = (0..10).map(|us| send(&mut cc, Time::micros(us))).collect();
        let now = Time::micros(40_000);
        let lose = |cc: &mut Controller, number: usize| {
            cc.on_lost(now, &Loss::packet(&tokens[number], number as u64));
            cc.ca_state()
        };
        assert_eq!(lose(&mut cc, 0), CaState::Recovery, "{name}");
        cc.on_undo(now);
        assert_eq!((cc.ca_state(), cc.undone_episodes()), (CaState::Open, 1), "{name}");
        assert_eq!(lose(&mut cc, 1), CaState::Recovery, "{name}");
    }
}

#[test]
fn an_undo_leaves_a_window_that_a_mark_reduced() {
    for name in ["reno", "cubic"] {
        let mut cc = controller(name, None);
        let tokens: Vec<PacketToken> = (0..10).map(|us| send(&mut cc, Time::micros(us))).collect();
        let now = Time::micros(40_000);
        cc.on_congestion_mark(now, 1);
        cc.on_lost(now, &Loss::packet(&tokens[0], 0));
        let reduced = (cc.cwnd(), cc.ca_state());
        cc.on_undo(now);
        assert_eq!((cc.cwnd(), cc.ca_state(), cc.undone_episodes()), (reduced.0, reduced.1, 0), "{name}");
    }
}
