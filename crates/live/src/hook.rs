//! BPF programs already attached to the connections of a cgroup.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use libbpf_rs::libbpf_sys::{BPF_CGROUP_SOCK_OPS, BPF_F_QUERY_EFFECTIVE, bpf_prog_query};

/// Maximum number of programs reported. Source: Linux `BPF_CGROUP_MAX_PROGS`.
const MOST: usize = 64;

/// Returns the IDs of the `sock_ops` programs that act on a cgroup, its own and its ancestors'.
pub fn sock_ops_of(cgroup: &Path) -> io::Result<Vec<u32>> {
    let folder = File::open(cgroup)?;
    let mut programs = [0_u32; MOST];
    let mut count = MOST as u32;
    // SAFETY: the kernel writes at most `count` IDs, and their number; no flags are set.
    let status = unsafe {
        bpf_prog_query(
            folder.as_raw_fd(),
            BPF_CGROUP_SOCK_OPS,
            BPF_F_QUERY_EFFECTIVE,
            std::ptr::null_mut(),
            programs.as_mut_ptr(),
            &raw mut count,
        )
    };
    if status < 0 {
        return Err(io::Error::from_raw_os_error(-status));
    }
    Ok(programs[..MOST.min(count as usize)].to_vec())
}
