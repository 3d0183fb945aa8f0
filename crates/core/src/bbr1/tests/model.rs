//! The model and its states: rounds, bandwidth, Startup, Drain, the gain cycle, RTprop and ProbeRTT.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

#[test]
fn a_round_ends_when_a_packet_sent_after_its_beginning_is_delivered() {
    let mut d = Driver::cruising(2);
    d.ack_with(1, |ack| ack.rs.prior_delivered = 1_999);
    assert!(!d.bbr.rounds.start);
    d.ack_with(1, |ack| ack.rs.prior_delivered = 2_000);
    assert!(d.bbr.rounds.start);
    assert_eq!(d.bbr.rounds.next_delivered, d.delivered);
}

/// Bug of another implementation: a 32-bit counter of round ends stopped after 4.3 GB.
#[test]
fn rounds_go_on_beyond_32_bits_of_deliveries() {
    let mut d = Driver::cruising(2);
    d.delivered = u64::from(u32::MAX) - 2;
    d.bbr.rounds.next_delivered = d.delivered;
    let before = d.bbr.rounds.count;
    for _ in 0..6 {
        let sent_at = d.delivered;
        d.ack_with(RTT_US, |ack| ack.rs.prior_delivered = sent_at);
    }
    assert!(d.delivered > u64::from(u32::MAX));
    assert_eq!(d.bbr.rounds.count, before + 6);
}

#[test]
fn an_ack_without_a_valid_interval_teaches_no_bandwidth_and_ends_no_round() {
    let mut d = Driver::cruising(2);
    d.ack_with(1, |ack| {
        ack.rs.prior_delivered = 5_000;
        ack.rs.delivered = Some(400);
        ack.rs.interval_us = None;
    });
    assert_eq!((d.bbr.rounds.start, d.bbr.max_bw.get()), (false, PER_MS));
}

#[test]
fn a_sample_of_packets_sent_before_any_delivery_counts() {
    let mut d = Driver::new();
    d.ack_with(RTT_US, |ack| ack.rs.delivered = Some(1));
    assert_eq!(d.bbr.max_bw.get(), BW_UNIT / RTT_US);
}

#[test]
fn app_limited_samples_only_raise_the_bandwidth() {
    let mut d = Driver::cruising(2);
    for round in 0..30 {
        d.round_with(10, |ack| ack.rs.is_app_limited = true);
        assert_eq!(d.bbr.max_bw.get(), PER_MS, "round {round}");
    }
    d.round_with(80, |ack| ack.rs.is_app_limited = true);
    assert_eq!(d.bbr.max_bw.get(), 80 * BW_UNIT / RTT_US);
}

#[test]
fn a_bandwidth_is_forgotten_after_ten_rounds() {
    let mut d = Driver::cruising(2);
    for _ in 0..10 {
        d.round(20);
    }
    assert_eq!(d.bbr.max_bw.get(), PER_MS);
    d.round(20);
    assert_eq!(d.bbr.max_bw.get(), 20 * BW_UNIT / RTT_US);
}

#[test]
fn startup_ends_after_three_rounds_without_a_quarter_of_growth() {
    let mut d = Driver::new();
    d.round(1_000);
    for round in 0..3 {
        assert_eq!(d.bbr.mode, Mode::Startup, "round {round}");
        d.round_with(1_249, |ack| ack.in_flight = 100_000);
    }
    assert_eq!(d.bbr.mode, Mode::Drain);
}

#[test]
fn growth_by_a_quarter_begins_the_count_anew() {
    let mut d = Driver::new();
    // 1250 scales to just the threshold of 1000 in the kernel's integers, or above.
    for bw in [1_000, 1_000, 1_000, 1_250, 1_250, 1_250] {
        d.round_with(bw, |ack| ack.in_flight = 100_000);
    }
    assert_eq!((d.bbr.mode, d.bbr.full_bw.count), (Mode::Startup, 2));
}

#[test]
fn app_limited_rounds_do_not_end_startup() {
    let mut d = Driver::new();
    d.round(1_000);
    for _ in 0..20 {
        d.round_with(500, |ack| ack.rs.is_app_limited = true);
    }
    assert_eq!((d.bbr.mode, d.bbr.full_bw.count), (Mode::Startup, 0));
}

#[test]
fn drain_ends_when_inflight_reaches_the_quantised_bdp_and_not_one_packet_before() {
    let mut d = Driver::cruising(0);
    d.bbr.mode = Mode::Drain;
    d.bbr.update_gains();
    let target = d.bbr.inflight(PER_MS, UNIT);
    // 40 packets of BDP, three bursts of 2 (1.4 MB/s make 1400 bytes in 1/1024 s).
    assert_eq!(target, 46);
    d.ack_with(1, |ack| ack.in_flight = target + 1);
    assert_eq!(d.bbr.mode, Mode::Drain);
    d.ack_with(1, |ack| ack.in_flight = target);
    assert!(matches!(d.bbr.mode, Mode::ProbeBw { .. }));
}

#[test]
fn what_the_pacer_has_scheduled_counts_as_not_yet_in_the_network() {
    let mut d = Driver::cruising(0);
    d.bbr.mode = Mode::Drain;
    d.bbr.update_gains();
    d.ack_with(1, |ack| {
        ack.in_flight = 50;
        ack.edt = ack.now + Span::millis(3);
    });
    assert_eq!(d.bbr.mode, Mode::Drain, "2.99 packets leave in 3 ms: 48 stay");
    d.ack_with(1, |ack| {
        ack.in_flight = 50;
        ack.edt = ack.now + Span::micros(4_001);
    });
    assert!(matches!(d.bbr.mode, Mode::ProbeBw { .. }));
}

#[test]
fn the_gain_cycle_begins_at_any_phase_but_the_draining_one() {
    let mut seen = [0; 8];
    for seed in 0..800 {
        let mut d = Driver::new();
        d.bbr.rng = Rng::derive(seed, 7);
        d.bbr.enter_probe_bw(0);
        seen[usize::from(d.phase())] += 1;
    }
    assert_eq!(seen[1], 0);
    assert!(seen.iter().enumerate().all(|(phase, &count)| phase == 1 || count > 70), "{seen:?}");
}

#[test]
fn the_cycle_is_five_quarters_three_quarters_and_six_ones() {
    let mut d = Driver::cruising(0);
    let mut gains = [0; 9];
    for gain in &mut gains {
        *gain = d.bbr.pacing_gain;
        d.ack_with(RTT_US + 1, |ack| ack.rs.prior_in_flight = 1_000);
    }
    assert_eq!(gains, [320, 192, 256, 256, 256, 256, 256, 256, 320]);
}

#[test]
fn a_phase_of_gain_one_lasts_longer_than_a_min_rtt() {
    let mut d = Driver::cruising(4);
    d.ack(RTT_US);
    assert_eq!(d.phase(), 4);
    d.ack(1);
    assert_eq!(d.phase(), 5);
}

#[test]
fn the_probing_phase_lasts_until_inflight_reached_its_target() {
    let mut d = Driver::cruising(0);
    let target = d.bbr.inflight(PER_MS, 320);
    let burst = d.bbr.tso_segs_goal();
    d.ack_with(5 * RTT_US, |ack| ack.rs.prior_in_flight = target - burst - 1);
    assert_eq!(d.phase(), 0);
    d.ack_with(1, |ack| ack.rs.prior_in_flight = target - burst);
    assert_eq!(d.phase(), 1);
}

#[test]
fn loss_ends_the_probing_phase_but_not_within_a_min_rtt() {
    let mut d = Driver::cruising(0);
    d.ack_with(RTT_US, |ack| ack.rs.losses = 1);
    assert_eq!(d.phase(), 0);
    d.ack_with(1, |ack| ack.rs.losses = 1);
    assert_eq!(d.phase(), 1);
}

#[test]
fn the_draining_phase_ends_as_soon_as_inflight_is_down_to_the_bdp() {
    let mut d = Driver::cruising(1);
    let target = d.bbr.inflight(PER_MS, UNIT);
    d.ack_with(10, |ack| ack.rs.prior_in_flight = target + 1);
    assert_eq!(d.phase(), 1);
    d.ack_with(10, |ack| ack.rs.prior_in_flight = target);
    assert_eq!(d.phase(), 2);
}

#[test]
fn the_draining_phase_lasts_no_longer_than_a_min_rtt() {
    let mut d = Driver::cruising(1);
    d.ack_with(RTT_US, |ack| ack.rs.prior_in_flight = 1_000);
    assert_eq!(d.phase(), 1);
    d.ack_with(1, |ack| ack.rs.prior_in_flight = 1_000);
    assert_eq!(d.phase(), 2);
}

/// Linux takes `tcp_min_rtt`, which the handshake has set: data packets queue behind each other, the SYN does not.
#[test]
fn the_handshakes_rtt_is_the_first_minimum() {
    let mut d = Driver::new();
    d.ack_with(90_000, |ack| ack.rs.rtt_us = Some(90_000));
    assert_eq!(d.bbr.min_rtt_us, Some(RTT_US));
}

#[test]
fn a_smaller_rtt_is_taken_at_once_and_a_larger_one_is_not() {
    let mut d = Driver::cruising(4);
    d.ack_with(1, |ack| ack.rs.rtt_us = Some(RTT_US + 1));
    assert_eq!(d.bbr.min_rtt_us, Some(RTT_US));
    d.ack_with(1, |ack| {
        ack.rs.rtt_us = Some(RTT_US - 1);
        ack.rs.is_ack_delayed = true;
    });
    assert_eq!(d.bbr.min_rtt_us, Some(RTT_US - 1));
}

#[test]
fn the_minimum_rtt_expires_one_tick_after_ten_seconds() {
    let mut d = Driver::cruising(4);
    d.ack_with(10_000_000, |ack| ack.rs.rtt_us = Some(50_000));
    assert_eq!((d.bbr.min_rtt_us, d.is_probe_rtt()), (Some(RTT_US), false));
    d.ack_with(4_000, |ack| ack.rs.rtt_us = Some(50_000));
    assert_eq!((d.bbr.min_rtt_us, d.is_probe_rtt()), (Some(50_000), true));
}

#[test]
fn a_delayed_ack_does_not_replace_an_expired_minimum() {
    let mut d = Driver::cruising(4);
    d.ack_with(10_004_000, |ack| {
        ack.rs.rtt_us = Some(80_000);
        ack.rs.is_ack_delayed = true;
    });
    assert_eq!((d.bbr.min_rtt_us, d.is_probe_rtt()), (Some(RTT_US), true));
}

#[test]
fn a_restart_from_idle_spares_the_flow_probe_rtt_once() {
    let mut d = Driver::cruising(4);
    d.bbr.idle_restart = true;
    d.ack(10_004_000);
    assert_eq!((d.is_probe_rtt(), d.bbr.idle_restart), (false, false));
}

#[test]
fn idleness_lasts_until_something_is_delivered() {
    let mut d = Driver::cruising(4);
    d.bbr.idle_restart = true;
    d.ack_with(1, |ack| (ack.rs.delivered, ack.rs.acked_sacked) = (None, 0));
    assert!(d.bbr.idle_restart);
    d.ack(1);
    assert!(!d.bbr.idle_restart);
}

/// A flow that has just entered ProbeRTT with a window of 80 packets.
fn probing() -> Driver {
    let mut d = Driver::cruising(4);
    d.ack(10_004_000);
    assert!(d.is_probe_rtt());
    d
}

#[test]
fn probe_rtt_caps_the_window_at_four_packets_and_paces_at_the_estimate() {
    let d = probing();
    assert_eq!((d.bbr.cwnd, d.bbr.pacing_gain, d.bbr.cwnd_gain, d.bbr.prior_cwnd), (4, 256, 256, 80));
}

#[test]
fn probe_rtt_waits_for_inflight_to_fall_before_its_clock_starts() {
    let mut d = probing();
    d.round_with(40, |ack| ack.in_flight = 5);
    assert_eq!(d.bbr.mode, Mode::ProbeRtt { done_at: None, round_done: false });
    d.ack_with(1, |ack| ack.in_flight = 4);
    assert!(matches!(d.bbr.mode, Mode::ProbeRtt { done_at: Some(_), round_done: false }));
}

#[test]
fn probe_rtt_ends_only_after_200_ms_and_one_round() {
    let low = |ack: &mut Ack| ack.in_flight = 4;
    let mut d = probing();
    d.ack_with(1, low);
    d.ack_with(500_000, low);
    assert!(d.is_probe_rtt(), "time alone");
    d.round_with(40, low);
    assert!(!d.is_probe_rtt(), "time and a round");
    let mut d = probing();
    d.ack_with(1, low);
    d.round_with(40, low);
    d.ack_with(159_000, low);
    assert!(d.is_probe_rtt(), "a round, and 50 ticks of 4 ms but not more");
    d.ack_with(5_000, low);
    assert!(!d.is_probe_rtt(), "a round, and time");
}

#[test]
fn the_window_comes_back_after_probe_rtt() {
    let mut d = probing();
    d.ack_with(1, |ack| ack.in_flight = 4);
    d.round_with(40, |ack| ack.in_flight = 4);
    d.ack_with(200_000, |ack| ack.in_flight = 4);
    assert!(matches!(d.bbr.mode, Mode::ProbeBw { .. }));
    assert!(d.bbr.cwnd >= 80, "{}", d.bbr.cwnd);
    let tick = d.bbr.tick(Time::micros(d.now_us), None);
    assert_eq!(d.bbr.min_rtt_tick, tick, "the next one comes in ten seconds");
}

/// Goal: 10 s and 200 ms are whole ticks at every `HZ` that Linux supports, as `msecs_to_jiffies` computes them.
#[test]
fn spans_are_as_many_ticks_as_in_the_kernel() {
    for (hz, window, hold) in [(100, 1_000, 20), (250, 2_500, 50), (300, 3_000, 60), (1_000, 10_000, 200)] {
        let params = Bbr1Params { hz, ..Bbr1Params::default() };
        let bbr = Bbr1::new(&params, &Init::new(Time::ZERO).with_mss(1448).with_seed(1));
        assert_eq!((bbr.min_rtt_window_ticks, bbr.ticks(bbr.p.probe_rtt_time)), (window, hold), "{hz} Hz");
        assert_eq!(bbr.tick(Time::micros(10_000_000), None), window);
    }
}

/// Goal: a host's own ticks take precedence over its clock.
#[test]
fn the_hosts_own_tick_wins() {
    let init = Init { tick: Some(77), ..Init::new(Time::micros(9_000_000)).with_mss(1448).with_seed(1) };
    let bbr = Bbr1::new(&Bbr1Params::default(), &init);
    assert_eq!(bbr.min_rtt_tick, 77);
    assert_eq!(bbr.tick(Time::micros(9_000_000), Some(78)), 78);
}

#[test]
fn a_flow_that_begins_with_packets_delivered_counts_its_first_round_from_there() {
    let init = Init { delivered: 5, ..Init::new(Time::ZERO).with_mss(1448).with_seed(1) };
    let bbr = Bbr1::new(&Bbr1Params::default(), &init);
    assert_eq!(bbr.internals().next_rtt_delivered, 5);
}

#[test]
fn a_flow_that_never_filled_the_pipe_returns_from_probe_rtt_to_startup() {
    let mut d = Driver::new();
    d.ack(10_004_000);
    d.ack_with(1, |ack| ack.in_flight = 4);
    d.round_with(40, |ack| ack.in_flight = 4);
    d.ack_with(200_000, |ack| ack.in_flight = 4);
    assert_eq!(d.bbr.mode, Mode::Startup);
}

#[test]
fn every_ack_of_probe_rtt_marks_what_is_in_flight_app_limited_the_last_one_too() {
    let mut d = probing();
    assert!(d.bbr.wants_app_limited());
    d.ack_with(1, |ack| ack.in_flight = 4);
    d.round_with(40, |ack| ack.in_flight = 4);
    d.ack_with(200_000, |ack| ack.in_flight = 4);
    assert!(!d.is_probe_rtt() && d.bbr.wants_app_limited());
    d.ack(1);
    assert!(!d.bbr.wants_app_limited());
}

#[test]
fn probe_rtt_that_idleness_outlasted_ends_when_the_flow_sends_again() {
    let mut d = probing();
    d.ack_with(1, |ack| ack.in_flight = 4);
    d.now_us += 1_000_000;
    d.bbr.on_tx_start(&tx_start(d.now_us, true));
    assert!(!d.is_probe_rtt());
    assert_eq!(d.bbr.cwnd, 80);
}

fn tx_start(now_us: u64, app_limited: bool) -> TxStart {
    TxStart {
        now: Time::micros(now_us),
        delivered: 0,
        app_limited,
        idle: Span::secs(1),
        delivered_time_us: now_us,
        srtt: Some(Span::micros(RTT_US)),
        rto: Span::millis(240),
        none_outstanding: true,
        tick: None,
    }
}

#[test]
fn an_application_limited_restart_paces_at_the_estimate_whatever_the_phase() {
    let mut d = Driver::cruising(0);
    d.bbr.set_pacing_rate(PER_MS, 320, None);
    let probing = d.bbr.pacing_rate;
    d.bbr.on_tx_start(&tx_start(d.now_us, false));
    assert_eq!((d.bbr.pacing_rate, d.bbr.idle_restart), (probing, false), "the window was the limit: no restart");
    d.bbr.on_tx_start(&tx_start(d.now_us, true));
    assert_eq!((d.bbr.pacing_rate, d.bbr.idle_restart), (1_433_501, true));
}

#[test]
fn undo_forgets_that_the_pipe_seemed_full() {
    let mut d = Driver::new();
    d.round(1_000);
    d.round(1_000);
    let cwnd = d.bbr.cwnd;
    d.bbr.on_undo(&d.bare());
    assert_eq!((d.bbr.full_bw.bw, d.bbr.full_bw.count, d.bbr.cwnd), (0, 0, cwnd));
}

#[test]
fn a_trace_shows_the_cycle_as_up_down_and_cruise_and_a_policed_rate_as_cruise() {
    let states = [State::ProbeBwUp, State::ProbeBwDown, State::ProbeBwCruise];
    for (phase, state) in (0..).zip(states) {
        let mut d = Driver::cruising(phase);
        assert_eq!(d.bbr.state(), state);
        d.bbr.lt.in_use = true;
        assert_eq!(d.bbr.state(), State::ProbeBwCruise);
    }
}

#[test]
fn a_host_can_bring_its_own_random_numbers() {
    let drawn = |rng: Rng| {
        let mut d = Driver::new();
        d.bbr.set_rng(rng);
        d.bbr.enter_probe_bw(0);
        d.phase()
    };
    for seed in 0..20 {
        let draw = Rng::new(seed).below(u64::from(CYCLE_LEN) - 1) as u8;
        assert_eq!(drawn(Rng::new(seed)), (CYCLE_LEN - draw) % CYCLE_LEN, "seed {seed}");
    }
}

#[test]
fn an_rtt_as_small_as_the_minimum_does_not_renew_it() {
    let mut d = Driver::new();
    let stamp = d.bbr.min_rtt_tick;
    d.ack(1_000_000);
    assert_eq!(d.bbr.min_rtt_tick, stamp, "the draft would; Linux does not");
}

#[test]
fn a_sample_of_nothing_delivered_does_not_end_idleness() {
    let mut d = Driver::cruising(2);
    d.bbr.idle_restart = true;
    d.ack_with(1, |ack| ack.rs.delivered = Some(0));
    assert!(d.bbr.idle_restart);
    d.ack(1);
    assert!(!d.bbr.idle_restart);
}

/// A field that is `None` is not compared with the kernel, so each mode must show the fields that belong to it.
#[test]
fn each_mode_shows_what_belongs_to_it() {
    let mut d = Driver::cruising(3);
    d.bbr.mode = Mode::ProbeBw { phase: 3, since_us: 77 };
    let shown = |d: &Driver| {
        let internals = d.bbr.internals();
        (
            internals.mode,
            internals.cycle_idx,
            internals.cycle_mstamp_us,
            internals.probe_rtt_done_stamp,
            internals.probe_rtt_round_done,
        )
    };
    assert_eq!(shown(&d), (2, Some(3), Some(77), None, None));
    d.bbr.mode = Mode::ProbeRtt { done_at: None, round_done: false };
    assert_eq!(shown(&d), (3, None, None, Some(0), None));
    d.bbr.mode = Mode::ProbeRtt { done_at: Some(88), round_done: true };
    assert_eq!(shown(&d), (3, None, None, Some(88), Some(true)));
    d.bbr.mode = Mode::Startup;
    assert_eq!(shown(&d), (0, None, None, None, None));
}
