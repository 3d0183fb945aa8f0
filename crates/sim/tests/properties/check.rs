//! Invariants of every run, checked by an observer.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rate, Span, Time};
use bbrlab_sim::engine::observe::{FlowEnd, Observer, Sent};
use bbrlab_sim::link::{LinkConfig, LinkStats, Service};
use bbrlab_sim::record::Output;
use bbrlab_sim::record::result::RunResult;
use bbrlab_sim::setup::{ChangeKind, Setup, Traffic};

/// Maximum number of events per segment: each link, both delay lines, ACK and timers, and their share of the control.
const EVENTS_PER_SEGMENT: u64 = 40;
/// Segments sent before pacing begins (Linux).
const UNPACED: u64 = 10;

/// One flow under observation.
#[derive(Clone, Debug, Default)]
struct Watch {
    /// Earliest departure of the next paced burst.
    allowed: Time,
    by_timer: u64,
    segments: u64,
    last: Time,
    end: FlowEnd,
}

/// Checks the invariants of a run.
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

    /// Checks that inflight stays within the window, except for one probe, which leaves even if the window has shrunk.
    fn check_window(&mut self, sent: &Sent) {
        let by_timer = sent.by_timer > self.flows[sent.flow].by_timer;
        let is_probe = by_timer && sent.segments == 1;
        self.claim(is_probe || sent.in_flight <= sent.cwnd, || {
            format!("{} in flight with a window of {}: {sent:?}", sent.in_flight, sent.cwnd)
        });
    }

    /// Checks pacing with a token bucket. Each burst delays the next by its own time; up to half of it may be credited for lateness.
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
            return; // probes and timeouts do not wait for the pacer
        }
        self.claim(!early, || {
            format!("{} ns before the pacer allows it: {sent:?}", allowed.since(sent.now).as_nanos())
        });
        // A burst after idle was sized before the algorithm was informed of the restart, as in Linux.
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
        // The timer of `fq` covers a burst that waits there.
        self.claim(end.held.is_none_or(|departure| end.sender_next <= departure + Span::micros(10)), || {
            format!("flow {index} holds a burst until {:?}: {end:?}", end.sender_next)
        });
        // A timer covers every segment sent and not acknowledged.
        self.claim(end.packets_out == 0 || end.sender_next != Time::NEVER, || {
            format!("flow {index} hangs with {} packets out: {end:?}", end.packets_out)
        });
    }

    /// Checks that no flow with data to send is silent forever.
    fn check_progress(&mut self, index: usize, end: &FlowEnd) {
        let idle = end.packets_out == 0 && end.sender_next == Time::NEVER && !end.on_the_way;
        let unsent = end.written_bytes > end.acked_bytes;
        let sent_all = end.receiver_next == Time::NEVER && end.established;
        self.claim(!(idle && unsent && sent_all), || format!("flow {index} starves: {end:?}"));
    }

    /// Returns the verdict on the whole run.
    pub fn finish(mut self, output: &Output) -> Result<(), String> {
        let segments: u64 = self.flows.iter().map(|watch| watch.segments).sum();
        let ticks: u64 = self.setup.flows.iter().map(|flow| self.ticks(&flow.traffic)).sum();
        let probes = self.setup.probe.map_or(0, |interval| self.setup.duration.as_nanos() / interval.as_nanos());
        let links = self.setup.links.len() as u64 + 1 + u64::from(self.setup.up.is_some());
        let budget =
            (segments + probes + self.departed + 50) * (EVENTS_PER_SEGMENT + links) + ticks + self.grants() + 1_000;
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
        self.check_groups(r);
        let steps = output.trace.t_ns.windows(2).all(|pair| pair[0] < pair[1]);
        self.claim(steps, || "the series' time does not rise".into());
        self.fault.map_or(Ok(()), Err)
    }

    /// Checks that groups' figures are bytes over the run's interval. No link may deliver more than its capacity in it.
    fn check_groups(&mut self, result: &RunResult) {
        let [from_s, to_s] = result.interval_s;
        let span_s = to_s - from_s;
        self.claim((0.0..=self.setup.duration.as_nanos() as f64 / 1e9).contains(&span_s), || {
            format!("interval {from_s}..{to_s} s")
        });
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
        let bytes_of = |cc: Option<&str>| -> f64 {
            let own = result.flows.iter().filter(|flow| cc.is_none_or(|cc| flow.cc == cc));
            own.map(|flow| flow.bytes as f64).sum()
        };
        let all = bytes_of(None);
        for group in &result.groups {
            let bytes = bytes_of(Some(&group.cc));
            let holds =
                if span_s > 0.0 { close(group.goodput_bps * span_s, 8.0 * bytes) } else { group.goodput_bps == 0.0 };
            let is_share = all == 0.0 || close(group.share * all, bytes);
            self.claim(holds && is_share, || format!("{bytes} of {all} bytes in {span_s} s are {group:?}"));
        }
        for link in 0..=self.setup.links.len() {
            let ends_here = |(index, _): &(usize, _)| {
                let flow = &self.setup.flows[*index];
                let past = if flow.is_upload { self.setup.links.len() + 1 } else { flow.links.1 };
                past == link + 1
            };
            let own = result.flows.iter().enumerate().filter(ends_here);
            let (bytes, mss) = own
                .fold((0, 0), |(bytes, mss), (index, flow)| (bytes + flow.bytes, mss.max(self.setup.flows[index].mss)));
            let Some(config) = self.setup.links.iter().chain(self.setup.up.as_deref()).nth(link) else { continue };
            // Any part of the packet being sent at the start of the interval, and of the last one, may count.
            let max = self.capacity_bytes(link, config, from_s, to_s) + 2.0 * f64::from(mss + 100);
            self.claim(bytes as f64 <= max, || {
                format!("link {link} can carry {max} bytes in {from_s}..{to_s} s; {bytes} arrived: {:?}", result.groups)
            });
        }
    }

    /// Bytes that a link can carry so that they arrive in the interval. Packets that left it before, by up to the longest delay, count too.
    fn capacity_bytes(&self, index: usize, link: &LinkConfig, from_s: f64, to_s: f64) -> f64 {
        let setup = self.setup;
        let changed = setup.schedule.iter().filter_map(|change| match change.what {
            ChangeKind::Rtt(rtt) => Some(rtt),
            _ => None,
        });
        let rtts = setup.flows.iter().filter_map(|flow| flow.rtt).chain(changed).chain([setup.path.rtt]);
        let access = setup.flows.iter().filter_map(|flow| flow.access.as_ref().map(|access| access.rtt)).max();
        let delay = rtts.max().unwrap_or_default() + setup.path.jitter + access.unwrap_or_default();
        let at = |s: f64| (s * 1e9) as u64;
        let first = setup.flows.iter().map(|flow| flow.start.as_nanos()).min().unwrap_or(0);
        let (from, to) = (first.max(at(from_s).saturating_sub(delay.as_nanos())), at(to_s) + 1);
        let span_s = to.saturating_sub(from) as f64 / 1e9;
        let carried = match &link.service {
            Service::Rate(rate) => {
                let mut bits = 0.0;
                let (mut since, mut rate) = (from, *rate);
                for change in setup.schedule.iter().filter(|change| change.link == index) {
                    let ChangeKind::Rate(next) = change.what else { continue };
                    let until = change.at.as_nanos().clamp(since, to);
                    bits += rate.as_bits_per_sec() as f64 * (until - since) as f64 / 1e9;
                    (since, rate) = (until, next);
                }
                (bits + rate.as_bits_per_sec() as f64 * to.saturating_sub(since) as f64 / 1e9) / 8.0
            }
            Service::Trace(trace) => {
                (1500 * (trace.count_until(Time::nanos(to)) - trace.count_until(Time::nanos(from)))) as f64
            }
            Service::Demand(demand) => demand.max.as_bits_per_sec() as f64 * span_s / 8.0,
        };
        // A policer precedes the queue: all packets that have passed it since the first start may leave now.
        let policed = link.policer.map_or(f64::INFINITY, |policer| {
            policer.rate.as_bytes_per_sec() as f64 * to.saturating_sub(first) as f64 / 1e9 + policer.burst as f64
        });
        carried.min(policed)
    }

    fn ticks(&self, traffic: &Traffic) -> u64 {
        let per = |span: Span| 4 * self.setup.duration.as_nanos() / span.as_nanos().max(1);
        match traffic {
            Traffic::Rate { tick, .. } => per(*tick),
            Traffic::OnOff { on, off } => 2 * per(*on + *off),
            Traffic::Call(call) => per(call.interval),
            _ => 0,
        }
    }

    /// Reviews of demand links, which take place even if nothing is sent.
    fn grants(&self) -> u64 {
        let reviews = |link: &LinkConfig| match link.service {
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
        // `fq` releases a burst later than it was checked, so window and rate may have changed.
        if !self.setup.flows[sent.flow].is_paced_by_fq() {
            self.check_window(sent);
            if let Some(rate) = sent.pacing {
                self.check_pacing(sent, rate);
            }
        }
        let watch = &mut self.flows[sent.flow];
        watch.last = sent.now;
        watch.by_timer = sent.by_timer;
        watch.segments += u64::from(sent.segments);
    }

    fn link_end(&mut self, index: usize, stats: &LinkStats, queued: u32) {
        self.departed += stats.departed_packets;
        let gone = stats.departed_packets + stats.drops + stats.policed + stats.filtered + u64::from(queued);
        self.claim(stats.arrivals == gone, || format!("link {index}: {stats:?} with {queued} queued"));
        self.claim(stats.lost <= stats.departed_packets, || format!("link {index} lost what never left: {stats:?}"));
    }

    fn flow_end(&mut self, index: usize, end: &FlowEnd) {
        self.flows[index].end = *end;
    }
}
