//! Concrete types for the variants of BBRv1, for a host that compiles one algorithm into one object, without a choice at run
//! time. A kernel's BPF program is one; other hosts use [`crate::Controller`].
//!
//! A flow is created with [`crate::algorithms::Bbr1::with`], or with [`crate::algorithms::Bbr1::init`] in memory that the host already has.
//!
//! ```
//! use bbrlab_core::concrete::{BbrCpa, acd_base};
//! use bbrlab_core::{Init, Time, concrete::BbrAcd, params::{AcdParams, Bbr1Params, CpaParams}};
//! let init = Init::new(Time::ZERO).with_mss(1448).with_seed(1);
//! let mut flow = BbrCpa::with(&Bbr1Params::default(), &CpaParams::default(), &init);
//! let other = BbrAcd::with(&acd_base(), &AcdParams::default(), &init);
//! assert_eq!((flow.cwnd(), other.cwnd()), (10, 10));
//! let mut small = init;
//! small.initial_cwnd = 4;
//! flow.init(&Bbr1Params::default(), &CpaParams::default(), &small);
//! assert_eq!(flow.cwnd(), 4);
//! ```
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub use crate::variant::{BbrAcd, BbrApg, BbrCpa, BbrS};

use crate::params::Bbr1Params;

/// BBRv1's parameters as used by [`BbrAcd`]'s authors, who started from Linux 4.14.
#[inline]
pub fn acd_base() -> Bbr1Params {
    Bbr1Params { pacing_margin: 0, extra_acked_gain: 0, edt: 0, ..Bbr1Params::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlgorithmConfig;

    #[test]
    fn the_base_of_acd_is_that_of_the_algorithm_of_its_name() {
        let Some(AlgorithmConfig::AcdLinux(params)) = AlgorithmConfig::named("acd-linux") else {
            panic!("acd-linux is no variant");
        };
        assert_eq!(params.base(), &acd_base());
    }
}
