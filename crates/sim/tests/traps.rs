//! Bugs of other BBR implementations that only a whole transfer reveals; the others are in `crates/core/tests/traps.rs`.
//! `tools/traps.py` inserts each bug and checks that its test fails.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{AlgorithmConfig, Rate, Span, State};
use bbrlab_sim::engine;
use bbrlab_sim::link::Buffer;
use bbrlab_sim::record::trace::FlowTrace;
use bbrlab_sim::setup::{FlowSetup, Rwnd, Setup};

const BBRS: [&str; 4] = ["bbr1", "bbr2", "bbr3", "bbr3-linux"];

/// One flow over 50 Mbit/s and 40 ms with a buffer of two BDP, sampled every 10 ms.
fn run(algorithm: &str, seconds: u64, edit: impl FnOnce(&mut FlowSetup)) -> FlowTrace {
    let mut flow = FlowSetup::bulk("flow", AlgorithmConfig::named(algorithm).expect("a listed algorithm"));
    edit(&mut flow);
    let (rate, rtt) = (Rate::bits_per_sec(50_000_000), Span::millis(40));
    let mut setup = Setup::one_link(rate, rtt, Buffer::Packets(330), Span::secs(seconds), vec![flow]);
    setup.sample = Some(Span::millis(10));
    engine::run(&setup).trace.flows.remove(0)
}

/// quinn 0.11: with a window of a whole BDP everything left at once, whatever the pacing rate.
#[test]
fn pacing_not_enforced() {
    for name in BBRS {
        let trace = run(name, 5, |_| {});
        for at in 20..trace.sent_bytes.len() {
            let sent = trace.sent_bytes[at] - trace.sent_bytes[at - 1];
            // Limit in 10 ms: the higher of the two rates, plus at most four bursts of 64 kB.
            let allowed = trace.pacing_bps[at].max(trace.pacing_bps[at - 1]) / 800 + 4 * 16_384;
            assert!(sent <= allowed, "{name}: {sent} bytes in 10 ms at {} ms, {allowed} allowed", at * 10);
        }
    }
}

/// cloudflare/quiche #2249 and google/quiche #28: a flow that waits for its pacer with more to send is not application-limited.
/// Treated as such, it would never leave Startup.
#[test]
fn app_limited_2_waiting_for_the_pacer_counted_as_app_limited() {
    for name in BBRS {
        let trace = run(name, 5, |_| {});
        let left =
            trace.states.iter().find(|(_, state)| *state != State::Startup).map(|(at, _)| at.as_nanos() / 1_000_000);
        assert!(left.is_some_and(|ms| ms < 1_000), "{name}: left Startup after {left:?} ms");
    }
}

/// lsquic #544, #554: under flow control everything was marked, and a flow never left Startup.
#[test]
fn app_limited_8_stuck_in_startup_by_flow_control() {
    for name in BBRS {
        let trace = run(name, 5, |flow| flow.rwnd = Rwnd::Fixed(64 * 1024));
        let left =
            trace.states.iter().find(|(_, state)| *state != State::Startup).map(|(at, _)| at.as_nanos() / 1_000_000);
        assert!(left.is_some_and(|ms| ms < 2_000), "{name}: left Startup after {left:?} ms");
        let bw = trace.bw_bps.last().copied().unwrap_or_default();
        assert!((11_000_000..=15_000_000).contains(&bw), "{name}: {bw} bit/s of 64 KiB in 40 ms");
    }
}
