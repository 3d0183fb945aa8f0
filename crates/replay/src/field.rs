//! Fields of a tapped call, in the order of `bpf/tap.h`, which is also the log's.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::log::Record;

/// 32-bit words of the congestion control's own state (`icsk_ca_priv`).
pub const PRIVATE_WORDS: usize = 26;
/// Numbers in a record: the named fields, then the words of the state.
pub const COLUMNS: usize = FIELDS.len() + PRIVATE_WORDS;

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A field of a record.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Field {
            $($(#[$doc])* $name,)*
        }

        /// Every field, in the log's order.
        pub const FIELDS: &[Field] = &[$(Field::$name,)*];
    };
}

fields! {
    /// The kind of call: [`Kind`].
    Kind,
    /// Its first argument: the algorithm, the cumulative ACK (0 before Linux 6.10), the event or the new state.
    ArgA,
    /// Its second argument: the ACK's flags (0 before Linux 6.10), or the packets acknowledged.
    ArgB,
    /// The kernel's ticks before the call (`jiffies`).
    Jiffies,
    /// `tcp_clock_cache`, ns.
    ClockNs,
    /// `tcp_wstamp_ns`: the time at which the pacer lets the next packet go.
    WstampNs,
    /// `tcp_mstamp`, µs.
    MstampUs,
    /// `delivered_mstamp`, µs.
    DeliveredUs,
    /// `delivered`, packets.
    Delivered,
    /// `lost`, packets.
    Lost,
    /// `app_limited`.
    AppLimited,
    /// `packets_out`.
    PacketsOut,
    /// `sacked_out`.
    SackedOut,
    /// `lost_out`.
    LostOut,
    /// `retrans_out`.
    RetransOut,
    /// `max_packets_out`.
    MaxPacketsOut,
    /// `mss_cache`, bytes.
    Mss,
    /// `srtt_us`: eight times the smoothed RTT.
    Srtt8Us,
    /// `tcp_min_rtt`, µs.
    MinRttUs,
    /// `icsk_ca_state`.
    CaState,
    /// `is_cwnd_limited`.
    CwndLimited,
    /// `snd_cwnd` before the call.
    Cwnd,
    /// `snd_cwnd_cnt` before the call.
    CwndCnt,
    /// `snd_cwnd_clamp`.
    CwndClamp,
    /// `snd_ssthresh` before the call.
    Ssthresh,
    /// `prior_cwnd` of the connection, not the algorithm's.
    PriorCwnd,
    /// `prior_ssthresh`.
    PriorSsthresh,
    /// `prr_delivered`.
    PrrDelivered,
    /// `prr_out`.
    PrrOut,
    /// `snd_una`.
    Una,
    /// `snd_nxt`.
    Next,
    /// `lsndtime`, ticks.
    LastSend,
    /// `sk_pacing_rate` before the call, bytes per second.
    PacingRate,
    /// `sk_max_pacing_rate`.
    PacingMax,
    /// `sk_pacing_status` before the call.
    PacingStatus,
    /// `sk_pacing_shift`.
    PacingShift,
    /// `sk_gso_max_size`.
    GsoMax,
    /// The local port.
    Port,
    /// `prior_mstamp` of the rate sample.
    RsPriorMstamp,
    /// `prior_delivered`.
    RsPriorDelivered,
    /// `delivered`, −1 for none.
    RsDelivered,
    /// `interval_us`, −1 for none.
    RsIntervalUs,
    /// `snd_interval_us`.
    RsSndIntervalUs,
    /// `rcv_interval_us`.
    RsRcvIntervalUs,
    /// `rtt_us`, −1 for none.
    RsRttUs,
    /// `losses`.
    RsLosses,
    /// `acked_sacked`; for `pkts_acked`, its packets.
    RsAckedSacked,
    /// `prior_in_flight`; for `pkts_acked`, those in flight.
    RsPriorInFlight,
    /// `last_end_seq`.
    RsLastEndSeq,
    /// 1 `is_app_limited`, 2 `is_retrans`, 4 `is_ack_delayed`.
    RsFlags,
    /// The call's return value. For `cong_control`, the smallest burst (`min_tso_segs`) after it; 0 for none.
    Answer,
    /// The kernel's ticks after the call.
    JiffiesAfter,
    /// `snd_cwnd` after the call.
    CwndAfter,
    /// `snd_cwnd_cnt` after the call.
    CwndCntAfter,
    /// `snd_ssthresh` after the call.
    SsthreshAfter,
    /// `app_limited` after the call.
    AppLimitedAfter,
    /// `sk_pacing_rate` after the call.
    PacingRateAfter,
    /// `sk_pacing_status` after the call.
    PacingStatusAfter,
}

impl Field {
    /// True if a kernel's field can hold this number: most are 32 bits wide, times are 63, and a sample may be negative.
    const fn can_be(self, value: u64) -> bool {
        match self {
            Self::PacingRate | Self::PacingMax | Self::PacingRateAfter => true,
            Self::RsDelivered
            | Self::RsLosses
            | Self::RsIntervalUs
            | Self::RsSndIntervalUs
            | Self::RsRcvIntervalUs
            | Self::RsRttUs => value as i64 <= u32::MAX as i64,
            Self::Jiffies
            | Self::JiffiesAfter
            | Self::ClockNs
            | Self::WstampNs
            | Self::MstampUs
            | Self::DeliveredUs
            | Self::RsPriorMstamp => value <= i64::MAX as u64,
            _ => value <= u32::MAX as u64,
        }
    }
}

/// Kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A connection starts to use the algorithm.
    Init,
    /// BBR processes an ACK.
    CongControl,
    /// The stack reports an event; 0 is `CA_EVENT_TX_START`.
    CwndEvent,
    /// The recovery state is about to change.
    SetState,
    /// A loss episode begins; the call returns the threshold.
    Ssthresh,
    /// The episode's losses were spurious; the call returns the window.
    Undo,
    /// CUBIC may grow the window.
    CongAvoid,
    /// CUBIC receives an RTT.
    PktsAcked,
    /// The stack is about to send; the call returns the smallest burst. Recorded if it or the pacing rate has changed.
    MinTsoSegs,
}

impl Kind {
    /// Every kind, in the order of its number, starting at 1.
    const ALL: [Self; 9] = [
        Self::Init,
        Self::CongControl,
        Self::CwndEvent,
        Self::SetState,
        Self::Ssthresh,
        Self::Undo,
        Self::CongAvoid,
        Self::PktsAcked,
        Self::MinTsoSegs,
    ];

    /// Returns the kind of this number, if there is one.
    pub fn of(number: u64) -> Option<Self> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        Self::ALL.get(place).copied()
    }
}

impl Record {
    /// Returns a field.
    pub const fn get(&self, field: Field) -> u64 {
        self.words[field as usize]
    }

    /// Returns a field that the kernel counts in 32 bits.
    pub const fn get32(&self, field: Field) -> u32 {
        self.get(field) as u32
    }

    /// Returns a signed field; `None` where the kernel marks it as absent.
    pub const fn get_positive(&self, field: Field) -> Option<u64> {
        let value = self.get(field);
        if value as i64 >= 0 { Some(value) } else { None }
    }

    /// Returns a 32-bit word of the algorithm's own state after the call.
    pub const fn word(&self, index: usize) -> u32 {
        self.words[FIELDS.len() + index] as u32
    }

    /// Returns two words of the state as one number.
    pub const fn word64(&self, index: usize) -> u64 {
        self.word(index) as u64 | (self.word(index + 1) as u64) << 32
    }

    /// Returns a named field whose number no kernel can hold in it, if there is one.
    pub fn impossible(&self) -> Option<Field> {
        FIELDS.iter().copied().find(|field| !field.can_be(self.get(*field)))
    }

    /// Returns the kind of call.
    pub fn kind(&self) -> Option<Kind> {
        Kind::of(self.get(Field::Kind))
    }

    /// Number of packets in flight.
    // spec: Linux tcp_packets_in_flight
    pub const fn in_flight(&self) -> u32 {
        let left = self.get32(Field::SackedOut).wrapping_add(self.get32(Field::LostOut));
        self.get32(Field::PacketsOut).wrapping_sub(left).wrapping_add(self.get32(Field::RetransOut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the tap and its reader agree on the place of each field.
    #[test]
    fn the_fields_are_those_of_the_tap_in_its_order() {
        let header = include_str!("../../../bpf/tap.h");
        let list = header.split("enum tap_field {").nth(1).unwrap().split("TAP_PRIVATE,").next().unwrap();
        let theirs: Vec<String> = list
            .lines()
            .map(str::trim)
            .filter_map(|line| line.strip_prefix("TAP_"))
            .filter(|name| !matches!(*name, "SAMPLE," | "AFTER,"))
            .map(|name| name.split([',', ' ']).next().unwrap().replace('_', "").to_lowercase())
            .collect();
        let ours: Vec<String> = FIELDS.iter().map(|field| format!("{field:?}").to_lowercase()).collect();
        assert_eq!(theirs, ours);
        assert!(header.contains(&format!("#define TAP_PRIVATE_WORDS {}", PRIVATE_WORDS / 2)));
    }

    /// Goal: the tap and its reader agree on the number of each kind.
    #[test]
    fn the_kinds_are_those_of_the_tap() {
        let header = include_str!("../../../bpf/tap.h");
        let list = header.split("enum tap_kind {").nth(1).unwrap().split('}').next().unwrap();
        let theirs =
            list.lines().filter_map(|line| line.trim().strip_prefix("TAP_")?.trim_end_matches(',').split_once(" = "));
        let mut count = 0;
        for (name, number) in theirs {
            let kind = Kind::of(number.parse().unwrap()).unwrap();
            let name = name.replace("_CALL", "").replace('_', "").to_lowercase();
            assert_eq!(format!("{kind:?}").to_lowercase(), name);
            count += 1;
        }
        assert_eq!(count, Kind::ALL.len());
    }
}
