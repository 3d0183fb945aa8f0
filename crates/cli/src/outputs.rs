//! Output files of the command, `-` being standard output: checked before the work, and written atomically.
//! Missing directories are created, and removed again if the command fails.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Error, inputs};

/// Paths to remove unless the command succeeds: temporary files, and directories created for results.
static TEMPORARY: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Removes the temporary files of a process that runs out of memory or panics.
pub fn clean_up_on_faults() {
    bbrlab_live::memory::set_at_the_end(|| {
        // The thread that holds the set may be the one that ran out of memory: then the files stay.
        if let Ok(mut temporary) = TEMPORARY.try_lock() {
            remove(&mut temporary);
        }
    });
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        drop(clean_up());
        report(panic);
    }));
}

/// Removes the temporary paths and returns the lock on their set.
pub fn clean_up() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    let mut temporary = temporaries();
    remove(&mut temporary);
    temporary
}

fn remove(temporary: &mut BTreeSet<PathBuf>) {
    // The contents of a directory sort after it in the set, and must be removed first.
    for path in std::mem::take(temporary).into_iter().rev() {
        if fs::remove_file(&path).is_err() {
            let _ = fs::remove_dir(&path); // fails unless it is empty
        }
    }
}

/// Locks the set, even if poisoned: it is consistent whatever its last owner was doing.
fn temporaries() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A written file that waits to be renamed; if dropped before that, it is removed.
#[derive(Debug)]
#[must_use]
pub struct PendingFile {
    flag: &'static str,
    temporary: PathBuf,
    path: PathBuf,
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        discard(&self.temporary);
    }
}

/// Renames all files to their final names, replacing earlier versions, but no file that was read as an input. The signal handler
/// waits meanwhile.
pub fn commit(files: Vec<PendingFile>) -> Result<(), Error> {
    if let Some(file) = files.iter().find(|file| inputs::was_read(&file.path)) {
        let rule = "it names a file that was read as an input; name another";
        return Err(Error::PathRule { flag: file.flag, path: file.path.clone(), rule });
    }
    let mut temporary = temporaries();
    let mut renamed = Ok(());
    for file in &files {
        if renamed.is_ok() {
            renamed = fs::rename(&file.temporary, &file.path).map_err(Error::output(file.flag, &file.path));
        }
    }
    if renamed.is_ok() {
        temporary.clear();
    }
    drop(temporary);
    renamed
}

/// Fails if two targets are the same file.
pub fn check_distinct<'a>(targets: impl IntoIterator<Item = &'a Target>) -> Result<(), Error> {
    let mut seen: Vec<&Target> = Vec::new();
    for target in targets {
        if let Some(other) = seen.iter().find(|other| other.same_file(target)) {
            return Err(Error::SameFile { flag: target.flag, other: other.flag });
        }
        seen.push(target);
    }
    Ok(())
}

/// True if one of them is standard output, which then receives nothing else.
pub fn take_stdout<'a>(targets: impl IntoIterator<Item = &'a Target>) -> bool {
    targets.into_iter().any(Target::is_stdout)
}

/// An output file that has been checked to be writable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    flag: &'static str,
    /// Path with links resolved; `None` is standard output.
    path: Option<PathBuf>,
    /// True for a device or pipe, which is written directly because it cannot be renamed onto.
    direct: bool,
}

impl Target {
    /// Checks that `path` can be written; `-` is standard output.
    pub fn check(flag: &'static str, path: &Path) -> Result<Self, Error> {
        if path == Path::new("-") || path == Path::new("/dev/stdout") {
            return Ok(Self { flag, path: None, direct: false });
        }
        let fault = Error::output(flag, path);
        let given = path;
        let path = fs::canonicalize(given).unwrap_or_else(|_| given.to_owned());
        if path.is_dir() || path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(Error::PathRule { flag, path: given.to_owned(), rule: "it is a directory; name a file" });
        }
        make(parent(&path)).map_err(&fault)?;
        let direct = fs::metadata(&path).is_ok_and(|meta| !meta.is_file());
        let target = Self { flag, direct, path: Some(path) };
        if !direct {
            let (file, temporary) = target.temporary().map_err(fault)?;
            drop(file);
            discard(&temporary);
        }
        Ok(target)
    }

    /// Checks the path of a flag, if the flag was given.
    pub fn asked(flag: &'static str, path: Option<&Path>) -> Result<Option<Self>, Error> {
        path.map(|path| Self::check(flag, path)).transpose()
    }

    /// True for standard output.
    pub const fn is_stdout(&self) -> bool {
        self.path.is_none()
    }

    /// True if both are the same file.
    pub fn same_file(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    /// True if this is the file at `path`.
    pub fn is(&self, path: &Path) -> bool {
        fs::canonicalize(path).is_ok_and(|path| Some(path) == self.path)
    }

    /// True if this is the file at `path`, or would be once that exists.
    #[cfg(feature = "parquet")]
    pub fn would_be(&self, path: &Path) -> bool {
        let other = Self { flag: self.flag, path: Some(path.to_owned()), direct: false };
        self.is(path) || self.key().is_some_and(|key| other.key() == Some(key))
    }

    /// The flag that named this file.
    pub const fn flag(&self) -> &'static str {
        self.flag
    }

    fn key(&self) -> Option<PathBuf> {
        let path = self.path.as_ref()?;
        let dir = fs::canonicalize(parent(path)).ok()?;
        Some(dir.join(path.file_name()?))
    }

    /// Writes the whole file under a temporary name; [`commit`] renames it. Standard output, devices and pipes are
    /// written immediately.
    pub fn write(
        &self,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> Result<Option<PendingFile>, Error> {
        let Some(path) = &self.path else {
            let mut text = Vec::new();
            fill(&mut text).map_err(Error::flag(self.flag))?;
            return crate::print_bytes(&text).map(|_| None);
        };
        let fault = Error::output(self.flag, path);
        if self.direct {
            let mut file = BufWriter::new(File::options().write(true).open(path).map_err(&fault)?);
            return fill(&mut file).and_then(|()| file.flush()).map(|()| None).map_err(fault);
        }
        let (file, temporary) = self.temporary().map_err(&fault)?;
        let written = PendingFile { flag: self.flag, temporary, path: path.clone() };
        // The new file has the permissions of the one that it replaces.
        if let Ok(old) = fs::metadata(path) {
            file.set_permissions(old.permissions()).map_err(&fault)?;
        }
        let mut file = BufWriter::new(file);
        fill(&mut file).and_then(|()| file.flush()).map_err(fault)?;
        Ok(Some(written))
    }

    fn temporary(&self) -> io::Result<(File, PathBuf)> {
        let path = self.path.as_deref().unwrap_or(Path::new("-"));
        let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?.to_string_lossy();
        // Created while the set is held: a signal handler finds either both or none.
        let mut known = temporaries();
        for nth in 0_u32.. {
            let temporary = parent(path).join(format!(".{name}.{}-{nth}.tmp", std::process::id()));
            match File::options().write(true).create_new(true).open(&temporary) {
                // Left by a process with the same number, as of a container that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => {
                    known.insert(temporary.clone());
                    return opened.map(|file| (file, temporary));
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Creates a directory and its parents; they are removed again unless the command succeeds.
pub fn make(dir: &Path) -> io::Result<()> {
    let mut temporary = temporaries();
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    for dir in missing.into_iter().rev() {
        match fs::create_dir(dir) {
            Ok(()) => drop(temporary.insert(dir.to_owned())),
            // Another process may have created it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn discard(temporary: &Path) {
    if temporaries().remove(temporary) {
        let _ = fs::remove_file(temporary);
    }
}

/// A file or a directory of files, as given by the user: a directory exists or ends in a slash.
#[derive(Clone, Debug)]
pub enum Destination {
    File(PathBuf),
    /// Files with fixed names in this directory.
    Dir(PathBuf),
}

impl Destination {
    /// Parses a `FILE|DIR` argument; a directory that ends in a slash is created.
    pub fn of(flag: &'static str, path: &Path) -> Result<Self, Error> {
        if path.is_dir() {
            return Ok(Self::Dir(path.to_owned()));
        }
        if !path.as_os_str().as_bytes().ends_with(b"/") {
            return Ok(Self::File(path.to_owned()));
        }
        make(path).map_err(Error::output(flag, path))?;
        Ok(Self::Dir(path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// In a container every process may have the same number.
    #[test]
    fn a_temporary_file_of_another_process_blocks_no_output() {
        let dir = std::env::temp_dir().join(format!("bbrlab-outputs-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let left = dir.join(format!(".a.json.{}-0.tmp", std::process::id()));
        fs::write(&left, "left").unwrap();
        let target = Target::check("--json", &dir.join("a.json")).unwrap();
        commit(target.write(|to| to.write_all(b"new")).unwrap().into_iter().collect()).unwrap();
        assert_eq!(
            (fs::read(dir.join("a.json")).unwrap(), fs::read(&left).unwrap()),
            (b"new".to_vec(), b"left".to_vec())
        );
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_permissions() {
        let path = std::env::temp_dir().join(format!("bbrlab-outputs-{}.json", std::process::id()));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let target = Target::check("--json", &path).unwrap();
        commit(target.write(|to| to.write_all(b"new")).unwrap().into_iter().collect()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&path).unwrap();
    }
}
