//! Rules that a first version got wrong, each with the source that settles it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

fn of(edition: Edition, state: Phase) -> Driver {
    Driver::of(edition).moved_to(state)
}

// spec: google/bbr v3 bbr_update_congestion_signals: loss_in_round |= rs->losses > 0, before the lower bounds are adapted
#[test]
fn the_losses_of_an_ack_belong_to_its_round_in_linux_and_v2() {
    for (edition, losses, is_bounded) in [
        (Edition::LinuxV3, 1, true),
        (Edition::LinuxV3, 0, false),
        (Edition::LinuxV2, 1, true),
        (Edition::Draft06, 1, false),
    ] {
        let mut d = of(edition, Phase::ProbeBwCruise);
        d.round_with(|ack, _| ack.rs.losses = losses);
        assert_eq!(d.bbr.bounds.inflight_shortterm < INFINITY, is_bounded, "{edition:?} {losses}");
    }
}

/// The packet that ends UP is lost in the round in which DOWN begins.
#[test]
fn the_loss_that_ends_a_probe_of_linux_cuts_the_short_term_bounds_in_down() {
    let mut d = of(Edition::LinuxV3, UP);
    d.bbr.probe.is_bw_probe_sample = true;
    d.lose(1, 40, 3);
    assert_eq!((d.state(), d.bbr.bounds.is_loss_in_round), (State::ProbeBwDown, false), "Down forgets the round");
    d.ack_with(1, |ack, _| (ack.rs.losses, ack.rs.prior_in_flight) = (1, 100));
    assert!(d.bbr.bounds.is_loss_in_round);
    d.round_with(|ack, _| ack.rs.prior_in_flight = 100);
    assert!(d.bbr.bounds.bw_shortterm < INFINITY && d.bbr.bounds.inflight_shortterm < INFINITY);
}

// spec: google/bbr v3 bbr_is_inflight_too_high does not test for selective ACKs; draft #probing-for-bandwidth-in-probebw does
#[test]
fn without_selective_acks_one_loss_is_too_much_in_the_drafts_edition_alone() {
    for (edition, state) in [
        (Edition::Draft06, State::ProbeBwDown),
        (Edition::LinuxV3, State::ProbeBwUp),
        (Edition::LinuxV2, State::ProbeBwUp),
    ] {
        let mut d = of(edition, UP);
        d.bbr.host.has_selective_acks = false;
        d.bbr.probe.is_bw_probe_sample = true;
        d.lose(1, 400, 1);
        assert_eq!(d.state(), state, "{edition:?}");
    }
}

// spec: google/bbr v3 bbr_check_loss_too_high_in_startup
#[test]
fn without_selective_acks_a_loss_in_recovery_does_not_end_startup_in_linux() {
    let mut d = Driver::with(&Driver::params(Edition::LinuxV3), Edition::LinuxV3, |init| init.selective_acks = false);
    d.round(40);
    d.lose(1, 40, 1);
    d.ca_state(CaState::Recovery);
    d.ack_with(1, |ack, _| ack.rs.losses = 1);
    assert!(!d.bbr.full_pipe.reached);
}

/// A window of 50 packets that is full before the ACK of one packet. 49 are in flight after it, the only count that a host reports.
// spec: #probebw-algorithm-details IsTimeToGoDown; google/bbr v3 bbr_update_cycle_phase takes rs->prior_in_flight
#[test]
fn a_probe_stops_as_a_precaution_by_what_was_in_flight_before_the_ack() {
    for edition in [Edition::Draft06, Edition::LinuxV3] {
        for (before, state) in [(48, State::ProbeBwUp), (50, State::ProbeBwDown)] {
            let mut d = of(edition, UP);
            d.bbr.p.edt = 0;
            d.bbr.probe.prev_probe_too_high = true;
            d.bbr.bounds.inflight_longterm = 50 * d.bbr.smss();
            d.ack_with(1, |ack, _| (ack.rs.prior_in_flight, ack.in_flight) = (before, before - 1));
            assert_eq!(d.state(), state, "{edition:?} {before}");
        }
    }
}

// spec: google/bbr v3 bbr_set_state calls bbr_exit_loss_recovery whenever TCP_CA_Loss is left
#[test]
fn linux_gives_the_window_back_when_a_time_out_turns_into_fast_recovery() {
    for (edition, window) in [(Edition::LinuxV3, 80), (Edition::LinuxV2, 80), (Edition::Draft06, 4)] {
        let mut d = of(edition, Phase::ProbeBwCruise);
        d.rto(3, true);
        d.ca_state = CaState::Loss;
        d.ca_state(CaState::Recovery);
        assert_eq!(d.bbr.cwnd(), window, "{edition:?}");
    }
}

// spec: google/bbr v3 bbr_init: prior_cwnd = tp->prior_cwnd, which a lost SYN has set
#[test]
fn the_window_before_a_lost_syn_comes_back_after_the_first_time_out() {
    for (prior, window) in [(0, 4), (10, 10)] {
        let mut d = Driver::with(&Driver::params(Edition::LinuxV3), Edition::LinuxV3, |init| init.initial_cwnd = 1);
        d.bbr.set_prior_cwnd(prior);
        d.bbr.prev_ca_state = CaState::Loss;
        d.rto(3, true);
        d.ca_state = CaState::Loss;
        d.ca_state(CaState::Open);
        assert_eq!(d.bbr.cwnd(), window);
    }
}

// spec: google/bbr v3 bbr_pick_probe_wait: get_random_u32_below()
#[test]
fn the_end_of_the_range_of_waits_is_drawn_by_the_draft_alone() {
    for (edition, longest) in
        [(Edition::Draft06, 2_000_001), (Edition::LinuxV3, 2_000_000), (Edition::LinuxV2, 2_000_000)]
    {
        let mut d = of(edition, Phase::ProbeBwCruise);
        d.bbr.p.bw_probe_wait_rand = 1;
        let mut seen = 0;
        for _ in 0..100 {
            d.bbr.pick_probe_wait();
            seen = seen.max(d.bbr.probe.bw_probe_wait.as_micros());
        }
        assert_eq!(seen, longest, "{edition:?}");
    }
}

#[test]
fn a_host_can_hand_in_the_wait_that_another_has_drawn() {
    let mut d = of(Edition::LinuxV3, Phase::ProbeBwCruise);
    d.bbr.set_next_draw(1, Span::micros(2_345_678));
    d.bbr.pick_probe_wait();
    assert_eq!((d.bbr.probe.rounds_since_probe_up, d.bbr.probe.bw_probe_wait), (1, Span::micros(2_345_678)));
    d.bbr.pick_probe_wait();
    assert_ne!(d.bbr.probe.bw_probe_wait, Span::micros(2_345_678), "for once");
}

/// Startup of the draft's edition with `acks` ACKs, each reporting `marked` of 40 packets marked.
fn marked_startup(acks: u64, marked: u32) -> Driver {
    let mut d = Driver::new();
    d.round(40);
    for _ in 0..acks {
        d.ack_with(1, |_, flight| flight.is_ece = true);
    }
    d.round_with(|_, flight| {
        *flight = FlightSample { tx_in_flight: 100, delivered_ce: marked, ..FlightSample::default() };
    });
    d
}

// spec: draft-ietf-ccwg-bbr #ecn: marks MUST count as congestion
#[test]
fn enough_marks_end_startup_of_the_drafts_edition_without_any_loss() {
    for (acks, marked, ends) in [(6, 3, true), (5, 3, false), (6, 2, false)] {
        let d = marked_startup(acks, marked);
        assert_eq!(d.bbr.full_pipe.reached, ends, "{acks} {marked}");
        if ends {
            assert_eq!((d.bbr.full_pipe.cause, d.bbr.undo.state), (Cause::Marks, Some(State::Startup)));
        }
    }
    let mut d = Driver::new();
    d.bbr.p.ecn = 0;
    d.round(40);
    for _ in 0..6 {
        d.ack_with(1, |_, flight| flight.is_ece = true);
    }
    d.round_with(|_, flight| (flight.tx_in_flight, flight.delivered_ce) = (100, 30));
    assert!(!d.bbr.full_pipe.reached, "marks are switched off");
}

#[test]
fn marks_and_losses_of_a_round_of_recovery_are_one_sum() {
    for (lost, marked, ends) in [(1, 1, false), (2, 1, true), (3, 0, true)] {
        let mut d = Driver::new();
        d.round(40);
        for n in 0..6 {
            d.lose(10 * n, 100, 1);
        }
        d.ca_state(CaState::Recovery);
        d.round_with(|_, flight| (flight.tx_in_flight, flight.lost, flight.delivered_ce) = (100, lost, marked));
        assert_eq!(d.bbr.full_pipe.reached, ends, "{lost} {marked}");
        let cause = if marked > 0 { Cause::Marks } else { Cause::Loss };
        assert!(!ends || d.bbr.full_pipe.cause == cause);
    }
}

#[test]
fn a_mark_begins_a_round_of_loss_and_saves_what_an_undo_gives_back() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.bounds.inflight_longterm = 60 * PACKET;
    d.bbr.bounds.loss_round_delivered = INFINITY;
    d.ack_with(1, |_, flight| flight.is_ece = true);
    assert_eq!((d.bbr.bounds.loss_round_delivered, d.bbr.bounds.loss_events_in_round), (d.volume(), 1));
    assert_eq!(d.bbr.snapshot().undo.inflight_longterm, Some(60 * PACKET));
    assert!(d.bbr.bounds.is_loss_in_round && d.bbr.ecn.loss_in_cycle);
    // The next mark of the round neither begins another round nor saves again.
    d.bbr.bounds.inflight_longterm = 50 * PACKET;
    d.ack_with(1, |_, flight| flight.is_ece = true);
    assert_eq!(d.bbr.bounds.loss_round_delivered, d.volume() - PACKET);
    assert_eq!(d.bbr.snapshot().undo.inflight_longterm, Some(60 * PACKET));
}

#[test]
fn the_drafts_edition_has_no_parameter_of_googles_response_to_marks() {
    use crate::params::ParamError;
    let names = ["ecn_max_rtt", "ecn_alpha_gain", "ecn_factor", "ecn_thresh", "full_ecn_cnt", "ecn_reprobe_gain"];
    for name in names {
        let mut p = Bbr3Params::default();
        assert_eq!(p.set_for(Edition::Draft06, name, "0"), Err(ParamError::Unknown), "{name}");
        for edition in [Edition::LinuxV3, Edition::LinuxV2, Edition::Ietf100] {
            assert_ne!(p.set_for(edition, name, "0"), Err(ParamError::Unknown), "{name} {edition:?}");
        }
    }
    let mut p = Bbr3Params::default();
    assert_eq!(p.set_for(Edition::Draft06, "ecn", "off"), Ok(()));
    assert_eq!((p.ecn, Bbr3Params::specs_of(Edition::Draft06).len() + names.len()), (0, Bbr3Params::SPECS.len()));
}

// spec: google/bbr v3 bbr_bw_to_pacing_rate: min_t(u64, rate, sk_max_pacing_rate), the first rate included
#[test]
fn no_rate_is_above_the_hosts_bound() {
    for edition in [Edition::Draft06, Edition::LinuxV3] {
        let max = Some(Rate::bytes_per_sec(300_000));
        let d = Driver::with(&Driver::params(edition), edition, |init| init.max_pacing_rate = max);
        assert_eq!(d.bbr.pacing_rate(), Rate::bytes_per_sec(300_000), "{edition:?}: the first");
        let mut d = of(edition, Phase::ProbeBwCruise);
        d.ack(1);
        let free = d.bbr.pacing_rate();
        d.bbr.set_max_pacing_rate(max);
        assert_eq!(d.bbr.pacing_rate(), Rate::bytes_per_sec(300_000), "{edition:?}: at once");
        d.ack(1);
        assert_eq!(d.bbr.pacing_rate(), Rate::bytes_per_sec(300_000), "{edition:?}: and later");
        d.restart(true);
        assert_eq!(d.bbr.pacing_rate(), Rate::bytes_per_sec(300_000), "{edition:?}: from idle");
        d.bbr.set_max_pacing_rate(None);
        d.ack(1);
        assert_eq!(d.bbr.pacing_rate(), free, "{edition:?}: without a bound");
    }
}

#[test]
fn a_bound_of_the_rate_sizes_bursts_too() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.bbr.set_max_bw([100 * RATE; 2]);
    d.ack(1);
    assert_eq!(d.bbr.send_quantum(), Some(65_536));
    d.bbr.set_max_pacing_rate(Some(Rate::bytes_per_sec(10_000_000)));
    d.ack(1);
    assert_eq!(d.bbr.send_quantum(), Some(10_000), "a millisecond of the bound");
}

// spec: #quic-offload-budget: min(Ack-Eliciting Threshold, Requested Max Ack Delay * BBR.max_bw)
#[test]
fn the_offload_budget_covers_packets_held_back_by_a_lower_ack_frequency() {
    for (packets, delay_ms, room) in [(0, 100, 0), (10, 100, 10), (10, 5, 5)] {
        let mut d = Driver::in_state(Phase::ProbeBwCruise);
        d.bbr.p.offload_quanta = 1;
        d.bbr.set_ack_frequency(packets, Span::millis(delay_ms));
        assert_eq!(
            d.bbr.inflight(1, UNIT),
            (2 + room).max(4) * PACKET,
            "one quantum of two packets, {packets} {delay_ms}"
        );
    }
}

#[test]
fn a_new_ack_frequency_takes_effect_with_the_next_ack() {
    let mut d = Driver::in_state(Phase::ProbeBwCruise);
    d.ack(1);
    let before = d.bbr.out.cwnd;
    d.bbr.set_ack_frequency(1_000, Span::secs(1));
    d.ack_with(1, |ack, _| ack.rs.acked_sacked = 1_000);
    assert!(d.bbr.out.cwnd > before + 500 * PACKET, "{before} to {}", d.bbr.out.cwnd);
}

/// Each change of state has its cause.
#[test]
fn a_snapshot_names_what_brought_the_flow_to_its_state() {
    let mut d = Driver::new();
    assert_eq!(d.bbr.snapshot().cause, Cause::Begin);
    for _ in 0..4 {
        d.round_with(|ack, _| ack.in_flight = 100);
    }
    assert_eq!((d.state(), d.bbr.snapshot().cause), (State::Drain, Cause::Plateau));
    d.ack_with(1, |ack, _| ack.in_flight = 40);
    assert_eq!((d.state(), d.bbr.snapshot().cause), (State::ProbeBwCruise, Cause::Drained));
    d.ack_with(4_000_000, |_, _| {});
    assert_eq!((d.state(), d.bbr.snapshot().cause), (State::ProbeBwRefill, Cause::ProbeTimer));
    d.round(40);
    assert_eq!((d.state(), d.bbr.snapshot().cause), (State::ProbeBwUp, Cause::Refilled));
    d.lose(1, 40, 3);
    assert_eq!((d.state(), d.bbr.snapshot().cause), (State::ProbeBwDown, Cause::Loss));
    d.ca_state(CaState::Recovery);
    let ack = d.bare();
    d.bbr.on_undo(&ack);
    assert_eq!((d.state(), d.bbr.snapshot().cause), (State::ProbeBwRefill, Cause::Undo));
    d.ack_with(6_000_000, |ack, _| ack.rs.rtt_us = Some(90_000));
    assert_eq!((d.state(), d.bbr.snapshot().cause), (State::ProbeRtt, Cause::MinRttExpired));
}

/// A loss of several packets is judged as a whole: the prefix that fits can be longer than one packet.
// spec: google/bbr v3 bbr_inflight_hi_from_lost_skb; draft: P.data_length
#[test]
fn what_was_lost_together_is_judged_together() {
    for edition in [Edition::Draft06, Edition::LinuxV3] {
        let mut d = of(edition, UP);
        d.bbr.probe.is_bw_probe_sample = true;
        let packet = d.bbr.smss();
        let lost = Lost {
            packets: 10,
            volume: 10 * packet,
            tx_in_flight: 310 * packet,
            lost: 11 * packet,
            delivered: d.volume(),
            ..Lost::default()
        };
        d.bbr.on_lost_packet(&lost);
        assert_eq!(d.state(), State::ProbeBwDown, "{edition:?}");
        // 300 packets and one lost before them: a budget of 6 leaves room for five (and 2 %) more.
        let bound = d.bbr.bounds.inflight_longterm;
        assert!((305 * packet..306 * packet).contains(&bound), "{edition:?}: {bound}");
    }
}

#[test]
fn packets_lost_together_and_those_right_behind_them_are_one_gap() {
    let mut d = Driver::new();
    let mut lose = |seq: u64, packets: u32| {
        let lost = Lost { seq, packets, volume: u64::from(packets) * PACKET, ..Lost::default() };
        d.bbr.on_lost_packet(&lost);
        d.bbr.bounds.loss_events_in_round
    };
    assert_eq!([lose(10, 5), lose(15, 1), lose(16, 3), lose(20, 1)], [1, 1, 1, 2]);
}

// spec: google/bbr v3 bbr_inflight_hi_from_lost_skb
#[test]
fn linux_sets_no_bound_for_a_loss_larger_than_its_flight() {
    let d = Driver::of(Edition::LinuxV3);
    // Before it: 96 in flight and 1 lost of a budget of 2; the next packet exceeds it.
    assert_eq!(d.bbr.inflight_at_loss(100, 5, 4), 97);
    assert_eq!(d.bbr.inflight_at_loss(100, 5, 1), 99, "packet by packet the last one would be blamed");
    assert_eq!(d.bbr.inflight_at_loss(3, 5, 4), INFINITY, "larger than its flight");
    assert_eq!(d.bbr.inflight_at_loss(100, 3, 4), INFINITY, "larger than what was lost");
}

// spec: google/bbr v3 and v2alpha bbr_has_elapsed_in_phase
#[test]
fn a_kernel_times_a_cycle_in_whole_microseconds() {
    for (edition, after_ns, probes) in [
        (Edition::LinuxV3, 5_900, false),
        (Edition::LinuxV3, 6_000, true),
        (Edition::Draft06, 5_100, false),
        (Edition::Draft06, 5_101, true),
    ] {
        let mut d = of(edition, Phase::ProbeBwCruise);
        d.bbr.probe.cycle_stamp = Time::nanos(1_000_000_100);
        d.bbr.probe.bw_probe_wait = Span::micros(5);
        d.ack_with(1, |ack, _| ack.now = Time::nanos(1_000_000_000 + after_ns));
        assert_eq!(d.state() == State::ProbeBwRefill, probes, "{edition:?} {after_ns}");
    }
}

// spec: google/bbr v3 bbr_cwnd_event, bbr_main
#[test]
fn linux_takes_the_gains_of_a_state_begun_by_a_restart_with_the_next_ack_that_is_no_short_one() {
    let mut d = of(Edition::LinuxV3, Phase::ProbeRtt { done_stamp: Some(1), round_done: true });
    d.bbr.full_pipe.reached = false;
    d.bbr.out.try_fast_path = true;
    d.restart(true);
    assert_eq!((d.state(), d.bbr.gains.pacing), (State::Startup, UNIT));
    d.ack_with(1_000, |ack, _| (ack.rs.is_app_limited, ack.rs.delivered) = (true, Some(1)));
    assert_eq!(d.bbr.gains.pacing, UNIT, "the short path sets no gain");
    d.ack(1_000);
    assert_eq!(d.bbr.gains.pacing, d.bbr.p.startup_pacing_gain);
}

// spec: google/bbr v3 bbr_check_loss_too_high_in_startup
#[test]
fn linux_stops_counting_losses_with_startup_and_keeps_the_count() {
    let mut d = Driver::of(Edition::LinuxV3);
    d.ca_state(CaState::Recovery);
    for _ in 0..6 {
        d.ack_with(1_000, |ack, flight| (ack.rs.losses, flight.lost) = (9, 9));
    }
    d.round_with(|ack, flight| (ack.rs.losses, flight.lost) = (9, 9));
    assert!(d.bbr.full_pipe.reached && d.bbr.bounds.loss_round_start);
    assert_eq!(d.bbr.bounds.loss_events_in_round, 7);
    d.round(40);
    assert_eq!(d.bbr.bounds.loss_events_in_round, 7);
    let mut d = Driver::of(Edition::LinuxV3);
    d.ack_with(1_000, |ack, _| ack.rs.losses = 9);
    d.round(40);
    assert_eq!(d.bbr.bounds.loss_events_in_round, 0, "in Startup a round without enough of them ends the count");
}

// spec: google/bbr v3 and v2alpha bbr_adapt_lower_bounds: max(1U, bw_lo), whatever set it
#[test]
fn marks_before_any_rate_was_measured_leave_a_rate_above_nothing_in_v2() {
    let mut d = of(Edition::LinuxV2, Phase::ProbeBwCruise);
    d.bbr.set_max_bw([0; 2]);
    (d.bbr.ecn.in_round, d.bbr.ecn.eligible) = (true, true);
    d.round_with(|ack, _| ack.rs.delivered = Some(0));
    assert_eq!(d.bbr.bounds.bw_shortterm, 1);
}
