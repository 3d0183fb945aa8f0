//! Comparison of one call's outputs, by name, up to the first difference.
//! There is no tolerance.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Debug;

/// The first output that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unequal {
    /// The output, by the kernel's name.
    pub name: &'static str,
    /// The kernel's value.
    pub kernel: String,
    /// Core's value.
    pub core: String,
}

/// Compared outputs of one call.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Number of outputs compared.
    pub compared: u64,
    /// The first output that differs.
    pub unequal: Option<Unequal>,
}

impl Outputs {
    /// Compares one output.
    pub fn compare<T: PartialEq + Debug>(&mut self, name: &'static str, kernel: T, core: T) {
        self.compared += 1;
        if kernel != core && self.unequal.is_none() {
            self.unequal = Some(Unequal { name, kernel: format!("{kernel:?}"), core: format!("{core:?}") });
        }
    }

    /// Compares two numbers of any width.
    pub fn compare_number(&mut self, name: &'static str, kernel: impl Into<u64>, core: impl Into<u64>) {
        self.compare::<u64>(name, kernel.into(), core.into());
    }

    /// Adds the results of a later comparison.
    pub fn add(&mut self, later: Self) {
        self.compared += later.compared;
        self.unequal = self.unequal.take().or(later.unequal);
    }
}
