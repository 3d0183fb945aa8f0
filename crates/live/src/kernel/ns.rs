//! Network namespaces held only by a file descriptor.
//! They have no name in /run/netns.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use super::iface;
use crate::{Error, Result};

/// A network namespace. It ends with its last process and its last descriptor.
#[derive(Debug)]
pub struct NetNs {
    fd: File,
}

impl NetNs {
    /// Creates an empty namespace with its loopback up.
    pub fn new() -> Result<Self> {
        on_own_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(Error::NoNamespace)?;
            iface::up("lo")?;
            let fd = File::open("/proc/thread-self/ns/net").map_err(Error::io("network namespace"))?;
            Ok(Self { fd })
        })
    }

    /// Inode number, which is unique among the namespaces that exist.
    pub fn inode(&self) -> Result<u32> {
        let inode = self.fd.metadata().map_err(Error::io("network namespace"))?.ino();
        Ok(u32::try_from(inode).unwrap_or(u32::MAX)) // the kernel counts them in 32 bits
    }

    /// Moves the calling thread into the namespace permanently.
    pub fn enter(&self) -> Result<()> {
        setns(&self.fd, CloneFlags::CLONE_NEWNET).map_err(Error::call("network namespace: no entry"))
    }

    /// Runs `work` inside the namespace, on a thread of its own.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        on_own_thread(|| {
            self.enter()?;
            work()
        })
    }

    /// Sets a sysctl below /proc/sys/net in this namespace only, as in `("ipv4/tcp_ecn", "1")`.
    pub fn set_sysctl(&self, name: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/net/{name}");
        self.run(|| {
            fs::write(&path, value).map_err(|source| Error::Sysctl {
                path: path.as_str().into(),
                value: value.to_owned(),
                source,
            })
        })
    }

    /// A sysctl's value in this namespace.
    pub fn sysctl(&self, name: &str) -> Result<String> {
        let path = format!("/proc/sys/net/{name}");
        self.run(|| fs::read_to_string(&path).map_err(Error::io(path.as_str())))
            .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs `work` on a new thread, whose namespace can change without affecting other threads.
fn on_own_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("bbrlab-ns".to_owned()).spawn_scoped(scope, work);
        let thread = thread.map_err(Error::io("thread"))?;
        thread.join().unwrap_or_else(|_| Err(Error::ThreadEnded("thread: it")))
    })
}
