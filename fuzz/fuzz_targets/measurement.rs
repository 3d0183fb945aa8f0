#![no_main]
//! Measurements of live connections: what they tell of the paths can be read back, or they are refused in one line; nothing panics.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_lab::{measured, paths::Kind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match measured::read(text) {
    Ok(samples) => {
        let (spec, said) = measured::kind(&samples);
        assert!(!said.is_empty());
        if !spec.rate.is_empty() && !spec.rtt.is_empty()
            && let Err(error) = Kind::parse(&spec)
        {
            assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
        }
    }
    Err(error) => assert!(!error.is_empty() && !error.contains('\n'), "{error:?}"),
});
