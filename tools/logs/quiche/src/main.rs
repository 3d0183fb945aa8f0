//! Sends over a real path with quiche, and writes quiche's own qlog, for `bbrlab conform --log`.
//! Usage: `record-quiche receive ADDRESS` at one end, `record-quiche send ADDRESS CONTROLLER FILE [SECONDS]` at the other.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![expect(clippy::disallowed_methods, reason = "it sends in real time")]

use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use quiche::{Config, Connection, ConnectionId, PROTOCOL_VERSION, QlogLevel, RecvInfo, SendInfo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// An error, which ends the program.
type Fault = Box<dyn std::error::Error>;

/// Largest UDP payload, in bytes: fits into an MTU of 1500.
const PAYLOAD_MAX: usize = 1_472;
/// The client's first bidirectional stream.
const STREAM: u64 = 0;
/// Flow-control limits, in bytes: never the bottleneck.
const CREDIT: u64 = 1 << 28;
/// Bytes that wait in the stack beyond what it has sent, at least: several windows.
const BACKLOG: u64 = 1 << 20;
/// Time for which data is sent, unless another is given.
const SPAN: Duration = Duration::from_secs(4);
/// Bytes handed to the stack at a time.
const CHUNK: usize = 1 << 16;
/// Bytes of the sockets' buffers, as far as the kernel allows.
const SOCKET_BUFFER: usize = 4 << 20;

fn main() -> Result<(), Fault> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match *words.as_slice() {
        ["receive", address] => receive(address.parse()?),
        ["send", address, controller, file] => send(address.parse()?, controller, file, SPAN),
        ["send", address, controller, file, seconds] => {
            send(address.parse()?, controller, file, Duration::from_secs(seconds.parse()?))
        }
        _ => Err("usage: record-quiche receive ADDRESS | send ADDRESS CONTROLLER FILE [SECONDS]".into()),
    }
}

/// Settings of both ends.
fn config() -> Result<Config, Fault> {
    let mut config = Config::new(PROTOCOL_VERSION)?;
    config.set_application_protos(&[b"bbrlab-record"])?;
    config.set_max_idle_timeout(10_000);
    config.set_max_recv_udp_payload_size(PAYLOAD_MAX);
    config.set_max_send_udp_payload_size(PAYLOAD_MAX);
    config.set_initial_max_data(CREDIT);
    config.set_max_connection_window(CREDIT);
    config.set_max_stream_window(CREDIT);
    config.set_initial_max_stream_data_bidi_local(CREDIT);
    config.set_initial_max_stream_data_bidi_remote(CREDIT);
    config.set_initial_max_streams_bidi(1);
    config.verify_peer(false);
    Ok(config)
}

/// A connection on its socket. A packet that is not due yet waits.
struct Driver {
    connection: Connection,
    socket: UdpSocket,
    waiting: Option<(Vec<u8>, SendInfo)>,
    buffer: Vec<u8>,
}

impl Driver {
    fn new(connection: Connection, socket: UdpSocket) -> Self {
        Self { connection, socket, waiting: None, buffer: vec![0; 1 << 16] }
    }

    /// Sends what is due, waits for a packet or a time, and receives what has arrived.
    fn turn(&mut self) -> Result<(), Fault> {
        self.flush()?;
        let release = self.waiting.as_ref().map(|(_, info)| info.at.saturating_duration_since(Instant::now()));
        let wait =
            [release, self.connection.timeout()].into_iter().flatten().min().unwrap_or(Duration::from_millis(100));
        let limit = Timespec { tv_sec: i64::try_from(wait.as_secs())?, tv_nsec: wait.subsec_nanos().into() };
        poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&limit))?;
        let to = self.socket.local_addr()?;
        loop {
            match self.socket.recv_from(&mut self.buffer) {
                // A packet that the stack refuses is dropped, as any other.
                Ok((length, from)) => drop(self.connection.recv(&mut self.buffer[..length], RecvInfo { from, to })),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        if self.connection.timeout().is_some_and(|left| left.is_zero()) {
            self.connection.on_timeout();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Fault> {
        loop {
            if self.waiting.is_none() {
                let mut packet = vec![0; PAYLOAD_MAX];
                match self.connection.send(&mut packet) {
                    Ok((length, info)) => {
                        packet.truncate(length);
                        self.waiting = Some((packet, info));
                    }
                    Err(quiche::Error::Done) => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
            let Some((packet, info)) = self.waiting.take_if(|(_, info)| info.at <= Instant::now()) else {
                return Ok(());
            };
            match self.socket.send_to(&packet, info.to) {
                Ok(_) => {}
                // A full socket buffer is a full queue: the packet is lost.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn socket(at: SocketAddr) -> Result<UdpSocket, Fault> {
    let socket = UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER)?;
    rustix::net::sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER)?;
    Ok(socket)
}

/// A connection identifier from the clock: there is one connection per process.
fn identifier() -> Result<ConnectionId<'static>, Fault> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(ConnectionId::from_vec(now.as_nanos().to_be_bytes().to_vec()))
}

/// Accepts one connection, and counts the bytes of its stream.
fn receive(at: SocketAddr) -> Result<(), Fault> {
    let mut config = config()?;
    let directory = std::env::temp_dir().join(format!("record-quiche-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let named = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    std::fs::write(path("cert.pem"), named.cert.pem())?;
    std::fs::write(path("key.pem"), named.signing_key.serialize_pem())?;
    let loaded = config
        .load_cert_chain_from_pem_file(&path("cert.pem"))
        .and_then(|()| config.load_priv_key_from_pem_file(&path("key.pem")));
    std::fs::remove_dir_all(&directory)?;
    loaded?;

    let socket = socket(at)?;
    println!("receives at {}", socket.local_addr()?);
    poll(&mut [PollFd::new(&socket, PollFlags::IN)], None)?;
    let (_, from) = socket.peek_from(&mut [0; 1])?;
    let connection = quiche::accept(&identifier()?, None, socket.local_addr()?, from, &mut config)?;
    let mut driver = Driver::new(connection, socket);
    let mut received = 0_usize;
    let mut chunk = vec![0; CHUNK];
    let (mut first, mut last) = (None, Instant::now());
    while !driver.connection.is_closed() {
        driver.turn()?;
        while let Ok((bytes, _)) = driver.connection.stream_recv(STREAM, &mut chunk) {
            received += bytes;
            last = Instant::now();
            first = first.or(Some(last));
        }
    }
    let spent_s = first.map_or(0.0, |first| last.saturating_duration_since(first).as_secs_f64());
    println!("{received} bytes in {spent_s:.3} s, {:.2} Mbit/s", received as f64 * 8e-6 / spent_s);
    Ok(())
}

/// Sends on one stream for this time, and logs the connection.
fn send(to: SocketAddr, controller: &str, file: &str, span: Duration) -> Result<(), Fault> {
    let mut config = config()?;
    config.set_cc_algorithm_name(controller).map_err(|_| format!("{controller} is no controller of quiche"))?;
    config.enable_pacing(true);
    let any = SocketAddr::new(if to.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() }, 0);
    let socket = socket(any)?;
    socket.connect(to)?;
    let mut connection = quiche::connect(Some("localhost"), &identifier()?, socket.local_addr()?, to, &mut config)?;
    let log = BufWriter::new(File::create(file)?);
    let title = format!("quiche 0.30.0, {controller}");
    connection.set_qlog_with_level(Box::new(log), title, String::new(), QlogLevel::Extra);
    let mut driver = Driver::new(connection, socket);
    let zeros = vec![0; CHUNK];
    let mut accepted = 0;
    let begun = Instant::now();
    while !driver.connection.is_closed() {
        while driver.connection.is_established() && accepted < driver.connection.stats().sent_bytes + BACKLOG {
            match driver.connection.stream_send(STREAM, &zeros, false) {
                Ok(0) | Err(quiche::Error::Done) => break,
                Ok(bytes) => accepted += bytes as u64,
                Err(error) => return Err(error.into()),
            }
        }
        driver.turn()?;
        if begun.elapsed() >= span && driver.connection.local_error().is_none() {
            let seen = driver.connection.stats();
            println!("{} of {} packets lost", seen.lost, seen.sent);
            driver.connection.close(true, 0, b"done")?;
        }
    }
    if driver.connection.is_timed_out() { Err("the connection timed out".into()) } else { Ok(()) }
}
