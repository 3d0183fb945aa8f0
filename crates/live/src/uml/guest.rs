//! The first process inside User Mode Linux: creates the path, drives the flows, writes the results, powers off.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use bbrlab_sim::backend::uml_cc;
use bbrlab_sim::record::Output;
use bbrlab_sim::record::packets::Direction;
use bbrlab_sim::record::result::RunResult;
use bbrlab_sim::record::trace::Trace;
use bbrlab_sim::setup::{Change, Setup};
use nix::mount::{MsFlags, mount};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::devices::{EXCHANGE, TcProcess, make, namespace_of, reseed};
use super::emulate::{self, EmulateOutput};
use super::packets::PacketLog;
use super::plan::{JIFFY, LinkDevices, Plan, plan};
use super::qdisc::Counters;
use super::tap::{CapturedPacket, Tap};
use crate::flows::{Endpoints, FIRST_PORT, LinkCounters, Path, PathCounters, drive};
use crate::meter::Meter;
use crate::probe::{ProbeMeter, ProbeSender};
use crate::{Error, Result, clock, measure, socket, wire};

/// Kernel parameter that seeds its random numbers. A kernel without it passes it on as an environment variable.
const SEED: &str = "seed";
/// Name of the job file in the exchange directory.
pub const JOB: &str = "job.json";
/// Name of the file with the result, written by the guest.
pub const DONE: &str = "done.json";
/// Bytes of an Ethernet header, which the simulator's segments include too.
const ETHERNET: u32 = 14;
/// Idle time before the flows start.
///
/// Until its first clock tick the kernel's timers fire on ticks only, and set-up takes no virtual time: without this
/// pause the first SYN would wait for that tick. 20 s, because a queue that never dropped counts as having dropped at time 0
/// (CoDel, `drop_next`): within 16 intervals of a boot its first dropping state would start with a raised count.
const SETTLE: Duration = Duration::from_secs(20);
/// Maximum delay after a tick at which the run may start.
const TICK_GRAIN: Duration = Duration::from_micros(1);
/// Ticks that the kernel has counted when it boots, modulo [`WHEEL`]. Source: Linux `INITIAL_JIFFIES`, 300 s before an overflow.
const TICKS_AT_BOOT: u32 = 264;
/// Ticks after which waits of up to 131 s round alike: a timer of 256 ms and more expires on a multiple of 8 ticks, a longer one of
/// 64 or 512. Source: Linux kernel/time/timer.c.
const WHEEL: u32 = 512;
/// File with the kernel's limits of memory for all TCP sockets, and the limit set there, in pages. The default is a tenth of the guest's
/// memory, 290 MB for all hosts of a run together: near it, receivers discard segments that they have already reported as received.
const TCP_PAGES: (&str, u64) = ("/proc/sys/net/ipv4/tcp_mem", (2 << 30) / 4096);
/// Bytes that a bulk receiver lets accumulate: nothing else reads, and each wake-up costs time.
const LOW_WATER: u64 = 8 << 20;

/// The guest's result.
#[derive(Debug, Serialize, Deserialize)]
pub enum GuestOutput {
    Ran {
        result: Box<RunResult>,
        trace: Trace,
        /// The kernel's release.
        release: String,
    },
    /// Result of an emulated command.
    Emulated(EmulateOutput),
    /// The job could not run.
    Failed(String),
}

/// Runs the job and powers off. `setup` parses the job's text.
pub fn main(directory: &str, setup: impl FnOnce(&str) -> Result<Setup, Box<dyn std::error::Error + Send + Sync>>) -> ! {
    let setup = |text: &str| setup(text).map_err(Error::Scenario);
    let done = prepare(directory).and_then(|()| {
        if let Some(command) = emulate::command_spec()? {
            return emulate::run(&command, &setup(&command.scenario)?).map(GuestOutput::Emulated);
        }
        let job = fs::read_to_string(FilePath::new(EXCHANGE).join(JOB)).map_err(Error::io("job"))?;
        run(&setup(&job)?)
    });
    let done = done.unwrap_or_else(|error| GuestOutput::Failed(error.to_string()));
    if let Err(error) = leave(&done) {
        // Without a result the host reports an error and prints the console.
        eprintln!("uml guest: {error}");
    }
    power_off()
}

fn leave(done: &GuestOutput) -> io::Result<()> {
    let bytes = serde_json::to_vec(done)?;
    let mut file = File::create(FilePath::new(EXCHANGE).join(DONE))?;
    file.write_all(&bytes)?;
    file.sync_all()
}

fn power_off() -> ! {
    nix::unistd::sync();
    let _ = nix::sys::reboot::reboot(nix::sys::reboot::RebootMode::RB_POWER_OFF);
    // Not root of its own kernel: exiting is all that is left.
    std::process::exit(1)
}

/// Mounts file systems over the host's: only the exchange directory changes on the host.
fn prepare(directory: &str) -> Result<()> {
    let none = MsFlags::empty();
    let over = |kind: &str, at: &str, data: Option<&str>| {
        mount(Some(kind), at, Some(kind), none, data).map_err(Error::call(format!("{at}: {kind}")))
    };
    over("proc", "/proc", None)?;
    over("sysfs", "/sys", None)?;
    over("tmpfs", "/run", None)?;
    over("hostfs", EXCHANGE, Some(directory))?;
    let (file, pages) = TCP_PAGES;
    fs::write(file, format!("{pages} {pages} {pages}")).map_err(Error::io(file))
}

/// Runs a setup over the kernel's own path.
fn run(setup: &Setup) -> Result<GuestOutput> {
    if std::env::var_os(SEED).is_some() {
        return Err(Error::NoSeed);
    }
    let plan = plan(setup)?;
    make(&plan)?;
    let mut path = KernelPath::open(setup, plan)?;
    let ends = path.ends(setup)?;
    let probe = path.probe(setup)?;
    std::thread::sleep(SETTLE);
    reseed()?;
    await_tick();
    let driven = drive(setup, &ends, probe, &mut path)?;
    if let Some(log) = path.log.take() {
        log.finish().map_err(Error::io("packets"))?;
    }
    std::mem::take(&mut path.changers).into_iter().try_for_each(TcProcess::finish)?;
    let Output { result, trace, .. } = measure::output(setup, "uml", driven, &path.meter);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    Ok(GuestOutput::Ran { result: Box::new(result), trace, release })
}

/// Waits for a tick of the kernel's clock at which its timers round as those of the simulator do at time zero.
fn await_tick() {
    // This clock advances on ticks only.
    let coarse = || clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).map(Duration::from);
    let counted = |now: Duration| TICKS_AT_BOOT + (now.as_nanos() as u64 / JIFFY.as_nanos()) as u32;
    let left = |now| (WHEEL - counted(now) % WHEEL) % WHEEL;
    while let Ok(ticks @ 1..) = coarse().map(left) {
        std::thread::sleep((Duration::from_nanos(JIFFY.as_nanos()) * (ticks - 1)).max(TICK_GRAIN));
    }
}

/// The path: the kernel's disciplines, and taps at both ends of the flows.
struct KernelPath {
    plan: Plan,
    meter: Meter,
    log: Option<PacketLog>,
    senders: Vec<Tap>,
    receivers: Vec<Tap>,
    /// Counters of each link, with the name of its device; the link of `up` comes last.
    counters: Vec<(Counters, String)>,
    /// Per link: the devices through which packets arrive, if there is a policer.
    policed: Vec<Option<Vec<String>>>,
    changers: Vec<TcProcess>,
    rates: Vec<u64>,
    /// Time zero of the run on the taps' real-time clock.
    zero_ns: u64,
}

impl KernelPath {
    fn open(setup: &Setup, plan: Plan) -> Result<Self> {
        let mut meter = Meter::new(setup.flows.len());
        meter.probe = ProbeMeter::new(setup);
        if setup.warmup > bbrlab_core::Time::ZERO {
            meter.wait();
        }
        if setup.sample.is_some() {
            meter.keep_rtt_samples();
        }
        let mut rehearsal = plan.clone();
        let asked: BTreeSet<String> =
            setup.schedule.iter().flat_map(|change| rehearsal.change(change)).map(|(namespace, _)| namespace).collect();
        let changers = asked.iter().map(|namespace| TcProcess::start(namespace)).collect::<Result<_, _>>()?;
        let tap = |namespace: &str, incoming_only: bool| {
            let fd = namespace_of(namespace)?;
            socket::within(fd.as_fd(), || Tap::open(namespace, incoming_only))
                .map_err(Error::io(format!("tap in {namespace}")))
        };
        let open = |devices: LinkDevices| -> Result<_> {
            let counters = Counters::open(namespace_of(&devices.before)?).map_err(Error::io("netlink"))?;
            Ok((counters, devices.entry))
        };
        let links = || setup.links.iter().chain(setup.up.as_deref());
        let named = |prefix: char| plan.namespaces.iter().filter(move |name| name.starts_with(prefix));
        Ok(Self {
            senders: named('s').map(|name| tap(name, false)).collect::<Result<_, _>>()?,
            receivers: named('r').map(|name| tap(name, true)).collect::<Result<_, _>>()?,
            counters: plan.bottlenecks().into_iter().map(open).collect::<Result<_, _>>()?,
            policed: links().enumerate().map(|(nth, link)| link.policer.map(|_| plan.sources(nth))).collect(),
            changers,
            rates: links().map(|link| link.service.nominal_rate().as_bits_per_sec()).collect(),
            zero_ns: 0,
            log: PacketLog::open(FilePath::new(EXCHANGE)).map_err(Error::io("packets"))?,
            plan,
            meter,
        })
    }

    /// Namespaces and addresses of both ends of each flow.
    fn ends(&self, setup: &Setup) -> Result<Vec<Endpoints>> {
        let mut open: BTreeMap<&str, Arc<OwnedFd>> = BTreeMap::new();
        let mut ends = Vec::new();
        for (end, flow) in self.plan.ends.iter().zip(&setup.flows) {
            let cc = uml_cc(&flow.algorithm)?;
            if !socket::has_congestion_control(cc).map_err(Error::io("sockets"))? {
                return Err(Error::NotBuiltIn { flow: flow.name.clone(), cc });
            }
            for name in [&end.sender, &end.receiver] {
                if !open.contains_key(name.as_str()) {
                    open.insert(name, Arc::new(namespace_of(name)?));
                }
            }
            let fd = |name: &String| open[name.as_str()].clone();
            ends.push(Endpoints {
                cc: cc.to_owned(),
                sender: fd(&end.sender),
                receiver: fd(&end.receiver),
                from: end.from,
                to: end.to,
            });
        }
        Ok(ends)
    }

    /// The sender of the lag probe, if the run has one.
    fn probe(&self, setup: &Setup) -> Result<Option<ProbeSender>> {
        let (Some(interval), Some(ends)) = (setup.probe, &self.plan.probe) else { return Ok(None) };
        let namespace = namespace_of(&ends.sender)?;
        ProbeSender::open(interval, namespace.as_fd(), ends.from, ends.to).map(Some).map_err(Error::io("probe"))
    }

    /// Feeds the meter with the packets that passed.
    fn watch(&mut self) -> Result<()> {
        let (meter, zero, log) = (&mut self.meter, self.zero_ns, &mut self.log);
        let mut logged = Ok(());
        for tap in &mut self.senders {
            tap.drain(|passed| {
                if let (Some((flow, dir)), Some(log), Ok(())) = (at_sender(meter, zero, &passed), &mut *log, &logged) {
                    logged = log.add(passed.at_ns.saturating_sub(zero), flow, dir, passed.headers);
                }
            });
        }
        for tap in &mut self.receivers {
            tap.drain(|passed| at_receiver(meter, zero, &passed));
        }
        logged.map_err(Error::io("packets"))
    }
}

/// Maps a sender's port to its flow.
fn flow_of(port: u16) -> usize {
    usize::from(port.wrapping_sub(FIRST_PORT))
}

/// Returns the flow and the direction of a packet.
fn at_sender(meter: &mut Meter, zero: u64, passed: &CapturedPacket<'_>) -> Option<(usize, Direction)> {
    let now = passed.at_ns.saturating_sub(zero);
    let Some(tcp) = wire::tcp(passed.headers) else {
        match &mut meter.probe {
            Some(probe) if passed.outgoing => probe.on_sent(now, passed.headers),
            Some(probe) => probe.on_delivered(now, passed.headers),
            None => {}
        }
        return None;
    };
    if passed.outgoing {
        let flow = flow_of(tcp.ends.from_port);
        meter.on_data(now, flow, tcp.seq, tcp.payload, 1);
        return Some((flow, Direction::Data));
    }
    let flow = flow_of(tcp.ends.to_port);
    if tcp.flags & wire::flag::ACK != 0 {
        meter.on_ack(now, flow, tcp.ack, tcp.sack_blocks());
    }
    Some((flow, Direction::Ack))
}

fn at_receiver(meter: &mut Meter, zero: u64, passed: &CapturedPacket<'_>) {
    let Some(tcp) = wire::tcp(passed.headers) else { return };
    let now = passed.at_ns.saturating_sub(zero);
    meter.on_arrival(now, flow_of(tcp.ends.from_port), tcp.seq, tcp.payload, 1, tcp.payload + tcp.headers + ETHERNET);
}

/// The real-time clock, which the kernel uses to stamp packets.
fn real_time_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_REALTIME)
        .map_or(0, |time| time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned())
}

impl Path for KernelPath {
    fn begin(&mut self, zero_ns: u64) {
        self.zero_ns = real_time_ns() - (clock::now_ns() - zero_ns);
    }

    fn change(&mut self, change: &Change) -> Result<()> {
        if let bbrlab_sim::setup::ChangeKind::Rate(rate) = change.what {
            self.rates[change.link] = rate.as_bits_per_sec();
        }
        for (namespace, line) in self.plan.change(change) {
            if let Some(changer) = self.changers.iter_mut().find(|changer| changer.namespace == namespace) {
                changer.ask(&line)?;
            }
        }
        Ok(())
    }

    fn measure_from_here(&mut self) -> Result<()> {
        self.watch()?;
        self.meter.measure_from_here(bbrlab_core::Time::nanos(real_time_ns().saturating_sub(self.zero_ns)));
        Ok(())
    }

    fn low_water(&self) -> u64 {
        LOW_WATER
    }

    fn sample(&mut self, seen: &mut PathCounters) -> Result<()> {
        self.watch()?;
        for tap in self.senders.iter().chain(&self.receivers) {
            let missed = tap.missed().map_err(Error::io("tap"))?;
            if missed > 0 {
                return Err(Error::TapMissed(missed));
            }
        }
        for (seen, flow) in seen.flows.iter_mut().zip(self.meter.flows()) {
            *seen = (flow.count, flow.rtt.last_us);
        }
        for (index, link) in seen.links.iter_mut().enumerate() {
            let fault = |source| Error::Io { what: format!("counters of link {}", index + 1), source };
            let (counters, device) = &self.counters[index];
            *link = link_seen(counters, device, self.policed[index].as_deref()).map_err(fault)?;
            link.rate_bps = self.rates[index];
        }
        Ok(())
    }
}

/// Counters of a link by its device; with a policer, `sources` are the devices through which packets arrive.
pub(super) fn link_seen(counters: &Counters, device: &str, sources: Option<&[String]>) -> io::Result<LinkCounters> {
    let counted = counters.read()?.get(device).copied().unwrap_or_default();
    let (departed, waiting, drops) = (u64::from(counted.packets), counted.queue_packets, u64::from(counted.drops));
    let mut link = LinkCounters {
        queue_packets: waiting,
        queue_bytes: counted.queue_bytes.into(),
        arrivals: departed + u64::from(waiting) + drops,
        drops,
        marks: counted.marks.into(),
        departed_packets: departed,
        departed_bytes: counted.bytes,
        // A filter of ACKs is refused.
        ..LinkCounters::default()
    };
    if let Some(sources) = sources {
        // Packets that came in and never reached the queue were policed.
        let received = counters.received()?;
        let is_source = |name: &str| sources.iter().any(|source| source == name);
        let came: u64 = received.iter().filter(|(name, _)| is_source(name)).map(|(_, packets)| packets).sum();
        link.drops += came.saturating_sub(link.arrivals);
        link.arrivals = link.arrivals.max(came);
    }
    Ok(link)
}
