#![no_main]
//! Measurements of live connections: the paths derived from them can be parsed again, or they are refused in one line. No panic.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_study::{measured, paths::Kind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match measured::read(text) {
    Ok(connections) => {
        let evidence = measured::evidence(&connections);
        assert!(!evidence.said.is_empty());
        // Without a rate the evidence gives the reason, and the path has none.
        assert_eq!(evidence.spec.rate.is_empty(), evidence.no_rate.is_some());
        if !evidence.spec.rate.is_empty() && !evidence.spec.rtt.is_empty()
            && let Err(error) = Kind::parse(&evidence.spec)
        {
            let error = error.to_string();
            assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
        }
    }
    Err(error) => {
        let error = error.to_string();
        assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
    }
});
