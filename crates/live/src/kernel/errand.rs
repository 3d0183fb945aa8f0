//! A command behind the link, and a server at its other end, in a process namespace that ends with us.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, close, fork};

use super::Fault;
use super::world::{LEFT, LEFT6, RIGHT, RIGHT6, World};
use crate::clock;

/// Exit status of a command that does not exist, and of one that may not run. Source: POSIX `env`, 127 and 126.
const NOT_FOUND: i32 = 127;
const NOT_RUNNABLE: i32 = 126;
/// Exit status after an interrupt. Source: shells, 128 + SIGINT.
const INTERRUPTED: i32 = 130;
/// How long a server may take until it listens; then the command starts all the same. Ours.
const SERVER_MAX_MS: u64 = 5_000;
/// How long a server may take to end when it is asked to. Ours.
const GRACE_MS: u64 = 300;
/// How often it is looked at meanwhile. Ours.
const LOOK_MS: u64 = 5;

/// What shall run.
#[derive(Clone, Debug)]
pub struct Errand {
    /// The command and its arguments, on the left.
    pub command: Vec<OsString>,
    /// A line for the shell, on the right.
    pub server: Option<String>,
}

/// The process that holds the command and the server, and ends with us.
#[derive(Debug)]
pub struct Keeper {
    pid: Pid,
    go: PipeWriter,
}

/// The keeper's process id, for the signal handler.
static KEEPER: AtomicI32 = AtomicI32::new(0);

impl Errand {
    /// Makes the keeper; it waits. To be called before the emulator's thread begins.
    pub fn prepare(self, world: &World) -> Result<Keeper, Fault> {
        let fault = |what: &'static str| move |error: io::Error| format!("emulate: {what}: {error}");
        let (wait, go) = io::pipe().map_err(fault("pipe"))?;
        let child = fork_to(|| {
            // Ours alone, so that its end is the end of us. The copy in this process is never dropped.
            let _ = close(go.as_raw_fd());
            guard(|| keep(self, wait, world.left.as_fd(), world.right.as_fd()))
        });
        Ok(Keeper { pid: child?, go })
    }
}

impl Keeper {
    /// Lets the command run, and waits for its end. Returns its exit status.
    pub fn run(mut self) -> Result<i32, Fault> {
        KEEPER.store(self.pid.as_raw(), Ordering::Relaxed);
        let on_interrupt = SigAction::new(SigHandler::SigAction(on_interrupt), SaFlags::SA_RESTART, SigSet::empty());
        // SAFETY: the handler does nothing but an atomic load and `kill`.
        unsafe { sigaction(Signal::SIGINT, &on_interrupt) }.map_err(|error| format!("emulate: signal: {error}"))?;
        self.go.write_all(&[1]).map_err(|error| format!("emulate: the command did not start: {error}"))?;
        Ok(outcome(self.pid))
    }
}

/// Runs `work` in a child process, which ends with its result.
fn fork_to(work: impl FnOnce() -> i32) -> Result<Pid, Fault> {
    // SAFETY: the only other thread of this program waits for signals and holds no lock; the child uses the allocator,
    // which glibc keeps usable over a fork, and ends with `_exit`.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            let status = work();
            // SAFETY: ends this process without running its parent's exit handlers.
            unsafe { libc::_exit(status) }
        }
        Ok(ForkResult::Parent { child }) => Ok(child),
        Err(error) => Err(format!("emulate: fork: {error}")),
    }
}

/// The process between us and the keeper: only its children are in the new namespace of processes.
fn guard(work: impl FnOnce() -> i32) -> i32 {
    for number in [Signal::SIGINT, Signal::SIGQUIT] {
        // SAFETY: to ignore a signal runs no code.
        let _ = unsafe { signal(number, SigHandler::SigIgn) };
    }
    for number in [Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the default runs no code of ours.
        let _ = unsafe { signal(number, SigHandler::SigDfl) };
    }
    let made = set_pdeathsig(Signal::SIGKILL).and_then(|()| unshare(CloneFlags::CLONE_NEWPID));
    if let Err(error) = made {
        return complain(2, &format!("emulate: no process namespace ({error}); run as root, or see `bbrlab check`"));
    }
    match fork_to(work) {
        Ok(keeper) => outcome(keeper),
        Err(line) => complain(2, &line),
    }
}

/// Waits for a process. Returns its exit status.
fn outcome(pid: Pid) -> i32 {
    loop {
        match waitpid(pid, None) {
            Ok(WaitStatus::Exited(_, status)) => return status,
            Ok(WaitStatus::Signaled(..)) | Err(nix::Error::ECHILD) => return INTERRUPTED,
            _ => {}
        }
    }
}

fn complain(status: i32, line: &str) -> i32 {
    // Where standard error cannot be written the exit status says it all.
    let _ = writeln!(io::stderr(), "bbrlab: {line}");
    status
}

/// An interrupt from the terminal reached the command too, which decides (a shell goes on). One that was sent to us
/// alone ends everything.
extern "C" fn on_interrupt(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid `siginfo_t` to a handler that asked for it.
    if unsafe { (*info).si_code } != libc::SI_KERNEL {
        let _ = kill(Pid::from_raw(KEEPER.load(Ordering::Relaxed)), Signal::SIGKILL);
    }
}

/// The keeper: process 1 of a namespace, so that all below it ends when it ends, and it ends when its parent does.
fn keep(errand: Errand, mut wait: PipeReader, left: BorrowedFd<'_>, right: BorrowedFd<'_>) -> i32 {
    for number in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        // SAFETY: the default runs no code of ours.
        let _ = unsafe { signal(number, SigHandler::SigDfl) };
    }
    let ready = set_pdeathsig(Signal::SIGKILL).is_ok() && wait.read_exact(&mut [0]).is_ok();
    if !ready {
        return INTERRUPTED; // our parent is gone
    }
    own_proc();
    match serve_and_run(&errand, left, right, &Surroundings::of_host()) {
        Ok((status, _)) => status,
        Err((status, line)) => complain(status, &line),
    }
}

/// A /proc that shows the namespace's processes. Without it the command still runs, and sees the host's.
fn own_proc() {
    let none: Option<&str> = None;
    let done = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none));
    if done.is_ok() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let _ = mount(Some("proc"), "/proc", Some("proc"), flags, none);
    }
}

/// What the command and the server find around them.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Whether they get nothing of our own environment.
    pub bare: bool,
    /// Variables of theirs.
    pub variables: Vec<(OsString, OsString)>,
}

impl Surroundings {
    fn of_host() -> Self {
        let variable = |(name, at): (&str, String)| (name.into(), at.into());
        let addresses = [
            ("BBRLAB_SERVER_IP", RIGHT.to_string()),
            ("BBRLAB_CLIENT_IP", LEFT.to_string()),
            ("BBRLAB_SERVER_IP6", RIGHT6.to_string()),
            ("BBRLAB_CLIENT_IP6", LEFT6.to_string()),
        ];
        Self { bare: false, variables: addresses.map(variable).to_vec() }
    }

    fn around<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        if self.bare {
            command.env_clear();
        }
        command.env_remove(super::rights::MARK).envs(self.variables.iter().map(|(name, value)| (name, value)))
    }
}

/// Starts the server on the right, runs the command on the left, ends all that is left. Returns the command's exit
/// status, or ours with a line, and how many nanoseconds the command ran.
pub fn serve_and_run(
    errand: &Errand,
    left: BorrowedFd<'_>,
    right: BorrowedFd<'_>,
    around: &Surroundings,
) -> Result<(i32, u64), (i32, String)> {
    let fault = |error: nix::Error| (2, format!("emulate: network namespace: {error}"));
    setns(right, CloneFlags::CLONE_NEWNET).map_err(fault)?;
    if let Some(line) = &errand.server {
        start_server(line, around)?;
    }
    setns(left, CloneFlags::CLONE_NEWNET).map_err(fault)?;
    let Some((program, args)) = errand.command.split_first() else {
        return Err((2, "emulate: no command; write one after --".to_owned()));
    };
    let start_ns = clock::now_ns();
    let command = around.around(Command::new(program).args(args)).spawn();
    let child = command.map_err(|error| {
        let status = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE };
        (status, format!("emulate: {}: {error}", program.display()))
    })?;
    let status = wait_for(Pid::from_raw(child.id().cast_signed()));
    let ran_ns = clock::now_ns() - start_ns;
    end_the_rest();
    Ok((status, ran_ns))
}

/// Starts the server and waits until it listens.
fn start_server(line: &str, around: &Surroundings) -> Result<(), (i32, String)> {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null());
    // Standard output is the command's.
    if let Ok(errors) = io::stderr().as_fd().try_clone_to_owned() {
        command.stdout(Stdio::from(errors));
    }
    // SAFETY: makes one system call.
    unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
    let mut server =
        around.around(&mut command).spawn().map_err(|error| (2, format!("emulate: --server: sh: {error}")))?;
    for _ in 0..SERVER_MAX_MS / LOOK_MS {
        if listens() {
            return Ok(());
        }
        if let Ok(Some(status)) = server.try_wait() {
            let held = format!("emulate: --server {line:?}: it ended before the command began ({status})");
            return if status.success() { Ok(()) } else { Err((2, held)) };
        }
        thread::sleep(Duration::from_millis(LOOK_MS));
    }
    Ok(())
}

/// Whether anything in this network namespace waits for connections or datagrams.
fn listens() -> bool {
    const LISTEN: &str = "0A";
    let has = |name: &str, wanted: fn(&str) -> bool| {
        let table = fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        table.lines().skip(1).any(|line| line.split_whitespace().nth(3).is_some_and(wanted))
    };
    ["tcp", "tcp6"].iter().any(|name| has(name, |state| state == LISTEN))
        || ["udp", "udp6"].iter().any(|name| has(name, |_| true))
}

/// Waits for the command, and for whatever else ends meanwhile: process 1 must.
fn wait_for(command: Pid) -> i32 {
    loop {
        match waitpid(Pid::from_raw(-1), None) {
            Ok(WaitStatus::Exited(pid, status)) if pid == command => return status,
            Ok(WaitStatus::Signaled(pid, number, _)) if pid == command => return 128 + number as i32,
            Err(nix::Error::ECHILD) => return 0,
            _ => {}
        }
    }
}

/// Asks everything that is left to end; what does not, is killed with the namespace.
fn end_the_rest() {
    let _ = kill(Pid::from_raw(-1), Signal::SIGTERM);
    for _ in 0..GRACE_MS / LOOK_MS {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Err(nix::Error::ECHILD) => return,
            Ok(WaitStatus::StillAlive) => thread::sleep(Duration::from_millis(LOOK_MS)),
            _ => {}
        }
    }
}
