//! Export of a run's time series: CSV, qlog, pcapng and, with the feature `parquet`, Parquet.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod columns;
pub mod csv;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod pcap;
pub mod qlog;

use bbrlab_sim::record::packets::PacketRecord;
use bbrlab_sim::record::result::RunResult;
use bbrlab_sim::record::trace::Trace;
use bbrlab_sim::setup::Setup;

/// One run as input of the exports.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub setup: &'a Setup,
    pub result: &'a RunResult,
    pub trace: &'a Trace,
    /// Recorded packets; empty if no export needs them.
    pub packets: &'a [PacketRecord],
}

#[cfg(test)]
pub(crate) mod testing {
    use bbrlab_core::{Span, State, Time};

    use super::*;
    use bbrlab_sim::record::result::{Bottleneck, Distribution, FlowResult, Model};
    use bbrlab_sim::record::trace::{FlowTrace, LinkTrace};

    /// Two flows over three samples, with distinct values throughout.
    pub(crate) fn example() -> (Setup, RunResult, Trace) {
        let scenario = "flow = [\"bbr1\", \"cubic,name=peer,mss=1000\"]\nduration = \"1s\"";
        let setup = bbrlab_sim::scenario::ScenarioFile::from_toml(scenario, "x").unwrap().scenario.resolve().unwrap();
        assert_eq!(setup.path.rtt, Span::millis(40));
        let flow = |base: u32, state: State| FlowTrace {
            cwnd: vec![base, base + 1, base + 1],
            inflight: vec![1, 2, 3],
            pacing_bps: vec![0, 5_000_000, 6_000_000],
            bw_bps: vec![0, 4_000_000, 4_000_000],
            rtt_us: vec![0, 41_000, 42_500],
            min_rtt_us: vec![0, 41_000, 41_000],
            sent_bytes: vec![0, 1448, 2896],
            acked_bytes: vec![0, 0, 1448],
            received_bytes: vec![0, 1448, 1448],
            lost: vec![0, 0, 1],
            retransmitted: vec![0; 3],
            states: vec![(Time::nanos(0), state), (Time::nanos(15_000_000), State::Recovery)],
            rtt_samples: Vec::new(),
            internals: Vec::new(),
        };
        let link = LinkTrace {
            queue_packets: vec![0, 4, 7],
            queue_bytes: vec![0, 6056, 10_598],
            rate_bps: vec![10_000_000; 3],
            arrivals: vec![0, 9, 20],
            drops: vec![0, 0, 1],
            marks: vec![0; 3],
            departed_bytes: vec![0, 7570, 15_140],
        };
        let trace = Trace {
            up: None,
            t_ns: vec![0, 10_000_000, 20_000_000],
            flows: vec![flow(10, State::Startup), flow(20, State::SlowStart)],
            links: vec![link],
            probe: Vec::new(),
        };
        (setup, result(), trace)
    }

    fn result() -> RunResult {
        let flow = |name: &str, cc: &str| FlowResult {
            name: name.to_owned(),
            cc: cc.to_owned(),
            start_s: 0.0,
            goodput_bps: 1e6,
            throughput_bps: 1.1e6,
            rtt_ms: None,
            jitter_ms: 0.0,
            jitter_rfc3550_ms: 0.0,
            retransmit_ratio: 0.0,
            drop_ratio: Some(0.0),
            rto: 0,
            spurious_retransmits: 0,
            bytes: 1448,
            fct_s: None,
            call: None,
            video: None,
            page: None,
            requests: None,
            state_s: Default::default(),
            model: Model::default(),
        };
        let queue_ms = Distribution::default();
        RunResult {
            schema: 1,
            scenario: serde_json::json!({ "name": "example" }),
            on: "sim".to_owned(),
            seed: 7,
            version: "0".to_owned(),
            wall_s: 0.0,
            events: 10,
            packets: 9,
            bottleneck: Bottleneck { utilisation: 0.5, arrivals: 20, drops: 1, drop_ratio: 0.05, marks: 0, queue_ms },
            interval_s: [0.0, 0.02],
            jain: 1.0,
            convergence_s: None,
            flows: vec![flow("bbr1#0", "bbr1"), flow("peer", "cubic")],
            groups: Vec::new(),
            up: None,
            probe: None,
            expect: Vec::new(),
            provenance: None,
        }
    }
}
