//! The estimate of a path from one connection: each figure with its basis, and the properties that stay unknown.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::Serialize;

/// Place of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Vantage {
    /// At the sender of the data: every figure can be estimated.
    Sender,
    /// At its receiver, behind the bottleneck: neither RTT nor queue can be seen.
    Receiver,
    /// Between both.
    Between,
    /// Unknown: encrypted packets show only the RTT, which is the same everywhere.
    Unknown,
}

/// Bottleneck rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RateEstimate {
    /// Bits of frames per second.
    pub bps: f64,
    /// Range in which the middle four fifths of its samples lie; the rate itself where there are none.
    pub range_bps: (f64, f64),
    /// True if the bottleneck was never busy for long enough: the link may be faster.
    pub is_lower_bound: bool,
    /// Basis.
    pub from: String,
}

/// RTT and its rise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RttEstimate {
    /// Two-way time without queue or serialisation, ms.
    pub base_ms: f64,
    /// Median, ms.
    pub p50_ms: f64,
    /// 95th percentile, ms.
    pub p95_ms: f64,
    /// Largest, ms.
    pub max_ms: f64,
    /// True if the queue was never seen empty, so that the base RTT is an upper bound.
    pub is_upper_bound: bool,
    /// Basis.
    pub from: String,
}

/// Buffer of the bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BufferEstimate {
    /// Bytes of frames that wait.
    pub bytes: f64,
    /// Time to drain it, ms.
    pub ms: f64,
    /// Multiple of rate and base RTT.
    pub bdp: f64,
    /// True if it was never seen to be full: it may be larger.
    pub is_lower_bound: bool,
    /// Basis.
    pub from: String,
}

/// Kind of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// The queue was full.
    TailDrop,
    /// A token bucket was empty.
    Policer,
    /// Independent of the queue, each on its own.
    Random,
    /// Independent of the queue, several in a row.
    Burst,
}

impl LossKind {
    /// Its name in text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TailDrop => "tail drop",
            Self::Policer => "policer",
            Self::Random => "random",
            Self::Burst => "burst",
        }
    }
}

/// Losses of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LossEstimate {
    /// Kind.
    pub kind: LossKind,
    /// Episodes: losses within a round trip of each other count once.
    pub episodes: f64,
    /// Segments lost over segments sent.
    pub ratio: f64,
    /// Mean number of segments lost in a row.
    pub run: f64,
    /// Basis.
    pub from: String,
}

/// Policer in front of the bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicerEstimate {
    /// Rate at which tokens arrive, bits of frames per second.
    pub bps: f64,
    /// Depth of the bucket, bytes.
    pub burst_bytes: f64,
    /// Basis.
    pub from: String,
}

/// ACKs of the data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AckEstimate {
    /// Segments that an ACK acknowledges, in the mean.
    pub segments: f64,
    /// Period at which ACKs arrive in clusters, ms; none if they do not.
    pub period_ms: Option<f64>,
    /// Basis.
    pub from: String,
}

/// A guess of the congestion control.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlgorithmEstimate {
    /// Algorithm in the syntax of `--flow`.
    pub name: String,
    /// Basis.
    pub from: String,
}

/// Estimate of a path from the data of one connection in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Sender of the data.
    pub sender: String,
    /// Its receiver.
    pub receiver: String,
    /// Place of the capture.
    pub vantage: Vantage,
    /// Basis of that.
    pub vantage_from: String,
    /// First data, seconds after the beginning of the capture.
    pub start_s: f64,
    /// Time from the first data to the last ACK, seconds.
    pub duration_s: f64,
    /// Payload bytes sent, retransmissions included.
    pub sent_bytes: f64,
    /// Payload bytes retransmitted.
    pub retransmitted_bytes: f64,
    /// Payload bytes acknowledged.
    pub delivered_bytes: f64,
    /// Payload acknowledged per second, bit/s.
    pub goodput_bps: f64,
    /// Segment size, bytes of payload.
    pub mss: u64,
    /// Bottleneck rate.
    pub rate: Option<RateEstimate>,
    /// RTT.
    pub rtt: Option<RttEstimate>,
    /// Buffer.
    pub buffer: Option<BufferEstimate>,
    /// Segments lost over segments sent.
    pub loss_ratio: f64,
    /// Kinds of loss, the most frequent first.
    pub losses: Vec<LossEstimate>,
    /// Policer.
    pub policer: Option<PolicerEstimate>,
    /// Retransmitted bytes that had arrived, over bytes sent.
    pub needless_ratio: f64,
    /// Bytes that later data overtook, over bytes delivered.
    pub reordered_ratio: f64,
    /// Largest distance by which data was overtaken, segments.
    pub reordered_segments: f64,
    /// ACKs.
    pub acks: AckEstimate,
    /// Share of the time with nothing in flight.
    pub application_limited: f64,
    /// Share of the time in which the receive window was full; none if the handshake is missing.
    pub receiver_limited: Option<f64>,
    /// Congestion control.
    pub algorithm: Option<AlgorithmEstimate>,
    /// Properties that could not be estimated, each with its reason.
    pub unknown: Vec<String>,
}

impl Estimate {
    /// Most frequent kind of loss; none without losses.
    pub fn main_loss(&self) -> Option<LossKind> {
        self.losses.first().map(|loss| loss.kind)
    }

    /// Losses of this kind.
    pub fn losses_of(&self, kind: LossKind) -> Option<&LossEstimate> {
        self.losses.iter().find(|loss| loss.kind == kind)
    }
}
