//! Recorder of a run's series on a grid of virtual time.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};

use super::flow::Flow;
use crate::path::Path;
use crate::record::trace::{FlowTrace, LinkTrace, ModelSample, Trace};
use crate::setup::Setup;
use crate::tcp::{AckPacket, Segment};

/// The recorder; without a grid it does nothing.
pub struct Recorder {
    step: Option<Span>,
    next: Time,
    samples: bool,
    trace: Trace,
}

impl Recorder {
    pub fn new(setup: &Setup) -> Self {
        let trace = Trace {
            t_ns: Vec::new(),
            flows: vec![FlowTrace::default(); setup.flows.len()],
            links: vec![LinkTrace::default(); setup.links.len()],
            up: setup.up.as_ref().map(|_| Box::default()),
            probe: Vec::new(),
        };
        let next = if setup.sample.is_some() { Time::ZERO } else { Time::NEVER };
        Self { step: setup.sample, next, samples: setup.sample.is_some(), trace }
    }

    /// Time of the next sample.
    pub const fn next(&self) -> Time {
        self.next
    }

    #[inline]
    pub fn on_ack(&mut self, now: Time, flow: usize, rtt: Option<Span>) {
        if self.samples
            && let Some(rtt) = rtt
        {
            self.trace.flows[flow].rtt_samples.push((now, rtt.as_micros() as u32));
        }
    }

    /// Takes one sample of all series.
    pub fn sample(&mut self, now: Time, flows: &mut [Flow], path: &Path<Segment, AckPacket>) {
        self.trace.t_ns.push(now.as_nanos());
        for (column, flow) in self.trace.flows.iter_mut().zip(flows) {
            flow.sample(now, column);
        }
        for (column, link) in self.trace.links.iter_mut().zip(path.forward.links()) {
            column.sample(link);
        }
        for (column, link) in self.trace.up.iter_mut().zip(path.reverse.links()) {
            column.sample(link);
        }
        self.next = match self.step {
            Some(step) => now + step,
            None => Time::NEVER,
        };
    }

    /// Takes one sample of all series, with the first flow's model before `emitted` new segments are counted.
    #[cold]
    pub fn sample_inside(&mut self, now: Time, flows: &mut [Flow], path: &Path<Segment, AckPacket>, emitted: usize) {
        let next = self.next;
        self.sample(now, flows, path);
        self.next = next;
        if let (Some(flow), Some(column)) = (flows.first(), self.trace.flows.first_mut()) {
            let (sender, stats) = (&flow.sender, &flow.sender.stats);
            let in_flight = sender.in_flight().saturating_sub(emitted as u32);
            column.internals.push(ModelSample::of(&sender.cc, in_flight.into(), stats.undos as f64, stats.rto as f64));
        }
    }

    /// Returns the series, with each flow's states.
    pub fn finish(mut self, flows: &[Flow]) -> Trace {
        for (column, flow) in self.trace.flows.iter_mut().zip(flows) {
            column.states.clone_from(&flow.stats.states);
        }
        self.trace
    }
}
