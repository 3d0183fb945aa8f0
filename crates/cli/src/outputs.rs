//! Files that the command writes: checked before the work, written whole or not at all, nothing left behind.
//! In: paths and contents. Out: files. Never: a half-written file under its own name.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::Failure;

/// Temporary files that exist at this moment.
static TEMPORARY: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Removes temporary files when the user or the system ends the command.
pub fn clean_up_on_signals() {
    // Without a handler a signal still ends the command; only a temporary file could then stay.
    let _ = ctrlc::set_handler(|| {
        clean_up();
        std::process::exit(130);
    });
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        clean_up();
        report(panic);
    }));
}

fn clean_up() {
    let Ok(mut temporary) = TEMPORARY.lock() else { return };
    for path in std::mem::take(&mut *temporary) {
        let _ = fs::remove_file(path);
    }
}

/// A file to be written, known to be possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    flag: &'static str,
    /// Where it goes, links followed; `None` is standard output.
    path: Option<PathBuf>,
    /// A device or pipe takes what it gets: it cannot be renamed onto.
    direct: bool,
}

impl Target {
    /// Checks that `path` can be written; `-` is standard output.
    pub fn check(flag: &'static str, path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self { flag, path: None, direct: false });
        }
        let fault = |what: &str| format!("{flag}: {}: {what}", path.display());
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if path.is_dir() {
            return Err(fault("it is a directory; name a file"));
        }
        let direct = fs::metadata(&path).is_ok_and(|meta| !meta.is_file());
        let target = Self { flag, direct, path: Some(path) };
        if !direct {
            let (file, temporary) = target.temporary().map_err(|error| fault(&can_not(&error)))?;
            drop(file);
            discard(&temporary);
        }
        Ok(target)
    }

    /// Whether this is standard output.
    pub const fn is_stdout(&self) -> bool {
        self.path.is_none()
    }

    /// Whether both go to the same file.
    pub fn same_file(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    /// Whether this is the file at `path`.
    pub fn is(&self, path: &Path) -> bool {
        fs::canonicalize(path).is_ok_and(|path| Some(path) == self.path)
    }

    /// The flag that asked for it.
    pub const fn flag(&self) -> &'static str {
        self.flag
    }

    fn key(&self) -> Option<PathBuf> {
        let path = self.path.as_ref()?;
        let dir = fs::canonicalize(parent(path)).ok()?;
        Some(dir.join(path.file_name()?))
    }

    /// Writes the whole file under a temporary name and then gives it its own.
    pub fn write(&self, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let Some(path) = &self.path else {
            let mut text = Vec::new();
            fill(&mut text).map_err(|error| format!("{}: {error}", self.flag))?;
            return crate::print(&String::from_utf8_lossy(&text)).map(drop);
        };
        let fault = |error: io::Error| format!("{}: {}: {}", self.flag, path.display(), can_not(&error));
        if self.direct {
            let mut file = BufWriter::new(File::options().write(true).open(path).map_err(fault)?);
            return fill(&mut file).and_then(|()| file.flush()).map_err(fault);
        }
        let (file, temporary) = self.temporary().map_err(fault)?;
        let mut file = BufWriter::new(file);
        let done = fill(&mut file).and_then(|()| file.flush()).and_then(|()| fs::rename(&temporary, path));
        if done.is_err() {
            discard(&temporary);
        } else if let Ok(mut known) = TEMPORARY.lock() {
            known.remove(&temporary);
        }
        done.map_err(fault)
    }

    fn temporary(&self) -> io::Result<(File, PathBuf)> {
        let path = self.path.as_deref().unwrap_or(Path::new("-"));
        let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?.to_string_lossy();
        let temporary = parent(path).join(format!(".{name}.{}.tmp", std::process::id()));
        if let Ok(mut known) = TEMPORARY.lock() {
            known.insert(temporary.clone());
        }
        match File::options().write(true).create_new(true).open(&temporary) {
            Ok(file) => Ok((file, temporary)),
            Err(error) => {
                if let Ok(mut known) = TEMPORARY.lock() {
                    known.remove(&temporary);
                }
                Err(error)
            }
        }
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn discard(temporary: &Path) {
    let _ = fs::remove_file(temporary);
    if let Ok(mut known) = TEMPORARY.lock() {
        known.remove(temporary);
    }
}

fn can_not(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "its directory does not exist; create it or name another".to_owned(),
        io::ErrorKind::PermissionDenied => "it cannot be written here; name another place".to_owned(),
        _ => error.to_string(),
    }
}

/// A file or a directory of files, as a user names it: a directory exists or ends in a slash.
#[derive(Clone, Debug)]
pub enum Place {
    /// One file.
    File(PathBuf),
    /// Files of ours in this directory.
    Dir(PathBuf),
}

impl Place {
    /// Reads a `FILE|DIR` argument; a directory that ends in a slash is made if its parent is there.
    pub fn of(flag: &'static str, path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Err(format!("{flag}: -: several traces cannot share standard output; name a file or a directory"));
        }
        if path.is_dir() {
            return Ok(Self::Dir(path.to_owned()));
        }
        if !path.as_os_str().to_string_lossy().ends_with('/') {
            return Ok(Self::File(path.to_owned()));
        }
        // An empty directory is no result; it is made now so that a later write cannot fail for want of it.
        fs::create_dir(path).map_err(|error| format!("{flag}: {}: {}", path.display(), can_not(&error)))?;
        Ok(Self::Dir(path.to_owned()))
    }
}
