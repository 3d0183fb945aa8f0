//! Storage of records: atomic, bounded, and never delaying a connection.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::thread::{self, JoinHandle};

use bbrlab_study::ab::Experiment;
use bbrlab_study::ab::record::BYTES;

use super::folder::{Folder, SPOOL};

/// Records per table. Ours: a table of some 5 MB.
const ROTATE: u64 = 100_000;

/// The records of a running test.
#[derive(Debug)]
pub(super) struct RecordWriter {
    folder: Folder,
    spool: File,
    /// Bytes of complete records in the spool.
    spooled: u64,
    /// Thread that makes a table, while the ring is emptied into the next spool.
    making: Option<JoinHandle<io::Result<u64>>>,
    /// Bytes of tables, and of spools that are to become tables.
    kept: u64,
    max: u64,
    pub(super) written: u64,
    pub(super) lost: u64,
}

impl RecordWriter {
    /// Creates a store whose tables and spools together take at most `max` bytes.
    pub(super) fn new(folder: Folder, max: u64) -> io::Result<Self> {
        let spool = new_spool(&folder)?;
        Ok(Self { folder, spool, spooled: 0, making: None, kept: 0, max, written: 0, lost: 0 })
    }

    /// Appends complete records. Records without space are counted; the error gives the reason.
    pub(super) fn add(&mut self, records: &[u8]) -> io::Result<()> {
        let count = (records.len() / BYTES) as u64;
        if count == 0 {
            return Ok(());
        }
        if self.kept + self.spooled + records.len() as u64 > self.max {
            self.lost += count;
            return Err(io::Error::other("the limit of --disk is reached"));
        }
        let done = self.spool.write_all(records);
        // Complete records stay on disk; a partial one is truncated, so that the next starts at a record boundary.
        let whole = match &done {
            Ok(()) => count,
            Err(_) => self.spool.metadata()?.len().saturating_sub(self.spooled) / BYTES as u64,
        };
        self.spooled += whole * BYTES as u64;
        self.written += whole;
        self.lost += count - whole;
        if done.is_err() {
            self.spool.set_len(self.spooled)?;
            self.spool.seek(SeekFrom::Start(self.spooled))?;
        }
        done
    }

    /// Starts a table once there are enough records and the previous table is done.
    ///
    /// If a table cannot be made its records stay, and the next attempt includes them.
    pub(super) fn rotate_if_full(&mut self, test: &Experiment) -> io::Result<()> {
        if self.making.as_ref().is_some_and(|making| !making.is_finished()) {
            return Ok(());
        }
        let made = self.made();
        if self.spooled >= ROTATE * BYTES as u64 {
            self.folder.seal()?;
            self.spool = new_spool(&self.folder)?;
            self.spooled = 0;
            self.kept = self.folder.kept();
            let (folder, test) = (self.folder.clone(), test.clone());
            self.making = Some(thread::spawn(move || folder.make_tables(&test)));
        }
        made
    }

    /// Collects the outcome of the last table.
    fn made(&mut self) -> io::Result<()> {
        let Some(making) = self.making.take() else { return Ok(()) };
        let made = making.join().unwrap_or_else(|_| Err(io::Error::other("the table's thread ended")));
        self.kept = self.folder.kept();
        made.map(drop)
    }

    /// Makes the last table.
    pub(super) fn finish(mut self, test: &Experiment) -> io::Result<()> {
        // Work that failed earlier is retried.
        let _ = self.made();
        self.folder.seal()?;
        self.folder.make_tables(test).map(drop)
    }
}

fn new_spool(folder: &Folder) -> io::Result<File> {
    File::options().create(true).write(true).truncate(true).open(folder.file(SPOOL))
}
