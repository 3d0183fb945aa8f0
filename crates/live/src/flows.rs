//! Runs the flows of a setup as real TCP connections, on any kernel. One thread opens, feeds, reads and samples them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bbrlab_core::{AlgorithmConfig, Span, State, Time};
use bbrlab_sim::metrics::Histogram;
use bbrlab_sim::record::trace::{FlowTrace, LinkTrace, Trace};
use bbrlab_sim::setup::{Change, FlowSetup, Setup, Traffic};
use bbrlab_sim::tcp::App;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::meter::Count;
use crate::probe::ProbeSender;
use crate::socket::{self, Dial};
use crate::tcp_info::{BbrInfo, TcpInfo};
use crate::{Error, Result, clock, columns, recv_socket, send_socket};

/// Port on which every receiver listens; one that runs DCTCP, on the next.
const PORT: u16 = 5001;
/// Port of the first flow's sender; the others count up from it.
pub const FIRST_PORT: u16 = 10_000;
/// Bytes per write or read: a system call costs more than its copy.
const BLOCK: usize = 1 << 20;
/// Sampling interval for the metrics where the setup requests no series.
const OWN_GRID: Span = Span::millis(10);
/// Bytes of a client's request.
const REQUEST: usize = 1;
/// Epoll entries per flow: its sender and its receiver.
const ENDS: u64 = 2;
/// Epoll token of a listener, and of the timer.
const LISTENER: u64 = 1 << 40;
const TIMER: u64 = 1 << 41;

/// Addresses and namespaces of a flow's two ends, and the kernel's name for its algorithm.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// The congestion control.
    pub cc: String,
    /// The sender's network namespace.
    pub sender: Arc<OwnedFd>,
    pub receiver: Arc<OwnedFd>,
    /// The sender's address.
    pub from: Ipv4Addr,
    /// The receiver's address.
    pub to: Ipv4Addr,
}

/// The path between the two ends, as the flow driver uses it.
pub trait Path {
    /// Starts the run; time zero is `zero_ns` of [`clock::now_ns`].
    fn begin(&mut self, zero_ns: u64);
    /// Applies a change of the schedule now. A path that follows its schedule by itself does nothing.
    fn change(&mut self, change: &Change) -> Result<()>;
    /// Ends the warm-up.
    fn measure_from_here(&mut self) -> Result<()>;
    /// Bytes that a bulk receiver lets accumulate before it wakes; its window is far larger.
    ///
    /// Reading has a side effect: the kernel immediately acknowledges data that a read finds and no ACK has covered
    /// (`tcp_cleanup_rbuf`).
    fn low_water(&self) -> u64;
    /// Fills in the counters up to now.
    fn sample(&mut self, seen: &mut PathCounters) -> Result<()>;
}

/// Path counters since the start of the run.
#[derive(Clone, Debug, Default)]
pub struct PathCounters {
    /// Per flow: its counters, and the newest RTT in µs.
    pub flows: Vec<(Count, u32)>,
    /// Per link; the one of `up` comes last.
    pub links: Vec<LinkCounters>,
}

/// A link's current queue and its counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkCounters {
    /// Packets waiting or being serialised.
    pub queue_packets: u32,
    /// Bytes waiting or being serialised.
    pub queue_bytes: u64,
    /// Current rate, bit/s.
    pub rate_bps: u64,
    pub arrivals: u64,
    /// Packets dropped by the policer or the queue.
    pub drops: u64,
    pub marks: u64,
    /// ACKs that its queue removed because a newer one arrived.
    pub filtered: u64,
    /// Packets that left.
    pub departed_packets: u64,
    /// Bytes that left.
    pub departed_bytes: u64,
}

/// Output of the flow driver.
#[derive(Clone, Debug, Default)]
pub struct DriverOutput {
    /// The series, without RTT samples.
    pub trace: Trace,
    /// Per flow.
    pub flows: Vec<FlowOutput>,
    /// The links at the start of measurement, and at the end; the one of `up` comes last.
    pub links: (Vec<LinkCounters>, Vec<LinkCounters>),
    /// Capacity of each link during measurement, in bits.
    pub capacity_bits: Vec<f64>,
    /// Queueing delay of each link on the sampling grid during measurement, ns: backlog over rate.
    pub queue_delays: Vec<Histogram>,
}

/// Data collected at one flow's two ends.
#[derive(Clone, Debug, Default)]
pub struct FlowOutput {
    /// Time at which the last byte of a sized flow was read.
    pub finished: Option<Time>,
    /// Completion times of responses.
    pub exchanges: Vec<Span>,
    /// The sender at the start of measurement.
    pub mark: TcpInfo,
    /// The sender at the end.
    pub end: TcpInfo,
    /// BBR at the end.
    pub bbr: Option<BbrInfo>,
    /// The state at each change, on the sampling grid.
    pub states: Vec<(Time, State)>,
    /// Set if the network ended the flow early.
    pub broken: Option<String>,
}

/// True if TCP_INFO shows the algorithm's state: for the kernel's own algorithms, and for those with only a threshold.
fn shows_state(flow: &FlowSetup) -> bool {
    flow.kernels_own().is_some() || matches!(flow.algorithm, AlgorithmConfig::Reno(_) | AlgorithmConfig::Cubic(_))
}

/// Drives all flows, and the lag probe, from the start of the run to its end.
pub(crate) fn drive(
    setup: &Setup,
    ends: &[Endpoints],
    probe: Option<ProbeSender>,
    path: &mut dyn Path,
) -> Result<DriverOutput> {
    let low_water = recv_socket::share(path.low_water(), setup.flows.len());
    let mut driver = Driver::new(setup, ends, probe, low_water).map_err(Error::io("sockets"))?;
    driver.run(path)?;
    Ok(std::mem::take(&mut driver.driven))
}

/// A running flow.
struct Live {
    sender: Option<OwnedFd>,
    receiver: Option<OwnedFd>,
    app: Option<App>,
    /// True once the connection is established and its application writes.
    connected: bool,
    /// Bytes written so far.
    written: u64,
    /// Bytes read so far.
    read: u64,
    /// True while epoll waits for the sender to become writable.
    watched: bool,
    request_sent: Time,
    /// Time of the client's next request.
    ask_at: Time,
    info: TcpInfo,
    bbr: Option<BbrInfo>,
    last_state: Option<State>,
}

/// Port on which a flow's receiver listens.
fn receiver_port(flow: &FlowSetup) -> u16 {
    PORT + u16::from(flow.host.dctcp_receiver)
}

struct Driver<'a> {
    setup: &'a Setup,
    ends: &'a [Endpoints],
    zero: u64,
    epoll: Epoll,
    timer: TimerFd,
    listeners: Vec<OwnedFd>,
    flows: Vec<Live>,
    probe: Option<ProbeSender>,
    block: Vec<u8>,
    low_water: u64,
    seen: PathCounters,
    driven: DriverOutput,
    grid: Span,
    next_sample: Time,
    next_change: usize,
    measuring: bool,
    /// Rate of each link and the time since which it applies, for its capacity.
    rates: Vec<(f64, Time)>,
}

impl<'a> Driver<'a> {
    fn new(setup: &'a Setup, ends: &'a [Endpoints], probe: Option<ProbeSender>, low_water: u64) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        let mut listeners = BTreeMap::new();
        for (end, flow) in ends.iter().zip(&setup.flows) {
            let port = receiver_port(flow);
            if let std::collections::btree_map::Entry::Vacant(place) = listeners.entry((end.to, port)) {
                let cc = flow.host.dctcp_receiver.then_some(end.cc.as_str());
                let fd = socket::within(end.receiver.as_fd(), || socket::listener(socket::at(end.to, port), cc))?;
                recv_socket::bound_window(flow, &fd)?;
                place.insert(fd);
            }
        }
        let listeners: Vec<OwnedFd> = listeners.into_values().collect();
        for (index, listener) in listeners.iter().enumerate() {
            epoll.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER + index as u64))?;
        }
        let live = || Live {
            sender: None,
            receiver: None,
            app: None,
            written: 0,
            read: 0,
            watched: false,
            connected: false,
            request_sent: Time::ZERO,
            ask_at: Time::NEVER,
            info: TcpInfo::default(),
            bbr: None,
            last_state: None,
        };
        let flows = setup.flows.len();
        let links = || setup.links.iter().chain(setup.up.as_deref());
        let count = links().count();
        Ok(Self {
            setup,
            ends,
            zero: 0,
            epoll,
            timer,
            listeners,
            flows: (0..flows).map(|_| live()).collect(),
            probe,
            block: vec![0; BLOCK],
            low_water,
            seen: PathCounters { flows: vec![Default::default(); flows], links: vec![Default::default(); count] },
            driven: DriverOutput {
                trace: Trace {
                    t_ns: Vec::new(),
                    flows: vec![FlowTrace::default(); flows],
                    links: vec![LinkTrace::default(); setup.links.len()],
                    up: setup.up.as_ref().map(|_| Box::default()),
                    probe: Vec::new(),
                },
                flows: vec![FlowOutput::default(); flows],
                capacity_bits: vec![0.0; count],
                queue_delays: vec![Histogram::default(); count],
                ..DriverOutput::default()
            },
            grid: setup.sample.unwrap_or(OWN_GRID),
            next_sample: Time::ZERO,
            next_change: 0,
            measuring: false,
            rates: links().map(|link| (link.service.nominal_rate().as_bits_per_sec() as f64, Time::ZERO)).collect(),
        })
    }

    fn now(&self) -> Time {
        Time::nanos(clock::now_ns() - self.zero)
    }

    fn run(&mut self, path: &mut dyn Path) -> Result<()> {
        self.zero = clock::now_ns();
        path.begin(self.zero);
        let mut events = vec![EpollEvent::empty(); 256];
        loop {
            let now = self.now();
            if now >= self.setup.duration {
                break;
            }
            let next = self.act(now, path)?;
            let due = next.min(self.setup.duration);
            let wait = due.as_nanos().saturating_sub(self.now().as_nanos()).max(1);
            self.timer
                .set(Expiration::OneShot(std::time::Duration::from_nanos(wait).into()), TimerSetTimeFlags::empty())
                .map_err(Error::call("timer"))?;
            let count = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(count) => count,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(source) => return Err(Error::Call { what: "epoll".to_owned(), source }),
            };
            for event in &events[..count] {
                self.on_ready(event.data()).map_err(Error::io("flow"))?;
            }
        }
        self.finish(path)
    }

    /// Performs all actions that are due, and returns the time of the next one.
    fn act(&mut self, now: Time, path: &mut dyn Path) -> Result<Time> {
        while let Some(change) = self.setup.schedule.get(self.next_change).filter(|change| change.at <= now) {
            path.change(change)?;
            if let bbrlab_sim::setup::ChangeKind::Rate(rate) = change.what {
                self.account_capacity(change.link, now);
                self.rates[change.link].0 = rate.as_bits_per_sec() as f64;
            }
            self.next_change += 1;
        }
        if !self.measuring && now >= self.setup.warmup {
            self.begin_measuring(now, path)?;
        }
        if now >= self.next_sample {
            self.sample(now, path)?;
            self.next_sample = Time::nanos(now.as_nanos() / self.grid.as_nanos() * self.grid.as_nanos()) + self.grid;
        }
        let mut next = self.next_sample;
        if let Some(change) = self.setup.schedule.get(self.next_change) {
            next = next.min(change.at);
        }
        if !self.measuring {
            next = next.min(self.setup.warmup);
        }
        if let Some(probe) = &mut self.probe {
            next = next.min(probe.act(now).map_err(Error::io("probe"))?);
        }
        for index in 0..self.flows.len() {
            let due = self.act_flow(index, now).map_err(Error::io(&self.setup.flows[index].name))?;
            next = next.min(due);
        }
        Ok(next)
    }

    /// Starts a flow, or lets its application write or its client send a request. Returns the time of the next action.
    fn act_flow(&mut self, index: usize, now: Time) -> io::Result<Time> {
        let setup = &self.setup.flows[index];
        if self.flows[index].app.is_none() {
            if now < setup.start {
                return Ok(setup.start);
            }
            self.open(index, now)?;
        }
        let flow = &mut self.flows[index];
        if now >= flow.ask_at {
            flow.ask_at = Time::NEVER;
            flow.request_sent = now;
            if let Some(receiver) = &flow.receiver {
                socket::write_some(receiver, &[0; REQUEST])?;
            }
        }
        let Some(app) = flow.app.as_mut().filter(|_| flow.connected) else { return Ok(Time::NEVER) };
        let mut wrote = false;
        // Of requests only the first is due by the clock; the client sends the others over the path.
        while now >= app.next {
            wrote |= app.on_time(now, flow.written);
        }
        let due = app.next.min(flow.ask_at);
        if wrote { self.write(index).map(|()| due) } else { Ok(due) }
    }

    fn open(&mut self, index: usize, now: Time) -> io::Result<()> {
        let (setup, ends) = (&self.setup.flows[index], &self.ends[index]);
        let cc = ends.cc.as_str();
        let flow = &mut self.flows[index];
        flow.app = Some(App::new(setup.traffic.clone(), now, setup.stop));
        flow.request_sent = now;
        let port = FIRST_PORT + index as u16;
        let dial = Dial {
            cc,
            mss: setup.mss,
            dscp: setup.dscp,
            from: socket::at(ends.from, port),
            to: socket::at(ends.to, receiver_port(setup)),
        };
        let fd = socket::within(ends.sender.as_fd(), || socket::dial(dial))
            .map_err(|error| io::Error::new(error.kind(), format!("{cc}: {error}")))?;
        let flags = EpollFlags::EPOLLOUT | EpollFlags::EPOLLIN;
        send_socket::prepare(self.setup, setup, &fd)?;
        self.epoll.add(&fd, EpollEvent::new(flags, index as u64 * ENDS))?;
        flow.watched = true;
        flow.sender = Some(fd);
        Ok(())
    }

    fn on_ready(&mut self, mark: u64) -> io::Result<()> {
        if mark == TIMER {
            let mut count = [0; 8];
            let _ = nix::unistd::read(self.timer.as_fd(), &mut count);
            return Ok(());
        }
        if mark >= LISTENER {
            return self.accept((mark - LISTENER) as usize);
        }
        let index = (mark / ENDS) as usize;
        let done = if mark.is_multiple_of(ENDS) { self.on_sender(index) } else { self.read(index) };
        match done {
            // The kernel gave up the connection: that is a result.
            Err(error) if is_broken(&error) => {
                self.driven.flows[index].broken = Some(error.to_string());
                let flow = &mut self.flows[index];
                (flow.sender, flow.receiver) = (None, None);
                Ok(())
            }
            other => other,
        }
    }

    fn accept(&mut self, listener: usize) -> io::Result<()> {
        while let Some((fd, port)) = socket::accept(&self.listeners[listener])? {
            let index = usize::from(port.saturating_sub(FIRST_PORT));
            let Some(setup) = self.setup.flows.get(index) else { continue };
            recv_socket::settle_window(setup, &fd)?;
            // CAKE sorts ACKs too.
            socket::set_dscp(&fd, setup.dscp)?;
            socket::set_low_water(&fd, recv_socket::low_water(setup, self.low_water, 0))?;
            self.epoll.add(&fd, EpollEvent::new(EpollFlags::EPOLLIN, index as u64 * ENDS + 1))?;
            self.flows[index].receiver = Some(fd);
        }
        Ok(())
    }

    /// Handles a sender that became writable, or the arrival of a request.
    fn on_sender(&mut self, index: usize) -> io::Result<()> {
        let now = self.now();
        let (setup, flow) = (&self.setup.flows[index], &mut self.flows[index]);
        if !flow.connected {
            flow.connected = true;
            // A client would have opened the connection, and its first request would arrive half a round trip later.
            let rtt = now.since(flow.request_sent);
            let half = Span::nanos(rtt.as_nanos() / 2);
            flow.app = Some(App::connected(setup.traffic.clone(), now, setup.stop, Some(half), rtt));
        }
        if let (Some(fd), Some(app)) = (&flow.sender, &mut flow.app)
            && app.exchange().is_some()
            && let Some(requests) = socket::discard(fd, BLOCK)?
        {
            for _ in 0..requests / REQUEST {
                app.on_time(now, flow.written);
            }
        }
        self.write(index)
    }

    /// Fills the sender's socket with data that its application has written.
    fn write(&mut self, index: usize) -> io::Result<()> {
        let flow = &mut self.flows[index];
        let (Some(fd), Some(app)) = (&flow.sender, &flow.app) else { return Ok(()) };
        let mut full = false;
        while flow.written < app.written && !full {
            let want = (app.written - flow.written).min(BLOCK as u64) as usize;
            let taken = match socket::write_some(fd, &self.block[..want]) {
                // Not yet connected: epoll will report it.
                Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => 0,
                other => other?,
            };
            flow.written += taken as u64;
            full = taken < want;
        }
        if full != flow.watched {
            let room = if full { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
            self.epoll.modify(fd, &mut EpollEvent::new(room | EpollFlags::EPOLLIN, index as u64 * ENDS))?;
            flow.watched = full;
        }
        Ok(())
    }

    fn read(&mut self, index: usize) -> io::Result<()> {
        let now = self.now();
        let setup = &self.setup.flows[index];
        let flow = &mut self.flows[index];
        let Some(fd) = &flow.receiver else { return Ok(()) };
        let max = recv_socket::max_read(setup, self.low_water, flow.read);
        let Some(taken) = socket::discard(fd, max)? else { return Ok(()) };
        if flow.read == 0 {
            recv_socket::settle_window(setup, fd)?;
            socket::set_low_water(fd, recv_socket::low_water(setup, self.low_water, taken as u64))?;
        }
        flow.read += taken as u64;
        if let Traffic::Size(bytes) = setup.traffic {
            if flow.read >= bytes {
                self.driven.flows[index].finished.get_or_insert(now);
            } else if bytes - flow.read < self.low_water {
                socket::set_low_water(fd, recv_socket::low_water(setup, self.low_water, flow.read))?;
            }
        } else if let Traffic::RequestResponse { size, think } = setup.traffic {
            let done = &mut self.driven.flows[index].exchanges;
            if flow.read >= (done.len() as u64 + 1).saturating_mul(size) {
                done.push(now.since(flow.request_sent));
                flow.ask_at = now + think;
            }
        }
        Ok(())
    }

    fn begin_measuring(&mut self, now: Time, path: &mut dyn Path) -> Result<()> {
        self.measuring = true;
        path.measure_from_here()?;
        path.sample(&mut self.seen)?;
        self.driven.links.0.clone_from(&self.seen.links);
        for link in 0..self.rates.len() {
            self.account_capacity(link, now);
            self.driven.capacity_bits[link] = 0.0;
        }
        for (flow, driven) in self.flows.iter_mut().zip(&mut self.driven.flows) {
            flow.look().map_err(Error::io("TCP_INFO"))?;
            driven.mark = flow.info;
        }
        Ok(())
    }

    fn account_capacity(&mut self, link: usize, now: Time) {
        let (rate, since) = &mut self.rates[link];
        self.driven.capacity_bits[link] += *rate * bbrlab_sim::metrics::secs(Time::nanos(now.since(*since).as_nanos()));
        *since = now;
    }

    fn sample(&mut self, now: Time, path: &mut dyn Path) -> Result<()> {
        path.sample(&mut self.seen)?;
        let recorded = self.setup.sample.is_some();
        if recorded {
            self.driven.trace.t_ns.push(now.as_nanos());
        }
        for (index, flow) in self.flows.iter_mut().enumerate() {
            let driven = &mut self.driven.flows[index];
            if driven.finished.is_none() {
                flow.look().map_err(Error::io("TCP_INFO"))?;
            }
            if flow.info.state != 0
                && shows_state(&self.setup.flows[index])
                && let Some(state) = columns::state_of(&flow.info, flow.bbr.as_ref())
                && flow.last_state != Some(state)
            {
                driven.states.push((now, state));
                flow.last_state = Some(state);
            }
            if recorded {
                columns::push_flow(
                    &mut self.driven.trace.flows[index],
                    &flow.info,
                    flow.bbr.as_ref(),
                    &self.seen.flows[index],
                );
            }
        }
        let columns = self.driven.trace.links.iter_mut().chain(self.driven.trace.up.as_deref_mut());
        for (column, link) in columns.zip(&self.seen.links).filter(|_| recorded) {
            columns::push_link(column, link);
        }
        let delays = self.driven.queue_delays.iter_mut().zip(&self.seen.links);
        for (delay, link) in delays.filter(|(_, link)| self.measuring && link.rate_bps > 0) {
            let ns = u128::from(link.queue_bytes) * 8_000_000_000 / u128::from(link.rate_bps);
            delay.add(u64::try_from(ns).unwrap_or(u64::MAX));
        }
        Ok(())
    }

    fn finish(&mut self, path: &mut dyn Path) -> Result<()> {
        if !self.measuring {
            self.begin_measuring(self.setup.duration, path)?;
        }
        path.sample(&mut self.seen)?;
        self.driven.links.1.clone_from(&self.seen.links);
        for link in 0..self.rates.len() {
            self.account_capacity(link, self.setup.duration);
        }
        for (flow, driven) in self.flows.iter_mut().zip(&mut self.driven.flows) {
            flow.look().map_err(Error::io("TCP_INFO"))?;
            (driven.end, driven.bbr) = (flow.info, flow.bbr);
        }
        Ok(())
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        for fd in self.flows.iter().flat_map(|flow| [&flow.sender, &flow.receiver]).flatten() {
            let _ = socket::abort_on_close(fd); // otherwise the connection ends later
        }
    }
}

fn is_broken(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ETIMEDOUT | libc::ECONNRESET | libc::EPIPE | libc::EHOSTUNREACH | libc::ECONNREFUSED)
    )
}

impl Live {
    /// Reads the sender's state from the kernel.
    fn look(&mut self) -> io::Result<()> {
        if let Some(fd) = &self.sender {
            self.info = socket::tcp_info(fd)?;
            self.bbr = socket::bbr_info(fd)?;
        }
        Ok(())
    }
}
