//! Runs one scenario from flags and prints a line of figures: `cargo run --example flow -- quic:noq --flow bbr3 --loss 1%`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::scenario::{Backend, Scenario};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut scenario = Scenario::default();
    scenario.set("on", args.first().map_or("quic", String::as_str))?;
    for pair in args[1..].chunks(2) {
        scenario.set(&pair[0].trim_start_matches("--").replace('-', "_"), &pair[1])?;
    }
    let setup = scenario.resolve()?;
    let output = match scenario.on {
        Backend::Sim => bbrlab_sim::engine::run(&setup),
        on => bbrlab_quic::backend::run(on.stack().ok_or("no QUIC stack")?, &setup, &mut |_| {})?,
    };
    for flow in &output.result.flows {
        println!(
            "{:10} {:8.3} Mbit/s  RTT p50 {:7.2} ms  queue p50 {:6.2} ms  drops {:.2} %  lost {:.2} %  rto {}  spurious {}  {:?}",
            flow.name,
            flow.goodput_bps / 1e6,
            flow.rtt(|rtt| rtt.p50),
            output.result.bottleneck.queue_ms.p50,
            output.result.bottleneck.drop_ratio * 100.0,
            flow.retransmit_ratio * 100.0,
            flow.rto,
            flow.spurious_retransmits,
            flow.state_s,
        );
    }
    Ok(())
}
