//! A test's directory: its description, its records, what it was asked; and the list of tests of this host.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use bbrlab_host::places::Places;
use bbrlab_lab::ab::record::{self, BYTES};
use bbrlab_lab::ab::{Experiment, Row, SCHEMA};
use serde::{Deserialize, Serialize};

use crate::Failure;

/// Names of its files.
const EXPERIMENT: &str = "experiment.json";
const LOCK: &str = "lock";
const ASKED: &str = "asked";
#[cfg(feature = "host")]
pub const KEY: &str = "key";
/// Records as the kernel gave them, until they become a table: what a killed test leaves is whole up to its last record.
pub const SPOOL: &str = "records.open";
/// Records read at a time.
const CHUNK: usize = 4_096;

/// An entry in the list of tests of this host, which a reboot forgets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub pid: u32,
    pub out: PathBuf,
    pub cgroup: PathBuf,
}

/// A test's directory.
#[derive(Clone, Debug)]
pub struct Folder(pub PathBuf);

fn entries_dir() -> PathBuf {
    Places::default().state.join("ab")
}

/// Writes a file so that it is there whole, or as it was.
pub fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let write = || {
        let mut file = File::create(&draft)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&draft, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&draft)))
}

impl Entry {
    fn path(&self) -> PathBuf {
        entries_dir().join(format!("{}.json", self.pid))
    }

    #[cfg(feature = "host")]
    pub fn write(&self) -> io::Result<()> {
        fs::create_dir_all(entries_dir())?;
        put(&self.path(), &serde_json::to_vec(self).map_err(io::Error::other)?)
    }

    pub fn forget(&self) {
        let _ = fs::remove_file(self.path());
        let _ = fs::remove_dir(entries_dir());
    }

    /// All that are in the list, whether or not they still run.
    pub fn all() -> Vec<Self> {
        let files = fs::read_dir(entries_dir()).into_iter().flatten().flatten();
        let is_entry = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
        let paths = files.map(|file| file.path()).filter(is_entry);
        let mut all: Vec<Self> = paths.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect();
        all.sort_by_key(|entry| entry.pid);
        all
    }
}

impl Folder {
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn fault(&self, name: &str) -> impl FnOnce(io::Error) -> Failure {
        let path = self.file(name);
        move |error| format!("{}: {error}", path.display())
    }

    /// Held by the test as long as it runs; the kernel lets go of it when the process ends. `None`: another one has it.
    #[cfg(feature = "host")]
    pub fn lock(&self) -> Result<Option<File>, Failure> {
        let file = File::options().create(true).truncate(false).write(true).open(self.file(LOCK));
        let file = file.map_err(self.fault(LOCK))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(self.fault(LOCK)(error)),
        }
    }

    /// Takes back what a test wrote that could not begin.
    #[cfg(feature = "host")]
    pub fn clear(&self) {
        for name in [EXPERIMENT, KEY, SPOOL, LOCK] {
            let _ = fs::remove_file(self.file(name));
        }
    }

    pub fn runs(&self) -> bool {
        let file = File::open(self.file(LOCK));
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    pub fn experiment(&self) -> Result<Experiment, Failure> {
        let path = self.file(EXPERIMENT);
        let text = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                format!("{}: no test is recorded there; name the --out of `bbrlab ab start`", self.0.display())
            }
            _ => format!("{}: {error}", path.display()),
        })?;
        let test: Experiment = serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        if test.schema != SCHEMA || test.arms.is_empty() {
            return Err(format!("{}: its schema is {}, and this bbrlab reads {SCHEMA}", path.display(), test.schema));
        }
        Ok(test)
    }

    pub fn describe(&self, test: &Experiment) -> io::Result<()> {
        put(&self.file(EXPERIMENT), &serde_json::to_vec_pretty(test).map_err(io::Error::other)?)
    }

    /// What the test is asked to do, told by a symbolic link that it takes away when it has done so: a link has its text in itself,
    /// so that a test can be stopped on a full disk.
    pub fn ask(&self, what: &str) -> Result<(), Failure> {
        let (path, draft) = (self.file(ASKED), self.file(ASKED).with_extension("draft"));
        let _ = fs::remove_file(&draft);
        let written = symlink(what, &draft).and_then(|()| fs::rename(&draft, &path));
        written.inspect_err(|_| drop(fs::remove_file(&draft))).map_err(self.fault(ASKED))
    }

    pub fn asked(&self) -> Option<String> {
        fs::read_link(self.file(ASKED)).ok()?.into_os_string().into_string().ok()
    }

    pub fn answered(&self) {
        let _ = fs::remove_file(self.file(ASKED));
    }

    /// Finished tables, in their order.
    pub fn tables(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten().map(|file| file.path());
        let mut tables: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|end| end == "parquet")).collect();
        tables.sort();
        tables
    }

    /// Every record: those of the tables, and those that are in none yet.
    pub fn rows(&self, test: &Experiment) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        for path in self.tables() {
            let place = |error: String| format!("{}: {error}", path.display());
            let bytes = fs::read(&path).map_err(|error| place(error.to_string()))?;
            record::read(bytes, |row| rows.push(row)).map_err(place)?;
        }
        match File::open(self.file(SPOOL)) {
            Ok(file) => rows.extend(spooled(file, test)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(self.fault(SPOOL)(error)),
        }
        Ok(rows)
    }

    /// Makes a table of the records that are in none yet. Returns how many they were.
    pub fn make_table(&self, test: &Experiment) -> io::Result<u64> {
        let spool = self.file(SPOOL);
        let count = match fs::metadata(&spool) {
            Ok(meta) => meta.len() / BYTES as u64,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        if count == 0 {
            let _ = fs::remove_file(&spool);
            return Ok(0);
        }
        let table = self.file(&format!("connections-{:05}.parquet", self.tables().len() + 1));
        let draft = table.with_extension("draft");
        let make = || {
            let file = io::BufWriter::new(File::create(&draft)?);
            let file = record::write(file, spooled(File::open(&spool)?, test), &test.labels())?;
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
            fs::rename(&draft, &table)
        };
        make().inspect_err(|_| drop(fs::remove_file(&draft)))?;
        fs::remove_file(&spool)?;
        Ok(count)
    }
}

/// The records of a spool, some at a time; what a full disk cut off is passed over.
fn spooled(mut file: File, test: &Experiment) -> impl Iterator<Item = Row> {
    let mut done = false;
    std::iter::from_fn(move || {
        let mut chunk = Vec::with_capacity(CHUNK * BYTES);
        if done || (&mut file).take((CHUNK * BYTES) as u64).read_to_end(&mut chunk).is_err() || chunk.is_empty() {
            return None;
        }
        done = chunk.len() < CHUNK * BYTES;
        let rows: Vec<Row> = chunk.chunks_exact(BYTES).filter_map(|bytes| Row::parse(bytes, test)).collect();
        Some(rows)
    })
    .flatten()
}

/// The directory that a command means: the one that it names, or that of the only test that runs.
pub fn meant(out: Option<&Path>) -> Result<Folder, Failure> {
    if let Some(out) = out {
        let folder = Folder(out.to_owned());
        return if folder.runs() {
            Ok(folder)
        } else {
            Err(format!("{}: no test runs there; see `bbrlab ab status`", out.display()))
        };
    }
    let mut running: Vec<Folder> =
        Entry::all().into_iter().map(|entry| Folder(entry.out)).filter(Folder::runs).collect();
    match (running.pop(), running.is_empty()) {
        (Some(folder), true) => Ok(folder),
        (None, _) => Err("no test runs; begin one with `bbrlab ab start`".to_owned()),
        (Some(_), false) => Err("several tests run; name one with --out, see `bbrlab ab status`".to_owned()),
    }
}
