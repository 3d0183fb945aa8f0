//! Disk space on the host for a guest's memory, which is a file, and for its results.
//! A full disk raises a signal in the guest's kernel instead of an error, so space is checked beforehand.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};

use crate::{Error, Result};

/// Space required for a guest's memory file. Ours: ten flows of 500 Mbit/s together take about half of it.
const MEMORY_ROOM: u64 = 512 << 20;
/// Space required for the exchange directory. Ours: a result with its series is far smaller.
const EXCHANGE_ROOM: u64 = 4 << 20;
/// Candidate directories for a guest's memory: the first is in RAM on most machines.
const PLACES: [&str; 3] = ["/dev/shm", "/tmp", "/var/tmp"];

/// Bytes that this user may still write below a directory.
fn free_bytes(directory: &Path) -> Option<u64> {
    let held = statvfs(directory).ok()?;
    Some(held.blocks_available().saturating_mul(held.fragment_size()))
}

/// True if programs may be executed from the directory, as the guest's memory requires.
fn runs_programs(directory: &Path) -> bool {
    statvfs(directory).is_ok_and(|held| !held.flags().contains(FsFlags::ST_NOEXEC))
}

const fn megabytes(bytes: u64) -> u64 {
    bytes >> 20
}

/// Directory for a guest's memory: TMPDIR, or the first of the usual places with enough space.
pub fn for_memory() -> Result<PathBuf> {
    let named = std::env::var_os("TMPDIR").filter(|text| !text.is_empty()).map(PathBuf::from);
    let places: Vec<PathBuf> = named.into_iter().chain(PLACES.map(PathBuf::from)).collect();
    let fits = |place: &&PathBuf| runs_programs(place) && free_bytes(place).is_some_and(|room| room >= MEMORY_ROOM);
    if let Some(place) = places.iter().find(fits) {
        return Ok(place.clone());
    }
    let held = |place: &PathBuf| match free_bytes(place) {
        Some(room) if runs_programs(place) => format!("{} has {} MB", place.display(), megabytes(room)),
        Some(_) => format!("{} runs no programs", place.display()),
        None => format!("{} is not there", place.display()),
    };
    let held: Vec<String> = places.iter().map(held).collect();
    Err(Error::NoMemoryRoom { needed_mb: megabytes(MEMORY_ROOM), found: held })
}

/// Fails if there is no space for the guest's results.
pub fn for_exchange(directory: &Path) -> Result<()> {
    match free_bytes(directory) {
        Some(room) if room < EXCHANGE_ROOM => Err(Error::NoExchangeRoom {
            path: directory.to_owned(),
            free_kb: room >> 10,
            needed_kb: EXCHANGE_ROOM >> 10,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_has_no_room_and_runs_nothing() {
        let nowhere = Path::new("/nowhere/at/all");
        assert_eq!((free_bytes(nowhere), runs_programs(nowhere)), (None, false));
        assert!(free_bytes(Path::new("/")).is_some());
    }

    #[test]
    fn proc_has_no_room_for_an_exchange() {
        let said = for_exchange(Path::new("/proc")).unwrap_err().to_string();
        assert!(said.starts_with("--on uml: /proc: 0 kB left") && said.contains("TMPDIR"), "{said}");
    }
}
