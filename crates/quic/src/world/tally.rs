//! What a run counts, its applications, and the result they make.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Span, Time};
use bbrlab_sim::link::{Link, LinkStats};
use bbrlab_sim::metrics::QueueDelay;
use bbrlab_sim::path::OneWay;
use bbrlab_sim::record::Output;
use bbrlab_sim::record::packets::Packets;
use bbrlab_sim::record::summary::{FlowCounts, LinkCounts, NS_TO_MS, summarise};
use bbrlab_sim::record::trace::{FlowTrace, LinkTrace, Trace};
use bbrlab_sim::setup::Setup;
use bbrlab_sim::tcp::App;

use super::sender::{Count, Sender, Shared};
use super::store::{Datagram, Queued};

/// The counts of a run.
#[derive(Debug)]
pub struct Tally {
    pub flows: Vec<Flow>,
    pub queue_delay: QueueDelay,
    pub is_measuring: bool,
    mark: (LinkStats, u64),
    trace: Trace,
    pub next_sample: Time,
    sample: Option<Span>,
}

/// One flow's.
#[derive(Debug, Default)]
pub struct Flow {
    pub sender: Shared,
    /// From the end of its handshake on.
    app: Option<App>,
    /// Bytes that the stack has taken from the application.
    written: u64,
    pub counts: Counts,
    mark: (Counts, Count),
    bins: Vec<u64>,
    finished: Option<Time>,
    exchanges: Vec<Span>,
    request_sent: Time,
    /// Propagation of its ACKs, and so of a request.
    pub ack_delay: Span,
}

/// What the path and the receiver saw of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub received: u64,
    pub received_wire: u64,
    pub arrivals: u64,
    pub drops: u64,
    /// Of its data, lost wherever that was.
    pub gone: u64,
}

impl Tally {
    pub fn new(setup: &Setup) -> Self {
        let flow = |_| {
            let flow = Flow::default();
            flow.sender.lock().samples = setup.sample.map(|_| Vec::new());
            flow
        };
        Self {
            flows: setup.flows.iter().map(flow).collect(),
            queue_delay: QueueDelay::default(),
            is_measuring: false,
            mark: Default::default(),
            trace: Trace {
                t_ns: Vec::new(),
                flows: vec![FlowTrace::default(); setup.flows.len()],
                links: vec![LinkTrace::default(); setup.links.len()],
            },
            next_sample: if setup.sample.is_some() { Time::ZERO } else { Time::NEVER },
            sample: setup.sample,
        }
    }

    /// The warm-up is over.
    pub fn begin(&mut self, now: Time, link: &Link<Queued>) {
        self.is_measuring = true;
        self.queue_delay.begin(now);
        self.mark = (*link.stats(), link.capacity_bytes_until(now));
        for flow in &mut self.flows {
            let mut sender = flow.sender.lock();
            sender.is_measuring = true;
            flow.mark = (flow.counts, sender.count);
        }
    }

    /// Takes one sample of everything.
    pub fn take_sample(&mut self, now: Time, links: &[Link<Queued>]) {
        self.trace.t_ns.push(now.as_nanos());
        for (column, flow) in self.trace.flows.iter_mut().zip(&self.flows) {
            let sender = flow.sender.lock();
            let packets = |bytes: u64| (bytes.div_ceil(u64::from(sender.now.mss.max(1)))).min(u32::MAX.into()) as u32;
            column.cwnd.push((sender.now.cwnd / u64::from(sender.now.mss.max(1))).min(u32::MAX.into()) as u32);
            column.inflight.push(packets(sender.now.in_flight));
            column.pacing_bps.push(sender.now.pacing_bps);
            column.bw_bps.push(sender.now.bw_bps);
            column.rtt_us.push(sender.last_rtt_us);
            column.min_rtt_us.push(sender.min_rtt().map_or(0, |rtt| rtt.as_micros() as u32));
            column.sent_bytes.push(sender.count.bytes);
            column.acked_bytes.push(sender.count.acked_bytes);
            column.received_bytes.push(flow.counts.received);
            column.lost.push(sender.count.lost);
            column.retransmitted.push(sender.count.lost);
        }
        for (column, link) in self.trace.links.iter_mut().zip(links) {
            let stats = link.stats();
            column.queue_packets.push(link.queue_packets());
            column.queue_bytes.push(link.queue_bytes());
            column.rate_bps.push(link.rate().as_bits_per_sec());
            column.arrivals.push(stats.arrivals);
            column.drops.push(stats.drops + stats.policed);
            column.marks.push(stats.marks);
            column.departed_bytes.push(stats.departed_bytes);
        }
        self.next_sample = self.sample.map_or(Time::NEVER, |step| now + step);
    }

    /// The run's figures and series, in the world `on`.
    pub fn finish(mut self, setup: &Setup, on: &str, end: Time, way: &OneWay<Datagram>) -> Output {
        let link = way.bottleneck();
        let (stats, (before, capacity)) = (link.stats(), &self.mark);
        let counts = LinkCounts {
            arrivals: stats.arrivals - before.arrivals,
            drops: stats.drops + stats.policed - before.drops - before.policed,
            marks: stats.marks - before.marks,
            departed_bytes: stats.departed_bytes - before.departed_bytes,
            capacity_bytes: (link.capacity_bytes_until(end) - capacity) as f64,
            packets: stats.departed_packets,
            queue_ms: self.queue_delay.distribution(end, NS_TO_MS),
        };
        let senders: Vec<Sender> = self.flows.iter().map(|flow| std::mem::take(&mut *flow.sender.lock())).collect();
        let flows: Vec<FlowCounts<'_>> =
            self.flows.iter().zip(&senders).map(|(flow, sender)| flow.figures(sender)).collect();
        let result = summarise(setup, on, end, &flows, &counts);
        for (column, sender) in self.trace.flows.iter_mut().zip(senders) {
            column.states = sender.states;
            column.rtt_samples = sender.samples.unwrap_or_default();
        }
        Output { result, trace: self.trace, packets: Packets::default() }
    }
}

impl Flow {
    /// Its connection stands: the application begins to write.
    pub fn begin(&mut self, now: Time, setup: &bbrlab_sim::setup::FlowSetup) {
        self.request_sent = setup.start;
        self.app = Some(App::new(setup.traffic.clone(), now, setup.stop));
    }

    /// Bytes that the application has written and the stack has not taken.
    pub fn to_write(&self) -> u64 {
        self.app.as_ref().map_or(0, |app| app.written.saturating_sub(self.written))
    }

    /// The stack has taken so many of them.
    pub const fn on_written(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// All that it will ever write has been taken.
    pub fn is_written(&self) -> bool {
        self.app.as_ref().is_some_and(|app| app.total().is_some_and(|total| self.written >= total))
    }

    /// When its application acts next.
    pub fn next_app(&self) -> Time {
        self.app.as_ref().map_or(Time::NEVER, |app| app.next)
    }

    /// Its application's moment has come.
    pub fn on_app(&mut self, now: Time) {
        if let Some(app) = self.app.as_mut().filter(|app| app.next <= now) {
            app.on_time(now, self.written);
        }
    }

    /// The application at the other end has read. True: it has asked for more.
    pub fn on_read(&mut self, now: Time, bytes: u64) -> bool {
        self.counts.received += bytes;
        let second = (now.as_nanos() / NANOS_PER_SEC) as usize;
        if second >= self.bins.len() {
            self.bins.resize(second + 1, 0);
        }
        self.bins[second] += bytes;
        let Some(app) = self.app.as_mut().filter(|_| self.finished.is_none()) else { return false };
        if let Some(total) = app.total() {
            if self.counts.received >= total {
                self.finished = Some(now);
            }
            return false;
        }
        let Some(exchange) = app.exchange().filter(|exchange| self.counts.received >= exchange.end) else {
            return false;
        };
        self.exchanges.push(now.since(self.request_sent));
        match exchange.pause {
            Some(pause) => {
                self.request_sent = now + pause;
                app.request_at(now + pause + self.ack_delay);
            }
            None => self.finished = Some(now),
        }
        true
    }

    fn figures<'a>(&'a self, sender: &'a Sender) -> FlowCounts<'a> {
        let (counts, (before, sent_before)) = (&self.counts, &self.mark);
        let lost = sender.count.lost - sent_before.lost;
        FlowCounts {
            received_bytes: counts.received - before.received,
            received_wire_bytes: counts.received_wire - before.received_wire,
            segments: sender.count.packets - sent_before.packets,
            retransmits: lost,
            duplicates: lost.saturating_sub(counts.gone - before.gone),
            rto: sender.count.persistent - sent_before.persistent,
            bottleneck: Some((counts.arrivals - before.arrivals, counts.drops - before.drops)),
            rtt: &sender.rtt,
            jitter: sender.jitter,
            jitter_rfc3550: sender.jitter_rfc3550,
            bins: &self.bins,
            states: &sender.states,
            finished: self.finished,
            exchanges: &self.exchanges,
            bw: sender.bw(),
            min_rtt: sender.min_rtt(),
        }
    }
}
