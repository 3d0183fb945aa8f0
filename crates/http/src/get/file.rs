//! Destination of a download. An unfinished one is in NAME.part, beside a note of the version that it belongs to.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use bbrlab_host::can_not;
use serde::{Deserialize, Serialize};

use crate::Failure;

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
    pub fn of(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Err(format!("{}: it is a directory; name a file", path.display())),
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
pub fn partial_file(path: &Path, url: &str) -> Result<Option<PartialFile>, Failure> {
    let part = part(path);
    let fault = |what: &str| format!("{}: {what}; remove it, or leave --resume out", part.display());
    let bytes = match fs::metadata(&part) {
        Ok(meta) => meta.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", part.display())),
    };
    let note = fs::read(note(path)).map_err(|_| fault("the version that it belongs to is not recorded"))?;
    let version: Version =
        serde_json::from_slice(&note).map_err(|_| fault("the record of its version cannot be read"))?;
    if version.url != url {
        return Err(fault(&format!("it is a part of {}", version.url)));
    }
    if version.validator().is_none() {
        return Err(fault("its server names no version (ETag or date), so the rest might belong to another one"));
    }
    if version.size.is_some_and(|size| bytes > size) {
        return Err(fault("it is longer than the whole file"));
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
    pub fn open(place: &Destination, version: &Version, goes_on: bool) -> Result<Self, Failure> {
        let to: Option<Box<dyn Write + Send>> = match place {
            Destination::Nothing => None,
            Destination::Stdout => Some(Box::new(io::stdout())),
            Destination::Direct(path) => {
                let file = File::options().write(true).open(path);
                Some(Box::new(file.map_err(|error| format!("{}: {}", path.display(), can_not(&error)))?))
            }
            Destination::File(path) => {
                let (part, note) = (part(path), note(path));
                let fault = |error: io::Error| format!("{}: {}", part.display(), can_not(&error));
                let file = if goes_on {
                    File::options().append(true).open(&part).map_err(fault)?
                } else {
                    // In this order: after any interruption, a note never belongs to a version other than its part's.
                    let file = File::create(&part).map_err(fault)?;
                    let text = serde_json::to_vec(version).map_err(|error| format!("{}: {error}", note.display()))?;
                    fs::write(&note, text).map_err(fault)?;
                    file
                };
                Some(Box::new(file))
            }
        };
        Ok(Self { place: place.clone(), to })
    }

    /// Writes the next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(to) = &mut self.to else { return Ok(()) };
        to.write_all(bytes).map_err(|error| match &self.place {
            Destination::File(path) => format!("{}: {}", part(path).display(), can_not(&error)),
            Destination::Direct(path) => format!("{}: {}", path.display(), can_not(&error)),
            _ => format!("standard output: {}", can_not(&error)),
        })
    }

    /// Renames the finished file.
    pub fn finish(mut self) -> Result<(), Failure> {
        if let Some(to) = &mut self.to {
            to.flush().map_err(|error| format!("get: {}", can_not(&error)))?;
        }
        match &self.place {
            Destination::File(path) => complete(path),
            _ => Ok(()),
        }
    }

    /// Ends a failed download, and describes what is left of it.
    pub fn abandon(self, bytes: u64) -> String {
        let Destination::File(path) = &self.place else { return String::new() };
        if bytes > 0 {
            return format!("; {} keeps the received part; --resume completes it", part(path).display());
        }
        // Nothing was received, so nothing is kept.
        let _ = fs::remove_file(part(path));
        let _ = fs::remove_file(note(path));
        String::new()
    }
}

/// Renames a complete part to its final name.
pub fn complete(path: &Path) -> Result<(), Failure> {
    fs::rename(part(path), path).map_err(|error| format!("{}: {}", path.display(), can_not(&error)))?;
    let _ = fs::remove_file(note(path)); // it would name a version of a part that no longer exists
    Ok(())
}
