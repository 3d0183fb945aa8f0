//! Snapshot of an algorithm's model as C-compatible numbers.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Snapshot;

/// A snapshot laid out as `struct telemetry` in `bpf/cc/flow.h`. `u64::MAX` means no bound, an RTT of 0 no RTT.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the snapshot's")]
pub struct Telemetry {
    /// Bits per second of payload.
    pub bw: u64,
    pub min_rtt_us: u64,
    pub round_count: u64,
    /// Bytes per second.
    pub bw_shortterm: u64,
    pub inflight_shortterm: u64,
    pub inflight_longterm: u64,
    pub state: u32,
    /// In 1/256.
    pub pacing_gain: u32,
    pub cwnd_gain: u32,
    pub ssthresh: u32,
    pub extra_acked: u32,
    /// Bit flags: the pipe was full, a policed rate is in use.
    pub marks: u32,
}

impl Telemetry {
    #[inline(always)]
    pub(crate) fn fill(&mut self, of: &Snapshot) {
        self.bw = of.bw.as_bits_per_sec();
        self.min_rtt_us = of.min_rtt.map_or(0, |rtt| rtt.as_micros());
        self.round_count = of.round_count;
        self.bw_shortterm = of.bounds.bw_shortterm.map_or(u64::MAX, |rate| rate.as_bytes_per_sec());
        self.inflight_shortterm = of.bounds.inflight_shortterm.unwrap_or(u64::MAX);
        self.inflight_longterm = of.bounds.inflight_longterm.unwrap_or(u64::MAX);
        self.state = of.state as u32;
        self.pacing_gain = of.pacing_gain;
        self.cwnd_gain = of.cwnd_gain;
        self.ssthresh = of.ssthresh;
        self.extra_acked = of.extra_acked;
        self.marks = u32::from(of.full_bw_reached) | u32::from(of.lt_use_bw) << 1;
    }
}
