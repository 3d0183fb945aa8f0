//! Differences of Linux's v3, v2alpha and the prototype of 2017 from the draft, beyond parameters.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

fn linux(state: Phase) -> Driver {
    Driver::of(Edition::LinuxV3).moved_to(state)
}

/// The draft's numbers, repeated in its own units.
#[test]
fn the_drafts_constants_are_its_own() {
    let p = Bbr3Params::default();
    let per_cent = |value: u32| {
        assert_eq!(value * 100 % UNIT, 0, "{value} is a whole per cent");
        value * 100 / UNIT
    };
    assert_eq!([p.startup_pacing_gain, p.drain_pacing_gain, p.default_cwnd_gain].map(per_cent), [277, 50, 200]);
    assert_eq!([p.loss_thresh, p.beta, p.headroom].map(per_cent), [2, 70, 15]);
    assert_eq!([p.probe_down_pacing_gain, p.probe_rtt_cwnd_gain].map(per_cent), [90, 50]);
    assert_eq!((p.min_pipe_cwnd, p.pacing_margin_percent, p.startup_full_loss_cnt), (4, 1, 6));
    assert_eq!((p.extra_acked_filter_len, p.probe_rtt_duration), (10, 200_000));
    assert_eq!((p.probe_rtt_interval, p.min_rtt_filter_len), (5_000_000, 10_000_000));
}

#[test]
fn the_kernels_constants_are_exact_in_256ths() {
    let p = Driver::of(Edition::LinuxV3).bbr.p;
    for (value, of_256) in [
        (p.startup_pacing_gain, 710),
        (p.drain_pacing_gain, 88),
        (p.probe_down_pacing_gain, 232),
        (p.loss_thresh, 5),
        (p.beta, 180),
        (p.headroom, 38),
        (p.ecn_factor, 85),
    ] {
        assert_eq!(value, of_256 * 100);
        for volume in [1_u64, 97, 65_535, 1 << 40] {
            assert_eq!(scaled(volume, value), (volume * u64::from(of_256)) >> 8);
        }
    }
}

#[test]
fn linux_counts_packets_and_rounds_rates_up() {
    let mut d = Driver::of(Edition::LinuxV3);
    d.ack_with(RTT_US, |ack, _| ack.rs.delivered = Some(1));
    assert_eq!(d.bbr.model.max_bw(), BW_UNIT.div_ceil(RTT_US));
    assert_eq!((d.bbr.cwnd(), d.bbr.cwnd_bytes()), (11, 11_000));
}

#[test]
fn linux_takes_a_higher_rate_as_baseline_at_any_ack() {
    let mut d = Driver::of(Edition::LinuxV3);
    d.round(40);
    d.ack_with(1, |ack, _| ack.rs.delivered = Some(60));
    assert_eq!(d.bbr.full_pipe.plateau.bw, (60 * BW_UNIT).div_ceil(RTT_US));
    let mut draft = Driver::new();
    draft.round(40);
    draft.ack_with(1, |ack, _| ack.rs.delivered = Some(60));
    assert_eq!(draft.bbr.full_pipe.plateau.bw, RATE);
}

#[test]
fn linux_counts_acks_with_loss_as_events() {
    let mut d = Driver::of(Edition::LinuxV3);
    d.round(40);
    for n in 0..6 {
        d.lose(n, 100, 1);
        d.ca_state(CaState::Recovery);
        d.ack_with(1, |ack, _| ack.rs.losses = 1);
    }
    d.round_with(|_, flight| *flight = FlightSample { tx_in_flight: 100, lost: 6, ..FlightSample::default() });
    assert!(d.bbr.full_pipe.reached);
}

#[test]
fn linux_forgets_startups_signals_on_entering_drain() {
    let mut d = Driver::of(Edition::LinuxV3);
    d.bbr.full_pipe.reached = true;
    d.bbr.set_max_bw([BW_UNIT / 1_000; 2]);
    d.bbr.bounds.is_loss_in_round = true;
    d.ack_with(1, |ack, _| ack.in_flight = 100);
    assert_eq!((d.state(), d.bbr.model.inflight_latest), (State::Drain, 0));
    assert!(!d.bbr.bounds.is_loss_in_round);
}

#[test]
fn linux_has_no_limit_on_drain() {
    let mut d = linux(Phase::Drain { start_round: 0 });
    for _ in 0..20 {
        d.round_with(|ack, _| ack.in_flight = 70);
    }
    assert_eq!(d.state(), State::Drain);
}

#[test]
fn linux_reads_inflight_at_the_time_of_the_next_departure() {
    let mut d = linux(Phase::ProbeBwDown);
    d.ack_with(1, |ack, _| {
        ack.rs.prior_in_flight = 50;
        ack.edt = ack.now + Span::millis(5);
    });
    assert_eq!(d.state(), State::ProbeBwDown);
    d.ack_with(1, |ack, _| {
        ack.rs.prior_in_flight = 50;
        ack.edt = ack.now + Span::millis(11);
    });
    assert_eq!(d.state(), State::ProbeBwCruise);
}

#[test]
fn linux_keeps_the_short_term_bound_below_the_long_term_one_when_it_cruises() {
    let mut d = linux(Phase::ProbeBwDown);
    d.bbr.bounds.inflight_longterm = 45;
    d.bbr.bounds.inflight_shortterm = 60;
    d.ack_with(1, |ack, _| ack.rs.prior_in_flight = 10);
    assert_eq!((d.state(), d.bbr.bounds.inflight_shortterm), (State::ProbeBwCruise, 45));
}

#[test]
fn linux_rejects_the_rtt_of_a_delayed_ack_after_its_filter_expired() {
    let mut d = linux(Phase::ProbeBwCruise);
    d.ack_with(6_000_000, |ack, _| {
        ack.rs.rtt_us = Some(80_000);
        ack.rs.is_ack_delayed = true;
    });
    assert_eq!(d.bbr.min_rtt.probe_rtt_min_delay_us, RTT_US);
}

#[test]
fn linux_keeps_its_stamps_in_ticks() {
    let d = linux(Phase::ProbeBwCruise);
    assert_eq!(d.bbr.tick(Time::micros(7_999), None), 1);
}

#[test]
fn after_a_time_out_linux_bounds_what_follows_by_the_window_before() {
    let mut d = linux(Phase::ProbeBwCruise);
    d.rto(3, true);
    assert_eq!((d.bbr.out.cwnd, d.bbr.bounds.inflight_shortterm), (4, 80));
}

#[test]
fn linux_returns_to_no_state_after_an_undo() {
    let mut d = linux(UP);
    d.bbr.probe.is_bw_probe_sample = true;
    d.lose(1, 40, 3);
    d.ca_state(CaState::Recovery);
    d.bbr.on_undo(&d.bare());
    assert_eq!(d.state(), State::ProbeBwDown);
}

/// Runs this number of rounds with ECN on a short path, with every packet marked.
fn marked(rounds: u32, state: Phase) -> Driver {
    let mut d = linux(state);
    d.bbr.p.ecn = 1;
    d.bbr.p.ecn_max_rtt = 0;
    d.ca_state = CaState::Cwr;
    for _ in 0..rounds {
        d.bbr.on_congestion_mark(1);
        d.round_with(|ack, flight| {
            flight.is_ece = true;
            flight.delivered_ce = 40;
            ack.rs.prior_in_flight = 100;
        });
    }
    d
}

#[test]
fn linux_cuts_the_short_term_volume_by_a_third_of_the_share_of_marks() {
    let d = marked(1, Phase::ProbeBwCruise);
    assert_eq!(d.bbr.bounds.inflight_shortterm, scaled(80, FINE - 8_500), "alpha begins at 1");
    assert_eq!(d.bbr.bounds.bw_shortterm, INFINITY, "marks do not lower the rate");
}

#[test]
fn linux_stops_a_probe_that_is_marked_by_more_than_half() {
    let mut d = linux(UP);
    d.bbr.p.ecn = 1;
    d.bbr.p.ecn_max_rtt = 0;
    d.bbr.probe.is_bw_probe_sample = true;
    d.round_with(|_, flight| flight.delivered_ce = 20);
    assert_eq!(d.state(), State::ProbeBwUp);
    d.ack_with(1, |_, flight| flight.delivered_ce = 21);
    assert_eq!(d.state(), State::ProbeBwDown);
}

#[test]
fn linux_leaves_startup_after_two_rounds_marked_by_half() {
    let mut d = Driver::of(Edition::LinuxV3);
    d.bbr.p.ecn = 1;
    d.bbr.p.ecn_max_rtt = 0;
    for round in 1..=2 {
        assert_eq!(d.state(), State::Startup, "round {round}");
        d.bbr.on_congestion_mark(1);
        d.round_with(|_, flight| flight.is_ece = true);
    }
    assert!(d.bbr.full_pipe.reached);
}

#[test]
fn linux_ignores_marks_on_a_long_path_and_unless_the_route_is_known_for_them() {
    for (ecn, max_rtt) in [(0, 0), (1, 5_000)] {
        let mut d = linux(Phase::ProbeBwCruise);
        d.bbr.p.ecn = ecn;
        d.bbr.p.ecn_max_rtt = max_rtt;
        d.bbr.on_congestion_mark(1);
        d.round_with(|_, flight| flight.is_ece = true);
        assert_eq!(d.bbr.bounds.inflight_shortterm, INFINITY);
    }
}

#[test]
fn in_the_drafts_edition_a_round_with_marks_is_a_round_with_loss() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.round_with(|ack, flight| {
        flight.is_ece = true;
        ack.rs.delivered = Some(36);
    });
    assert_eq!(d.bbr.bounds.inflight_shortterm, 56 * PACKET);
}

#[test]
fn in_the_drafts_edition_marks_above_two_per_cent_stop_a_probe() {
    let mut d = Driver::in_state(UP);
    d.bbr.probe.is_bw_probe_sample = true;
    d.ack_with(1, |_, flight| flight.delivered_ce = 1);
    assert_eq!((d.state(), d.bbr.bounds.inflight_longterm), (State::ProbeBwDown, BDP));
}

#[test]
fn v2_leaves_up_once_a_quarter_more_than_the_bdp_is_in_flight() {
    let mut d = Driver::of(Edition::LinuxV2).moved_to(UP);
    for _ in 0..10 {
        d.round(40);
        assert_eq!(d.state(), State::ProbeBwUp, "a plateau is no reason");
    }
    d.ack_with(RTT_US, |ack, _| ack.rs.prior_in_flight = 50);
    assert_eq!(d.state(), State::ProbeBwUp, "with the burst that leaves next it is 52 of 53");
    d.ack_with(RTT_US, |ack, _| ack.rs.prior_in_flight = 51);
    assert_eq!(d.state(), State::ProbeBwDown);
}

#[test]
fn v2_leaves_startup_on_loss_with_the_bdp_alone() {
    let mut d = Driver::of(Edition::LinuxV2);
    d.bbr.set_max_bw([BW_UNIT / 1_000; 2]);
    d.bbr.model.inflight_latest = 500;
    d.bbr.leave_startup_by_congestion(Cause::Loss);
    assert_eq!(d.bbr.bounds.inflight_longterm, 40);
}

#[test]
fn the_prototype_waits_one_to_four_seconds_by_the_volume_of_the_path() {
    for (packets, wait_ms) in [(10, 1_000), (50, 2_000), (500, 4_000)] {
        let mut d = Driver::of(Edition::Ietf100).moved_to(Phase::ProbeBwCruise);
        d.bbr.set_max_bw([packets * BW_UNIT / RTT_US; 2]);
        d.bbr.pick_probe_wait();
        let wait = d.bbr.probe.bw_probe_wait.as_micros() / 1_000;
        assert!((wait_ms..=wait_ms + 40).contains(&wait), "{packets} packets: {wait} ms");
    }
}

#[test]
fn the_prototype_takes_15_per_cent_off_what_was_in_flight_at_five_per_cent_of_loss() {
    let mut d = Driver::of(Edition::Ietf100).moved_to(UP);
    d.bbr.probe.is_bw_probe_sample = true;
    d.lose(1, 100, 5);
    assert_eq!(d.state(), State::ProbeBwUp);
    d.lose(9, 100, 6);
    assert_eq!((d.state(), d.bbr.bounds.inflight_longterm), (State::ProbeBwDown, 84), "0.85 of 99");
}
