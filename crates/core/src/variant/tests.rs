//! Tests of each variant's rule, and that the rest of BBRv1 is unchanged.
// SPDX-License-Identifier: Apache-2.0 OR MIT

extern crate std;

use super::*;
use crate::State;
use crate::bbr1::tests::{Driver, PER_MS, RTT_US};
use crate::bbr1::{AckContext, Hooks, HooksInit, NoHooks};
use crate::event::{Ack, CaState};
use crate::units::{Span, Time};

mod acd;
mod apg;
mod cpa;
mod davis;
mod quantile;

/// Creates a part with these parameters, and BBRv1's defaults.
fn begun<V: HooksInit>(params: &V::Params) -> V {
    let mut part = V::BLANK;
    part.begin(params, &Bbr1Params::default());
    part
}

/// Creates a flow with this part, whose clock has no ticks.
fn driver<V: Hooks>(part: V) -> Driver<V> {
    Driver::with_part(&Bbr1Params { hz: 0, ..Bbr1Params::default() }, part)
}

/// The same in ProbeBW, with a pipe of one packet per millisecond.
fn cruising<V: Hooks>(part: V) -> Driver<V> {
    let mut driver = driver(part);
    while driver.bbr.internals().mode != 2 {
        driver.round(40);
    }
    driver
}

/// Runs until the window reaches its target of two BDP.
fn fill_window<V: Hooks>(driver: &mut Driver<V>) {
    while driver.bbr.cwnd() < 80 {
        driver.ack(1);
    }
}

/// A part's view of an ACK with this RTT.
fn seen(ack: &Ack, phase: Option<u8>) -> AckContext<'_> {
    AckContext { ack, min_rtt_us: Some(RTT_US), bw: PER_MS, round: 100, phase, in_probe_rtt: false }
}

fn rtt_ack(now_us: u64, rtt_us: u64) -> Ack {
    let rs = crate::estimators::RateSample {
        rtt_us: Some(rtt_us),
        acked_sacked: 1,
        ..crate::estimators::RateSample::default()
    };
    Ack { now: Time::micros(now_us), rs, srtt: Some(Span::micros(rtt_us)), ..Ack::default() }
}

#[test]
fn a_part_that_replaces_nothing_is_bbrv1() {
    #[derive(Clone, Copy, Debug)]
    struct Nothing;
    impl Hooks for Nothing {
        fn restart(&mut self) {}
    }
    let (mut plain, mut same) = (driver(NoHooks), driver(Nothing));
    for round in 0..400_u64 {
        plain.round(10 + round * 7 % 50);
        same.round(10 + round * 7 % 50);
        assert_eq!(plain.bbr.internals(), same.bbr.internals(), "round {round}");
    }
}

#[test]
fn every_variant_lists_its_own_parameters_and_then_all_of_bbrv1() {
    for name in [VariantName::Cpa, VariantName::AcdNs3, VariantName::SP85, VariantName::SKalman, VariantName::Apg] {
        let mut params = VariantParams::new(name);
        let [own, base] = name.specs();
        assert!(!own.is_empty() && base.len() == Bbr1Params::SPECS.len());
        for spec in own {
            assert!(base.iter().all(|other| other.name != spec.name), "{} hides BBRv1's", spec.name);
        }
        assert_eq!(params.set("pacing_gain_up", "1.5"), Ok(()));
        let at = own.len() + base.iter().position(|spec| spec.name == "pacing_gain_up").unwrap();
        assert_eq!(params.values()[at], 384);
    }
}

#[test]
fn values_that_the_authors_did_not_publish_say_that_they_are_ours() {
    for name in [VariantName::Cpa, VariantName::S, VariantName::SKalman, VariantName::Apg] {
        let [own, _] = name.specs();
        assert!(own.iter().any(|spec| spec.source.starts_with("ours")), "{name:?}");
    }
}

#[test]
fn a_flow_that_begins_in_the_place_of_another_remembers_nothing_of_it() {
    fn check<V: HooksInit + core::fmt::Debug>(params: &V::Params) {
        let begin =
            Init { srtt: Some(Span::micros(25_000)), ..Init::new(Time::micros(9_000_000)).with_mss(1200).with_seed(7) };
        let base = Bbr1Params { pacing_margin: 2, ..Bbr1Params::default() };
        let fresh = Bbr1::<V>::with(&base, params, &begin);
        let mut used = driver(begun::<V>(params));
        for round in 0..400_u64 {
            used.ca_state = if round % 50 == 49 { CaState::Recovery } else { CaState::Open };
            used.rtt_us = RTT_US + round * 500;
            used.ack_with(1, |ack| ack.rs.losses = round % 3);
            used.round(10 + round * 7 % 50);
        }
        used.bbr.on_mss(1_000);
        used.bbr.init(&base, params, &begin);
        assert_eq!(std::format!("{:?}", used.bbr), std::format!("{fresh:?}"));
    }
    check::<NoHooks>(&());
    check::<Cpa>(&CpaParams::default());
    check::<Acd>(&AcdParams::default());
    check::<Quantile>(&QuantileParams::default());
    check::<Apg>(&ApgParams::default());
}
