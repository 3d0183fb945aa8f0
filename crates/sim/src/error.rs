//! Errors of scenarios: each names in one line its place, the value found and the values accepted.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::scenario::support::Unsupported;
use crate::scenario::{ReadError, ScenarioError};

/// A scenario that cannot be read, resolved or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value of a TOML file.
    #[error("{file}:{line}: {source}")]
    Toml {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The error.
        source: ReadError,
    },
    /// The file is not JSON.
    #[error("{file}: {source}")]
    NotJson {
        /// Name of the file.
        file: String,
        /// The error.
        source: serde_json::Error,
    },
    /// A value of a JSON file.
    #[error("{file}: {source}")]
    Json {
        /// Name of the file.
        file: String,
        /// The error.
        source: ReadError,
    },
    /// A result of another version.
    #[error(
        "{file}: schema: {found} is not a schema that this version reads; write {accepted}, or use the version of \
         bbrlab that wrote it"
    )]
    Schema {
        /// Name of the file.
        file: String,
        /// Schema of the result.
        found: serde_json::Value,
        /// Schema that is read.
        accepted: u32,
    },
    /// A value set by a flag.
    #[error("--{flag}: {}", .source.message)]
    Flag {
        /// Name of the flag.
        flag: String,
        /// The error.
        source: ScenarioError,
    },
    /// A value in a line of a file.
    #[error("{file}:{line}: {source}")]
    Line {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The error.
        source: ScenarioError,
    },
    /// A value of a file.
    #[error("{file}: {source}")]
    File {
        /// Name of the file.
        file: String,
        /// The error.
        source: ScenarioError,
    },
    /// A value without a file.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A backend cannot run the setup.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The kernel has no such congestion control.
    #[error("{algorithm}: this kernel has no such congestion control; write bbr1, cubic or reno")]
    NotInKernel {
        /// Name of the algorithm.
        algorithm: &'static str,
    },
    /// The algorithm does not run as a kernel program.
    #[error("{algorithm}: it has no kernel program")]
    NoProgram {
        /// Name of the algorithm.
        algorithm: &'static str,
    },
    /// The kernel's congestion control has no such parameter.
    #[error("{algorithm},{parameter}: the kernel's {cc} has no such switch; leave it at its default, or use --on sim")]
    NotAKernelSwitch {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// Name of the parameter.
        parameter: &'static str,
        /// The kernel's name of the algorithm.
        cc: &'static str,
    },
}

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
