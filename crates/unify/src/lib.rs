//! No code: what this crate asks of other libraries is in its `Cargo.toml`.
// SPDX-License-Identifier: Apache-2.0 OR MIT
