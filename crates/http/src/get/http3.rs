//! An HTTP/3 connection on QUIC, with its own endpoint.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::future::poll_fn;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bbrlab_quic::s2n::Named;
use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::{Code, ConnectionError, StreamError};
use h3::quic::ConnectionErrorIncoming;
use hyper::{Request, Response};
use s2n_quic::Client;
use s2n_quic::client::Connect;
use s2n_quic::connection::{Error, Handle};
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::rustls as s2n_tls;
use tokio::time::timeout;

use super::Rtt;
use super::trust::Trust;
use super::url::Url;
use crate::Failure;
use crate::serve::qlog::Logs;
use crate::serve::sender::{ConnectionStats, Watcher};

/// Flow-control window: the server may send this much unasked. 2.6 Gbit/s at 100 ms.
const WINDOW: u64 = 32 << 20;
/// Timeout of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum time for the final CONNECTION_CLOSE packet to be sent.
const GOODBYE: Duration = Duration::from_millis(50);
/// Default congestion control of this end.
const CC: &str = "bbr3";

/// Content of a response.
pub type Content = RequestStream<tachyon_quic::BidiStream<Bytes>, Bytes>;

/// The connection, and the endpoint that drives it.
pub struct Connection {
    requests: SendRequest<tachyon_quic::OpenStreams, Bytes>,
    handle: Handle,
    watched: Arc<ConnectionStats>,
    endpoint: Client,
    cc: String,
}

impl Connection {
    /// Opens a connection.
    pub async fn open(
        to: SocketAddr,
        url: &Url,
        trust: &Trust,
        cc: Option<&str>,
        patience: Duration,
        logs: Logs,
    ) -> Result<Self, Failure> {
        let cc = cc.unwrap_or(CC);
        let (tls, trust) = trust.tls().map_err(|error| error.to_string())?;
        let endpoint = endpoint(to, tls, cc, patience, logs)?;
        let connect = Connect::new(to).with_server_name(url.host());
        let connection =
            endpoint.connect(connect).await.map_err(|error| trust.wrong().unwrap_or_else(|| plain(&error)))?;
        let handle = connection.handle();
        let watched = handle.query_event_context(Arc::<ConnectionStats>::clone).map_err(|error| error.to_string())?;
        let (mut driver, requests) =
            h3::client::new(tachyon_quic::Connection::new(connection)).await.map_err(|error| ended(&error))?;
        tokio::spawn(async move { drop(poll_fn(|context| driver.poll_close(context)).await) });
        Ok(Self { requests, handle, watched, endpoint, cc: cc.to_owned() })
    }

    /// Sends a request, and waits for the head of the response.
    pub async fn ask(&mut self, request: Request<()>) -> Result<Response<Content>, Failure> {
        let mut stream = self.requests.send_request(request).await.map_err(|error| broken(&error))?;
        stream.finish().await.map_err(|error| broken(&error))?;
        let head = stream.recv_response().await.map_err(|error| broken(&error))?;
        Ok(head.map(|()| stream))
    }

    pub fn cc(&self) -> &str {
        &self.cc
    }

    /// RTT as measured at this end.
    pub fn rtt(&self) -> Rtt {
        let own = self.watched.sender(&self.cc);
        Rtt { min: own.rtt_min_ms, smoothed: own.rtt_ms }
    }

    /// Closes the connection, so that the server need not wait for a timeout.
    pub async fn close(mut self) {
        let code = s2n_quic::application::Error::new(Code::H3_NO_ERROR.value());
        self.handle.close(code.unwrap_or(s2n_quic::application::Error::UNKNOWN));
        let _ = timeout(GOODBYE, self.endpoint.wait_idle()).await;
    }
}

fn endpoint(
    to: SocketAddr,
    tls: rustls::ClientConfig,
    cc: &str,
    patience: Duration,
    logs: Logs,
) -> Result<Client, Failure> {
    let any: SocketAddr =
        if to.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let fault = |error: &dyn std::fmt::Display| format!("QUIC: {error}");
    let limits = Limits::new()
        .with_max_idle_timeout(patience)
        .and_then(|limits| limits.with_max_handshake_duration(HANDSHAKE.min(patience)))
        .and_then(|limits| limits.with_data_window(WINDOW))
        .and_then(|limits| limits.with_bidirectional_local_data_window(WINDOW))
        .map_err(|error| fault(&error))?;
    Client::builder()
        .with_limits(limits)
        .map_err(|error| fault(&error))?
        .with_tls(s2n_tls::Client::from(tls))
        .map_err(|error| fault(&error))?
        .with_io(any)
        .map_err(|error| fault(&error))?
        .with_event((Watcher, logs))
        .map_err(|error| fault(&error))?
        .with_congestion_controller(Named::new(cc).map_err(|error| format!("--cc: {error}"))?)
        .map_err(|error| fault(&error))?
        .start()
        .map_err(|error| fault(&error))
}

/// Next bytes of a response; none at its end.
pub async fn next(content: &mut Content) -> Result<Option<Bytes>, Failure> {
    match content.recv_data().await {
        Ok(bytes) => Ok(bytes.map(|mut bytes| bytes.copy_to_bytes(bytes.remaining()))),
        Err(error) => Err(broken(&error)),
    }
}

/// Describes a failed connection in plain terms.
fn plain(error: &Error) -> Failure {
    match error {
        Error::MaxHandshakeDurationExceeded { .. } | Error::IdleTimerExpired { .. } => {
            "no answer over QUIC; does a server listen there, on UDP?".to_owned()
        }
        Error::Transport { code, .. } if (0x100..0x200).contains(&code.as_u64()) => {
            format!("TLS negotiation with the server failed (alert {})", code.as_u64() - 0x100)
        }
        Error::Application { .. } | Error::Closed { .. } => "the server closed the connection".to_owned(),
        error => error.to_string(),
    }
}

fn ended(error: &ConnectionError) -> Failure {
    match error {
        ConnectionError::Timeout { .. } | ConnectionError::Remote { 0: ConnectionErrorIncoming::Timeout, .. } => {
            "the server stopped sending".to_owned()
        }
        ConnectionError::Remote { .. } => "the server closed the connection".to_owned(),
        error => error.to_string(),
    }
}

fn broken(error: &StreamError) -> Failure {
    match error {
        StreamError::ConnectionError { 0: error, .. } => ended(error),
        StreamError::RemoteTerminate { .. } => "the server aborted the response".to_owned(),
        StreamError::RemoteClosing { .. } => "the server closed the connection".to_owned(),
        error => error.to_string(),
    }
}
