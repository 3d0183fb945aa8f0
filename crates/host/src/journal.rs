//! Write-ahead journal of changes to this host, with their undo: one file for each algorithm.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::{Error, Result, host_paths};

/// Polling interval while another command holds the journal.
const TURN: Duration = Duration::from_millis(50);
/// Algorithm and version of an entry that was lost.
pub const UNKNOWN: &str = "unknown";

/// Progress of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Started; if it is found in this phase, it is rolled back.
    Loading,
    /// Complete.
    Loaded,
    /// Being undone; if it is found in this phase, the undo is completed.
    Unloading,
}

/// One algorithm on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The name under which it is registered.
    pub name: String,
    /// The algorithm.
    pub algorithm: String,
    /// Parameters that differ from the defaults.
    pub parameters: Vec<(String, String)>,
    /// The version of bbrlab that loaded it.
    pub version: String,
    /// Progress of the change.
    pub phase: Phase,
    /// The previous default, if it was made the default.
    pub default_before: Option<String>,
    /// True if the BPF file system was mounted for it.
    pub mounted_bpffs: bool,
}

/// The journal, locked against other commands that change this host.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    _lock: Flock<File>,
}

impl Journal {
    /// Opens and locks the journal, waiting up to `patience` for another command to end.
    pub fn open(folder: &Path, patience: Duration) -> Result<Self> {
        host_paths::own_folder(folder)?;
        let path = folder.join("lock");
        let mut turns = patience.as_millis() / TURN.as_millis();
        // Whoever can open a file can lock it: this one is root's alone.
        let open = || OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let mut file = open().map_err(Error::file(&path))?;
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(Self { folder: folder.to_owned(), _lock: lock }),
                Err((_, nix::errno::Errno::EAGAIN)) if turns == 0 => return Err(Error::Busy(path)),
                Err((back, nix::errno::Errno::EAGAIN)) => file = back,
                Err((_, error)) => return Err(Error::File { path, source: error.into() }),
            }
            turns -= 1;
            thread::sleep(TURN);
        }
    }

    /// Writes an entry atomically: after a crash it is complete or absent.
    pub fn write(&self, entry: &Entry) -> Result<()> {
        let path = self.path(&entry.name);
        let draft = path.with_extension("draft");
        let text = serde_json::to_vec(entry).map_err(Error::Encode)?;
        let put = || -> io::Result<()> {
            let mut file = File::create(&draft)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&draft, &path)
        };
        put().map_err(|error| {
            let _ = fs::remove_file(&draft);
            Error::File { path: path.clone(), source: error }
        })
    }

    /// Removes an entry; the last one takes the directory with it.
    pub fn forget(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::File { path, source: error }),
            _ => Ok(()),
        }
    }

    /// All entries.
    pub fn entries(&self) -> Vec<Entry> {
        entries(&self.folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

/// All readable entries. Temporary files are skipped: they never became entries.
pub fn entries(folder: &Path) -> Vec<Entry> {
    let Ok(files) = fs::read_dir(folder) else { return Vec::new() };
    let paths =
        files.flatten().map(|file| file.path()).filter(|path| path.extension().is_some_and(|end| end == "json"));
    let mut all: Vec<Entry> = paths.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("bbrlab-journal-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    fn entry(name: &str, phase: Phase) -> Entry {
        Entry {
            name: name.to_owned(),
            algorithm: "bbr1".to_owned(),
            parameters: Vec::new(),
            version: "0".to_owned(),
            phase,
            default_before: Some("cubic".to_owned()),
            mounted_bpffs: false,
        }
    }

    #[test]
    fn the_journal_returns_the_latest_entries_and_ignores_unfinished_files() {
        let folder = folder("write");
        let journal = Journal::open(&folder, Duration::ZERO).unwrap();
        journal.write(&entry("b", Phase::Loading)).unwrap();
        journal.write(&entry("a", Phase::Loaded)).unwrap();
        journal.write(&entry("b", Phase::Loaded)).unwrap();
        fs::write(folder.join("c.draft"), "{").unwrap();
        assert_eq!(journal.entries(), [entry("a", Phase::Loaded), entry("b", Phase::Loaded)]);
        journal.forget("a").unwrap();
        journal.forget("a").unwrap();
        assert_eq!(journal.entries(), [entry("b", Phase::Loaded)]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn one_command_at_a_time() {
        let folder = folder("lock");
        let first = Journal::open(&folder, Duration::ZERO).unwrap();
        assert!(matches!(Journal::open(&folder, Duration::from_millis(60)), Err(Error::Busy(_))));
        drop(first);
        Journal::open(&folder, Duration::ZERO).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_unwritable_directory_is_an_error_before_any_change() {
        let folder = folder("full");
        let journal = Journal::open(&folder, Duration::ZERO).unwrap();
        fs::create_dir(folder.join("a.draft")).unwrap();
        assert!(matches!(journal.write(&entry("a", Phase::Loading)), Err(Error::File { .. })));
        assert!(journal.entries().is_empty());
        fs::remove_dir_all(folder).unwrap();
    }
}
