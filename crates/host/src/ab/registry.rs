//! List of the tests on this host, which a reboot clears.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
#[cfg(feature = "load")]
use std::io;
use std::path::{Path, PathBuf};

use bbrlab_study::ab::TestEnd;
use serde::{Deserialize, Serialize};

use super::Folder;
#[cfg(feature = "load")]
use crate::host_paths;
use crate::host_paths::HostPaths;
use crate::{Error, Result, clock};

/// A test in the list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its process.
    pub pid: u32,
    /// Its directory.
    pub out: PathBuf,
    /// The cgroup of its connections.
    pub cgroup: PathBuf,
}

fn entries_dir() -> PathBuf {
    HostPaths::default().state.join("ab")
}

impl Entry {
    fn path(&self) -> PathBuf {
        entries_dir().join(format!("{}.json", self.pid))
    }

    #[cfg(feature = "load")]
    pub(super) fn write(&self) -> Result<()> {
        host_paths::own_folder(&HostPaths::default().state)?;
        host_paths::own_folder(&entries_dir())?;
        let put = serde_json::to_vec(self).map_err(io::Error::other);
        put.and_then(|text| super::folder::put(&self.path(), &text)).map_err(Error::ListOfTests)
    }

    /// Removes it from the list.
    pub fn forget(&self) {
        let _ = fs::remove_file(self.path());
        let _ = fs::remove_dir(entries_dir());
    }

    /// All entries, including tests that no longer run.
    pub fn all() -> Vec<Self> {
        let files = fs::read_dir(entries_dir()).into_iter().flatten().flatten();
        let is_entry = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
        let paths = files.map(|file| file.path()).filter(is_entry);
        let mut all: Vec<Self> = paths.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect();
        all.sort_by_key(|entry| entry.pid);
        all
    }

    /// Saves the records of a killed test, and removes it from the list. Returns the number of records.
    pub fn clear_up(&self) -> Result<u64> {
        let folder = Folder(self.out.clone());
        let Ok(mut test) = folder.experiment() else {
            self.forget();
            return Ok(0);
        };
        let saved = folder.seal().and_then(|()| folder.make_tables(&test)).map_err(Error::file(&folder.0))?;
        folder.answered(Folder::STOP);
        if test.ended.is_none() {
            test.ended = Some(TestEnd { at_unix_s: clock::wall_ns() as f64 / 1e9, how: "found dead".to_owned() });
        }
        folder.describe_end(&test).map_err(Error::file(&folder.0))?;
        self.forget();
        Ok(saved)
    }
}

/// Directory of a running test: the named one, or that of the only one.
pub fn running(out: Option<&Path>) -> Result<Folder> {
    if let Some(out) = out {
        let folder = Folder(out.to_owned());
        return if folder.runs() { Ok(folder) } else { Err(Error::NoTestThere(out.to_owned())) };
    }
    let mut running: Vec<Folder> =
        Entry::all().into_iter().map(|entry| Folder(entry.out)).filter(Folder::runs).collect();
    match (running.pop(), running.is_empty()) {
        (Some(folder), true) => Ok(folder),
        (None, _) => Err(Error::NoTest),
        (Some(_), false) => Err(Error::SeveralTests),
    }
}
