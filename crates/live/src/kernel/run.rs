//! `--on kernel`: a scenario's flows as this host's TCP, through the emulator, measured from the packets that pass.
//! A disturbed run is never reported as a clean one.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use bbrlab_core::{Span, Time};
use bbrlab_sim::backend::Backend;
use bbrlab_sim::link::Link;
use bbrlab_sim::path::{self, FlowSharing, SojournTime};
use bbrlab_sim::record::Output;
use bbrlab_sim::record::packets::Direction;
use bbrlab_sim::setup::{Change, FlowSetup, Rwnd, Setup};
use serde::{Deserialize, Serialize};

use super::emulate::{MTU, offload_for};
use super::emulator::EmulatorConfig;
use super::ours::Controls;
use super::packet::{Packet, Queued};
use super::relay::{EmulatedPath, LEFTWARD, Observer};
use super::self_check::SelfCheck;
use super::testbed::{Environment, LEFT, RIGHT, Running, Testbed};
use crate::capture::Capture;
use crate::flows::{self, Endpoints, FIRST_PORT, LinkCounters, Path, PathCounters};
use crate::meter::Meter;
use crate::probe::{ProbeMeter, ProbeSender};
use crate::{Error, Result};
use crate::{backends, clock, measure, wire};

/// Maximum number of attempts at a clean run. Ours.
const ATTEMPTS: u32 = 3;
/// IPv4 and TCP headers with timestamps.
const HEADERS: u32 = 52;
/// Bytes that a bulk receiver lets accumulate. Ours, measured at 500 Mbit/s.
///
/// With 8 MB, 1 % of the packets are 0.6 to 1 ms late, because the emulator must reallocate the memory that the reader
/// frees at once; with this, 0.2 ms.
const LOW_WATER: u64 = 1 << 20;
/// Sampling interval of the counters where the setup requests no series.
const OWN_GRID: Span = Span::millis(10);
/// Progress reports per run.
const PROGRESS_REPORTS: u64 = 100;

/// Description of the backend, stored in the result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Provenance {
    /// The emulator's self-check.
    pub self_check: SelfCheck,
    pub environment: Environment,
}

/// Rejects setups that this host's kernel cannot run.
pub fn check(setup: &Setup) -> Result<()> {
    backends::check(Backend::Kernel, setup)
}

/// Limit up to which the receiver's kernel autotunes the window.
fn window(flow: &FlowSetup) -> Option<u64> {
    match flow.rwnd {
        Rwnd::Auto(bytes) => Some(bytes),
        Rwnd::Unlimited | Rwnd::Fixed(_) => None,
    }
}

/// Repeats a run until it is clean, up to `ATTEMPTS` times. `progress` receives the time of each run.
pub fn run(setup: &Setup, progress: &mut dyn FnMut(Time)) -> Result<(Output, Provenance)> {
    check(setup)?;
    let controls = Controls::of(setup)?;
    let mut attempt = 1;
    loop {
        let (output, mut provenance) = run_once(setup, controls.names.clone(), progress)?;
        provenance.self_check.attempts = attempt;
        if provenance.self_check.clean || attempt == ATTEMPTS {
            return Ok((output, provenance));
        }
        attempt += 1;
    }
}

/// Creates the namespaces and devices of a run.
pub fn testbed_for(setup: &Setup) -> Result<Testbed> {
    Testbed::new(offload_for(setup), mtu_for(setup))
}

/// Largest packet of a run.
fn mtu_for(setup: &Setup) -> u32 {
    setup.flows.iter().map(|flow| flow.mss + HEADERS).max().unwrap_or(MTU).max(MTU)
}

/// Runs a setup once; `names` holds the kernel's name for each flow's congestion control.
pub fn run_once(setup: &Setup, names: Vec<String>, progress: &mut dyn FnMut(Time)) -> Result<(Output, Provenance)> {
    run_between(&testbed_for(setup)?, setup, names, progress)
}

/// Runs a setup once between the namespaces of [`testbed_for`].
pub fn run_between(
    testbed: &Testbed,
    setup: &Setup,
    names: Vec<String>,
    progress: &mut dyn FnMut(Time),
) -> Result<(Output, Provenance)> {
    let ecn = tcp_ecn(setup);
    let notes = testbed.tune_for(setup.flows.first().and_then(window), ecn);
    if ecn > CLASSIC_ECN_MAX && testbed.left.sysctl("ipv4/tcp_ecn")? != ecn.to_string() {
        return Err(Error::NoAccurateEcn);
    }
    let environment = testbed.environment(notes);
    let ends = ends(setup, names, testbed)?;
    let seen = Arc::new(Mutex::new(PathCounters::default()));
    let observer = PacketObserver::new(setup, Arc::clone(&seen));
    let probe = setup.probe.map(|interval| ProbeSender::open(interval, testbed.left.as_fd(), LEFT, RIGHT));
    let probe = probe.transpose().map_err(Error::io("probe"))?;
    let plan = EmulatorConfig {
        start_ns: 0,
        end: Time::NEVER,
        sample: Some(setup.sample.unwrap_or(OWN_GRID)),
        offload: offload_for(setup),
        mtu: mtu_for(setup),
        punctual: true,
    };
    let between = path::Path::new(setup, FlowSharing { unknown_flows: true, per_flow_delay: false });
    let mut path = EmulatorPath {
        testbed,
        waiting: Some((plan, between, observer)),
        running: None,
        seen,
        start_ns: 0,
        step: setup.duration.as_nanos() / PROGRESS_REPORTS,
        told: 0,
        progress,
    };
    let driven = flows::drive(setup, &ends, probe, &mut path);
    let Some(running) = path.running else { return Err(driven.err().unwrap_or(Error::NotStarted)) };
    let (observer, self_check) = testbed.finish(running?, true, setup.path.rtt)?;
    let mut output = measure::output(setup, "kernel", driven?, &observer.meter);
    output.packets = observer.capture.map(Capture::finish).unwrap_or_default();
    Ok((output, Provenance { self_check, environment }))
}

/// Both ends of each flow: downloads are sent from the left, uploads from the right.
fn ends(setup: &Setup, names: Vec<String>, testbed: &Testbed) -> Result<Vec<Endpoints>> {
    let own =
        |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map(Arc::new).map_err(Error::io("network namespace"));
    let (left, right) = ((own(testbed.left.as_fd())?, LEFT), (own(testbed.right.as_fd())?, RIGHT));
    let end = |(cc, flow): (String, &FlowSetup)| {
        let (sender, receiver) = if flow.is_upload { (&right, &left) } else { (&left, &right) };
        let (from, to) = (sender.1, receiver.1);
        Endpoints { cc, sender: Arc::clone(&sender.0), receiver: Arc::clone(&receiver.0), from, to }
    };
    Ok(names.into_iter().zip(&setup.flows).map(end).collect())
}

/// The emulator as the [`Path`] of the flow driver.
struct EmulatorPath<'a> {
    testbed: &'a Testbed,
    /// The emulator before the run's time zero.
    waiting: Option<(EmulatorConfig, EmulatedPath, PacketObserver)>,
    /// The emulator from time zero on.
    running: Option<Result<Running<PacketObserver>>>,
    seen: Arc<Mutex<PathCounters>>,
    start_ns: u64,
    step: u64,
    told: u64,
    progress: &'a mut dyn FnMut(Time),
}

impl Path for EmulatorPath<'_> {
    fn begin(&mut self, zero_ns: u64) {
        self.start_ns = zero_ns;
        if let Some((plan, between, observer)) = self.waiting.take() {
            self.running = Some(self.testbed.start(EmulatorConfig { start_ns: zero_ns, ..plan }, between, observer));
        }
    }

    fn change(&mut self, _change: &Change) -> Result<()> {
        Ok(()) // the emulator follows the schedule itself
    }

    fn measure_from_here(&mut self) -> Result<()> {
        Ok(()) // and the warm-up
    }

    fn low_water(&self) -> u64 {
        LOW_WATER
    }

    fn sample(&mut self, seen: &mut PathCounters) -> Result<()> {
        if let Some(Err(error)) = self.running.take_if(|running| running.is_err()) {
            return Err(error);
        }
        let now = clock::now_ns().saturating_sub(self.start_ns);
        if self.step > 0 && now / self.step > self.told {
            self.told = now / self.step;
            (self.progress)(Time::nanos(now));
        }
        let newest = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the first sample there are no values.
        seen.flows.iter_mut().zip(&newest.flows).for_each(|(to, from)| *to = *from);
        seen.links.iter_mut().zip(&newest.links).for_each(|(to, from)| *to = *from);
        Ok(())
    }
}

/// Observer that feeds the meter.
struct PacketObserver {
    meter: Meter,
    capture: Option<Capture>,
    flows: u32,
    warmup: Time,
    seen: Arc<Mutex<PathCounters>>,
    /// Per flow: true if the path takes its packets for L4S.
    l4s: Vec<bool>,
    /// Per flow: true if its data goes from right to left.
    uploads: Vec<bool>,
}

impl PacketObserver {
    fn new(setup: &Setup, seen: Arc<Mutex<PathCounters>>) -> Self {
        let mut meter = Meter::new(setup.flows.len());
        meter.watch_queues();
        meter.probe = ProbeMeter::new(setup);
        if setup.warmup > Time::ZERO {
            meter.wait();
        }
        if setup.sample.is_some() {
            meter.keep_rtt_samples();
        }
        let l4s = setup.flows.iter().map(|flow| flow.host.l4s).collect();
        let uploads = setup.flows.iter().map(|flow| flow.is_upload).collect();
        let flows = setup.flows.len() as u32;
        Self { meter, capture: Capture::new(setup), flows, warmup: setup.warmup, seen, l4s, uploads }
    }

    /// True if packets of a flow in this direction carry its data.
    #[inline]
    fn carries_data(&self, direction: usize, flow: u32) -> bool {
        let is_upload = self.uploads.get(flow as usize).copied().unwrap_or(false);
        (direction == LEFTWARD) == is_upload
    }

    #[inline]
    fn warm_up(&mut self, now: Time) {
        if !self.meter.is_measuring() && now >= self.warmup {
            self.meter.measure_from_here(self.warmup);
        }
    }
}

/// Largest `tcp_ecn` of a kernel without accurate ECN.
const CLASSIC_ECN_MAX: u8 = 2;

/// The kernel's `tcp_ecn` for all flows. Those that ask for ECN by themselves need an end that accepts it.
fn tcp_ecn(setup: &Setup) -> u8 {
    let asked =
        setup.flows.iter().find(|flow| !flow.asks_for_ecn()).map(|flow| (flow.host.ecn, flow.host.accurate_ecn));
    let accepts = setup.flows.iter().any(FlowSetup::asks_for_ecn);
    let accepts_accurate = setup.flows.iter().any(|flow| flow.host.accurate_ecn && !flow.host.dctcp_receiver);
    match (asked, accepts_accurate) {
        (Some((_, true)), _) => 3,
        (Some((true, _)), true) => 4,
        (_, true) => 5,
        (Some((true, _)), false) => 1,
        (_, false) => 2 * u8::from(accepts),
    }
}

impl Observer for PacketObserver {
    #[inline]
    fn sends_ect_1(&self, flow: u32) -> bool {
        self.l4s.get(flow as usize).copied().unwrap_or(false)
    }

    #[inline]
    fn on_offered(&mut self, direction: usize, flow: u32, dropped: bool) {
        if self.carries_data(direction, flow) {
            self.meter.on_offered(flow as usize, dropped);
        }
    }

    fn on_dropped_later(&mut self, direction: usize, flow: u32) {
        if self.carries_data(direction, flow) {
            self.meter.on_dropped_later(flow as usize);
        }
    }

    #[inline]
    fn on_left(&mut self, direction: usize, at: Time, packet: &Packet, stayed: SojournTime, lost: bool) {
        self.meter.on_sojourn(at, stayed, direction == LEFTWARD);
        if self.carries_data(direction, packet.flow) {
            self.meter.on_left(packet.flow as usize, packet.ce, lost);
        }
    }

    #[inline]
    fn flow_of(&mut self, _direction: usize, packet: &[u8]) -> u32 {
        let Some((from, to)) = wire::tcp_ports(packet) else { return self.flows };
        // Receivers have smaller ports.
        from.max(to).checked_sub(FIRST_PORT).map_or(self.flows, |flow| u32::from(flow).min(self.flows))
    }

    #[inline]
    fn on_sent(&mut self, now: Time, direction: usize, flow: u32, packet: &[u8], segments: u32) {
        self.warm_up(now);
        if !self.carries_data(direction, flow) {
            return;
        }
        if let Some(tcp) = wire::tcp(packet) {
            self.meter.on_data(now.as_nanos(), flow as usize, tcp.seq, tcp.payload, segments);
            if let Some(capture) = &mut self.capture {
                capture.on_packet(now.as_nanos(), flow as usize, Direction::Data, packet);
            }
        } else if let Some(probe) = &mut self.meter.probe {
            probe.on_sent(now.as_nanos(), packet);
        }
    }

    #[inline]
    fn on_delivered(&mut self, now: Time, direction: usize, flow: u32, head: &[u8], count: u32, wire_bytes: u32) {
        self.warm_up(now);
        let is_data = self.carries_data(direction, flow);
        let Some(tcp) = wire::tcp(head) else {
            if let (false, Some(probe)) = (is_data, &mut self.meter.probe) {
                probe.on_delivered(now.as_nanos(), head);
            }
            return;
        };
        if is_data {
            self.meter.on_arrival(now.as_nanos(), flow as usize, tcp.seq, tcp.payload, count, wire_bytes);
        } else if tcp.flags & wire::flag::ACK != 0 {
            self.meter.on_ack(now.as_nanos(), flow as usize, tcp.ack, tcp.sack_blocks());
            if let Some(capture) = &mut self.capture {
                capture.on_packet(now.as_nanos(), flow as usize, Direction::Ack, head);
            }
        }
    }

    fn on_sample(&mut self, now: Time, path: &EmulatedPath) {
        self.warm_up(now);
        // The emulator never waits for a reader: the next sample replaces this one.
        let Ok(mut seen) = self.seen.try_lock() else { return };
        seen.flows.clear();
        seen.flows.extend(self.meter.flows().iter().map(|flow| (flow.count, flow.rtt.last_us)));
        seen.links.clear();
        seen.links.extend(path.forward.links().iter().chain(path.reverse.links()).map(link_seen));
    }
}

/// Counters of a link of the emulator.
pub(super) fn link_seen(link: &Link<Queued>) -> LinkCounters {
    let stats = link.stats();
    LinkCounters {
        queue_packets: link.queue_packets(),
        queue_bytes: link.queue_bytes(),
        rate_bps: link.rate().as_bits_per_sec(),
        arrivals: stats.arrivals,
        drops: stats.drops + stats.policed,
        marks: stats.marks,
        filtered: stats.filtered,
        departed_packets: stats.departed_packets,
        departed_bytes: stats.departed_bytes,
    }
}
