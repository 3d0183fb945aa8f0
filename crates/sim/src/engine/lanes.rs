//! Lanes: the way to the receiver and back, shared by flows whose ways differ in nothing.
//! In: the setup. Out: one lane for each pair of delays. Never: a way that reorders, holds or changes; a flow keeps those to itself.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! What many flows send over equal delays arrives in the order in which it left, so one queue holds it all, and the
//! agenda need not know each flow's next arrival.

use bbrlab_core::Span;

use super::flow::Flow;
use crate::link::{AckAggregation, DelayConfig, DelayLine};
use crate::setup::{ChangeKind, Setup};
use crate::tcp::{AckPacket, Segment};

/// More pairs of delays than this have lines of their own: lanes are for crowds. Ours.
const LANES_MAX: usize = 64;

/// A shared way.
#[derive(Clone, Debug)]
pub struct Lane {
    delays: (Span, Span),
    /// From the last link to the receivers.
    pub forward: DelayLine<Segment>,
    /// From the receivers to the senders; each ACK with its flow.
    pub back: DelayLine<(usize, AckPacket)>,
}

impl Lane {
    fn new(delays: (Span, Span)) -> Self {
        Self { delays, forward: DelayLine::new(&plain(delays.0), 0), back: DelayLine::new(&plain(delays.1), 0) }
    }
}

/// A line that delays, and nothing else.
pub const fn plain(delay: Span) -> DelayConfig {
    DelayConfig { delay, jitter: Span::ZERO, jitter_reorders: false, reorder: 0.0, duplicate: 0.0 }
}

/// Makes the lanes, and tells each flow which one is its own.
pub fn assign(setup: &Setup, flows: &mut [Flow]) -> Vec<Lane> {
    let path = &setup.path;
    let is_plain = path.jitter == Span::ZERO
        && path.reorder <= 0.0
        && path.duplicate <= 0.0
        && path.ack_aggregation == AckAggregation::None
        && !setup.schedule.iter().any(|change| matches!(change.what, ChangeKind::Rtt(_)));
    let mut lanes: Vec<Lane> = Vec::new();
    for flow in flows.iter_mut().filter(|_| is_plain) {
        let delays = flow.delays();
        let known = lanes.iter().position(|lane| lane.delays == delays);
        if known.is_none() && lanes.len() < LANES_MAX {
            lanes.push(Lane::new(delays));
            flow.lane = Some(lanes.len() - 1);
        } else {
            flow.lane = known;
        }
    }
    lanes
}
