//! ProbeBW: the start, extent and end of probes, and their effect on the model.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

#[test]
fn each_state_has_the_gains_of_the_drafts_table() {
    let table = [
        (Phase::Startup, 277, 200),
        (Phase::Drain { start_round: 0 }, 50, 200),
        (Phase::ProbeBwDown, 90, 200),
        (Phase::ProbeBwCruise, 100, 200),
        (REFILL, 100, 200),
        (UP, 125, 225),
        (Phase::ProbeRtt { done_stamp: None, round_done: false }, 100, 50),
    ];
    for (state, pacing, cwnd) in table {
        let d = Driver::in_state(state);
        assert_eq!((d.bbr.gains.pacing * 100, d.bbr.gains.cwnd * 100), (pacing * UNIT, cwnd * UNIT), "{state:?}");
    }
}

#[test]
fn entering_probe_bw_goes_down_and_draws_a_wait_of_two_to_three_seconds() {
    let mut seen = [u64::MAX, 0];
    for seed in 0..200 {
        let mut d = Driver::with(&Bbr3Params::default(), Edition::Draft06, |init| init.seed = seed);
        d.bbr.phase = Phase::Drain { start_round: 0 };
        let now = Time::micros(d.now_us);
        d.bbr.enter_probe_bw(now, 0, Cause::Drained);
        assert!(d.bbr.probe.rounds_since_probe_up < 2);
        seen = [seen[0].min(d.bbr.probe.bw_probe_wait.as_micros()), seen[1].max(d.bbr.probe.bw_probe_wait.as_micros())];
        assert_eq!((d.state(), d.bbr.probe_up_acked_per_inc()), (State::ProbeBwDown, INFINITY));
    }
    assert!((2_000_000..2_050_000).contains(&seen[0]) && (2_950_000..=3_000_000).contains(&seen[1]), "{seen:?}");
}

#[test]
fn down_becomes_cruise_once_neither_queue_nor_headroom_is_used() {
    let mut d = Driver::in_state(Phase::ProbeBwDown);
    d.ack_with(1, |ack, _| ack.in_flight = 41);
    assert_eq!(d.state(), State::ProbeBwDown);
    d.bbr.bounds.inflight_longterm = 44 * PACKET;
    d.ack_with(1, |ack, _| ack.in_flight = 38);
    assert_eq!(d.state(), State::ProbeBwDown, "0.85 of 44 packets is 37.4");
    d.ack_with(1, |ack, _| ack.in_flight = 37);
    assert_eq!(d.state(), State::ProbeBwCruise);
}

#[test]
fn down_and_cruise_probe_when_the_wait_is_over() {
    for state in [Phase::ProbeBwDown, Phase::ProbeBwCruise] {
        let mut d = Driver::in_state(state);
        d.ack_with(3_000_000, |ack, _| ack.in_flight = 60);
        assert_eq!(d.bbr.phase, state, "not later than the wait");
        d.ack_with(1, |ack, _| ack.in_flight = 60);
        assert_eq!(d.state(), State::ProbeBwRefill);
    }
}

/// Bug of another implementation: the BDP in bytes is always above 63.
#[test]
fn probes_come_no_rarer_than_renos_sawtooth_in_packets() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.probe.rounds_since_probe_up = 39;
    d.ack(1);
    assert_eq!(d.state(), State::ProbeBwCruise, "39 rounds at a BDP of 40 packets");
    d.bbr.probe.rounds_since_probe_up = 40;
    d.ack(1);
    assert_eq!(d.state(), State::ProbeBwRefill);
}

#[test]
fn probes_come_no_rarer_than_every_63_rounds() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.set_max_bw([100 * RATE; 2]);
    d.bbr.put_cwnd(4_000 * PACKET);
    d.bbr.probe.rounds_since_probe_up = 62;
    d.ack(1);
    assert_eq!(d.state(), State::ProbeBwCruise);
    d.bbr.probe.rounds_since_probe_up = 63;
    d.ack(1);
    assert_eq!(d.state(), State::ProbeBwRefill);
}

/// Pitfall: on a path of one packet, or with rounds longer than the wait, a flow probes again before the samples of the
/// last probe are in. A maximum that only the end of that round renews is then kept forever.
#[test]
fn a_cycle_that_is_over_before_its_round_still_ages_the_maximum() {
    let mut d = Driver::in_state(Phase::ProbeBwDown);
    d.bbr.probe.ack_phase = AckPhase::ProbeStopping;
    d.bbr.set_max_bw([10 * RATE, RATE]);
    d.bbr.probe.rounds_since_probe_up = 63;
    d.ack(1);
    assert_eq!((d.state(), d.bbr.model.max_bw()), (State::ProbeBwRefill, RATE));
    // A cruise that follows the samples of its probe has renewed it already.
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.set_max_bw([10 * RATE, RATE]);
    d.bbr.probe.rounds_since_probe_up = 63;
    d.ack(1);
    assert_eq!((d.state(), d.bbr.model.max_bw()), (State::ProbeBwRefill, 10 * RATE));
}

#[test]
fn a_probe_that_probe_rtt_interrupts_still_ages_the_maximum() {
    let probe_rtt_after = |ack_phase: AckPhase, is_app_limited: bool| {
        let mut d = Driver::in_state(Phase::ProbeBwRefill { up_rounds: 0 });
        d.bbr.probe.ack_phase = ack_phase;
        d.bbr.set_max_bw([10 * RATE, RATE]);
        // Five seconds later, within the same round.
        d.bbr.model.rounds.next_delivered = u64::MAX;
        d.ack_with(5_001_000, |ack, _| (ack.rs.is_app_limited, ack.rs.rtt_us) = (is_app_limited, Some(RTT_US + 1_000)));
        assert_eq!(d.state(), State::ProbeRtt);
        d.bbr.model.max_bw()
    };
    assert_eq!(probe_rtt_after(AckPhase::Refilling, false), RATE);
    // An application-limited flow has not probed; after the samples of a probe the maximum has aged already.
    assert_eq!(probe_rtt_after(AckPhase::Refilling, true), 10 * RATE);
    assert_eq!(probe_rtt_after(AckPhase::Init, false), 10 * RATE);
}

#[test]
fn refill_forgets_the_short_term_and_lasts_a_round() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.bounds.inflight_shortterm = 20 * PACKET;
    d.bbr.put_bw_shortterm(RATE / 2);
    d.bbr.probe.prev_probe_precautionary = true;
    d.bbr.probe.rounds_since_probe_up = 63;
    d.ack(1);
    assert_eq!((d.bbr.bounds.inflight_shortterm, d.bbr.bounds.bw_shortterm), (INFINITY, INFINITY));
    assert!(!d.bbr.probe.prev_probe_precautionary && d.bbr.probe.ack_phase == AckPhase::Refilling);
    d.ack(1);
    assert_eq!(d.state(), State::ProbeBwRefill);
    d.round(40);
    assert_eq!(d.state(), State::ProbeBwUp);
    assert!(d.bbr.probe.is_bw_probe_sample && d.bbr.probe.ack_phase == AckPhase::ProbeStarting);
    assert_eq!(d.bbr.full_pipe.plateau.bw, RATE, "the plateau is looked for from here");
}

#[test]
fn up_ends_when_bandwidth_stops_growing_for_three_rounds() {
    let mut d = Driver::in_state(UP);
    d.bbr.full_pipe.now = false;
    d.bbr.full_pipe.plateau.bw = RATE;
    for _ in 0..2 {
        d.round(45);
        assert_eq!(d.state(), State::ProbeBwUp);
    }
    d.round(45);
    assert_eq!(d.state(), State::ProbeBwDown);
    assert_eq!(d.bbr.probe.ack_phase, AckPhase::ProbeStopping);
}

#[test]
fn up_never_ends_while_application_limited_without_loss() {
    let mut d = Driver::in_state(UP);
    for _ in 0..100 {
        d.round_with(|ack, _| ack.rs.is_app_limited = true);
    }
    assert_eq!(d.state(), State::ProbeBwUp);
}

#[test]
fn a_plateau_does_not_count_while_the_long_term_bound_is_the_limit() {
    let mut d = Driver::in_state(UP);
    d.bbr.bounds.inflight_longterm = 80 * PACKET;
    d.bbr.growth().acked_per_inc = INFINITY;
    d.cwnd_limited = true;
    for _ in 0..10 {
        d.bbr.full_pipe.now = true;
        d.bbr.put_cwnd(d.bbr.bounds.inflight_longterm);
        d.ack(1);
        assert!(!d.bbr.full_pipe.now);
        assert_eq!(d.state(), State::ProbeBwUp);
    }
}

#[test]
fn after_a_probe_that_went_too_far_the_next_one_stops_at_the_bound() {
    let mut d = Driver::in_state(UP);
    d.bbr.probe.prev_probe_too_high = true;
    d.bbr.bounds.inflight_longterm = 50 * PACKET;
    d.ack_with(1, |ack, _| (ack.rs.prior_in_flight, ack.in_flight) = (49, 48));
    assert_eq!(d.state(), State::ProbeBwUp);
    d.ack_with(1, |ack, _| (ack.rs.prior_in_flight, ack.in_flight) = (50, 49));
    assert_eq!(d.state(), State::ProbeBwDown);
    assert!(d.bbr.probe.prev_probe_precautionary && !d.bbr.probe.prev_probe_too_high);
}

/// A host that sends whole packets would never have exactly this bound in flight.
#[test]
fn a_bound_between_two_packets_is_reached_when_no_further_packet_fits() {
    let mut d = Driver::in_state(UP);
    d.bbr.probe.prev_probe_too_high = true;
    d.bbr.bounds.inflight_longterm = 50 * PACKET + 700;
    d.ack_with(1, |ack, _| (ack.rs.prior_in_flight, ack.in_flight) = (50, 49));
    assert_eq!(d.state(), State::ProbeBwDown);
}

#[test]
fn a_cautious_probe_that_went_well_is_followed_by_another_at_once() {
    let mut d = Driver::in_state(Phase::ProbeBwDown);
    d.bbr.probe.ack_phase = AckPhase::ProbeStopping;
    d.bbr.probe.prev_probe_precautionary = true;
    d.ack_with(1, |ack, _| ack.in_flight = 70);
    assert_eq!(d.state(), State::ProbeBwDown, "its samples are still to come");
    d.round_with(|ack, _| ack.in_flight = 70);
    assert_eq!(d.state(), State::ProbeBwRefill);
}

#[test]
fn a_cautious_probe_that_went_too_far_is_not() {
    let mut d = Driver::in_state(Phase::ProbeBwDown);
    d.bbr.probe.ack_phase = AckPhase::ProbeStopping;
    d.bbr.probe.prev_probe_precautionary = true;
    d.bbr.probe.prev_probe_too_high = true;
    d.round_with(|ack, _| ack.in_flight = 70);
    assert_eq!(d.state(), State::ProbeBwDown);
}

/// Bug of another implementation: the filter advanced more than once a cycle.
#[test]
fn the_bandwidth_filter_advances_once_a_cycle_a_round_after_the_probe() {
    let mut d = Driver::in_state(Phase::ProbeBwDown);
    d.bbr.probe.ack_phase = AckPhase::ProbeStopping;
    d.bbr.set_max_bw([2 * RATE, RATE]);
    d.ack_with(1, |ack, _| ack.in_flight = 70);
    assert_eq!(d.bbr.model.max_bw(), 2 * RATE);
    d.round_with(|ack, _| ack.in_flight = 70);
    assert_eq!((d.bbr.model.max_bw(), d.bbr.probe.ack_phase), (RATE, AckPhase::Init));
    d.bbr.set_max_bw([3 * RATE, RATE]);
    d.round_with(|ack, _| ack.in_flight = 70);
    assert_eq!(d.bbr.model.max_bw(), 3 * RATE);
}

#[test]
fn an_application_limited_end_of_a_probe_forgets_no_bandwidth() {
    let mut d = Driver::in_state(Phase::ProbeBwDown);
    d.bbr.probe.ack_phase = AckPhase::ProbeStopping;
    d.bbr.set_max_bw([2 * RATE, RATE]);
    d.round_with(|ack, _| {
        ack.in_flight = 70;
        ack.rs.is_app_limited = true;
    });
    assert_eq!(d.bbr.model.max_bw(), 2 * RATE);
}

#[test]
fn a_flight_above_the_long_term_bound_without_loss_raises_it_in_any_state() {
    for state in [Phase::ProbeBwDown, Phase::ProbeBwCruise, Phase::Drain { start_round: 0 }] {
        let mut d = Driver::in_state(state);
        d.bbr.bounds.inflight_longterm = 30 * PACKET;
        d.ack_with(1, |_, flight| flight.tx_in_flight = 33);
        assert_eq!(d.bbr.bounds.inflight_longterm, 33 * PACKET, "{state:?}");
    }
}

#[test]
fn a_lossy_flight_does_not_raise_the_long_term_bound() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.bounds.inflight_longterm = 30 * PACKET;
    d.ack_with(1, |_, flight| *flight = FlightSample { tx_in_flight: 33, lost: 1, ..FlightSample::default() });
    assert_eq!(d.bbr.bounds.inflight_longterm, 30 * PACKET);
}

/// A flow in ProbeBW_UP at its bound, with the window as the limit.
fn at_the_bound() -> Driver {
    let mut d = Driver::in_state(REFILL);
    d.bbr.bounds.inflight_longterm = 64 * PACKET;
    d.bbr.put_cwnd(64 * PACKET);
    d.cwnd_limited = true;
    d.round(40);
    assert_eq!(d.state(), State::ProbeBwUp);
    d
}

/// Acknowledges a whole window, the last ACK beginning a round.
fn window(d: &mut Driver, packets: u64) {
    for _ in 1..packets {
        d.bbr.put_cwnd(d.bbr.bounds.inflight_longterm);
        d.ack(10);
    }
    d.bbr.put_cwnd(d.bbr.bounds.inflight_longterm);
    d.round(40);
}

#[test]
fn the_bound_grows_by_one_two_four_and_more_packets_a_round() {
    let mut d = at_the_bound();
    d.bbr.set_max_bw([2 * RATE; 2]); // so that the BDP leaves room above the bound
    let mut bounds = [0; 5];
    for bound in &mut bounds {
        let packets = d.bbr.bounds.inflight_longterm / PACKET;
        window(&mut d, packets);
        *bound = d.bbr.bounds.inflight_longterm / PACKET;
    }
    let steps: [u64; 4] = core::array::from_fn(|n| bounds[n + 1] - bounds[n]);
    assert_eq!(bounds[0], 65);
    for (n, step) in steps.into_iter().enumerate() {
        assert!((1 << (n + 1)..=(1 << (n + 1)) + (1 << n)).contains(&step), "{bounds:?}");
    }
}

#[test]
fn the_bound_does_not_grow_while_the_window_is_not_the_limit() {
    let mut d = at_the_bound();
    d.cwnd_limited = false;
    window(&mut d, 64);
    assert_eq!(d.bbr.bounds.inflight_longterm, 64 * PACKET);
}

#[test]
fn the_slope_stops_doubling_before_it_leaves_its_range() {
    let mut d = Driver::in_state(UP);
    for _ in 0..100 {
        d.bbr.growth().raise_inflight_longterm_slope(80 * PACKET, PACKET);
    }
    assert_eq!((d.bbr.growth().rounds, d.bbr.probe_up_acked_per_inc()), (30, PACKET));
}

#[test]
fn headroom_is_15_per_cent_at_least_a_packet_and_leaves_four() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    for (bound, left) in [(INFINITY, INFINITY), (100_000, 85_000), (5_500, 4_500), (4_000, 4_000)] {
        d.bbr.bounds.inflight_longterm = bound;
        assert_eq!(d.bbr.inflight_with_headroom(), left);
    }
}

#[test]
fn a_round_application_limited_in_refill_neither_lowers_the_bandwidth_nor_stops_the_probe() {
    let mut d = Driver::in_state(REFILL);
    d.round_with(|ack, _| {
        ack.rs.is_app_limited = true;
        ack.rs.delivered = Some(3);
    });
    assert_eq!((d.state(), d.bbr.model.max_bw()), (State::ProbeBwUp, RATE));
}
