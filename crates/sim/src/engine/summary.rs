//! Conversion of the simulator's counters for the summary that all backends share.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::Simulation;
use crate::record::Output;
use crate::record::packets::Packets;
use crate::record::summary::{FlowCounts, LinkCounts, NS_TO_MS, summarise};

impl Simulation<'_> {
    pub(super) fn finish(mut self) -> Output {
        self.path.forward.settle(self.now);
        let flows: Vec<FlowCounts<'_>> = self.flows.iter().map(super::Flow::counts).collect();
        let mut result = summarise(self.setup, "sim", self.now, &flows, &self.link_counts());
        result.events = self.events;
        let mut trace = self.recorder.finish(&self.flows);
        if let Some(mut prober) = self.prober.take() {
            let loads = self.flows.iter().map(|flow| &flow.stats.rtt.samples);
            result.probe = Some(Box::new(prober.result(self.setup, self.now, loads)));
            trace.probe = prober.take_samples();
        }
        let packets = self.capture.map_or_else(Packets::default, |capture| capture.finish());
        Output { result, trace, packets }
    }

    fn link_counts(&self) -> LinkCounts {
        let link = self.path.forward.bottleneck();
        let (stats, before) = (link.stats(), &self.mark.stats);
        LinkCounts {
            arrivals: stats.arrivals - before.arrivals,
            drops: stats.drops + stats.policed - before.drops - before.policed,
            marks: stats.marks - before.marks,
            departed_bytes: stats.departed_bytes - before.departed_bytes,
            capacity_bytes: (link.capacity_bytes_until(self.now) - self.mark.capacity) as f64,
            packets: stats.departed_packets,
            queue_ms: self.queue_delay.distribution(self.now, NS_TO_MS),
        }
    }
}
