//! Input and outcome of a run of the QUIC-shaped host.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::app::{App, Sizes};
use super::link::Shape;
use bbrlab_core::{Rate, RememberedPath, Span};

/// Optional signals, and the choice of those that the host reports.
#[derive(Clone, Copy, Debug)]
pub struct Signals {
    /// Packet numbers of losses.
    pub numbers: bool,
    /// Time at which the pacer lets the next packet go.
    pub edt: bool,
    pub app_limited: bool,
    /// Packets that arrived after being marked lost.
    pub late: bool,
    /// Each packet of an ACK, not only its bytes and the newest packet.
    pub packets: bool,
    /// The measured RTT, not the one derived from the newest packet.
    pub rtt: bool,
    /// Losses before the end of the ACK, not after it.
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

/// A scripted change to the connection or its path.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    ProbeMtu(u32),
    AckEvery(u32, Span),
    MoveTo(Shape),
    Dark(bool),
    MaxRate(Option<Rate>),
    LinkMtu(u32),
}

/// Parameters of a run.
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
    /// Largest excess, in per cent, of the bandwidth estimate over the link's rate.
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

/// Outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Bytes that arrived.
    pub arrived: u64,
    pub lost: u64,
    pub spurious: u64,
    pub discarded: u64,
    pub persistent: u64,
    pub marks: u64,
    /// Queueing delay met by each packet, µs.
    pub queues_us: Vec<u64>,
}

impl Outcome {
    pub fn queue_us(&self, percent: usize) -> u64 {
        let mut all = self.queues_us.clone();
        all.sort_unstable();
        all.get(all.len() * percent / 100).copied().unwrap_or(0)
    }
}
