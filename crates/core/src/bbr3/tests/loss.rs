//! Loss: the volume at which it began, time-outs, and the undoing of spurious losses.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

/// A flow in a probe, where losses limit the volume.
fn probing() -> Driver {
    let mut d = Driver::in_state(UP);
    d.bbr.probe.is_bw_probe_sample = true;
    d
}

#[test]
fn a_probe_that_loses_more_than_two_per_cent_goes_down_and_remembers_where_loss_began() {
    let mut d = probing();
    d.lose(1, 100, 1);
    d.lose(2, 100, 2);
    assert_eq!(d.state(), State::ProbeBwUp, "two of a hundred are two per cent");
    d.lose(3, 100, 3);
    assert_eq!(d.state(), State::ProbeBwDown);
    assert!(d.bbr.probe.prev_probe_too_high && !d.bbr.probe.is_bw_probe_sample);
    assert_eq!(d.bbr.bounds.inflight_longterm, 99 * PACKET, "the budget of 1.98 packets was spent before the third");
}

#[test]
fn the_part_of_a_packet_that_fits_is_counted() {
    let d = probing();
    // Before it 49 packets in flight and none lost: 0.98 packets of budget, so 0.98/0.98 of it fit.
    assert_eq!(d.bbr.inflight_at_loss(50 * PACKET, PACKET, PACKET), 50 * PACKET);
    // 9 packets: 0.18 of budget, 0.1836 of the packet.
    assert_eq!(d.bbr.inflight_at_loss(10 * PACKET, PACKET, PACKET), 9_183);
}

/// Bug of another implementation: a subtraction below zero, on the most common path of all.
#[test]
fn losses_before_the_packet_above_the_budget_or_the_flight_never_wrap() {
    let d = probing();
    assert_eq!(d.bbr.inflight_at_loss(10 * PACKET, 8 * PACKET, PACKET), 9 * PACKET);
    assert_eq!(d.bbr.inflight_at_loss(0, 0, PACKET), 0);
    assert_eq!(d.bbr.inflight_at_loss(0, PACKET, PACKET), 0);
    assert!(d.bbr.inflight_at_loss(u64::MAX, 0, PACKET) > 0);
}

#[test]
fn the_bound_never_falls_below_beta_of_the_target() {
    let mut d = probing();
    d.lose(1, 10, 1);
    assert_eq!(d.bbr.bounds.inflight_longterm, 28 * PACKET, "0.7 of 40 packets");
}

#[test]
fn only_the_first_excess_loss_of_a_probe_sets_the_long_term_bound() {
    let mut d = probing();
    d.lose(1, 60, 2);
    let bound = d.bbr.bounds.inflight_longterm;
    d.lose(2, 30, 3);
    assert_eq!(d.bbr.bounds.inflight_longterm, bound);
}

#[test]
fn an_application_limited_probe_stops_but_sets_no_bound() {
    let mut d = probing();
    let (tx_in_flight, lost) = (40 * PACKET, 5 * PACKET);
    let lost = Lost { tx_in_flight, lost, is_app_limited: true, delivered: d.volume(), ..Lost::default() };
    d.bbr.on_lost_packet(&lost);
    assert_eq!((d.state(), d.bbr.bounds.inflight_longterm), (State::ProbeBwDown, INFINITY));
}

#[test]
fn loss_of_what_was_not_sent_probing_sets_no_long_term_bound() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.lose(1, 40, 20);
    assert_eq!((d.state(), d.bbr.bounds.inflight_longterm), (State::ProbeBwCruise, INFINITY));
    assert!(d.bbr.bounds.is_loss_in_round);
}

#[test]
fn the_first_loss_begins_a_round_of_loss() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.delivered += 50;
    d.lose(1, 40, 1);
    assert_eq!(d.bbr.bounds.loss_round_delivered, d.volume());
    d.delivered += 5;
    d.lose(2, 40, 2);
    assert_eq!(d.bbr.bounds.loss_round_delivered, d.volume() - 5 * PACKET);
}

#[test]
fn without_selective_acks_one_loss_is_too_much() {
    let mut d = probing();
    d.bbr.host.has_selective_acks = false;
    d.lose(1, 400, 1);
    assert_eq!(d.state(), State::ProbeBwDown);
}

#[test]
fn losses_reported_only_as_a_count_mark_the_round_as_lossy() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.on_loss(d.volume());
    d.round(36);
    assert_ne!(d.bbr.bounds.inflight_shortterm, INFINITY);
}

#[test]
fn a_loss_that_a_tail_probe_repaired_counts() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.on_tlp_recovery(Time::micros(d.now_us), d.volume(), false);
    assert!(d.bbr.bounds.is_loss_in_round);
    let mut d = probing();
    d.bbr.model.inflight_latest = 20 * PACKET;
    d.bbr.on_tlp_recovery(Time::micros(d.now_us), d.volume(), false);
    assert_eq!((d.state(), d.bbr.bounds.inflight_longterm), (State::ProbeBwDown, 28 * PACKET), "one of 21 packets");
}

#[test]
fn the_ack_of_a_tail_loss_probe_keeps_the_last_rounds_inflight_latest() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.ack_with(1, |ack, _| ack.rs.delivered = Some(60));
    d.bbr.on_tlp_ack();
    d.round(3);
    assert_eq!(d.bbr.model.inflight_latest, 60 * PACKET);
    d.round(3);
    assert_eq!(d.bbr.model.inflight_latest, 3 * PACKET);
}

#[test]
fn a_time_out_leaves_one_packet_of_room_and_recovery_gives_the_window_back() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.rto(2, true);
    d.ca_state = CaState::Loss;
    assert_eq!(d.bbr.out.cwnd, 3 * PACKET);
    d.ack_with(RTT_US, |ack, _| ack.in_flight = 2);
    assert_eq!(d.bbr.out.cwnd, 4 * PACKET);
    d.ca_state(CaState::Open);
    assert_eq!(d.bbr.out.cwnd, 80 * PACKET);
}

#[test]
fn fast_recovery_alone_does_not_move_the_window() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.lose(1, 40, 1);
    d.ca_state(CaState::Recovery);
    d.ack(1);
    assert!(d.bbr.out.cwnd >= 80 * PACKET);
}

/// A flow in recovery since a probe was stopped by spurious losses.
fn mistaken() -> Driver {
    let mut d = probing();
    d.bbr.bounds.inflight_longterm = 90 * PACKET;
    for lost in 1..=3 {
        d.lose(lost, 60, lost as u32);
    }
    d.ca_state(CaState::Recovery);
    assert_eq!(d.state(), State::ProbeBwDown);
    d
}

#[test]
fn a_spurious_recovery_restores_bounds_window_and_probe() {
    let mut d = mistaken();
    d.ack(1_000);
    d.bbr.bounds.inflight_shortterm = 20 * PACKET;
    d.bbr.on_undo(&d.bare());
    assert_eq!((d.bbr.bounds.inflight_longterm, d.bbr.bounds.inflight_shortterm), (90 * PACKET, INFINITY));
    assert_eq!((d.bbr.bounds.bw_shortterm, d.bbr.out.cwnd), (INFINITY, 80 * PACKET));
    assert!(!d.bbr.bounds.is_loss_in_round && !d.bbr.full_pipe.now);
    assert_eq!((d.state(), d.bbr.undo.state), (State::ProbeBwRefill, None));
}

/// The draft's own calls would save again on entering recovery, and in each round of it, and so lose the state to return to.
#[test]
fn later_rounds_of_the_same_recovery_do_not_overwrite_what_was_saved() {
    let mut d = mistaken();
    for n in 0..4 {
        d.lose(100 + n, 60, 1);
        d.round(20);
    }
    assert_ne!(d.bbr.bounds.inflight_shortterm, INFINITY);
    d.bbr.on_undo(&d.bare());
    assert_eq!((d.bbr.bounds.inflight_longterm, d.bbr.bounds.inflight_shortterm), (90 * PACKET, INFINITY));
    assert_eq!(d.state(), State::ProbeBwRefill);
}

#[test]
fn an_undo_does_not_restore_the_state_of_an_earlier_episode() {
    let mut d = mistaken();
    d.ack(1);
    d.ca_state(CaState::Open);
    d.ack(1);
    let (bound, state) = (d.bbr.bounds.inflight_longterm, d.state());
    d.lose(200, 60, 1);
    d.ca_state(CaState::Recovery);
    d.bbr.on_undo(&d.bare());
    assert_eq!((d.bbr.bounds.inflight_longterm, d.state()), (bound, state));
}

/// A recovery may end in a round of loss in which the next one begins.
#[test]
fn an_episode_that_begins_in_the_round_of_loss_of_the_last_one_saves_what_it_cuts() {
    let mut d = probing();
    d.bbr.bounds.inflight_longterm = 90 * PACKET;
    d.lose(1, 60, 1);
    d.ca_state(CaState::Recovery);
    d.ca_state(CaState::Open);
    assert!(d.bbr.bounds.is_loss_in_round && !d.bbr.undo.is_saved);
    for lost in 2..=4 {
        d.lose(lost, 60, lost as u32);
    }
    assert!(d.bbr.bounds.inflight_longterm < 90 * PACKET);
    d.ca_state(CaState::Recovery);
    d.bbr.on_undo(&d.bare());
    assert_eq!((d.bbr.bounds.inflight_longterm, d.state()), (90 * PACKET, State::ProbeBwRefill));
}

#[test]
fn a_spurious_exit_from_startup_returns_to_startup() {
    let mut d = Driver::new();
    d.round(40);
    for n in 0..6 {
        d.lose(10 * n, 100, 1);
    }
    d.ca_state(CaState::Recovery);
    d.round_with(|_, flight| *flight = FlightSample { tx_in_flight: 100, lost: 6, ..FlightSample::default() });
    assert!(d.bbr.full_pipe.reached && d.state() != State::Startup);
    d.bbr.on_undo(&d.bare());
    assert!(!d.bbr.full_pipe.reached);
    assert_eq!((d.state(), d.bbr.bounds.inflight_longterm), (State::Startup, INFINITY));
    assert_eq!(d.bbr.gains.pacing, d.bbr.p.startup_pacing_gain);
}

#[test]
fn during_probe_rtt_an_undo_changes_no_state() {
    let mut d = mistaken();
    d.bbr.phase = Phase::ProbeRtt { done_stamp: None, round_done: false };
    d.bbr.on_undo(&d.bare());
    assert_eq!(d.state(), State::ProbeRtt);
}

#[test]
fn a_spurious_time_out_restores_window_and_bounds() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.bounds.inflight_longterm = 70 * PACKET;
    d.lose(1, 40, 1);
    d.rto(0, true);
    d.ca_state = CaState::Loss;
    assert_eq!(d.bbr.out.cwnd, PACKET);
    d.round(1);
    d.bbr.on_undo(&d.bare());
    assert_eq!((d.bbr.out.cwnd, d.bbr.bounds.inflight_shortterm), (80 * PACKET, INFINITY));
}

#[test]
fn a_window_saved_during_recovery_is_the_larger_one() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.undo.prior_cwnd = 90 * PACKET;
    d.bbr.prev_ca_state = CaState::Recovery;
    d.bbr.save_cwnd();
    assert_eq!(d.bbr.undo.prior_cwnd, 90 * PACKET);
    d.bbr.prev_ca_state = CaState::Open;
    d.bbr.save_cwnd();
    assert_eq!(d.bbr.undo.prior_cwnd, 80 * PACKET);
}

#[test]
fn a_snapshot_shows_the_bounds_and_what_an_undo_would_give_back() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    assert_eq!((d.bbr.snapshot().bounds, d.bbr.snapshot().undo), (Bounds::default(), Bounds::default()));
    d.bbr.bounds.inflight_longterm = 60 * PACKET;
    d.lose(1, 40, 1);
    d.ca_state(CaState::Recovery);
    d.round(20);
    let Snapshot { bounds, undo, .. } = d.bbr.snapshot();
    assert_eq!(undo, Bounds { inflight_longterm: Some(60_000), ..Bounds::default() });
    assert_eq!((bounds.inflight_shortterm, bounds.inflight_longterm), (Some(56_000), Some(60_000)), "0.7 of 80");
    assert_eq!(bounds.bw_shortterm, Some(Rate::bytes_per_sec(699_999)));
}
