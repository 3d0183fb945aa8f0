#![no_main]
//! Arbitrary bytes as a log of another implementation, in any format: judged, or refused in one line, without a panic.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_lab::conform::log;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match log::read(text) {
    Ok(log) => {
        for flow in &log.flows {
            let seen = log::judge(flow);
            assert!(seen.iter().all(|seen| !seen.what.is_empty()));
        }
    }
    Err(error) => {
        let error = error.to_string();
        assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
    }
});
