//! What a run leaves behind, in whichever world it ran: figures, series and packets.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod inside;
pub mod packets;
pub mod result;
pub mod summary;
pub mod trace;

use packets::Packets;
use result::RunResult;
use trace::Trace;

/// What a run leaves behind.
#[derive(Clone, Debug)]
pub struct Output {
    /// The figures.
    pub result: RunResult,
    /// The series, where the setup asked for them.
    pub trace: Trace,
    /// The packets, where the setup asked for them.
    pub packets: Packets,
}
