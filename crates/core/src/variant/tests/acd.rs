//! BBR-ACD: the definition of congestion, and its effect on a recovery, in three editions.
// SPDX-License-Identifier: Apache-2.0 OR MIT

extern crate std;

use std::vec::Vec;

use super::*;

fn edition_of(name: VariantName) -> Driver<Acd> {
    let PartParams::Acd(p) = VariantParams::new(name).part else { panic!("{name:?} is no BBR-ACD") };
    let mut d = cruising(Acd::new(&p));
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
fn the_ns_3_edition_halves_for_the_whole_recovery_whatever_the_rtt() {
    let mut d = recovering(VariantName::AcdNs3, 0, RTT_US);
    for _ in 0..3 {
        d.round(40);
        d.round(40);
    }
    assert_eq!(d.bbr.cwnd(), 4);
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
    for name in [VariantName::AcdLinux, VariantName::AcdNs3, VariantName::AcdOnce] {
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
