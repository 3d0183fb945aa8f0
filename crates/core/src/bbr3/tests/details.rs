//! Tests added after mutations of the sources that no earlier test had detected.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

fn of(edition: Edition, state: Phase) -> Driver {
    Driver::of(edition).moved_to(state)
}

#[test]
fn without_a_gain_there_is_no_allowance_for_aggregated_acks() {
    for (gain, allowed) in [(0, 0), (UNIT, 29 * PACKET)] {
        let mut d = Driver::in_state(Phase::ProbeBwCruise);
        d.bbr.p.extra_acked_gain = gain;
        d.bbr.aggregation.restart(d.now_us);
        d.ack_with(1_000, |ack, _| ack.rs.acked_sacked = 30);
        assert!(d.bbr.aggregation.extra_acked.abs_diff(allowed) <= PACKET, "{}", d.bbr.aggregation.extra_acked);
    }
}

#[test]
fn an_ack_of_nothing_new_does_not_end_an_epoch_of_aggregation() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.aggregation.delivered = 7;
    d.ack_with(1_000_000, |ack, _| ack.rs.acked_sacked = 0);
    assert_eq!(d.bbr.aggregation.delivered, 7);
}

// spec: google/bbr v3 bbr_extra_acked, bbr_update_ack_aggregation
#[test]
fn linux_remembers_aggregation_for_two_buckets_of_five_rounds() {
    let mut d = of(Edition::LinuxV3, Phase::ProbeBwCruise);
    d.bbr.probe.bw_probe_wait = Span::secs(100);
    d.bbr.p.bw_probe_max_rounds = 1_000;
    d.bbr.put_cwnd(40);
    d.ack_with(1_000, |ack, _| ack.rs.acked_sacked = 30);
    assert!((29..=30).contains(&d.bbr.aggregation.extra_acked), "{}", d.bbr.aggregation.extra_acked);
    let mut rounds = 0;
    while d.bbr.aggregation.extra_acked > 20 && rounds < 20 {
        d.round_with(|ack, _| ack.rs.delivered = Some(30));
        rounds += 1;
    }
    assert_eq!(rounds, 10, "the bucket in which it was seen, and the next");
}

// spec: google/bbr v3 bbr_ack_aggregation_cwnd; the draft has no such cap
#[test]
fn linux_caps_the_allowance_at_100_ms_of_the_estimate() {
    for (edition, allowed) in [(Edition::LinuxV3, 99), (Edition::Draft06, 500 * PACKET)] {
        let mut d = of(edition, Phase::ProbeBwCruise);
        d.bbr.aggregation.extra_acked = 500 * d.bbr.smss();
        assert_eq!(d.bbr.extra_acked(), allowed, "{edition:?}");
    }
}

// spec: google/bbr v3 bbr_ack_epoch_acked_reset_thresh
#[test]
fn linux_ends_an_epoch_of_a_million_packets() {
    for (before, after) in [((1 << 20) - 5, 5), ((1 << 20) - 6, (1 << 20) - 1)] {
        let mut d = of(Edition::LinuxV3, Phase::ProbeBwCruise);
        d.bbr.aggregation.restart(d.now_us);
        d.bbr.aggregation.delivered = before;
        d.ack_with(1_000, |ack, _| ack.rs.acked_sacked = 5);
        assert_eq!(d.bbr.aggregation.delivered, after);
    }
}

#[test]
fn v2_makes_bursts_of_one_packet_below_1_2_mbit() {
    for (edition, rate, segs) in
        [(Edition::LinuxV2, 149_999, 1), (Edition::LinuxV2, 150_000, 2), (Edition::LinuxV3, 149_999, 2)]
    {
        let mut d = Driver::of(edition);
        d.bbr.out.pacing_rate = rate;
        assert_eq!(d.bbr.min_tso_segs(), segs);
    }
}

#[test]
fn a_snapshot_is_in_256ths_and_packets() {
    let mut d = Driver::new();
    let snapshot = d.bbr.snapshot();
    assert_eq!((snapshot.pacing_gain, snapshot.cwnd_gain, snapshot.extra_acked), (709, 512, 0));
    assert_eq!(snapshot.min_rtt, Some(Span::micros(RTT_US)));
    d.bbr.aggregation.extra_acked = 3 * PACKET;
    (d.bbr.gains.pacing, d.bbr.min_rtt.min_rtt_us) = (50, INFINITY);
    let snapshot = d.bbr.snapshot();
    assert_eq!((snapshot.pacing_gain, snapshot.extra_acked, snapshot.min_rtt), (1, 3, None), "half a 256th is one");
}

#[test]
fn linux_rounds_up_only_what_does_not_divide() {
    let mut d = Driver::of(Edition::LinuxV3);
    d.ack_with(RTT_US, |ack, _| (ack.rs.delivered, ack.rs.interval_us) = (Some(10), Some(1 << 15)));
    assert_eq!(d.bbr.model.max_bw(), 10 << 9);
}

// spec: google/bbr v3 bbr_update_congestion_signals: no observation
#[test]
fn linux_has_no_use_for_a_sample_without_a_rate_or_of_old_packets() {
    for (interval_us, acked, counts) in [(None, 1, false), (Some(RTT_US), 0, false), (Some(RTT_US), 1, true)] {
        let mut d = Driver::of(Edition::LinuxV3);
        d.ack_with(RTT_US, |ack, _| (ack.rs.interval_us, ack.rs.acked_sacked) = (interval_us, acked));
        assert_eq!(d.bbr.model.rounds.count > 0, counts, "{interval_us:?} {acked}");
    }
}

#[test]
fn probe_rtt_has_half_the_window_by_its_gain_and_in_linux_by_its_cap() {
    for (edition, gain) in [(Edition::Draft06, UNIT / 2), (Edition::LinuxV3, UNIT)] {
        let d = of(edition, Phase::ProbeRtt { done_stamp: None, round_done: false });
        assert_eq!((d.bbr.gains.pacing, d.bbr.gains.cwnd), (UNIT, gain), "{edition:?}");
    }
}

/// Cruising after a cycle with marks and no loss, with a long-term bound of a hundred packets.
fn marked_cycle(edition: Edition) -> Driver {
    let mut d = of(edition, Phase::ProbeBwCruise);
    d.bbr.p.ecn = 1;
    d.bbr.p.ecn_max_rtt = 0;
    d.bbr.bounds.inflight_longterm = 100;
    d.bbr.ecn.eligible = true;
    d.ack_with(1_000, |_, flight| flight.delivered_ce = 1);
    d
}

// spec: google/bbr v3 bbr_check_time_to_probe_bw, bbr_ecn_reprobe_gain
#[test]
fn once_marks_cease_without_loss_linux_probes_again_and_begins_with_half_of_what_fits() {
    let mut d = marked_cycle(Edition::LinuxV3);
    d.ack(1_000);
    assert_eq!(d.bbr.phase, Phase::ProbeBwRefill { up_rounds: 5 }, "2^5 is the power below 50");
    let mut d = marked_cycle(Edition::LinuxV3);
    d.ca_state = CaState::Cwr;
    d.ack(1_000);
    assert_eq!(d.state(), State::ProbeBwCruise, "not while it answers to marks");
    let mut d = marked_cycle(Edition::LinuxV3);
    d.bbr.ecn.loss_in_cycle = true;
    d.ack(1_000);
    assert_eq!(d.state(), State::ProbeBwCruise, "not after loss");
    let mut d = marked_cycle(Edition::LinuxV2);
    d.ack(1_000);
    assert_eq!(d.state(), State::ProbeBwCruise, "v2alpha has it switched off");
}

#[test]
fn an_ack_brings_its_loss_and_its_marks_to_the_cycle_of_linux() {
    for (lost, marked) in [(0, 0), (1, 0), (0, 1)] {
        let mut d = of(Edition::LinuxV3, Phase::ProbeBwCruise);
        d.ack_with(1_000, |_, flight| (flight.lost, flight.delivered_ce) = (lost, marked));
        assert_eq!((d.bbr.ecn.loss_in_cycle, d.bbr.ecn.in_cycle), (lost > 0, marked > 0));
    }
}

#[test]
fn exactly_the_threshold_of_loss_or_of_marks_is_not_too_much() {
    for (lost, state) in [(2, State::ProbeBwUp), (3, State::ProbeBwDown)] {
        let mut d = Driver::in_state(UP);
        d.bbr.probe.is_bw_probe_sample = true;
        d.lose(1, 100, lost);
        assert_eq!(d.state(), state, "{lost} of 100");
    }
    for (marked, goes_on) in [(2, true), (3, false)] {
        let mut d = Driver::in_state(UP);
        d.bbr.probe.is_bw_probe_sample = true;
        d.ack_with(1, |_, flight| (flight.tx_in_flight, flight.delivered_ce) = (100, marked));
        assert_eq!(d.state() == State::ProbeBwUp, goes_on, "{marked} of 100");
    }
}

// spec: google/bbr v2alpha bbr2_is_inflight_too_high: at the threshold already, if there are marks at all
#[test]
fn half_of_the_packets_marked_is_too_many_for_v2_and_none_is_not() {
    for (delivered, marked, state) in
        [(40, 20, State::ProbeBwDown), (40, 19, State::ProbeBwUp), (1, 0, State::ProbeBwUp)]
    {
        let mut d = of(Edition::LinuxV2, UP);
        d.bbr.p.ecn = 1;
        d.bbr.ecn.eligible = true;
        d.bbr.probe.is_bw_probe_sample = true;
        d.ack_with(1, |ack, flight| (ack.rs.delivered, flight.delivered_ce) = (Some(delivered), marked));
        assert_eq!(d.state(), state, "{marked} of {delivered}");
    }
}

#[test]
fn losses_reported_only_as_a_count_are_loss_events() {
    let mut d = Driver::new();
    d.round(100);
    for _ in 0..6 {
        d.bbr.on_loss(d.volume());
    }
    d.ca_state(CaState::Recovery);
    d.round_with(|_, flight| *flight = FlightSample { tx_in_flight: 100, lost: 6, ..FlightSample::default() });
    assert!(d.bbr.full_pipe.reached);
}

// spec: Linux tcp_enter_recovery calls ssthresh() only when no reduction is under way
#[test]
fn a_recovery_out_of_a_reduction_saves_nothing_again() {
    let mut d = of(Edition::LinuxV3, Phase::ProbeBwCruise);
    d.ca_state(CaState::Cwr);
    assert_eq!(d.bbr.undo.prior_cwnd, 80);
    d.bbr.put_cwnd(50);
    d.bbr.undo.prior_cwnd = 0;
    d.ca_state(CaState::Recovery);
    assert_eq!(d.bbr.undo.prior_cwnd, 0);
}

#[test]
fn a_reduction_by_marks_is_no_loss_to_be_undone_in_the_drafts_edition() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.bounds.inflight_longterm = 60 * PACKET;
    d.ca_state(CaState::Cwr);
    assert_eq!(d.bbr.snapshot().undo, Bounds::default());
}

#[test]
fn the_window_comes_back_when_recovery_is_left_and_not_from_one_kind_to_the_other() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.rto(3, true);
    d.ca_state = CaState::Loss;
    d.ca_state(CaState::Recovery);
    assert_eq!(d.bbr.cwnd(), 4);
    d.ca_state(CaState::Open);
    assert_eq!(d.bbr.cwnd(), 80);
}

#[test]
fn an_episode_that_never_became_a_recovery_is_over_with_its_round() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.bounds.inflight_longterm = 60 * PACKET;
    d.lose(1, 100, 1);
    assert_ne!(d.bbr.snapshot().undo, Bounds::default());
    d.round(40);
    assert_eq!(d.bbr.snapshot().undo, Bounds::default());
}

#[test]
fn cruising_lowers_the_short_term_bound_to_the_other_in_linux_alone_and_only_where_there_is_one() {
    for (edition, shortterm, after) in [
        (Edition::LinuxV3, INFINITY, INFINITY),
        (Edition::LinuxV3, 70, 60),
        (Edition::Draft06, 70 * PACKET, 70 * PACKET),
    ] {
        let mut d = of(edition, Phase::ProbeBwDown);
        d.bbr.bounds.inflight_longterm = 60 * d.bbr.smss();
        d.bbr.bounds.inflight_shortterm = shortterm;
        d.bbr.start_probe_bw_cruise(Cause::Drained);
        assert_eq!(d.bbr.bounds.inflight_shortterm, after, "{edition:?}");
    }
}

// spec: google/bbr v3 bbr_adapt_upper_bounds; in the draft each loss has been judged by itself
#[test]
fn the_loss_that_an_ack_sums_up_ends_a_probe_of_linux_only_if_its_samples_are_of_the_probe() {
    for (edition, of_probe, state) in [
        (Edition::LinuxV3, true, State::ProbeBwDown),
        (Edition::LinuxV3, false, State::ProbeBwUp),
        (Edition::Draft06, true, State::ProbeBwUp),
    ] {
        let mut d = of(edition, UP);
        d.bbr.probe.is_bw_probe_sample = of_probe;
        d.ack_with(1, |_, flight| flight.lost = 9);
        assert_eq!(d.state(), state, "{edition:?} {of_probe}");
    }
}

#[test]
fn an_ack_without_data_moves_the_cycle_of_linux_alone() {
    for (edition, state) in [(Edition::LinuxV3, State::ProbeBwRefill), (Edition::Draft06, State::ProbeBwCruise)] {
        let mut d = of(edition, Phase::ProbeBwCruise);
        d.ack_with(4_000_000, |ack, _| (ack.rs.delivered, ack.rs.interval_us, ack.rs.acked_sacked) = (None, None, 0));
        assert_eq!(d.state(), state, "{edition:?}");
    }
}

// spec: google/bbr v2alpha bbr2_update_cycle_phase: both a minimum RTT and the volume
#[test]
fn v2_probes_for_a_minimum_rtt_at_least() {
    let mut d = of(Edition::LinuxV2, UP);
    d.ack_with(RTT_US / 2, |ack, _| ack.rs.prior_in_flight = 70);
    assert_eq!(d.state(), State::ProbeBwUp);
    d.ack_with(RTT_US, |ack, _| ack.rs.prior_in_flight = 70);
    assert_eq!(d.state(), State::ProbeBwDown);
}

// spec: google/bbr v3 bbr_tso_segs_generic
#[test]
fn a_burst_of_linux_is_a_1024th_of_a_second_and_more_on_short_paths() {
    for (rate, rtt_us, segs) in [
        (10_240_000, 40_000, 10),
        (10_240_000, 512, 42), // and half of 64 kB
        (100_000_000, 512, 65),
        (1_024_000, 40_000, 2),
    ] {
        let mut d = Driver::of(Edition::LinuxV3);
        (d.bbr.out.pacing_rate, d.bbr.min_rtt.min_rtt_us) = (rate, rtt_us);
        d.bbr.set_send_quantum();
        assert_eq!(d.bbr.out.send_quantum, segs, "{rate} bytes/s, {rtt_us} us");
    }
    let mut d = Driver::of(Edition::LinuxV3);
    (d.bbr.out.pacing_rate, d.bbr.p.send_quantum_time) = (10_240_000, 2_000);
    d.bbr.set_send_quantum();
    assert_eq!(d.bbr.out.send_quantum, 20, "or the time that was asked for");
}

#[test]
fn a_rate_beyond_64_bits_of_its_product_is_still_a_rate() {
    let d = Driver::new();
    assert_eq!(d.bbr.rate_bytes_per_sec(1_000_000 * BW_UNIT, 2 * UNIT, 0), 2_000_000_000_000);
}

#[test]
fn only_the_first_rtt_sets_the_first_rate() {
    let mut d = Driver::new();
    let first = d.bbr.out.pacing_rate;
    d.ack_with(2 * RTT_US, |ack, _| {
        (ack.srtt, ack.rs.delivered) = (Some(Span::micros(2 * RTT_US)), Some(1));
    });
    assert_eq!(d.bbr.out.pacing_rate, first);
}

// spec: google/bbr v3 bbr_update_min_rtt: "<=" for the longer filter; v2alpha for both
#[test]
fn an_equal_rtt_renews_the_long_filter_in_linux_and_both_in_v2() {
    for (edition, renews_long, renews_short) in
        [(Edition::Draft06, false, false), (Edition::LinuxV3, true, false), (Edition::LinuxV2, true, true)]
    {
        let mut d = of(edition, Phase::ProbeBwCruise);
        let start = d.bbr.min_rtt.min_rtt_stamp;
        d.bbr.min_rtt.probe_rtt_min_stamp += 10;
        let short = d.bbr.min_rtt.probe_rtt_min_stamp;
        d.ack(200_000);
        assert_eq!(d.bbr.min_rtt.min_rtt_stamp > start, renews_long, "{edition:?}");
        assert_eq!(d.bbr.min_rtt.probe_rtt_min_stamp > short, renews_short, "{edition:?}");
    }
}

/// Goal: skipped samples would have changed nothing.
#[test]
fn rtts_that_are_not_taken_would_have_changed_nothing() {
    for edition in [Edition::Draft06, Edition::LinuxV3, Edition::LinuxV2] {
        let mut rng = crate::Rng::new(7);
        let (mut d, mut patient) = (of(edition, Phase::ProbeBwCruise), of(edition, Phase::ProbeBwCruise));
        for _ in 0..20_000 {
            let (after, rtt_us, in_flight) = (rng.below(1_000_000), 40_000 + rng.below(4), 1 + rng.below(40));
            patient.bbr.min_rtt.quiet_until = Time::ZERO; // it takes every sample
            let found = [&mut d, &mut patient].map(|d| {
                d.now_us += after;
                d.round_with(|ack, _| (ack.rs.rtt_us, ack.in_flight) = (Some(rtt_us), in_flight));
                let found = &d.bbr.min_rtt;
                let short = (found.probe_rtt_min_delay_us, found.probe_rtt_min_stamp, found.probe_rtt_expired);
                (d.state(), found.min_rtt_us, found.min_rtt_stamp, short)
            });
            assert_eq!(found[0], found[1], "{edition:?} at {} us", d.now_us);
        }
    }
}

#[test]
fn the_minimum_rtt_lives_for_ten_seconds_and_not_less() {
    for (after_us, rtt_us) in [(10_000_000, RTT_US), (10_000_001, 50_000)] {
        let mut d = Driver::in_state(Phase::ProbeBwCruise);
        (d.bbr.min_rtt.probe_rtt_min_delay_us, d.bbr.min_rtt.probe_rtt_min_stamp) = (50_000, d.now_us + 9_000_000);
        d.ack_with(after_us, |ack, _| ack.rs.rtt_us = Some(60_000));
        assert_eq!(d.bbr.min_rtt.min_rtt_us, rtt_us);
    }
}

#[test]
fn a_restart_from_idle_lasts_until_something_is_delivered() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.idle_restart = true;
    d.ack_with(1, |ack, _| ack.rs.delivered = None);
    assert!(d.bbr.idle_restart);
    d.ack(1);
    assert!(!d.bbr.idle_restart);
}

/// Runs a round of recovery in Startup with this number of losses, after `edit`; true if that ended Startup.
fn startup_ends(edition: Edition, losses: u64, edit: impl FnOnce(&mut Flow)) -> bool {
    let mut d = Driver::of(edition);
    d.round(100);
    edit(&mut d.bbr);
    for n in 0..6 {
        d.lose(2 * n, 100, 1);
        d.ca_state(CaState::Recovery);
        d.ack_with(1, |ack, _| ack.rs.losses = losses);
    }
    d.round_with(|_, flight| *flight = FlightSample { tx_in_flight: 100, lost: 6, ..FlightSample::default() });
    d.bbr.full_pipe.reached
}

#[test]
fn high_loss_ends_startup_unless_it_is_switched_off_or_nothing_was_measured() {
    for edition in [Edition::Draft06, Edition::LinuxV3] {
        assert!(startup_ends(edition, 1, |_| {}), "{edition:?}");
        assert!(!startup_ends(edition, 1, |bbr| bbr.p.startup_full_loss_cnt = 0), "{edition:?}");
    }
    assert!(!startup_ends(Edition::LinuxV3, 0, |_| {}), "Linux counts ACKs with losses, and there was none");
}

#[test]
fn without_selective_acks_any_loss_in_recovery_ends_startup() {
    for (losses, told, ends) in [(0, false, false), (1, false, true), (0, true, true)] {
        let mut d = Driver::with(&Bbr3Params::default(), Edition::Draft06, |init| init.selective_acks = false);
        d.round(100);
        if told {
            d.lose(1, 100, 1);
        }
        d.ca_state(CaState::Recovery);
        d.ack_with(1, |ack, _| ack.rs.losses = losses);
        assert_eq!(d.bbr.full_pipe.reached, ends, "{losses} {told}");
    }
}

#[test]
fn a_loss_before_any_rate_was_measured_does_not_end_startup() {
    let mut d = Driver::with(&Bbr3Params::default(), Edition::Draft06, |init| init.selective_acks = false);
    d.ca_state(CaState::Recovery);
    d.ack_with(1, |ack, _| (ack.rs.losses, ack.rs.interval_us) = (1, None));
    assert!(!d.bbr.full_pipe.reached);
}

#[test]
fn the_long_term_bound_grows_from_a_window_that_has_reached_it_and_from_none_below() {
    for (below, grows) in [(0, true), (PACKET, false)] {
        let mut d = Driver::in_state(UP);
        d.cwnd_limited = true;
        d.bbr.bounds.inflight_longterm = 60 * PACKET;
        d.bbr.growth().acked_per_inc = PACKET;
        d.bbr.put_cwnd(60 * PACKET - below);
        d.ack(1);
        assert_eq!(d.bbr.bounds.inflight_longterm > 60 * PACKET, grows);
    }
}

// spec: google/bbr v3 bbr_set_cwnd: only caps without newly acknowledged packets
#[test]
fn an_ack_of_nothing_new_leaves_the_window_of_linux_alone() {
    for (edition, is_cut) in [(Edition::LinuxV3, false), (Edition::Draft06, true)] {
        let mut d = of(edition, Phase::ProbeBwCruise);
        d.bbr.put_cwnd(500 * d.bbr.smss());
        d.ack_with(1, |ack, _| ack.rs.acked_sacked = 0);
        assert_eq!(d.bbr.cwnd() < 500, is_cut, "{edition:?}");
    }
}

// spec: google/bbr v3 bbr_packets_in_net_at_edt
#[test]
fn linux_counts_the_next_burst_as_in_flight_only_with_a_gain_above_one() {
    for (state, inflight) in [(Phase::ProbeBwCruise, 40), (UP, 42)] {
        let d = of(Edition::LinuxV3, state);
        let ack = Ack { now: Time::micros(d.now_us), ..Ack::default() };
        assert_eq!(d.bbr.in_net_at_edt(&ack, 40), inflight, "{state:?}");
    }
}

#[test]
fn in_startup_a_window_at_its_target_stops_growing_after_the_first_deliveries() {
    let ack = Ack {
        delivered: 1_000,
        rs: crate::estimators::RateSample { acked_sacked: 1, ..Default::default() },
        ..Ack::default()
    };
    for edition in [Edition::Draft06, Edition::LinuxV3] {
        for (below, grows) in [(0, false), (1, true)] {
            let mut d = of(edition, Phase::Startup);
            d.bbr.full_pipe.reached = false;
            d.bbr.make_plan(None);
            let target = d.bbr.bdp_multiple(d.bbr.model.max_bw(), 2 * UNIT);
            d.bbr.put_cwnd(target - below);
            d.bbr.set_cwnd(&d.scaled(&ack));
            assert_eq!(d.bbr.out.cwnd > target - below, grows, "{edition:?} {below}");
        }
    }
}

// spec: google/bbr v3 bbr_set_cwnd; twice the initial window
#[test]
fn linux_lets_a_small_window_grow_beyond_its_target() {
    for (window, grows) in [(19, true), (20, false)] {
        let mut d = of(Edition::LinuxV3, Phase::Startup);
        d.bbr.full_pipe.reached = false;
        d.bbr.set_max_bw([BW_UNIT / 10_000; 2]);
        d.bbr.make_plan(None);
        d.bbr.put_cwnd(window);
        let ack = Ack { rs: crate::estimators::RateSample { acked_sacked: 1, ..Default::default() }, ..Ack::default() };
        d.bbr.set_cwnd(&d.scaled(&ack));
        assert_eq!(d.bbr.out.cwnd > window, grows, "{window}");
    }
}

#[test]
fn no_single_ack_counts_more_of_an_epoch_than_linux_has_bits_for() {
    let mut d = of(Edition::LinuxV3, Phase::ProbeBwCruise);
    d.ack_with(1_000, |ack, _| ack.rs.acked_sacked = (1 << 20) + 5);
    assert_eq!(d.bbr.aggregation.delivered, (1 << 20) - 1);
}

#[test]
fn an_ack_without_a_mark_marks_no_round() {
    let mut d = marked_cycle(Edition::LinuxV3);
    assert!(!d.bbr.ecn.in_round, "a packet of its flight was marked, the ACK itself reports nothing");
    d.ack_with(1, |_, flight| flight.is_ece = true);
    assert!(d.bbr.ecn.in_round);
}
