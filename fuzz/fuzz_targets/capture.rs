#![no_main]
//! Captures and qlogs: every path estimated from one is a valid scenario, or the input is refused in one line. No panic.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::scenario::ScenarioFile;
use bbrlab_study::{capture, measured};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| match capture::read(bytes) {
    Ok(found) => {
        let connections: Vec<_> = found.paths.iter().map(|path| path.connection()).collect();
        assert!(!measured::evidence(&connections).said.is_empty());
        for path in &found.paths {
            assert!(!path.lines().is_empty());
            // Values beyond the language's limits are refused in one line.
            if let Some(text) = path.toml("fuzz")
                && let Err(error) = ScenarioFile::from_toml(&text, "fuzz")
            {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
    Err(error) => {
        let error = error.to_string();
        assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
    }
});
