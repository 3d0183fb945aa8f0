//! Paths of our state on a host, and the privileges required to change it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use crate::{Error, Result};

/// State that a reboot removes, along with the loaded algorithms: pins and journal.
#[derive(Clone, Debug)]
pub struct HostPaths {
    /// Mount point of the BPF file system.
    pub bpffs: PathBuf,
    /// Directory of the journal.
    pub state: PathBuf,
}

impl Default for HostPaths {
    fn default() -> Self {
        Self { bpffs: "/sys/fs/bpf".into(), state: "/run/bbrlab".into() }
    }
}

impl HostPaths {
    /// Directory of all our pins.
    pub fn pins(&self) -> PathBuf {
        self.bpffs.join("bbrlab")
    }

    /// Directory of one algorithm's pins. The BPF file system takes no dot in a name, and no name in the kernel has a `-`.
    pub fn pins_of(&self, name: &str) -> PathBuf {
        self.pins().join(name.replace('.', "-"))
    }

    /// True if the BPF file system is mounted.
    pub fn is_bpffs_mounted(&self) -> bool {
        statfs(&self.bpffs).is_ok_and(|stat| stat.filesystem_type() == BPF_FS_MAGIC)
    }
}

/// Creates a directory of ours, or checks that nobody else can write in it: what is found there is trusted.
pub(crate) fn own_folder(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(Error::file(path))?;
    let meta = fs::symlink_metadata(path).map_err(Error::file(path))?;
    if meta.is_dir() && meta.uid() == nix::unistd::geteuid().as_raw() && meta.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(Error::NotOurs(path.to_owned()))
}

/// Effective capabilities of this process.
pub(crate) fn capabilities() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

/// Fails without BTF, which is needed to relocate programs for the running kernel.
pub(crate) fn check_types() -> Result<()> {
    if Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Ok(());
    }
    Err(Error::NoTypes)
}

/// Fails if this process or kernel cannot load programs, and names what is missing.
pub fn check() -> Result<()> {
    // Source: Linux include/uapi/linux/capability.h.
    const NET_ADMIN: u64 = 1 << 12;
    const SYS_ADMIN: u64 = 1 << 21;
    const BPF: u64 = 1 << 39;
    check_types()?;
    let held = capabilities();
    if held & SYS_ADMIN == 0 && held & (BPF | NET_ADMIN) != BPF | NET_ADMIN {
        return Err(Error::NoRights);
    }
    Ok(())
}
