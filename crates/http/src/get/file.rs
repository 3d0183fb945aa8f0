//! Destination of a download. An unfinished one is in NAME.part.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

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

/// Path of the unfinished file.
fn part(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".part");
    name.into()
}

/// A download in progress.
pub struct Download {
    place: Destination,
    to: Option<Box<dyn Write + Send>>,
}

impl Download {
    /// Starts a download. It gets the permissions of a file that it is to replace.
    pub fn open(place: &Destination) -> Result<Self> {
        let to: Option<Box<dyn Write + Send>> = match place {
            Destination::Nothing => None,
            Destination::Stdout => Some(Box::new(io::stdout())),
            Destination::Direct(path) => {
                let file = File::options().write(true).open(path);
                Some(Box::new(file.map_err(|source| Error::Write { path: path.to_owned(), source })?))
            }
            Destination::File(path) => {
                let part = part(path);
                let fault = |source| Error::Write { path: part.clone(), source };
                let file = File::create(&part).map_err(fault)?;
                if let Ok(old) = fs::metadata(path) {
                    let mode = old.permissions().mode() & 0o777;
                    file.set_permissions(Permissions::from_mode(mode)).map_err(fault)?;
                }
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
            Destination::File(path) => {
                fs::rename(part(path), path).map_err(|source| Error::Write { path: path.to_owned(), source })
            }
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
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        let dir = std::env::temp_dir().join(format!("bbrlab-get-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("page");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let mut download = Download::open(&Destination::File(path.clone())).unwrap();
        download.write(b"new").unwrap();
        download.finish().unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!((text.as_str(), mode), ("new", 0o600));
    }
}
