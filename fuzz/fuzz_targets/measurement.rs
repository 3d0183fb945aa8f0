#![no_main]
//! Measurements of live connections: the paths derived from them can be parsed again, or they are refused in one line. No panic.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_study::{measured, paths::Kind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match measured::read(text) {
    Ok(connections) => {
        let evidence = measured::evidence(&connections);
        assert!(!evidence.said.is_empty());
        // Without a rate the evidence gives the reason, and no path has one.
        assert!(evidence.no_rate.is_none() || evidence.specs.iter().all(|spec| spec.rate.is_empty()));
        for spec in evidence.specs.iter().filter(|spec| !spec.rate.is_empty()) {
            if let Err(error) = Kind::parse(spec) {
                let error = error.to_string();
                assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
            }
        }
    }
    Err(error) => {
        let error = error.to_string();
        assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
    }
});
