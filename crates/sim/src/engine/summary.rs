//! Conversion of the simulator's counters for the summary that all backends share.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::Simulation;
use crate::record::Output;
use crate::record::packets::Packets;
use crate::record::summary::{FlowCounts, summarise};

impl Simulation<'_> {
    pub(super) fn finish(mut self) -> Output {
        self.path.forward.settle(self.now);
        let flows: Vec<FlowCounts<'_>> = self.flows.iter().map(super::Flow::counts).collect();
        let counts = self.mark.counts(self.path.forward.bottleneck(), &self.queue_delay, self.now);
        let mut result = summarise(self.setup, "sim", self.now, &flows, &counts);
        result.events = self.events;
        if let (Some(up), [link]) = (&self.up, self.path.reverse.links()) {
            result.up = Some(Box::new(up.figures(link, self.now)));
        }
        let mut trace = self.recorder.finish(&self.flows);
        if let Some(log) = self.prober.as_ref().map(|prober| prober.log()) {
            let loads = self.flows.iter().map(|flow| &flow.stats.rtt.samples);
            result.probe = Some(Box::new(log.result(self.setup, self.now, loads)));
            trace.probe = log.samples();
        }
        let packets = self.capture.map_or_else(Packets::default, |capture| capture.finish());
        Output { result, trace, packets }
    }
}
