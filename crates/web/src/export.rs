//! The C interface: addresses in the module's memory. A worker has one thread and one page.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![allow(unsafe_code, reason = "the names of exports")]

use std::cell::RefCell;

use crate::Page;

thread_local! {
    static REQUEST: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static PAGE: RefCell<Page> = RefCell::new(Page::default());
}

/// Makes place for a request of `bytes` bytes. Returns its address, which is valid until the call.
// SAFETY: no other symbol of the module has this name; nor the five below.
#[unsafe(no_mangle)]
pub extern "C" fn web_reserve(bytes: usize) -> *mut u8 {
    REQUEST.with_borrow_mut(|request| {
        request.clear();
        request.resize(bytes, 0);
        request.as_mut_ptr()
    })
}

/// Handles the request. Returns the length of the reply in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn web_call() -> usize {
    let request = REQUEST.take();
    PAGE.with_borrow_mut(|page| {
        page.call(&request);
        page.reply.len()
    })
}

/// Returns the address of the reply, which is valid until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn web_reply() -> *const u8 {
    PAGE.with_borrow(|page| page.reply.as_ptr())
}

/// Returns the address of the frame's doubles, which is valid until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn web_frame() -> *const f64 {
    PAGE.with_borrow(|page| page.frame.as_ptr())
}

/// Returns the number of the frame's doubles.
#[unsafe(no_mangle)]
pub extern "C" fn web_frame_len() -> usize {
    PAGE.with_borrow(|page| page.frame.len())
}
