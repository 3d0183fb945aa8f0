//! BBR-S by quantiles: the samples that count, their lifetime, and the uses of the maximum.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::bbr1::BW_UNIT;

fn cruising(name: VariantName) -> Driver<Quantile> {
    let PartParams::Quantile(p) = VariantParams::new(name).part else { panic!("{name:?} is no quantile") };
    super::cruising(begun(&p))
}

fn packets_per_rtt(d: &Driver<Quantile>) -> u64 {
    (d.bbr.snapshot().bw.as_bytes_per_sec() + 700) / (1448 * 25)
}

/// Feeds one sample within a round.
fn sample(d: &mut Driver<Quantile>, bw: u64) {
    d.ack_with(1, |ack| ack.rs.delivered = Some(bw));
}

#[test]
fn a_burst_that_a_router_absorbed_moves_the_maximum_and_not_the_median() {
    let mut d = cruising(VariantName::S);
    sample(&mut d, 400);
    assert_eq!((d.bbr.internals().bw[0].1, packets_per_rtt(&d)), (400 * BW_UNIT / RTT_US, 40));
}

#[test]
fn the_median_is_the_lower_one_of_two() {
    let mut d = cruising(VariantName::S);
    for _ in 0..12 {
        d.round(40);
    }
    for _ in 0..11 {
        sample(&mut d, 80);
    }
    assert_eq!(packets_per_rtt(&d), 40);
    sample(&mut d, 80);
    assert_eq!(packets_per_rtt(&d), 80);
}

#[test]
fn samples_leave_after_ten_rounds() {
    let mut d = cruising(VariantName::S);
    for _ in 0..60 {
        sample(&mut d, 80);
    }
    for _ in 0..10 {
        d.round(40);
        assert_eq!(packets_per_rtt(&d), 80);
    }
    d.round(40);
    assert_eq!(packets_per_rtt(&d), 40);
}

#[test]
fn a_hundred_places_hold_an_even_choice_of_many_more_samples() {
    let mut d = cruising(VariantName::S);
    for _ in 0..8 {
        d.round(40);
        for _ in 0..1_000 {
            sample(&mut d, 40);
        }
    }
    for _ in 0..2_500 {
        sample(&mut d, 80);
    }
    assert_eq!(packets_per_rtt(&d), 40, "8000 of 10500 samples");
    for _ in 0..8_000 {
        sample(&mut d, 80);
    }
    assert_eq!(packets_per_rtt(&d), 80);
}

#[test]
fn the_percentile_of_the_last_hundred_counts_samples_and_not_rounds() {
    let mut d = cruising(VariantName::SP85);
    for _ in 0..100 {
        sample(&mut d, 40);
    }
    for _ in 0..14 {
        sample(&mut d, 80);
    }
    assert_eq!(packets_per_rtt(&d), 40);
    sample(&mut d, 80);
    sample(&mut d, 80);
    assert_eq!(packets_per_rtt(&d), 80);
    for _ in 0..40 {
        sample(&mut d, 80);
    }
    for _ in 0..84 {
        d.round(40);
        assert_eq!(packets_per_rtt(&d), 80, "many rounds later");
    }
    d.round(40);
    assert_eq!(packets_per_rtt(&d), 40);
}

#[test]
fn application_limited_samples_do_not_count() {
    let mut d = cruising(VariantName::S);
    for _ in 0..200 {
        d.ack_with(1, |ack| (ack.rs.delivered, ack.rs.is_app_limited) = (Some(3), true));
    }
    assert_eq!(packets_per_rtt(&d), 40);
}

#[test]
fn startup_sends_by_the_maximum_and_ends_by_the_median() {
    let PartParams::Quantile(p) = VariantParams::new(VariantName::S).part else { panic!() };
    let mut d = driver(begun::<Quantile>(&p));
    for bw in [5, 10, 20, 40, 400] {
        d.round(bw);
        assert_eq!(packets_per_rtt(&d), bw);
    }
    let mut rounds = 0;
    while d.bbr.state() == State::Startup {
        d.round(40);
        rounds += 1;
    }
    assert!(rounds <= 8, "a burst of ten times the rate does not count as growth: {rounds}");
}
