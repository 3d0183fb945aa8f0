//! Counts of the bottlenecks of an emulation.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::record::result::Distribution;
use serde::{Deserialize, Serialize};

use crate::flows::LinkCounters;

/// Direction of a bottleneck's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From the server to the command.
    Down,
    /// From the command to the server.
    Up,
}

/// Counts of one direction's bottleneck over the whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkReport {
    pub direction: Way,
    /// Packets offered, ACKs and data.
    pub arrivals: u64,
    /// Packets dropped by policer or queue.
    pub drops: u64,
    /// drops / arrivals; 0 without packets.
    pub drop_ratio: f64,
    /// Packets marked.
    pub marks: u64,
    /// Bytes on the wire that left.
    pub departed_bytes: u64,
    /// Queueing delay over time, ms; `None` where the kernel's queue is not observed.
    pub queue_ms: Option<Distribution>,
}

impl LinkReport {
    /// Report of a direction's counters at the end of the run.
    pub fn of(direction: Way, counters: &LinkCounters, queue_ms: Option<Distribution>) -> Self {
        let LinkCounters { arrivals, drops, marks, departed_bytes, .. } = *counters;
        let drop_ratio = if arrivals > 0 { drops as f64 / arrivals as f64 } else { 0.0 };
        Self { direction, arrivals, drops, drop_ratio, marks, departed_bytes, queue_ms }
    }
}
