//! Errors of algorithms given by name, and of runs.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{ALGORITHMS, params::ParamError};

/// Error of a QUIC stack.
#[cfg(feature = "backend")]
pub type StackError = Box<dyn std::error::Error + Send + Sync>;

/// An invalid algorithm, or a run that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No algorithm of core has that name.
    #[error("no algorithm {name:?}; there are {}", names())]
    UnknownAlgorithm {
        /// The name.
        name: String,
    },
    /// A part is not of the form `PARAMETER=VALUE`.
    #[error("{part:?} is not a parameter; write PARAMETER=VALUE")]
    NotAParameter {
        /// The part.
        part: String,
    },
    /// The algorithm has no such parameter.
    #[error("{algorithm} has no parameter {key:?}")]
    UnknownParameter {
        /// The algorithm.
        algorithm: String,
        /// The parameter.
        key: String,
    },
    /// The parameter's value is not accepted.
    #[error("{key}: {value:?} is {source}")]
    Parameter {
        /// The parameter.
        key: String,
        /// The value.
        value: String,
        /// The reason.
        source: ParamError,
    },
    /// The algorithm requires a pacing rate, which a controller of quinn cannot set.
    #[cfg(feature = "quinn")]
    #[error(
        "{name} needs a pacing rate, and a controller of quinn has none; quinn::window_only({name:?}) runs it by its window alone"
    )]
    NeedsPacing {
        /// The algorithm.
        name: String,
    },
    /// s2n-quic has no such controller.
    #[error("s2n-quic has no {text:?}; it has s2n:bbr and s2n:cubic")]
    NotInS2n {
        /// The text found.
        text: String,
    },
    /// A script follows a flow of TCP.
    #[cfg(feature = "backend")]
    #[error("{flow}: a script follows a flow of the stack")]
    ScriptOnTcp {
        /// The flow.
        flow: String,
    },
    /// The certificate cannot be made.
    #[cfg(feature = "backend")]
    #[error("TLS: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS cannot be configured.
    #[cfg(feature = "backend")]
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// s2n-quic's endpoints cannot be set up.
    #[cfg(feature = "backend")]
    #[error("s2n-quic: {0}")]
    S2n(#[source] StackError),
    /// A task of s2n-quic did not end with its run.
    #[cfg(feature = "backend")]
    #[error("s2n-quic: a task outlived its run")]
    S2nTask,
    /// A connection failed.
    #[cfg(feature = "backend")]
    #[error("{stack}: {flow}: {source}")]
    Flow {
        /// The stack.
        stack: &'static str,
        /// The flow.
        flow: String,
        /// Error of the stack.
        source: StackError,
    },
    /// A stack discarded bytes of a stream.
    #[cfg(feature = "backend")]
    #[error("{stack}: {flow}: bytes of the stream are lost in the receiver's buffer")]
    Lost {
        /// The stack.
        stack: &'static str,
        /// The flow.
        flow: String,
    },
}

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

fn names() -> String {
    let names: Vec<&str> = ALGORITHMS.iter().map(|info| info.name).collect();
    names.join(", ")
}
