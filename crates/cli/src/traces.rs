//! `--csv`, `--parquet`, `--qlog`, `--pcap`: a run's series as files for other tools.
//! In: a finished run. Out: files, or several in a directory. Never: a format that this build lacks taken in silence.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bbrlab_lab::export::{Record, csv, qlog};
use bbrlab_lab::setup::Setup;
use bbrlab_lab::sim::Output;

use crate::Failure;
use crate::args::RunArgs;
use crate::outputs::{Place, Target};

/// What one file holds.
type Fill = fn(&Record<'_>, &mut dyn Write) -> io::Result<()>;

/// One file of one run.
#[derive(Debug)]
struct TraceFile {
    /// Which of the runs.
    run: usize,
    target: Target,
    fill: Fill,
}

/// All trace files that were asked for.
#[derive(Debug, Default)]
pub struct Traces(Vec<TraceFile>);

impl Traces {
    /// Checks that everything asked for can be written, for each of `runs` runs.
    pub fn check(args: &RunArgs, runs: usize) -> Result<Self, Failure> {
        let mut traces = Self::default();
        if args.pcap.is_some() {
            return Err(
                "--pcap: this build records no packets yet; --qlog, --csv and --parquet hold the series".to_owned()
            );
        }
        if let Some(path) = &args.csv {
            traces.add("--csv", path, runs, csv::long, &[("flows.csv", csv::flows), ("links.csv", csv::links)])?;
        }
        if let Some(path) = &args.qlog {
            let single = if path.extension().is_some_and(|e| e == "sqlog") { qlog::sequence } else { qlog::qvis };
            traces.add("--qlog", path, runs, single, &[("run.qlog", qlog::qvis), ("run.sqlog", qlog::sequence)])?;
        }
        if let Some(path) = &args.parquet {
            traces.add_parquet(path, runs)?;
        }
        Ok(traces)
    }

    #[cfg(feature = "parquet")]
    fn add_parquet(&mut self, path: &Path, runs: usize) -> Result<(), Failure> {
        use bbrlab_lab::export::parquet;
        let samples: Fill = |record, to| to.write_all(&parquet::samples(record)?);
        let figures: Fill = |record, to| to.write_all(&parquet::runs(record)?);
        self.add("--parquet", path, runs, samples, &[("samples.parquet", samples), ("runs.parquet", figures)])
    }

    #[cfg(not(feature = "parquet"))]
    fn add_parquet(&mut self, _: &Path, _: usize) -> Result<(), Failure> {
        Err("--parquet: this build has no Parquet; build with the feature parquet, or write --csv".to_owned())
    }

    fn add(
        &mut self,
        flag: &'static str,
        path: &Path,
        runs: usize,
        single: Fill,
        several: &[(&str, Fill)],
    ) -> Result<(), Failure> {
        let mut push = |run, path: PathBuf, fill| {
            self.0.push(TraceFile { run, target: Target::check(flag, &path)?, fill });
            Ok::<(), Failure>(())
        };
        match Place::of(flag, path)? {
            Place::File(path) if runs == 1 => push(0, path, single),
            Place::File(path) => {
                Err(format!("{flag}: {}: it cannot hold {runs} runs; name a directory, as in traces/", path.display()))
            }
            Place::Dir(dir) => {
                for run in 0..runs {
                    // Several runs need several names; they count as the result's `runs` do.
                    let prefix = if runs == 1 { String::new() } else { format!("{run}-") };
                    several
                        .iter()
                        .try_for_each(|(name, fill)| push(run, dir.join(format!("{prefix}{name}")), *fill))?;
                }
                Ok(())
            }
        }
    }

    /// Whether any was asked for.
    pub const fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// The files.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.0.iter().map(|file| &file.target)
    }

    /// Writes the files of the run `run`.
    pub fn write(&self, run: usize, setup: &Setup, output: &Output) -> Result<(), Failure> {
        let record = Record { setup, result: &output.result, trace: &output.trace };
        let mut own = self.0.iter().filter(|file| file.run == run);
        own.try_for_each(|file| file.target.write(|to| (file.fill)(&record, to)))
    }
}
