//! The result of a run, the JSON document of `"schema": 1`, as types.
//! Rates are in bit/s, times in seconds unless the key ends in `_ms`, volumes in bytes, ratios 0…1.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::scenario::Scenario;

/// Number of the result schema; it changes when a key changes its meaning.
pub const SCHEMA: u32 = 1;
/// Bits in a byte.
pub(super) const BITS: f64 = 8.0;

/// Figures of one run. The caller that holds `scenario` and `expect` fills them in.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct RunResult {
    /// Number of this schema.
    pub schema: u32,
    /// The scenario as resolved, re-runnable.
    pub scenario: serde_json::Value,
    /// Backend: `sim`.
    pub on: String,
    /// The seed of this run.
    pub seed: u64,
    /// Version of bbrlab.
    pub version: String,
    /// Wall-clock time of the run, seconds. The only figure that differs between equal runs.
    pub wall_s: f64,
    /// Events handled by the simulator.
    pub events: u64,
    /// Packets delivered over the bottleneck.
    pub packets: u64,
    /// The bottleneck's figures.
    pub bottleneck: Bottleneck,
    /// Figures of the reverse direction's link; null without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<Box<UpLink>>,
    /// Interval over which groups and totals are counted, seconds since the run's start. It begins at the first flow's start,
    /// or the end of warm-up if later. It ends with the run, or at the last completion if every flow completed.
    pub interval_s: [f64; 2],
    /// Jain's fairness index of the flows' goodput, each over its own life.
    pub jain: f64,
    /// First second from which Jain's index over 1-s bins stays at or above 0.95, ProbeRTT seconds excluded. Null if never, or
    /// if no whole second has two flows. A flow counts in each whole second of its life.
    pub convergence_s: Option<f64>,
    /// One entry per flow.
    pub flows: Vec<FlowResult>,
    /// The lag probe's figures; null without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Box<ProbeResult>>,
    /// One entry per algorithm.
    pub groups: Vec<Group>,
    /// Expectations, with verdicts.
    pub expect: Vec<Expectation>,
    /// Details of the backend and the machine, for backends that run in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<serde_json::Value>,
}

impl RunResult {
    /// Fills in the scenario of this run, which has its defaults filled in.
    pub fn describe(&mut self, scenario: &Scenario) -> serde_json::Result<()> {
        self.scenario = serde_json::to_value(Scenario { seed: self.seed, repeat: 1, ..scenario.clone() })?;
        self.on = scenario.on.name().to_owned();
        self.version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(())
    }

    /// Sum of the goodput of these flows. It is their bytes over the result's interval, so it never exceeds the rate of a shared link.
    pub fn goodput_bps<'a>(&self, flows: impl IntoIterator<Item = &'a FlowResult>) -> f64 {
        let bytes: u64 = flows.into_iter().map(|flow| flow.bytes).sum();
        let span_s = self.interval_s[1] - self.interval_s[0];
        if span_s > 0.0 { bytes as f64 * BITS / span_s } else { 0.0 }
    }

    /// Goodput of all flows together.
    pub fn total_goodput_bps(&self) -> f64 {
        self.goodput_bps(&self.flows)
    }
}

/// Figures of the link that ACKs and uploads share, over the measured time.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct UpLink {
    /// Bytes that left, relative to the link's capacity.
    pub utilisation: f64,
    /// Packets offered, ACKs and data.
    pub arrivals: u64,
    /// Packets dropped by the queue.
    pub drops: u64,
    /// drops / arrivals.
    pub drop_ratio: f64,
    /// Packets marked.
    pub marks: u64,
    /// ACKs removed because a newer one arrived.
    pub filtered: u64,
    /// Queueing delay over time, as that of the bottleneck, ms.
    pub queue_ms: Distribution,
}

/// The bottleneck's figures over the measured time.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Bottleneck {
    /// Bytes that left, relative to the link's capacity.
    pub utilisation: f64,
    /// Packets offered.
    pub arrivals: u64,
    /// Packets dropped by policer or queue.
    pub drops: u64,
    /// drops / arrivals.
    pub drop_ratio: f64,
    /// Packets marked.
    pub marks: u64,
    /// Queueing delay weighted by time, not by packets. At each moment it is the wait of the packet being sent, or 0 if that
    /// had not waited. Its mean is the backlog before the serialiser over the rate. A kernel that reports only its backlog
    /// (`uml`) gives that, on the grid of its samples.
    pub queue_ms: Distribution,
}

/// A distribution in milliseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Distribution {
    /// Smallest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// The lag probe's figures over the measured time.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ProbeResult {
    /// Interval between two probes.
    pub interval_s: f64,
    /// Probes sent whose echo could have arrived by the end.
    pub sent: u64,
    /// Probes without an echo.
    pub lost: u64,
    /// lost / sent.
    pub loss_ratio: f64,
    /// RTT of each echoed probe; null where none was echoed.
    pub rtt_ms: Option<Distribution>,
    /// Responsiveness under load; null without an echo or without a bulk flow.
    pub rpm: Option<Responsiveness>,
}

/// Responsiveness by draft-ietf-ippm-responsiveness-09, in round trips per minute. Each term is 60000 over the mean, in ms, of
/// the lowest 95 % of the samples.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Responsiveness {
    /// Mean of `foreign` and `loaded`.
    pub rpm: f64,
    /// Term of new connections, from the probe's RTTs: TCP's handshake, TLS's and the request each count as one such RTT.
    pub foreign: f64,
    /// Term of requests on the loaded connections, from the RTTs of the bulk flows' ACKs. The wait in a sender's own buffer and
    /// behind a retransmission is not part of it.
    pub loaded: f64,
}

/// A call's figures over its whole life.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct CallResult {
    /// Frames that have arrived, or whose deadline has passed.
    pub frames: u64,
    /// Frames that did not arrive within the deadline.
    pub late: u64,
    /// late / frames.
    pub late_ratio: f64,
    /// Deadline: longest delay of a frame in time.
    pub deadline_ms: f64,
    /// Delay from the capture of each frame to the arrival of its last byte; null where none has arrived.
    pub delay_ms: Option<Distribution>,
    /// Mean opinion score of a G.711 call that plays each packet at the deadline and loses the late ones: E-model as simplified
    /// by Cole and Rosenbluth, CCR 2001; 1 (bad) to 4.5.
    pub mos: f64,
}

/// Figures of the page loads of a flow, from its start.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct PageResult {
    /// Objects of a page.
    pub objects: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Complete loads.
    pub loads: u64,
    /// Page-load time: from the request of the document (of the first load, the SYN) to the last byte of the last object; null
    /// without a complete load.
    pub load_ms: Option<Distribution>,
}

/// Figures of the responses of a flow with a deadline, from its start.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct RequestResult {
    /// Responses that have arrived.
    pub responses: u64,
    /// Responses that arrived after the deadline.
    pub late: u64,
    /// late / responses.
    pub late_ratio: f64,
    /// Deadline: longest time of a response in time.
    pub deadline_ms: f64,
    /// Time from a request (of the first, the SYN) to the last byte of its response; null without a response.
    pub time_ms: Option<Distribution>,
}

/// A video's figures from the flow's start to its end.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct VideoResult {
    /// The player's rule for the bitrate: `buffer` or `throughput`.
    pub rule: String,
    /// Time from the SYN to the first picture; null if there was none.
    pub startup_s: Option<f64>,
    /// Interruptions of playback.
    pub stalls: u64,
    /// Time spent in interruptions.
    pub stalled_s: f64,
    /// Media played.
    pub played_s: f64,
    /// Segments that have arrived.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Mean bitrate of these segments.
    pub bitrate_bps: f64,
    /// Changes of the bitrate.
    pub switches: u64,
    /// Quality of experience, in kbit/s for each segment: Yin et al., SIGCOMM 2015, linear quality and balanced weights. It is
    /// the mean bitrate less the mean change of the bitrate, and less 3000 times the seconds of stall and start-up delay over
    /// the number of segments.
    pub qoe: f64,
    /// Latency of live video at the end: the target, start-up delay and stalls together; null for video on demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_s: Option<f64>,
}

/// One flow's figures over the measured time.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct FlowResult {
    /// Name of the flow.
    pub name: String,
    /// Algorithm of the flow.
    pub cc: String,
    /// Start time.
    pub start_s: f64,
    /// Unique payload at the receiver over the flow's own life. That is from its start (or the end of warm-up) to its completion.
    pub goodput_bps: f64,
    /// Bytes on the wire at the receiver, duplicates included.
    pub throughput_bps: f64,
    /// RTT of each ACK at the sender; null where none was measured.
    pub rtt_ms: Option<Distribution>,
    /// Mean of |RTT(i) − RTT(i−1)|.
    pub jitter_ms: f64,
    /// Interarrival jitter after RFC 3550 §6.4.1, at the end.
    pub jitter_rfc3550_ms: f64,
    /// Ratio of retransmitted to sent segments.
    pub retransmit_ratio: f64,
    /// This flow's drops at the bottleneck over its arrivals there; null where the kernel's own queue does not distinguish flows.
    pub drop_ratio: Option<f64>,
    /// Retransmission timeouts.
    pub rto: u64,
    /// Retransmissions of data that had arrived.
    pub spurious_retransmits: u64,
    /// Unique payload bytes at the receiver.
    pub bytes: u64,
    /// Time from the SYN to the last payload byte at the receiver (mean over responses for request/response); null while unfinished.
    pub fct_s: Option<f64>,
    /// The call's figures; null for other traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Box<CallResult>>,
    /// The video's figures; null for other traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video: Option<Box<VideoResult>>,
    /// The page loads' figures; null for other traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<Box<PageResult>>,
    /// The responses' figures; null without a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Box<RequestResult>>,
    /// Time spent in each state.
    pub state_s: BTreeMap<String, f64>,
    /// The model at the end.
    pub model: Model,
}

impl FlowResult {
    /// A figure of the flow's RTT, ms; NaN where none was measured.
    pub fn rtt(&self, figure: impl Fn(&Distribution) -> f64) -> f64 {
        self.rtt_ms.as_ref().map_or(f64::NAN, figure)
    }
}

/// An algorithm's model of the path.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Model {
    /// Bandwidth estimate, payload.
    pub bw_bps: f64,
    /// Minimum RTT; null where none was measured.
    pub min_rtt_ms: Option<f64>,
}

/// The flows of one algorithm together.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Group {
    /// The algorithm.
    pub cc: String,
    /// Number of flows.
    pub flows: usize,
    /// Rate of the flows' unique payload over the result's interval.
    pub goodput_bps: f64,
    /// The flows' share of all unique payload bytes.
    pub share: f64,
}

/// One expectation with its verdict.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Expectation {
    /// Claim to which it belongs.
    pub id: String,
    /// Description of the measured figure.
    pub what: String,
    /// Expected value, in words and numbers.
    pub expected: String,
    /// Measured value.
    pub measured: f64,
    /// True if the expectation holds.
    pub holds: bool,
}
