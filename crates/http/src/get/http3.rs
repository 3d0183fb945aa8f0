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
use s2n_quic::connection::{self, Handle};
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::rustls as s2n_tls;
use tokio::time::timeout;

use super::Rtt;
use super::trust::Trust;
use super::url::Url;
use crate::serve::http3::io;
use crate::serve::qlog::Logs;
use crate::serve::sender::{ConnectionStats, Watcher};
use crate::{BoxError, Error, Result};

/// Flow-control window: the server may send this much unasked. 2.6 Gbit/s at 100 ms.
const WINDOW: u64 = 32 << 20;
/// Largest number of interim responses (1xx) before the response. Ours.
const INTERIM_MAX: usize = 16;
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
    ) -> Result<Self> {
        let cc = cc.unwrap_or(CC);
        let (tls, trust) = trust.tls().map_err(Error::Tls)?;
        let endpoint = endpoint(to, tls, cc, patience, logs)?;
        let connect = Connect::new(to).with_server_name(url.host());
        let connection = endpoint
            .connect(connect)
            .await
            .map_err(|error| trust.wrong().map_or_else(|| plain(error), Error::Untrusted))?;
        let handle = connection.handle();
        let watched =
            handle.query_event_context(Arc::<ConnectionStats>::clone).map_err(|error| Error::Stack(error.into()))?;
        let (mut driver, requests) = h3::client::new(tachyon_quic::Connection::new(connection)).await.map_err(ended)?;
        tokio::spawn(async move { drop(poll_fn(|context| driver.poll_close(context)).await) });
        Ok(Self { requests, handle, watched, endpoint, cc: cc.to_owned() })
    }

    /// Sends a request, and waits for the head of the response.
    pub async fn ask(&mut self, request: Request<()>) -> Result<Response<Content>> {
        finish(self.requests.send_request(request).await.map_err(broken)?).await
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

/// Ends a request, and waits for the head of the response.
async fn finish(mut stream: Content) -> Result<Response<Content>> {
    match stream.finish().await {
        // spec: RFC 9114 §4.1: a server may stop reading once it has answered, and the answer counts.
        Err(StreamError::RemoteTerminate { code, .. }) if code == Code::H3_NO_ERROR => {}
        done => done.map_err(broken)?,
    }
    let mut head = stream.recv_response().await.map_err(broken)?;
    // spec: RFC 9110 §15.2: a client ignores interim responses that it does not expect.
    for _ in 0..INTERIM_MAX {
        if !head.status().is_informational() {
            break;
        }
        head = stream.recv_response().await.map_err(broken)?;
    }
    Ok(head.map(|()| stream))
}

fn endpoint(to: SocketAddr, tls: rustls::ClientConfig, cc: &str, patience: Duration, logs: Logs) -> Result<Client> {
    let any: SocketAddr =
        if to.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let fault = |error: BoxError| Error::Quic(error);
    let limits = Limits::new()
        .with_max_idle_timeout(patience)
        .and_then(|limits| limits.with_max_handshake_duration(HANDSHAKE.min(patience)))
        .and_then(|limits| limits.with_data_window(WINDOW))
        .and_then(|limits| limits.with_bidirectional_local_data_window(WINDOW))
        .map_err(|error| fault(error.into()))?;
    Client::builder()
        .with_limits(limits)
        .map_err(|error| fault(error.into()))?
        .with_tls(s2n_tls::Client::from(tls))
        .map_err(|error| fault(error.into()))?
        .with_io(io(any).map_err(|error| fault(error.into()))?)
        .map_err(|error| fault(error.into()))?
        .with_event((Watcher::default(), logs))
        .map_err(|error| fault(error.into()))?
        .with_congestion_controller(Named::new(cc)?)
        .map_err(|error| fault(error.into()))?
        .start()
        .map_err(|error| fault(error.into()))
}

/// Next bytes of a response; none at its end.
pub async fn next(content: &mut Content) -> Result<Option<Bytes>> {
    match content.recv_data().await {
        Ok(bytes) => Ok(bytes.map(|mut bytes| bytes.copy_to_bytes(bytes.remaining()))),
        Err(error) => Err(broken(error)),
    }
}

/// Classifies a failed connection.
fn plain(error: connection::Error) -> Error {
    match error {
        connection::Error::MaxHandshakeDurationExceeded { .. } | connection::Error::IdleTimerExpired { .. } => {
            Error::NoQuicAnswer
        }
        connection::Error::Transport { code, .. } if (0x100..0x200).contains(&code.as_u64()) => {
            Error::Alert(code.as_u64() - 0x100)
        }
        connection::Error::Application { .. } | connection::Error::Closed { .. } => Error::Closed,
        error => Error::Stack(error.into()),
    }
}

fn ended(error: ConnectionError) -> Error {
    match error {
        ConnectionError::Timeout { .. } | ConnectionError::Remote { 0: ConnectionErrorIncoming::Timeout, .. } => {
            Error::Stalled
        }
        ConnectionError::Remote { .. } => Error::Closed,
        error => Error::Stack(error.into()),
    }
}

fn broken(error: StreamError) -> Error {
    match error {
        StreamError::ConnectionError { 0: error, .. } => ended(error),
        StreamError::RemoteTerminate { code, .. } => Error::Aborted(code.to_string()),
        StreamError::RemoteClosing { .. } => Error::Closed,
        error => Error::Stack(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Buf;
    use hyper::StatusCode;
    use s2n_quic::Server;

    use super::super::trust::Anchor;
    use super::*;
    use crate::serve::{certificate, http3};

    const ADDRESS: std::net::IpAddr = std::net::IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// Answers one request with interim responses before the final one.
    async fn answer(mut server: Server, interim: usize) -> Option<()> {
        let connection = tachyon_quic::Connection::new(server.accept().await?);
        let mut connection = h3::server::builder().build::<_, Bytes>(connection).await.ok()?;
        let (_, mut stream) = connection.accept().await.ok()??.resolve_request().await.ok()?;
        for _ in 0..interim {
            let early = Response::builder().status(StatusCode::EARLY_HINTS).header("link", "</a.css>; rel=preload");
            stream.send_response(early.body(()).ok()?).await.ok()?;
        }
        stream.send_response(Response::new(())).await.ok()?;
        stream.send_data(Bytes::from_static(b"content")).await.ok()?;
        stream.finish().await.ok()?;
        while connection.accept().await.is_ok_and(|request| request.is_some()) {}
        Some(())
    }

    async fn ask(interim: usize) -> (StatusCode, Vec<u8>) {
        let logs = || Logs::of(None).unwrap();
        let certificate = certificate::make(ADDRESS).unwrap();
        let named = Named::new("bbr3").unwrap();
        let server = http3::listen((ADDRESS, 0).into(), named, certificate, HANDSHAKE, logs()).unwrap();
        let at = server.local_addr().unwrap();
        tokio::spawn(answer(server, interim));
        let url = Url::parse(&format!("https://{at}/")).unwrap();
        let trust = Trust::new(Anchor::Anyone).unwrap();
        let mut connection = Connection::open(at, &url, &trust, None, HANDSHAKE, logs()).await.unwrap();
        let request = Request::get(url.uri().clone()).body(()).unwrap();
        let (head, mut content) = connection.ask(request).await.unwrap().into_parts();
        let mut bytes = Vec::new();
        while let Ok(Some(mut block)) = next(&mut content).await {
            bytes.extend_from_slice(&block.copy_to_bytes(block.remaining()));
        }
        (head.status, bytes)
    }

    /// Reads the head of a request, stops reading with H3_NO_ERROR, and then sends the response. quic-go's server does the same.
    async fn answer_unread(mut server: Server) -> Option<()> {
        let connection = tachyon_quic::Connection::new(server.accept().await?);
        let mut connection = h3::server::builder().build::<_, Bytes>(connection).await.ok()?;
        let (_, mut stream) = connection.accept().await.ok()??.resolve_request().await.ok()?;
        stream.stop_sending(Code::H3_NO_ERROR);
        stream.send_response(Response::new(())).await.ok()?;
        stream.send_data(Bytes::from_static(b"content")).await.ok()?;
        stream.finish().await.ok()?;
        while connection.accept().await.is_ok_and(|request| request.is_some()) {}
        Some(())
    }

    #[tokio::test]
    async fn a_server_may_stop_reading_before_it_answers() {
        let logs = || Logs::of(None).unwrap();
        let certificate = certificate::make(ADDRESS).unwrap();
        let server =
            http3::listen((ADDRESS, 0).into(), Named::new("bbr3").unwrap(), certificate, HANDSHAKE, logs()).unwrap();
        let at = server.local_addr().unwrap();
        tokio::spawn(answer_unread(server));
        let url = Url::parse(&format!("https://{at}/")).unwrap();
        let trust = Trust::new(Anchor::Anyone).unwrap();
        let mut connection = Connection::open(at, &url, &trust, None, HANDSHAKE, logs()).await.unwrap();
        let request = Request::get(url.uri().clone()).body(()).unwrap();
        let stream = connection.requests.send_request(request).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await; // the server has answered by now
        let (head, mut content) = finish(stream).await.unwrap().into_parts();
        let mut bytes = Vec::new();
        while let Some(block) = next(&mut content).await.unwrap() {
            bytes.extend_from_slice(&block);
        }
        assert_eq!((head.status, &bytes[..]), (StatusCode::OK, &b"content"[..]));
    }

    #[tokio::test]
    async fn interim_responses_are_skipped_up_to_a_limit() {
        for interim in [0, 1, INTERIM_MAX] {
            assert_eq!(ask(interim).await, (StatusCode::OK, b"content".to_vec()), "{interim}");
        }
        assert_eq!(ask(INTERIM_MAX + 1).await.0, StatusCode::EARLY_HINTS);
    }
}
