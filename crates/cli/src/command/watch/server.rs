//! HTTP server of the exporter: one thread, whatever the number of clients.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::runtime::Builder;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// Content type by which a scraper recognises OpenMetrics.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Maximum time of a connection: one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections; one more ends the oldest, so that idle clients do not keep a scraper out. Ours: half
/// of the files that a process may usually open.
const CONNECTIONS: usize = 512;
/// Wait after a connection could not be accepted, as when too many files are open.
const PAUSE: Duration = Duration::from_millis(100);

/// Answer to a request.
struct Answers {
    registry: Arc<Registry>,
    /// The token that a request must bear.
    token: Option<String>,
}

/// Serves the metrics until the process ends.
pub fn start(listener: TcpListener, registry: Arc<Registry>, token: Option<String>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let answers = Arc::new(Answers { registry, token });
    thread::Builder::new().name("exporter".to_owned()).spawn(move || runtime.block_on(accept(&listener, &answers)))?;
    Ok(())
}

async fn accept(listener: &tokio::net::TcpListener, answers: &Arc<Answers>) {
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= CONNECTIONS {
            open.pop_front().iter().for_each(AbortHandle::abort);
        }
        let answers = Arc::clone(answers);
        let service = service_fn(move |request| {
            let reply = answers.reply(&request);
            async { Ok::<_, Infallible>(reply) }
        });
        let connection = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
        open.push_back(tokio::spawn(timeout(TIMEOUT, connection)).abort_handle());
    }
}

impl Answers {
    fn reply(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let reply = |status: StatusCode, kind: &str, body: String| {
            let reply = Response::builder().status(status).header(header::CONTENT_TYPE, kind).body(Full::from(body));
            reply.unwrap_or_default()
        };
        let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if let Some(token) = &self.token
            && !given.and_then(bearer).is_some_and(|given| is_same(given, token))
        {
            return reply(StatusCode::UNAUTHORIZED, "text/plain", "the token is missing or wrong\n".to_owned());
        }
        if request.uri().path() != "/metrics" {
            return reply(StatusCode::NOT_FOUND, "text/plain", "the metrics are at /metrics\n".to_owned());
        }
        let mut body = String::new();
        match text::encode(&mut body, &self.registry) {
            Ok(()) => reply(StatusCode::OK, CONTENT_TYPE, body),
            Err(error) => reply(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", format!("{error}\n")),
        }
    }
}

/// Token of an `Authorization` header; the name of the scheme may be in any case (RFC 9110, section 11.1).
fn bearer(given: &str) -> Option<&str> {
    let (scheme, token) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start_matches(' '))
}

/// Compares in a time that does not tell how much of it is right.
fn is_same(given: &str, token: &str) -> bool {
    let differ = given.bytes().zip(token.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && differ == 0
}
