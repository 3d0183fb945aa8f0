//! Log of a tap on the kernel's own algorithms.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::{Deserialize, Serialize};

use crate::field::COLUMNS;
use crate::frame::{self, Origin};

/// Origin of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// `uname -r` and the machine.
    pub kernel: String,
    /// Description of the recorded situation.
    pub situation: String,
    /// The kernel's ticks per second (`CONFIG_HZ`).
    pub hz: u32,
}

impl Origin for Header {
    // The line ends reveal a transfer that changed them.
    const MAGIC: &'static [u8; 8] = b"bbrtap\r\n";
    const UNIT: &'static str = "record";
}

/// A tap's log in memory.
pub type Log = frame::Log<Header, COLUMNS>;
/// Writes a tap's log.
pub type Writer = frame::Writer<COLUMNS>;
/// One tapped call: the fields in their order, then the words of the algorithm's own state.
pub type Record = frame::Record<COLUMNS>;
