//! Network namespaces held only by a file descriptor.
//! They have no name in /run/netns.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use super::Fault;
use super::iface;

/// A network namespace. It ends with its last process and its last descriptor.
#[derive(Debug)]
pub struct NetNs {
    fd: File,
}

impl NetNs {
    /// Creates an empty namespace with its loopback up.
    pub fn new() -> Result<Self, Fault> {
        on_own_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| {
                format!("network namespace: it may not be made ({error}); run as root, or see `bbrlab doctor`")
            })?;
            iface::up("lo")?;
            let fd = File::open("/proc/thread-self/ns/net").map_err(|error| format!("network namespace: {error}"))?;
            Ok(Self { fd })
        })
    }

    /// Moves the calling thread into the namespace permanently.
    pub fn enter(&self) -> Result<(), Fault> {
        setns(&self.fd, CloneFlags::CLONE_NEWNET).map_err(|error| format!("network namespace: no entry: {error}"))
    }

    /// Runs `work` inside the namespace, on a thread of its own.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> Result<T, Fault> + Send) -> Result<T, Fault> {
        on_own_thread(|| {
            self.enter()?;
            work()
        })
    }

    /// Sets a sysctl below /proc/sys/net in this namespace only, as in `("ipv4/tcp_ecn", "1")`.
    pub fn set_sysctl(&self, name: &str, value: &str) -> Result<(), Fault> {
        let path = format!("/proc/sys/net/{name}");
        self.run(|| fs::write(&path, value).map_err(|error| format!("{path}: {value:?} may not be written: {error}")))
    }

    /// A sysctl's value in this namespace.
    pub fn sysctl(&self, name: &str) -> Result<String, Fault> {
        let path = format!("/proc/sys/net/{name}");
        self.run(|| fs::read_to_string(&path).map_err(|error| format!("{path}: {error}")))
            .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs `work` on a new thread, whose namespace can change without affecting other threads.
fn on_own_thread<T: Send>(work: impl FnOnce() -> Result<T, Fault> + Send) -> Result<T, Fault> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("bbrlab-ns".to_owned()).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| format!("thread: {error}"))?;
        thread.join().unwrap_or_else(|_| Err("thread: it ended early".to_owned()))
    })
}
