//! Notes of algorithms registered for the lifetime of a process, on kernels that would keep them after it.
//!
//! Before Linux 6.4 a registration has no link, so the kernel keeps it when its process is killed. Each process writes
//! a note first, and locks it; the next one to register ends the registrations of notes that nobody locks.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::host_paths::{HostPaths, own_folder};
use crate::{Error, Result, program};

/// The note of one registration; dropping it removes the note.
#[derive(Debug)]
pub(crate) struct Registration {
    path: PathBuf,
    _lock: File,
}

fn folder() -> PathBuf {
    HostPaths::default().state.join("registered")
}

impl Registration {
    /// Writes the note of a name, after ending the registrations of killed processes.
    pub fn note(name: &str) -> Result<Self> {
        let folder = folder();
        own_folder(&HostPaths::default().state)?;
        own_folder(&folder)?;
        recover();
        let path = folder.join(name);
        let lock = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path);
        let lock = lock.map_err(Error::file(&path))?;
        lock.try_lock().map_err(|error| Error::File { path: path.clone(), source: error.into() })?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        forget(&self.path);
    }
}

/// Ends the registrations of killed processes.
pub(crate) fn recover() {
    for file in fs::read_dir(folder()).into_iter().flatten().flatten() {
        let (path, name) = (file.path(), file.file_name());
        let is_dead = File::open(&path).is_ok_and(|file| !matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
        // A registration that cannot be ended keeps its note, for the next attempt.
        if is_dead && program::unregister_named(&name.to_string_lossy()).is_ok() {
            forget(&path);
        }
    }
}

fn forget(note: &Path) {
    let _ = fs::remove_file(note);
    let _ = fs::remove_dir(folder());
}
