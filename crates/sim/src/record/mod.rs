//! Output of a run on any backend: figures, series and packets.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod fair;
mod internals;
pub mod packets;
pub mod result;
pub mod summary;
pub mod trace;

use packets::Packets;
use result::RunResult;
use trace::Trace;

/// Output of a run.
#[derive(Clone, Debug)]
pub struct Output {
    /// Figures of the result.
    pub result: RunResult,
    /// Series, if the setup records them.
    pub trace: Trace,
    /// Packets, if the setup records them.
    pub packets: Packets,
}
