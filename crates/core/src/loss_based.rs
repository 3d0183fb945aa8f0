//! What Reno and CUBIC share.
// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::params::params;
params! {
    /// Reno's parameters.
    RenoParams {
        /// Use proportional rate reduction in recovery.
        prr: Switch = 1, 0, 1, "RFC 9937";
    }
}
