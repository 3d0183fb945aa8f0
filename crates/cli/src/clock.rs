//! The only clock of the command: how long a run took, for the result's `wall_s` and for progress bars.
//! Simulations never see it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::time::Instant;

/// A running stop-watch.
#[derive(Clone, Copy, Debug)]
pub struct Watch(Instant);

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "wall-clock time is this type's purpose; it never enters a run")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since the start.
    pub fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
