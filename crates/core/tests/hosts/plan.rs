//! A run of the QUIC-shaped host: what it is to do, and what became of it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::app::{App, Sizes};
use super::link::Shape;
use bbrlab_core::{Rate, RememberedPath, Span};

/// What the host says and what it leaves out.
#[derive(Clone, Copy, Debug)]
pub struct Signals {
    /// Packet numbers of losses.
    pub numbers: bool,
    /// When the pacer lets the next packet go.
    pub edt: bool,
    pub app_limited: bool,
    /// What was lost and arrived.
    pub late: bool,
    /// Each packet of an ACK, not only bytes and the newest one.
    pub packets: bool,
    /// RTT as measured, not as it follows from the newest packet.
    pub rtt: bool,
    /// Losses before the ACK ends, not after it.
    pub losses_first: bool,
    pub paced: bool,
}

impl Signals {
    pub const ALL: Self = Self {
        numbers: true,
        edt: true,
        app_limited: true,
        late: true,
        packets: true,
        rtt: true,
        losses_first: true,
        paced: true,
    };
}

/// What happens to the connection, and when.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    ProbeMtu(u32),
    AckEvery(u32, Span),
    MoveTo(Shape),
    Dark(bool),
    MaxRate(Option<Rate>),
    LinkMtu(u32),
}

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub algorithm: &'static str,
    pub shape: Shape,
    pub app: App,
    pub sizes: Sizes,
    pub mss: u32,
    pub seed: u64,
    pub signals: Signals,
    pub resume: Option<RememberedPath>,
    /// The bandwidth estimate may not exceed the link's rate by more per cent than this.
    pub most_bw_percent: Option<u64>,
    pub script: Vec<(Span, Action)>,
}

impl Plan {
    pub fn new(algorithm: &'static str, shape: Shape) -> Self {
        Self {
            algorithm,
            shape,
            app: App::Bulk,
            sizes: Sizes::Full,
            mss: 1_200,
            seed: 1,
            signals: Signals::ALL,
            resume: None,
            most_bw_percent: None,
            script: Vec::new(),
        }
    }
}

/// What became of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Bytes that arrived.
    pub arrived: u64,
    pub lost: u64,
    pub spurious: u64,
    pub discarded: u64,
    pub persistent: u64,
    pub marks: u64,
    /// What packets found queued, µs.
    pub queues_us: Vec<u64>,
}

impl Outcome {
    pub fn queue_us(&self, percent: usize) -> u64 {
        let mut all = self.queues_us.clone();
        all.sort_unstable();
        all.get(all.len() * percent / 100).copied().unwrap_or(0)
    }
}
