//! Cost of leaving out each signal of a host: the table of `docs/host-it.md`.
//! `cargo test -p bbrlab-core --test hosts cost -- --nocapture` prints it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::app::App;
use super::link::Shape;
use super::plan::{Plan, Signals};
use super::quic::Quic;
use super::smallest::Smallest;
use bbrlab_core::Span;

const LENGTH: Span = Span::secs(20);
const SEEDS: u64 = 3;
const NAMES: [&str; 2] = ["bbr3", "bbr1"];
const LOSSY: Shape = Shape { loss_ppm: 10_000, ..Shape::CLEAN };
const REORDERING: Shape = Shape { reorder_ppm: 2_000, reorder_by: Span::millis(8), ..Shape::CLEAN };

/// Means over the seeds.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// In 10 kbit/s.
    rate: u64,
    /// 95th percentile of the queue, in 10 µs.
    queue: u64,
}

impl Cell {
    fn text(self) -> String {
        format!("{:.2} / {:.1}", self.rate as f64 / 100.0, self.queue as f64 / 100.0)
    }
}

fn mean(cells: impl Iterator<Item = (u64, u64)>) -> Cell {
    let (mut count, mut sum) = (0, Cell::default());
    for (arrived, queue_us) in cells {
        count += 1;
        // Bits per µs are Mbit/s.
        sum.rate += arrived * 800 / LENGTH.as_micros();
        sum.queue += queue_us / 10;
    }
    Cell { rate: sum.rate / count, queue: sum.queue / count }
}

/// Data for 300 ms of each second.
const PAUSES: App = App::OnOff { on: Span::millis(300), off: Span::millis(700) };

fn quic(name: &'static str, shape: Shape, app: App, signals: Signals) -> Cell {
    mean((1..=SEEDS).map(|seed| {
        let mut plan = Plan::new(name, shape);
        (plan.app, plan.signals, plan.seed) = (app, signals, seed);
        let run = Quic::run(&plan, LENGTH);
        (run.out.arrived, run.out.queue_us(95))
    }))
}

fn smallest(name: &'static str, shape: Shape, app: App, paces: bool) -> Cell {
    mean((1..=SEEDS).map(|seed| {
        let mut host = Smallest::new(name, shape, app);
        host.paces = paces;
        host.seed(seed);
        let mut host = host.run(LENGTH);
        host.queues_us.sort_unstable();
        (host.arrived, host.queues_us[host.queues_us.len() * 95 / 100])
    }))
}

fn rows() -> Vec<(&'static str, Signals)> {
    const ALL: Signals = Signals::ALL;
    vec![
        ("everything", ALL),
        ("no packet numbers of losses", Signals { numbers: false, ..ALL }),
        ("no time of the pacer", Signals { edt: false, ..ALL }),
        ("no application limits", Signals { app_limited: false, ..ALL }),
        ("no spurious losses", Signals { late: false, ..ALL }),
        ("bytes and the newest packet only", Signals { packets: false, ..ALL }),
        ("no RTT but the newest packet's", Signals { rtt: false, ..ALL }),
        ("losses after the ACK has ended", Signals { losses_first: false, ..ALL }),
        ("no pacing", Signals { paced: false, ..ALL }),
    ]
}

#[test]
fn no_missing_signal_costs_more_than_15_per_cent_of_a_clean_link() {
    for name in NAMES {
        println!("| {name} | clean | 1 % loss | reordering | pauses |\n|---|---|---|---|---|");
        for (what, signals) in rows() {
            print(what, SHAPES.map(|(shape, app)| quic(name, shape, app, signals)));
        }
        for (what, paces) in [("the smallest host", true), ("the smallest host, no pacing", false)] {
            print(what, SHAPES.map(|(shape, app)| smallest(name, shape, app, paces)));
        }
    }
}

const SHAPES: [(Shape, App); 4] =
    [(Shape::CLEAN, App::Bulk), (LOSSY, App::Bulk), (REORDERING, App::Bulk), (Shape::CLEAN, PAUSES)];

/// Prints a row; its first cell is the clean link.
fn print(what: &str, cells: [Cell; 4]) {
    println!("| {what} | {} |", cells.map(Cell::text).join(" | "));
    assert!(cells[0].rate >= 1_700, "{what}: {cells:?}");
}
