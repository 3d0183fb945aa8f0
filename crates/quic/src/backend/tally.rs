//! Counters of a run, its applications, and the result computed from them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Rate, Span, Time};
use bbrlab_sim::apps::probe::ProbeLog;
use bbrlab_sim::engine;
use bbrlab_sim::metrics::QueueDelay;
use bbrlab_sim::path::{Direction, Path};
use bbrlab_sim::record::Output;
use bbrlab_sim::record::packets::Packets;
use bbrlab_sim::record::summary::{FlowCounts, LinkBaseline, summarise, up_link};
use bbrlab_sim::record::trace::{FlowTrace, LinkTrace, Trace};
use bbrlab_sim::setup::{FlowSetup, Setup, Traffic};
use bbrlab_sim::tcp::App;

use super::datagram;
use super::sender::{Count, Row, Sender, SenderSample, Shared};
use super::store::{Datagram, End};

/// Smallest overhead of a packet around application data: header, tag, and a stream frame's own. Source: RFC 9000, with a
/// connection ID of eight bytes.
const HEADERS: u64 = 24;
/// Packets that a stack sends before it requests more data. Ours: s2n-quic sends up to 1 ms early.
const BURST_PACKETS: u64 = 3;
const BURST_TIME: Span = Span::millis(2);

/// Counters of a run.
#[derive(Debug)]
pub struct Tally {
    pub flows: Vec<Flow>,
    queue_delay: QueueDelay,
    /// The same of the reverse direction's link.
    queue_delay_up: QueueDelay,
    pub is_measuring: bool,
    mark: LinkBaseline,
    mark_up: LinkBaseline,
    trace: Trace,
    pub next_sample: Time,
    sample: Option<Span>,
}

/// Counters of one flow.
#[derive(Debug, Default)]
pub struct Flow {
    /// Both ends of a flow of the TCP model. All other fields except the path's counts are then unused.
    pub tcp: Option<Box<engine::Flow>>,
    /// True if its data crosses the reverse direction's link.
    pub is_upload: bool,
    pub sender: Shared,
    /// Application, from the end of the handshake on.
    app: Option<App>,
    /// Bytes that the stack has accepted from the application.
    written: u64,
    pub counts: Counts,
    mark: (Counts, Count),
    bins: Vec<u64>,
    finished: Option<Time>,
    exchanges: Vec<Span>,
    request_sent: Time,
    /// Propagation delay of its ACKs, and so of a request.
    ack_delay: Span,
    /// Payload of a TCP segment relative to that of a QUIC packet of the same length.
    payload_share: f64,
}

/// Counts of a flow at the path and at the receiver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub received: u64,
    pub received_wire: u64,
    pub arrivals: u64,
    pub drops: u64,
    /// Data packets lost anywhere.
    pub gone: u64,
}

impl Tally {
    /// Creates the counters. With `records`, the rows of the first flow's controller are kept.
    pub fn new(setup: &Setup, records: bool) -> Self {
        let flow = |(index, flow): (usize, &FlowSetup)| {
            let payload_share = f64::from(flow.mss) / f64::from(datagram(flow));
            let flow = Flow { payload_share, is_upload: flow.is_upload, ..Flow::default() };
            let mut sender = flow.sender.lock();
            sender.samples = setup.sample.map(|_| Vec::new());
            sender.heard = (records && index == 0).then(Vec::new);
            drop(sender);
            flow
        };
        Self {
            flows: setup.flows.iter().enumerate().map(flow).collect(),
            queue_delay: QueueDelay::default(),
            queue_delay_up: QueueDelay::default(),
            is_measuring: false,
            mark: LinkBaseline::default(),
            mark_up: LinkBaseline::default(),
            trace: Trace {
                t_ns: Vec::new(),
                flows: vec![FlowTrace::default(); setup.flows.len()],
                links: vec![LinkTrace::default(); setup.links.len()],
                up: setup.up.as_ref().map(|_| Box::default()),
                probe: Vec::new(),
            },
            next_sample: if setup.sample.is_some() { Time::ZERO } else { Time::NEVER },
            sample: setup.sample,
        }
    }

    /// Starts the measurement at the end of the warm-up.
    pub fn begin(&mut self, now: Time, path: &Path<Datagram, Datagram>) {
        self.is_measuring = true;
        self.queue_delay = QueueDelay::starting_at(now);
        self.mark = LinkBaseline::of(path.forward.bottleneck(), now);
        if let [up] = path.reverse.links() {
            self.queue_delay_up = QueueDelay::starting_at(now);
            self.mark_up = LinkBaseline::of(up, now);
        }
        for flow in &mut self.flows {
            let mut sender = flow.sender.lock();
            sender.is_measuring = true;
            flow.mark = (flow.counts, sender.count);
            drop(sender);
            if let Some(tcp) = &mut flow.tcp {
                tcp.set_mark();
            }
        }
    }

    /// Queueing delays at the link of this direction whose figures are the result's.
    pub const fn queue_delay(&mut self, direction: Direction) -> &mut QueueDelay {
        match direction {
            Direction::Forward => &mut self.queue_delay,
            Direction::Reverse => &mut self.queue_delay_up,
        }
    }

    /// Counts of the flow whose data a packet carries; `None` for ACKs and probes.
    pub fn counts_of(&mut self, datagram: &Datagram) -> Option<&mut Counts> {
        let flow = self.flows.get_mut(datagram.flow as usize);
        flow.filter(|_| datagram.from == End::Sender).map(|flow| &mut flow.counts)
    }

    /// Takes one sample of all series.
    pub fn take_sample(&mut self, now: Time, path: &Path<Datagram, Datagram>) {
        self.take_row(now, None, path);
        self.next_sample = self.sample.map_or(Time::NEVER, |step| now + step);
    }

    /// Records the first flow's new rows, if a script requires them. Returns false if there were none.
    pub fn take_heard(&mut self, path: &Path<Datagram, Datagram>) -> bool {
        let Some(first) = self.flows.first() else { return false };
        let heard = first.sender.lock().heard.as_mut().map_or_else(Vec::new, std::mem::take);
        for one in &heard {
            self.take_row(one.at, Some(*one), path);
        }
        !heard.is_empty()
    }

    /// Adds one row to all series, with the first flow's values from `reported` if given.
    fn take_row(&mut self, at: Time, reported: Option<SenderSample>, path: &Path<Datagram, Datagram>) {
        self.trace.t_ns.push(at.as_nanos());
        for (index, (column, flow)) in self.trace.flows.iter_mut().zip(&mut self.flows).enumerate() {
            let received = flow.counts.received;
            if let Some(tcp) = &mut flow.tcp {
                tcp.sample(at, column);
                continue;
            }
            match reported.filter(|_| index == 0) {
                Some(SenderSample { mut row, mut internals, .. }) => {
                    // Cases expect the payload of packets as long as TCP's.
                    let share = |rate: f64| rate * flow.payload_share;
                    (internals.max_bw, internals.bw_shortterm) =
                        (share(internals.max_bw), share(internals.bw_shortterm));
                    row.now.pacing_bps = share(row.now.pacing_bps as f64) as u64;
                    row.now.bw_bps = share(row.now.bw_bps as f64) as u64;
                    push(column, &row, received);
                    column.internals.push(internals);
                }
                None => push(column, &flow.sender.lock().row(), received),
            }
        }
        for (column, link) in self.trace.links.iter_mut().zip(path.forward.links()) {
            column.sample(link);
        }
        for (column, link) in self.trace.up.iter_mut().zip(path.reverse.links()) {
            column.sample(link);
        }
    }

    /// Records the RTT sample of an ACK in a flow of the TCP model.
    pub fn note_rtt(&mut self, now: Time, index: usize, rtt: Option<Span>) {
        if let Some(rtt) = rtt.filter(|_| self.sample.is_some()) {
            self.trace.flows[index].rtt_samples.push((now, rtt.as_micros() as u32));
        }
    }

    /// Returns the run's figures and series on the backend `on`.
    pub fn finish(
        mut self,
        setup: &Setup,
        on: &str,
        path: &Path<Datagram, Datagram>,
        probes: Option<&ProbeLog>,
    ) -> Output {
        let end = setup.duration;
        let counts = self.mark.counts(path.forward.bottleneck(), &self.queue_delay, end);
        let senders: Vec<Sender> = self.flows.iter().map(|flow| std::mem::take(&mut *flow.sender.lock())).collect();
        let flows: Vec<FlowCounts<'_>> =
            self.flows.iter().zip(&senders).map(|(flow, sender)| flow.figures(sender)).collect();
        let mut result = summarise(setup, on, end, &flows, &counts);
        if let [up] = path.reverse.links() {
            let counts = self.mark_up.counts(up, &self.queue_delay_up, end);
            result.up = Some(Box::new(up_link(&counts, up.stats().filtered - self.mark_up.stats.filtered)));
        }
        if let Some(log) = probes {
            let loads = flows.iter().map(|flow| &flow.rtt.samples);
            result.probe = Some(Box::new(log.result(setup, end, loads)));
            self.trace.probe = log.samples();
        }
        for ((column, flow), sender) in self.trace.flows.iter_mut().zip(self.flows).zip(senders) {
            if let Some(tcp) = flow.tcp {
                column.states = tcp.stats.states;
                continue;
            }
            column.states = sender.states;
            column.rtt_samples = sender.samples.unwrap_or_default();
        }
        Output { result, trace: self.trace, packets: Packets::default() }
    }
}

impl Flow {
    /// Sets the delay of its ACKs, and so of a request.
    pub fn set_ack_delay(&mut self, delay: Span) {
        self.ack_delay = delay;
        if let Some(app) = &mut self.app {
            app.request_delay = Some(delay);
        }
        if let Some(tcp) = &mut self.tcp {
            let crosses_link = tcp.sender.app.request_delay.is_none();
            tcp.sender.app.request_delay = (!crosses_link).then_some(delay);
        }
    }

    /// Starts the application once the connection is established.
    pub fn begin(&mut self, now: Time, setup: &FlowSetup) {
        self.request_sent = setup.start;
        self.sender.lock().begin(now);
        let rtt = now.since(setup.start);
        self.app = Some(App::connected(setup.traffic.clone(), now, setup.stop, Some(self.ack_delay), rtt));
    }

    /// True once the connection is established.
    pub const fn has_begun(&self) -> bool {
        self.app.is_some()
    }

    /// Bytes written by the application but not yet accepted by the stack.
    pub fn to_write(&self) -> u64 {
        self.app.as_ref().map_or(0, |app| app.written.saturating_sub(self.written))
    }

    /// Records that the stack accepted this many of them.
    pub const fn on_written(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// True if the stack has accepted all data that the application will ever write.
    pub fn is_written(&self) -> bool {
        self.app.as_ref().is_some_and(|app| app.total().is_some_and(|total| self.written >= total))
    }

    /// Time of the application's next action.
    pub fn next_app(&self) -> Time {
        self.app.as_ref().map_or(Time::NEVER, |app| app.next)
    }

    /// Performs the application's action if it is due.
    pub fn on_app(&mut self, now: Time) {
        if let Some(app) = self.app.as_mut().filter(|app| app.next <= now) {
            app.on_time(now, self.written);
        }
    }

    /// Switches the application to other traffic.
    pub fn change_traffic(&mut self, now: Time, traffic: Traffic) {
        if let Some(app) = &mut self.app {
            app.change(now, traffic, self.written);
        }
    }

    /// Limit of the stack's buffer for an application that writes only what the controller will soon release. It is the data in
    /// transit without headers, and a burst.
    pub fn shallow(&self) -> u64 {
        let now = self.sender.lock().now;
        let mss = u64::from(now.mss.max(1));
        let under_way = now.in_flight - now.in_flight / mss * HEADERS;
        under_way + BURST_PACKETS * mss + Rate::bits_per_sec(now.pacing_bps).bytes_in(BURST_TIME)
    }

    /// Records a read by the receiving application. Returns true if it sent a new request.
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
                app.ask(now + pause);
            }
            None => self.finished = Some(now),
        }
        true
    }

    fn figures<'a>(&'a self, sender: &'a Sender) -> FlowCounts<'a> {
        let (counts, (before, sent_before)) = (&self.counts, &self.mark);
        let lost = sender.count.lost - sent_before.lost;
        let bottleneck = Some((counts.arrivals - before.arrivals, counts.drops - before.drops));
        if let Some(tcp) = &self.tcp {
            return FlowCounts { bottleneck, ..tcp.counts() };
        }
        FlowCounts {
            received_bytes: counts.received - before.received,
            received_wire_bytes: counts.received_wire - before.received_wire,
            segments: sender.count.packets - sent_before.packets,
            retransmits: lost,
            duplicates: lost.saturating_sub(counts.gone - before.gone),
            rto: sender.count.persistent - sent_before.persistent,
            bottleneck,
            rtt: &sender.rtt,
            bins: &self.bins,
            states: &sender.states,
            finished: self.finished,
            exchanges: &self.exchanges,
            client: None,
            bw: sender.bw(),
            min_rtt: sender.min_rtt(),
        }
    }
}

fn push(column: &mut FlowTrace, row: &Row, received: u64) {
    let (now, count) = (&row.now, &row.count);
    let mss = u64::from(now.mss.max(1));
    let packets = |packets: u64| u32::try_from(packets).unwrap_or(u32::MAX);
    column.cwnd.push(packets(now.cwnd / mss));
    column.inflight.push(packets(now.in_flight.div_ceil(mss)));
    column.pacing_bps.push(now.pacing_bps);
    column.bw_bps.push(now.bw_bps);
    column.rtt_us.push(row.rtt_us);
    column.min_rtt_us.push(row.min_rtt.map_or(0, |rtt| rtt.as_micros() as u32));
    column.sent_bytes.push(count.bytes);
    column.acked_bytes.push(count.acked_bytes);
    column.received_bytes.push(received);
    column.lost.push(count.lost);
    column.retransmitted.push(count.lost);
}
