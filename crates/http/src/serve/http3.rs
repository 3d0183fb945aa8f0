//! HTTP/3 on QUIC, by h3 over s2n-quic.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bbrlab_quic::s2n::Named;
use bytes::Bytes;
use h3::error::Code;
use h3::server::RequestResolver;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::header::{HeaderMap, TE};
use rustls::ServerConfig;
use s2n_quic::Server;
use s2n_quic::provider::endpoint_limits;
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::rustls as s2n_tls;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::certificate::Certificate;
use super::qlog::Logs;
use super::sender::{ConnectionStats, Watcher};
use super::shared::Shared;
use crate::{BoxError, Error, Result};

/// Maximum size of a request's head, bytes.
const HEAD_MAX: u64 = 16 * 1024;
/// Maximum concurrent requests per connection.
const REQUESTS: u64 = 32;
/// Unacknowledged bytes that a response may have in flight: 640 Mbit/s at 100 ms.
const SEND_BUFFER: u32 = 8 << 20;
/// Buffers of a socket, each way: a thousand first flights of ten packets, twice. Ours.
const SOCKET_BUFFER: usize = 32 << 20;
/// Maximum concurrent responses over all connections, until their data is in the stack.
pub const ANSWERS: usize = 128;
/// Concurrent handshakes above which clients must validate their address.
const HANDSHAKES: usize = 64;
/// Timeout of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// TLS configuration for QUIC, with HTTP/3 as the only protocol.
fn tls(certificate: Certificate) -> Result<ServerConfig> {
    let mut tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Error::Certificate)?
        .with_no_client_auth()
        .with_single_cert(certificate.chain, certificate.key)
        .map_err(Error::Certificate)?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    Ok(tls)
}

/// Socket at an address, with buffers as large as the kernel permits (`net.core.rmem_max`, `wmem_max`).
pub fn io(at: SocketAddr) -> std::io::Result<s2n_quic::provider::io::tokio::Provider> {
    let socket = s2n_quic::provider::io::tokio::Builder::default().with_receive_address(at)?;
    socket.with_recv_buffer_size(SOCKET_BUFFER)?.with_send_buffer_size(SOCKET_BUFFER)?.build()
}

/// Opens the listening socket.
pub fn listen(at: SocketAddr, cc: Named, certificate: Certificate, patience: Duration, logs: Logs) -> Result<Server> {
    let tls = s2n_tls::Server::from(tls(certificate)?);
    // The stack would report only that its endpoint did not start.
    drop(std::net::UdpSocket::bind(at).map_err(|source| Error::Listen { flag: "--quic", at, source })?);
    let fault = |source: BoxError| Error::Endpoint { at, source };
    let limits = Limits::new()
        .with_max_idle_timeout(patience)
        .and_then(|limits| limits.with_max_handshake_duration(HANDSHAKE))
        .and_then(|limits| limits.with_max_open_remote_bidirectional_streams(REQUESTS))
        .and_then(|limits| limits.with_max_send_buffer_size(SEND_BUFFER))
        .map_err(|error| fault(error.into()))?;
    let handshakes = endpoint_limits::Default::builder()
        .with_inflight_handshake_limit(HANDSHAKES)
        .and_then(|limits| limits.build())
        .map_err(|error| fault(error.into()))?;
    Server::builder()
        .with_limits(limits)
        .map_err(|error| fault(error.into()))?
        .with_endpoint_limits(handshakes)
        .map_err(|error| fault(error.into()))?
        .with_tls(tls)
        .map_err(|error| fault(error.into()))?
        .with_io(io(at).map_err(|error| fault(error.into()))?)
        .map_err(|error| fault(error.into()))?
        .with_event((Watcher::default(), logs))
        .map_err(|error| fault(error.into()))?
        .with_congestion_controller(cc)
        .map_err(|error| fault(error.into()))?
        .start()
        .map_err(|error| fault(error.into()))
}

/// Serves connections up to the limit; the others are closed with an error code.
pub async fn serve(mut server: Server, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(shared.connections));
    while let Some(connection) = server.accept().await {
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            connection.close(code(Code::H3_EXCESSIVE_LOAD));
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            serve_one(connection, &shared).await;
            drop(place);
        });
    }
}

fn code(code: Code) -> s2n_quic::application::Error {
    s2n_quic::application::Error::new(code.value()).unwrap_or(s2n_quic::application::Error::UNKNOWN)
}

async fn serve_one(connection: s2n_quic::Connection, shared: &Arc<Shared>) {
    let handle = connection.handle();
    let (Ok(from), Ok(watched)) = (handle.remote_addr(), handle.query_event_context(Arc::<ConnectionStats>::clone))
    else {
        return;
    };
    tokio::select! {
        () = requests(connection, from, shared, &watched) => {}
        () = watched.activity.stalls(shared.patience) => handle.close(code(Code::H3_EXCESSIVE_LOAD)),
    }
}

async fn requests(
    connection: s2n_quic::Connection,
    from: SocketAddr,
    shared: &Arc<Shared>,
    watched: &Arc<ConnectionStats>,
) {
    let connection = tachyon_quic::Connection::new(connection);
    let mut builder = h3::server::builder();
    builder.max_field_section_size(HEAD_MAX);
    let Ok(mut connection) = builder.build::<_, Bytes>(connection).await else { return };
    let mut answers = JoinSet::new();
    while let Ok(Some(resolver)) = connection.accept().await {
        answers.spawn(answer(resolver, from, Arc::clone(shared), Arc::clone(watched)));
        while answers.try_join_next().is_some() {}
    }
}

/// Returns true for fields that belong to a connection of HTTP/1.1.
/// spec: RFC 9114 §4.2: a message with them is malformed; TE may say "trailers".
fn is_malformed(headers: &HeaderMap) -> bool {
    let names = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    names.iter().any(|name| headers.contains_key(*name)) || headers.get_all(TE).iter().any(|value| value != "trailers")
}

type Resolver = RequestResolver<tachyon_quic::Connection, Bytes>;

/// Answers one request. If the client disconnects meanwhile, errors are ignored.
async fn answer(resolver: Resolver, from: SocketAddr, shared: Arc<Shared>, watched: Arc<ConnectionStats>) {
    let Ok((request, mut stream)) = resolver.resolve_request().await else { return };
    watched.activity.asked();
    if is_malformed(request.headers()) {
        stream.stop_sending(Code::H3_MESSAGE_ERROR);
        stream.stop_stream(Code::H3_MESSAGE_ERROR);
        return;
    }
    let Ok(_one) = shared.answers.acquire().await else { return };
    let (head, ()) = request.into_parts();
    let answer = shared.site.answer(&head, || watched.sender(&shared.cc)).await;
    shared.note(from, "h3", &head, answer.status());
    let (head, mut body) = answer.into_parts();
    let (mut stream, mut requested) = stream.split();
    requested.stop_sending(Code::H3_NO_ERROR); // the content of a request is ignored
    if stream.send_response(Response::from_parts(head, ())).await.is_err() {
        return;
    }
    while let Some(block) = body.frame().await {
        let Ok(Ok(block)) = block.map(|frame| frame.into_data()) else {
            return stream.stop_stream(Code::H3_INTERNAL_ERROR);
        };
        watched.held.room().await;
        watched.held.queued(block.len());
        if stream.send_data(block).await.is_err() {
            return;
        }
    }
    let _ = stream.finish().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_connection_make_a_message_malformed() {
        let of = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            is_malformed(&headers)
        };
        assert!(of("transfer-encoding", "chunked") && of("connection", "close") && of("te", "gzip"));
        assert!(!of("te", "trailers") && !of("accept", "*/*"));
    }
}
