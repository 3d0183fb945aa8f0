//! Parameters as a plain table of integers, for hosts that read no text.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// Upper bound of the number of parameters of one algorithm. Source: ours; a BPF map holds a table of this size.
pub const MAX_PARAMS: usize = 64;

/// Returns these values, and zeros behind them.
pub(crate) fn collect(values: impl IntoIterator<Item = u32>) -> [u32; MAX_PARAMS] {
    let mut all = [0; MAX_PARAMS];
    for (slot, value) in all.iter_mut().zip(values) {
        *slot = value;
    }
    all
}
