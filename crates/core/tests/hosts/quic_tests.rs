//! Guarantees for a QUIC-shaped host, for every algorithm.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::app::{App, Sizes};
use super::link::Shape;
use super::plan::{Action, Plan};
use super::quic::Quic;
use bbrlab_core::{ALGORITHMS, Flight, Rate, Span, Time};

const LOSSY: Shape = Shape { loss_ppm: 10_000, ..Shape::CLEAN };
const REORDERING: Shape = Shape { reorder_ppm: 5_000, reorder_by: Span::millis(8), ..Shape::CLEAN };

/// Runs each algorithm on the plan for bulk transfer in full packets, as changed by `change`.
fn every(shape: Shape, span: Span, change: impl Fn(&mut Plan)) -> Vec<Quic> {
    let run = |name| {
        let mut plan = Plan::new(name, shape);
        change(&mut plan);
        Quic::run(&plan, span)
    };
    ALGORITHMS.iter().map(|info| run(info.name)).collect()
}

fn after_ms(ms: u64, action: Action) -> (Span, Action) {
    (Span::millis(ms), action)
}

/// Share of the link's rate that arrived, in per cent.
fn utilisation(quic: &Quic) -> u64 {
    quic.out.arrived * 100 / quic.plan.shape.rate.bytes_in(quic.now.since(Time::ZERO))
}

/// Smallest utilisation of a clean link in ten seconds, in per cent. `fixed` and `davis` are the exceptions: a constant window,
/// and one that begins far below the path's BDP and grows by steps.
const fn least_utilisation(name: &str) -> u64 {
    match name.as_bytes() {
        b"fixed" => 1,
        b"davis" => 10,
        _ => 85,
    }
}

#[test]
fn every_algorithm_fills_a_clean_link_in_full_packets() {
    for quic in every(Shape::CLEAN, Span::secs(10), |_| ()) {
        let share = utilisation(&quic);
        assert!(share >= least_utilisation(quic.plan.algorithm), "{}: {share} %", quic.plan.algorithm);
    }
}

#[test]
fn every_algorithm_keeps_its_promises_while_packets_of_all_sizes_are_lost() {
    for loss_ppm in [5_000, 20_000] {
        for quic in every(Shape { loss_ppm, ..Shape::CLEAN }, Span::secs(4), |plan| plan.sizes = Sizes::Mixed) {
            assert!(quic.out.lost > 0, "{}: nothing was lost", quic.plan.algorithm);
        }
    }
}

#[test]
fn every_algorithm_keeps_its_promises_when_packets_are_declared_lost_and_arrive() {
    for quic in every(REORDERING, Span::secs(5), |_| ()) {
        assert!(quic.out.spurious > 0, "{}: nothing was spurious", quic.plan.algorithm);
    }
}

#[test]
fn every_algorithm_keeps_its_promises_while_the_application_pauses_or_has_little_to_send() {
    let pauses = App::OnOff { on: Span::millis(700), off: Span::millis(1_500) };
    for app in [pauses, App::Limited(Rate::bits_per_sec(3_000_000))] {
        every(Shape::CLEAN, Span::secs(6), |plan| plan.app = app);
        every(LOSSY, Span::secs(6), |plan| (plan.app, plan.sizes) = (app, Sizes::Mixed));
    }
}

#[test]
fn what_the_application_holds_back_does_not_lower_the_estimate_of_the_path() {
    for name in ["bbr1", "bbr3", "bbr3-linux"] {
        let mut plan = Plan::new(name, Shape::CLEAN);
        plan.app = App::OnOff { on: Span::secs(3), off: Span::secs(60) };
        let mut quic = Quic::run(&plan, Span::secs(4));
        quic.plan.app = App::Limited(Rate::bits_per_sec(2_000_000));
        quic.app_sent = 2_000_000 / 8 * 4;
        // Wakes the host, which would otherwise sleep until the end of the pause.
        quic.run_until(Time::ZERO + Span::secs(4));
        quic.send();
        quic.run_until(Time::ZERO + Span::secs(8));
        let bw = quic.cc.snapshot().bw;
        assert!(bw >= Rate::bits_per_sec(17_000_000), "{name}: {bw:?}");
    }
}

#[test]
fn discarded_packets_leave_the_count_of_what_is_in_flight_and_are_no_losses() {
    for quic in every(Shape::CLEAN, Span::millis(120), |_| ()) {
        assert_eq!(quic.out.discarded, 3, "{}", quic.plan.algorithm);
        assert_eq!(quic.cc.sampler().lost(), 0, "{}", quic.plan.algorithm);
    }
}

#[test]
fn a_lost_mtu_probe_is_no_loss_and_a_delivered_one_makes_packets_larger() {
    let script = vec![
        after_ms(1_000, Action::ProbeMtu(1_450)),
        after_ms(2_000, Action::LinkMtu(1_450)),
        after_ms(2_000, Action::ProbeMtu(1_450)),
    ];
    let small = Shape { mtu: 1_300, buffer: 1_000_000, ..Shape::CLEAN };
    for quic in every(small, Span::secs(4), |plan| plan.script.clone_from(&script)) {
        assert_eq!(quic.out.discarded, 4, "{}: three of the handshake and one probe", quic.plan.algorithm);
        assert_eq!(quic.cc.mss(), 1_450, "{}", quic.plan.algorithm);
    }
}

#[test]
fn every_algorithm_recovers_from_persistent_congestion() {
    let script = vec![after_ms(2_000, Action::Dark(true)), after_ms(4_000, Action::Dark(false))];
    for quic in every(Shape::CLEAN, Span::secs(4), |plan| plan.script.clone_from(&script)) {
        let name = quic.plan.algorithm;
        let mut quic = quic;
        let before = quic.out.arrived;
        quic.run_until(Time::ZERO + Span::secs(12));
        let share = (quic.out.arrived - before) * 100 / quic.plan.shape.rate.bytes_in(Span::secs(8));
        assert!(quic.out.persistent > 0, "{name}: no persistent congestion");
        assert!(share >= least_utilisation(name) / 2, "{name}: {share} % of the eight seconds after");
    }
}

#[test]
fn every_algorithm_keeps_its_promises_when_the_receiver_acknowledges_seldom() {
    let script =
        vec![after_ms(500, Action::AckEvery(10, Span::millis(40))), after_ms(4_000, Action::AckEvery(1, Span::ZERO))];
    for quic in every(LOSSY, Span::secs(5), |plan| (plan.script, plan.sizes) = (script.clone(), Sizes::Mixed)) {
        assert!(quic.out.arrived > 100_000, "{}: {} bytes", quic.plan.algorithm, quic.out.arrived);
    }
}

#[test]
fn marks_slow_an_algorithm_that_answers_them_and_break_no_promise() {
    let shape = Shape { mark_above: Some(15_000), buffer: 200_000, ..Shape::CLEAN };
    for quic in every(shape, Span::secs(6), |_| ()) {
        let name = quic.plan.algorithm;
        if quic.cc.supports_ecn() {
            let unmarked = Quic::run(&Plan::new(name, Shape { mark_above: None, ..shape }), Span::secs(6));
            assert!(quic.out.marks > 0, "{name}: no marks");
            let queues = (quic.out.queue_us(75), unmarked.out.queue_us(75));
            let max = if ["reno", "cubic"].contains(&name) { queues.1 / 2 } else { queues.1 + 1_000 };
            assert!(queues.0 <= max, "{name}: {queues:?} µs of queue with and without marks");
        }
    }
}

#[test]
fn packets_of_an_old_path_change_nothing_on_the_new_one() {
    let slower = Shape { rate: Rate::bits_per_sec(8_000_000), delay: Span::millis(50), ..LOSSY };
    let faster = Shape { delay: Span::millis(5), ..Shape::CLEAN };
    let script = vec![after_ms(2_000, Action::MoveTo(slower)), after_ms(4_000, Action::MoveTo(faster))];
    for shape in [Shape::CLEAN, LOSSY] {
        for quic in every(shape, Span::secs(6), |plan| (plan.script, plan.sizes) = (script.clone(), Sizes::Mixed)) {
            let name = quic.plan.algorithm;
            let rtt = quic.cc.rtt().min().expect("packets were acknowledged on it");
            assert!(rtt >= faster.min_rtt() && rtt < Span::millis(40), "{name}: {rtt:?}");
        }
    }
}

#[test]
fn a_remembered_path_is_filled_earlier_and_breaks_no_promise() {
    let long = Shape { delay: Span::millis(100), buffer: 500_000, ..Shape::CLEAN };
    for quic in every(long, Span::millis(900), |plan| plan.resume = Some(long.remembered())) {
        let name = quic.plan.algorithm;
        let cold = Quic::run(&Plan::new(name, long), Span::millis(900));
        let min = cold.out.arrived;
        assert!(quic.out.arrived >= min, "{name}: {} bytes, {min} without", quic.out.arrived);
        if ["bbr1", "bbr3", "cubic"].contains(&name) {
            assert!(quic.out.arrived > min * 5 / 4, "{name}: {} bytes, {min} without", quic.out.arrived);
        }
    }
}

#[test]
fn a_bound_of_the_pacing_rate_is_kept_by_every_algorithm_from_the_moment_it_is_set() {
    let max = Rate::bits_per_sec(4_000_000);
    let script = vec![after_ms(1_000, Action::MaxRate(Some(max))), after_ms(3_000, Action::MaxRate(None))];
    for mut quic in every(Shape::CLEAN, Span::millis(1_500), |plan| plan.script.clone_from(&script)) {
        let name = quic.plan.algorithm;
        let before = quic.out.arrived;
        quic.run_until(Time::ZERO + Span::millis(2_900));
        assert!(quic.cc.pacing_rate() <= Some(max), "{name}: {:?}", quic.cc.pacing_rate());
        let rate = (quic.out.arrived - before) * 8 * 10 / 14;
        assert!(rate <= 4_100_000, "{name}: {rate} bit/s");
        quic.run_until(Time::ZERO + Span::secs(8));
        assert!(name == "fixed" || quic.cc.pacing_rate() > Some(max), "{name}: {:?} afterwards", quic.cc.pacing_rate());
    }
}

#[test]
fn a_remembered_path_is_not_resumed_faster_than_the_bound_of_the_pacing_rate() {
    let max = Rate::bits_per_sec(2_000_000);
    let long = Shape { delay: Span::millis(100), buffer: 500_000, ..Shape::CLEAN };
    for info in ALGORITHMS {
        let mut plan = Plan::new(info.name, long);
        (plan.resume, plan.script) = (Some(long.remembered()), vec![after_ms(1, Action::MaxRate(Some(max)))]);
        let mut quic = Quic::new(&plan);
        for ms in 2..600 {
            quic.run_until(Time::ZERO + Span::millis(ms));
            assert!(quic.cc.pacing_rate() <= Some(max), "{} after {ms} ms: {:?}", info.name, quic.cc.pacing_rate());
        }
    }
}

/// Largest excess of the bandwidth over the link's, in per cent, with full packets of 1,200 bytes: aggregation compresses ACKs.
const MOST_ABOVE: u64 = 4;

#[test]
fn the_bandwidth_estimate_stays_below_the_link_in_full_packets() {
    for name in ["bbr1", "bbr3", "bbr3-linux"] {
        for shape in [Shape::CLEAN, LOSSY] {
            let mut plan = Plan::new(name, shape);
            plan.most_bw_percent = Some(MOST_ABOVE);
            let quic = Quic::run(&plan, Span::secs(10));
            let min = quic.plan.shape.rate.as_bits_per_sec() * 6 / 10;
            assert!(quic.cc.snapshot().bw.as_bits_per_sec() > min, "{name}: {:?}", quic.cc.snapshot());
        }
    }
}

#[test]
fn the_drafts_bandwidth_is_one_of_bytes_whatever_their_packets() {
    for sizes in [Sizes::Of(200), Sizes::Mixed] {
        let mut plan = Plan::new("bbr3", Shape::CLEAN);
        (plan.sizes, plan.most_bw_percent) = (sizes, Some(MOST_ABOVE));
        let quic = Quic::run(&plan, Span::secs(10));
        assert!(utilisation(&quic) >= 80, "{sizes:?}: {} %", utilisation(&quic));
    }
}

#[test]
fn the_drafts_bandwidth_does_not_jump_with_the_size_of_packets() {
    let mut plan = Plan::new("bbr3", Shape::CLEAN);
    plan.most_bw_percent = Some(MOST_ABOVE);
    plan.script = vec![after_ms(3_000, Action::ProbeMtu(1_450))];
    let quic = Quic::run(&plan, Span::secs(6));
    assert_eq!(quic.cc.mss(), 1_450);
}

/// Shares of the link left at 1 % random loss. A controller that treats each loss as congestion keeps a tenth.
#[test]
fn random_loss_of_one_per_cent_costs_bbr_little() {
    for (name, min) in [("bbr1", 85), ("bbr3", 60), ("bbr3-linux", 60)] {
        let quic = Quic::run(&Plan::new(name, LOSSY), Span::secs(20));
        assert!(utilisation(&quic) >= min, "{name}: {} %", utilisation(&quic));
    }
}

#[test]
fn a_run_repeats_byte_for_byte() {
    let shape = Shape { reorder_ppm: 5_000, reorder_by: Span::millis(8), ..LOSSY };
    let runs = [1, 1, 2].map(|seed| {
        let mut plan = Plan::new("bbr3", shape);
        (plan.seed, plan.sizes) = (seed, Sizes::Mixed);
        let quic = Quic::run(&plan, Span::secs(5));
        (quic.out.arrived, quic.out.queues_us)
    });
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[test]
fn a_host_that_ends_acks_before_it_knows_their_losses_breaks_no_promise() {
    for quic in every(LOSSY, Span::secs(5), |plan| plan.signals.losses_first = false) {
        assert!(quic.cc.in_flight() != Flight::NONE, "{}", quic.plan.algorithm);
    }
}
