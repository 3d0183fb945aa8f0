//! Directory of a test: its description, records and pending requests. Also the list of tests on this host.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use bbrlab_host::host_paths::HostPaths;
use bbrlab_study::ab::record::{self, bytes_of};
use bbrlab_study::ab::{Experiment, Row, SCHEMA};
use serde::{Deserialize, Serialize};

use crate::Failure;

/// File names in the directory.
const EXPERIMENT: &str = "experiment.json";
const LOCK: &str = "lock";
const ASKED: &str = "asked";
#[cfg(feature = "host")]
pub const KEY: &str = "key";
/// Raw kernel records that are not yet in a table. After a kill the file is intact up to its last record.
pub const SPOOL: &str = "records.open";
/// Extensions of a table, and of the records that it is made from.
const TABLE: &str = "parquet";
const SEALED: &str = "records";
/// Records read at a time.
const CHUNK: usize = 4_096;

/// An entry in this host's list of tests, which a reboot clears.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub pid: u32,
    pub out: PathBuf,
    pub cgroup: PathBuf,
}

/// Directory of a test.
#[derive(Clone, Debug)]
pub struct Folder(pub PathBuf);

fn entries_dir() -> PathBuf {
    HostPaths::default().state.join("ab")
}

/// Writes a file atomically.
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

    /// All entries of the list, including tests that no longer run.
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

    /// Takes the test's lock for as long as it runs. The kernel releases it with the process. `None`: another process
    /// holds it.
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

    /// Removes the files of a test that could not start.
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
        if !(1..=SCHEMA).contains(&test.schema) || test.arms.is_empty() {
            return Err(format!(
                "{}: its schema is {}, and this bbrlab reads 1 to {SCHEMA}",
                path.display(),
                test.schema
            ));
        }
        Ok(test)
    }

    pub fn describe(&self, test: &Experiment) -> io::Result<()> {
        put(&self.file(EXPERIMENT), &serde_json::to_vec_pretty(test).map_err(io::Error::other)?)
    }

    /// Requests an action from the running test, through a symbolic link that the test removes once done.
    ///
    /// A link stores its text in the inode, so a test can be stopped on a full disk.
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

    /// Paths of existing and future tables, in order, without extension.
    fn tables(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten().map(|file| file.path());
        let is_table = |path: &PathBuf| path.extension().is_some_and(|end| end == TABLE || end == SEALED);
        let mut tables: Vec<PathBuf> = files.filter(is_table).map(|path| path.with_extension("")).collect();
        tables.retain(|path| path.file_name().is_some_and(|name| name != SPOOL));
        tables.sort();
        tables.dedup();
        tables
    }

    /// Bytes that have left the spool.
    #[cfg(feature = "host")]
    pub fn kept(&self) -> u64 {
        let bytes = |path: PathBuf| path.metadata().map_or(0, |meta| meta.len());
        self.tables().iter().map(|table| bytes(table.with_extension(TABLE)) + bytes(table.with_extension(SEALED))).sum()
    }

    /// Reads every record: those in tables, and those not yet in one.
    pub fn rows(&self, test: &Experiment) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        for table in self.tables() {
            let path = table.with_extension(TABLE);
            let place = |error: String| format!("{}: {error}", path.display());
            // The running test may be creating the table right now.
            let sealed = if path.exists() { None } else { File::open(table.with_extension(SEALED)).ok() };
            if let Some(sealed) = sealed {
                rows.extend(spooled(sealed, test));
                continue;
            }
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

    /// Closes the spool: its records go to the next table.
    pub fn seal(&self) -> io::Result<()> {
        let spool = self.file(SPOOL);
        match fs::metadata(&spool) {
            Ok(meta) if meta.len() >= record::BYTES_LEAST as u64 => {
                let last = self.tables().pop();
                let number =
                    last.and_then(|table| table.to_str()?.rsplit_once('-')?.1.parse::<u32>().ok()).unwrap_or(0);
                fs::rename(&spool, self.file(&format!("connections-{:05}.{SEALED}", number + 1)))
            }
            Ok(_) => fs::remove_file(&spool),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Converts each closed spool to a table. Returns the number of records.
    pub fn make_tables(&self, test: &Experiment) -> io::Result<u64> {
        let mut count = 0;
        for table in self.tables() {
            let (path, sealed, draft) =
                (table.with_extension(TABLE), table.with_extension(SEALED), table.with_extension("draft"));
            let Ok(records) = File::open(&sealed) else { continue };
            if !path.exists() {
                count += records.metadata()?.len() / bytes_of(test) as u64;
                let make = || {
                    let file = io::BufWriter::new(File::create(&draft)?);
                    let file = record::write(file, spooled(records, test), &test.labels())?;
                    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
                    fs::rename(&draft, &path)
                };
                make().inspect_err(|_| drop(fs::remove_file(&draft)))?;
            }
            fs::remove_file(&sealed)?;
        }
        Ok(count)
    }
}

/// Reads the records of a spool in chunks; a record truncated by a full disk is skipped.
fn spooled(mut file: File, test: &Experiment) -> impl Iterator<Item = Row> {
    let (mut done, bytes) = (false, bytes_of(test));
    std::iter::from_fn(move || {
        let mut chunk = Vec::with_capacity(CHUNK * bytes);
        if done || (&mut file).take((CHUNK * bytes) as u64).read_to_end(&mut chunk).is_err() || chunk.is_empty() {
            return None;
        }
        done = chunk.len() < CHUNK * bytes;
        let rows: Vec<Row> = chunk.chunks_exact(bytes).filter_map(|bytes| Row::parse(bytes, test)).collect();
        Some(rows)
    })
    .flatten()
}

/// Directory that a command refers to: the named one, or that of the only running test.
pub fn meant(out: Option<&Path>) -> Result<Folder, Failure> {
    if let Some(out) = out {
        let folder = Folder(out.to_owned());
        return if folder.runs() {
            Ok(folder)
        } else {
            Err(format!("{}: no test is running there; see `bbrlab ab status`", out.display()))
        };
    }
    let mut running: Vec<Folder> =
        Entry::all().into_iter().map(|entry| Folder(entry.out)).filter(Folder::runs).collect();
    match (running.pop(), running.is_empty()) {
        (Some(folder), true) => Ok(folder),
        (None, _) => Err("no test is running; start one with `bbrlab ab start`".to_owned()),
        (Some(_), false) => Err("several tests are running; name one with --out; see `bbrlab ab status`".to_owned()),
    }
}

#[cfg(all(test, feature = "host"))]
mod tests {
    use bbrlab_study::ab::assign::{AssignmentUnit, PrefixLengths};
    use bbrlab_study::ab::guard::Limits;
    use bbrlab_study::ab::{Arm, Counts};

    use super::*;

    fn folder(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("bbrlab-ab-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn experiment() -> Experiment {
        let arm = |name: &str| Arm {
            label: name.to_owned(),
            algorithm: name.to_owned(),
            name: name.to_owned(),
            is_loaded_for_it: false,
        };
        Experiment {
            schema: SCHEMA,
            version: String::new(),
            kernel: String::new(),
            arms: vec![arm("cubic"), arm("bbr")],
            by: AssignmentUnit::Connection,
            slot_s: 600.0,
            keep: PrefixLengths::default(),
            cgroup: String::new(),
            ports: Vec::new(),
            prefixes: Vec::new(),
            direction: String::new(),
            tick_ns: 4_000_000,
            unix_minus_monotonic_ns: 0,
            begun_unix_s: 0.0,
            limits: Limits::default(),
            splits: Vec::new(),
            counts: Counts::default(),
            ended: None,
        }
    }

    fn spool(folder: &Folder, records: u8) {
        let bytes: Vec<u8> = (0..records).flat_map(|_| [0; record::BYTES]).collect();
        fs::write(folder.file(SPOOL), bytes).unwrap();
    }

    #[test]
    fn whatever_a_test_was_doing_when_it_died_each_record_is_read_once() {
        let (folder, test) = (folder("died"), experiment());
        let count = || folder.rows(&test).unwrap().len();
        spool(&folder, 3);
        folder.seal().unwrap();
        spool(&folder, 2);
        assert_eq!(count(), 5);
        // Killed after writing the table and before removing its records.
        let sealed = folder.file("connections-00001.records");
        let records = fs::read(&sealed).unwrap();
        assert_eq!(folder.make_tables(&test).unwrap(), 3);
        fs::write(&sealed, records).unwrap();
        assert_eq!(count(), 5);
        folder.seal().unwrap();
        assert_eq!((folder.make_tables(&test).unwrap(), count()), (2, 5));
        assert!(!sealed.exists() && folder.file("connections-00002.parquet").exists());
        assert!(folder.kept() > 0 && !folder.file(SPOOL).exists());
        fs::remove_dir_all(&folder.0).unwrap();
    }
}
