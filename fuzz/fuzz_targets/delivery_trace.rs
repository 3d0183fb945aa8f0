//! Arbitrary bytes as a delivery trace: parsed or refused, and a parsed trace can carry packets.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![no_main]

use bbrlab_sim::link::DeliveryTrace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| match DeliveryTrace::from_bytes(data) {
    Ok(trace) => {
        assert!(trace.opportunities() > 0 && trace.period().as_nanos() > 0);
        let _ = trace.mean_rate();
    }
    Err(error) => assert!(!error.to_string().contains('\n')),
});
