//! Two namespaces with the emulator between them: senders on the left, receivers on the right.
//! Nothing outlives this process.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bbrlab_core::Span;
use bbrlab_sim::setup::Rwnd;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl::set_timerslack;
use serde::{Deserialize, Serialize};

use super::emulator::{Emulator, EmulatorConfig};
use super::iface;
use super::ns::NetNs;
use super::relay::{EmulatedPath, Observer};
use super::self_check::{CheckSamples, CpuTime, Limits, Readings, SelfCheck, TcpMemory};
use super::tun::{self, Offload, Tun, TunConfig};
use crate::clock;
use crate::{Error, Result};

/// The senders' address. Source: TEST-NET-1 (RFC 5737), which is assigned to no one.
pub const LEFT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The receivers' address.
pub const RIGHT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// The senders' IPv6 address. Source: RFC 3849, documentation.
pub const LEFT6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// The receivers' IPv6 address.
pub const RIGHT6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

/// Maximum socket buffer that TCP may grow to, bytes. Ours: 10 Gbit/s over 100 ms, twice; Linux's 4 and 6 MB limit at 1
/// Gbit/s.
const BUFFER_MAX: u32 = 256 << 20;
/// Buffers of a host that is never the limit, bytes. Ours.
const AMPLE: u64 = 1 << 30;
/// Initial send buffer of a connection. Ours: large enough that an application's first BDP never waits.
const SEND_BUFFER: u64 = 4 << 20;
/// Priority of the emulator among real-time threads. Ours: any value is above every ordinary thread.
const PRIORITY: i32 = 10;

/// Both namespaces with their devices.
#[derive(Debug)]
pub struct Testbed {
    /// The senders' namespace.
    pub left: NetNs,
    /// The receivers' namespace.
    pub right: NetNs,
    tuns: Arc<[Tun; 2]>,
    offload: Offload,
    mtu: u32,
}

/// The machine's properties, recorded in every result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    pub kernel: String,
    /// Timer ticks a second, if the kernel exposes them.
    pub hz: Option<u32>,
    /// Size of the packets that hosts exchange with the link.
    pub offload: String,
    /// Generic receive offload at the receivers.
    pub gro: bool,
    /// The devices' MTU.
    pub mtu: u32,
    /// Sysctls of the namespaces that affect TCP.
    pub sysctls: Vec<(String, String)>,
    /// Settings that could not be applied.
    pub notes: Vec<String>,
}

/// A running emulator.
#[derive(Debug)]
pub struct Running<O> {
    thread: JoinHandle<Result<(O, CheckSamples, u64)>>,
    stop: Arc<EventFd>,
    before: CpuTime,
    drops: u64,
    started_ns: u64,
    tcp_memory: f64,
    fifo: bool,
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // A command may have closed connections whose data is still in flight. The path is gone: the remaining data
        // would hold memory and the namespace until the kernel has retried eight times.
        for ns in [&self.left, &self.right] {
            let _ = ns.set_sysctl("ipv4/tcp_orphan_retries", "1");
        }
    }
}

impl Testbed {
    /// Creates both namespaces, their devices and settings.
    pub fn new(offload: Offload, mtu: u32) -> Result<Self> {
        let (left, right) = (NetNs::new()?, NetNs::new()?);
        let make = |ns: &NetNs, v4: Ipv4Addr, v6: Ipv6Addr| {
            let addresses = [(IpAddr::V4(v4), 24), (IpAddr::V6(v6), 64)];
            Tun::new(ns, TunConfig { addresses: &addresses, mtu, offload })
        };
        let tuns = Arc::new([make(&left, LEFT, LEFT6)?, make(&right, RIGHT, RIGHT6)?]);
        Ok(Self { left, right, tuns, offload, mtu })
    }

    /// Makes `cc` the congestion control of both hosts.
    ///
    /// It becomes the namespaces' default or, if the host does not allow that algorithm to everyone, that of the routes
    /// over the link.
    pub fn set_congestion_control(&self, cc: &str) -> Result<()> {
        let available = self.left.sysctl("ipv4/tcp_available_congestion_control")?;
        let is_default = |ns: &NetNs| ns.set_sysctl("ipv4/tcp_congestion_control", cc).is_ok();
        if is_default(&self.left) && is_default(&self.right) {
            return Ok(());
        }
        if !available.split(' ').any(|known| known == cc) {
            return Err(Error::NotInKernel { cc: cc.to_owned(), available });
        }
        let sides = [(&self.left, RIGHT, RIGHT6), (&self.right, LEFT, LEFT6)];
        sides.into_iter().try_for_each(|(ns, v4, v6)| {
            ns.run(|| {
                iface::add_route(tun::NAME, IpAddr::V4(v4), cc)?;
                // Where there is no IPv6, the link has none either.
                let has_ipv6 = fs::exists("/proc/thread-self/net/if_inet6").unwrap_or(false);
                if has_ipv6 { iface::add_route(tun::NAME, IpAddr::V6(v6), cc) } else { Ok(()) }
            })
        })
    }

    /// Sets up TCP for any command: buffers large enough for a fast link, no metrics cached between connections.
    /// Returns the settings that failed.
    pub fn tune(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for ns in [&self.left, &self.right] {
            for name in ["ipv4/tcp_wmem", "ipv4/tcp_rmem"] {
                let grown = ns.sysctl(name).and_then(|text| ns.set_sysctl(name, &with_max(&text)));
                notes.extend(grown.err().map(|error| error.to_string()));
            }
            notes.extend(ns.set_sysctl("ipv4/tcp_no_metrics_save", "1").err().map(|error| error.to_string()));
        }
        notes.dedup();
        notes
    }

    /// Sets up TCP for a scenario: windows that never limit, or that autotune up to `window` bytes, and `tcp_ecn`. Returns
    /// the settings that failed.
    pub fn tune_for(&self, window: Option<u64>, ecn: u8) -> Vec<String> {
        let received = match window {
            Some(bytes) => format!("4096 131072 {}", Rwnd::buffer_of(bytes).min(AMPLE)),
            None => format!("4096 {AMPLE} {AMPLE}"),
        };
        let sent = format!("4096 {SEND_BUFFER} {AMPLE}");
        let ecn = ecn.to_string();
        let all = [
            ("ipv4/tcp_rmem", received.as_str()),
            ("ipv4/tcp_wmem", &sent),
            ("ipv4/tcp_no_metrics_save", "1"),
            ("ipv4/tcp_ecn", &ecn),
            ("ipv4/tcp_orphan_retries", "1"), // if we are killed, leftovers do not last long
        ];
        let mut notes: Vec<String> = Vec::new();
        for ns in [&self.left, &self.right] {
            notes.extend(
                all.iter().filter_map(|(name, value)| ns.set_sysctl(name, value).err().map(|error| error.to_string())),
            );
        }
        notes.dedup();
        notes
    }

    /// The machine's properties, as seen from the namespaces.
    pub fn environment(&self, notes: Vec<String>) -> Environment {
        let read = |name: &&str| Some(((*name).to_owned(), self.left.sysctl(name).ok()?));
        Environment {
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            hz: None,
            offload: match self.offload {
                Offload::Packets => "packets".to_owned(),
                Offload::SuperPackets => "tso".to_owned(),
            },
            gro: false,
            mtu: self.mtu,
            sysctls: SYSCTLS.iter().filter_map(read).collect(),
            notes,
        }
    }

    /// Starts the emulator on a thread of its own.
    pub fn start<O: Observer + Send + 'static>(
        &self,
        plan: EmulatorConfig,
        path: EmulatedPath,
        observer: O,
    ) -> Result<Running<O>> {
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let stop = Arc::new(stop.map_err(Error::call("emulator: eventfd"))?);
        let (tuns, stopped) = (Arc::clone(&self.tuns), Arc::clone(&stop));
        let (told, tells) = std::sync::mpsc::channel();
        let (before, drops, started_ns) = (CpuTime::now(), self.device_drops(), clock::now_ns());
        let work = move || {
            let _ = told.send(hurry());
            let [left, right] = &*tuns;
            let (observer, gather) = Emulator::new(plan, path, [left, right], observer).run(stopped.as_fd())?;
            Ok((observer, gather, clock::thread_cpu_ns()))
        };
        let thread = thread::Builder::new().name("bbrlab-emulator".to_owned()).spawn(work);
        let thread = thread.map_err(Error::io("emulator: thread"))?;
        let fifo = tells.recv().unwrap_or(false);
        Ok(Running { thread, stop, before, drops, started_ns, tcp_memory: TcpMemory::now().share(), fifo })
    }

    /// Stops an emulator, or waits for it to end, and returns its observer and self-check.
    pub fn finish<O>(&self, running: Running<O>, stop: bool, rtt: Span) -> Result<(O, SelfCheck)> {
        if stop {
            running.stop.write(1).map_err(Error::call("emulator: eventfd"))?;
        }
        let ended = running.thread.join().map_err(|_| Error::ThreadEnded("emulator: its thread"))?;
        let (observer, gather, cpu_ns) = ended?;
        let wall_s = clock::now_ns().saturating_sub(running.started_ns) as f64 / 1e9;
        let surroundings = Readings {
            device_drops: self.device_drops().saturating_sub(running.drops),
            steal: CpuTime::now().steal_since(running.before),
            cores: if wall_s > 0.0 { cpu_ns as f64 / 1e9 / wall_s } else { 0.0 },
            tcp_memory: TcpMemory::now().share().max(running.tcp_memory),
            scheduler: if running.fifo { "fifo" } else { "other" }.to_owned(),
        };
        let limits = Limits::for_rtt_us(rtt.as_nanos() as f64 / 1e3);
        Ok((observer, gather.verdict(limits, rtt.as_nanos() as f64 / 1e6, &surroundings)))
    }

    /// Packets dropped in front of a device or behind it.
    fn device_drops(&self) -> u64 {
        let of = |ns: &NetNs| {
            ns.run(|| Ok(iface::counter(tun::NAME, "tx_dropped") + iface::counter(tun::NAME, "rx_dropped")))
                .unwrap_or(0)
        };
        of(&self.left) + of(&self.right)
    }
}

/// Sysctls recorded in results.
const SYSCTLS: [&str; 8] = [
    "ipv4/tcp_congestion_control",
    "ipv4/tcp_wmem",
    "ipv4/tcp_rmem",
    "ipv4/tcp_no_metrics_save",
    "ipv4/tcp_ecn",
    "ipv4/tcp_slow_start_after_idle",
    "ipv4/tcp_recovery",
    "ipv4/tcp_min_tso_segs",
];

/// A triple of buffer sizes with a larger maximum.
fn with_max(triple: &str) -> String {
    let mut sizes: Vec<&str> = triple.split_whitespace().take(2).collect();
    let max = BUFFER_MAX.to_string();
    sizes.push(&max);
    sizes.join(" ")
}

/// Prepares the calling thread for timely wake-ups. Returns true if it got real-time scheduling.
pub fn hurry() -> bool {
    // If either is refused the thread is later, and the self-check reports by how much.
    let _ = set_timerslack(1);
    // SAFETY: all zeroes are a valid sched_param, which has more fields with musl.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = PRIORITY;
    // SAFETY: the call reads `param`, which lives through it; 0 names the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const param) == 0 }
}
