//! Starts User Mode Linux with a job and collects the result.
//! No file and no process is left behind.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use bbrlab_sim::backend::module_cc;
use bbrlab_sim::link::Aqm;
use bbrlab_sim::record::Output;
use bbrlab_sim::setup::Setup;

use super::emulate::{COMMAND_FILE, CommandSpec, EmulateOutput, STDERR, STDOUT};
use super::guest::{DONE, GuestOutput, JOB};
use super::{disk_space, packets};
use crate::leftovers;
use crate::{Error, Result};

/// Environment variable with the path of a kernel outside the cache.
const KERNEL: &str = "BBRLAB_UML_KERNEL";
/// Environment variable with the cache's directory.
const CACHE: &str = "BBRLAB_UML_CACHE";
/// Memory of the guest. It takes only what it uses from the host.
const MEMORY: &str = "3G";
/// Polling interval for a command's output. Ours.
const LOOK: Duration = Duration::from_millis(10);
/// Start of every guest's wall clock, ns: 2025-01-01, so that nothing inside depends on today's date.
const BIRTH_NS: u64 = 1_735_689_600_000_000_000;
/// Maximum length of console output shown in an error.
const CONSOLE_SHOWN: usize = 300;
/// Console message when a memory file's file system is full.
const NO_MEMORY: &str = "Bus error";

/// Ticks per second of the kernel that `make uml` builds by default.
const HZ: u32 = 250;

/// Series from which Linux has `dualpi2`, and accurate ECN.
const DUALPI2: Series = (6, 17);
const ACCURATE_ECN: Series = (7, 0);

/// Major and minor number of a kernel's version.
type Series = (u32, u32);

/// Kernels on this machine.
#[derive(Clone, Debug, Default)]
pub struct Kernels {
    paths: Vec<PathBuf>,
    /// True if the environment names the kernel, which need not be one of ours.
    is_given: bool,
    cache: PathBuf,
}

impl Kernels {
    /// Finds the kernel that the environment names, otherwise those in the cache.
    pub fn find() -> Result<Self> {
        if let Some(path) = std::env::var_os(KERNEL).map(PathBuf::from) {
            return if path.is_file() {
                Ok(Self { paths: vec![path], is_given: true, cache: PathBuf::new() })
            } else {
                Err(Error::NoKernelFile { variable: KERNEL, path })
            };
        }
        let cache = std::env::var_os(CACHE).map(PathBuf::from).or_else(|| {
            let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
            Some(std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?.join("bbrlab/uml"))
        });
        let cache = cache.ok_or(Error::NoHome { variable: KERNEL })?;
        let entries = fs::read_dir(&cache).into_iter().flatten().flatten();
        let kernels = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("linux-"));
        let paths: Vec<PathBuf> = kernels.map(|entry| entry.path()).collect();
        if paths.is_empty() { Err(Error::NoKernel(cache)) } else { Ok(Self { paths, is_given: false, cache }) }
    }

    /// The kernel for setups that need nothing special.
    pub fn usual(&self) -> Result<&Path> {
        self.from((0, 0)).ok_or_else(|| Error::NoKernel(self.cache.clone()))
    }

    /// The kernel for a setup.
    pub fn of(&self, setup: &Setup) -> Result<&Path> {
        check_modules(setup, self.is_given)?;
        let Some((what, since)) = need(setup) else { return self.usual() };
        self.from(since).ok_or(Error::OldKernels { what, since })
    }

    /// A kernel of this series or a later one: preferably with the usual tick rate, then of the oldest series, then the
    /// newest build.
    fn from(&self, since: Series) -> Option<&Path> {
        let serves = |path: &&PathBuf| self.is_given || series(path).is_some_and(|series| series >= since);
        let rank = |path: &&PathBuf| {
            let built = path.metadata().and_then(|meta| meta.modified()).ok();
            (hz(path) == Some(HZ), std::cmp::Reverse(series(path)), built)
        };
        self.paths.iter().filter(serves).max_by_key(rank).map(PathBuf::as_path)
    }
}

/// True if the environment names the kernel.
pub fn is_kernel_given() -> bool {
    std::env::var_os(KERNEL).is_some()
}

/// Rejects an algorithm whose module is not part of Linux, unless a kernel `is_given` that may have it.
pub fn check_modules(setup: &Setup, is_given: bool) -> Result<()> {
    match setup.flows.iter().find_map(|flow| module_cc(&flow.algorithm)) {
        Some(cc) if !is_given => Err(Error::NoModule { cc, variable: KERNEL }),
        _ => Ok(()),
    }
}

/// The feature for which a setup needs a newer kernel, and the first series that has it.
fn need(setup: &Setup) -> Option<(&'static str, Series)> {
    if setup.flows.iter().any(|flow| flow.host.accurate_ecn && !flow.host.dctcp_receiver) {
        return Some(("accurate ECN", ACCURATE_ECN));
    }
    if setup.links.iter().chain(setup.up.as_deref()).any(|link| matches!(link.aqm, Aqm::DualPi2(_))) {
        return Some(("dualpi2", DUALPI2));
    }
    // Only that kernel is built with the `tc` action that makes ECT(1) of ECT(0).
    setup.flows.iter().any(|flow| flow.host.l4s).then_some(("ecn=l4s", DUALPI2))
}

/// Series of a kernel built by `make uml`, taken from its name.
fn series(kernel: &Path) -> Option<Series> {
    let mut numbers = kernel.file_name()?.to_str()?.strip_prefix("linux-")?.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Ticks per second of a kernel built by `make uml`, taken from its name.
pub fn hz(kernel: &Path) -> Option<u32> {
    let name = kernel.file_name()?.to_str()?;
    name.split('-').find_map(|part| part.strip_prefix("hz")?.parse().ok())
}

/// Prefix of an exchange directory's name, before its owner's process ID.
const EXCHANGE: &str = "bbrlab-uml-";

/// An exchange directory, locked while in use and removed on drop. It holds a command's environment: others cannot open it.
struct ExchangeDirectory {
    path: PathBuf,
    _lock: File,
}

impl ExchangeDirectory {
    fn new() -> io::Result<Self> {
        let temp = std::env::temp_dir();
        let base = temp
            .canonicalize()
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", temp.display())))?;
        clear_orphans(&base);
        for n in 0..1000 {
            let path = base.join(format!("{EXCHANGE}{}-{n}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            if let Some(lock) = lock(&path) {
                leftovers::remember(&path);
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for ExchangeDirectory {
    fn drop(&mut self) {
        leftovers::remove(&self.path);
    }
}

/// Locks a new directory. `None`: another command took it for an orphan before it was locked.
fn lock(path: &Path) -> Option<File> {
    let directory = open_directory(path).ok()?;
    let is_taken = matches!(directory.try_lock(), Err(TryLockError::WouldBlock));
    let is_there = fs::metadata(path).is_ok_and(|now| directory.metadata().is_ok_and(|own| own.ino() == now.ino()));
    (!is_taken && is_there).then_some(directory)
}

fn open_directory(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

/// True for the rest of an exchange directory's name: its owner's process ID, and a number.
fn is_number_pair(name: &str) -> bool {
    name.split_once('-').is_some_and(|(owner, n)| owner.parse::<u32>().is_ok() && n.parse::<u32>().is_ok())
}

/// Removes directories left by killed commands. Their process IDs prove nothing: containers may share the directory.
fn clear_orphans(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let is_exchange =
            entry.file_name().to_str().and_then(|name| name.strip_prefix(EXCHANGE)).is_some_and(is_number_pair);
        // The lock is held until it is removed.
        if is_exchange
            && let Ok(directory) = open_directory(&entry.path())
            && directory.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A running kernel, killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Result of a run, and the kernel that it ran on.
#[derive(Debug)]
pub struct UmlOutput {
    /// The output, with `on` set to `uml`.
    pub output: Output,
    /// The kernel's release.
    pub release: String,
    /// Its ticks per second, if its name contains them.
    pub hz: Option<u32>,
}

/// Runs a job. This program, as the guest's first process, parses the job's text to `setup`.
pub fn run(kernel: &Path, job: &str, setup: &Setup) -> Result<UmlOutput> {
    let fault = |what| move |source| Error::Exchange { what, source };
    let exchange = ExchangeDirectory::new().map_err(fault("directory of exchange"))?;
    disk_space::for_exchange(&exchange.path)?;
    fs::write(exchange.path.join(JOB), job).map_err(fault("job"))?;
    packets::ask(&exchange.path, setup).map_err(fault("packets"))?;
    let own = std::env::current_exe().map_err(fault("this command's own file"))?;
    let boot = Boot { writable: false, clock: Clock::Fixed, seed: setup.seed };
    let mut child = start(kernel, &own, &exchange.path, boot)?;
    let mut console = Vec::new();
    if let Some(mut stdout) = child.0.stdout.take() {
        // Ends when the kernel does.
        let _ = stdout.read_to_end(&mut console);
    }
    let _ = child.0.wait();
    match done(&exchange, kernel, &console)? {
        GuestOutput::Emulated(_) => Err(Error::OtherJob),
        GuestOutput::Ran { result, trace, release } => {
            let packets = packets::take(&exchange.path, setup).map_err(fault("packets"))?;
            let output = Output { result: *result, trace, packets };
            Ok(UmlOutput { output, release, hz: hz(kernel) })
        }
        GuestOutput::Failed(what) => Err(Error::Guest(what)),
    }
}

/// Runs a command inside and passes its output on as it arrives; `seed` seeds the path's random numbers.
pub fn emulate(kernel: &Path, command: &CommandSpec, seed: u64) -> Result<EmulateOutput> {
    let fault = |what| move |source| Error::Exchange { what, source };
    let exchange = ExchangeDirectory::new().map_err(fault("directory of exchange"))?;
    disk_space::for_exchange(&exchange.path)?;
    let text = serde_json::to_vec(command).map_err(|source| Error::ExchangeJson { what: "command", source })?;
    fs::write(exchange.path.join(COMMAND_FILE), text).map_err(fault("command"))?;
    let mut streams = [Stream::new(&exchange.path, STDOUT), Stream::new(&exchange.path, STDERR)];
    for stream in &mut streams {
        stream.make().map_err(fault("streams"))?;
    }
    let own = std::env::current_exe().map_err(fault("this command's own file"))?;
    // A command may check certificates, whose dates must be valid.
    let clock = if command.real_time { Clock::Real } else { Clock::FromToday };
    let mut child = start(kernel, &own, &exchange.path, Boot { writable: command.writable, clock, seed })?;
    let stdout = child.0.stdout.take();
    let console = thread::spawn(move || {
        let mut console = Vec::new();
        let _ = stdout.map(|mut stdout| stdout.read_to_end(&mut console));
        console
    });
    loop {
        let ended = !matches!(child.0.try_wait(), Ok(None));
        let [out, err] = &mut streams;
        // A reader that closed its end needs no more output.
        out.pass(&mut io::stdout().lock());
        err.pass(&mut io::stderr().lock());
        if ended {
            break;
        }
        thread::sleep(LOOK);
    }
    let console = console.join().unwrap_or_default();
    match done(&exchange, kernel, &console)? {
        GuestOutput::Emulated(emulated) => Ok(emulated),
        GuestOutput::Ran { .. } => Err(Error::OtherJob),
        GuestOutput::Failed(what) => Err(Error::Guest(what)),
    }
}

/// A file written by the guest for one output stream.
struct Stream {
    path: PathBuf,
    file: Option<File>,
}

impl Stream {
    fn new(exchange: &Path, name: &str) -> Self {
        Self { path: exchange.join(name), file: None }
    }

    fn make(&mut self) -> io::Result<()> {
        fs::write(&self.path, [])?;
        self.file = Some(File::open(&self.path)?);
        Ok(())
    }

    /// Passes new bytes on.
    fn pass(&mut self, to: &mut impl Write) {
        let Some(file) = &mut self.file else { return };
        if io::copy(file, to).and_then(|_| to.flush()).is_err() {
            self.file = None;
        }
    }
}

/// Reads the guest's result.
fn done(exchange: &ExchangeDirectory, kernel: &Path, console: &[u8]) -> Result<GuestOutput> {
    let done = fs::read(exchange.path.join(DONE)).ok().filter(|text| !text.is_empty());
    let Some(done) = done else {
        disk_space::for_exchange(&exchange.path)?;
        let said = String::from_utf8_lossy(console);
        if said.contains(NO_MEMORY) {
            return Err(Error::MemoryFull);
        }
        let words: Vec<&str> = said.split_whitespace().collect();
        let said = words.join(" ");
        let from = said.char_indices().rev().nth(CONSOLE_SHOWN).map_or(0, |(at, _)| at);
        return Err(Error::NoResult { kernel: kernel.to_owned(), output: said[from..].to_owned() });
    };
    serde_json::from_slice(&done).map_err(|source| Error::ExchangeJson { what: "result", source })
}

/// Progress of a kernel's clock.
#[derive(Clone, Copy)]
enum Clock {
    /// Virtual time, starting at a fixed date.
    Fixed,
    /// Virtual time, starting now.
    FromToday,
    /// The host's time. Time travel without `inf-cpu` is documented to charge computation as virtual time, but it
    /// charges only when a timer expires, and every new timer restarts the wait: a program that computes and sets
    /// timers, as TCP does, gets most of its time for free.
    Real,
}

impl Clock {
    fn arguments(self) -> Vec<String> {
        let travel = || "time-travel=inf-cpu".to_owned();
        match self {
            Self::Fixed => vec![travel(), format!("time-travel-start={BIRTH_NS}")],
            Self::FromToday => vec![travel()],
            Self::Real => Vec::new(),
        }
    }
}

/// Boot parameters of a kernel.
#[derive(Clone, Copy)]
struct Boot {
    /// True if it may write to the host's files.
    writable: bool,
    clock: Clock,
    /// Seed of its random numbers.
    seed: u64,
}

fn start(kernel: &Path, own: &Path, exchange: &Path, boot: Boot) -> Result<Running> {
    let memory = disk_space::for_memory()?;
    let mut command = Command::new(kernel);
    command
        .arg(format!("mem={MEMORY}"))
        .args(["root=/dev/root", "rootfstype=hostfs", "hostfs=/", if boot.writable { "rw" } else { "ro" }])
        .arg(format!("init={}", own.display()))
        .args(boot.clock.arguments())
        .arg(format!("seed={}", boot.seed))
        // By default it creates a directory in the home, which may not exist, and a killed kernel leaves it behind.
        .arg(format!("uml_dir={}/", exchange.display()))
        .args(["con=null", "con0=fd:0,fd:1", "quiet", "panic=-1"])
        // Arguments for the guest's first process.
        .args(["--", "uml-guest"])
        .arg(exchange)
        .env("TMPDIR", memory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    // SAFETY: prctl and personality are async-signal-safe, and touch nothing of ours.
    unsafe {
        command.pre_exec(|| {
            // Addresses must not differ between runs: some tables are ordered by them.
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            // When this command dies, for any reason, the kernel is killed too.
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            Ok(())
        });
    }
    command.spawn().map(Running).map_err(|source| Error::Launch { kernel: kernel.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_sim::scenario::ScenarioFile;

    fn kernels(names: &[&str]) -> Kernels {
        Kernels { paths: names.iter().map(PathBuf::from).collect(), is_given: false, cache: PathBuf::new() }
    }

    fn setup(text: &str) -> Setup {
        ScenarioFile::from_toml(text, "test").unwrap().scenario.resolve().unwrap()
    }

    const OLD: &str = "linux-6.12.117-1~deb12u1-hz250-2a7e6c9f8dab";
    const NEW: &str = "linux-7.2.11-1~bpo13+1-hz250-2a7e6c9f8dab";

    #[test]
    fn the_oldest_kernel_that_has_all_of_a_setup_is_taken() {
        let (both, plain) = (kernels(&[NEW, OLD]), setup("flow = [\"cubic\"]"));
        assert_eq!(both.of(&plain).unwrap(), Path::new(OLD));
        for needs_new in [
            "flow = [\"cubic\"]\naqm = \"dualpi2\"",
            "flow = [\"cubic\"]\nup = \"rate=1mbit,buffer=50p,aqm=dualpi2\"",
            "flow = [\"cubic,ecn=accurate\"]\naqm = \"codel:ecn\"",
            "flow = [\"dctcp,ecn=l4s\"]\naqm = \"fq_codel:ce=1ms,ect1\"",
        ] {
            assert_eq!(both.of(&setup(needs_new)).unwrap(), Path::new(NEW));
        }
    }

    #[test]
    fn modules_outside_of_linux_need_a_named_kernel() {
        for (flow, is_in_linux) in [("prague", false), ("bbr2", false), ("bbr3-linux", false), ("bbr1", true)] {
            let setup = setup(&format!("flow = [\"{flow}\"]"));
            assert_eq!(kernels(&[OLD]).of(&setup).is_ok(), is_in_linux, "{flow}");
            assert!(check_modules(&setup, true).is_ok());
        }
    }

    #[test]
    fn the_usual_tick_rate_goes_before_the_series() {
        let other = "linux-6.12.117-1-hz1000-2a7e6c9f8dab";
        assert_eq!(kernels(&[other, NEW]).usual().unwrap(), Path::new(NEW));
        assert_eq!(kernels(&[other]).usual().unwrap(), Path::new(other));
    }

    #[test]
    fn an_old_kernel_is_refused_for_dualpi2_in_one_line() {
        let error = kernels(&[OLD]).of(&setup("flow = [\"cubic\"]\naqm = \"dualpi2\"")).unwrap_err();
        assert_eq!(error.to_string(), "dualpi2 needs a Linux of 6.17 or later; build one with: make uml-newer");
    }

    #[test]
    fn an_exchange_directory_is_closed_to_other_users() {
        let exchange = ExchangeDirectory::new().unwrap();
        assert_eq!(fs::metadata(&exchange.path).unwrap().mode() & 0o7777, 0o700);
    }

    /// Containers that share a directory do not see each other's processes.
    #[test]
    fn only_a_directory_that_nobody_locks_is_an_orphan() {
        let base = std::env::temp_dir().join(format!("bbrlab-orphans-{}", std::process::id()));
        let [used, orphan, other] =
            ["4294967295-0", "4294967295-1", "results-1"].map(|name| base.join(format!("{EXCHANGE}{name}")));
        for path in [&used, &orphan, &other] {
            fs::create_dir_all(path).unwrap();
            fs::write(path.join(JOB), "").unwrap();
        }
        let held = File::open(&used).unwrap();
        held.try_lock().unwrap();
        clear_orphans(&base);
        assert!(used.join(JOB).exists() && !orphan.exists());
        drop(held);
        clear_orphans(&base);
        assert!(!used.exists() && other.exists());
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_kernel_given_by_the_environment_is_taken_whatever_its_name() {
        let given = Kernels { is_given: true, ..kernels(&["/boot/vmlinux"]) };
        assert!(given.of(&setup("flow = [\"cubic\"]\naqm = \"dualpi2\"")).is_ok());
    }
}
