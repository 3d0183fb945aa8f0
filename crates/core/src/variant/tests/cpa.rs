//! BBR-CPA: the prediction of congestion, the length of ProbeRTT, and the averaged values.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

fn with(edit: impl FnOnce(&mut CpaParams)) -> Driver<Cpa> {
    let mut p = CpaParams::default();
    edit(&mut p);
    let mut d = cruising(begun(&p));
    fill_window(&mut d);
    d
}

/// Feeds `n` ACKs, one per millisecond, with an RTT of `rtt_us`, within a round.
fn acks(d: &mut Driver<Cpa>, n: u32, rtt_us: u64) {
    d.rtt_us = rtt_us;
    for _ in 0..n {
        d.ack(1_000);
    }
}

/// A flow in ProbeRTT because of RTTs of 61 ms.
fn congested(edit: impl FnOnce(&mut CpaParams)) -> Driver<Cpa> {
    let mut d = with(edit);
    acks(&mut d, 8, 61_000);
    assert!(d.is_probe_rtt());
    d
}

#[test]
fn eight_acks_in_a_row_above_theta_predict_congestion_and_seven_do_not() {
    let mut d = with(|_| {});
    acks(&mut d, 7, 61_000);
    assert!(!d.is_probe_rtt());
    acks(&mut d, 1, 61_000);
    assert!(d.is_probe_rtt());
}

#[test]
fn an_rtt_at_theta_times_the_smallest_predicts_nothing() {
    let mut d = with(|_| {});
    acks(&mut d, 500, 60_000);
    assert!(!d.is_probe_rtt());
}

#[test]
fn rtt_spikes_separated_by_one_low_rtt_predict_no_congestion() {
    let mut d = with(|_| {});
    for _ in 0..20 {
        acks(&mut d, 7, 400_000);
        acks(&mut d, 1, 41_000);
    }
    assert!(!d.is_probe_rtt());
}

#[test]
fn on_a_path_of_microseconds_less_than_2_ms_of_queue_is_noise() {
    let ack = rtt_ack(1_000, 1_900);
    let mut part: Cpa = begun(&CpaParams::default());
    for _ in 0..100 {
        part.observe(&AckContext { min_rtt_us: Some(100), ..seen(&ack, Some(3)) });
        assert!(!part.wants_probe_rtt(false));
    }
}

#[test]
fn with_half_round_acks_above_theta_must_also_last_half_an_rtt() {
    let mut d = with(|p| p.half_round = 1);
    acks(&mut d, 30, 61_000);
    assert!(!d.is_probe_rtt());
    acks(&mut d, 2, 61_000);
    assert!(d.is_probe_rtt());
}

#[test]
fn startup_may_queue() {
    let mut d = driver(begun::<Cpa>(&CpaParams::default()));
    acks(&mut d, 100, 90_000);
    assert_eq!(d.bbr.state(), State::Startup);
}

#[test]
fn probe_rtt_lowers_the_rate_and_leaves_three_quarters_of_a_bdp() {
    let d = congested(|_| {});
    let found = d.bbr.snapshot();
    assert_eq!((found.pacing_gain, d.bbr.cwnd()), (192, 30));
    assert_eq!(congested(|p| p.probe_rtt_cwnd_gain = 0).bbr.cwnd(), 4, "BBRv1's window on request");
}

#[test]
fn probe_rtt_ends_with_the_first_low_rtt_of_a_packet_sent_since_it_began() {
    let mut d = congested(|_| {});
    acks(&mut d, 10, 41_000);
    assert!(d.is_probe_rtt(), "sent before");
    acks(&mut d, 40, 61_000);
    assert!(d.is_probe_rtt(), "still congested");
    acks(&mut d, 1, 41_000);
    assert!(!d.is_probe_rtt(), "without a wait of 200 ms");
    assert!(d.bbr.cwnd() > 40, "the window comes back: {}", d.bbr.cwnd());
}

#[test]
fn probe_rtt_ends_after_ten_smallest_rtts_in_any_case() {
    let mut d = congested(|_| {});
    acks(&mut d, 400, 70_000);
    assert!(d.is_probe_rtt());
    acks(&mut d, 1, 70_000);
    assert!(!d.is_probe_rtt());
}

#[test]
fn a_round_lies_between_two_predictions() {
    let mut d = congested(|_| {});
    acks(&mut d, 50, 41_000);
    acks(&mut d, 200, 61_000);
    assert!(!d.is_probe_rtt());
    d.round(40);
    assert!(d.is_probe_rtt());
}

/// Goal: a longer route does not count as congestion forever.
#[test]
fn after_a_change_of_route_the_smallest_rtt_expires_and_predictions_stop() {
    let mut d = with(|_| {});
    d.rtt_us = 100_000;
    let mut since = None;
    for round in 0..500 {
        d.round(40);
        if d.is_probe_rtt() {
            since = Some(round);
        }
    }
    assert!(since.is_some_and(|round| (50..280).contains(&round)), "{since:?}");
    assert_eq!(d.bbr.internals().min_rtt_us, Some(100_000));
}

#[test]
fn when_the_smallest_rtt_leaves_the_period_the_smallest_of_the_rest_takes_its_place() {
    let mut d = with(|_| {});
    for round in 0..270 {
        d.rtt_us = if round % 10 == 0 { 45_000 } else { 55_000 };
        d.round(40);
    }
    assert_eq!(d.bbr.internals().min_rtt_us, Some(45_000));
}

/// Goal: a route longer by less than θ is learned too, though each ProbeRTT finds its queue drained.
#[test]
fn the_smallest_rtt_expires_under_frequent_probe_rtts_too() {
    let mut d = with(|_| {});
    // Every second the queue grows to 70 ms, and ProbeRTT reduces it to 50 ms.
    for _ in 0..30 {
        acks(&mut d, 10, 70_000);
        acks(&mut d, 190, 50_000);
        for _ in 0..20 {
            d.round(40);
        }
    }
    assert_eq!(d.bbr.internals().min_rtt_us, Some(50_000));
}

#[test]
fn no_timer_leads_to_probe_rtt_unless_asked_for() {
    let mut entered = [false; 2];
    for timer in [0, 1] {
        let mut d = with(|p| p.timer = timer);
        d.rtt_us = 42_000;
        for _ in 0..300 {
            d.round(40);
            entered[timer as usize] |= d.is_probe_rtt();
        }
    }
    assert_eq!(entered, [false, true]);
}

#[test]
fn bandwidth_is_the_mean_of_ten_rounds_largest_rates_once_the_pipe_is_full() {
    let mut d = with(|_| {});
    d.round(40);
    for round in 0..10 {
        let prior = d.bbr.internals().next_rtt_delivered;
        d.delivered = d.delivered.max(prior);
        let (small, large) = (5, if round % 2 == 0 { 20 } else { 40 });
        d.ack_with(RTT_US, |ack| (ack.rs.prior_delivered, ack.rs.delivered) = (prior, Some(small)));
        d.ack_with(1, |ack| ack.rs.delivered = Some(large));
    }
    let mean_rate = 30 * 1448 * 1_000 / 40;
    let found = d.bbr.snapshot().bw.as_bytes_per_sec();
    assert!(found.abs_diff(mean_rate) < mean_rate / 1000, "{found} {mean_rate}");
}

#[test]
fn rates_of_startup_are_not_averaged() {
    let mut d = driver(begun::<Cpa>(&CpaParams::default()));
    for bw in [5, 10, 20, 40] {
        d.round(bw);
        let found = d.bbr.snapshot().bw.as_bytes_per_sec();
        assert!(found.abs_diff(bw * 1448 * 25) < 100, "{bw}: {found}");
    }
    while d.bbr.internals().mode != 2 {
        d.round(40);
    }
    assert!(d.bbr.snapshot().bw.as_bytes_per_sec() > 39 * 1448 * 25);
}

#[test]
fn application_limited_rates_are_not_averaged() {
    let mut d = with(|_| {});
    let before = d.bbr.snapshot().bw;
    for _ in 0..30 {
        let prior = d.bbr.internals().next_rtt_delivered;
        d.ack_with(RTT_US, |ack| {
            (ack.rs.prior_delivered, ack.rs.delivered, ack.rs.is_app_limited) = (prior, Some(3), true);
        });
    }
    assert_eq!(d.bbr.snapshot().bw, before);
}
