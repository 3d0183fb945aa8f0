//! Order and arithmetic of google/bbr's v3 and v2alpha where the draft is silent or differs.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

/// A flow that accepts marks on any path.
fn marked(edition: Edition, state: Phase) -> Driver {
    let mut d = Driver::of(edition).moved_to(state);
    d.bbr.p.ecn = 1;
    d.bbr.p.ecn_max_rtt = 0;
    d.bbr.ecn.eligible = true;
    d
}

// spec: google/bbr v3 struct bbr, init_cwnd:7
#[test]
fn linux_remembers_an_initial_window_of_at_most_127_packets() {
    let params = Driver::params(Edition::LinuxV3);
    let d = Driver::with(&params, Edition::LinuxV3, |init| (init.initial_cwnd, init.srtt) = (200, None));
    assert_eq!((d.bbr.cwnd(), d.bbr.bdp_multiple(BW_UNIT, UNIT)), (200, 127));
}

// spec: google/bbr v3 bbr_update_ecn_alpha
#[test]
fn linux_takes_its_mean_of_marks_in_256ths_each_part_rounded_down() {
    for (packets, alpha) in [(1, 256), (10, 241), (17, 240)] {
        let mut d = marked(Edition::LinuxV3, Phase::ProbeBwCruise);
        d.bbr.on_congestion_mark(1);
        for _ in 1..packets {
            d.ack_with(1, |ack, _| ack.rs.interval_us = None); // delivered too, but without a rate
        }
        d.round(40);
        assert_eq!(d.bbr.ecn.alpha, alpha * 100, "one of {packets}: 240 and a sixteenth of the share");
    }
}

// spec: google/bbr v3 bbr_ecn_cut
#[test]
fn linux_cuts_by_whole_256ths() {
    let mut d = marked(Edition::LinuxV3, Phase::ProbeBwCruise);
    d.bbr.ecn.alpha = 100 * 100;
    d.bbr.ecn.in_round = true;
    d.bbr.bounds.inflight_shortterm = 1_000;
    assert_eq!(d.bbr.ecn_lower_bounds(), (INFINITY, 871), "1000 * (256 - 33) / 256");
}

// spec: google/bbr v3 bbr_main: marks before the latest signals
#[test]
fn linux_leaves_startup_by_marks_with_what_was_delivered_before() {
    let mut d = marked(Edition::LinuxV3, Phase::Startup);
    d.bbr.full_pipe.reached = false;
    for packets in [40, 300] {
        d.bbr.on_congestion_mark(1);
        d.round_with(|ack, _| ack.rs.delivered = Some(packets));
    }
    assert_eq!((d.bbr.full_pipe.reached, d.bbr.bounds.inflight_longterm), (true, 41), "the BDP, rounded up");
}

// spec: google/bbr v3 bbr_main: ecn_in_round on every ACK
#[test]
fn linux_counts_a_mark_on_an_ack_without_a_rate_sample() {
    let mut d = marked(Edition::LinuxV3, Phase::ProbeBwCruise);
    d.ack_with(1, |ack, flight| (ack.rs.interval_us, flight.is_ece) = (None, true));
    assert!(d.bbr.ecn.in_round);
}

// spec: google/bbr v3 bbr_main: loss_in_cycle last of all
#[test]
fn the_loss_that_ends_a_probe_of_linux_belongs_to_the_cycle_that_follows() {
    let mut d = marked(Edition::LinuxV3, UP);
    d.bbr.probe.is_bw_probe_sample = true;
    d.ack_with(1, |_, flight| flight.lost = 5);
    assert_eq!((d.state(), d.bbr.ecn.loss_in_cycle), (State::ProbeBwDown, true));
}

// spec: google/bbr v2alpha bbr2_adapt_lower_bounds
#[test]
fn v2_takes_the_lower_of_the_rates_that_loss_and_marks_leave_not_their_product() {
    let mut d = marked(Edition::LinuxV2, Phase::ProbeBwCruise);
    d.lose(1, 40, 1);
    d.bbr.on_congestion_mark(1);
    let max_bw = d.bbr.model.max_bw();
    d.round_with(|ack, flight| {
        ack.rs.delivered = Some(1);
        flight.is_ece = true;
    });
    assert_eq!(d.bbr.bounds.bw_shortterm, scaled(max_bw, 17_100), "171/256 by marks, 180/256 by loss");
}

// spec: google/bbr v2alpha bbr_check_full_bw_reached
#[test]
fn v2_looks_for_growth_at_the_beginning_of_a_round_alone() {
    let mut d = Driver::of(Edition::LinuxV2);
    d.round(40);
    d.ack_with(1, |ack, _| ack.rs.delivered = Some(60));
    assert_eq!(d.bbr.full_pipe.plateau.bw, (40 * BW_UNIT).div_ceil(RTT_US));
    d.round(62);
    assert_eq!((d.bbr.full_pipe.plateau.bw, d.bbr.full_pipe.plateau.count), ((62 * BW_UNIT).div_ceil(RTT_US), 0));
}

// spec: google/bbr v3 bbr_check_loss_too_high_in_startup tests full_bw_reached, not the mode
#[test]
fn linux_counts_losses_in_a_probe_rtt_before_the_pipe_was_full() {
    let mut d = Driver::of(Edition::LinuxV3);
    d.round(40);
    d.bbr.phase = Phase::ProbeRtt { done_stamp: None, round_done: false };
    for n in 0..6 {
        d.lose(n, 100, 1);
        d.ca_state(CaState::Recovery);
        d.ack_with(1, |ack, _| ack.rs.losses = 1);
    }
    d.round_with(|_, flight| *flight = FlightSample { tx_in_flight: 100, lost: 6, ..FlightSample::default() });
    assert!(d.bbr.full_pipe.reached);
}

// spec: google/bbr v3 bbr_skb_marked_lost changes the state; bbr_main the gains
#[test]
fn linux_takes_the_gains_of_a_state_begun_by_a_loss_with_the_next_ack() {
    for (edition, gain) in [(Edition::LinuxV3, 32_000), (Edition::Draft06, 23_040)] {
        let mut d = Driver::of(edition).moved_to(UP);
        d.bbr.probe.is_bw_probe_sample = true;
        d.lose(1, 40, 3);
        assert_eq!((d.state(), d.bbr.gains.pacing), (State::ProbeBwDown, gain));
    }
}

// spec: google/bbr v3 bbr_undo_cwnd returns prior_cwnd
#[test]
fn an_undo_of_linux_puts_the_window_back_to_what_it_was() {
    for (edition, window) in [(Edition::LinuxV3, 80), (Edition::LinuxV2, 80), (Edition::Draft06, 90)] {
        let mut d = Driver::of(edition).moved_to(Phase::ProbeBwCruise);
        d.lose(1, 100, 1);
        d.ca_state(CaState::Recovery);
        d.bbr.put_cwnd(90 * d.bbr.smss());
        d.bbr.on_undo(&d.bare());
        assert_eq!(d.bbr.cwnd(), window, "{edition:?}");
    }
}

// spec: google/bbr v2alpha bbr_cwnd_event does not handle CA_EVENT_TLP_RECOVERY
#[test]
fn v2_ignores_tail_loss_probes() {
    for (edition, state) in [(Edition::LinuxV2, State::ProbeBwUp), (Edition::LinuxV3, State::ProbeBwDown)] {
        let mut d = Driver::of(edition).moved_to(UP);
        d.bbr.probe.is_bw_probe_sample = true;
        d.bbr.on_tlp_recovery(Time::micros(d.now_us), d.volume(), false);
        assert_eq!((d.state(), d.bbr.bounds.is_loss_in_round), (state, false), "{edition:?}: Down forgets the round");
    }
}

// spec: google/bbr v2alpha bbr2_set_state
#[test]
fn a_time_out_of_v2_keeps_the_count_of_rounds_and_bounds_by_the_window_before() {
    for (edition, count) in [(Edition::LinuxV2, 2), (Edition::LinuxV3, 0)] {
        let mut d = Driver::of(edition).moved_to(Phase::ProbeBwCruise);
        (d.bbr.full_pipe.plateau.bw, d.bbr.full_pipe.plateau.count) = (5, 2);
        d.rto(200, true);
        let bound = if edition == Edition::LinuxV2 { 80 } else { 201 };
        assert_eq!(
            (d.bbr.full_pipe.plateau.bw, d.bbr.full_pipe.plateau.count, d.bbr.bounds.inflight_shortterm),
            (0, count, bound)
        );
    }
}

/// A flow at its target, with application-limited samples below the estimate, and more acknowledged than it explains.
fn app_limited_at_target(edition: Edition) -> Driver {
    let mut d = Driver::of(edition).moved_to(Phase::ProbeBwCruise);
    d.bbr.put_cwnd(100 * d.bbr.smss());
    d.ack(1_000);
    d.ack_with(1_000, |ack, _| {
        (ack.rs.is_app_limited, ack.rs.delivered, ack.rs.acked_sacked) = (true, Some(10), 30);
    });
    d
}

// spec: google/bbr v3 bbr_run_fast_path
#[test]
fn linux_does_not_watch_the_aggregation_of_acks_while_the_application_is_the_limit() {
    for (edition, is_watched) in [(Edition::LinuxV3, false), (Edition::LinuxV2, false), (Edition::Draft06, true)] {
        let d = app_limited_at_target(edition);
        assert_eq!(d.bbr.aggregation.extra_acked > 2 * d.bbr.smss(), is_watched, "{edition:?}");
    }
}

// spec: google/bbr v3 bbr_run_fast_path
#[test]
fn linux_leaves_the_fast_path_for_loss_marks_a_new_state_or_a_lower_rtt() {
    let sample = |d: &mut Driver, rtt_us: u64| {
        d.ack_with(1_000, |ack, _| {
            (ack.rs.is_app_limited, ack.rs.delivered, ack.rs.rtt_us) = (true, Some(10), Some(rtt_us));
        });
    };
    let mut d = app_limited_at_target(Edition::LinuxV3);
    sample(&mut d, 20_000);
    assert!(d.bbr.cwnd() < 80, "half the RTT, half the window: {}", d.bbr.cwnd());
    let mut d = app_limited_at_target(Edition::LinuxV3);
    d.lose(1, 100, 1);
    d.bbr.bounds.loss_round_delivered = 0;
    sample(&mut d, RTT_US);
    assert!(d.bbr.bounds.bw_shortterm < INFINITY, "a loss counts");
    let mut d = app_limited_at_target(Edition::LinuxV3);
    d.now_us += 4_000_000;
    sample(&mut d, RTT_US);
    assert_eq!((d.state(), d.bbr.out.try_fast_path), (State::ProbeBwRefill, true), "the window was set again");
}
