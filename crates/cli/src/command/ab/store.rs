//! Records on their way to the disk: whole, bounded, and never in a connection's way.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::thread::{self, JoinHandle};

use bbrlab_lab::ab::Experiment;
use bbrlab_lab::ab::record::BYTES;

use super::folder::{Folder, SPOOL};

/// Records of a table. Ours: a table of some 5 MB.
const ROTATE: u64 = 100_000;

/// The records of a running test.
#[derive(Debug)]
pub struct Store {
    folder: Folder,
    spool: File,
    /// Bytes of whole records in the spool.
    spooled: u64,
    /// Makes a table, meanwhile the ring is emptied into the next spool.
    making: Option<JoinHandle<io::Result<u64>>>,
    /// Bytes of tables, and of what is to be one.
    kept: u64,
    most: u64,
    pub written: u64,
    pub lost: u64,
}

impl Store {
    /// `most` is how many bytes tables and spools may have together.
    pub fn new(folder: Folder, most: u64) -> io::Result<Self> {
        let spool = new_spool(&folder)?;
        Ok(Self { folder, spool, spooled: 0, making: None, kept: 0, most, written: 0, lost: 0 })
    }

    /// Takes whole records. What there is no room for is counted; the error says why.
    pub fn add(&mut self, records: &[u8]) -> io::Result<()> {
        let count = (records.len() / BYTES) as u64;
        if count == 0 {
            return Ok(());
        }
        if self.kept + self.spooled + records.len() as u64 > self.most {
            self.lost += count;
            return Err(io::Error::other("the limit of --disk is reached"));
        }
        let done = self.spool.write_all(records);
        // Of what there was no room for, the whole records stay; one that was begun is cut off, so that the next begins where it did.
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

    /// Begins a table once there is enough for one and the last is done. Where one could not be made its records stay, and the next
    /// attempt takes them too.
    pub fn rotate_if_full(&mut self, test: &Experiment) -> io::Result<()> {
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

    /// What came of the last table.
    fn made(&mut self) -> io::Result<()> {
        let Some(making) = self.making.take() else { return Ok(()) };
        let made = making.join().unwrap_or_else(|_| Err(io::Error::other("the table's thread ended")));
        self.kept = self.folder.kept();
        made.map(drop)
    }

    /// Makes the last table.
    pub fn finish(mut self, test: &Experiment) -> io::Result<()> {
        // What an earlier one could not do is tried again.
        let _ = self.made();
        self.folder.seal()?;
        self.folder.make_tables(test).map(drop)
    }
}

fn new_spool(folder: &Folder) -> io::Result<File> {
    File::options().create(true).write(true).truncate(true).open(folder.file(SPOOL))
}
