//! `bbrlab sweep`: runs any scenario over any axes, on all cores; an interrupted sweep resumes from its directory.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bbrlab_report::export::parquet::{self, Values, Writer};
use bbrlab_stats::number::significant;
use bbrlab_stats::plural::counted;
use bbrlab_study::product::Vary;
use bbrlab_study::sweep::{self, Cells, Metric, Row, Sweep, axis};
use clap::Args;
use rayon::prelude::*;

use crate::args::{KeyArgs, SweepKeys};
use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::progress::Progress;
use crate::provenance::provenance;
use crate::{Error, Verdict, inputs, print};

/// Files in a sweep's directory, and nothing else: description, rows of each block, series of each run, table of all
/// rows.
const SPEC: &str = "sweep.json";
const BLOCKS: &str = "blocks";
const SAMPLES: &str = "samples";
const RUNS: &str = "runs.parquet";
/// Rows of one row group of `runs.parquet`, which is held in memory. Ours.
const GROUP: usize = 8192;

/// Writer for a file's bytes.
type ByteWriter<'a> = &'a mut (dyn std::io::Write + Send);

/// Flags of `bbrlab sweep`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bbrlab sweep --vary cc=bbr1,bbr3,cubic --vary rate=1mbit..1gbit:7 --vary buffer=0.1bdp,8bdp \\\n    \
            --out out/sweep\n  \
        bbrlab sweep sweep.toml --repeat 3 --out out/sweep --report out/sweep.html\n  \
        bbrlab sweep sweep.toml --out out/sweep --shard $TASK/20\n\n\
        An axis with the name of a scenario key sets that key; any other axis replaces {NAME} in the values, as {cc} in --flow '{cc}'. \
        A sweep file is a scenario with [[vary]] tables: name, values.")]
pub struct SweepArgs {
    /// Scenario in TOML, with [[vary]] tables for the axes; flags override it
    pub file: Option<PathBuf>,

    #[command(flatten)]
    pub keys: KeyArgs<SweepKeys>,

    /// Add an axis: NAME=VALUE,VALUE… or NAME=LOW..HIGH:COUNT (in geometric steps; COUNTlin: linear); separate values
    /// with `;` instead of commas if a value contains one (repeatable)
    #[arg(long, value_name = "AXIS", help_heading = "Axes")]
    pub vary: Vec<String>,
    /// Run only every N-th block of runs, starting with the I-th, for array jobs on a cluster; the last shard to finish
    /// merges the tables
    #[arg(long, value_name = "I/N", help_heading = "Run")]
    pub shard: Option<String>,
    /// Directory of the results; an interrupted sweep resumes there
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: PathBuf,
    /// Start over: remove the sweep's own files from the directory, and nothing else
    #[arg(long, help_heading = "Output")]
    pub fresh: bool,
    /// Also record each run's series, as samples/ID.parquet
    #[arg(long, help_heading = "Output")]
    pub samples: bool,
    /// Columns of runs.parquet to show in the table and on the page
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Output")]
    pub show: Vec<String>,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub report: Option<PathBuf>,
    /// Add a decision tree to the page: the best value of this axis by region, as in --tree cc
    #[arg(long, value_name = "AXIS", requires = "report", help_heading = "Output")]
    pub tree: Option<String>,
    /// Baseline of the page's ratios: a value of the first axis whose values are names [default: cubic, else the first]
    #[arg(long, value_name = "VALUE", requires = "report", help_heading = "Output")]
    pub against: Option<String>,
    /// Print no table
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// Maximum number of an axis's values listed on the page. Ours.
const LISTED: usize = 4;

/// Runs the command.
pub fn sweep(args: &SweepArgs) -> Result<Verdict, Error> {
    crate::start_threads()?;
    if inputs::is_stdin(&args.out) {
        let rule = "a sweep is a directory of files; name one, as in out/sweep";
        return Err(Error::PathRule { flag: "--out", path: args.out.clone(), rule });
    }
    let sweep = specified(args)?;
    let shown = shown(args)?;
    let (shard, shards) = shard(args.shard.as_deref())?;
    let report = Target::asked("--report", args.report.as_deref())?;
    if report.as_ref().is_some_and(|report| [SPEC, RUNS].iter().any(|name| report.would_be(&args.out.join(name)))) {
        let rule = "it names a file of the sweep itself; name another";
        return Err(Error::Rule { place: "--report", rule });
    }
    baseline(args, &sweep)?;
    if let Some(axis) = args.tree.as_deref().filter(|axis| sweep.product().axes().iter().all(|(name, _)| name != axis))
    {
        return Err(Error::UnknownAxis(axis.to_owned()));
    }
    if args.fresh && shards > 1 {
        let rule = "it would remove what other shards have done; start over without --shard";
        return Err(Error::Rule { place: "--fresh", rule });
    }
    if args.fresh {
        remove(&args.out).map_err(Error::output("--fresh", &args.out))?;
    }
    let place = SweepDirectory::open(&args.out, &sweep)?;
    if args.samples {
        place.subdirectory(SAMPLES)?;
    }
    let pending: Vec<usize> =
        (0..sweep.blocks()).filter(|block| block % shards == shard && !place.has(*block)).collect();
    let runs = pending.iter().map(|&block| sweep.block(block).len()).sum();
    let progress = Progress::new("sweeping", runs);
    let writing = Mutex::new(());
    pending.par_iter().with_max_len(1).try_for_each(|&block| -> Result<(), Error> {
        let rows: Vec<Row> = sweep
            .block(block)
            .map(|index| {
                let row = one(args, &sweep, &place, index, &writing);
                progress.tick();
                row
            })
            .collect::<Result<_, _>>()?;
        let _alone = writing.lock();
        place.write(block, &rows)
    })?;
    drop(progress);
    let left = (0..sweep.blocks()).filter(|block| !place.has(*block)).count();
    if left > 0 {
        let done = sweep.blocks() - left;
        print(&format!("{done} of {} done; other shards have the rest\n", counted(sweep.blocks(), "block")))?;
        return Ok(Verdict::Holds);
    }
    let cells = place.merge(&sweep)?;
    if let Some(report) = &report {
        let title = args.keys.get("name").unwrap_or("A sweep").to_owned();
        let page = bbrlab_report::render(&page(args, &sweep, &cells, &shown, &title)?);
        outputs::commit(report.write(|to| to.write_all(page.as_bytes()))?.into_iter().collect())?;
    }
    if !args.quiet && !outputs::take_stdout(&report) {
        print(&table(&sweep, &cells, &shown, &place))?;
    }
    Ok(Verdict::Holds)
}

/// The value that the page's ratios refer to.
fn baseline(args: &SweepArgs, sweep: &Sweep) -> Result<Option<(usize, String)>, Error> {
    sweep::baseline(sweep, args.against.as_deref()).map_err(|labels| match labels.as_slice() {
        [] => Error::Rule { place: "--against", rule: "the sweep has no axis of names; leave it out" },
        _ => Error::Baseline(labels),
    })
}

fn page(
    args: &SweepArgs,
    sweep: &Sweep,
    cells: &Cells,
    shown: &[Metric],
    title: &str,
) -> Result<bbrlab_report::Report, Error> {
    let base = baseline(args, sweep)?;
    let mut page = sweep::page(sweep, cells, shown, base.as_ref().map(|(place, _)| *place), title);
    let axes: Vec<String> = sweep
        .product()
        .axes()
        .iter()
        .map(|(name, points)| match points.as_slice() {
            [first, .., last] if points.len() > LISTED => {
                format!("{name} {}…{} ({} values)", first.label, last.label, points.len())
            }
            all => format!("{name} {}", all.iter().map(|point| point.label.as_str()).collect::<Vec<_>>().join(", ")),
        })
        .collect();
    let seed = args.keys.get("seed").unwrap_or("1").to_owned();
    let mut facts = vec![("axes", axes.join("; ")), ("ran in", "the simulator".to_owned()), ("first seed", seed)];
    facts.extend(base.map(|(_, label)| ("ratios to", label)));
    page.provenance = provenance(&facts);
    if let Some(axis) = &args.tree {
        page.sections.insert(0, bbrlab_study::choose::when::section(sweep, cells, axis)?);
    }
    Ok(page)
}

/// Runs one combination; if requested, its series go to a file of their own.
fn one(
    args: &SweepArgs,
    sweep: &Sweep,
    place: &SweepDirectory,
    index: usize,
    writing: &Mutex<()>,
) -> Result<Row, Error> {
    if !args.samples {
        return Ok(sweep.run(index)?);
    }
    let (row, setup, mut output) = sweep.run_with_series(index)?;
    output.result.scenario = serde_json::to_value(sweep.setup(index)?.0).map_err(Error::encode("scenario"))?;
    let record =
        bbrlab_report::export::Record { setup: &setup, result: &output.result, trace: &output.trace, packets: &[] };
    let bytes = parquet::samples(&record).map_err(Error::flag("--samples"))?;
    let _alone = writing.lock();
    place.put(&place.dir.join(SAMPLES).join(format!("{:016x}.parquet", row.id)), |to| to.write_all(&bytes))?;
    Ok(row)
}

/// The sweep specified by file and flags.
fn specified(args: &SweepArgs) -> Result<Sweep, Error> {
    let mut base = toml::Table::new();
    let mut axes: Vec<Vary> = Vec::new();
    if let Some(path) = &args.file {
        let file = inputs::name(path);
        let text = inputs::scenario(path).map_err(Error::input(&file, "a sweep in TOML"))?;
        base = text.parse::<toml::Table>().map_err(|source| {
            let line = source.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            Error::Toml { file: file.clone(), line, source }
        })?;
        if let Some(vary) = base.remove("vary") {
            axes = vary_of(vary).map_err(Error::at(format!("{file}: vary")))?;
        }
    }
    for (key, text) in args.keys.overrides() {
        if let Some(vary) = args.vary.iter().find(|vary| vary.split('=').next().map(str::trim) == Some(key)) {
            return Err(Error::SetTwice { key, vary: vary.clone() });
        }
        let keys = crate::scenario::keys_of(key, text)?;
        base.extend(keys.into_iter().map(|(key, text)| (key, toml::Value::String(text))));
    }
    if !args.keys.flows().is_empty() {
        let flows: Vec<String> = args.keys.flows().iter().map(|flow| inputs::flow(flow)).collect::<Result<_, _>>()?;
        base.insert("flow".to_owned(), flows.into());
    }
    let mut flags: Vec<String> = Vec::new();
    for text in &args.vary {
        let vary = axis::parse(text).map_err(Error::flag("--vary"))?;
        if flags.contains(&vary.name) {
            return Err(Error::AxisTwice(vary.name));
        }
        flags.push(vary.name.clone());
        match axes.iter_mut().find(|known| known.name == vary.name) {
            Some(known) => *known = vary,
            None => axes.push(vary),
        }
    }
    if axes.is_empty() {
        let rule = "a sweep has an axis; write as in --vary rate=1mbit..1gbit:7";
        return Err(Error::Rule { place: "--vary", rule });
    }
    if axes.iter().any(|vary| vary.name == "cc") && !base.contains_key("flow") {
        base.insert("flow".to_owned(), vec!["{cc}".to_owned()].into());
    }
    if !args.samples {
        base.insert("sample".to_owned(), "0s".into());
    }
    Ok(Sweep::new(base, &axes, (env!("CARGO_PKG_VERSION"), &build()))?)
}

/// Identifies this build: a hash of the program's bytes.
fn build() -> String {
    let program = std::env::current_exe().and_then(fs::read);
    program.map_or_else(|_| String::new(), |bytes| format!("{:016x}", bbrlab_sim::metrics::fnv1a(&bytes)))
}

/// The `[[vary]]` tables of a file.
fn vary_of(value: toml::Value) -> Result<Vec<Vary>, Error> {
    let tables: Vec<Vary> = bbrlab_sim::scenario::read(value)?;
    tables.into_iter().map(|vary| Ok(axis::vary(&vary.name, vary.values)?)).collect()
}

/// The figures to show, by name.
fn shown(args: &SweepArgs) -> Result<Vec<Metric>, Error> {
    if args.show.is_empty() {
        return Ok(sweep::shown_by_default());
    }
    let place = |name: &String| {
        Metric::named(name).ok_or_else(|| {
            let known = Metric::ALL.iter().map(|metric| metric.name()).collect();
            Error::UnknownFigure { name: name.clone(), known }
        })
    };
    args.show.iter().map(place).collect()
}

/// Parses `2/5` as (1, 5): the second of five shares.
fn shard(text: Option<&str>) -> Result<(usize, usize), Error> {
    let Some(text) = text else { return Ok((0, 1)) };
    let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
    match parts {
        Some((i, n)) if (1..=n).contains(&i) => Ok((i - 1, n)),
        _ => {
            let problem = "is not a shard; write I/N with I from 1 to N, as in 2/5";
            Err(Error::Value { flag: "--shard", found: text.to_owned(), problem })
        }
    }
}

/// Removes a sweep's files, and leaves all others in its directory.
fn remove(dir: &Path) -> std::io::Result<()> {
    if !dir.join(SPEC).is_file() {
        return Ok(());
    }
    for part in [BLOCKS, SAMPLES].map(|part| dir.join(part)).iter().filter(|part| part.is_dir()) {
        for file in fs::read_dir(part)? {
            let file = file?;
            if is_numbered(&file.file_name().to_string_lossy()) {
                fs::remove_file(file.path())?;
            }
        }
        // Foreign files stay, and the directory with them.
        let _ = fs::remove_dir(part);
    }
    let runs = dir.join(RUNS);
    if runs.exists() {
        fs::remove_file(runs)?;
    }
    // Last, so that rows never remain without the sweep that they belong to.
    fs::remove_file(dir.join(SPEC))
}

/// True if a file is named like those of blocks and runs, unfinished ones included: `000012.csv`, `.000012.csv.77.tmp`.
fn is_numbered(name: &str) -> bool {
    let number = name.trim_start_matches('.').split('.').next().unwrap_or_default();
    matches!(number.len(), 6 | 16) && number.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Directory of a sweep.
struct SweepDirectory {
    dir: PathBuf,
}

impl SweepDirectory {
    /// Creates the directory, or opens the same sweep in it. Shards may do so concurrently.
    fn open(dir: &Path, sweep: &Sweep) -> Result<Self, Error> {
        let fault = |rule| Error::PathRule { flag: "--out", path: dir.to_owned(), rule };
        let place = Self { dir: dir.to_owned() };
        let spec = serde_json::to_string_pretty(sweep.spec()).map_err(Error::encode("sweep"))? + "\n";
        fs::create_dir_all(dir).map_err(Error::output("--out", dir))?;
        // The parts of a sweep are created after the file that describes it: without that file they have no owner. They are looked for
        // first, as another shard may be creating both.
        let has_parts = [BLOCKS, RUNS].iter().any(|part| dir.join(part).exists());
        match fs::read_to_string(dir.join(SPEC)) {
            Ok(there) if there == spec => {}
            Ok(_) => {
                return Err(fault(
                    "it holds another sweep, or one by another build (see its sweep.json); name another directory, or \
                     write --fresh",
                ));
            }
            Err(_) if has_parts => {
                return Err(fault("it holds parts of a sweep without their sweep.json; name another directory"));
            }
            Err(_) => place.put(&dir.join(SPEC), |to| to.write_all(spec.as_bytes()))?,
        }
        place.subdirectory(BLOCKS)?;
        Ok(place)
    }

    fn subdirectory(&self, name: &str) -> Result<(), Error> {
        let made = fs::create_dir_all(self.dir.join(name));
        made.map_err(Error::output("--out", &self.dir))
    }

    fn block(&self, block: usize) -> PathBuf {
        self.dir.join(BLOCKS).join(format!("{block:06}.csv"))
    }

    /// True if a block is complete: files get their names only then.
    fn has(&self, block: usize) -> bool {
        self.block(block).exists()
    }

    fn write(&self, block: usize, rows: &[Row]) -> Result<(), Error> {
        self.put(&self.block(block), |to| rows.iter().try_for_each(|row| writeln!(to, "{row}")))
    }

    fn put(&self, file: &Path, fill: impl FnOnce(ByteWriter<'_>) -> std::io::Result<()>) -> Result<(), Error> {
        outputs::commit(Target::check("--out", file)?.write(fill)?.into_iter().collect())
    }

    /// Merges all blocks to one table, group by group, and returns the medians for the plots.
    fn merge(&self, sweep: &Sweep) -> Result<Cells, Error> {
        let mut cells = Cells::new(sweep);
        let target = Target::check("--out", &self.dir.join(RUNS))?;
        let mut fault = None;
        let written = target.write(|to| {
            let mut group = Group::new(sweep);
            let mut writer = group.writer(to)?;
            for block in 0..sweep.blocks() {
                let file = BufReader::new(fs::File::open(self.block(block))?);
                for (index, line) in sweep.block(block).zip(file.lines()) {
                    let Some(row) = Row::parse(&line?) else {
                        fault = Some(self.block(block));
                        return Err(std::io::Error::other("a damaged block"));
                    };
                    group.push(sweep, index, &row);
                    cells.push(row);
                    if group.rows == GROUP {
                        group.flush(&mut writer)?;
                    }
                }
            }
            group.flush(&mut writer)?;
            writer.finish().map(drop)
        });
        if let Some(block) = fault {
            return Err(Error::DamagedBlock(block));
        }
        if cells.len() != sweep.product().len() {
            let rule = "a block lacks rows; remove it and run again";
            return Err(Error::PathRule { flag: "--out", path: self.dir.clone(), rule });
        }
        outputs::commit(written?.into_iter().collect())?;
        Ok(cells)
    }
}

/// Rows for the next row group of `runs.parquet`.
struct Group {
    names: Vec<String>,
    ids: Vec<Option<String>>,
    seeds: Vec<Option<u64>>,
    labels: Vec<Vec<Option<String>>>,
    figures: Vec<Vec<Option<f64>>>,
    rows: usize,
}

impl Group {
    fn new(sweep: &Sweep) -> Self {
        let names: Vec<String> = sweep.product().axes().iter().map(|(name, _)| format!("axis_{name}")).collect();
        Self {
            labels: vec![Vec::new(); names.len()],
            figures: vec![Vec::new(); Metric::COUNT],
            names,
            ids: Vec::new(),
            seeds: Vec::new(),
            rows: 0,
        }
    }

    fn push(&mut self, sweep: &Sweep, index: usize, row: &Row) {
        self.ids.push(Some(format!("{:016x}", row.id)));
        self.seeds.push(Some(row.seed));
        for (column, point) in self.labels.iter_mut().zip(sweep.product().points(sweep.combination(index))) {
            column.push(Some(point.label.clone()));
        }
        for (column, &figure) in self.figures.iter_mut().zip(&row.figures) {
            column.push((!figure.is_nan()).then_some(figure));
        }
        self.rows += 1;
    }

    fn columns(&mut self) -> Vec<Values> {
        let mut columns =
            vec![Values::Text(std::mem::take(&mut self.ids)), Values::Whole(std::mem::take(&mut self.seeds))];
        columns.extend(self.labels.iter_mut().map(|column| Values::Text(std::mem::take(column))));
        columns.extend(self.figures.iter_mut().map(|column| Values::Float(std::mem::take(column))));
        self.rows = 0;
        columns
    }

    fn writer<'a>(&mut self, to: ByteWriter<'a>) -> std::io::Result<Writer<ByteWriter<'a>>> {
        let columns = self.columns();
        let names = ["run_id", "seed"].into_iter().chain(self.names.iter().map(String::as_str));
        let names = names.chain(Metric::ALL.iter().map(|metric| metric.name()));
        Writer::new(to, "runs", &names.zip(&columns).collect::<Vec<_>>())
    }

    fn flush(&mut self, writer: &mut Writer<ByteWriter<'_>>) -> std::io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let columns = self.columns();
        writer.group(&columns.iter().collect::<Vec<_>>())
    }
}

/// Summarises the sweep in a few lines.
fn table(sweep: &Sweep, cells: &Cells, shown: &[Metric], place: &SweepDirectory) -> String {
    let axes = sweep.product().axes();
    let names = axes.iter().position(|(_, points)| points.iter().any(|point| axis::number(&point.label).is_none()));
    let over = names.unwrap_or(0);
    let head: Vec<String> = std::iter::once(axes[over].0.clone())
        .chain(shown.iter().map(|&which| format!("{}, {}", which.name(), which.unit())))
        .collect();
    let rows = axes[over].1.iter().enumerate().map(|(value, point)| {
        let figures =
            shown.iter().map(|&which| significant(cells.median(sweep, &[(over, value)], which) * which.scale(), 4));
        std::iter::once(point.label.clone()).chain(figures).collect()
    });
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let align: Vec<Align> =
        head.iter().enumerate().map(|(nth, _)| if nth == 0 { Align::Left } else { Align::Right }).collect();
    let mut text = aligned(&head, &align, rows);
    text += &format!(
        "\nmedians over {} ({}, {} each); all runs: {}\n",
        counted(sweep.len(), "run"),
        counted(sweep.product().len(), "combination"),
        counted(sweep.spec().repeat, "seed"),
        place.dir.join(RUNS).display()
    );
    text
}
