//! Hands what the simulator counted to the summary that all worlds share.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::World;
use super::flow::Flow;
use crate::record::Output;
use crate::record::packets::Packets;
use crate::record::summary::{FlowCounts, LinkCounts, NS_TO_MS, summarise};

impl World<'_> {
    pub(super) fn finish(self) -> Output {
        let flows: Vec<FlowCounts<'_>> = self.flows.iter().map(flow_counts).collect();
        let mut result = summarise(self.setup, "sim", self.now, &flows, &self.link_counts());
        result.events = self.events;
        let trace = self.recorder.finish(&self.flows);
        let packets = self.capture.map_or_else(Packets::default, |capture| capture.finish());
        Output { result, trace, packets }
    }

    fn link_counts(&self) -> LinkCounts {
        let link = self.path.there.bottleneck();
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

fn flow_counts(flow: &Flow) -> FlowCounts<'_> {
    let stats = &flow.stats;
    let (mark, sender) = (&stats.mark, &flow.sender.stats);
    let snapshot = flow.sender.cc.snapshot();
    let (arrivals, drops) = stats.bottleneck;
    FlowCounts {
        received_bytes: flow.receiver.bytes - mark.bytes,
        received_wire_bytes: flow.receiver.wire_bytes - mark.wire_bytes,
        segments: sender.segments - mark.sender.segments,
        retransmits: sender.retransmits - mark.sender.retransmits,
        duplicates: flow.receiver.duplicates - mark.duplicates,
        rto: sender.rto - mark.sender.rto,
        bottleneck: Some((arrivals - mark.bottleneck.0, drops - mark.bottleneck.1)),
        rtt: &stats.rtt,
        jitter: stats.jitter,
        jitter_rfc3550: stats.jitter_rfc3550,
        bins: &stats.bins,
        states: &stats.states,
        finished: stats.finished,
        exchanges: &stats.exchanges,
        bw: snapshot.bw,
        min_rtt: snapshot.min_rtt,
    }
}
