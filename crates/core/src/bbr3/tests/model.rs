//! The model: rounds, bandwidth, the delivery of the last round, short-term bounds, aggregation, the minimum RTT.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

#[test]
fn a_new_flow_has_no_bound_and_counts_its_first_ack_as_a_round() {
    let mut d = Driver::new();
    assert_eq!(
        (d.bbr.bounds.inflight_longterm, d.bbr.bounds.inflight_shortterm, d.bbr.bounds.bw_shortterm),
        (INFINITY, INFINITY, INFINITY)
    );
    assert_eq!((d.bbr.min_rtt.min_rtt_us, d.state()), (RTT_US, State::Startup));
    d.ack(RTT_US);
    assert_eq!((d.bbr.model.rounds.count, d.bbr.bounds.loss_round_start), (1, false));
}

/// Bugs of other implementations: samples of packets sent before any delivery were discarded; the first packet did not count.
#[test]
fn the_first_sample_makes_an_estimate() {
    let mut d = Driver::new();
    d.ack_with(RTT_US, |ack, _| ack.rs.delivered = Some(1));
    assert_eq!(d.bbr.model.max_bw(), PACKET * BW_UNIT / RTT_US);
}

#[test]
fn an_ack_that_delivers_nothing_begins_no_round_and_changes_no_signal() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.model.rounds.next_delivered = 0;
    d.bbr.bounds.loss_round_delivered = 0;
    let before = (d.bbr.model.rounds.count, d.bbr.model.bw_latest);
    d.ack_with(1, |ack, _| ack.rs = crate::estimators::RateSample::default());
    assert_eq!((d.bbr.model.rounds.count, d.bbr.model.bw_latest), before);
    assert!(!d.bbr.model.rounds.start && !d.bbr.bounds.loss_round_start);
}

#[test]
fn app_limited_samples_only_raise_the_bandwidth() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    for _ in 0..30 {
        d.ack_with(1_000, |ack, _| {
            ack.rs.is_app_limited = true;
            ack.rs.delivered = Some(10);
        });
    }
    assert_eq!(d.bbr.model.max_bw(), RATE);
    d.ack_with(1_000, |ack, _| {
        ack.rs.is_app_limited = true;
        ack.rs.delivered = Some(80);
    });
    assert_eq!(d.bbr.model.max_bw(), 2 * RATE);
}

#[test]
fn the_maximum_bandwidth_lasts_for_the_cycle_it_was_seen_in_and_the_next() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.set_max_bw([0, 3 * RATE]);
    d.bbr.model.advance_max_bw_filter();
    d.ack(1_000);
    assert_eq!(d.bbr.model.max_bw(), 3 * RATE);
    d.bbr.model.advance_max_bw_filter();
    assert_eq!(d.bbr.model.max_bw(), RATE);
}

#[test]
fn a_cycle_without_a_sample_forgets_no_bandwidth() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.set_max_bw([RATE, 0]);
    d.bbr.model.advance_max_bw_filter();
    assert_eq!(d.bbr.model.max_bw(), RATE);
}

#[test]
fn the_latest_signals_are_the_last_rounds_maxima() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.ack_with(1, |ack, _| ack.rs.delivered = Some(60));
    d.ack_with(1, |ack, _| ack.rs.delivered = Some(50));
    assert_eq!(d.bbr.model.inflight_latest, 60 * PACKET);
    d.round(30);
    assert_eq!((d.bbr.model.inflight_latest, d.bbr.model.bw_latest), (30 * PACKET, 30 * PACKET * BW_UNIT / RTT_US));
}

#[test]
fn a_round_with_loss_while_not_probing_lowers_the_short_term_bounds_to_what_was_delivered_but_not_below_beta() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.lose(1, 40, 1);
    d.round(36);
    assert_eq!(d.bbr.bounds.bw_shortterm, 36 * PACKET * BW_UNIT / RTT_US);
    assert_eq!(
        d.bbr.bounds.inflight_shortterm,
        56 * PACKET,
        "0.7 of the window of 80, which is more than the 36 delivered"
    );
    d.lose(2, 40, 1);
    d.round(1);
    assert_eq!(
        d.bbr.bounds.bw_shortterm,
        scaled(36 * PACKET * BW_UNIT / RTT_US, d.bbr.p.beta).max(36 * PACKET * BW_UNIT / RTT_US)
    );
    d.lose(3, 40, 1);
    d.round(1);
    assert_eq!(
        d.bbr.bounds.bw_shortterm,
        scaled(36 * PACKET * BW_UNIT / RTT_US, d.bbr.p.beta),
        "the last round's delivery was low"
    );
}

#[test]
fn a_round_without_loss_leaves_the_short_term_bounds_alone() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.round(20);
    assert_eq!((d.bbr.bounds.bw_shortterm, d.bbr.bounds.inflight_shortterm), (INFINITY, INFINITY));
}

#[test]
fn loss_while_probing_leaves_the_short_term_bounds_alone() {
    for state in [Phase::Startup, REFILL, UP] {
        let mut d = Driver::in_state(state);
        d.lose(1, 400, 1);
        let prior = d.bbr.bounds.loss_round_delivered;
        d.ack_with(1, |ack, _| ack.rs.prior_delivered = prior);
        assert_eq!(d.bbr.bounds.inflight_shortterm, INFINITY, "{state:?}");
        assert!(!d.bbr.bounds.is_loss_in_round, "the round is over");
    }
}

#[test]
fn the_bandwidth_in_use_is_the_lesser_of_long_and_short_term() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.put_bw_shortterm(RATE / 2);
    assert_eq!(d.bbr.bw(), RATE / 2);
    d.bbr.bounds.reset_short_term_model();
    assert_eq!(d.bbr.bw(), RATE);
}

#[test]
fn a_burst_of_acks_beyond_the_estimate_is_allowed_for_during_ten_rounds() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.ack(RTT_US);
    d.ack_with(1_000, |ack, _| ack.rs.acked_sacked = 30);
    assert_eq!(d.bbr.aggregation.extra_acked, 30 * PACKET, "31 packets where one was expected");
    for round in 1..=10 {
        d.round(40);
        assert_eq!(d.bbr.aggregation.extra_acked, 30 * PACKET, "round {round}");
    }
    d.round(40);
    assert!(d.bbr.aggregation.extra_acked < 5 * PACKET);
}

#[test]
fn in_startup_the_allowance_lasts_for_one_round() {
    let mut d = Driver::new();
    d.bbr.set_max_bw([RATE; 2]);
    d.ack(RTT_US);
    d.bbr.put_cwnd(80 * PACKET);
    d.ack_with(1_000, |ack, _| ack.rs.acked_sacked = 30);
    assert_eq!(d.bbr.aggregation.extra_acked, 30 * PACKET);
    d.round(40);
    d.round(40);
    assert!(d.bbr.aggregation.extra_acked < 5 * PACKET, "{}", d.bbr.aggregation.extra_acked);
}

#[test]
fn the_allowance_is_never_more_than_the_window() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.ack_with(1, |ack, _| ack.rs.acked_sacked = 10_000);
    assert!(d.bbr.aggregation.extra_acked <= 80 * PACKET);
}

#[test]
fn the_minimum_rtt_follows_a_lower_sample_at_once_and_a_higher_one_after_ten_seconds() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.ack_with(1, |ack, _| ack.rs.rtt_us = Some(30_000));
    assert_eq!(d.bbr.min_rtt.min_rtt_us, 30_000);
    d.bbr.idle_restart = true; // no ProbeRTT in between
    for _ in 0..99 {
        d.ack_with(100_000, |ack, _| {
            ack.rs.rtt_us = Some(50_000);
            ack.rs.delivered = None;
        });
        assert_eq!(d.bbr.min_rtt.min_rtt_us, 30_000);
    }
    d.ack_with(200_000, |ack, _| ack.rs.rtt_us = Some(50_000));
    assert_eq!(d.bbr.min_rtt.min_rtt_us, 50_000);
}

#[test]
fn an_ack_without_an_rtt_leaves_the_minimum_alone() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.ack_with(1, |ack, _| ack.rs.rtt_us = None);
    assert_eq!(d.bbr.min_rtt.min_rtt_us, RTT_US);
}
