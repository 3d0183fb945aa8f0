//! A synthetic run for the tests of measures: two flows, four seconds, round numbers.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::sync::Arc;

use bbrlab_core::{AlgorithmConfig, Rate, Span, State, Time};

use super::RunView;
use bbrlab_sim::link::Buffer;
use bbrlab_sim::record::Output;
use bbrlab_sim::record::packets::Packets;
use bbrlab_sim::record::result::{Bottleneck, Distribution, FlowResult, Group, Model, RunResult, SCHEMA};
use bbrlab_sim::record::trace::{FlowTrace, LinkTrace, ModelSample, Trace};
use bbrlab_sim::setup::{FlowSetup, Setup};

const SECOND_NS: u64 = 1_000_000_000;

fn flow_setup(name: &str, cc: &str) -> FlowSetup {
    FlowSetup::bulk(name, AlgorithmConfig::named(cc).expect("the test names known algorithms"))
}

/// 10 Mbit/s, 40 ms, four seconds, two flows.
pub fn setup() -> Setup {
    let flows = vec![flow_setup("bbr1#0", "bbr1"), flow_setup("cubic#0", "cubic")];
    let (rate, rtt) = (Rate::bits_per_sec(10_000_000), Span::millis(40));
    let sample = Some(Span::millis(500));
    Setup { sample, ..Setup::one_link(rate, rtt, Buffer::Packets(100), Span::nanos(4 * SECOND_NS), flows) }
}

/// A flow's columns with nine samples at intervals of half a second, `bytes_per_sample` bytes each.
fn flow_trace(bytes_per_sample: u64, states: Vec<(Time, State)>) -> FlowTrace {
    let grown = |unit: u64| (0..9).map(|i| i * unit).collect::<Vec<u64>>();
    FlowTrace {
        cwnd: vec![70; 9],
        inflight: vec![32, 32, 40, 32, 32, 40, 32, 4, 32],
        pacing_bps: vec![9_000_000; 9],
        bw_bps: vec![9_000_000; 9],
        rtt_us: vec![0, 40_000, 50_000, 40_000, 40_000, 50_000, 40_000, 40_000, 40_000],
        min_rtt_us: vec![40_000; 9],
        sent_bytes: grown(bytes_per_sample),
        acked_bytes: grown(bytes_per_sample),
        received_bytes: grown(bytes_per_sample),
        lost: vec![0, 0, 0, 0, 3, 3, 9, 9, 9],
        retransmitted: grown(bytes_per_sample / 20 / 1448),
        states,
        rtt_samples: Vec::new(),
        internals: (0..9).map(|round| ModelSample { round: f64::from(round), ..ModelSample::UNKNOWN }).collect(),
    }
}

/// Result of a flow with that goodput over the run's four seconds.
fn flow_result(name: &str, cc: &str, goodput_bps: f64) -> FlowResult {
    FlowResult {
        name: name.into(),
        cc: cc.into(),
        start_s: 0.0,
        goodput_bps,
        throughput_bps: goodput_bps,
        rtt_ms: Some(Distribution { min: Some(40.0), mean: 42.0, p50: 41.0, p95: 50.0, p99: 51.0, max: 52.0 }),
        jitter_ms: 1.0,
        jitter_rfc3550_ms: 1.0,
        retransmit_ratio: 0.05,
        drop_ratio: Some(0.05),
        rto: 0,
        spurious_retransmits: 0,
        bytes: (goodput_bps * 4.0 / 8.0) as u64,
        fct_s: None,
        call: None,
        video: None,
        page: None,
        requests: None,
        state_s: BTreeMap::new(),
        model: Model { bw_bps: goodput_bps, min_rtt_ms: Some(40.0) },
    }
}

/// bbr1 at 8 Mbit/s and cubic at 2 Mbit/s; one ProbeRTT from 2.5 s to 2.75 s; drops only after 2 s.
pub fn two_flows() -> RunView {
    let at = |ms: u64, state| (Time::nanos(ms * 1_000_000), state);
    let states = vec![
        at(100, State::Startup),
        at(800, State::Drain),
        at(1000, State::ProbeBwUp),
        at(1500, State::ProbeBwCruise),
        at(2500, State::ProbeRtt),
        at(2750, State::ProbeBwUp),
    ];
    let link = LinkTrace {
        queue_packets: vec![0, 0, 16, 16, 16, 16, 16, 16, 16],
        queue_bytes: vec![0, 0, 25_000, 25_000, 25_000, 25_000, 25_000, 25_000, 25_000],
        rate_bps: vec![10_000_000; 9],
        arrivals: (0..9).map(|i| i * 500).collect(),
        drops: vec![0, 0, 0, 0, 0, 50, 100, 150, 200],
        marks: vec![0; 9],
        departed_bytes: (0..9).map(|i| i * 500_000).collect(),
    };
    let trace = Trace {
        up: None,
        t_ns: (0..9).map(|i| i * SECOND_NS / 2).collect(),
        flows: vec![flow_trace(500_000, states), flow_trace(125_000, vec![at(100, State::SlowStart)])],
        links: vec![link],
        probe: Vec::new(),
    };
    let result = RunResult {
        schema: SCHEMA,
        scenario: serde_json::Value::Null,
        on: "sim".into(),
        seed: 1,
        version: "0".into(),
        wall_s: 0.0,
        events: 10,
        packets: 5,
        bottleneck: Bottleneck {
            utilisation: 0.8,
            arrivals: 4000,
            drops: 200,
            drop_ratio: 0.05,
            marks: 0,
            queue_ms: Distribution { min: None, mean: 20.0, p50: 20.0, p95: 21.0, p99: 22.0, max: 23.0 },
        },
        interval_s: [0.0, 4.0],
        jain: 0.74,
        convergence_s: None,
        flows: vec![flow_result("bbr1#0", "bbr1", 8e6), flow_result("cubic#0", "cubic", 2e6)],
        groups: vec![
            Group { cc: "bbr1".into(), flows: 1, goodput_bps: 8e6, share: 0.8 },
            Group { cc: "cubic".into(), flows: 1, goodput_bps: 2e6, share: 0.2 },
        ],
        expect: Vec::new(),
        up: None,
        probe: None,
        provenance: None,
    };
    RunView::new("only", Arc::new(setup()), Arc::new(Output { result, trace, packets: Packets::default() }))
}
