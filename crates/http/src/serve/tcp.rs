//! HTTP/1.1 on TCP; the congestion control is set on the listening socket.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bbrlab_core::AlgorithmConfig;
use bbrlab_host::objects::kernel_name;
use bbrlab_live::socket::abort_on_close;
use bbrlab_sim::backend::kernel_cc;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::errno::Errno;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;

use super::activity::Activity;
use super::sender;
use super::shared::Shared;
use crate::{Error, Result};

/// Maximum size of a request's head, bytes.
const HEAD_MAX: usize = 16 * 1024;
/// Size of the read and write buffers, bytes.
const BUFFER: usize = 128 * 1024;
/// Maximum number of connections waiting to be accepted.
const BACKLOG: u32 = 1024;
/// Pause after a failed accept, for example for lack of file descriptors.
const BREATH: Duration = Duration::from_millis(100);

/// Resolves a congestion control, given by our name or the kernel's, to the kernel's name.
pub fn kernels(text: &str) -> Result<String> {
    match AlgorithmConfig::named(text.split(',').next().unwrap_or_default()) {
        Some(_) if text.contains(',') => Err(Error::CcParameters(text.to_owned())),
        Some(algorithm) => Ok(kernel_cc(&algorithm).map_or_else(|_| kernel_name(text), str::to_owned)),
        None => Ok(text.to_owned()),
    }
}

/// Sets a socket's congestion control.
pub fn control(socket: &impl AsFd, flag: &'static str, name: &str) -> Result<()> {
    let kernels = kernels(name).map_err(|error| Error::Flag { flag, source: Box::new(error) })?;
    setsockopt(socket, sockopt::TcpCongestion, &OsString::from(&kernels)).map_err(|error| match error {
        Errno::EPERM => Error::CcDenied { flag, name: name.to_owned(), kernels },
        _ => Error::CcUnknown { flag, name: name.to_owned(), kernels },
    })
}

/// Reads a socket's congestion control.
pub fn controlled(socket: &impl AsFd) -> String {
    let name = getsockopt(socket, sockopt::TcpCongestion).unwrap_or_default();
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}

/// Opens the listening socket.
pub fn listen(at: SocketAddr, cc: Option<&str>) -> Result<TcpListener> {
    let fault = |source| Error::Listen { flag: "--tcp", at, source };
    let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(fault)?;
    socket.set_reuseaddr(true).map_err(fault)?;
    if let Some(cc) = cc {
        control(&socket, "--tcp-cc", cc)?;
    }
    socket.bind(at).map_err(fault)?;
    socket.listen(BACKLOG).map_err(fault)
}

/// Serves connections up to the limit; the others wait in the kernel.
pub async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(shared.connections));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // The timeout below closes clients that vanish or do not read.
            drop(connection(stream, from, &shared).await);
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, from: SocketAddr, shared: &Arc<Shared>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = Arc::new(stream.as_fd().try_clone_to_owned()?);
    let cc = controlled(&socket);
    let activity = Arc::new(Activity::default());
    let counted = CountedStream { stream, activity: Arc::clone(&activity) };
    let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        activity.asked();
        let (socket, cc, shared) = (Arc::clone(&socket), cc.clone(), Arc::clone(shared));
        async move {
            let (head, _) = request.into_parts();
            let answer = shared.site.answer(&head, || sender::of_tcp(&socket, &cc)).await;
            shared.note(from, "http/1.1", &head, answer.status());
            Ok::<_, Infallible>(answer)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.patience)
        .max_header_size(HEAD_MAX)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(counted), service);
    tokio::select! {
        _ = served => Ok(()),
        () = activity.stalls(shared.patience) => abort_on_close(&socket),
    }
}

/// A stream that counts the written bytes.
struct CountedStream {
    stream: TcpStream,
    activity: Arc<Activity>,
}

impl CountedStream {
    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.activity.moved(*bytes);
        }
        written
    }
}

impl AsyncRead for CountedStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, room)
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
