//! Linux's `struct bbr`, read from the words of `icsk_ca_priv`.
//! The layout is the same from Linux 5.0 to 7.3.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::Record;

/// Declares the state, with each field's place in a record.
macro_rules! kernel_bbr {
    (|$record:ident| $( $field:ident: $type:ty = $value:expr; )+) => {
        /// The state after a call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct KernelBbr {
            $( pub $field: $type, )+
        }

        impl KernelBbr {
            /// Reads the state after `record`'s call.
            pub fn read($record: &Record) -> Self {
                Self { $( $field: $value, )+ }
            }
        }
    };
}

kernel_bbr! {
    |record|
    min_rtt_us: u32 = record.word(0);
    min_rtt_stamp: u32 = record.word(1);
    probe_rtt_done_stamp: u32 = record.word(2);
    // Rounds and values of the windowed maximum.
    bw: [(u32, u32); 3] = [(record.word(3), record.word(4)), (record.word(5), record.word(6)), (record.word(7), record.word(8))];
    rtt_cnt: u32 = record.word(9);
    next_rtt_delivered: u32 = record.word(10);
    // Word 11 is padding before a 64-bit number.
    cycle_mstamp: u64 = record.word64(12);
    mode: u32 = bits(record.word(14), 0, 3);
    prev_ca_state: u32 = bits(record.word(14), 3, 3);
    packet_conservation: bool = bits(record.word(14), 6, 1) != 0;
    round_start: bool = bits(record.word(14), 7, 1) != 0;
    idle_restart: bool = bits(record.word(14), 8, 1) != 0;
    probe_rtt_round_done: bool = bits(record.word(14), 9, 1) != 0;
    lt_is_sampling: bool = bits(record.word(14), 23, 1) != 0;
    lt_rtt_cnt: u32 = bits(record.word(14), 24, 7);
    lt_use_bw: bool = bits(record.word(14), 31, 1) != 0;
    lt_bw: u32 = record.word(15);
    lt_last_delivered: u32 = record.word(16);
    lt_last_stamp: u32 = record.word(17);
    lt_last_lost: u32 = record.word(18);
    pacing_gain: u32 = bits(record.word(19), 0, 10);
    cwnd_gain: u32 = bits(record.word(19), 10, 10);
    full_bw_reached: bool = bits(record.word(19), 20, 1) != 0;
    full_bw_cnt: u32 = bits(record.word(19), 21, 2);
    cycle_idx: u32 = bits(record.word(19), 23, 3);
    has_seen_rtt: bool = bits(record.word(19), 26, 1) != 0;
    prior_cwnd: u32 = record.word(20);
    full_bw: u32 = record.word(21);
    ack_epoch_mstamp: u64 = record.word64(22);
    extra_acked: [u32; 2] = [bits(record.word(24), 0, 16), record.word(24) >> 16];
    ack_epoch_acked: u32 = bits(record.word(25), 0, 20);
    extra_acked_win_rtts: u32 = bits(record.word(25), 20, 5);
    extra_acked_win_idx: u32 = bits(record.word(25), 25, 1);
}

/// Extracts `count` bits of a word, from bit `at`, counted from the lowest.
const fn bits(word: u32, at: u32, count: u32) -> u32 {
    (word >> at) & ((1 << count) - 1)
}

impl KernelBbr {
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
