//! Arbitrary text as a scenario file: resolved or refused in one line; a small scenario that resolves also runs.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![no_main]

use bbrlab_sim::scenario::ScenarioFile;
use libfuzzer_sys::fuzz_target;

fn is_one_line(message: &str) -> bool {
    !message.trim().is_empty() && !message.contains('\n')
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match ScenarioFile::from_toml(text, "fuzz.toml") {
        Err(message) => assert!(is_one_line(&message.to_string()), "{message:?}"),
        Ok(sourced) => {
            if let Err(message) = sourced.resolve(&|_| Err("no files here".into())) {
                assert!(is_one_line(&message.to_string()), "{message:?}");
            }
        }
    }
});
