#![no_main]
//! A log of the kernel's calls, of the tap or of google/bbr v3: replayed or refused in one line, without a panic whatever the kernel's
//! answers.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_replay::{Log, replay_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(log) = Log::parse(bytes) {
        assert_eq!(Log::parse(&log.to_bytes()).unwrap(), log);
    }
    if let Err(error) = replay_bytes(bytes) {
        let error = error.to_string();
        assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
    }
});
