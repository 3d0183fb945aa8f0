//! Observers of the path: what its packets add to the counters of the run and its flows.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

use super::capture::Capture;
use super::flow::Flow;
use super::watch::{Stage, Watch};
use crate::link::{LinkPacket, Verdict};
use crate::metrics::QueueDelay;
use crate::path::{ACCESS_HOP, PathObserver, SojournTime};
use crate::record::packets::Tap;
use crate::tcp::Segment;

/// Path observer that feeds the engine's recorder and counters.
pub(super) struct FlowObserver<'w> {
    pub flows: &'w mut [Flow],
    pub capture: &'w mut Option<Box<Capture>>,
    pub released: &'w mut Vec<(u32, u32)>,
    pub queue_delay: &'w mut QueueDelay,
    /// Start and end of measurement.
    pub measured: (Time, Time),
}

impl PathObserver<Segment> for FlowObserver<'_> {
    #[inline]
    fn on_offered(&mut self, now: Time, segment: &Segment, verdict: Verdict, is_bottleneck: bool) {
        if is_bottleneck {
            // A probe's flow is one past the last. An upload's ACK counts in no figure of its flow.
            let Some(flow) = self.flows.get_mut(segment.flow as usize).filter(|_| !segment.is_ack()) else { return };
            if let Some(capture) = self.capture {
                capture.on_segment(now, segment, Tap::BottleneckIn);
            }
            let counts = &mut flow.stats.bottleneck;
            counts.0 += 1;
            if verdict != Verdict::Queued {
                counts.1 += 1;
                if let Some(watch) = self.watch() {
                    watch.on_segment(now, segment, Stage::Refused);
                }
            }
        } else if verdict != Verdict::Queued && segment.hop == ACCESS_HOP {
            self.released.push((segment.flow, segment.wire_bytes()));
        }
    }

    #[inline]
    fn on_burst(&mut self, now: Time, segments: &[Segment], refused: u64, is_bottleneck: bool) {
        if is_bottleneck && let Some(first) = segments.first() {
            let Some(flow) = self.flows.get_mut(first.flow as usize) else { return };
            if let Some(capture) = self.capture {
                segments.iter().for_each(|segment| capture.on_segment(now, segment, Tap::BottleneckIn));
                if let Some(watch) = &mut capture.watch {
                    watch.note_refused(now);
                }
            }
            let counts = &mut flow.stats.bottleneck;
            counts.0 += segments.len() as u64;
            counts.1 += refused;
        }
    }

    #[inline]
    fn on_refused(&mut self, segment: &Segment, is_bottleneck: bool) {
        if is_bottleneck
            && (segment.flow as usize) < self.flows.len()
            && let Some(watch) = self.watch()
        {
            watch.on_refused(segment);
        }
    }

    fn on_dropped_later(&mut self, flow: u32, is_bottleneck: bool) {
        // Only the flow is known: of an upload it was an ACK.
        if is_bottleneck && self.flows.get(flow as usize).is_some_and(|flow| !flow.is_upload) {
            if let Some(watch) = self.watch() {
                watch.on_dropped_later(flow);
            }
            self.flows[flow as usize].stats.bottleneck.1 += 1;
        }
    }

    #[inline]
    fn on_departed(&mut self, at: Time, segment: &mut Segment, stayed: SojournTime, lost: bool, is_bottleneck: bool) {
        if is_bottleneck {
            let is_data = (segment.flow as usize) < self.flows.len() && !segment.is_ack();
            if let Some(capture) = self.capture.as_mut().filter(|_| is_data) {
                capture.on_segment(at, segment, Tap::BottleneckOut);
                if let Some(watch) = capture.watch.as_mut().filter(|_| lost) {
                    watch.on_segment(at, segment, Stage::Lost);
                }
            }
            if at > self.measured.0 && at <= self.measured.1 {
                self.queue_delay.on_left(at, stayed.waited, stayed.service);
            }
        } else if segment.hop == ACCESS_HOP {
            self.released.push((segment.flow, segment.wire_bytes()));
        }
    }
}

impl FlowObserver<'_> {
    fn watch(&mut self) -> Option<&mut Watch> {
        self.capture.as_mut().and_then(|capture| capture.watch.as_mut())
    }
}

/// Path observer of planned departures from a constant path's one link.
pub(super) struct QueueObserver<'w> {
    pub queue_delay: &'w mut QueueDelay,
    pub measured: (Time, Time),
}

impl PathObserver<Segment> for QueueObserver<'_> {
    #[inline]
    fn on_departed(
        &mut self,
        at: Time,
        _segment: &mut Segment,
        stayed: SojournTime,
        _lost: bool,
        _is_bottleneck: bool,
    ) {
        if at > self.measured.0 && at <= self.measured.1 {
            self.queue_delay.on_left(at, stayed.waited, stayed.service);
        }
    }
}

/// Borrows the path observer while the engine works on the path.
macro_rules! observer {
    ($simulation:ident) => {
        &mut crate::engine::observers::FlowObserver {
            flows: &mut $simulation.flows,
            capture: &mut $simulation.capture,
            released: &mut $simulation.released,
            queue_delay: &mut $simulation.queue_delay,
            measured: ($simulation.setup.warmup, $simulation.setup.duration),
        }
    };
}
pub(super) use observer;
