//! Every algorithm over a path that changes: whatever its earlier model, it must use the capacity available afterwards.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{ALGORITHMS, AlgorithmConfig, Rate, Span, Time};
use bbrlab_sim::engine;
use bbrlab_sim::link::{Buffer, Loss};
use bbrlab_sim::setup::{Change, ChangeKind, FlowSetup, Setup};

/// Algorithms left out: a reference with a constant window.
const LEFT_OUT: [&str; 1] = ["fixed"];

fn at_s(seconds: u64) -> Time {
    Time::ZERO + Span::secs(seconds)
}

fn change(seconds: u64, what: ChangeKind) -> Change {
    Change { at: at_s(seconds), link: 0, what }
}

/// Returns the goodput over 10 Mbit/s and 40 ms with `schedule`, measured over the last ten of 70 seconds.
fn goodput_at_the_end(name: &str, schedule: &[Change]) -> f64 {
    let flow = FlowSetup::bulk("flow", AlgorithmConfig::named(name).expect("a listed algorithm"));
    let (rate, rtt) = (Rate::bits_per_sec(10_000_000), Span::millis(40));
    let mut setup = Setup::one_link(rate, rtt, Buffer::Packets(100), Span::secs(70), vec![flow]);
    setup.warmup = at_s(60);
    setup.schedule = schedule.to_vec();
    engine::run(&setup).result.flows[0].goodput_bps
}

fn others() -> impl Iterator<Item = &'static str> {
    ALGORITHMS.iter().map(|info| info.name).filter(|name| !LEFT_OUT.contains(name))
}

#[test]
fn every_other_algorithm_recovers_from_a_fourfold_rtt() {
    let longer = [change(10, ChangeKind::Rtt(Span::millis(160)))];
    for name in others() {
        let found = goodput_at_the_end(name, &longer);
        assert!(found > 4e6, "{name} {found}");
    }
}

#[test]
fn every_other_algorithm_recovers_from_an_outage_after_low_rate_and_heavy_loss() {
    let troubles = [
        change(8, ChangeKind::Rate(Rate::bits_per_sec(300_000))),
        change(14, ChangeKind::Loss(Loss::Bernoulli(0.4))),
        change(18, ChangeKind::Loss(Loss::Bernoulli(1.0))),
        change(22, ChangeKind::Loss(Loss::None)),
        change(24, ChangeKind::Rate(Rate::bits_per_sec(10_000_000))),
    ];
    for name in others() {
        let found = goodput_at_the_end(name, &troubles);
        assert!(found > 4e6, "{name} {found}");
    }
}
