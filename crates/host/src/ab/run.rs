//! A test from its first connection to its last table.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bbrlab_study::ab::guard::Guards;
use bbrlab_study::ab::record::BYTES;
use bbrlab_study::ab::{Arm, ArmCounts, Change, Counts, Experiment, Key, Row, SCHEMA, Shares, Table, TestEnd};

use super::arms;
use super::attach::{self, AbConfig, ArmCounters, Attached, BY_RULE};
use super::folder::{KEY, SPOOL};
use super::rule::ObservedRule;
use super::store::RecordWriter;
use super::{Direction, EndCondition, Entry, Folder, RuleRequest, TestRequest};
use crate::host_paths::HostPaths;
use crate::program::Registered;
use crate::{Error, Result, TrialError, clock, journal, kernel, policy};

/// Interval between reads of the kernel's ring, which is then a twentieth full at 20,000 records a second. Ours.
const TURN: Duration = Duration::from_millis(100);
/// Turns between checks of the guardrails and the cgroup, and between updates of the description.
const TURNS_LOOK: u64 = 10;
const TURNS_DESCRIBE: u64 = 20;

/// Time without a turn after which the kernel program leaves new connections alone. Ours: longer than a disk or a busy
/// machine holds a process up.
const UNWATCHED_NS: u64 = 10_000_000_000;
/// A deadline that has passed: 0 is none.
const PAST_NS: u64 = 1;
/// Minimum time between two warnings about a full disk. Ours.
const AGAIN_NS: u64 = 3_600_000_000_000;

/// Functions and state that the caller supplies to a run.
#[derive(Clone, Copy, Debug)]
pub struct Callbacks {
    /// Transfers data with a congestion control that was loaded for the test, to try it.
    pub trial: fn(&str) -> Result<(), TrialError>,
    /// Returns the ids of the `sock_ops` programs that act on a cgroup.
    pub acting: fn(&Path) -> io::Result<Vec<u32>>,
    /// Tells the operator of an event, in one line.
    pub tell: fn(&str),
    /// True once the test is to end.
    pub ends: &'static AtomicBool,
}

/// Creates a directory, or accepts an empty one.
fn folder(out: &Path) -> Result<Folder> {
    let fault = |source| Error::Out { path: out.to_owned(), source };
    fs::create_dir_all(out).map_err(fault)?;
    let out = out.canonicalize().map_err(fault)?;
    if fs::read_dir(&out).map_err(fault)?.next().is_some() {
        return Err(Error::OutNotEmpty(out));
    }
    Ok(Folder(out))
}

fn new_key() -> Result<Key> {
    let mut bytes = [0; 16];
    let random = Path::new("/dev/urandom");
    File::open(random).and_then(|mut file| file.read_exact(&mut bytes)).map_err(Error::file(random))?;
    let half = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
    Ok(Key([half(0), half(8)]))
}

/// Saves the key for this user only: anyone who has it can choose the arm of a connection.
fn save_key(folder: &Folder, key: Key) -> Result<()> {
    let path = folder.file(KEY);
    let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| writeln!(file, "{key}"));
    written.map_err(Error::file(&path))
}

/// Refuses a cgroup on which another program acts. A policy gives way to a test.
fn check_hook(cgroup: &Path, callbacks: Callbacks) -> Result<()> {
    let mut programs = (callbacks.acting)(cgroup).map_err(Error::file(cgroup))?;
    let policy = policy::in_force(&HostPaths::default())?;
    programs.retain(|program| policy.as_ref().is_none_or(|policy| policy.program != *program));
    if programs.is_empty() { Ok(()) } else { Err(Error::AnotherProgram { cgroup: cgroup.to_owned(), programs }) }
}

fn describe(asked: &TestRequest, arms: Vec<Arm>, cgroup: &Path) -> Experiment {
    let (wall, monotonic) = (clock::wall_ns(), clock::now_ns());
    let direction = match asked.direction {
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
        by: asked.by,
        slot_s: asked.slot.as_secs_f64(),
        keep: asked.keep,
        cgroup: cgroup.display().to_string(),
        ports: asked.ports.clone(),
        prefixes: asked.prefixes.iter().map(|(address, bits)| format!("{address}/{bits}")).collect(),
        direction: direction.to_owned(),
        rule: asked.rule.as_ref().map(|rule| rule.name.clone()),
        tick_ns: kernel::tick_ns(),
        unix_minus_monotonic_ns: wall.saturating_sub(monotonic),
        begun_unix_s,
        limits: asked.limits,
        splits: vec![Change { epoch: 1, at_unix_s: begun_unix_s, shares, why: "the beginning".to_owned() }],
        ended: None,
        host: asked.host.clone(),
        hosts: Vec::new(),
    }
}

fn config(asked: &TestRequest, key: Key, test: &Experiment, rule: Option<&ObservedRule>) -> AbConfig {
    AbConfig {
        key: key.0,
        by: if rule.is_some() { BY_RULE } else { asked.by.number() },
        rule: rule.map_or(0, |rule| rule.nth),
        slot: asked.slot,
        active: asked.direction != Direction::In,
        passive: asked.direction != Direction::Out,
        // What a rule takes, the policy's program decides.
        ports: if rule.is_some() { Vec::new() } else { asked.ports.clone() },
        prefixes: asked.prefixes.clone(),
        keep: (u32::from(asked.keep.v4), u32::from(asked.keep.v6)),
        names: test.arms.iter().map(|arm| arm.name.clone()).collect(),
    }
}

/// A running test. New connections are assigned an arm until it ends.
pub struct Run {
    callbacks: Callbacks,
    every: Duration,
    until: EndCondition,
    entry: Entry,
    test: Experiment,
    folder: Folder,
    store: RecordWriter,
    attached: Attached,
    /// Time at which it was attached, with a first deadline.
    attached_ns: u64,
    table: Table,
    guards: Guards,
    /// Rule whose arms it observes, with what a guardrail does to it.
    rule: Option<(ObservedRule, RuleRequest)>,
    /// Arms whose guardrail violation has been reported.
    told: Vec<usize>,
    /// Owner of each arm's program, if it is not this test.
    found: Vec<Option<journal::Entry>>,
    cgroup: (PathBuf, u64),
    /// Time of the last warning about a full disk.
    said_full_ns: Option<u64>,
    // Dropped last: the kernel forgets the arms once no new connection can get one.
    loaded: Vec<Registered>,
    lock: File,
}

impl Run {
    /// Starts a test. Nothing is left behind if it fails.
    pub fn start(asked: &TestRequest, callbacks: Callbacks) -> Result<Self> {
        attach::check()?;
        let mut asked = asked.clone();
        let rule = match asked.rule.clone() {
            Some(request) => Some((ObservedRule::find(&request.name, &mut asked)?, request)),
            None => None,
        };
        let asked = &asked;
        let observed = rule.as_ref().map(|(observed, _)| observed);
        let cgroup = attach::cgroup(asked.cgroup.as_deref())?;
        // Who only observes is in nobody's way.
        if !asked.is_shared && observed.is_none() {
            check_hook(&cgroup, callbacks)?;
        }
        let (arms, loaded) = match observed {
            Some(observed) => (observed.arms.clone(), Vec::new()),
            None => arms::load(&asked.algorithms, callbacks)?,
        };
        let folder = folder(&asked.out)?;
        let lock = folder.lock()?.ok_or_else(|| Error::OutInUse(folder.0.clone()))?;
        let test = describe(asked, arms, &cgroup);
        let entry = Entry { pid: std::process::id(), out: folder.0.clone(), cgroup: cgroup.clone() };
        let table = Table::new(&asked.shares);
        let begin = || -> Result<_> {
            let key = asked.key.map_or_else(new_key, Ok)?;
            save_key(&folder, key)?;
            let store = RecordWriter::new(folder.clone(), asked.disk).map_err(Error::file(&folder.0))?;
            folder.reserve().and_then(|()| folder.describe(&test)).map_err(Error::file(&folder.0))?;
            entry.write()?;
            let now_ns = clock::now_ns();
            let config = config(asked, key, &test, observed);
            let decisions = observed.map(|observed| observed.policy.decisions()).transpose()?;
            let attached = Attached::new(&cgroup, &config, table.bytes(), now_ns + UNWATCHED_NS, decisions)?;
            Ok((store, attached, now_ns))
        };
        let (store, attached, attached_ns) = begin().inspect_err(|_| {
            entry.forget();
            folder.clear();
        })?;
        let inode = fs::metadata(&cgroup).map_or(0, |meta| meta.ino());
        let found = test.arms.iter().map(|arm| arms::found_in_kernel(&arm.name)).collect();
        let guards = Guards::new(asked.limits, test.arms.len(), test.tick_ns);
        Ok(Self {
            callbacks,
            every: asked.every,
            until: asked.until,
            entry,
            test,
            folder,
            store,
            attached,
            attached_ns,
            table,
            guards,
            rule,
            told: Vec::new(),
            found,
            cgroup: (cgroup, inode),
            said_full_ns: None,
            loaded,
            lock,
        })
    }

    /// Description of the test.
    pub const fn test(&self) -> &Experiment {
        &self.test
    }

    /// Its directory.
    pub fn out(&self) -> &Path {
        &self.folder.0
    }

    /// Runs the test until it ends. Returns its last description.
    pub fn run(mut self) -> Result<Experiment> {
        let entry = self.entry.clone();
        let ended = self.turns().map(|how| self.end(&how));
        entry.forget();
        ended?
    }

    /// Returns the reason for the end.
    fn turns(&mut self) -> Result<String> {
        let begun = clock::now_ns();
        let every = (self.every.as_millis() / TURN.as_millis()).max(1) as u64;
        let (mut turn, mut last_ns) = (0_u64, self.attached_ns);
        loop {
            thread::sleep(TURN);
            turn += 1;
            let now_ns = clock::now_ns();
            self.attached.assign_until(now_ns + UNWATCHED_NS)?;
            if now_ns.saturating_sub(last_ns) > UNWATCHED_NS {
                let seconds = now_ns.saturating_sub(last_ns + UNWATCHED_NS) as f64 / 1e9;
                self.tell(&format!(
                    "this command did not run for a while: for {seconds:.0} s new connections had the default"
                ));
            }
            last_ns = now_ns;
            self.take_closed()?;
            if turn.is_multiple_of(every) {
                self.take_open(false)?;
            }
            if turn.is_multiple_of(TURNS_LOOK) {
                self.count()?;
                if let Some(withdrawn) = self.guard()? {
                    return Ok(withdrawn);
                }
                if let Some(gone) = self.gone() {
                    return Ok(gone.to_owned());
                }
                if let Some(gone) = self.check_arms()? {
                    return Ok(gone);
                }
            }
            if turn.is_multiple_of(TURNS_DESCRIBE) {
                // A full disk has been reported; the description then stays as it was.
                let _ = self.folder.describe(&self.test);
            }
            if self.answer()? {
                return Ok("stopped by `bbrlab ab stop`".to_owned());
            }
            if self.callbacks.ends.load(Ordering::SeqCst) {
                return Ok("interrupted".to_owned());
            }
            let seconds = (clock::now_ns() - begun) as f64 / 1e9;
            let is_over = match self.until {
                EndCondition::Interrupted => false,
                EndCondition::Seconds(max) => seconds >= max,
                EndCondition::Connections(max) => {
                    self.test.counts.arms.iter().map(|arm| arm.established).sum::<u64>() >= max
                }
            };
            if is_over {
                return Ok("the limit of --stop-after was reached".to_owned());
            }
        }
    }

    /// Reason for which no connection can be assigned an arm any more.
    fn gone(&self) -> Option<&'static str> {
        let (path, inode) = &self.cgroup;
        if fs::metadata(path).map_or(0, |meta| meta.ino()) != *inode {
            return Some("its cgroup was removed");
        }
        if self.rule.as_ref().is_some_and(|(observed, _)| !observed.is_in_force()) {
            return Some("the policy was replaced, or is no longer in force");
        }
        let acts =
            (self.callbacks.acting)(path).is_ok_and(|acting| self.attached.id().is_none_or(|id| acting.contains(&id)));
        (!acts).then_some("its program was detached")
    }

    fn take_closed(&mut self) -> Result<()> {
        let mut records = Vec::new();
        self.attached.closed(|record| records.extend_from_slice(record))?;
        self.take(&records);
        Ok(())
    }

    /// Saves the 1st, 2nd, 4th, 8th … record of an open connection, and all at the end. Long connections then do not fill the disk.
    fn take_open(&mut self, is_last: bool) -> Result<()> {
        let mut records = self.attached.open()?;
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

    /// Tells the operator, with the seconds since the start.
    fn tell(&self, line: &str) {
        let seconds = clock::wall_ns() as f64 / 1e9 - self.test.begun_unix_s;
        (self.callbacks.tell)(&format!("{seconds:.0} s: {line}"));
    }

    fn count(&mut self) -> Result<()> {
        let counters = self.attached.counters()?;
        let arm = |arm: &ArmCounters| ArmCounts {
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

    /// Stops arms that violate a guardrail, or withdraws their rule, which ends the test for the returned reason.
    fn guard(&mut self) -> Result<Option<String>> {
        self.guards.count(&self.test.counts.arms);
        for alarm in self.guards.alarms() {
            let shares = self.test.splits.last().map(|change| change.shares.clone()).unwrap_or(Shares(Vec::new()));
            if shares.0.get(alarm.arm).is_none_or(|share| *share == 0) {
                continue;
            }
            let label = self.test.arms[alarm.arm].label.clone();
            if let Some((_, request)) = &self.rule {
                let RuleRequest { name, withdraws } = request.clone();
                let why = format!("{label} {alarm}");
                if withdraws {
                    policy::withdraw(&HostPaths::default(), &name, &why)?;
                    self.tell(&format!(
                        "rule {name} is withdrawn: {why}; new connections of its clients get the default"
                    ));
                    return Ok(Some(format!("rule {name} was withdrawn: {why}")));
                }
                if !self.told.contains(&alarm.arm) {
                    self.told.push(alarm.arm);
                    self.tell(&format!("a guardrail of rule {name} is violated: {why}; --withdraw would withdraw it"));
                }
                continue;
            }
            let why = format!("{label} was stopped: it {alarm}");
            self.tell(&format!("{why}; new connections of its share get the control"));
            self.change(shares.without(alarm.arm), why)?;
        }
        Ok(None)
    }

    /// Stops arms whose congestion control was unloaded, or loaded again. Returns the reason to end the test, if that was the control's,
    /// or a rule's.
    fn check_arms(&mut self) -> Result<Option<String>> {
        let available = kernel::available()?;
        for arm in (0..self.test.arms.len()).rev() {
            let Arm { name, label, .. } = &self.test.arms[arm];
            let shares = self.test.splits.last().map(|change| change.shares.clone()).unwrap_or(Shares(Vec::new()));
            let is_replaced = || arms::is_replaced(self.found[arm].as_ref(), arms::found_in_kernel(name).as_ref());
            let is_same = available.contains(name) && !is_replaced();
            if is_same || shares.0.get(arm).is_none_or(|share| *share == 0) {
                continue;
            }
            if arm == 0 || self.rule.is_some() {
                return Ok(Some(format!("{name}, the congestion control of {label}, is no longer in the kernel")));
            }
            let why = format!("{label} was stopped: {name} was unloaded, or replaced, during the test");
            self.tell(&format!("{why}; new connections of its share get the control"));
            self.change(shares.without(arm), why)?;
        }
        Ok(None)
    }

    fn change(&mut self, shares: Shares, why: String) -> Result<()> {
        let epoch = self.test.splits.last().map_or(1, |change| change.epoch + 1);
        self.count()?;
        self.guards.count(&self.test.counts.arms);
        self.guards.begin_split(epoch);
        self.table = self.table.changed(&shares);
        // Recorded first, so that no record refers to an undescribed split.
        self.test.splits.push(Change { epoch, at_unix_s: clock::wall_ns() as f64 / 1e9, shares, why });
        let described = self.folder.describe(&self.test);
        self.attached.set_split(epoch, self.table.bytes())?;
        if let Err(error) = described {
            self.tell(&format!("the change of shares could not be recorded: {error}"));
        }
        Ok(())
    }

    /// Carries out a request of another command. Returns true if the test is to end.
    fn answer(&mut self) -> Result<bool> {
        let Some(asked) = self.folder.asked() else { return Ok(false) };
        if asked == Folder::STOP {
            return Ok(true); // acknowledged at the end
        }
        if let Some(Ok(shares)) = asked.strip_prefix("split ").map(|text| Shares::parse(text, self.test.arms.len())) {
            self.tell(&format!("from now on {}", self.test.shown(&shares)));
            self.change(shares, "`bbrlab ab split`".to_owned())?;
        }
        self.folder.answered(&asked);
        Ok(false)
    }

    /// Takes the last records of all connections. No connection joins any more, and those that close meanwhile come last.
    fn take_last(&mut self) -> Result<()> {
        self.attached.assign_until(PAST_NS)?;
        self.take_closed()?;
        self.take_open(true)?;
        self.take_closed()?;
        self.count()
    }

    /// Saves the last records of all connections, the tables and a summary. Errors are returned last, once the rest is saved.
    fn end(mut self, how: &str) -> Result<Experiment> {
        let taken = self.take_last();
        self.test.ended = Some(TestEnd { at_unix_s: clock::wall_ns() as f64 / 1e9, how: how.to_owned() });
        let Self { test, folder, store, attached, loaded, lock, .. } = self;
        drop(attached);
        let place = |source| Error::Saving { path: folder.0.clone(), source, spool: SPOOL };
        let saved = match store.finish(&test) {
            Ok(()) => folder.describe_end(&test),
            // The description at least says how the test ended.
            Err(error) => folder.describe(&test).and(Err(error)),
        };
        let saved = saved.map_err(place);
        folder.answered(Folder::STOP);
        drop((loaded, lock));
        taken?;
        saved?;
        Ok(test)
    }
}
