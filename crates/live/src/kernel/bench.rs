//! The emulator's benchmark: pings through an idle link, bulk transfers through a busy one.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{ErrorKind, IoSliceMut, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bbrlab_core::{Rate, Span, Time};
use bbrlab_sim::link::Buffer;
use bbrlab_sim::metrics::Histogram;
use bbrlab_sim::path::{FlowSharing, Path};
use bbrlab_sim::setup::Setup;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recvmsg, sendto,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeSpec, TimeVal};

use super::emulator::EmulatorConfig;
use super::relay::{EmulatedPath, Observer};
use super::self_check::SelfCheck;
use super::testbed::{self, RIGHT, Testbed};
use super::tun::Offload;
use crate::clock;
use crate::socket::abort_on_close;
use crate::{Error, Result};

/// Port of the receiver.
const PORT: u16 = 5001;
/// Bytes per write or read of a bulk transfer. Ours.
const CHUNK: usize = 256 << 10;

#[derive(Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn flow_of(&mut self, _way: usize, _packet: &[u8]) -> u32 {
        0
    }
}

/// Result of a bulk transfer.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// Payload that arrived, bit/s, over the second half.
    pub goodput_bps: f64,
    /// The emulator's self-check.
    pub check: SelfCheck,
}

/// Result of a ping series.
#[derive(Clone, Debug)]
pub struct Pings {
    /// Round-trip times, ns.
    pub rtt: Histogram,
    /// The emulator's self-check.
    pub check: SelfCheck,
}

fn plan(offload: Offload) -> EmulatorConfig {
    EmulatorConfig { start_ns: clock::now_ns(), end: Time::NEVER, sample: None, offload, mtu: 1500, punctual: false }
}

fn path(setup: &Setup) -> EmulatedPath {
    Path::new(setup, FlowSharing { unknown_flows: true, per_flow_delay: false })
}

/// The benchmark's path: one link with a buffer of one BDP.
fn one_link(mbit: u64, rtt: Span) -> Setup {
    let rate = Rate::bits_per_sec(mbit * 1_000_000);
    let buffer = Buffer::Bytes(rate.bytes_in(rtt).max(64 * 1514));
    Setup::one_link(rate, rtt, buffer, Span::secs(60), Vec::new())
}

/// Two-way delay of the benchmark's links.
const RTT: Span = Span::millis(20);
/// Number of pings, and the time between them.
const PINGS: (u16, Duration) = (500, Duration::from_millis(2));
/// The benchmark's links: rate in Mbit/s, offload, name.
const LINKS: [(u64, Offload, &str); 4] = [
    (100, Offload::Packets, "packets"),
    (1_000, Offload::Packets, "packets"),
    (1_000, Offload::SuperPackets, "super-packets"),
    (10_000, Offload::SuperPackets, "super-packets"),
];
/// Maximum number of attempts at a clean measurement of a row. Ours.
const ATTEMPTS: u32 = 3;

/// Column headings of the table.
pub const COLUMNS: [&str; 8] =
    ["link", "hosts send", "achieved", "goodput", "cores", "late p50/p99/max µs", "steal", "self-check"];

/// Serialisation time of a full packet on a link of 100 Mbit/s.
const PACKET: Span = Span::micros(120);

/// Benchmarks the emulator, and passes each finished row of the table to `row`.
///
/// The first row measures the machine alone: the CPU time and the lateness of waking up for each packet.
pub fn table(seconds: u64, row: &mut dyn FnMut([String; 8])) -> Result<()> {
    let (cores, late) = sleeps(PACKET, seconds)?;
    let us = |q: f64| late.quantile(q) / 1e3;
    row([
        "none".to_owned(),
        "nothing".to_owned(),
        format!("{:.0} sleeps a second", late.count() as f64 / seconds as f64),
        String::new(),
        format!("{cores:.2}"),
        format!("{:.0} / {:.0} / {:.0}", us(0.5), us(0.99), us(1.0)),
        String::new(),
        String::new(),
    ]);
    let pings = clean(|| pings(&one_link(100, RTT), PINGS.0, PINGS.1), |pings| &pings.check)?;
    let us = |q: f64| (pings.rtt.quantile(q) - RTT.as_nanos() as f64) / 1e3;
    row([
        "idle, 20 ms".to_owned(),
        format!("{} pings", pings.rtt.count()),
        format!("20 ms + {:.0} µs p50, {:.0} µs p99", us(0.5), us(0.99)),
        String::new(),
        format!("{:.2}", pings.check.emulator_cores),
        lateness(&pings.check),
        format!("{:.1} %", 100.0 * pings.check.steal),
        verdict(&pings.check),
    ]);
    for (mbit, offload, name) in LINKS {
        let bulk = clean(|| bulk(&one_link(mbit, RTT), offload, "bbr", seconds), |bulk| &bulk.check)?;
        row([
            format!("{mbit} Mbit/s, 20 ms"),
            name.to_owned(),
            format!("{:.1} of {:.1} Mbit/s", bulk.check.achieved_rate_bps / 1e6, bulk.check.asked_rate_bps / 1e6),
            format!("{:.1} Mbit/s", bulk.goodput_bps / 1e6),
            format!("{:.2}", bulk.check.emulator_cores),
            lateness(&bulk.check),
            format!("{:.1} %", 100.0 * bulk.check.steal),
            verdict(&bulk.check),
        ]);
    }
    Ok(())
}

/// Sleeps until each multiple of `step` for `seconds`, as the emulator's thread does. Returns the cores used, and the
/// lateness of the wake-ups in ns.
fn sleeps(step: Span, seconds: u64) -> Result<(f64, Histogram)> {
    let sleeper = thread::spawn(move || {
        testbed::hurry();
        let mut late = Histogram::default();
        let start = clock::now_ns();
        let mut due = start;
        while due < start + seconds * 1_000_000_000 {
            due = (due + step.as_nanos()).max(clock::now_ns());
            thread::sleep(Duration::from_nanos(due.saturating_sub(clock::now_ns())));
            late.add(clock::now_ns().saturating_sub(due));
        }
        (clock::thread_cpu_ns() as f64 / (clock::now_ns() - start) as f64, late)
    });
    sleeper.join().map_err(|_| Error::ThreadEnded("bench: the sleeping thread"))
}

fn lateness(check: &SelfCheck) -> String {
    format!("{:.0} / {:.0} / {:.0}", check.late_p50_us, check.late_p99_us, check.late_max_us)
}

fn verdict(check: &SelfCheck) -> String {
    if check.clean { "clean".to_owned() } else { check.faults.join("; ") }
}

/// Repeats a measurement until its self-check is clean, up to `ATTEMPTS` times.
fn clean<T>(mut measure: impl FnMut() -> Result<T>, check: impl Fn(&T) -> &SelfCheck) -> Result<T> {
    let mut attempt = 1;
    loop {
        let measured = measure()?;
        if check(&measured).clean || attempt == ATTEMPTS {
            return Ok(measured);
        }
        attempt += 1;
    }
}

/// Sends `n` ICMP echo requests through the setup's path, one per `gap`.
///
/// The far kernel answers and the near one stamps the arrival of the answer, so no process has to wake up for it.
pub fn pings(setup: &Setup, n: u16, gap: Duration) -> Result<Pings> {
    let testbed = Testbed::new(Offload::Packets, 1500)?;
    testbed.left.set_sysctl("ipv4/ping_group_range", "0 0")?;
    let running = testbed.start(plan(Offload::Packets), path(setup), NoObserver)?;
    let socket = testbed.left.run(|| icmp_socket().map_err(Error::call("ping")))?;
    let to = SockaddrIn::from(SocketAddrV4::new(RIGHT, 0));
    let mut rtt = Histogram::default();
    for nth in 0..n {
        let [high, low] = nth.to_be_bytes();
        // Echo request, code 0; the kernel fills in checksum and identifier; then the sequence number.
        let request = [8, 0, 0, 0, 0, 0, high, low];
        let sent = clock::wall_ns();
        sendto(socket.as_raw_fd(), &request, &to, MsgFlags::empty()).map_err(Error::call("ping"))?;
        if let Some(arrived) = answer(&socket, nth) {
            rtt.add(arrived.saturating_sub(sent));
        }
        thread::sleep(gap);
    }
    let (_, check) = testbed.finish(running, true, setup.path.rtt)?;
    Ok(Pings { rtt, check })
}

fn icmp_socket() -> nix::Result<OwnedFd> {
    let fd = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, SockProtocol::Icmp)?;
    setsockopt(&fd, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::new(2, 0))?;
    Ok(fd)
}

/// Wall-clock arrival time of a ping's answer.
fn answer(socket: &OwnedFd, nth: u16) -> Option<u64> {
    let mut bytes = [0; 64];
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let mut space = nix::cmsg_space!(TimeSpec);
    let got = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::empty()).ok()?;
    let stamp = got.cmsgs().ok()?.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(time) => Some(time),
        _ => None,
    })?;
    let stamp = u64::try_from(Duration::from(stamp).as_nanos()).ok()?;
    (bytes[6..8] == nth.to_be_bytes()).then_some(stamp)
}

/// Runs one bulk flow with congestion control `cc` through the setup's path for `seconds`.
pub fn bulk(setup: &Setup, offload: Offload, cc: &str, seconds: u64) -> Result<Bulk> {
    let testbed = Testbed::new(offload, 1500)?;
    testbed.tune();
    let running = testbed.start(plan(offload), path(setup), NoObserver)?;
    let listener = testbed.right.run(|| TcpListener::bind((RIGHT, PORT)).map_err(Error::io("bulk")))?;
    let received = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&received);
    thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        let _ = abort_on_close(&stream); // otherwise it ends later
        // If it woke for each packet, the reader would cost more than the link: each wake-up interrupts another core.
        wake_by_chunk(&stream);
        let mut chunk = vec![0; CHUNK];
        while let Ok(bytes @ 1..) = stream.read(&mut chunk) {
            counted.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    });
    testbed.left.set_sysctl("ipv4/tcp_congestion_control", cc)?;
    let stream = testbed.left.run(|| TcpStream::connect((RIGHT, PORT)).map_err(Error::io("bulk")))?;
    abort_on_close(&stream).map_err(Error::io("bulk"))?;
    let done = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&done);
    let writer = thread::spawn(move || send(stream, &ended));
    let half = Duration::from_millis(500 * seconds);
    thread::sleep(half);
    let (from, before) = (clock::now_ns(), received.load(Ordering::Relaxed));
    thread::sleep(half);
    let (until, after) = (clock::now_ns(), received.load(Ordering::Relaxed));
    done.store(true, Ordering::Relaxed);
    let _ = writer.join();
    let (_, check) = testbed.finish(running, true, setup.path.rtt)?;
    Ok(Bulk { goodput_bps: (after - before) as f64 * 8e9 / (until - from) as f64, check })
}

/// Makes the reader wake only when a whole chunk has arrived.
fn wake_by_chunk(stream: &TcpStream) {
    let low: libc::c_int = CHUNK as libc::c_int;
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option takes a C int, and `low` lives through the call.
    unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, (&raw const low).cast(), size);
    }
}

fn send(mut stream: TcpStream, ended: &AtomicBool) {
    let chunk = vec![0x5a; CHUNK];
    let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
    while !ended.load(Ordering::Relaxed) {
        match stream.write(&chunk) {
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return,
            _ => {}
        }
    }
}
