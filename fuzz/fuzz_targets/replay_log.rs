#![no_main]
//! A log of the kernel's calls: it is read and replayed, or refused in one line; nothing panics, whatever the kernel is said to have answered.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_lab::replay::{Log, replay};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let done = Log::parse(bytes).and_then(|log| {
        assert_eq!(Log::parse(&log.to_bytes()).as_ref(), Ok(&log));
        replay(&log).map(drop)
    });
    if let Err(error) = done {
        assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
    }
});
