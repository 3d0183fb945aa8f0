//! `bbrlab ab start`: runs a test from its first connection to its last table.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bbrlab_core::AlgorithmConfig;
use bbrlab_host::ab::{self as kernel_ab, AbConfig, Attached};
use bbrlab_host::objects::kernel_name;
use bbrlab_host::program::{Link, Program};
use bbrlab_host::{Error, kernel};
use bbrlab_live::{clock, hook};
use bbrlab_stats::plural::counted;
use bbrlab_study::ab::guard::Guards;
use bbrlab_study::ab::record::BYTES;
use bbrlab_study::ab::{
    Arm, ArmCounts, AssignmentUnit, Change, Counts, Experiment, Key, Row, SCHEMA, Shares, Table, TestEnd, labels,
};

use super::config::{EndCondition, StartConfig};
use super::folder::{Entry, Folder, KEY};
use super::status::shown_shares;
use super::store::RecordWriter;
use super::{Direction, StartArgs};
use crate::{Failure, Verdict, interrupt, print};

/// Interval between reads of the kernel's ring, which is then a twentieth full at 20,000 records a second. Ours.
const TURN: Duration = Duration::from_millis(100);
/// Turns between checks of the guardrails and the cgroup, and between updates of the description.
const TURNS_LOOK: u64 = 10;
const TURNS_DESCRIBE: u64 = 20;

/// Minimum time between two warnings about a full disk. Ours.
const AGAIN_NS: u64 = 3_600_000_000_000;

/// True once the end of the test was requested.
static ENDS: AtomicBool = AtomicBool::new(false);

fn said(fault: Error) -> Failure {
    fault.to_string()
}

/// An arm's congestion control that the kernel lacks, loaded by this process.
struct Loaded {
    _program: Program,
    _link: Link,
}

/// Finds each arm's congestion control, or loads it for the lifetime of this process.
fn arms(algorithms: &[String]) -> Result<(Vec<Arm>, Vec<Loaded>), Failure> {
    let available = kernel::available().map_err(said)?;
    let mut names: Vec<(String, bool)> = Vec::new();
    let mut loaded = Vec::new();
    for (at, text) in algorithms.iter().enumerate() {
        if let Some(same) = algorithms[..at].iter().position(|other| other == text) {
            names.push(names[same].clone());
            continue;
        }
        let found = [text.clone(), kernel_name(text)].into_iter().find(|name| available.contains(name));
        if let Some(name) = found {
            names.push((name, false));
            continue;
        }
        let config = super::super::host::algorithm(text)
            .map_err(|error| format!("--arms: {error}; the kernel has {}", available.join(", ")))?;
        let name = free_name(&config, &available, &names);
        let mut program = Program::load(&config, &name).map_err(said)?;
        let link = program.register().map_err(said)?;
        bbrlab_live::kernel::trial::transfer(&name)
            .map_err(|error| format!("{text}: a transfer over it failed: {error}"))?;
        loaded.push(Loaded { _program: program, _link: link });
        names.push((name, true));
    }
    let labels = labels(algorithms);
    let treatment = |((label, algorithm), (name, is_loaded_for_it)): ((String, &String), (String, bool))| Arm {
        label,
        algorithm: algorithm.clone(),
        name,
        is_loaded_for_it,
    };
    Ok((labels.into_iter().zip(algorithms).zip(names).map(treatment).collect(), loaded))
}

fn free_name(config: &AlgorithmConfig, available: &[String], names: &[(String, bool)]) -> String {
    let own = kernel_name(config.name());
    let is_free = |name: &String| !available.contains(name) && !names.iter().any(|(other, _)| other == name);
    let numbered = (2..).map(|nth| format!("{own}.{nth}"));
    std::iter::once(own.clone()).chain(numbered).find(is_free).unwrap_or(own)
}

/// Creates a directory, or accepts an empty one.
fn folder(out: &Path) -> Result<Folder, Failure> {
    let fault = |error: std::io::Error| format!("--out: {}: {error}", out.display());
    fs::create_dir_all(out).map_err(fault)?;
    let out = out.canonicalize().map_err(fault)?;
    if fs::read_dir(&out).map_err(fault)?.next().is_some() {
        return Err(format!("--out: {}: it is not empty; name a new directory", out.display()));
    }
    Ok(Folder(out))
}

fn new_key() -> Result<Key, Failure> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| format!("/dev/urandom: {error}"))?;
    let half = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
    Ok(Key([half(0), half(8)]))
}

/// Saves the key for this user only: anyone who has it can choose the arm of a connection.
fn save_key(folder: &Folder, key: Key) -> Result<(), Failure> {
    let path = folder.file(KEY);
    let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| writeln!(file, "{key}"));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// Refuses a cgroup on which another program acts, unless the user allows it.
fn check_hook(cgroup: &Path, is_multi: bool) -> Result<(), Failure> {
    let others = hook::sock_ops_of(cgroup).map_err(|error| format!("{}: {error}", cgroup.display()))?;
    if others.is_empty() || is_multi {
        return Ok(());
    }
    let ids: Vec<String> = others.iter().map(u32::to_string).collect();
    Err(format!(
        "{}: another program already acts on its connections (BPF program {}); end that, or give --multi if both may, see `bpftool prog show id {}`",
        cgroup.display(),
        ids.join(", "),
        ids[0]
    ))
}

/// Runs a test until it ends.
pub fn start(args: &StartArgs) -> Result<Verdict, Failure> {
    let asked = StartConfig::new(args)?;
    kernel_ab::check().map_err(said)?;
    let cgroup = kernel_ab::cgroup(args.cgroup.as_deref()).map_err(said)?;
    check_hook(&cgroup, args.multi)?;
    let (arms, loaded) = arms(&asked.algorithms)?;
    let folder = folder(&args.out)?;
    let lock = folder.lock()?.ok_or_else(|| format!("--out: {}: a test is running there", folder.0.display()))?;
    let key = asked.key.map_or_else(new_key, Ok)?;
    save_key(&folder, key)?;
    let test = describe(args, &asked, arms, &cgroup);
    let entry = Entry { pid: std::process::id(), out: folder.0.clone(), cgroup: cgroup.clone() };
    let store =
        RecordWriter::new(folder.clone(), asked.disk).map_err(|error| format!("{}: {error}", folder.0.display()))?;
    folder.describe(&test).map_err(|error| format!("{}: {error}", folder.0.display()))?;
    let table = Table::new(&asked.shares);
    let plan = plan(args, &asked, key, &test);
    entry.write().map_err(|error| format!("the list of tests: {error}"))?;
    // The first signal ends the test in order, the second the process.
    interrupt::on_signal(|| !ENDS.swap(true, Ordering::SeqCst));
    let attached = Attached::new(&cgroup, &plan, table.bytes()).map_err(|fault| {
        entry.forget();
        folder.clear();
        said(fault)
    })?;
    print(&format!(
        "{} on {}: {}\nrecords in {}; Ctrl-C or `bbrlab ab stop` ends it, `bbrlab ab split` changes the shares\n",
        if test.is_aa() { "A/A test" } else { "test" },
        cgroup.display(),
        shown_shares(&test, &asked.shares),
        folder.0.display(),
    ))?;
    let limits = asked.limits;
    let inode = fs::metadata(&cgroup).map_or(0, |meta| meta.ino());
    let guards = Guards::new(limits, test.arms.len(), test.tick_ns);
    let running = Running { test, folder, store, attached, table, guards, cgroup: (cgroup, inode), said_full_ns: None };
    let done = running.run(&asked);
    entry.forget();
    drop((loaded, lock));
    done
}

fn describe(args: &StartArgs, asked: &StartConfig, arms: Vec<Arm>, cgroup: &Path) -> Experiment {
    let (wall, monotonic) = (clock::wall_ns(), clock::now_ns());
    let direction = match args.direction {
        Direction::In => "in",
        Direction::Out => "out",
        Direction::Both => "both",
    };
    let begun_unix_s = wall as f64 / 1e9;
    let shares = asked.shares.clone();
    Experiment {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: kernel::release(),
        counts: Counts { arms: vec![ArmCounts::default(); arms.len()], ..Counts::default() },
        arms,
        by: args.by.into(),
        slot_s: asked.slot.as_secs_f64(),
        keep: asked.keep,
        cgroup: cgroup.display().to_string(),
        ports: args.port.clone(),
        prefixes: args.prefix.clone(),
        direction: direction.to_owned(),
        tick_ns: kernel::tick_ns(),
        unix_minus_monotonic_ns: wall.saturating_sub(monotonic),
        begun_unix_s,
        limits: asked.limits,
        splits: vec![Change { epoch: 1, at_unix_s: begun_unix_s, shares, why: "the beginning".to_owned() }],
        ended: None,
    }
}

fn plan(args: &StartArgs, asked: &StartConfig, key: Key, test: &Experiment) -> AbConfig {
    AbConfig {
        key: key.0,
        by: AssignmentUnit::from(args.by).number(),
        slot: asked.slot,
        active: args.direction != Direction::In,
        passive: args.direction != Direction::Out,
        ports: args.port.clone(),
        prefixes: asked.prefixes.clone(),
        keep: (u32::from(asked.keep.v4), u32::from(asked.keep.v6)),
        names: test.arms.iter().map(|arm| arm.name.clone()).collect(),
    }
}

/// A running test.
struct Running {
    test: Experiment,
    folder: Folder,
    store: RecordWriter,
    attached: Attached,
    table: Table,
    guards: Guards,
    cgroup: (PathBuf, u64),
    /// Time of the last warning about a full disk.
    said_full_ns: Option<u64>,
}

impl Running {
    fn run(mut self, asked: &StartConfig) -> Result<Verdict, Failure> {
        let begun = clock::now_ns();
        let every = (asked.every.as_millis() / TURN.as_millis()).max(1) as u64;
        let mut turn = 0_u64;
        let how = loop {
            thread::sleep(TURN);
            turn += 1;
            self.take_closed()?;
            if turn.is_multiple_of(every) {
                self.take_open(false)?;
            }
            if turn.is_multiple_of(TURNS_LOOK) {
                self.count()?;
                self.guard()?;
                if let Some(gone) = self.gone() {
                    break gone;
                }
            }
            if turn.is_multiple_of(TURNS_DESCRIBE) {
                // A full disk has been reported; the description then stays as it was.
                let _ = self.folder.describe(&self.test);
            }
            if self.answer()? {
                break "stopped by `bbrlab ab stop`";
            }
            if ENDS.load(Ordering::SeqCst) {
                break "interrupted";
            }
            let seconds = (clock::now_ns() - begun) as f64 / 1e9;
            let is_over = match asked.until {
                EndCondition::Interrupted => false,
                EndCondition::Seconds(max) => seconds >= max,
                EndCondition::Connections(max) => {
                    self.test.counts.arms.iter().map(|arm| arm.established).sum::<u64>() >= max
                }
            };
            if is_over {
                break "the limit of --stop-after was reached";
            }
        };
        self.end(how)
    }

    /// Reason for which no connection can be assigned an arm any more.
    fn gone(&self) -> Option<&'static str> {
        let (path, inode) = &self.cgroup;
        if fs::metadata(path).map_or(0, |meta| meta.ino()) != *inode {
            return Some("its cgroup was removed");
        }
        let acts = hook::sock_ops_of(path).is_ok_and(|acting| self.attached.id().is_none_or(|id| acting.contains(&id)));
        (!acts).then_some("its program was detached")
    }

    fn take_closed(&mut self) -> Result<(), Failure> {
        let mut records = Vec::new();
        self.attached.closed(|record| records.extend_from_slice(record)).map_err(said)?;
        self.take(&records);
        Ok(())
    }

    /// Saves the 1st, 2nd, 4th, 8th … record of an open connection, and all at the end. Long connections then do not fill the disk.
    fn take_open(&mut self, is_last: bool) -> Result<(), Failure> {
        let mut records = self.attached.open().map_err(said)?;
        if !is_last {
            let is_kept = |bytes: &[u8]| Row::parse(bytes, &self.test).is_some_and(|row| row.nth.is_power_of_two());
            records = records.chunks_exact(BYTES).filter(|bytes| is_kept(bytes)).flatten().copied().collect();
        }
        self.take(&records);
        Ok(())
    }

    fn take(&mut self, records: &[u8]) {
        for bytes in records.chunks_exact(BYTES) {
            if let Some(row) = Row::parse(bytes, &self.test) {
                self.guards.add(&row);
            }
        }
        let done = self.store.add(records).and_then(|()| self.store.rotate_if_full(&self.test));
        match done {
            Err(error) if self.said_full_ns.is_none_or(|at| clock::now_ns() - at > AGAIN_NS) => {
                self.said_full_ns = Some(clock::now_ns());
                self.tell(&format!(
                    "records are being lost: {error}; connections continue, and lost records are counted"
                ));
            }
            _ => {}
        }
    }

    /// Prints a line of progress to standard error; if that is closed, the test continues.
    fn tell(&self, line: &str) {
        let seconds = clock::wall_ns() as f64 / 1e9 - self.test.begun_unix_s;
        let _ = writeln!(std::io::stderr(), "bbrlab: {seconds:.0} s: {line}");
    }

    fn count(&mut self) -> Result<(), Failure> {
        let counters = self.attached.counters().map_err(said)?;
        let arm = |arm: &kernel_ab::ArmCounters| ArmCounts {
            tried: arm.tried,
            established: arm.established,
            failed: arm.failed,
            refused: arm.refused,
        };
        self.test.counts = Counts {
            arms: counters.arms.iter().map(arm).collect(),
            ring_lost: counters.lost,
            no_memory: counters.no_memory,
            written: self.store.written,
            disk_lost: self.store.lost,
        };
        Ok(())
    }

    /// Stops arms that violate a guardrail.
    fn guard(&mut self) -> Result<(), Failure> {
        for alarm in self.guards.alarms(&self.test.counts.arms) {
            let shares = self.test.splits.last().map(|change| change.shares.clone()).unwrap_or(Shares(Vec::new()));
            if shares.0.get(alarm.arm).is_none_or(|share| *share == 0) {
                continue;
            }
            let why = format!("{} was stopped: it {alarm}", self.test.arms[alarm.arm].label);
            self.tell(&format!("{why}; new connections of its share get the control"));
            self.change(shares.without(alarm.arm), why)?;
        }
        Ok(())
    }

    fn change(&mut self, shares: Shares, why: String) -> Result<(), Failure> {
        let epoch = self.test.splits.last().map_or(1, |change| change.epoch + 1);
        self.table = self.table.changed(&shares);
        // Recorded first, so that no record refers to an undescribed split.
        self.test.splits.push(Change { epoch, at_unix_s: clock::wall_ns() as f64 / 1e9, shares, why });
        let described = self.folder.describe(&self.test);
        self.attached.set_split(epoch, self.table.bytes()).map_err(said)?;
        if let Err(error) = described {
            self.tell(&format!("the change of shares could not be recorded: {error}"));
        }
        Ok(())
    }

    /// Carries out a request of another command. Returns true if the test is to end.
    fn answer(&mut self) -> Result<bool, Failure> {
        let Some(asked) = self.folder.asked() else { return Ok(false) };
        if asked == "stop" {
            return Ok(true); // acknowledged at the end
        }
        if let Some(Ok(shares)) = asked.strip_prefix("split ").map(|text| Shares::parse(text, self.test.arms.len())) {
            self.tell(&format!("from now on {}", shown_shares(&self.test, &shares)));
            self.change(shares, "`bbrlab ab split`".to_owned())?;
        }
        self.folder.answered();
        Ok(false)
    }

    /// Saves the last records of all connections, the tables and a summary. Errors are returned last, once the rest is saved.
    fn end(mut self, how: &str) -> Result<Verdict, Failure> {
        let taken = self.take_closed().and_then(|()| self.take_open(true)).and_then(|()| self.count());
        self.test.ended = Some(TestEnd { at_unix_s: clock::wall_ns() as f64 / 1e9, how: how.to_owned() });
        let Self { test, folder, store, attached, .. } = self;
        drop(attached);
        let place = |error: std::io::Error| {
            format!("{}: {error}; the records stay in {}", folder.0.display(), super::folder::SPOOL)
        };
        let saved = store.finish(&test).and_then(|()| folder.describe(&test)).map_err(place);
        folder.answered();
        taken?;
        saved?;
        let counts = &test.counts;
        let connections: u64 = counts.arms.iter().map(|arm| arm.established).sum();
        print(&format!(
            "ended, {how}: {}, {}, {} lost. New connections have the host's default.\nbbrlab ab report {}\n",
            counted(connections, "connection"),
            counted(counts.written, "record"),
            counts.ring_lost + counts.disk_lost,
            folder.0.display(),
        ))
    }
}
