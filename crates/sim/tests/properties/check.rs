//! What must hold in every run, seen from inside it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rate, Span, Time};
use bbrlab_sim::engine::observe::{FlowEnd, Observer, Sent};
use bbrlab_sim::link::LinkStats;
use bbrlab_sim::record::Output;
use bbrlab_sim::setup::{Setup, Traffic};

/// Events that a segment may cost at most: each link, both delay lines, ACK and timers, and their share of the control.
const EVENTS_PER_SEGMENT: u64 = 40;
/// Segments that leave before pacing begins (Linux).
const UNPACED: u64 = 10;

/// One flow under watch.
#[derive(Clone, Debug, Default)]
struct Watch {
    /// When the next paced burst may leave.
    allowed: Time,
    by_timer: u64,
    segments: u64,
    last: Time,
    end: FlowEnd,
}

/// Watches a run.
pub struct Checker<'a> {
    setup: &'a Setup,
    flows: Vec<Watch>,
    fault: Option<String>,
    departed: u64,
}

impl<'a> Checker<'a> {
    pub fn new(setup: &'a Setup) -> Self {
        Self { setup, flows: vec![Watch::default(); setup.flows.len()], fault: None, departed: 0 }
    }

    fn claim(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds && self.fault.is_none() {
            self.fault = Some(fault());
        }
    }

    /// Inflight stays within the window, but for one probe, which leaves even where the window has shrunk.
    fn check_window(&mut self, sent: &Sent) {
        let by_timer = sent.by_timer > self.flows[sent.flow].by_timer;
        let is_probe = by_timer && sent.segments == 1;
        self.claim(is_probe || sent.in_flight <= sent.cwnd, || {
            format!("{} in flight with a window of {}: {sent:?}", sent.in_flight, sent.cwnd)
        });
    }

    /// A token bucket: each burst moves the next one on by its own time, of which half may be credited for lateness.
    fn check_pacing(&mut self, sent: &Sent, rate: Rate) {
        let watch = &mut self.flows[sent.flow];
        let by_timer = sent.by_timer > watch.by_timer;
        let allowed = watch.allowed;
        let span = rate.time_for(sent.bytes);
        if sent.segments_before < UNPACED {
            watch.allowed = sent.now;
            return;
        }
        let early = sent.now < allowed;
        watch.allowed = (allowed + span).max(sent.now + Span::nanos(span.as_nanos() - span.as_nanos() / 2));
        if by_timer {
            return; // probes and time-outs do not wait for the pacer
        }
        self.claim(!early, || {
            format!("{} ns before the pacer allows it: {sent:?}", allowed.since(sent.now).as_nanos())
        });
        // A burst out of idleness was sized before the algorithm heard of the restart, as in Linux.
        let out_of_idleness = sent.in_flight <= sent.segments;
        self.claim(out_of_idleness || sent.bytes <= sent.burst_bytes, || {
            format!("a paced burst of {} bytes, {} allowed: {sent:?}", sent.bytes, sent.burst_bytes)
        });
    }

    fn check_flow(&mut self, index: usize, end: &FlowEnd) {
        let sized = match self.setup.flows[index].traffic {
            Traffic::Size(size) => Some(size),
            _ => None,
        };
        let unique = end.received_bytes;
        self.claim(unique <= end.sent_bytes, || format!("flow {index} received more than was sent: {end:?}"));
        self.claim(end.acked_bytes <= unique, || format!("flow {index}: more is acknowledged than arrived: {end:?}"));
        self.claim(end.in_order_bytes <= unique, || format!("flow {index}: more in order than arrived: {end:?}"));
        if let Some(size) = sized {
            self.claim(unique <= size, || format!("flow {index} received more than its {size} bytes: {end:?}"));
            let done = end.finished.is_some();
            self.claim(done == (end.in_order_bytes == size), || {
                format!("flow {index}: finished is {done} at {} of {size} bytes", end.in_order_bytes)
            });
        }
        // What was sent and not acknowledged is watched by a timer, whatever became of it.
        self.claim(end.packets_out == 0 || end.sender_next != Time::NEVER, || {
            format!("flow {index} hangs with {} packets out: {end:?}", end.packets_out)
        });
    }

    /// No flow with something to send is silent forever.
    fn check_progress(&mut self, index: usize, end: &FlowEnd) {
        let idle = end.packets_out == 0 && end.sender_next == Time::NEVER && !end.on_the_way;
        let unsent = end.written_bytes > end.acked_bytes;
        let sent_all = end.receiver_next == Time::NEVER && end.established;
        self.claim(!(idle && unsent && sent_all), || format!("flow {index} starves: {end:?}"));
    }

    /// The verdict on the whole run.
    pub fn finish(mut self, output: &Output) -> Result<(), String> {
        let segments: u64 = self.flows.iter().map(|watch| watch.segments).sum();
        let ticks: u64 = self.setup.flows.iter().map(|flow| self.ticks(&flow.traffic)).sum();
        let links = self.setup.links.len() as u64 + 1;
        let budget = (segments + self.departed + 50) * (EVENTS_PER_SEGMENT + links) + ticks + self.grants() + 1_000;
        let events = output.result.events;
        self.claim(events <= budget, || format!("{events} events for {segments} segments; {budget} would do"));
        for (index, watch) in self.flows.clone().iter().enumerate() {
            self.check_flow(index, &watch.end);
            self.check_progress(index, &watch.end);
        }
        let r = &output.result;
        let u = r.bottleneck.utilisation;
        self.claim((0.0..=1.0).contains(&u), || format!("utilisation {u}"));
        self.claim(r.flows.iter().all(|flow| flow.goodput_bps.is_finite() && flow.goodput_bps >= 0.0), || {
            format!("goodput {:?}", r.flows)
        });
        let steps = output.trace.t_ns.windows(2).all(|pair| pair[0] < pair[1]);
        self.claim(steps, || "the series' time does not rise".into());
        self.fault.map_or(Ok(()), Err)
    }

    fn ticks(&self, traffic: &Traffic) -> u64 {
        let per = |span: Span| 4 * self.setup.duration.as_nanos() / span.as_nanos().max(1);
        match traffic {
            Traffic::Rate { tick, .. } => per(*tick),
            Traffic::OnOff { on, off } => 2 * per(*on + *off),
            _ => 0,
        }
    }

    /// Reviews of demand links, which come also when nothing is sent.
    fn grants(&self) -> u64 {
        let reviews = |link: &bbrlab_sim::link::LinkConfig| match link.service {
            bbrlab_sim::link::Service::Demand(demand) => self.setup.duration.as_nanos() / demand.period.as_nanos(),
            _ => 0,
        };
        self.setup.links.iter().map(reviews).sum()
    }
}

impl Observer for Checker<'_> {
    fn sent(&mut self, sent: &Sent) {
        let last = self.flows[sent.flow].last;
        self.claim(sent.now >= last, || format!("time ran backwards from {last:?}: {sent:?}"));
        self.check_window(sent);
        if let Some(rate) = sent.pacing {
            self.check_pacing(sent, rate);
        }
        let watch = &mut self.flows[sent.flow];
        watch.last = sent.now;
        watch.by_timer = sent.by_timer;
        watch.segments += u64::from(sent.segments);
    }

    fn link_end(&mut self, index: usize, stats: &LinkStats, queued: u32) {
        self.departed += stats.departed_packets;
        let gone = stats.departed_packets + stats.drops + stats.policed + u64::from(queued);
        self.claim(stats.arrivals == gone, || format!("link {index}: {stats:?} with {queued} queued"));
        self.claim(stats.lost <= stats.departed_packets, || format!("link {index} lost what never left: {stats:?}"));
    }

    fn flow_end(&mut self, index: usize, end: &FlowEnd) {
        self.flows[index].end = *end;
    }
}
