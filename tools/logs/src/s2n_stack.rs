//! s2n-quic's BBR as a client that sends; its events become qlog.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;

use s2n_quic::provider::congestion_controller::Bbr;
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber, events};
use s2n_quic::{Client, Server, client::Connect};

use crate::Fault;

/// Minimum interval between metrics; changes in between are reflected in the next ones, but not logged.
const EVERY_MS: f64 = 1.0;

/// Writes events as qlog.
struct Qlog {
    to: BufWriter<File>,
    since: Instant,
    last_ms: f64,
    pacing_bps: f64,
    pacing_gain: f32,
}

impl Qlog {
    fn new(file: &str) -> Result<Self, Fault> {
        let mut to = BufWriter::new(File::create(file)?);
        writeln!(
            to,
            "\u{1e}{{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\"serialization_format\":\"application/qlog+json-seq\",\
             \"title\":\"s2n-quic 1.91.0, Bbr, loopback\",\"trace\":{{\"common_fields\":{{\"time_format\":\"relative_to_epoch\"}},\
             \"vantage_point\":{{\"name\":\"s2n-quic\",\"type\":\"client\"}}}}}}"
        )?;
        Ok(Self { to, since: Instant::now(), last_ms: -1.0, pacing_bps: 0.0, pacing_gain: 0.0 })
    }

    fn now_ms(&self) -> f64 {
        self.since.elapsed().as_secs_f64() * 1e3
    }

    fn write(&mut self, name: &str, data: &str) {
        let now = self.now_ms();
        // A full disk is visible from the file's length.
        let _ = writeln!(self.to, "\u{1e}{{\"time\":{now:.4},\"name\":\"{name}\",\"data\":{{{data}}}}}");
    }
}

impl Subscriber for Qlog {
    type ConnectionContext = ();

    fn create_connection_context(&mut self, _: &ConnectionMeta, _: &ConnectionInfo) {}

    fn on_recovery_metrics(&mut self, _: &mut (), _: &ConnectionMeta, event: &events::RecoveryMetrics) {
        if self.now_ms() < self.last_ms + EVERY_MS {
            return;
        }
        self.last_ms = self.now_ms();
        let ms = |span: std::time::Duration| span.as_secs_f64() * 1e3;
        let mut data = format!(
            "\"min_rtt\":{:.4},\"smoothed_rtt\":{:.4},\"latest_rtt\":{:.4},\"congestion_window\":{},\"bytes_in_flight\":{}",
            ms(event.min_rtt),
            ms(event.smoothed_rtt),
            ms(event.latest_rtt),
            event.congestion_window,
            event.bytes_in_flight
        );
        if self.pacing_bps > 0.0 {
            data += &format!(",\"pacing_rate\":{:.0},\"pacing_gain\":{}", self.pacing_bps, self.pacing_gain);
        }
        self.write("recovery:metrics_updated", &data);
    }

    fn on_packet_lost(&mut self, _: &mut (), _: &ConnectionMeta, event: &events::PacketLost) {
        // A lost MTU probe is no loss of data.
        if !event.is_mtu_probe {
            self.write("recovery:packet_lost", &format!("\"bytes\":{}", event.bytes_lost));
        }
    }

    fn on_bbr_state_changed(&mut self, _: &mut (), _: &ConnectionMeta, event: &events::BbrStateChanged) {
        let text = format!("{:?}", event.state);
        let name: String = text.chars().take_while(char::is_ascii_alphanumeric).collect();
        self.write("recovery:congestion_state_updated", &format!("\"new\":\"{name}\""));
        self.last_ms = -1.0; // the new state's first metrics are logged
    }

    fn on_pacing_rate_updated(&mut self, _: &mut (), _: &ConnectionMeta, event: &events::PacingRateUpdated) {
        self.pacing_bps = event.bytes_per_second as f64 * 8.0;
        self.pacing_gain = event.pacing_gain;
    }
}

/// Sends this number of bytes from a client to a server in the same process.
pub async fn record(file: &str, bytes: usize) -> Result<(), Fault> {
    let named = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let (cert, key) = (named.cert.pem(), named.signing_key.serialize_pem());
    let mut server =
        Server::builder().with_tls((cert.as_str(), key.as_str()))?.with_io("127.0.0.1:0")?.start().map_err(|e| e.to_string())?;
    let address = server.local_addr()?;
    let receiver = tokio::spawn(async move {
        let mut received = 0;
        if let Some(mut connection) = server.accept().await {
            if let Ok(Some(mut stream)) = connection.accept_receive_stream().await {
                while let Ok(Some(chunk)) = stream.receive().await {
                    received += chunk.len();
                }
            }
        }
        received
    });
    let client = Client::builder()
        .with_tls(cert.as_str())?
        .with_io("127.0.0.1:0")?
        .with_congestion_controller(Bbr::default())?
        .with_event(Qlog::new(file)?)?
        .start()
        .map_err(|e| e.to_string())?;
    let mut connection = client.connect(Connect::new(address).with_server_name("localhost")).await?;
    let mut stream = connection.open_send_stream().await?;
    for _ in 0..bytes >> 16 {
        stream.send(vec![0_u8; 1 << 16].into()).await?;
    }
    stream.close().await?;
    println!("{} bytes arrived", receiver.await?);
    Ok(())
}
