//! Reno and CUBIC compared with Linux 6.12 and RFC 9438: growth, reduction, undo, time-out, idleness.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::units::{Span, Time};

const RTT: Span = Span::millis(100);

fn init() -> Init {
    Init { srtt: Some(RTT), ..Init::new(Time::micros(1_000_000)).with_mss(1448).with_seed(1) }
}

fn reno() -> LossBased {
    LossBased::reno(&RenoParams::default(), &init())
}

fn cubic(edit: impl FnOnce(&mut CubicParams)) -> LossBased {
    let mut params = CubicParams { hystart: 0, ..CubicParams::default() };
    edit(&mut params);
    LossBased::cubic(&params, &init())
}

/// An ACK for `acked` packets in order, by a flow that uses its window.
fn ack(now: Time, acked: u64) -> Ack {
    Ack {
        now,
        rs: crate::estimators::RateSample {
            acked_sacked: acked,
            rtt_us: Some(RTT.as_micros()),
            ..crate::estimators::RateSample::default()
        },
        advanced: true,
        cwnd_limited: true,
        may_raise_cwnd: true,
        srtt: Some(RTT),
        ..Ack::default()
    }
}

/// Runs one RTT: an ACK for each packet of the window, evenly spaced.
fn round(flow: &mut LossBased, now: &mut Time) {
    let window = u64::from(flow.cwnd());
    for _ in 0..window {
        *now += Span::nanos(RTT.as_nanos() / window);
        flow.on_ack(&ack(*now, 1));
    }
}

fn lose(flow: &mut LossBased) {
    flow.on_ca_state(CaState::Recovery);
}

#[test]
fn slow_start_doubles_the_window_each_round_and_stops_at_the_threshold() {
    let mut flow = reno();
    let mut now = Time::ZERO;
    round(&mut flow, &mut now);
    assert_eq!(flow.cwnd(), 20);
    flow.ssthresh = 30;
    round(&mut flow, &mut now);
    // Ten ACKs reach the threshold, the other ten count toward the next packet.
    assert_eq!((flow.cwnd(), flow.cwnd_count), (30, 10));
}

#[test]
fn reno_gains_one_packet_a_round() {
    let mut flow = reno();
    flow.ssthresh = 10;
    let mut now = Time::ZERO;
    for window in 11..100 {
        round(&mut flow, &mut now);
        assert_eq!(flow.cwnd(), window);
    }
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut flow = reno();
    flow.on_ack(&Ack { cwnd_limited: false, ..ack(Time::ZERO, 5) });
    flow.on_ack(&Ack { may_raise_cwnd: false, ..ack(Time::ZERO, 5) });
    assert_eq!(flow.cwnd(), 10);
}

#[test]
fn leftover_credit_raises_the_window_by_one_packet_only() {
    let mut flow = reno();
    flow.cwnd_count = 1_000;
    flow.count_up(10, 1);
    assert_eq!((flow.cwnd(), flow.cwnd_count), (11, 1));
}

#[test]
fn reno_halves_and_cubic_keeps_717_of_1024_and_neither_goes_below_two() {
    for (mut flow, kept) in [(reno(), 500), (cubic(|_| {}), 700)] {
        flow.cwnd = 1_000;
        lose(&mut flow);
        assert_eq!(flow.ssthresh, kept);
        let mut tiny = flow.clone();
        tiny.on_ca_state(CaState::Open);
        tiny.cwnd = 1;
        lose(&mut tiny);
        assert_eq!(tiny.ssthresh, 2);
    }
}

/// RFC 9937: while inflight is above the threshold, packets are sent in proportion to those delivered.
#[test]
fn reduction_never_sends_more_than_its_share_of_what_was_delivered() {
    for (window, seed) in [(100u32, 1), (1_000, 2), (17, 3)] {
        let mut rng = crate::Rng::new(seed);
        let mut flow = cubic(|_| {});
        flow.cwnd = window;
        lose(&mut flow);
        let threshold = u64::from(flow.ssthresh);
        let (mut in_flight, mut out, mut delivered) = (window - 1, 0u32, 0u64);
        while in_flight > flow.ssthresh {
            let acked = u64::from(in_flight).min(1 + rng.below(3));
            delivered += acked;
            in_flight -= acked as u32;
            let above = in_flight > flow.ssthresh;
            flow.on_ack(&Ack { in_flight: in_flight.into(), ..ack(Time::ZERO, acked) });
            let send = flow.cwnd().saturating_sub(in_flight);
            flow.on_sent(send);
            out += send;
            in_flight += send;
            let share = (threshold * delivered).div_ceil(u64::from(window)).max(1);
            assert!(!above || u64::from(out) <= share, "{out} sent, {share} allowed after {delivered} of {window}");
        }
        assert!(u64::from(out) * u64::from(window) + u64::from(window) * 4 >= threshold * delivered, "nor much less");
    }
}

#[test]
fn reduction_sends_one_packet_at_once() {
    let mut flow = reno();
    flow.cwnd = 100;
    lose(&mut flow);
    flow.on_ack(&Ack { in_flight: 99, advanced: false, ..ack(Time::ZERO, 1) });
    assert_eq!(flow.cwnd(), 100);
    flow.on_sent(1);
    flow.on_ack(&Ack { in_flight: 98, advanced: false, ..ack(Time::ZERO, 1) });
    assert_eq!(flow.cwnd(), 98, "two delivered allow one of a half");
}

#[test]
fn below_the_threshold_reduction_sends_what_arrives_and_one_more_only_while_nothing_is_lost() {
    let mut flow = reno();
    flow.cwnd = 100;
    lose(&mut flow);
    flow.on_sent(30);
    let progress = Ack { in_flight: 20, ..ack(Time::ZERO, 2) };
    let mut lossy = progress;
    lossy.rs.losses = 1;
    flow.on_ack(&lossy);
    assert_eq!(flow.cwnd(), 22);
    flow.on_ack(&progress);
    assert_eq!(flow.cwnd(), 23);
    flow.on_ack(&Ack { in_flight: 49, ..progress });
    assert_eq!(flow.cwnd(), 50, "never above the threshold");
}

#[test]
fn recovery_ends_with_the_window_at_the_threshold() {
    let mut flow = cubic(|_| {});
    flow.cwnd = 100;
    lose(&mut flow);
    flow.on_ack(&Ack { in_flight: 10, ..ack(Time::ZERO, 1) });
    flow.on_ca_state(CaState::Open);
    assert_eq!((flow.cwnd(), flow.state()), (70, State::CongestionAvoidance));
}

#[test]
fn a_reduction_that_deepens_is_one_reduction() {
    let mut flow = reno();
    flow.cwnd = 100;
    flow.on_ca_state(CaState::Cwr);
    flow.on_ca_state(CaState::Recovery);
    assert_eq!(flow.ssthresh, 50);
}

#[test]
fn undo_brings_window_and_threshold_back() {
    let mut flow = cubic(|_| {});
    flow.cwnd = 100;
    flow.ssthresh = 90;
    lose(&mut flow);
    flow.on_ack(&Ack { in_flight: 10, ..ack(Time::ZERO, 1) });
    flow.on_undo(&Ack::default());
    flow.on_ca_state(CaState::Open);
    assert_eq!((flow.cwnd(), flow.ssthresh), (100, 90));
}

/// Linux clears `prior_ssthresh`: a reduction caused by a mark was not made in error.
#[test]
fn a_reduction_that_a_mark_caused_is_never_undone() {
    let mut flow = cubic(|_| {});
    flow.cwnd = 100;
    flow.on_ca_state(CaState::Cwr);
    flow.on_ca_state(CaState::Recovery);
    flow.on_undo(&Ack::default());
    flow.on_ca_state(CaState::Open);
    assert_eq!(flow.ssthresh, 70);
}

#[test]
fn a_time_out_leaves_what_is_in_flight_and_one_packet_and_reduces_once_an_episode() {
    let mut flow = reno();
    flow.cwnd = 100;
    flow.on_rto(&Ack { in_flight: 3, ..Ack::default() }, true);
    assert_eq!((flow.cwnd(), flow.ssthresh, flow.state()), (4, 50, State::Loss));
    flow.on_rto(&Ack::default(), false);
    assert_eq!((flow.cwnd(), flow.ssthresh), (1, 50));
    flow.on_undo(&Ack::default());
    assert_eq!(flow.cwnd(), 100, "a spurious time-out is undone");
}

#[test]
fn an_idle_window_is_halved_once_a_time_out_but_not_below_the_initial_one() {
    let start = |rtos: u64| TxStart {
        now: Time::ZERO,
        delivered: 0,
        app_limited: true,
        idle: Span::millis(300 * rtos + 1),
        delivered_time_us: 0,
        srtt: None,
        rto: Span::millis(300),
        none_outstanding: true,
        tick: None,
    };
    for (rtos, left) in [(0, 400), (1, 200), (2, 100), (5, 12), (9, 10)] {
        let mut flow = reno();
        (flow.cwnd, flow.ssthresh) = (400, 20);
        flow.on_tx_start(&start(rtos));
        assert_eq!(flow.cwnd(), left, "{rtos} time-outs");
        assert_eq!(flow.ssthresh, if rtos == 0 { 20 } else { 300 });
    }
    let mut flow = reno();
    flow.cwnd = 400;
    flow.on_tx_start(&TxStart { none_outstanding: false, ..start(9) });
    assert_eq!(flow.cwnd(), 400, "something is outstanding: the flow was not idle");
}

#[test]
fn a_window_that_goes_unused_shrinks_half_way_to_its_use() {
    let mut flow = reno();
    flow.cwnd = 100;
    flow.on_cwnd_unused(40);
    assert_eq!(flow.cwnd(), 70);
    flow.on_cwnd_unused(1);
    assert_eq!(flow.cwnd(), 40, "half way to the initial window, not to one packet");
}

#[test]
fn the_pacing_rate_is_twice_the_windows_in_slow_start_and_six_fifths_of_it_after() {
    let mut flow = reno();
    flow.on_ack(&Ack { cwnd_limited: false, ..ack(Time::ZERO, 1) });
    assert_eq!(flow.pacing_rate().as_bytes_per_sec(), 10 * 1448 * 10 * 2);
    flow.ssthresh = 20;
    flow.on_ack(&Ack { cwnd_limited: false, ..ack(Time::ZERO, 1) });
    assert_eq!(flow.pacing_rate().as_bytes_per_sec(), 10 * 1448 * 10 * 6 / 5);
}

/// Goal: simulated over rounds, the window is RFC 9438's W(t) = C(t − K)³ + Wmax, one RTT ahead at most.
#[test]
fn cubic_follows_its_closed_form() {
    let mut flow = cubic(|p| p.tcp_friendliness = 0);
    flow.cwnd = 1_000;
    lose(&mut flow);
    flow.on_ca_state(CaState::Open);
    let start = Time::micros(1_000_000);
    let mut now = start;
    let curve = |t: f64| 0.4 * (t - (300.0f64 / 0.4).cbrt()).powi(3) + 1_000.0;
    for _ in 0..150 {
        round(&mut flow, &mut now);
        let t = now.since(start).as_nanos() as f64 * 1e-9;
        let (low, high) = (curve(t - 0.15) * 0.985, curve(t + 0.15) * 1.015);
        let window = f64::from(flow.cwnd());
        // Beyond Wmax, growth is also bounded by half a window per round.
        assert!((low..=high).contains(&window), "at {t:.1} s: {window}, expected {low:.0} to {high:.0}");
    }
    assert!(flow.cwnd() > 1_050, "{}", flow.cwnd());
}

/// RFC 9438 §4.3: where CUBIC would be slower, it grows as Reno with the same mean window would: 0.53 packets per round.
#[test]
fn cubic_is_nowhere_slower_than_reno_would_be() {
    let mut flow = cubic(|_| {});
    flow.cwnd = 40;
    lose(&mut flow);
    flow.on_ca_state(CaState::Open);
    let begin = f64::from(flow.cwnd());
    let mut now = Time::micros(1_000_000);
    for rounds in 1..60 {
        round(&mut flow, &mut now);
        let reno = begin + 0.53 * f64::from(rounds);
        assert!(f64::from(flow.cwnd()) + 2.0 >= reno, "round {rounds}: {} < {reno}", flow.cwnd());
    }
}

#[test]
fn without_friendliness_a_small_window_grows_more_slowly() {
    let grow = |friendly| {
        let mut flow = cubic(|p| p.tcp_friendliness = friendly);
        flow.cwnd = 40;
        lose(&mut flow);
        flow.on_ca_state(CaState::Open);
        let mut now = Time::micros(1_000_000);
        for _ in 0..30 {
            round(&mut flow, &mut now);
        }
        flow.cwnd()
    };
    assert!(grow(1) > grow(0), "{} {}", grow(1), grow(0));
}

#[test]
fn cubic_gains_at_most_half_a_window_a_round() {
    let mut flow = cubic(|_| {});
    flow.cwnd = 10;
    lose(&mut flow);
    flow.on_ca_state(CaState::Open);
    let mut now = Time::micros(1_000_000);
    round(&mut flow, &mut now);
    now += Span::secs(100);
    let before = flow.cwnd();
    round(&mut flow, &mut now);
    assert!(flow.cwnd() <= before + before / 2 + 1, "{before} → {}", flow.cwnd());
}

#[test]
fn idle_time_is_no_time_of_the_cubic_curve() {
    let run = |idle: Span| {
        let mut flow = cubic(|p| p.tcp_friendliness = 0);
        flow.cwnd = 1_000;
        lose(&mut flow);
        flow.on_ca_state(CaState::Open);
        let mut now = Time::micros(1_000_000);
        for _ in 0..20 {
            round(&mut flow, &mut now);
        }
        now += idle;
        flow.on_tx_start(&TxStart {
            now,
            delivered: 0,
            app_limited: true,
            idle,
            delivered_time_us: 0,
            srtt: None,
            rto: Span::secs(1_000),
            none_outstanding: true,
            tick: None,
        });
        for _ in 0..20 {
            round(&mut flow, &mut now);
        }
        flow.cwnd()
    };
    let (busy, idle) = (run(Span::ZERO), run(Span::secs(60)));
    assert!(busy.abs_diff(idle) <= 4, "{busy} {idle}");
}

#[test]
fn hystart_ends_slow_start_where_delay_rises() {
    let mut flow = cubic(|p| p.hystart = 1);
    let mut now = Time::micros(1_000_000);
    let mut next = 100;
    for rtt_ms in [100u64, 100, 130, 130] {
        for _ in 0..12 {
            now += Span::millis(8);
            let mut ack = Ack { una: next - 50, next, ..ack(now, 1) };
            ack.rs.rtt_us = Some(rtt_ms * 1_000);
            flow.on_ack(&ack);
        }
        next += 100;
    }
    assert!(!flow.in_slow_start());
}

#[test]
fn a_host_that_reduces_by_itself_gets_dctcps_threshold_for_marks_and_half_the_window_after_a_loss() {
    let mut flow = LossBased::dctcp(&DctcpParams::default(), &init());
    let round = |flow: &mut LossBased, nth: u64, marked: u64| {
        let ack = Ack { una: nth * 100, next: nth * 100 + 100, delivered: nth * 100, ..Ack::default() };
        flow.on_in_ack_event(&ack, marked);
    };
    // A tenth of the packets is marked in each round: α is .1, and a reduction takes a twentieth.
    (1..200).for_each(|nth| round(&mut flow, nth, 10));
    flow.set_window(HostWindow { cwnd: 100, cwnd_count: 0, ssthresh: 50 }, Rate::bytes_per_sec(1));
    assert!((95..=97).contains(&flow.recalc_ssthresh()), "{}", flow.recalc_ssthresh());
    assert_eq!(flow.window().ssthresh, 50, "the host sets it");
    flow.on_hosted_loss();
    assert_eq!(flow.window().ssthresh, 50);
    flow.set_window(HostWindow { cwnd: 60, cwnd_count: 0, ssthresh: 50 }, Rate::bytes_per_sec(1));
    flow.on_hosted_loss();
    assert_eq!(flow.window().ssthresh, 30);
}

/// Linux's `dctcp_state` answers a loss in an episode of marks too, from the window of that moment.
#[test]
fn a_loss_in_an_episode_of_marks_halves_dctcps_window_once_more() {
    for (algorithm, halves) in [("dctcp", true), ("reno", false)] {
        let mut flow = match algorithm {
            "dctcp" => LossBased::dctcp(&DctcpParams::default(), &init()),
            _ => LossBased::reno(&RenoParams::default(), &init()),
        };
        flow.on_ca_state(CaState::Cwr);
        let threshold = flow.window().ssthresh;
        flow.on_ca_state(CaState::Recovery);
        let expected = if halves { (flow.window().cwnd / 2).max(2) } else { threshold };
        assert_eq!(flow.window().ssthresh, expected, "{algorithm}");
    }
}

/// The ACK that ends a round counts for the α of its own reduction. Source: Linux 7.3 `tcp_in_ack_event`.
#[test]
fn a_reduction_uses_the_alpha_of_the_round_that_its_marks_end() {
    use crate::algorithm::Algorithm;
    let mut flow = LossBased::dctcp(&DctcpParams { alpha_on_init: 0, ..DctcpParams::default() }, &init());
    flow.set_window(HostWindow { cwnd: 1024, cwnd_count: 0, ssthresh: 512 }, Rate::bytes_per_sec(1));
    flow.on_in_ack_event(&Ack { una: 1, next: 101, delivered: 1, ..Ack::default() }, 0);
    Algorithm::on_congestion_mark(&mut flow, 100);
    Algorithm::on_marked_round(&mut flow, 101, 201, 101);
    flow.on_ca_state(CaState::Cwr);
    assert_eq!(flow.window().ssthresh, 1024 - 1024 * 64 / 2048, "a sixteenth of all packets");
}
