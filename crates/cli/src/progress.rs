//! A progress bar on a terminal, for work that takes over a second; nothing is written to a pipe.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bbrlab_live::clock::Stopwatch;

/// Delay before the bar appears; shorter work needs none.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval between redraws. Ours: smooth enough, and cheap compared with the work.
const REDRAW: Duration = Duration::from_millis(100);
/// Maximum width of the bar, and width of the text beside it, in characters.
const BAR_MAX: usize = 40;
const BESIDE: usize = 35;

/// True while a bar is on the terminal.
static SHOWN: Mutex<bool> = Mutex::new(false);

/// Removes the bar from the terminal, if any, and prevents another one while the guard is held.
pub fn clear() -> MutexGuard<'static, bool> {
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if std::mem::take(&mut *shown) {
        // The whole line: a terminal may have printed a ^C after the bar.
        let _ = io::stderr().write_all(b"\r\x1b[2K");
    }
    shown
}

/// Progress of work of known size.
pub struct Progress {
    done: Arc<AtomicUsize>,
    #[cfg_attr(not(feature = "quic"), expect(dead_code, reason = "only a transfer learns its size on the way"))]
    total: Arc<AtomicUsize>,
    watcher: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts to display `total` units of work called `what`.
    pub fn new(what: &'static str, total: usize) -> Self {
        let (done, total) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(total)));
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let watcher = (io::stderr().is_terminal() && !dumb).then(|| {
            let (end, ended) = mpsc::channel();
            let (seen, total) = (Arc::clone(&done), Arc::clone(&total));
            let since = Stopwatch::start();
            let watch = move || {
                let mut wait = PATIENCE;
                while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                    let total = total.load(Ordering::Relaxed).max(1);
                    let share = seen.load(Ordering::Relaxed) as f64 / total as f64;
                    draw(what, share.min(1.0), since.seconds());
                    wait = REDRAW;
                }
                drop(clear());
            };
            (end, thread::spawn(watch))
        });
        Self { done, total, watcher }
    }

    /// Counts one finished unit.
    pub fn tick(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds work that was not known at the start.
    #[cfg(feature = "quic")]
    pub fn expect(&self, more: u64) {
        self.total.fetch_add(usize::try_from(more).unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// Counts `more` finished units.
    #[cfg(feature = "quic")]
    pub fn add(&self, more: u64) {
        self.done.fetch_add(usize::try_from(more).unwrap_or(usize::MAX), Ordering::Relaxed);
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

fn draw(what: &str, share: f64, elapsed_s: f64) {
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let columns = terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
    // Drawn over the previous one without a line feed, so that it can be removed.
    let line = line(what, share, elapsed_s, BAR_MAX.min(columns.saturating_sub(BESIDE)));
    *shown = io::stderr().write_all(format!("\r{line}\x1b[K").as_bytes()).is_ok();
}

fn line(what: &str, share: f64, elapsed_s: f64, width: usize) -> String {
    let full = (share * width as f64) as usize;
    let bar: String = (0..width).map(|at| if at < full { '█' } else { '░' }).collect();
    let left = if share > 0.0 { time(elapsed_s / share - elapsed_s) } else { "?".to_owned() };
    format!("{what} {bar} {:.0} %, {left} left", (100.0 * share).floor())
}

/// Formats a duration with about two digits.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s if s < 360_000.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_says_how_much_is_done_and_how_long_the_rest_takes() {
        assert_eq!(line("simulating", 0.25, 10.0, 8), "simulating ██░░░░░░ 25 %, 30 s left");
        assert_eq!(line("simulating", 0.0, 10.0, 4), "simulating ░░░░ 0 %, ? left");
    }
}
