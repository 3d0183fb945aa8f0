//! The applications at both ends of a flow: real sockets that write and read what the scenario says.
//! In: a flow of a [`Setup`], and the name of its congestion control. Out: bytes received. Never: a socket of the host's network.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bbrlab_core::{Span, Time};
use bbrlab_sim::setup::{FlowSetup, Traffic};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, connect, setsockopt, socket, sockopt};

use super::path::RECEIVER;
use crate::clock::now_ns;
use crate::socket::abort_on_close;

/// First port; each flow has its own.
const PORT: u16 = 5001;
/// How long a read or write waits before it looks at the clock.
const PATIENCE: Duration = Duration::from_millis(20);
/// Bytes handed to the kernel at once. Ours.
const CHUNK: usize = 1 << 17;

/// Refuses what this sender can't do.
pub fn check(flow: &FlowSetup) -> Result<(), String> {
    let refuse = |what: &str| Err(format!("flow {}: {what} can't be recorded; leave it out", flow.name));
    if matches!(flow.traffic, Traffic::RequestResponse { .. } | Traffic::Objects(_)) {
        return refuse("request");
    }
    if flow.access.is_some() || flow.rtt.is_some() {
        return refuse("a path of its own (access, rtt)");
    }
    Ok(())
}

/// The receiver's end of the flow: it reads until its peer is gone, or `stop`.
pub fn receive(nth: usize, stop: &AtomicBool) -> Result<u64, String> {
    let fault = |error: std::io::Error| format!("flow {nth}: its receiver: {error}");
    let listener = TcpListener::bind(SocketAddrV4::new(RECEIVER, PORT + nth as u16)).map_err(fault)?;
    listener.set_nonblocking(true).map_err(fault)?;
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) if stop.load(Ordering::Relaxed) => return Ok(0),
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    };
    stream.set_nonblocking(false).map_err(fault)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(fault)?;
    let mut buffer = vec![0; CHUNK];
    let mut received = 0;
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => received += length as u64,
            Err(error) if is_late(&error) => {}
            Err(_) => break, // the sender hung up
        }
    }
    Ok(received)
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut | std::io::ErrorKind::Interrupted
    )
}

/// The sender's clock and end.
struct Sender<'a> {
    stream: TcpStream,
    began: u64,
    end: Time,
    stop: &'a AtomicBool,
    data: Vec<u8>,
}

/// The sender's end of the flow, from its start to its stop or the run's `end`; the run began at `began`.
pub fn send(
    nth: usize,
    flow: &FlowSetup,
    algorithm: &str,
    began: u64,
    end: Time,
    stop: &AtomicBool,
) -> Result<(), String> {
    sleep_until(began, flow.start, stop);
    let end = flow.stop.unwrap_or(end).min(end);
    let Some(stream) = open(nth, algorithm, began, end, stop)? else {
        return Ok(());
    };
    let mut sender = Sender { stream, began, end, stop, data: vec![0x62; CHUNK] };
    match flow.traffic {
        Traffic::Bulk | Traffic::RequestResponse { .. } | Traffic::Objects(_) => sender.write_until(end),
        Traffic::Size(bytes) => sender.write_bytes(bytes),
        Traffic::OnOff { on, off } => sender.write_spells(flow.start, on, off),
        Traffic::Rate { rate, tick } => sender.write_rate(flow.start, rate.bytes_in(tick), tick),
    }
    sleep_until(began, end, stop);
    abort_on_close(&sender.stream).map_err(|error| format!("flow {nth}: SO_LINGER: {error}"))
}

/// A connection with this congestion control; `None` if the path let none through before the end.
fn open(nth: usize, algorithm: &str, began: u64, end: Time, stop: &AtomicBool) -> Result<Option<TcpStream>, String> {
    let address = SockaddrIn::from(SocketAddrV4::new(RECEIVER, PORT + nth as u16));
    while Time::nanos(now_ns() - began) < end && !stop.load(Ordering::Relaxed) {
        let fault = |what: &str, error: nix::Error| format!("flow {nth}: {what}: {error}");
        let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
            .map_err(|error| fault("no socket", error))?;
        // A SYN that is lost must not outlast the run.
        let patience = nix::sys::time::TimeVal::new(1, 0);
        setsockopt(&socket, sockopt::SendTimeout, &patience).map_err(|error| fault("SO_SNDTIMEO", error))?;
        setsockopt(&socket, sockopt::TcpCongestion, &OsString::from(algorithm))
            .map_err(|error| fault(&format!("congestion control {algorithm}"), error))?;
        match connect(socket.as_raw_fd(), &address) {
            Ok(()) => {
                let stream = TcpStream::from(socket);
                stream.set_write_timeout(Some(PATIENCE)).map_err(|error| format!("flow {nth}: {error}"))?;
                return Ok(Some(stream));
            }
            Err(_) => thread::sleep(Duration::from_millis(1)), // its receiver does not listen yet
        }
    }
    Ok(None)
}

fn sleep_until(began: u64, at: Time, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left = at.since(Time::nanos(now_ns() - began));
        if left == Span::ZERO {
            return;
        }
        thread::sleep(Duration::from_nanos(left.as_nanos()).min(PATIENCE));
    }
}

impl Sender<'_> {
    fn now(&self) -> Time {
        Time::nanos(now_ns() - self.began)
    }

    /// Writes up to `bytes`; how many went.
    fn write(&mut self, bytes: usize) -> usize {
        let chunk = bytes.min(self.data.len());
        match self.stream.write(&self.data[..chunk]) {
            Ok(written) => written,
            Err(error) if is_late(&error) => 0,
            Err(_) => {
                self.end = Time::ZERO; // the receiver is gone
                0
            }
        }
    }

    fn goes_on(&self, until: Time) -> bool {
        !self.stop.load(Ordering::Relaxed) && self.now() < until.min(self.end)
    }

    fn write_until(&mut self, until: Time) {
        while self.goes_on(until) {
            self.write(CHUNK);
        }
    }

    fn write_bytes(&mut self, bytes: u64) {
        let mut left = bytes;
        while left > 0 && self.goes_on(self.end) {
            left -= self.write(usize::try_from(left).unwrap_or(CHUNK)) as u64;
        }
    }

    fn write_spells(&mut self, start: Time, on: Span, off: Span) {
        let mut at = start;
        while self.goes_on(self.end) {
            self.write_until(at + on);
            at = at + on + off;
            sleep_until(self.began, at.min(self.end), self.stop);
        }
    }

    fn write_rate(&mut self, start: Time, bytes: u64, tick: Span) {
        let mut at = start;
        while self.goes_on(self.end) {
            self.write_bytes(bytes);
            at += tick.max(Span::micros(100));
            sleep_until(self.began, at.min(self.end), self.stop);
        }
    }
}
