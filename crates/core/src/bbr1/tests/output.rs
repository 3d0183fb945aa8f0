//! Fixed point, pacing rate, window, recovery and the allowance for aggregated ACKs.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

#[test]
fn the_gains_are_the_kernels_integers() {
    let p = Bbr1Params::default();
    assert_eq!(p.pacing_gain_startup, 256 * 2_885 / 1_000 + 1);
    assert_eq!(p.cwnd_gain_startup, p.pacing_gain_startup);
    assert_eq!(p.pacing_gain_drain, 256 * 1_000 / 2_885);
    assert_eq!((p.pacing_gain_up, p.pacing_gain_down, p.cwnd_gain), (256 * 5 / 4, 256 * 3 / 4, 512));
}

/// Computed by hand: ((bw·1448·gain) >> 8) · 990000 >> 24, with bw = 16777 for a packet per millisecond.
#[test]
fn bandwidth_becomes_bytes_a_second_in_the_kernels_order_of_rounding() {
    let d = Driver::new();
    let rates = [256, 739, 88, 320].map(|gain| d.bbr.rate_bytes_per_sec(PER_MS, gain, 1));
    assert_eq!(rates, RATES);
}

/// Results of the formula above in Python's integers, for the gains 256, 739, 88 and 320.
const RATES: [u64; 4] = [1_433_501, 4_138_115, 492_766, 1_791_876];

#[test]
fn a_rate_of_400_gbit_does_not_wrap() {
    let d = Driver::new();
    assert_eq!(d.bbr.rate_bytes_per_sec(579_323_744, 739, 1), 142_892_574_941);
}

#[test]
fn the_first_pacing_rate_is_high_gain_times_the_initial_window_over_the_handshakes_rtt() {
    assert_eq!(Driver::new().bbr.pacing_rate, 1_034_467);
}

/// Bug of another implementation: a first rate of the initial window per millisecond was only ever raised, so it stayed.
#[test]
fn a_first_rate_that_was_guessed_is_replaced_by_the_first_rtt_also_downward() {
    let mut bbr = Bbr1::new(&Bbr1Params::default(), &Init::new(Time::ZERO).with_mss(1448).with_seed(1));
    assert_eq!(bbr.pacing_rate, 41_381_651);
    bbr.set_pacing_rate(0, UNIT, Some(Span::micros(RTT_US)));
    assert_eq!(bbr.pacing_rate, 1_034_467);
}

#[test]
fn the_rate_never_falls_before_the_pipe_is_full_and_follows_the_estimate_after() {
    let mut d = Driver::new();
    let first = d.bbr.pacing_rate;
    d.round(1);
    assert_eq!(d.bbr.pacing_rate, first);
    d.bbr.full_bw_reached = true;
    d.ack_with(1, |ack| ack.rs.delivered = Some(1));
    assert!(d.bbr.pacing_rate < first);
}

#[test]
fn the_rate_is_never_zero() {
    let mut d = Driver::cruising(2);
    d.bbr.set_pacing_rate(0, UNIT, None);
    assert_eq!(d.bbr.pacing_rate, 1);
}

#[test]
fn the_bdp_is_rounded_up_and_is_ten_packets_before_any_rtt() {
    let mut d = Driver::new();
    d.bbr.min_rtt_us = Some(10);
    assert_eq!(d.bbr.bdp(BW_UNIT, 256), 10);
    assert_eq!(d.bbr.bdp(BW_UNIT, 257), 11);
    assert_eq!(d.bbr.bdp(BW_UNIT + 1, 256), 11);
    assert_eq!(d.bbr.bdp(BW_UNIT, 739), 29);
    d.bbr.min_rtt_us = None;
    assert_eq!(d.bbr.bdp(BW_UNIT, 739), 10);
}

#[test]
fn a_burst_is_a_1024th_of_a_second_with_one_segment_below_1_2_mbit_and_two_above() {
    let mut d = Driver::new();
    let mut goal = |rate| {
        d.bbr.pacing_rate = rate;
        d.bbr.tso_segs_goal()
    };
    assert_eq!(goal(149_999), 1);
    assert_eq!(goal(150_000), 2);
    assert_eq!(goal(3 * 1448 * 1024 - 1), 2);
    assert_eq!(goal(3 * 1448 * 1024), 3);
    assert_eq!(goal(u64::MAX / 8), 45, "65215 bytes at most");
    d.bbr.on_mss(100);
    assert_eq!(d.bbr.tso_segs_goal(), 127, "127 segments at most");
}

#[test]
fn the_window_has_room_for_three_bursts_is_even_and_two_larger_while_probing() {
    let mut d = Driver::cruising(2);
    d.bbr.pacing_rate = 149_999;
    assert_eq!((d.bbr.quantization_budget(10, UNIT), d.bbr.quantization_budget(11, UNIT)), (14, 14));
    d.bbr.pacing_rate = 150_000;
    assert_eq!((d.bbr.quantization_budget(10, UNIT), d.bbr.quantization_budget(11, UNIT)), (16, 18));
    d.bbr.mode = Mode::ProbeBw { phase: 0, since_us: 0 };
    assert_eq!(d.bbr.quantization_budget(10, UNIT), 18);
}

#[test]
fn below_the_target_the_window_grows_by_what_is_acked_and_above_it_is_cut_at_once() {
    let mut d = Driver::cruising(2);
    d.bbr.p.extra_acked_gain = 0;
    d.ack_with(1, |ack| ack.rs.acked_sacked = 3);
    assert_eq!(d.bbr.cwnd, 83);
    d.bbr.cwnd = 500;
    d.ack(1);
    // 2 · 40 packets, three bursts of 2.
    assert_eq!(d.bbr.cwnd, 86);
}

#[test]
fn before_the_pipe_is_full_the_window_is_never_cut() {
    let mut d = Driver::new();
    d.delivered = 100;
    d.bbr.cwnd = 5_000;
    d.ack(1);
    assert_eq!(d.bbr.cwnd, 5_000);
}

#[test]
fn the_first_ten_deliveries_grow_the_window_whatever_the_target() {
    let mut d = Driver::new();
    d.bbr.cwnd = 5_000;
    d.delivered = 8;
    d.ack(1);
    assert_eq!(d.bbr.cwnd, 5_001);
    d.ack(1);
    assert_eq!(d.bbr.cwnd, 5_001);
}

#[test]
fn the_window_stays_between_four_packets_and_the_hosts_clamp() {
    let mut d = Driver::cruising(2);
    d.bbr.max_bw.reset(0, 1);
    d.ack_with(1, |ack| ack.rs.delivered = Some(0));
    assert!(d.bbr.cwnd >= 4);
    d.bbr.cwnd = 1;
    (d.bbr.p.quantization, d.bbr.plan) = (0, OutputCache::EMPTY);
    d.ack_with(1, |ack| ack.rs.delivered = Some(0));
    assert_eq!(d.bbr.cwnd, 4);
    d.bbr.cwnd_clamp = 3;
    d.ack(1);
    assert_eq!(d.bbr.cwnd, 3);
}

#[test]
fn an_ack_that_delivers_nothing_leaves_the_window_alone() {
    let mut d = Driver::cruising(2);
    d.ack_with(1, |ack| {
        ack.rs.acked_sacked = 0;
        ack.rs.delivered = None;
        ack.rs.losses = 20;
    });
    assert_eq!(d.bbr.cwnd, 80);
}

/// A flow in fast recovery since this ACK, with 50 packets in flight after it.
fn recovering() -> Driver {
    let mut d = Driver::cruising(2);
    d.bbr.on_ca_state(CaState::Disorder, CaState::Recovery);
    d.ca_state = CaState::Recovery;
    d.ack_with(1, |ack| (ack.in_flight, ack.rs.losses) = (50, 2));
    d
}

#[test]
fn recovery_begins_with_a_round_of_packet_conservation() {
    let mut d = recovering();
    assert_eq!((d.bbr.cwnd, d.bbr.packet_conservation, d.bbr.prior_cwnd), (51, true, 80));
    d.ack_with(1, |ack| ack.in_flight = 48);
    assert_eq!(d.bbr.cwnd, 51, "conservation never takes what is in flight, nor grows it");
}

#[test]
fn conservation_ends_with_its_round_and_the_window_grows_toward_its_target_again() {
    let mut d = recovering();
    let end = d.bbr.rounds.next_delivered;
    d.ack_with(1, |ack| (ack.rs.prior_delivered, ack.in_flight) = (end - 1, 50));
    assert!(d.bbr.packet_conservation);
    d.ack_with(1, |ack| (ack.rs.prior_delivered, ack.in_flight, ack.rs.acked_sacked) = (end, 50, 2));
    assert!(!d.bbr.packet_conservation);
    assert_eq!(d.bbr.cwnd, 53);
}

#[test]
fn losses_in_recovery_are_deducted_from_the_window_which_keeps_one_packet() {
    let mut d = recovering();
    d.bbr.packet_conservation = false;
    d.ack_with(1, |ack| (ack.rs.losses, ack.in_flight) = (7, 1));
    assert_eq!(d.bbr.cwnd, 51 - 7 + 1);
    d.bbr.packet_conservation = true;
    d.ack_with(1, |ack| (ack.rs.losses, ack.in_flight) = (900, 0));
    assert_eq!(d.bbr.cwnd, 1);
}

#[test]
fn the_window_comes_back_when_recovery_ends() {
    let mut d = recovering();
    d.ca_state = CaState::Open;
    d.ack_with(1, |ack| ack.in_flight = 45);
    assert_eq!((d.bbr.cwnd, d.bbr.packet_conservation), (81, false));
}

#[test]
fn a_window_saved_at_the_first_reduction_is_not_saved_again_when_that_deepens() {
    let mut d = Driver::cruising(2);
    d.bbr.on_ca_state(CaState::Open, CaState::Cwr);
    d.bbr.cwnd = 30;
    d.bbr.on_ca_state(CaState::Cwr, CaState::Recovery);
    assert_eq!(d.bbr.prior_cwnd, 80);
}

/// Pitfall: the kernel enters ProbeRTT before it saves the window, so an older and larger one stays.
#[test]
fn probe_rtt_keeps_the_larger_of_the_old_and_the_present_window() {
    let mut d = Driver::cruising(4);
    d.bbr.prior_cwnd = 300;
    d.ack(10_004_000);
    assert!(d.is_probe_rtt());
    assert_eq!(d.bbr.prior_cwnd, 300);
}

#[test]
fn a_time_out_leaves_what_is_in_flight_and_one_packet_and_looks_for_the_pipe_anew() {
    let mut d = Driver::cruising(2);
    d.bbr.full_bw.bw = 5;
    let mut ack = d.bare();
    ack.in_flight = 3;
    d.bbr.on_rto(&ack, true);
    assert_eq!((d.bbr.cwnd, d.bbr.prior_cwnd, d.bbr.full_bw.bw, d.bbr.rounds.start), (4, 80, 0, true));
    d.bbr.on_rto(&ack, false);
    assert_eq!(d.bbr.prior_cwnd, 80, "a second time-out is no better knowledge");
}

#[test]
fn the_window_comes_back_when_what_timed_out_is_repaired() {
    let mut d = Driver::cruising(2);
    d.bbr.on_rto(&d.bare(), true);
    d.ca_state = CaState::Loss;
    d.ack_with(1, |ack| ack.in_flight = 1);
    assert_eq!(d.bbr.cwnd, 4, "two packets, and never below four");
    d.ca_state = CaState::Open;
    d.ack_with(1, |ack| ack.in_flight = 1);
    assert_eq!(d.bbr.cwnd, 81);
}

/// Feeds a burst of ACKs: `packets` at once where one was expected.
fn burst(d: &mut Driver, packets: u64) {
    d.ack_with(1, |ack| ack.rs.acked_sacked = packets);
}

#[test]
fn packets_acked_beyond_the_expected_ones_widen_the_window() {
    let mut d = Driver::cruising(2);
    d.ack(1_000_000); // a slow ACK begins an epoch
    burst(&mut d, 30);
    assert_eq!(d.bbr.aggregation.extra_acked(), 31);
    assert_eq!(d.bbr.ack_aggregation_cwnd(), 31);
    d.bbr.full_bw_reached = false;
    assert_eq!(d.bbr.ack_aggregation_cwnd(), 0, "before the pipe is full it would only add queue");
}

#[test]
fn the_allowance_is_at_most_100_ms_of_bandwidth_and_a_window() {
    let mut d = Driver::cruising(2);
    d.ack(1_000_000);
    d.bbr.cwnd = 300;
    burst(&mut d, 5_000);
    assert_eq!(d.bbr.aggregation.extra_acked(), 300);
    // 16777 / 2^24 packets a microsecond, for 100 ms: 99.99.
    assert_eq!(d.bbr.ack_aggregation_cwnd(), 99);
}

#[test]
fn an_allowance_lasts_five_to_ten_rounds() {
    let mut d = Driver::cruising(2);
    d.ack(1_000_000);
    burst(&mut d, 30);
    let mut rounds = 0;
    while d.bbr.aggregation.extra_acked() >= 30 {
        // Each round's ACK comes late enough to begin an epoch anew.
        d.ack(1_000_000);
        d.round(40);
        rounds += 1;
        assert!(rounds <= 10);
    }
    assert!(rounds >= 5, "{rounds}");
}

#[test]
fn an_epoch_ends_when_acks_fall_behind_the_estimate() {
    let mut d = Driver::cruising(2);
    d.ack(1_000_000);
    burst(&mut d, 30);
    d.ack(32_000); // 32 packets expected by now, 31 had arrived
    assert_eq!(d.bbr.aggregation.extra_acked(), 31);
    burst(&mut d, 30);
    assert_eq!(d.bbr.aggregation.extra_acked(), 31);
}

/// Returns an ACK's effect on the allowance and its epoch, when 30 packets arrive where one was expected.
fn learnt(extra_acked_gain: u32, edit: impl FnOnce(&mut Ack)) -> (u32, u64) {
    let mut d = Driver::cruising(2);
    d.ack(1_000_000);
    (d.bbr.p.extra_acked_gain, d.bbr.plan) = (extra_acked_gain, OutputCache::EMPTY);
    d.ack_with(1, |ack| {
        ack.rs.acked_sacked = 30;
        edit(ack);
    });
    (d.bbr.aggregation.extra_acked(), d.bbr.aggregation.epoch_acked)
}

#[test]
fn an_ack_without_a_rate_sample_does_not_raise_the_aggregation_allowance() {
    assert_eq!(learnt(256, |_| {}), (31, 31));
    assert_eq!(learnt(256, |ack| ack.rs.delivered = None), (1, 1));
    assert_eq!(learnt(256, |ack| ack.rs.interval_us = None), (1, 1));
    assert_eq!(learnt(0, |_| {}), (1, 1), "switched off");
}

#[test]
fn an_ack_without_newly_acked_packets_does_not_end_an_epoch() {
    let mut d = Driver::cruising(2);
    d.ack(1_000_000);
    d.ack_with(1_000_000, |ack| ack.rs.acked_sacked = 0);
    assert_eq!(d.bbr.aggregation.epoch_acked, 1);
    assert_eq!(d.bbr.aggregation.epoch_start_us, d.now_us - 1_000_000);
}

#[test]
fn an_epoch_ends_at_two_to_the_twentieth_packets() {
    const MOST: u64 = 1 << 20;
    let epoch_after = |before: u64, acked: u64| {
        let mut d = Driver::cruising(2);
        d.ack(1_000_000);
        d.bbr.aggregation.epoch_acked = before;
        burst(&mut d, acked);
        (d.bbr.aggregation.epoch_acked, d.bbr.aggregation.epoch_start_us == d.now_us)
    };
    assert_eq!(epoch_after(MOST - 10, 9), (MOST - 1, false));
    assert_eq!(epoch_after(MOST - 10, 10), (10, true));
    assert_eq!(epoch_after(MOST / 2, 3), (MOST / 2 + 3, false));
    assert_eq!(epoch_after(1, 3 * MOST), (MOST - 1, true));
}

#[test]
fn the_first_draft_knows_the_initial_window_and_bursts_of_a_thousandth_of_a_second() {
    let init = Init { initial_cwnd: 32, ..Init::new(Time::micros(1)).with_mss(1448).with_seed(1) };
    let (mut linux, mut draft) =
        (Bbr1::new(&Bbr1Params::default(), &init), Bbr1::new_draft00(&Bbr1Params::default(), &init));
    assert_eq!((linux.bdp(PER_MS, UNIT), draft.bdp(PER_MS, UNIT)), (10, 32), "no RTT is known");
    let mut bursts = |rate: u64| {
        (linux.pacing_rate, draft.pacing_rate) = (rate, rate);
        (linux.tso_segs_goal(), draft.tso_segs_goal())
    };
    assert_eq!(bursts(4_400_000), (2, 3));
    assert_eq!(bursts(149_999), (1, 1));
    assert_eq!(bursts(150_000), (2, 2));
    assert_eq!(bursts(2_999_999), (2, 2));
    assert_eq!(bursts(65_536_000).1, 45);
    assert_eq!(bursts(1_000_000_000).1, 45, "64 kB at most");
}

#[test]
fn an_allowance_learnt_at_the_end_of_a_bucket_lasts_through_the_next() {
    for before in 0..5 {
        let mut d = Driver::cruising(2);
        for _ in 0..before {
            d.ack(1_000_000);
            d.round(40);
        }
        d.ack(1_000_000);
        burst(&mut d, 30);
        for round in 0..5 {
            assert!(
                d.bbr.aggregation.extra_acked() >= 30,
                "{round} rounds after a burst {before} rounds into a bucket"
            );
            d.ack(1_000_000);
            d.round(40);
        }
    }
}

#[test]
fn what_the_estimate_explains_is_no_aggregation() {
    let mut d = Driver::cruising(2);
    d.ack(1_000_000);
    d.ack_with(20_000, |ack| ack.rs.acked_sacked = 30);
    // 31 arrived, one of them at the start of the epoch, and 19.99 were expected.
    assert_eq!(d.bbr.aggregation.extra_acked(), 30, "the epoch began anew: one packet is less than twenty");
    d.ack_with(20_000, |ack| ack.rs.acked_sacked = 30);
    assert_eq!(d.bbr.aggregation.extra_acked(), 41);
}

#[test]
fn the_first_draft_knows_no_policer_no_aggregation_no_margin_and_no_kernel_clock() {
    let p = Bbr1Params::draft00();
    assert_eq!([p.lt_bw, p.extra_acked_gain, p.edt, p.pacing_margin, p.hz], [0; 5]);
    assert_eq!(
        Bbr1Params { lt_bw: 1, extra_acked_gain: 256, edt: 1, pacing_margin: 1, hz: 250, ..p },
        Bbr1Params::default()
    );
}

#[test]
fn a_burst_fits_the_kernels_largest_of_65215_bytes() {
    let segs = |mss: u32| {
        let mut d = Driver::new();
        d.bbr.on_mss(mss);
        d.bbr.pacing_rate = 1_000_000_000;
        d.bbr.tso_segs_goal()
    };
    assert_eq!((segs(13_043), segs(16_304)), (5, 3), "65215 = 5 * 13043 < 4 * 16304");
}

#[test]
fn probe_rtt_is_four_packets_on_the_largest_path() {
    let mut d = Driver::cruising(2);
    d.bbr.max_bw.reset(0, 1_000 * PER_MS);
    d.bbr.mode = Mode::ProbeRtt { done_at: None, round_done: false };
    d.bbr.cwnd = 80_000;
    d.ack_with(1, |ack| ack.in_flight = 40_000);
    assert_eq!(d.bbr.cwnd, 4);
}

#[test]
fn before_the_pipe_is_full_the_rate_rises_with_the_estimate_and_the_first_rtt_counts_once() {
    let mut d = Driver::new();
    d.round(1_000);
    // 1000 packets in 40 ms, times 739/256, less one per cent.
    let rate = 1_000 * 25 * 1_448 * 739 / 256 * 99 / 100;
    assert!(d.bbr.pacing_rate <= rate && d.bbr.pacing_rate + 200 > rate, "{} for {rate}", d.bbr.pacing_rate);
    d.bbr.pacing_rate = 200_000_000;
    d.ack(1);
    assert_eq!(d.bbr.pacing_rate, 200_000_000);
}

#[test]
fn a_rate_with_an_intermediate_product_beyond_64_bits_is_exact() {
    let d = Driver::new();
    let bw = 8_632 * BW_UNIT; // 100 Tbit/s
    assert_eq!(d.bbr.rate_bytes_per_sec(bw, UNIT, 1), 8_632 * 1_448 * 990_000);
}

#[test]
fn the_first_drafts_bursts_of_a_millisecond_begin_at_24_mbit() {
    let mut d = Driver::new();
    d.bbr.draft_quantum = true;
    d.bbr.on_mss(500);
    d.bbr.pacing_rate = 2_999_999;
    assert_eq!(d.bbr.tso_segs_goal(), 2);
    d.bbr.pacing_rate = 3_000_000;
    assert_eq!(d.bbr.tso_segs_goal(), 6);
}

#[test]
fn a_bdp_with_an_intermediate_product_beyond_64_bits_is_exact() {
    let mut d = Driver::new();
    d.bbr.min_rtt_us = Some(1_000_000);
    // 8632 packets a microsecond, times 739/256.
    assert_eq!(d.bbr.bdp(8_632 * BW_UNIT, 739), 24_918_156_250);
}

#[test]
fn with_quantization_off_the_window_is_not_rounded() {
    let mut d = Driver::cruising(0);
    d.bbr.p.quantization = 0;
    assert_eq!(d.bbr.quantization_budget(41, UNIT), 41);
}

#[test]
fn only_the_probing_phase_counts_the_next_burst_as_in_flight() {
    let in_net = |phase: u8| {
        let d = Driver::cruising(phase);
        (d.bbr.packets_in_net_at_edt(&Ack { edt: d.bare().now, ..d.bare() }, 40), d.bbr.tso_segs_goal())
    };
    assert_eq!(in_net(2), (40, 2));
    assert_eq!(in_net(0), (42, 2));
}

#[test]
fn a_saved_window_is_the_present_one_but_the_larger_once_recovery_or_probe_rtt_has_shrunk_it() {
    let saved = |state: CaState, mode: Mode| {
        let mut d = Driver::cruising(2);
        d.bbr.prior_cwnd = 500;
        d.bbr.prev_ca_state = state;
        d.bbr.mode = mode;
        d.bbr.save_cwnd();
        d.bbr.prior_cwnd
    };
    for state in [CaState::Open, CaState::Disorder, CaState::Cwr] {
        assert_eq!(saved(state, Mode::Startup), 80, "{state:?}");
        assert_eq!(saved(state, Mode::ProbeRtt { done_at: None, round_done: false }), 500, "{state:?}");
    }
    for state in [CaState::Recovery, CaState::Loss] {
        assert_eq!(saved(state, Mode::Startup), 500, "{state:?}");
    }
}

#[test]
fn a_remembered_target_is_forgotten_when_phase_allowance_or_fullness_changes() {
    let mut d = Driver::cruising(2);
    let target = d.bbr.cwnd_target(PER_MS);
    d.bbr.mode = Mode::ProbeBw { phase: 0, since_us: 0 };
    assert_eq!(d.bbr.cwnd_target(PER_MS), target + 2);
    d.bbr.aggregation.bucket[0] = 2;
    assert_eq!(d.bbr.cwnd_target(PER_MS), target + 4);
    d.bbr.full_bw_reached = false;
    assert_eq!(d.bbr.cwnd_target(PER_MS), target + 2);
    d.bbr.cwnd_gain *= 2;
    assert!(d.bbr.cwnd_target(PER_MS) > target + 40);
}

#[test]
fn before_the_pipe_is_full_the_window_grows_up_to_its_target() {
    let grown = |below: u32| {
        let mut d = Driver::cruising(2);
        d.bbr.mode = Mode::Startup;
        d.bbr.full_bw_reached = false;
        d.bbr.update_gains();
        d.ack(1); // the rate, and so the burst, is Startup's
        let target = d.bbr.cwnd_target(PER_MS);
        d.bbr.cwnd = target - below;
        d.ack(1);
        d.bbr.cwnd - (target - below)
    };
    assert_eq!([0, 1, 3].map(grown), [0, 1, 1]);
}

#[test]
fn losses_outside_of_recovery_are_deducted_too() {
    let mut d = Driver::cruising(2);
    d.bbr.cwnd = 50;
    d.ack_with(1, |ack| ack.rs.losses = 3);
    assert_eq!(d.bbr.cwnd, 48);
}
