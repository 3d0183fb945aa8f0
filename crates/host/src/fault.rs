//! Errors about a host: each is one line that includes the remedy.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Reason for which a change to the host failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// No kernel program of that algorithm.
    NoProgram(String),
    /// A name that the kernel would reject.
    BadName(String),
    /// A congestion control of that name is registered already.
    NameTaken(String),
    /// Nothing of ours is loaded under that name.
    NotLoaded(String),
    /// A parameter that only the kernel can set.
    KernelsOwn(&'static str),
    /// A missing privilege or kernel feature.
    Missing(&'static str),
    /// Another command is running.
    Busy(PathBuf),
    /// An error on a file.
    File(PathBuf, io::Error),
    /// An error of the kernel's verifier or loader.
    Refused {
        /// The algorithm.
        what: String,
        /// The kernel's message.
        said: String,
    },
    /// The test transfer of a loaded algorithm failed.
    Trial(String),
    /// Anything else.
    Other(String),
}

impl Fault {
    /// Adapter for `map_err` on file operations.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File(path, error)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram(name) => {
                let names: Vec<&str> = crate::objects::OBJECTS.iter().map(|(name, _)| *name).collect();
                write!(f, "{name}: it has no kernel program; write one of {}", names.join(", "))
            }
            Self::BadName(name) => {
                write!(f, "--name {name:?}: write 1 to 15 letters, digits, '_' or '.', beginning with a letter")
            }
            Self::NameTaken(name) => {
                write!(f, "{name}: the kernel has a congestion control of that name; choose another with --name")
            }
            Self::NotLoaded(name) => write!(f, "{name}: not loaded by bbrlab; see `bbrlab host status`"),
            Self::KernelsOwn(name) => write!(f, "{name}: it is this kernel's own; leave it out"),
            Self::Missing(what) => f.write_str(what),
            Self::Busy(path) => {
                write!(f, "another bbrlab command changes this host ({}); wait for it", path.display())
            }
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Refused { what, said } => write!(f, "the kernel refuses {what}: {said}"),
            Self::Trial(what) => write!(f, "a transfer over it failed, so it was unloaded: {what}"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Fault {}

/// Describes a failure to write, with the remedy.
pub fn can_not(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "its directory cannot be created; name another place".to_owned(),
        io::ErrorKind::AlreadyExists => "it is a file; name a directory".to_owned(),
        io::ErrorKind::NotADirectory => "its directory is a file; name another place".to_owned(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "it cannot be written here; name another place".to_owned()
        }
        io::ErrorKind::StorageFull => "no space is left; free some or name another place".to_owned(),
        io::ErrorKind::InvalidFilename => "its name is too long; choose a shorter one".to_owned(),
        _ => error.to_string(),
    }
}
