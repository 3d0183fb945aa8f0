//! Room on the host's file systems for a kernel's memory, which is a file, and for what it leaves behind.
//! A file without room is no error to the kernel but a signal in the midst of its work, so it is looked for before.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};

use crate::flows::Failure;

/// Room that a kernel's memory file must find. Ours: ten flows of 500 Mbit/s together take about half of it.
const MEMORY_ROOM: u64 = 512 << 20;
/// Room that the directory of exchange must find. Ours: a result with its series is far smaller.
const EXCHANGE_ROOM: u64 = 4 << 20;
/// Where a kernel's memory may be: the first of them is RAM on most machines.
const PLACES: [&str; 3] = ["/dev/shm", "/tmp", "/var/tmp"];

/// Bytes that we may still write below a directory.
fn room(directory: &Path) -> Option<u64> {
    let held = statvfs(directory).ok()?;
    Some(held.blocks_available().saturating_mul(held.fragment_size()))
}

/// Whether programs may run from there, as the guest's do from its memory.
fn runs_programs(directory: &Path) -> bool {
    statvfs(directory).is_ok_and(|held| !held.flags().contains(FsFlags::ST_NOEXEC))
}

const fn megabytes(bytes: u64) -> u64 {
    bytes >> 20
}

/// The directory for a kernel's memory: what TMPDIR names, or the usual places, whichever has room first.
pub fn for_memory() -> Result<PathBuf, Failure> {
    let named = std::env::var_os("TMPDIR").filter(|text| !text.is_empty()).map(PathBuf::from);
    let places: Vec<PathBuf> = named.into_iter().chain(PLACES.map(PathBuf::from)).collect();
    let fits = |place: &&PathBuf| runs_programs(place) && room(place).is_some_and(|room| room >= MEMORY_ROOM);
    if let Some(place) = places.iter().find(fits) {
        return Ok(place.clone());
    }
    let held = |place: &PathBuf| match room(place) {
        Some(room) if runs_programs(place) => format!("{} has {} MB", place.display(), megabytes(room)),
        Some(_) => format!("{} runs no programs", place.display()),
        None => format!("{} is not there", place.display()),
    };
    let held: Vec<String> = places.iter().map(held).collect();
    Err(format!(
        "--on uml: no room for the kernel's memory, {} MB: {}; make room, or name another directory with TMPDIR",
        megabytes(MEMORY_ROOM),
        held.join(", "),
    ))
}

/// Says if what a kernel leaves behind finds no room.
pub fn for_exchange(directory: &Path) -> Result<(), Failure> {
    match room(directory) {
        Some(room) if room < EXCHANGE_ROOM => Err(format!(
            "--on uml: {}: {} kB of room left, a run needs {} kB; make room, or name another directory with TMPDIR",
            directory.display(),
            room >> 10,
            EXCHANGE_ROOM >> 10,
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_has_no_room_and_runs_nothing() {
        let nowhere = Path::new("/nowhere/at/all");
        assert_eq!((room(nowhere), runs_programs(nowhere)), (None, false));
        assert!(room(Path::new("/")).is_some());
    }

    #[test]
    fn proc_has_no_room_for_an_exchange() {
        let said = for_exchange(Path::new("/proc")).unwrap_err();
        assert!(said.starts_with("--on uml: /proc: 0 kB of room left") && said.contains("TMPDIR"), "{said}");
    }
}
