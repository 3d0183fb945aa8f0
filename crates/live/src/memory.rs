//! An allocator that exits with a one-line message when memory is exhausted, instead of aborting with a backtrace.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// Memory released when none is left, so that temporary files can still be removed. Ours: enough for their paths.
const RESERVE: Layout = match Layout::from_size_align(1 << 20, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("a layout of a power of two"),
};

static RESERVED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// ID of the thread that ends the program; 0: none.
static ENDING: AtomicI32 = AtomicI32::new(0);
static AT_THE_END: OnceLock<fn()> = OnceLock::new();

/// The system allocator, except that it ends the program on failure. For a binary's `#[global_allocator]`.
#[derive(Debug)]
pub struct ExitOnOutOfMemory;

/// Returns free memory to the system, which glibc otherwise keeps for its own later use.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the allocator's own locks, and touches only what is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Resident memory of this process in pages, where the system shows it.
pub fn resident_pages() -> Option<u64> {
    std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()
}

/// Allocates a reserve, and sets the clean-up to run before the program ends. It must not wait for a lock.
pub fn set_at_the_end(clean_up: fn()) {
    if AT_THE_END.set(clean_up).is_ok() {
        // SAFETY: the layout has a size above 0.
        RESERVED.store(unsafe { System.alloc(RESERVE) }, Ordering::Release);
    }
}

// SAFETY: every call is the system allocator's own; where it returns null, nothing is returned at all.
unsafe impl GlobalAlloc for ExitOnOutOfMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's guarantees are those that the system allocator requires.
        had(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        had(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        had(unsafe { System.realloc(at, layout, size) }, size)
    }
}

fn had(at: *mut u8, bytes: usize) -> *mut u8 {
    if at.is_null() {
        end(bytes);
    }
    at
}

#[cold]
fn end(bytes: usize) -> ! {
    // SAFETY: it only returns a number.
    let own = unsafe { libc::gettid() };
    match ENDING.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {}
        // The clean-up needed more than the reserve.
        Err(ending) if ending == own => exit(),
        Err(_) => loop {
            // SAFETY: it waits; the other thread ends the process.
            unsafe { libc::pause() };
        },
    }
    let reserve = RESERVED.swap(ptr::null_mut(), Ordering::AcqRel);
    if !reserve.is_null() {
        // SAFETY: it came from this allocator with this layout, and no one else can hold it any more.
        unsafe { System.dealloc(reserve, RESERVE) };
    }
    say(bytes);
    if let Some(clean_up) = AT_THE_END.get() {
        clean_up();
    }
    exit()
}

/// Writes the message without allocating.
fn say(bytes: usize) {
    let mut digits = [0; 20];
    let (mut rest, mut at) = (bytes, digits.len());
    while rest > 0 && at > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let pieces: [&[u8]; 3] = [
        b"bbrlab: memory is full: another ",
        &digits[at..],
        b" bytes could not be allocated; use fewer flows, a shorter duration or a coarser --sample, or allow more memory\n",
    ];
    for piece in pieces {
        // SAFETY: pointer and length are those of a slice. If nothing can be written, the exit status is all there is.
        unsafe { libc::write(libc::STDERR_FILENO, piece.as_ptr().cast(), piece.len()) };
    }
}

fn exit() -> ! {
    // SAFETY: it ends the process at once, without handlers that might allocate.
    unsafe { libc::_exit(2) }
}
