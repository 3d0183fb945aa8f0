//! Records on their way to the disk: whole, bounded, and never in a connection's way.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use bbrlab_lab::ab::Experiment;
use bbrlab_lab::ab::record::BYTES;

use super::folder::{Folder, SPOOL};

/// Records of a table. Ours: a table of some 5 MB, made in less time than the ring takes to fill.
const ROTATE: u64 = 100_000;

/// The records of a running test.
#[derive(Debug)]
pub struct Store {
    folder: Folder,
    spool: File,
    /// Bytes of whole records in the spool.
    spooled: u64,
    /// No table before the spool holds so many: more after one that could not be made.
    rotate_at: u64,
    tables: u64,
    most: u64,
    pub written: u64,
    pub lost: u64,
}

impl Store {
    /// `most` is how many bytes tables and spool may have together.
    pub fn new(folder: Folder, most: u64) -> io::Result<Self> {
        let spool = File::options().create(true).write(true).truncate(true).open(folder.file(SPOOL))?;
        Ok(Self { folder, spool, spooled: 0, rotate_at: ROTATE * BYTES as u64, tables: 0, most, written: 0, lost: 0 })
    }

    /// Takes whole records. What there is no room for is counted; the error says why.
    pub fn add(&mut self, records: &[u8]) -> io::Result<()> {
        let count = (records.len() / BYTES) as u64;
        if count == 0 {
            return Ok(());
        }
        if self.tables + self.spooled + records.len() as u64 > self.most {
            self.lost += count;
            return Err(io::Error::other("the limit of --disk is reached"));
        }
        if let Err(error) = self.spool.write_all(records) {
            // What was begun is cut off, so that the next record stands where one begins.
            self.spool.set_len(self.spooled)?;
            self.spool.seek(SeekFrom::Start(self.spooled))?;
            self.lost += count;
            return Err(error);
        }
        self.spooled += records.len() as u64;
        self.written += count;
        Ok(())
    }

    /// Makes a table once there is enough for one.
    pub fn rotate_if_full(&mut self, test: &Experiment) -> io::Result<()> {
        if self.spooled < self.rotate_at { Ok(()) } else { self.rotate(test) }
    }

    /// Makes a table of what there is. Where it cannot be made the spool stays, and grows.
    pub fn rotate(&mut self, test: &Experiment) -> io::Result<()> {
        if let Err(error) = self.folder.make_table(test) {
            self.rotate_at = self.spooled + ROTATE * BYTES as u64;
            return Err(error);
        }
        self.tables = self.folder.tables().iter().filter_map(|path| Some(path.metadata().ok()?.len())).sum();
        self.spool = File::options().create(true).write(true).truncate(true).open(self.folder.file(SPOOL))?;
        self.spooled = 0;
        self.rotate_at = ROTATE * BYTES as u64;
        Ok(())
    }

    /// Makes the last table.
    pub fn finish(mut self, test: &Experiment) -> io::Result<()> {
        self.rotate(test)?;
        std::fs::remove_file(self.folder.file(SPOOL))
    }
}
