//! `--qlog`: what happens on each QUIC connection, as two files of its own, written as it happens.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bbrlab_lab::export::qlog::{Dialect, Fate, Packet, Stream};
use s2n_quic::provider::event::events::{self, BbrState, EndpointType, PacketHeader};
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber};
use serde_json::{Map, Value};

use crate::Failure;

/// Logs of connections in one directory, or none. Its clones number their connections together.
#[derive(Clone, Debug, Default)]
pub struct Logs(Option<Arc<Directory>>);

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    connections: AtomicU64,
}

impl Logs {
    /// In this directory, which is made if it is not there.
    pub fn of(dir: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = dir else { return Ok(Self(None)) };
        fs::create_dir_all(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                format!("--qlog: {}: it is no directory; name one", path.display())
            }
            _ => format!("--qlog: {}: {error}", path.display()),
        })?;
        Ok(Self(Some(Arc::new(Directory { path: path.to_owned(), connections: AtomicU64::new(0) }))))
    }
}

/// Both files of one connection; no longer there once it has ended, or a disk is full.
#[derive(Debug, Default)]
pub struct Log {
    files: Vec<Stream<BufWriter<File>>>,
    begun: Duration,
}

impl Directory {
    fn begin(&self, vantage: &str) -> io::Result<Vec<Stream<BufWriter<File>>>> {
        let name = format!("{vantage}-{}", self.connections.fetch_add(1, Ordering::Relaxed));
        let file = |(end, dialect)| {
            let file = File::create(self.path.join(format!("{name}.{end}")))?;
            Stream::begin(BufWriter::new(file), dialect, &name, vantage)
        };
        [("sqlog", Dialect::Draft), ("qlog", Dialect::Qvis)].into_iter().map(file).collect()
    }
}

/// Says once what a log misses; the connection goes on.
fn warn(error: &io::Error) {
    let _ = writeln!(io::stderr(), "bbrlab: --qlog: {error}; a log ends here");
}

impl Log {
    fn write(&mut self, meta: &ConnectionMeta, what: impl Fn(&mut Stream<BufWriter<File>>, u64) -> io::Result<()>) {
        let since = meta.timestamp.duration_since_start().saturating_sub(self.begun);
        let t_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        if let Err(error) = self.files.iter_mut().try_for_each(|file| what(file, t_ns)) {
            warn(&error);
            self.files.clear();
        }
    }

    fn packet(&mut self, meta: &ConnectionMeta, fate: Fate, header: &PacketHeader, bytes: Option<u64>) {
        let (kind, number) = match header {
            PacketHeader::Initial { number, .. } => ("initial", *number),
            PacketHeader::Handshake { number, .. } => ("handshake", *number),
            PacketHeader::ZeroRtt { number, .. } => ("0RTT", *number),
            PacketHeader::OneRtt { number, .. } => ("1RTT", *number),
            _ => return,
        };
        self.write(meta, |file, t_ns| file.packet(t_ns, fate, Packet { kind, number, bytes }));
    }

    fn finish(&mut self) {
        if let Err(error) = self.files.drain(..).try_for_each(Stream::finish) {
            warn(&error);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.finish();
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
        let files = self.0.as_ref().map_or_else(|| Ok(Vec::new()), |dir| dir.begin(vantage));
        let files = files.unwrap_or_else(|error| {
            warn(&error);
            Vec::new()
        });
        Log { files, begun: meta.timestamp.duration_since_start() }
    }

    fn on_packet_sent(&mut self, log: &mut Log, meta: &ConnectionMeta, event: &events::PacketSent) {
        log.packet(meta, Fate::Sent, &event.packet_header, Some(event.packet_len as u64));
    }

    fn on_packet_received(&mut self, log: &mut Log, meta: &ConnectionMeta, event: &events::PacketReceived) {
        log.packet(meta, Fate::Received, &event.packet_header, Some(event.packet_len as u64));
    }

    fn on_packet_lost(&mut self, log: &mut Log, meta: &ConnectionMeta, event: &events::PacketLost) {
        // A probe for a larger MTU that is lost says nothing of congestion.
        if !event.is_mtu_probe {
            log.packet(meta, Fate::Lost, &event.packet_header, Some(event.bytes_lost.into()));
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
        log.finish();
    }
}
