//! Pacing rate, send quantum, offload budget, window and its bounds.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

/// Asserts a rate to the byte per second, up to rounding.
fn is_rate(d: &Driver, rate: u64) {
    assert!(d.bbr.out.pacing_rate.abs_diff(rate) <= 1, "{} for {rate}", d.bbr.out.pacing_rate);
}

#[test]
fn the_first_rate_is_the_initial_window_over_the_rtt_times_startups_gain() {
    let d = Driver::new();
    is_rate(&d, 692_500); // 10 kB / 40 ms * 2.77
}

/// Bug of another implementation: a guess of 266 Mbit/s was never replaced in an application-limited flow.
#[test]
fn the_first_rtt_replaces_the_guess_of_a_millisecond() {
    let mut d = Driver::with(&Bbr3Params::default(), Edition::Draft06, |init| init.srtt = None);
    is_rate(&d, 27_700_000);
    d.ack_with(RTT_US, |ack, _| {
        ack.rs.is_app_limited = true;
        ack.rs.delivered = Some(1);
    });
    is_rate(&d, 692_500);
}

#[test]
fn before_the_pipe_is_full_the_rate_never_falls() {
    let mut d = Driver::new();
    d.round(1);
    is_rate(&d, 692_500);
    d.round(40);
    is_rate(&d, 2_742_300); // 1 B/us * 2.77 * 0.99
}

#[test]
fn afterwards_the_rate_follows_gain_and_bandwidth_less_one_per_cent() {
    let mut d = Driver::in_state(Phase::ProbeBwDown);
    d.ack_with(1, |ack, _| ack.in_flight = 70);
    is_rate(&d, 891_000); // 0.9 * 0.99
}

#[test]
fn the_quantum_is_a_millisecond_between_two_packets_and_64_kbytes() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    for (rate, quantum) in [(100_000, 2_000), (20_000_000, 20_000), (1_000_000_000, 65_536)] {
        d.bbr.out.pacing_rate = rate;
        d.bbr.set_send_quantum();
        assert_eq!(d.bbr.send_quantum(), Some(quantum));
    }
}

#[test]
fn the_window_grows_by_what_is_acknowledged_up_to_twice_the_bdp() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.put_cwnd(78 * PACKET);
    d.ack(1_000);
    assert_eq!(d.bbr.out.cwnd, 79 * PACKET);
    d.ack_with(40_000, |ack, _| ack.rs.acked_sacked = 30);
    assert!((80 * PACKET..=120 * PACKET).contains(&d.bbr.out.cwnd), "{}", d.bbr.out.cwnd);
}

#[test]
fn a_window_above_its_target_is_cut_at_once() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.put_cwnd(500 * PACKET);
    d.ack(RTT_US);
    assert!(d.bbr.out.cwnd <= 82 * PACKET, "{}", d.bbr.out.cwnd);
}

#[test]
fn in_startup_the_window_grows_until_the_initial_window_is_delivered() {
    let mut d = Driver::new();
    d.ack_with(RTT_US, |ack, _| ack.rs.delivered = Some(1));
    assert_eq!(d.bbr.out.cwnd, 11 * PACKET);
    for _ in 0..8 {
        d.ack_with(10, |ack, _| ack.rs.delivered = Some(1));
    }
    assert_eq!(d.bbr.out.cwnd, 19 * PACKET, "nine packets delivered");
    d.ack_with(10, |ack, _| ack.rs.delivered = Some(1));
    assert_eq!(d.bbr.out.cwnd, 19 * PACKET, "ten are as many as the initial window");
}

#[test]
fn the_window_never_falls_below_four_packets() {
    let mut d = Driver::in_state(Phase::Drain { start_round: 0 });
    d.bbr.set_max_bw([1; 2]);
    d.bbr.bounds.inflight_shortterm = 1;
    d.ack_with(RTT_US, |ack, _| ack.rs.interval_us = None);
    assert_eq!(d.bbr.out.cwnd, 4 * PACKET);
}

#[test]
fn a_tiny_bdp_still_leaves_three_quanta_in_flight() {
    let d = Driver::in_state(Phase::ProbeBwCruise);
    assert_eq!(d.bbr.inflight(1, UNIT), 6 * PACKET, "three quanta of two packets");
}

#[test]
fn probing_adds_two_packets_to_its_target() {
    let d = Driver::in_state(UP);
    assert_eq!(d.bbr.inflight(RATE, UNIT), BDP + 2 * PACKET);
}

#[test]
fn each_state_bounds_the_window_as_the_draft_has_it() {
    let bound = 60 * PACKET;
    let probe_rtt = Phase::ProbeRtt { done_stamp: None, round_done: false };
    let cases = [
        (Phase::Startup, 80 * PACKET),
        (Phase::Drain { start_round: 0 }, 80 * PACKET),
        (Phase::ProbeBwDown, bound),
        (REFILL, bound),
        (UP, bound),
        (Phase::ProbeBwCruise, 51 * PACKET),
        (probe_rtt, BDP / 2),
    ];
    for (state, max) in cases {
        let mut d = Driver::in_state(state);
        d.bbr.bounds.inflight_longterm = bound;
        d.bbr.set_cwnd(&d.scaled(&Ack::default()));
        assert_eq!(d.bbr.out.cwnd, max, "{state:?}");
        d.bbr.bounds.inflight_shortterm = 10 * PACKET;
        d.bbr.set_cwnd(&d.scaled(&Ack::default()));
        assert_eq!(d.bbr.out.cwnd, 10 * PACKET, "{state:?}: the short-term bound holds everywhere");
    }
}

#[test]
fn before_any_rtt_the_bdp_is_the_initial_window() {
    let d = Driver::with(&Bbr3Params::default(), Edition::Draft06, |init| init.srtt = None);
    assert_eq!(d.bbr.bdp_multiple(RATE, 2 * UNIT), 10 * PACKET);
}

#[test]
fn the_hosts_bound_on_the_window_holds() {
    let mut d = Driver::with(&Bbr3Params::default(), Edition::Draft06, |init| init.cwnd_clamp = 3);
    for _ in 0..20 {
        d.ack(1_000);
        assert_eq!(d.bbr.cwnd(), 3);
    }
}

#[test]
fn rates_and_volumes_of_the_fastest_paths_do_not_wrap() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.set_max_bw([100_000 * BW_UNIT; 2]); // 800 Gbit/s
    d.bbr.min_rtt.min_rtt_us = 1_000_000;
    assert_eq!(d.bbr.bdp_multiple(d.bbr.bw(), 2 * UNIT), 200_000_000_000);
    assert_eq!(d.bbr.rate_bytes_per_sec(d.bbr.bw(), 2 * UNIT, 0), 200_000_000_000);
    assert_eq!(scaled(u64::MAX, UNIT), u64::MAX);
    assert_eq!(scaled(u64::MAX - 7, UNIT / 2), (u64::MAX - 7) / 2);
}

#[test]
fn a_larger_packet_keeps_bytes_and_floor() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.put_cwnd(4 * PACKET);
    d.bbr.on_mss(2_000);
    assert_eq!((d.bbr.cwnd(), d.bbr.cwnd_bytes()), (4, 8_000));
}

/// Found by fuzzing: an empty plan looked like one for an unbounded rate and no RTT.
#[test]
fn an_empty_output_cache_is_invalid_even_for_an_unbounded_rate() {
    let mut d = Driver::new();
    d.bbr.set_max_bw([INFINITY; 2]);
    d.bbr.min_rtt.min_rtt_us = 0;
    for has_seen_rtt in [true, false] {
        d.bbr.out.has_seen_rtt = has_seen_rtt;
        d.bbr.out.plan = super::super::window::OutputCache::NONE;
        assert!(!d.bbr.is_plan_valid());
        d.bbr.make_plan(None);
        assert_eq!(d.bbr.is_plan_valid(), has_seen_rtt, "the first RTT is still to change the rate");
    }
}
