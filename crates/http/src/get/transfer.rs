//! One download: connect, send the request, receive the response, check that it is complete.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::net::SocketAddr;
use std::time::Duration;

use bbrlab_live::clock::Stopwatch;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, LOCATION, SERVER, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use serde::Serialize;
use tokio::time::timeout;

use super::file::{Destination, Download};
use super::trust::Trust;
use super::url::Url;
use super::{Progress, Rtt, http1, http3};
use crate::serve::qlog::Logs;
use crate::serve::sender::{self, Sender};
use crate::{Error, Result};

/// Timeout for the sender's figures, which are not part of the download.
const REPORT: Duration = Duration::from_secs(2);
/// Maximum size of the sender's figures.
const REPORT_BYTES: usize = 64 * 1024;
/// Maximum number of seconds for which rates are kept.
const RATES_MOST: usize = 86_400;

/// Settings for all downloads.
#[derive(Clone, Debug)]
pub struct Settings {
    pub cc: Option<String>,
    pub patience: Duration,
    pub trust: Option<Trust>,
    pub logs: Logs,
}

/// A finished download.
#[derive(Clone, Debug, Serialize)]
pub struct FinishedDownload {
    pub url: String,
    pub protocol: &'static str,
    /// Congestion control of this end.
    pub cc: String,
    /// Content bytes received over the network.
    pub bytes: u64,
    pub connect_s: f64,
    /// Time from the start to the head of the response.
    pub first_byte_s: f64,
    /// Time from the start to the last byte of the content.
    pub fct_s: f64,
    /// Bytes divided by `fct_s`.
    pub goodput_bps: f64,
    /// Rate in each second.
    pub rates_bps: Vec<f64>,
    /// Measured at this end, which sends little.
    pub rtt_ms: Rtt,
    /// Figures of the server's end, if it is a `bbrlab serve`.
    pub sender: Option<Sender>,
}

enum Connection {
    Tcp(http1::Connection),
    Quic(Box<http3::Connection>),
}

enum Content {
    Tcp(Incoming),
    Quic(Box<http3::Content>),
}

impl Connection {
    async fn open(url: &Url, settings: &Settings) -> Result<Self> {
        let mut failed = Error::NoAnswer;
        for to in addresses(url).await? {
            let open = async {
                if let Some(trust) = settings.trust.as_ref().filter(|_| url.is_quic()) {
                    let (cc, logs) = (settings.cc.as_deref(), settings.logs.clone());
                    let open = http3::Connection::open(to, url, trust, cc, settings.patience, logs);
                    Ok(Self::Quic(Box::new(open.await?)))
                } else {
                    Ok(Self::Tcp(http1::Connection::open(to, settings.cc.as_deref()).await?))
                }
            };
            // QUIC has its own handshake limit, with a more specific error.
            let limit = if url.is_quic() { settings.patience * 2 } else { settings.patience };
            failed = match timeout(limit, open).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => error,
                Err(_) => Error::NoAnswer,
            };
        }
        Err(failed)
    }

    async fn ask(&mut self, request: Request<()>) -> Result<Response<Content>> {
        Ok(match self {
            Self::Tcp(connection) => connection.ask(request).await?.map(Content::Tcp),
            Self::Quic(connection) => connection.ask(request).await?.map(|content| Content::Quic(Box::new(content))),
        })
    }

    fn cc(&self) -> &str {
        match self {
            Self::Tcp(connection) => connection.cc(),
            Self::Quic(connection) => connection.cc(),
        }
    }

    fn rtt(&self) -> Rtt {
        match self {
            Self::Tcp(connection) => connection.rtt(),
            Self::Quic(connection) => connection.rtt(),
        }
    }

    async fn close(self) {
        if let Self::Quic(connection) = self {
            connection.close().await;
        }
    }
}

impl Content {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        match self {
            Self::Tcp(content) => http1::next(content).await,
            Self::Quic(content) => http3::next(content).await,
        }
    }
}

async fn addresses(url: &Url) -> Result<Vec<SocketAddr>> {
    let found = tokio::net::lookup_host((url.host(), url.port())).await;
    let mut found: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
    if found.is_empty() {
        return Err(Error::NoAddress(url.host().to_owned()));
    }
    // If a host has both families, IPv4 goes first: it reaches more hosts.
    found.sort_by_key(SocketAddr::is_ipv6);
    Ok(found)
}

/// Downloads a URL. `progress` receives the bytes expected and received.
pub async fn fetch(
    url: &Url,
    place: &Destination,
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<FinishedDownload> {
    let fault = |error| Error::Transfer { url: url.text().to_owned(), source: Box::new(error) };
    let watch = Stopwatch::start();
    let mut connection = Connection::open(url, settings).await.map_err(fault)?;
    let connect_s = watch.seconds();
    let request = request(url)?;
    let answer = timeout(settings.patience, connection.ask(request)).await;
    let answer = answer.unwrap_or(Err(Error::Stalled)).map_err(fault)?;
    let first_byte_s = watch.seconds();
    let (head, mut content) = answer.into_parts();
    let size = size(head.status, &head.headers).map_err(fault)?;
    let mut sink = Download::open(place)?;
    progress.expect(size.unwrap_or(0));
    let mut taken = ReceivedData { watch, bytes: 0, rates: Vec::new() };
    let came = take(&mut content, &mut taken, &mut sink, settings.patience, progress).await;
    let fct_s = watch.seconds();
    if came.is_err() || size.is_some_and(|size| taken.bytes < size) {
        return Err(fault(Error::Interrupted {
            source: Box::new(came.err().unwrap_or(Error::EndedEarly)),
            received: taken.bytes,
            size,
            kept: sink.abandon(taken.bytes),
        }));
    }
    if size.is_some_and(|size| taken.bytes > size) {
        return Err(fault(Error::TooLong));
    }
    sink.finish()?;
    let is_ours = head.headers.get(SERVER).is_some_and(|name| name.as_bytes() == sender::SERVER.as_bytes());
    let sender = if is_ours { report(url, &mut connection).await } else { None };
    let done = FinishedDownload {
        url: url.text().to_owned(),
        protocol: if url.is_quic() { "h3" } else { "http/1.1" },
        cc: connection.cc().to_owned(),
        bytes: taken.bytes,
        connect_s,
        first_byte_s,
        fct_s,
        goodput_bps: taken.bytes as f64 * 8.0 / fct_s.max(1e-9),
        rates_bps: taken.rates_bps(fct_s),
        rtt_ms: connection.rtt(),
        sender,
    };
    connection.close().await;
    Ok(done)
}

fn request(url: &Url) -> Result<Request<()>> {
    let request = Request::get(url.uri().clone()).header(USER_AGENT, concat!("bbrlab/", env!("CARGO_PKG_VERSION")));
    request.body(()).map_err(|source| Error::Request { url: url.text().to_owned(), source })
}

/// Size of the content that this response announces, if it does.
fn size(status: StatusCode, headers: &HeaderMap) -> Result<Option<u64>> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    match text(LOCATION).filter(|_| status.is_redirection()) {
        _ if status == StatusCode::OK => Ok(text(CONTENT_LENGTH).and_then(|length| length.parse().ok())),
        Some(location) => Err(Error::Moved(location.to_owned())),
        None => Err(Error::Status(status)),
    }
}

/// Received data, with its timing.
struct ReceivedData {
    watch: Stopwatch,
    bytes: u64,
    rates: Vec<u64>,
}

impl ReceivedData {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        let second = (self.watch.seconds() as usize).min(RATES_MOST - 1);
        if self.rates.len() <= second {
            self.rates.resize(second + 1, 0);
        }
        self.rates[second] += bytes as u64;
    }

    /// The last second is rarely complete.
    fn rates_bps(&self, end_s: f64) -> Vec<f64> {
        let span = |second: usize| (end_s - second as f64).clamp(1e-3, 1.0);
        self.rates.iter().enumerate().map(|(second, bytes)| *bytes as f64 * 8.0 / span(second)).collect()
    }
}

async fn take(
    content: &mut Content,
    taken: &mut ReceivedData,
    sink: &mut Download,
    patience: Duration,
    progress: &dyn Progress,
) -> Result<()> {
    loop {
        match timeout(patience, content.next()).await {
            Err(_) => return Err(Error::Stalled),
            Ok(Err(error)) => return Err(error),
            Ok(Ok(None)) => return Ok(()),
            Ok(Ok(Some(bytes))) => {
                taken.add(bytes.len());
                progress.add(bytes.len() as u64);
                sink.write(&bytes)?;
            }
        }
    }
}

/// Fetches the figures of the server's end of this connection; none if it has none.
async fn report(url: &Url, connection: &mut Connection) -> Option<Sender> {
    let ask = async {
        let request = Request::get(url.at(sender::PATH).ok()?).body(()).ok()?;
        let (_, mut content) = connection.ask(request).await.ok()?.into_parts();
        let mut text = Vec::new();
        while let Some(bytes) = content.next().await.ok()? {
            text.extend_from_slice(&bytes);
            if text.len() > REPORT_BYTES {
                return None;
            }
        }
        serde_json::from_slice(&text).ok()
    };
    timeout(REPORT, ask).await.ok()?
}
