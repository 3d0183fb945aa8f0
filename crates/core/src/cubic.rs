//! CUBIC.
// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::params::params;
params! {
    /// CUBIC's parameters.
    CubicParams {
        /// HyStart ends slow start before loss does.
        hystart: Switch = 1, 0, 1, "Linux 6.12 hystart";
    }
}
