//! The records of a test on one host or several, read by all processors as often as an analysis needs them; or their summaries.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bbrlab_study::ab::{
    Experiment, Findings, PrefixLengths, Prefixes, Records, Row, Summary, fleet, judge, judge_summaries, record,
};

use super::folder::{Folder, RecordFile, raw_rows};
use crate::{Error, Result};

/// The records of one experiment, as they were when they were opened.
#[derive(Debug)]
pub struct RecordFiles(Vec<Part>);

/// A file of one host.
#[derive(Debug)]
struct Part {
    /// The host's own description.
    test: Experiment,
    /// Added to the epochs, in a report of several hosts.
    epochs: u32,
    file: RecordFile,
    /// Bytes of raw records.
    end: u64,
}

/// Input of a report: the records of all hosts, or a summary of each.
#[derive(Debug)]
pub enum Evidence {
    /// The records of all hosts.
    Records(Box<Experiment>, RecordFiles),
    /// At least one host has only a summary; the records of the others are summarised first.
    Summaries(Vec<HostEvidence>),
}

/// Records or summary of one host.
#[derive(Debug)]
pub enum HostEvidence {
    /// A file of `bbrlab ab summary`.
    Summary(Box<Summary>),
    /// A directory with records.
    Records(Box<Experiment>, RecordFiles),
}

impl Evidence {
    /// Opens the directories and summaries of one experiment.
    ///
    /// # Errors
    /// A directory holds no test or a damaged one, a file is no summary, or the tests are no one experiment.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        if !paths.iter().any(|path| path.is_file()) {
            let (test, records) = read_all(paths)?;
            return Ok(Self::Records(Box::new(test), records));
        }
        let one = |path: &PathBuf| {
            if !path.is_file() {
                let (test, records) = read_all(std::slice::from_ref(path))?;
                return Ok(HostEvidence::Records(Box::new(test), records));
            }
            let text = fs::read_to_string(path).map_err(Error::file(path))?;
            let summary = Summary::parse(&text);
            let summary = summary.map_err(|source| Error::Records { path: path.clone(), source: source.into() })?;
            Ok(HostEvidence::Summary(Box::new(summary)))
        };
        paths.iter().map(one).collect::<Result<_>>().map(Self::Summaries)
    }

    /// Bits that are kept of a client's address.
    pub fn keep(&self) -> PrefixLengths {
        match self {
            Self::Records(test, _) => test.keep,
            Self::Summaries(hosts) => hosts.first().map_or_else(PrefixLengths::default, |host| match host {
                HostEvidence::Summary(summary) => summary.test().keep,
                HostEvidence::Records(test, _) => test.keep,
            }),
        }
    }

    /// Analyses the test. `seed` is that of the bootstrap.
    ///
    /// # Errors
    /// Records cannot be read, or summaries cannot be put together.
    pub fn judge(self, prefixes: &Prefixes, seed: u64) -> Result<(Experiment, Findings)> {
        match self {
            Self::Records(test, records) => {
                let found = judge(&test, &records, prefixes, seed)?;
                Ok((*test, found))
            }
            Self::Summaries(hosts) => {
                let one = |host: HostEvidence| match host {
                    HostEvidence::Summary(summary) => Ok(*summary),
                    HostEvidence::Records(test, records) => Summary::of(&test, &records, prefixes, seed),
                };
                let all = hosts.into_iter().map(one).collect::<Result<_>>()?;
                Ok(judge_summaries(all, prefixes, seed)?)
            }
        }
    }
}

/// Opens the directories of one experiment on one host or several, as one test.
///
/// # Errors
/// A directory holds no test or a damaged one, or the tests are no one experiment.
pub fn read_all(folders: &[PathBuf]) -> Result<(Experiment, RecordFiles)> {
    // Descriptions come first: what is wrong with one is known before any table is read.
    let tests = folders.iter().map(|folder| Folder(folder.clone()).experiment()).collect::<Result<Vec<_>>>()?;
    let (test, offsets) = fleet::merge(tests.clone())?;
    let mut parts = Vec::new();
    for ((folder, test), epochs) in folders.iter().zip(tests).zip(offsets) {
        for file in Folder(folder.clone()).files()? {
            let end = match &file {
                RecordFile::Raw(file) => file.metadata().map_or(0, |meta| meta.len()),
                RecordFile::Table(_) => 0,
            };
            parts.push(Part { test: test.clone(), epochs, file, end });
        }
    }
    Ok((test, RecordFiles(parts)))
}

impl Part {
    fn read(&self, fields: &[&str], mut each: impl FnMut(&[Row])) -> Result<()> {
        let mut moved = Vec::new();
        let mut each = |rows: &[Row]| {
            if self.epochs == 0 {
                return each(rows);
            }
            moved.clear();
            moved.extend(rows.iter().map(|row| Row { epoch: row.epoch + self.epochs, ..row.clone() }));
            each(&moved);
        };
        match &self.file {
            RecordFile::Raw(file) => {
                let mut at = 0;
                while let Some(rows) = raw_rows(file, &mut at, self.end, &self.test) {
                    each(&rows);
                }
                Ok(())
            }
            RecordFile::Table(path) => {
                let file = File::open(path).map_err(Error::file(path))?;
                let read = record::read(file, fields, each);
                read.map_err(|source| Error::Records { path: path.clone(), source: source.into() })
            }
        }
    }
}

impl Records for RecordFiles {
    type Error = Error;

    fn scan<S: Send>(
        &self,
        fields: &[&str],
        new: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &[Row]) + Sync,
    ) -> Result<Vec<S>> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut state = new();
            while let Some(part) = self.0.get(next.fetch_add(1, Ordering::Relaxed)) {
                part.read(fields, |rows| each(&mut state, rows))?;
            }
            Ok(state)
        };
        let threads = thread::available_parallelism().map_or(1, Into::into).min(self.0.len()).max(1);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        })
    }
}

#[cfg(test)]
impl RecordFiles {
    /// Number of records.
    pub fn count(&self) -> Result<usize> {
        Ok(self.scan(&["id"], || 0, |count, rows| *count += rows.len())?.into_iter().sum())
    }
}
