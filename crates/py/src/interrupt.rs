//! Work beside the interpreter: it runs on threads of its own, while the calling thread answers Ctrl-C.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error;

/// Interval at which signals are checked. Ours: an interrupted run ends within a tenth of a second.
const CHECK: Duration = Duration::from_millis(20);

/// Threads of a process, by its id. A forked process has none of its parent's threads, and would wait for them without end.
static THREADS: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Returns this process's threads.
pub fn threads() -> PyResult<Arc<ThreadPool>> {
    let process = std::process::id();
    let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((owner, pool)) = threads.as_ref().filter(|(owner, _)| *owner == process) {
        debug_assert_eq!(*owner, process);
        return Ok(Arc::clone(pool));
    }
    // Each thread keeps its state in the interpreter, so that a callback need not create one.
    let spawn = |thread: rayon::ThreadBuilder| {
        let named = std::thread::Builder::new().name("bbrlab".to_owned());
        named.spawn(move || Python::attach(|py| py.detach(|| thread.run()))).map(drop)
    };
    let pool = ThreadPoolBuilder::new().spawn_handler(spawn).build();
    let pool = Arc::new(pool.map_err(|fault| error::internal(&fault.to_string()))?);
    // The parent's are not dropped: dropping them would call on threads that do not exist.
    std::mem::forget(threads.replace((process, Arc::clone(&pool))));
    Ok(pool)
}

/// Runs `work` without the interpreter's lock. It ends early, once it reads its flag, if a signal raises an exception.
pub fn run<T: Send>(py: Python<'_>, work: impl FnOnce(&AtomicBool) -> T + Send) -> PyResult<T> {
    let is_cancelled = AtomicBool::new(false);
    let threads = threads()?;
    py.detach(|| {
        std::thread::scope(|scope| {
            let (done, wait) = channel();
            let is_cancelled = &is_cancelled;
            scope.spawn(move || {
                let outcome = catch_unwind(AssertUnwindSafe(|| threads.install(|| work(is_cancelled))));
                // The receiver waits until this thread ends.
                let _ = done.send(outcome);
            });
            let mut raised = None;
            loop {
                match wait.recv_timeout(CHECK) {
                    Ok(Ok(value)) => return raised.map_or(Ok(value), Err),
                    // Work that cannot return an error unwinds once its flag is set.
                    Ok(Err(cause)) => return Err(raised.unwrap_or_else(|| panicked(cause.as_ref()))),
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(error::internal("a thread ended without a result"));
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if raised.is_none() {
                    raised = Python::attach(|py| py.check_signals()).err();
                    if raised.is_some() {
                        is_cancelled.store(true, Ordering::Relaxed);
                    }
                }
            }
        })
    })
}

fn panicked(cause: &(dyn std::any::Any + Send)) -> PyErr {
    let text = cause.downcast_ref::<String>().map(String::as_str).or(cause.downcast_ref::<&str>().copied());
    error::internal(text.unwrap_or("a panic"))
}

/// Turns a panic into an exception.
pub fn caught<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|cause| panicked(cause.as_ref()))
}
