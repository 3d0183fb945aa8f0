//! Network namespaces of this host that have a process, or a name in /run/netns.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;

use nix::sched::{CloneFlags, setns};

use crate::Result;

/// Runs `work` in each namespace, starting with the current one.
pub fn in_each<T: Send>(work: impl Fn() -> Result<T> + Sync) -> Vec<Result<T>> {
    let mut done = vec![work()];
    let own = fs::metadata("/proc/self/ns/net").map_or(0, |file| file.ino());
    for (_, file) in found().into_iter().filter(|(inode, _)| *inode != own) {
        let inside = thread::scope(|scope| {
            let thread = scope.spawn(|| match setns(&file, CloneFlags::CLONE_NEWNET) {
                Ok(()) => Some(work()),
                // It has ended, or this process may not enter it.
                Err(_) => None,
            });
            thread.join().ok().flatten()
        });
        done.extend(inside);
    }
    done
}

/// Lists each namespace once, by its inode.
fn found() -> BTreeMap<u64, File> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|one| one.path().join("ns/net"));
    let named =
        ["/run/netns", "/var/run/netns"].into_iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
    let paths: Vec<PathBuf> = processes.chain(named.flatten().map(|one| one.path())).collect();
    let mut all = BTreeMap::new();
    for path in paths {
        if let Ok(file) = fs::metadata(&path)
            && !all.contains_key(&file.ino())
            && let Ok(open) = File::open(&path)
        {
            all.insert(file.ino(), open);
        }
    }
    all
}
