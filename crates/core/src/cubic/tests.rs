//! CUBIC's curve, its floor and its state, compared with Linux's and RFC 9438's rules.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::units::Span;

/// Goal: the accuracy that the kernel states for its own.
#[test]
fn the_kernels_cube_root_is_within_half_a_per_cent_for_large_values() {
    for exact in [100u64, 1000, 4_321, 65_535, 1_000_000] {
        let root = linux_cube_root(exact * exact * exact);
        assert!(root.abs_diff(exact) * 200 <= exact, "{root} for {exact}");
    }
    assert_eq!([0, 1, 8, 27, 63].map(linux_cube_root), [0, 1, 2, 3, 4]);
    assert_eq!([64, 100, 127, 128].map(linux_cube_root), [4, 5, 5, 5], "Newton's step from here on");
}

#[test]
fn the_cube_root_is_rounded_down_and_exact_on_cubes() {
    for root in [1u64, 2, 3, 10, 1000, 65_535, 2_000_000] {
        assert_eq!(cube_root(root * root * root), root);
        assert_eq!(cube_root(root * root * root - 1), root - 1);
    }
    assert_eq!(cube_root(u64::MAX), 2_642_245);
    let mut rng = crate::Rng::new(1);
    for bits in 1..64 {
        for value in [1 << bits, (1 << bits) - 1, (1 << bits) | rng.below(1 << bits)] {
            let root = u128::from(cube_root(value));
            let value = u128::from(value);
            assert!(root.pow(3) <= value && (root + 1).pow(3) > value, "{root} of {value}");
        }
    }
}

/// Closed form: K = cbrt(Wmax(1−β)/C); 1000 packets at β = .7, C = .4 take 9.09 s to return.
#[test]
fn the_window_returns_to_its_maximum_after_k_seconds() {
    let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
    let cwnd = cubic.recalc_ssthresh(1000);
    let ack = Ack { now: Time::micros(1_000_000), ..Ack::default() };
    cubic.acks_per_increase(&ack, cwnd, 1);
    let k_ms = cubic.k * 1000 / 1024;
    assert!((9_050..=9_120).contains(&k_ms), "{k_ms}");
}

#[test]
fn fast_convergence_gives_part_of_an_unreached_maximum_away() {
    let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
    cubic.recalc_ssthresh(1000);
    cubic.recalc_ssthresh(900);
    assert_eq!(cubic.last_max_cwnd, 900 * (1024 + 717) / 2048);
}

fn at(us: u64) -> Ack {
    Ack { now: Time::micros(us), ..Ack::default() }
}

fn with_rtt(us: u64, rtt_us: u64) -> Ack {
    Ack {
        rs: crate::estimators::RateSample { rtt_us: Some(rtt_us), ..crate::estimators::RateSample::default() },
        ..at(us)
    }
}

#[test]
fn an_epoch_that_begins_at_time_zero_counts_as_begun() {
    let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
    cubic.acks_per_increase(&at(0), 10, 1);
    assert_ne!(cubic.epoch_start, 0, "0 stands for none");
}

#[test]
fn the_least_delay_is_kept_and_the_first_second_of_an_epoch_teaches_none() {
    let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
    let mut least_after = |us: u64, rtt_us: u64| {
        cubic.on_rtt(&with_rtt(us, rtt_us), 10, false, 0);
        cubic.delay_min_us
    };
    assert_eq!([(1, 50_000), (2, 60_000), (3, 40_000)].map(|(us, rtt)| least_after(us, rtt)), [50_000, 50_000, 40_000]);
    cubic.acks_per_increase(&at(1_000_000), 10, 1);
    let mut least_after = |us: u64, rtt_us: u64| {
        cubic.on_rtt(&with_rtt(us, rtt_us), 10, false, 0);
        cubic.delay_min_us
    };
    let tick_us = MICROS_PER_SEC / u64::from(CubicParams::default().hz);
    let last_ignored = 1_000_000 + IGNORE_RTT_US / tick_us * tick_us - tick_us;
    assert_eq!(least_after(last_ignored, 30_000), 40_000);
    assert_eq!(least_after(last_ignored + tick_us, 30_000), 30_000);
}

#[test]
fn slow_start_grows_by_all_that_is_acknowledged() {
    for (hystart, hystart_plus_plus) in [(0, 0), (1, 0), (0, 1)] {
        let params = CubicParams { hystart, hystart_plus_plus, ..CubicParams::default() };
        assert_eq!(Cubic::new(&params, Time::ZERO).slow_start_step(7, false), 7);
    }
}

#[test]
fn the_curve_is_looked_up_32_times_a_second_while_the_window_stands_still() {
    let params = CubicParams { tcp_friendliness: 0, ..CubicParams::default() };
    let mut cubic = Cubic::new(&params, Time::ZERO);
    cubic.recalc_ssthresh(1_000);
    let mut count = |ms: u64, cwnd: u32| cubic.acks_per_increase(&at(ms * 1_000), cwnd, 1);
    let first = count(1_000, 700);
    let pause = 1_000 * (u64::from(params.hz) / 32) / u64::from(params.hz);
    assert_eq!(count(1_000 + pause, 700), first);
    assert_ne!(count(1_000 + pause + 1_000 / u64::from(params.hz), 700), first);
    let moved = count(1_100, 701);
    assert_ne!(count(1_104, 702), moved, "a window that moved is looked up at the next tick");
}

#[test]
fn the_curve_is_that_of_a_round_trip_ahead_in_whole_ticks_rounded_up() {
    let tick_us = MICROS_PER_SEC / u64::from(CubicParams::default().hz);
    let count = |delay_min_us: u64| {
        let cubic = Cubic {
            k: 100_000,
            origin: 1_000_000,
            last_max_cwnd: 1_000_000,
            delay_min_us,
            epoch_start: 1,
            ..Cubic::new(&CubicParams::default(), Time::ZERO)
        };
        cubic.cubic_count(1, 627_000, cubic.ahead_us(&Ack { srtt: Some(Span::millis(400)), ..Ack::default() }))
    };
    assert_eq!((count(1), count(tick_us - 1)), (count(tick_us), count(tick_us)));
    assert_ne!(count(0), count(1));
    assert_ne!(count(tick_us), count(tick_us + 1));
}

#[test]
fn growth_is_hystart_plus_pluss_where_that_is_chosen() {
    let params = CubicParams { hystart: 0, hystart_plus_plus: 1, ..CubicParams::default() };
    let mut cubic = Cubic::new(&params, Time::ZERO);
    for round in 0..2 {
        for _ in 0..8 {
            let ack = Ack { una: round * 100 + 1, next: round * 100 + 100, ..with_rtt(0, 40_000 + round * 50_000) };
            cubic.on_rtt(&ack, 10, true, 0);
        }
    }
    assert_eq!(cubic.slow_start_step(8, true), 2);
}

#[test]
fn hystart_plus_plus_watches_the_initial_slow_start_alone() {
    let params = CubicParams { hystart: 0, hystart_plus_plus: 1, ..CubicParams::default() };
    let loss: fn(&mut Cubic) = |cubic| _ = cubic.recalc_ssthresh(100);
    let time_out: fn(&mut Cubic) = |cubic| cubic.on_rto(&at(1_000_000));
    for end in [loss, time_out] {
        let mut cubic = Cubic::new(&params, Time::ZERO);
        end(&mut cubic);
        for round in 0..20 {
            for _ in 0..8 {
                let rtt_us = 40_000 + round * 50_000;
                let ack = Ack { una: round * 100 + 1, next: round * 100 + 100, ..with_rtt(5_000_000, rtt_us) };
                assert!(!cubic.on_rtt(&ack, 10, true, 0));
            }
            assert_eq!(cubic.slow_start_step(40, false), 40);
        }
    }
}

#[test]
fn a_loss_begins_an_epoch_even_within_a_tick() {
    let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
    cubic.acks_per_increase(&at(1_000_000), 100, 1);
    let cwnd = cubic.recalc_ssthresh(100);
    cubic.acks_per_increase(&at(1_000_000), cwnd, 1);
    assert_ne!(cubic.epoch_start, 0);
}

#[test]
fn k_is_the_kernels_root_unless_rfc_9438_is_asked_for() {
    let k = |rfc9438: u32| {
        let mut cubic = Cubic::new(&CubicParams { rfc9438, ..CubicParams::default() }, Time::ZERO);
        let cwnd = cubic.recalc_ssthresh(1_000);
        cubic.acks_per_increase(&at(1_000_000), cwnd, 1);
        cubic.k
    };
    let cube = (1u64 << 40) / 410 * 300;
    assert_eq!((k(0), k(1)), (linux_cube_root(cube), cube_root(cube)));
    assert_ne!(k(0), k(1));
}

/// After `acked` packets of an epoch at a window of 100: packets left over, Reno's window, ACKs for one more.
fn friendly(acked: u64, rfc9438: u32, prior_cwnd: u32) -> (u64, u64, u64) {
    let params = CubicParams { rfc9438, ..CubicParams::default() };
    let new = Cubic::new(&params, Time::ZERO);
    let mut cubic = Cubic { count: 1_000, reno_cwnd: 100, acked_in_epoch: acked, prior_cwnd, ..new };
    cubic.reno_friendliness(100);
    (cubic.acked_in_epoch, cubic.reno_cwnd, cubic.count)
}

#[test]
fn reno_would_gain_a_packet_for_15_eighths_of_a_window() {
    assert_eq!(friendly(187, 0, 1_000), (187, 100, 1_000));
    assert_eq!(friendly(188, 0, 1_000), (1, 101, 100));
    assert_eq!(friendly(374, 0, 1_000), (187, 101, 100));
    assert_eq!(friendly(376, 0, 1_000), (2, 102, 50));
    assert_eq!(friendly(376, 1, 1_000), (2, 102, 50), "the window before the reduction is not reached yet");
    assert_eq!(friendly(376, 0, 100), (2, 102, 50), "Linux never asks");
    assert_eq!(friendly(376, 1, 100), (76, 103, 33), "as Reno from there on");
    assert_eq!(friendly(376, 1, 101), (2, 102, 50));
}

#[test]
fn renos_slope_waits_for_the_window_before_the_reduction_whatever_fast_convergence_makes_of_the_maximum() {
    let params = CubicParams { rfc9438: 1, ..CubicParams::default() };
    let mut cubic = Cubic::new(&params, Time::ZERO);
    cubic.recalc_ssthresh(1_000);
    cubic.recalc_ssthresh(900);
    assert!(cubic.last_max_cwnd < 800);
    let mut gained = |reno_cwnd: u64| {
        (cubic.reno_cwnd, cubic.acked_in_epoch) = (reno_cwnd, 1_001);
        cubic.reno_friendliness(800);
        cubic.reno_cwnd - reno_cwnd
    };
    assert_eq!((gained(899), gained(900)), (0, 1), "1,000 ACKed at 800: a packet at a slope of 1, none at 8/15");
}

#[test]
fn a_time_out_is_a_reduction_whose_window_before_is_remembered() {
    let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
    cubic.recalc_ssthresh(900);
    cubic.on_rto(&at(2_000_000));
    assert_eq!((cubic.prior_cwnd, cubic.last_max_cwnd), (900, 0));
}

#[test]
fn rfc_9438_looks_a_smoothed_rtt_ahead_and_linux_the_smallest() {
    let ahead = |rfc9438: u32, srtt: Option<Span>| {
        let mut cubic = Cubic::new(&CubicParams { rfc9438, ..CubicParams::default() }, Time::ZERO);
        cubic.delay_min_us = 40_000;
        cubic.ahead_us(&Ack { srtt, ..Ack::default() })
    };
    let srtt = Some(Span::millis(60));
    assert_eq!((ahead(0, srtt), ahead(1, srtt), ahead(1, None)), (40_000, 60_000, 40_000));
}

#[test]
fn a_maximum_that_was_reached_again_is_kept_whole() {
    let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
    cubic.recalc_ssthresh(1_000);
    cubic.recalc_ssthresh(1_000);
    assert_eq!(cubic.last_max_cwnd, 1_000);
}

#[cfg(feature = "unstable-internals")]
#[test]
fn a_time_out_forgets_the_curve_and_begins_a_round_of_hystart() {
    let mut cubic = Cubic::new(&CubicParams::default(), Time::ZERO);
    cubic.recalc_ssthresh(1_000);
    cubic.acks_per_increase(&at(1_000_000), 700, 1);
    cubic.on_rto(&Ack { next: 77, ..at(2_000_000) });
    let internals = cubic.internals();
    assert_eq!((internals.last_max_cwnd, internals.epoch_start, (internals.k, internals.cnt)), (0, 0, (0, 0)));
    assert_eq!(internals.hystart.map(|hystart| (hystart.end_seq, hystart.round_start_us)), Some((77, 2_000_000)));
}
