//! Directories to remove when the command ends early: those that a running kernel needs.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static OURS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Registers a directory.
pub fn remember(path: &Path) {
    OURS.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
}

/// Removes a directory with its contents.
pub fn remove(path: &Path) {
    let _ = std::fs::remove_dir_all(path);
    OURS.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
}

/// Removes all of them, before the command ends.
pub fn clear() {
    for path in std::mem::take(&mut *OURS.lock().unwrap_or_else(PoisonError::into_inner)) {
        let _ = std::fs::remove_dir_all(path);
    }
}
