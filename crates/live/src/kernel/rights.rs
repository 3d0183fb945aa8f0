//! The right to create namespaces: root has it; anyone else gets it in a user namespace, where permitted.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::env;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::unistd::{Pid, getgid, getuid};

use crate::{Error, Result};

/// Set in the environment of the program once it runs in a user namespace.
pub(super) const MARK: &str = "BBRLAB_IN_USER_NAMESPACE";
const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// The program's process ID once it runs in a user namespace, for the signal handler.
static INSIDE: AtomicI32 = AtomicI32::new(0);

/// True if this process may create namespaces and devices.
pub fn are_enough() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    held & CAP_NET_ADMIN != 0 && held & CAP_SYS_ADMIN != 0
}

/// Ensures that this program has the rights it needs.
///
/// `None`: it has them. `Some`: it was run again inside a user namespace and ended with this exit status.
pub fn obtain() -> Result<Option<i32>> {
    if are_enough() {
        return Ok(None);
    }
    if env::var_os(MARK).is_some() {
        return Err(Error::NoRights);
    }
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {} 1", getuid())),
        ("gid_map", format!("0 {} 1", getgid())),
    ];
    let program = env::current_exe().map_err(Error::io("its own program"))?;
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1)).env(MARK, "1");
    let enter = move || {
        // With a network namespace of its own to return to: there is no way back into the host's.
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
        for (name, text) in &maps {
            fs::write(format!("/proc/self/{name}"), text)?;
        }
        // After the change of credentials, which clears it. Not SIGKILL: it has its own cleanup to do.
        set_pdeathsig(Signal::SIGTERM)?;
        Ok(())
    };
    // SAFETY: between fork and exec this makes system calls and formats into small strings; no other thread of ours
    // holds a lock at this point, for the command has done nothing but read its arguments.
    unsafe { command.pre_exec(enter) };
    let refused = Error::NoUserNamespace;
    let mut inside = command.spawn().map_err(refused)?;
    leave_interrupts_to(Pid::from_raw(inside.id().cast_signed()))?;
    let status = inside.wait().map_err(refused)?;
    Ok(Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))))
}

/// Survives the terminal's interrupts, which also reach the program inside, and passes others on to it.
fn leave_interrupts_to(inside: Pid) -> Result<()> {
    INSIDE.store(inside.as_raw(), Ordering::Relaxed);
    let action = SigAction::new(SigHandler::SigAction(on_interrupt), SaFlags::SA_RESTART, SigSet::empty());
    for number in [Signal::SIGINT, Signal::SIGQUIT] {
        // SAFETY: the handler does nothing but an atomic load and `kill`.
        unsafe { sigaction(number, &action) }.map_err(Error::call("signal"))?;
    }
    Ok(())
}

/// Passes on a signal that was sent to this process alone.
extern "C" fn on_interrupt(number: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t` to a handler that requested it.
    if unsafe { (*info).si_code } != libc::SI_KERNEL {
        let _ = kill(Pid::from_raw(INSIDE.load(Ordering::Relaxed)), Signal::try_from(number).ok());
    }
}
