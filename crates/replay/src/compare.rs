//! The comparison of one call's outputs, a name at a time, up to the first difference.
//! There is no tolerance.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Debug;

/// The first output that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unequal {
    /// The output, by the kernel's name.
    pub name: &'static str,
    /// What the kernel decided.
    pub kernel: String,
    /// What core decided.
    pub core: String,
}

/// Outputs of one call.
#[derive(Debug, Default)]
pub struct Outputs {
    /// How many were compared.
    pub compared: u64,
    /// The first that differs.
    pub unequal: Option<Unequal>,
}

impl Outputs {
    /// Compares one.
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

    /// Joins what was compared later.
    pub fn add(&mut self, later: Self) {
        self.compared += later.compared;
        self.unequal = self.unequal.take().or(later.unequal);
    }
}
