//! A progress bar on a terminal, for work that takes over a second; nothing into a pipe.
//! In: a total and ticks. Out: a line on standard error that is gone at the end. Never: a byte where no terminal is.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The bar that is on the terminal.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Takes the bar off the terminal, where there is one.
pub fn clear() {
    if let Some(bar) = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).take() {
        bar.finish_and_clear();
    }
}

/// Work of known size that is under way.
pub struct Progress {
    done: Arc<AtomicUsize>,
    watcher: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts to watch over `total` pieces of work called `what`.
    pub fn new(what: &'static str, total: usize) -> Self {
        let done = Arc::new(AtomicUsize::new(0));
        let watcher = std::io::stderr().is_terminal().then(|| {
            let (end, ended) = mpsc::channel();
            let seen = Arc::clone(&done);
            let watch = move || {
                if ended.recv_timeout(Duration::from_secs(1)) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                let bar = bar(what, total);
                *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
                while ended.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout) {
                    bar.set_position(seen.load(Ordering::Relaxed) as u64);
                    bar.tick();
                }
                clear();
            };
            (end, thread::spawn(watch))
        });
        Self { done, watcher }
    }

    /// One more piece is done.
    pub fn tick(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, watcher)) = self.watcher.take() {
            drop(end);
            let _ = watcher.join();
        }
    }
}

fn bar(what: &'static str, total: usize) -> ProgressBar {
    let (bar, template) = match total {
        0 | 1 => (ProgressBar::new_spinner(), "{spinner} {msg} {elapsed}"),
        _ => (ProgressBar::new(total as u64), "{msg} {bar:40} {percent} %, {eta} left"),
    };
    bar.set_message(what);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
