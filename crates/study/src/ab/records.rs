//! Source of a test's records.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::convert::Infallible;

use super::Row;

/// Records that can be read several times, a few fields at a time. An analysis of more records than memory can hold reads them once
/// for each family of classes.
pub trait Records {
    /// Error of reading records.
    type Error;

    /// Passes all records to `each`, some at a time, in any order. Each thread has a state of its own, made by `new`; all are
    /// returned. Only these fields of the records are set: names of [`FIELDS`](super::record::FIELDS).
    ///
    /// # Errors
    /// Records cannot be read.
    fn scan<S: Send>(
        &self,
        fields: &[&str],
        new: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &[Row]) + Sync,
    ) -> Result<Vec<S>, Self::Error>;
}

impl Records for [Row] {
    type Error = Infallible;

    fn scan<S: Send>(
        &self,
        fields: &[&str],
        new: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &[Row]) + Sync,
    ) -> Result<Vec<S>, Infallible> {
        let mut state = new();
        for some in self.chunks(1_024) {
            let some: Vec<Row> = some.iter().map(|row| row.only(fields)).collect();
            each(&mut state, &some);
        }
        Ok(vec![state])
    }
}
