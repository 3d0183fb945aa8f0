//! Long-term bandwidth: the conditions under which a policer is detected, and those under which it is not.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

/// Runs `rounds` rounds of 40 ms with `per_round` deliveries each, and `lost` losses in the last one.
fn interval(d: &mut Driver, rounds: u32, per_round: u64, lost: u64) {
    for round in 0..rounds {
        d.delivered += per_round - 1;
        let losses = if round + 1 == rounds { lost } else { 0 };
        d.round_with(40, |ack| ack.rs.losses = losses);
    }
}

/// The loss that starts the sampling.
fn first_loss(d: &mut Driver) {
    d.round_with(40, |ack| ack.rs.losses = 1);
}

#[test]
fn two_consistent_lossy_intervals_make_a_policer() {
    let mut d = Driver::cruising(0);
    first_loss(&mut d);
    interval(&mut d, 4, 10, 8);
    assert!(!d.bbr.lt.in_use(), "one interval proves nothing");
    interval(&mut d, 4, 10, 8);
    assert!(d.bbr.lt.in_use());
    // 40 packets in 160 ms.
    assert_eq!(d.bbr.bw(), 40 * BW_UNIT / 160_000);
    assert_eq!((d.bbr.pacing_gain, d.bbr.state()), (256, State::ProbeBwCruise));
}

#[test]
fn the_policed_rate_is_the_mean_of_both_intervals() {
    let mut d = Driver::cruising(0);
    first_loss(&mut d);
    interval(&mut d, 4, 16, 16);
    interval(&mut d, 4, 17, 17);
    let bw = |packets: u64| packets * BW_UNIT / 160_000;
    assert_eq!((d.bbr.lt.in_use(), d.bbr.bw()), (true, (bw(64) + bw(68)) / 2));
}

#[test]
fn intervals_that_differ_by_more_than_an_eighth_are_no_policer() {
    let mut d = Driver::cruising(0);
    first_loss(&mut d);
    interval(&mut d, 4, 16, 16);
    interval(&mut d, 4, 19, 19);
    assert!(!d.bbr.lt.in_use());
    interval(&mut d, 4, 19, 19);
    assert!(d.bbr.lt.in_use(), "the later interval is compared with the next");
}

#[test]
fn intervals_that_differ_by_4_kbit_are_consistent_whatever_their_ratio() {
    let mut d = Driver::cruising(0);
    let ack = d.bare();
    // A unit of bandwidth is 85.4 bytes per second after subtraction of the margin: five are 427, six 512.
    d.bbr.lt_bw_interval_done(11, &ack);
    d.bbr.lt_bw_interval_done(17, &ack);
    assert!(!d.bbr.lt.in_use());
    d.bbr.lt_bw_interval_done(22, &ack);
    assert!(d.bbr.lt.in_use());
}

#[test]
fn an_interval_is_at_least_four_rounds() {
    let mut d = Driver::cruising(0);
    first_loss(&mut d);
    // The round of the first loss counts as the first one.
    interval(&mut d, 2, 10, 8);
    assert_eq!(d.bbr.lt.bw, 0);
    interval(&mut d, 1, 10, 8);
    assert_ne!(d.bbr.lt.bw, 0);
}

#[test]
fn an_interval_of_more_than_sixteen_rounds_is_given_up() {
    let mut d = Driver::cruising(0);
    first_loss(&mut d);
    interval(&mut d, 15, 10, 40);
    assert_ne!(d.bbr.lt.bw, 0, "sixteen with that of the first loss");
    let mut d = Driver::cruising(0);
    first_loss(&mut d);
    interval(&mut d, 16, 10, 40);
    assert_eq!(d.bbr.lt.bw, 0);
}

#[test]
fn less_than_a_fifth_lost_is_no_policer() {
    let mut d = Driver::cruising(0);
    first_loss(&mut d);
    for _ in 0..4 {
        interval(&mut d, 4, 64, 49);
    }
    assert!(!d.bbr.lt.in_use(), "49/256 is below 50/256");
}

#[test]
fn an_application_limited_sample_ends_all_sampling() {
    let mut d = Driver::cruising(0);
    first_loss(&mut d);
    interval(&mut d, 4, 10, 8);
    d.round_with(40, |ack| ack.rs.is_app_limited = true);
    first_loss(&mut d);
    interval(&mut d, 4, 10, 8);
    assert!(!d.bbr.lt.in_use());
}

#[test]
fn a_policed_rate_is_probed_again_after_48_rounds() {
    let mut d = Driver::cruising(0);
    first_loss(&mut d);
    interval(&mut d, 4, 10, 8);
    interval(&mut d, 4, 10, 8);
    for round in 0..48 {
        assert!(d.bbr.lt.in_use(), "round {round}");
        d.round(40);
    }
    assert!(!d.bbr.lt.in_use());
    assert_ne!(d.phase(), 1);
}

#[test]
fn without_the_switch_nothing_makes_a_policer() {
    let mut d = Driver::cruising(0);
    d.bbr.p.lt_bw = 0;
    first_loss(&mut d);
    for _ in 0..6 {
        interval(&mut d, 4, 10, 8);
    }
    assert!(!d.bbr.lt.in_use());
}

#[test]
fn an_undo_ends_the_use_of_a_policed_rate() {
    let mut d = Driver::cruising(0);
    first_loss(&mut d);
    interval(&mut d, 4, 10, 8);
    interval(&mut d, 4, 10, 8);
    d.bbr.on_undo(&d.bare());
    assert!(!d.bbr.lt.in_use());
}

#[test]
fn a_fifth_lost_to_the_packet_makes_a_policer() {
    let mut d = Driver::cruising(0);
    first_loss(&mut d);
    interval(&mut d, 4, 64, 50);
    interval(&mut d, 4, 64, 50);
    assert!(d.bbr.lt.in_use(), "50/256 is the threshold");
}

#[test]
fn a_time_out_is_a_loss_that_begins_an_interval() {
    let mut d = Driver::cruising(0);
    d.bbr.on_rto(&d.bare(), true);
    assert!(d.bbr.lt.is_sampling);
}

/// Runs `end_lt_interval` after `elapsed_ms` with one packet delivered per loss; returns the rate, and true if sampling goes on.
fn ended_after(elapsed_ms: u64) -> (u64, bool) {
    let mut d = Driver::cruising(0);
    d.bbr.lt.is_sampling = true;
    d.bbr.lt.begin_interval(0, 0, 0);
    let ack = Ack { delivered: 10, lost: 10, delivered_time_us: elapsed_ms * 1_000, ..Ack::default() };
    d.bbr.end_lt_interval(&ack);
    (d.bbr.lt.bw, d.bbr.lt.is_sampling)
}

#[test]
fn an_interval_lasts_a_millisecond_or_more_and_less_than_50_days() {
    assert_eq!(ended_after(0), (0, true), "too short to measure, so that it goes on");
    assert_eq!(ended_after(1), (10 * BW_UNIT / 1_000, true));
    let longest = u64::from(u32::MAX) / 1_000 - 1;
    assert_eq!(ended_after(longest), (10 * BW_UNIT / (longest * 1_000), true));
    assert_eq!(ended_after(longest + 1), (0, false), "its microseconds would not fit the kernel's 32 bits");
}

#[test]
fn only_rounds_in_probe_bw_count_towards_the_end_of_a_policed_rate() {
    let policed = || {
        let mut d = Driver::cruising(0);
        d.bbr.lt.in_use = true;
        d.bbr.lt.bw = PER_MS;
        d
    };
    let mut d = policed();
    d.ack(1);
    assert_eq!(d.bbr.lt.round_count, 0, "no round began");
    d.round(40);
    assert_eq!(d.bbr.lt.round_count, 1);
    let mut d = policed();
    d.bbr.mode = Mode::Startup;
    d.bbr.full_bw_reached = false;
    d.round(40);
    assert_eq!(d.bbr.lt.round_count, 0, "not in ProbeBW");
}

#[test]
fn a_first_interval_is_compared_with_none_however_slow_it_was() {
    let mut d = Driver::cruising(0);
    d.bbr.lt_bw_interval_done(3, &d.bare());
    assert_eq!((d.bbr.lt.in_use(), d.bbr.lt.bw), (false, 3));
}
