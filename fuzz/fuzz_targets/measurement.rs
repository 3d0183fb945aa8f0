#![no_main]
//! Measurements of live connections: what they tell of the paths can be read back, or they are refused in one line; nothing panics.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_lab::{measured, paths::Kind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match measured::read(text) {
    Ok(connections) => {
        let evidence = measured::evidence(&connections);
        assert!(!evidence.said.is_empty());
        // Without a rate the evidence says so, and nothing is asked of the path.
        assert_eq!(evidence.spec.rate.is_empty(), evidence.no_rate.is_some());
        if !evidence.spec.rate.is_empty() && !evidence.spec.rtt.is_empty()
            && let Err(error) = Kind::parse(&evidence.spec)
        {
            assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
        }
    }
    Err(error) => assert!(!error.is_empty() && !error.contains('\n'), "{error:?}"),
});
