//! Errors of servers and downloads: each names in one line its place, and the remedy if there is one.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use bbrlab_host::can_not;
use hyper::StatusCode;
use rustls::CertificateError;

/// Any error of a library or a caller.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A server that cannot serve, or a download that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Parameters for an algorithm of the kernel.
    #[error("{0}: the kernel's algorithms take no parameters here; write the name alone")]
    CcParameters(String),
    /// A flag's value is not accepted.
    #[error("{flag}: {source}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// The reason.
        source: Box<Self>,
    },
    /// The value of `--cc` is no algorithm.
    #[error("--cc: {0}")]
    Algorithm(#[from] bbrlab_quic::Error),
    /// The kernel allows the congestion control to root only.
    #[error("{flag}: {name}: the kernel allows {kernels} to root only; see net.ipv4.tcp_allowed_congestion_control")]
    CcDenied {
        /// The flag.
        flag: &'static str,
        /// Its value.
        name: String,
        /// The kernel's name.
        kernels: String,
    },
    /// The kernel has no such congestion control.
    #[error(
        "{flag}: {name}: this kernel has no congestion control {kernels}; see `bbrlab doctor`, or load ours with \
         `bbrlab host load`"
    )]
    CcUnknown {
        /// The flag.
        flag: &'static str,
        /// Its value.
        name: String,
        /// The kernel's name.
        kernels: String,
    },
    /// A socket cannot listen.
    #[error("{flag}: {at}: {}", why(.source))]
    Listen {
        /// The flag.
        flag: &'static str,
        /// The address.
        at: SocketAddr,
        /// The error.
        source: io::Error,
    },
    /// The address of a listening socket is unknown.
    #[error("{flag}: {source}")]
    LocalAddress {
        /// The flag.
        flag: &'static str,
        /// The error.
        source: io::Error,
    },
    /// The server's QUIC endpoint cannot be set up.
    #[error("--quic: {at}: {source}")]
    Endpoint {
        /// The address.
        at: SocketAddr,
        /// Error of the stack.
        source: BoxError,
    },
    /// The certificate or its key cannot be used.
    #[error("serve: certificate: {}", misfit(.0))]
    Certificate(#[source] rustls::Error),
    /// A certificate cannot be made.
    #[error("serve: a certificate: {0}")]
    MakeCertificate(#[source] BoxError),
    /// The first certificate of a chain cannot be parsed.
    #[error("--cert: its first certificate cannot be read")]
    FirstCertificate,
    /// A file of TLS cannot be read.
    #[error("{flag}: {path}: {source}")]
    TlsFile {
        /// The flag.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A file of TLS lacks its contents.
    #[error("{flag}: {path}: it holds no {wanted} in PEM")]
    NoPem {
        /// The flag.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Contents that are expected.
        wanted: &'static str,
    },
    /// The directory of files cannot be opened.
    #[error("--root: {path}: {}", missing(.source))]
    Root {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The directory of qlogs cannot be made.
    #[error("--qlog: {path}: {}", not_a_directory(.source))]
    Qlog {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Threads cannot be started.
    #[error("{command}: threads: {source}")]
    Threads {
        /// The command.
        command: &'static str,
        /// The error.
        source: io::Error,
    },
    /// A task of the server ended early.
    #[error("serve: {0}")]
    Task(#[from] tokio::task::JoinError),
    /// The server's addresses cannot be announced.
    #[error(transparent)]
    Announce(BoxError),
    /// The text is no URL that can be fetched.
    #[error("{text}: {problem}")]
    Url {
        /// The text.
        text: String,
        /// The problem, with the remedy.
        problem: &'static str,
    },
    /// The URL names no file.
    #[error("{0}: it names no file; give --output FILE")]
    NoFileName(String),
    /// A request cannot be made of the URL.
    #[error("{url}: {source}")]
    Request {
        /// The URL.
        url: String,
        /// The error.
        source: hyper::http::Error,
    },
    /// A download's file is a directory.
    #[error("{0}: it is a directory; name a file")]
    IsADirectory(PathBuf),
    /// A file cannot be written.
    #[error("{path}: {}", can_not(.source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Standard output cannot be written.
    #[error("standard output: {}", can_not(.0))]
    Stdout(#[source] io::Error),
    /// The last bytes of a download cannot be written.
    #[error("get: {}", can_not(.0))]
    Flush(#[source] io::Error),
    /// The value of `--spki` is no hash.
    #[error("--spki: {0:?} is not a SHA-256 hash in Base64; `bbrlab serve` prints its own")]
    Spki(String),
    /// The file of `--ca` cannot be used.
    #[error("--ca: {path}: {problem}")]
    Authorities {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: &'static str,
    },
    /// The system has no trusted certificate authority.
    #[error("get: this system has no trusted authority; give --spki HASH, --ca FILE or --insecure")]
    NoAuthority,
    /// The authorities cannot verify certificates.
    #[error("--ca: {0}")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
    /// TLS cannot be configured.
    #[error(transparent)]
    Tls(rustls::Error),
    /// The server's certificate is not trusted.
    #[error("{}", untrusted(.0))]
    Untrusted(#[source] rustls::Error),
    /// A download failed.
    #[error("{url}: {source}")]
    Transfer {
        /// Its URL.
        url: String,
        /// The error.
        source: Box<Self>,
    },
    /// A download ended before its last byte.
    #[error(
        "{source}, after {received} of {} bytes{}",
        .size.map_or_else(|| "all".to_owned(), |size| size.to_string()),
        .kept.as_ref().map_or_else(String::new, |kept| format!("; {} keeps the received part", kept.display()))
    )]
    Interrupted {
        /// The reason.
        source: Box<Self>,
        /// Bytes received.
        received: u64,
        /// Size of the whole, if known.
        size: Option<u64>,
        /// File of the received part, if kept.
        kept: Option<PathBuf>,
    },
    /// The host's name has no address.
    #[error("no address of {0:?} was found; check the name")]
    NoAddress(String),
    /// A connection timed out.
    #[error("no answer")]
    NoAnswer,
    /// A connection over QUIC timed out.
    #[error("no answer over QUIC; does a server listen there, on UDP?")]
    NoQuicAnswer,
    /// A connection was refused.
    #[error("nothing listens there")]
    Refused,
    /// An error of a socket.
    #[error(transparent)]
    Socket(io::Error),
    /// The QUIC endpoint of a download cannot be set up.
    #[error("QUIC: {0}")]
    Quic(#[source] BoxError),
    /// The server rejected the TLS handshake.
    #[error("TLS negotiation with the server failed (alert {0})")]
    Alert(u64),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The server aborted the request or the response, with this HTTP/3 error code.
    #[error("the server aborted the response ({0})")]
    Aborted(String),
    /// The server sent nothing for too long.
    #[error("the server stopped sending")]
    Stalled,
    /// The server sent too little.
    #[error("the server ended it early")]
    EndedEarly,
    /// The server sent too much.
    #[error("the server sent more than it announced")]
    TooLong,
    /// The server speaks another protocol.
    #[error("what listens there does not speak HTTP/1.1")]
    NotHttp,
    /// Another error of a stack.
    #[error(transparent)]
    Stack(BoxError),
    /// Another error of HTTP/1.1.
    #[error("{}", innermost(.0))]
    Http(#[source] hyper::Error),
    /// The content has moved to another URL.
    #[error("it has moved to {0}; use that URL")]
    Moved(String),
    /// The server has no content.
    #[error("the server answers {0}")]
    Status(StatusCode),
}

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Describes a failure to open a socket, with the remedy.
fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "something else listens there; name another port".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this host has no such address; name one of its own".to_owned(),
        io::ErrorKind::PermissionDenied => "this port needs root; name one from 1024 on".to_owned(),
        _ => error.to_string(),
    }
}

fn missing(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        io::ErrorKind::NotADirectory => "it is not a directory".to_owned(),
        _ => error.to_string(),
    }
}

fn not_a_directory(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => "it is not a directory; name one".to_owned(),
        _ => error.to_string(),
    }
}

/// Describes a certificate or key that cannot be used.
fn misfit(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => "the private key does not match the certificate".to_owned(),
        rustls::Error::InvalidCertificate(_) => "it cannot be read; give an X.509 version 3 certificate".to_owned(),
        error => error.to_string(),
    }
}

/// Describes a server's certificate that is not trusted.
fn untrusted(error: &rustls::Error) -> String {
    use rustls::Error::InvalidCertificate as Invalid;
    let what = match error {
        Invalid(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) => {
            "its certificate is for another name"
        }
        Invalid(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => "its certificate has expired",
        Invalid(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
            "its certificate is not valid yet"
        }
        Invalid(CertificateError::ApplicationVerificationFailure) => return "its key does not match --spki".to_owned(),
        // An authority of the same name with another key did not sign it either.
        Invalid(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "its certificate is not signed by a trusted authority"
        }
        _ => "its certificate is rejected",
    };
    format!("{what}; give --spki HASH, --ca FILE or --insecure")
}

/// The first cause of an error.
pub(crate) fn innermost(error: &hyper::Error) -> &(dyn std::error::Error + 'static) {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause
}
