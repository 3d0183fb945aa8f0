//! Destination of a download. An unfinished one is in NAME.part, beside a note of the version that it belongs to.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, PartProblem, Result};

/// Destination of a download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Discarded.
    Nothing,
    Stdout,
    /// A device or a pipe, which is written directly.
    Direct(PathBuf),
    File(PathBuf),
}

impl Destination {
    /// Classifies a path.
    pub fn of(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Err(Error::IsADirectory(path.to_owned())),
            Ok(meta) if !meta.is_file() => Ok(Self::Direct(path.to_owned())),
            _ => Ok(Self::File(path.to_owned())),
        }
    }
}

/// A version of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub url: String,
    pub size: Option<u64>,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
}

impl Version {
    /// Validator for a request for the rest of this version.
    pub fn validator(&self) -> Option<&str> {
        // A weak tag does not guarantee identical bytes.
        self.etag.as_deref().filter(|tag| !tag.starts_with("W/")).or(self.last_modified.as_deref())
    }
}

/// The beginning of a file, from an earlier download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialFile {
    pub version: Version,
    pub bytes: u64,
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// Path of the unfinished file.
pub fn part(path: &Path) -> PathBuf {
    beside(path, ".part")
}

fn note(path: &Path) -> PathBuf {
    beside(path, ".part.json")
}

/// Finds what an earlier download of this URL left behind, if anything.
pub fn partial_file(path: &Path, url: &str) -> Result<Option<PartialFile>> {
    let part = part(path);
    let fault = |problem| Error::Part { path: part.clone(), problem };
    let bytes = match fs::metadata(&part) {
        Ok(meta) => meta.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::File { path: part, source }),
    };
    let note = fs::read(note(path)).map_err(|_| fault(PartProblem::NotRecorded))?;
    let version: Version = serde_json::from_slice(&note).map_err(|_| fault(PartProblem::BadRecord))?;
    if version.url != url {
        return Err(fault(PartProblem::OtherUrl(version.url)));
    }
    if version.validator().is_none() {
        return Err(fault(PartProblem::NoVersion));
    }
    if version.size.is_some_and(|size| bytes > size) {
        return Err(fault(PartProblem::TooLong));
    }
    Ok(Some(PartialFile { version, bytes }))
}

/// A download in progress.
pub struct Download {
    place: Destination,
    to: Option<Box<dyn Write + Send>>,
}

impl Download {
    /// Starts or resumes a download.
    pub fn open(place: &Destination, version: &Version, goes_on: bool) -> Result<Self> {
        let to: Option<Box<dyn Write + Send>> = match place {
            Destination::Nothing => None,
            Destination::Stdout => Some(Box::new(io::stdout())),
            Destination::Direct(path) => {
                let file = File::options().write(true).open(path);
                Some(Box::new(file.map_err(|source| Error::Write { path: path.to_owned(), source })?))
            }
            Destination::File(path) => {
                let (part, note) = (part(path), note(path));
                let fault = |source| Error::Write { path: part.clone(), source };
                let file = if goes_on {
                    File::options().append(true).open(&part).map_err(fault)?
                } else {
                    // In this order: after any interruption, a note never belongs to a version other than its part's.
                    let file = File::create(&part).map_err(fault)?;
                    let text =
                        serde_json::to_vec(version).map_err(|source| Error::Note { path: note.clone(), source })?;
                    fs::write(&note, text).map_err(fault)?;
                    file
                };
                Some(Box::new(file))
            }
        };
        Ok(Self { place: place.clone(), to })
    }

    /// Writes the next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(to) = &mut self.to else { return Ok(()) };
        to.write_all(bytes).map_err(|source| match &self.place {
            Destination::File(path) => Error::Write { path: part(path), source },
            Destination::Direct(path) => Error::Write { path: path.clone(), source },
            _ => Error::Stdout(source),
        })
    }

    /// Renames the finished file.
    pub fn finish(mut self) -> Result<()> {
        if let Some(to) = &mut self.to {
            to.flush().map_err(Error::Flush)?;
        }
        match &self.place {
            Destination::File(path) => complete(path),
            _ => Ok(()),
        }
    }

    /// Ends a failed download, and returns the file that keeps the received part, if any.
    pub fn abandon(self, bytes: u64) -> Option<PathBuf> {
        let Destination::File(path) = &self.place else { return None };
        if bytes > 0 {
            return Some(part(path));
        }
        // Nothing was received, so nothing is kept.
        let _ = fs::remove_file(part(path));
        let _ = fs::remove_file(note(path));
        None
    }
}

/// Renames a complete part to its final name.
pub fn complete(path: &Path) -> Result<()> {
    fs::rename(part(path), path).map_err(|source| Error::Write { path: path.to_owned(), source })?;
    let _ = fs::remove_file(note(path)); // it would name a version of a part that no longer exists
    Ok(())
}
