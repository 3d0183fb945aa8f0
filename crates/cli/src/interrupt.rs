//! The end of a command by a signal. A command that holds more than temporary files registers its shutdown here.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{outputs, progress};

/// Exit status of an interrupted command, as a shell reports it: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

/// A command's answer to a signal: true if it ends by itself now. It may keep locks, so that no other thread begins
/// anew before the exit.
type Shutdown = fn() -> bool;

/// Registered shutdowns, in the order in which they run.
static SHUTDOWNS: Mutex<Vec<Shutdown>> = Mutex::new(Vec::new());

/// Registers a shutdown.
pub fn on_signal(shutdown: Shutdown) {
    shutdowns().push(shutdown);
}

/// Handles signals from now on.
pub fn listen() {
    // Without the handler a signal still ends the command; it may leave a temporary file behind.
    let _ = ctrlc::set_handler(|| {
        if shutdowns().iter().any(|shutdown| shutdown()) {
            return;
        }
        // Held until the exit, so that no other thread creates another one.
        let _held = outputs::clean_up();
        bbrlab_live::leftovers::clear();
        let _cleared = progress::clear();
        std::process::exit(INTERRUPTED);
    });
}

fn shutdowns() -> MutexGuard<'static, Vec<Shutdown>> {
    SHUTDOWNS.lock().unwrap_or_else(PoisonError::into_inner)
}
