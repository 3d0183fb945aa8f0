//! Startup, Drain, ProbeRTT, idle restart.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

#[test]
fn startup_ends_after_three_rounds_without_a_quarter_more() {
    let mut d = Driver::new();
    for packets in [10, 20, 40, 49, 49] {
        d.round(packets);
        assert_eq!(d.state(), State::Startup, "{packets}");
    }
    assert_eq!(d.bbr.full_pipe.plateau.count, 2);
    d.round(49);
    assert!(d.bbr.full_pipe.reached && d.bbr.full_pipe.now);
    assert_ne!(d.state(), State::Startup);
}

#[test]
fn a_quarter_more_begins_the_count_anew() {
    let mut d = Driver::new();
    for packets in [40, 49, 49, 50] {
        d.round(packets);
    }
    assert_eq!((d.bbr.full_pipe.plateau.count, d.state()), (0, State::Startup));
}

#[test]
fn app_limited_rounds_never_end_startup() {
    let mut d = Driver::new();
    for _ in 0..50 {
        d.round_with(|ack, _| ack.rs.is_app_limited = true);
    }
    assert_eq!(d.state(), State::Startup);
}

#[test]
fn acks_within_a_round_do_not_count_as_rounds_without_growth() {
    let mut d = Driver::new();
    d.round(40);
    for _ in 0..50 {
        d.ack(10);
    }
    assert_eq!((d.bbr.full_pipe.plateau.count, d.state()), (0, State::Startup));
}

/// The draft's pseudo-code would take the missing rate for 0, and that for a plateau.
#[test]
fn samples_without_a_rate_are_not_a_plateau() {
    let mut d = Driver::new();
    d.round(40);
    for _ in 0..10 {
        d.round_with(|ack, _| ack.rs.interval_us = None);
    }
    assert_eq!((d.bbr.full_pipe.plateau.count, d.state()), (0, State::Startup));
}

/// Loses `gaps` separate packets in a round of recovery, which then ends.
fn lossy_round(d: &mut Driver, seqs: impl Iterator<Item = u64>, lost: u32) {
    for seq in seqs {
        d.lose(seq, 100, 1);
    }
    d.ca_state(CaState::Recovery);
    d.ack(1_000);
    d.round_with(|_, flight| {
        flight.tx_in_flight = 100;
        flight.lost = lost;
    });
}

#[test]
fn startup_ends_on_six_gaps_and_more_than_two_per_cent_lost_in_a_round_of_recovery() {
    let mut d = Driver::new();
    d.round(40);
    d.ack(1);
    lossy_round(&mut d, (0..6).map(|n| 10 * n), 3);
    assert!(d.bbr.full_pipe.reached && d.bbr.full_pipe.now);
    assert_eq!(d.bbr.bounds.inflight_longterm, BDP, "the BDP, which equals what was delivered in the round");
    assert_eq!(d.bbr.undo.state, Some(State::Startup));
    assert_ne!(d.state(), State::Startup);
}

#[test]
fn application_limited_samples_do_not_hinder_the_exit_on_loss() {
    let mut d = Driver::new();
    d.round(40);
    for n in 0..6 {
        d.lose(10 * n, 100, 1);
    }
    d.ca_state(CaState::Recovery);
    d.round_with(|ack, flight| {
        ack.rs.is_app_limited = true;
        *flight = FlightSample { tx_in_flight: 100, lost: 3, ..FlightSample::default() };
    });
    assert!(d.bbr.full_pipe.reached);
}

/// A path of ten packets and 64 kbit/s reaches ProbeRTT before its plateau.
#[test]
fn high_loss_in_a_probe_rtt_that_interrupted_startup_marks_the_pipe_as_full() {
    let in_probe_rtt = |was_full: bool| {
        let mut d = Driver::new();
        d.round(40);
        d.bbr.phase = Phase::ProbeRtt { done_stamp: None, round_done: false };
        d.bbr.full_pipe.reached = was_full;
        lossy_round(&mut d, (0..6).map(|n| 10 * n), 3);
        (d.state(), d.bbr.full_pipe.reached, d.bbr.bounds.inflight_longterm)
    };
    assert_eq!(in_probe_rtt(false), (State::ProbeRtt, true, BDP));
    assert_eq!(in_probe_rtt(true), (State::ProbeRtt, true, INFINITY), "asked until then alone");
}

#[test]
fn five_gaps_do_not_end_startup() {
    let mut d = Driver::new();
    d.round(40);
    lossy_round(&mut d, (0..5).map(|n| 10 * n), 5);
    assert_eq!(d.state(), State::Startup);
    assert_eq!(d.bbr.bounds.loss_events_in_round, 0, "the next round starts counting at zero");
}

/// Bug of another implementation: it counted lost packets where the text requires discontiguous ranges.
#[test]
fn a_burst_of_lost_neighbours_is_one_gap() {
    let mut d = Driver::new();
    d.round(40);
    lossy_round(&mut d, 100..130, 30);
    assert_eq!(d.state(), State::Startup);
}

#[test]
fn two_per_cent_lost_is_not_too_much() {
    let mut d = Driver::new();
    d.round(40);
    lossy_round(&mut d, (0..6).map(|n| 10 * n), 2);
    assert_eq!(d.state(), State::Startup);
}

#[test]
fn loss_outside_recovery_does_not_end_startup() {
    let mut d = Driver::new();
    d.round(40);
    for n in 0..10 {
        d.lose(10 * n, 100, 1);
    }
    d.round_with(|_, flight| flight.lost = 30);
    assert_eq!(d.state(), State::Startup);
}

#[test]
fn without_selective_acks_any_loss_in_recovery_ends_startup() {
    let mut d = Driver::with(&Bbr3Params::default(), Edition::Draft06, |init| init.selective_acks = false);
    d.round(40);
    d.lose(1, 40, 1);
    d.ca_state(CaState::Recovery);
    d.ack_with(1, |ack, _| ack.rs.losses = 1);
    assert!(d.bbr.full_pipe.reached);
}

#[test]
fn drain_lasts_until_the_bdp_is_in_flight() {
    let mut d = Driver::in_state(Phase::Drain { start_round: 0 });
    assert_eq!(d.bbr.gains.pacing, UNIT / 2);
    d.ack_with(1, |ack, _| ack.in_flight = 41);
    assert_eq!(d.state(), State::Drain);
    d.ack_with(1, |ack, _| ack.in_flight = 40);
    assert_eq!(d.state(), State::ProbeBwCruise, "there is nothing left to bring down either");
}

#[test]
fn drain_ends_after_three_whole_rounds_whatever_is_in_flight() {
    let mut d = Driver::in_state(Phase::Drain { start_round: 0 });
    for _ in 0..3 {
        d.round_with(|ack, _| ack.in_flight = 70);
        assert_eq!(d.state(), State::Drain);
    }
    d.round_with(|ack, _| ack.in_flight = 70);
    assert_eq!(d.state(), State::ProbeBwDown);
}

/// Losses of Startup are reported during Drain; they must not raise the threshold for leaving it.
#[test]
fn drain_compares_with_the_maximum_bandwidth_not_with_a_bound_lowered_meanwhile() {
    let mut d = Driver::in_state(Phase::Drain { start_round: 0 });
    d.bbr.put_bw_shortterm(RATE / 4);
    d.ack(1);
    assert_ne!(d.state(), State::Drain);
}

/// Advances time by `us` in ACKs whose RTT is above the minimum.
fn wait(d: &mut Driver, us: u64) {
    d.ack_with(us, |ack, _| ack.rs.rtt_us = Some(RTT_US + 1_000));
}

#[test]
fn probe_rtt_begins_after_five_seconds_without_a_sample_as_low() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.probe.bw_probe_wait = Span::secs(60);
    wait(&mut d, 5_000_000);
    assert_eq!(d.state(), State::ProbeBwCruise);
    wait(&mut d, 1_000);
    assert_eq!(d.state(), State::ProbeRtt);
    assert_eq!((d.bbr.gains.pacing, d.bbr.gains.cwnd), (UNIT, UNIT / 2));
    assert_eq!(d.bbr.out.cwnd, BDP / 2);
    assert!(d.bbr.wants_app_limited());
}

#[test]
fn a_lower_sample_postpones_probe_rtt() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    wait(&mut d, 4_000_000);
    d.ack_with(1_000, |ack, _| ack.rs.rtt_us = Some(RTT_US - 1));
    wait(&mut d, 4_000_000);
    assert_ne!(d.state(), State::ProbeRtt);
}

/// A flow in ProbeRTT, with inflight just low enough.
fn probing_rtt() -> Driver {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.probe.bw_probe_wait = Span::secs(60);
    wait(&mut d, 5_001_000);
    assert_eq!(d.state(), State::ProbeRtt);
    d
}

fn low(d: &mut Driver, us: u64) {
    d.ack_with(us, |ack, _| ack.in_flight = 20);
}

#[test]
fn probe_rtt_counts_its_time_once_inflight_is_low() {
    let mut d = probing_rtt();
    wait(&mut d, 1_000_000);
    assert!(matches!(d.bbr.phase, Phase::ProbeRtt { done_stamp: None, .. }), "40 packets are in flight");
    low(&mut d, 1_000);
    assert!(matches!(d.bbr.phase, Phase::ProbeRtt { done_stamp: Some(_), round_done: false }));
}

#[test]
fn neither_the_time_alone_nor_the_round_alone_ends_probe_rtt() {
    let mut d = probing_rtt();
    low(&mut d, 1_000);
    low(&mut d, 300_000);
    assert_eq!(d.state(), State::ProbeRtt, "no round yet");
    d = probing_rtt();
    low(&mut d, 1_000);
    d.round_with(|ack, _| ack.in_flight = 20);
    assert_eq!(d.state(), State::ProbeRtt, "only 40 ms");
    low(&mut d, 160_000);
    assert_eq!(d.state(), State::ProbeRtt, "200 ms to the microsecond");
    low(&mut d, 1);
    assert_eq!(d.state(), State::ProbeBwCruise);
}

#[test]
fn after_probe_rtt_window_and_short_term_bounds_are_back_and_the_next_one_is_five_seconds_away() {
    let mut d = probing_rtt();
    low(&mut d, 1_000);
    d.bbr.bounds.inflight_shortterm = 10 * PACKET;
    d.bbr.put_bw_shortterm(RATE / 2);
    d.round_with(|ack, _| ack.in_flight = 20);
    low(&mut d, 200_000);
    assert_eq!(d.state(), State::ProbeBwCruise);
    assert_eq!((d.bbr.bounds.inflight_shortterm, d.bbr.bounds.bw_shortterm), (INFINITY, INFINITY));
    assert!(d.bbr.out.cwnd >= 80 * PACKET);
    assert_eq!(d.bbr.min_rtt.probe_rtt_min_stamp, d.now_us);
    assert!(d.bbr.wants_app_limited(), "the last ACK of ProbeRTT still marks what is in flight");
    d.ack(1);
    assert!(!d.bbr.wants_app_limited());
}

#[test]
fn probe_rtt_returns_to_startup_while_the_pipe_has_never_been_full() {
    let mut d = probing_rtt();
    d.bbr.full_pipe.reached = false;
    low(&mut d, 1_000);
    d.round_with(|ack, _| ack.in_flight = 20);
    low(&mut d, 200_000);
    assert_eq!(d.state(), State::Startup);
}

#[test]
fn a_restart_from_idle_paces_at_the_estimate_and_skips_probe_rtt() {
    let mut d = Driver::in_state(UP);
    d.bbr.probe.prev_probe_too_high = false;
    assert!(d.bbr.out.pacing_rate > 1_200_000);
    d.now_us += 6_000_000;
    d.restart(true);
    assert!(d.bbr.idle_restart);
    assert_eq!(d.bbr.out.pacing_rate, 990_000, "a byte a microsecond less the margin");
    wait(&mut d, RTT_US);
    assert_ne!(d.state(), State::ProbeRtt);
    assert!(!d.bbr.idle_restart, "data was delivered");
}

/// Bug of another implementation: an empty pipe was taken for an idle application.
#[test]
fn an_empty_pipe_of_a_busy_application_is_no_restart_from_idle() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.restart(false);
    assert!(!d.bbr.idle_restart);
}

#[test]
fn a_restart_from_idle_begins_the_epoch_of_aggregation_anew() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.ack_with(1, |ack, _| ack.rs.acked_sacked = 30);
    d.now_us += 1_000;
    d.restart(true);
    d.ack(1_000);
    assert_eq!(d.bbr.aggregation.delivered, PACKET);
}

#[test]
fn a_restart_from_idle_ends_a_probe_rtt_that_is_over() {
    let mut d = probing_rtt();
    low(&mut d, 1_000);
    d.now_us += 1_000_000;
    d.restart(true);
    assert_eq!((d.state(), d.bbr.out.cwnd), (State::ProbeBwCruise, 80 * PACKET));
}
