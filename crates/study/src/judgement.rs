//! Outcome of a comparison with the control.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;

/// Outcome that the interval of a gain supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Too few users or units of assignment to judge.
    TooFew,
    /// No significant difference.
    NoDifference,
    /// A significant difference below 1 %.
    Same,
    /// Significantly faster than the control.
    Faster,
    /// Significantly slower than the control.
    Slower,
}

impl Judgement {
    /// True if there was enough to judge.
    pub fn is_judged(self) -> bool {
        self != Self::TooFew
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::TooFew => "too few",
            Self::NoDifference => "no difference",
            Self::Same => "same within 1 %",
            Self::Faster => "faster",
            Self::Slower => "slower",
        })
    }
}
