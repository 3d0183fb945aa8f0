//! Rules of the draft that no other test here covers; `tools/spec_mutants.py` breaks them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

#[test]
fn down_begins_without_the_signals_of_the_probe() {
    let mut d = Driver::in_state(UP);
    d.bbr.probe.is_bw_probe_sample = true;
    d.ack(1);
    assert!(d.bbr.model.inflight_latest > 0 && d.bbr.model.bw_latest > 0);
    d.lose(1, 40, 3);
    assert_eq!(d.state(), State::ProbeBwDown);
    assert_eq!((d.bbr.model.inflight_latest, d.bbr.model.bw_latest), (0, 0));
    assert!(!d.bbr.bounds.is_loss_in_round);
}

#[test]
fn the_short_term_bounds_wait_for_the_end_of_a_round_with_loss() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.lose(1, 40, 1);
    d.ack(1);
    assert_eq!(d.bbr.bounds.inflight_shortterm, INFINITY);
    assert!(d.bbr.bounds.is_loss_in_round);
    d.round(36);
    assert_ne!(d.bbr.bounds.inflight_shortterm, INFINITY);
    assert!(!d.bbr.bounds.is_loss_in_round);
}

#[test]
fn drain_counts_its_rounds_from_its_own_beginning() {
    let mut d = Driver::new();
    for packets in [10, 20, 40, 40, 40] {
        d.round_with(|ack, _| (ack.rs.delivered, ack.in_flight) = (Some(packets), 70));
    }
    for round in 0..4 {
        d.round_with(|ack, _| ack.in_flight = 70);
        assert_eq!(d.state(), State::Drain, "round {round}");
    }
    d.round_with(|ack, _| ack.in_flight = 70);
    assert_eq!(d.state(), State::ProbeBwDown);
}

#[test]
fn a_window_cut_below_the_bdp_is_the_target() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    assert_eq!(d.bbr.target_inflight(), BDP);
    d.bbr.put_cwnd(BDP / 2);
    assert_eq!(d.bbr.target_inflight(), BDP / 2);
}

#[test]
fn aggregated_acks_leave_room_beyond_twice_the_bdp() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.probe.bw_probe_wait = Span::secs(60);
    d.ack(RTT_US);
    d.ack_with(1_000, |ack, _| ack.rs.acked_sacked = 30);
    assert_eq!((d.bbr.aggregation.extra_acked, d.bbr.out.cwnd), (30 * PACKET, 110 * PACKET));
}

#[test]
fn probe_rtt_has_its_small_window_also_while_the_pipe_has_never_been_full() {
    let mut d = Driver::in_state(Phase::ProbeRtt { done_stamp: None, round_done: false });
    d.bbr.full_pipe.reached = false;
    d.ack(1);
    assert_eq!(d.bbr.out.cwnd, BDP / 2);
}

#[test]
fn the_target_follows_bandwidth_and_rtt_before_a_new_plan_does() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.put_bw_shortterm(RATE / 2);
    assert_eq!(d.bbr.target_inflight(), BDP / 2);
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.min_rtt.min_rtt_us = RTT_US / 2;
    assert_eq!(d.bbr.target_inflight(), BDP / 2);
}
