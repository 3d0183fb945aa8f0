//! `--csv`, `--parquet`, `--qlog`, `--pcap`: a run's series as files for other tools.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bbrlab_core::Time;
use bbrlab_report::export::pcap;
use bbrlab_report::export::{Record, csv, qlog};
use bbrlab_sim::backend::BackendInfo;
use bbrlab_sim::record::Output;
use bbrlab_sim::record::packets::Tap;
use bbrlab_sim::setup::{Capture, Setup};

use crate::Error;
use crate::args::TraceArgs;
use crate::outputs::{Destination, PendingFile, Target};

/// Default maximum of packets recorded in a run. Ours: 200 MB of memory, a minute at 100 Mbit/s at one place.
const PACKETS_DEFAULT: usize = 2_000_000;
/// Maximum of packets that a run may record. Ours: 10 GB of memory.
const PACKETS_MAX: usize = 100_000_000;

/// Writer of the series in one file.
type Series = fn(&Record<'_>, &mut dyn Write) -> io::Result<()>;

/// Contents of one file.
#[derive(Clone, Copy, Debug)]
enum TraceContents {
    Series(Series),
    Packets(Tap),
}

/// One file of one run.
#[derive(Debug)]
struct TraceFile {
    /// Index of the run.
    run: usize,
    target: Target,
    fill: TraceContents,
}

/// All requested trace files.
#[derive(Debug, Default)]
pub struct Traces {
    files: Vec<TraceFile>,
    /// Packets that the runs must record for them.
    pub capture: Capture,
}

impl Traces {
    /// Checks that all requested files can be written, for each of `runs` runs.
    ///
    /// Packets are added to a qlog too where recording them does not disturb the run.
    pub fn check(args: &TraceArgs, runs: usize, backend: &BackendInfo) -> Result<Self, Error> {
        let mut traces = Self::default();
        if args.qlog.is_some() && backend.logs_packets {
            traces.capture = Capture::On { limit: PACKETS_DEFAULT, taps: &[Tap::Sender] };
        }
        if let Some(path) = &args.pcap {
            traces.add_pcap(path, args.pcap_limit.as_deref(), runs, backend.taps)?;
        }
        let series = |series: Series| TraceContents::Series(series);
        if let Some(path) = &args.csv {
            let several = [("flows.csv", series(csv::flows)), ("links.csv", series(csv::links))];
            traces.add("--csv", path, runs, series(csv::long), &several)?;
        }
        if let Some(path) = &args.qlog {
            let single = if path.extension().is_some_and(|e| e == "sqlog") { qlog::sequence } else { qlog::qvis };
            let several = [("run.qlog", series(qlog::qvis)), ("run.sqlog", series(qlog::sequence))];
            traces.add("--qlog", path, runs, series(single), &several)?;
        }
        if let Some(path) = &args.parquet {
            traces.add_parquet(path, runs)?;
        }
        Ok(traces)
    }

    fn add_pcap(&mut self, path: &Path, limit: Option<&str>, runs: usize, taps: &'static [Tap]) -> Result<(), Error> {
        let limit = match limit {
            None => PACKETS_DEFAULT,
            Some(text) => {
                let limit = text.parse().ok().filter(|limit| (1..=PACKETS_MAX).contains(limit));
                limit.ok_or_else(|| Error::PacketCount { found: text.to_owned(), max: PACKETS_MAX })?
            }
        };
        let files: Vec<(String, TraceContents)> =
            taps.iter().map(|tap| (format!("{}.pcapng", tap.name()), TraceContents::Packets(*tap))).collect();
        let files: Vec<(&str, TraceContents)> = files.iter().map(|(name, fill)| (name.as_str(), *fill)).collect();
        self.add("--pcap", path, runs, TraceContents::Packets(Tap::Sender), &files)?;
        let taps: &[Tap] = if self.files.len() == 1 { &[Tap::Sender] } else { taps };
        self.capture = Capture::On { limit, taps };
        Ok(())
    }

    #[cfg(feature = "parquet")]
    fn add_parquet(&mut self, path: &Path, runs: usize) -> Result<(), Error> {
        use bbrlab_report::export::parquet;
        let samples = TraceContents::Series(|record, to| to.write_all(&parquet::samples(record)?));
        let figures = TraceContents::Series(|record, to| to.write_all(&parquet::runs(record)?));
        self.add("--parquet", path, runs, samples, &[("samples.parquet", samples), ("runs.parquet", figures)])
    }

    #[cfg(not(feature = "parquet"))]
    fn add_parquet(&mut self, _: &Path, _: usize) -> Result<(), Error> {
        let rule = "this build has no Parquet; build with the feature parquet, or write --csv";
        Err(Error::Rule { place: "--parquet", rule })
    }

    fn add(
        &mut self,
        flag: &'static str,
        path: &Path,
        runs: usize,
        single: TraceContents,
        several: &[(&str, TraceContents)],
    ) -> Result<(), Error> {
        let mut push = |run, path: PathBuf, fill| {
            self.files.push(TraceFile { run, target: Target::check(flag, &path)?, fill });
            Ok::<(), Error>(())
        };
        match Destination::of(flag, path)? {
            Destination::File(path) if runs == 1 => push(0, path, single),
            Destination::File(path) => Err(Error::OneFile { flag, path, runs }),
            Destination::Dir(dir) => {
                for run in 0..runs {
                    // Several runs need several names, numbered like the result's `runs`.
                    let prefix = if runs == 1 { String::new() } else { format!("{run}-") };
                    several
                        .iter()
                        .try_for_each(|(name, fill)| push(run, dir.join(format!("{prefix}{name}")), *fill))?;
                }
                Ok(())
            }
        }
    }

    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.files.iter().map(|file| &file.target)
    }

    /// Writes the files of the run `run`; they are renamed later.
    pub fn write(&self, run: usize, setup: &Setup, output: &Output) -> Result<Vec<PendingFile>, Error> {
        let record = Record { setup, result: &output.result, trace: &output.trace, packets: &output.packets.records };
        let own = self.files.iter().filter(|file| file.run == run);
        let written = own.map(|file| match file.fill {
            TraceContents::Series(fill) => file.target.write(|to| fill(&record, to)),
            TraceContents::Packets(tap) => file.target.write(|to| {
                let names = setup.flows.iter().map(|flow| flow.name.as_str());
                pcap::write(&output.packets.records, &[tap], names, &comment(&record), to)
            }),
        });
        Ok(written.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// Warns the user if packets are missing from a capture.
    pub fn missing(&self, setup: &Setup, output: &Output) -> Option<String> {
        let Capture::On { limit, .. } = self.capture else { return None };
        let cut = output.packets.cut?;
        let seconds = |at: Time| at.as_nanos() as f64 / 1e9;
        let (cut, end) = (seconds(cut), seconds(setup.duration));
        let is_pcap = self.files.iter().any(|file| matches!(file.fill, TraceContents::Packets(_)));
        let (flag, cure) = if is_pcap { ("--pcap", "a larger --pcap-limit or ") } else { ("--qlog", "") };
        Some(format!(
            "{flag}: seed {}: {limit} packets were recorded by {cut:.3} s of {end:.3} s, the rest is left out; \
             write {cure}a shorter --duration",
            setup.seed
        ))
    }
}

/// Comment in a capture: its run, and the scenario to repeat it.
fn comment(record: &Record<'_>) -> String {
    let result = record.result;
    format!("bbrlab {} on {}, seed {}; scenario: {}", result.version, result.on, result.seed, result.scenario)
}
