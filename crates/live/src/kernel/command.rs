//! Runs client and server on the two ends of the link, in a PID namespace that is killed on exit.
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

use super::testbed::{LEFT, LEFT6, RIGHT, RIGHT6, Testbed};
use crate::clock;
use crate::{Error, Result};

/// Exit statuses for a command that does not exist, and for one that may not run. Source: POSIX `env`, 127 and 126.
const NOT_FOUND: i32 = 127;
const NOT_RUNNABLE: i32 = 126;
/// Exit status after an interrupt. Source: shells, 128 + SIGINT.
const INTERRUPTED: i32 = 130;
/// Maximum time for a server to start listening; after that the command starts anyway. Ours.
const SERVER_MAX_MS: u64 = 5_000;
/// Grace period for a server to exit after SIGTERM. Ours.
const GRACE_MS: u64 = 300;
/// Polling interval during these waits. Ours.
const LOOK_MS: u64 = 5;

/// The command and the server to run.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    /// The command and its arguments, on the left.
    pub command: Vec<OsString>,
    /// A shell command line, on the right.
    pub server: Option<String>,
}

/// Parent process of the command and the server; it ends with this process.
#[derive(Debug)]
pub struct PidNamespaceInit {
    pid: Pid,
    go: PipeWriter,
}

/// The keeper's process ID, for the signal handler.
static KEEPER: AtomicI32 = AtomicI32::new(0);

impl CommandSpec {
    /// Forks the keeper, which waits. Call it before the emulator's thread starts.
    pub fn prepare(self, testbed: &Testbed) -> Result<PidNamespaceInit> {
        let (wait, go) = io::pipe().map_err(Error::io("emulate: pipe"))?;
        let child = fork_to(|| {
            // Only the parent keeps the write end, so the pipe closes when it exits. The copy in this process is never
            // dropped.
            let _ = close(go.as_raw_fd());
            guard(|| run_init(self, wait, testbed.left.as_fd(), testbed.right.as_fd()))
        });
        Ok(PidNamespaceInit { pid: child?, go })
    }
}

impl PidNamespaceInit {
    /// Starts the command and waits for it. Returns its exit status.
    pub fn run(mut self) -> Result<i32> {
        KEEPER.store(self.pid.as_raw(), Ordering::Relaxed);
        let on_interrupt = SigAction::new(SigHandler::SigAction(on_interrupt), SaFlags::SA_RESTART, SigSet::empty());
        // SAFETY: the handler does nothing but an atomic load and `kill`.
        unsafe { sigaction(Signal::SIGINT, &on_interrupt) }.map_err(Error::call("emulate: signal"))?;
        self.go.write_all(&[1]).map_err(Error::io("emulate: the command did not start"))?;
        Ok(outcome(self.pid))
    }
}

/// Runs `work` in a child process, which exits with its result.
fn fork_to(work: impl FnOnce() -> i32) -> Result<Pid> {
    // SAFETY: the only other thread of this program waits for signals and holds no lock; the child uses the allocator,
    // which glibc keeps usable over a fork, and ends with `_exit`.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            let status = work();
            // SAFETY: ends this process without running its parent's exit handlers.
            unsafe { libc::_exit(status) }
        }
        Ok(ForkResult::Parent { child }) => Ok(child),
        Err(source) => Err(Error::Call { what: "emulate: fork".to_owned(), source }),
    }
}

/// Intermediate process between this one and the keeper: only its children are in the new PID namespace.
fn guard(work: impl FnOnce() -> i32) -> i32 {
    for number in [Signal::SIGINT, Signal::SIGQUIT] {
        // SAFETY: ignoring a signal runs no code.
        let _ = unsafe { signal(number, SigHandler::SigIgn) };
    }
    for number in [Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the default action runs no code of ours.
        let _ = unsafe { signal(number, SigHandler::SigDfl) };
    }
    let made = set_pdeathsig(Signal::SIGKILL).and_then(|()| unshare(CloneFlags::CLONE_NEWPID));
    if let Err(error) = made {
        return complain(2, &Error::NoProcessNamespace(error));
    }
    match fork_to(work) {
        Ok(keeper) => outcome(keeper),
        Err(error) => complain(2, &error),
    }
}

/// Waits for a process and returns its exit status.
fn outcome(pid: Pid) -> i32 {
    loop {
        match waitpid(pid, None) {
            Ok(WaitStatus::Exited(_, status)) => return status,
            Ok(WaitStatus::Signaled(..)) | Err(nix::Error::ECHILD) => return INTERRUPTED,
            _ => {}
        }
    }
}

fn complain(status: i32, error: &Error) -> i32 {
    // If standard error cannot be written, the exit status is all there is.
    let _ = writeln!(io::stderr(), "bbrlab: {error}");
    status
}

/// Handles SIGINT: one that was sent to this process alone ends everything.
///
/// An interrupt from the terminal reached the command too, which decides (a shell continues).
extern "C" fn on_interrupt(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t` to a handler that requested it.
    if unsafe { (*info).si_code } != libc::SI_KERNEL {
        let _ = kill(Pid::from_raw(KEEPER.load(Ordering::Relaxed)), Signal::SIGKILL);
    }
}

/// Runs the keeper, PID 1 of a namespace. Everything below it is killed when it exits, and it exits with its parent.
fn run_init(spec: CommandSpec, mut wait: PipeReader, left: BorrowedFd<'_>, right: BorrowedFd<'_>) -> i32 {
    for number in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        // SAFETY: the default action runs no code of ours.
        let _ = unsafe { signal(number, SigHandler::SigDfl) };
    }
    let ready = set_pdeathsig(Signal::SIGKILL).is_ok() && wait.read_exact(&mut [0]).is_ok();
    if !ready {
        return INTERRUPTED; // the parent is gone
    }
    own_proc();
    match serve_and_run(&spec, left, right, &Environment::of_host()) {
        Ok((status, _)) => status,
        Err((status, error)) => complain(status, &error),
    }
}

/// Mounts a /proc that shows the namespace's processes. Without it the command still runs, with the host's /proc.
fn own_proc() {
    let none: Option<&str> = None;
    let done = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none));
    if done.is_ok() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let _ = mount(Some("proc"), "/proc", Some("proc"), flags, none);
    }
}

/// Environment of the command and the server.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// True if they inherit nothing of this process's environment.
    pub bare: bool,
    /// Variables set for them.
    pub variables: Vec<(OsString, OsString)>,
}

impl Environment {
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

/// Starts the server on the right, runs the command on the left, and ends all remaining processes.
///
/// Returns the command's exit status, or ours with a message, and the command's run time in nanoseconds.
pub fn serve_and_run(
    spec: &CommandSpec,
    left: BorrowedFd<'_>,
    right: BorrowedFd<'_>,
    around: &Environment,
) -> Result<(i32, u64), (i32, Error)> {
    let fault = |source| (2, Error::Call { what: "emulate: network namespace".to_owned(), source });
    setns(right, CloneFlags::CLONE_NEWNET).map_err(fault)?;
    if let Some(line) = &spec.server {
        start_server(line, around)?;
    }
    setns(left, CloneFlags::CLONE_NEWNET).map_err(fault)?;
    let Some((program, args)) = spec.command.split_first() else {
        return Err((2, Error::NoCommand));
    };
    let start_ns = clock::now_ns();
    let command = around.around(Command::new(program).args(args)).spawn();
    let child = command.map_err(|source| {
        let status = if source.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE };
        (status, Error::Command { program: program.clone(), source })
    })?;
    let status = wait_for(Pid::from_raw(child.id().cast_signed()));
    let ran_ns = clock::now_ns() - start_ns;
    end_the_rest();
    Ok((status, ran_ns))
}

/// Starts the server and waits until it listens.
fn start_server(line: &str, around: &Environment) -> Result<(), (i32, Error)> {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null());
    // Standard output belongs to the command.
    if let Ok(errors) = io::stderr().as_fd().try_clone_to_owned() {
        command.stdout(Stdio::from(errors));
    }
    // SAFETY: makes one system call.
    unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
    let mut server =
        around.around(&mut command).spawn().map_err(|error| (2, Error::io("emulate: --server: sh")(error)))?;
    for _ in 0..SERVER_MAX_MS / LOOK_MS {
        if listens() {
            return Ok(());
        }
        if let Ok(Some(status)) = server.try_wait() {
            let ended = || Error::ServerEnded { line: line.to_owned(), status };
            return if status.success() { Ok(()) } else { Err((2, ended())) };
        }
        thread::sleep(Duration::from_millis(LOOK_MS));
    }
    Ok(())
}

/// True if any socket in this network namespace waits for connections or datagrams.
fn listens() -> bool {
    const LISTEN: &str = "0A";
    let has = |name: &str, wanted: fn(&str) -> bool| {
        let table = fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        table.lines().skip(1).any(|line| line.split_whitespace().nth(3).is_some_and(wanted))
    };
    ["tcp", "tcp6"].iter().any(|name| has(name, |state| state == LISTEN))
        || ["udp", "udp6"].iter().any(|name| has(name, |_| true))
}

/// Waits for the command, and reaps every other child meanwhile, as PID 1 must.
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

/// Sends SIGTERM to all remaining processes; the end of the namespace kills the rest.
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
