//! The emulator's bench: pings through an idle link, bulk transfers through a busy one.
//! In: a setup. Out: the round-trip times and the rates that real sockets see. Never: traffic outside our namespaces.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bbrlab_core::Time;
use bbrlab_lab::metrics::Histogram;
use bbrlab_lab::setup::Setup;

use super::Fault;
use super::check::SelfCheck;
use super::emulator::{Observer, Plan};
use super::tun::Offload;
use super::way::{Half, Watch, Way};
use super::world::{RIGHT, World};
use crate::clock;

/// Port of the receiver.
const PORT: u16 = 5001;
/// Bytes of one write or read of a bulk transfer. Ours.
const CHUNK: usize = 256 << 10;

/// Nobody watches.
#[derive(Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {}
impl Observer for Unwatched {
    fn flow_of(&mut self, _way: usize, _packet: &[u8]) -> u32 {
        0
    }
}

/// What a bulk transfer measured.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// Payload that arrived, bit/s, over the second half.
    pub goodput_bps: f64,
    /// The emulator's own word.
    pub check: SelfCheck,
}

/// What pings measured.
#[derive(Clone, Debug)]
pub struct Pings {
    /// Round-trip times, ns.
    pub rtt: Histogram,
    /// The emulator's own word.
    pub check: SelfCheck,
}

fn plan(offload: Offload) -> Plan {
    Plan {
        start_ns: clock::now_ns(),
        end: Time::NEVER,
        schedule: Vec::new(),
        sample: None,
        sampled_way: 0,
        offload,
        mtu: 1500,
    }
}

fn ways(setup: &Setup) -> [Way; 2] {
    [Way::of_data(setup, Half::There), Way::of_acks(setup, Half::Back)]
}

/// Sends `n` pings of 64 bytes through the setup's path, one each `gap`.
pub fn pings(setup: &Setup, n: u32, gap: Duration) -> Result<Pings, Fault> {
    let world = World::new(Offload::Packets, 1500)?;
    let running = world.start(plan(Offload::Packets), ways(setup), Unwatched)?;
    let bind = || UdpSocket::bind(("0.0.0.0", PORT)).map_err(|error| format!("ping: {error}"));
    let (near, far) = (world.left.run(bind)?, world.right.run(bind)?);
    let patience = Some(Duration::from_secs(2));
    let wait = |socket: &UdpSocket| socket.set_read_timeout(patience).map_err(|error| format!("ping: {error}"));
    wait(&near)?;
    wait(&far)?;
    let echo = thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok((length, from)) = far.recv_from(&mut bytes) {
            let _ = far.send_to(&bytes[..length], from);
        }
    });
    let mut rtt = Histogram::default();
    for nth in 0..n {
        let sent = clock::now_ns();
        let mut bytes = [0; 64];
        bytes[..4].copy_from_slice(&nth.to_be_bytes());
        near.send_to(&bytes, (RIGHT, PORT)).map_err(|error| format!("ping: {error}"))?;
        if near.recv(&mut bytes).is_ok() && bytes[..4] == nth.to_be_bytes() {
            rtt.add(clock::now_ns() - sent);
        }
        thread::sleep(gap);
    }
    let (_, check) = world.finish(running, true, setup.path.rtt)?;
    let _ = echo.join();
    Ok(Pings { rtt, check })
}

/// One bulk flow of congestion control `cc` through the setup's path for `seconds`.
pub fn bulk(setup: &Setup, offload: Offload, cc: &str, seconds: u64) -> Result<Bulk, Fault> {
    let world = World::new(offload, 1500)?;
    world.tune();
    let running = world.start(plan(offload), ways(setup), Unwatched)?;
    let fault = |error: std::io::Error| format!("bulk: {error}");
    let listener = world.right.run(|| TcpListener::bind((RIGHT, PORT)).map_err(fault))?;
    let received = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&received);
    thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        // Woken for each packet, the reader costs more than the link: each wake-up is an interrupt of another core.
        wake_by_chunk(&stream);
        let mut chunk = vec![0; CHUNK];
        while let Ok(bytes @ 1..) = stream.read(&mut chunk) {
            counted.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    });
    world.left.set_sysctl("ipv4/tcp_congestion_control", cc)?;
    let stream = world.left.run(|| TcpStream::connect((RIGHT, PORT)).map_err(fault))?;
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
    let (_, check) = world.finish(running, true, setup.path.rtt)?;
    Ok(Bulk { goodput_bps: (after - before) as f64 * 8e9 / (until - from) as f64, check })
}

/// Wakes the reader when a whole chunk has arrived, not before.
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
