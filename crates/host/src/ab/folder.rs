//! Directory of a test: its description, records and pending requests.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
#[cfg(feature = "load")]
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use bbrlab_study::ab::record::{self, bytes_of};
use bbrlab_study::ab::{Experiment, Row, SCHEMA};

use crate::{Error, Result};

/// File names in the directory.
const EXPERIMENT: &str = "experiment.json";
const LOCK: &str = "lock";
/// The same description, in space that was taken when the test began, so that a full disk keeps no count from being
/// written.
const RESERVED: &str = "experiment.now";
const RESERVED_BYTES: u64 = 1 << 14;
const ASKED: &str = "asked";
#[cfg(feature = "load")]
pub(super) const KEY: &str = "key";
/// Raw kernel records that are not yet in a table. After a kill the file is intact up to its last record.
pub(super) const SPOOL: &str = "records.open";
/// Extensions of a table, and of the records that it is made from.
const TABLE: &str = "parquet";
const SEALED: &str = "records";
/// Maximum time for a running test to answer, in turns. Ours: it polls ten times a second.
const ANSWER_TURNS: u32 = 100;
const ANSWER_TURN: Duration = Duration::from_millis(100);
/// Records read at a time.
const CHUNK: usize = 4_096;

/// Directory of a test.
#[derive(Clone, Debug)]
pub struct Folder(pub PathBuf);

/// A file with records.
#[derive(Debug)]
pub(super) enum RecordFile {
    /// A Parquet table.
    Table(PathBuf),
    /// Raw records. The open file stays what it is when the running test goes on to the next.
    Raw(File),
}

/// Writes a file atomically.
pub(super) fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let write = || {
        let mut file = File::create(&draft)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&draft, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&draft)))
}

impl Folder {
    /// Request to end the test.
    pub const STOP: &str = "stop";

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn fault(&self, name: &str) -> impl FnOnce(io::Error) -> Error {
        Error::file(&self.file(name))
    }

    /// Takes the test's lock for as long as it runs. The kernel releases it with the process. `None`: another process
    /// holds it.
    #[cfg(feature = "load")]
    pub(super) fn lock(&self) -> Result<Option<File>> {
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(self.file(LOCK));
        let file = file.map_err(self.fault(LOCK))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(self.fault(LOCK)(error)),
        }
    }

    /// Removes the files of a test that could not start.
    #[cfg(feature = "load")]
    pub(super) fn clear(&self) {
        for name in [EXPERIMENT, RESERVED, KEY, SPOOL, LOCK] {
            let _ = fs::remove_file(self.file(name));
        }
    }

    /// True while its test runs. To a user who may not look at the lock it runs until its end is recorded.
    pub fn runs(&self) -> bool {
        match File::open(self.file(LOCK)) {
            Ok(file) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.experiment().is_ok_and(|test| test.ended.is_none())
            }
            Err(_) => false,
        }
    }

    /// Reads the description of the test: the reserved one, if the test has not ended in order.
    pub fn experiment(&self) -> Result<Experiment> {
        let reserved = fs::read(self.file(RESERVED)).ok();
        if let Some(test) = reserved.and_then(|text| serde_json::from_slice::<Experiment>(&text).ok()) {
            return Ok(test);
        }
        let path = self.file(EXPERIMENT);
        let text = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::NoRecords(self.0.clone()),
            _ => Error::file(&path)(error),
        })?;
        let test: Experiment =
            serde_json::from_slice(&text).map_err(|source| Error::Decode { path: path.clone(), source })?;
        if !(1..=SCHEMA).contains(&test.schema) || test.arms.is_empty() {
            return Err(Error::Schema { path, found: test.schema });
        }
        Ok(test)
    }

    /// Takes the space of the reserved description.
    #[cfg(feature = "load")]
    pub(super) fn reserve(&self) -> io::Result<()> {
        fs::write(self.file(RESERVED), vec![b' '; RESERVED_BYTES as usize])
    }

    pub(super) fn describe(&self, test: &Experiment) -> io::Result<()> {
        let mut text = serde_json::to_vec(test).map_err(io::Error::other)?;
        let has_room = text.len() as u64 <= RESERVED_BYTES;
        if has_room {
            text.resize(RESERVED_BYTES as usize, b' ');
            self.write_reserved(&text)?;
        }
        put(&self.file(EXPERIMENT), &serde_json::to_vec_pretty(test).map_err(io::Error::other)?)?;
        // Readers would prefer the older one.
        if has_room { Ok(()) } else { self.write_reserved(&[b' '; RESERVED_BYTES as usize]) }
    }

    /// Overwrites the reserved description, if there is one.
    fn write_reserved(&self, text: &[u8]) -> io::Result<()> {
        let Ok(file) = File::options().write(true).open(self.file(RESERVED)) else { return Ok(()) };
        file.write_all_at(text, 0)
    }

    /// Describes a test that has ended, and gives the reserved space back.
    pub(super) fn describe_end(&self, test: &Experiment) -> io::Result<()> {
        self.describe(test)?;
        fs::remove_file(self.file(RESERVED)).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })
    }

    /// Requests an action from the running test, through a symbolic link that the test removes once done. Returns false if
    /// another request has to be answered first.
    ///
    /// A link stores its text in the inode, so a test can be stopped on a full disk.
    fn request(&self, what: &str) -> Result<bool> {
        match symlink(what, self.file(ASKED)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(self.fault(ASKED)(error)),
            Ok(()) => Ok(true),
        }
    }

    /// Requests an action from the running test, and waits until it is done.
    pub fn ask(&self, what: &str) -> Result<()> {
        let mut is_requested = false;
        for _ in 0..ANSWER_TURNS {
            is_requested = is_requested || self.request(what)?;
            thread::sleep(ANSWER_TURN);
            // Read first: a test that has ended since may have carried it out before.
            let runs = self.runs();
            if self.is_done(what, is_requested) {
                return Ok(());
            }
            if !runs {
                break;
            }
        }
        if is_requested {
            self.answered(what);
        }
        Err(Error::NoAnswer(self.0.clone()))
    }

    pub(super) fn asked(&self) -> Option<String> {
        fs::read_link(self.file(ASKED)).ok()?.into_os_string().into_string().ok()
    }

    fn is_done(&self, what: &str, is_requested: bool) -> bool {
        if what == Self::STOP { !self.runs() } else { is_requested && !self.is_asked(what) }
    }

    fn is_asked(&self, what: &str) -> bool {
        self.asked().is_some_and(|asked| asked == what)
    }

    /// Removes a request, and no other one.
    pub(super) fn answered(&self, what: &str) {
        if self.is_asked(what) {
            let _ = fs::remove_file(self.file(ASKED));
        }
    }

    /// The files with its records at this moment.
    pub(super) fn files(&self) -> Result<Vec<RecordFile>> {
        let mut files = Vec::new();
        for table in self.tables() {
            let path = table.with_extension(TABLE);
            // The running test may be creating the table right now.
            let sealed = if path.exists() { None } else { File::open(table.with_extension(SEALED)).ok() };
            files.push(sealed.map_or(RecordFile::Table(path), RecordFile::Raw));
        }
        match File::open(self.file(SPOOL)) {
            Ok(file) => files.push(RecordFile::Raw(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(self.fault(SPOOL)(error)),
        }
        Ok(files)
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
    #[cfg(feature = "load")]
    pub(super) fn kept(&self) -> u64 {
        let bytes = |path: PathBuf| path.metadata().map_or(0, |meta| meta.len());
        self.tables().iter().map(|table| bytes(table.with_extension(TABLE)) + bytes(table.with_extension(SEALED))).sum()
    }

    /// Closes the spool: its records go to the next table.
    pub(super) fn seal(&self) -> io::Result<()> {
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
    pub(super) fn make_tables(&self, test: &Experiment) -> io::Result<u64> {
        let mut count = 0;
        for table in self.tables() {
            let (path, sealed, draft) =
                (table.with_extension(TABLE), table.with_extension(SEALED), table.with_extension("draft"));
            let Ok(records) = File::open(&sealed) else { continue };
            if !path.exists() {
                count += records.metadata()?.len() / bytes_of(test) as u64;
                let make = || {
                    let file = io::BufWriter::new(File::create(&draft)?);
                    let file = record::write(file, raw(records, test), &test.labels())?;
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

/// Reads the raw records of a file.
fn raw(file: File, test: &Experiment) -> impl Iterator<Item = Row> {
    let bytes = file.metadata().map_or(0, |meta| meta.len());
    let mut at = 0;
    std::iter::from_fn(move || raw_rows(&file, &mut at, bytes, test)).flatten()
}

/// Reads some raw records of the first `end` bytes of a file, from byte `at` on; `None` at the end. A record truncated by a full disk
/// is skipped.
pub(super) fn raw_rows(file: &File, at: &mut u64, end: u64, test: &Experiment) -> Option<Vec<Row>> {
    let bytes = bytes_of(test);
    let mut some = vec![0; usize::try_from((end - *at).min((CHUNK * bytes) as u64)).unwrap_or(0)];
    file.read_exact_at(&mut some, *at).ok().filter(|()| !some.is_empty())?;
    *at += some.len() as u64;
    Some(some.chunks_exact(bytes).filter_map(|bytes| Row::parse(bytes, test)).collect())
}

#[cfg(all(test, feature = "load"))]
mod tests {
    use bbrlab_study::ab::assign::{AssignmentUnit, PrefixLengths};
    use bbrlab_study::ab::guard::Limits;
    use bbrlab_study::ab::{Arm, Change, Counts, Shares};

    use super::*;
    use crate::ab::read_all;

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
            rule: None,
            tick_ns: 4_000_000,
            unix_minus_monotonic_ns: 0,
            begun_unix_s: 0.0,
            limits: Limits::default(),
            splits: Vec::new(),
            counts: Counts::default(),
            ended: None,
            host: None,
            hosts: Vec::new(),
        }
    }

    fn spool(folder: &Folder, records: u8) {
        let bytes: Vec<u8> = (0..records).flat_map(|_| [0; record::BYTES]).collect();
        fs::write(folder.file(SPOOL), bytes).unwrap();
    }

    #[test]
    fn a_description_that_outgrows_its_reserved_space_is_still_the_newest() {
        let (folder, mut test) = (folder("grown"), experiment());
        folder.reserve().unwrap();
        let change = Change { epoch: 1, at_unix_s: 0.0, shares: Shares(vec![5_000, 5_000]), why: "a ramp".to_owned() };
        for count in [1, 400] {
            test.splits = vec![change.clone(); count];
            folder.describe(&test).unwrap();
            assert_eq!(folder.experiment().unwrap().splits.len(), count);
        }
        // The space stays taken.
        assert_eq!(fs::metadata(folder.file(RESERVED)).unwrap().len(), RESERVED_BYTES);
        fs::remove_dir_all(&folder.0).unwrap();
    }

    #[test]
    fn a_request_waits_for_an_earlier_one_and_only_its_own_answer_counts() {
        let folder = folder("asked");
        assert!(folder.request("split 40,60").unwrap() && !folder.request("stop").unwrap());
        assert_eq!(folder.asked().unwrap(), "split 40,60");
        // The test ends without an answer to it.
        folder.answered(Folder::STOP);
        assert_eq!(folder.asked().unwrap(), "split 40,60");
        folder.answered("split 40,60");
        assert!(folder.asked().is_none() && folder.request("stop").unwrap());
        fs::remove_dir_all(&folder.0).unwrap();
    }

    #[test]
    fn a_test_is_stopped_once_its_lock_is_free() {
        let folder = folder("stopped");
        let lock = folder.lock().unwrap();
        folder.request(Folder::STOP).unwrap();
        folder.answered(Folder::STOP);
        assert!(!folder.is_done(Folder::STOP, true) && folder.is_done("split 40,60", true));
        drop(lock);
        assert!(folder.is_done(Folder::STOP, true));
        fs::remove_dir_all(&folder.0).unwrap();
    }

    #[test]
    fn each_record_is_read_once_after_a_crash_at_any_point() {
        let (folder, test) = (folder("died"), experiment());
        folder.describe(&test).unwrap();
        let count = || read_all(std::slice::from_ref(&folder.0)).unwrap().1.count().unwrap();
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
