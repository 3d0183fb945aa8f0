//! `--qlog`: two log files for each QUIC connection, written as events occur.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bbrlab_report::export::qlog::{Dialect, Packet, PacketEvent, Stream};
use s2n_quic::provider::event::events::{self, BbrState, EndpointType, PacketHeader};
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber};
use serde_json::{Map, Value};

use crate::{Error, Result};

/// Logs of connections in one directory, or none. Clones number their connections together.
#[derive(Clone, Debug, Default)]
pub struct Logs(Option<Arc<Directory>>);

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    connections: AtomicU64,
}

impl Logs {
    /// Creates the directory if necessary, and logs there.
    pub fn of(dir: Option<&Path>) -> Result<Self> {
        let Some(path) = dir else { return Ok(Self(None)) };
        fs::create_dir_all(path).map_err(|source| Error::Qlog { path: path.to_owned(), source })?;
        Ok(Self(Some(Arc::new(Directory { path: path.to_owned(), connections: AtomicU64::new(0) }))))
    }
}

type Files = Vec<Stream<BufWriter<File>>>;

/// Open logs, in the order of their creation.
static OPEN: Mutex<BTreeMap<u64, Arc<Mutex<Files>>>> = Mutex::new(BTreeMap::new());
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Locks a mutex, even a poisoned one: the data is complete up to the last event.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Finishes all logs before the process exits; none can start from then on.
pub fn finish_all() {
    let open = held(&OPEN);
    open.values().for_each(|files| finish(files));
    // Never unlocked: a log that began now would stay incomplete.
    std::mem::forget(open);
}

fn finish(files: &Mutex<Files>) {
    if let Err(error) = held(files).drain(..).try_for_each(Stream::finish) {
        warn(&error);
    }
}

/// Both files of one connection; gone once the connection has ended or a disk is full.
#[derive(Debug)]
pub struct Log {
    files: Arc<Mutex<Files>>,
    nth: u64,
    begun: Duration,
    /// A packet received, until its frames are known.
    received: Option<Received>,
}

/// A packet received, with the ranges that it acknowledges.
#[derive(Debug)]
struct Received {
    t_ns: u64,
    kind: &'static str,
    number: u64,
    bytes: u64,
    acked: Vec<[u64; 2]>,
}

impl Directory {
    /// Creates the next log; numbers used by earlier logs are skipped.
    fn begin(&self, vantage: &str) -> io::Result<Files> {
        loop {
            let name = format!("{vantage}-{}", self.connections.fetch_add(1, Ordering::Relaxed));
            let path = |end| self.path.join(format!("{name}.{end}"));
            let draft = match File::create_new(path("sqlog")) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            let qvis = match File::create_new(path("qlog")) {
                Err(error) => {
                    fs::remove_file(path("sqlog"))?;
                    if error.kind() == io::ErrorKind::AlreadyExists {
                        continue;
                    }
                    return Err(error);
                }
                Ok(file) => file,
            };
            let begin = |(file, dialect)| Stream::begin(BufWriter::new(file), dialect, &name, vantage);
            return [(draft, Dialect::Draft), (qvis, Dialect::Qvis)].into_iter().map(begin).collect();
        }
    }
}

/// Warns once about an incomplete log; the connection continues.
fn warn(error: &io::Error) {
    let _ = writeln!(io::stderr(), "bbrlab: --qlog: {error}; a log ends here");
}

impl Log {
    fn since_ns(&self, meta: &ConnectionMeta) -> u64 {
        let since = meta.timestamp.duration_since_start().saturating_sub(self.begun);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    fn write(&mut self, meta: &ConnectionMeta, what: impl Fn(&mut Stream<BufWriter<File>>, u64) -> io::Result<()>) {
        self.write_received();
        let t_ns = self.since_ns(meta);
        self.write_at(t_ns, what);
    }

    /// Writes the packet received whose frames are complete.
    fn write_received(&mut self) {
        if let Some(Received { t_ns, kind, number, bytes, acked }) = self.received.take() {
            let packet = Packet { kind, number, bytes: Some(bytes), acked: &acked };
            self.write_at(t_ns, |file, t_ns| file.packet(t_ns, PacketEvent::Received, packet));
        }
    }

    fn write_at(&self, t_ns: u64, what: impl Fn(&mut Stream<BufWriter<File>>, u64) -> io::Result<()>) {
        let mut files = held(&self.files);
        if let Err(error) = files.iter_mut().try_for_each(|file| what(file, t_ns)) {
            warn(&error);
            files.clear();
        }
    }

    fn packet(&mut self, meta: &ConnectionMeta, fate: PacketEvent, header: &PacketHeader, bytes: u64) {
        let Some((kind, number)) = kind_and_number(header) else { return };
        let packet = Packet { kind, number, bytes: Some(bytes), acked: &[] };
        self.write(meta, |file, t_ns| file.packet(t_ns, fate, packet));
    }
}

fn kind_and_number(header: &PacketHeader) -> Option<(&'static str, u64)> {
    Some(match header {
        PacketHeader::Initial { number, .. } => ("initial", *number),
        PacketHeader::Handshake { number, .. } => ("handshake", *number),
        PacketHeader::ZeroRtt { number, .. } => ("0RTT", *number),
        PacketHeader::OneRtt { number, .. } => ("1RTT", *number),
        _ => return None,
    })
}

impl Drop for Log {
    fn drop(&mut self) {
        self.write_received();
        finish(&self.files);
        held(&OPEN).remove(&self.nth);
    }
}

const fn state(state: &BbrState) -> &'static str {
    match state {
        BbrState::Startup { .. } => "startup",
        BbrState::Drain { .. } => "drain",
        BbrState::ProbeBwDown { .. } => "probe_bw_down",
        BbrState::ProbeBwCruise { .. } => "probe_bw_cruise",
        BbrState::ProbeBwRefill { .. } => "probe_bw_refill",
        BbrState::ProbeBwUp { .. } => "probe_bw_up",
        BbrState::ProbeRtt { .. } => "probe_rtt",
        _ => "unknown",
    }
}

impl Subscriber for Logs {
    type ConnectionContext = Log;

    fn create_connection_context(&mut self, meta: &ConnectionMeta, _: &ConnectionInfo) -> Log {
        let vantage = if matches!(meta.endpoint_type, EndpointType::Client { .. }) { "client" } else { "server" };
        let begun = meta.timestamp.duration_since_start();
        let nth = BEGUN.fetch_add(1, Ordering::Relaxed);
        let Some(dir) = &self.0 else { return Log { files: Arc::default(), nth, begun, received: None } };
        let mut open = held(&OPEN);
        let files = dir.begin(vantage).unwrap_or_else(|error| {
            warn(&error);
            Vec::new()
        });
        let files = Arc::new(Mutex::new(files));
        open.insert(nth, Arc::clone(&files));
        Log { files, nth, begun, received: None }
    }

    fn on_packet_sent(&mut self, log: &mut Log, meta: &ConnectionMeta, event: &events::PacketSent) {
        log.packet(meta, PacketEvent::Sent, &event.packet_header, event.packet_len as u64);
    }

    fn on_packet_received(&mut self, log: &mut Log, meta: &ConnectionMeta, event: &events::PacketReceived) {
        log.write_received();
        let t_ns = log.since_ns(meta);
        log.received = kind_and_number(&event.packet_header).map(|(kind, number)| {
            let bytes = event.packet_len as u64;
            Received { t_ns, kind, number, bytes, acked: Vec::new() }
        });
    }

    fn on_ack_range_received(&mut self, log: &mut Log, _: &ConnectionMeta, event: &events::AckRangeReceived) {
        if let Some(received) = &mut log.received {
            received.acked.push([*event.ack_range.start(), *event.ack_range.end()]);
        }
    }

    fn on_packet_lost(&mut self, log: &mut Log, meta: &ConnectionMeta, event: &events::PacketLost) {
        // The loss of an MTU probe is no sign of congestion.
        if !event.is_mtu_probe {
            log.packet(meta, PacketEvent::Lost, &event.packet_header, event.bytes_lost.into());
        }
    }

    fn on_recovery_metrics(&mut self, log: &mut Log, meta: &ConnectionMeta, event: &events::RecoveryMetrics) {
        let ms = |span: Duration| Value::from(span.as_secs_f64() * 1e3);
        log.write(meta, |file, t_ns| {
            let metrics = [
                ("min_rtt", ms(event.min_rtt)),
                ("smoothed_rtt", ms(event.smoothed_rtt)),
                ("latest_rtt", ms(event.latest_rtt)),
                ("rtt_variance", ms(event.rtt_variance)),
                ("pto_count", event.pto_count.into()),
                ("congestion_window", event.congestion_window.into()),
                ("bytes_in_flight", event.bytes_in_flight.into()),
            ];
            file.metrics(t_ns, metrics.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
        });
    }

    fn on_pacing_rate_updated(&mut self, log: &mut Log, meta: &ConnectionMeta, event: &events::PacingRateUpdated) {
        log.write(meta, |file, t_ns| {
            let rate = event.bytes_per_second.saturating_mul(8);
            file.metrics(t_ns, Map::from_iter([("pacing_rate".to_owned(), rate.into())]))
        });
    }

    fn on_bbr_state_changed(&mut self, log: &mut Log, meta: &ConnectionMeta, event: &events::BbrStateChanged) {
        log.write(meta, |file, t_ns| file.state(t_ns, state(&event.state)));
    }

    fn on_mtu_updated(&mut self, log: &mut Log, meta: &ConnectionMeta, event: &events::MtuUpdated) {
        log.write(meta, |file, t_ns| file.max_datagram_size(t_ns, event.mtu.into()));
    }

    fn on_connection_closed(&mut self, log: &mut Log, _: &ConnectionMeta, _: &events::ConnectionClosed) {
        log.write_received();
        finish(&log.files);
    }
}
