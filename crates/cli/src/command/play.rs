//! `bbrlab play`: the playground in a browser, served from this binary on the loopback interface.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::convert::Infallible;
use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use bbrlab_report::play::{PORT, fragment_of};
use bbrlab_sim::scenario::ScenarioFile;
use bbrlab_sim::scenario::support::refused_by_playground;
use clap::Args;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::args::{AllKeys, KeyArgs};
use crate::scenario::{load, trace_reader};
use crate::{Error, Verdict, print};

/// The playground's files with their names, each packed by gzip; none in a build without them.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/play.rs"));
/// The page loads its own files alone, and no other page may frame it. Its module needs `wasm-unsafe-eval`; its downloads are blobs.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob:; \
                      connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Longest time of a connection. Ours: a page is loaded in a fraction of it.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Wait after a connection could not be accepted, as when too many files are open.
const PAUSE: Duration = Duration::from_millis(100);

/// Arguments of `bbrlab play`; each of the first group is also a key of the scenario file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bbrlab play\n  \
        bbrlab play --path cable --flow cubic --flow bbr3@10s\n  \
        bbrlab play scenario.toml --no-open\n\n\
        The page runs the simulator in the browser and asks no other machine. Ctrl-C ends the command.")]
pub struct PlayArgs {
    /// Scenario in TOML, or the JSON of an earlier result, with which the page starts; flags override it
    pub file: Option<PathBuf>,

    #[command(flatten)]
    pub keys: KeyArgs<AllKeys>,

    #[arg(
        long,
        value_name = "PORT",
        value_parser = crate::args::number::<u16>(0..=65_535),
        help = format!("Port on the loopback interface; 0 takes a free one [default: {PORT}, to which reports link, or a free one]")
    )]
    pub port: Option<u16>,
    /// Print the address without opening a browser
    #[arg(long)]
    pub no_open: bool,
}

/// Runs the command, until it is interrupted.
pub fn play(args: &PlayArgs) -> Result<Verdict, Error> {
    let fragment = fragment(args)?;
    if FILES.is_empty() {
        let rule = "this build has no page; `make web build` builds it";
        return Err(Error::Rule { place: "play", rule });
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port.unwrap_or(PORT)));
    let refused = |source| Error::Listen { flag: "--port", address, source };
    let runtime = Builder::new_current_thread().enable_io().enable_time().build().map_err(refused)?;
    runtime.block_on(async {
        let listener = match TcpListener::bind(address).await {
            // Reports link to the page that is served there already.
            Err(_) if args.port.is_none() => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await,
            bound => bound,
        };
        let listener = listener.map_err(refused)?;
        let local = listener.local_addr().map_err(refused)?;
        let url = format!("http://{local}/{fragment}");
        print(&format!("{url}\n"))?;
        if !args.no_open {
            open(&url);
        }
        accept(&listener, local).await;
        Ok(Verdict::Holds)
    })
}

/// State of the page as the fragment of its address.
fn fragment(args: &PlayArgs) -> Result<String, Error> {
    let flows = args.keys.flows();
    let whole = load(args.file.as_deref(), args.keys.overrides(), &flows)?;
    check(&whole)?;
    let mut pairs: Vec<(&str, String)> = Vec::new();
    if args.file.is_some() {
        let mut own = load(args.file.as_deref(), std::iter::empty(), &[])?.scenario;
        // The page has no verdicts.
        own.expect.clear();
        let json = serde_json::to_string(&own).map_err(Error::encode("scenario"))?;
        pairs.push(("json", json));
    }
    pairs.extend(args.keys.overrides().map(|(key, text)| (key, text.to_owned())));
    pairs.extend(flows.into_iter().map(|flow| ("flow", flow)));
    let text = fragment_of(&pairs);
    Ok(if text.is_empty() { text } else { format!("#{text}") })
}

/// Rejects a scenario that the page cannot run.
fn check(whole: &ScenarioFile) -> Result<(), Error> {
    if let Some((place, rule)) = refused_by_playground(&whole.scenario.filled()) {
        return Err(Error::Rule { place, rule });
    }
    whole.resolve(&trace_reader)?;
    Ok(())
}

/// Opens a browser, if this session has a display. The address has been printed in any case.
fn open(url: &str) {
    if env::var_os("DISPLAY").is_none() && env::var_os("WAYLAND_DISPLAY").is_none() {
        return;
    }
    let null = Stdio::null;
    let _ = Command::new("xdg-open").arg(url).stdin(null()).stdout(null()).stderr(null()).spawn();
}

async fn accept(listener: &TcpListener, local: SocketAddr) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let service = service_fn(move |request| {
            let reply = reply(&request, local);
            async { Ok::<_, Infallible>(reply) }
        });
        tokio::spawn(timeout(TIMEOUT, http1::Builder::new().serve_connection(TokioIo::new(stream), service)));
    }
}

fn reply(request: &Request<Incoming>, local: SocketAddr) -> Response<Full<Bytes>> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    // A name of another site that resolves to this machine is not ours.
    if host != local.to_string() && host != format!("localhost:{}", local.port()) {
        return line(StatusCode::MISDIRECTED_REQUEST, "the page is at the address that bbrlab play prints\n");
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return line(StatusCode::METHOD_NOT_ALLOWED, "the page is read by GET\n");
    }
    let name = match request.uri().path().trim_start_matches('/') {
        "" => "index.html",
        name => name,
    };
    let Some((_, packed)) = FILES.iter().find(|(known, _)| *known == name) else {
        return line(StatusCode::NOT_FOUND, "there is no such file; the page is at /\n");
    };
    let accepted = request.headers().get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    if !accepted.is_some_and(|value| value.contains("gzip")) {
        return line(StatusCode::NOT_ACCEPTABLE, "the files are packed; accept gzip\n");
    }
    let body = if request.method() == Method::HEAD { Bytes::new() } else { Bytes::from_static(packed) };
    response(StatusCode::OK, kind(name))
        .header(header::CONTENT_ENCODING, "gzip")
        .body(Full::from(body))
        .unwrap_or_default()
}

fn line(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8").body(Full::from(text)).unwrap_or_default()
}

fn response(status: StatusCode, kind: &str) -> hyper::http::response::Builder {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, kind)
        .header(header::CONTENT_SECURITY_POLICY, POLICY)
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(header::REFERRER_POLICY, "no-referrer")
        .header(header::CACHE_CONTROL, "no-cache")
}

/// Content type of a file, by its extension.
fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_has_a_type() {
        assert!(FILES.iter().all(|(name, _)| kind(name) != "application/octet-stream"));
    }
}
