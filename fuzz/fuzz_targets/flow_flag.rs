//! Arbitrary text as a `--flow`: refused in one line, or parsed and then resolved or refused in one line.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![no_main]

use bbrlab_sim::scenario::ScenarioFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut sourced = ScenarioFile::default();
    if let Err(message) = sourced.set_flows(&[text.to_owned()]) {
        let message = message.to_string();
        assert!(!message.trim().is_empty() && !message.contains('\n'), "{message:?}");
        return;
    }
    if let Err(message) = sourced.resolve(&|_| Err("no files here".into())) {
        let message = message.to_string();
        assert!(!message.trim().is_empty() && !message.contains('\n'), "{message:?}");
    }
});
