//! The trait's defaults, and that a choice among algorithms passes on every method.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub(crate) mod probe;

use super::*;
use crate::fixed::{Fixed, FixedParams};
use probe::{Probe, dropped};

#[derive(Clone, Debug)]
enum InPlace {
    Probe(Probe),
    Other(Fixed),
}

#[derive(Clone, Debug)]
enum OutOfLine {
    Probe(Probe),
    Other(Fixed),
}

forward_algorithm! { in_place InPlace () { Probe, Other } }
forward_algorithm! { out_of_line OutOfLine () { Probe, Other } }

#[test]
fn a_choice_among_algorithms_passes_on_every_method() {
    let lost = dropped(InPlace::Probe(Probe::default()), |choice| match choice {
        InPlace::Probe(probe) => probe,
        InPlace::Other(_) => unreachable!(),
    });
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(InPlace::Other(fixed()).cwnd(), 10);
}

#[test]
fn a_choice_out_of_line_passes_on_every_method_but_those_that_combine_others() {
    let lost = dropped(OutOfLine::Probe(Probe::default()), |choice| match choice {
        OutOfLine::Probe(probe) => probe,
        OutOfLine::Other(_) => unreachable!(),
    });
    assert_eq!(lost, ["process", "outputs"]);
    assert_eq!(OutOfLine::Other(fixed()).cwnd(), 10);
}

fn fixed() -> Fixed {
    Fixed::new(&FixedParams::default(), &Init::new(Time::ZERO))
}

#[test]
fn the_probe_overrides_every_method() {
    let lost = dropped(Probe::default(), |probe| probe);
    assert!(lost.is_empty(), "{lost:?}");
}

/// The least that anyone has to write.
struct Least;

impl Algorithm for Least {
    fn restart(&mut self, _init: &Init) {}
    fn on_ack(&mut self, _ack: &Ack, _sampler: &mut RateSampler) {}
    fn on_rto(&mut self, _ack: &Ack, _first: bool) {}
    fn cwnd(&self) -> u32 {
        7
    }
}

#[test]
fn the_defaults_are_those_that_the_documentation_states() {
    let min = Least;
    assert_eq!((min.cwnd_bytes(100), min.pacing_rate(), min.own_quantum()), (700, None, None));
    assert!(!(min.counts_bytes() || min.needs_on_lost() || min.wants_app_limited_checks() || min.continues_recovery()));
    assert!(!(min.needs_pacing() || min.supports_ecn() || min.in_slow_start() || min.wants_app_limited()));
    assert_eq!((min.min_tso_segs(), min.state()), (2, State::CongestionAvoidance));
    assert_eq!(min.snapshot(), Snapshot::of(State::CongestionAvoidance));
    let state = State::CongestionAvoidance;
    assert_eq!(min.outputs(100), Outputs { cwnd: 7, cwnd_bytes: 700, pacing_rate: None, is_app_limited: false, state });
}

#[test]
fn an_algorithm_with_a_pacing_rate_needs_pacing() {
    struct Paced;
    impl Algorithm for Paced {
        fn restart(&mut self, _init: &Init) {}
        fn on_ack(&mut self, _ack: &Ack, _sampler: &mut RateSampler) {}
        fn on_rto(&mut self, _ack: &Ack, _first: bool) {}
        fn cwnd(&self) -> u32 {
            7
        }
        fn pacing_rate(&self) -> Option<Rate> {
            Some(Rate::bits_per_sec(8_000))
        }
    }
    assert!(Paced.needs_pacing());
}
