//! Sends over a real path with msquic, and writes its statistics as qlog: msquic writes none.
//! Usage: `record-msquic receive ADDRESS` at one end, `record-msquic send ADDRESS bbr|cubic FILE [SECONDS]` at the other.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![expect(clippy::disallowed_methods, reason = "it sends in real time")]

use std::ffi::c_void;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use msquic::ffi::QUIC_STATISTICS_V2;
use msquic::{
    Addr, BufferRef, CertificateFile, Configuration, Connection, ConnectionEvent, ConnectionRef,
    ConnectionShutdownFlags, Credential, CredentialConfig, CredentialFlags, Listener, ListenerEvent, Registration,
    RegistrationConfig, SendFlags, Settings, Status, Stream, StreamEvent, StreamOpenFlags, StreamRef, StreamStartFlags,
};

/// An error, which ends the program.
type Fault = Box<dyn std::error::Error>;

/// Protocol of both ends.
const ALPN: &str = "bbrlab-record";
/// Flow-control windows, in bytes: never the bottleneck. msquic accepts powers of two.
const WINDOW: u32 = 1 << 26;
/// Data of each send. It is never freed, so that the stack may read it at any time.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
/// Sends that wait in the stack at a time: 4 MiB, several windows.
const OUTSTANDING: usize = 64;
/// Interval between two samples of the statistics.
const EVERY: Duration = Duration::from_millis(10);
/// Time for which data is sent, unless another is given.
const SPAN: Duration = Duration::from_secs(4);
/// Time after which the search for the path's MTU has ended.
const SEARCH: Duration = Duration::from_secs(1);
/// Bytes of the headers of IPv4 and UDP.
const IP_UDP_HEADERS: u16 = 28;
/// Maximum time for the handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

fn main() -> Result<(), Fault> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match *words.as_slice() {
        ["receive", address] => receive(address.parse()?),
        ["send", address, controller, file] => send(address.parse()?, controller, file, SPAN),
        ["send", address, controller, file, seconds] => {
            send(address.parse()?, controller, file, Duration::from_secs(seconds.parse()?))
        }
        _ => Err("usage: record-msquic receive ADDRESS | send ADDRESS bbr|cubic FILE [SECONDS]".into()),
    }
}

fn settings() -> Settings {
    Settings::new()
        .set_IdleTimeoutMs(10_000)
        .set_StreamRecvWindowDefault(WINDOW)
        .set_ConnFlowControlWindow(WINDOW)
        .set_PeerUnidiStreamCount(1)
}

/// Bytes received, and the times of the first and the last.
#[derive(Clone, Copy, Default)]
struct Received {
    bytes: u64,
    span: Option<(Instant, Instant)>,
}

/// Accepts one connection, and counts the bytes of its stream.
fn receive(at: SocketAddr) -> Result<(), Fault> {
    let registration = Registration::new(&RegistrationConfig::default())?;
    let alpn = [BufferRef::from(ALPN)];
    let configuration = Arc::new(Configuration::open(&registration, &alpn, Some(&settings()))?);
    let directory = std::env::temp_dir().join(format!("record-msquic-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let named = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    std::fs::write(path("cert.pem"), named.cert.pem())?;
    std::fs::write(path("key.pem"), named.signing_key.serialize_pem())?;
    let file = CertificateFile::new(path("key.pem"), path("cert.pem"));
    let credential = CredentialConfig::new()
        .set_credential_flags(CredentialFlags::NO_CERTIFICATE_VALIDATION)
        .set_credential(Credential::CertificateFile(file));
    let loaded = configuration.load_credential(&credential);
    std::fs::remove_dir_all(&directory)?;
    loaded?;

    let received = Arc::new(Mutex::new(Received::default()));
    let (ended, end) = channel();
    let counted = Arc::clone(&received);
    let listener = Listener::open(&registration, move |_, event| {
        if let ListenerEvent::NewConnection { connection, .. } = event {
            let (counted, ended) = (Arc::clone(&counted), ended.clone());
            connection.set_callback_handler(move |connection, event| accept(&connection, &event, &counted, &ended));
            connection.set_configuration(&configuration)?;
        }
        Ok(())
    })?;
    listener.start(&alpn, Some(&Addr::from(at)))?;
    println!("receives at {at}");
    end.recv()?;
    let seen = *received.lock().map_err(|_| "a callback failed")?;
    let spent_s = seen.span.map_or(0.0, |(first, last)| last.saturating_duration_since(first).as_secs_f64());
    println!("{} bytes in {spent_s:.3} s, {:.2} Mbit/s", seen.bytes, seen.bytes as f64 * 8e-6 / spent_s);
    listener.stop();
    Ok(())
}

/// Handles an event of the receiver's connection.
fn accept(
    connection: &ConnectionRef,
    event: &ConnectionEvent,
    counted: &Arc<Mutex<Received>>,
    ended: &Sender<()>,
) -> Result<(), Status> {
    match event {
        ConnectionEvent::PeerStreamStarted { stream, .. } => {
            let counted = Arc::clone(counted);
            stream.set_callback_handler(move |stream: StreamRef, event: StreamEvent| {
                match event {
                    StreamEvent::Receive { total_buffer_length, .. } => {
                        if let Ok(mut seen) = counted.lock() {
                            let now = Instant::now();
                            seen.bytes += *total_buffer_length;
                            seen.span = Some((seen.span.map_or(now, |(first, _)| first), now));
                        }
                    }
                    // SAFETY: the last event of this stream, whose handle is the callback's own.
                    StreamEvent::ShutdownComplete { .. } => drop(unsafe { Stream::from_raw(stream.as_raw()) }),
                    _ => {}
                }
                Ok(())
            });
        }
        ConnectionEvent::ShutdownComplete { .. } => {
            // Closing the handle frees the callback, and what it holds.
            let ended = ended.clone();
            // SAFETY: the last event of this connection, whose handle is the callback's own.
            drop(unsafe { Connection::from_raw(connection.as_raw()) });
            let _ = ended.send(());
        }
        _ => {}
    }
    Ok(())
}

/// Hands the next data to the stack.
fn push(stream: &StreamRef) -> Result<(), Status> {
    let buffer: &'static [BufferRef; 1] = Box::leak(Box::new([BufferRef::from(ZEROS.as_slice())]));
    // SAFETY: the data and the reference to it are never freed.
    unsafe { stream.send(buffer, SendFlags::NONE, std::ptr::null::<c_void>()) }
}

/// Sends on one stream for this time, and logs the statistics.
fn send(to: SocketAddr, controller: &str, file: &str, span: Duration) -> Result<(), Fault> {
    let algorithm = match controller {
        "cubic" => msquic::ffi::QUIC_CONGESTION_CONTROL_ALGORITHM_QUIC_CONGESTION_CONTROL_ALGORITHM_CUBIC,
        "bbr" => msquic::ffi::QUIC_CONGESTION_CONTROL_ALGORITHM_QUIC_CONGESTION_CONTROL_ALGORITHM_BBR,
        _ => return Err(format!("{controller} is no controller of msquic; bbr or cubic").into()),
    };
    let registration = Registration::new(&RegistrationConfig::default())?;
    let alpn = [BufferRef::from(ALPN)];
    let settings = settings().set_CongestionControlAlgorithm(u16::try_from(algorithm)?).set_PacingEnabled();
    let configuration = Configuration::open(&registration, &alpn, Some(&settings))?;
    let credential = CredentialConfig::new_client().set_credential_flags(CredentialFlags::NO_CERTIFICATE_VALIDATION);
    configuration.load_credential(&credential)?;
    let (connected, connection_up) = channel();
    let connection = Connection::open(&registration, move |_: ConnectionRef, event: ConnectionEvent| {
        match event {
            ConnectionEvent::Connected { .. } => drop(connected.send(true)),
            ConnectionEvent::ShutdownComplete { .. } => drop(connected.send(false)),
            _ => {}
        }
        Ok(())
    })?;
    connection.start(&configuration, &to.ip().to_string(), to.port())?;
    if !connection_up.recv_timeout(HANDSHAKE_MAX)? {
        return Err("the handshake failed".into());
    }
    let stream = Stream::open(
        &connection,
        StreamOpenFlags::UNIDIRECTIONAL,
        |stream: StreamRef, event: StreamEvent| match event {
            StreamEvent::SendComplete { cancelled: false, .. } => push(&stream),
            _ => Ok(()),
        },
    )?;
    stream.start(StreamStartFlags::NONE)?;
    for _ in 0..OUTSTANDING {
        let buffer: &'static [BufferRef; 1] = Box::leak(Box::new([BufferRef::from(ZEROS.as_slice())]));
        // SAFETY: the data and the reference to it are never freed.
        unsafe { stream.send(buffer, SendFlags::NONE, std::ptr::null::<c_void>())? };
    }
    let last = record(&connection, controller, file, span)?;
    println!(
        "{} of {} packets lost, {} of them spuriously; least RTT {:.1} ms",
        last.SendSuspectedLostPackets,
        last.SendTotalPackets,
        last.SendSpuriousLostPackets,
        f64::from(last.MinRtt) / 1e3
    );
    connection.shutdown(ConnectionShutdownFlags::NONE, 0);
    connection_up.recv_timeout(HANDSHAKE_MAX)?;
    Ok(())
}

/// Samples the statistics for this time, as events of the recovery. Returns the last ones.
fn record(connection: &Connection, controller: &str, file: &str, span: Duration) -> Result<QUIC_STATISTICS_V2, Fault> {
    let mut log = BufWriter::new(File::create(file)?);
    writeln!(
        log,
        "\u{1e}{{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\"serialization_format\":\"application/qlog+json-seq\",\
         \"title\":\"msquic 2.5.1, {controller}\",\"trace\":{{\"common_fields\":{{\"time_format\":\"relative_to_epoch\"}},\
         \"vantage_point\":{{\"name\":\"msquic\",\"type\":\"client\"}}}}}}"
    )?;
    let begun = Instant::now();
    let (mut lost, mut has_size) = (0, false);
    loop {
        let seen = connection.get_stats_v2()?;
        let at_ms = begun.elapsed().as_secs_f64() * 1e3;
        if !has_size && begun.elapsed() >= SEARCH {
            has_size = true;
            writeln!(
                log,
                "\u{1e}{{\"time\":{at_ms:.4},\"name\":\"recovery:parameters_set\",\"data\":{{\"max_datagram_size\":{}}}}}",
                seen.SendPathMtu - IP_UDP_HEADERS
            )?;
        }
        for _ in lost..seen.SendSuspectedLostPackets {
            writeln!(log, "\u{1e}{{\"time\":{at_ms:.4},\"name\":\"recovery:packet_lost\",\"data\":{{}}}}")?;
        }
        lost = lost.max(seen.SendSuspectedLostPackets);
        writeln!(
            log,
            "\u{1e}{{\"time\":{at_ms:.4},\"name\":\"recovery:metrics_updated\",\"data\":{{\"min_rtt\":{:.3},\"smoothed_rtt\":{:.3},\
             \"congestion_window\":{}}}}}",
            f64::from(seen.MinRtt) / 1e3,
            f64::from(seen.Rtt) / 1e3,
            seen.SendCongestionWindow
        )?;
        if begun.elapsed() >= span {
            log.flush()?;
            return Ok(seen);
        }
        std::thread::sleep(EVERY);
    }
}
