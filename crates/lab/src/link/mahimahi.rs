//! mahimahi delivery traces.
// SPDX-License-Identifier: Apache-2.0 OR MIT
/// A delivery trace.
#[derive(Clone, Debug)]
pub struct DeliveryTrace;
