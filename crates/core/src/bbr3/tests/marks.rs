//! Conditions for Linux's response to marks, and other conditions that must hold together.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

fn of(edition: Edition, state: Phase) -> Driver {
    let mut d = Driver::of(edition).moved_to(state);
    d.bbr.p.ecn = 1;
    d
}

// spec: google/bbr v3 bbr_update_ecn_alpha
#[test]
fn linux_ignores_marks_with_a_zero_factor_or_on_a_long_path() {
    for (factor, max_rtt, eligible) in [(0, 0, false), (8_500, 5_000, false), (8_500, 0, true), (8_500, 40_000, true)] {
        let mut d = of(Edition::LinuxV3, Phase::ProbeBwCruise);
        (d.bbr.p.ecn_factor, d.bbr.p.ecn_max_rtt) = (factor, max_rtt);
        d.round(40);
        assert_eq!((d.bbr.ecn.eligible, d.bbr.ecn.alpha < FINE), (eligible, eligible), "{factor} {max_rtt}");
    }
}

// A host may report more marks than packets: the share is at most one.
#[test]
fn more_marks_than_packets_are_a_share_of_one() {
    for edition in [Edition::LinuxV3, Edition::LinuxV2] {
        let alpha_after = |marks: u32| {
            let mut d = of(edition, Phase::ProbeBwCruise);
            (d.bbr.p.ecn_max_rtt, d.bbr.ecn.alpha) = (0, 0);
            d.bbr.on_congestion_mark(u64::from(marks) << 32);
            d.round(1);
            d.bbr.ecn.alpha
        };
        assert!(alpha_after(0) == 0 && alpha_after(u32::MAX) > 0, "{edition:?}");
        assert_eq!(alpha_after(1), alpha_after(u32::MAX), "{edition:?}");
    }
}

// spec: google/bbr v3 bbr_check_ecn_too_high_in_startup
#[test]
fn marks_end_startup_unless_it_is_switched_off_or_the_path_is_long() {
    let ends = |edition: Edition, edit: fn(&mut Bbr3Params)| {
        let mut d = of(edition, Phase::Startup);
        d.bbr.full_pipe.reached = false;
        d.bbr.p.ecn_max_rtt = 0;
        edit(&mut d.bbr.p);
        for _ in 0..3 {
            d.bbr.on_congestion_mark(1);
            d.round(40);
        }
        d.bbr.full_pipe.reached && d.bbr.bounds.inflight_longterm < INFINITY
    };
    assert!(ends(Edition::LinuxV3, |_| {}) && ends(Edition::LinuxV2, |_| {}));
    assert!(!ends(Edition::LinuxV3, |p| p.full_ecn_cnt = 0));
    assert!(!ends(Edition::LinuxV3, |p| p.ecn_thresh = 0));
    assert!(!ends(Edition::LinuxV2, |p| p.ecn_max_rtt = 5_000));
}

// spec: google/bbr v3 bbr_is_inflight_too_high
#[test]
fn an_ecn_threshold_of_zero_makes_a_probe_ignore_marks() {
    for (thresh, state) in [(0, State::ProbeBwUp), (12_800, State::ProbeBwDown)] {
        let mut d = of(Edition::LinuxV3, UP);
        d.bbr.ecn.eligible = true;
        d.bbr.p.ecn_thresh = thresh;
        d.bbr.probe.is_bw_probe_sample = true;
        d.ack_with(1, |_, flight| flight.delivered_ce = 30);
        assert_eq!(d.state(), state);
    }
}

// spec: google/bbr v2alpha bbr2_adapt_lower_bounds
#[test]
fn v2_lowers_its_bounds_on_marks_only_with_eligible_ecn_and_a_nonzero_factor() {
    for (in_round, eligible, factor, cuts) in
        [(true, true, 8_500, true), (false, true, 8_500, false), (true, false, 8_500, false), (true, true, 0, false)]
    {
        let mut d = of(Edition::LinuxV2, Phase::ProbeBwCruise);
        (d.bbr.ecn.in_round, d.bbr.ecn.eligible, d.bbr.p.ecn_factor) = (in_round, eligible, factor);
        assert_eq!(d.bbr.ecn_lower_bounds().1 < INFINITY, cuts, "{in_round} {eligible} {factor}");
    }
}

// spec: google/bbr v3 bbr_check_loss_too_high_in_startup
#[test]
fn once_the_pipe_was_full_losses_set_no_bound_by_startups_rule() {
    let mut d = of(Edition::LinuxV3, Phase::ProbeBwCruise);
    for n in 0..7 {
        d.lose(2 * n, 100, 1);
        d.ca_state(CaState::Recovery);
        d.ack_with(1, |ack, _| ack.rs.losses = 1);
    }
    d.round_with(|_, flight| *flight = FlightSample { tx_in_flight: 100, lost: 6, ..FlightSample::default() });
    assert_eq!(d.bbr.bounds.inflight_longterm, INFINITY);
}

// spec: google/bbr v3 bbr_set_state: after a time-out alone
#[test]
fn linux_gives_the_window_back_after_a_time_out_and_not_after_fast_recovery() {
    for (left, window) in [(CaState::Loss, 80), (CaState::Recovery, 10)] {
        let mut d = of(Edition::LinuxV3, Phase::ProbeBwCruise);
        d.bbr.undo.prior_cwnd = 80;
        d.bbr.put_cwnd(10);
        (d.ca_state, d.bbr.prev_ca_state) = (left, left);
        d.ca_state(CaState::Open);
        assert_eq!(d.bbr.cwnd(), window, "{left:?}");
    }
}

#[test]
fn a_time_out_is_an_episode_of_its_own_if_it_is_the_first_and_follows_a_recovery() {
    for (first, before, saved) in
        [(true, CaState::Recovery, 30_000), (false, CaState::Recovery, 60_000), (true, CaState::Open, 60_000)]
    {
        let mut d = Driver::in_state(Phase::ProbeBwCruise);
        d.bbr.bounds.inflight_longterm = 60 * PACKET;
        d.lose(1, 100, 1);
        d.bbr.bounds.inflight_longterm = 30 * PACKET;
        d.bbr.prev_ca_state = before;
        d.rto(3, first);
        assert_eq!(d.bbr.snapshot().undo.inflight_longterm, Some(saved), "{first} {before:?}");
    }
}

// spec: google/bbr v3 bbr_set_state
#[test]
fn a_time_out_of_linux_sets_a_bound_where_there_is_none_and_it_does_not_probe() {
    for (state, before, after) in
        [(Phase::ProbeBwCruise, INFINITY, 80), (Phase::ProbeBwCruise, 50, 50), (UP, INFINITY, INFINITY)]
    {
        let mut d = of(Edition::LinuxV3, state);
        d.bbr.bounds.inflight_shortterm = before;
        d.rto(3, true);
        assert_eq!(d.bbr.bounds.inflight_shortterm, after, "{state:?}");
    }
}

#[test]
fn only_linux_rejects_the_rtt_of_a_delayed_ack() {
    for (edition, delayed, believed) in
        [(Edition::Draft06, true, true), (Edition::LinuxV3, true, false), (Edition::LinuxV3, false, true)]
    {
        let mut d = of(edition, Phase::ProbeBwCruise);
        d.ack_with(6_000_000, |ack, _| (ack.rs.rtt_us, ack.rs.is_ack_delayed) = (Some(80_000), delayed));
        assert_eq!(d.bbr.min_rtt.probe_rtt_min_delay_us == 80_000, believed, "{edition:?} {delayed}");
    }
}

// spec: google/bbr v3 bbr_main, bbr_run_fast_path; v2alpha bbr2_main
#[test]
fn the_fast_path_of_linux_keeps_the_latest_signals_and_that_of_v2_does_not() {
    for (edition, latest) in [(Edition::LinuxV3, 10), (Edition::LinuxV2, 0)] {
        let mut d = of(edition, Phase::ProbeBwCruise);
        d.bbr.out.try_fast_path = true;
        d.ack_with(1_000, |ack, _| (ack.rs.is_app_limited, ack.rs.delivered) = (true, Some(10)));
        assert_eq!(d.bbr.model.inflight_latest, latest, "{edition:?}");
    }
}

#[test]
fn a_sample_as_high_as_the_estimate_is_no_case_for_the_fast_path() {
    for (delivered, counted) in [(39, 0), (40, 1)] {
        let mut d = of(Edition::LinuxV3, Phase::ProbeBwCruise);
        d.bbr.set_max_bw([(40 * BW_UNIT).div_ceil(RTT_US); 2]);
        d.bbr.out.try_fast_path = true;
        d.ack_with(1_000, |ack, _| (ack.rs.is_app_limited, ack.rs.delivered) = (true, Some(delivered)));
        assert_eq!(d.bbr.aggregation.delivered, counted);
    }
}

#[test]
fn the_hosts_bound_stays_in_packets_when_they_grow() {
    let mut d = Driver::with(&Bbr3Params::default(), Edition::Draft06, |init| init.cwnd_clamp = 100);
    d.bbr.on_mss(2_000);
    assert_eq!(d.bbr.host.cwnd_clamp(), 200_000);
}

#[test]
fn a_probe_is_cautious_only_after_one_that_went_too_far_and_at_the_bound() {
    for (too_high, bound, state) in
        [(false, 40, State::ProbeBwUp), (true, 60, State::ProbeBwUp), (true, 40, State::ProbeBwDown)]
    {
        let mut d = Driver::in_state(UP);
        d.bbr.bounds.inflight_longterm = bound * PACKET;
        d.bbr.probe.prev_probe_too_high = too_high;
        d.ack(1);
        assert_eq!(d.state(), state, "{too_high} {bound}");
    }
}

// spec: Linux GSO_LEGACY_MAX_SIZE - 1 - MAX_TCP_HEADER
#[test]
fn the_largest_burst_of_linux_is_65215_bytes() {
    let mut d = Driver::with(&Driver::params(Edition::LinuxV3), Edition::LinuxV3, |init| init.mss = 1);
    d.bbr.out.pacing_rate = 1 << 40;
    d.bbr.set_send_quantum();
    assert_eq!(d.bbr.out.send_quantum, 65_215);
}

#[test]
fn a_low_sample_of_the_application_does_not_fill_an_empty_slot() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.set_max_bw([RATE, 0]);
    d.ack_with(1, |ack, _| (ack.rs.is_app_limited, ack.rs.delivered) = (true, Some(10)));
    assert_eq!(d.bbr.model.max_bw_filter(), [RATE, 0]);
}
