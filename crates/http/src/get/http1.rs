//! An HTTP/1.1 connection on TCP.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpSocket;

use super::Rtt;
use crate::error::innermost;
use crate::serve::{sender, tcp};
use crate::{Error, Result};

/// The connection, and a second handle on its socket for kernel statistics.
pub struct Connection {
    requests: SendRequest<Empty<Bytes>>,
    socket: OwnedFd,
    cc: String,
}

impl Connection {
    /// Opens a connection.
    pub async fn open(to: SocketAddr, cc: Option<&str>) -> Result<Self> {
        let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let socket = socket.map_err(Error::Socket)?;
        if let Some(cc) = cc {
            tcp::control(&socket, "--cc", cc)?;
        }
        let stream = socket.connect(to).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => Error::Refused,
            _ => Error::Socket(error),
        })?;
        let socket = stream.as_fd().try_clone_to_owned().map_err(Error::Socket)?;
        let cc = tcp::controlled(&socket);
        let (requests, connection) = handshake(TokioIo::new(stream)).await.map_err(plain)?;
        tokio::spawn(connection); // the request notices its end
        Ok(Self { requests, socket, cc })
    }

    /// Sends a request, and waits for the head of the response.
    pub async fn ask(&mut self, request: Request<()>) -> Result<Response<Incoming>> {
        self.requests.ready().await.map_err(plain)?;
        let mut request = request.map(|()| Empty::new());
        // In HTTP/1.1 the authority is in a header of its own.
        let uri = request.uri().clone();
        if let Some(host) = uri.authority().and_then(|host| host.as_str().parse().ok()) {
            request.headers_mut().insert(hyper::header::HOST, host);
        }
        if let Some(path) = uri.path_and_query().and_then(|path| path.as_str().parse().ok()) {
            *request.uri_mut() = path;
        }
        self.requests.send_request(request).await.map_err(plain)
    }

    pub fn cc(&self) -> &str {
        &self.cc
    }

    /// RTT as measured at this end.
    pub fn rtt(&self) -> Rtt {
        let own = sender::of_tcp(&self.socket, &self.cc);
        Rtt { min: own.rtt_min_ms, smoothed: own.rtt_ms }
    }
}

/// Next bytes of a response; none at its end.
pub async fn next(content: &mut Incoming) -> Result<Option<Bytes>> {
    loop {
        match content.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(plain(error)),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}

/// Classifies an error.
fn plain(error: hyper::Error) -> Error {
    let kind = innermost(&error).downcast_ref::<io::Error>().map(io::Error::kind);
    if error.is_incomplete_message()
        || error.is_canceled()
        || error.is_closed()
        || matches!(
            kind,
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof)
        )
    {
        return Error::Closed;
    }
    if error.is_parse() {
        return Error::NotHttp;
    }
    Error::Http(error)
}
