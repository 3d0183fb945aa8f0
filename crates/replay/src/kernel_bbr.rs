//! Linux's `struct bbr`, read from the words of `icsk_ca_priv`.
//! The layout is the same from Linux 5.0 to 6.18.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::field::Record;

/// The state after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelBbr {
    pub min_rtt_us: u32,
    pub min_rtt_stamp: u32,
    pub probe_rtt_done_stamp: u32,
    /// Rounds and values of the windowed maximum.
    pub bw: [(u32, u32); 3],
    pub rtt_cnt: u32,
    pub next_rtt_delivered: u32,
    pub cycle_mstamp: u64,
    pub mode: u32,
    pub prev_ca_state: u32,
    pub packet_conservation: bool,
    pub round_start: bool,
    pub idle_restart: bool,
    pub probe_rtt_round_done: bool,
    pub lt_is_sampling: bool,
    pub lt_rtt_cnt: u32,
    pub lt_use_bw: bool,
    pub lt_bw: u32,
    pub lt_last_delivered: u32,
    pub lt_last_stamp: u32,
    pub lt_last_lost: u32,
    pub pacing_gain: u32,
    pub cwnd_gain: u32,
    pub full_bw_reached: bool,
    pub full_bw_cnt: u32,
    pub cycle_idx: u32,
    pub has_seen_rtt: bool,
    pub prior_cwnd: u32,
    pub full_bw: u32,
    pub ack_epoch_mstamp: u64,
    pub extra_acked: [u32; 2],
    pub ack_epoch_acked: u32,
    pub extra_acked_win_rtts: u32,
    pub extra_acked_win_idx: u32,
}

/// Extracts `count` bits of a word, from bit `at`, counted from the lowest.
const fn bits(word: u32, at: u32, count: u32) -> u32 {
    (word >> at) & ((1 << count) - 1)
}

impl KernelBbr {
    /// Reads the state after `record`'s call.
    pub fn read(record: &Record) -> Self {
        let (phase, gains, epoch) = (record.word(14), record.word(19), record.word(25));
        let sample = |nth: usize| (record.word(3 + 2 * nth), record.word(4 + 2 * nth));
        Self {
            min_rtt_us: record.word(0),
            min_rtt_stamp: record.word(1),
            probe_rtt_done_stamp: record.word(2),
            bw: [sample(0), sample(1), sample(2)],
            rtt_cnt: record.word(9),
            next_rtt_delivered: record.word(10),
            // Word 11 is padding before a 64-bit number.
            cycle_mstamp: record.word64(12),
            mode: bits(phase, 0, 3),
            prev_ca_state: bits(phase, 3, 3),
            packet_conservation: bits(phase, 6, 1) != 0,
            round_start: bits(phase, 7, 1) != 0,
            idle_restart: bits(phase, 8, 1) != 0,
            probe_rtt_round_done: bits(phase, 9, 1) != 0,
            lt_is_sampling: bits(phase, 23, 1) != 0,
            lt_rtt_cnt: bits(phase, 24, 7),
            lt_use_bw: bits(phase, 31, 1) != 0,
            lt_bw: record.word(15),
            lt_last_delivered: record.word(16),
            lt_last_stamp: record.word(17),
            lt_last_lost: record.word(18),
            pacing_gain: bits(gains, 0, 10),
            cwnd_gain: bits(gains, 10, 10),
            full_bw_reached: bits(gains, 20, 1) != 0,
            full_bw_cnt: bits(gains, 21, 2),
            cycle_idx: bits(gains, 23, 3),
            has_seen_rtt: bits(gains, 26, 1) != 0,
            prior_cwnd: record.word(20),
            full_bw: record.word(21),
            ack_epoch_mstamp: record.word64(22),
            extra_acked: [bits(record.word(24), 0, 16), record.word(24) >> 16],
            ack_epoch_acked: bits(epoch, 0, 20),
            extra_acked_win_rtts: bits(epoch, 20, 5),
            extra_acked_win_idx: bits(epoch, 25, 1),
        }
    }

    /// Name of the mode in the kernel.
    pub const fn mode_name(&self) -> &'static str {
        match self.mode {
            0 => "STARTUP",
            1 => "DRAIN",
            2 => "PROBE_BW",
            3 => "PROBE_RTT",
            _ => "?",
        }
    }
}
