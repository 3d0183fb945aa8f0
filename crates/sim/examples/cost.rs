//! Runs one of the bench scenarios to a given simulated second, or many runs of a millisecond, for `callgrind` to count.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};
use bbrlab_sim::scenario::ScenarioFile;

/// Name and scenario of each bench.
const BENCHES: &[(&str, &str)] = &[
    ("one", "rate = '10mbit'\nrtt = '40ms'\nbuffer = '2bdp'\nflow = ['bbr1']"),
    ("short", "rate = '10mbit'\nrtt = '40ms'\nbuffer = '2bdp'\nflow = ['bbr1']"),
    ("cubic", "rate = '10mbit'\nrtt = '40ms'\nbuffer = '2bdp'\nflow = ['cubic']"),
    ("loss", "rate = '100mbit'\nrtt = '100ms'\nbuffer = '41p'\nflow = ['bbr1*6']"),
    ("hundred", "rate = '100mbit'\nrtt = '20ms'\nbuffer = '1bdp'\nflow = ['bbr1*100@0s+10ms']"),
    ("gigabit", "rate = '1gbit'\nrtt = '100ms'\nbuffer = '1bdp'\nflow = ['bbr1']"),
    ("thousand", "rate = '1gbit'\nrtt = '20ms'\nbuffer = '1bdp'\nflow = ['bbr1*1000@0s+1ms']"),
    ("thousand-cubic", "rate = '1gbit'\nrtt = '20ms'\nbuffer = '1bdp'\nflow = ['cubic*1000@0s+1ms']"),
    ("fast", "rate = '10gbit'\nrtt = '100ms'\nbuffer = '1bdp'\nflow = ['bbr1']"),
    ("fast-thousand", "rate = '10gbit'\nrtt = '20ms'\nbuffer = '1bdp'\nflow = ['bbr1*1000@0s+1ms']"),
];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let usage = "usage: cost NAME SECONDS | cost short RUNS";
    let (name, seconds) = (args.get(1).expect(usage), args.get(2).expect(usage));
    let bench = BENCHES.iter().find(|bench| bench.0 == name).expect(usage);
    let text = format!("{}\nduration = '{seconds}s'\n", bench.1);
    let scenario = ScenarioFile::from_toml(&text, name).expect("a bench scenario reads").scenario;
    let mut setup = scenario.resolve().expect("a bench scenario resolves");
    setup.sample = None; // the simulation alone: the cost of series depends on their grid
    if name == "short" {
        let runs: u64 = seconds.parse().expect(usage);
        setup.duration = Time::ZERO + Span::millis(1);
        for _ in 0..runs {
            std::hint::black_box(bbrlab_sim::engine::run(&setup));
        }
        println!("{runs}");
        return;
    }
    println!("{}", bbrlab_sim::engine::run(&setup).result.packets);
}
