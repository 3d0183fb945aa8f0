//! BBR-ACD: the definition of congestion, and its effect on a recovery, in three editions.
// SPDX-License-Identifier: Apache-2.0 OR MIT

extern crate std;

use std::vec::Vec;

use super::*;

fn edition_of(name: VariantName) -> Driver<Acd> {
    let params = VariantParams::new(name);
    let PartParams::Acd(p) = params.part else { panic!("{name:?} is no BBR-ACD") };
    let mut d = Driver::with_part(&Bbr1Params { hz: 0, ..params.base }, Acd::new(&p));
    while d.bbr.internals().mode != 2 {
        d.round(40);
    }
    fill_window(&mut d);
    d
}

/// Starts a recovery with an ACK of this RTT after `calm` others with the same.
fn recovering(name: VariantName, calm: u32, rtt_us: u64) -> Driver<Acd> {
    let mut d = edition_of(name);
    d.rtt_us = rtt_us;
    for _ in 0..calm {
        d.ack(1);
    }
    d.bbr.on_ca_state(CaState::Open, CaState::Recovery);
    d.ca_state = CaState::Recovery;
    d.ack_with(1, |ack| ack.rs.losses = 2);
    d
}

#[test]
fn an_rtt_above_the_smallest_that_stays_the_same_twice_is_congestion() {
    let mut part = Acd::new(&AcdParams::default());
    let mut verdicts = [false; 4];
    for verdict in &mut verdicts {
        part.observe(&seen(&rtt_ack(1_000, 50_000), None));
        *verdict = part.begins_conservation();
    }
    assert_eq!(verdicts, [false, false, true, true]);
    part.observe(&seen(&rtt_ack(1_000, 51_001), None));
    assert!(!part.begins_conservation(), "it moved by more than a millisecond");
}

#[test]
fn an_rtt_at_the_smallest_is_never_congestion() {
    let mut part = Acd::new(&AcdParams::default());
    for _ in 0..100 {
        part.observe(&seen(&rtt_ack(1_000, RTT_US), None));
        assert!(!part.begins_conservation());
    }
}

#[test]
fn twice_the_smallest_rtt_is_congestion_at_once() {
    for (rtt_us, verdict) in [(2 * RTT_US, false), (2 * RTT_US + 1, true)] {
        let mut part = Acd::new(&AcdParams::default());
        part.observe(&seen(&rtt_ack(1_000, rtt_us), None));
        assert_eq!(part.begins_conservation(), verdict);
    }
}

#[test]
fn without_congestion_a_recovery_only_deducts_what_was_lost() {
    let d = recovering(VariantName::AcdLinux, 0, RTT_US);
    let internals = d.bbr.internals();
    assert!(!internals.packet_conservation);
    assert_eq!(internals.cwnd, internals.prior_cwnd - 2 + 1);
}

#[test]
fn with_congestion_every_ack_of_a_round_halves_the_window_down_to_four() {
    let mut d = recovering(VariantName::AcdLinux, 3, 50_000);
    let first = d.bbr.cwnd();
    assert_eq!(first, (d.bbr.internals().prior_cwnd - 2) / 2);
    let mut windows = Vec::new();
    for _ in 0..5 {
        d.ack(1);
        windows.push(d.bbr.cwnd());
    }
    assert_eq!(windows, [first / 2, first / 4, first / 8, 4, 4]);
    d.round(40);
    assert_eq!(d.bbr.cwnd(), 5, "the round is over, the window grows again");
}

#[test]
fn the_ns_3_edition_halves_what_is_in_flight_for_the_whole_recovery_whatever_the_rtt() {
    let mut d = recovering(VariantName::AcdNs3, 0, RTT_US);
    for in_flight in [40, 40, 20, 11, 9, 3] {
        d.round_with(40, |ack| ack.in_flight = in_flight);
        let halved = (in_flight as u32).div_ceil(2); // half of it and of the packet just acknowledged, rounded down
        assert_eq!(d.bbr.cwnd(), halved.max(4), "{in_flight} packets in flight");
    }
}

/// Source: BBR-ACD for ns-3, `m_cWndGain = 1`, which only the functions that enter a mode set again.
#[test]
fn after_a_recovery_the_ns_3_edition_holds_one_bdp_until_the_mode_changes() {
    let mut d = recovering(VariantName::AcdNs3, 0, RTT_US);
    d.ca_state = CaState::Open;
    for _ in 0..5 {
        d.round(40);
        assert_eq!(d.bbr.cwnd(), 40 + 6);
    }
    let mut other = recovering(VariantName::AcdLinux, 0, RTT_US);
    other.ca_state = CaState::Open;
    other.round(40);
    assert!(other.bbr.cwnd() > 60);
    d.rtt_us = RTT_US + 2_000;
    while !d.is_probe_rtt() {
        d.round(40);
    }
    while d.is_probe_rtt() {
        d.ack_with(RTT_US, |ack| (ack.in_flight, ack.rs.prior_delivered) = (4, ack.delivered));
    }
    for _ in 0..100 {
        d.ack(1_000);
    }
    assert_eq!(d.bbr.cwnd(), 2 * 42 + 6 + 2, "two BDP of 42 ms");
}

/// Source: BBR-ACD for Linux 4.14, whose `restore_cwnd` nothing reads.
#[test]
fn the_linux_edition_grows_again_from_four_after_probe_rtt() {
    for (name, window) in [(VariantName::AcdLinux, 5), (VariantName::AcdOnce, 80)] {
        let mut d = edition_of(name);
        d.rtt_us = RTT_US + 2_000;
        while !d.is_probe_rtt() {
            d.round(40);
        }
        while d.is_probe_rtt() {
            d.ack_with(RTT_US, |ack| (ack.in_flight, ack.rs.prior_delivered) = (4, ack.delivered));
        }
        assert!(d.bbr.cwnd().abs_diff(window) <= 10, "{name:?}: {}", d.bbr.cwnd());
    }
}

/// Source: Linux 4.14 `bbr_target_cwnd`: two packets more wherever the gain is above 1.
#[test]
fn every_window_of_probe_bw_has_two_packets_more() {
    let mut d = edition_of(VariantName::AcdLinux);
    for _ in 0..20 {
        d.ack(1_000);
    }
    let quanta = 6; // three bursts of two packets
    for _ in 0..8 * 50 {
        d.ack(1_000);
        assert_eq!(d.bbr.cwnd(), 80 + quanta + 2);
    }
}

/// Source: Linux 4.14 `bbr_update_min_rtt`, which uses `<=` and knows no delayed ACKs.
#[test]
fn an_equal_rtt_renews_rtprop() {
    let mut d = edition_of(VariantName::AcdLinux);
    for _ in 0..15 * 25 {
        d.round(40);
        assert!(!d.is_probe_rtt());
    }
}

/// Source: BBR-ACD for Linux 4.14, `bbr_probe_congestion` with unsigned numbers of 32 bits.
#[test]
fn rtts_below_a_millisecond_are_never_equal_and_an_ack_without_rtt_ends_a_row() {
    let small = |ack: &Ack, part: &mut Acd| {
        part.observe(&AckContext { min_rtt_us: Some(400), ..seen(ack, None) });
        part.begins_conservation()
    };
    let mut part = Acd::new(&AcdParams::default());
    assert!((0..10).all(|_| !small(&rtt_ack(1_000, 700), &mut part)));
    let mut part = Acd::new(&AcdParams::default());
    let mut without = rtt_ack(1_000, 50_000);
    without.rs.rtt_us = None;
    let mut idle = rtt_ack(1_000, RTT_US);
    idle.rs.acked_sacked = 0;
    let acks = [50_000, 50_000, 50_000].map(|rtt_us| rtt_ack(1_000, rtt_us));
    let all = [&acks[0], &acks[1], &without, &acks[0], &acks[1], &idle, &acks[2]];
    let verdicts = all.map(|ack| {
        part.observe(&seen(ack, None));
        part.begins_conservation()
    });
    assert_eq!(verdicts, [false, false, false, false, false, false, true]);
}

#[test]
fn the_edition_of_one_halving_keeps_that_window_for_the_round() {
    let mut d = recovering(VariantName::AcdOnce, 3, 50_000);
    let first = d.bbr.cwnd();
    assert_eq!(first, (d.bbr.internals().prior_cwnd - 2) / 2);
    for _ in 0..5 {
        d.ack(1);
    }
    assert_eq!(d.bbr.cwnd(), first);
    d.ca_state = CaState::Open;
    d.ack(1);
    d.ca_state = CaState::Recovery;
    d.bbr.on_ca_state(CaState::Open, CaState::Recovery);
    d.ack(1);
    assert!(d.bbr.cwnd() < d.bbr.internals().prior_cwnd, "the next recovery halves again");
}

#[test]
fn the_window_comes_back_when_recovery_ends() {
    for name in [VariantName::AcdLinux, VariantName::AcdOnce] {
        let mut d = recovering(name, 3, 50_000);
        let prior = d.bbr.internals().prior_cwnd;
        d.ca_state = CaState::Open;
        d.ack(1);
        assert!(d.bbr.cwnd() >= prior, "{name:?}");
    }
}

#[test]
fn the_base_is_linux_4_14_which_knows_neither_margin_nor_aggregation() {
    let [_, base] = VariantName::AcdLinux.specs();
    for name in ["pacing_margin", "extra_acked_gain", "edt"] {
        assert_eq!(base.iter().find(|spec| spec.name == name).map(|spec| spec.default), Some(0), "{name}");
    }
}
